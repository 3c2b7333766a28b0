"""What the picture of a schedule shows: lanes, copies, arrows, barriers and the circle of waits.

A *lane* is a row of the picture: threads of one block that execute the same steps, or the asynchronous
operations that they issue. A column is one step of the schedule. All positions are indices of steps.

Worked example. Thread 0 initializes ``b``, announces bytes and issues a copy; the copy completes; a warp
waits for ``b``. The view has three lanes (thread 0, its copies, the warp). One copy lies between its issue
and its completion. One arrow leads from the completion to the wait. The barrier is in phase 0, then in 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from syncverify.base.diagnostics import BarrierState, Step, StepKind, Witness

#: Steps that bring a phase nearer to its completion.
CONTRIBUTIONS = frozenset({StepKind.ARRIVE, StepKind.EXPECT, StepKind.COMPLETION})

_AGENT = re.compile(r"cta(\d+)\.warp(\d+)\.lanes([\d,-]+)(?:\.async\d+)?$")


@dataclass(frozen=True, slots=True)
class Lane:
    """A row: its label, its block, and whether its steps are completions of asynchronous operations."""

    label: str
    cta: int
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """An asynchronous operation: its lane, the steps of its issue and of its completion (None: in flight)."""

    lane: int
    issue: int
    completion: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A contribution to a phase and a wait that saw the phase complete; ``last``: it completed the phase."""

    start: int
    end: int
    last: bool


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A barrier between two of its steps: what it holds from step ``start`` on."""

    start: int
    state: BarrierState


@dataclass(frozen=True, slots=True)
class View:
    """The picture of one witness. ``lane_of`` gives each step's lane; ``waiting`` each blocked agent's."""

    lanes: tuple[Lane, ...]
    lane_of: tuple[int, ...]
    copies: tuple[Copy, ...]
    arrows: tuple[Arrow, ...]
    barriers: Mapping[str, tuple[PhaseSpan, ...]]
    waiting: tuple[int, ...]
    cycle: tuple[int, ...]


def view_of(witness: Witness) -> View:
    """The picture of a witness."""
    threads = _thread_lanes(witness)
    found = {Lane(label, cta, False) for label, cta in threads.values()}
    found |= {
        Lane(threads[_issuer(s.agent)][0], threads[_issuer(s.agent)][1], True)
        for s in witness.steps
        if s.kind in (StepKind.COMPLETION, StepKind.ISSUE)
    }
    lanes = sorted(found, key=lambda lane: (lane.cta, _first_warp(lane.label), lane.label, lane.asynchronous))
    index = {lane: i for i, lane in enumerate(lanes)}

    def lane_of(agent: str, asynchronous: bool) -> int:
        label, cta = threads[_issuer(agent)]
        return index[Lane(label, cta, asynchronous)]

    waiting = {b.agent: lane_of(b.agent, False) for b in witness.blocked}
    return View(
        lanes=tuple(lanes),
        lane_of=tuple(lane_of(s.agent, s.kind is StepKind.COMPLETION) for s in witness.steps),
        copies=tuple(_copies(witness.steps, lane_of)),
        arrows=tuple(_arrows(witness.steps)),
        barriers=_barriers(witness.steps),
        waiting=tuple(waiting[b.agent] for b in witness.blocked),
        cycle=_cycle(witness, waiting),
    )


def _issuer(agent: str) -> str:
    """The threads behind an agent: of an asynchronous operation those that issued it."""
    return agent.split(".async")[0]


def _first_warp(label: str) -> int:
    found = re.search(r"\d+", label)
    return int(found.group()) if found else 0


# ---------------------------------------------------------------- lanes


def _thread_lanes(witness: Witness) -> dict[str, tuple[str, int]]:
    """Label and block of each agent: agents of one block with the same steps share a label."""
    done: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for s in witness.steps:
        if s.kind is not StepKind.COMPLETION:
            done[_issuer(s.agent)].append((s.span.line, s.op))
    for b in witness.blocked:
        done[_issuer(b.agent)].append((b.span.line, b.waits_on))
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for agent in sorted({_issuer(s.agent) for s in witness.steps} | set(done), key=_order):
        alike[_order(agent)[0], _order(agent)[2], tuple(done[agent])].append(agent)
    out: dict[str, tuple[str, int]] = {}
    for agents in alike.values():
        label = _label(agents)
        for agent in agents:
            out[agent] = (label, _order(agent)[0])
    return dict(sorted(out.items(), key=lambda item: _order(item[0])))


def _order(agent: str) -> tuple[int, int, str]:
    found = _AGENT.match(agent)
    return (int(found[1]), int(found[2]), found[3]) if found else (0, 0, agent)


def _label(agents: Sequence[str]) -> str:
    """``warps 4-7``, or ``warp 0 lanes 1-31``."""
    warps = sorted({_order(a)[1] for a in agents})
    lanes = _order(agents[0])[2]
    if not _AGENT.match(agents[0]):
        return agents[0]
    which = f"warp {warps[0]}" if len(warps) == 1 else f"warps {_ranges(warps)}"
    return which if lanes == "0-31" else f"{which} lane{'s' if re.search('[,-]', lanes) else ''} {lanes}"


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


# ---------------------------------------------------------------- copies, arrows, barriers


def _copies(steps: Sequence[Step], lane: Callable[[str, bool], int]) -> Iterator[Copy]:
    ended = {s.issued_by: i for i, s in enumerate(steps) if s.issued_by is not None}
    for i, s in enumerate(steps):
        if s.kind is StepKind.ISSUE:
            yield Copy(lane(s.agent, True), i, ended.get(i), s.op)


def _arrows(steps: Sequence[Step]) -> Iterator[Arrow]:
    """Contributions of a phase to every wait that saw it complete."""
    phase: dict[str, int] = defaultdict(int)
    given: dict[tuple[str, int], list[int]] = defaultdict(list)
    for i, s in enumerate(steps):
        if s.barrier is None:
            continue
        if s.kind in CONTRIBUTIONS and s.state is not None:
            given[s.barrier, phase[s.barrier]].append(i)
        if s.kind is StepKind.WAIT and s.phase is not None:
            sources = given[s.barrier, s.phase]
            yield from (Arrow(j, i, j == sources[-1]) for j in sources)
        if s.state is not None:
            phase[s.barrier] = s.state.phase


def _barriers(steps: Sequence[Step]) -> dict[str, tuple[PhaseSpan, ...]]:
    spans: dict[str, list[PhaseSpan]] = defaultdict(list)
    for i, s in enumerate(steps):
        if s.barrier is None or s.state is None:
            continue
        known = spans[s.barrier]
        if not known or known[-1].state != s.state:
            known.append(PhaseSpan(i, s.state))
    return {name: tuple(found) for name, found in sorted(spans.items(), key=lambda item: item[1][0].start)}


# ---------------------------------------------------------------- who waits for whom


def _cycle(witness: Witness, lane_of: Mapping[str, int]) -> tuple[int, ...]:
    """Lanes that wait for each other in a circle, as far as the steps show who contributes to which barrier.

    A lane waits for those that have contributed to its barrier before; none where that closes no circle.
    """
    import networkx as nx  # only a hang needs it, and it takes a tenth of a second to load

    gives: dict[str, set[int]] = defaultdict(set)
    for s in witness.steps:
        issuer = _issuer(s.agent)
        if s.barrier is not None and s.kind in CONTRIBUTIONS and issuer in lane_of:
            gives[s.barrier].add(lane_of[issuer])
    graph = nx.DiGraph()
    for b in witness.blocked:
        for other in gives[b.waits_on] - {lane_of[b.agent]}:
            graph.add_edge(lane_of[b.agent], other)
    try:
        return tuple(a for a, _ in nx.find_cycle(graph))
    except (nx.NetworkXNoCycle, nx.NetworkXError):
        return ()
