"""What is said of copies that overlap, beside what drawn kernels do byte by byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from syncverify.api import check
from syncverify.checker.happens_before.handlers import accesses, async_operations
from syncverify.checker.happens_before.shadow import Record
from syncverify.simulate.ptx import Launch, buffer, sample
from tests.checker.happens_before.drawn_copies import ROOM, THREADS, Kernel, kernel
from tests.sweeps import part_of


def verdict(k: Kernel) -> str:
    given = {"grid": [k.blocks, 1, 1], "block": [THREADS, 1, 1], "params": {"0": "ptr", "1": "ptr"}}
    (found,) = check(k.text(), facts={"kernel": {"k": given}}, advice=False)
    return str(found.verdict)


def wrong(seed: int) -> str:
    """What is said of a kernel that its bytes contradict; nothing if they do not."""
    k = kernel(seed)
    label, said = k.label(), verdict(k)
    return f"{said}, and it is {label}" if (label, said) in {("race", "proved"), ("right", "refuted")} else ""


SEEDS = range(2_000, 2_400)
#: One of so many in each run.
EVERY = 80
#: Reductions that overlap by part of a copy are taken for accesses to other words, though each element is
#: atomic: executions then find the equal values of lanes that start one copy of one source.
REFUTED = {2184}


@pytest.mark.parametrize("seed", part_of([s for s in SEEDS if s not in REFUTED], EVERY))
def test_what_is_said_of_copies_holds_byte_by_byte(seed: int) -> None:
    assert wrong(seed) == ""


@pytest.mark.slow
def test_what_is_said_of_many_holds() -> None:
    assert {s for s in SEEDS if wrong(s)} <= REFUTED


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_executions_do_what_the_bytes_say(seed: int) -> None:
    """The second reader finds the races, and nothing in right kernels but lanes that start one copy."""
    k = kernel(seed)
    given = buffer(np.zeros(ROOM, np.uint32)), buffer(np.arange(ROOM, dtype=np.uint32))
    launch = Launch((THREADS, 1, 1), grid=(k.blocks, 1, 1), params=given)
    harm = next((r.harm for r in sample(k.text(), "k", launch, range(4)) if r.harm is not None), None)
    if k.label() == "race":
        assert harm is not None
    if k.label() == "right" and harm is not None:
        assert harm.other is not None and harm.other.line == harm.where.line


def _nothing(*_: object) -> None:
    return None


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], int]] = {
    "one source for all lanes": (lambda m: m.setattr(accesses, "_one_source", lambda *_: True), 2047),
    "lanes of one instruction": (lambda m: m.setattr(async_operations, "overlapping_copies", _nothing), 2091),
    "turns of one instruction": (lambda m: m.setattr(accesses, "_one_copy", _one_site), 2008),
}


def _one_site(_run: object, _t: object, first: Record, second: Record) -> bool:
    return first.site == second.site


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, seed = PLANTED[name]
    assert wrong(seed) == ""
    plant(monkeypatch)
    assert wrong(seed) == "proved, and it is race"
