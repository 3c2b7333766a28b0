"""How many threads the stores of a text are written for: as many as their places and arrays leave room for.

    tile[y][x] = ..;  tile[y + 8][x] = ..;  tile[y + 16][x] = ..;  tile[y + 24][x] = ..;

A block of 32 x 8 threads stores each word of ``tile[32][33]`` once, but for the column that pads it. With
twice as many rows two threads would store to one place, and with rows of 64 they would as well. Where each
thread stores is followed in numbers, so ``tile[t % 4 * 4][t / 4]`` has a place as well. What ``cp.async``
writes is a store here. A store that some threads of the block leave out by their numbers says nothing.

A heuristic: it chooses the block that a text is meant for, which is checked like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.analysis.blocks.block_places import conditions
from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers, ThreadValues
from syncverify.frontends.ptx.decode.memory import decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Sym
from syncverify.ir.launch_grid import Dims
from syncverify.model.events import Ev

#: Stores to one array that are looked at, at most.
_STORES = 40
#: Bits of an address that name the array in it.
_ARRAY = 26


@dataclass(frozen=True, slots=True)
class _Store:
    """A store: the bytes, and the place in the array that each thread of the block stores to."""

    bytes: int
    places: NDArray[np.int64]

    def alike(self, other: _Store) -> bool:
        """Whether each thread's places are as far apart."""
        return len({*(self.places - other.places).tolist()}) == 1

    def strides(self, block: Dims) -> tuple[int, ...] | None:
        """What each number of a thread adds to the place; None where they add other numbers."""
        places = self.places.reshape(block[::-1])
        steps = [int(places[n] - places[0, 0, 0]) if max(n) else 0 for n in _next(block)]
        linear = sum(s * g for s, g in zip(steps, np.indices(places.shape)[::-1], strict=True))
        return tuple(steps) if bool(np.all(places == places[0, 0, 0] + linear)) else None


def _next(block: Dims) -> list[tuple[int, int, int]]:
    """The thread beside the first along each axis, or the first where there is none, as ``z, y, x``."""
    x, y, z = (int(e > 1) for e in block)
    return [(0, 0, x), (0, y, 0), (z, 0, 0)]


