"""Shapes that open sizes and data steer: two sides, returns, buffers in turn, tickets, edited tensor maps."""

from __future__ import annotations

from collections.abc import Callable

from tests.system.random_ptx.families import keep
from tests.system.random_ptx.structured import OWN, READ, Maker, structured
from tests.system.random_ptx.writer import Program, Writer


def _maker(w: Writer) -> Maker:
    m = Maker(w, w.draw.choice([32, 64, 64, 96, 128]))
    m.prologue()
    return m


def _some(m: Maker, *ways: Callable[[], None]) -> None:
    for _ in range(m.w.draw.randint(0, 2)):
        begin = len(m.w.lines)
        m.w.draw.choice(ways)()
        m.last = begin


def _ended(m: Maker, family: str) -> Program:
    m.w.emit(f"{m.exit}:")
    return m.w.finished(family, m.threads)


def sides(w: Writer) -> Program:
    """Guards with two sides, each of which moves addresses and stores; all meet behind them."""
    m = _maker(w)
    for _ in range(w.draw.randint(1, 2)):
        _some(m, m.access, m.move)
        if w.chance(0.5):
            _both_move(m)
        else:
            m.branch(1, True)
        _some(m, m.access, m.barrier)
    _some(m, m.access)
    return _ended(m, "sides")


def _both_move(m: Maker) -> None:
    """All read words of others; then both sides of a guard move one register to another array, and store."""
    w, draw = m.w, m.w.draw
    r = draw.choice(list(m.at))
    old = next(iter(m.at[r]))
    new = draw.choice([a for a in (old ^ 1, old ^ 2, old ^ 3) if m.may(frozenset([a]), OWN)] or [old])
    if new == old or len(m.at[r]) > 1 or not m.may(m.at[r], READ):
        m.branch(1, True)
        return
    there, p, shift = w.fresh("r"), m.condition(False)[0], 4 * draw.randrange(1, m.threads & -m.threads)
    w.emit(f"xor.b32 {there}, {r}, {shift};", f"ld.shared.u32 {m.values[0]}, [{there}];")
    other, meet = w.label("S"), w.label("M")
    w.emit(f"@{draw.choice(['', '!'])}{p} bra {other};")
    by = (new - old) * m.stride
    for side in (0, 1):
        moves = [
            f"add.s32 {r}, {r}, {by};",
            f"sub.s32 {r}, {r}, {-by};",
            f"add.u32 {r}, {m.own}, {new * m.stride};",
        ]
        move = draw.choice(moves)
        if not m.wrong("a side forgets its move"):
            w.emit(move)
        w.emit(f"st.shared.{draw.choice(['u32', 'u8'])} [{r}], %thr;")
        w.emit(*([f"{meet}:"] if side else [f"bra {meet};", f"{other}:"]))
    m.used |= {old: READ, new: OWN}
    m.at[r] = frozenset([new])


def returns(w: Writer) -> Program:
    """Threads behind an open size return; those that are left meet and exchange words."""
    m = _maker(w)
    _some(m, m.access, m.move, m.barrier)
    m.leave()
    for _ in range(w.draw.randint(1, 3)):
        begin = len(w.lines)
        m.access()
        m.last = begin
        m.barrier()
        _some(m, m.access, m.move)
    return _ended(m, "returns")


def turns(w: Writer) -> Program:
    """A loop whose turns are an open size, with barriers in it."""
    m = _maker(w)
    _some(m, m.access, m.move)
    m.loop(1, True)
    m.barrier()
    m.access()
    return _ended(m, "turns")


