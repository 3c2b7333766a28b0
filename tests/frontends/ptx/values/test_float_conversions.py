"""Conversions and tests of floating point, packed numbers and predicates of lop3: bit by bit as the second
reader of PTX executes them, on edge values of each type."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import pytest

from syncverify.frontends.ptx.compile.expressions import NAMES, Expressions
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.values.register_values import INTS
from tests.frontends.ptx.execute_helpers import HEAD
from tests.simulate.ptx.support import apply

_TYPES = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def _floats(type_: str) -> list[int]:
    """Zeros, the smallest and the largest of each class, halves, borders of integers, infinities and NaNs."""
    e, m = _TYPES[type_]
    one, bias = 1 << m, (1 << e - 1) - 1
    found = {
        0,
        1,
        one - 1,
        one,
        one + 1,
        ((1 << e) - 1) * one - 1,
        ((1 << e) - 1) * one,
        ((1 << e) - 1) * one + 7,
    }
    for power in (-25, -24, -15, -14, -2, -1, 0, 1, 2, 7, 8, 10, 15, 16, 31, 32, 63, 64, 127, 128, 200):
        if 0 < power + bias < (1 << e) - 1:
            start = (power + bias) * one
            found |= {
                start - 1,
                start,
                start + 1,
                start + one // 2,
                start + one // 2 + 1,
                start + 3 * one // 4,
            }
    draw = random.Random(type_)
    found |= {draw.randrange(1 << e + m) for _ in range(12)}
    return [x | sign << e + m for x in sorted(found) for sign in (0, 1)]


def _integers(type_: str) -> list[int]:
    n = int(type_[1:])
    near = [
        c + d
        for c in (0, 1 << n - 1, *(1 << p for p in (8, 11, 16, 24, 31, 53) if p < n))
        for d in (-2, -1, 0, 1, 3)
    ]
    draw = random.Random(type_)
    return sorted({x % (1 << n) for x in [*near, *(draw.getrandbits(n) for _ in range(12))]})


def _values(type_: str) -> list[int]:
    if type_ == "pred":
        return [0, 1]
    return _floats(type_) if type_ in _TYPES else _integers(type_)


def _bits(type_: str) -> int:
    return 1 if type_ == "pred" else max(int(re.findall(r"\d+", type_)[-1]), 16)


def _first(text: str, widths: list[int], result: int, rows: list[list[int]]) -> list[Any]:
    """What the checker computes of each row."""
    names = dict(zip("ABCE", (f"%v{n}" for n in range(len(widths))), strict=False)) | {"D": "%d"}
    declared = {f"%v{n}": w for n, w in enumerate(widths)} | {"%d": result}
    types = {n: "pred" if w == 1 else f"b{w}" for n, w in declared.items()}
    body = re.sub(r"\b([ABCDE])\b", lambda m: names[m[1]], text)
    registers = "".join(f".reg .{t} {n};\n" for n, t in types.items())
    module = parse(f"{HEAD}.visible .entry k()\n{{\n{registers}{body}\nret;\n}}\n", "k.ptx")
    i: Instr = module.entries[0].body[0]
    slots: dict[str, int] = {}
    e = Expressions(lambda n: slots.setdefault(n, len(slots)), str, str, types, lambda n: True)
    lines = e.lines(i)
    found = []
    for row in rows:
        r: list[Any] = [0] * 16
        for n, x in enumerate(row):
            r[e.slot(f"%v{n}")] = x
        for name, value in lines:
            r[e.slot(name)] = eval(value, {**NAMES, "r": r})
        x = r[e.slot("%d")]
        found.append(int(x) if x.__class__ in (*INTS, bool) else None)
    return found


def _forms() -> list[tuple[str, tuple[str, ...], str]]:
    """Instructions, the types of their operands, and the type of the result."""
    found: list[tuple[str, tuple[str, ...], str]] = []
    for rounding, of, to in product(
        ("rni", "rzi", "rmi", "rpi"), ("f16", "f32", "f64"), ("s8", "u16", "s32", "u32", "s64", "u64")
    ):
        found.append((f"cvt.{rounding}.{to}.{of} D, A;", (of,), to))
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        found += [(f"cvt.{rounding}.{t}.{t} D, A;", (t,), t) for t in ("f16", "f32", "f64")]
        found += [(f"cvt.{rounding}.ftz.{t}.f32 D, A;", ("f32",), t) for t in ("f32", "s32")]
    for rounding, of, to in product(
        ("rn", "rz", "rm", "rp"), ("s8", "u16", "s32", "u32", "s64", "u64"), ("f16", "f32", "f64")
    ):
        found.append((f"cvt.{rounding}.{to}.{of} D, A;", (of,), to))
    for rounding in ("rn", "rz", "rm", "rp"):
        found += [
            (f"cvt.{rounding}.{to}.{of} D, A;", (of,), to) for to, of in (("f16", "f64"), ("f32", "f64"))
        ]
    found += [(f"cvt.{r}.f16.f32 D, A;", ("f32",), "f16") for r in ("rn", "rz")]
    found += [(f"cvt.{r}.bf16.f32 D, A;", ("f32",), "bf16") for r in ("rn", "rz")]
    found += [("cvt.rn.ftz.f32.f64 D, A;", ("f64",), "f32"), ("cvt.ftz.f64.f32 D, A;", ("f32",), "f64")]
    found += [
        (f"cvt.{to}.{of} D, A;", (of,), to) for to, of in (("f32", "f16"), ("f64", "f16"), ("f64", "f32"))
    ]
    classes = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    found += [(f"testp.{c}.{t} D, A;", (t,), "pred") for c in classes for t in ("f32", "f64")]
    for t in ("f16", "bf16", "f32", "f64"):
        found += [
            (f"setp.{c}.{t} D, A, B;", (t, t), "pred") for c in ("eq", "lt", "neu", "geu", "num", "nan")
        ]
    found += [(f"setp.{c}.ftz.{t} D, A, B;", (t, t), "pred") for c in ("eq", "ltu") for t in ("f16", "f32")]
    found += [
        (f"{op}.{t} D, A, B;", ("u32", "u32"), "u32")
        for op in ("add", "min", "max")
        for t in ("u16x2", "s16x2")
    ]
    found += [(f"{op}.relu.s16x2 D, A, B;", ("u32", "u32"), "u32") for op in ("min", "max")]
    found += [(f"cvt.pack.sat.{t}.s32 D, A, B;", ("s32", "s32"), "u32") for t in ("s16", "u16")]
    found += [(f"cvt.pack.sat.{t}.s32.b32 D, A, B, C;", ("s32", "s32", "u32"), "u32") for t in ("s8", "u8")]
    found += [
        (f"lop3.{b}.b32 _|D, A, B, C, {lut}, E;", ("u32", "u32", "u32", "pred"), "pred")
        for b in ("or", "and")
        for lut in (0x80, 0x96)
    ]
    return found


FORMS = _forms()
#: One of so many is compared in every run; the step is prime, so that each family has some.
EVERY = 7


@pytest.mark.parametrize(("text", "reads", "writes"), FORMS[::EVERY], ids=lambda x: str(x).split()[0])
def test_bit_by_bit(text: str, reads: tuple[str, ...], writes: str) -> None:
    compare(text, reads, writes)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "reads", "writes"), FORMS, ids=lambda x: str(x).split()[0])
def test_all_bit_by_bit(text: str, reads: tuple[str, ...], writes: str) -> None:
    compare(text, reads, writes)


def compare(text: str, reads: tuple[str, ...], writes: str) -> None:
    draw = random.Random(text)
    columns = [_values(t) for t in reads]
    rows = (
        [[x] for x in columns[0]]
        if len(reads) == 1
        else [[draw.choice(c) for c in columns] for _ in range(160)]
    )
    if len(reads) == 2:
        rows += [[x, x] for x in columns[0][:32]]
    widths, result = [_bits(t) for t in reads], _bits(writes)
    mine = _first(text, widths, result, rows)
    theirs = apply(text, widths, result, rows)
    wrong = [(row, x, y) for row, x, y in zip(rows, mine, theirs, strict=True) if x is not None and x != y]
    assert wrong == []
    nan = writes in _TYPES and reads[0] in _TYPES
    assert nan or None not in mine
    assert sum(x is None for x in mine) <= 16
