"""Random arithmetic on an open size: what is proved for every size is proved at each number.

Values stay below 2**31, so that nothing wraps but what an instruction cuts off itself.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import syncverify
from syncverify.frontends.ptx.values import symbolic_words

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .b16 %h<4>;
  .shared .align 4 .b8 slot[4];
  ld.param.u32 %r1, [n];
  mov.u32 %r8, %tid.x;
  {lines}
  setp.{test} %p1, {register}, {number};
  @!%p1 bra END;
  st.shared.u32 [slot], %r8;
  bar.sync 1, 64;
END:
  ret;
}}
"""
#: ``a`` and ``d``: registers; ``small``, ``bits``, ``number``: constants.
STEPS = (
    "shl.b32 {d}, {a}, {small};",
    "shr.u32 {d}, {a}, {bits};",
    "shr.s32 {d}, {a}, {bits};",
    "shl.b32 {d}, {a}, {bits}; shr.u32 {d}, {d}, {bits};",
    "shl.b32 {d}, {a}, {bits}; shr.s32 {d}, {d}, {bits};",
    "shl.b32 {d}, {a}, 16; shr.u32 {d}, {d}, {most};",
    "shl.b32 {d}, {a}, 20; shr.s32 {d}, {d}, {most};",
    "mul.lo.u32 {d}, {a}, 65536; shr.u32 {d}, {d}, 16;",
    "cvt.u64.u32 %d1, {a}; shl.b64 %d1, %d1, 48; shr.s64 %d1, %d1, 48; cvt.u32.u64 {d}, %d1;",
    "and.b32 {d}, {a}, {mask};",
    "or.b32 {d}, {a}, {small};",
    "xor.b32 {d}, {a}, {small};",
    "not.b32 {d}, {a};",
    "neg.s32 {d}, {a};",
    "add.s32 {d}, {a}, {number};",
    "sub.s32 {d}, {number}, {a};",
    "mul.lo.s32 {d}, {a}, {small};",
    "mul.hi.u32 {d}, {a}, {factor};",
    "bfe.u32 {d}, {a}, {small}, {bits};",
    "bfe.s32 {d}, {a}, {small}, {bits};",
    "bfi.b32 {d}, {a}, %r1, {small}, 8;",
    "cvt.u32.u8 {d}, {a};",
    "cvt.s32.s8 {d}, {a};",
    "cvt.u16.u32 %h1, {a}; cvt.u32.u16 {d}, %h1;",
    "cvt.u16.u32 %h1, {a}; cvt.s32.s16 {d}, %h1;",
    "min.u32 {d}, {a}, {number};",
    "max.s32 {d}, {a}, {number};",
    "div.u32 {d}, {a}, {number};",
    "rem.u32 {d}, {a}, {number};",
    "prmt.b32 {d}, {a}, 0, 0x4410;",
    "setp.lt.s32 %p2, {a}, {number}; selp.b32 {d}, {a}, %r1, %p2;",
)
RANGES = [(0, 7), (0, 300), (0, 70_000), (1, 100), (40_000, 70_000), (250, 270), (65_530, 65_545)]
TESTS = "eq.s32 ne.s32 lt.s32 ge.s32 lt.u32 gt.u32".split()
EDGES = (0, 1, 2, 7, 8, 127, 128, 255, 256, 257, 32_767, 32_768, 65_535, 65_536)
DRAWN, MORE = 24, 1_500
#: A seed that converts from few bits with a sign.
SIGNED = 65


def contradiction(seed: int) -> str | None:
    """A number at which a program is refuted that is proved for every size."""
    rng = random.Random(seed)
    registers = ["%r1"]
    lines = []
    for n in range(2, rng.randint(3, 5)):
        constants = {
            "small": rng.randint(1, 4),
            "most": rng.choice([8, 12, 20, 24]),
            "bits": rng.choice([1, 4, 8, 12, 16, 24]),
            "number": rng.choice([1, 3, 7, 16, 100, 255, 256, 1000, 4096]),
            "mask": rng.choice([1, 7, 255, 65_535, -8, -16, 240, 6]),
            "factor": rng.choice([256, 65_536, 0xAAAAAAAB, 0xCCCCCCCD]),
        }
        lines.append(rng.choice(STEPS).format(a=rng.choice(registers), d=f"%r{n}", **constants))
        registers.append(f"%r{n}")
    low, high = rng.choice(RANGES)
    number = rng.choice([0, 1, 3, 5, 16, 100, 255, 256, 1000, 65_535, 65_536, -1, -5])
    text = TEXT.format(
        lines="\n  ".join(lines), test=rng.choice(TESTS), register=registers[-1], number=number
    )

    def verdict(*assume: str, **more: Any) -> str:
        facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n"}, "assume": list(assume)}}}
        (found,) = syncverify.check(text, facts=facts, timeout=60, replay=False, **more, advice=False)
        return str(found.verdict)

    if verdict(f"n >= {low}", f"n <= {high}", scope="all") != "proved":
        return None
    numbers = {low, high, (low + high) // 2, rng.randint(low, high), *(x for x in EDGES if low <= x <= high)}
    wrong = next((x for x in sorted(numbers) if verdict(values={"n": x}) == "refuted"), None)
    return None if wrong is None else f"seed {seed}, n = {wrong}: {text}"


@pytest.mark.parametrize("seed", range(DRAWN))
def test_a_proof_for_every_size_holds_at_numbers(seed: int) -> None:
    assert contradiction(seed) is None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_more_proofs_hold_at_numbers(part: int) -> None:
    seeds = range(DRAWN + part * MORE // 10, DRAWN + (part + 1) * MORE // 10)
    assert [found for seed in seeds if (found := contradiction(seed)) is not None] == []


def test_signs_that_are_lost_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: a conversion from few bits takes the sign of 32."""
    assert contradiction(SIGNED) is None
    monkeypatch.setattr(symbolic_words, "lower_bits", lambda term, bits, negative: term)
    assert contradiction(SIGNED) is not None
