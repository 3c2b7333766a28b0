"""What is known along one execution, as explicit sets, and the accesses that nothing orders."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from syncverify.base.diagnostics import Policy
from syncverify.model.events import Ev, Flag
from syncverify.model.proxies import Space
from tests.system.oracle.machine import Async, Machine, State


@dataclass
class Known:
    """Operations in the causal past, and those among them that are bridged to the async proxy."""

    h: set[tuple[Any, ...]] = field(default_factory=set)
    a: set[tuple[Any, ...]] = field(default_factory=set)

    def copy(self) -> Known:
        return Known(set(self.h), set(self.a))

    def join(self, other: Known) -> None:
        self.h |= other.h
        self.a |= other.a


@dataclass
class Touch:
    """One access: who, which bytes, and the knowledge it was made with."""

    node: tuple[Any, ...]
    kind: str  # GR GW AT AR AW CW
    fp: int
    known: Known
    use: tuple[Any, ...] | None = None
    fence: tuple[Any, ...] | None = None


def find_race(machine: Machine, state: State, policy: Policy) -> str | None:
    """Follows one complete execution with explicit sets; the first pair of accesses that nothing orders."""
    touches: list[Touch] = []
    known = [Known() for _ in machine.threads]
    issue: dict[int, Known] = {}
    released: dict[tuple[int, int], Known] = {}  # (barrier, phase) -> what its release arrivals brought
    met: dict[tuple[int, int], Known] = {}  # (named barrier, generation) -> what its members brought
    at_fence: dict[int, Known] = {}
    pending_acquire: dict[int, Known] = {}
    inits: dict[int, tuple[Any, ...]] = {}
    arrived: set[tuple[int, int]] = set()
    by_site: dict[tuple[int, int], list[int]] = {}
    for i, a in enumerate(state.asyncs):
        by_site.setdefault((a.thread, a.pc), []).append(i)
    for step in state.trace:
        if step[0] == "async":
            land_known(state, step, known, issue, released, touches)
            continue
        t, pc = step
        e = machine.threads[t][2][pc]
        code, node, mine = e[0], (t, pc), known[t]
        used = [e[2]] if code in BARRIER_USES else [bar for _, bar, _ in e[2]] if code == Ev.BULK_LOAD else []
        if any(b in inits and inits[b] not in mine.h for b in used):
            return f"barriers {used} are used where an init is not visible"
        if code in (Ev.READ, Ev.WRITE, Ev.ATOMIC):
            kind = {Ev.READ: "GR", Ev.WRITE: "GW", Ev.ATOMIC: "AT"}[code]
            touches.append(
                Touch(
                    node,
                    kind,
                    e[2],
                    mine.copy(),
                    use=use_of(machine, t, pc),
                    fence=fence_after(machine, t, pc),
                )
            )
        elif code == Ev.INIT:
            inits[e[2]] = node
        elif code == Ev.FENCE:
            if t in pending_acquire:
                mine.join(pending_acquire.pop(t))
        elif code == Ev.PROXY_FENCE and e[2] & Space.SHARED_CTA:
            mine.h.add(node)
            mine.a |= {n for n in mine.h if policy is Policy.PRACTICAL or n[0] == t}
        elif code == Ev.ARRIVE:
            phase = state.landing.get(node, 0)
            bring = at_fence.get(t) if e[5] & Flag.RELAXED else Known(mine.h | {node}, mine.a)
            if bring is not None:
                released.setdefault((e[2], phase), Known()).join(bring)
        elif code in (Ev.WAIT, Ev.WAIT_TOKEN):
            got = Known()
            last = state.landing.get(node, -1)
            for (b, k), r in released.items():
                if b == e[2] and (k == last or (k < last and policy is Policy.PRACTICAL)):
                    got.join(r)
            if e[4] & Flag.RELAXED:
                pending_acquire.setdefault(t, Known()).join(got)
            else:
                mine.join(got)
        elif code in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE, Ev.WARP_SYNC):
            ident = -1 - machine.warp_of[t] if code == Ev.WARP_SYNC else e[2]
            gen = state.landing.get(node, 0)
            if (t, pc) in arrived:
                mine.join(met[ident, gen])
            else:
                arrived.add((t, pc))
                met.setdefault((ident, gen), Known()).join(Known(mine.h | {node}, mine.a))
                if code != Ev.BARRIER_ARRIVE:
                    continue
        elif code in (Ev.CP_WAIT, Ev.BULK_WAIT):
            kind = "cp" if code == Ev.CP_WAIT else "bulk"
            groups = state.groups.get((t, kind), ())
            before = sum(
                1
                for q in range(pc)
                if machine.threads[t][2][q][0] == (Ev.CP_COMMIT if kind == "cp" else Ev.BULK_COMMIT)
            )
            if kind == "cp" and e[2] < 0:
                covered = [
                    i for i, a in enumerate(state.asyncs) if a.thread == t and a.kind == "cp" and a.pc < pc
                ]
            else:
                covered = [i for g in groups[: max(0, before - e[2])] for i in g]
            mine.h |= {("async", i) for i in covered}
        for i in by_site.get((t, pc), ()):
            issue[i] = mine.copy()
        mine.h.add(node)
        if code == Ev.FENCE:
            at_fence[t] = mine.copy()
    for i, a in enumerate(state.asyncs):  # what has not landed yet touches its bytes all the same
        if i in issue and a.pieces and not any(x.node == ("async", i) for x in touches):
            touches += async_touches(i, a, issue[i])
    return conflict(machine, touches, policy)


BARRIER_USES = frozenset(
    {Ev.ARRIVE, Ev.EXPECT_TX, Ev.COMPLETE_TX, Ev.WAIT, Ev.WAIT_TOKEN, Ev.INVAL, Ev.CP_ARRIVE}
)


def async_touches(i: int, a: Async, known: Known) -> list[Touch]:
    kind = {"load": "AW", "store": "AR", "cp": "CW", "cparrive": ""}[a.kind]
    return [Touch(("async", i), kind, fp, known) for fp in (*a.writes, *a.reads)]


def land_known(state: State, step: tuple[Any, ...], known: list[Known], issue: dict[int, Known],
               released: dict[tuple[int, int], Known], touches: list[Touch]) -> None:  # fmt: skip
    """A completion brings its own accesses, never its issuer's past (A9)."""
    _, i, left = step
    a = state.asyncs[i]
    if not any(x.node == ("async", i) for x in touches):
        touches += async_touches(i, a, issue[i])
    if a.bar < 0 or left:
        return
    phase = state.landing.get(("async", a.thread, a.pc, a.bar, left))
    if phase is None:
        return
    own = {("async", j) for j in a.after} if a.kind == "cparrive" else {("async", i)}
    released.setdefault((a.bar, phase), Known()).join(Known(own, set()))


