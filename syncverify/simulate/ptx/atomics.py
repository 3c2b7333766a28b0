"""``atom`` and ``red`` (PTX ISA, 9.7.13): lanes in an order that nobody may rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx.addressing import address, barrier_free, note_write, parts, space_of
from syncverify.simulate.ptx.atomic_operations import combine
from syncverify.simulate.ptx.copies import store_async
from syncverify.simulate.ptx.ordering import read_flags, scope_of, write_flags
from syncverify.simulate.ptx.program import Context, builder, vector_items
from syncverify.simulate.ptx.syntax import Instr, Sink, Vector
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
    sources = [c.reader(x, bits) for x in values]
    swap = c.reader(operands[2], bits) if op == "cas" else None
    of = combine(op, kind) if swap is None else None
    if of is None and swap is None:
        raise c.fail()
    writers: list[Callable[..., None]] = []
    if returns:
        d = i.operands[0]
        for x in d.items if isinstance(d, Vector) else (d,):
            writers.append(c.writer(x, bits) if not isinstance(x, Sink) else (lambda f, v, m: None))
    where = address(c, operands[0])
    space = space_of(i.mods)
    step = bits // 8
    size = step * len(values)
    word = step // 2 if kind.endswith("x2") else step  # packed values are accessed one by one
    scope = scope_of(i.mods) or 3
    words = set(i.mods)
    acquires, releases = bool(words & {"acquire", "acq_rel"}), bool(words & {"release", "acq_rel"})
    kind_of = UNSIGNED.get(bits)

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        R = f.R
        given = [read(R) for read in sources]
        other = swap(R) if swap is not None else None
        # what stores the value that was there lets nobody go on who could not before; in global memory
        # others may who are not executed
        changed = False
        out: list[Any] = [
            np.zeros((LANES, 2), np.uint64) if bits == 128 else np.zeros(LANES, kind_of)
            for _ in range(len(values))
        ]
        for part in parts(m, f, space, where(R), on, size, size):
            if part.space not in ("global", "shared"):
                raise m.undefined(f, f"an atomic operation on the {part.space} space", i.op)
            barrier_free(m, f, part, size)
            follows = m.older if len(values) == 1 and word == step else None
            if follows is not None:
                follows.before(m, f, part, bits)
            note_write(m, f, part, size, scope, word=word)
            if returns:
                read_flags(m, f, part, acquires, scope)
            order = m.draw.permutation(len(part.lanes)) if len(part.lanes) > 1 else [0]
            for n in range(len(values)):
                for position in order:
                    lane = int(part.lanes[position])
                    at = part.at[position : position + 1] + n * step
                    old = part.arena.load(at, bits)
                    new = given[n][lane : lane + 1]
                    if other is not None:
                        new = other[lane : lane + 1] if np.array_equal(old, new) else old
                    elif of is not None:
                        new = of(old, new)
                    part.arena.store(at, bits, new)
                    changed = changed or part.space != "shared" or not np.array_equal(old, new)
                    out[n][lane] = old[0]
            write_flags(m, f, part, releases, scope, True)
            if follows is not None:
                follows.after(m, part, bits)
        m.version += changed
        for write, value in zip(writers, out, strict=False):
            write(f, value, on)
        return None

    return c.masked(run)
