"""Tests mirror the packages: whoever changes a package finds its tests under the same path.

The lists below name what has no mirror, and why; they may only become shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = ROOT / "syncverify", ROOT / "tests"

#: Package -> where what it holds is tested.
WITHOUT_TESTS = {
    "examples": "tests/docs/test_examples.py runs each",
    "examples/rules": "kernels, which tests/checker/test_rules.py checks",
    "frontends/cuda/prelude": "sources in CUDA, which tests/frontends/cuda compiles",
    "frontends/ptx/isa/groups": "rows of the table, which tests/frontends/ptx/isa reads as a whole",
    "ir/nodes": "data classes without code, which tests/ir/text and tests/ir/check cover",
    "watch/child": "a hook of Python's start, which tests/watch starts",
}
#: Folders of tests that mirror no package: what crosses packages, and what tests share.
ONLY_TESTS = {"checker/red", "corpus", "docs", "fixtures", "frontends/ptx/red", "system"}


def folders(root: Path) -> Iterator[str]:
    """Folders under ``root`` that hold files of their own."""
    for path in sorted(p for p in root.rglob("*") if p.is_dir()):
        inside = path.relative_to(root).as_posix()
        if "__pycache__" not in inside and any(p.is_file() for p in path.iterdir()):
            yield inside


def test_every_package_has_its_tests() -> None:
    missing = [x for x in folders(PACKAGE) if not any((TESTS / x).glob("**/test_*.py"))]
    assert missing == sorted(WITHOUT_TESTS)
    for where in WITHOUT_TESTS.values():
        for path in (word.rstrip(",") for word in where.split() if word.startswith("tests/")):
            assert (ROOT / path).exists(), where


def test_every_folder_of_tests_is_of_a_package() -> None:
    """Or holds no tests: data beside them."""
    strays = {x for x in folders(TESTS) if not (PACKAGE / x).is_dir() and any((TESTS / x).glob("test_*.py"))}
    assert {x for x in strays if not any(x == o or x.startswith(f"{o}/") for o in ONLY_TESTS)} == set()
    assert all((TESTS / x).is_dir() for x in ONLY_TESTS)
