"""Accesses of different threads to one place of global memory, beside an execution of all by numbers.

A kernel is a few stores and loads, each under a guard, to places and of values that numbers of threads and
blocks make, with barriers between some. Two conflict if they are of threads of two blocks, or of two threads
of one that no barrier comes between, and touch one byte: a load and a store in any case, two stores if the
bytes differ. Stores that conflict have to be named. With a load that conflicts nothing is proved, but where
many threads of a block store at once: there an assumption has to say so. Of others nothing is said.

Beside one store or load stands an atomic in the other cases, or another store or load, at a place that a word
of the input says within bounds. All words that matter are tried: with a byte that two blocks touch nothing
is proved, else all is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict

BLOCKS, THREADS = 4, 32
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 count, .param .u64 sums)
{{
.reg .pred %p<60>; .reg .b32 %r<90>; .reg .b64 %rd<60>; .reg .b16 %h<9>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [count];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
{body}
ld.param.u64 %rd3, [sums]; mad.lo.u32 %r3, %r0, 32, %r1; mul.wide.u32 %rd4, %r3, 4; add.u64 %rd3, %rd3, %rd4;
st.global.u32 [%rd3], %r2;
ret;
}}
"""


@dataclass(frozen=True)
class Line:
    """``a`` blocks and ``b`` threads and ``c``, without low bits: a place in words, or a value."""

    a: int
    b: int
    c: int
    low: int = 0

    def of(self, block: int, thread: int) -> int:
        return (self.a * block + self.b * thread + self.c) >> self.low

    def text(self, to: str) -> str:
        return (f"mul.lo.u32 {to}, %r0, {self.a}; mad.lo.u32 {to}, %r1, {self.b}, {to};"
                f" add.u32 {to}, {to}, {self.c}; shr.u32 {to}, {to}, {self.low};")  # fmt: skip


@dataclass(frozen=True)
class Guard:
    """Who stores: a test of the block, then one of the thread. ``elected``: whom an atomic says, besides."""

    block: tuple[str, int] | None
    thread: tuple[str, int] | None
    elected: bool = False

    def holds(self, block: int, thread: int) -> bool:
        tests = ((self.block, block), (self.thread, thread))
        return all(t is None or {"eq": n == t[1], "ne": n != t[1], "lt": n < t[1]}[t[0]] for t, n in tests)

    def text(self, n: int, label: str) -> str:
        out = ""
        for m, (test, register) in enumerate(((self.block, "%r0"), (self.thread, "%r1"))):
            if test is not None:
                p = f"%p{4 * n + m}"
                out += f"setp.{test[0]}.u32 {p}, {register}, {test[1]}; @!{p} bra {label};"
        if self.elected:
            out += (f"atom.global.add.u32 %r{60 + n}, [%rd2+{8 * n}], 1;"
                    f" setp.ne.u32 %p{4 * n + 2}, %r{60 + n}, 0; @%p{4 * n + 2} bra {label};")  # fmt: skip
        return out


@dataclass(frozen=True)
class Store:
    """A store, or a load from that place."""

    place: Line
    value: Line
    guard: Guard
    bytes: int
    offset: int
    loads: bool = False

    def text(self, n: int) -> str:
        at, value, base = f"%r{10 + n}", f"%r{30 + n}", f"%rd{10 + n}"
        access = f"st.global.u{8 * self.bytes} [{base}+{self.offset}], {value};"
        if self.loads:
            access = (f"ld.global.u{8 * self.bytes} %r{50 + n}, [{base}+{self.offset}];"
                      f" add.u32 %r2, %r2, %r{50 + n};")  # fmt: skip
        return (f"{self.guard.text(n, f'L{n}')} {self.place.text(at)} {self.value.text(value)}"
                f" mul.wide.u32 {base}, {at}, 4; add.u64 {base}, %rd1, {base};"
                f" {access}\nL{n}:\n")  # fmt: skip


def drawn(draw: Random, *, elections: bool = False, reads: bool = False) -> list[Store | None]:
    """Stores, loads perhaps, and barriers between some."""
    found: list[Store | None] = []
    for _ in range(draw.randint(1, 3)):
        place = draw.choice([Line(32, 1, 0), Line(0, 1, 0), Line(1, 0, 0), Line(0, 0, 0), Line(16, 1, 0),
                             Line(32, 1, 32), Line(1, 0, 0, 1), Line(0, 1, 0, 1), Line(1, 0, 4)])  # fmt: skip
        value = draw.choice([Line(0, 0, 7), Line(0, 0, 9), Line(1, 0, 0), Line(0, 1, 0), Line(32, 1, 0),
                             Line(0, 0, 7), Line(256, 0, 7)])  # fmt: skip
        block = draw.choice([None, None, ("eq", draw.randrange(3)), ("ne", 0), ("lt", 2)])
        thread = draw.choice([None, ("eq", 0), ("eq", draw.randrange(32)), ("lt", 16), ("ne", 0)])
        elected = elections and draw.random() < 0.5
        size = draw.choice([4, 4, 4, 2, 1 if value.a < 256 else 4])
        offset = draw.randrange(0, 4, size)
        loads = reads and draw.random() < 0.5
        found.append(Store(place, value, Guard(block, thread, elected), size, offset, loads))
        if draw.random() < 0.4:
            found.append(None)
    return found


