"""Locks in shared memory: threads of a block that hold one after the other, in any order.

A *turn* is what a thread does between one place that takes a lock and the store that lets it go. Each place
is executed at most once. Who comes after whom is not known. Where threads synchronize in no other way but by
barriers of all of them, few orders of the turns represent all. In these each two turns of different threads
occur one right after the other, with the others behind or before: then nothing that a third thread hands on
orders them. Else all orders are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from syncverify.frontends.ptx.analysis.locks import neighbours
from syncverify.frontends.ptx.syntax.nodes import Instr

#: CTA, warp and lane.
Holder = tuple[int, int, int]
#: Who takes a lock, and at which place.
Turn = tuple[Holder, int]
#: A lock: the CTA in whose shared memory it lies, and its offset.
Lock = tuple[int, int]
#: By lock and turn: how many turns come before.
Turns = Mapping[Lock, Mapping[Turn, int]]


@dataclass(slots=True)
class SharedLocks:
    """Who takes which lock in a run; ``turns``: in which order. Without them nobody waits.

    ``taken``: the turns at each lock, those of one thread in order. ``words``: where locks are accessed in
    another way, and how many bytes.
    """

    turns: Turns = field(default_factory=dict)
    taken: dict[Lock, dict[Turn, None]] = field(default_factory=dict)
    newest: dict[tuple[Lock, Holder], int] = field(default_factory=dict)  # place of a thread's last turn
    words: set[tuple[Lock, int]] = field(default_factory=set)
    let_go: set[Lock] = field(default_factory=set)  # by others than who took it
    bytes: int = 4  # of a lock

    def take(self, lock: Lock, size: int, turn: Turn) -> int:
        """How many turns come before one."""
        self.bytes = max(self.bytes, size)
        self.taken.setdefault(lock, {})[turn] = None
        place = self.turns.get(lock, {}).get(turn, 0)
        self.newest[lock, turn[0]] = place
        return place

    def free(self, lock: Lock, holder: Holder | None) -> int | None:
        """How many turns have come once a thread lets a lock go; None if it has not taken it."""
        place = None if holder is None else self.newest.get((lock, holder))
        if place is None:
            self.let_go.add(lock)
            return None
        return place + 1

    def problem(self) -> str | None:
        """Why orders of the turns do not tell what can happen."""
        if not self.let_go.isdisjoint(self.taken):
            return "a lock in shared memory is let go by one who did not take it"
        for (cta, offset), size in self.words:
            if any(c == cta and o < offset + size and offset < o + self.bytes for c, o in self.taken):
                return "a lock in shared memory is read or written by something else than what takes it"
        return None

    def some(self, body: Sequence[Instr]) -> list[Turns] | None:
        """Orders that represent all if each of them is one of an execution; None where no few do. ``body``:
        what the threads execute."""
        warps = {turn[0][:2] for of in self.taken.values() for turn in of}
        alone = len(warps) == len({turn[0] for of in self.taken.values() for turn in of})
        if not all(_orders_all(i, alone=alone) for i in body):
            return None
        rows = {lock: _by_holder(turns) for lock, turns in self.taken.items()}
        holders = [h for of in rows.values() for h in of]
        if len(rows) > 1 and len(set(holders)) < len(holders):
            return None
        if all(len(x) == 1 for of in rows.values() for x in of.values()):
            threads = {lock: [turns[0] for turns in of.values()] for lock, of in rows.items()}
            found = {lock: neighbours(range(len(of))) for lock, of in threads.items()}
            most = max(map(len, found.values()), default=0)
            return [
                _numbered({x: [threads[x][n] for n in o[i % len(o)]] for x, o in found.items()})
                for i in range(most)
            ]
        if len(rows) > 1:
            return None
        ((lock, of),) = rows.items()
        return [_numbered({lock: order}) for order in _pairs(list(of.values()))]

    def every(self, most: int) -> list[Turns]:
        """All orders, but at most so many."""
        rows = {lock: list(_by_holder(turns).values()) for lock, turns in self.taken.items()}
        orders = [list(islice(_merges(of), most)) for of in rows.values()]
        return [_numbered(dict(zip(rows, some, strict=True))) for some in islice(product(*orders), most)]


def _orders_all(i: Instr, *, alone: bool) -> bool:
    """Whether an instruction orders no threads, or all of a block alike; ``alone``: or those of one warp, of
    which one takes locks."""
    if i.op in ("bar", "barrier"):
        whole = "sync" in i.mods and len(i.operands) == 1 and "cluster" not in i.mods
        return (alone and "sync" in i.mods) if "warp" in i.mods else whole
    return i.op not in _OTHERS and not any(m.startswith("mbarrier") for m in i.mods)


#: Other instructions by which threads synchronize.
_OTHERS = frozenset({"mbarrier", "griddepcontrol", "tensormap", "wgmma", "setmaxnreg"})


def _numbered(orders: Mapping[Lock, Sequence[Turn]]) -> Turns:
    return {lock: {turn: n for n, turn in enumerate(order)} for lock, order in orders.items()}


def _by_holder(turns: Mapping[Turn, None]) -> dict[Holder, list[Turn]]:
    found: dict[Holder, list[Turn]] = {}
    for turn in turns:
        found.setdefault(turn[0], []).append(turn)
    return dict(sorted(found.items()))


def _pairs(threads: Sequence[Sequence[Turn]]) -> Iterator[list[Turn]]:
    """Orders in which each turn comes right after each turn of another thread, the rest of both behind."""
    for a, one in enumerate(threads):
        for b, other in enumerate(threads):
            rest = [t for n, x in enumerate(threads) if n not in (a, b) for t in x]
            for i, j in product(range(len(one)) if a != b else (), range(len(other))):
                yield [*other[:j], *one[: i + 1], *other[j:], *one[i + 1 :], *rest]


def _merges(threads: Sequence[Sequence[Turn]]) -> Iterator[list[Turn]]:
    """All orders that keep the turns of each thread in theirs."""
    if not any(threads):
        yield []
    for n, turns in enumerate(threads):
        if turns:
            rest = [x[1:] if k == n else x for k, x in enumerate(threads)]
            yield from ([turns[0], *order] for order in _merges(rest))


__all__ = ["Holder", "Lock", "SharedLocks", "Turn", "Turns"]
