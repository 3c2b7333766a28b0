"""What orders what, and what has to be ordered: the theory of ``docs/theory.md`` on operations with counters.

A ``Step`` is one execution of one operation, its counter a linear form. ``hop`` gives the constraints
under which one step directly precedes another; ``obligations`` all that a proof needs paths for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from syncverify.checker.prover.rings.agents import Program
from syncverify.checker.prover.rings.linear import Lin, OutsideError, num, var
from syncverify.checker.prover.rings.program import (
    FIRST,
    SECOND,
    Op,
    Ring,
    Touch,
    highs,
    lows,
    single,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access

Half = Literal["in", "out", "done"]
_GROUPS = {"store": ("commit", "drain"), "mma": ("mma_commit", "mma_drain")}
_MEETINGS = ("meet", "warp_meet")
_ENABLE_ONLY = ("mma", "mma_commit", "mma_drain")
_HALVES = {"in": 0, "out": 1}


@dataclass(frozen=True, slots=True)
class Step:
    """Operation ``op`` of agent ``agent`` at counter ``at``: entered, left, or (asynchronous) complete."""

    agent: int
    op: int
    half: Half
    at: Lin


@dataclass(frozen=True, slots=True)
class Turns:
    """Which turn of its ring an operation belongs to.

    By statement: an arrival, announcement or copy belongs to ``index + shift * depth``, a wait means
    ``index - lag * depth``. Turns 0 to ``end - 1`` of a ring are complete in the end, others get nothing.
    """

    shift: dict[tuple[int, ...], int]
    lag: dict[tuple[int, ...], int]
    end: dict[Ring, Lin]


@dataclass(frozen=True, slots=True)
class Obligation:
    """A path is owed from ``start``, for all counters that meet ``given``.

    To ``goal``, or, if it is None, to some contribution to ``ring`` whose turn is ``turn``, or, if that is
    None too, to any wait that shows the start over. ``causal``: visibility, not only enablement. ``bridge``:
    through a proxy fence, or from the ``use`` of the read. ``crosses``: between different lanes.
    """

    name: str
    start: Step
    given: tuple[Lin, ...]
    goal: Step | None = None
    ring: Ring | None = None
    turn: Lin = field(default_factory=Lin)
    causal: bool = False
    bridge: bool = False
    crosses: bool = False


def op_of(p: Program, s: Step) -> Op:
    return p.agents[s.agent].ops[s.op]


def depth(p: Program, ring: Ring) -> Lin:
    return p.depths[ring[0]] if ring[1] is None else num(1)


def turn(p: Program, t: Turns, op: Op, at: Lin) -> Lin:
    """The turn that a contribution belongs to or a wait means."""
    assert op.ring is not None
    moved = -t.lag[op.statement] if op.kind == "wait" else t.shift[op.statement]
    return op.index.put({FIRST: at}) + depth(p, op.ring).scaled(moved)


def exists(op: Op, at: Lin) -> tuple[Lin, ...]:
    return tuple(c.put({FIRST: at}) for c in op.domain)


def equal(a: Lin, b: Lin) -> tuple[Lin, ...]:
    d = a - b
    if not d.terms:
        return () if not d.const else (num(-1),)
    return d, d.scaled(-1)


# ---------------------------------------------------------------- hops


def before(a: Op, b: Op, half_a: Half, half_b: Half) -> int | None:
    """By how much the counter must grow from ``a`` to ``b`` of one agent; None: by nothing, or never."""
    later = (b.place, _HALVES[half_b]) > (a.place, _HALVES[half_a])
    return 0 if later else 1


#: Whether a hop is between agents, and the constraints under which it holds; None if it never does.
_Hop = tuple[bool, tuple[Lin, ...]] | None


def hop(p: Program, t: Turns, a: Step, b: Step, first: bool) -> _Hop:
    """The hop from one step to another.

    ``first``: ``a`` starts the path, so that a copy's completion may carry the copy itself.
    """
    x, y = op_of(p, a), op_of(p, b)
    meets = x.kind == y.kind and x.kind in _MEETINGS and a.half == "in"
    if a.agent == b.agent and "done" not in (a.half, b.half) and not (meets and x is y and a.at == b.at):
        return _in_program_order(p, a, b)
    if meets and b.half == "out":
        return _through_a_meeting(p, a, b)
    return _to_a_wait(p, t, a, b, first=first) if y.kind == "wait" else _to_a_drain(p, a, b)


def _in_program_order(p: Program, a: Step, b: Step) -> _Hop:
    """Two steps of one agent."""
    x, y = op_of(p, a), op_of(p, b)
    there = exists(y, b.at)
    if x.segment != y.segment:
        return (False, there) if x.segment < y.segment else None
    return False, (*there, b.at - a.at - (before(x, y, a.half, b.half) or 0))


def _through_a_meeting(p: Program, a: Step, b: Step) -> _Hop:
    """From who comes to a barrier of threads to who leaves it."""
    x, y = op_of(p, a), op_of(p, b)
    near = x.kind == "meet" or p.agents[a.agent].warp == p.agents[b.agent].warp
    if x.statement != y.statement or not near:
        return None
    return True, (*exists(y, b.at), *equal(a.at, b.at))


def _to_a_wait(p: Program, t: Turns, a: Step, b: Step, *, first: bool) -> _Hop:
    """From an arrival, or the copy that the path begins with, to the wait for its turn."""
    x, y = op_of(p, a), op_of(p, b)
    arrives = x.kind == "arrive" and a.half == "out"
    copies = x.kind == "copy" and a.half == "done" and first
    if b.half != "out" or x.ring != y.ring or not (arrives or copies):
        return None
    return True, (*exists(y, b.at), *equal(turn(p, t, x, a.at), turn(p, t, y, b.at)))


def _to_a_drain(p: Program, a: Step, b: Step) -> _Hop:
    """From what is complete in a group to the drain of its agent, or of a warp of its warpgroup."""
    x, y = op_of(p, a), op_of(p, b)
    if a.half != "done" or b.half != "out" or x.kind not in _GROUPS or y.kind != _GROUPS[x.kind][1]:
        return None
    joint = x.kind == "mma" and p.agents[a.agent].warp // 4 == p.agents[b.agent].warp // 4
    return (True, (*exists(y, b.at), *drained(p, a, b))) if a.agent == b.agent or joint else None


def enabling(p: Program, t: Turns, a: Step, b: Step) -> tuple[bool, tuple[Lin, ...]] | None:
    """Hops that order in time without making anything visible."""
    found = hop(p, t, a, b, True)
    if found is not None:
        return found
    x, y = op_of(p, a), op_of(p, b)
    there = exists(y, b.at)
    if x is y and a.agent == b.agent and (a.half, b.half) == ("out", "done"):
        return True, (*there, *equal(a.at, b.at))
    if x.kind == "expect" and y.kind == "wait" and (a.half, b.half) == ("out", "out") and x.ring == y.ring:
        return True, (*there, *equal(turn(p, t, x, a.at), turn(p, t, y, b.at)))
    if x.kind == y.kind and x.kind in _ENABLE_ONLY and (a.half, b.half) == ("in", "out"):
        if x.statement == y.statement and p.agents[a.agent].warp == p.agents[b.agent].warp:
            return True, (*there, *equal(a.at, b.at))
    return None


def drained(p: Program, a: Step, b: Step) -> tuple[Lin, ...]:
    """When the groups that ``b`` waits for include the one that operation ``a`` is committed to."""
    x, y = op_of(p, a), op_of(p, b)
    commits, theirs = ([o for o in p.agents[s.agent].ops if o.kind == _GROUPS[x.kind][0]] for s in (a, b))
    if [(o.statement, o.domain) for o in commits] != [(o.statement, o.domain) for o in theirs]:
        raise OutsideError("warps of a warpgroup that commit different groups")
    after = [o for o in commits if o.segment == x.segment and o.place > x.place]
    if not after:
        return (num(-1),)
    earlier = [o for o in commits if o.segment == x.segment and o.place <= after[0].place]
    number, needs = _committed(commits, x.segment, a.at, len(earlier))
    seen = [o for o in theirs if o.segment == y.segment and o.place < y.place]
    total, more = _committed(theirs, y.segment, b.at, len(seen))
    return (*needs, *more, *exists(after[0], a.at), total - y.index.put({FIRST: b.at}) - number)


def _committed(commits: list[Op], segment: int, at: Lin, here: int) -> tuple[Lin, tuple[Lin, ...]]:
    """The commits up to an iteration of a segment, ``here`` of them in it, and what must hold to
    count them.
    """
    total, needs = num(here), []
    for s in sorted({o.segment for o in commits if o.segment <= segment}):
        some = [o for o in commits if o.segment == s]
        if (
            len({o.domain for o in some}) > 1
            or len(some[0].domain) != 2
            or len(lows(some[0].domain)) != 1
            or len(highs(some[0].domain)) != 1
        ):
            raise OutsideError("groups that are committed under a condition")
        low, high = lows(some[0].domain)[0], highs(some[0].domain)[0]
        made = at - low if s == segment else high - low + 1
        needs.append(made)
        total = total + made.scaled(len(some))
    return total, tuple(needs)


# ---------------------------------------------------------------- obligations


def contributions(p: Program, ring: Ring) -> list[tuple[int, int]]:
    """Agents and operations that arrive at, announce to or copy under a ring."""
    return [
        (i, j)
        for i, agent in enumerate(p.agents)
        for j, op in enumerate(agent.ops)
        if op.ring == ring and op.kind in ("arrive", "expect", "copy")
    ]


def rings(p: Program) -> list[Ring]:
    return sorted({op.ring for a in p.agents for op in a.ops if op.ring is not None}, key=str)


def obligations(p: Program, t: Turns) -> Iterator[Obligation]:
    """All paths that a proof owes: O1 to O3, O5 and O6 of the theory, and every hazard."""
    for ring in rings(p):
        yield from _turns(p, t, ring)
        yield from _life(p, t, ring)
    yield from _ends(p)
    yield from _hazards(p)


def _turns(p: Program, t: Turns, ring: Ring) -> Iterator[Obligation]:
    """O1, O2 and O3 of one ring."""
    n, m, d = var(FIRST), var(SECOND), depth(p, ring)
    some = contributions(p, ring)
    waits = [
        (i, j)
        for i, a in enumerate(p.agents)
        for j, o in enumerate(a.ops)
        if o.kind == "wait" and o.ring == ring
    ]
    for i, j in some:
        x = p.agents[i].ops[j]
        start = Step(i, j, "done" if x.kind == "copy" else "out", n)
        turn_x = turn(p, t, x, n)
        for k, q in some:
            y = p.agents[k].ops[q]
            given = (*exists(x, n), *exists(y, m), *equal(turn_x + d, turn(p, t, y, m)))
            lanes = i == k and p.agents[i].threads > 1
            yield Obligation("O1", start, given, Step(k, q, "in", m), crosses=lanes)
        for k, q in waits:
            y = p.agents[k].ops[q]
            given = (*exists(x, n), *exists(y, m), *equal(turn_x + d, turn(p, t, y, m)))
            lanes = i == k and p.agents[i].threads > 1
            yield Obligation("O2", start, given, Step(k, q, "in", m), crosses=lanes)
    for i, j in some:
        x = p.agents[i].ops[j]
        if x.kind == "expect":
            yield Obligation("O4", Step(i, j, "out", n), exists(x, n), ring=ring, turn=turn(p, t, x, n))
    for k, q in waits:
        y = p.agents[k].ops[q]
        after = turn(p, t, y, n) + d
        given = (*exists(y, n), after, t.end[ring] - after - 1)
        yield Obligation("O3", Step(k, q, "out", n), given, ring=ring, turn=after)


def _life(p: Program, t: Turns, ring: Ring) -> Iterator[Obligation]:
    """O5: init comes before every use, visibly, and every use before the end of the barrier."""
    n, m = var(FIRST), var(SECOND)
    for i, j, x in _of_ring(p, ring, ("init",)):
        for k, q, y in _of_ring(p, ring, ("arrive", "expect", "copy", "wait")):
            given = (*exists(x, n), *exists(y, m))
            yield Obligation("O5", Step(i, j, "out", n), given, Step(k, q, "in", m), causal=True)
    for k, q, y in _of_ring(p, ring, ("inval",)):
        for i, j, x in _of_ring(p, ring, ("init", "arrive", "expect", "copy", "wait")):
            given = (*exists(x, n), *exists(y, m))
            start = Step(i, j, "done" if x.kind == "copy" else "out", n)
            lanes = i == k and p.agents[i].threads > 1
            yield Obligation("O5", start, given, Step(k, q, "in", m), causal=True, crosses=lanes)


def _of_ring(p: Program, ring: Ring, kinds: tuple[str, ...]) -> Iterator[tuple[int, int, Op]]:
    for i, a in enumerate(p.agents):
        for j, o in enumerate(a.ops):
            if o.ring == ring and o.kind in kinds:
                yield i, j, o


def _ends(p: Program) -> Iterator[Obligation]:
    """O6: nothing is in flight when the block ends."""
    for i, a in enumerate(p.agents):
        for j, o in enumerate(a.ops):
            if o.kind in ("copy", "store"):
                yield Obligation("O6", Step(i, j, "done", var(FIRST)), exists(o, var(FIRST)))


def _hazards(p: Program) -> Iterator[Obligation]:
    """Accesses to one slot, of which one writes, in the order of their iterations.

    Two accesses of one iteration, or to a slot that no counter moves, may have either order: ``Choice`` in
    the name tells which of the alternatives belong together.
    """
    every = [
        (i, j, u, touch)
        for i, a in enumerate(p.agents)
        for j, o in enumerate(a.ops)
        for u, touch in enumerate(o.touches)
    ]
    for x in every:
        for y in every:
            if x[3].buffer == y[3].buffer and (x[3].access.writes or y[3].access.writes):
                yield from _later(p, x, y)


_Place = tuple[int, int, int, Touch]


def _later(p: Program, x: _Place, y: _Place) -> Iterator[Obligation]:
    """``x`` is before every ``y`` of the same slot in a later turn; in the same iteration, one of
    the orders.
    """
    n, m = var(FIRST), var(SECOND)
    own, other = overlaps(p, x, y)
    if not own and not other:
        return
    a, b = p.agents[x[0]].ops[x[1]], p.agents[y[0]].ops[y[1]]
    there = (*exists(a, n), *exists(b, m))
    first, second = x[3].index, y[3].index.put({FIRST: m})
    d = p.depths[x[3].buffer]
    yield hazard(x, y, (*there, second - first - d), other, "later")
    if x[:3] > y[:3]:
        return
    same = (*there, *equal(first, second))
    moving = (
        first.coefficient(FIRST)
        or second.coefficient(SECOND)
        or (single(a.domain) is not None and single(b.domain) is not None)
    )
    key = f"{x[:3]} {y[:3]}"
    if moving:
        if x[:3] == y[:3] and not other:
            return
        yield hazard(x, y, same, other, f"Choice 0 {key}")
        yield hazard(y, x, _swapped(same), other, f"Choice 1 {key}")
        return
    yield hazard(x, y, same, other, f"Choice 0 {key}")
    yield hazard(y, x, _swapped(same), other, f"Choice 1 {key}")
    up, down = (*same, m - n - 1), _swapped((*same, n - m - 1))
    for which, start, end, level in ((2, x, y, n - m), (3, y, x, n - m)):
        if x[:3] == y[:3] and not other:
            level = num(-1)
        even = (*same, level, level.scaled(-1))
        yield hazard(x, y, up, other, f"Choice {which} {key}")
        yield hazard(y, x, down, other, f"Choice {which} {key}")
        yield hazard(start, end, even if start is x else _swapped(even), other, f"Choice {which} {key}")


def _swapped(given: tuple[Lin, ...]) -> tuple[Lin, ...]:
    return tuple(c.put({FIRST: var(SECOND), SECOND: var(FIRST)}) for c in given)


def hazard(x: _Place, y: _Place, given: tuple[Lin, ...], other: bool, why: str) -> Obligation:
    row = ordering(x[3].access, y[3].access)
    half: Half = "done" if x[3].access.asynchronous else "out"
    start, goal = Step(x[0], x[1], half, var(FIRST)), Step(y[0], y[1], "in", var(SECOND))
    bridge = row.need in (Need.BRIDGE, Need.COMPLETION_BRIDGE)
    crosses = other and x[0] == y[0]
    name = f"{row.hazard.value} {why}"
    return Obligation(name, start, given, goal, causal=True, bridge=bridge, crosses=crosses)


def overlaps(p: Program, x: _Place, y: _Place) -> tuple[bool, bool]:
    """Whether bytes inside the slot are shared by the same thread, and by different threads."""
    own = other = False
    ranges = sorted([(*q, 0) for q in x[3].pieces] + [(*q, 1) for q in y[3].pieces])
    live: list[tuple[int, int, int, int]] = []
    for r in ranges:
        live = [q for q in live if q[1] > r[0]]
        for q in live:
            if q[3] != r[3] or x[:3] == y[:3]:
                own |= q[2] == r[2]
                other |= q[2] != r[2]
                if own and other:
                    break
        if own and other:
            break
        live.append(r)
    if x[0] == y[0]:
        return own or x[:3] == y[:3], other and p.agents[x[0]].threads > 1
    if x[3].access is Access.MMA_READ and y[3].access is Access.MMA_READ:
        return False, False
    # different agents of one warp are different lanes; those of different warps share no thread
    return False, other


__all__ = ["Obligation", "Step", "Turns", "enabling", "hop", "obligations"]
