"""Witnesses: schedules that exploration found, written by hand, or wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from syncverify.base.diagnostics import Blocked, Claim, Policy, Step, Witness
from syncverify.base.source import InputError, Span
from syncverify.ir.nodes import Kernel
from syncverify.simulate.ir import Harm, explore, replay
from tests.simulate.ir.support import kernel, ring
from tests.simulate.ir.test_truth import LITMUS, THEORY


def witness(h: Harm, policy: Policy) -> Witness:
    return Witness(
        Claim(h.kind), h.rule, h.message, h.schedule, h.blocked, policy=policy, elected_lane=h.elected_lane
    )


def dynamic(k: Kernel, policy: Policy) -> list[Harm]:
    return [h for h in explore(k, policy=policy).harms if h.schedule]


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("name", [*THEORY, *LITMUS])
def test_every_harm_found_replays(name: str, policy: Policy) -> None:
    k = THEORY.get(name) or LITMUS[name]
    for h in dynamic(k, policy):
        result = replay(witness(h, policy), k)
        assert result.reproduced, (h.kind, h.rule, result.reason)
        assert result.trace


@pytest.mark.parametrize("drop", ["mbarrier.wait full", "mbarrier.arrive empty", "bulk.load"])
def test_harms_of_broken_rings_replay(drop: str) -> None:
    k = ring(drop=drop)
    found = [h for h in explore(k, limit_states=3000).harms if h.schedule]
    assert found
    assert all(replay(witness(h, Policy.PRACTICAL), k).reproduced for h in found)


PING = """mbarrier b
  if tid == 0 {
    mbarrier.init b, 1
  }
  bar.sync 0
  if tid == 0 {
    mbarrier.arrive b
    mbarrier.arrive b
  }
  if tid == 32 {
    mbarrier.wait b, 0
  }"""


def by_hand(*steps: tuple[str, int, str], claim: str = "hang", blocked: int = 13) -> dict[str, Any]:
    rest = {"file": "t", "barrier": None, "phase": None}
    lanes = [{"agent": agent, "line": line, "op": op, **rest} for agent, line, op in steps]
    stuck = {
        "agent": "cta0.warp1.lanes0",
        "file": "t",
        "line": blocked,
        "waits_on": "b",
        "phase": 0,
        "why": "",
    }
    return {
        "schema_version": 1, "file": "t", "kernel": "k", "hash": "", "policy": "practical", "values": {},
        "claim": claim, "rule": "SV201", "message": "", "steps": lanes,
        "blocked": [stuck] if claim == "hang" else [],
        "block": [0, 0, 0], "elected_lane": 0, "grid": None, "registers": None,
    }  # fmt: skip


BOTH_ARRIVE = (
    ("cta0.warp0.lanes0", 5, "mbarrier.init"),
    ("cta0.warp0.lanes0", 7, "bar.sync"),
    ("cta0.warp0.lanes1-31", 7, "bar.sync"),
    ("cta0.warp1.lanes0", 7, "bar.sync"),
    ("cta0.warp1.lanes1-31", 7, "bar.sync"),
    ("cta0.warp0.lanes0", 9, "mbarrier.arrive"),
    ("cta0.warp0.lanes0", 10, "mbarrier.arrive"),
)


def test_a_witness_from_json() -> None:
    result = replay(by_hand(*BOTH_ARRIVE), kernel(PING))
    assert result.reproduced, result.reason
    assert [b.agent for b in result.blocked] == ["cta0.warp1.lanes0"]
    assert result.blocked[0].span.line == 13


def test_a_schedule_without_the_hang_is_not_reproduced() -> None:
    passing = (*BOTH_ARRIVE[:6], ("cta0.warp1.lanes0", 13, "mbarrier.wait"))
    result = replay(by_hand(*passing), kernel(PING))
    assert not result.reproduced and "every thread leaves" in result.reason


def test_an_impossible_step_is_named() -> None:
    early = (*BOTH_ARRIVE[:5], ("cta0.warp1.lanes0", 13, "mbarrier.wait"))
    result = replay(by_hand(*early), kernel(PING))
    assert not result.reproduced and "blocked at line 13" in result.reason
    gone = replay(by_hand(("cta0.warp0.lanes1-31", 9, "mbarrier.arrive")), kernel(PING))
    assert not gone.reproduced
    missing = replay(by_hand(("cta0.warp7.lanes0", 9, "mbarrier.arrive")), kernel(PING))
    assert not missing.reproduced and "no threads cta0.warp7" in missing.reason


def test_another_claim_is_not_reproduced() -> None:
    for claim in ("stale-value", "ub"):
        assert not replay(by_hand(*BOTH_ARRIVE, claim=claim), kernel(PING)).reproduced


def test_blocked_agents_must_be_the_named_ones() -> None:
    wrong = by_hand(*BOTH_ARRIVE)
    wrong["blocked"][0]["agent"] = "cta0.warp0.lanes0"
    result = replay(wrong, kernel(PING))
    assert not result.reproduced and "does not stay blocked" in result.reason


def test_completions_are_steps() -> None:
    k = THEORY["bytes_before_arrive"]
    hang = next(h for h in explore(k).harms if h.kind == "hang")
    assert any(s.agent.endswith(".async0") for h in explore(k).harms for s in h.schedule)
    unissued = Step("cta0.warp0.lanes0.async3", Span("t", 1), "completion", None, None)
    cut = replace(witness(hang, Policy.PRACTICAL), steps=(unissued,))
    assert replay(cut, k).reproduced  # nothing to complete: the hang comes anyway


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "boredom"}, "boredom"),
        ({"steps": [{"agent": "warp3", "line": 1, "op": ""}]}, "malformed agent"),
        ({"steps": [{"agent": "cta0.warp0.lanes40", "line": 1, "op": ""}]}, "malformed lanes"),
        ({"steps": [{"line": 1, "op": ""}]}, "'agent' is missing"),
        ({"block": [9, 0, 0]}, "not in the grid"),
        ({"values": {"N": "x"}}, "malformed witness"),
    ],
)
def test_malformed_witnesses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replay({**by_hand(*BOTH_ARRIVE), **change}, kernel(PING))


def test_a_static_violation_replays_as_ub() -> None:
    k = kernel("if lane < 16 {\nbar.sync 0\n}")
    w = Witness(Claim.UB, "SV302", "", (Step("cta0.warp0.lanes0-15", Span("t", 4), "bar.sync 0"),))
    assert replay(w, k).reproduced


def test_order_violation_compares_executions() -> None:
    k = THEORY["two_arrives_odd_wait"]
    free = Witness(Claim.ORDER_VIOLATION, "SV201", "", ())
    assert replay(free, k).reproduced
    assert not replay(free, ring(n=2)).reproduced


def test_blocked_is_reported_with_what_is_missing() -> None:
    hang = next(h for h in explore(ring(drop="mbarrier.arrive empty")).harms if h.kind == "hang")
    assert any("misses 128 of 128 arrivals" in b.why for b in hang.blocked)
    assert isinstance(hang.blocked[0], Blocked)
