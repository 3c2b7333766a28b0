"""Minimizing PTX and CUDA kernels: synchronizing operations are dropped from the agents' events.

The text is never changed. What can go holds for the launch values of the check, all of it together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.diagnostics import SCHEMA_VERSION, KernelReport, Policy, ScopeKind, Verdict
from syncverify.checker.explain.redundancy import Changed, Drop, Passed, Place
from syncverify.checker.outcome import Outcome
from syncverify.driver.files import SourceFile
from syncverify.driver.ptx.check import Checker, check_module
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.minimize.reasons import Reason
from syncverify.model.events import Ev, Event, Flag, System, ThreadClass

#: Events that the checks of one kernel may take together; what is not reached by then is listed as not tried.
MAX_EVENTS = 3_000_000

SYNC = frozenset({
    Ev.INIT, Ev.INVAL, Ev.ARRIVE, Ev.EXPECT_TX, Ev.COMPLETE_TX, Ev.WAIT, Ev.WAIT_TOKEN, Ev.INIT_FENCE,
    Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE, Ev.WARP_SYNC, Ev.CLUSTER_ARRIVE, Ev.CLUSTER_WAIT,
    Ev.FENCE, Ev.PROXY_FENCE, Ev.CP_COMMIT, Ev.CP_WAIT, Ev.CP_ARRIVE, Ev.BULK_COMMIT, Ev.BULK_WAIT,
    Ev.WGMMA_FENCE, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT, Ev.SPIN, Ev.GRID_WAIT,
})  # fmt: skip
_GLOBAL_READS = {Ev.GLOBAL_READ: 2, Ev.BULK_LOAD: 3, Ev.CP_ASYNC: 3, Ev.GLOBAL_ATOMIC: 2, Ev.SPIN: 2}
_GLOBAL_WRITES = {Ev.GLOBAL_WRITE: 2, Ev.BULK_STORE: 3, Ev.GLOBAL_ATOMIC: 2}


@dataclass(frozen=True, slots=True)
class MinimizedPtx:
    """What came of one entry; places are (line of the source, its text)."""

    report: KernelReport
    total: int = 0
    removed: tuple[Place, ...] = ()
    kept: tuple[tuple[Place, Reason], ...] = ()
    untried: tuple[Place, ...] = ()

    @property
    def needed(self) -> int:
        """Operations without any one of which the kernel is not proved."""
        return self.total - len(self.removed) - len(self.kept) - len(self.untried)


def minimize_module(
    source: SourceFile,
    facts: LaunchFacts,
    values: Mapping[str, int],
    wanted: str | None,
    policy: Policy,
    budget: int = MAX_EVENTS,
) -> list[MinimizedPtx]:
    """Every entry that ``wanted`` matches; what is not proved for these values is left as it is."""
    assert source.module is not None
    systems: dict[str, list[System]] = {}

    def judge(system: System, policy: Policy) -> Outcome:
        outcome = run_system(system, policy)
        if outcome.verdict is Verdict.PROVED:
            systems.setdefault(system.info.name, []).append(system)
        return outcome

    reports = check_module(
        source.module,
        facts,
        policy,
        Checker(judge),
        kernel=wanted,
        values=values,
        source_hash=source.hash,
        scope=ScopeKind.EXACT,
    )
    return [
        _minimized(r, systems.get(r.name, []), lambda s: run_system(s, policy), budget)
        if r.verdict is Verdict.PROVED
        else MinimizedPtx(r)
        for r in reports
    ]


def _minimized(
    report: KernelReport, systems: Sequence[System], judge: Callable[[System], Outcome], budget: int
) -> MinimizedPtx:
    seen = _Seen()
    known = {(d.rule, d.span) for d in report.diagnostics}
    for s in systems:
        seen.system = s
        known |= {(d.rule, d.span) for d in judge(Changed(s, (seen,))).diagnostics}
    affordable = budget // max(seen.events, 1)
    gone: tuple[Drop, ...] = ()
    kept: list[tuple[Place, Reason]] = []
    untried: list[Place] = []
    for place in seen.places:
        affordable -= 1
        if affordable < 0:
            untried.append(place)
            continue
        outcomes = _outcomes(systems, (*gone, Drop(place)), judge)
        if outcomes is None:
            continue
        if not {(d.rule, d.span) for o in outcomes for d in o.diagnostics} <= known:
            kept.append((place, Reason.CONTESTED))
        elif seen.exchanges:
            kept.append((place, Reason.GLOBAL))
        elif seen.places[place] == Ev.WGMMA_FENCE:
            kept.append((place, Reason.ASSEMBLER))
        else:
            gone = (*gone, Drop(place))
    return MinimizedPtx(report, len(seen.places), tuple(d.place for d in gone), tuple(kept), tuple(untried))


def _outcomes(
    systems: Sequence[System], drops: tuple[Drop, ...], judge: Callable[[System], Outcome]
) -> list[Outcome] | None:
    """The outcomes of the changed systems, if all are proved."""
    found: list[Outcome] = []
    for s in systems:
        outcome = judge(Changed(s, drops))
        if outcome.verdict is not Verdict.PROVED:
            return None
        found.append(outcome)
    return found


@dataclass(slots=True)
class _Seen:
    """Notes the synchronizing operations and the global memory that the agents use, and changes nothing."""

    system: System | None = None
    places: dict[Place, int] = field(default_factory=dict)
    events: int = 0
    read: set[tuple[int, int]] = field(default_factory=set)
    written: set[tuple[int, int]] = field(default_factory=set)
    untracked: set[str] = field(default_factory=set)

    def apply(self, event: Event, place: Place, held: Any, cls: ThreadClass) -> Passed:
        code = event[0]
        self.events += 1
        if code in SYNC and not _answers(event):
            self.places.setdefault(place, code)
        for what, table, ranges in (
            ("read", _GLOBAL_READS, self.read), ("written", _GLOBAL_WRITES, self.written)
        ):  # fmt: skip
            if code in table:
                fp = event[table[code]]
                assert self.system is not None
                if fp < 0:
                    self.untracked.add(what)
                else:
                    ranges.update(self.system.info.footprints[fp].intervals)
        return (event,), None

    @property
    def exchanges(self) -> bool:
        """Whether some global byte may be both written and read: what orders that, no proof covers."""
        if "read" in self.untracked:
            return bool(self.written) or "written" in self.untracked
        if "written" in self.untracked:
            return bool(self.read)
        pieces = sorted([(lo, hi, 0) for lo, hi in self.read] + [(lo, hi, 1) for lo, hi in self.written])
        reach = [-1, -1]
        for lo, hi, kind in pieces:
            if lo < reach[1 - kind]:
                return True
            reach[kind] = max(reach[kind], hi)
        return False


def _answers(event: Event) -> bool:
    """Whether the agent reads something from the operation, and so could not go on without it."""
    code = event[0]
    if code == Ev.ARRIVE:
        return bool(event[5] & Flag.TOKEN)
    return bool(code == Ev.BARRIER_SYNC and event[4] & Flag.RED)


# ---------------------------------------------------------------- reports


def text(found: Iterable[MinimizedPtx]) -> str:
    """A paragraph for each entry: the count, what can go, and what stays though it need not."""
    return "".join(f"{line}\n" for m in found for line in _paragraph(m))


def _paragraph(m: MinimizedPtx) -> Iterator[str]:
    r = m.report
    if r.verdict is not Verdict.PROVED:
        yield f"{r.name}: {r.verdict}, so nothing was left out: see syncverify check"
        return
    yield f"{r.name}: {m.needed} of {m.total} synchronizing operations are needed (these values, {r.policy})"
    for span, what in m.removed:
        yield f"  {span.file}:{span.line}: can go: {what}"
    for (span, what), reason in m.kept:
        yield f"  {span.file}:{span.line}: stays: {what}"
        yield f"    {reason.text}"
    if m.untried:
        yield f"  {len(m.untried)} were not tried: the kernel has too many events"


def as_json(found: Iterable[MinimizedPtx], policy: Policy) -> str:
    """The same object as for a .syncir file; ``untried`` lists what was not reached."""
    kernels = [
        {
            "name": m.report.name,
            "file": m.report.file,
            "verdict": str(m.report.verdict),
            "reason": m.report.reason,
            "scope": {
                "kind": str(m.report.scope.kind),
                "values": dict(m.report.scope.values),
                "assume": list(m.report.scope.assume),
            },
            "statements": m.total,
            "needed": m.needed,
            "removable": [[_place(p)] for p in m.removed],
            "kept": [{"statements": [_place(p)], "reason": str(reason)} for p, reason in m.kept],
            "untried": [_place(p) for p in m.untried],
        }
        for m in found
    ]
    data = {"schema_version": SCHEMA_VERSION, "policy": str(policy), "kernels": kernels}
    return json.dumps(data, indent=2) + "\n"


def _place(place: Place) -> dict[str, Any]:
    return {"line": place[0].line, "text": place[1]}
