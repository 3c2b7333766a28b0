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

from syncverify.frontends.ptx.analysis.exclusion.locks import neighbours
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
    another way, and how many bytes. ``first``: what counters hold at first; they are locks as well here.
    """

    turns: Turns = field(default_factory=dict)
    first: Mapping[Lock, int] = field(default_factory=dict)
    taken: dict[Lock, dict[Turn, None]] = field(default_factory=dict)
    tried: set[Turn] = field(default_factory=set)  # turns that need not be: who finds a lock held goes on
    kinds: dict[Lock, set[int | None]] = field(default_factory=dict)  # what counters grow by; None: a lock
    most: dict[Lock, int] = field(default_factory=dict)  # turns that find different numbers
    asked: dict[Lock, set[int | None]] = field(default_factory=dict)  # what numbers are compared with alone
    stored: dict[Lock, set[int]] = field(default_factory=dict)  # what stores put there
    newest: dict[tuple[Lock, Holder], tuple[int, Turn]] = field(default_factory=dict)  # place, and last turn
    freed: dict[tuple[Lock, Turn], int] = field(default_factory=dict)  # where in the text a turn ends
    words: set[tuple[Lock, int]] = field(default_factory=set)
    #: bytes that are waited for; and others, written strongly by what is no signal
    polled: dict[bool, set[tuple[Lock, int]]] = field(default_factory=dict)
    let_go: set[Lock] = field(default_factory=set)  # by others than who took it
    bytes: int = 4  # of a lock

    def take(self, lock: Lock, size: int, turn: Turn) -> int:
        """How many turns come before one."""
        self.bytes = max(self.bytes, size)
        self.taken.setdefault(lock, {})[turn] = None
        place = self.turns.get(lock, {}).get(turn, 0)
        self.newest[lock, turn[0]] = place, turn
        self.kinds.setdefault(lock, set()).add(None)
        return place

    def attempt(self, lock: Lock, size: int, turn: Turn, most: int | None) -> int | None:
        """The same of one that tries a lock; None: it is held then."""
        place = self.take(lock, size, turn)
        self.tried.add(turn)
        self._limit(lock, most)
        if lock in self.turns and turn not in self.turns[lock]:
            self.newest.pop((lock, turn[0]))
            return None
        return place

    def count(self, lock: Lock, size: int, turn: Turn, amount: int, most: int | None) -> int | None:
        """The number that a turn brings; None: one of those before the last."""
        self.bytes = max(self.bytes, size)
        self.taken.setdefault(lock, {})[turn] = None
        self.kinds.setdefault(lock, set()).add(amount)
        self._limit(lock, most)
        place = self.turns.get(lock, {}).get(turn, None if lock in self.turns else 0)
        return None if place is None else self.first.get(lock, 0) + amount * place

    def ask(self, lock: Lock, numbers: Sequence[int]) -> None:
        """A turn's number is compared with some numbers alone; with none: with what is not known."""
        self.asked.setdefault(lock, set()).update(numbers or (None,))

    def _limit(self, lock: Lock, most: int | None) -> None:
        if most is not None:
            self.most[lock] = min(most, self.most.get(lock, most))

    def free(self, lock: Lock, holder: Holder | None, site: int) -> int | None:
        """How many turns have come once a thread lets a lock go, at a place of the text; None if it has not
        taken it, or let it go at another."""
        newest = None if holder is None else self.newest.get((lock, holder))
        if newest is None or self.freed.setdefault((lock, newest[1]), site) != site:
            self.let_go.add(lock)
            return None
        return newest[0] + 1

    def mixes(self, word: Lock, size: int, *, polls: bool) -> bool:
        """Whether some wait for bytes that others write strongly by what is no signal."""
        self.polled.setdefault(polls, set()).add((word, size))
        (cta, offset), others = word, self.polled.get(not polls, ())
        return any(c == cta and o < offset + size and offset < o + n for (c, o), n in others)

    @property
    def counters(self) -> set[Lock]:
        """The words that count."""
        return {lock for lock, kinds in self.kinds.items() if kinds != {None}}

    @property
    def let_go_at(self) -> set[Lock]:
        """The locks that somebody lets go who has taken them."""
        return {lock for lock, _ in self.freed}

    @property
    def once(self) -> bool:
        """Whether what atomics bring decides, each executed once."""
        return bool(self.tried or self.counters)

    def at_first(self) -> dict[Lock, int]:
        """What counters hold before the first turn, if stores say so: where it is another number, no turn
        comes to an end in the orders that are tried."""
        found = {lock: self.stored.get(lock, set()) for lock in self.counters}
        return {lock: min(values) if len(values) == 1 else 0 for lock, values in found.items()}

    def problem(self) -> str | None:
        """Why orders of the turns do not tell what can happen."""
        if not self.let_go.isdisjoint(self.taken.keys() - self.counters):
            return "a lock in shared memory is let go by one who did not take it"
        if any(len(kinds) > 1 for kinds in self.kinds.values()):
            return "atomics change a lock or counter in shared memory in several ways"
        if any(len(self.taken[lock]) > most for lock, most in self.most.items()):
            return "a counter in shared memory begins again"
        for (cta, offset), size in self.words:
            if any(c == cta and o < offset + size and offset < o + self.bytes for c, o in self.taken):
                return "a lock in shared memory is read or written by something else than what takes it"
        return None

    def differs(self, first: SharedLocks) -> str | None:
        """Why orders of the turns of another run do not tell what can happen."""
        if {x: set(of) for x, of in self.taken.items()} != {x: set(of) for x, of in first.taken.items()}:
            return "who takes a lock in shared memory depends on who held it before"
        if not self.let_go_at <= first.let_go_at or self.asked != first.asked:
            return "who lets a lock in shared memory go, or what is asked, depends on who held it before"
        return None

    def some(self, body: Sequence[Instr]) -> list[Turns] | None:
        """Orders that represent all if each of them is one of an execution; None where no few do. ``body``:
        what the threads execute."""
        if self.once:
            return None
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
        orders = [list(islice(self._orders(lock), most)) for lock in self.taken]
        return [dict(zip(self.taken, some, strict=True)) for some in islice(product(*orders), most)]

    def _orders(self, lock: Lock) -> Iterator[Mapping[Turn, int]]:
        """All orders of those who come to a lock, with each choice of those who try it and find it free: one
        of them, where nobody lets it go.

        Where all ask a counter alone whether they are the last, one order for each last one represents all:
        nothing is handed on to the others.
        """
        turns = self.taken[lock]
        if lock in self.counters and len(turns) > 3 and self._asks_last(lock):
            yield from ({turn: len(turns) - 1} for turn in turns)
            return
        yield from ({turn: n for n, turn in enumerate(order)} for order in self._rows(lock))

    def _asks_last(self, lock: Lock) -> bool:
        (amount,) = self.kinds[lock] if len(self.kinds[lock]) == 1 else (None,)
        last = None if amount is None else self.at_first()[lock] + amount * (len(self.taken[lock]) - 1)
        return last is not None and self.asked.get(lock) == {last}

    def _rows(self, lock: Lock) -> Iterator[list[Turn]]:
        turns = self.taken[lock]
        if lock not in self.let_go_at and turns and all(turn in self.tried for turn in turns):
            yield from ([turn] for turn in turns)
            return
        ways = [(True, False) if turn in self.tried else (True,) for turn in turns]
        for chosen in product(*ways):
            some = {turn: None for turn, comes in zip(turns, chosen, strict=True) if comes}
            if some:
                yield from _merges(list(_by_holder(some).values()))


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
