"""Lanes that hold one sum but for numbers, and comparisons that choose lengths: what is not taken so."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from syncverify.frontends.ptx.analysis.slicing.conditional_lengths import chosen_lengths
from syncverify.frontends.ptx.analysis.slicing.slice import Slice
from syncverify.frontends.ptx.exec.register_rows import lanes_apart
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.values.register_values import lanes_of, per_lane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.symbolic.context import NotConcrete, SymbolicContext, UndecidedBranch
from syncverify.symbolic.path_condition import PathCondition
from tests.frontends.ptx.execute_helpers import function, system

_COUNTED = """
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x;
    mbarrier.init.shared::cta.b64 [bar], %r1;
    ret;
"""


def test_how_far_lanes_are_apart_stays() -> None:
    space = SymbolicContext()
    first = space.symbol("n", 0, 1 << 20)
    agent = system(_COUNTED).agents()[0]
    slot = agent.program.slots["%r1"]
    agent.r[slot] = per_lane([SymbolicWord(first + 4 * lane, 32) for lane in range(32)])
    apart = tuple(range(0, 128, 4))
    assert lanes_apart(agent.r[slot]) == apart
    key = ("lanes", slot)
    agent.put(key, apart)
    agent.put(slot, space.symbol("m", 0, 1 << 20))
    assert lanes_apart(agent.r[slot]) == apart
    agent.put(slot, 40)
    assert agent.r[slot].lanes == tuple(range(40, 168, 4))
    agent.put(key, apart)  # of numbers, too
    for other in (tuple(range(0, 256, 8)), None):
        with pytest.raises(NotConcrete, match="how far lanes are apart changes"):
            agent.put(key, other)


_LOOPS = """
    ld.param.u32 %r1, [k_n];
    mov.u32 %r2, 0;
    TURN:
    setp.lt.s32 {answers}, %r2, %r1;
    selp.b32 %r3, 8, %r1, %p1;
    mov.u32 %r4, 0;
    STEP:
    bar.sync 0;
    add.u32 %r4, %r4, 1;
    setp.lt.s32 %p3, %r4, %r3;
    @%p3 bra STEP;
    add.u32 %r2, %r2, 1;
    setp.le.s32 %p4, %r2, %r1;
    @%p4 bra TURN;
    ret;
"""


@pytest.mark.parametrize(("answers", "chosen"), [("%p1", {"%r3"}), ("%p1|%p2", set()), ("%p2|%p1", set())])
def test_an_answer_beside_its_opposite_chooses_no_length(answers: str, chosen: set[str]) -> None:
    flow = Flow(function(_LOOPS.replace("{answers}", answers)))
    jumps = frozenset(k for k, i in enumerate(flow.body) if i.op == "bra")
    needed = Slice(frozenset(range(len(flow.body))) - jumps, jumps, frozenset(), frozenset())
    found = chosen_lengths(flow, needed, ())
    assert (found.chosen, found.predicates) == (chosen, {"%p1"} if chosen else set())


def _seen(f: Any) -> Any:
    """What an operation makes, or what it asks."""
    try:
        made = f()
    except UndecidedBranch as e:
        return e.c, e.parts
    return [(repr(x.term), x.bits, x.kind) if isinstance(x, SymbolicWord) else x for x in lanes_of(made)]


@pytest.mark.parametrize("seed", range(200))
def test_signs_of_all_lanes_are_those_of_each(seed: int) -> None:
    """Registers as signed numbers, plus half their range: of lanes that are apart by numbers at once."""
    random = Random(seed)
    bits = random.choice((32, 64))
    half = 1 << bits - 1
    space = SymbolicContext()
    space.path = PathCondition(space)
    ends = (0, 1, half - 40, half - 5, half, half + 7, -half, -half - 3, 2 * half - 1, 100)
    low = random.choice(ends)
    high = random.choice([None, low + random.choice((0, 30, half))])
    term = space.symbol("n", low, high) * random.choice((1, 1, 4)) + random.choice((0, 0, 8, -8))
    if random.random() < 0.5:
        term = term + space.symbol("m", 0, random.choice((None, 3)))
    lanes = [SymbolicWord(term + random.choice((0, 1, 2, 4, 40)) * lane, bits) for lane in range(32)]
    each = [_seen(lambda x=x: x ^ half) for x in lanes]
    questions = [x for x in each if isinstance(x, tuple)]
    found = _seen(lambda: per_lane(lanes) ^ half)
    if questions:
        assert found == questions[0]
    else:
        assert found == [x[0] for x in each]


def test_lanes_with_numbers_among_them_are_looked_at_one_by_one() -> None:
    space = SymbolicContext()
    term = space.symbol("n", 0, 100)
    found = per_lane([SymbolicWord(term, 32), 7, *[SymbolicWord(term + 4, 32)] * 30]) ^ 1 << 31
    assert [x if isinstance(x, int) else repr(x.term) for x in found.lanes[:3]] == [
        7 ^ 1 << 31 if i == 1 else repr(term + 4 * (i == 2) + (1 << 31)) for i in range(3)
    ]
