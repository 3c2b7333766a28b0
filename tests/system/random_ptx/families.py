"""Protocols that are right, each with the mistakes that it can have: ``w.wrong(name)`` asks for one."""

from __future__ import annotations

from collections.abc import Callable

from tests.system.random_ptx.writer import Program, Writer

TILE = 512


def prologue(w: Writer, inits: list[tuple[str, int]], cluster: int = 1) -> None:
    """Thread 0 writes the role table and makes the barriers; then all meet."""
    p, end = w.fresh("p"), w.label("I")
    w.emit(f"setp.ne.u32 {p}, %thr, 0;", f"@{p} bra {end};", "TABLE")
    for address, count in inits:
        w.emit(f"mbarrier.init.shared::cta.b64 [{address}], {count};")
    if not w.wrong("no init fence") or cluster == 1:
        w.emit("fence.mbarrier_init.release.cluster;")
    w.emit(f"{end}:")
    if cluster > 1:
        w.emit(
            "barrier.cluster.arrive.relaxed.aligned;", "barrier.cluster.wait.acquire.aligned;", "bar.sync 0;"
        )
    elif not w.wrong("no barrier after the prologue"):
        w.emit("bar.sync 0;")
    w.table_ready = True


def wait(w: Writer, address: str, parity: str) -> None:
    """A loop around a poll, in one of its forms."""
    p, top = w.fresh("p"), w.label("W")
    op = w.draw.choice(["try_wait", "try_wait", "test_wait"])
    if w.wrong("poll ignored"):
        w.emit(f"mbarrier.{op}.parity.shared::cta.b64 {p}, [{address}], {parity};")
        return
    if w.chance(0.3):
        done = w.label("D")
        w.emit(f"{top}:", f"mbarrier.{op}.parity.shared::cta.b64 {p}, [{address}], {parity};")
        w.emit(f"@{p} bra {done};", f"bra {top};", f"{done}:")
        return
    w.emit(
        f"{top}:", f"mbarrier.{op}.parity.shared::cta.b64 {p}, [{address}], {parity};", f"@!{p} bra {top};"
    )


def place(w: Writer, name: str, index: str, scale: int, offset: int = 0) -> str:
    """A register with the address ``name + index * scale + offset``, by one of several ways."""
    r = w.fresh("r")
    base = w.fresh("r")
    way = w.draw.randrange(3)
    if way == 0:
        w.emit(f"mov.u32 {base}, {name};", f"mad.lo.u32 {r}, {index}, {scale}, {base};")
    elif way == 1:
        w.emit(
            f"mov.u32 {base}, {name};", f"mul.lo.s32 {r}, {index}, -{scale};", f"sub.u32 {r}, {base}, {r};"
        )
    else:
        k = w.draw.randrange(1, 1 << 20) * 4
        w.emit(
            f"mov.u32 {base}, {name}+{k};",
            f"mad.lo.u32 {r}, {index}, {scale}, {base};",
            f"sub.s32 {r}, {r}, {k};",
        )
    if offset:
        w.emit(f"add.u32 {r}, {r}, {offset};")
    return r


def keep(w: Writer, value: str) -> None:
    """Stores a value to the thread's own word of the output."""
    d = w.fresh("d")
    w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 {d}, %out, {d};", f"st.global.u32 [{d}], {value};")


def role(w: Writer, warp: int, target: str) -> None:
    """Branches to ``target`` unless this is the given warp (or beyond)."""
    p = w.fresh("p")
    w.emit(f"setp.ne.u32 {p}, %warp, {w.number(warp)};", f"@{p} bra {target};")


def ring(w: Writer) -> Program:
    """Warp 0 fills a ring of slots by bulk copies; the other warps read them and give them back."""
    stages, rounds = w.draw.randint(1, 3), w.draw.randint(1, 5)
    readers = w.draw.randint(1, 2)
    w.room("tile", stages * TILE, 128)
    w.room("bars", 16 * stages, 8)
    count = w.off("count of empty", 32 * readers, 32 * readers - 1, 32 * readers + 1, 1)
    inits = [(f"bars+{8 * s}", w.off("count of full", 1, 2)) for s in range(stages)]
    inits += [(f"bars+{8 * (stages + s)}", count) for s in range(stages)]
    prologue(w, inits)
    consumer, end = w.label("C"), w.label("E")
    role(w, 0, consumer)
    p = w.fresh("p")
    if w.chance(0.5):
        w.emit(f"elect.sync _|{p}, -1;", f"@!{p} bra {end};")
    else:
        w.emit(f"setp.ne.u32 {p}, %lane, {w.draw.randrange(32)};", f"@{p} bra {end};")
    _producer(w, stages, rounds)
    w.emit(f"bra {end};", f"{consumer}:")
    _consumer(w, stages, rounds)
    w.emit(f"{end}:")
    return w.finished("ring", 32 * (1 + readers))


