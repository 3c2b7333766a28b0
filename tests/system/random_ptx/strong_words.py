"""Programs whose threads share words by strong accesses: volatile, relaxed, release and acquire, atomics.

Data is handed over between lanes of a warp, warps of a block and blocks of a cluster: by flags, by counts, by
tickets, in slots of a ring, under a lock, and by words that are exchanged. What a right program leaves in its
buffer is the same in every execution. Mistakes: an order that is missing or too weak, a scope that is too
narrow, a weak flag, a count that is off, a fence on the wrong side, data that is written after its flag.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.system.random_ptx.writer import Program, Writer


@dataclass
class Shared:
    """How threads of a scope hand words over. ``space`` and ``scope`` are words of PTX."""

    w: Writer
    space: str = "shared"
    scope: str = "cta"

    def releases(self, flag: str, value: str, adds: bool = False, guard: str = "") -> None:
        """What came before is told to who finds ``value`` in a word; ``adds``: one is added to it."""
        w, at, scope = self.w, f"{self.space}.u32 [{flag}]", self._scope("releases")
        fence = f"{guard}fence.acq_rel.{scope};"
        ways = ["release", "fence", "red"] if adds else ["release", "fence", "volatile", "exch"]
        way = w.draw.choice(ways)
        if w.wrong("a flag without a release"):
            word = f"red.relaxed.{scope}.{self.space}.add.u32 [{flag}], 1" if adds else ""
            w.emit(f"{guard}{word or f'st.relaxed.{scope}.{at}, {value}'};")
            return
        if not adds and w.wrong("a weak flag"):
            w.emit(fence, f"{guard}st.{at}, {value};")
            return
        if way == "release":
            add = f"red.release.{scope}.{self.space}.add.u32 [{flag}], 1"
            w.emit(f"{guard}{add if adds else f'st.release.{scope}.{at}, {value}'};")
        elif way == "exch":
            old = w.fresh("r")
            w.emit(f"{guard}atom.release.{scope}.{self.space}.exch.b32 {old}, [{flag}], {value};")
        else:
            store = {
                "fence": f"st.relaxed.{scope}.{at}, {value}",
                "volatile": f"st.volatile.{at}, {value}",
                "red": f"red.relaxed.{scope}.{self.space}.add.u32 [{flag}], 1",
            }["red" if adds else way]
            lines = [fence, f"{guard}{store};"]
            w.emit(*(reversed(lines) if w.wrong("the fence behind the flag") else lines))

    def acquires(self, flag: str, value: str, compare: str = "ne") -> None:
        """Waits until a word holds a value (or, for ``lt``, at least that)."""
        w, again, p, r = self.w, self.w.label("W"), self.w.fresh("p"), self.w.fresh("r")
        scope = self._scope("acquires")
        way = w.draw.choice(["acquire", "acquire", "fence", "volatile", "atom"])
        weak = w.wrong("a poll without an acquire")
        load = f"ld.{{}}.{self.space}.u32 {r}, [{flag}];"
        asks = {
            "acquire": load.format(f"acquire.{scope}"),
            "fence": load.format(f"relaxed.{scope}"),
            "volatile": load.format("volatile"),
            "atom": f"atom.acquire.{scope}.{self.space}.or.b32 {r}, [{flag}], 0;",
        }[way]
        asks = asks.replace("acquire", "relaxed") if weak else asks
        w.emit(f"{again}:", asks, f"setp.{compare}.u32 {p}, {r}, {value};", f"@{p} bra {again};")
        if way in ("fence", "volatile") and not weak:
            w.emit(f"fence.acq_rel.{scope};")

    def _scope(self, what: str) -> str:
        if self.scope == "cluster":
            return "cta" if self.w.wrong(f"{what} within the block alone") else "cluster"
        return self.w.draw.choice(["cta", "cta", "cluster", "gpu"])


def _value(w: Writer) -> str:
    """A word of each thread, from the input."""
    d, value = w.fresh("d"), w.fresh("r")
    w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 {d}, %in, {d};", f"ld.global.u32 {value}, [{d}];")
    return value


def _result(w: Writer, value: str) -> None:
    """Each thread leaves a word in the buffer."""
    d = w.fresh("d")
    w.emit(f"mul.wide.u32 {d}, %thr, 4;", f"add.s64 {d}, %out, {d};", f"st.global.u32 [{d}], {value};")


def _own(w: Writer, room: str, of: str, mask: int = -1) -> str:
    """The address of a thread's word in a room, by the number in a register."""
    base, at = w.fresh("r"), w.fresh("r")
    w.emit(f"mov.u32 {base}, {room};", f"and.b32 {at}, {of}, {mask};", f"shl.b32 {at}, {at}, 2;")
    w.emit(f"add.u32 {at}, {base}, {at};")
    return at


