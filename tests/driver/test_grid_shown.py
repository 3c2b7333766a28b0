"""What a proof says of the grid is in every format, however much else it takes for granted."""

from __future__ import annotations

import json

from syncverify.api import check
from syncverify.base.diagnostics import Policy, Verdict
from syncverify.report import html, markdown, sarif, text
from syncverify.report import json as json_report
from syncverify.report.base import Report
from tests.frontends.ptx.execute_helpers import module_text

#: Data places atomics in shared memory, in more lines than the text shows; then a last block goes on.
BODY = """ld.param.u64 %rd1, [p]; ld.param.u64 %rd7, [x]; ld.param.u64 %rd3, [q]; ld.param.u64 %rd4, [o];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd8, %r1, 4;
add.u64 %rd8, %rd7, %rd8; ld.global.u32 %r6, [%rd8]; shl.b32 %r6, %r6, 2;
mov.u32 %r7, s; add.u32 %r7, %r7, %r6;
STORES
setp.ne.u32 %p1, %r1, 0; @%p1 bra F; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; sub.u32 %r3, %r3, 1;
mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r2; fence.acq_rel.gpu;
atom.global.relaxed.gpu.add.u32 %r4, [%rd3], 1; fence.acq_rel.gpu; setp.ne.u32 %p2, %r4, %r3; @%p2 bra F;
ld.global.u32 %r5, [%rd1]; st.global.u32 [%rd4], %r5; F: ret;"""
STORES = "\n".join(f"atom.shared.add.u32 %r9, [%r7+{4 * n}], 1;" for n in range(6))
GRID = "grid.y = 1 and grid.z = 1: the kernel asks for no place of a block along there"


def test_the_line_on_the_grid_is_in_every_format() -> None:
    made = module_text(
        BODY.replace("STORES", STORES),
        ".param .u64 p, .param .u64 q, .param .u64 o, .param .u64 x",
        outside=".shared .align 4 .b8 s[4096];",
        bounds=".reqntid 64",
    )
    (found,) = check(made, advice=False)
    assert found.verdict is Verdict.PROVED, found.reason
    assert len(found.assumptions) > 5 and GRID in found.assumptions
    report = Report(Policy.PRACTICAL, (found,))
    assert f"assumed: {GRID}" in text.render(report)
    (kernel,) = json.loads(json_report.render(report))["kernels"]
    assert GRID in kernel["assumptions"]
    (run,) = json.loads(sarif.render(report))["runs"]
    notes = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert any(GRID in note for note in notes)
    assert GRID in markdown.render(report) and GRID in html.render(report)
