"""What analyses say of registers, beside what the second reader computes: branches that join, and loops.

Each program has a few words that statements write again and again: behind predicates, on sides of branches,
and in loops that count up or down, by shifts, products, remainders, and words that are loaded. Probes store
all words, once more in each visit. Each claim is held beside every visit of every thread, also of loops that
turn on: the steps of an execution are bounded, and what was stored until then counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from syncverify.frontends.ptx.analysis.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.copy_addresses import remainder
from syncverify.frontends.ptx.analysis.interval_rules import Interval
from syncverify.frontends.ptx.analysis.lowest_places import LowestPlaces
from syncverify.frontends.ptx.analysis.thread_numbers import ThreadNumbers
from syncverify.frontends.ptx.analysis.thread_values import ThreadValues
from syncverify.frontends.ptx.analysis.uniformity import THREADS, Uniformity
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Mem, Reg, Vector
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run

BLOCK, WORDS, VISITS, STEPS = 64, 6, 14, 3000
#: Probes of a program, at most.
MOST = 10
#: More than any address of shared memory: beyond it, the least of an address says nothing.
SHARED = 232448
NUMBERS = [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 64, 100, 255, 1024, 65536, -1, -2, -4, -8, 0x7FFFFFFF]
ENDS = [0, 1, 3, 4, 7, 8, 10, 16, 32, -1, -4]
MOVES = [
    "add.s32 {a}, {b}, {n}", "sub.s32 {a}, {b}, {n}", "add.u32 {a}, {b}, {c}", "and.b32 {a}, {b}, {n}",
    "shl.b32 {a}, {b}, {s}", "shr.u32 {a}, {b}, {s}", "shr.s32 {a}, {b}, {s}", "mul.lo.s32 {a}, {b}, {n}",
    "mad.lo.s32 {a}, {b}, {n}, {c}", "min.s32 {a}, {b}, {n}", "max.s32 {a}, {b}, {n}",
    "min.u32 {a}, {b}, {n}", "max.u32 {a}, {b}, {n}", "rem.u32 {a}, {b}, {d}", "div.u32 {a}, {b}, {d}",
    "rem.s32 {a}, {b}, {d}", "xor.b32 {a}, {b}, {n}", "or.b32 {a}, {b}, {n}", "mov.u32 {a}, {n}",
    "mov.u32 {a}, {b}", "selp.b32 {a}, {b}, {n}, {q}", "selp.b32 {a}, {n}, {b}, {q}", "neg.s32 {a}, {b}",
    "sub.s32 {a}, {n}, {b}", "bfe.u32 {a}, {b}, {s}, {s}", "not.b32 {a}, {b}", "mov.u32 {a}, %tid.x",
    "min.s32 {a}, {b}, {c}", "max.s32 {a}, {b}, {c}", "selp.b32 {a}, {b}, {c}, {q}",
    "shfl.sync.idx.b32 {a}, {b}, {s}, 31, -1", "abs.s32 {a}, {b}",
]  # fmt: skip
TESTS = ["lt.s32", "le.s32", "gt.s32", "ge.s32", "lt.u32", "ge.u32", "hi.u32", "ls.u32", "eq.s32", "ne.s32"]
#: What turns a loop's counter on.
TURNS = [
    "add.s32 {a}, {a}, {t}", "add.s32 {a}, {a}, -{t}", "sub.s32 {a}, {a}, {t}", "shl.b32 {a}, {a}, 1",
    "shr.u32 {a}, {a}, 1", "mul.lo.s32 {a}, {a}, {t}", "add.u32 {a}, {a}, %ntid.x", "xor.b32 {a}, {a}, {t}",
    "add.s32 {a}, {a}, {c}",
]  # fmt: skip
#: Loops that end: where a counter begins, its turn, and the comparison that goes on.
COUNTED = [
    ("0", "add.s32 {a}, {a}, {t}", "lt.s32", [4, 7, 8, 10]),
    ("%tid.x", "add.s32 {a}, {a}, 32", "lt.u32", [64, 100, 255]),
    ("8", "sub.s32 {a}, {a}, {t}", "gt.s32", [0, 1, -1, -4]),
    ("7", "add.s32 {a}, {a}, -{t}", "ge.s32", [0, 1, 2]),
    ("16", "shr.u32 {a}, {a}, 1", "ne.s32", [0]),
    ("1", "shl.b32 {a}, {a}, 1", "lt.u32", [8, 10, 16, 32]),
    ("1", "mul.lo.s32 {a}, {a}, 2", "le.s32", [8, 32]),
    ("0", "add.s32 {a}, {a}, 1", "ne.s32", [3, 4, 8]),
    ("-4", "add.s32 {a}, {a}, 1", "lt.s32", [0, 3]),
    ("0", "add.u32 {a}, {a}, 2", "ls.u32", [7, 8]),
    ("0", "sub.s32 {a}, {a}, 1", "gt.s32", [-4]),
    ("31", "add.s32 {a}, {a}, -8", "hi.u32", [0, 7]),
    ("", "and.b32 {a}, {a}, 7; add.s32 {a}, {a}, 1", "lt.u32", [8]),
    ("%tid.x", "shr.s32 {a}, {a}, 1", "gt.s32", [0, 1]),
    ("{c}", "add.s32 {a}, {a}, 1", "lt.s32", [10]),
]
HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)
{
.reg .pred %q<4>; .reg .b32 %v<8>; .reg .b32 %m; .reg .b64 %to<40>;
mov.u32 %m, 1; mov.u32 %v0, %tid.x; ld.param.u64 %to0, [out]; ld.param.u64 %to1, [in];
ld.global.u32 %v1, [%to1]; mul.wide.u32 %to2, %v0, 4; add.u64 %to2, %to1, %to2; ld.global.u32 %v2, [%to2+256];
ld.param.u32 %v3, [n]; mov.u32 %v4, 0; and.b32 %v5, %v2, 31;
setp.lt.u32 %q0, %v0, 32; setp.eq.u32 %q1, %v1, 4; setp.gt.s32 %q2, %v2, 8;
mul.wide.u32 %to2, %v0, 8; add.u64 %to0, %to0, %to2;
"""