def _begin(w: Writer, words: list[str], mistake: str = "no barrier after the first values") -> None:
    """One thread writes zeros to words; all wait for it."""
    p = w.fresh("p")
    w.emit(f"setp.eq.u32 {p}, %thr, 0;", *(f"@{p} st.shared.u32 [{x}], 0;" for x in words))
    if not w.wrong(mistake):
        w.emit("bar.sync 0;")


def _strong(w: Writer) -> tuple[str, str]:
    """A way to load and a way to store words that are ordered by barriers."""
    how = w.draw.choice(["volatile", "volatile", "relaxed.cta", ""])
    dot = f".{how}" if how else ""
    return f"ld{dot}.shared.u32", f"st{dot}.shared.u32"


def warp_sum(w: Writer) -> Program:
    """Lanes add words of each other, by volatile words and ``bar.warp.sync``."""
    threads = w.draw.choice([32, 64])
    load, store = _strong(w)
    value, own = _value(w), _own(w, w.room("words", 4 * threads), "%thr")
    w.emit(f"{store} [{own}], {value};")
    meets = "bar.warp.sync 65535;" if w.wrong("a mask without half of the lanes") else "bar.warp.sync -1;"
    steps = w.draw.sample([1, 2, 4, 8, 16], w.draw.randrange(1, 6))
    for n, step in enumerate(steps):
        other, x = w.fresh("r"), w.fresh("r")
        w.emit(f"xor.b32 {other}, {own}, {4 * step};")
        if not w.wrong(f"no synchronization before load {n}"):
            w.emit(meets)
        w.emit(f"{load} {x}, [{other}];")
        if n + 1 == len(steps):
            w.emit(f"add.u32 {value}, {value}, {x};")
            break
        if not w.wrong(f"no synchronization after load {n}"):
            w.emit(meets)
        w.emit(f"add.u32 {value}, {value}, {x};", f"{store} [{own}], {value};")
    _result(w, value)
    return _finished(w, "warp sum", threads)


def exchange(w: Writer) -> Program:
    """Threads of a block read words of each other, behind barriers."""
    threads = w.draw.choice([64, 96])
    load, store = _strong(w)
    value, out, room = _value(w), w.constant(0), w.room("words", 4 * threads)
    own = _own(w, room, "%thr")
    turns = w.draw.randrange(1, 4)
    for n in range(turns):
        far, at, x, p = w.fresh("r"), w.fresh("r"), w.fresh("r"), w.fresh("p")
        w.emit(f"{store} [{own}], {value};")
        if not w.wrong(f"no barrier after store {n}"):
            w.emit("bar.sync 0;")
        w.emit(
            f"add.u32 {far}, %thr, {w.draw.choice([1, 16, 32, 33])};", f"setp.ge.u32 {p}, {far}, {threads};"
        )
        w.emit(f"@{p} sub.u32 {far}, {far}, {threads};")
        at = _own(w, room, far)
        w.emit(f"{load} {x}, [{at}];", f"add.u32 {out}, {out}, {x};", f"add.u32 {value}, {value}, 1;")
        if n + 1 < turns and not w.wrong(f"no barrier after load {n}"):
            w.emit("bar.sync 0;")
    _result(w, out)
    return _finished(w, "exchange", threads)


def _data(w: Writer, data: str, value: str, warp: str = "") -> str:
    """Lanes store words of their own; the lowest one tells of all. Its guard."""
    own, p = _own(w, data, "%lane"), w.fresh("p")
    if warp:
        base = w.fresh("r")
        w.emit(f"shl.b32 {base}, {warp}, 7;", f"add.u32 {own}, {own}, {base};")
    w.emit(f"st.shared.u32 [{own}], {value};")
    if not w.wrong("lanes that the flag does not cover"):
        w.emit("bar.warp.sync -1;")
    w.emit(f"setp.eq.u32 {p}, %lane, 0;")
    return p