def _state(w: Writer, i: str, stages: int, flip: int) -> tuple[str, str]:
    """Slot and parity of a turn."""
    slot, parity = w.fresh("r"), w.fresh("r")
    if w.chance(0.5) and stages & (stages - 1) == 0:
        w.emit(f"and.b32 {slot}, {i}, {stages - 1};", f"shr.u32 {parity}, {i}, {stages.bit_length() - 1};")
    else:
        w.emit(f"rem.u32 {slot}, {i}, {stages};", f"div.u32 {parity}, {i}, {stages};")
    if w.wrong("parity by turn"):
        w.emit(f"mov.u32 {parity}, {i};")
    if flip:
        w.emit(f"xor.b32 {parity}, {parity}, {_number(w, flip)};")
    w.emit(f"and.b32 {parity}, {parity}, 1;")
    return slot, parity


def _producer(w: Writer, stages: int, rounds: int) -> None:
    i, top, p = w.fresh("r"), w.label("P"), w.fresh("p")
    w.emit(f"mov.u32 {i}, 0;", f"{top}:")
    slot, parity = _state(w, i, stages, w.off("producer's parity", 1, 0))
    full, empty = place(w, "bars", slot, 8), place(w, "bars", slot, 8, 8 * stages)
    if not w.wrong("no wait for empty"):
        wait(w, empty, parity)
    size = w.off("expected bytes", TILE, TILE + 16, TILE - 16)
    tile = place(w, "tile", slot, w.off("distance of slots", TILE, TILE - 128))
    source, d = w.fresh("d"), w.fresh("d")
    w.emit(f"mul.wide.u32 {d}, {i}, {TILE};", f"add.s64 {source}, %in, {d};")
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{full}], {_number(w, size)};"
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    first = TILE if w.chance(0.6) else w.draw.choice([128, 256])
    copies = [f"{copy} [{tile}], [{source}], {_number(w, first)}, [{full}];"]
    if first < TILE:
        copies.append(f"{copy} [{tile}+{first}], [{source}+{first}], {TILE - first}, [{full}];")
    if w.wrong("copy left out"):
        copies.pop()
    if w.wrong("expect after the copy by a plain arrive"):
        w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{full}];", *copies)
        w.emit(f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{full}], {size};")
    else:
        w.emit(expect, *copies)
    limit = _number(w, w.off("producer's turns", rounds, rounds + 1, max(rounds - 1, 0)))
    w.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {p}, {i}, {limit};", f"@{p} bra {top};")


def _number(w: Writer, value: int) -> str:
    """A number in code that one lane executes: no exchange with others."""
    return w.number(value, uniform=False)


def _consumer(w: Writer, stages: int, rounds: int) -> None:
    i, top, p, total = w.fresh("r"), w.label("P"), w.fresh("p"), w.fresh("r")
    w.emit(f"mov.u32 {i}, 0;", f"mov.u32 {total}, 0;", f"{top}:")
    slot, parity = _state(w, i, stages, 0)
    full, empty = place(w, "bars", slot, 8), place(w, "bars", slot, 8, 8 * stages)
    if not w.wrong("no wait for full"):
        wait(w, full, parity)
    tile = place(w, "tile", slot, TILE)
    mine = w.fresh("r")
    w.emit(f"mad.lo.u32 {mine}, %lane, 16, {tile};")
    a, b = w.fresh("r"), w.fresh("r")
    form = w.draw.randrange(3)
    release = f"mbarrier.arrive.shared::cta.b64 _, [{empty}];"
    load = {
        0: f"ld.shared.u32 {a}, [{mine}];",
        1: f"ld.shared.v2.u32 {{{a}, {b}}}, [{mine}];",
        2: f"ld.shared.{w.draw.choice(['s8', 'u16'])} {a}, [{mine}+2];",
    }[form]
    fence = "" if w.wrong("no fence before the release") else "fence.proxy.async.shared::cta;"
    if w.wrong("released before the load"):
        w.emit(release, load)
    else:
        w.emit(load, fence, release)
    if w.wrong("arrives twice"):
        w.emit(release)
    w.emit(f"add.u32 {total}, {total}, {a};", f"add.u32 {i}, {i}, 1;")
    w.emit(f"setp.lt.u32 {p}, {i}, {w.number(rounds)};", f"@{p} bra {top};")
    keep(w, total)