def buffers(w: Writer) -> Program:
    """Each turn fills one of several buffers, meets once, and reads it; one buffer needs two meetings."""
    m = _maker(w)
    draw, stages = w.draw, w.draw.choice([1, 2, 2, 3])
    i, p, q, slot = (w.fresh(k) for k in "rppr")
    top, end = w.label("T"), w.label("E")
    mine, theirs, value = w.fresh("r"), w.fresh("r"), m.values[0]
    by_counter, guarded, before = draw.random() < 0.6, draw.random() < 0.4, draw.random() < 0.5
    shift = 4 * draw.randrange(1, m.threads & -m.threads)
    limit = m.limit(True)
    w.emit(f"mov.u32 {i}, 0;", f"mov.u32 {mine}, {m.own};", f"mov.u32 {slot}, 0;", f"{top}:")
    w.emit(f"setp.ge.s32 {p}, {i}, {limit};", f"@{p} bra {end};")
    slots = w.off("a slot fewer", stages, max(stages - 1, 1))
    if by_counter:
        w.emit(f"rem.u32 {slot}, {i}, {slots};", f"mad.lo.u32 {mine}, {slot}, {m.stride}, {m.own};")
    store = f"st.shared.{draw.choice(['u32', 'u16', 'u8'])} [{mine}], {value};"
    if w.wrong("stores a word further"):
        store = store.replace("]", "+4]")
    if guarded:
        what = draw.choice(["%thr", m.index])
        w.emit(f"setp.lt.s32 {q}, {what}, {m.size};")
        store = f"@{q} {store}"
    if w.wrong("stores behind the barrier"):
        w.emit("bar.sync 0;", store)
    elif w.wrong("no barrier behind the store"):
        w.emit(store)
    else:
        w.emit(store, "bar.sync 0;")
    w.emit(f"xor.b32 {theirs}, {mine}, {shift};", f"ld.shared.u32 {value}, [{theirs}];")
    if stages == 1 and not w.wrong("no barrier behind the read"):
        w.emit("bar.sync 0;")
    if not by_counter and not w.wrong("stays in its buffer"):
        w.emit(f"add.u32 {slot}, {slot}, 1;", f"setp.eq.u32 {q}, {slot}, {slots};")
        w.emit(f"add.u32 {mine}, {mine}, {m.stride};")
        if before:
            w.emit(f"@{q} mov.u32 {mine}, {m.own};", f"@{q} mov.u32 {slot}, 0;")
        else:
            w.emit(f"selp.b32 {mine}, {m.own}, {mine}, {q};", f"selp.b32 {slot}, 0, {slot}, {q};")
    w.emit(f"add.u32 {i}, {i}, 1;", f"bra {top};", f"{end}:")
    return _ended(m, "buffers")


def tickets(w: Writer) -> Program:
    """One thread draws a number from a counter and hands it to all; they work until it is an open size."""
    m = _maker(w)
    draw = w.draw
    if draw.random() < 0.8:  # a grid that is not known may draw more numbers than there are
        w.grids = ()
    w.room("ticket", 16, 16)
    top, end, over, p, q, t = *(w.label(x) for x in "TEO"), *(w.fresh(k) for k in "ppr")
    counter, most = w.counter(), draw.randint(1, 3)
    leader = draw.choice([0, 0, m.threads - 1])
    late, works = draw.random() < 0.5, draw.random() < 0.6
    again = draw.choice(
        [f"atom.global.add.u32 {t}, [{counter}], 1;", f"atom.global.inc.u32 {t}, [{counter}], 9999;"]
    )
    w.emit(f"setp.eq.u32 {q}, %thr, {leader};", f"{top}:", f"@!{q} bra {over};")
    w.emit(again, f"st.shared.u32 [ticket], {t};")
    w.emit(f"{over}:")
    if not w.wrong("no barrier before the number is read"):
        w.emit("bar.sync 0;")
    w.emit(f"ld.shared.u32 {t}, [ticket{'+4' if w.wrong('another word') else ''}];")
    if not late and not w.wrong("no barrier behind the number"):
        w.emit("bar.sync 0;")
    bound = "%thr" if w.wrong("a bound of each thread") else most
    w.emit(f"setp.ge.u32 {p}, {t}, {bound};", f"@{p} bra {end};")
    if works:
        shift = 4 * draw.randrange(1, m.threads & -m.threads)
        r, value = w.fresh("r"), m.values[1]
        w.emit(f"st.shared.u32 [{m.own}{'+4' if w.wrong('a word further') else ''}], {t};")
        if not w.wrong("no barrier between store and load"):
            w.emit("bar.sync 0;")
        w.emit(f"xor.b32 {r}, {m.own}, {shift};", f"ld.shared.u32 {value}, [{r}];")
        if not late and not w.wrong("no barrier behind the load"):
            w.emit("bar.sync 0;")
    if late and not w.wrong("no barrier at the end of a turn"):
        w.emit("bar.sync 0;")
    w.emit(f"bra {top};", f"{end}:")
    return _ended(m, "tickets")


#: A map's fields that are numbers for each dimension.
_EACH = ("box_dim", "global_dim", "element_stride")


