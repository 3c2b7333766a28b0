"""Each kind of harm by a pair of kernels: one does it, its twin does not."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import (
    CannotExecute,
    Kind,
    Launch,
    StepLimit,
    TensorMap,
    buffer,
    exhaust,
    first_harm,
    run,
)
from tests.simulate.ptx.support import execute, kernel

TILE = """.shared .align 128 .b8 s[4096]; .shared .align 8 .b8 bar[32];
mov.u32 %r4, s; mov.u32 %r5, bar; mad.lo.u32 %r6, %r1, 4, %r4; setp.ne.u32 %p1, %r1, 0;
"""
INIT = "@%p1 bra I; mbarrier.init.shared::cta.b64 [%r5], {n}; fence.mbarrier_init.release.cluster; I: bar.sync 0;\n"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], {p}; @!%p2 bra W;\n"
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 256, [%r5];\n"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {n};\n"
USE = "ld.shared.u32 %r9, [%r6]; add.u32 %r9, %r9, 1; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2+512], %r9;\n"
STORE = """bar.sync 0; @%p1 bra E; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 256;
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; E:\n"""
FENCE = "fence.proxy.async.shared::cta;\n"
#: Two lanes name each row with a stride of 8 bytes.
STMATRIX = """and.b32 %r7, %r1, 31; mul.lo.u32 %r7, %r7, {stride}; and.b32 %r7, %r7, 0xfffffff0;
shr.u32 %r8, %r1, 5; mad.lo.u32 %r7, %r8, 512, %r7; add.u32 %r7, %r7, %r4; mov.u32 %r9, {first};
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r7], {{%r9}};
"""


def load(expected: int = 256, init: int = 1, parity: int = 0, wait: bool = True) -> str:
    issue = "@%p1 bra C;\n" + EXPECT.format(n=expected) + LOAD + "C:\n"
    return TILE + INIT.format(n=init) + issue + (WAIT.format(p=parity) if wait else "") + USE


def harm_of(text: str, block: int = 64, seeds: int = 12, cluster: int = 1) -> Kind | None:
    out = buffer(np.arange(1024, dtype=np.uint32))
    launch = Launch((block, 1, 1), (cluster, 1, 1), (cluster, 1, 1), params=(out,))
    found = first_harm(kernel(text), "k", launch, range(seeds), limit=50_000)
    return None if found is None else found.kind


PAIRS = {
    "race": (
        TILE + "st.shared.u32 [%r6], %r1; xor.b32 %r7, %r6, 128; ld.shared.u32 %r9, [%r7];",
        TILE + "st.shared.u32 [%r6], %r1; bar.sync 0; xor.b32 %r7, %r6, 128; ld.shared.u32 %r9, [%r7];",
        Kind.RACE,
    ),
    "different values by one store": (
        TILE + "setp.gt.u32 %p3, %r1, 31; @%p3 bra E; st.shared.u32 [%r4], %r1; E:",
        TILE + "setp.gt.u32 %p3, %r1, 31; @%p3 bra E; st.shared.u32 [%r4], 5; E:",
        Kind.RACE,
    ),
    "different values by one store, weak or strong": (
        TILE + "setp.gt.u32 %p3, %r1, 31; @%p3 bra E; st.weak.shared.u32 [%r4], %r1; E:",
        TILE + "setp.gt.u32 %p3, %r1, 31; @%p3 bra E; st.volatile.shared.u32 [%r4], %r1; E:",
        Kind.RACE,
    ),
    "copy not waited for": (load(wait=False), load(), Kind.RACE),
    "more bytes expected": (load(expected=272), load(), Kind.HANG),
    "wrong parity": (load(parity=1), load(), Kind.RACE),
    "one arrival short": (load(init=2), load(), Kind.HANG),
    "no proxy fence": (TILE + "st.shared.u32 [%r6], %r1;" + STORE, TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE, Kind.STALE),
    "fence before the last store": (
        TILE + FENCE + "st.shared.u32 [%r6], %r1;" + STORE,
        TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE,
        Kind.STALE,
    ),
    "fence of the other space": (
        TILE + "st.shared.u32 [%r6], %r1; fence.proxy.async.global;" + STORE,
        TILE + "st.shared.u32 [%r6], %r1; fence.proxy.async;" + STORE,
        Kind.STALE,
    ),
    "exit while a store reads": (
        TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE.replace("cp.async.bulk.wait_group.read 0;", ""),
        TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE,
        Kind.UNDEFINED,
    ),
    "source overwritten": (
        TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE.replace("wait_group.read 0", "wait_group.read 1") + "bar.sync 0; st.shared.u32 [%r6], 7;",
        TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE + "bar.sync 0; st.shared.u32 [%r6], 7;",
        Kind.RACE,
    ),
    "barrier used before its init is known": (
        TILE + "@%p1 bra I; mbarrier.init.shared::cta.b64 [%r5], 64; I: mbarrier.arrive.shared::cta.b64 _, [%r5];",
        TILE + INIT.format(n=64) + "mbarrier.arrive.shared::cta.b64 _, [%r5];",
        None,
    ),
    "too many arrivals": (
        TILE + INIT.format(n=40) + "mbarrier.arrive.shared::cta.b64 %rd9, [%r5]; mbarrier.arrive.shared::cta.b64 _, [%r5], 41;",
        TILE + INIT.format(n=64) + "mbarrier.arrive.shared::cta.b64 _, [%r5];",
        Kind.UNDEFINED,
    ),
    "plain store to a live barrier": (
        TILE + INIT.format(n=1) + "@%p1 bra E; st.shared.u32 [%r5], 0; E:",
        TILE + INIT.format(n=1) + "@%p1 bra E; st.shared.u32 [%r5+8], 0; E:",
        Kind.UNDEFINED,
    ),
    "second init": (
        TILE + INIT.format(n=1) + "@%p1 bra E; mbarrier.init.shared::cta.b64 [%r5], 1; E:",
        TILE + INIT.format(n=1) + "@%p1 bra E; mbarrier.inval.shared::cta.b64 [%r5]; mbarrier.init.shared::cta.b64 [%r5], 1; E:",
        Kind.UNDEFINED,
    ),
    "named barrier of two counts": (
        TILE + "setp.lt.u32 %p3, %r1, 32; @%p3 bar.sync 1, 64; @!%p3 bar.sync 1, 32;",
        TILE + "setp.lt.u32 %p3, %r1, 32; @%p3 bar.sync 1, 64; @!%p3 bar.sync 1, 64;",
        None,
    ),
    "count that includes a warp that left": (
        TILE + "setp.gt.u32 %p3, %r1, 31; @%p3 ret; bar.sync 1, 64;",
        TILE + "setp.gt.u32 %p3, %r1, 31; @%p3 ret; bar.sync 0;",
        Kind.HANG,
    ),
    "cp.async read too early": (
        TILE + "mad.wide.u32 %rd2, %r1, 4, %rd1; cp.async.ca.shared.global [%r6], [%rd2], 4; ld.shared.u32 %r9, [%r6];",
        TILE + "mad.wide.u32 %rd2, %r1, 4, %rd1; cp.async.ca.shared.global [%r6], [%rd2], 4; cp.async.wait_all; ld.shared.u32 %r9, [%r6];",
        Kind.RACE,
    ),
    "lanes of one cp.async at one place": (
        TILE + """setp.gt.u32 %p3, %r1, 31; @%p3 ret; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1;
        cp.async.ca.shared.global [%r4], [%rd2], 4;""",
        TILE + """setp.gt.u32 %p3, %r1, 31; @%p3 ret; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], 7;
        cp.async.ca.shared.global [%r4], [%rd2], 4;""",
        Kind.RACE,
    ),
    "flag without a release": (
        TILE + """@%p1 bra R; st.shared.u32 [%r4], 7; st.relaxed.cta.shared.u32 [%r4+64], 1; bra E;
        R: setp.ne.u32 %p3, %r1, 32; @%p3 bra E; S: ld.acquire.cta.shared.u32 %r9, [%r4+64]; setp.ne.u32 %p4, %r9, 1;
        @%p4 bra S; ld.shared.u32 %r9, [%r4]; E:""",
        TILE + """@%p1 bra Z; st.shared.u32 [%r4+64], 0; Z: bar.sync 0; @%p1 bra R; st.shared.u32 [%r4], 7;
        st.release.cta.shared.u32 [%r4+64], 1; bra E;
        R: setp.ne.u32 %p3, %r1, 32; @%p3 bra E; S: ld.acquire.cta.shared.u32 %r9, [%r4+64]; setp.ne.u32 %p4, %r9, 1;
        @%p4 bra S; ld.shared.u32 %r9, [%r4]; E:""",
        Kind.RACE,
    ),
    "rows of one stmatrix": (
        TILE + STMATRIX.format(stride=8, first="%r1"),
        TILE + STMATRIX.format(stride=16, first="%r1"),
        Kind.RACE,
    ),
    "rows of one stmatrix with other values": (
        TILE + STMATRIX.format(stride=8, first="%r1"),
        TILE + STMATRIX.format(stride=8, first="5"),
        Kind.RACE,
    ),
    "trap": (TILE + "@!%p1 trap;", TILE + "setp.gt.u32 %p3, %r1, 99; @%p3 trap;", Kind.TRAP),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_harm_and_twin(name: str) -> None:
    bad, good, kind = PAIRS[name]
    found = harm_of(bad)
    assert found is not None and (kind is None or found is kind)
    assert harm_of(good) is None


MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
REMOTE = (
    TILE
    + MEET
    + """mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, %r6, %r21;
