"""Reports of the corpus in each format, read by other programs: what one of them does not take.

    syncverify check corpus -j 16 -o json:out/r.json -o sarif:out/r.sarif -o junit:out/r.xml \\
        -o github:out/r.txt -o trace:out/r.trace -o html:out/r.html
    python benchmarks/checker/read_formats.py out

jsonschema compares the JSON with its published schema, ``sarif_pydantic`` reads SARIF and ``junitparser``
JUnit: ``pip install jsonschema sarif-pydantic junitparser``. A flow arrow of the trace has both ends, each
annotation is in GitHub's form, and each element of a page is closed. Printed: a line for each format. The
exit status says whether all are as they should be.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "reference" / "report.schema.json"
_ANNOTATION = re.compile(r"::(?:error|warning|notice) (?:\w+=[^,:]*(?:,|(?=::)))+::.+")
_VOID = {"meta", "link", "br", "hr", "img", "input", "path", "line", "rect", "circle", "polygon", "use"}


def of_json(text: str) -> str:
    import jsonschema

    report = json.loads(text)
    jsonschema.validate(report, json.loads(SCHEMA.read_text("utf-8")))
    verdicts = Counter(k["verdict"] for k in report["kernels"])
    return f"{len(report['kernels'])} kernels: {dict(verdicts)}"


def of_sarif(text: str) -> str:
    from sarif_pydantic import Sarif  # type: ignore[import-not-found]

    runs = Sarif.model_validate_json(text).runs
    results = [r for run in runs for r in run.results or ()]
    assert all(r.locations for r in results)
    assert all(r["partialFingerprints"] for run in json.loads(text)["runs"] for r in run["results"])
    return f"{len(results)} results, each with a place and a fingerprint"


def of_junit(text: str) -> str:
    from junitparser import Error, Failure, JUnitXml  # type: ignore[import-not-found]

    cases = [case for suite in JUnitXml.fromstring(text.encode()) for case in suite]
    kinds = Counter(type(r) for case in cases for r in case.result)
    return f"{len(cases)} cases, {kinds[Failure]} failures, {kinds[Error]} errors"


def of_trace(text: str) -> str:
    events = json.loads(text)["traceEvents"]
    ends = {end: {e["id"] for e in events if e["ph"] == end} for end in "sf"}
    assert ends["s"] == ends["f"], ends["s"] ^ ends["f"]
    return f"{len(events)} events, {len(ends['s'])} arrows with both ends"


def of_github(text: str) -> str:
    said = [line for line in text.splitlines() if line.startswith("::")]
    wrong = [line for line in said if not _ANNOTATION.fullmatch(line)]
    assert not wrong, wrong[:3]
    return f"{len(said)} annotations"


class _Tags(HTMLParser):
    """Whether each element is closed where its parent still is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen += 1
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open and self.open.pop() == tag, (tag, self.getpos())


def of_html(text: str) -> str:
    tags = _Tags()
    tags.feed(text)
    assert not tags.open, tags.open
    return f"{tags.seen} elements, each closed"


READERS: dict[str, Callable[[str], str]] = {
    "r.json": of_json, "r.sarif": of_sarif, "r.xml": of_junit, "r.trace": of_trace, "r.txt": of_github,
    "r.html": of_html,
}  # fmt: skip


def main() -> int:
    folder, wrong = Path(sys.argv[1]), 0
    for name, reader in READERS.items():
        try:
            said = reader((folder / name).read_text("utf-8"))
        except Exception as error:  # whatever a reader does not take
            said, wrong = f"WRONG: {type(error).__name__}: {str(error)[:300]}", wrong + 1
        print(f"{name:8} {said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
