"""The field's words: names and pages have no private one, and no two classes of a package share a name.

``forbidden_words.toml`` lists the words. What it lets pass may only become less: see `names that are left`.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_prose import long_sentences

ROOT = Path(__file__).parents[2]
LISTS = tomllib.loads(Path(__file__).with_name("forbidden_words.toml").read_text("utf-8"))
SOURCES = sorted((ROOT / "syncverify").rglob("*.py"))
#: All but the page that lists what names were.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name != "homonyms.md"),
]


def names_of(tree: ast.AST) -> Iterator[str]:
    """Names that a module gives to classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@functools.cache
def words_of(name: str) -> frozenset[str]:
    """``RoundRobin_of`` is round, robin, of."""
    return frozenset({w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)})


def private_names(source: str) -> set[str]:
    """Names of a module that have a forbidden word."""
    forbidden = set(LISTS["names"]["words"])
    said = {name for name in set(re.findall(r"\w+", source)) if forbidden & words_of(name)}
    return said.intersection(names_of(ast.parse(source))) if said else said


def private_words(text: str) -> list[str]:
    """Forbidden words of a text, in their order."""
    pattern = "|".join(re.escape(w).replace(r"\ ", r"\s+") for w in LISTS["prose"]["words"])
    return [re.sub(r"\s+", " ", w.lower()) for w in re.findall(rf"\b(?:{pattern})\b", text, re.I)]


def test_a_private_name_and_a_private_word_are_found() -> None:
    source = (
        "class Settling:\n    looked: int\n    def _dealt_out(self, anew):\n        lookedup = told = 1\n"
    )
    assert private_names(source) == {"Settling", "looked", "_dealt_out", "anew", "told"}
    text = "All begins anew;\nstates that are told\n  apart. Akin, and it liked that."
    assert private_words(text) == ["anew", "told apart"]


def test_no_name_has_a_private_word() -> None:
    found = {
        f"{path.relative_to(ROOT / 'syncverify')}: {name}"
        for path in SOURCES
        for name in private_names(path.read_text("utf-8"))
    }
    assert sorted(found - set(LISTS["names"]["left"])) == [], "say it in the field's words (docs/symbolic.md)"


@pytest.mark.parametrize("paths", [SOURCES, PAGES], ids=["sources", "pages"])
def test_no_prose_has_a_private_word(paths: list[Path]) -> None:
    found = {str(p.relative_to(ROOT)): w for p in paths if (w := private_words(p.read_text("utf-8")))}
    assert found == {}, "say it in the field's words (docs/symbolic.md)"


def test_two_classes_of_one_package_never_share_a_name() -> None:
    homes: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[path.parent, node.name].append(path.name)
    shared = {
        f"{k[0].relative_to(ROOT / 'syncverify')}: {k[1]}" for k, files in homes.items() if len(files) > 1
    }
    assert sorted(shared - set(LISTS["classes"]["left"])) == []


def test_no_page_has_a_long_sentence() -> None:
    found = {str(p.relative_to(ROOT)): s for p in PAGES if (s := long_sentences(p.read_text("utf-8")))}
    assert found == {}, "divide them: at most 40 words, some 20 on average"