def handover(w: Writer) -> Program:
    """Warps hand words to each other in turn, by mbarriers and plain stores."""
    rounds = w.draw.randint(1, 4)
    w.room("box", 256, 16)
    w.room("bars", 16, 8)
    count = w.off("count", 32, 31, 33)
    prologue(w, [("bars", count), ("bars+8", 32)])
    other, end = w.label("C"), w.label("E")
    role(w, 0, other)
    for side in (0, 1):
        if side:
            w.emit(f"{other}:")
        i, top, p, q, parity = w.fresh("r"), w.label("T"), w.fresh("p"), w.fresh("p"), w.fresh("r")
        total = w.constant(0)
        w.emit(f"mov.u32 {i}, 0;", f"{top}:", f"and.b32 {parity}, {i}, {w.number(1)};")
        mine = place(w, "box", "%lane", 4)
        lane = w.fresh("r")
        w.emit(f"xor.b32 {lane}, %lane, {w.number(w.draw.randrange(32))};")
        theirs = place(w, "box", lane, 4)
        a = w.fresh("r")
        if side == 0:
            width = w.draw.choice(["u32", "u16", "u8"])
            w.emit(f"st.shared.{width} [{mine}], {i};")
            arrive = "mbarrier.arrive.shared::cta.b64 _, [bars];"
            if w.wrong("one lane does not arrive"):
                w.emit(f"setp.ne.u32 {q}, %lane, {w.draw.randrange(32)};", f"@{q} {arrive}")
            else:
                w.emit(arrive)
            if not w.wrong("no wait for the answer"):
                wait(w, "bars+8", parity)
        else:
            if not w.wrong("no wait for the word"):
                if w.wrong("wrong parity"):
                    w.emit(f"xor.b32 {parity}, {parity}, 1;")
                wait(w, "bars", parity)
            w.emit(f"ld.shared.u32 {a}, [{theirs}];", f"add.u32 {total}, {total}, {a};")
            w.emit("mbarrier.arrive.shared::cta.b64 _, [bars+8];")
        w.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {p}, {i}, {w.number(rounds)};", f"@{p} bra {top};")
        if side:
            keep(w, total)
        w.emit(f"bra {end};")
    w.emit(f"{end}:")
    return w.finished("handover", 64)


def named(w: Writer) -> Program:
    """Producer and consumer warps meet at named barriers, whose numbers and counts are computed."""
    warps = w.draw.choice([2, 3])
    first, second = w.draw.sample(range(1, 9), 2)
    rounds = w.draw.randint(1, 3)
    w.room("box", 128 * warps, 16)
    prologue(w, [])
    other, end = w.label("C"), w.label("E")
    role(w, 0, other)
    n = 32 * warps
    for side in (0, 1):
        if side:
            w.emit(f"{other}:")
        i, top, p = w.constant(0), w.label("T"), w.fresh("p")
        total = w.constant(0)
        w.emit(f"{top}:")
        mine = place(w, "box", "%lane", 4)
        one = w.number(w.off("number of a barrier", first, second))
        two = w.number(second)
        threads = w.number(w.off("count of a barrier", n, n - 32, n + 32))
        if side == 0:
            w.emit(f"st.shared.u32 [{mine}], {i};")
            w.emit(f"bar.{'sync' if w.chance(0.3) else 'arrive'} {one}, {threads};")
            if not w.wrong("no wait for the readers"):
                w.emit(f"bar.sync {two}, {n};")
        else:
            a = w.fresh("r")
            lane = w.fresh("r")
            w.emit(f"sub.u32 {lane}, {w.number(31)}, %lane;")
            theirs = place(w, "box", lane, 4)
            if not w.wrong("no wait for the writer"):
                w.emit(f"bar.sync {first}, {w.number(n)};")
            w.emit(f"ld.shared.u32 {a}, [{theirs}];", f"add.u32 {total}, {total}, {a};")
            w.emit(f"bar.{'sync' if w.wrong('readers wait too') or w.chance(0.2) else 'arrive'} {two}, {n};")
        w.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {p}, {i}, {w.number(rounds)};", f"@{p} bra {top};")
        if side:
            keep(w, total)
        w.emit(f"bra {end};")
    w.emit(f"{end}:")
    return w.finished("named", n)


