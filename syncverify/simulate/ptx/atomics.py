"""``atom`` and ``red`` (PTX ISA, 9.7.13): lanes in an order that nobody may rely on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx.addressing import address, barrier_free, note_write, parts, space_of
from syncverify.simulate.ptx.atomic_operations import combine
from syncverify.simulate.ptx.copies import store_async
from syncverify.simulate.ptx.ordering import read_flags, scope_of, write_flags
from syncverify.simulate.ptx.program import Context, builder, vector_items
from syncverify.simulate.ptx.syntax import Instr, Operand, Sink, Vector
from syncverify.simulate.ptx.types import BITS, LANES, UNSIGNED, Lanes, type_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_WORDS = frozenset(
    {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "global",
        "shared", "shared::cta",
     "shared::cluster", "noftz", "L2::cache_hint", "v2", "v4", "v8"}
)  # fmt: skip
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


@builder("atom", "red")
def _atom(c: Context, i: Instr) -> Step:
    if "async" in i.mods:
        return store_async(c, i)
    op = next((m for m in i.mods if m in _OPERATIONS), None)
    kind = type_of(i.mods)
    for m in i.mods:
        if m not in _WORDS and m not in _OPERATIONS and m not in BITS:
            raise c.fail(f"the modifier .{m}")
    if op is None or not kind:
        raise c.fail()
    returns = i.op == "atom"
    operands = i.operands[1:] if returns else i.operands
    bits = BITS[kind]
    values = vector_items(c, i, operands[1], "operands")
    swap = c.reader(operands[2], bits) if op == "cas" else None
    of = combine(op, kind) if swap is None else None
    if of is None and swap is None:
        raise c.fail()
    words = set(i.mods)
    step = bits // 8
    return c.masked(
        _Atomic(
            name=i.op,
            space=space_of(i.mods),
            where=address(c, operands[0]),
            bits=bits,
            sources=[c.reader(x, bits) for x in values],
            swap=swap,
            of=of,
            writers=_writers(c, i.operands[0], bits) if returns else None,
            word=step // 2 if kind.endswith("x2") else step,
            scope=scope_of(i.mods) or 3,
            acquires=bool(words & {"acquire", "acq_rel"}),
            releases=bool(words & {"release", "acq_rel"}),
        ).run
    )


def _writers(c: Context, into: Operand, bits: int) -> list[Callable[..., None]]:
    """What writes each destination; a sink takes its value away."""
    items = into.items if isinstance(into, Vector) else (into,)
    return [c.writer(x, bits) if not isinstance(x, Sink) else (lambda f, v, m: None) for x in items]


@dataclass(frozen=True, slots=True)
class _Atomic:
    """An atomic operation on one word or several, of which each is atomic by itself."""

    name: str
    space: str
    where: Callable[..., Any]
    bits: int
    sources: list[Callable[..., Any]]
    swap: Callable[..., Any] | None  # what ``cas`` stores
    of: Callable[..., Any] | None  # the old value and the operand to the new one
    writers: list[Callable[..., None]] | None  # of the old values; None for ``red``
    word: int  # bytes that are accessed as one: packed values are accessed one by one
    scope: int
    acquires: bool
    releases: bool

    def run(self, f: Fragment, on: Lanes) -> Next:
        """Executes it for some lanes."""
        m = f.warp.machine
        R = f.R
        others = () if m.launch.whole else ("global",)
        bits, step = self.bits, self.bits // 8
        given = [read(R) for read in self.sources]
        other = self.swap(R) if self.swap is not None else None
        size = step * len(given)
        # what stores the value that was there lets nobody go on who could not before; in global memory
        # others may, where not all blocks are executed
        changed = False
        out: list[Any] = [
            np.zeros((LANES, 2), np.uint64) if bits == 128 else np.zeros(LANES, UNSIGNED.get(bits))
            for _ in given
        ]
        for part in parts(m, f, self.space, self.where(R), on, size, size):
            if part.space not in ("global", "shared"):
                raise m.undefined(f, f"an atomic operation on the {part.space} space", self.name)
            barrier_free(m, f, part, size)
            follows = m.older if len(given) == 1 and self.word == step else None
            if follows is not None:
                follows.before(m, f, part, bits)
            note_write(m, f, part, size, self.scope, word=self.word)
            if self.writers is not None:
                read_flags(m, f, part, self.acquires, self.scope)
            order = m.draw.permutation(len(part.lanes)) if len(part.lanes) > 1 else [0]
            # A lane reads what the one before it has left at the place: a chain, as between warps.
            chain = len(given) == 1 and len(np.unique(part.at)) < len(part.at)
            for n in range(len(given)):
                for position in order:
                    lane = int(part.lanes[position])
                    own = slice(position, position + 1)
                    at = part.at[own] + n * step
                    one = replace(part, at=part.at[own], lanes=part.lanes[own])
                    if chain and self.writers is not None:
                        read_flags(m, f, one, self.acquires, self.scope)
                    old = part.arena.load(at, bits)
                    new = self._new(old, given[n][lane : lane + 1], other, lane)
                    part.arena.store(at, bits, new)
                    changed = changed or part.space in others or not np.array_equal(old, new)
                    out[n][lane] = old[0]
                    if chain:
                        write_flags(m, f, one, self.releases, self.scope, changes=True)
            if not chain:
                write_flags(m, f, part, self.releases, self.scope, changes=True)
            if follows is not None:
                follows.after(m, part, bits)
        m.version += changed
        for write, value in zip(self.writers or (), out, strict=False):
            write(f, value, on)
        return None

    def _new(self, old: Any, given: Any, other: Any, lane: int) -> Any:
        """What a lane stores."""
        if other is not None:
            return other[lane : lane + 1] if np.array_equal(old, given) else old
        return given if self.of is None else self.of(old, given)
