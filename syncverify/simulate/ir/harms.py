"""What can go wrong in a launch, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from syncverify.base.diagnostics import Blocked, Step
from syncverify.base.source import Span
from syncverify.simulate.ir.machine import Machine
from syncverify.simulate.ir.program import Event, Op, Program
from syncverify.simulate.ir.state import END, State


@dataclass(frozen=True, slots=True)
class Harm:
    """What can go wrong: ``kind`` is the claim of ``diagnostics.Claim``, ``rule`` its likely rule id."""

    kind: str
    rule: str
    message: str
    span: Span
    other: Span | None = None
    agent: str = ""
    block: int = 0
    elected_lane: int = 0
    schedule: tuple[Step, ...] = ()
    blocked: tuple[Blocked, ...] = ()


@dataclass(frozen=True, slots=True)
class Exploration:
    """The harms of a launch. ``complete``: nothing was left out; ``unsupported``: why nothing was tried."""

    harms: tuple[Harm, ...]
    complete: bool
    states: int
    unsupported: str | None = None
    #: The order violations among the harms: what lands in different phases in different executions, or
    #: leaves a phase open. Practical mode only warns of them.
    differences: tuple[Harm, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(h.kind for h in self.harms)

    @property
    def rules(self) -> frozenset[str]:
        return frozenset(h.rule for h in self.harms)


@dataclass
class Result:
    harms: dict[tuple[object, ...], Harm] = field(default_factory=dict)
    differences: dict[tuple[object, ...], Harm] = field(default_factory=dict)
    states: int = 0
    complete: bool = True


def hang_rule(events: Iterable[Event]) -> str:
    """The family of a hang, by what the blocked ones wait for; a missed mbarrier explains the rest."""
    events = tuple(events)
    ops = {e.op for e in events}
    if ops & {Op.WAIT, Op.WAIT_TOKEN}:
        return "SV210"
    if Op.REGISTERS in ops:
        return "SV304"
    if Op.BAR_SYNC in ops:
        return "SV302" if any(e.op is Op.BAR_SYNC and not e.n for e in events) else "SV301"
    if Op.CLUSTER_WAIT in ops:
        return "SV302"
    return "SV303" if ops & {Op.WARP_SYNC, Op.WGMMA_WAIT} else "SV210"


def blocked(p: Program, s: State) -> tuple[Blocked, ...]:
    """Who can never go on, and what is missing."""
    out: list[Blocked] = []
    for g, node in enumerate(s.node):
        if node == END:
            continue
        e = p.events[node]
        phase: int | None = None
        why = "nobody else arrives"
        on = e.text
        if e.bar >= 0:
            b = s.bars[e.bar]
            phase = b.phase
            on = p.bars[e.bar].name
            why = f"phase {b.phase} misses {b.pending} of {b.expected} arrivals and {b.tx} bytes"
        out.append(Blocked(p.groups[g].name, e.span, on, phase, why))
    return tuple(out)


def steps(p: Program, m: Machine) -> tuple[Step, ...]:
    """A log as witness steps, one a statement."""
    out: list[Step] = []
    for g, node, op, phase in m.log or ():
        if op >= 0:
            a = p.asyncs[op]
            who, what = f"{p.groups[g].name}.async{a.seq}", f"completion of {a.text}"
            out.append(Step(who, a.span, what, p.bars[a.bar].name, phase))
            continue
        e = p.events[node]
        if not e.ends or e.op in (Op.SETTLE, Op.EXIT):
            continue
        bar = p.bars[e.bar].name if e.bar >= 0 else None
        out.append(Step(p.groups[g].name, e.span, e.text, bar, phase if phase >= -1 and bar else None))
    return tuple(out)
