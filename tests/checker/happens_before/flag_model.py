"""All executions of tiny programs with flags, by brute force: whether some execution races or hangs.

Threads run straight-line code: weak accesses of data, strong writes of flags, waits and fences. Each flag has
one modification order. A write goes to any place there, and a wait reads any message, that coherence and
happens-before allow (PTX ISA: Memory Consistency Model; the views are those of release/acquire models). An
atomic stands directly behind the message that it reads, and hands on what that one released. No execution has
a cycle of program order and reads-from. Nothing here is shared with the checker.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

COMPARES = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Op:
    """An operation. ``kind``: read, write (of data), plain (a weak store of a flag), store, add, exch, wait,
    lock (an atomic that waits for 0 and leaves 1), fence; try, swap and count (an atomic ``cas`` of 0,
    ``exch`` or ``add``): a thread that does not find ``wanted`` leaves out the next ``skips``. ``narrow``: of
    a scope that leaves the other threads out."""

    kind: str
    at: int = 0
    value: int = 1
    compare: str = "=="
    release: bool = False
    acquire: bool = False
    narrow: bool = False
    wanted: int = 0
    skips: int = 0


T = TypeVar("T")
Threads = tuple[tuple[Op, ...], ...]
#: An operation: its thread, and which of its accesses it is.
When = tuple[int, int]
#: How much a thread knows of each other one's operations, the newest message of each flag it knows of, and
#: the writes that were read by something that it knows of (PTX ISA: Causality Order).
View = tuple[tuple[int, ...], tuple[int, ...], frozenset[When]]


@dataclass(frozen=True, slots=True)
class Message:
    """A write of a flag. ``chained``: an atomic, which nothing may part from the message before it.
    ``observed``: the writes that a strong read of it observes, in a chain of atomics also those before."""

    number: int
    value: int
    released: View | None = None
    chained: bool = False
    observed: frozenset[When] = frozenset()


@dataclass(frozen=True, slots=True)
class Thread:
    """How far a thread is, what it knows, and what a fence or a further access of a flag makes of it."""

    pc: int
    view: View
    fenced: View | None  # what the last release fence covers
    handed: tuple[View | None, ...]  # what its releases of each flag cover: a later strong write hands it on
    taken: tuple[View | None, ...]  # what its relaxed reads of each flag found released


#: The operations on a location: of which kind, and which; of data the newest of each thread.
Accesses = frozenset[tuple[int, When]]


@dataclass(frozen=True, slots=True)
class State:
    threads: tuple[Thread, ...]
    orders: tuple[tuple[Message, ...], ...]
    accesses: tuple[Accesses, ...]  # flags first, then data


class HarmError(Exception):
    """An execution races or hangs."""


class TooManyError(Exception):
    """There are more states than may be looked at."""


def harm(program: Threads, flags: int = 2, words: int = 2, limit: int = 20000) -> str | None:
    """What is wrong in some execution of a program whose flags are zero at first; None if nothing is."""
    none = (0,) * len(program)
    view: View = (none, (0,) * flags, frozenset())
    thread = Thread(0, view, None, (None,) * flags, (None,) * flags)
    first = State((thread,) * len(program), ((Message(0, 0),),) * flags, (frozenset(),) * (flags + words))
    known, todo = {first}, [first]
    try:
        while todo:
            for s in _next(program, todo.pop()):
                if s not in known:
                    known.add(s)
                    todo.append(s)
            if len(known) > limit:
                raise TooManyError
    except HarmError as found:
        return str(found)
    return None


def _next(program: Threads, s: State) -> Iterator[State]:
    """The states after one step. What touches no flag is done at once: it commutes with all of the others."""
    waits = []
    for n, t in enumerate(s.threads):
        if t.pc == len(program[n]):
            continue
        op = program[n][t.pc]
        if op.kind in ("read", "write", "fence"):
            yield _local(s, n, op)
            return
        waits.append(op.kind in ("wait", "lock") and not _holds(op, s.orders[op.at][-1]))
    if waits and all(waits):
        raise HarmError("hang")
    for n, t in enumerate(s.threads):
        if t.pc < len(program[n]):
            yield from _of_flag(program, s, n, program[n][t.pc])


def _holds(op: Op, m: Message) -> bool:
    if op.kind == "lock":
        return m.value == 0
    return bool(COMPARES[op.compare](m.value, op.value))


# ------------------------------------------------------------------ views


def _join(s: State, *views: View | None) -> View | None:
    found: View | None = None
    for v in views:
        if found is None or v is None:
            found = found or v
        else:
            newest = [
                max(a, b, key=lambda m, at=at: _place(s, at, m))  # type: ignore[misc]
                for at, (a, b) in enumerate(zip(found[1], v[1], strict=True))
            ]
            found = tuple(map(max, found[0], v[0])), tuple(newest), found[2] | v[2]
    return found


def _place(s: State, flag: int, number: int) -> int:
    return next(i for i, m in enumerate(s.orders[flag]) if m.number == number)


def _put(items: tuple[T, ...], at: int, item: T) -> tuple[T, ...]:
    return (*items[:at], item, *items[at + 1 :])


# ------------------------------------------------------------------ steps


def _local(s: State, n: int, op: Op) -> State:
    t = s.threads[n]
    if op.kind != "fence":
        s = _access(s, n, len(s.orders) + op.at, op.kind == "write", weak=True)
        t = s.threads[n]
    elif not op.narrow:
        view = _join(s, t.view, *t.taken)
        assert view is not None
        t = replace(t, view=view, fenced=view)
    return replace(s, threads=_put(s.threads, n, replace(t, pc=t.pc + 1)))


def _access(s: State, n: int, at: int, write: bool, weak: bool) -> State:
    """Enters an access into the record of a location. Raises HarmError if it races with another one."""
    t = s.threads[n]
    clock, newest, seen = t.view
    for kind, (o, time) in s.accesses[at]:
        other_writes, other_weak = kind % 2 == 1, kind >= 2
        conflicts = o != n and (write or other_writes) and (weak or other_weak)
        if conflicts and time > clock[o] and (o, time) not in seen:
            raise HarmError("race")
    clock = _put(clock, n, clock[n] + 1)
    kind = 2 * weak + write
    old = {x for x in s.accesses[at] if at >= len(s.orders) and x[0] == kind and x[1][0] == n}
    entry = s.accesses[at] - old | {(kind, (n, clock[n]))}
    threads = _put(s.threads, n, replace(t, view=(clock, newest, seen)))
    return replace(s, threads=threads, accesses=_put(s.accesses, at, entry))


#: Atomics by what they find.
_DECIDES = ("try", "swap", "count")


def _passed(program: Threads, s: State, n: int, skips: int) -> State:
    """A thread leaves some operations out."""
    t = s.threads[n]
    return replace(s, threads=_put(s.threads, n, replace(t, pc=min(t.pc + skips, len(program[n])))))


def _of_flag(program: Threads, s: State, n: int, op: Op) -> Iterator[State]:
    """A step of a flag for each message that it may read, or stand directly behind."""
    order = s.orders[op.at]
    after = None
    for i in range(_place(s, op.at, s.threads[n].view[1][op.at]), len(order)):
        if op.kind in ("wait", "lock") and not _holds(op, order[i]):
            continue
        reads = op.kind == "wait" or (op.kind == "try" and order[i].value)
        if not reads and i + 1 < len(order) and order[i + 1].chained:
            continue
        if after is None:
            after = _access(s, n, op.at, op.kind != "wait", weak=op.narrow or op.kind == "plain")
        if op.kind == "try" and order[i].value:
            yield _passed(program, _read(after, n, op, order[i], step=1), n, op.skips)
        elif op.kind in _DECIDES:
            missed = op.skips if order[i].value != op.wanted else 0
            yield _passed(program, _written(after, n, op, i), n, missed)
        elif op.kind != "wait":
            yield _written(after, n, op, i)
        else:
            yield _read(after, n, op, order[i], step=1)


def _read(s: State, n: int, op: Op, m: Message, step: int = 0) -> State:
    t = s.threads[n]
    seen = t.view[2] if op.narrow else t.view[2] | m.observed
    view: View | None = (t.view[0], _put(t.view[1], op.at, m.number), seen)
    taken = t.taken
    if not op.narrow:
        taken = _put(taken, op.at, _join(s, taken[op.at], m.released))
        if op.acquire:
            view = _join(s, view, taken[op.at])
    assert view is not None
    return replace(s, threads=_put(s.threads, n, replace(t, pc=t.pc + step, view=view, taken=taken)))


def _written(s: State, n: int, op: Op, i: int) -> State:
    """The state with a write directly behind the message ``i``."""
    before = s.orders[op.at][i]
    atomic = op.kind in ("add", "exch", "lock", *_DECIDES)
    if atomic:
        s = _read(s, n, op, before)
    t = s.threads[n]
    number = n * 100 + t.pc + 1
    value = before.value + op.value if op.kind in ("add", "count") else op.value
    order = s.orders[op.at]
    order = (*order[: i + 1], Message(number, value, None, atomic), *order[i + 1 :])
    s = replace(s, orders=_put(s.orders, op.at, order))
    view = (t.view[0], _put(t.view[1], op.at, number), t.view[2])
    released, handed, observed = None, t.handed, frozenset[When]()
    if not (op.narrow or op.kind == "plain"):
        observed = frozenset({(n, t.view[0][n])}) | (before.observed if atomic else frozenset())
        if op.release:
            handed = _put(handed, op.at, view)
        released = _join(s, t.fenced, handed[op.at], before.released if atomic else None)
    order = _put(order, i + 1, Message(number, value, released, atomic, observed))
    t = replace(t, pc=t.pc + 1, view=view, handed=handed)
    return replace(s, threads=_put(s.threads, n, t), orders=_put(s.orders, op.at, order))
