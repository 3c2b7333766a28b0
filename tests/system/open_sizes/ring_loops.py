"""Random rings of barriers whose two sides count their turns in different ways, as PTX.

A producer fills slots and a consumer reads them; the number of turns is a function of open sizes. Loops count
up or down, in strides, from other starts, are unrolled or peeled; slots and parities come from remainders,
masks, products with reciprocals, or registers that wrap. Some kernels have a mistake or two.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.system.open_sizes.agreement import OpenKernel

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
.reqntid 64, 1, 1
{{
  .reg .b32 %x<{words}>, %n, %m, %t, %full, %empty, %slots, %sum, %v; .reg .pred %q<{predicates}>;
  .reg .b64 %d<2>; .reg .b16 %h<3>;
  .shared .align 8 .b8 full[64];
  .shared .align 8 .b8 empty[64];
  .shared .align 16 .b8 slots[512];
"""
START = """ld.param.u32 %n, [n];
ld.param.u32 %m, [m];
mov.u32 %t, %tid.x;
mov.u32 %full, full;
mov.u32 %empty, empty;
mov.u32 %slots, slots;
mov.u32 %sum, 0;
setp.ne.u32 %q0, %t, 0;
@%q0 bra INIT;"""
PARTED = """INIT:
bar.sync 0;
setp.eq.u32 %q0, %t, 0;
@%q0 bra PRODUCER;
setp.eq.u32 %q0, %t, 32;
@%q0 bra CONSUMER;
bra DONE;
PRODUCER:"""
#: How many turns there are, as instructions that write ``r``.
COUNTS: dict[str, tuple[str, ...]] = {
    "n": ("mov.u32 {r}, %n;",),
    "n + m": ("add.s32 {r}, %n, %m;",),
    "n / 2": ("shr.u32 {r}, %n, 1;", "div.u32 {r}, %n, 2;", "shr.s32 {r}, %n, 1;", "bfe.u32 {r}, %n, 1, 31;"),
    "n / 2, in other registers": (
        "shf.r.wrap.b32 {r}, %n, 0, 1;",
        "mul.wide.u32 %d1, %n, 0x80000000; shr.u64 %d1, %d1, 32; cvt.u32.u64 {r}, %d1;",
        "shr.u32 {r}, %n, 1;",
    ),
    "(n + 3) / 4": (
        "add.s32 {r}, %n, 3; shr.u32 {r}, {r}, 2;",
        "add.s32 {r}, %n, 3; div.s32 {r}, {r}, 4;",
    ),
    "n - n % 2": ("and.b32 {r}, %n, -2;", "rem.u32 {r}, %n, 2; sub.s32 {r}, %n, {r};"),
    "min(n, 5)": ("min.s32 {r}, %n, 5;", "setp.lt.s32 %q1, %n, 5; selp.b32 {r}, %n, 5, %q1;"),
    "max(n, 2)": ("max.s32 {r}, %n, 2;",),
    "n % 3": ("rem.u32 {r}, %n, 3;", "rem.s32 {r}, %n, 3;"),
    "max(n - 1, 0)": ("sub.s32 {r}, %n, 1; max.s32 {r}, {r}, 0;",),
    "min(n, m)": (
        "min.u32 {r}, %n, %m;",
        "setp.lt.u32 %q1, %n, %m; selp.b32 {r}, %n, %m, %q1;",
        "sub.s32 {r}, %n, %m; slct.s32.s32 {r}, %m, %n, {r};",
    ),
    "max(n - m, 0)": (
        "sub.s32 {r}, %n, %m; max.s32 {r}, {r}, 0;",
        "max.s32 {r}, %n, %m; sub.s32 {r}, {r}, %m;",
        "min.s32 {r}, %n, %m; sub.s32 {r}, %n, {r};",
    ),
    "n % 256": (
        "and.b32 {r}, %n, 255;",
        "cvt.u32.u8 {r}, %n;",
        "prmt.b32 {r}, %n, 0, 0x4440;",
        "shl.b32 {r}, %n, 24; shr.u32 {r}, {r}, 24;",
    ),
    "n / 65536": (
        "mov.b32 {{%h1, %h2}}, %n; cvt.u32.u16 {r}, %h2;",
        "shr.u32 {r}, %n, 16;",
        "prmt.b32 {r}, %n, 0, 0x4432;",
        "mul.hi.u32 {r}, %n, 65536;",
    ),
    "n + (n < m)": (
        "sub.cc.u32 {r}, %n, %m; subc.u32 {r}, 0, 0; sub.s32 {r}, %n, {r};",
        "setp.lt.u32 %q1, %n, %m; selp.b32 {r}, 1, 0, %q1; add.s32 {r}, %n, {r};",
        "set.lt.u32.u32 {r}, %n, %m; sub.s32 {r}, %n, {r};",
    ),
    "bits of n": (
        "clz.b32 {r}, %n; sub.s32 {r}, 32, {r};",
        "bfind.u32 {r}, %n; add.s32 {r}, {r}, 1;",
        "mov.u32 {r}, 0; mov.u32 %v, %n; {top}: setp.eq.u32 %q1, %v, 0; @%q1 bra {end}; "
        "shr.u32 %v, %v, 1; add.s32 {r}, {r}, 1; bra {top}; {end}:",
    ),
    "2 n": ("shl.b32 {r}, %n, 1;", "mul.lo.s32 {r}, %n, 2;", "add.s32 {r}, %n, %n;"),
}
FORMS = ("up", "down", "stride", "do while", "until equal", "unrolled", "peeled", "from elsewhere")
Body = Callable[[], None]


