"""A protocol at one size, as straight programs of its threads. Shares nothing with the kernel but its data
classes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from syncverify.checker.kernel.linear import Apply, Term
from syncverify.checker.kernel.protocol import Kind, Level, Loop, Op, Protocol, Role, Tiles
from syncverify.model.proxies import Access, Proxy

Size = dict[str, Any]
#: One access of a program: (cell, writes, by the async proxy, version).
Cell = tuple[tuple[str, int], bool, bool, int | None]
#: The function that counts all steps of each tile but one.
FEWER = "P_fewer"


def value(t: Term, e: Size) -> int:
    total = t.const
    for a, k in t.parts.items():
        total += k * (e[a.function](value(a.argument, e)) if isinstance(a, Apply) else e[a])
    return total


def table(steps: list[int]) -> Callable[[int], int]:
    sums = [0, *itertools.accumulate(steps)]
    return lambda a: sums[a] if 0 <= a < len(sums) else (a if a < 0 else sums[-1])


def shown(e: Size) -> str:
    return str({k: v for k, v in e.items() if not callable(v)})


def sizes(p: Protocol, most: dict[str, int] | None = None, steps: int = 3) -> Iterator[Size]:
    """All sizes up to small bounds that meet the facts and schemas."""
    most = most or {}
    names = sorted(p.parameters)
    tiles = {t.count for r in p.roles for t in r.body if isinstance(t, Tiles)}
    ranges = [range(most.get(n, 7 if n == "N" else 3) + 1) for n in names]
    for values in itertools.product(*ranges):
        e: Size = dict(zip(names, values, strict=True))
        if any(value(f, e) < 0 for f in p.facts):
            continue
        count = max([0, *(value(t, e) for t in tiles)])
        for trips in itertools.product(range(steps + 1), repeat=count) if p.prefix else [()]:
            full = {**e, "trips": trips} | {f: table([x - (f == FEWER) for x in trips]) for f in p.prefix}
            if all(value(s, {**full, "x": t}) >= 0 for s in p.schemas for t in range(count)):
                yield full


@dataclass(slots=True)
class Program:
    """``threads``: their operations. ``barriers``: counts of mbarriers; None until an init. ``named``: how
    many. ``numbers``: those of the threads in their block. ``pool``: registers of a thread and of the block.
    """

    threads: list[list[tuple[Any, ...]]]
    barriers: list[int | None]
    named: int
    numbers: list[int]
    warp: int
    pool: tuple[int, int] | None = None


def _executed(role: Role, e: Size) -> Iterator[tuple[Op, Size]]:
    """The operations of a role in program order."""

    def part(b: Any, at: Size) -> Iterator[tuple[Op, Size]]:
        if isinstance(b, Loop):
            for n in range(value(b.lo, at), value(b.hi, at)):
                yield from ((op, {**at, "n": n}) for op in b.body)
        else:
            yield from ((op, at) for op in b)

    for b in role.body:
        if isinstance(b, Tiles):
            for u in itertools.count():
                if b.first + b.stride * u >= value(b.count, e):
                    break
                for q in b.body:
                    yield from part(q, {**e, "u": u, "n": 0})
        else:
            yield from part(b, {**e, "u": 0, "n": 0})


def program(p: Protocol, e: Size) -> Program | None:
    """The threads' programs; None for a depth or count that no barrier has."""
    first: dict[str, int] = {}
    named: dict[tuple[str, int], int] = {}
    barriers: list[int | None] = []
    for name, ring in p.rings.items():
        if ring.named:
            continue
        depth = value(ring.depth, e)
        if depth < 1 or ring.count < 1:
            return None
        first[name] = len(barriers)
        barriers += [None if ring.initialized else ring.count] * depth
    if any(value(d, e) < 1 for d in p.buffers.values()):
        return None

    def cells(op: Op, at: Size) -> tuple[Cell, ...]:
        return tuple(
            (
                (t.buffer, value(t.slot, at) % value(p.buffers[t.buffer], e)),
                t.access.writes,
                t.access.proxy is Proxy.ASYNC,
                t.version,
            )
            for t in op.touches
        )

    def one(op: Op, at: Size, thread: int) -> tuple[Any, ...] | None:
        ring = p.rings.get(op.ring)
        b = phase = 0
        if ring is not None and ring.named:
            unit = -1 if ring.level is Level.ALL else thread // p.warp
            number = named.setdefault((ring.barrier or op.ring, unit), len(named))
            return ("S" if op.kind is Kind.SYNC else "R", number, op.count, ring.level is Level.ALL)
        if ring is not None:
            phase, slot = divmod(value(op.index, at), value(ring.depth, e))
            b = first[op.ring] + slot
        match op.kind:
            case Kind.ARRIVE:
                return ("A", b, op.count, op.bytes, op.synchronizes)
            case Kind.EXPECT:
                return ("E", b, op.bytes)
            case Kind.WAIT:
                return ("W", b, (phase + op.parity) % 2, op.synchronizes)
            case Kind.COPY:
                return ("C", b, op.bytes, cells(op, at))
            case Kind.ASYNC:
                return ("G", op.group, op.label, cells(op, at))
            case Kind.COMMIT:
                return ("K", op.group)
            case Kind.DRAIN:
                return ("Q", op.group, op.count)
            case Kind.ACCESS:
                return ("M", cells(op, at))
            case Kind.FENCE:
                return ("F",)
            case Kind.INIT:
                return ("I", b, op.count)
            case Kind.INVAL:
                return ("D", b)
            case Kind.REGISTERS:
                return ("P", op.count)
        return None

    threads: dict[int, list[tuple[Any, ...]]] = {}
    for role in p.roles:
        for thread in role.threads:
            found = [
                one(op, at, thread)
                for op, at in _executed(role, e)
                if all(value(g, at) >= 0 for g in op.guard)
            ]
            threads[thread] = [x for x in found if x is not None]
    numbers = sorted(threads)
    pool = None if p.registers is None else (p.registers.each, p.registers.pool)
    return Program([threads[t] for t in numbers], barriers, len(named), numbers, p.warp, pool)


def pick(p: Protocol, rnd: random.Random, many: int) -> list[Size]:
    """Some sizes, small ones first."""
    every = list(sizes(p))
    rnd.shuffle(every)
    return sorted(every[: 4 * many], key=weight)[:many]


def weight(e: Size) -> int:
    return sum(e["trips"]) + sum(v for v in e.values() if isinstance(v, int))


__all__ = ["Access", "Program", "Size", "pick", "program", "shown", "sizes", "weight"]