def use_of(machine: Machine, t: int, pc: int) -> tuple[Any, ...] | None:
    """The node where a read's value is first used; the read itself if at once."""
    events = machine.threads[t][2]
    e = events[pc]
    if e[0] != Ev.READ or e[3] < 0:
        return (t, pc)
    return next(
        ((t, q) for q in range(pc + 1, len(events)) if events[q][0] == Ev.USE and events[q][2] == e[3]), None
    )


def fence_after(machine: Machine, t: int, pc: int) -> tuple[Any, ...] | None:
    events = machine.threads[t][2]
    return next(((t, q) for q in range(pc + 1, len(events)) if events[q][0] == Ev.FENCE), None)


WRITES = frozenset({"GW", "AT", "AW", "CW"})


def conflict(machine: Machine, touches: list[Touch], policy: Policy) -> str | None:
    """Two accesses race unless a chain orders them whose inner accesses all write the same bytes."""
    for lo, hi in cells(machine, touches):
        here = [x for x in touches if any(a < hi and lo < b for a, b in spans(machine, x))]
        order: nx.DiGraph[int] = nx.DiGraph()
        order.add_nodes_from(range(len(here)))
        order.add_edges_from(
            (i, j)
            for i, first in enumerate(here)
            for j, second in enumerate(here)
            if i != j and ordered(first, second, policy)
        )
        for j, second in enumerate(here):
            for i, first in enumerate(here[:j]):
                if not races(first, second) or order.has_edge(i, j) or order.has_edge(j, i):
                    continue
                keep = [k for k, x in enumerate(here) if x.kind in WRITES or k in (i, j)]
                chain = order.subgraph(keep)
                if not (nx.has_path(chain, i, j) or nx.has_path(chain, j, i)):
                    return f"{first.kind} {first.node} and {second.kind} {second.node}"
    return None


def races(first: Touch, second: Touch) -> bool:
    """Do the two accesses conflict if nothing orders them?"""
    if first.node == second.node or (first.kind, second.kind) == ("AT", "AT"):
        return False
    return first.kind in WRITES or second.kind in WRITES


def cells(machine: Machine, touches: list[Touch]) -> list[tuple[int, int]]:
    """The ranges of bytes that every access touches wholly or not at all."""
    edges = sorted({edge for x in touches for span in spans(machine, x) for edge in span})
    return list(itertools.pairwise(edges))


def spans(machine: Machine, touch: Touch) -> list[tuple[int, int]]:
    fp = machine.info.footprints[touch.fp]
    if not fp.lanes or touch.node[0] == "async":
        return list(fp.intervals)
    lane = machine.threads[touch.node[0]][1]
    return [(lo, hi) for lo, hi, who in fp.lanes if who == lane]


def ordered(first: Touch, second: Touch, policy: Policy) -> bool:
    """Section C of the rulebook: does the second access know the first one as it must?"""
    if first.node not in second.known.h:
        return False
    if second.kind not in ("AW", "AR") or first.kind in ("AW", "AR"):
        return True
    if first.kind == "CW":
        return policy is Policy.PRACTICAL or first.node in second.known.a  # K6
    if first.node in second.known.a:
        return True
    return (
        policy is Policy.PRACTICAL
        and first.kind == "GR"
        and any(n is not None and n in second.known.h | {first.node} for n in (first.use, first.fence))
    )  # K1