def store(w: Writer) -> Program:
    """Threads fill a tile, a fence and a barrier, one thread stores it by a bulk copy; twice or more."""
    threads = w.draw.choice([32, 64, 128])
    rounds = w.draw.randint(1, 3)
    size = threads * 16
    w.room("tile", size, 128)
    prologue(w, [])
    i, top, p, q, end = w.constant(0), w.label("T"), w.fresh("p"), w.fresh("p"), w.label("S")
    w.emit(f"{top}:")
    mine = place(w, "tile", "%thr", w.off("distance of threads", 16, 8))
    form = w.draw.randrange(3)
    write = [
        [f"st.shared.v4.u32 [{mine}], {{{i}, %thr, {i}, %lane}};"],
        [f"st.shared.u32 [{mine}+{4 * k}], %thr;" for k in range(4)],
        [
            f"st.shared.v2.u32 [{mine}], {{{i}, %thr}};",
            f"st.shared.u16 [{mine}+8], %lane;",
            f"st.shared.u8 [{mine}+11], %thr;",
        ],
    ][form]
    fence = "fence.proxy.async.shared::cta;" if w.chance(0.7) else "fence.proxy.async;"
    if w.wrong("no fence"):
        fence = ""
    if w.wrong("fence of global memory"):
        fence = "fence.proxy.async.global;"
    if w.wrong("fence before the stores"):
        w.emit(fence, *write)
    elif w.wrong("fence by one thread before the barrier"):
        w.emit(*write, f"setp.eq.u32 {q}, %thr, 0;", f"@{q} {fence}")
    else:
        w.emit(*write, fence)
    if not w.wrong("no barrier before the copy"):
        w.emit("bar.sync 0;")
    leader = w.draw.randrange(threads)
    w.emit(f"setp.ne.u32 {q}, %thr, {w.number(leader)};", f"@{q} bra {end};")
    d = w.fresh("d")
    w.emit(f"mul.wide.u32 {d}, {i}, {size};", f"add.s64 {d}, %out, {d};", f"add.s64 {d}, {d}, 16384;")
    w.emit(f"cp.async.bulk.global.shared::cta.bulk_group [{d}], [tile], {_number(w, size)};")
    if not w.wrong("no commit"):
        w.emit("cp.async.bulk.commit_group;")
    groups = w.off("a group left", 0, 1)
    if not w.wrong("no wait for the reads"):
        w.emit(f"cp.async.bulk.wait_group{'' if w.chance(0.3) else '.read'} {groups};")
    w.emit(f"{end}:")
    if not w.wrong("no barrier after the copy"):
        w.emit("bar.sync 0;")
    w.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {p}, {i}, {w.number(rounds)};", f"@{p} bra {top};")
    return w.finished("store", threads)


def groups(w: Writer) -> Program:
    """cp.async into slots, groups waited for in order, read by other threads behind a barrier."""
    threads, stages = w.draw.choice([32, 64]), w.draw.randint(1, 3)
    rounds = stages + w.draw.randint(0, 2)
    slot_bytes = 16 * threads
    w.room("tile", stages * slot_bytes, 128)
    prologue(w, [])
    wide = w.draw.choice([4, 8, 16])
    total = w.constant(0)

    def copy(turn: int) -> None:
        at = turn % stages * slot_bytes
        mine = place(w, "tile", "%thr", 16, at)
        d = w.fresh("d")
        w.emit(f"mul.wide.u32 {d}, %thr, 16;", f"add.s64 {d}, %in, {d};")
        extra = ""
        if w.chance(0.3):
            extra = f", {w.number(w.draw.choice([0, wide]), uniform=True)}"
        mode = "cg" if wide == 16 and w.chance(0.5) else "ca"
        w.emit(f"cp.async.{mode}.shared.global [{mine}], [{d}+{turn * 64}], {wide}{extra};")
        if not w.wrong(f"no commit of group {turn}"):
            w.emit("cp.async.commit_group;")

    for turn in range(min(stages, rounds)):
        copy(turn)
    for turn in range(rounds):
        left = min(stages - 1, rounds - 1 - turn)
        left = w.off("a group too many left", left, left + 1)
        if not w.wrong("no wait for groups"):
            w.emit(f"cp.async.wait_group {left};")
        if not w.wrong("no barrier before the reads"):
            w.emit("bar.sync 0;")
        lane, a = w.fresh("r"), w.fresh("r")
        w.emit(f"xor.b32 {lane}, %thr, {w.number(w.draw.randrange(threads))};")
        theirs = place(w, "tile", lane, 16, turn % stages * slot_bytes)
        w.emit(f"ld.shared.u32 {a}, [{theirs}];", f"add.u32 {total}, {total}, {a};")
        if turn + stages < rounds:
            if not w.wrong("no barrier before the refill"):
                w.emit("bar.sync 0;")
            copy(turn + stages)
    keep(w, total)
    w.emit("cp.async.wait_all;")
    return w.finished("groups", threads)


