"""Each figure says what measured it: command, seed, commit and machine, or that one of them is not recorded.

``python -m tests.docs.test_measurements`` writes docs/measurements.md from provenance.toml in
benchmarks/results.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
PAGE = DOCS / "measurements.md"
KEYS = ("command", "seed", "commit", "kept", "machine")
SOURCES: dict[str, dict[str, str]] = tomllib.loads((RESULTS / "provenance.toml").read_text("utf-8"))
#: Pages whose tables hold what was measured.
MEASURED = (
    "choice", "fusion_results", "hardware", "kernel_results", "matmul_results", "peers", "ptx_mutants",
    "real_kernels", "suites",
)  # fmt: skip
NOT_RECORDED = "not recorded"
COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,10}\b")
HEAD = """# Where figures come from

Each file of `benchmarks/results/`: the command that measured it, its seed, the commit that ran, and the
machine. Where one was not written down, the table says so. Then the tree that ran is that of the commit that
brought the file, or an earlier one. Figures that are in no file name their source where they stand. This page
is made from `benchmarks/results/provenance.toml` by `python -m tests.docs.test_measurements`.

| file | command | seed | commit | kept with | machine |
|---|---|---|---|---|---|
"""


def page() -> str:
    """docs/measurements.md."""
    rows = []
    for name, of in sorted(SOURCES.items()):
        given = [of[k] or NOT_RECORDED for k in KEYS[1:]]
        rows.append(f"| `{name}` | `{of['command']}` | " + " | ".join(given) + " |\n")
    return HEAD + "".join(rows)


def sections(text: str) -> dict[str, str]:
    """The parts of a page between headings of the second level, by their heading."""
    parts = re.split(r"^## ", text, flags=re.M)
    return {p.split("\n")[0]: p for p in parts[1:]}


def names_source(section: str) -> bool:
    """Whether a section says where its figures come from.

    It names a kept file of results; or a script and a commit, or that the commit is not recorded.
    """
    files = re.findall(r"benchmarks/results/([\w.]+\.json)", section)
    if any(f in SOURCES for f in files):
        return True
    script = re.search(r"[\w/]+\.(?:py|cu)\b|python -m [\w.]+", section)
    return bool(script and (COMMIT.search(section) or NOT_RECORDED in section))


def test_a_section_without_its_source_is_found() -> None:
    assert names_source("`benchmarks/results/real.json`")
    assert names_source("`bench.py` at 7011bf7") and names_source("`bench.py`, commit not recorded")
    assert not names_source("`bench.py`: 1250000 times") and not names_source("at 7011bf7")


def test_every_file_of_results_has_its_source_and_every_source_a_file() -> None:
    files = sorted(p.name for p in RESULTS.glob("*.json"))
    assert sorted(SOURCES) == files, "say what measured it in provenance.toml, then write the page again"
    for name, of in SOURCES.items():
        assert set(of) == set(KEYS), name
        assert of["command"] and COMMIT.fullmatch(of["kept"]), name
        for script in re.findall(r"benchmarks/[\w/]+\.py", of["command"]):
            assert (ROOT / script).is_file(), (name, script)
        for module in re.findall(r"-m (benchmarks[\w.]+)", of["command"]):
            assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file(), (name, module)


def test_the_page_says_what_is_recorded() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.test_measurements"


@pytest.mark.parametrize("name", MEASURED)
def test_every_table_of_measurements_names_its_source(name: str) -> None:
    """The head of the page does, for all of it, or each section with a table."""
    text = (DOCS / f"{name}.md").read_text("utf-8")
    found = [h for h, s in sections(text).items() if re.search(r"^\|[-| :]+\|$", s, re.M)]
    assert found
    if not names_source(text.split("\n## ")[0]):
        assert [h for h in found if not names_source(sections(text)[h])] == []


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