@dataclass
class Program:
    """Statements as they are drawn; ``probes``: how many there are."""

    draw: random.Random
    lines: list[str] = field(default_factory=list)
    probes: int = 0
    labels: int = 0

    def word(self) -> str:
        return f"%v{self.draw.randrange(WORDS)}"

    def formed(self, form: str, **given: str) -> str:
        draw, found = self.draw, form
        choices = {
            "n": lambda: draw.choice(NUMBERS), "s": lambda: draw.choice([0, 1, 2, 4, 8, 16, 31, 32]),
            "d": lambda: draw.choice([1, 2, 3, 4, 8, 32]), "q": lambda: f"%q{draw.randrange(3)}",
            "t": lambda: draw.choice([1, 1, 2, 3, 4, 8]), "a": self.word, "b": self.word, "c": self.word,
        }  # fmt: skip
        for name, choose in choices.items():
            while f"{{{name}}}" in found:
                found = found.replace(f"{{{name}}}", given.get(name) or str(choose()), 1)
        return found

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def guard(self) -> str:
        return f"@{self.draw.choice(['', '!'])}%q{self.draw.randrange(3)} "

    def probe(self) -> None:
        if self.probes > MOST:
            return
        guard = self.guard() if self.draw.random() < 0.2 else ""
        at = f"%to{self.probes + 3}"
        for n in range(WORDS):
            self.lines.append(f"{guard}st.global.v2.u32 [{at}+{8 * BLOCK * n}], {{%v{n}, %m}};")
        self.lines.append(f"add.u64 {at}, {at}, STRIDE;")
        self.probes += 1

    def compared(self, of: str = "", numbers: list[int] = NUMBERS, how: str = "") -> str:
        """A comparison; its predicate. ``of``: what is compared; ``how``: the test and its type."""
        q = f"%q{self.draw.randrange(3)}"
        by = self.word() if self.draw.random() < 0.25 else str(self.draw.choice(numbers))
        joined = self.draw.random() < 0.12
        test, type_ = (how or self.draw.choice(TESTS)).split(".")
        more = f"{test}.{self.draw.choice(['and', 'or'])}.{type_}" if joined else f"{test}.{type_}"
        last = f", %q{self.draw.randrange(3)}" if joined else ""
        self.lines.append(f"setp.{more} {q}, {of or self.word()}, {by}{last};")
        return q

    def statements(self, depth: int, most: int = 4) -> None:
        for _ in range(self.draw.randint(1, most)):
            kind = self.draw.choice("mmmmmgscbeellp") if depth else self.draw.choice("mmmgsp")
            if kind in "mg":
                self.lines.append(
                    f"{self.guard() if kind == 'g' else ''}{self.formed(self.draw.choice(MOVES))};"
                )
            elif kind == "s" or kind == "c":
                self.compared()
            elif kind in "be":
                self.branch(depth, other=kind == "e")
            elif kind == "l":
                self.loop(depth)
            else:
                self.probe()

    def branch(self, depth: int, *, other: bool) -> None:
        q, past, end = self.compared(), self.label(), self.label()
        self.lines.append(f"@{self.draw.choice(['', '!'])}{q} bra {past};")
        self.statements(depth - 1)
        self.lines += [f"bra {end};", f"{past}:"] if other else [f"{past}:"]
        if other:
            self.statements(depth - 1)
            self.lines.append(f"{end}:")
        if self.draw.random() < 0.5:
            self.probe()

    def counted(self, depth: int) -> None:
        """A loop that ends, unless what is in it moves its counter."""
        draw, begin, counter = self.draw, self.label(), self.word()
        first, turn, how, ends = draw.choice(COUNTED)
        if first:
            self.lines.append(self.formed("mov.u32 {a}, " + first, a=counter) + ";")
        self.lines.append(f"{begin}:")
        self.probe()
        early = draw.random() < 0.5
        if early:
            self.lines.append(self.formed(turn, a=counter) + ";")
        if draw.random() < 0.8:
            self.statements(depth - 1, 3)
        if not early:
            self.lines.append(self.formed(turn, a=counter) + ";")
        q = self.compared(counter, ends, how)
        self.lines.append(f"@{q} bra {begin};")
        if draw.random() < 0.5:
            self.probe()

    def loop(self, depth: int) -> None:
        if self.draw.random() < 0.65:
            self.counted(depth)
        else:
            self.free(depth)

    def free(self, depth: int) -> None:
        """A loop that ends by a comparison in front, behind, or both; perhaps with a second way back."""
        counter, begin, end = self.word(), self.label(), self.label()
        if self.draw.random() < 0.75:
            start = self.draw.choice([0, 0, 1, 2, 7, 8, 16, 31, -1, "%tid.x"])
            self.lines.append(f"mov.u32 {counter}, {start};")
        self.lines.append(f"{begin}:")
        self.probe()
        where = self.draw.choice(["front", "behind", "behind", "twice", "both"])
        if where in ("front", "both"):
            q = self.compared(counter, ENDS)
            self.lines.append(f"@{self.draw.choice(['', '!'])}{q} bra {end};")
        if self.draw.random() < 0.7:
            self.statements(depth - 1, 3)
        turn = self.draw.choice(TURNS)
        if where == "twice":
            self.lines.append(f"{self.formed(turn, a=counter)};")
            side = self.label()
            q = self.compared()
            self.lines.append(f"@{q} bra {side};")
            q = self.compared(counter, ENDS)
            self.lines += [f"@{q} bra {begin};", f"bra {end};", f"{side}:"]
            if self.draw.random() < 0.5:
                self.statements(depth - 1, 2)
        else:
            guard = self.guard() if self.draw.random() < 0.15 else ""
            self.lines.append(f"{guard}{self.formed(turn, a=counter)};")
        if where == "front":
            self.lines.append(f"bra {begin};")
        else:
            q = self.compared(counter, ENDS)
            self.lines.append(f"@{self.draw.choice(['', '!'])}{q} bra {begin};")
        self.lines.append(f"{end}:")
        if self.draw.random() < 0.7:
            self.probe()

    @property
    def stride(self) -> int:
        return 8 * BLOCK * WORDS * self.probes

    @property
    def text(self) -> str:
        starts = [f"add.u64 %to{p + 3}, %to0, {8 * BLOCK * WORDS * p};" for p in range(self.probes)]
        body = [line.replace("STRIDE", str(self.stride)) for line in self.lines]
        return HEAD + "\n".join([*starts, *body, "ret;\n}\n"])


