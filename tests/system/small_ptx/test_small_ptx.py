"""What the checker says of small kernels whose labels others decided: the right ones are proved."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncverify
from tests.system.small_ptx import Small, read

FILES = sorted(Path(__file__).parent.glob("*.kernels"))
KERNELS = [k for path in FILES for k in read(path)]
#: What only the second reader refutes, on an input.
BY_INPUT = ("by_data",)
#: One of so many is replayed on the second reader in every run.
EVERY = 16


def name(k: Small) -> str:
    return f"{k.group}: {k.name}"


def verdict(k: Small, replay: bool) -> str:
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, timeout=60, replay=replay)
    return str(report.verdict)


def test_there_are_as_many_as_the_docs_say() -> None:
    assert len(KERNELS) >= 480 and len({name(k) for k in KERNELS}) == len(KERNELS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_verdicts(path: Path) -> None:
    wanted = {name(k): "proved" if k.right else "refuted" for k in read(path)}
    assert {name(k): verdict(k, path.stem in BY_INPUT) for k in read(path)} == wanted


@pytest.mark.parametrize("k", [k for k in KERNELS if not k.right][::EVERY], ids=name)
def test_refutations_come_true(k: Small) -> None:
    assert verdict(k, replay=True) == "refuted"


@pytest.mark.slow
def test_all_refutations_come_true() -> None:
    assert [name(k) for k in KERNELS if not k.right and verdict(k, replay=True) != "refuted"] == []
