"""What lanes that exchange values compute alike: reductions, and random steps beside computing them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from random import Random

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 32, 1, 1
{{
.reg .pred %p<30>;
.reg .b32 %r<30>, %v, %w, %i, %j, %a, %b;
.reg .b64 %rd<9>;
.shared .align 16 .b8 s[64];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 8;
add.s64 %rd3, %rd1, %rd2;
ld.global.nc.b32 %v, [%rd3];
ld.global.nc.b32 %i, [%rd3+4];
shfl.sync.bfly.b32 %w, %v, 4, 31, -1;
shfl.sync.bfly.b32 %j, %i, 4, 31, -1;
{body}
st.shared.v2.b32 [s], {{%a, %b}};
ret;
}}
"""
BIT = 4
NAN, ZEROS = "no NaN is compared", "zeros that are compared have one sign"


def step(body: str) -> tuple[bool, bool, set[str]]:
    """Whether two results are free of the exchanged bit, and what that rests on."""
    flow = Flow(parse(HEAD.format(body=body), "k.ptx").entries[0])
    u = Uniformity(flow, (32, 1, 1))
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    free = [not u.read_at(k, [name]) & BIT for name in ("%a", "%b")]
    return free[0], free[1], {text for _, text in u.rests_on}


TIE = "setp.eq.f32 %p1, %v, %w; setp.lt.s32 %p2, %i, %j; and.pred %p3, %p1, %p2; setp.gt.f32 %p4, %v, %w; "
PICK = "selp.f32 %a, %v, %w, %p5; selp.b32 %b, %i, %j, %p5;"
ONE = "mov.b32 %b, 0; "
MUL = ONE + "mul.f32 %r2, %v, %i; shfl.sync.bfly.b32 %r3, %r2, 4, 31, -1; "


@pytest.mark.parametrize(
    ("body", "value", "index", "rests_on"),
    [
        # of bits alone
        (ONE + "add.s32 %a, %v, %w;", True, True, set()),
        (ONE + "add.f32 %a, %w, %v;", True, True, set()),
        (ONE + "max.f32 %a, %v, %w;", True, True, set()),
        (ONE + "setp.lt.s32 %p1, %v, %w; selp.b32 %a, %v, %w, %p1;", True, True, set()),
        (ONE + "setp.le.u32 %p1, %w, %v; selp.b32 %a, %w, %v, %p1;", True, True, set()),
        (ONE + "add.s32 %r2, %v, 1; add.s32 %r3, %w, 1; mul.lo.s32 %a, %r2, %r3;", True, True, set()),
        # the larger of two floats: no NaN, and zeros of one sign
        (ONE + "setp.gt.f32 %p1, %v, %w; selp.f32 %a, %v, %w, %p1;", True, True, {NAN, ZEROS}),
        # with its index: of equal values the lower one
        (TIE + "or.pred %p5, %p4, %p3; " + PICK, True, True, {NAN, ZEROS}),
        (TIE.replace("f32", "s32") + "or.pred %p5, %p4, %p3; " + PICK, True, True, set()),
        # without a rule for equal values each lane keeps its own index
        ("setp.gt.f32 %p5, %v, %w; " + PICK, True, False, {NAN, ZEROS}),
        ("setp.gt.s32 %p5, %v, %w; " + PICK, True, False, set()),
        ("setp.ge.s32 %p5, %v, %w; " + PICK, True, False, set()),
        # a rule that prefers the wrong lane, and differences
        (ONE + "setp.gt.s32 %p1, %i, %j; selp.b32 %a, %v, %w, %p1;", False, True, set()),
        (ONE + "sub.s32 %a, %v, %w;", False, True, set()),
        (ONE + "add.s32 %r2, %v, 1; add.s32 %a, %r2, %w;", False, True, set()),
        # by a branch, and by a guard
        (ONE + "mov.b32 %a, %v; setp.gt.s32 %p1, %w, %v; @!%p1 bra L; mov.b32 %a, %w; L:", True, True, set()),
        (ONE + "mov.b32 %a, %v; setp.gt.s32 %p1, %w, %v; @%p1 mov.b32 %a, %w;", True, True, set()),
        (ONE + "mov.b32 %a, %v; setp.gt.s32 %p1, %w, %i; @%p1 mov.b32 %a, %w;", False, True, set()),
        # the assembler may fuse a sum with the product before it, if no rounding is asked for
        (MUL + "add.f32 %a, %r2, %r3;", True, True, {"the sum is not contracted with the product before it"}),
        (MUL + "add.rn.f32 %a, %r2, %r3;", True, True, set()),
    ],
)  # fmt: skip
def test_steps(body: str, value: bool, index: bool, rests_on: set[str]) -> None:
    assert step(body) == (value, index, rests_on)


REALS, COUNTS = (
    "what lanes hold alike but for rounding is one value",
    "lanes that find the sum of their counts zero hold one value",
)
#: Means %v and %w of %i and %j values.
MEANS = ONE + "sub.f32 %r2, %w, %v; add.f32 %r3, %i, %j; div.full.f32 %r4, %j, %r3; "
GUARDED = "setp.eq.f32 %p1, %r3, 0f00000000; selp.f32 %r4, 0f00000000, %r4, %p1; "


