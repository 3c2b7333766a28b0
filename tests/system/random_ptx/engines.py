"""Programs of several engines and barriers at once, in the forms that hand-written kernels have.

Two operands of a slot by barriers of their own or by one; ``cp.async`` beside named barriers and beside
mbarriers that count its copies; rings through the memory of another block, by ``st.async``, ``red.async`` and
bulk copies; generic addresses; matrices of a warp; flags between the blocks of a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.system.random_ptx.families import keep, place, prologue, role, wait
from tests.system.random_ptx.writer import Held, Program, Writer

TILE = 256


def _counted(w: Writer, turns: int) -> tuple[str, Callable[[], None]]:
    """A loop: its counter, and what ends it."""
    i, top, p = w.constant(0), w.label("T"), w.fresh("p")
    w.emit(f"{top}:")

    def end() -> None:
        w.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {p}, {i}, {turns};", f"@{p} bra {top};")

    return i, end


def _slot(w: Writer, i: str, stages: int) -> tuple[str, str]:
    """Slot and parity of a turn."""
    slot, parity = w.fresh("r"), w.fresh("r")
    w.emit(f"rem.u32 {slot}, {i}, {stages};", f"div.u32 {parity}, {i}, {stages};")
    w.emit(f"and.b32 {parity}, {parity}, 1;")
    return slot, parity


def _turned(w: Writer, parity: str) -> str:
    r = w.fresh("r")
    w.emit(f"xor.b32 {r}, {parity}, 1;")
    return r


def _added(w: Writer, total: str, address: str, more: int = 0) -> None:
    a = w.fresh("r")
    how = w.draw.choice(["u32", "s16", "u8"])
    w.emit(f"ld.shared.{how} {a}, [{address}+{more}];", f"add.u32 {total}, {total}, {a};")


def operands(w: Writer) -> Program:
    """Slots of two tiles, each brought by a copy of its own: one lane copies, or one of each of two warps."""
    stages, rounds = w.draw.randint(1, 2), w.draw.randint(1, 4)
    apart, readers = w.chance(0.6), w.draw.randint(1, 2)
    copiers = 2 if w.chance(0.4) else 1
    w.room("a", stages * TILE, 128)
    w.room("b", stages * TILE, 128)
    w.room("full", 16 * stages, 8)
    w.room("free", 8 * stages, 8)
    arrives = 1 if apart else copiers
    inits = [(f"full+{8 * n}", w.off("count of full", arrives, arrives + 1)) for n in range(2 * stages)]
    inits += [(f"free+{8 * n}", w.off("count of free", 32 * readers, 32)) for n in range(stages)]
    prologue(w, inits)
    end, reader = w.label("E"), w.label("C")
    names = ["a", "b"]
    for n in range(copiers):
        other = w.label("N")
        role(w, n, other)
        p = w.fresh("p")
        w.emit(f"setp.ne.u32 {p}, %lane, {w.draw.randrange(32)};", f"@{p} bra {end};")
        _copier(w, stages, rounds, names if copiers == 1 else [names[n]], apart)
        w.emit(f"bra {end};", f"{other}:")
    w.emit(f"{reader}:")
    total = w.constant(0)
    i, ends = _counted(w, rounds)
    slot, parity = _slot(w, i, stages)
    for n, name in enumerate(names):
        if n == 0 or apart:
            bar = place(w, "full", slot, 8, 8 * stages * n)
            if not w.wrong(f"no wait for {name}"):
                wait(w, bar, parity)
    for name in names:
        tile = place(w, name, slot, TILE)
        mine = w.fresh("r")
        w.emit(f"mad.lo.u32 {mine}, %lane, 8, {tile};")
        _added(w, total, mine, w.draw.choice([0, 4]))
    bar = place(w, "free", slot, 8)
    if not w.wrong("no fence before the release"):
        w.emit("fence.proxy.async.shared::cta;")
    w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{bar}];")
    ends()
    keep(w, total)
    w.emit(f"{end}:")
    return w.finished("operands", 32 * (copiers + readers))


def _copier(w: Writer, stages: int, rounds: int, names: list[str], apart: bool) -> None:
    """One lane brings some of the tiles of each slot."""
    i, ends = _counted(w, rounds)
    slot, parity = _slot(w, i, stages)
    if not w.wrong("no wait for a slot that is free"):
        wait(w, place(w, "free", slot, 8), _turned(w, parity))
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    bars = {x: place(w, "full", slot, 8, 8 * stages * ("ab".index(x) if apart else 0)) for x in names}
    if len(names) == 2 and not apart:
        size = w.off("bytes of both", 2 * TILE, TILE, 3 * TILE)
        w.emit(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bars['a']}], {w.number(size, False)};")
    else:
        for x in names:
            size = w.off(f"bytes of {x}", TILE, TILE + 16, TILE - 16)
            w.emit(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bars[x]}], {w.number(size, False)};")
    for x in names:
        d, source = w.fresh("d"), w.fresh("d")
        w.emit(f"mul.wide.u32 {d}, {i}, {TILE};", f"add.s64 {source}, %in, {d};")
        into = place(w, "a" if w.wrong(f"{x} goes to a") else x, slot, TILE)
        bar = bars[names[-1 - names.index(x)]] if w.wrong(f"{x} by the other barrier") else bars[x]
        if not w.wrong(f"no copy of {x}"):
            w.emit(f"{copy} [{into}], [{source}], {TILE}, [{bar}];")
    ends()


def named_copies(w: Writer) -> Program:
    """A warp copies by cp.async, and hands slots over by named barriers; another one gives them back."""
    stages, rounds = w.draw.randint(1, 3), w.draw.randint(1, 4)
    w.room("tile", 512 * stages, 128)
    prologue(w, [])
    reader, end = w.label("C"), w.label("E")
    role(w, 0, reader)
    lag = w.draw.randint(0, min(stages, rounds) - 1)  # turns between a copy and its wait
    first, free = 1, 1 + stages
    threads = w.off("count of a barrier", 64, 32, 96)
    for turn in range(rounds + lag):
        if turn < rounds:
            if turn >= stages and not w.wrong("no wait for a slot that is free"):
                w.emit(f"bar.sync {w.number(free + turn % stages)}, 64;")
            mine, d = place(w, "tile", "%lane", 16, 512 * (turn % stages)), w.fresh("d")
            w.emit(f"mul.wide.u32 {d}, %lane, 16;", f"add.s64 {d}, %in, {d};")
            w.emit(f"cp.async.cg.shared.global [{mine}], [{d}+{512 * turn}], 16;")
        if not w.wrong(f"no commit in turn {turn}"):
            w.emit("cp.async.commit_group;")
        if turn >= lag:
            number = first + w.off("barrier of another slot", turn - lag, turn - lag + 1) % stages
            arrive = f"bar.{w.draw.choice(['arrive', 'arrive', 'sync'])} {w.number(number)}, {threads};"
            left = w.off("a group too many left", lag, lag + 1)
            done = f"cp.async.wait_group {left};"
            if w.wrong("arrives before its copies"):
                w.emit(arrive, done)
            else:
                w.emit("" if w.wrong("no wait for the copies") else done, arrive)
    w.emit(f"bra {end};", f"{reader}:")
    total = w.constant(0)
    for turn in range(rounds):
        if not w.wrong("no wait for the copy"):
            w.emit(f"bar.sync {first + turn % stages}, {w.number(64)};")
        lane = w.fresh("r")
        w.emit(f"xor.b32 {lane}, %lane, {w.draw.randrange(32)};")
        _added(w, total, place(w, "tile", lane, 16, 512 * (turn % stages)), w.draw.choice([0, 8]))
        if turn + stages < rounds:
            w.emit(f"bar.{w.draw.choice(['arrive', 'sync'])} {free + turn % stages}, 64;")
    keep(w, total)
    w.emit(f"{end}:")
    return w.finished("named copies", 64)


def arrivals(w: Writer) -> Program:
    """Copies of threads arrive at an mbarrier themselves, counted beforehand or in addition."""
    stages, rounds = w.draw.randint(1, 2), w.draw.randint(1, 4)
    w.room("tile", 512 * stages, 128)
    w.room("full", 8 * stages, 8)
    w.room("free", 8 * stages, 8)
    counted = w.chance(0.6)  # arrives count, else the thread itself arrives beside
    inits = [(f"full+{8 * n}", w.off("count of full", 32, 31, 64)) for n in range(stages)]
    inits += [(f"free+{8 * n}", 32) for n in range(stages)]
    prologue(w, inits)
    reader, end = w.label("C"), w.label("E")
    role(w, 0, reader)
    i, ends = _counted(w, rounds)
    slot, parity = _slot(w, i, stages)
    if not w.wrong("no wait for a slot that is free"):
        wait(w, place(w, "free", slot, 8), _turned(w, parity))
    tile, mine, d = place(w, "tile", slot, 512), w.fresh("r"), w.fresh("d")
    w.emit(f"mad.lo.u32 {mine}, %lane, {w.off('distance of lanes', 16, 8)}, {tile};")
    w.emit(f"mad.lo.u32 %tv, {i}, 32, %lane;", f"mul.wide.u32 {d}, %tv, 16;", f"add.s64 {d}, %in, {d};")
    size = w.draw.choice([4, 8, 16])
    bar = place(w, "full", slot, 8)
    w.emit(f"cp.async.ca.shared.global [{mine}], [{d}], {size};")
    if w.wrong("a plain arrival in place of that of the copy"):
        w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{bar}];")
    elif counted:
        noinc = "" if w.wrong("counted twice") else ".noinc"
        w.emit(f"cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [{bar}];")
    else:
        w.emit(f"cp.async.mbarrier.arrive.shared::cta.b64 [{bar}];")
        if not w.wrong("no arrival beside"):
            w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{bar}];")
    ends()
    w.emit("cp.async.wait_all;" if w.chance(0.5) else "", f"bra {end};", f"{reader}:")
    total = w.constant(0)
    i, ends = _counted(w, rounds)
    slot, parity = _slot(w, i, stages)
    if not w.wrong("no wait for the copies"):
        wait(w, place(w, "full", slot, 8), parity)
    lane, tile, theirs = w.fresh("r"), place(w, "tile", slot, 512), w.fresh("r")
    w.emit(f"xor.b32 {lane}, %lane, {w.draw.randrange(32)};", f"mad.lo.u32 {theirs}, {lane}, 16, {tile};")
    _added(w, total, theirs)
    bar = place(w, "free", slot, 8)
    w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{bar}];")
    ends()
    keep(w, total)
    w.emit(f"{end}:")
    return w.finished("arrivals", 64)


def sent(w: Writer) -> Program:
    """A block sends words to another block of its cluster, turn by turn, and hears when they are read."""
    blocks = w.draw.choice([2, 2, 3])
    stages, rounds = w.draw.randint(1, 2), w.draw.randint(1, 3)
    way = w.draw.choice(["u32", "v2", "u64", "bulk", "red", "plain"])
    each = {"u32": 4, "v2": 8, "u64": 8, "bulk": 8, "red": 4, "plain": 4}[way]
    size = 32 * each
    w.room("box", 256 * stages, 128)
    w.room("own", 256, 128)
    w.room("full", 8 * stages, 8)
    w.room("free", 8 * stages, 8)
    count = 32 if way == "plain" else 1
    inits = [(f"full+{8 * n}", w.off("count of full", count, count + 1)) for n in range(stages)]
    inits += [(f"free+{8 * n}", w.off("count of free", 32, 31)) for n in range(stages)]
    mine = place(w, "own", "%thr", 8)
    w.emit(f"st.shared.v2.u32 [{mine}], {{%thr, %lane}};")
    if way == "red":  # it adds to what is there
        box = place(w, "box", "%thr", 4)
        w.emit(*(f"st.shared.u32 [{box}+{256 * n}], 0;" for n in range(stages)))
        w.emit("" if w.wrong("no fence behind the first words") else "fence.acq_rel.cluster;")
    if way == "bulk" and not w.wrong("no fence before the copies"):
        w.emit("fence.proxy.async.shared::cta;")
    prologue(w, inits, cluster=blocks)
    rank, p, sender, end = w.fresh("r"), w.fresh("p"), w.label("S"), w.label("E")
    source, target = w.draw.sample(range(blocks), 2)
    w.emit(f"mov.u32 {rank}, %cluster_ctarank;", f"setp.eq.u32 {p}, {rank}, {w.number(source)};")
    w.emit(f"@{p} bra {sender};", f"setp.ne.u32 {p}, {rank}, {target};", f"@{p} bra {end};")
    _receives(w, stages, rounds, way, size, source)
    w.emit(f"bra {end};", f"{sender}:")
    if way == "bulk":  # one lane waits and copies: others could fall a phase behind
        w.emit(f"setp.ne.u32 {p}, %lane, 0;", f"@{p} bra {end};")
    _sends(w, stages, rounds, way, size, target)
    w.emit(f"{end}:")
    if not w.wrong("no meeting at the end"):
        w.emit("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    return w.finished("sent", 32, blocks)


def _remote(w: Writer, address: str, block: int, uniform: bool = True) -> str:
    """``uniform``: all lanes of the warp ask for it."""
    r = w.fresh("r")
    w.emit(f"mapa.shared::cluster.u32 {r}, {address}, {w.number(block, uniform)};")
    return r


def _waits_for_all(w: Writer, bar: str, parity: str) -> None:
    """Waits for what another block has done."""
    again, p = w.label("W"), w.fresh("p")
    how = "" if w.wrong("waits for its own block alone") else ".acquire.cluster"
    w.emit(f"{again}:", f"mbarrier.try_wait.parity{how}.shared::cta.b64 {p}, [{bar}], {parity};")
    w.emit(f"@!{p} bra {again};")


def _receives(w: Writer, stages: int, rounds: int, way: str, size: int, source: int) -> None:
    total, one = w.constant(0), w.fresh("p")
    w.emit(f"setp.eq.u32 {one}, %thr, {w.draw.randrange(32)};")
    i, ends = _counted(w, rounds)
    slot, parity = _slot(w, i, stages)
    bar = place(w, "full", slot, 8)
    if way != "plain":
        expected = w.off("bytes that are expected", size, size + 8, size - 8)
        w.emit(f"@{one} mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bar}], {expected};")
    if not w.wrong("no wait for the words"):
        _waits_for_all(w, bar, parity)
    mine = w.fresh("r")
    w.emit(f"mad.lo.u32 {mine}, %lane, 4, {place(w, 'box', slot, 256)};")
    _added(w, total, mine)
    if way == "bulk" and not w.wrong("no fence before a slot is given back"):
        w.emit("fence.proxy.async.shared::cta;")
    free = _remote(w, place(w, "free", slot, 8), w.off("gives back to another", source, source ^ 1))
    w.emit(f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{free}];")
    ends()
    keep(w, total)


def _sends(w: Writer, stages: int, rounds: int, way: str, size: int, target: int) -> None:
    i, ends = _counted(w, rounds)
    slot, parity = _slot(w, i, stages)
    if not w.wrong("no wait for a slot that is free"):
        _waits_for_all(w, place(w, "free", slot, 8), _turned(w, parity))
    at = target ^ 1 if w.wrong("bytes go to another block than their barrier") else target
    all_lanes = way != "bulk"
    box = _remote(w, place(w, "box", slot, 256), at, all_lanes)
    bar = _remote(w, place(w, "full", slot, 8), target, all_lanes)
    into, d = w.fresh("r"), w.fresh("d")
    w.emit(f"mad.lo.u32 {into}, %lane, {size // 32}, {box};")
    weak = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
    if way == "u32":
        w.emit(f"{weak}.u32 [{into}], {i}, [{bar}];")
    elif way == "v2":
        w.emit(f"{weak}.v2.u32 [{into}], {{{i}, %thr}}, [{bar}];")
    elif way == "u64":
        w.emit(f"cvt.u64.u32 {d}, {i};", f"{weak}.u64 [{into}], {d}, [{bar}];")
    elif way == "red":
        red = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
        w.emit(f"{red} [{into}], {i}, [{bar}];")
    elif way == "bulk":
        copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        w.emit(f"{copy} [{box}], [own], {size}, [{bar}];")
    else:
        lines = [f"st.shared::cluster.u32 [{into}], {i};"]
        lines.append(f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{bar}];")
        w.emit(*(reversed(lines) if w.wrong("arrives before the store") else lines))
    ends()


def generic(w: Writer) -> Program:
    """Threads of two warps exchange words by generic addresses, and keep some in their own memory."""
    w.room("left", 512, 16)
    w.room("right", 512, 16)
    prologue(w, [])
    total, rounds = w.constant(0), w.draw.randint(1, 3)
    bases = {name: _address(w, name) for name in ("left", "right")}
    p = w.fresh("p")
    w.emit(f"setp.lt.u32 {p}, %thr, {w.draw.choice([32, 16, 40])};")
    for turn in range(rounds):
        d, r, chosen = w.fresh("d"), w.fresh("r"), w.fresh("d")
        how = w.draw.randrange(3)
        names = ["left", "right"] if turn % 2 == 0 or not w.wrong("one array in each turn") else ["left"] * 2
        own = bases[names[turn % 2]]
        if how == 2:  # either array, the same for who reads
            flip = w.number(w.draw.randrange(2))
            w.emit(f"setp.eq.u32 {p}, {flip}, 1;")
            w.emit(f"selp.b64 {chosen}, {bases['left']}, {bases['right']}, {p};")
            own = chosen
        w.emit(f"mul.wide.u32 {d}, %thr, {w.off('distance of threads', 4, 2)};", f"add.u64 {d}, {own}, {d};")
        w.emit(f"st.u32 [{d}], %thr;" if w.chance(0.7) else f"atom.exch.b32 {r}, [{d}], %lane;")
        if not w.wrong("no barrier before the loads"):
            w.emit("bar.sync 0;")
        back = w.fresh("d")
        w.emit(f"xor.b32 {r}, %thr, {w.draw.randrange(1, 64)};", f"mul.wide.u32 {d}, {r}, 4;")
        w.emit(f"add.u64 {back}, {own}, {d};", f"ld.{w.draw.choice(['u32', 'u8', 's16'])} {r}, [{back}];")
        w.emit(f"add.u32 {total}, {total}, {r};")
        if w.chance(0.4):
            _spilled(w, total)
        if turn + 1 < rounds and not w.wrong("no barrier behind the loads"):
            w.emit("bar.sync 0;")
    keep(w, total)
    return w.finished("generic", 64)


def _address(w: Writer, name: str) -> str:
    """A generic address of an array."""
    d, r = w.fresh("d"), w.fresh("r")
    if w.wrong(f"the address of {name} stays one of shared memory"):
        w.emit(f"mov.u64 {d}, {name};")
    elif w.chance(0.5):
        w.emit(f"mov.u64 {d}, {name};", f"cvta.shared.u64 {d}, {d};")
    else:
        w.emit(f"mov.u32 {r}, {name};", f"cvt.u64.u32 {d}, {r};", f"cvta.shared.u64 {d}, {d};")
    return d


def _spilled(w: Writer, r: str) -> None:
    """A word goes through the thread's own memory, by a generic address."""
    d = w.fresh("d")
    w.emit(f"mov.u64 {d}, spill;", f"cvta.local.u64 {d}, {d};")
    w.emit(f"st.u32 [{d}+{w.off('place', 16, 62)}], {r};")
    w.emit(f"ld.local.u32 {r}, [spill+16];" if w.chance(0.5) else f"ld.u32 {r}, [{d}+16];")


