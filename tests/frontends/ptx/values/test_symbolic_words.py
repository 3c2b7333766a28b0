"""Arithmetic on sizes without a number, against the same kernels for numbers: none refutes what is proved."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

BODY = """
    .shared .align 8 .b8 slot[8];
    mov.u32 %r2, %tid.x;
    ld.param.u32 %r1, [k_n];
    {lines}
    setp.{test} %p1, {register}, {number};
    @%p1 bra BAD;
    bra END;
    BAD:
    st.shared.u32 [slot], %r2;
    bar.sync 1, 64;
    END: ret;
"""
RANGES = [(0, 7), (0, 20), (1, 100), (-8, 8), (0, 300), (-100, 100), (0, 70_000), (-70_000, 70_000)]
TESTS = "eq.s32 ne.s32 lt.s32 ge.s32 lt.u32 gt.u32".split()
NUMBERS = [0, 1, 2, 3, 5, 8, 16, 100, 1000, 65536, -1, -5]
SHIFTS = [0, 1, 2, 3, 4, 5, 6, 7]
MASKS = [1, 2, 3, 7, 8, 15, 31, 63, 127, 128, 255, 65535, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF8, 0xFFFFFFFF]
DIVISORS = [2, 3, 5, 7, 16, 20, 64, 100, 128]
MAGIC = [0x55555556, 0x2AAAAAAB, 1431655766, 858993460]


def _check(folder: Path, body: str, facts: str, scope: ScopeKind) -> Verdict:
    (path := folder / "k.ptx").write_text(module_text(body))
    (launch := folder / "k.toml").write_text(f"[kernel.k]\nblock = [32]\ncluster = [1]\ngrid = [1]\n{facts}")
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=scope, repairs=False)
    return report.verdict


def _compared(folder: Path, body: str, low: int, high: int, numbers: list[int]) -> str:
    """How the verdict for all sizes stands to those for numbers: proved, left open, or ``wrong``."""
    open_ = f'assume = ["N >= {low}", "N <= {high}"]\n[kernel.k.params]\n0 = {{i32 = "N"}}\n'
    verdict = _check(folder, body, open_, ScopeKind.ALL)
    if verdict is not Verdict.PROVED:
        return verdict.value
    facts = (f"[kernel.k.params]\n0 = {{i32 = {n}}}\n" for n in numbers)
    bad = any(_check(folder, body, f, ScopeKind.EXACT) is Verdict.REFUTED for f in facts)
    return "wrong" if bad else "proved"


#: Instructions, whose operands are filled in.
LINES = """add.{s} {to}, {a}, {b};
sub.{s} {to}, {a}, {b};
mul.lo.{s} {to}, {a}, {divisor};
mad.lo.s32 {to}, {a}, {shift}, {b};
shl.b32 {to}, {a}, {shift};
shr.{s} {to}, {a}, {shift};
shr.{s} {to}, {a}, 31;
and.b32 {to}, {a}, {mask};
or.b32 {to}, {a}, {mask};
xor.b32 {to}, {a}, {mask};
xor.b32 {to}, {a}, {b};
min.{s} {to}, {a}, {b};
max.{s} {to}, {a}, {b};
div.{s} {to}, {a}, {divisor};
rem.{s} {to}, {a}, {divisor};
mul.hi.{s} {to}, {a}, {magic};
bfe.{s} {to}, {a}, {shift}, 4;
neg.s32 {to}, {a};
not.b32 {to}, {a};
abs.s32 {to}, {a};
setp.{compare}.{s} %p2, {a}, {b}; selp.b32 {to}, {number}, {c}, %p2;
cvt.u16.u32 %rs1, {a}; cvt.u32.u16 {to}, %rs1;
cvt.u16.u32 %rs1, {a}; cvt.s32.s16 {to}, %rs1;
mul.wide.{s} {wide}, {a}, {magic}; shr.{t}64 {wide}, {wide}, 33; cvt.u32.u64 {to}, {wide};
mul.wide.{s} {wide}, {a}, -1431655765; shr.s64 {wide}, {wide}, 33; cvt.u32.u64 {to}, {wide};
cvt.s64.s32 {wide}, {a}; add.s64 {wide}, {wide}, {number}; cvt.u32.u64 {to}, {wide};
cvt.u64.u32 {wide}, {a}; shr.{t}64 {wide}, {wide}, {shift}; cvt.u32.u64 {to}, {wide};""".splitlines()


def _kernel(rng: random.Random) -> str:
    """A kernel that goes wrong where a value computed from N compares in some way with a number."""
    registers, lines = ["%r1"], []
    for n in range(rng.randrange(2, 9)):
        number = rng.choice([*NUMBERS, *MASKS])
        operands = {
            "to": f"%r{10 + n}",
            "wide": f"%rd{1 + n}",
            "a": rng.choice(registers),
            "b": rng.choice(registers) if rng.random() < 0.7 else number,
            "c": rng.choice(registers),
            "number": number,
            "s": rng.choice(["s32", "u32"]),
            "t": rng.choice("su"),
            "shift": rng.choice(SHIFTS),
            "mask": rng.choice(MASKS),
            "divisor": rng.choice(DIVISORS),
            "magic": rng.choice(MAGIC),
            "compare": rng.choice(["lt", "le", "gt", "ge", "eq", "ne"]),
        }
        lines.append(rng.choice(LINES).format(**operands))
        registers.append(f"%r{10 + n}")
    test, bound = rng.choice(TESTS), rng.choice(NUMBERS)
    return BODY.format(lines="\n    ".join(lines), test=test, register=registers[-1], number=bound)


@pytest.mark.parametrize("seed", [*range(40), 2109, 2169, 5175])
def test_no_number_refutes_what_is_proved(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    body, (low, high) = _kernel(rng), rng.choice(RANGES)
    numbers = sorted({low, high, *(rng.randint(low, high) for _ in range(4))})
    assert _compared(tmp_path, body, low, high, numbers) != "wrong", body


@pytest.mark.parametrize(
    ("lines", "test", "number"),
    [
        ("xor.b32 %r10, %r1, 2147483648;", "lt.s32", 1),
        ("mov.u32 %r9, 2147483648; xor.b32 %r10, %r1, %r9;", "lt.s32", 1),
        ("xor.b32 %r9, %r1, 2147483648; xor.b32 %r10, %r9, 2147483648;", "gt.s32", 0),
        ("xor.b32 %r9, %r1, 2147483648; shr.s32 %r10, %r9, 31;", "eq.s32", -1),
        (
            "mul.wide.s32 %rd1, %r1, -1431655765; shr.u64 %rd1, %rd1, 33; cvt.u32.u64 %r10, %rd1;",
            "gt.u32",
            20,
        ),
    ],
)
def test_signs_that_are_turned(tmp_path: Path, lines: str, test: str, number: int) -> None:
    body = BODY.format(lines=lines, test=test, register="%r10", number=number)
    assert _compared(tmp_path, body, 0, 20, [0, 2, 9, 20]) == "refuted"
    left = BODY.format(lines=lines, test=test, register="%r10", number=number).replace("BAD;", "END;", 1)
    assert _compared(tmp_path, left, 0, 20, []) == "proved"


@pytest.mark.parametrize(
    ("lines", "test", "number"),
    [
        ("or.b32 %r10, %r1, 3;", "lt.s32", 0),
        ("xor.b32 %r10, %r1, 3;", "eq.s32", -5),
        ("shr.u32 %r9, %r1, 31; or.b32 %r10, %r9, %r1;", "eq.s32", -7),
    ],
)
def test_sizes_that_are_below_zero(tmp_path: Path, lines: str, test: str, number: int) -> None:
    body = BODY.format(lines=lines, test=test, register="%r10", number=number)
    assert _compared(tmp_path, body, -8, 8, []) == "refuted"


@pytest.mark.parametrize(
    ("test", "number", "verdict"),
    [("eq.s32", -2, "refuted"), ("eq.s32", 2, "refuted"), ("lt.s32", -2, "proved"), ("gt.s32", 2, "proved")],
)
def test_quotients_of_what_may_be_below_zero(tmp_path: Path, test: str, number: int, verdict: str) -> None:
    """N / 144, of signed numbers, as compilers write it: the upper half of a product is no quotient yet."""
    lines = """mul.hi.s32 %r8, %r1, 954437177;
    shr.u32 %r7, %r8, 31;
    shr.s32 %r6, %r8, 5;
    add.s32 %r10, %r6, %r7;"""
    body = BODY.format(lines=lines, test=test, register="%r10", number=number)
    assert _compared(tmp_path, body, -300, 300, [-300, -288, -145, -1, 0, 143, 288]) == verdict


def test_two_upper_halves(tmp_path: Path) -> None:
    lines = """mul.hi.u32 %r8, %r1, 954437177;
    mul.wide.s32 %rd1, %r8, 954437177;
    shr.u64 %rd1, %rd1, 33;
    cvt.u32.u64 %r9, %rd1;
    xor.b32 %r10, %r9, %r8;"""
    body = BODY.format(lines=lines, test="ne.s32", register="%r10", number=8)
    assert _compared(tmp_path, body, -8, 8, []) == "refuted"


@pytest.mark.parametrize("shift", [0, 3, 31])
def test_the_bits_of_an_upper_half_below_zero(tmp_path: Path, shift: int) -> None:
    lines = f"mul.hi.s32 %r8, %r1, 954437177; shr.u32 %r10, %r8, {shift};"
    body = BODY.format(lines=lines, test="gt.u32", register="%r10", number=100 if shift < 31 else 0)
    assert _compared(tmp_path, body, -8, 8, [-8, -1, 0, 8]) in ("refuted", "unknown")


def test_a_product_that_is_shifted_out(tmp_path: Path) -> None:
    lines = "and.b32 %r9, %r1, 1; mul.hi.s32 %r11, %r9, 858993460; shr.s32 %r10, %r11, 0;"
    body = BODY.format(lines=lines, test="ne.s32", register="%r10", number=0)
    assert _compared(tmp_path, body, 0, 20, [0, 1]) in ("proved", "unknown")


#: A multiple of N that is cut to 32 bits, and what is asked of it.
MULTIPLES = [
    ("mul.wide.s32 %rd1, %r1, -1294967296; cvt.u32.u64 %r10, %rd1;", "ge.s32", 1000),
    ("cvt.s64.s32 %rd1, %r1; mul.lo.s64 %rd2, %rd1, -3000000000; cvt.u32.u64 %r10, %rd2;", "lt.s32", 0),
    ("mad.lo.s32 %r10, %r1, 1431655766, %r1;", "lt.s32", 0),
    ("mul.lo.s32 %r10, %r1, -1431655765;", "gt.u32", 1431655765),
]


@pytest.mark.parametrize(("lines", "test", "number"), MULTIPLES)
def test_multiples_that_wrap_are_no_numbers(tmp_path: Path, lines: str, test: str, number: int) -> None:
    body = BODY.format(lines=lines, test=test, register="%r10", number=number)
    assert _compared(tmp_path, body, 0, 7, [*range(8)]) in ("refuted", "unknown")


def test_multiples_that_fit_are_numbers(tmp_path: Path) -> None:
    lines = "mul.wide.s32 %rd1, %r1, -300000000; cvt.u32.u64 %r10, %rd1;"
    body = BODY.format(lines=lines, test="gt.s32", register="%r10", number=0)
    assert _compared(tmp_path, body, 0, 7, []) == "proved"


@pytest.mark.parametrize(
    ("number", "test", "bound", "verdict"),
    [
        (100, "gt.u32", 100, "proved"),
        (100, "lt.s32", 0, "proved"),
        (100, "gt.u32", 50, "refuted"),
        (100, "eq.s32", 0, "unknown"),
        (-16, "lt.s32", -8, "refuted"),
    ],
)
def test_shifts_by_an_open_count(tmp_path: Path, number: int, test: str, bound: int, verdict: str) -> None:
    lines = f"mov.u32 %r9, {number}; shr.u32 %r10, %r9, %r1;"
    body = BODY.format(lines=lines, test=test, register="%r10", number=bound)
    assert _compared(tmp_path, body, 0, 200, [0, 1, 31, 32, 200]) == verdict


SHIFTED = """
    .shared .align 8 .b8 bar[8];
    mov.u32 %r2, %tid.x;
    ld.param.u32 %r1, [k_n];
    setp.ge.u32 %p1, %r2, 32;
    @%p1 bra SECOND;
    mov.u32 %r3, 1000; shr.u32 %r4, %r3, %r1;
    setp.gt.u32 %p2, %r4, 3;
    @!%p2 bra END;
    bar.sync 1, 64;
    bra END;
    SECOND:
    add.u32 %r1, %r1, {more};
    mov.u32 %r5, 1000; shr.u32 %r6, %r5, %r1;
    setp.gt.u32 %p3, %r6, 3;
    @!%p3 bra END;
    bar.sync 1, 64;
    END: ret;
