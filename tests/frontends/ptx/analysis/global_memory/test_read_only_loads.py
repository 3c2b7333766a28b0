"""Loads by ``ld.global.nc``: of what the kernel writes, of what it may write, and others."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import Origins
from syncverify.frontends.ptx.analysis.global_memory.read_only_loads import loads_anywhere, written_load
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
"""


@pytest.mark.parametrize(
    ("body", "written", "anywhere"),
    [
        ("ld.global.nc.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1;", False, False),
        ("ld.global.nc.u32 %r1, [%rd1]; st.global.u32 [%rd1+64], %r1;", True, False),
        ("ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;", False, False),
        ("ld.global.nc.u32 %r1, [%rd1]; red.global.add.u32 [%rd1], 1;", True, False),
        ("ld.global.nc.u32 %r1, [%rd1]; st.u32 [%rd1], %r1;", True, False),
        ("ld.global.nc.u32 %r1, [%rd1]; discard.global.L2 [%rd1], 128;", True, False),
        ("ld.global.nc.u32 %r1, [%rd1]; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;", True,
         False),
        ("ld.global.u64 %rd3, [%rd1]; ld.global.nc.u32 %r1, [%rd3]; st.global.u32 [%rd2], %r1;", False, True),
        ("ld.global.u64 %rd3, [%rd1]; ld.global.nc.u32 %r1, [%rd3];", False, False),
        ("ret; ld.global.nc.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;", False, False),
    ],
)  # fmt: skip
def test_what_nc_reads(body: str, written: bool, anywhere: bool) -> None:
    flow = Flow(parse(HEAD + body + "ret; }").entries[0])
    origins = Origins(flow, True)
    assert (written_load(flow, origins) is not None) == written
    assert bool(loads_anywhere(flow, origins)) == anywhere
