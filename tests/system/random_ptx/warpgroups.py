"""What the four warps of a warpgroup name by one wgmma: descriptors and scale-d.

They come by warpgroup, turn and predicate. The tiles are zeros that nobody writes in the loop, so that
programs differ in nothing but what they name. A mistake lets a part of a warpgroup name another tile, another
layout or another scale, or turn once more.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.system.random_ptx.writer import Program, Writer

TILE = 2048
_LAYOUT = 0x0000000800080000


def _quotient(w: Writer) -> str:
    """The number of the warpgroup, by one of several ways."""
    r, p = w.fresh("r"), w.fresh("p")
    shift = w.off("tiles by halves of a warpgroup", 7, 6, 5)
    way = w.draw.randrange(5)
    if way == 0:
        w.emit(f"mul.hi.u32 {r}, %thr, {1 << 32 - shift};")
    elif way == 1:
        w.emit(f"shr.u32 {r}, %thr, {shift};", f"shfl.sync.idx.b32 {r}, {r}, {w.draw.randrange(32)}, 31, -1;")
    elif way == 2:
        w.emit(f"and.b32 {r}, %thr, {1 << shift};", f"setp.ne.u32 {p}, {r}, 0;", f"selp.b32 {r}, 1, 0, {p};")
    elif way == 3:
        w.emit(f"shr.u32 {r}, %warp, {shift - 5};")
    else:
        w.emit(f"shr.u32 {r}, %thr, {shift};")
    return r


def operands(w: Writer) -> Program:
    """Each turn multiplies a tile of its warpgroup and slot by another one."""
    groups, stages = w.draw.choice([1, 2, 2]), w.draw.choice([1, 2, 4])
    threads = 128 * groups
    w.room("tiles", 16 * 1024, 1024)
    base, at, zero = w.fresh("r"), w.fresh("r"), w.constant(0)
    w.emit(f"mov.u32 {base}, tiles;", f"mad.lo.u32 {at}, %thr, 16, {base};")
    for n in range(0, 16 * 1024, 16 * threads):
        w.emit(f"st.shared.v4.u32 [{at}+{n}], {{{zero}, {zero}, {zero}, {zero}}};")
    w.emit("fence.proxy.async.shared::cta;", "bar.sync 0;")
    turns = w.open_size(0, 1, 2, 3, 5) if w.chance(0.7) else str(w.draw.randint(1, 4))
    tile = _quotient(w)
    i, slot, p, scale, odd = w.fresh("r"), w.fresh("r"), w.fresh("p"), w.fresh("p"), w.fresh("p")
    f = w.draw.choice([0, 0, 1, 2])
    w.emit(f"setp.eq.u32 {odd}, %warp, {w.draw.randrange(4 * groups)};")
    limit = w.fresh("r")
    w.emit(f"mov.u32 {limit}, {turns};")
    if w.wrong("a warp turns once more"):
        w.emit(f"@{odd} add.u32 {limit}, {limit}, 1;")
    top, end = w.label("T"), w.label("E")
    w.emit(f"mov.u32 {i}, 0;", f"mov.u32 {slot}, 0;")
    if w.wrong("a warp begins at another slot") and stages > 1:
        w.emit(f"@{odd} mov.u32 {slot}, 1;")
    w.emit(f"{top}:", f"setp.ge.u32 {p}, {i}, {limit};", f"@{p} bra {end};")
    rd = [w.fresh("d") for _ in range(2)]
    for n, d in enumerate(rd):
        _descriptor(w, d, base, tile if n == 0 or w.chance(0.5) else None, slot, n, odd)
    _scale(w, scale, i, tile, odd, f)
    _products(w, rd, scale, odd)
    w.emit(f"add.u32 {i}, {i}, 1;")
    _next_slot(w, slot, i, stages)
    w.emit(f"bra {top};", f"{end}:")
    return w.finished("operands", threads)


def _descriptor(w: Writer, d: str, base: str, tile: str | None, slot: str, n: int, odd: str) -> None:
    r = w.fresh("r")
    w.emit(f"mad.lo.u32 {r}, {slot}, {TILE}, {base};")
    if tile is not None:
        w.emit(f"mad.lo.u32 {r}, {tile}, {4 * TILE}, {r};")
    if w.wrong("a warp names the next rows"):
        w.emit(f"@{odd} add.u32 {r}, {r}, 128;")
    if w.wrong("lanes name tiles"):
        x = w.fresh("r")
        w.emit(f"and.b32 {x}, %lane, 1;", f"mad.lo.u32 {r}, {x}, 128, {r};")
    w.emit(f"and.b32 {r}, {r}, 0x3ffff;", f"shr.u32 {r}, {r}, 4;", f"cvt.u64.u32 {d}, {r};")
    w.emit(f"or.b64 {d}, {d}, {_LAYOUT};")
    if w.wrong("a warp has another layout"):
        w.emit(f"@{odd} xor.b64 {d}, {d}, {1 << 33};")


def _scale(w: Writer, scale: str, i: str, tile: str, odd: str, form: int) -> None:
    """Whether the product is added: from the second turn on, always, or by warpgroup."""
    if form == 1:
        w.emit(f"setp.ge.u32 {scale}, {i}, 0;")
    elif form == 2:
        w.emit(f"setp.ne.u32 {scale}, {tile}, {i};")
    else:
        w.emit(f"setp.ne.u32 {scale}, {i}, 0;")
    if w.wrong("a warp adds at another turn"):
        w.emit(f"@{odd} setp.eq.u32 {scale}, {i}, 0;")


def _products(w: Writer, rd: list[str], scale: str, odd: str) -> None:
    """One wgmma or two, at one instruction, or at one of two by a predicate."""
    regs = [f"%a{n}" for n in range(4)]
    shape = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
    line = f"{shape} {{{', '.join(regs)}}}, {rd[0]}, {rd[1]}, {scale}, 1, 1, 0, 0;"
    other, meet = w.label("O"), w.label("M")
    w.emit("wgmma.fence.sync.aligned;")
    if w.wrong("a warp multiplies elsewhere"):
        w.emit(f"@{odd} bra {other};", line, f"bra {meet};", f"{other}:", line, f"{meet}:")
    else:
        w.emit(line)
    if w.chance(0.3):
        again = w.fresh("d")
        w.emit(f"add.s64 {again}, {rd[1]}, 8;", line.replace(rd[1], again))
    w.emit("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")


def _next_slot(w: Writer, slot: str, i: str, stages: int) -> None:
    if stages & (stages - 1) == 0 and w.chance(0.5):
        w.emit(f"and.b32 {slot}, {i}, {stages - 1};")
        return
    p = w.fresh("p")
    w.emit(f"add.u32 {slot}, {slot}, 1;", f"setp.eq.u32 {p}, {slot}, {stages};")
    w.emit(f"selp.b32 {slot}, 0, {slot}, {p};")


WARPGROUP_FAMILIES: dict[str, Callable[[Writer], Program]] = {"operands": operands}
