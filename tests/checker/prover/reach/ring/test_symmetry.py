"""Rings: states stand for others at other places of one, and never for what is another at some place."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.happens_before.run import Run
from syncverify.checker.prover.budget import without_rotations
from syncverify.checker.prover.reach.ring import detection
from syncverify.checker.prover.reach.ring.action import apply_rotation
from syncverify.checker.prover.reach.ring.symmetry import Ring, detect_ring
from syncverify.checker.prover.reach.state.canonical_state import canonicalize
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.reach.kernels import ARRIVE, LOAD, WAIT, producer, proof

FENCE = "fence.proxy.async.shared_cta"
READ = "ld.shared x, tile[stage][tid : 1]"


def pipeline(
    stages: int,
    *,
    wait: str = WAIT,
    fence: str = FENCE,
    arrive: str = ARRIVE,
    read: str = READ,
    load: str = LOAD,
    after: str = "",
) -> str:
    """Tiles of K steps; stage and phase carry over from tile to tile."""
    turn = f"""stage = stage + 1
          if stage == {stages} {{
            stage = 0
            phase = 1 - phase
          }}"""
    return f"""kernel pipeline {{
  launch block [96] registers 168
  param T : i32 = 3
  param K : i32 = 2
  assume K >= 1
  tensor a : f32[T * K * 64 + 64] in
  shared tile : f32[{stages}, 64]
  mbarrier full[{stages}]
  mbarrier empty[{stages}]
  if warp == 2 {{
    elect p
    if p {{
      for s in 0..{stages} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 64
      }}
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
  {producer(turn, wait, load)}
  role math warps 0..2 {{
    let stage = 0
    let phase = 0
    for t in 0..T {{
      for k in 0..K {{
        mbarrier.wait full[stage], phase
        {read}
        {fence}
        {arrive}
        {turn}
      }}
      {after}
    }}
  }}
}}
"""


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_a_pipeline_is_proved_round_its_ring(stages: int) -> None:
    found = proof(pipeline(stages))
    assert found.verdict is Verdict.PROVED
    assert any(g.rotates for g in found.graphs)


def test_most_decisions_are_those_of_the_first_lap() -> None:
    nodes = {n: proof(pipeline(n)).stats["nodes"] for n in (4, 12)}
    assert nodes[12] - nodes[4] <= 8 * (12 - 4)
    with without_rotations():
        alone = proof(pipeline(12))
    assert alone.verdict is Verdict.PROVED
    assert 2 * nodes[12] < alone.stats["nodes"]
    assert not any(g.rotates for g in alone.graphs)


def only(slot: int, good: str, bad: str) -> str:
    return f"""if stage == {slot} {{
            {bad}
          }} else {{
            {good}
          }}"""


WRONG = {
    "no wait for one slot": {"wait": only(3, WAIT, "compute nothing = 0.0")},
    "one slot is given back before it is read": {
        "read": only(3, READ, ARRIVE + "\n            " + READ),
        "arrive": only(3, ARRIVE, "compute nothing = 0.0"),
    },
    "one slot is given back twice": {"arrive": only(1, ARRIVE, ARRIVE + "\n            " + ARRIVE)},
    "another slot is read at the end of a lap": {
        "read": "ld.shared x, tile[(stage + stage // 3) % 4][tid : 1]"
    },
    "one slot has another parity": {"wait": only(2, WAIT, "mbarrier.wait empty[stage], 1 - phase")},
    "one slot is filled too far": {
        "load": only(
            3,
            "bulk.load tile[stage], a[(t * K + k) * 64 : 64], full[stage]",
            "bulk.load tile[0], a[(t * K + k) * 64 : 64], full[stage]",
        )
    },
    "no wait in one lap of two": {
        "wait": f"""if phase == 0 or stage > 0 {{
            {WAIT}
          }}"""
    },
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_at_one_place_is_refuted(what: str) -> None:
    text = pipeline(4, **WRONG[what])
    found = proof(text)
    assert found.verdict is Verdict.REFUTED
    (kernel,) = parse(text, "pipeline.syncir")
    assert check_kernel(kernel, found.values).verdict is Verdict.REFUTED


def test_what_differs_at_one_place_and_is_right_is_proved() -> None:
    twice = only(2, FENCE, FENCE + "\n            " + FENCE)
    assert proof(pipeline(4, fence=twice)).verdict is Verdict.PROVED


def test_registers_asked_for_after_the_main_loop_are_judged() -> None:
    """States are compared as if no request for registers came; one that does begins all again."""
    text = pipeline(2).replace("launch block [96]", "launch block [384]").replace("warps 2..3", "warps 8..9")
    text = text.replace("warp == 2", "warp == 8").replace("empty[s], 64", "empty[s], 256")
    text = text.replace("warps 0..2", "warpgroups 0..2").replace("tid : 1", "tid % 64 : 1")
    assert proof(text).verdict is Verdict.PROVED
    loop = "      for k in 0..K {\n        mbarrier.wait full"
    late = text.replace(loop, "      setmaxnreg.inc 240\n" + loop)
    assert late != text
    assert proof(late).verdict is not Verdict.PROVED


# ---------------------------------------------------------------- runs


def looked(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, Ring]:
    """A run in which a ring was found, and the ring."""
    found: list[tuple[Run, Ring]] = []

    def noted(run: Run, whole: bool = False) -> Ring | None:
        ring = detect_ring(run, whole)
        if ring is not None:
            found.append((run, ring))
        return ring

    monkeypatch.setattr(detection, "detect_ring", noted)
    assert proof(text).verdict is Verdict.PROVED
    return found[0]


def test_all_of_a_ring_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run, ring = looked(pipeline(4), monkeypatch)
    assert ring.size == 4
    assert sorted(ring.barriers.values()) == sorted([*range(4)] * 2)
    offsets = {ring.barriers[b]: run.info.barriers[b].offset for b in ring.barriers}
    assert sorted(offsets) == [0, 1, 2, 3]
    bytes_ = {slot: (lo, hi) for lo, hi, slot, _ in ring.pieces if hi - lo == 256}
    assert bytes_ == {slot: (256 * slot, 256 * slot + 256) for slot in range(4)}


@pytest.mark.parametrize("by", range(1, 8))
def test_a_run_moved_on_and_back_is_the_same(by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run, ring = looked(pipeline(4), monkeypatch)
    before = canonicalize(run)
    apply_rotation(run, ring, by)
    assert canonicalize(run) != before
    apply_rotation(run, ring, -by)
    assert canonicalize(run) == before


def test_two_laps_come_back_to_the_same_parities(monkeypatch: pytest.MonkeyPatch) -> None:
    _, ring = looked(pipeline(3), monkeypatch)
    for b in ring.barriers:
        assert ring.barrier(b, ring.size) == b
        assert ring.flips(b, ring.size) == 1
        assert ring.flips(b, 2 * ring.size) == 0
    lo, hi = ring.pieces[0][:2]
    assert [*ring.interval(lo, hi, ring.size)] == [(lo, hi)]
