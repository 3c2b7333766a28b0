"""Threads that share out the words of each row by strides; how many rows and words there are is open.

A turn stores words, and loads or stores them in another order; between them the block meets, or does not.
"""

from __future__ import annotations

from tests.system.open_sizes.agreement import OpenKernel
from tests.system.open_sizes.ring_loops import COUNTS, _count, _Writer

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
.reqntid {threads}, 1, 1
{{
  .reg .b32 %x<{words}>, %n, %m, %t, %slots, %v; .reg .pred %q<{predicates}>;
  .reg .b64 %d<2>; .reg .b16 %h<3>;
"""
ONE = "  .shared .align 16 .b8 slots[8192];\n"
#: A second array, to which an access may lead in place of the first.
SECOND = """  .reg .b32 %others;
  .shared .align 16 .b8 others[8192];
  mov.u32 %others, others;
"""
#: Both in dynamic shared memory; and what goes into where the second begins.
CARVED = "  .reg .b32 %others, %far;\n"
DYNAMIC = ".extern .shared .align 16 .b8 slots[];\n"
BEGINS = (
    *("shl.b32 %far, %n, 2;",) * 2,
    "shl.b32 %far, %n, 3; add.u32 %far, %far, 512;",
    "add.u32 %far, %n, 33; and.b32 %far, %far, -32; shl.b32 %far, %far, 2;",
    "add.u32 %far, %n, %m; mul.lo.u32 %far, %far, 4;",
    "mad.lo.u32 %far, %n, 4, -4;",
    "shr.u32 %far, %n, 1; shl.b32 %far, %far, 2;",
    "shl.b32 %far, %m, 7;",
)
#: Where the word of turn ``i`` lies, as instructions that write ``r``.
PLACES = (
    *("mov.u32 {r}, {i};",) * 4,
    "sub.s32 {r}, {last}, {i}; sub.s32 {r}, {r}, 1;",
    "xor.b32 {r}, {i}, 1;",
    "xor.b32 {r}, {i}, 32;",
    "shl.b32 {r}, {i}, 1;",
    "shr.u32 {r}, {i}, 1;",
    "rem.u32 {r}, {i}, 96;",
    "cvt.u16.u32 %h1, {i}; cvt.u32.u16 {r}, %h1;",
)
#: What a turn does in each iteration: of one array, of two.
KINDS = (("store", "store", "load", "both"), ("store", "load", "both", "both"))
#: Counts that do not come of the number of rows.
WORDS = [name for name in COUNTS if "m" not in name]


def _access(w: _Writer, i: str, last: str, what: str, two: bool) -> None:
    """An access, or a load and a store: of one word, or of two arrays a word each."""
    if two and what == "both":
        _access(w, i, last, "load", two)
        what = "store"
    place, address = w.word(), w.word()
    w.emit(w.draw.choice(PLACES).format(r=place, i=i, last=last))
    array = w.draw.choice(("%slots", "%others")) if two else "%slots"
    w.emit(f"shl.b32 {address}, {place}, 2;", f"add.s32 {address}, {address}, {array};")
    if what != "store":
        w.emit(f"ld.shared.u32 %v, [{address}];", "add.s32 %v, %v, 1;")
    if what != "load":
        w.emit(f"st.shared.u32 [{address}], %v;")


def _loop(w: _Writer, threads: int, count: str, what: str, two: bool) -> None:
    """The words of one row, each by one thread."""
    last, i, p, top, end = _count(w, count), w.word(), w.predicate(), w.label(), w.label()
    step = threads
    if w.wrong("a smaller stride", 0.15):
        step = w.draw.choice((threads // 2, threads - 1, 1))
    elif w.wrong("a larger stride", 0.1):
        step = threads + w.draw.choice((1, threads))
    match w.draw.choice(("up", "up", "down", "runs")):
        case "up":
            w.emit(f"mov.u32 {i}, %t;", f"{top}:", f"setp.ge.s32 {p}, {i}, {last};", f"@{p} bra {end};")
            _access(w, i, last, what, two)
            w.emit(f"add.s32 {i}, {i}, {step};", f"bra {top};", f"{end}:")
        case "down":
            w.emit(f"sub.s32 {i}, {last}, %t;", f"sub.s32 {i}, {i}, 1;", f"{top}:")
            w.emit(f"setp.lt.s32 {p}, {i}, 0;", f"@{p} bra {end};")
            _access(w, i, last, what, two)
            w.emit(f"sub.s32 {i}, {i}, {step};", f"bra {top};", f"{end}:")
        case _:
            each, far = w.word(), w.word()
            w.emit(f"add.s32 {each}, {last}, {threads - 1};", f"div.u32 {each}, {each}, {threads};")
            w.emit(f"mul.lo.s32 {i}, %t, {each};", f"add.s32 {far}, {i}, {each};")
            if w.wrong("runs overlap", 0.1):
                w.emit(f"add.s32 {far}, {far}, 1;")
            w.emit(f"min.s32 {far}, {far}, {last};", f"{top}:")
            w.emit(f"setp.ge.s32 {p}, {i}, {far};", f"@{p} bra {end};")
            _access(w, i, last, what, two)
            w.emit(f"add.s32 {i}, {i}, 1;", f"bra {top};", f"{end}:")


def kernel(
    seed: int, *, two: bool = False, carved: bool = False
) -> tuple[OpenKernel, list[dict[str, int]], list[str]]:
    """A kernel, the numbers that it is tried with, and the mistakes in it. ``two``: of two arrays, which hold
    all that these numbers reach. ``carved``: of two arrays in dynamic shared memory, the second of which
    begins where sizes say."""
    two = two or carved
    w = _Writer(seed)
    draw = w.draw
    threads, count = draw.choice((32, 64, 96, 128)), draw.choice(["n", "n", *WORDS])
    w.emit("ld.param.u32 %n, [n];", "ld.param.u32 %m, [m];", "mov.u32 %t, %tid.x;", "mov.u32 %slots, slots;")
    if carved:
        w.emit(draw.choice(BEGINS), "add.u32 %others, %slots, %far;")
    row, p, top, end = w.word(), w.predicate(), w.label(), w.label()
    w.emit(
        "mov.u32 %v, 0;", f"mov.u32 {row}, 0;", f"{top}:", f"setp.ge.u32 {p}, {row}, %m;", f"@{p} bra {end};"
    )
    for turn in range(draw.choice((1, 2, 2, 3))):
        if turn and not w.wrong("no barrier", 0.2):
            w.emit("bar.sync 0;")
        own = draw.choice(WORDS) if w.wrong("another count", 0.1) else count
        _loop(w, threads, own, draw.choice(KINDS[two]), two)
    if not w.wrong("no barrier at the end of a row", 0.3):
        w.emit("bar.sync 0;")
    w.emit(f"add.u32 {row}, {row}, 1;", f"bra {top};", f"{end}:", "ret;", "}")
    head = HEAD.format(threads=threads, words=w.words + 1, predicates=w.predicates + 1)
    head = head.replace(".visible", f"{DYNAMIC}.visible") + CARVED if carved else head + ONE
    head += SECOND if two and not carved else ""
    text = head + "\n".join(f"  {line}" for line in w.lines) + "\n"
    low = draw.choice((0, 0, 1, 33))
    assume = [f"n >= {low}", f"n <= {draw.choice((300, 500))}", "m >= 0", "m <= 64"]
    numbers = (*range(6), 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 191, 257, 300)
    return OpenKernel(text, ("n", "m"), assume), [{"n": n, "m": 2} for n in numbers if n >= low], w.mistakes