class _Places(ThreadValues):
    """Addresses in a block, where each array in shared memory begins at a number of its own."""

    def __init__(self, flow: Flow, block: Dims, arrays: Sequence[str]) -> None:
        super().__init__(flow, block)
        self.begins = {name: n << _ARRAY for n, name in enumerate(arrays, 1)}

    def _operand(self, op: Operand, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        if isinstance(op, Sym):
            return self.all(self.begins[op.name] + op.offset) if op.name in self.begins else None
        return super()._operand(op, k, known)


def as_large_as_stores_allow(flow: Flow, block: Dims, sizes: Mapping[str, int]) -> bool:
    """Whether stores of a block fill the largest of the shared arrays, of these sizes; or twice as many
    threads along each axis would make two that do not meet in the block store to one place.

    Only where an array has too few bytes for twice as many: else the two meet by a wrong stride. Of places
    that a mask brings back to others nothing follows, as one thread alone may store there.
    """
    axes = [n for n in range(3) if block[n] > 1]
    if not axes:
        return False
    names = [name for name, size in sizes.items() if 0 < size < 1 << _ARRAY]
    here = _stores(flow, block, names)
    most = max(sizes.values(), default=0)
    if any(sizes[name] == most and _fill([*found.values()], most) for name, found in here.items()):
        return True
    pairs = [
        (name, a, b)
        for name, found in here.items()
        if sizes[name] < 2 * prod(block) * sum(s.bytes for s in _distinct(found.values()))
        for a, b in combinations_with_replacement(found, 2)
        if found[a].alike(found[b]) and found[a].strides(block) and not _meet(found[a], found[b])
    ]
    if not pairs:
        return False
    for axis in axes:
        x, y, z = (e * 2 if n == axis else e for n, e in enumerate(block))
        wide = _stores(flow, (x, y, z), names)
        known = [(wide[n][a], wide[n][b]) for n, a, b in pairs if {a, b} <= wide.get(n, {}).keys()]
        if not any(a.strides((x, y, z)) and _meet(a, b) for a, b in known):
            return False
    return True


def _stores(flow: Flow, block: Dims, arrays: Sequence[str]) -> dict[str, dict[int, _Store]]:
    """The stores to each array, by instruction, of which the numbers of a thread alone say the place."""
    found: dict[str, dict[int, _Store]] = {}
    for name, k, store in _each(flow, block, arrays):
        found.setdefault(name, {})[k] = store
    return {name: stores for name, stores in found.items() if len(stores) <= _STORES}


def _each(flow: Flow, block: Dims, arrays: Sequence[str]) -> Iterator[tuple[str, int, _Store]]:
    values = _Places(flow, block, arrays)
    controllers = flow.controllers()
    for k, i in enumerate(flow.body):
        written = _written(i) if flow.block_of[k] in flow.reached else None
        if written is None or _of_some(values, controllers, k):
            continue
        held = values.read(written[0].base, k)
        if held is None:
            continue
        at = held.astype(np.int64) + written[0].offset
        number = int(at[0]) >> _ARRAY
        if 0 < number <= len(arrays) and bool(np.all(at >> _ARRAY == number)):
            yield arrays[number - 1], k, _Store(written[1], at - (number << _ARRAY))


def _of_some(values: _Places, controllers: Sequence[Collection[int]], k: int) -> bool:
    """Whether the numbers of threads say that some of the block do not come to an instruction."""
    for at, wanted in conditions(values.flow, controllers, k):
        i = values.flow.body[at]
        if i.guard is None or wanted is None:
            continue
        held = values.of_version(values.flow.versions.read(i.guard.name, at))
        if held is not None and not bool(np.all((held & np.uint64(1)).astype(bool) == (wanted != i.negated))):
            return True
    return False


def _written(i: Instr) -> tuple[Mem, int] | None:
    """Where an instruction writes to shared memory for its own thread, and how many bytes."""
    access = decode_place(i)
    if access is not None:
        shared = access.space == "shared" and access.code == Ev.WRITE
        return (access.address, access.bytes) if shared else None
    if i.op != "cp" or i.mods[:1] != ("async",) or {"bulk", "mbarrier"} & {*i.mods} or len(i.operands) < 3:
        return None
    into, size = i.operands[0], i.operands[2]
    return (into, size.value) if isinstance(into, Mem) and isinstance(size, Imm) else None


def _distinct(stores: Iterable[_Store]) -> list[_Store]:
    """Stores to different places: what is filled again and again counts once."""
    return [*{(s.bytes, s.places.tobytes()): s for s in stores}.values()]


def _fill(stores: Sequence[_Store], size: int) -> bool:
    """Whether each byte of an array is stored once."""
    distinct = _distinct(stores)
    if sum(s.bytes * len(s.places) for s in distinct) != size:
        return False
    at = np.concatenate([(s.places[:, None] + np.arange(s.bytes)).ravel() for s in distinct])
    return bool(np.array_equal(np.sort(at), np.arange(size)))


def _meet(a: _Store, b: _Store) -> bool:
    """Whether two threads of a block share a byte by two stores, whose places are as far apart in each."""
    apart, wide = int(b.places[0] - a.places[0]), max(a.bytes, b.bytes)
    step = max(gcd(apart, *(a.places - a.places[0]).tolist()), 1)
    for by in range(-((wide - 1) // step) * step, wide, step):
        if by != apart and bool(np.isin(a.places + by, b.places).any()):
            return True
    return abs(apart) < wide and len(np.unique(a.places)) < len(a.places)


__all__ = ["as_large_as_stores_allow"]
