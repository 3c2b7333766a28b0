"""Meetings of tiles of several warps become barriers, where each answer of their atomics says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.frontends.ptx.analysis.warps.tile_barriers import (
    TileMeeting,
    largest_tile,
    with_tile_barriers,
)
from syncverify.frontends.ptx.flow.address_spaces import with_spaces
from syncverify.frontends.ptx.syntax.nodes import Function, Special
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run

CORPUS = Path(__file__).parents[5] / "corpus" / "ptx"
SYNC, SUM = ((CORPUS / f"{n}.good.ptx").read_text() for n in ("tile_of_two_warps", "tile_reduction"))


def function(text: str) -> Function:
    return with_spaces(parse(text).entries[0])


def meetings(
    text: str, by_lane_0: bool = True, block: tuple[int, int, int] = (128, 1, 1)
) -> list[TileMeeting]:
    return list(with_tile_barriers(function(text), block, by_lane_0=by_lane_0)[1])


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def report(text: str, policy: str = "practical", block: int = 128, *, replay: bool = True) -> KernelReport:
    facts = {"block": [block], "grid": [1], "params": {"0": {"ptr": "rows"}, "1": 2}}
    (found,) = syncverify.check(text, facts=facts, policy=policy, replay=replay, advice=False)
    return found


def test_each_meeting_becomes_a_barrier_of_its_tile_with_a_number_for_each_tile() -> None:
    made, found = with_tile_barriers(function(SYNC), (128, 1, 1), by_lane_0=False)
    assert [(m.threads, m.collective) for m in found] == [(64, False)] * 2
    barriers = [i for i in made.body if Special("%@tile.64") in i.operands]
    assert len(barriers) == 2 and largest_tile(made) == 64
    assert not any(i.op == "red" for i in made.body if "release" in i.mods)


def test_a_collective_is_two_meetings_that_rely_on_lane_0_and_strict_mode_does_not() -> None:
    assert [(m.threads, m.collective) for m in meetings(SUM)] == [(64, True)]
    assert meetings(SUM, by_lane_0=False) == []
    assert any("what lane 0 acquires" in a for a in report(SUM).assumptions)
    assert report(SUM, "strict").verdict is Verdict.UNKNOWN
    assert report(SYNC, "strict").verdict is Verdict.PROVED


@pytest.mark.parametrize("block", [(64, 2, 1), (16, 8, 1), (4, 4, 8)])
def test_the_number_of_a_thread_in_its_block_is_computed(block: tuple[int, int, int]) -> None:
    assert len(meetings(SYNC, block=block)) == 2


NOT_A_MEETING = [
    ("atom.or.acq_rel.cta", "atom.or.relaxed.cta"),
    ("ld.acquire.cta", "ld.relaxed.cta"),
    ("red.and.relaxed.cta.b32 [%rd5],%r8", "red.and.relaxed.cta.b32 [%rd5],%r6"),
    ("shl.b32 \t%r5, %r24, %r23;", "shl.b32 %r5, %r26, %r23;"),  # two bits for one warp
    ("shl.b32 \t%r6, %r26, %r25;", "shl.b32 %r6, %r26, %r23;"),  # tiles that overlap
    ("and.b32  \t%r3, %r2, 31;", "and.b32 %r3, %r2, 15;"),  # two lanes of each warp
    ("setp.eq.s32 \t%p4, %r33, %r6;", "setp.ne.s32 %p4, %r33, %r6;"),
    ("and.b32  \t%r33, %r32, %r6;", "and.b32 %r33, %r30, %r6;"),  # without its own bit
    ("setp.eq.s32 \t%p5, %r35, 0;", "setp.ne.s32 %p5, %r35, 0;"),
    ("and.b32  \t%r35, %r34, %r5;", "and.b32 %r35, %r34, %r6;"),  # waits for the whole tile's bits
    ("red.and.release.cta.b32 [%rd5],%r17;", ""),  # a word that nobody clears first
    ("shf.l.wrap.b32 \t%r17, %r19, %r19, %r18;", "mov.u32 %r17, -1;"),
    ("barrier.sync \t0;", ""),  # cleared, but not by all before the first comes
    ("st.shared.f32 \t[%r4], %f1;\n\tbar.warp.sync \t-1;", "st.shared.f32 [%r4], %f1;"),
    ("$L__BB0_8:\n\tbar.warp.sync \t-1;", "$L__BB0_8:\n"),  # lanes that nothing keeps back
    ("mov.u32 \t%r44, 0;", "mov.u32 %r44, 0; st.u32 [%rd5], %r44;"),  # another use of the word
    ("mov.u32 \t%r44, 0;", "mov.u32 %r44, 0; st.u32 [%rd5+288], %r44;"),  # behind what is reserved
    ("mov.u32 \t%r44, 0;", "mov.u32 %r44, 0; st.global.u64 [%rd2], %rd5;"),  # the address is handed on
]


@pytest.mark.parametrize("old, new", NOT_A_MEETING)
def test_what_is_no_meeting_stays_as_it_is_and_is_not_proved(old: str, new: str) -> None:
    text = changed(SYNC, old, new)
    assert meetings(text) == []
    assert report(text, replay=False).verdict is not Verdict.PROVED


WARPS_DIFFER = [
    ("shfl.sync.idx.b32 \t%r60|%p9, %r75, %r58", "shfl.sync.idx.b32 %r60|%p9, %r75, %r25"),  # of lane 1
    ("ld.f32 \t%f12, [%rd3];", "ld.f32 %f12, [%rd2];"),  # its own word alone
    ("st.f32 \t[%rd3], %f14;", "cvt.rn.f32.u32 %f14, %r2; st.f32 [%rd3], %f14;"),  # its own number
    ("st.f32 \t[%rd3], %f14;", "st.f32 [%rd3], %f14; st.global.f32 [%rd4], %f14;"),
    ("setp.ne.s32 \t%p12, %r6, 0;", "setp.ne.s32 %p12, %r2, 0;"),
    ("red.and.release.cta.b32 [%rd8],%r9;", "red.and.relaxed.cta.b32 [%rd8],%r9;"),
]


@pytest.mark.parametrize("old, new", WARPS_DIFFER)
def test_work_that_differs_from_warp_to_warp_is_no_collective(old: str, new: str) -> None:
    text = changed(SUM, old, new)
    assert meetings(text) == []
    assert report(text, replay=False).verdict is not Verdict.PROVED


def test_a_block_of_no_whole_tile_waits_for_ever() -> None:
    assert report(SYNC, block=96).verdict is Verdict.REFUTED


def test_the_second_reader_executes_the_words_themselves() -> None:
    rows = buffer(np.arange(128, dtype=np.float32))
    ended = run(SYNC, "tile_of_two_warps", Launch(block=(128, 1, 1), params=(rows, 1)), seed=3)
    assert ended.harm is None and not ended.limit
    assert ended.memory(rows)[:4].tolist() == [63, 62, 61, 60]
