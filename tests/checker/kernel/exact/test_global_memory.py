"""Blocks that hand over through global memory: labelled twins, and drawn programs against all executions.

The judge by executions shares nothing with the one that is tested: it goes through all orders of the blocks'
operations, with a clock for each block and for what each word has released.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from syncverify.checker.kernel.exact import NotJudgedError
from syncverify.checker.kernel.exact.global_memory import GlobalMemory
from syncverify.checker.kernel.exact.words import Word
from syncverify.driver.certificates import RejectedError
from syncverify.frontends.ir.systems import systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.events import Unanalysable
from syncverify.model.proxies import Scope
from tests.checker.kernel.exact.test_lockstep import rechecked
from tests.driver.certificates.test_exact import follow, found, kernel

PAIRS = (
    "more/flag_before_block_barrier",
    "more/flag_seen_by_one_thread",
    "more/global_write_then_bulk_load",
    "nvfuser/2391_no_fence_before_flag",
    "rulebook/E44_flag_after_read_wait",
    "rulebook/E45_release_scope_too_narrow",
)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_the_corpus(name: str) -> None:
    assert found(kernel(f"{name}.good")) == "holds"
    assert found(kernel(f"{name}.bad")) != "holds"


@pytest.mark.parametrize("name", [PAIRS[1], PAIRS[2], PAIRS[4]])
def test_all_blocks_of_a_small_grid_are_judged_at_every_size(name: str) -> None:
    assert rechecked(f"{name}.good").judged


# ---------------------------------------------------------------- labelled twins

WRITES, READS = "st.global ws[0 : 1], 1.0", "ld.global x, ws[0 : 1]"
ADD, STORE = "atom.global.add.release.gpu flag[0], 1", "st.global.release.gpu flag[0], 1"
WAIT = "spin.global.acquire.gpu flag[0] >= 1"
FENCED = ("fence.acq_rel.gpu", "st.global.relaxed.gpu flag[0], 1")
OTHER = "st.global ws[1 : 1], 1.0"
BOTH = "spin.global.acquire.gpu flag[0] >= 2"

RIGHT: dict[str, tuple[tuple[str, ...], ...]] = {
    "an addition": ((WRITES, ADD), (WAIT, READS)),
    "a store": ((WRITES, STORE), (WAIT, READS)),
    "a store behind a fence": ((WRITES, *FENCED), (WAIT, READS)),
    "there and back": (
        (WRITES, ADD, "spin.global.acquire.gpu flag[1] >= 1", WRITES),
        (WAIT, READS, "fence.acq_rel.gpu", "atom.global.add.release.gpu flag[1], 1"),
    ),
    "two blocks, both of which are needed": ((WRITES, ADD), (OTHER, ADD), (BOTH, READS)),
    "a second turn of the counter": (
        (WRITES, ADD, OTHER, ADD),
        (WAIT, READS, BOTH, "ld.global x, ws[1 : 1]"),
    ),
    "handed on by a block between": (
        (WRITES, ADD),
        (WAIT, "atom.global.add.release.gpu flag[1], 1"),
        ("spin.global.acquire.gpu flag[1] >= 1", READS),
    ),
}  # fmt: skip
WRONG: dict[str, tuple[tuple[str, ...], ...]] = {
    "no release": ((WRITES, "atom.global.add.relaxed.gpu flag[0], 1"), (WAIT, READS)),
    "a release of its block": ((WRITES, "atom.global.add.release.cta flag[0], 1"), (WAIT, READS)),
    "a fence of its block": ((WRITES, "fence.acq_rel.cta", FENCED[1]), (WAIT, READS)),
    "no acquire": ((WRITES, ADD), ("spin.global.relaxed.gpu flag[0] >= 1", READS)),
    "an acquire of its block": ((WRITES, ADD), ("spin.global.acquire.cta flag[0] >= 1", READS)),
    "data after the signal": ((ADD, WRITES), (WAIT, READS)),
    "a fence before the data": ((FENCED[0], WRITES, FENCED[1]), (WAIT, READS)),
    "read before the wait": ((WRITES, ADD), (READS, WAIT)),
    "nobody waits": ((WRITES, ADD), (READS,)),
    "either of two blocks": ((WRITES, ADD), (OTHER, ADD), (WAIT, READS)),
    "the second store": ((STORE, WRITES, STORE), (WAIT, READS)),
    "true at launch": ((WRITES, ADD), ("spin.global.acquire.gpu flag[0] >= 0", READS)),
    "another word": ((WRITES, ADD), ("spin.global.acquire.gpu flag[1] >= 0", READS)),
    "passed over": ((WRITES, ADD, ADD), ("spin.global.acquire.gpu flag[0] == 1", READS)),
    "never as much": ((WRITES, ADD), (BOTH, READS)),
    "each for the other": (
        ("spin.global.acquire.gpu flag[1] >= 1", ADD), (WAIT, "atom.global.add.release.gpu flag[1], 1"),
    ),
    "written again too early": ((WRITES, ADD, WRITES), (WAIT, READS)),
    "a plain store of the word": ((WRITES, "st.global flag[0], 1"), (WAIT, READS)),
    "below zero": ((WRITES, ADD, "atom.global.add.release.gpu flag[0], -1"), (WAIT, READS)),
}  # fmt: skip


def text(blocks: tuple[tuple[str, ...], ...], *, cooperative: bool = True) -> str:
    """A kernel of blocks of which one lane each acts."""
    head = f"launch grid [{len(blocks)}] block [32]{' cooperative' if cooperative else ''}"
    lines = [head, "tensor ws : f32[2] inout", "tensor flag : u32[2] inout", "elect p"]
    for number, block in enumerate(blocks):
        lines += [f"if block == {number} and p {{", *(f"  {op}" for op in block), "}"]
    body = "\n".join(f"  {line}" for line in lines)
    return f"kernel k {{\n{body}\n}}\n"


def holds(k: Kernel) -> bool:
    """Whether the judge accepts a launch."""
    for system in systems(k, {}):
        if isinstance(system, Unanalysable):
            return False
        try:
            follow(system)
        except (NotJudgedError, RejectedError):
            return False
    return True


def accepted(blocks: tuple[tuple[str, ...], ...], *, cooperative: bool = True) -> bool:
    return holds(parse(text(blocks, cooperative=cooperative), "k.syncir")[0])


@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_hold(name: str) -> None:
    assert accepted(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_do_not(name: str) -> None:
    assert not accepted(WRONG[name])


def test_a_block_that_waits_for_a_later_one_may_wait_for_ever() -> None:
    first, second = RIGHT["an addition"]
    assert accepted((first, second), cooperative=False) and accepted((second, first))
    assert not accepted((second, first), cooperative=False)


LANES = """kernel k {
  launch grid [2] block [32] cooperative
  tensor ws : f32[32] inout
  tensor flag : u32[1] inout
  if block == 0 {
    st.global ws[tid : 1], 1.0
    atom.global.add.release.gpu flag[0], 1
  } else {
    spin.global.acquire.gpu flag[0] >= 32
    ld.global x, ws[31 - tid : 1]
  }
}
"""


@pytest.mark.parametrize(("least", "right"), [(32, True), (31, False), (1, False)])
def test_each_lane_that_signals_has_to_be_needed(least: int, right: bool) -> None:
    assert holds(parse(LANES.replace(">= 32", f">= {least}"), "k.syncir")[0]) is right


# ---------------------------------------------------------------- drawn programs against all executions


@dataclass(frozen=True)
class Op:
    """``what``: read, write, add, store, spin or fence; ``at``: the word, or the place of the data."""

    what: str
    at: int = 0
    value: int = 1
    strong: bool = True  # it releases or acquires

    def __str__(self) -> str:
        how = "release" if self.strong else "relaxed"
        match self.what:
            case "read":
                return f"ld.global x, ws[{self.at} : 1]"
            case "write":
                return f"st.global ws[{self.at} : 1], 1.0"
            case "add":
                return f"atom.global.add.{how}.gpu flag[{self.at}], {self.value}"
            case "store":
                return f"st.global.{how}.gpu flag[{self.at}], {self.value}"
            case "spin":
                return f"spin.global.acquire.gpu flag[{self.at}] >= {self.value}"
        return "fence.acq_rel.gpu"


Clock = tuple[int, ...]
Program = tuple[tuple[Op, ...], ...]


@dataclass(frozen=True)
class Point:
    """Where all blocks stand; ``words``: value and what was released of it; ``data``: accesses so far."""

    stand: Clock
    clocks: tuple[Clock, ...]
    fences: tuple[Clock, ...]
    words: tuple[tuple[int, Clock], ...]
    data: frozenset[tuple[int, int, int, bool]]  # place, block, time, whether it writes


def joined(one: Clock, other: Clock) -> Clock:
    return tuple(map(max, one, other))


def at(row: tuple[Any, ...], n: int, x: Any) -> tuple[Any, ...]:
    return (*row[:n], x, *row[n + 1 :])


def step(p: Point, b: int, op: Op) -> Point | str | None:
    """What an operation of a block leads to; None: it waits; a text: it races."""
    clock = at(p.clocks[b], b, p.clocks[b][b] + 1)
    done = replace(p, stand=at(p.stand, b, p.stand[b] + 1), clocks=at(p.clocks, b, clock))
    if op.what in ("read", "write"):
        writes = op.what == "write"
        if any(x == op.at and (w or writes) and clock[o] < t for x, o, t, w in p.data):
            return "a race"
        return replace(done, data=p.data | {(op.at, b, clock[b], writes)})
    if op.what == "fence":
        return replace(done, fences=at(p.fences, b, clock))
    value, released = p.words[op.at]
    if op.what == "spin":
        if value < op.value:
            return None
        return replace(done, clocks=at(p.clocks, b, joined(clock, released)))
    mine = clock if op.strong else p.fences[b]
    if op.what == "add":
        return replace(done, words=at(p.words, op.at, (value + op.value, joined(released, mine))))
    return replace(done, words=at(p.words, op.at, (op.value, mine)))


def goes_wrong(program: Program) -> bool:
    """Whether some execution races, or has blocks that wait for ever."""
    n = len(program)
    zero = (0,) * n
    seen: set[Point] = set()
    left = [Point(zero, (zero,) * n, (zero,) * n, ((0, zero),) * 2, frozenset())]
    while left:
        p = left.pop()
        if p in seen:
            continue
        seen.add(p)
        open_ones = [b for b in range(n) if p.stand[b] < len(program[b])]
        after = [step(p, b, program[b][p.stand[b]]) for b in open_ones]
        if any(isinstance(x, str) for x in after) or (open_ones and not any(after)):
            return True
        left += [x for x in after if isinstance(x, Point)]
    return False


def drawn(seed: int) -> Program:
    """Blocks that hand on, with some operations changed, left out or moved."""
    rng = random.Random(seed)
    blocks: list[list[Op]] = [[], []] if rng.random() < 0.4 else [[], [], []]
    count = 0

    def place() -> int:
        return int(rng.random() < 0.2)

    for b, ops in enumerate(blocks):
        if b and rng.random() < (0.5 if b + 1 < len(blocks) else 0.95):
            ops.append(Op("spin", place(), rng.choice([1, 1, 2, count or 1])))
        for _ in range(rng.randint(0, 2)):
            ops.append(Op(rng.choice(["read", "write"]), int(rng.random() < 0.4)))
        if rng.random() < 0.8:
            if rng.random() < 0.2:
                ops.append(Op("fence"))
            what = "store" if rng.random() < 0.2 else "add"
            ops.append(Op(what, place(), 1, rng.random() < 0.85))
            count += 1
        if rng.random() < 0.15:
            rng.shuffle(ops)
    return tuple(map(tuple, blocks))


@cache
def programs(many: int) -> tuple[tuple[Program, bool], ...]:
    """Drawn programs that somebody waits in, each with whether it goes wrong."""
    every = (drawn(seed) for seed in range(910_000, 910_000 + many))
    some = [p for p in every if any(op.what == "spin" for ops in p for op in ops)]
    return tuple((p, goes_wrong(p)) for p in some)


def judged(program: Program) -> bool:
    return accepted(tuple(tuple(map(str, ops)) for ops in program))


def wrongly_accepted(many: int) -> Iterator[Program]:
    return (p for p, wrong in programs(many) if wrong and judged(p))


def test_what_is_accepted_goes_wrong_in_no_execution() -> None:
    some = programs(150)
    right = [p for p, wrong in some if not wrong]
    assert len(right) > 15 and len(some) - len(right) > 50
    assert not [*wrongly_accepted(150)]
    assert sum(map(judged, right)) > len(right) // 3


@pytest.mark.parametrize("mistake", ["all are needed", "all release", "ends are not looked at"])
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    real = GlobalMemory.signal

    def releases(self: Any, a: Any, word: Word, flags: int, value: Any, *, adds: bool) -> None:
        a.released, a.scope = a.lanes.handed(), Scope.SYS
        real(self, a, word, flags, value, adds=adds)

    match mistake:
        case "all are needed":
            monkeypatch.setattr(Word, "needs", lambda *_: True)
        case "all release":
            monkeypatch.setattr(GlobalMemory, "signal", releases)
        case _:
            monkeypatch.setattr(GlobalMemory, "decided", lambda _: None)
    assert any(True for _ in wrongly_accepted(400))
