"""Random arithmetic on thread indices and two sizes, of 32 and of 64 bits, as the place of a store.

Threads that store to one place race, so a proof says that all places differ.
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
.reqntid {threads}, 1, 1
{{
  {registers}
  .shared .align 16 .b8 slot[8192];
  ld.param.u32 %n, [n];
  ld.param.u64 %b, [big];
  mov.u32 %t, %tid.x;
  mov.u32 %s, slot;
  {lines}
  ret;
}}
"""
#: Steps that are not of the usual ones, some tables more often.
TABLES = (SELDOM, SELDOM, SELDOM, OF_64_BITS, OF_64_BITS, MORE_OF_64_BITS, CARRIES, HALVES, LOOPS)


def kernel(seed: int) -> tuple[OpenKernel, list[dict[str, int]]]:
    """A kernel of random steps, and the numbers that it is tried with."""
    draw = random.Random(seed)
    registers, lines = ["%t", "%n"], []
    if draw.random() < 0.7:
        lines.append(f"shl.b32 %a, %t, {draw.choice((2, 2, 3))};")
        registers = ["%a", "%a", "%t", "%n"]
    for n in range(1, draw.randint(2, 5)):
        steps = OFTEN if draw.random() < 0.45 else draw.choice(TABLES)
        a, b = draw.choice(registers[-3:]), draw.choice(registers)
        lines.append(draw.choice(steps).format(a=a, b=b, d=f"%x{n}", **constants(draw)))
        registers.append(f"%x{n}")
    lines += _store(draw, registers)
    (low, high), (least, most) = draw.choice(RANGES), draw.choice(WIDE_RANGES)
    text = TEXT.format(
        registers=REGISTERS,
        threads=draw.choice((32, 64, 128)),
        lines="\n  ".join(lines),
        word="s32" if low < 0 else "u32",
        wide="s64" if least < 0 else "u64",
    )
    assume = [f"n >= {low}", f"n <= {high}", f"big >= {least}", f"big <= {most}"]
    return OpenKernel(text, ("n", "big"), assume), values(draw, (low, high), (least, most))


def _store(draw: random.Random, registers: list[str]) -> list[str]:
    """A store to the place in the array that the last register tells, perhaps of some threads only."""
    lines = []
    if draw.random() < 0.8:
        lines.append(f"and.b32 %o, {registers[-1]}, {draw.choice((1020, 2044, 4092, 252, 4088))};")
    else:
        lines.append(f"rem.u32 %o, {registers[-1]}, {draw.choice((1000, 512, 1021))}; and.b32 %o, %o, -4;")
    match draw.choice(("word", "word", "generic", "wide")):
        case "word":
            lines.append("add.u32 %o, %o, %s;")
            place, space = "%o", ".shared"
        case "generic":
            lines.append("cvt.u64.u32 %g, %o; mov.u64 %d1, slot; cvta.shared.u64 %d1, %d1;")
            lines.append("add.s64 %g, %g, %d1;")
            place, space = "%g", ""
        case _:
            lines.append("cvt.s64.s32 %g, %o; mov.u64 %d1, slot; add.s64 %g, %g, %d1;")
            place, space = "%g", ".shared"
    guard = ""
    if draw.random() < 0.5:
        test = draw.choice(("lt.s32", "lt.u32", "ge.u32", "eq.s32", "ne.s32", "le.u32"))
        bound = draw.choice(("%n", "%n", "16", "31", "64", "%t"))
        lines.append(f"setp.{test} %p1, {draw.choice(registers)}, {bound};")
        guard = draw.choice(("@%p1 ", "@!%p1 "))
    lines.append(f"{guard}st{space}.{draw.choice(('u32', 'u32', 'u16', 'u8'))} [{place}], %t;")
    return lines
