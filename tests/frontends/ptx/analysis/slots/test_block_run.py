"""What a block's run says of registers, on drawn programs: beside an execution by the second reader.

A drawn program loads small numbers from global memory into a thread's 16 bytes of shared memory and into
registers. It then computes, branches, turns loops and accesses bytes, words and pairs by known and by loaded
places. Lanes and the block exchange values in between. Each register is written to global memory at the end.
A register that the run gives as one unknown word names that word. What it gives as a number, or as a
form of named words, has to be what was executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

from syncverify.frontends.ptx.analysis.slots.block_run import BlockRun, NotFollowedError
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.values.linear_forms import Bits, Choice, Form
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel
from tests.sweeps import part_of

THREADS = 40
REGISTERS = [f"%r{k}" for k in range(20, 32)]
PREDICATES = ["%p1", "%p2", "%p3"]
#: Words of the input, in front of the results.
INPUT = 2048
#: Loaded numbers are below these; the last one draws the ends of ranges.
RANGES = [2, 4, 300]
EDGES = [0, 1, 255, 0x80, 0xFFFF, 0x8000, 0xFFFFFFFF, 0x80000000]
HEAD = """.shared .align 16 .b8 s[2048];
mov.u32 %r4, s; mad.lo.u32 %r10, %r1, 16, %r4; add.u32 %r11, %r1, 1; rem.u32 %r11, %r11, 40;
mad.lo.u32 %r11, %r11, 16, %r4; shr.u32 %r14, %r1, 5; setp.eq.u32 %p8, %r14, 0;
selp.b32 %r12, -1, 255, %p8; xor.b32 %r13, %r1, 1; mad.lo.u32 %r13, %r13, 16, %r4;
mul.wide.u32 %rd2, %r1, 16; add.u64 %rd2, %rd1, %rd2;"""


@dataclass
class Writer:
    """Draws the statements of a program."""

    draw: Random
    labels: int = 0
    kept: list[str] = field(default_factory=list)

    def simple(self, guard: str) -> str:
        d = self.draw
        r, a, b, p = (d.choice(x) for x in (REGISTERS, REGISTERS, REGISTERS, PREDICATES))
        size = d.choice([1, 2, 4, 4, 8])
        at = f"[%r10+{d.randrange(16 // size) * size}]"
        match d.choice([0, 0, 0, 1, 1, 2, 3, 4, 5, 5, 6, *[7] * (d.random() < 0.15)]):
            case 0 if d.random() < 0.5:
                pair = f"{guard}st.shared.v2.u32 {at}, {{{a}, {b}}};"
                return pair if size == 8 else f"{guard}st.shared.u{8 * size} {at}, {a};"
            case 0:
                if size == 8:
                    return f"{guard}ld.shared.v2.u32 {{%r20, %r21}}, {at};"
                sign = d.choice("us") if size < 4 else "u"
                return f"{guard}ld.shared.{sign}{8 * size} {r}, {at};"
            case 1:
                return f"{guard}add.u32 {r}, {a}, {d.choice([b, '1', '-1'])};"
            case 2:
                return f"{guard}selp.u32 {r}, {d.choice([a, '1', '4'])}, {d.choice([b, '0'])}, {p};"
            case 3:
                test, sign = d.choice(["lt", "eq", "ge"]), d.choice("us")
                return f"{guard}setp.{test}.{sign}32 {p}, {a}, {d.choice([b, '2', '1'])};"
            case 4:
                return f"{guard}mov.u32 {r}, {d.choice([a, '3', '%tid.x'])};"
            case 5:
                return f"{guard}and.b32 {r}, {a}, {d.choice([b, '1', '3'])};"
            case 6:
                return f"{guard}shl.b32 {r}, {a}, {d.choice([0, 1, 4])};"
        access = d.choice([
            f"st.shared.u{8 * min(size, 4)} [%r41], {b};", f"ld.shared.u{8 * min(size, 4)} {r}, [%r41];",
            f"red.shared.add.u32 [%r41], {b};", f"atom.shared.exch.b32 {r}, [%r41], {b};",
        ])  # fmt: skip
        return f"and.b32 %r40, {a}, {d.choice([4, 8, 12])}; add.u32 %r41, %r10, %r40; {guard}{access}"

    def meeting(self) -> str:
        """Where the threads of a block, or of a warp, hand values over."""
        d = self.draw
        r, a, p = d.choice(REGISTERS), d.choice(REGISTERS), d.choice(PREDICATES)
        match d.randrange(5):
            case 0:
                return f"bar.sync 0; ld.shared.u32 {r}, [%r11+{d.choice([0, 4, 8, 12])}]; bar.sync 0;"
            case 1:
                how, by = d.choice(["up", "down", "bfly", "idx"]), d.choice([1, 2, 5, 7])
                clamp = d.choice([0, 31, 0x1800, 0x181F, 0x1C1F, 7])
                return f"shfl.sync.{how}.b32 {r}|{p}, {a}, {by}, {clamp}, %r12;"
            case 2:
                return f"vote.sync.ballot.b32 {r}, {p}, %r12; popc.b32 {d.choice(REGISTERS)}, {r};"
            case 3:
                how, of = d.choice(["all", "any"]), d.choice(["", "!"]) + d.choice(PREDICATES)
                return f"vote.sync.{how}.pred {p}, {of}, %r12;"
        return f"bar.warp.sync %r12; ld.shared.u32 {r}, [%r13]; bar.warp.sync %r12;"

    def nested(self, depth: int) -> list[str]:
        """A branch around statements, one with two sides, or a loop."""
        d = self.draw
        self.labels += 1
        n, p = self.labels, d.choice(PREDICATES)
        match d.randrange(3):
            case 0:
                return [f"@{d.choice(['', '!'])}{p} bra L{n};", *self.block(depth), f"L{n}:"]
            case 1:
                sides = self.block(depth), self.block(depth)
                return [f"@{p} bra L{n};", *sides[0], f"bra M{n}; L{n}:", *sides[1], f"M{n}:"]
        turns = d.choice(["3", d.choice(REGISTERS)])
        return [
            f"mov.u32 %r{50 + n}, 0; L{n}: add.u32 %r{50 + n}, %r{50 + n}, 1;",
            *self.block(depth + 1),
            f"and.b32 %r42, {turns}, 3; setp.lt.u32 %p9, %r{50 + n}, %r42; @%p9 bra L{n};",
        ]

    def block(self, depth: int, outermost: bool = False) -> list[str]:
        out: list[str] = []
        for _ in range(self.draw.randrange(2, 6)):
            at = self.draw.random()
            if at < 0.5:
                p = self.draw.choice(PREDICATES)
                out.append(self.simple(self.draw.choice(["", "", f"@{p} ", f"@!{p} "])))
            elif at < 0.75 and depth < 3 and self.labels < 9:
                out += self.nested(depth + 1)
            elif outermost:
                out.append(self.meeting())
        return out


#: What each thread writes to global memory at the end.
LOADED = [f"%r{k}" for k in range(90, 94)]
AT_END = [*REGISTERS, *LOADED, "%r94", "%r95", "%r96", "%r97", "%r73", "%r77", "%r81", "%r85"]
HELD = [*AT_END, *PREDICATES]


def drawn(draw: Random) -> str:
    writer = Writer(draw)
    body = [HEAD]
    for n, r in enumerate(LOADED):
        body.append(f"ld.global.u32 {r}, [%rd2+{4 * n}]; st.shared.u32 [%r10+{4 * n}], {r};")
    for n, r in enumerate(REGISTERS):
        body.append(f"mov.u32 {r}, {LOADED[n % 4] if n % 3 else draw.choice([0, 1, 4])};")
    for p in PREDICATES:
        body.append(f"setp.gt.u32 {p}, {draw.choice(REGISTERS)}, {draw.choice([0, 1, 2])};")
    for _ in range(4):
        body += writer.block(0, outermost=True)
    body += [f"ld.shared.u32 %r{94 + n}, [%r10+{4 * n}];" for n in range(4)]
    body += [f"ld.shared.u8 %r{73 + 4 * n}, [%r10+{4 * n + 3}];" for n in range(4)]
    body.append(f"mad.wide.u32 %rd3, %r1, {8 * len(HELD)}, %rd1;")
    for n, r in enumerate(HELD):
        word = "%r45" if r in PREDICATES else r
        made = f"selp.u32 %r45, 1, 0, {r}; " if r in PREDICATES else ""
        body.append(f"{made}st.global.u32 [%rd3+{4 * INPUT + 8 * n}], {word};")
    return kernel("\n".join(body))


@dataclass
class Words:
    """What the unknown words of a run are in one execution, as far as registers name them."""

    ranges: Sequence[tuple[int, int]]
    known: dict[int, int] = field(default_factory=dict)

    def value(self, x: object) -> int | tuple[int, list[tuple[int, int]]] | None:
        """A number, or a sum with words that are not known; None: another form of such."""
        match x:
            case int():
                return x
            case Form():
                unknown = [(a, k) for a, k in x.terms.items() if a not in self.known]
                total = x.constant + sum(k * self.known[a] for a, k in x.terms.items() if a in self.known)
                return (total, unknown) if unknown else total
            case Choice():
                decides = self.value(x.predicate)
                return self.value(x.yes if decides else x.no) if isinstance(decides, int) else None
            case Bits():
                bits = [b for b in map(self.value, x.bits) if isinstance(b, int)]
                return sum(b << n for n, b in enumerate(bits)) if len(bits) == len(x.bits) else None
        return None

    def name(self, x: object, held: int, bits: int) -> bool:
        """Whether a register names a word that was unknown."""
        found = self.value(x)
        if not isinstance(found, tuple) or len(found[1]) != 1:
            return False
        ((word, factor),) = found[1]
        low, high = self.ranges[word]
        if abs(factor) != 1 or not (high < 1 << bits or (high == (1 << 32) - 1 and bits == 32)):
            return False
        self.known[word] = (held - found[0]) * factor % (1 << bits)
        assert low <= self.known[word] <= high
        return True


def claims_that_hold(seed: int) -> int:
    """How many registers of a drawn program the run gives the value that they have; -1: it is not followed.
    Fails where one is given another value."""
    draw = Random(seed)
    text = drawn(draw)
    block = BlockRun(Flow(parse(text).entries[0]), (THREADS, 1, 1), {"s": 1024})
    try:
        block.run()
    except NotFollowedError:
        return -1
    exact = 0
    for most in RANGES:
        data = [
            draw.choice(EDGES) if most == RANGES[-1] else draw.randrange(most) for _ in range(4 * THREADS)
        ]
        words = np.array(data + [0] * (INPUT - 4 * THREADS // 2 + 2 * len(HELD) * THREADS), np.uint32)
        given = buffer(words)
        done = run(text, "k", Launch((THREADS, 1, 1), params=(given,)), seed=seed)
        assert done.harm is None and not done.limit
        exact += compared(block, done.memory(given))
    return exact


def compared(block: BlockRun, memory: Any) -> int:
    words = Words(block.words.ranges)
    held = {
        (t, r): int(memory[INPUT + 2 * len(HELD) * t + 2 * n])
        for t in range(THREADS)
        for n, r in enumerate(HELD)
    }
    names, grows = set[tuple[int, str]](), True
    while grows:
        some = [at for at in held if at not in names]
        new = {at for at in some if words.name(block.registers[at[0]].get(at[1]), held[at], _bits(at[1]))}
        names, grows = names | new, bool(new)
    exact = 0
    for at, number in held.items():
        found = words.value(block.registers[at[0]].get(at[1]))
        if isinstance(found, int):
            assert found % (1 << _bits(at[1])) == number, at
            exact += at not in names
    return exact


def _bits(register: str) -> int:
    return 1 if register in PREDICATES else 32


SEEDS = range(400)


@pytest.mark.parametrize("seed", part_of(SEEDS, 66))
def test_registers_hold_what_the_run_says(seed: int) -> None:
    claims_that_hold(seed)


@pytest.mark.slow
def test_registers_of_many_programs_hold_what_the_run_says() -> None:
    found = [claims_that_hold(seed) for seed in SEEDS]
    assert Counter(n < 0 for n in found)[False] > 250
    assert sum(found) > 100_000
