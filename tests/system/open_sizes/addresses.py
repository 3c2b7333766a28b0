"""Random arithmetic on thread indices and two sizes, of 32 and of 64 bits, as the place of a store.

Threads that store to one place race, so a proof says that all places differ.
"""

from __future__ import annotations

import random

from tests.system.open_sizes.agreement import OpenKernel

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .{word} n, .param .{wide} big)
.reqntid {threads}, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %x<40>, %n, %t, %s, %a, %o, %v; .reg .b64 %d<9>, %b, %g; .reg .b16 %h<9>;
  .shared .align 16 .b8 slot[8192];
  ld.param.u32 %n, [n];
  ld.param.u64 %b, [big];
  mov.u32 %t, %tid.x;
  mov.u32 %s, slot;
  {lines}
  ret;
}}
"""
#: ``a``, ``b``: registers; ``d``: the register that is written; all else: constants.
OFTEN = (
    "shl.b32 {d}, {a}, {few};",
    "mul.lo.s32 {d}, {a}, {power};",
    "mad.lo.s32 {d}, {a}, {power}, {b};",
    "add.s32 {d}, {a}, {b};",
    "sub.s32 {d}, {a}, {b};",
    "xor.b32 {d}, {a}, {b};",
    "and.b32 {d}, {a}, {mask};",
    "add.s32 {d}, {a}, {number};",
)
SELDOM = (
    "xor.b32 {d}, {a}, {number};",
    "or.b32 {d}, {a}, {b};",
    "sub.s32 {d}, {number}, {a};",
    "shr.u32 {d}, {a}, {few};",
    "shr.s32 {d}, {a}, {few};",
    "rem.u32 {d}, {a}, {number};",
    "rem.s32 {d}, {a}, {number};",
    "div.u32 {d}, {a}, {number};",
    "not.b32 {d}, {a};",
    "neg.s32 {d}, {a};",
    "abs.s32 {d}, {a};",
    "shf.l.wrap.b32 {d}, {a}, {a}, {few};",
    "shf.r.wrap.b32 {d}, {a}, {b}, {bits};",
    "shf.l.clamp.b32 {d}, {a}, {b}, {bits};",
    "bfe.u32 {d}, {a}, {few}, {bits};",
    "bfe.s32 {d}, {a}, {few}, {bits};",
    "bfi.b32 {d}, {a}, {b}, {bits}, {most};",
    "prmt.b32 {d}, {a}, {b}, {bytes};",
    "lop3.b32 {d}, {a}, {b}, {number}, {table};",
    "brev.b32 {d}, {a};",
    "clz.b32 {d}, {a};",
    "popc.b32 {d}, {a};",
    "bfind.u32 {d}, {a};",
    "mul.hi.u32 {d}, {a}, {factor};",
    "mul.hi.s32 {d}, {a}, {factor};",
    "mul24.lo.u32 {d}, {a}, {power};",
    "min.u32 {d}, {a}, {number};",
    "max.s32 {d}, {a}, {number};",
    "min.s32 {d}, {a}, {b};",
    "setp.{test} %p2, {a}, {number}; selp.b32 {d}, {a}, {b}, %p2;",
    "set.lt.u32.s32 {d}, {a}, {number};",
    "slct.b32.s32 {d}, {a}, {b}, {a};",
    "sad.u32 {d}, {a}, {b}, {number};",
    "dp4a.u32.u32 {d}, {a}, 0x01010101, {b};",
    "szext.wrap.u32 {d}, {a}, {bits};",
    "add.cc.u32 {d}, {a}, {factor}; addc.u32 {d}, {d}, {b};",
    "cvt.u16.u32 %h1, {a}; cvt.u32.u16 {d}, %h1;",
    "cvt.u16.u32 %h1, {a}; cvt.s32.s16 {d}, %h1;",
    "cvt.u32.u8 {d}, {a};",
    "cvt.s32.s8 {d}, {a};",
    "mov.b32 {{%h1, %h2}}, {a}; mov.b32 {d}, {{%h2, %h1}};",
    "mov.b64 %d1, {{{a}, {b}}}; shr.u64 %d1, %d1, {wide}; cvt.u32.u64 {d}, %d1;",
    "mul.wide.s32 %d1, {a}, -{power}; cvt.u32.u64 {d}, %d1;",
    "cvt.u64.u32 %d1, {a}; shl.b64 %d1, %d1, {wide}; shr.u64 %d1, %d1, {wider}; cvt.u32.u64 {d}, %d1;",
    "cvt.s64.s32 %d1, {a}; shr.u64 %d1, %d1, {few}; cvt.u32.u64 {d}, %d1;",
)
OF_64_BITS = (
    "and.b64 %d1, %b, {mask64}; cvt.u32.u64 {d}, %d1;",
    "or.b64 %d1, %b, {number}; cvt.u32.u64 {d}, %d1;",
    "xor.b64 %d1, %b, {mask64}; cvt.u32.u64 {d}, %d1;",
    "not.b64 %d1, %b; cvt.u32.u64 {d}, %d1;",
    "cvt.s64.s32 %d1, {a}; add.s64 %d1, %d1, %b; and.b64 %d1, %d1, {mask64}; cvt.u32.u64 {d}, %d1;",
    "shr.u64 %d1, %b, {wide}; cvt.u32.u64 {d}, %d1;",
    "shr.s64 %d1, %b, {wide}; cvt.u32.u64 {d}, %d1;",
    "shl.b64 %d1, %b, {wider}; shr.u64 %d1, %d1, {wide}; cvt.u32.u64 {d}, %d1;",
    "mad.wide.u32 %d1, {a}, {power}, %b; cvt.u32.u64 {d}, %d1;",
    "mov.b64 {{{d}, %v}}, %b;",
    "mov.b64 {{%v, {d}}}, %b;",
    "setp.lt.u64 %p2, %b, {number}; selp.b32 {d}, {a}, {b}, %p2;",
    "setp.gt.s64 %p2, %b, -1; selp.b32 {d}, {a}, 4, %p2;",
    "rem.u64 %d1, %b, {number}; cvt.u32.u64 {d}, %d1;",
    "div.s64 %d1, %b, {number}; cvt.u32.u64 {d}, %d1;",
    "bfe.u64 %d1, %b, {few}, {bits}; cvt.u32.u64 {d}, %d1;",
    "bfi.b64 %d1, %b, %b, {bits}, 8; cvt.u32.u64 {d}, %d1;",
    "brev.b64 %d1, %b; cvt.u32.u64 {d}, %d1;",
    "clz.b64 {d}, %b;",
    "popc.b64 {d}, %b;",
    "mul.hi.u64 %d1, %b, {factor64}; cvt.u32.u64 {d}, %d1;",
    "neg.s64 %d1, %b; cvt.u32.u64 {d}, %d1;",
    "abs.s64 %d1, %b; cvt.u32.u64 {d}, %d1;",
    "min.u64 %d1, %b, {number}; cvt.u32.u64 {d}, %d1;",
    "cvt.u16.u64 %h1, %b; cvt.u32.u16 {d}, %h1;",
)
CONSTANTS: dict[str, tuple[object, ...]] = {
    "few": (0, 1, 2, 3, 4, 5),
    "bits": (0, 1, 4, 5, 8, 10, 16, 31, 32),
    "most": (2, 4, 7, 8, 16),
    "wide": (1, 2, 16, 30, 32, 34, 48),
    "wider": (0, 1, 16, 32, 33, 46),
    "power": (1, 2, 4, 4, 8, 16, 128, 256, 65_536),
    "number": (1, 3, 4, 7, 16, 32, 64, 100, 128, 252, 255, 256, 508, 1000, 4096, 0x7FFFFFFC),
    "mask": (7, 252, 255, 508, 1020, -4, -8, -16, 240, 0xFFFC, 12),
    "mask64": ("0xFFFFFFF0", "0xFFFFFFFF", "0xFFFFFFFFFFFFFFF8", "0xFFFFFFFF00000000", 252, 1020, -4),
    "factor": (256, 65_536, "0xAAAAAAAB", "0xCCCCCCCD", "0x40000000", "0xFFFFFFFC"),
    "factor64": ("0x4000000000000000", "0xAAAAAAAAAAAAAAAB", "0x100000000"),
    "bytes": ("0x3210", "0x4410", "0x5410", "0x1032", "0x3340", "0x0123", "0x8210", "0xb210"),
    "table": ("0xf8", "0x96", "0xea", "0xc0", "0x3c", "0xca", "0xe4"),
    "test": ("lt.s32", "lt.u32", "ge.s32", "eq.s32", "ne.u32", "gt.u32"),
}
RANGES = (
    (0, 7),
    (0, 300),
    (1, 100),
    (31, 33),
    (250, 270),
    (40_000, 70_000),
    (65_530, 65_545),
    (0, 1 << 20),
    (0, (1 << 31) - 1),
    (-8, 8),
    (-(1 << 31), (1 << 31) - 1),
)
WIDE_RANGES = (
    (0, 7),
    (0, 300),
    (1 << 31, 1 << 33),
    (0, 1 << 40),
    ((1 << 32) - 2, (1 << 32) + 2),
    (0, (1 << 64) - 1),
    (-8, 8),
)
EDGES = (0, 1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 127, 128, 255, 256, 257, 1024, 4095, 32_768, 65_535, 65_536)
WIDE_EDGES = (*EDGES, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 4, (1 << 33) + 64)


def kernel(seed: int) -> tuple[OpenKernel, list[dict[str, int]]]:
    """A kernel of random steps, and the numbers that it is tried with."""
    draw = random.Random(seed)
    registers, lines = ["%t", "%n"], []
    if draw.random() < 0.7:
        lines.append(f"shl.b32 %a, %t, {draw.choice((2, 2, 3))};")
        registers = ["%a", "%a", "%t", "%n"]
    for n in range(1, draw.randint(2, 5)):
        steps = OFTEN if draw.random() < 0.45 else SELDOM if draw.random() < 0.7 else OF_64_BITS
        constants = {name: draw.choice(values) for name, values in CONSTANTS.items()}
        a, b = draw.choice(registers[-3:]), draw.choice(registers)
        lines.append(draw.choice(steps).format(a=a, b=b, d=f"%x{n}", **constants))
        registers.append(f"%x{n}")
    lines += _store(draw, registers)
    (low, high), (least, most) = draw.choice(RANGES), draw.choice(WIDE_RANGES)
    text = TEXT.format(
        threads=draw.choice((32, 64, 128)),
        lines="\n  ".join(lines),
        word="s32" if low < 0 else "u32",
        wide="s64" if least < 0 else "u64",
    )
    assume = [f"n >= {low}", f"n <= {high}", f"big >= {least}", f"big <= {most}"]
    words = sorted({low, high, (low + high) // 2, draw.randint(low, high), *EDGES})
    wides = sorted({least, most, *WIDE_EDGES})
    values = [
        {"n": n, "big": draw.choice([b for b in wides if least <= b <= most])}
        for n in words
        if low <= n <= high
    ]
    return OpenKernel(text, ("n", "big"), assume), values


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
