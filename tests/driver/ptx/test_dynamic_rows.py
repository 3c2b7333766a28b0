"""Rows of any length in dynamic shared memory, of which each thread has every so-manieth element."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict

ROWS = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 row[];
.visible .entry k(.param .u32 n, .param .u64 lengths)
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 sums[32];
  mov.u32 %r3, %tid.x;
  mov.u32 %r7, row;
  {length}
  mov.u32 %r4, %r3;
WRITE:
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra WRITTEN;
  shl.b32 %r5, %r4, 2;
  add.u32 %r6, %r7, %r5;
  st.shared.u32 [%r6], %r3;
  add.u32 %r4, %r4, {stride};
  bra WRITE;
WRITTEN:
  {between}
  mov.u32 %r4, %r3;
READ:
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra END;
  xor.b32 %r5, %r4, {other};
  shl.b32 %r5, %r5, 2;
  add.u32 %r6, %r7, %r5;
  ld.shared.u32 %r8, [%r6];
  add.u32 %r4, %r4, 64;
  bra READ;
END:
  bar.sync 0;
  st.shared.u32 [sums], 1;
  ret;
}}
"""
SIZE = "ld.param.u32 %r1, [n];"
LOADED = "ld.param.u64 %d1, [lengths]; ld.global.u32 %r1, [%d1];"
INSIDE = "an access stays inside dynamic shared memory"


def report(
    length: str = SIZE,
    stride: int = 64,
    other: int = 0,
    between: str = "",
    seconds: float | None = None,
    **facts: int,
) -> KernelReport:
    text = ROWS.format(length=length, stride=stride, other=other, between=between)
    given = {"block": [64, 1, 1], "grid": [1, 1, 1], **facts}
    (found,) = syncverify.check(text, facts={"kernel": {"k": given}}, timeout=seconds, advice=False)
    return found


@pytest.mark.parametrize("length", [SIZE, LOADED])
@pytest.mark.parametrize(("other", "between"), [(0, ""), (32, "bar.sync 0;")])
def test_rows_of_any_length_are_proved(length: str, other: int, between: str) -> None:
    found = report(length, other=other, between=between)
    assert found.verdict is Verdict.PROVED
    assert any(INSIDE in x for x in found.assumptions)


@pytest.mark.parametrize(("stride", "other"), [(64, 32), (48, 0)])
def test_elements_of_others_are_not(stride: int, other: int) -> None:
    """Another thread's element, with no barrier; elements that two threads have. A proof would take less than
    a second; the search for an input that does harm takes longer."""
    assert report(stride=stride, other=other, seconds=3).verdict is not Verdict.PROVED


def test_bytes_that_are_given_are_compared() -> None:
    found = report(dynamic_smem=1024)
    assert not any(INSIDE in x for x in found.assumptions)
    assert found.verdict is not Verdict.PROVED
