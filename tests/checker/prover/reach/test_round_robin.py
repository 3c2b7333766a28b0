"""Turns that two warps deal out between them: proved for every size, and never what is wrong in some
iteration.
"""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.prover.budget import without_rotations
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.checker.prover.reach.analysis import ReachabilityAnalysis
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from syncverify.symbolic.context import SymbolicContext, SymbolSplit, UndecidedBranch
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.round_robin import RoundRobin
from tests.checker.prover.reach.kernels import ARRIVE, WAIT, producer, proof

READ = "ld.shared x, tile[stage][lane : 1]"
PHASE = "phase = phase ^ ((stage + K) // {S}) % 2"
STAGE = "stage = (stage + K) % {S}"
FIRST = "let stage = warp * K % {S}"
HAND_ON = "mbarrier.arrive order[warp ^ 1]"


def pingpong(
    stages: int,
    *,
    wait: str = WAIT,
    read: str = READ,
    arrive: str = ARRIVE,
    phase: str = PHASE,
    stage: str = STAGE,
    first: str = FIRST,
    hand_on: str = HAND_ON,
) -> str:
    """Two warps that take the tiles of a block in turn, and one that fills a ring for both."""
    turn = """stage = stage + 1
          if stage == {S} {
            stage = 0
            phase = phase ^ 1
          }"""
    text = f"""kernel pingpong {{
  launch block [96]
  param T : i32 = 5
  param K : i32 = 3
  assume K >= 1
  assume T >= 1
  tensor a : f32[T * K * 64 + 64] in
  shared tile : f32[{{S}}, 64]
  mbarrier full[{{S}}]
  mbarrier empty[{{S}}]
  mbarrier order[2]
  if warp == 2 {{
    elect p
    if p {{
      for s in 0..{{S}} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 32
      }}
      for s in 0..2 {{
        mbarrier.init order[s], 32
      }}
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
  {producer(turn, wait)}
  role math warps 0..2 {{
    {first}
    let phase = (warp * K // {{S}}) % 2
    let turn = warp ^ 1
    for i in warp..T step 2 {{
      mbarrier.wait order[warp], turn
      turn = turn ^ 1
      for k in 0..K {{
        mbarrier.wait full[stage], phase
        {read}
        fence.proxy.async.shared_cta
        {arrive}
        {turn}
      }}
      {hand_on}
      {phase}
      {stage}
    }}
  }}
}}
"""
    return text.replace("{S}", str(stages))


@cache
def right(stages: int) -> ParametricResult:
    return proof(pingpong(stages))


@pytest.mark.parametrize("stages", [2, 3])
def test_turns_that_are_dealt_out_are_proved(stages: int) -> None:
    found = right(stages)
    assert found.verdict is Verdict.PROVED
    assert any(g.rotates for g in found.graphs)
    assert len(found.graphs) == stages + 1  # more than a lap, and each other number of steps


@pytest.mark.slow
def test_there_are_few_states_for_each_place() -> None:
    nodes = {n: right(n).stats["nodes"] for n in (2, 4)}
    with without_rotations():
        alone = proof(pingpong(2))
    assert alone.verdict is Verdict.PROVED
    assert not any(g.rotates for g in alone.graphs)
    assert nodes[2] < alone.stats["nodes"]
    assert nodes[4] < 4 * nodes[2]


def test_answers_of_states_that_later_ones_stand_for_are_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fewer = right(3)
    monkeypatch.setattr(ReachabilityAnalysis, "covered_by_later", lambda self, state: False)
    all_ = proof(pingpong(3))
    assert fewer.verdict is all_.verdict is Verdict.PROVED
    assert fewer.stats["events"] < all_.stats["events"]


def when(test: str, good: str, bad: str) -> str:
    return f"""if {test} {{
            {bad}
          }} else {{
            {good}
          }}"""


