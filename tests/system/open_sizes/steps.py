"""Single steps of random arithmetic on thread indices and two sizes, as PTX; and numbers for the sizes.

A step writes register ``d`` from registers ``a`` and ``b``; the other names stand for constants.
"""

from __future__ import annotations

import random

REGISTERS = """.reg .pred %p<9>; .reg .b32 %x<40>, %n, %t, %s, %a, %o, %v;
  .reg .b64 %d<9>, %b, %g; .reg .b16 %h<9>;"""
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
#: What moves bits, compares, or divides.
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
#: Carries, predicates of predicates, shifts by registers.
CARRIES = (
    "max.u32 {d}, {a}, {b};",
    "min.u32 {d}, {a}, {b};",
    "shl.b32 {d}, {few}, {b};",
    "shr.u32 {d}, {a}, {b};",
    "shf.r.wrap.b32 {d}, {a}, {b}, {b};",
    "shf.l.clamp.b32 {d}, {a}, 0, {bits};",
    "bfind.s32 {d}, {a};",
    "bfind.shiftamt.u32 {d}, {a};",
    "bmsk.clamp.b32 {d}, {few}, {b};",
    "cnot.b32 {d}, {a};",
    "sad.s32 {d}, {a}, {b}, {few};",
    "mad24.lo.s32 {d}, {a}, {power}, {b};",
    "mul24.hi.u32 {d}, {a}, {power};",
    "dp2a.lo.u32.u32 {d}, {a}, 0x0101, {b};",
    "dp4a.s32.u32 {d}, {a}, 0x00000401, {b};",
    "szext.clamp.s32 {d}, {a}, {bits};",
    "prmt.b32.f4e {d}, {a}, {b}, {few};",
    "prmt.b32.rc8 {d}, {a}, {b}, {few};",
    "cvt.sat.u8.s32 {d}, {a};",
    "sub.cc.u32 %v, {a}, {b}; subc.u32 {d}, 0, 0;",
    "sub.cc.u32 %v, {a}, {number}; subc.u32 {d}, {b}, 0;",
    "add.cc.u32 %v, {a}, {b}; addc.u32 {d}, 0, 0;",
    "add.cc.u32 %v, {a}, -1; addc.u32 {d}, {b}, {few};",
    "mad.lo.cc.u32 %v, {a}, {power}, {b}; madc.hi.u32 {d}, {a}, {power}, 0;",
    "cvt.u64.u32 %d2, {b}; mad.wide.u32 %d1, {a}, {power}, %d2; cvt.u32.u64 {d}, %d1;",
    "mul.wide.s32 %d2, {b}, -1; mad.wide.s32 %d1, {a}, {power}, %d2; "
    "shr.s64 %d1, %d1, {few}; cvt.u32.u64 {d}, %d1;",
    "setp.ne.u32 %p3, {b}, {few}; setp.lt.and.s32 %p2|%p4, {a}, {number}, %p3; selp.b32 {d}, {a}, {b}, %p4;",
    "setp.gt.u32 %p3, {b}, {few}; setp.ge.xor.u32 %p2, {a}, {number}, %p3; selp.b32 {d}, {few}, {b}, %p2;",
    "setp.{test} %p2, {a}, {b}; @%p2 mov.b32 {d}, {few}; @!%p2 mov.b32 {d}, {a};",
    "set.gt.u32.u32 {d}, {a}, {b};",
)
#: What changes a register of 16 bits.
_OF_A_HALF = (
    "add.s16 %h1, %h1, {small};",
    "sub.s16 %h1, {small}, %h1;",
    "mul.lo.s16 %h1, %h1, {small};",
    "mad.lo.u16 %h1, %h1, {small}, {few};",
    "mul.hi.u16 %h1, %h1, {small};",
    "shl.b16 %h1, %h1, {few};",
    "shr.s16 %h1, %h1, {few};",
    "shr.u16 %h1, %h1, {few};",
    "min.s16 %h1, %h1, {small};",
    "max.u16 %h1, %h1, {small};",
    "neg.s16 %h1, %h1;",
    "abs.s16 %h1, %h1;",
    "not.b16 %h1, %h1;",
    "and.b16 %h1, %h1, {small};",
    "xor.b16 %h1, %h1, {small};",
    "rem.u16 %h1, %h1, {small};",
    "div.s16 %h1, %h1, {small};",
    "setp.lt.s16 %p2, %h1, {small}; selp.b16 %h1, %h1, {few}, %p2;",
    "cvt.u16.u32 %h2, {b}; setp.gt.u16 %p2, %h1, %h2; selp.b16 %h1, %h1, %h2, %p2;",
    "cvt.u16.u32 %h2, {b}; slct.u16.s32 %h1, %h1, %h2, {a};",
    "mov.b32 {{%h2, %h3}}, {b}; add.s16 %h1, %h1, %h3;",
)
#: 16 bits, and halves of words.
HALVES = (
    *(f"cvt.u16.u32 %h1, {{a}}; {step} cvt.u32.u16 {{d}}, %h1;" for step in _OF_A_HALF),
    *(f"cvt.u16.u32 %h1, {{a}}; {step} cvt.s32.s16 {{d}}, %h1;" for step in _OF_A_HALF),
    "cvt.u16.u32 %h1, {a}; mul.wide.s16 {d}, %h1, -4;",
    "cvt.u16.u32 %h1, {a}; mad.wide.u16 {d}, %h1, 4, {b};",
    "mov.b32 {{%h1, %h2}}, {a}; setp.ge.s16 %p2, %h1, %h2; selp.b32 {d}, {a}, {b}, %p2;",
    "mov.b32 {{%h1, %h2}}, {a}; setp.eq.s16 %p2, %h2, {few}; selp.b32 {d}, {a}, {b}, %p2;",
    "mov.b64 {{%h1, %h2, %h3, %h4}}, %b; mov.b32 {d}, {{%h3, %h1}};",
    "cvt.u16.u32 %h1, {a}; cvt.s64.s16 %d1, %h1; shr.u64 %d1, %d1, {wide}; cvt.u32.u64 {d}, %d1;",
)
#: More of 64 bits: both halves of a size, carries into the upper one.
MORE_OF_64_BITS = (
    "mov.b64 {{%v, %o}}, %b; add.cc.u32 %v, %v, {a}; addc.u32 {d}, %o, 0;",
    "mov.b64 {{%v, %o}}, %b; sub.cc.u32 %v, %v, {a}; subc.u32 {d}, %o, 0;",
    "mov.b64 {{%v, %o}}, %b; shf.r.clamp.b32 {d}, %v, %o, {bits};",
    "mov.b64 {{%v, %o}}, %b; shf.l.wrap.b32 {d}, %v, %o, {bits};",
    "min.s64 %d1, %b, {number}; cvt.u32.u64 {d}, %d1;",
    "max.u64 %d1, %b, {number}; sub.s64 %d1, %d1, {number}; cvt.u32.u64 {d}, %d1;",
    "mul.lo.u64 %d1, %b, {power}; shr.u64 %d1, %d1, {wide}; cvt.u32.u64 {d}, %d1;",
    "mul.hi.s64 %d1, %b, {factor64}; cvt.u32.u64 {d}, %d1;",
    "cvt.u64.u32 %d2, {a}; mad.lo.s64 %d1, %b, {few}, %d2; cvt.u32.u64 {d}, %d1;",
    "rem.s64 %d1, %b, {number}; cvt.u32.u64 {d}, %d1;",
    "bfe.s64 %d1, %b, {few}, {bits}; cvt.u32.u64 {d}, %d1;",
    "cvt.u64.u32 %d2, {a}; setp.lt.s64 %p2, %d2, %b; selp.b32 {d}, {a}, {b}, %p2;",
    "cvt.s64.s32 %d2, {a}; setp.ge.u64 %p2, %d2, %b; selp.b32 {d}, {a}, {b}, %p2;",
    "slct.u64.s32 %d1, %b, {number}, {a}; cvt.u32.u64 {d}, %d1;",
)
#: Loops that halve, double, or subtract.
LOOPS = (
    "mov.b32 {d}, 0; and.b32 %v, {a}, {number}; {top}: setp.eq.u32 %p3, %v, 0; @%p3 bra {end}; "
    "shr.u32 %v, %v, 1; add.u32 {d}, {d}, 1; bra {top}; {end}:",
    "min.u32 %v, {a}, 4096; mov.b32 {d}, 1; {top}: setp.ge.u32 %p3, {d}, %v; @%p3 bra {end}; "
    "shl.b32 {d}, {d}, 1; bra {top}; {end}:",
    "min.u32 {d}, {a}, {small}; {top}: setp.lt.s32 %p3, {d}, 8; @%p3 bra {end}; sub.s32 {d}, {d}, 8; "
    "bra {top}; {end}:",
    "mov.b32 {d}, {few}; min.u32 %v, {a}, {small}; {top}: setp.eq.s32 %p3, %v, 0; @%p3 bra {end}; "
    "add.s32 {d}, {d}, {power}; sub.s32 %v, %v, 1; bra {top}; {end}:",
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
    "small": (1, 2, 3, 4, 7, 8, 15, 16, 100, 255, 256),
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


def constants(draw: random.Random) -> dict[str, object]:
    """A number for each constant, and fresh labels."""
    label = draw.randrange(1 << 30)
    names = {name: draw.choice(values) for name, values in CONSTANTS.items()}
    return {**names, "top": f"TOP{label}", "end": f"END{label}"}


def values(
    draw: random.Random, words: tuple[int, int], wides: tuple[int, int], rest: tuple[int, ...] = ()
) -> list[dict[str, int]]:
    """Numbers within the ranges of the two sizes: their ends, powers of two and what lies beside them."""
    (low, high), (least, most) = words, wides
    some = sorted({low, high, (low + high) // 2, draw.randint(low, high), *EDGES, *rest})
    wide = [b for b in sorted({least, most, *WIDE_EDGES}) if least <= b <= most]
    return [{"n": n, "big": draw.choice(wide)} for n in some if low <= n <= high]
