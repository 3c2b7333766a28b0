"""Pages can be read once: sentences are short, and what they name is there.

No sentence of a page has more than 40 words: ``tests/system/test_words.py`` looks for them, with the words.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 40


def paragraphs(page: str) -> list[str]:
    """The running text of a page: no code, no tables, no headings; each item of a list by itself.

    Tables and fenced code may be indented, as they are below an item of a list. Four columns more than the
    text of that item make code without fences.
    """
    page = re.sub(r"^ *(```|~~~).*?^ *\1[ \t]*$", "", page, flags=re.S | re.M)
    found: list[str] = []
    open_: list[str] = []
    text_at = 0  # column at which the text of the open list item begins
    for line in [*page.split("\n"), ""]:
        bare = line.strip()
        item = re.match(r"\s*(?:[-*+]|\d+\.)\s+", line)
        column = len(line) - len(line.lstrip())
        if bare and not column and not open_:
            text_at = 0
        code = not open_ and column >= text_at + 4
        ends = not bare or bare.startswith(("|", "#", "<!--")) or code
        if open_ and (ends or item):
            found.append(" ".join(open_))
            open_ = []
        if not ends:
            text_at = item.end() if item else text_at
            open_.append(bare)
    return found


def sentences(page: str) -> list[str]:
    """Sentences of the running text. A piece of code counts as a word, a link as its text."""
    plain = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "C", text)) for text in paragraphs(page)
    )
    return [s for text in plain for s in re.split(r"(?<=[.!?])[\"”)*]*\s+(?=[A-Z*`(\"\d])", text)]


def long_sentences(page: str) -> list[str]:
    """Sentences with more words than a reader keeps."""
    return [s for s in sentences(page) if len(s.split()) > MOST_WORDS]


#: The navigation lists the pages of the theory. They are read slowly, and their sentences are shorter.
THEORY = re.findall(
    r"- (\S+\.md)", (ROOT / "mkdocs.yml").read_text("utf-8").split("- Theory:\n")[1].split("\n  - ")[0]
)
MOST_WORDS_OF_THEORY, MEAN_WORDS_OF_THEORY = 30, 20


@pytest.mark.parametrize("name", THEORY)
def test_sentences_of_the_theory_are_short(name: str) -> None:
    words = {s: len(s.split()) for s in sentences((ROOT / "docs" / name).read_text("utf-8"))}
    assert [s for s, n in words.items() if n > MOST_WORDS_OF_THEORY] == []
    assert sum(words.values()) <= MEAN_WORDS_OF_THEORY * len(words)


def named_files(page: str) -> set[str]:
    """Paths below ``tests``, ``benchmarks``, ``syncverify`` or ``corpus`` that a page names as code."""
    code = " ".join(re.findall(r"`([^`\n]+)`", page))
    return set(
        re.findall(r"(?:tests|benchmarks|syncverify|corpus|docs)/[\w/.-]*\w\.(?:py|toml|json|md|cuh)\b", code)
    )


#: Rooms of the package. Names below `torch` are those of PyTorch.
ROOMS = {x.name for x in (ROOT / "syncverify").iterdir() if (x / "__init__.py").exists()} - {"torch"}


def named_objects(page: str) -> set[str]:
    """Modules, classes and functions that a page names by a path that begins with a room of the package."""
    dotted = re.findall(r"`((?:syncverify\.)?[a-z_]+(?:\.\w+)+)(?:\([^`]*\))?`", page)
    names = {name.removeprefix("syncverify.") for name in dotted if not name.endswith(".py")}
    return {name for name in names if name.split(".")[0] in ROOMS}


def exists(name: str) -> bool:
    """Whether a dotted name below the package leads to something."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(["syncverify", *parts[:k]]))
        except ImportError:
            continue
        for part in parts[k:]:
            if part in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_sentences_are_counted_as_a_reader_does() -> None:
    page = (
        "# Head of a page\n\n"
        + "word " * 40
        + "end. A [link to](x.md) `a b c`.\n- One item\n- another\n\n| a | b |\n"
    )
    assert len(long_sentences(page)) == 1
    assert sentences(page)[1:] == ["A link to C.", "- One item", "- another"]
    assert long_sentences(page.replace("word ", "", 1)) == []


def test_tables_and_code_are_no_sentences_wherever_they_are_indented() -> None:
    long = "word " * 40 + "end."
    table = f"| {long} | {long} |"
    assert paragraphs(f"- Item\n\n  {table}\n  {table}\n\n  text\n") == ["- Item", "text"]
    assert paragraphs(f"Text\n{table}\ntext\n") == ["Text", "text"]
    assert paragraphs(f"1. Item\n\n   ```sh\n   {long}\n   ```\n   text\n") == ["1. Item", "text"]
    assert paragraphs(f"Text\n\n    {long}\n\n- Item\n\n      {long}\n") == ["Text", "- Item"]
    assert long_sentences(f"- Item\n\n    {long}\n") == [long], "a paragraph of the item, not code"


def test_a_file_that_is_not_there_is_found() -> None:
    assert named_files("`tests/a/test_b.py` and `python benchmarks/c.py --of X`") == {
        "tests/a/test_b.py",
        "benchmarks/c.py",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = {name for name in named_files(page.read_text("utf-8")) if not (ROOT / name).exists()}
    assert missing == set()


def test_a_name_that_leads_nowhere_is_found() -> None:
    assert named_objects("`checker.exact_check.check(x)`, `a.b`, `ir.no_such.thing`") == {
        "checker.exact_check.check",
        "ir.no_such.thing",
    }
    assert exists("checker.exact_check.check") and not exists("ir.no_such.thing")
    assert exists("base.diagnostics.Severity.ERROR") and not exists("base.diagnostics.Severity.GRAVE")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "decisions" not in p.parts], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_what_a_page_names_is_in_the_code(page: Path) -> None:
    assert {name for name in named_objects(page.read_text("utf-8")) if not exists(name)} == set()


VERDICT = (ROOT / "docs" / "verdict.md").read_text("utf-8")


@pytest.mark.parametrize(
    "step", re.findall(r"^\d+\. \*\*(.*?)\*\* (.*?)(?=^\d+\. |\Z)", VERDICT, re.M | re.S)
)
def test_each_sentence_of_how_a_verdict_comes_about_names_a_function(step: tuple[str, str]) -> None:
    for sentence in re.split(r"(?<=\.)\s+(?=[A-Z])", step[1].strip()):
        if "(theory.md)" not in sentence:
            assert any(exists(name) and "." in name for name in named_objects(sentence)), sentence