"""


@pytest.mark.parametrize(("more", "wanted"), [(0, Verdict.PROVED), (1, Verdict.UNKNOWN)])
def test_one_shift_has_one_value_for_all(tmp_path: Path, more: int, wanted: Verdict) -> None:
    (path := tmp_path / "k.ptx").write_text(module_text(SHIFTED.format(more=more)))
    facts = '[kernel.k]\nblock = [64]\ncluster = [1]\ngrid = [1]\nassume = ["N >= 0", "N <= 200"]\n'
    (launch := tmp_path / "k.toml").write_text(facts + '[kernel.k.params]\n0 = {i32 = "N"}\n')
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is wanted


# ---------------------------------------------------------------- shifts that cut

#: The first warp comes to meet the second as often as the lower bits of a size say, and that as often as all.
MEETINGS = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<10>;
  ld.param.u32 %r1, [n];
  mov.u32 %r3, %tid.x;
  mov.u32 %r2, %r1;
  setp.lt.u32 %p1, %r3, 32;
  @!%p1 bra MEET;
  CUT
MEET:
  mov.u32 %r8, 0;
TURN:
  setp.ge.u32 %p3, %r8, %r2;
  @%p3 bra END;
  bar.sync 1, 64;
  add.u32 %r8, %r8, 1;
  bra TURN;
END:
  ret;
}
"""
CUTS = {
    "and": "and.b32 %r2, %r1, 255;",
    "shifts": "shl.b32 %r2, %r1, 24; shr.u32 %r2, %r2, 24;",
    "product": "mul.lo.u32 %r2, %r1, 16777216; shr.u32 %r2, %r2, 24;",
    "wide shifts": "cvt.u64.u32 %d1, %r1; shl.b64 %d1, %d1, 56; shr.u64 %d1, %d1, 56; cvt.u32.u64 %r2, %d1;",
    "signed shifts": "shl.b32 %r2, %r1, 24; shr.s32 %r2, %r2, 24;",
}


