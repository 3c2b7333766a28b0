"""Right by what the host keeps to in its data: permutations, bounds, rows that do not overlap, own slots.

The checker is not told. It may say that it does not know; it may not refute a right program by an input that
the host never gives. Executions have inputs that keep to the contract. Mistakes do harm under it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.system.random_ptx.block_words import Block
from tests.system.random_ptx.writer import Program, Writer


def _base(w: Writer, name: str) -> str:
    r = w.fresh("r")
    w.emit(f"mov.u32 {r}, {name};")
    return r


def _read_all(b: Block, mistake: str, at: str) -> None:
    """Behind a barrier each reads a word that another may have stored."""
    w = b.w
    r, value = w.fresh("r"), w.fresh("r")
    if not w.wrong(mistake):
        w.emit("bar.sync 0;")
    w.emit(
        f"xor.b32 {r}, {at}, {4 * w.draw.randrange(1, b.threads & -b.threads)};",
        f"ld.shared.u32 {value}, [{r}];",
    )


def _made(b: Block, family: str, *contents: list[int]) -> Program:
    p = b.ended(family, *(tuple(int(x) for x in c) for c in contents))
    p.of_host = True
    return p


def _two(w: Writer) -> Block:
    return Block(w, w.draw.choice([32, 64, 64, 128]))


def scattered(w: Writer) -> Program:
    """Each thread stores to the place that a permutation gives it."""
    b = _two(w)
    to, at = b.loaded("%thr"), w.fresh("r")
    base = _base(w, "arr")
    if w.wrong("halves of the permutation share places"):
        w.emit(f"and.b32 {to}, {to}, {b.threads // 2 - 1};")
    w.emit(f"mad.lo.u32 {at}, {to}, 4, {base};", f"st.shared.u32 [{at}], %thr;")
    _read_all(b, "no barrier behind the scattered stores", b.own)
    if w.wrong("stores again while others read"):
        w.emit(f"st.shared.u32 [{at}], {to};")
    rng = np.random.default_rng(w.seed)
    return _made(b, "scattered", *(list(rng.permutation(b.threads)) for _ in range(3)))


def gathered(w: Writer) -> Program:
    """Each thread stores its own word and reads one that an index names, which is inside."""
    b = _two(w)
    of, at, value, base = b.loaded("%thr"), w.fresh("r"), w.fresh("r"), _base(w, "arr")
    w.emit(f"st.shared.u32 [{b.own}], %thr;")
    if not w.wrong("no barrier before the gathered loads"):
        w.emit("bar.sync 0;")
    w.emit(f"mad.lo.u32 {at}, {of}, 4, {base};", f"ld.shared.u32 {value}, [{at}];")
    if w.wrong("stores while others gather"):
        w.emit(f"st.shared.u32 [{b.own}], {value};")
    rng = np.random.default_rng(w.seed)
    return _made(b, "gathered", *(list(rng.integers(0, b.threads, 256)) for _ in range(3)))


def slots(w: Writer) -> Program:
    """Each warp has a slot of its own by a table."""
    b = Block(w, w.draw.choice([64, 128]))
    index = "%lane" if w.wrong("a slot of each lane") else "%warp"
    slot, at, base = b.loaded(index), w.fresh("r"), _base(w, "arr")
    if w.wrong("two warps share a slot"):
        w.emit(f"shr.u32 {slot}, {slot}, 1;")
    lane = w.fresh("r")
    w.emit(
        f"mad.lo.u32 {at}, {slot}, 128, {base};",
        f"mul.lo.u32 {lane}, %lane, 4;",
        f"add.u32 {at}, {at}, {lane};",
    )
    w.emit(f"st.shared.u32 [{at}], %thr;")
    _read_all(b, "no barrier behind the slots", b.own)
    rng, warps = np.random.default_rng(w.seed), b.threads // 32
    return _made(b, "slots", *(list(rng.permutation(warps)) for _ in range(3)))


def segments(w: Writer) -> Program:
    """Each warp fills the words from its offset to the next one."""
    b = Block(w, w.draw.choice([64, 128]))
    first, end = b.loaded("%warp"), b.loaded("%warp", w.off("up to the end of the next", 1, 2))
    i, p, at, base = w.fresh("r"), w.fresh("p"), w.fresh("r"), _base(w, "arr")
    top, out = w.label("T"), w.label("E")
    w.emit(f"add.u32 {i}, {first}, %lane;", f"{top}:", f"setp.ge.u32 {p}, {i}, {end};", f"@{p} bra {out};")
    w.emit(f"mad.lo.u32 {at}, {i}, 4, {base};", f"st.shared.u32 [{at}], %thr;", f"add.u32 {i}, {i}, 32;")
    w.emit(f"bra {top};", f"{out}:")
    _read_all(b, "no barrier behind the segments", b.own)
    rng, warps = np.random.default_rng(w.seed), b.threads // 32
    cuts = [np.sort(rng.integers(0, b.threads, warps + 2)) for _ in range(2)]
    even = np.arange(warps + 2) * 32
    return _made(b, "segments", list(even), *(list(c) for c in cuts))


def counted(w: Writer) -> Program:
    """Each warp counts in bins of its own, whose number the host bounds by 32."""
    b = Block(w, w.draw.choice([64, 128]))
    bin_, at, base = b.loaded("%thr"), w.fresh("r"), _base(w, "arr")
    one, row = w.constant(1), w.fresh("r")
    zero = w.constant(0)
    w.emit(f"st.shared.u32 [{b.own}], {zero};")
    own_row = not w.wrong("all warps count in the bins of the first")
    if not w.wrong("no barrier of the warp behind the zeros"):
        w.emit("bar.sync 0;" if not own_row or w.chance(0.5) else "bar.warp.sync -1;")
    w.emit(f"mul.lo.u32 {row}, %warp, {128 if own_row else 0};", f"add.u32 {row}, {row}, {base};")
    w.emit(f"mad.lo.u32 {at}, {bin_}, 4, {row};")
    if w.wrong("counts without an atomic"):
        v = w.fresh("r")
        w.emit(f"ld.shared.u32 {v}, [{at}];", f"add.u32 {v}, {v}, 1;", f"st.shared.u32 [{at}], {v};")
    elif own_row:
        w.emit(f"red.shared.add.u32 [{at}], {one};")
    else:
        w.emit(f"st.shared.u32 [{at}], %thr;")
    _read_all(b, "no barrier before the bins are read", b.own)
    rng = np.random.default_rng(w.seed)
    return _made(b, "counted", *(list(rng.integers(0, n, 256)) for n in (32, 4, 1)))


CONTRACT_FAMILIES: dict[str, Callable[[Writer], Program]] = {
    "scattered": scattered, "gathered": gathered, "slots": slots, "segments": segments, "counted": counted,
}  # fmt: skip
