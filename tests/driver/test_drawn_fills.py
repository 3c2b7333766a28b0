"""Kernels of several arrays whose block nothing gives, beside what blocks of one row do thread by thread."""

from __future__ import annotations

import re

import pytest

from syncverify.api import check
from syncverify.driver.ptx import block_proposals, block_shapes
from syncverify.driver.ptx.check import Task
from syncverify.frontends.ptx.analysis.blocks import strided_stores
from tests.driver.drawn_fills import USUAL, kernel
from tests.sweeps import part_of


def wrong(seed: int) -> str:
    """What is said of a kernel that its threads contradict; nothing if they do not."""
    k = kernel(seed)
    (found,) = check(k.text(), advice=False)
    said = [a for a in found.assumptions if a.startswith("block = ")]
    named = [int(n) for a in said for n in re.findall(r"\d+", a.partition(":")[0])]
    verdict = str(found.verdict)
    if verdict == "proved" and (bad := [n for n in named if k.label(n) == "wrong"]):
        return f"proved, and {bad} are wrong"
    filled = len(named) == 1 and k.fills(named[0]) and not k.asks and not k.roles
    if any("fills an array" in a for a in said) and not filled:
        return f"{named} fills no array"
    right = [n for n in USUAL if k.label(n) == "right"]
    return f"refuted, and {right} are right" if verdict == "refuted" and right else ""


SEEDS = range(200, 450)
#: One of so many in each run.
EVERY = 50


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_what_is_said_of_blocks_holds_thread_by_thread(seed: int) -> None:
    assert wrong(seed) == ""


@pytest.mark.slow
def test_what_is_said_of_many_holds() -> None:
    assert {s: said for s in SEEDS if (said := wrong(s))} == {}


def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(task: Task) -> int:
        return block_proposals.room(task) // 2

    assert wrong(3_058) == ""
    monkeypatch.setattr(block_shapes, "room", half)
    assert wrong(3_058) == "[128] fills no array"


def test_a_store_of_some_threads_that_counts_for_all_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread stores to the largest array."""
    assert wrong(262) == ""
    monkeypatch.setattr(strided_stores, "_of_some", lambda *_: False)
    assert wrong(262) == "[128] fills no array"