def text(program: list[Store | None]) -> str:
    lines = [x.text(n) if x is not None else "bar.sync 0;\n" for n, x in enumerate(program)]
    return TEXT.format(body="".join(lines))


#: A byte that is touched: by which access, in which block and thread, behind how many barriers; its value.
Byte = tuple[int, int, int, int, int]


def bytes_of(program: list[Store | None]) -> dict[int, list[Byte]]:
    found: dict[int, list[Byte]] = {}
    barriers = 0
    for n, x in enumerate(program):
        if x is None:
            barriers += 1
            continue
        for block in range(BLOCKS):
            for thread in range(THREADS):
                if x.guard.holds(block, thread):
                    value = x.value.of(block, thread)
                    at = 4 * x.place.of(block, thread) + x.offset
                    for j in range(x.bytes):
                        row = n, block, thread, barriers, value >> 8 * j & 255
                        found.setdefault(at + j, []).append(row)
    return found


def unordered(program: list[Store | None]) -> Iterator[tuple[Byte, Byte]]:
    """The accesses of different threads to one byte that nothing orders."""
    for rows in bytes_of(program).values():
        for a in rows:
            yield from ((a, b) for b in rows if a[1:3] != b[1:3] and (a[1] != b[1] or a[3] == b[3]))


def conflicts(program: list[Store | None]) -> bool:
    """Whether two stores conflict, or may by whom an atomic elects, which is one thread."""
    loads = [x is not None and x.loads for x in program]
    elected = [x is not None and x.guard.elected for x in program]
    return any(
        a[4] != b[4] and not (loads[a[0]] or loads[b[0]]) and not (a[0] == b[0] and elected[a[0]])
        for a, b in unordered(program)
    )


def read_in_no_order(program: list[Store | None]) -> set[bool]:
    """Of loads and stores that conflict, whether many threads of the block store at once there."""
    loads = [x is not None and x.loads for x in program]
    found = set[bool]()
    for rows in bytes_of(program).values():
        many = Counter(row[:2] for row in rows)
        read = [a for a in rows if loads[a[0]]]
        for b in rows:
            if not loads[b[0]] and any(a[1:3] != b[1:3] and (a[1] != b[1] or a[3] == b[3]) for a in read):
                found.add(many[b[:2]] > 1)
    return found


def stored_twice(program: list[Store | None]) -> bool:
    """Whether two stores touch one byte in no order, of one value perhaps."""
    loads = [x is not None and x.loads for x in program]
    return any(not (loads[a[0]] or loads[b[0]]) for a, b in unordered(program))


def checked(program: list[Store | None]) -> KernelReport:
    return checked_text(text(program))


def checked_text(body: str) -> KernelReport:
    facts = {"block": [THREADS], "grid": [BLOCKS], "params": {"0": "ptr", "1": "ptr", "2": "ptr"}}
    (report,) = syncverify.check(body, facts={"kernel": {"k": facts}}, replay=False, advice=False)
    return report


def said(program: list[Store | None]) -> bool:
    """Whether the report says that the value at a place is not determined."""
    report = checked(program)
    if report.verdict is not Verdict.PROVED:
        assert "different values to one place" in str(report.reason), report.reason
        return True
    return any("to one place of" in x for x in report.assumptions)


def judged(first: int, last: int) -> list[tuple[int, bool]]:
    wrong = []
    for seed in range(first, last):
        elections = seed % 3 == 2
        program = drawn(Random(seed), elections=elections)
        found, expected = said(program), conflicts(program)
        if found != expected and not (elections and found):
            wrong.append((seed, found))
    return wrong


def judged_with_loads(first: int, last: int) -> list[tuple[int, str]]:
    wrong = []
    for seed in range(first, last):
        program = drawn(Random(seed), reads=True)
        report = checked(program)
        races, differ, twice = read_in_no_order(program), conflicts(program), stored_twice(program)
        named = any("to one place of" in x for x in report.assumptions)
        taken = any("no other thread reads" in x for x in report.assumptions)
        if report.verdict is Verdict.PROVED:
            right = races <= {True} and taken >= bool(races) and named == differ
        else:
            right = bool(races) or twice
        if not right:
            wrong.append((seed, f"{report.verdict} {races} {differ}"))
    return wrong