st.shared::cluster.u32 [%r22], %r1; {meet} ld.shared.u32 %r9, [%r6];
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
)


def test_clusters_order_by_their_barrier() -> None:
    good = REMOTE.format(meet="barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")
    assert harm_of(good, cluster=2) is None
    relaxed = REMOTE.format(
        meet="barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    )
    assert harm_of(relaxed, cluster=2) is Kind.RACE
    assert harm_of(REMOTE.format(meet="bar.sync 0;"), cluster=2) is Kind.RACE


@pytest.mark.parametrize(("fence", "harm"), [("", Kind.RACE), ("fence.acq_rel.cta;", Kind.RACE),
                                             ("fence.acq_rel.cluster;", None), ("fence.acq_rel.gpu;", None)])  # fmt: skip
def test_fences_before_relaxed_arrivals_have_scopes(fence: str, harm: Kind | None) -> None:
    meet = fence + "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    assert harm_of(REMOTE.format(meet=meet), cluster=2) is harm


def test_a_narrow_fence_orders_threads_of_its_block() -> None:
    meet = "fence.acq_rel.cta; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    own = "st.shared.u32 [%r6], %r1;" + meet + "xor.b32 %r7, %r6, 128; ld.shared.u32 %r9, [%r7];"
    assert harm_of(TILE + own, cluster=2) is None


def test_a_block_that_may_not_run_yet_is_no_destination() -> None:
    good = REMOTE.format(meet=MEET)
    assert harm_of(good, cluster=2) is None
    assert harm_of(good.replace(MEET, "", 1), cluster=2) is Kind.UNDEFINED


def test_an_address_in_a_block_that_the_cluster_lacks_harms_where_it_is_used() -> None:
    good = REMOTE.format(meet=MEET)
    far = "mov.u32 %r21, 5; mapa.shared::cluster.u32 %r22, %r6, %r21; {use}"
    unused = good.replace(
        "mov.u32 %r20, %cluster_ctarank;", far.format(use="mov.u32 %r20, %cluster_ctarank;"), 1
    )
    assert harm_of(unused, cluster=2) is None
    assert harm_of(good.replace("xor.b32 %r21, %r20, 1;", "mov.u32 %r21, 5;", 1), cluster=2) is Kind.UNDEFINED


@pytest.mark.parametrize(
    ("arrival", "wait", "harm"),
    [
        (".release.cluster", ".acquire.cluster", None),
        (".release.cta", ".acquire.cluster", Kind.RACE),
        (".release.cluster", ".acquire.cta", Kind.RACE),
        ("", "", Kind.RACE),
    ],
)
def test_arrivals_of_other_blocks_have_scopes(arrival: str, wait: str, harm: Kind | None) -> None:
    text = f"""{TILE}{INIT.format(n=64)}{MEET}
    mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, %r6, %r21;
    mapa.shared::cluster.u32 %r23, %r5, %r21; st.shared::cluster.u32 [%r22], %r1;
    mbarrier.arrive{arrival}.shared::cluster.b64 _, [%r23];
    {WAIT.format(p=0).replace("parity", "parity" + wait)} ld.shared.u32 %r9, [%r6]; {MEET}"""
    assert harm_of(text, cluster=2) is harm


PUSH = f"""{TILE}{INIT.format(n=1)} st.shared.u32 [%r6], %r1; {FENCE} {MEET}
@%p1 bra C; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256;
mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; add.u32 %r22, %r4, 1024;
mapa.shared::cluster.u32 %r22, %r22, %r21; mapa.shared::cluster.u32 %r23, %r5, %r21;
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r22], [%r4], 256, [%r23];
C: {WAIT.format(p=0)} ld.shared.u32 %r9, [%r6+1024];"""


def test_a_block_stays_until_its_copies_have_read() -> None:
    assert harm_of(PUSH + MEET, cluster=2) is None
    assert harm_of(PUSH, cluster=2) is Kind.UNDEFINED


def test_registers_come_back_by_dec_alone() -> None:
    text = """setp.lt.u32 %p1, %r1, 128; @%p1 bra D; setmaxnreg.inc.sync.aligned.u32 216; bra E;
    D: setmaxnreg.dec.sync.aligned.u32 40; E:"""
    launch = Launch((256, 1, 1), params=(buffer(np.zeros(8, np.uint32)),), registers=128)
    assert first_harm(kernel(text), "k", launch, range(6)) is None
    found = first_harm(kernel(text.replace("216", "224")), "k", launch, range(6))
    assert found is not None and found.kind is Kind.HANG


def test_a_block_that_has_left_is_no_destination() -> None:
    text = REMOTE.format(meet="").rpartition(MEET)[0]
    assert harm_of(text.replace("ld.shared.u32 %r9, [%r6];", ""), cluster=2) in (Kind.UNDEFINED, None)
    found = [harm_of(text.replace("ld.shared.u32 %r9, [%r6];", ""), cluster=2, seeds=n) for n in (30,)]
    assert Kind.UNDEFINED in found


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_tensor_copies_bring_boxes(swizzle: int) -> None:
    """A box that reaches beyond two edges, read back through the swizzle."""
    inner = (swizzle or 64) // 4
    data = np.arange(20 * 24, dtype=np.float32).reshape(20, 24) + 1
    source, out = buffer(data), buffer(np.zeros(16 * inner, np.float32))
    tensor = TensorMap(source, (24, 20), (96,), (inner, 16), "f32", swizzle)
    body = f"""{TILE}{INIT.format(n=1)}
    @%p1 bra C; mov.b64 %rd5, t; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {64 * inner};
    cvta.param.u64 %rd5, %rd5;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd5, {{-2, 8}}], [%r5];
    C: {WAIT.format(p=0)}
    L: mad.lo.u32 %r6, %r1, 4, %r4; ld.shared.u32 %r9, [%r6]; mad.wide.u32 %rd2, %r1, 4, %rd1;
    st.global.u32 [%rd2], %r9; add.u32 %r1, %r1, 32; setp.lt.u32 %p3, %r1, {16 * inner}; @%p3 bra L;"""
    r = execute(body, out, tensor, params=", .param .align 64 .b8 t[128]")
    assert r.harm is None, r.harm
    bytes_ = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    for row in range(16):
        for column in range(inner):
            at = 1024 + (row * inner + column) * 4
            at ^= (at >> 7 & bytes_) << 4
            y, x = row + 8, column - 2
            wanted = data[y, x] if y < 20 and 0 <= x < 24 else 0
            assert r.memory(out)[(at - 1024) // 4] == wanted, (row, column)


STRIDED = """{tile}{init}
    @%p1 bra C; mov.b64 %rd5, t; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {bytes};
    cvta.param.u64 %rd5, %rd5;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd5, {{{x}, {y}}}], [%r5];
    C: {wait}
    L: mad.lo.u32 %r6, %r1, 4, %r4; ld.shared.u32 %r9, [%r6]; mad.wide.u32 %rd2, %r1, 4, %rd1;
    st.global.u32 [%rd2], %r9; add.u32 %r1, %r1, 32; setp.lt.u32 %p3, %r1, {words}; @%p3 bra L;"""


@pytest.mark.parametrize(
    ("steps", "side"), [((1, 2), 8), ((1, 3), 8), ((4, 2), 7), ((1, 8), 16), ((3, 1), 8)]
)
def test_element_strides_leave_lines_out(steps: tuple[int, int], side: int) -> None:
    """ceil(side / stride) lines; the innermost stride counts for nothing (cuTensorMapEncodeTiled)."""
    data = np.arange(20 * 24, dtype=np.float32).reshape(20, 24) + 1
    lines = [data[y, 4:12] if y < 20 else np.zeros(8) for y in range(9, 9 + side, steps[1])]
    source, out = buffer(data), buffer(np.zeros(8 * max(len(lines), 4), np.float32))
    tensor = TensorMap(source, (24, 20), (96,), (8, side), "f32", 0, steps)
    given = {"tile": TILE, "init": INIT.format(n=1), "wait": WAIT.format(p=0), "x": 4, "y": 9}
    body = STRIDED.format(**given, bytes=32 * len(lines), words=8 * len(lines))
    r = execute(body, out, tensor, params=", .param .align 64 .b8 t[128]")
    assert r.harm is None, r.harm
    assert np.array_equal(r.memory(out).reshape(-1, 8)[: len(lines)], np.stack(lines))
    if steps[1] > 1:  # the full box never comes
        body = STRIDED.format(**given, bytes=32 * side, words=8)
        text = kernel(body, ".param .u64 out, .param .align 64 .b8 t[128]")
        found = first_harm(text, "k", Launch((32, 1, 1), params=(out, tensor)), range(4))
        assert found is not None and found.kind is Kind.HANG


@pytest.mark.parametrize("steps", [(1, 0), (1, 9), (9, 1)])
def test_element_strides_are_1_to_8(steps: tuple[int, int]) -> None:
    source, out = buffer(np.zeros((20, 24), np.float32)), buffer(np.zeros(64, np.float32))
    tensor = TensorMap(source, (24, 20), (96,), (8, 8), "f32", 0, steps)
    given = {"tile": TILE, "init": INIT.format(n=1), "wait": WAIT.format(p=0), "x": 0, "y": 0}
    text = kernel(STRIDED.format(**given, bytes=256, words=8), ".param .u64 out, .param .align 64 .b8 t[128]")
    found = first_harm(text, "k", Launch((32, 1, 1), params=(out, tensor)), range(2))
    assert found is not None and found.kind is Kind.UNDEFINED and "element stride" in found.detail


def test_bulk_reductions_add() -> None:
    out = buffer(np.full(64, 10, np.uint32))
    text = TILE + "st.shared.u32 [%r6], %r1;" + FENCE + STORE.replace(
        "cp.async.bulk.global.shared::cta.bulk_group", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    )  # fmt: skip
    r = execute(text, out, block=64)
    assert r.harm is None and (r.memory(out) == 10 + np.arange(64)).all()


def test_every_order_of_a_small_kernel_is_tried() -> None:
    text = kernel("setp.ge.u32 %p1, %r1, 32; @%p1 bra S; atom.global.exch.b32 %r9, [%rd1], 1; bra E;\n"
                  "S: atom.global.exch.b32 %r9, [%rd1], 2; E:")  # fmt: skip
    out = buffer(np.zeros(1, np.uint32))
    ends = {int(r.memory(out)[0]) for r in exhaust(text, "k", Launch((64, 1, 1), params=(out,)))}
    assert ends == {1, 2}


def test_directed_schedules_follow_their_steps() -> None:
    text = kernel("setp.ge.u32 %p1, %r1, 32;\n@%p1 bra S;\natom.global.exch.b32 %r9, [%rd1], 1;\nbra E;\n"
                  "S: atom.global.exch.b32 %r9, [%rd1], 2; E:")  # fmt: skip
    lines = text.splitlines()
    first, second = (next(i for i, x in enumerate(lines, 1) if f"[%rd1], {n}" in x) for n in (1, 2))
    for steps, wanted in (
        ([("b0.w0", first), ("b0.w1", second)], 2),
        ([("b0.w1", second), ("b0.w0", first)], 1),
    ):
        out = buffer(np.zeros(1, np.uint32))
        r = run(text, "k", Launch((64, 1, 1), params=(out,)), schedule="directed", steps=steps)
        assert r.missed == [] and r.memory(out)[0] == wanted


def test_what_is_not_known_is_an_error_when_it_is_reached() -> None:
    out = buffer(np.zeros(4, np.uint32))
    with pytest.raises(CannotExecute, match=r"line \d+, mapa"):
        execute("mapa.u32 %r3, %r1, 0;", out)
    with pytest.raises(CannotExecute, match="shraed"):
        execute("st.shraed.u32 [%r1], %r1;", out)
    assert execute("bra E; st.shraed.u32 [%r1], %r1; E:", out).harm is None


def test_endless_loops_say_nothing() -> None:
    out = buffer(np.zeros(4, np.uint32))
    with pytest.raises(StepLimit):
        for r in exhaust(
            kernel("L: add.u32 %r3, %r3, 1; bra L;"), "k", Launch(params=(out,)), most=1, limit=1000
        ):
            assert r.limit
            raise StepLimit


#: A poll that counts its turns, and so never turns in a circle.
COUNTED = (
    TILE
    + INIT.format(n=64)
    + """bra.uni START; W: add.u32 %r9, %r9, 1; START:
{before} mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0; @!%p2 bra W;
"""
)
ARRIVE = "setp.ne.u32 %p3, %r9, 0; @!%p3 mbarrier.arrive.shared::cta.b64 _, [%r5];"


@pytest.mark.parametrize(
    ("before", "ends", "stuck"),
    [
        ("", False, True),
        (ARRIVE, True, False),
        ("@%p1 mbarrier.arrive.shared::cta.b64 _, [%r5]; L: add.u32 %r3, %r3, 1; bra L;", False, False),
        ("@!%p1 st.volatile.shared.u32 [%r4], %r9;", False, False),
    ],
    ids=["nobody comes", "all come", "one computes for ever", "one stores for ever"],
)
def test_who_only_asks_for_long_waits_for_ever(before: str, ends: bool, stuck: bool) -> None:
    out = buffer(np.zeros(4, np.uint32))
    text = kernel("mov.u32 %r9, 0;" + COUNTED.format(before=before))
    r = run(text, "k", Launch((64, 1, 1), params=(out,)), limit=8000)
    assert (r.harm, r.limit) == (None, not ends)
    assert (r.still is not None and r.still.kind is Kind.HANG) == stuck


REFILL = (
    TILE
    + """@%p1 bra I; mbarrier.init.shared::cta.b64 [%r5], 1; mbarrier.init.shared::cta.b64 [%r5+8], 64; I: bar.sync 0;
@%p1 bra C; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256; {load}
C: W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0; @!%p2 bra W;
mad.wide.u32 %rd2, %r1, 4, %rd1; ld.shared.u32 %r9, [%r6]; {before}
mbarrier.arrive.shared::cta.b64 _, [%r5+8]; @%p1 bra D;
V: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5+8], 0; @!%p2 bra V;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256; {load}
D: st.global.u32 [%rd2+1024], %r9;
X: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 1; @!%p2 bra X;"""
)


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ("", Kind.STALE),
        ("add.u32 %r9, %r9, 1;", Kind.STALE),
        ("shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;", Kind.STALE),
        ("st.global.u32 [%rd2+2048], %r9;", None),
        ("add.u32 %r10, %r9, 1; st.global.u32 [%rd2+2048], %r10;", None),
        ("setp.eq.u32 %p5, %r9, 5; @%p5 st.global.u32 [%rd2+2048], %r1;", None),
        ("fence.acq_rel.cta;", None),
        ("fence.proxy.async.shared::cta;", None),
        ("mov.u32 %r9, 4;", None),
    ],
)
def test_loads_that_have_not_arrived_before_a_refill(before: str, kind: Kind | None) -> None:
    text = REFILL.replace("{load}", LOAD.strip()).replace("{before}", before)
    assert harm_of(text) is kind


def test_warps_may_write_one_value_in_any_order() -> None:
    assert harm_of(TILE + "st.shared.u32 [%r4], 5;") is None
    assert harm_of(TILE + "shr.u32 %r9, %r1, 5; st.shared.u32 [%r4], %r9;") is Kind.RACE


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("ld.global.nc.u32 %r3, [%rd1];", ""),
        ("st.global.u32 [%rd1+64], %r1; ld.global.nc.u32 %r3, [%rd1];", ""),
        ("st.global.u32 [%rd1], %r1; ld.global.nc.u32 %r3, [%rd1];", "ld.global.nc"),
        ("discard.global.L2 [%rd1], 128; st.global.u32 [%rd1], 5; ld.global.u32 %r3, [%rd1];", ""),
        ("st.global.u32 [%rd1], 5;\ndiscard.L2 [%rd1], 128;\nld.global.u32 %r3, [%rd1];", "discard"),
    ],
)
def test_loads_that_do_not_bring_what_was_written(text: str, section: str) -> None:
    found = execute(
        f"setp.ne.u32 %p1, %r1, 0;\n@%p1 bra E;\n{text}\nE:", buffer(np.zeros(64, np.uint32))
    ).harm
    assert ("" if found is None else found.section) == section