def drawn(draw: random.Random) -> Program:
    program = Program(draw)
    program.statements(2, 3)
    program.loop(2)
    program.statements(1, 2)
    program.probe()
    return program


Words = npt.NDArray[np.int64]


def executed(program: Program, draw: random.Random) -> tuple[Words, npt.NDArray[np.bool_]]:
    """By visit, probe, word and thread: what a word is, and whether it was stored."""
    data = [draw.choice(NUMBERS) & 0xFFFFFFFF if draw.random() < 0.7 else draw.getrandbits(32)
            for _ in range(64 + BLOCK)]  # fmt: skip
    out = buffer(np.zeros(VISITS * program.stride // 8, np.uint64))
    given = buffer(np.array(data, np.uint32))
    params = (out, given, draw.choice([0, 1, 3, 5, 8, 100, -1]) & 0xFFFFFFFF)
    memory = run(
        program.text, "k", Launch((BLOCK, 1, 1), params=params, watches=frozenset()), seed=1, limit=STEPS
    ).memory(out)
    found = memory.reshape(VISITS, program.probes, WORDS, BLOCK)
    return (found & np.uint64(0xFFFFFFFF)).astype(np.int64), found >> np.uint64(32) == 1


def wrong(program: Program, words: Words, stored: npt.NDArray[np.bool_]) -> Iterator[tuple[str, int, str]]:
    """What is said of a word where a probe reads it, and does not hold: with the probe."""
    flow = Flow(parse(program.text).entries[0])
    judge = _Judge(flow)
    probes = [k for k, i in enumerate(flow.body) if i.op == "st"]
    for k in probes:
        place, value = flow.body[k].operands
        assert isinstance(place, Mem) and isinstance(place.base, Reg) and isinstance(value, Vector)
        probe, register = int(place.base.name[3:]) - 3, value.items[0]
        assert isinstance(register, Reg)
        n = int(register.name[2:])
        seen, of = stored[:, probe, n], words[:, probe, n]
        for found in judge.of(k, register, of, seen):
            yield found, probe, register.name


@dataclass
class _Judge:
    flow: Flow

    def __post_init__(self) -> None:
        shape = (BLOCK, 1, 1)
        self.uniformity, self.ranges = Uniformity(self.flow, shape), AddressRanges(self.flow, {}, shape)
        self.by_thread, self.numbers = ThreadValues(self.flow, shape), ThreadNumbers(self.flow)
        self.some = {t: self.ranges.of_thread(t) for t in (0, 5, 33)}

    def of(self, k: int, x: Reg, words: Words, seen: npt.NDArray[np.bool_]) -> Iterator[str]:
        """The claims of a word that do not hold where instruction ``k`` reads it."""
        here = words[seen]
        for name, found in (("wherever", self.ranges.operand(x, k)), ("here", self.ranges.places(k, Mem(x)))):
            if found is not None and not _within(found, here):
                yield f"interval {name}"
        for t, ranges in self.some.items():
            found = ranges.places(k, Mem(x))
            if found is not None and not _within(found, words[:, t][seen[:, t]]):
                yield "interval of a thread"
            if seen[:, t].any() and ranges.excluded(k):
                yield "no thread comes"
            at = {"%tid.x": t, "%ntid.x": BLOCK, "%laneid": t % 32, "%ctaid.x": 0}
            if seen[:, t].any() and not self.numbers.comes(k, at):
                yield "the thread does not come"
            value = self.numbers.value(self.flow.versions.read(x.name, k), at)
            if value is not None and any(words[:, t][seen[:, t]] != value % (1 << 32)):
                yield "number of a thread"
        if (here & ~(self.uniformity._maybe(x) & 0xFFFFFFFF)).any():
            yield "bits"
        known = self.by_thread.read(x, k)
        if known is not None and (words != known.astype(np.int64))[seen].any():
            yield "values by thread"
        m, r = remainder(self.flow, self.flow.versions.read(x.name, k)) or (1, 0)
        if (here % m != r).any():
            yield "remainder"
        low = LowestPlaces(self.flow, {}).of_address(Mem(x), k)
        if low is not None and (here < min(low, SHARED)).any():
            yield "the least"
        mask = self.uniformity.read_at(k, [x.name]) & THREADS
        for visit, some in zip(words, seen, strict=True):
            alike: dict[int, int] = {}
            if any(
                alike.setdefault(t & mask, int(visit[t])) != visit[t] for t in map(int, np.flatnonzero(some))
            ):
                yield "varies with"
                break


def _within(found: Interval, words: Words) -> bool:
    inside = (found.low <= words) & (words <= found.high) & ((words - found.low) % (found.step or 1) == 0)
    return bool(inside.all())


def judged(seed: int) -> list[tuple[str, int, str]]:
    draw = random.Random(seed)
    program = drawn(draw)
    return [x for _ in range(2) for x in wrong(program, *executed(program, draw))]


#: Some that have shown false claims, of differences and of products.
@pytest.mark.parametrize("seed", [0, 9, 44, 111, 121])
def test_what_is_said_in_loops_holds(seed: int) -> None:
    assert judged(seed) == []


@pytest.mark.slow
def test_what_is_said_in_many_loops_holds() -> None:
    assert {seed: found for seed in range(100, 500) if (found := judged(seed))} == {}
