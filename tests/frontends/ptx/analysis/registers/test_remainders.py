"""Remainders by reciprocals: which factors are exact is asked of whole numbers, and compilers' forms."""

from __future__ import annotations

import random

import pytest

from syncverify.frontends.ptx.analysis.arrays.address_ranges import Interval
from syncverify.frontends.ptx.analysis.registers.remainders import exact_divisor
from tests.frontends.ptx.analysis.arrays.test_address_ranges import reached

WIDE = "mul.wide.u32 %rd3, %r2, FACTOR; shr.u64 %rd4, %rd3, 33; cvt.u32.u64 %r3, %rd4;"
HIGH = "mul.hi.u32 %r4, %r2, FACTOR; shr.u32 %r3, %r4, 1;"
MAD = "mad.lo.s32 %r9, %r3, -3, %r2;"
SUB = "mul.lo.s32 %r5, %r3, 3; sub.s32 %r9, %r2, %r5;"
EXACT = ("-1431655765", "0xAAAAAAAB")


def _quotients_agree(factor: int, shift: int, divisor: int, draws: random.Random) -> bool:
    multiples = (divisor * draws.randrange(1, (1 << 32) // divisor + 1) for _ in range(40))
    xs = [0, 1, (1 << 32) - 1, *(x - back for x in multiples for back in (0, 1))]
    last = ((1 << 32) - 1) // divisor * divisor
    return all(x * factor >> shift == x // divisor for x in [*xs, last - 1, last] if 0 <= x < 1 << 32)


@pytest.mark.parametrize("seed", range(200))
def test_exact_factors_divide(seed: int) -> None:
    """Round-up reciprocals of drawn divisors, and factors beside them: what is taken for exact is."""
    draws = random.Random(seed)
    divisor, shift = draws.choice([3, 5, 6, 7, 9, 11, 12, 13, 100, 641, 65537]), draws.randrange(32, 52)
    factor = (1 << shift) // divisor + draws.choice([1, 1, 1, 0, 2, 5])
    found = exact_divisor(factor, shift)
    if found is not None:
        assert _quotients_agree(factor, shift, found, draws)


def test_the_usual_factors_are_exact() -> None:
    assert [exact_divisor(m, s) for m, s in ((0xAAAAAAAB, 33), (0xCCCCCCCD, 34), (0xCCCCCCCD, 35))] == [
        3,
        5,
        10,
    ]
    assert exact_divisor(0xAAAAAAAA, 33) is None and exact_divisor(0xAAAAAAAD, 33) is None


@pytest.mark.parametrize("factor", EXACT)
@pytest.mark.parametrize("quotient", [WIDE, HIGH], ids=["wide", "high"])
@pytest.mark.parametrize("rest", [MAD, SUB], ids=["mad", "sub"])
def test_forms(factor: str, quotient: str, rest: str) -> None:
    assert reached(quotient.replace("FACTOR", factor) + rest) == Interval(0, 2)


@pytest.mark.parametrize(
    "body",
    [
        WIDE.replace("FACTOR", "0xAAAAAAAA") + MAD,
        WIDE.replace("FACTOR", "0xAAAAAAAB") + "mad.lo.s32 %r9, %r3, -4, %r2;",
        WIDE.replace("FACTOR", "0xAAAAAAAB") + "add.u32 %r2, %r2, 1;" + MAD,
        WIDE.replace("FACTOR", "0xAAAAAAAB").replace("wide.u32", "wide.s32") + MAD,
        HIGH.replace("FACTOR", "0xAAAAAAAB").replace("hi.u32", "hi.s32") + MAD,
        WIDE.replace("FACTOR", "0xAAAAAAAB").replace("33", "34") + MAD,
        HIGH.replace("FACTOR", "0xAAAAAAAB") + "setp.eq.u32 %p1, %r1, 3; @%p1 mov.u32 %r3, 0;" + MAD,
        "mov.u32 %r3, 0; " + HIGH.replace("FACTOR", "0xAAAAAAAB").replace("shr", "@%p2 shr") + MAD,
    ],
    ids=["factor", "divisor", "another number", "signed", "signed high", "shift", "replaced", "guarded"],
)
def test_what_is_none_is_not_bounded(body: str) -> None:
    assert reached(body) is None
