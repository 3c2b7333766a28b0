"""States that know less stand for those that know more, never the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from syncverify.base.certificate_data import RejectedError
from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.vector_clocks import A, E, H
from syncverify.checker.prover.budget import without_rotations
from syncverify.checker.prover.parametric.strategy import (
    ExplorationBudget,
    ParametricResult,
    Problem,
    all_sizes,
    each_cluster_alone,
    problem_of,
)
from syncverify.checker.prover.reach import knowledge_order as explore_knowledge
from syncverify.checker.prover.reach.analysis import AbstractCounterexample, ReachabilityAnalysis
from syncverify.checker.prover.reach.knowledge_order import (
    KnowledgeAbstraction,
    abstract_knowledge,
    always_a_warning,
    masks_failure,
    weaken,
)
from syncverify.checker.prover.reach.state.snapshot import copy_run
from syncverify.checker.prover.reach.threshold_abstraction import ThresholdAbstraction
from syncverify.checker.prover.reach.tile_history import DroppedThreshold
from syncverify.driver.certificates import graphs, sizes
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build
from syncverify.symbolic.context import SymbolicContext
from tests.checker.prover.reach.state.test_snapshot import started, steps


def known(run: Run) -> KnowledgeAbstraction:
    found = abstract_knowledge(run)
    assert found is not None
    return found


def _standing() -> tuple[Run, int, int]:
    """A run, a class of it, and another class of whose last read it knows all."""
    run = started()
    steps(run, 90)
    read = next(r for s in run.memory[0]._segments for r in s.reads.values())
    t = next(t for t in run.threads if t.cls != read.cls and not t.done)
    for row in (E, H, A):
        t.clock.m[row, read.cls] = read.time
    return run, t.cls, read.cls


@pytest.mark.parametrize("row", [E, H, A], ids="E H A".split())
def test_less_covers_more(row: int) -> None:
    more, cls, other = _standing()
    less = copy_run(more)
    less.threads[cls].clock.m[row, other] = 0
    assert known(more).simulates(known(more))
    assert known(less).simulates(known(more))
    assert not known(more).simulates(known(less))


def test_barriers_with_more_complete_phases_stand_for_others() -> None:
    run, _, _ = _standing()
    more = known(run)
    assert any(more.flags)
    fewer = replace(more, flags=tuple(0 for _ in more.flags))
    assert more.simulates(fewer) and not fewer.simulates(more)


def test_lowered_to_what_both_know() -> None:
    one, cls, other = _standing()
    two = copy_run(one)
    one.threads[cls].clock.m[H, other] = 0
    two.threads[cls].clock.m[A, other] = 0
    assert not known(one).simulates(known(two)) and not known(two).simulates(known(one))
    before = known(two)
    weaken(two, known(one))
    assert known(two).simulates(known(one)) and known(two).simulates(before)
    assert not before.simulates(known(two))


def persistent(change: tuple[str, str] = ("", "")) -> Kernel:
    """A product in persistent blocks, staged stores: ends of tiles leave traces for a lap of the ring."""
    schedule = Schedule(64, 64, consumers=1, stages=3, persistent=True, store="tma", arrive="warpgroup")
    text = print_kernel(build(product("bf16", "KK"), schedule, Policy.PRACTICAL, 2))
    assert change[0] in text
    (kernel,) = parse(text.replace(*change), "matmul")
    return kernel


def _explored(kernel: Kernel) -> ParametricResult:
    return all_sizes(kernel, {}, Policy.PRACTICAL, lambda v: check_kernel(kernel, v).verdict)


def test_ends_of_tiles_are_forgotten() -> None:
    kernel = persistent()
    with without_rotations():
        found = _explored(kernel)
    assert found.verdict is Verdict.PROVED
    assert any(n.less >= 0 for g in found.graphs for n in g.nodes)

    def pose() -> Problem:
        return problem_of(kernel, {}, lambda v: Verdict.UNKNOWN)

    proof = graphs.to_plain(found)
    sizes.recheck(proof, pose, Policy.PRACTICAL, "proof")
    for node in (n for g in proof["systems"] for n in g["nodes"]):
        node.pop("less", None)
    with pytest.raises(RejectedError):
        sizes.recheck(proof, pose, Policy.PRACTICAL, "proof")


ENDS = (
    "      }\n    }\n  }\n}\n",
    """      }
    }
  }
  bar.sync 0
  role end warps 4..5 {
    if elected {
      for s in 0..3 {
        mbarrier.inval full[s]
        mbarrier.inval empty[s]
      }
    }
  }
}
""",
)


def test_who_has_used_a_barrier_last_is_compared_where_barriers_end() -> None:
    found = _explored(persistent(ENDS))
    assert found.verdict is Verdict.PROVED
    assert any(n.less >= 0 for g in found.graphs for n in g.nodes)
    alone = ENDS[0], ENDS[1].replace("  bar.sync 0\n", "")
    assert _explored(persistent(alone)).verdict is Verdict.REFUTED


def test_a_last_use_that_is_not_known_is_less() -> None:
    more, cls, other = _standing()
    more.info.ends_barriers = True
    s = next(s for s in more.barriers.values() if s.auto.live)
    s.last_use[other] = (more.threads[other].time, 0)
    more.threads[cls].clock.m[E, other] = more.threads[other].time
    less = copy_run(more)
    less.threads[cls].clock.m[E, other] = 0
    assert known(less).simulates(known(more)) and not known(more).simulates(known(less))
    weaken(more, known(less))
    assert known(more).simulates(known(less))


def _two_stores(**more: Any) -> Failure:
    return Failure(Obligation.RACE, "SV112", "", 1, 0, 1, 1, **more)


def test_two_stores_of_one_value_are_as_little_for_who_knows_more() -> None:
    run, _, _ = _standing()
    note = _two_stores(severity=Severity.NOTE, strict_only=True)
    error = _two_stores()
    assert always_a_warning(run, note) and not always_a_warning(run, error)
    run.info.ctas = 2  # a scope may be too narrow there: who knows more may see just that
    assert not always_a_warning(run, note)
    run.info.ctas = 1
    counted = _two_stores(severity=Severity.WARNING, strict_only=True)
    counted.obligation, counted.rule = Obligation.UB, "SV301"  # who stands at a barrier both know
    assert always_a_warning(run, counted)
    counted.strict_only = False
    assert not always_a_warning(run, counted)
    run.failures[note.key] = note
    assert not masks_failure(run, 1, Policy.PRACTICAL)
    run.options = replace(run.options, weak_completion_knowledge=True)
    assert not masks_failure(run, 0, Policy.PRACTICAL) and masks_failure(run, 0, Policy.STRICT)
    run.failures[error.key] = error
    assert masks_failure(run, 1, Policy.PRACTICAL)


def test_what_is_met_only_for_what_was_forgotten_is_no_warning() -> None:
    run, _, _ = _standing()
    found = _two_stores(severity=Severity.WARNING, strict_only=True)
    run.failures[found.key] = found
    explorer = ReachabilityAnalysis(
        system=run.system,  # type: ignore[arg-type]
        space=SymbolicContext(),
        roots=[],
        policy=Policy.PRACTICAL,
        limits=ExplorationBudget(),
    )
    assert explorer.non_spurious_failures(run) == [found]
    run.options = replace(run.options, weak_completion_knowledge=True)
    assert explorer.non_spurious_failures(run) == []
    explorer.failures_of_exact_states.add(found.key)
    assert explorer.non_spurious_failures(run) == [found]


@pytest.mark.parametrize(
    "change",
    [
        ("        fence.proxy.async.shared_cta\n", ""),
        ("bulk.wait.read 0\n", "bulk.wait.read 1\n"),
        ("        bar.sync wg + 1, 128\n        if warp", "        if warp"),
        ("wgmma.wait 0\n", "wgmma.wait 1\n"),
        ("mbarrier.wait empty[stage], phase ^ 1\n", "mbarrier.wait empty[stage], phase\n"),
        ("mbarrier.wait full[stage], phase\n", "mbarrier.wait full[stage], 0\n"),
    ],
    ids="fence wait meeting released parity full".split(),
)
def test_what_is_missing_at_the_end_of_a_tile_is_found(change: tuple[str, str]) -> None:
    assert _explored(persistent(change)).verdict is Verdict.REFUTED


#: A product whose last tiles neighbours share, behind whole ones.
SHARED = Schedule(128, 64, stages=8, persistent=True, split_k=3, shares="pairs", store="tma")


def _shared() -> int:
    """Decisions for such a product."""
    kernel = build(product("bf16", "KK"), SHARED, Policy.PRACTICAL, 2)
    found = each_cluster_alone(problem_of(kernel, {}, lambda v: Verdict.UNKNOWN), Policy.PRACTICAL)
    assert found.verdict is Verdict.PROVED
    return found.stats["nodes"]


def test_what_agents_miss_of_one_slot_they_forget_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    # that products of others are over is known at the end of a tile, and no more once a slot is read again
    forgotten: list[list[DroppedThreshold]] = []
    few = _shared()
    _note(monkeypatch, "orbit_of_access_weakening", forgotten)
    assert few == _shared() and any(forgotten)
    monkeypatch.setattr(explore_knowledge, "orbit_of_access_weakening", lambda *x: [])
    assert few < _shared()


def _note(monkeypatch: pytest.MonkeyPatch, name: str, found: list[list[DroppedThreshold]]) -> None:
    """Takes note of what is forgotten."""
    whole = getattr(explore_knowledge, name)

    def noted(*x: Any) -> list[DroppedThreshold]:
        found.append(whole(*x))
        return found[-1]

    monkeypatch.setattr(explore_knowledge, name, noted)


def _pending() -> int:
    """Decisions for persistent tiles with a group of products in flight: a slot is given back once the next
    one has been waited for, but for the last of a tile."""
    schedule = Schedule(128, 64, stages=8, persistent=True, pending=1, store="tma")
    kernel = build(product("bf16", "KK"), schedule, Policy.PRACTICAL, 2)
    found = all_sizes(kernel, {}, Policy.PRACTICAL, lambda v: Verdict.UNKNOWN)
    assert found.verdict is Verdict.PROVED and any(g.rotates for g in found.graphs)
    return found.stats["nodes"]


def test_what_a_barrier_misses_of_its_ring_the_others_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[list[DroppedThreshold]] = []
    few = _pending()
    _note(monkeypatch, "orbit_of_barrier_weakening", forgotten)
    assert few == _pending() and any(forgotten)
    monkeypatch.setattr(explore_knowledge, "orbit_of_barrier_weakening", lambda *x: [])
    assert few < 0.9 * _pending()


def test_flags_that_more_agents_know_of_take_no_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    few = _shared()
    monkeypatch.setattr(ThresholdAbstraction, "effect_log_bits", _told_apart)
    assert few < 0.9 * _shared()


def _told_apart(loose: ThresholdAbstraction) -> tuple[Any, ...]:
    """What is asked for a cluster's account as part of the key."""
    return (_Equal(_OF_TEAM(loose)),)


