"""The fingerprint of the tool's sources: another one for every change of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from syncverify.codegen import fingerprint


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """That of a package with a module, a helper and one more in a folder."""
    for name, text in {"a.py": "x", "b.cuh": "y", "inner/a.py": "z", "codegen/fingerprint.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(fingerprint, "__file__", str(tmp_path / "codegen" / "fingerprint.py"))
    return fingerprint.tool_fingerprint.__wrapped__


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda at: (at / "inner" / "a.py").write_text("w"),
    "another name": lambda at: (at / "a.py").rename(at / "c.py"),
    "another folder": lambda at: (at / "b.cuh").rename(at / "inner" / "b.cuh"),
    "one more": lambda at: (at / "inner" / "c.trees").write_text(""),
    "one less": lambda at: (at / "b.cuh").rename(at / "b.txt"),
    "exchanged": lambda at: ((at / "a.py").write_text("z"), (at / "inner" / "a.py").write_text("x")),
    "moved on": lambda at: ((at / "a.py").write_text("x\0/b.cuh\0y"), (at / "b.cuh").rename(at / "b.txt")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_sources_is_another_tool(
    found: Callable[[], str], tmp_path: Path, change: Callable[[Path], object]
) -> None:
    before = found()
    assert found() == before
    change(tmp_path)
    assert found() != before


def test_what_is_no_source_changes_nothing(found: Callable[[], str], tmp_path: Path) -> None:
    before = found()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    assert found() == before


def test_the_package_may_lie_anywhere(
    found: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found()
    other = tmp_path.with_name(f"{tmp_path.name} moved")
    tmp_path.rename(other)
    monkeypatch.setattr(fingerprint, "__file__", str(other / "codegen" / "fingerprint.py"))
    assert found() == before
