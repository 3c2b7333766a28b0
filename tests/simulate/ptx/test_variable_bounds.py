"""Variables that stand apart: what leaves one is harm; and where arrays of dynamic memory begin."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Kind, Launch, Result, buffer, run
from tests.simulate.ptx.support import kernel

TWO = ".shared .align 16 .b8 s[128]; .shared .align 16 .b8 t[128]; mov.u32 %r4, s; mov.u32 %r6, t;"
LOCAL = ".local .align 16 .b8 s[64]; .local .align 16 .b8 t[64]; mov.u64 %rd4, s; mov.u64 %rd6, t;"
CONST = "mov.u64 %rd4, c; ld.const.u32 %r8, [d];"
PARAM = "mov.b64 %rd4, q;"
EXTERN = "mov.u32 %r4, dyn; .shared .align 16 .b8 s[128]; mov.u32 %r6, s;"
BEFORE = ".const .align 4 .b8 c[128]; .const .align 4 .b8 d[256]; .extern .shared .align 16 .b8 dyn[];"
ROW = "mad.lo.u32 %r5, %r1, 4, %r4; "
WIDE = "cvt.u64.u32 %rd5, %r5; cvta.shared.u64 %rd5, %rd5; "


def execute(body: str, seed: int, *, apart: bool) -> Result:
    text = kernel(body, ".param .u64 out, .param .align 4 .b8 q[8], .param .u32 z", before=BEFORE)
    out = buffer(np.zeros(32, np.uint32))
    return run(text, "k", Launch(params=(out, 0, 5), shared=1024, apart=apart), seed)


@pytest.mark.parametrize(
    ("body", "space"),
    [
        (TWO + ROW + "st.shared.u32 [%r5+124], %r1;", "shared"),
        (TWO + ROW + "st.shared.u32 [%r5+128], %r1;", "shared"),
        (TWO + "mad.lo.u32 %r5, %r1, 4, %r6; ld.shared.u32 %r7, [%r5-4];", "shared"),
        (TWO + "mad.lo.u32 %r5, %r1, 8, %r4;" + WIDE + "st.u32 [%rd5], %r1;", "shared"),
        (TWO + "mbarrier.init.shared.b64 [%r4+128], 1;", "shared"),
        (EXTERN + ROW.replace("%r4", "%r6") + "ld.shared.u32 %r7, [%r5+4];", "shared"),
        (EXTERN + "ld.shared.u32 %r7, [%r4-16];", "shared"),
        (LOCAL + "mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd4; st.local.u32 [%rd5], 0;", "local"),
        (CONST + "mul.wide.u32 %rd5, %r1, 8; add.u64 %rd5, %rd5, %rd4; ld.const.u32 %r9, [%rd5];", "const"),
        (PARAM + "ld.param.u32 %r6, [%rd4+8];", "param"),
    ],
)
def test_what_leaves_its_variable(body: str, space: str) -> None:
    """Only a launch that looks at it calls it harm, whatever the gaps are."""
    for seed in range(3):
        assert execute(body, seed, apart=False).harm is None
        harm = execute(body, seed, apart=True).harm
        assert harm is not None
        assert (harm.kind, harm.space) == (Kind.OUTSIDE, space)


@pytest.mark.parametrize(
    "body",
    [
        TWO + ROW + "st.shared.u32 [%r5], %r1; mad.lo.u32 %r5, %r1, 4, %r6; st.shared.u32 [%r5], 0;",
        TWO + "sub.u32 %r7, %r6, %r4; add.u32 %r4, %r4, %r7; " + ROW + "st.shared.u32 [%r5], %r1;",
        TWO + "mad.lo.u32 %r5, %r1, 4, %r6; add.u32 %r5, %r5, 4096; ld.shared.u32 %r7, [%r5-4096];",
        EXTERN + ROW + "st.shared.u32 [%r5+896], %r1; st.shared.u32 [%r6], 0;",
        EXTERN + "add.u32 %r4, %r4, 127; and.b32 %r4, %r4, -128; st.shared.u32 [%r4+512], 1;",
        LOCAL
        + "and.b32 %r2, %r1, 15; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd5, %rd5, %rd6; st.local.u32 [%rd5], 0;",
        CONST + "mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd4; ld.const.u32 %r9, [%rd5];",
        PARAM + "ld.param.u32 %r6, [%rd4+4]; ld.param.u32 %r7, [z];",
    ],
)
def test_what_stays_inside(body: str) -> None:
    for seed in range(3):
        assert execute(body, seed, apart=True).harm is None


@pytest.mark.parametrize(
    ("alignments", "places"),
    [
        ((16, 64), (16, 64)),
        ((64, 16), (64, 64)),
        ((16, 64, 32, 128), (16, 64, 64, 128)),
        ((4, 8), (16, 16)),
        ((64, 16, 64), (64, 64, 64)),
    ],
)
def test_dynamic_arrays_begin_where_ptxas_puts_them(
    alignments: tuple[int, ...], places: tuple[int, ...]
) -> None:
    """Behind four bytes of static memory, by the addresses in code of ptxas 13.0."""
    externs = "".join(f".extern .shared .align {a} .b8 e{n}[];" for n, a in enumerate(alignments))
    body = ".shared .align 4 .b8 z[4]; mov.u32 %r2, z;"
    for n in range(len(alignments)):
        body += f"mov.u32 %r3, e{n}; sub.u32 %r3, %r3, %r2; st.global.u32 [%rd1+{4 * n}], %r3;"
    out = buffer(np.zeros(8, np.uint32))
    r = run(kernel(body, before=externs), "k", Launch(block=(1, 1, 1), params=(out,), shared=64))
    assert r.harm is None and tuple(r.memory(out)[: len(places)].tolist()) == places
