"""Masks on open sizes: complements, and upper halves of 64 bits that a mask of 32 bits clears."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from tests.system.open_sizes import addresses
from tests.system.open_sizes.agreement import OpenKernel, contradiction

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 big)
.reqntid 64, 1, 1
{{
  .reg .pred %p<2>; .reg .b32 %x<9>, %n, %t, %a, %o, %s; .reg .b64 %d<4>, %b;
  .shared .align 16 .b8 slot[4096];
  ld.param.u32 %n, [n];
  ld.param.u64 %b, [big];
  mov.u32 %t, %tid.x;
  mov.u32 %s, slot;
  shl.b32 %a, %t, 2;
  {lines}
  add.u32 %o, %o, %s;
  st.shared.u32 [%o], %t;
  ret;
}}
"""
ALIKE = (
    "lop3.b32 %x1, %n, %t, 1, 0x3c; and.b32 %o, %x1, 252;",
    "lop3.b32 %x1, %n, %t, 1, 0xca; and.b32 %o, %x1, 252;",
    "lop3.b32 %x1, %t, %n, 4096, 0xca; and.b32 %o, %x1, 252;",
    "bfi.b32 %x1, 0, %n, 32, 8; and.b32 %o, %x1, 252;",
    "bfi.b32 %x1, %n, %n, 32, 8; and.b32 %o, %x1, 252;",
    "bfi.b32 %x1, %a, %n, 32, 8; and.b32 %o, %x1, 252;",
    "not.b32 %x1, %n; and.b32 %o, %x1, 252;",
    # 2**32 of ``big`` is cut off: then all lanes but the first 16 store to one place
    "and.b64 %d1, %b, 0xFFFFFFF0; shr.u64 %d1, %d1, 30; cvt.u32.u64 %x1, %d1; setp.ne.u32 %p1, %x1, 0;"
    " selp.b32 %o, %a, 0, %p1;",
    # so it is of what is taken for 32 bits: 0 where ``big`` is 2**32
    "cvt.u32.u64 %x1, %b; setp.eq.u32 %p1, %x1, 0; selp.b32 %o, 0, %a, %p1;",
    "neg.s64 %d1, %b; cvt.u32.u64 %x1, %d1; setp.lt.s32 %p1, %x1, 0; selp.b32 %o, 0, %a, %p1;",
)
APART = (
    "lop3.b32 %x1, %n, %a, 0, 0x3c; and.b32 %o, %x1, 252;",
    "lop3.b32 %o, %n, 1792, %a, 0xea;",
    "bfi.b32 %x1, %a, %n, 0, 8; and.b32 %o, %x1, 2044;",
    "bfi.b32 %x1, %n, %a, 8, 3; and.b32 %o, %x1, 2044;",
    "bfi.b32 %x1, %n, %a, 32, 3; and.b32 %o, %x1, 2044;",
    "and.b64 %d1, %b, 0xFFFFFFF0; shr.u64 %d1, %d1, 32; cvt.u32.u64 %x1, %d1; setp.ne.u32 %p1, %x1, 0;"
    " selp.b32 %o, 0, %a, %p1;",
    "cvt.u32.u64 %x1, %b; setp.gt.u32 %p1, %x1, 104; selp.b32 %o, 0, %a, %p1;",
)
#: Seeds of random addresses that were proved wrongly.
SEEDS = (700_249, 1_000_134)
ASSUMED = ("n >= 2", "n <= 300", "big >= 4294967296", "big <= 4294967400")


def _verdict(lines: str) -> Verdict:
    return OpenKernel(TEXT.format(lines=lines), ("n", "big"), ASSUMED).for_every_size()


@pytest.mark.parametrize("lines", ALIKE)
def test_lanes_that_store_to_one_place(lines: str) -> None:
    assert _verdict(lines) is not Verdict.PROVED


@pytest.mark.parametrize("lines", APART)
def test_lanes_that_store_apart(lines: str) -> None:
    assert _verdict(lines) is Verdict.PROVED


@pytest.mark.parametrize("seed", SEEDS)
def test_random_addresses_that_cut_sizes(seed: int) -> None:
    assert contradiction(*addresses.kernel(seed)) is None