@pytest.mark.parametrize(
    ("body", "alike", "rests_on"),
    [
        (MEANS + "fma.rn.f32 %a, %r2, %r4, %v;", True, {REALS}),
        (MEANS + "mul.rn.f32 %r5, %r4, %r2; add.rn.f32 %a, %v, %r5;", True, {REALS}),
        (MEANS + GUARDED + "fma.rn.f32 %a, %r2, %r4, %v;", True, {REALS, COUNTS}),
        # sums of squared deviations: (m2 - m1)^2 * n1 * n2 / (n1 + n2)
        (MEANS + "mul.f32 %r5, %r2, %r2; mul.f32 %r6, %r5, %r4; mul.f32 %a, %r6, %i;", True, {REALS}),
        # the other lane's share of the wrong mean, half of a difference, and another test than for zero
        (MEANS + "fma.rn.f32 %a, %r2, %r4, %w;", False, set()),
        (MEANS + "mul.rn.f32 %r5, %r2, 0f3F000000; sub.rn.f32 %a, %r5, %v;", False, set()),
        (MEANS + GUARDED.replace("eq", "lt") + "fma.rn.f32 %a, %r2, %r4, %v;", False, set()),
        # integers are not numbers of this kind: quotients lose their remainder
        (ONE + "sub.s32 %r2, %w, %v; div.s32 %r3, %r2, 2; add.s32 %a, %v, %r3;", False, set()),
    ],
)  # fmt: skip
def test_what_lanes_hold_alike_but_for_rounding(body: str, alike: bool, rests_on: set[str]) -> None:
    flow = Flow(parse(HEAD.format(body=body), "k.ptx").entries[0])
    u = Uniformity(flow, (32, 1, 1))
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    assert (not u.stored(k) & BIT) is alike
    assert u.read_at(k, ["%a"]) & BIT  # whoever decides by it may decide differently
    if alike:
        assert {text for _, text in u.rests_on} == rests_on


@pytest.mark.parametrize(
    ("use", "alike"),
    [
        ("mov.b32 %a, %r9;", True),
        ("cvt.rn.f16.f32 %h, %r9; mov.b32 %a, {%h, %h};", True),
        ("shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1; add.f32 %a, %r9, %r10;", True),
        ("cvt.rzi.s32.f32 %a, %r9;", False),
        ("setp.gt.f32 %p9, %r9, 0f3F800000; selp.b32 %a, 1, 2, %p9;", False),
        ("cvt.u64.u32 %rd5, %r9; add.s64 %rd6, %rd1, %rd5; ld.global.nc.b32 %a, [%rd6];", False),
        ("shfl.sync.idx.b32 %a, %v, %r9, 31, -1;", False),
    ],
)
def test_what_is_made_of_values_that_differ_by_rounding(use: str, alike: bool) -> None:
    body = MEANS + "fma.rn.f32 %r9, %r2, %r4, %v; " + use
    text = HEAD.format(body=body).replace(".reg .b64", ".reg .b16 %h;\n.reg .b64")
    flow = Flow(parse(text, "k.ptx").entries[0])
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    assert (not Uniformity(flow, (32, 1, 1)).stored(k) & BIT) is alike


ARGMAX = "".join(
    f"shfl.sync.bfly.b32 %w, %v, {n}, 31, -1; shfl.sync.bfly.b32 %j, %i, {n}, 31, -1; {{tie}}"
    "selp.f32 %v, %v, %w, %p5; selp.b32 %i, %i, %j, %p5; "
    for n in (1, 2, 4, 8, 16)
) + "mov.b32 %a, %v; mov.b32 %b, %i;"  # fmt: skip


@pytest.mark.parametrize(
    ("tie", "verdict"),
    [
        (TIE + "or.pred %p5, %p4, %p3; ", Verdict.PROVED),
        ("setp.gt.f32 %p5, %v, %w; ", Verdict.REFUTED),
    ],
)
def test_all_lanes_store_the_largest_and_its_index(tmp_path: Path, tie: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(HEAD.format(body=ARGMAX.format(tie=tie)))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)
    if verdict is Verdict.PROVED:
        assert [x for x in found.assumptions if x.endswith(NAN)]
    (strict,) = check_source(read_source(str(tmp_path / "k.ptx")), policy=Policy.STRICT, repairs=False)
    assert strict.verdict is Verdict.REFUTED  # no text exempts equal values


# ------------------------------------------------------------ beside computing them


def f32(bits: int) -> float:
    return float(struct.unpack("f", struct.pack("I", bits))[0])


def s32(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


#: Floats, NaN and zeros of both signs among them; and integers.
FLOATS = (0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7FC00000)
INTEGERS = (0, 1, 0xFFFFFFFF)
COMPARES: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b and a == a and b == b,
    "ltu": lambda a, b: not a >= b, "geu": lambda a, b: not a < b, "neu": lambda a, b: a != b,
}  # fmt: skip
READ: dict[str, Callable[[int], float]] = {"f32": f32, "s32": s32, "u32": lambda x: x}
Line = tuple[str, ...]


