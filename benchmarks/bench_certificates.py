"""Certificates of the corpus: size, time of recheck against check, and changes of all their leaves.

python benchmarks/bench_certificates.py FILE ... [--changes]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from syncverify import files
from syncverify.certificate import RejectedError, dumps, resealed
from syncverify.diagnostics import ScopeKind, Verdict
from syncverify.launch import LaunchFacts, facts_for
from syncverify.source import InputError
from tests.certificate.mutate import changed, changes, unordered


def timed(f: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    out = f()
    return time.process_time() - start, out


def accepted(text: str, source: files.SourceFile, facts: LaunchFacts) -> tuple[int, list[Any]]:
    """How many changes were tried, and those that the validator did not reject."""
    data, tried, passed = json.loads(text), 0, []
    for change in changes(data):
        if unordered(*change):
            continue
        tried += 1
        try:
            files.recheck(json.dumps(resealed(changed(data, *change))), "changed", source, facts)
            passed.append(change)
        except (RejectedError, InputError):
            pass
    return tried, passed


def main(args: list[str]) -> None:
    """One line a kernel."""
    for file in (a for a in args if not a.startswith("--")):
        source, facts = files.read_source(file), facts_for(file)
        checked, reports = timed(partial(files.check_source, source, facts=facts, scope=ScopeKind.ALL))
        for report in reports:
            if report.verdict is not Verdict.PROVED:
                continue
            made, found = timed(partial(files.certificates, source, facts, {}, [report]))
            text = dumps(found)
            again, (done,) = timed(partial(files.recheck, text, "certificate", source, facts))
            line = f"{report.name:40} {done.kind:7} check {checked:6.2f} s  write {made:6.2f} s"
            line += f"  recheck {again:6.2f} s  {len(text):7} bytes"
            line += "  by the checker" if "by the checker" in done.met else "  judged apart"
            if "--changes" in args:
                tried, passed = accepted(text, source, facts)
                line += f"  {tried} changes, accepted: {passed or 'none'}"
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
