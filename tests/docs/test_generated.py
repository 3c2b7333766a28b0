"""Generated pages say what the data says, and every rule is explained."""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path

import pytest

from syncverify.base.contested import CONTESTED
from syncverify.base.explanations import _TEXTS, explanation
from syncverify.base.rules import RULES
from syncverify.base.source import InputError
from syncverify.cli.main import run
from syncverify.docgen import BEGIN, END, modules, pages, replace_section, summary, untimed, worked_example

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", ["rules.md", "model.md", "ptx_instructions.md", "ptx.md"])
def test_generated_page_has_not_drifted(page: str) -> None:
    assert (DOCS / page).read_text("utf-8") == pages(DOCS)[DOCS / page], "run `make docs`"


def test_each_module_of_the_ptx_front_end_has_a_row_that_says_something() -> None:
    """Rows are counted by folder, and none is empty or as long as a paragraph."""
    rows = re.findall(r"^\| `(\w+\.py)` \| (.*) \|$", modules(), re.M)
    there = [p.name for p in (ROOT / "syncverify/frontends/ptx").rglob("*.py") if p.name != "__init__.py"]
    named = [name for name, _ in rows]
    assert [name for name in there if named.count(name) < there.count(name)] == []
    assert {"check.py", "data_places.py", "sought.py"} <= {*named}
    assert [(name, said) for name, said in rows if not 3 <= len(said.split()) <= 40] == []


def test_a_summary_is_the_first_paragraph_in_one_line() -> None:
    assert summary('"""What ``a | b``\nsays.\n\nMore."""\n') == r"What `a \| b` says"
    assert summary("x = 1\n") == ""


def test_missing_section_is_noticed() -> None:
    with pytest.raises(ValueError, match="hazards"):
        replace_section("# no markers", "hazards", "x")


def test_every_rule_is_explained_and_nothing_else() -> None:
    assert list(_TEXTS) == list(RULES)
    for rule in RULES:
        e = explanation(rule)
        assert (e.bad is None) == (e.good is None)
        assert e.bad != e.good or e.bad is None


def test_explanation_accepts_names_and_suggests() -> None:
    assert explanation("Missing-Proxy-Fence") == explanation("sv101")
    with pytest.raises(InputError, match="SV210 deadlock"):
        explanation("deadlok")


def test_worked_example_is_what_the_tool_says() -> None:
    page = (DOCS / "guide" / "syncir.md").read_text("utf-8")
    fresh = worked_example(page)
    for name in ("kernel", "report", "fix"):
        begin, end = BEGIN.format(name), END.format(name)
        said, found = (untimed(p.split(begin)[1].split(end)[0]) for p in (page, fresh))
        assert said == found, "run `make docs`"
    assert "error[SV210 deadlock]" in fresh and "1 refuted" in fresh


def test_first_page_shows_what_the_tool_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = (ROOT / "README.md").read_text("utf-8").split("```\n")[1]
    ring = (ROOT / "corpus" / "gallery" / "ring.cu").read_text("utf-8")
    kernel = tmp_path / "ring.cu"
    kernel.write_text(ring.replace("(r / STAGES + 1) & 1", "(r / STAGES) & 1"), "utf-8")
    with chdir(tmp_path):
        assert run(["check", "ring.cu"]) == 1
    said = capsys.readouterr().out.splitlines()
    for line in shown.splitlines():
        assert line in said, "the README shows what the tool does not say"


def test_local_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_contested_point_and_bug_id_is_defined() -> None:
    model = (DOCS / "model.md").read_text("utf-8")
    cited = set()
    for source in (ROOT / "syncverify").rglob("*.py"):
        texts = " ".join(re.findall(r"[#\"].*", source.read_text("utf-8")))
        cited |= set(re.findall(r"\b[BK][1-9][0-9]?\b", texts))
    defined = set(re.findall(r"\*\*(B\d+)\*\*", model)) | CONTESTED.keys()
    assert cited - defined == set()
