"""Kernels that hand data over through global memory: launch facts, and what a report says of them."""

from __future__ import annotations

from typing import Any

PARAMS = ".param .u64 k_out, .param .u64 k_flag, .param .u32 k_n"
FACTS = """
[kernel.k]
grid = [{grid}]
block = [32]
[kernel.k.params]
0 = {{ptr = "out"}}
1 = {{ptr = "flag"}}
2 = {{i32 = 3}}
"""

#: One lane edits the map at ``%r4`` in shared memory.
EDITED = """    mad.lo.u32 %r9, %r2, 4, %r4;
    st.shared.b32 [%r9], 0;
    bar.warp.sync -1;
    @%p1 bra EDITED;
    tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r4], 0;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r4], 0, 256;
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r4], 7;
    EDITED:
    bar.warp.sync -1;
"""


def first(report: dict[str, Any]) -> tuple[str, int]:
    """Rule and line of the first error."""
    assert report["verdict"] == "refuted", report.get("reason")
    d = next(d for d in report["diagnostics"] if d["severity"] == "error")
    return d["rule"], d["line"]


def line(text: str, what: str) -> int:
    return next(n for n, x in enumerate(text.splitlines(), 1) if what in x)


def edits(place: str, before: str, after: str) -> str:
    """A loop in whose turns ``%r7`` the map at ``[%rd1]`` is edited, published and stored through.

    ``place``: makes ``%rd1``; ``before``, ``after``: the ends of a turn.
    """
    return f"""
    .shared .align 128 .b8 desc[128];
    .shared .align 128 .b8 tile[1024];
{place}
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r4, desc;
    mov.u32 %r5, tile;
    mov.u32 %r7, 0;
    LOOP:
{before}
{EDITED}
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r4], 128;
    @%p1 bra NEXT;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {{%r7}}], [%r5];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    NEXT:
    bar.warp.sync -1;
    add.u32 %r7, %r7, 1;
{after}
"""
