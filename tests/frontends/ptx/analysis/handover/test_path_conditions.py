"""Decisions on paths that flags and parameters rule out, beside executions for all their values."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from syncverify.frontends.ptx.analysis.handover.path_conditions import LaunchValues
from syncverify.frontends.ptx.analysis.handover.unset_paths import unset_decisions
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 q, .param .align 8 .b8 s[16])
{{
.reg .pred %p<90>;
.reg .b16 %h<90>;
.reg .b32 %r<90>;
.reg .b64 %rd<9>;
ld.param.u64 %rd0, [p];
mov.b64 %rd1, s;
add.s64 %rd2, %rd1, 4;
ld.global.u32 %r1, [%rd0];
and.b32 %r2, %r1, 1;
and.b32 %r3, %r1, 2;
setp.eq.u32 %p80, %r2, 1;
setp.eq.u32 %p81, %r3, 2;
mov.u32 %r10, 0;
mov.u32 %r11, 1;
{lines}
ret;
}}
"""
Statement = tuple[str, ...]
#: Values of two bits of data and of two parameters.
Input = tuple[int, int, int, int]


def found_in(lines: str, **numbers: int) -> bool:
    flow = Flow(parse(TEXT.format(lines=lines)).entries[0])

    def number(name: str, offset: int, _size: int) -> int | None:
        return numbers.get(f"{name}{offset}")

    values = LaunchValues(flow, (64, 1, 1), number)
    return any(True for _ in unset_decisions(flow, values, number))


def conditions() -> Iterator[str]:
    """Tests of data, of parameters that are loaded each time, and of flags."""
    yield from (
        "data 2 1",
        "data 3 2",
        "param 0 1",
        "param 0 1",
        "param 1 2",
        "flag 10 1",
        "flag 11 1",
        "flag 10 2",
    )


def statements(draw: random.Random, depth: int = 0) -> list[Statement]:
    found: list[Statement] = []
    for _ in range(draw.randint(1, 5)):
        r, f = draw.choice(("20", "21")), draw.choice(("10", "11"))
        kinds = ["write", "flag", "flag", "part", "move", "decide", "decide"] + ["if"] * 4 * (depth < 3)
        match draw.choice(kinds):
            case "if":
                found.append(("if", draw.choice(list(conditions())), draw.choice(("", "!"))))
                found += statements(draw, depth + 1)
                found.append(("end",))
            case "flag":
                found.append(("flag", f, str(draw.randrange(4))))
            case "part":
                found.append(("part", f, draw.choice(("10", "11")), draw.choice(("1", "2", "255"))))
            case "move":
                found.append(("move", f, draw.choice(("10", "11"))))
            case what:
                found.append((what, r))
    return found


def written(program: list[Statement]) -> str:
    lines, open_, n = [], list[str](), 0
    for what, *more in program:
        n += 1
        match what:
            case "if":
                open_.append(f"L{n}")
                kind, of, to = more[0].split()
                p, sense = f"%p{n}", more[1]
                if kind == "param":
                    lines.append(f"ld.param.u32 %r30, [{('q', '%rd2+8')[int(of)]}];")
                    test = (("eq.s32", "ne.u32"), ("lt.s32", "ge.s32"))[int(of)][n % 2]
                    sense = sense if n % 2 == 0 else {"": "!", "!": ""}[sense]
                    lines.append(f"setp.{test} {p}, %r30, {to};")
                elif kind == "data":
                    p = {"2": "%p80", "3": "%p81"}[of]
                else:
                    lines.append(f"setp.eq.u32 {p}, %r{of}, {to};")
                lines.append(f"@{sense}{p} bra L{n};")
            case "end":
                lines.append(f"{open_.pop()}:")
            case "write":
                lines.append(f"mov.u32 %r{more[0]}, 1;")
            case "flag":
                lines.append(f"mov.u32 %r{more[0]}, {more[1]};")
            case "part":
                lines.append(f"and.b32 %r{more[0]}, %r{more[1]}, {more[2]};")
            case "move":
                lines += [f"cvt.u16.u32 %h1, %r{more[1]};", f"cvt.u32.u16 %r{more[0]}, %h1;"]
            case "decide":
                lines += [f"setp.eq.u32 %p{n}, %r{more[0]}, 1;", f"@%p{n} bra M{n};", "bar.sync 0;", f"M{n}:"]
    return "\n".join(lines)