def drawn(rng: Random) -> list[Line]:
    """A few instructions on ``v, w`` and ``i, j``; the last two make ``a`` and ``b``."""
    lines: list[Line] = []
    for n in range(2, 2 + rng.randint(1, 3)):
        pair = rng.choice([("v", "w"), ("w", "v"), ("i", "j"), ("j", "i"), ("v", "w"), ("v", "i")])
        kind = rng.choice(["f32", "s32"] if pair[0] in "vw" else ["s32", "u32"])
        names = [*COMPARES] if kind == "f32" else [*COMPARES][:6]
        lines.append(("setp", f"p{n}", rng.choice(names), kind, *pair))
    for n in range(10, 10 + rng.randint(0, 3)):
        some = [x[1] for x in lines]
        op = rng.choice(["and", "or", "xor", "not"])
        lines.append((op, f"p{n}", rng.choice(some), rng.choice(some)))
    for out, one, other in (("a", "v", "w"), ("b", "i", "j")):
        some = [x[1] for x in lines if x[1].startswith("p")]
        kind = rng.choice(["selp", "selp", "selp", "min", "add", "guarded"])
        order = rng.choice([(one, other), (other, one)])
        lines.append((kind, out, *order, rng.choice(some)))
    return lines


def text(lines: Sequence[Line]) -> str:
    out = []
    for op, to, *args in lines:
        match op:
            case "setp":
                out.append(f"setp.{args[0]}.{args[1]} %{to}, %{args[2]}, %{args[3]};")
            case "and" | "or" | "xor":
                out.append(f"{op}.pred %{to}, %{args[0]}, %{args[1]};")
            case "not":
                out.append(f"not.pred %{to}, %{args[0]};")
            case "selp":
                out.append(f"selp.b32 %{to}, %{args[0]}, %{args[1]}, %{args[2]};")
            case "guarded":
                out.append(f"mov.b32 %{to}, %{args[0]}; @%{args[2]} mov.b32 %{to}, %{args[1]};")
            case _:
                out.append(f"{op}.s32 %{to}, %{args[0]}, %{args[1]};")
    return " ".join(out)


def computed(lines: Sequence[Line], v: int, w: int, i: int, j: int) -> tuple[int, int]:
    held: dict[str, int] = {"v": v, "w": w, "i": i, "j": j}
    for op, to, *args in lines:
        a, b = (held.get(x, 0) for x in args[-2:])
        match op:
            case "setp":
                held[to] = int(COMPARES[args[0]](READ[args[1]](a), READ[args[1]](b)))
            case "and":
                held[to] = a & b
            case "or":
                held[to] = a | b
            case "xor":
                held[to] = a ^ b
            case "not":
                held[to] = 1 - held[args[0]]
            case "selp":
                held[to] = held[args[0]] if held[args[2]] else held[args[1]]
            case "guarded":
                held[to] = held[args[1]] if held[args[2]] else held[args[0]]
            case "min":
                held[to] = min(held[args[0]], held[args[1]], key=s32)
            case "add":
                held[to] = held[args[0]] + held[args[1]] & 0xFFFFFFFF
    return held["a"], held["b"]


def differ(lines: Sequence[Line], floats: Sequence[int]) -> tuple[bool, bool]:
    """Whether two lanes may compute different first and second results."""
    found = [False, False]
    for v, w, i, j in product(floats, floats, INTEGERS, INTEGERS):
        one, other = computed(lines, v, w, i, j), computed(lines, w, v, j, i)
        found = [x or a != b for x, a, b in zip(found, one, other, strict=True)]
    return found[0], found[1]


def test_random_steps_beside_computing_them() -> None:
    shown = missed = 0
    for seed in range(200):
        lines = drawn(Random(seed))
        *free, rests_on = step(text(lines))
        floats = [x for x in FLOATS if not ({NAN} & rests_on and f32(x) != f32(x))]
        floats = [x for x in floats if not ({ZEROS} & rests_on and x == 0x80000000)]
        wrong = differ(lines, floats)
        for claimed, may in zip(free, wrong, strict=True):
            assert not (claimed and may), (seed, text(lines), rests_on)
            shown += claimed
        strictly = differ(lines, FLOATS)
        missed += sum(not claimed and not may for claimed, may in zip(free, strictly, strict=True))
    assert shown > 60
    assert missed < shown / 4  # comparisons that another one decides


def test_a_value_that_is_doubled_often_is_not_written_out(tmp_path: Path) -> None:
    """Sums of sums: as a tree the term has 2 ** 60 nodes, and nothing is said of it."""
    text = HEAD.format(body="add.s32 %a, %v, %w; mov.b32 %b, %i;" + "add.s32 %a, %a, %a;" * 60)
    flow = Flow(parse(text, "k.ptx").entries[0])
    store = next(k for k, i in enumerate(flow.body) if i.op == "st")
    assert Uniformity(flow, (32, 1, 1)).stored(store)