def _sum(w: Writer, data: str, words: int, out: str) -> None:
    """Each thread adds some words of a room."""
    for _ in range(w.draw.randrange(1, 4)):
        x, at = w.fresh("r"), 4 * w.draw.randrange(words)
        w.emit(f"ld.shared.u32 {x}, [{data}+{at}];", f"add.u32 {out}, {out}, {x};")


def flag(w: Writer) -> Program:
    """One warp hands data to the others by a flag, several times."""
    warps, s = w.draw.randrange(2, 4), Shared(w)
    data, word, value, out = w.room("data", 128), w.room("flag", 4, 4), _value(w), w.constant(0)
    _begin(w, [word])
    first = w.fresh("p")
    w.emit(f"setp.eq.u32 {first}, %warp, 0;")
    turns = w.draw.randrange(1, 4)
    for n in range(1, turns + 1):
        take, done = w.label("T"), w.label("D")
        w.emit(f"@!{first} bra {take};")
        late = w.wrong("data after its flag")
        if late:
            p = w.fresh("p")
            w.emit(f"setp.eq.u32 {p}, %lane, 0;")
            s.releases(word, str(n), guard=f"@{p} ")
        p = _data(w, data, value)
        if not late:
            s.releases(word, str(w.off("another value of the flag", n)), guard=f"@{p} ")
        w.emit(f"add.u32 {value}, {value}, 1;", f"bra {done};", f"{take}:")
        if w.chance(0.4):
            p, skip = w.fresh("p"), w.label("S")
            w.emit(f"setp.ne.u32 {p}, %lane, 0;", f"@{p} bra {skip};")
            s.acquires(word, str(n))
            w.emit(f"{skip}:")
            if not w.wrong("lanes that go ahead of the poll"):
                w.emit("bar.warp.sync -1;")
        else:
            s.acquires(word, str(n), w.draw.choice(["ne", "lt"]))
        _sum(w, data, 32, out)
        w.emit(f"{done}:")
        if n < turns and not w.wrong("no barrier before the next data"):
            w.emit("bar.sync 0;")
    _result(w, out)
    return _finished(w, "flag", 32 * warps)


def count(w: Writer) -> Program:
    """Warps hand data to one warp, which waits until all have counted."""
    warps, s = w.draw.randrange(2, 5), Shared(w)
    data, word, value, out = w.room("data", 128 * warps), w.room("count", 4, 4), _value(w), w.constant(0)
    _begin(w, [word])
    done, p = w.label("D"), w.fresh("p")
    s.releases(word, "1", adds=True, guard=f"@{_data(w, data, value, '%warp')} ")
    w.emit(f"setp.ne.u32 {p}, %warp, {w.draw.randrange(warps)};", f"@{p} bra {done};")
    s.acquires(word, str(w.off("another count", warps, warps - 1, warps + 1)), w.draw.choice(["ne", "lt"]))
    _sum(w, data, 32 * warps, out)
    w.emit(f"{done}:")
    _result(w, out)
    return _finished(w, "count", 32 * warps)


def last(w: Writer) -> Program:
    """Warps count themselves by an atomic; the last one reads what all wrote."""
    warps = w.draw.randrange(2, 5)
    data, word, value, out = w.room("data", 128 * warps), w.room("count", 4, 4), _value(w), w.constant(0)
    _begin(w, [word])
    told, old, p, done = _data(w, data, value, "%warp"), w.fresh("r"), w.fresh("p"), w.label("D")
    fences = w.chance(0.4)
    order = "relaxed" if fences else "acq_rel"
    if w.wrong("a count that hands nothing over"):
        order, fences = w.draw.choice(["relaxed", "release", "acquire"]), False
    if fences and not w.wrong("no fence before the count"):
        w.emit("fence.acq_rel.cta;")
    w.emit(f"mov.u32 {old}, 0;", f"@{told} atom.{order}.cta.shared.add.u32 {old}, [{word}], 1;")
    if fences and not w.wrong("no fence after the count"):
        w.emit("fence.acq_rel.cta;")
    w.emit(f"shfl.sync.idx.b32 {old}, {old}, 0, 31, -1;")
    if not w.wrong("lanes that nobody tells"):
        w.emit("bar.warp.sync -1;")
    w.emit(
        f"setp.ne.u32 {p}, {old}, {w.off('one that is not the last', warps - 1, warps - 2)};",
        f"@{p} bra {done};",
    )
    _sum(w, data, 32 * warps, out)
    d = w.fresh("d")
    w.emit(
        f"mul.wide.u32 {d}, %lane, 4;", f"add.s64 {d}, %out, {d};", f"st.global.u32 [{d}], {out};", f"{done}:"
    )
    return _finished(w, "last", 32 * warps)