@pytest.mark.parametrize(
    ("cut", "most", "verdict"),
    [
        *((cut, 256, "refuted") for cut in CUTS if cut != "signed shifts"),
        *((cut, 255, "proved") for cut in CUTS if cut != "signed shifts"),
        ("signed shifts", 128, "refuted"),
        ("signed shifts", 127, "proved"),
    ],
)
def test_a_shift_to_the_left_and_back_leaves_the_lower_bits(cut: str, most: int, verdict: str) -> None:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n"}, "assume": [f"n <= {most}"]}}}
    (found,) = syncverify.check(MEETINGS.replace("CUT", CUTS[cut]), facts=facts, scope="all", advice=False)
    assert str(found.verdict) == verdict


#: A word of shared memory is written, and both warps meet, where a register says so.
ASKED = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b16 %h<4>;
  .shared .align 4 .b8 slot[4];
  ld.param.u32 %r1, [n];
  mov.u32 %r8, %tid.x;
  LINES
  setp.TEST %p1, %r2, NUMBER;
  @!%p1 bra END;
  st.shared.u32 [slot], %r8;
  bar.sync 1, 64;
END:
  ret;
}
"""


@pytest.mark.parametrize(
    ("lines", "test", "number", "most", "verdict"),
    [
        ("shl.b32 %r2, %r1, 16; shr.u32 %r2, %r2, 20;", "eq.u32", 4096, 100_000, "proved"),
        ("shl.b32 %r2, %r1, 16; shr.u32 %r2, %r2, 20;", "eq.u32", 4095, 100_000, "refuted"),
        ("cvt.s32.s8 %r2, %r1;", "lt.s32", 0, 127, "proved"),
        ("cvt.s32.s8 %r2, %r1;", "lt.s32", 0, 128, "refuted"),
        ("cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r2, %h1;", "lt.s32", 0, 32_767, "proved"),
        ("cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r2, %h1;", "lt.s32", 0, 32_768, "refuted"),
        ("cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r2, %h1;", "ge.s32", 32_768, 70_000, "proved"),
        ("not.b32 %r3, %r1; mul.hi.u32 %r2, %r3, 256;", "ge.u32", 256, 300, "proved"),
        ("not.b32 %r3, %r1; mul.hi.u32 %r2, %r3, 256;", "ge.u32", 255, 300, "refuted"),
    ],
)
def test_narrow_signs_and_upper_halves(lines: str, test: str, number: int, most: int, verdict: str) -> None:
    text = ASKED.replace("LINES", lines).replace("TEST", test).replace("NUMBER", str(number))
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n"}, "assume": [f"n <= {most}"]}}}
    (found,) = syncverify.check(text, facts=facts, scope="all", replay=False, advice=False)
    assert str(found.verdict) == verdict