def lanes(w: Writer) -> Program:
    """Lanes of a warp exchange words through shared memory, in code that parts them."""
    w.room("box", 512, 16)
    w.room("bars", 8, 8)
    prologue(w, [("bars", w.off("count", 64, 63, 65))])
    mine = place(w, "box", "%thr", 4)
    p, q = w.fresh("p"), w.fresh("p")
    cut = w.draw.choice([1, 8, 16, 31])
    other, meet = w.label("O"), w.label("M")
    w.emit(f"setp.lt.u32 {p}, %lane, {w.number(cut)};", f"@{p} bra {other};")
    w.emit(
        f"st.shared.u32 [{mine}], %lane;",
        f"bra {meet};",
        f"{other}:",
        f"st.shared.u8 [{mine}], %warp;",
        f"{meet}:",
    )
    mask = w.off("mask", 0xFFFFFFFF, 0x7FFFFFFF, 0x0000FFFF)
    if not w.wrong("no warp barrier"):
        w.emit(f"bar.warp.sync {w.number(mask)};")
    shift, lane, a = w.draw.randrange(1, 32), w.fresh("r"), w.fresh("r")
    w.emit(f"xor.b32 {lane}, %thr, {w.number(shift)};")
    theirs = place(w, "box", lane, 4)
    w.emit(f"ld.shared.u32 {a}, [{theirs}];")
    vote = w.fresh("p")
    w.emit(f"setp.lt.u32 {q}, %lane, 99;", f"vote.sync.all.pred {vote}, {q}, -1;")
    if w.wrong("a vote by a part"):
        w.emit(f"@{p} vote.sync.any.pred {q}, {q}, -1;")
    if w.wrong("arrives by a part"):
        w.emit(f"@{p} mbarrier.arrive.shared::cta.b64 _, [bars];")
    else:
        w.emit(f"@{vote} mbarrier.arrive.shared::cta.b64 _, [bars];")
    if w.chance(0.5):
        w.emit("bar.warp.sync -1;")
    if not w.wrong("no wait"):
        wait(w, "bars", w.number(w.off("parity", 0, 1)))
    w.emit(f"xor.b32 {lane}, %thr, 32;")
    far = place(w, "box", lane, 4)
    b = w.fresh("r")
    w.emit(f"ld.shared.u32 {b}, [{far}];", f"add.u32 {a}, {a}, {b};")
    keep(w, a)
    return w.finished("lanes", 64)