def ticket(w: Writer) -> Program:
    """Threads take slots by an atomic; behind a barrier all slots are added."""
    threads = w.draw.choice([32, 64])
    data, word, value, out = w.room("data", 4 * threads), w.room("next", 4, 4), _value(w), w.constant(0)
    _begin(w, [word])
    old, x = w.fresh("r"), w.fresh("r")
    if w.wrong("a ticket without an atomic"):
        w.emit(f"ld.volatile.shared.u32 {old}, [{word}];", f"add.u32 {x}, {old}, 1;")
        w.emit(f"st.volatile.shared.u32 [{word}], {x};")
    else:
        step = w.off("a ticket that stays", 1, 0)
        w.emit(f"atom{w.draw.choice(['', '.relaxed.cta'])}.shared.add.u32 {old}, [{word}], {step};")
    own = _own(w, data, old, w.off("half of the slots", threads - 1, threads // 2 - 1))
    w.emit(f"st.shared.u32 [{own}], {value};")
    if not w.wrong("no barrier before the slots are read"):
        w.emit("bar.sync 0;")
    at = _own(w, data, "%thr")
    w.emit(f"ld.shared.u32 {x}, [{at}];", f"redux.sync.add.u32 {out}, {x}, -1;")
    if threads > 32:
        other = w.fresh("r")
        w.emit("bar.sync 0;", f"st.shared.u32 [{at}], {out};", "bar.sync 0;")
        w.emit(f"ld.shared.u32 {x}, [{data}];", f"ld.shared.u32 {other}, [{data}+128];")
        w.emit(f"add.u32 {out}, {x}, {other};")
    _result(w, out)
    return _finished(w, "ticket", threads)


def ring(w: Writer) -> Program:
    """A warp hands slots of a ring to another by two counts of turns."""
    slots, s = w.draw.randrange(1, 4), Shared(w)
    turns = w.draw.randrange(1, 6)
    data, head, tail = w.room("data", 128 * slots), w.room("head", 4, 4), w.room("tail", 4, 4)
    value, out = _value(w), w.constant(0)
    _begin(w, [head, tail])
    p, take, done, lead = w.fresh("p"), w.label("T"), w.label("D"), w.fresh("p")
    w.emit(f"setp.eq.u32 {lead}, %lane, 0;", f"setp.ne.u32 {p}, %warp, 0;", f"@{p} bra {take};")
    for n in range(turns):
        free = n + 1 - slots + w.off("a slot that is still read", 0, -1)
        if free > 0:
            s.acquires(tail, str(free), "lt")
        own = _own(w, data, "%lane")
        w.emit(f"st.shared.u32 [{own}+{128 * (n % slots)}], {value};", f"add.u32 {value}, {value}, 3;")
        if not w.wrong("lanes that the flag does not cover"):
            w.emit("bar.warp.sync -1;")
        s.releases(head, str(n + 1), guard=f"@{lead} ")
    w.emit(f"bra {done};", f"{take}:")
    for n in range(turns):
        s.acquires(head, str(n + w.off("a slot that is not full", 1, 0)), "lt")
        x, at = w.fresh("r"), 128 * (n % slots) + 4 * w.draw.randrange(32)
        w.emit(f"ld.shared.u32 {x}, [{data}+{at}];", f"add.u32 {out}, {out}, {x};")
        if not w.wrong("lanes that still read"):
            w.emit("bar.warp.sync -1;")
        s.releases(tail, str(n + 1), guard=f"@{lead} ")
    w.emit(f"{done}:")
    _result(w, out)
    return _finished(w, "ring", 64)


def lock(w: Writer) -> Program:
    """One lane of each warp adds to a word under a lock."""
    warps = w.draw.randrange(2, 4)
    word, total, value = w.room("lock", 4, 4), w.room("total", 4, 4), _value(w)
    _begin(w, [word, total])
    p, q, old, x, again, out = (
        w.fresh("p"),
        w.fresh("p"),
        w.fresh("r"),
        w.fresh("r"),
        w.label("A"),
        w.label("O"),
    )
    w.emit(f"setp.ne.u32 {p}, %lane, 0;", f"@{p} bra {out};", f"{again}:")
    order = "relaxed" if w.wrong("a lock without an acquire") else "acquire"
    w.emit(f"atom.{order}.cta.shared.cas.b32 {old}, [{word}], 0, 1;", f"setp.ne.u32 {q}, {old}, 0;")
    w.emit(f"@{q} bra {again};")
    w.emit(f"ld.shared.u32 {x}, [{total}];", f"add.u32 {x}, {x}, {value};", f"st.shared.u32 [{total}], {x};")
    if w.wrong("a lock that is kept"):
        pass
    elif w.wrong("a lock without a release"):
        w.emit(f"st.relaxed.cta.shared.u32 [{word}], 0;")
    else:
        w.emit(w.draw.choice([f"st.release.cta.shared.u32 [{word}], 0;",
                              f"atom.release.cta.shared.exch.b32 {old}, [{word}], 0;"]))  # fmt: skip
    w.emit(f"{out}:")
    if not w.wrong("no barrier before the sum is read"):
        w.emit("bar.sync 0;")
    w.emit(f"ld.shared.u32 {x}, [{total}];")
    _result(w, x)
    return _finished(w, "lock", 32 * warps)


def cluster_flag(w: Writer) -> Program:
    """A block hands words in its shared memory to another block of its cluster by a flag there."""
    s = Shared(w, "shared::cluster", "cluster")
    data, word, value, out = w.room("data", 128), w.room("flag", 4, 4), _value(w), w.constant(0)
    rank, first, p, own, far, theirs = (w.fresh(k) for k in "rpprrr")
    w.emit(f"mov.u32 {rank}, %cluster_ctarank;", f"setp.eq.u32 {first}, {rank}, 0;")
    w.emit(f"setp.eq.u32 {p}, %thr, 0;", f"@{p} st.shared.u32 [{word}], 0;")
    meets = ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"]
    if not w.wrong("no barrier after the first values"):
        w.emit(*meets)
    w.emit(f"mov.u32 {own}, {word};", f"mapa.shared::cluster.u32 {far}, {own}, 1;")
    w.emit(f"mov.u32 {own}, {data};", f"mapa.shared::cluster.u32 {theirs}, {own}, 0;")
    take, done = w.label("T"), w.label("D")
    w.emit(f"@!{first} bra {take};")
    s.releases(far, "1", guard=f"@{_data(w, data, value)} ")
    w.emit(f"bra {done};", f"{take}:")
    s.acquires(far, "1")
    x = w.fresh("r")
    w.emit(
        f"ld.shared::cluster.u32 {x}, [{theirs}+{4 * w.draw.randrange(32)}];", f"add.u32 {out}, {out}, {x};"
    )
    w.emit(f"{done}:")
    if not w.wrong("no barrier at the end"):
        w.emit(*meets)
    d, number = w.fresh("d"), w.fresh("r")
    w.emit(f"shl.b32 {number}, {rank}, 5;", f"add.u32 {number}, {number}, %thr;")
    w.emit(f"mul.wide.u32 {d}, {number}, 4;", f"add.s64 {d}, %out, {d};", f"st.global.u32 [{d}], {out};")
    return _finished(w, "cluster flag", 32, 2)


def told(w: Writer) -> Program:
    """Threads that find something set a word to one value; behind a barrier all look at it."""
    threads = w.draw.choice([64, 96])
    load, store = _strong(w)
    word, value, x, p = w.room("found", 4, 4), _value(w), w.fresh("r"), w.fresh("p")
    _begin(w, [word])
    w.emit(f"setp.lt.u32 {p}, {value}, {w.draw.choice([1, 1 << 20, 1 << 31])};")
    given = value if w.wrong("values that differ") else "1"
    w.emit(f"@{p} {store} [{word}], {given};")
    if not w.wrong("no barrier before the word is read"):
        w.emit("bar.sync 0;")
    w.emit(f"{load} {x}, [{word}];")
    _result(w, x)
    return replace(_finished(w, "told", threads), by_data=True)


def _finished(w: Writer, family: str, threads: int, cluster: int = 1) -> Program:
    return replace(w.finished(family, threads, cluster), outcome=True)


STRONG_FAMILIES = {
    "warp sum": warp_sum,
    "exchange": exchange,
    "flag": flag,
    "count": count,
    "last": last,
    "ticket": ticket,
    "ring": ring,
    "lock": lock,
    "cluster flag": cluster_flag,
    "told": told,
}