class _Writer:
    """Lines of a kernel, fresh names, and mistakes of which a few are made."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.words, self.predicates, self.labels = 0, 1, 0
        self.mistakes: list[str] = []
        self._left = self.draw.choice((0, 0, 1, 1, 2))

    def word(self) -> str:
        self.words += 1
        return f"%x{self.words}"

    def predicate(self) -> str:
        self.predicates += 1
        return f"%q{self.predicates}"

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def wrong(self, what: str, chance: float = 0.05) -> bool:
        """Whether this mistake is made."""
        if not self._left or self.draw.random() >= chance:
            return False
        self._left -= 1
        self.mistakes.append(what)
        return True


class _Ring:
    """Slot and parity of one side, from a counter or from registers that wrap."""

    def __init__(self, w: _Writer, slots: int) -> None:
        self.w = w
        self.turn, self.slot, self.parity, self.wraps = w.word(), w.word(), w.word(), w.predicate()
        if w.wrong("another number of slots"):
            slots = slots - 1 if slots > 1 else 2
        kinds = [
            "remainder",
            "wrap",
            "wrap",
            *["mask"] * (slots in (1, 2, 4)),
            *["reciprocal"] * (slots == 3),
        ]
        self.slots, self.kind = slots, w.draw.choice(kinds)
        w.emit(*(f"mov.u32 {r}, 0;" for r in (self.turn, self.slot, self.parity)))

    def here(self) -> None:
        """Slot and parity of this turn."""
        turn, slot, parity = self.turn, self.slot, self.parity
        match self.kind:
            case "remainder":
                self.w.emit(f"rem.u32 {slot}, {turn}, {self.slots};")
                self.w.emit(f"div.u32 {parity}, {turn}, {self.slots};", f"and.b32 {parity}, {parity}, 1;")
            case "mask":
                bits = self.slots.bit_length() - 1
                self.w.emit(
                    f"and.b32 {slot}, {turn}, {self.slots - 1};", f"bfe.u32 {parity}, {turn}, {bits}, 1;"
                )
            case "reciprocal":
                lap = self.w.word()
                self.w.emit(f"mul.hi.u32 {lap}, {turn}, -1431655765;", f"shr.u32 {lap}, {lap}, 1;")
                self.w.emit(f"mul.lo.u32 {slot}, {lap}, 3;", f"sub.s32 {slot}, {turn}, {slot};")
                self.w.emit(f"and.b32 {parity}, {lap}, 1;")

    def advance(self) -> None:
        """The next turn."""
        w, slot, parity, p = self.w, self.slot, self.parity, self.wraps
        if w.wrong("no advance"):
            return
        if self.kind != "wrap":
            w.emit(f"add.s32 {self.turn}, {self.turn}, 1;")
            return
        w.emit(
            f"add.s32 {slot}, {slot}, 1;",
            f"setp.{w.draw.choice(('eq', 'ge'))}.s32 {p}, {slot}, {self.slots};",
        )
        if w.wrong("the parity does not turn"):
            pass
        elif w.draw.random() < 0.5:
            flip = w.word()
            w.emit(f"selp.b32 {flip}, 1, 0, {p};", f"xor.b32 {parity}, {parity}, {flip};")
        else:
            w.emit(f"@{p} xor.b32 {parity}, {parity}, 1;")
        w.emit(w.draw.choice((f"selp.b32 {slot}, 0, {slot}, {p};", f"@{p} mov.u32 {slot}, 0;")))


def _count(w: _Writer, of: str) -> str:
    r = w.word()
    w.emit(w.draw.choice(COUNTS[of]).format(r=r, top=w.label(), end=w.label()))
    return r


def _loop(w: _Writer, side: str, count: str, body: Body) -> None:
    """The body ``count`` times, in some form."""
    limit, i, p, top, end = w.word(), w.word(), w.predicate(), w.label(), w.label()
    more = w.draw.choice((-1, 1)) if w.wrong(f"{side}: a turn too few or too many", 0.1) else 0
    w.emit(f"add.s32 {limit}, {count}, {more};" if more else f"mov.u32 {limit}, {count};")

    def while_(start: object, leave: str, bound: str, step: int) -> None:
        w.emit(f"mov.u32 {i}, {start};", f"{top}:", f"setp.{leave} {p}, {i}, {bound};", f"@{p} bra {end};")
        body()
        w.emit(f"add.s32 {i}, {i}, {step};", f"bra {top};", f"{end}:")

    def until(again: str, guard: str) -> None:
        if not w.wrong(f"{side}: no guard", 0.15):
            w.emit(f"setp.{guard} {p}, {limit}, {int(guard[:2] == 'lt')};", f"@{p} bra {end};")
        w.emit(f"mov.u32 {i}, 0;", f"{top}:")
        body()
        w.emit(f"add.s32 {i}, {i}, 1;", f"setp.{again} {p}, {i}, {limit};", f"@{p} bra {top};", f"{end}:")

    match w.draw.choice(FORMS):
        case "up":
            while_(0, w.draw.choice(("ge.s32", "ge.u32" if more >= 0 else "ge.s32")), limit, 1)
        case "down":
            while_(limit, w.draw.choice(("le.s32", "eq.s32")), "0", -1)
        case "stride":
            step, far = w.draw.choice((2, 3, 16, 64)), w.word()
            w.emit(f"mul.lo.s32 {far}, {limit}, {step};")
            while_(0, "ge.s32", far, step)
        case "do while":
            until("lt.s32", "lt.s32")
        case "until equal":
            until("ne.s32", "eq.s32")
        case "unrolled":
            even, odd, last = w.word(), w.word(), w.label()
            w.emit(f"and.b32 {even}, {limit}, -2;", f"mov.u32 {i}, 0;", f"{top}:")
            w.emit(f"setp.ge.s32 {p}, {i}, {even};", f"@{p} bra {end};")
            body()
            body()
            w.emit(f"add.s32 {i}, {i}, 2;", f"bra {top};", f"{end}:")
            if not w.wrong(f"{side}: the last turn is forgotten", 0.1):
                w.emit(f"and.b32 {odd}, {limit}, 1;", f"setp.eq.s32 {p}, {odd}, 0;", f"@{p} bra {last};")
                body()
                w.emit(f"{last}:")
        case "peeled":
            w.emit(f"setp.lt.s32 {p}, {limit}, 1;", f"@{p} bra {end};")
            body()
            while_(1, "ge.s32", limit, 1)
        case _:
            start, far = w.draw.choice((-1, 1, 5, -7)), w.word()
            w.emit(f"add.s32 {far}, {limit}, {start};")
            while_(start, "ge.s32", far, 1)


def _side(w: _Writer, side: str, slots: int, count: str, nested: bool) -> None:
    """The loop of the producer, or of the consumer."""
    produces = side == "producer"
    mine, theirs = ("%empty", "%full") if produces else ("%full", "%empty")
    ring = _Ring(w, slots)

    def barrier(base: str) -> str:
        r = w.word()
        w.emit(f"shl.b32 {r}, {ring.slot}, 3;", f"add.s32 {r}, {r}, {base};")
        return r

    def access() -> None:
        r, value = w.word(), w.word()
        w.emit(f"shl.b32 {r}, {ring.slot}, 2;", f"add.s32 {r}, {r}, %slots;")
        if produces:
            w.emit(f"st.shared.u32 [{r}], %n;")
        else:
            w.emit(f"ld.shared.u32 {value}, [{r}];", f"add.s32 %sum, %sum, {value};")

    def wait() -> None:
        at, parity, p, top = barrier(mine), w.word(), w.predicate(), w.label()
        turned = produces != w.wrong(f"{side}: the other parity")
        w.emit(f"xor.b32 {parity}, {ring.parity}, {int(turned)};", f"{top}:")
        w.emit(f"mbarrier.try_wait.parity.shared::cta.b64 {p}, [{at}], {parity};", f"@!{p} bra {top};")

    def turn() -> None:
        early, late = (w.wrong(f"{side}: {x}") for x in ("access before the wait", "access after the arrive"))
        ring.here()
        if early:
            access()
        if not w.wrong(f"{side}: no wait"):
            wait()
        if not early and not late:
            access()
        if not w.wrong(f"{side}: no arrive"):
            w.emit(f"mbarrier.arrive.shared::cta.b64 _, [{barrier(theirs)}];")
        if late:
            access()
        ring.advance()

    if w.wrong(f"{side}: another count", 0.08):
        count = w.draw.choice(list(COUNTS))
    turns = _count(w, count)
    if nested:
        _loop(w, side, turns, lambda: _loop(w, side, "%m", turn))
    else:
        _loop(w, side, turns, turn)
    w.emit("bra DONE;")


def kernel(seed: int) -> tuple[OpenKernel, list[dict[str, int]], list[str]]:
    """A kernel, the numbers that it is tried with, and the mistakes in it."""
    w = _Writer(seed)
    slots, count, nested = w.draw.choice((1, 2, 3, 4)), w.draw.choice(["n", *COUNTS]), w.draw.random() < 0.3
    w.emit(*START.splitlines())
    for s in range(slots):
        arrivals = 2 if w.wrong("one arrival too many is expected", 0.03) else 1
        w.emit(f"mbarrier.init.shared::cta.b64 [full+{8 * s}], {arrivals};")
        w.emit(f"mbarrier.init.shared::cta.b64 [empty+{8 * s}], 1;")
    w.emit(*PARTED.splitlines())
    _side(w, "producer", slots, count, nested)
    w.emit("CONSUMER:")
    _side(w, "consumer", slots, count, nested)
    w.emit("DONE:", "ret;", "}")
    low, least = w.draw.choice((0, 0, 0, 1, 2)), w.draw.choice((0, 1, 1))
    head = HEAD.format(words=w.words + 1, predicates=w.predicates + 1)
    text = head + "\n".join(f"  {line}" for line in w.lines) + "\n"
    assume = [f"n >= {low}", "n <= 100000", f"m >= {least}", "m <= 1000"]
    some = (least, least + 1, 3) if nested or count == "n + m" else (2,)
    numbers = [n for n in (*range(14), 17) if n >= low]
    values = [{"n": n, "m": m} for n in (numbers[:8] if nested else numbers) for m in some]
    return OpenKernel(text, ("n", "m"), assume), values, w.mistakes
