"""Counts of groups of lanes become counts of lanes, where nothing else depends on the groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.frontends.ptx.flow.address_spaces import with_spaces
from syncverify.frontends.ptx.flow.warp_counts import counted_by_lane, counts_down
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run

TEXT = (Path(__file__).parents[4] / "corpus" / "ptx" / "warp_counted.good.ptx").read_text()


def rewritten(text: str) -> Function:
    return counted_by_lane(with_spaces(parse(text).entries[0]))


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def report(text: str, policy: str = "practical") -> KernelReport:
    facts = {"block": [64], "grid": [1], "params": {"0": {"ptr": "out"}}}
    (found,) = syncverify.check(text, facts=facts, policy=policy, advice=False)
    return found


def verdict(text: str) -> Verdict:
    return report(text).verdict


def test_each_lane_counts_for_itself_and_what_the_last_does_is_left_out() -> None:
    body = rewritten(TEXT).body
    assert not any(i.op in ("activemask", "match") for i in body)
    assert [i.line for i in body if counts_down(i)] == [78]


@pytest.mark.parametrize(
    "old, new",
    [
        ("\tfence.sc.cta;\n", ""),  # what lanes did before their count would not come before the invalidation
        ("atom.add.acquire.cta", "atom.add.relaxed.cta"),
        ("DONE:\n", "DONE:\n\tmbarrier.arrive.shared.b64 %rd5, [%r2];\n"),
        ("mbarrier.inval.shared.b64 \t[%r2];", "st.shared.u32 [%r14], 0; mbarrier.inval.shared.b64 [%r2];"),
        ("setp.ne.s32 \t%p7, %r26, %r24;", "setp.eq.s32 %p7, %r26, %r24;"),
        ("setp.ne.s32 \t%p7, %r26, %r24;", "setp.ne.s32 %p7, %r26, %r25;"),
        ("setp.ne.s32 \t%p6, %r23, %r22;", "setp.eq.s32 %p6, %r23, %r22;"),
        ("match.any.sync.b64 \t%r20, %rd4", "match.any.sync.b64 %r20, %rd6"),  # lanes of several values
        ("mov.u32 \t%r23, %laneid;", "mov.u32 %r23, %warpid;"),
        ("neg.s32 \t%r25, %r24;", "neg.s32 %r25, %r20;"),
        ("\tfence.sc.cta;\n", "\tfence.sc.cta; st.shared.u32 [%r14], 0;\n"),
        ("DONE:\n", "DONE:\n\tst.global.u32 [%rd7], %r24;\n"),
        ("brev.b32 \t%r21, %r20;", "brev.b32 %r21, %r20; st.global.u32 [%rd7], %r20;"),
    ],
)  # fmt: skip
def test_what_depends_on_the_groups_stays(old: str, new: str) -> None:
    body = rewritten(changed(old, new)).body
    assert sum(i.op == "activemask" for i in body) == 1
    assert not any(map(counts_down, body))


def test_a_count_below_zero_is_no_proof() -> None:
    begin = "mov.u32 \t%r12, 64;"
    assert verdict(TEXT) is Verdict.PROVED
    assert verdict(changed(begin, "mov.u32 %r12, 65;")) is Verdict.PROVED  # nobody is the last
    assert verdict(changed(begin, "mov.u32 %r12, 63;")) is not Verdict.PROVED
    assert verdict(changed(begin, "ld.global.u32 %r12, [%rd1];")) is not Verdict.PROVED


def test_strict_mode_lets_no_lane_answer_for_others() -> None:
    assert report(TEXT, "strict").verdict is Verdict.UNKNOWN
    assert "line 78: lanes that count together have done what comes before" in report(TEXT).assumptions


def test_what_was_counted_is_what_the_second_reader_counts() -> None:
    """It executes the text as it is, whatever lanes it finds together."""
    shown = changed("mbarrier.init", "st.global.u32 [%rd1+1024], %r11; mbarrier.init")
    for seed in range(8):
        out = buffer(np.zeros(512, np.uint32))
        ended = run(shown, "warp_counted", Launch(block=(64, 1, 1), params=(out,)), seed=seed)
        assert ended.harm is None, ended.harm
        assert ended.memory(out)[256] == 48


def partitions(lanes: list[int]) -> Iterator[list[list[int]]]:
    if not lanes:
        yield []
        return
    for rest in partitions(lanes[1:]):
        yield [[lanes[0]], *rest]
        for n, group in enumerate(rest):
            yield [*rest[:n], [lanes[0], *group], *rest[n + 1 :]]


@pytest.mark.parametrize("count", range(1, 7))
def test_one_group_is_the_last_if_the_count_suffices_for_single_lanes(count: int) -> None:
    """All groups of four lanes in every order: the last comes once all have counted, or there is none."""
    for groups in partitions([0, 1, 2, 3]):
        for order in permutations(groups):
            left, early, done = count, False, 0
            for group in order:
                old, left, done = left, left - len(group), done + len(group)
                early = early or (old == len(group) and done < 4)
            assert not early or count < 4