def edits(w: Writer) -> Program:
    """One lane edits a tensor map, its warp publishes it, one thread copies a box by it; once or twice."""
    draw = w.draw
    warps, rank = draw.choice([1, 1, 2]), draw.choice([1, 2, 2, 3])
    w.room("map", 128, 128)
    w.room("tile", 4096, 128)
    w.room("bars", 8, 8)
    one, end, g, s = w.fresh("p"), w.label("E"), w.fresh("d"), w.fresh("r")
    at = 128 * draw.randrange(4)
    w.emit(f"setp.ne.u32 {one}, %thr, 0;", f"mov.u32 {s}, map;", f"add.s64 {g}, %out, {at};")
    w.emit(f"@{one} bra {(over := w.label('O'))};", "mbarrier.init.shared::cta.b64 [bars], 1;")
    w.emit("fence.mbarrier_init.release.cluster;", f"{over}:")
    if warps > 1:
        if not w.wrong("no barrier behind the init"):
            w.emit("bar.sync 0;")
        last = w.fresh("p")
        w.emit(f"setp.ne.u32 {last}, %warp, 0;", f"@{last} bra {end};")
    rounds = draw.choice([1, 1, 2])
    box = [draw.choice([8, 16]) for _ in range(rank)]
    size = 4
    for b in box:
        size *= b
    while size > 4096:
        box[-1] //= 2
        size //= 2
    for n in range(rounds):
        _edit(w, one, s, box, n)
        if not w.wrong("no warp barrier before the map is published"):
            w.emit("bar.warp.sync -1;")
        copy = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
        w.emit(f"{copy} [{g}], [{s}], 128;")
        other = "+128" if w.wrong("acquires another map") else ""
        if not w.wrong("no acquire"):
            w.emit(f"fence.proxy.tensormap::generic.acquire.gpu [{g}{other}], 128;")
        skip = w.label("O")
        w.emit(f"@{one} bra {skip};")
        _copy_box(w, g, rank, size, n)
        w.emit(f"{skip}:")
        if n + 1 < rounds and not w.wrong("no warp barrier before the next edit"):
            w.emit("bar.warp.sync -1;")
    w.emit(f"{end}:")
    return w.finished("edits", 32 * warps)


def _edit(w: Writer, one: str, s: str, box: list[int], n: int) -> None:
    word, zero = w.fresh("r"), w.constant(0)
    skip, pitch = w.label("O"), w.fresh("d")
    w.emit(f"mad.lo.u32 {word}, %lane, 4, {s};", f"st.shared.u32 [{word}], {zero};")
    if not w.wrong("no warp barrier before the edit"):
        w.emit("bar.warp.sync -1;")
    w.emit(f"@{one} bra {skip};")
    tile = "tensormap.replace.tile"
    w.emit(f"{tile}.global_address.shared::cta.b1024.b64 [{s}], %in;")
    rank = w.off("rank", len(box) - 1, len(box), max(len(box) - 2, 0))
    w.emit(f"{tile}.rank.shared::cta.b1024.b32 [{s}], {rank};")
    bytes_ = 4
    for k, b in enumerate(box):
        wide = w.off("box", b, b // 2) if k == 0 else b
        for name, value in zip(_EACH, (wide, 2 * b, 1), strict=True):
            w.emit(f"{tile}.{name}.shared::cta.b1024.b32 [{s}], {k}, {value};")
        bytes_ *= 2 * b
        if k + 1 < len(box):
            w.emit(f"mov.u64 {pitch}, {bytes_};")
            w.emit(f"{tile}.global_stride.shared::cta.b1024.b64 [{s}], {k}, {pitch};")
    w.emit(f"{tile}.elemtype.shared::cta.b1024.b32 [{s}], {w.off('element', 7, 4)};")
    for name in ("interleave_layout", "swizzle_mode", "fill_mode"):
        w.emit(f"{tile}.{name}.shared::cta.b1024.b32 [{s}], 0;")
    w.emit(f"{skip}:")


def _copy_box(w: Writer, g: str, rank: int, size: int, n: int) -> None:
    at = ", ".join(str(w.draw.choice([0, 0, 4])) for _ in range(rank))
    expected = w.off("expected bytes", size, size // 2)
    w.emit(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], {expected};")
    copy = "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    w.emit(f"{copy.format(rank)} [tile], [{g}, {{{at}}}], [bars];")
    if not w.wrong("no wait"):
        p, top = w.fresh("p"), w.label("W")
        w.emit(f"{top}:", f"mbarrier.try_wait.parity.shared::cta.b64 {p}, [bars], {n % 2};")
        w.emit(f"@!{p} bra {top};")
    r = w.fresh("r")
    w.emit(f"ld.shared.u32 {r}, [tile+{4 * w.draw.randrange(size // 4)}];")
    keep(w, r)  # the load has arrived
    if not w.wrong("no fence behind the read"):
        w.emit("fence.proxy.async.shared::cta;")


OPEN_FAMILIES: dict[str, Callable[[Writer], Program]] = {
    "structured": structured, "sides": sides, "returns": returns, "turns": turns, "buffers": buffers,
    "tickets": tickets, "edits": edits,
}  # fmt: skip
