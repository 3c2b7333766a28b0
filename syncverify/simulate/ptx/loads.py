"""``ld`` and ``st`` of all state spaces (PTX ISA, 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.addressing import (
    address,
    barrier_free,
    differing,
    discarded,
    granules,
    lanes_of,
    note_read,
    note_write,
    parts,
    space_of,
    written,
)
from syncverify.simulate.ptx.harm import DISCARD, READ_ONLY
from syncverify.simulate.ptx.ordering import read_flags, scope_of, write_flags
from syncverify.simulate.ptx.program import VECTORS, Context, builder, vector_items
from syncverify.simulate.ptx.syntax import Instr, Mem, Sym
from syncverify.simulate.ptx.types import BITS, LANES, UNSIGNED, Lanes, is_signed, type_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_HINTS = frozenset(
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "L1::evict_normal", "L1::evict_unchanged",
     "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B",
        "L2::cache_hint",
     "L2::evict_normal", "L2::evict_first", "L2::evict_last", "unified"}
)  # fmt: skip
#: Bytes that ``discard`` destroys.
_LINE = 128
_ORDERS = frozenset({"relaxed", "acquire", "release", "volatile", "mmio", "cta", "cluster", "gpu", "sys"})
_SPACES = frozenset(
    {
        "global",
        "shared",
        "shared::cta",
        "shared::cluster",
        "local",
        "const",
        "param",
        "param::entry",
        "param::func",
    }
)


def _known(c: Context, i: Instr) -> None:
    for m in i.mods:
        if m not in _HINTS and m not in _ORDERS and m not in _SPACES and m not in VECTORS and m not in BITS:
            raise c.fail(f"the modifier .{m}")


def _strength(i: Instr) -> int:
    """0 for weak accesses, else the scope."""
    if "volatile" in i.mods or "mmio" in i.mods:
        return scope_of(i.mods) or 4
    if {"relaxed", "acquire", "release"} & set(i.mods):
        return scope_of(i.mods) or 4
    return 0


@builder("ld", "ldu")
def _ld(c: Context, i: Instr) -> Step:
    _known(c, i)
    kind = type_of(i.mods)
    bits, sign = BITS[kind], is_signed(kind)
    targets = vector_items(c, i, i.operands[0], "destinations")
    writers = [c.writer(x, bits, sign) for x in targets]
    space = space_of(i.mods)
    if space == "param" and (found := _parameter(c, i)) is not None:
        return _load_parameter(c, found, bits, writers)
    where = address(c, i.operands[1])
    step = bits // 8
    size = step * len(targets)
    strong = _strength(i)
    alike = i.op == "ldu"
    acquires, read_only = "acquire" in i.mods, i.op == "ldu" or "nc" in i.mods

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        a = where(f.R)
        if alike and np.count_nonzero(on) and np.any(a[on] != a[on][0]):
            raise m.undefined(f, "lanes of one warp name different addresses", "ldu")
        out: list[Lanes] = []
        for part in parts(m, f, space, a, on, size, size):
            barrier_free(m, f, part, size)
            note_read(m, f, part, size, strong, step)
            if part.space == "global" and discarded(part, size):
                raise m.undefined(f, "a load of what was discarded", DISCARD)
            if read_only and part.space == "global" and written(part, size):
                raise m.undefined(f, "a load of memory that this launch has written", READ_ONLY)
            for n in range(len(targets)):
                loaded = part.arena.load(part.at + n * step, bits)
                if strong and m.older is not None:
                    m.older.read(m, f, part, loaded, len(targets))
                value = lanes_of(loaded, part.lanes)
                if n < len(out):
                    out[n] = out[n] | value
                else:
                    out.append(value)
            if strong and (m.flags or m.older is not None):
                read_flags(m, f, part, acquires, strong)
        for write, value in zip(writers, out, strict=True):
            write(f, value, on)
        return None

    return c.masked(run)


def _parameter(c: Context, i: Instr) -> tuple[str, int] | None:
    """A parameter by name: (name, byte)."""
    operand = next(x for x in i.operands if isinstance(x, Mem))
    base = operand.base
    if isinstance(base, Sym) and base.name in c.params:
        return base.name, base.offset + operand.offset
    return None


def _is_kernel_parameter(c: Context, name: str) -> bool:
    return c.function.entry and any(v.name == name for v in c.function.params)


def _load_parameter(c: Context, found: tuple[str, int], bits: int, writers: list) -> Step:  # type: ignore[type-arg]
    name, at = found
    step = bits // 8
    outside = _is_kernel_parameter(c, name)
    size = c.params[name]
    if at < 0 or at + step * len(writers) > max(size, step):
        raise c.fail(f"{name} has {size} bytes")

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        if outside:
            start = m.loaded.param_offsets[name] + at
            raw = np.broadcast_to(
                m.params.bytes[start : start + step * len(writers)], (LANES, step * len(writers))
            )
        else:
            raw = f.params[name][:, at : at + step * len(writers)]
        for n, write in enumerate(writers):
            piece = np.ascontiguousarray(raw[:, n * step : (n + 1) * step])
            if bits == 128:
                write(f, piece.view(np.uint64).reshape(LANES, 2), on)
            else:
                write(f, piece.view(UNSIGNED[bits]).reshape(LANES), on)
        return None

    return c.masked(run)


@builder("st")
def _st(c: Context, i: Instr) -> Step:
    if "async" in i.mods:
        from syncverify.simulate.ptx.copies import store_async

        return store_async(c, i)
    if "bulk" in i.mods:
        raise c.fail("st.bulk")
    _known(c, i)
    kind = type_of(i.mods)
    bits = BITS[kind]
    sources = [c.reader(x, bits) for x in vector_items(c, i, i.operands[1], "sources")]
    space = space_of(i.mods)
    if space == "param" and (found := _parameter(c, i)) is not None:
        return _store_parameter(c, found, bits, sources)
    where = address(c, i.operands[0])
    step = bits // 8
    size = step * len(sources)
    strong = _strength(i)
    releases = "release" in i.mods

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        R = f.R
        for part in parts(m, f, space, where(R), on, size, size):
            if part.space in ("const", "param"):
                raise m.undefined(f, f"a store to the {part.space} space", "st")
            barrier_free(m, f, part, size)
            values = [read(R)[part.lanes] for read in sources]
            follows = m.older if strong and len(values) == 1 else None
            if follows is not None:
                follows.before(m, f, part, bits)
            note_write(m, f, part, size, strong, bytes_of(values, step), step)
            for n, value in enumerate(values):
                part.arena.store(part.at + n * step, bits, value)
            if part.space != "local":
                # strong stores of several lanes are in no order, and no race: one of them is the last
                if len(part.lanes) > 1 and not strong and part.arena.shadow is not None:
                    for n, value in enumerate(values):
                        sub = (
                            part
                            if n == 0
                            else type(part)(part.space, part.arena, part.at + n * step, part.lanes)
                        )
                        differing(m, f, sub, bits, value)
                m.version += 1
                if strong or m.flags:
                    write_flags(m, f, part, releases, strong, False)
                if follows is not None:
                    follows.after(m, part, bits)
        return None

    return c.masked(run)


def bytes_of(values: list[Lanes], step: int) -> Callable[[], Lanes]:
    """The bytes of a vector, one row for each lane."""

    def join() -> Lanes:
        return np.concatenate(
            [np.ascontiguousarray(v).view(np.uint8).reshape(-1, step) for v in values], axis=1
        )

    return join


def _store_parameter(c: Context, found: tuple[str, int], bits: int, sources: list) -> Step:  # type: ignore[type-arg]
    name, at = found
    step, size = bits // 8, c.params[name]

    def run(f: Fragment, on: Lanes) -> Next:
        old = f.params.get(name)
        out = np.zeros((LANES, size), np.uint8) if old is None else old.copy()
        for n, read in enumerate(sources):
            value = np.ascontiguousarray(read(f.R)).view(np.uint8).reshape(LANES, step)
            begin = at + n * step
            out[:, begin : begin + step] = np.where(on[:, None], value, out[:, begin : begin + step])
        f.params[name] = out
        return None

    return c.masked(run)


@builder("prefetch", "prefetchu", "applypriority", "createpolicy")
def _hint(c: Context, i: Instr) -> Step:
    """Hints: they change nothing that a kernel may rely on."""
    if i.op == "createpolicy":
        write = c.writer(i.operands[0], 64)

        def policy(f: Fragment, on: Lanes) -> Next:
            write(f, np.zeros(LANES, np.uint64), on)
            return None

        return c.masked(policy)
    return lambda f: None


@builder("discard")
def _discard(c: Context, i: Instr) -> Step:
    """PTX ISA, discard: like a weak write of bytes that nobody knows."""
    where = address(c, i.operands[0])

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        for part in parts(m, f, "global" if "global" in i.mods else "generic", where(f.R), on, _LINE, _LINE):
            if part.space != "global":
                raise m.undefined(f, f"a discard in the {part.space} space", DISCARD)
            note_write(m, f, part, _LINE)
            for at in part.at:
                part.arena.bytes[at : at + _LINE] = m.draw.integers(0, 256, _LINE, np.uint8)
            if part.arena.shadow is not None:
                part.arena.shadow.discard(granules(part.at, _LINE, part.arena.shadow.granule))
            m.version += 1
        return None

    return c.masked(run)
