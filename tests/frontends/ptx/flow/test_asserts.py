"""Traps and failed assertions: what a verdict takes for granted, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

FACTS = """[kernel."*"]
block = [64, 1, 1]
grid = [{grid}]
[kernel."*".params]
0 = {n}
"""
KERNEL = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 k_n, .param .u64 k_p)
{{
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<10>;
  .shared .align 8 .b8 bar[8];
  .shared .align 16 .b8 data[1024];
  ld.param.u32 %r1, [k_n];
  ld.param.u64 %rd1, [k_p];
  mov.u32 %r2, %tid.x;
  shl.b32 %r5, %r2, 2;
  mov.u32 %r6, data;
  add.u32 %r6, %r6, %r5;
  xor.b32 %r7, %r5, 128;
  mov.u32 %r8, data;
  add.u32 %r8, %r8, %r7;
  mov.u32 %r3, 0;
  {before}
LOOP:
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r4, [%rd3];
  {inside}
  st.shared.u32 [%r6], %r4;
  {sync}
  ld.shared.u32 %r9, [%r8];
  bar.sync 0;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p3, %r3, %r1;
  @%p3 bra LOOP;
  ret;
FAIL:
  {fails}
}}
"""
SIZE = "setp.eq.u32 %p1, %r1, 0; @%p1 bra FAIL;"
DATA = "setp.gt.u32 %p1, %r4, 100; @%p1 bra FAIL;"
LANE = "setp.gt.u32 %p1, %r2, 40; @%p1 bra FAIL;"
BLOCK = "mov.u32 %r10, %ctaid.x; setp.ne.u32 %p1, %r10, 0; @%p1 bra FAIL;"
ALWAYS = "setp.ge.u32 %p1, %r1, 0; @%p1 bra FAIL;"
#: Gives up after as many turns as there are sizes; asked in two places, which is no plain wait.
WATCHED = """
  setp.eq.u32 %p4, %r2, 0;
  @%p4 mbarrier.init.shared::cta.b64 [bar], 1;
  bar.sync 0;
  mov.u32 %r11, 0;
  POLL: mbarrier.test_wait.parity.shared::cta.b64 %p5, [bar], 0;
  @%p5 bra DONE;
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [bar], 0;
  @%p5 bra DONE;
  add.u32 %r11, %r11, 1;
  setp.gt.u32 %p6, %r11, %r1;
  @%p6 bra FAIL;
  bra POLL;
  DONE:
"""


def text(before: str = "", inside: str = "", sync: str = "bar.sync 0;", fails: str = "trap;") -> str:
    return KERNEL.format(before=before, inside=inside, sync=sync, fails=fails)


@pytest.mark.parametrize("n", ["4", '"N"'])
@pytest.mark.parametrize(
    ("kernel", "verdict", "lines"),
    [
        (text(SIZE, DATA), "proved", 1),
        (text(SIZE, DATA, fails="brkpt;"), "proved", 1),
        (text(SIZE, DATA, sync=""), "refuted", 1),
        (text(SIZE, DATA, fails="bar.sync 1, 32; trap;"), "unknown", 0),  # it may wait before it fails
        (text(inside=LANE), "unknown", 0),  # each block has such lanes
        (text(BLOCK), "unknown", 0),  # and each grid such a block
        (text(ALWAYS), "unknown", 0),
        (text(WATCHED), "unknown", 0),
    ],
)
def test_no_assertion_fails(check: Any, kernel: str, verdict: str, lines: int, n: str) -> None:
    report = check(kernel, 2, FACTS.replace("{n}", n))
    assert report["verdict"] == verdict or (kernel == text(WATCHED) and report["verdict"] != "proved")
    assert (
        verdict == "unknown"
        or len([a for a in report["assumptions"] if "no assertion fails there" in a]) == lines
    )


#: As ``assert(i < n)`` of a thread's number in the grid.
THREAD = "mov.u32 %r10, %ctaid.x; mad.lo.u32 %r11, %r10, 64, %r2; setp.ge.u32 %p1, %r11, %r1; @%p1 bra FAIL;"


@pytest.mark.parametrize("sync, verdict", [("bar.sync 0;", "proved"), ("", "refuted")])
def test_threads_of_a_grid_of_any_size_keep_to_a_size(check: Any, sync: str, verdict: str) -> None:
    kernel = text(THREAD, sync=sync).replace("setp.lt.u32 %p3, %r3, %r1", "setp.lt.u32 %p3, %r3, 3")
    report = check(kernel, 2, '[kernel."*"]\nblock = [64]')
    assert report["verdict"] == verdict
    assert any("no assertion fails there" in a for a in report["assumptions"])


def test_what_data_does_not_decide_is_not_taken_for_granted(check: Any) -> None:
    report = check(text(SIZE), 2, FACTS.replace("{n}", "4"))
    assert (report["verdict"], report["assumptions"]) == ("proved", [])
    assert check(text(SIZE), 2, FACTS.replace("{n}", "0"))["verdict"] == "unknown"


def test_a_size_that_is_not_0_is_one_question(check: Any) -> None:
    report = check(text(SIZE.replace("FAIL", "OUT"), fails="OUT: ret;"), 2, FACTS.replace("{n}", '"N"'))
    assert report["verdict"] == "proved"


SPLIT = """
  ld.global.u32 %r12, [%rd1+64];
  add.u32 %r13, %r1, %r12;
  add.u32 %r13, %r13, -1;
  div.u32 %r1, %r13, %r12;
"""


@pytest.mark.parametrize(("sync", "verdict"), [("bar.sync 0;", "proved"), ("", "refuted")])
def test_a_loaded_word_that_divides_is_not_0(check: Any, sync: str, verdict: str) -> None:
    report = check(text(SPLIT, sync=sync), 2, FACTS.replace("{n}", '"N"') + '1 = {{ptr = "P"}}\n')
    assert report["verdict"] == verdict
    assert (verdict == "proved") == any("not divided by 0" in a for a in report["assumptions"])