WRONG = {
    "too far by a step": {"stage": "stage = (stage + K + 1) % {S}"},
    "another parity": {"phase": "phase = phase ^ ((stage + K) // {S} + 1) % 2"},
    "in one warp only": {"stage": when("warp == 1", STAGE, "stage = (stage + K + 1) % {S}")},
    "in the first turn only": {"stage": when("i < 2", STAGE, "stage = (stage + K + 1) % {S}")},
    "in the second turn only": {"stage": when("i >= 2 and i < 4", STAGE, "stage = (stage + K + 1) % {S}")},
    "where steps are no multiple of the stages": {"stage": "stage = (stage + K // {S} * {S}) % {S}"},
    "where a tile is shorter than a lap": {"stage": when("K < {S}", STAGE, "stage = (stage + 2 * K) % {S}")},
    "where a tile has more than two laps": {"stage": when("K > {S} * 2", STAGE, "stage = (stage + 1) % {S}")},
    "at one slot only": {"stage": when("stage == {S} - 1", STAGE, "stage = (stage + K + 1) % {S}")},
    "in one lap of two": {"phase": when("stage == 0 and phase == 1", PHASE, "phase = phase ^ 1")},
    "begun elsewhere": {"first": "let stage = warp * (K + 1) % {S}"},
    "one slot is given back before it is read": {
        "read": when("stage == 1", READ, ARRIVE + "\n            " + READ),
        "arrive": when("stage == 1", ARRIVE, "compute nothing = 0.0"),
    },
    "one slot is given back too soon by one warp": {
        "read": when("warp == 1 and stage == 0", READ, ARRIVE + "\n            " + READ),
        "arrive": when("warp == 1 and stage == 0", ARRIVE, "compute nothing = 0.0"),
    },
    "no wait for one slot": {"wait": when("stage == 1", WAIT, "compute nothing = 0.0")},
    "the turn is not handed on": {"hand_on": when("warp == 1", HAND_ON, "compute nothing = 0.0")},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_somewhere_is_refuted(what: str) -> None:
    text = pingpong(2, **WRONG[what])
    found = proof(text)
    assert found.verdict is Verdict.REFUTED
    (kernel,) = parse(text, "pingpong.syncir")
    assert check_kernel(kernel, found.values).verdict is Verdict.REFUTED


FENCE = "fence.proxy.async.shared_cta\n"


def test_warnings_that_only_strict_mode_asks_for_begin_with_states_that_know_all() -> None:
    text = pingpong(2)
    assert FENCE in text
    found = proof(text.replace(FENCE, "\n"))
    assert found.verdict is Verdict.PROVED
    assert any(g.rotates for g in found.graphs)
    assert any(n.less >= 0 for g in found.graphs for n in g.nodes)
    assert {(d.rule, d.contested) for d in found.diagnostics} == {("SV105", "K1")}


#: They are refuted without warnings above; the first ones stay.
SELDOM = [what for n, what in enumerate(WRONG) if what.startswith("where") or n >= 6]


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in WRONG]
)
def test_what_is_wrong_somewhere_is_refuted_among_warnings(what: str) -> None:
    assert proof(pingpong(2, **WRONG[what]).replace(FENCE, "\n")).verdict is Verdict.REFUTED


# ---------------------------------------------------------------- numbers


def rest_of(space: SymbolicContext, value: object, m: int) -> object:
    while True:
        try:
            return value % m  # type: ignore[operator]
        except SymbolSplit as r:
            space.path.substitute(r.atom, r.c, r.parts)
            value = space.resolved(value)


@pytest.mark.parametrize("c", [1, 2, 5])
def test_the_rest_of_a_size_and_a_number_is_an_unknown_of_its_own(c: int) -> None:
    space = SymbolicContext(RoundRobin(havocked_sizes={"K"}))
    space.havocs = True
    k = space.symbol("K", 1, None)
    rest = rest_of(space, k + c, 4)
    assert space.bounds(rest) == (0, 3)
    for n in range(1, 14):
        path = space.path.fork()
        before, space.path = space.path, path
        parts = space.of(space.resolved(k - n))
        path.assume(*parts)
        path.assume(-parts[0], negated(parts[1]))
        assert not path.dead
        assert space.resolved(rest) == (n + c) % 4
        space.path = before


def test_a_bit_that_is_turned_stays_a_sum() -> None:
    space = SymbolicContext(RoundRobin(havocked_sizes={"K"}))
    bit = space.symbol("bit", 0, 1)
    with pytest.raises(UndecidedBranch):
        bit ^ 1  # no iterations are distributed round-robin yet
    space.havocs = True
    assert bit ^ 0 is bit
    assert 1 ^ bit is 1 - bit
    wide = space.symbol("wide", 0, 2)
    with pytest.raises(UndecidedBranch):
        wide ^ 1