def matrices(w: Writer) -> Program:
    """Rows of a matrix are stored, and loaded by a warp as matrices; its results are stored so, too."""
    warps, n = w.draw.choice([1, 2]), w.draw.choice([1, 2, 4])
    rounds = w.draw.randint(1, 2)
    w.room("rows", 512 * warps, 128)
    w.room("result", 512 * warps, 128)
    prologue(w, [])
    across = warps == 2 and w.chance(0.5)
    meets = "bar.sync 0;" if across else "bar.warp.sync -1;"
    total = w.constant(0)
    for _ in range(rounds):
        mine = place(w, "rows", "%thr", 16)
        a, b = w.number(w.draw.randrange(99)), w.fresh("r")
        w.emit(f"mov.u32 {b}, {a};", f"st.shared.v4.u32 [{mine}], {{{b}, %thr, %lane, {b}}};")
        if not w.wrong("no meeting behind the stores"):
            w.emit(meets)
        row, lane = w.fresh("r"), w.fresh("r")
        turned = w.number(w.draw.choice([0, 3, 7]))
        w.emit(f"xor.b32 {lane}, %thr, {turned};", f"and.b32 {lane}, {lane}, {32 * warps - 1};")
        if across:
            w.emit(f"xor.b32 {lane}, {lane}, 32;")
        where = place(w, "rows", lane, w.off("distance of rows", 16, 8, 32))
        w.emit(f"add.u32 {row}, {where}, {w.off('rows begin behind', 0, 16)};")
        into = [w.fresh("r") for _ in range(n)]
        trans = w.draw.choice(["", ".trans"])
        w.emit(f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {{{', '.join(into)}}}, [{row}];")
        w.emit(*(f"add.u32 {total}, {total}, {x};" for x in into))
        out = place(w, "result", "%thr", 16)
        w.emit(f"stmatrix.sync.aligned.m8n8.x{n}.shared.b16 [{out}], {{{', '.join(into)}}};")
        if not w.wrong("no meeting behind the matrices"):
            w.emit(meets)
        theirs = w.fresh("r")
        w.emit(f"and.b32 {theirs}, %lane, {8 * n - 1};", f"and.b32 {lane}, %thr, {32 * (warps - 1)};")
        if across:
            w.emit(f"xor.b32 {lane}, {lane}, 32;")
        w.emit(f"add.u32 {theirs}, {theirs}, {lane};")
        _added(w, total, place(w, "result", theirs, 16))
        if not w.wrong("no meeting at the end of a turn"):
            w.emit(meets)
    keep(w, total)
    return w.finished("matrices", 32 * warps)


def grid_flags(w: Writer) -> Program:
    """Blocks of a grid hand rows on through global memory, each to the next one, by flags."""
    blocks = w.draw.choice([2, 2, 3])
    threads = w.draw.choice([32, 64])
    w.params.append(Held(0))  # flags
    prologue(w, [])
    block, p, first, end, one = w.fresh("r"), w.fresh("p"), w.label("F"), w.label("E"), w.fresh("p")
    flags, row = w.fresh("d"), w.fresh("d")
    w.emit(f"ld.param.u64 {flags}, [k_p2];", f"mov.u32 {block}, %ctaid.x;", f"setp.eq.u32 {one}, %thr, 0;")
    total = w.constant(1)
    w.emit(f"setp.eq.u32 {p}, {block}, 0;", f"@{p} bra {first};")
    _takes(w, block, flags, one, threads, total)
    w.emit(f"{first}:")
    last = w.number(blocks - 1)
    w.emit(f"setp.eq.u32 {p}, {block}, {last};", f"@{p} bra {end};")
    w.emit(f"mad.lo.u32 %tv, {block}, {threads}, %thr;", f"mul.wide.u32 {row}, %tv, 4;")
    w.emit(f"add.s64 {row}, %out, {row};", f"add.u32 {total}, {total}, %thr;")
    store, flag = f"st.global.u32 [{row}], {total};", w.fresh("d")
    w.emit(f"mul.wide.u32 {flag}, {block}, 4;", f"add.s64 {flag}, {flags}, {flag};")
    meets = "" if w.wrong("no barrier before the flag") else "bar.sync 0;"
    way = w.draw.choice(["release", "fence", "red", "volatile"])
    scope = "cta" if w.wrong("a flag for the block alone") else w.draw.choice(["gpu", "gpu", "sys"])
    fence = "" if w.wrong("no fence") else f"fence.acq_rel.{scope};"
    how = "relaxed" if w.wrong("a flag without a release") else "release"
    at = f"global.u32 [{flag}]"
    lines = {
        "release": [store, meets, f"@{one} st.{how}.{scope}.{at}, 1;"],
        "fence": [store, meets, f"@{one} {fence}" if fence else "", f"@{one} st.relaxed.gpu.{at}, 1;"],
        "red": [store, meets, f"@{one} red.{how}.{scope}.global.add.u32 [{flag}], 1;"],
        "volatile": [store, meets, f"@{one} {fence}" if fence else "", f"@{one} st.volatile.{at}, 1;"],
    }[way]
    w.emit(*(reversed(lines) if w.wrong("the flag before the row") else lines))
    w.emit(f"{end}:")
    made = w.finished("grid flags", threads)
    return replace(made, blocks=blocks)


def _takes(w: Writer, block: str, flags: str, one: str, threads: int, total: str) -> None:
    """A block waits for the flag of the one before, and reads its row."""
    again, past, flag, r, q = w.label("W"), w.label("P"), w.fresh("d"), w.fresh("r"), w.fresh("p")
    w.emit(f"sub.u32 {r}, {block}, {w.number(w.off('flag of the own block', 1, 0))};")
    w.emit(f"mul.wide.u32 {flag}, {r}, 4;", f"add.s64 {flag}, {flags}, {flag};", f"@!{one} bra {past};")
    how = w.draw.choice(["acquire.gpu", "acquire.sys"])
    how = "relaxed.gpu" if w.wrong("a poll without an acquire") else how
    ask = f"ld.{how}.global.u32 {r}, [{flag}];"
    if w.chance(0.3) and not w.mistake:
        ask = f"atom.{how}.global.or.b32 {r}, [{flag}], 0;"
    w.emit(f"{again}:", ask, f"setp.eq.u32 {q}, {r}, 0;", f"@{q} bra {again};", f"{past}:")
    if not w.wrong("no barrier behind the poll"):
        w.emit("bar.sync 0;")
    row, back = w.fresh("d"), w.number(w.off("the row of the own block", 1, 0))
    lane = w.fresh("r")
    w.emit(f"sub.u32 {r}, {block}, {back};", f"xor.b32 {lane}, %thr, {w.draw.randrange(threads)};")
    w.emit(f"mad.lo.u32 %tv, {r}, {threads}, {lane};", f"mul.wide.u32 {row}, %tv, 4;")
    nc = ".nc" if w.wrong("a load of what nobody writes") else ""
    w.emit(f"add.s64 {row}, %out, {row};", f"ld.global{nc}.u32 {r}, [{row}];")
    w.emit(f"add.u32 {total}, {total}, {r};")


def _row(w: Writer, block: str, threads: int, lane: str = "%thr") -> str:
    """The address of a thread's word in the row of a block."""
    row = w.fresh("d")
    w.emit(f"mad.lo.u32 %tv, {block}, {threads}, {lane};", f"mul.wide.u32 {row}, %tv, 4;")
    w.emit(f"add.s64 {row}, %out, {row};")
    return row


def grid_lock(w: Writer) -> Program:
    """Blocks of a grid change rows that they share, under a lock in global memory."""
    blocks, threads = w.draw.choice([2, 3]), w.draw.choice([32, 64])
    w.params.append(Held(0))
    prologue(w, [])
    one, lock, old, q = w.fresh("p"), w.fresh("d"), w.fresh("r"), w.fresh("p")
    again, past = w.label("W"), w.label("P")
    w.emit(f"ld.param.u64 {lock}, [k_p2];", f"setp.eq.u32 {one}, %thr, 0;")
    row = _row(w, w.number(0), threads)
    scope = "cta" if w.wrong("a lock of the block alone") else "gpu"
    takes, fence = w.draw.choice(["acquire", "acq_rel", "relaxed"]), f"fence.acq_rel.{scope};"
    if w.wrong("a lock without an acquire"):
        takes, fence = "relaxed", ""
    w.emit(f"@!{one} bra {past};", f"{again}:", f"atom.{takes}.{scope}.global.cas.b32 {old}, [{lock}], 0, 1;")
    w.emit(f"setp.ne.u32 {q}, {old}, 0;", f"@{q} bra {again};", fence if takes == "relaxed" else "")
    w.emit(f"{past}:", "" if w.wrong("no barrier behind the lock") else "bar.sync 0;")
    r = w.fresh("r")
    change = [f"ld.global.u32 {r}, [{row}];", f"add.u32 {r}, {r}, %lane;", f"st.global.u32 [{row}], {r};"]
    meets = "" if w.wrong("no barrier before the lock is let go") else "bar.sync 0;"
    way = w.draw.choice(["release", "exch", "fence"])
    let = {
        "release": f"@{one} st.release.{scope}.global.u32 [{lock}], 0;",
        "exch": f"@{one} atom.release.{scope}.global.exch.b32 {old}, [{lock}], 0;",
        "fence": f"@{one} fence.acq_rel.{scope};\n    @{one} st.relaxed.{scope}.global.u32 [{lock}], 0;",
    }[way]
    if w.wrong("let go without a release"):
        let = f"@{one} st.relaxed.{scope}.global.u32 [{lock}], 0;"
    w.emit(*([meets, let, *change] if w.wrong("let go before the change") else [*change, meets, let]))
    return replace(w.finished("grid lock", threads), blocks=blocks)


ENGINE_FAMILIES: dict[str, Callable[[Writer], Program]] = {
    "operands": operands, "named copies": named_copies, "arrivals": arrivals, "sent": sent,
    "generic": generic, "matrices": matrices, "grid flags": grid_flags,
    "grid lock": grid_lock,
}  # fmt: skip