def harms(program: list[Statement], given: Input) -> bool:
    """Whether an execution decides by a register without a value."""
    a, b, q, s = given
    values, has, skipped = {"2": a, "3": b, "10": 0, "11": 1}, set[str](), 0
    for what, *more in program:
        if what in ("if", "end"):
            if skipped or what == "end":
                skipped += (1 if what == "if" else -1) if skipped else 0
                continue
            kind, of, to = more[0].split()
            holds = (q == 1 if of == "0" else s < 2) if kind == "param" else values[of] == int(to)
            skipped = int(holds == (more[1] == ""))
        elif not skipped:
            match what:
                case "write":
                    has.add(more[0])
                case "flag":
                    values[more[0]] = int(more[1])
                case "part":
                    values[more[0]] = values[more[1]] & int(more[2])
                case "move":
                    values[more[0]] = values[more[1]]
                case "decide" if more[0] not in has:
                    return True
    return False


def every() -> Iterator[Input]:
    yield from product((0, 1), (0, 2), (0, 1), (0, 3))


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(500, 5000, 500))]
)
def test_the_paths_that_flags_and_parameters_allow_are_found_and_no_others(first: int) -> None:
    wrong = []
    for seed in range(first, first + 500):
        program = statements(random.Random(seed))
        text = written(program)
        if found_in(text) != any(harms(program, given) for given in every()):
            wrong.append((seed, text))
    assert wrong == []


def test_numbers_of_the_launch_decide() -> None:
    lines = (
        "ld.param.u32 %r5, [q]; setp.gt.s32 %p1, %r5, {}; @%p1 bra J; mov.u32 %r20, 1; "
        "J: setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:"
    )
    assert not found_in(lines.format(5), q0=3) and not found_in(lines.format(0), q0=0xFFFFFFFF)
    assert found_in(lines.format(2), q0=3) and found_in(lines.format(5))


