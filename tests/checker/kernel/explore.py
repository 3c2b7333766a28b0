"""Every interleaving of a small program: hangs, undefined behaviour, and races by knowledge.

A thread knows accesses (H), and generic ones that it may order before asynchronous ones (A). Arrivals hand
both on to waits of their phase; a fence adds what is known to A; an asynchronous operation uses what its
issuer knew at the issue. An access races with a conflicting one that happened and that it does not know.
No operation may be in flight when all threads have ended. What has a label is over when its warpgroup has
executed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.checker.kernel.programs import Program

LIMIT = 2**20 - 1


class UndefinedError(Exception):
    pass


class Barrier(NamedTuple):
    alive: bool
    count: int
    phase: int
    pending: int
    tx: int
    arrived: int  # what arrivals have handed on so far, H and A
    arrived_a: int
    known: int  # what the last complete phase hands on
    known_a: int
    looked: bool = True  # whether somebody has waited for the phase before, if that is asked


class Meeting(NamedTuple):
    generation: int
    come: int  # a mask of threads
    count: int
    h: int
    a: int


class State(NamedTuple):
    pc: tuple[int, ...]
    waiting: tuple[int, ...]  # 0, or one more than the named barrier that the thread is in
    barriers: tuple[Barrier, ...]
    meetings: tuple[Meeting, ...]
    flying: tuple[tuple[int, int, int], ...]  # thread, place, what its issuer knew
    h: tuple[int, ...]
    a: tuple[int, ...]


def _set(t: tuple[Any, ...], i: int, x: Any) -> tuple[Any, ...]:
    return (*t[:i], x, *t[i + 1 :])


@dataclass(slots=True)
class Machine:
    """The transition system of a program. ``observes``: phases have to be waited for, as in strict mode."""

    p: Program
    observes: bool = False
    bits: dict[tuple[int, int, int], int] = field(default_factory=dict)
    conflicts: dict[int, int] = field(default_factory=dict)
    later: dict[int, int] = field(default_factory=dict)  # accesses of a later version
    executed: dict[int, tuple[int, int]] = field(default_factory=dict)
    by_async: int = 0
    races: set[tuple[Any, Any]] = field(default_factory=set)
    groups: dict[tuple[int, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cells: dict[int, Any] = {}
        twins = _twins(self.p)
        for t, ops in enumerate(self.p.threads):
            for i, op in enumerate(ops):
                for k, cell in enumerate(op[-1] if op[0] in "CGM" else ()):
                    bit = self.bits[t, i, k] = 1 << len(self.bits)
                    cells[bit] = cell
                    self.executed[bit] = (t, i)
                    self.by_async |= bit if cell[2] else 0
            for i, op in enumerate(ops):
                if op[0] == "Q":
                    self.groups[t, i] = tuple(
                        x for k in _covered(ops, i) for x in twins.get((t, k), [(t, k)])
                    )
        for x, (cx, wx, _, vx) in cells.items():
            mates = [
                (y, vy)
                for y, (cy, wy, _, vy) in cells.items()
                if y != x and cx == cy and (wx or wy) and not (wx and wy and vx is not None and vx == vy)
            ]
            self.conflicts[x] = sum(y for y, _ in mates if self.executed[y] != self.executed[x])
            self.later[x] = sum(y for y, vy in mates if vx is not None and vy is not None and vy > vx)

    def start(self) -> State:
        n = len(self.p.threads)
        bars = tuple(Barrier(c is not None, c or 0, 0, c or 0, 0, 0, 0, 0, 0) for c in self.p.barriers)
        return State(
            (0,) * n, (0,) * n, bars, (Meeting(0, 0, 0, 0, 0),) * self.p.named, (), (0,) * n, (0,) * n
        )

    def moves(self, s: State) -> Iterator[tuple[int, int]]:
        """(thread, -1) or (-1, number of the flying operation)."""
        for t, ops in enumerate(self.p.threads):
            if s.pc[t] >= len(ops) or s.waiting[t]:
                continue
            op = ops[s.pc[t]]
            if op[0] == "W":
                b = s.barriers[op[1]]
                if b.alive and b.phase % 2 == op[2]:
                    continue
            if op[0] == "Q":
                must = self.groups[t, s.pc[t]]
                if any(f[:2] in must for f in s.flying) or any(s.pc[x] <= i for x, i in must):
                    continue
            if op[0] == "P" and self._asked(s, t, op[1]) > self._pool():
                continue
            yield t, -1
        for q in range(len(s.flying)):
            yield -1, q

    def _pool(self) -> int:
        return self.p.pool[1] if self.p.pool else 0

    def _asked(self, s: State, thread: int, wanted: int) -> int:
        """The registers that all have if this thread gets what it asks for."""
        each = self.p.pool[0] if self.p.pool else 0
        changed = [[op[1] for op in ops[: s.pc[t]] if op[0] == "P"] for t, ops in enumerate(self.p.threads)]
        return sum(wanted if t == thread else [each, *some][-1] for t, some in enumerate(changed))

    def ended(self, s: State) -> bool:
        return all(s.pc[t] >= len(ops) for t, ops in enumerate(self.p.threads))

    def done(self, s: State) -> bool:
        return self.ended(s) and not s.flying

    def _happened(self, s: State) -> int:
        """The accesses that are over or running."""
        flying = {(t, i) for t, i, _ in s.flying}
        return sum(b for b, (t, i) in self.executed.items() if s.pc[t] > i and (t, i) not in flying)

    def _access(self, s: State, t: int, i: int, know: int) -> int:
        """Executes the accesses of an operation; what they add to what is known."""
        mine = [b for (x, y, _), b in self.bits.items() if (x, y) == (t, i)]
        for b in mine:
            missed = self._happened(s) & (self.conflicts[b] & ~know | self.later[b])
            if missed:
                first = self.executed[missed & -missed]
                self.races.add((first, (t, i)))
        return sum(mine)

    def step(self, s: State, move: tuple[int, int]) -> State:
        t, q = move
        if t < 0:
            return self._complete(s, q)
        i = s.pc[t]
        op = self.p.threads[t][i]
        ahead = s._replace(pc=_set(s.pc, t, i + 1))
        match op[0]:
            case "A" | "E" | "W" | "D":
                return self._barrier(s, ahead, t, op)
            case "I":
                if s.barriers[op[1]].alive:
                    raise UndefinedError("init of a live barrier")
                fresh = Barrier(True, op[2], 0, op[2], 0, 0, 0, 0, 0)
                return ahead._replace(barriers=_set(s.barriers, op[1], fresh))
            case "S" | "R":
                return self._meet(s, ahead, t, op)
            case "M":
                own = self._access(s, t, i, s.h[t])
                return ahead._replace(h=_set(s.h, t, s.h[t] | own))
            case "P":
                self._changed(s, t, i)
            case "F":
                return ahead._replace(a=_set(s.a, t, s.a[t] | (s.h[t] & ~self.by_async)))
            case "C" | "G":
                flights = tuple(sorted((*s.flying, (t, i, t))))
                know = s.h[t] & self.by_async | s.a[t]
                if any(not cell[2] for cell in op[-1]):
                    know = s.h[t]  # of the generic proxy
                flights = tuple(sorted((*s.flying, (t, i, know))))
                return ahead._replace(flying=flights)
            case "Q":
                seen = sum(b for (x, y, _), b in self.bits.items() if (x, y) in self.groups[t, i])
                return ahead._replace(h=_set(s.h, t, s.h[t] | seen))
        return ahead

    def _changed(self, s: State, t: int, i: int) -> None:
        """Registers change in one warp before another one of its warpgroup has changed them the last time."""
        made = [[op[1] for op in ops[: s.pc[x]] if op[0] == "P"] for x, ops in enumerate(self.p.threads)]
        group = [n // (4 * self.p.warp) for n in self.p.numbers]
        if made[t][-1:] == [self.p.threads[t][i][1]]:
            return
        for x, ops in enumerate(self.p.threads):
            if group[x] == group[t] and len(made[x]) < len(made[t]) and any(op[0] == "P" for op in ops):
                raise UndefinedError("no meeting between two changes of registers")

    def _complete(self, s: State, q: int) -> State:
        t, i, know = s.flying[q]
        op = self.p.threads[t][i]
        own = self._access(s, t, i, know)
        rest = s._replace(flying=(*s.flying[:q], *s.flying[q + 1 :]))
        if op[0] == "G":
            return rest
        b = s.barriers[op[1]]
        if not b.alive:
            raise UndefinedError("bytes for a dead barrier")
        if b.tx - op[2] < -LIMIT:
            raise UndefinedError("too many bytes")
        flipped = _flip(b._replace(tx=b.tx - op[2], arrived=b.arrived | own))
        return rest._replace(barriers=_set(s.barriers, op[1], flipped))

    def _barrier(self, s: State, ahead: State, t: int, op: tuple[Any, ...]) -> State:
        b = s.barriers[op[1]]
        if not b.alive:
            raise UndefinedError("use of a dead barrier")
        if op[0] == "D":
            return ahead._replace(barriers=_set(s.barriers, op[1], b._replace(alive=False)))
        if op[0] == "W":
            looked = b._replace(looked=True)
            ahead = ahead._replace(barriers=_set(s.barriers, op[1], looked)) if self.observes else ahead
            if not op[3]:
                return ahead
            return ahead._replace(h=_set(s.h, t, s.h[t] | b.known), a=_set(s.a, t, s.a[t] | b.known_a))
        tx = b.tx + (op[2] if op[0] == "E" else op[3])
        if tx > LIMIT:
            raise UndefinedError("too many bytes")
        b = b._replace(tx=tx)
        if op[0] == "A":
            if b.pending < op[2]:
                raise UndefinedError("an arrival too many")
            if self.observes and not b.looked:
                raise UndefinedError("nobody has waited for the phase before")
            b = b._replace(pending=b.pending - op[2])
            if op[4]:
                b = b._replace(arrived=b.arrived | s.h[t], arrived_a=b.arrived_a | s.a[t])
            b = _flip(b)
        return ahead._replace(barriers=_set(s.barriers, op[1], b))

    def _meet(self, s: State, ahead: State, t: int, op: tuple[Any, ...]) -> State:
        m = s.meetings[op[1]]
        if m.come >> t & 1:
            raise UndefinedError("a thread comes twice")
        if m.come and m.count != op[2]:
            raise UndefinedError("other numbers of threads")
        m = Meeting(m.generation, m.come | 1 << t, op[2], m.h | s.h[t], m.a | s.a[t])
        out = ahead if op[0] == "R" else s._replace(waiting=_set(s.waiting, t, op[1] + 1))
        if m.come.bit_count() < op[2]:
            return out._replace(meetings=_set(s.meetings, op[1], m))
        come = Counter(n // self.p.warp for x, n in enumerate(self.p.numbers) if m.come >> x & 1)
        if op[3] and set(come.values()) != {self.p.warp}:
            raise UndefinedError("a part of a warp comes")
        inside = [x for x, w in enumerate(out.waiting) if w == op[1] + 1]
        for x in inside:
            out = out._replace(
                pc=_set(out.pc, x, out.pc[x] + 1), waiting=_set(out.waiting, x, 0),
                h=_set(out.h, x, out.h[x] | m.h), a=_set(out.a, x, out.a[x] | m.a),
            )  # fmt: skip
        return out._replace(meetings=_set(s.meetings, op[1], Meeting(m.generation + 1, 0, 0, 0, 0)))


def _flip(b: Barrier) -> Barrier:
    if b.pending or b.tx:
        return b
    a, h = b.arrived_a, b.arrived
    return Barrier(True, b.count, b.phase + 1, b.count, 0, h, a, h, a, looked=False)


def _covered(ops: list[tuple[Any, ...]], drain: int) -> tuple[int, ...]:
    """The operations whose groups a drain waits for."""
    group, pending = ops[drain][1:]
    groups: list[list[int]] = []
    loose: list[int] = []
    for i, op in enumerate(ops[:drain]):
        if op[0] == "G" and op[1] == group:
            loose.append(i)
        if op[0] == "K" and op[1] == group:
            groups.append(loose)
            loose = []
    return tuple(i for g in groups[: max(len(groups) - pending, 0)] for i in g)


def _twins(p: Program) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The executions of one wgmma by the threads of a warpgroup: the k-th of a label is one for all."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for t, ops in enumerate(p.threads):
        seen: Counter[str] = Counter()
        for i, op in enumerate(ops):
            if op[0] == "G" and op[2]:
                found.setdefault((op[2], p.numbers[t] // (4 * p.warp), seen[op[2]]), []).append((t, i))
                seen[op[2]] += 1
    return {x: some for some in found.values() for x in some}


@dataclass(frozen=True, slots=True)
class Explored:
    wrong: str | None
    states: int
    complete: bool


def explore(p: Program, most: int = 40_000, *, observes: bool = False) -> Explored:
    """What some interleaving does wrong; None where none does, as far as was looked."""
    m = Machine(p, observes)
    first = m.start()
    seen, stack = {first}, [first]
    while stack:
        s = stack.pop()
        moves = list(m.moves(s))
        if not moves and not m.done(s):
            return Explored("hang", len(seen), True)
        if s.flying and m.ended(s):
            return Explored("an operation in flight at the end", len(seen), True)
        for move in moves:
            try:
                t = m.step(s, move)
            except UndefinedError as e:
                return Explored(f"undefined: {e}", len(seen), True)
            if m.races:
                return Explored("race", len(seen), True)
            if t not in seen:
                seen.add(t)
                stack.append(t)
        if len(seen) > most:
            return Explored(None, len(seen), False)
    return Explored(None, len(seen), True)