_OF_TEAM = ThresholdAbstraction.effect_log_bits


class _Equal:
    """Compares as a whole where rows of numbers would be compared one by one."""

    def __init__(self, team: tuple[Any, ...]) -> None:
        self.shape = tuple(m.tobytes() for m in team)

    def __and__(self, other: object) -> _Equal:
        return self

    def __invert__(self) -> _Equal:
        return self

    def any(self) -> bool:
        return False


def test_what_may_fail_is_tried_before_all_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    three = replace(SHARED, stages=3)  # with two the first failure is no spurious one
    text = print_kernel(build(product("bf16", "KK"), three, Policy.PRACTICAL, 2))
    first, middle, last = text.split("wgmma.wait 0")  # nobody waits for products of tiles that are shared
    (kernel,) = parse(f"{first}wgmma.wait 0{middle}{last}", "matmul")
    tried: list[AbstractCounterexample] = []
    failures = ReachabilityAnalysis.run

    def noted(self: ReachabilityAnalysis) -> Iterator[AbstractCounterexample | None]:
        for failed in failures(self):
            if failed is not None:
                tried.append(failed)
            yield failed

    monkeypatch.setattr(ReachabilityAnalysis, "run", noted)
    found = _explored(kernel)
    assert found.verdict is Verdict.REFUTED
    assert [x.concrete for x in tried] == [False]
