"""Accesses are aligned where the declaration of their variable promises it, and only there."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Policy

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
"""
START = """mov.u32 %r0, %tid.x;
ld.param.u64 %rd1, [a];
setp.ne.u32 %p1, %r0, 0;
shl.b32 %r1, %r0, 4;
mov.u32 %r2, 0;
"""
SHARED = (".shared .align N .b8 x[1024];", "mov.u32 %r3, x; add.u32 %r3, %r3, %r1;")
ROWS = "mov.u32 %r3, x; and.b32 %r4, %r0, 7; shl.b32 %r4, %r4, 4; add.u32 %r3, %r3, %r4;"
BY_DATA = "ld.global.u32 %r5, [%rd1]; shl.b32 %r5, %r5, 4; mov.u32 %r3, x; add.u32 %r3, %r3, %r5;"
COPIED = "mul.wide.u32 %rd2, %r0, 16; add.s64 %rd1, %rd1, %rd2;"
ONE = "@%p1 bra END;"
BAR = ".shared .align 8 .b8 bar[8];"
BULK = (
    "mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; "
    "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [x], [%rd1], 64, [bar]; "
    "L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra L;"
)
LOCAL = "mov.u64 %rd2, x; mul.wide.u32 %rd3, %r0, 16; add.u64 %rd2, %rd2, %rd3;"
VALUES = "{%r0, %r0, %r0, %r0}"
#: Declarations, what comes before, the access, and the alignment that it needs.
CASES = {
    "vector of 4": (*SHARED, f"st.shared.v4.u32 [%r3], {VALUES};", 16),
    "vector of 2": (*SHARED, "st.shared.v2.u32 [%r3], {%r0, %r0};", 8),
    "word of 8 bytes": (*SHARED, "st.shared.u64 [%r3], %rd1;", 8),
    "word of 4 bytes": (*SHARED, "st.shared.u32 [%r3], %r0;", 4),
    "half a word past the beginning": (
        ".shared .align N .b8 x[1032];", SHARED[1], "st.shared.v2.u32 [%r3+8], {%r0, %r0};", 8),
    "atomic": (SHARED[0], "", "red.shared.add.u64 [x], 1;", 8),
    "generic": (SHARED[0], "mov.u64 %rd4, x; cvta.shared.u64 %rd4, %rd4;" + ONE,
                f"st.v4.u32 [%rd4], {VALUES};", 16),
    "copy of 16 bytes": (SHARED[0], SHARED[1] + COPIED,
                         "cp.async.cg.shared.global [%r3], [%rd1], 16; cp.async.wait_all;", 16),
    "copy of 4 bytes": (SHARED[0], SHARED[1] + COPIED,
                        "cp.async.ca.shared.global [%r3], [%rd1], 4; cp.async.wait_all;", 4),
    "rows": (SHARED[0], ROWS, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r3];", 16),
    "matrix": (SHARED[0], "setp.ge.u32 %p3, %r0, 32; @%p3 bra END; mov.u32 %r3, x;",
               "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 "
               "{%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}, [%r3];", 16),
    "mbarrier": (".shared .align N .b8 x[8];", ONE, "mbarrier.init.shared.b64 [x], 1;", 8),
    "bulk copy": (".shared .align N .b8 x[64];" + BAR, ONE, BULK, 16),
    "place by data": (SHARED[0], BY_DATA, "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r3];", 16),
    "local": (".local .align N .b8 x[64];", "", f"st.local.v4.u32 [x], {VALUES};", 16),
    "local by thread": (".local .align N .b8 x[1024];", LOCAL, f"st.local.v4.u32 [%rd2], {VALUES};", 16),
}  # fmt: skip


def verdict(case: str, align: int, policy: Policy = Policy.STRICT) -> tuple[str, str]:
    declared, before, access, _ = CASES[case]
    text = (
        HEAD + declared.replace("N", str(align)) + "\n" + START + before + "\n" + access + "\nEND: ret;\n}\n"
    )
    facts = {"params": {"0": {"ptr": "A", "align": 128}}, "block": [64], "grid": [1]}
    (report,) = syncverify.check(
        text, facts={"kernel": {"k": facts}}, policy=policy, replay=False, advice=False
    )
    return str(report.verdict), report.reason or ""


@pytest.mark.parametrize("case", CASES)
def test_what_is_declared_is_enough(case: str) -> None:
    assert verdict(case, CASES[case][-1])[0] == "proved"


@pytest.mark.parametrize("case", CASES)
def test_less_promises_nothing(case: str) -> None:
    found, reason = verdict(case, CASES[case][-1] // 2)
    assert found == "unknown" and f"is declared with alignment {CASES[case][-1] // 2}" in reason


@pytest.mark.parametrize("align", [4, 16])
def test_variables_in_global_memory(align: int) -> None:
    place = "mov.u64 %rd2, g; mul.wide.u32 %rd3, %r0, 16; add.u64 %rd2, %rd2, %rd3;"
    text = HEAD.replace(".visible", f".global .align {align} .b8 g[1024];\n.visible")
    text += f"{START}{place}\nst.global.v4.u32 [%rd2], {VALUES};\nret;\n}}\n"
    (report,) = syncverify.check(
        text, facts={"kernel": {"k": {"block": [64], "grid": [1]}}}, replay=False, advice=False
    )
    assert str(report.verdict) == ("proved" if align == 16 else "unknown")
