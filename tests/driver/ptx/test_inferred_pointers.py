"""Pointers that the launch file leaves out, where blocks wait for each other in global memory."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict

#: Block 1 waits for the flag of block 0, and reads what it wrote.
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 scale)
{{
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
ld.param.u64 %rd1, [data];
ld.param.u64 %rd2, [flag];
mov.u32 %r1, %ctaid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra L;
st.global.u32 [%rd1], 7;
st.{store}.gpu.global.u32 [%rd2], 1;
ret;
L:
ld.acquire.gpu.global.u32 %r2, [%rd2];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra L;
ld.global.u32 %r3, [%rd1];
{more}
ret;
}}
"""
TAKEN = "param0, param1: pointers, each to memory of its own, aligned to 16 bytes"


def report(
    store: str = "release", more: str = "", params: object = None, *, infer: bool = True
) -> KernelReport:
    facts = {"block": [1], "grid": [2], "params": params or {}}
    text = KERNEL.format(store=store, more=more)
    (found,) = syncverify.check(text, facts={"kernel": {"k": facts}}, timeout=60, infer=infer, advice=False)
    return found


def test_they_lead_to_memory_of_their_own() -> None:
    found = report()
    assert found.verdict is Verdict.PROVED and TAKEN in found.assumptions


def test_a_store_that_releases_nothing_is_refuted() -> None:
    assert report("relaxed").verdict is Verdict.REFUTED


def test_without_inference_the_launch_file_has_to_say_it() -> None:
    assert report(infer=False).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("params", [{"0": {"ptr": "A"}}, {"0": {"ptr": "A"}, "2": {"ptr": "B"}}])
def test_nothing_is_added_to_pointers_that_are_given(params: object) -> None:
    found = report(params=params)
    assert found.verdict is Verdict.UNKNOWN and not any("own" in x for x in found.assumptions)


def test_an_address_that_data_makes_is_none_of_a_parameter() -> None:
    more = "ld.global.u64 %rd3, [%rd1+8]; st.global.u32 [%rd3], 1;"
    assert report(more=more).verdict is not Verdict.REFUTED


def test_one_memory_by_one_name_is_what_the_launch_file_says() -> None:
    one = {"0": {"ptr": "A"}, "1": {"ptr": "A"}, "2": {"ptr": "B"}}
    assert report(params=one).verdict is not Verdict.PROVED
