"""Work beside other work."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify import gate
from syncverify.beside import beside
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions
from syncverify.nvrtc import CompileError


def test_the_work_is_over_when_the_block_is() -> None:
    done: list[int] = []
    with beside(lambda: done.append(1)):
        pass
    assert done == [1]


def test_what_goes_wrong_is_left_to_whoever_asks() -> None:
    with beside(lambda: 1 // 0):
        pass
    with pytest.raises(KeyError), beside(lambda: 1 // 0):
        raise KeyError


def test_a_kernel_that_does_not_compile_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = gate.emit
    monkeypatch.setattr(gate, "emit", lambda *given: emit(*given) + "no CUDA")
    with pytest.raises(CompileError, match="no CUDA|expected"):
        gate.compile(fusions.scale, cache=Cache(tmp_path))