#: What is made of a pair, or of four, and whether that is made of %r20.
PARTS = [
    ("mov.b64 %rd8, {%r2, %r20}; mov.b64 {%r8, %r9}, %rd8;", False),
    ("mov.b64 %rd8, {%r20, %r2}; mov.b64 {%r8, %r9}, %rd8;", True),
    ("mov.b64 %rd8, {%r20, %r2}; mov.b64 {%r9, %r8}, %rd8;", False),
    ("mov.b64 %rd8, {%r2, %r20}; mov.b64 %rd7, %rd8; cvt.u32.u64 %r8, %rd7;", False),
    ("mov.b64 %rd8, {%r20, %r2}; mov.b64 %rd7, %rd8; cvt.u32.u64 %r8, %rd7;", True),
    ("mov.b64 %rd8, {%r2, %r20}; shr.u64 %rd7, %rd8, 32; cvt.u32.u64 %r8, %rd7;", True),
    ("mov.b64 %rd8, {%r2, %r20}; add.u64 %rd7, %rd8, 1; mov.b64 {%r9, %r8}, %rd7;", True),
    ("mov.b64 %rd8, {%r2, %r20}; @%p80 mov.b64 %rd8, {%r20, %r2}; mov.b64 {%r8, %r9}, %rd8;", True),
    ("mov.b64 %rd8, {%r2, %r20}; @%p80 bra N; mov.b64 %rd8, {%r20, %r2}; N: mov.b64 {%r8, %r9}, %rd8;", True),
]
DECISIONS = [
    ("@%p1 mov.u32 %r20, 1; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; activemask.b32 %r8; E:", True),
    ("@%p1 mov.u32 %r20, 1; setp.eq.u32 %p2, %r20, 1; @%p2 bar.sync 0;", True),
    ("@%p1 mov.u32 %r20, 1; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; mov.u32 %r8, 1; E:", False),
    ("setp.eq.u32 %p1, %r2, 0; @%p1 mov.u32 %r20, 1; @%p1 mov.u32 %r10, 1; setp.eq.u32 %p3, %r10, 1; "
     "setp.eq.and.u32 %p2, %r20, 1, %p3; @%p2 bra E; bar.sync 0; E:", True),  # a guard makes no flag
    # a flag is written again in the loop, and so is the test of it
    ("L: setp.eq.u32 %p3, %r10, 0; @%p3 bra M; setp.eq.u32 %p2, %r20, 1; @%p2 bra M; bar.sync 0; M: "
     "mov.u32 %r10, 1; setp.eq.u32 %p4, %r2, 0; @%p4 bra L;", True),
    ("L: setp.eq.u32 %p3, %r10, 0; @%p3 bra M; setp.eq.u32 %p2, %r20, 1; @%p2 bra M; bar.sync 0; M: "
     "mov.u32 %r10, 1; mov.u32 %r20, 1; setp.eq.u32 %p4, %r2, 0; @%p4 bra L;", False),
    # what a test said in the turn before holds no longer
    ("setp.eq.u32 %p3, %r10, 0; L: @%p3 bra M; setp.eq.u32 %p2, %r20, 1; @%p2 bra M; bar.sync 0; M: "
     "ld.global.u32 %r10, [%rd0]; setp.eq.u32 %p3, %r10, 0; @%p3 bra L; bra L;", True),
    # one way of two to the decision contradicts itself
    ("@%p80 mov.u32 %r20, 1; selp.b32 %r21, %r20, %r20, %p80; setp.eq.u32 %p2, %r21, 1; @%p2 bra E; "
     "bar.sync 0; E:", True),
    *((f"@%p80 mov.u32 %r20, 1; add.u32 %r21, %r20, 1; selp.b32 %r22, %r21, 0, %p80; "
       f"selp.b32 %r23, 0, %r21, %p80; add.u32 %r24, {sum_}; setp.eq.u32 %p2, %r24, 1; @%p2 bra E; "
       "bar.sync 0; E:", True) for sum_ in ("%r22, %r23", "%r23, %r22")),
    # what selects a value, and what a list of opcodes does not have
    ("selp.b32 %r21, 1, 2, %p40; setp.eq.u32 %p2, %r21, 1; @%p2 bar.sync 0;", True),
    ("mov.u32 %r21, 2; @%p40 mov.u32 %r21, 1; setp.eq.u32 %p2, %r21, 1; @%p2 bar.sync 0;", True),
    ("mov.u32 %r21, 2; @%p40 bra J; mov.u32 %r21, 1; J: setp.eq.u32 %p2, %r21, 1; @%p2 bar.sync 0;", True),
    ("mov.u32 %r21, 2; @%p80 bra J; mov.u32 %r21, 1; J: setp.eq.u32 %p2, %r21, 1; @%p2 bar.sync 0;", False),
    ("bmsk.clamp.b32 %r21, %r20, 3; setp.eq.u32 %p2, %r21, 1; @%p2 bar.sync 0;", True),
    ("ts: .branchtargets A, E; brx.idx %r20, ts; A: bar.sync 0; E:", True),
    # the branch at which all begins decides nothing behind where its ways have met
    ("@%p40 bra A; A: mov.u32 %r21, 2; @%p80 bra J; mov.u32 %r21, 1; J: setp.eq.u32 %p2, %r21, 1; "
     "@%p2 bar.sync 0;", False),
    # a word that is compared twice, one that is read again between, and one that is in the next turn
    ("setp.eq.u32 %p3, %r1, 7; @%p3 bra M; mov.u32 %r20, 1; M: setp.ne.u32 %p4, %r1, 7; @!%p4 bra E; "
     "setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", False),
    ("setp.eq.u32 %p3, %r1, 7; @%p3 bra M; mov.u32 %r20, 1; M: ld.global.u32 %r1, [%rd0]; "
     "setp.ne.u32 %p4, %r1, 7; @!%p4 bra E; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", True),
    ("L: setp.eq.u32 %p3, %r10, 0; @!%p3 bra D; setp.ne.u32 %p4, %r1, 7; @%p4 bra W; bra N; "
     "W: mov.u32 %r20, 1; N: mov.u32 %r10, 1; ld.global.u32 %r1, [%rd0]; bra L; D: setp.ne.u32 %p5, %r1, 7; "
     "@!%p5 bra E; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", True),
    # one without a value may hold another at each read
    ("setp.eq.u32 %p3, %r21, 7; @%p3 bra M; mov.u32 %r20, 1; M: setp.ne.u32 %p4, %r21, 7; @!%p4 bra E; "
     "setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", True),
    # a choice of numbers that is compared, and its opposite
    ("setp.gt.u32 %p3, %r1, 5; selp.u16 %h1, 1, 0, %p3; @!%p3 bra M; mov.u32 %r20, 1; "
     "M: and.b16 %h2, %h1, 255; "
     "setp.ne.s16 %p4, %h2, 0; @!%p4 bra E; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", False),
    ("setp.gt.u32 %p3, %r1, 5; selp.u16 %h1, 1, 0, %p3; @!%p3 bra M; mov.u32 %r20, 1; "
     "M: and.b16 %h2, %h1, 255; "
     "setp.eq.s16 %p4, %h2, 0; @!%p4 bra E; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", True),
    ("setp.gt.u32 %p3, %r1, 5; selp.u16 %h1, 1, 0, %p3; @!%p3 bra M; mov.u32 %r20, 1; "
     "M: and.b16 %h2, %h1, 254; "
     "setp.eq.s16 %p4, %h2, 0; @!%p4 bra E; setp.eq.u32 %p2, %r20, 1; @%p2 bra E; bar.sync 0; E:", True),
    # a number that comes through two registers into a loop
    ("mov.u32 %r5, %r10; mov.u32 %r6, %r5; L: setp.gt.s32 %p3, %r6, 0; @!%p3 bra M; "
     "setp.eq.u32 %p2, %r20, 1; @%p2 bra M; bar.sync 0; M: mov.u32 %r20, 1; add.s32 %r6, %r6, 1; "
     "setp.eq.u32 %p4, %r2, 0; @%p4 bra L;", False),
    ("@%p80 bra M; mov.u32 %r20, 1; M: dp4a.u32.u32 %r5, %r20, 1, 1; setp.eq.u32 %p2, %r5, 1; @%p2 bra E; "
     "bar.sync 0; E:", True),
    # who takes part
    ("@%p80 bra M; mov.u32 %r20, 3; M: bar.warp.sync %r20;", True),
    ("@%p80 bra M; mov.u32 %r20, 3; bar.warp.sync %r20; M:", False),
    ("@%p80 bra M; mov.u32 %r20, 3; M: vote.sync.all.pred %p5, %p81, %r20;", True),
    ("@%p80 bra M; mov.u32 %r20, 3; M: mbarrier.test_wait.parity.shared::cta.b64 %p5, [%r11], %r20;", True),
    ("@%p80 bra M; mov.u32 %r20, 3; M: bar.sync %r20;", True),
    *((f"@%p1 bra M; mov.u32 %r20, 1; M: {lines} setp.eq.u32 %p2, %r8, 1; @%p2 bra E; bar.sync 0; E:", unset)
      for lines, unset in PARTS),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), DECISIONS)
def test_decisions(lines: str, expected: bool) -> None:
    assert found_in(lines) is expected