@pytest.mark.parametrize(
    ("first", "last"), [(0, 15), pytest.param(15, 600, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_what_conflicts_is_said_and_nothing_else(first: int, last: int) -> None:
    assert judged(first, last) == []


@pytest.mark.parametrize(
    ("first", "last"), [(0, 15), pytest.param(15, 600, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_a_load_that_conflicts_is_undecided_or_taken_for_granted(first: int, last: int) -> None:
    assert judged_with_loads(first, last) == []


#: What makes bounded numbers of an input word %r5, in %r6; and the same by arithmetic.
BOUNDED: list[tuple[str, Callable[[int], int]]] = [
    ("and.b32 %r6, %r5, 15;", lambda x: x & 15),
    ("and.b32 %r6, %r5, 28;", lambda x: x & 28),
    ("rem.u32 %r6, %r5, 20;", lambda x: x % 20),
    ("shr.u32 %r6, %r5, 27;", lambda x: x >> 27),
    ("min.u32 %r6, %r5, 11;", lambda x: min(x, 11)),
    ("max.s32 %r6, %r5, 0; min.s32 %r6, %r6, 9;", lambda x: min(x, 9) if x < 1 << 31 else 0),
    ("bfe.u32 %r6, %r5, 3, 4;", lambda x: x >> 3 & 15),
    ("and.b32 %r6, %r5, 7; mul.lo.u32 %r6, %r6, 3;", lambda x: (x & 7) * 3),
    ("setp.lt.u32 %p50, %r5, 13; selp.b32 %r6, %r5, 13, %p50;", lambda x: min(x, 13)),
    ("shr.u32 %r6, %r5, 24; and.b32 %r6, %r6, 6;", lambda x: x >> 24 & 6),
    ("shl.b32 %r6, %r5, 2; and.b32 %r6, %r6, 60;", lambda x: x << 2 & 60),
    (
        "mul.hi.u32 %r6, %r5, 0xAAAAAAAB; shr.u32 %r6, %r6, 3; mad.lo.s32 %r6, %r6, -12, %r5;",
        lambda x: x % 12,
    ),
    (
        "mul.hi.u32 %r8, %r5, 0x24924925; sub.u32 %r6, %r5, %r8; shr.u32 %r6, %r6, 1; add.u32 %r6, %r6, %r8;"
        " shr.u32 %r6, %r6, 2; mul.lo.u32 %r6, %r6, 7; sub.u32 %r6, %r5, %r6;",
        lambda x: x % 7,
    ),
]
WORDS = [*range(256), *(n << 24 | n for n in range(256)), (1 << 31) - 1, (1 << 32) - 1]


@dataclass(frozen=True)
class Count:
    """An atomic at a place that data says in part, and ``place`` besides; or what ``access`` says."""

    bounded: int
    place: Line
    guard: Guard
    access: str = "red.global.add.u32 [%rd7], 1;"

    def text(self) -> str:
        return (f"{self.guard.text(9, 'C')} ld.param.u64 %rd5, [count]; mul.wide.u32 %rd6, %r1, 4;"
                f" add.u64 %rd5, %rd5, %rd6; ld.global.u32 %r5, [%rd5]; {BOUNDED[self.bounded][0]}"
                f" {self.place.text('%r7')} add.u32 %r6, %r6, %r7; mul.wide.u32 %rd7, %r6, 4;"
                f" add.u64 %rd7, %rd1, %rd7; {self.access}\nC:\n")  # fmt: skip

    def bytes(self, block: int) -> set[int]:
        if not any(self.guard.holds(block, t) for t in range(THREADS)):
            return set()
        words = {BOUNDED[self.bounded][1](x) for x in WORDS}
        each = {self.place.of(block, t) for t in range(THREADS) if self.guard.holds(block, t)}
        return {4 * (w + p) + j for w in words for p in each for j in range(4)}


#: Accesses at places of data, and beside them.
PLACED = {"red": "red.global.add.u32 [%rd7], 1;", "st": "st.global.u32 [%rd7], 1;",
          "ld": "ld.global.u32 %r8, [%rd7]; add.u32 %r2, %r2, %r8;"}  # fmt: skip


def counted(seed: int) -> tuple[str, bool]:
    """A drawn kernel, and whether some input lets two blocks touch one byte, by the access and the atomic."""
    draw = Random(seed)
    body, meet, _ = placed(draw, "red", loads=None)
    return body, meet


def stored(seed: int) -> tuple[str, bool]:
    """The same of a load or a store at a place of data, beside another, or an atomic. Two stores are none."""
    draw = Random(seed)
    kind = draw.choice(["st", "ld"])
    other = draw.choice(["st", "red"] if kind == "ld" else ["ld", "ld", "red", "st"])
    body, meet, access = placed(draw, kind, loads=other == "ld")
    if other == "red":
        body = body.replace(access, access.replace("st.global.u32", "red.global.add.u32"))
    return body, meet and kind != other


def placed(draw: Random, kind: str, *, loads: bool | None) -> tuple[str, bool, str]:
    """A kernel of an access at a place of data and another one, whether they meet, and the other's text."""
    places = [Line(32, 1, 0), Line(0, 1, 0), Line(1, 0, 0), Line(0, 1, 16), Line(0, 1, 40), Line(16, 0, 0)]
    guards = [("eq", 0), ("ne", 0), ("lt", 2), None]
    guard = Guard(draw.choice(guards), draw.choice([None, ("eq", 0), ("lt", 16)]))
    place = draw.choice(places)
    loads = draw.random() < 0.5 if loads is None else loads
    access = Store(place, Line(0, 0, 0), guard, 4, 0, loads=loads)
    starts = [Line(0, 0, 0), Line(32, 0, 0), Line(16, 0, 0), Line(0, 0, 64), Line(8, 0, 0), Line(32, 0, 32)]
    bounded = draw.randrange(len(BOUNDED))
    count = Count(bounded, draw.choice(starts), Guard(draw.choice(guards), None), PLACED[kind])
    parts = [access.text(0), "bar.sync 0;\n", count.text()]
    meet = any(
        access.guard.holds(b, t)
        and not count.bytes(other).isdisjoint(4 * access.place.of(b, t) + j for j in range(4))
        for b in range(BLOCKS)
        for t in range(THREADS)
        for other in range(BLOCKS)
        if other != b
    )
    body = TEXT.format(body="".join(parts if draw.random() < 0.5 else parts[::-1]))
    return body, meet, access.text(0)


def judged_with_counts(
    first: int, last: int, drawn_of: Callable[[int], tuple[str, bool]] = counted
) -> list[tuple[int, str]]:
    wrong = []
    for seed in range(first, last):
        body, meet = drawn_of(seed)
        report = checked_text(body)
        if (report.verdict is Verdict.PROVED) is meet:
            wrong.append((seed, f"{report.verdict}: {report.reason}"))
    return wrong


@pytest.mark.parametrize(
    ("first", "last"), [(0, 12), pytest.param(12, 600, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_nothing_is_proved_of_an_atomic_that_data_places_beside_a_plain_access(first: int, last: int) -> None:
    assert judged_with_counts(first, last) == []


@pytest.mark.parametrize(
    ("first", "last"), [(0, 12), pytest.param(12, 600, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_nothing_is_proved_of_a_plain_access_that_data_places_on_another(first: int, last: int) -> None:
    assert judged_with_counts(first, last, stored) == []


def asked(seed: int) -> tuple[str, bool]:
    """A store, and behind a barrier a load as a word says that the first thread sets; and whether they meet
    in two blocks."""
    draw = Random(seed)
    places = [Line(32, 1, 0), Line(0, 1, 0), Line(1, 0, 0), Line(0, 1, 16), Line(32, 1, 32), Line(16, 1, 0)]
    guards = [("eq", 0), ("ne", 0), ("lt", 2), None]
    one = other = Store(places[1], Line(0, 0, 7), Guard(None, None), 4, 0)
    while stored_twice([one]):
        one, other = (
            Store(draw.choice(places), Line(0, 0, 7), Guard(draw.choice(guards), None), 4, 0, loads=loads)
            for loads in (False, True)
        )
    ask = """setp.eq.u32 %p50, %r0, 0; setp.eq.and.u32 %p50, %r1, 0, %p50;
@%p50 st.relaxed.gpu.global.u32 [%rd2], 1;
ld.relaxed.gpu.global.u32 %r80, [%rd2]; setp.eq.u32 %p51, %r80, 0; @%p51 bra A;
"""
    if draw.random() < 0.5:
        ask = ask.replace("ld.relaxed.gpu", "ld.volatile").replace("st.relaxed.gpu", "st.volatile")
    meet = any(a[0] != b[0] and a[1] != b[1] for a, b in unordered([one, None, other]))
    return TEXT.format(body=f"{one.text(0)}bar.sync 0;\n{ask}{other.text(1)}A:\n"), meet


@pytest.mark.parametrize(
    ("first", "last"), [(0, 10), pytest.param(10, 400, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_nothing_is_proved_of_a_read_as_a_word_says_that_nothing_releases(first: int, last: int) -> None:
    assert judged_with_counts(first, last, asked) == []
