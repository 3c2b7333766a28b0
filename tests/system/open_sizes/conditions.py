"""Random conditions on two sizes that decide whether a block meets, and whether it reads behind the meeting.

A thread reads what another has stored, so a proof says that the second condition implies the first.
"""

from __future__ import annotations

import random

from tests.system.open_sizes.agreement import OpenKernel
from tests.system.open_sizes.steps import (
    CARRIES,
    HALVES,
    LOOPS,
    MORE_OF_64_BITS,
    OF_64_BITS,
    OFTEN,
    RANGES,
    REGISTERS,
    SELDOM,
    WIDE_RANGES,
    constants,
    values,
)

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .{word} n, .param .{wide} big)
.reqntid 64, 1, 1
{{
  {registers}
  .shared .align 16 .b8 slot[512];
  ld.param.u32 %n, [n];
  ld.param.u64 %b, [big];
  mov.u32 %t, %tid.x;
  shl.b32 %s, %t, 2;
  mov.u32 %o, slot;
  add.u32 %s, %s, %o;
  st.shared.u32 [%s], %t;
  {lines}
  {conditions}
  @%p7 bra MET;
  bar.sync 0;
MET:
  @%p8 bra DONE;
  xor.b32 %s, %s, {other};
  ld.shared.u32 %v, [%s];
DONE:
  ret;
}}
"""
TABLES = (OFTEN, OFTEN, SELDOM, SELDOM, OF_64_BITS, MORE_OF_64_BITS, CARRIES, HALVES, LOOPS)
#: The condition to pass by, and one that is meant to say the same of the same register.
ALIKE = (
    ("setp.eq.u32 {p}, {a}, {number};", "sub.s32 {d}, {a}, {number}; setp.eq.u32 {p}, {d}, 0;"),
    ("setp.eq.u32 {p}, {a}, {number};", "xor.b32 {d}, {a}, {number}; setp.lt.u32 {p}, {d}, 1;"),
    ("setp.lt.s32 {p}, {a}, 0;", "shr.u32 {d}, {a}, 31; setp.ne.u32 {p}, {d}, 0;"),
    ("setp.lt.s32 {p}, {a}, 0;", "clz.b32 {d}, {a}; setp.eq.u32 {p}, {d}, 0;"),
    ("setp.lt.u32 {p}, {a}, 16;", "clz.b32 {d}, {a}; setp.gt.u32 {p}, {d}, 27;"),
    ("setp.lt.u32 {p}, {a}, 16;", "shr.u32 {d}, {a}, 4; setp.eq.u32 {p}, {d}, 0;"),
    ("and.b32 {d}, {a}, 3; setp.eq.u32 {p}, {d}, 0;", "rem.u32 {d}, {a}, 4; setp.lt.u32 {p}, {d}, 1;"),
    ("and.b32 {d}, {a}, 1; setp.eq.u32 {p}, {d}, 1;", "shl.b32 {d}, {a}, 31; setp.lt.s32 {p}, {d}, 0;"),
    ("and.b32 {d}, {a}, 1; setp.eq.u32 {p}, {d}, 1;", "brev.b32 {d}, {a}; setp.lt.s32 {p}, {d}, 0;"),
    ("setp.eq.u32 {p}, {a}, 0;", "popc.b32 {d}, {a}; setp.eq.u32 {p}, {d}, 0;"),
    ("setp.eq.u32 {p}, {a}, 0;", "cnot.b32 {d}, {a}; setp.ne.u32 {p}, {d}, 0;"),
    ("setp.lt.u32 {p}, {a}, {b};", "sub.cc.u32 {d}, {a}, {b}; subc.u32 {d}, 0, 0; setp.ne.u32 {p}, {d}, 0;"),
    ("setp.lt.u32 {p}, {a}, {b};", "max.u32 {d}, {a}, {b}; setp.ne.u32 {p}, {d}, {a};"),
    ("setp.lt.s32 {p}, {a}, {b};", "min.s32 {d}, {a}, {b}; setp.ne.s32 {p}, {d}, {b};"),
    ("setp.gt.u32 {p}, {a}, 65535;", "mov.b32 {{%h1, %h2}}, {a}; setp.ne.u16 {p}, %h2, 0;"),
    ("setp.gt.u32 {p}, {a}, 65535;", "prmt.b32 {d}, {a}, 0, 0x4432; setp.gt.u32 {p}, {d}, 0;"),
    ("setp.gt.u64 {p}, %b, 0xFFFFFFFF;", "mov.b64 {{%v, {d}}}, %b; setp.ne.u32 {p}, {d}, 0;"),
    ("setp.lt.s64 {p}, %b, 0;", "shr.u64 %d1, %b, 63; cvt.u32.u64 {d}, %d1; setp.eq.u32 {p}, {d}, 1;"),
)


def kernel(seed: int) -> tuple[OpenKernel, list[dict[str, int]]]:
    """A kernel of random steps, and the numbers that it is tried with."""
    draw = random.Random(seed)
    registers, lines = ["%n"], []
    for n in range(1, draw.randint(1, 4)):
        a, b = draw.choice(registers[-2:]), draw.choice(registers)
        step = draw.choice(draw.choice(TABLES))
        lines.append(step.format(a=a, b=b, d=f"%x{n}", **constants(draw)))
        registers.append(f"%x{n}")
    (low, high), (least, most) = draw.choice(RANGES), draw.choice(WIDE_RANGES)
    text = TEXT.format(
        registers=REGISTERS,
        lines="\n  ".join(lines),
        conditions="\n  ".join(_conditions(draw, registers)),
        word="s32" if low < 0 else "u32",
        wide="s64" if least < 0 else "u64",
        other=draw.choice((4, 128)),
    )
    assume = [f"n >= {low}", f"n <= {high}", f"big >= {least}", f"big <= {most}"]
    return OpenKernel(text, ("n", "big"), assume), values(draw, (low, high), (least, most))


def _conditions(draw: random.Random, registers: list[str]) -> list[str]:
    """Instructions that write the condition to pass by the barrier, and to pass by the load."""
    a, b, names = registers[-1], draw.choice(registers), constants(draw)
    match draw.choice(("alike", "alike", "same", "any")):
        case "alike":
            both = list(draw.choice(ALIKE))
            draw.shuffle(both)
            parts = [both[0], both[1]]
        case "same":
            test, number = names["test"], names["number"]
            parts = [f"setp.{test} {{p}}, {{a}}, {number};"] * 2
            if draw.random() < 0.3:
                parts[1] = f"setp.{draw.choice(('lt.s32', 'ge.u32', 'ne.u32'))} {{p}}, {{b}}, {number};"
        case _:
            parts = [draw.choice(draw.choice(ALIKE)) for _ in range(2)]
    return [s.format(a=a, b=b, p=f"%p{7 + n}", d=f"%x{30 + n}", **names) for n, s in enumerate(parts)]