def table(w: Writer) -> Program:
    """A role table of bytes says what each warp does: arrive, wait, or neither."""
    warps = 3
    w.room("roles", 64, 16)
    w.room("box", 512, 16)
    w.room("bars", 16, 8)
    roles = [0, 1, 2]
    w.draw.shuffle(roles)
    kind, step = w.draw.choice([("u8", 1), ("s8", 1), ("u16", 2), ("s16", 2), ("u32", 4)])
    bias = w.draw.choice([0, -1, -3]) if kind[0] == "s" else w.draw.choice([0, 7])
    p, end = w.fresh("p"), w.label("I")
    w.emit(f"setp.ne.u32 {p}, %thr, 0;", f"@{p} bra {end};")
    for i, role in enumerate(roles):
        value = (role + bias) & 0xFFFFFFFF
        if w.wrong("a role twice") and i == 2:
            value = (roles[0] + bias) & 0xFFFFFFFF
        w.emit(f"mov.u32 %tv, {value};", f"st.shared.{'u' + kind[1:]} [roles+{i * step}], %tv;")
    w.emit(
        f"mbarrier.init.shared::cta.b64 [bars], {w.off('count', 32, 64)};",
        "fence.mbarrier_init.release.cluster;",
    )
    w.emit("TABLE", f"{end}:")
    if not w.wrong("no barrier after the table"):
        w.emit("bar.sync 0;")
    w.table_ready = True
    at = place(w, "roles", "%warp", step)
    role, q = w.fresh("r"), w.fresh("p")
    load = w.off("sign of the load", 0, 1)
    loaded = kind if not load else {"u": "s", "s": "u"}[kind[0]] + kind[1:]
    w.emit(f"ld.shared.{loaded} {role}, [{at}];")
    if bias:
        w.emit(f"sub.s32 {role}, {role}, {bias};")
    write, read, done = w.label("A"), w.label("B"), w.label("Z")
    mine = place(w, "box", "%lane", 4)
    w.emit(f"setp.eq.s32 {q}, {role}, {w.number(0)};", f"@{q} bra {write};")
    w.emit(f"setp.eq.s32 {q}, {role}, {w.number(1)};", f"@{q} bra {read};", f"bra {done};")
    w.emit(
        f"{write}:",
        f"st.shared.u32 [{mine}], %thr;",
        "mbarrier.arrive.shared::cta.b64 _, [bars];",
        f"bra {done};",
    )
    w.emit(f"{read}:")
    if not w.wrong("no wait"):
        wait(w, "bars", w.number(w.off("parity", 0, 1)))
    a, lane = w.fresh("r"), w.fresh("r")
    w.emit(f"xor.b32 {lane}, %lane, {w.number(5)};")
    theirs = place(w, "box", lane, 4)
    w.emit(f"ld.shared.u32 {a}, [{theirs}];")
    keep(w, a)
    w.emit(f"{done}:")
    if w.chance(0.5) and not w.wrong("unmatched barrier"):
        w.emit("bar.sync 0;")
    return w.finished("table", 32 * warps)


def remote(w: Writer) -> Program:
    """Two blocks: one pushes words into the other's memory and arrives there, or sends them by st.async."""
    w.room("box", 512, 128)
    w.room("bars", 16, 8)
    asynchronous = w.chance(0.5)
    count = 1 if asynchronous else 32
    prologue(w, [("bars", w.off("count", count, count + 1))], cluster=2)
    rank, p, end, sender = w.fresh("r"), w.fresh("p"), w.label("E"), w.label("S")
    one = w.fresh("p")
    mine = place(w, "box", "%lane", 4)
    w.emit(
        f"mov.u32 {rank}, %cluster_ctarank;",
        f"setp.ne.u32 {p}, {rank}, {w.number(0)};",
        f"@{p} bra {sender};",
    )
    if asynchronous:
        size = w.off("expected bytes", 128, 132, 124)
        w.emit(f"setp.eq.u32 {one}, %thr, 0;")
        w.emit(f"@{one} mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], {w.number(size)};")
    a = w.fresh("r")
    if not w.wrong("no wait"):
        poll, top = w.fresh("p"), w.label("W")
        w.emit(
            f"{top}:",
            f"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 {poll}, [bars], {w.number(0)};",
        )
        w.emit(f"@!{poll} bra {top};")
    w.emit(f"ld.shared.u32 {a}, [{mine}];")
    keep(w, a)
    w.emit(f"bra {end};", f"{sender}:")
    there, bar, base = w.fresh("r"), w.fresh("r"), w.fresh("r")
    target = w.number(w.off("block that is sent to", 0, 1))
    own = mine if w.chance(0.5) else place(w, "box", "%lane", 4)
    w.emit(f"mapa.shared::cluster.u32 {there}, {own}, {target};")
    w.emit(f"mov.u32 {base}, bars;", f"mapa.shared::cluster.u32 {bar}, {base}, {w.number(0)};")
    if asynchronous:
        w.emit(f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [{there}], %thr, [{bar}];")
    else:
        arrive = f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{bar}];"
        store_ = f"st.shared::cluster.u32 [{there}], %thr;"
        w.emit(*([arrive, store_] if w.wrong("arrives before the store") else [store_, arrive]))
    w.emit(f"{end}:")
    if not w.wrong("no meeting at the end"):
        w.emit("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    return w.finished("remote", 32, 2)


FAMILIES: dict[str, Callable[[Writer], Program]] = {
    "ring": ring, "handover": handover, "named": named, "store": store, "groups": groups, "lanes": lanes,
    "table": table, "remote": remote,
}  # fmt: skip

__all__ = ["FAMILIES", "keep", "place", "prologue", "role", "wait"]
