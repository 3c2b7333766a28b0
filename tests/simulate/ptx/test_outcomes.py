"""Executions of one launch that end with different memory, where lanes of a warp part."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Launch, buffer
from syncverify.simulate.ptx.confirm import Limits
from syncverify.simulate.ptx.outcomes import differing_outcome
from syncverify.simulate.ptx.syntax import parse

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b32 %r<9>; .reg .b64 %d<3>;
.shared .b32 s[32];
ld.param.u64 %d1, [out];
mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3; xor.b32 %r4, %r3, 4;
st.volatile.shared.u32 [%r3], 0;
bar.warp.sync -1;
{store}
{between}
{load}
st.global.u32 [%d1], %r5;
ret;
}}
"""
STORE, LOAD = "st.volatile.shared.u32 [%r3], %r1;", "ld.volatile.shared.u32 %r5, [%r4];"


def outcome(between: str = "", store: str = STORE) -> tuple[str, str]:
    module = parse(KERNEL.format(store=store, between=between, load=LOAD))
    lines = frozenset(i.line for i in module.functions[0].body if i.op in ("ld", "st") and "shared" in i.mods)

    def draw(_: int) -> Launch:
        return Launch(block=(32, 1, 1), grid=(1, 1, 1), params=[buffer(np.zeros(32, np.uint32))])

    return differing_outcome(module, "k", draw, Limits(50_000, 10_000, 0), lines)


def test_lanes_that_part_read_what_was_there_before() -> None:
    found, why = outcome()
    assert "in one execution" in found and not why


def test_lanes_that_meet_before_they_read_end_alike() -> None:
    assert outcome("bar.warp.sync -1;") == ("", "39 executions end alike")


@pytest.mark.parametrize("store", ["atom.shared.add.u32 %r6, [%r3], %r1;", "mov.u32 %r6, %clock; " + STORE])
def test_what_differs_by_itself_shows_nothing(store: str) -> None:
    found, why = outcome(store=store)
    assert not found and "by itself" in why
