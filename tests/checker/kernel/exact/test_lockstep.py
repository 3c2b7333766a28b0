"""Certificates for sizes are judged apart from the checker: beside the replay, by forms of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.happens_before.handlers import accesses
from syncverify.checker.kernel.exact import LockstepChecker, NotJudgedError, form
from syncverify.checker.kernel.exact.hazards import Memory, Touch
from syncverify.checker.kernel.exact.knowledge import VectorClock
from syncverify.checker.kernel.exact.state import Barrier, Meeting, Phase, ReplayedAgent
from syncverify.driver.certificates import Rechecked, RejectedError, certify, dumps, recheck
from syncverify.driver.files import read_source
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.systems import systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.events import EACH_TIME, Ev, Event, LaneSplit, System, Unanalysable
from syncverify.model.proxies import Access
from tests.system.random.generate import policy, program

CORPUS = Path(__file__).parents[4] / "corpus"


@cache
def kernel(name: str) -> Kernel:
    return read_source(CORPUS / f"{name}.syncir").kernels[0]


def rechecked(name: str) -> Rechecked:
    """What `recheck` of a certificate for every size says."""
    k = kernel(name)
    text = dumps([certify(k, check_kernel(k, scope=ScopeKind.ALL))])
    (done,) = recheck(text, "c.json", {k.name: k})
    return done


@pytest.mark.parametrize(
    "name",
    [
        "sizes/even_by_assumption.good",
        "depth/odd_trip_count.good",
        "idioms/D04_gemm_two_consumer_warpgroups",
        "nvfuser/3088_expect_counts_broadcast.good",
        "matmul/direct",
        "idioms/cp_async_mbarrier_ring",
        "idioms/D06_multicast_cluster_release",
    ],
)
def test_sizes_are_judged_apart(name: str) -> None:
    found = rechecked(name)
    assert found.met.counts["systems"] > 0
    assert found.judged


def test_what_the_kernel_does_not_judge_is_said() -> None:
    assert not rechecked("sizes/tokens_of_two_slots.good").judged


@pytest.mark.parametrize(
    "name", ["sizes/staging_in_second_persistent_tile.bad", "rulebook/E05_unfenced_mma_operand.bad"]
)
def test_what_a_checker_that_sees_no_races_proves_is_rejected(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_kernel(kernel(name), scope=ScopeKind.ALL).verdict is Verdict.REFUTED
    monkeypatch.setattr(accesses, "judge", lambda *_, **__: None)
    with pytest.raises(RejectedError, match="is not shown"):
        rechecked(name)


# ---------------------------------------------------------------- beside a run


def turns(system: System) -> Iterator[tuple[int, Event]]:
    """The events of all classes, one of each in turn, before anything is known of what they do."""
    agents = [*enumerate(system.agents())]
    while agents:
        for cls, agent in list(agents):
            event = agent.step(0)
            yield cls, event
            if event[0] in (Ev.EXIT, Ev.UNKNOWN):
                agents.remove((cls, agent))


def beside(system: System) -> LockstepChecker:
    """The judge, handed all events as soon as their class has done those before."""
    judge = LockstepChecker(system.info)
    waiting: list[tuple[int, Event]] = []
    for cls, event in turns(system):
        waiting.append((cls, event))
        moved = True
        while moved:
            moved = False
            for item in list(waiting):
                first = next(x for x in waiting if x[0] == item[0])
                if first is item and judge.actors[item[0]].event is None:
                    waiting.remove(item)
                    judge.take(*item)
                    moved = True
    if waiting:
        raise RejectedError("", "a class waits for ever")
    judge.end()
    return judge


def found(k: Kernel) -> str:
    report = check_kernel(k, scope=ScopeKind.EXACT)
    for system in systems(k, dict(report.scope.values)):
        if isinstance(system, Unanalysable):
            return "not judged"
        while True:
            try:
                beside(system)
                break
            except LaneSplit as split:
                system = system.refined(split)
            except NotJudgedError:
                return "not judged"
            except RejectedError:
                return "rejected"
    return "holds"


def test_handed_over_events_are_judged_like_any() -> None:
    seen = set()
    for seed in range(12_000, 12_080):
        if policy(seed) != "practical":
            continue
        (drawn,) = parse(program(seed).text(), f"{seed}.syncir")
        judged = found(drawn)
        seen.add(judged)
        if judged == "holds":
            assert check_kernel(drawn, scope=ScopeKind.EXACT).verdict is Verdict.PROVED, seed
        elif judged == "rejected":
            assert check_kernel(drawn, scope=ScopeKind.EXACT).verdict is not Verdict.PROVED, seed
    assert {"holds", "rejected"} <= seen


def prefix(name: str, count: int) -> LockstepChecker:
    """The judge after some events of a launch of a ring with one class for each warp and lane set."""
    k = kernel(name)
    (system, *_) = systems(k, dict(check_kernel(k, scope=ScopeKind.EXACT).scope.values))
    assert not isinstance(system, Unanalysable)
    while True:
        judge = LockstepChecker(system.info)
        agents = [*system.agents()]
        try:
            while True:
                for cls, agent in enumerate(agents):
                    while not judge.actors[cls].gone and judge.actors[cls].event is None:
                        if count == 0:
                            return judge
                        count -= 1
                        judge.take(cls, agent.step(0))
        except LaneSplit as split:
            system = system.refined(split)


def test_a_fork_is_the_same_state_and_goes_its_own_way() -> None:
    judge = prefix("depth/odd_trip_count.good", 60)
    before = form(judge)
    other = judge.fork()
    assert set(vars(other)) == set(vars(judge))
    assert form(other) == before
    assert other.memory.pieces == sum(map(len, other.memory.touches.values())) > 0
    held = {id(x) for x in containers(judge)}
    shared = {id(x): x for x in containers(other) if id(x) in held}
    assert not shared, shared
    for a in other.actors:
        a.lanes.joined.mark(("t", 0), 1_000)
    assert form(judge) == before
    assert form(other) != before


def containers(judge: LockstepChecker) -> Iterator[Any]:
    """All that a run changes in place."""
    yield from (judge.fences, judge.barriers, judge.meetings, judge.groups, judge.exits, judge.actors)
    yield from judge.fences
    yield from judge.memory.touches.values()
    yield from (t for kept in judge.memory.touches.values() for _, _, t in kept)
    yield from (x for row in judge.exits.values() for x in (row, row.beyond))
    for b in judge.barriers.values():
        yield from (b, b.phase, b.waits, b.uses)
        yield from parts(b.phase, Phase)
    for m in judge.meetings.values():
        yield from (m, m.arrived, m.knowledge, m.knowledge.happened, m.knowledge.happened.beyond)
    for a in judge.actors:
        yield from (a, a.lanes, a.lanes.joined, a.lanes.joined.visible, a.lanes.joined.visible.beyond)
        yield from (x for x in parts(a, ReplayedAgent) if isinstance(x, dict | list))


def parts(x: Any, kind: type) -> list[Any]:
    return [v for f in fields(kind) if isinstance(v := getattr(x, f.name), dict | list)]


def test_a_form_tells_what_matters_apart() -> None:
    """Each change of a state that a later obligation sees gives another form."""
    changes = 0
    for change in CHANGES:
        judge = prefix("depth/odd_trip_count.good", 75)
        before = form(judge)
        if change(judge):
            changes += 1
            assert form(judge) != before, change
    assert changes == len(CHANGES)


def _later_barrier(judge: LockstepChecker) -> Barrier:
    return max(judge.barriers.values(), key=lambda b: (b.done, len(b.phase.threads)))


def _parity(judge: LockstepChecker) -> bool:
    _later_barrier(judge).done += 1
    return True


def _pending(judge: LockstepChecker) -> bool:
    _later_barrier(judge).pending -= 1
    return True


def _bytes(judge: LockstepChecker) -> bool:
    _later_barrier(judge).phase.expected += 16
    return True


def _waits(judge: LockstepChecker) -> bool:
    b = _later_barrier(judge)
    b.waits[0] = judge.actors[0].lanes.time
    return True


def _forgets(judge: LockstepChecker) -> bool:
    """A class that knows nothing of any other."""
    a = max(judge.actors, key=lambda a: len(a.lanes.joined.visible.items()))
    a.lanes.joined.visible = VectorClock()
    return True


def _unbridged(judge: LockstepChecker) -> bool:
    a = max(judge.actors, key=lambda a: len(a.lanes.joined.bridged.items()))
    rich = bool(a.lanes.joined.bridged.items())
    a.lanes.joined.bridged = VectorClock()
    return rich


def _touch(judge: LockstepChecker) -> bool:
    kept = next(kept for kept in judge.memory.touches.values() if kept)
    kept.pop()
    return True


def _gone(judge: LockstepChecker) -> bool:
    judge.actors[0].gone = not judge.actors[0].gone
    return True


def _collective(judge: LockstepChecker) -> bool:
    a = next(a for a in judge.actors if a.info.count < 32)  # the other lanes of its warp did not
    a.collectives.append((0, int(Ev.ELECT), ()))
    return True


def _meeting(judge: LockstepChecker) -> bool:
    judge.meetings[("n", 0, 7)] = Meeting(arrived={0: 1}, threads=64)
    return True


CHANGES = [
    _parity, _pending, _bytes, _waits, _forgets, _unbridged, _touch, _gone, _collective, _meeting,
]  # fmt: skip


def test_how_far_a_class_is_behind_is_neither_distinguished_nor_used() -> None:
    """A class has not executed a store that another executed once, or twice: its first is like no other."""
    judge = prefix("depth/odd_trip_count.good", 75)
    other, site = judge.fork(), 10**6
    for state, times in ((judge, 1), (other, 2)):
        state.actors[0].executions[site] = times
    assert form(judge) == form(other)
    first = Touch(Access.GENERIC_WRITE, 0, 1, judge.info.footprints[0], site, execution=2)
    late = replace(first, cls=1, execution=other.actors[1].executions[site])
    memory = Memory(replace(judge.info, varies=lambda _: EACH_TIME), [])
    assert memory.one_value(first, replace(first, cls=1), 0, 1)
    with pytest.raises(NotJudgedError):
        memory.one_value(first, late, 0, 1)
