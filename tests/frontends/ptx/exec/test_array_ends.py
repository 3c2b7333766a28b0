"""Copies, rows of matrices and mbarriers at known places that leave their shared array for the next one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from syncverify.simulate.ptx import AnyMap, Kind, Launch, buffer, run
from tests.frontends.ptx.execute_helpers import module_text

FACTS = """
[kernel.k]
grid = [{grid}]
block = [{block}]
cluster = [{grid}]
dynamic_smem = 4096
[kernel.k.params]
0 = 'ptr'
1 = {{ tensormap = 'm', dtype = 'f32', box = [32, 4] }}
"""
PARAMS = ".param .u64 k_p, .param .align 64 .b8 k_m[128]"
#: ``one``, ``two`` and ``bar`` lie behind each other. Each body reaches ``one`` from the byte AT on.
ARRAYS = """
    .shared .align 1024 .b8 one[{bytes}]; .shared .align 1024 .b8 two[1024]; .shared .align 16 .b8 bar[16];
    mov.u32 %r2, one; mov.u32 %r3, two; mov.u32 %r4, bar;
"""
ONE = "mov.u32 %r2, all; add.u32 %r3, %r2, 1024; add.u32 %r4, %r2, 2048;"
BEHIND = """
    .shared .align 1024 .b8 one[1024]; .shared .align 16 .b8 bar[16];
    mov.u32 %r2, one; mov.u32 %r3, all; mov.u32 %r4, bar;
"""
PLACES = """
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0; mad.lo.u32 %r5, %r1, 16, %r2;
    ld.param.u64 %rd1, [k_p]; mov.b64 %rd2, k_m; cvta.param.u64 %rd2, %rd2;
"""
INIT = "@%p1 bra DONE; mbarrier.init.shared.b64 [%r4], 1; fence.proxy.async; "
WAIT = """
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra WAIT;
DONE: ret;
"""
EXPECT = INIT + "mbarrier.arrive.expect_tx.shared.b64 %state, [%r4], {size}; "
LOADS = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
BOX = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
COMMIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: ret;"
PEER = """
    mov.u32 %r6, %cluster_ctarank; xor.b32 %r6, %r6, 1;
    mapa.shared::cluster.u32 %r7, %r3, %r6; mapa.shared::cluster.u32 %r8, %r4, %r6;
    @%p1 bra MEET; mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 %state, [%r4], 64;
MEET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 bra WAIT;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r2+AT], 64, [%r8];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra WAIT;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "
#: Lane 0 does something at byte AT of its peer's ``one``, whose barrier expects so many bytes.
REMOTE = """
    mov.u32 %r6, %cluster_ctarank; xor.b32 %r6, %r6, 1;
    mapa.shared::cluster.u32 %r7, %r2, %r6; mapa.shared::cluster.u32 %r8, %r4, %r6;
    @%p1 bra MEET; mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 %state, [%r4], {size};
MEET: {meet} @%p1 bra WAIT; {what}
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra WAIT; {meet} ret;
"""
SENDS = "shared::cluster.mbarrier::complete_tx::bytes"


def remote(what: str, size: int = 0) -> str:
    return REMOTE.format(what=what, size=size, meet=MEET)


#: A descriptor of an operand in ``one`` of 256 bytes: 8 rows, which are those of all groups of 8 rows.
PRODUCT = """
    mov.u32 %r6, one; add.u32 %r6, %r6, AT; shr.u32 %r6, %r6, 4; cvt.u64.u32 %rd3, %r6;
    or.b64 %rd3, %rd3, 0x80000; shr.u32 %r7, %r3, 4; cvt.u64.u32 %rd4, %r7;
    or.b64 %rd4, %rd4, 0x80000; wgmma.fence.sync.aligned; {run}
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret;
"""
TIMES = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, {a}, {b}, {adds}, 1, 1, 0, 0; "
)
NEXT_PRODUCT = "add.u64 %rd5, %rd3, 16; " + TIMES.format(a="%rd4", b="%rd5", adds=1)
MATRIX = "{%r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15}"
CASES = {
    "bulk load": (EXPECT.format(size=64) + LOADS + "[%r2+AT], [%rd1], 64, [%r4];" + WAIT, 960, (976, 1024)),
    "bulk store": (
        "@%p1 bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2+AT], 64; " + COMMIT,
        960,
        (1008, 1024),
    ),
    "bulk copy": (PEER, 960, (976,)),
    "bulk copy to a peer": (
        remote(f"cp.async.bulk.{SENDS.replace('.', '.shared::cta.')} [%r7+AT], [%r3], 64, [%r8];", 64),
        960,
        (976,),
    ),
    "st.async": (remote(f"st.async.{SENDS}.b64 [%r7+AT], %rd1, [%r8];", 8), 1016, (1024,)),
    "red.async": (
        remote(f"red.async.relaxed.cluster.{SENDS}.add.u32 [%r7+AT], %r1, [%r8];", 4),
        1020,
        (1024,),
    ),
    "store to a peer": (remote("st.shared::cluster.v2.u32 [%r7+AT], {%r1, %r1};"), 1016, (1024,)),
    "atomic at a peer": (
        remote(
            "cvt.u64.u32 %rd3, %r2; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd3, %rd3, %r6;"
            "atom.add.u32 %r9, [%rd3+AT], 1;"
        ),
        1020,
        (1024,),
    ),
    "arrival at a peer": (
        remote(
            "mapa.shared::cluster.u32 %r7, %r3, %r6;"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7+AT];"
        ).replace("@%p1 bra MEET;", "@%p1 bra MEET; mbarrier.init.shared.b64 [%r3], 1;"),
        0,
        (1024,),
    ),
    "edit of a map": (
        "@%p1 bra DONE; tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r2+AT], %rd1; "
        "DONE: ret;",
        896,
        (1024,),
    ),
    "copy of a map": (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
        " [%rd1], [%r2+AT], 128; ret;",
        896,
        (1024,),
    ),
    "wmma load": (
        f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {MATRIX}, [%r2+AT], 16; ret;",
        512,
        (544, 1024),
    ),
    "wmma store": (
        "wmma.store.d.sync.aligned.col.m16n16k16.shared.f16 [%r2+AT], {%r1, %r1, %r1, %r1}, 32; ret;",
        32,
        (64, 1024),
    ),
    "B of a product": (PRODUCT.format(run=TIMES.format(a="%rd4", b="%rd3", adds=0)), 768, (896, 1024)),
    "A of a product": (PRODUCT.format(run=TIMES.format(a="%rd3", b="%rd4", adds=0)), 768, (896, 1024)),
    "two products": (
        PRODUCT.format(run=TIMES.format(a="%rd4", b="%rd3", adds=0) + NEXT_PRODUCT),
        512,
        (640,),
    ),
    "tensor load": (
        EXPECT.format(size=512) + BOX + "[%r2+AT], [%rd2, {%r1, %r1}], [%r4];" + WAIT,
        512,
        (640, 1024),
    ),
    "tensor store": (
        "@%p1 bra DONE; cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
        " [%rd2, {%r1, %r1}], [%r2+AT]; " + COMMIT,
        512,
        (640, 1024),
    ),
    "cp.async": ("cp.async.ca.shared.global [%r5+AT], [%rd1], 16; cp.async.wait_all; ret;", 512, (528, 1024)),
    "ldmatrix": (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r5+AT]; ret;",
        512,
        (528, 1024),
    ),
    "stmatrix": (
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5+AT], {%r1, %r1, %r1, %r1}; ret;",
        512,
        (528, 1024),
    ),
    "init": ("@%p1 bra DONE; mbarrier.init.shared.b64 [%r2+AT], 1; DONE: ret;", 1016, (1024,)),
    "arrival": (
        INIT.replace("[%r4]", "[%r3]") + "mbarrier.arrive.shared.b64 %state, [%r2+AT]; DONE: ret;",
        None,
        (1024,),
    ),
    "barrier of a copy": (
        EXPECT.format(size=64) + LOADS + "[%r2], [%rd1], 64, [%r3+AT];" + WAIT,
        None,
        (1024,),
    ),
}
ROWS = [(name, at, "proved") for name, (_, at, _) in CASES.items() if at is not None]
ROWS += [(name, at, "refuted") for name, (_, _, some) in CASES.items() for at in some]


def facts(text: str) -> str:
    """Launch facts, with ``{grid}`` left open: a product needs a warpgroup."""
    return FACTS.replace("{block}", "128" if "wgmma" in text else "32")


def kernel(body: str, arrays: str = ARRAYS.format(bytes=1024)) -> str:
    return module_text(arrays + PLACES + body, PARAMS, ".extern .shared .align 1024 .b8 all[];")


def judged(text: str, ctas: int) -> set[Kind]:
    """The harm that executions show where arrays stand apart."""
    params = (buffer(np.zeros(1024, np.uint32)), AnyMap(512))
    block = (128 if "wgmma" in text else 32, 1, 1)
    launch = Launch(
        grid=(ctas, 1, 1), block=block, cluster=(ctas, 1, 1), params=params, shared=4096, apart=True
    )
    return {h.kind for seed in range(2) if (h := run(text, "k", launch, seed).harm) is not None}


@pytest.mark.parametrize(("name", "at", "verdict"), ROWS, ids=lambda x: str(x))
def test_what_leaves_an_array_for_the_next(check: Any, name: str, at: int, verdict: str) -> None:
    """Where the next array lies is the assembler's choice: the second reader puts gaps between them."""
    text, ctas = (
        kernel(CASES[name][0].replace("AT", str(at))),
        2 if "%cluster_ctarank" in CASES[name][0] else 1,
    )
    found = check(text, ctas, facts(text))
    assert found["verdict"] == verdict, found
    assert judged(text, ctas) == (set() if verdict == "proved" else {Kind.OUTSIDE})
    if verdict == "refuted":
        assert re.search(r"lie outside `(one|two)`", str(found)), found


@pytest.mark.parametrize("name", ["bulk load", "bulk store", "cp.async", "ldmatrix", "init"])
def test_alignment_padding_is_no_other_array(check: Any, name: str) -> None:
    body, at, _ = CASES[name]
    text = kernel(body.replace("AT", str(at)), ARRAYS.format(bytes=1000))
    assert check(text, 1, facts(text))["verdict"] == "proved"


LOAD, COPY = (CASES[name][0] for name in ("bulk load", "cp.async"))
GENERIC = "cvt.u64.u32 %rd3, %r2; cvta.shared.u64 %rd3, %rd3; mbarrier.init.b64 [%rd3+{at}], 1; ret;"
#: A ring of stages in ``one``, each of 256 bytes.
RING = """
    mov.u32 %r6, 0; mov.u32 %r7, %r2;
NEXT: mad.lo.u32 %r8, %r1, 8, %r7; cp.async.ca.shared.global [%r8], [%rd1], 8;
    add.u32 %r7, %r7, 256; add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, {turns}; @%p2 bra NEXT;
    cp.async.wait_all; ret;
"""


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("sub.u32 %r6, %r3, %r2; add.u32 %r2, %r2, %r6;" + LOAD, "proved"),
        ("setp.lt.u32 %p3, %r1, 64; selp.b32 %r2, %r3, %r2, %p3;" + LOAD, "proved"),
        ("add.u32 %r2, %r2, 1024;" + LOAD, "refuted"),
        ("sub.u32 %r2, %r3, 48;" + LOAD, "refuted"),
        ("@%p1 bra DONE;" + GENERIC.format(at=1016) + "DONE: ret;", "proved"),
        ("@%p1 bra DONE;" + GENERIC.format(at=1024) + "DONE: ret;", "refuted"),
        (RING.format(turns=4), "proved"),
        (RING.format(turns=5), "refuted"),
    ],
)
def test_a_place_in_the_next_array(check: Any, body: str, verdict: str) -> None:
    """A difference of two places is known wherever they lie."""
    text = kernel(body.replace("AT", "0"))
    assert check(text, 1, facts(text))["verdict"] == verdict
    assert judged(text, 1) == (set() if verdict == "proved" else {Kind.OUTSIDE})


@pytest.mark.parametrize(
    ("arrays", "body", "at", "verdict"),
    [
        (ONE, LOAD, 976, "proved"),
        (ONE, LOAD, 1024, "proved"),
        (ONE, COPY, 2048, "proved"),
        (BEHIND, COPY, 512, "proved"),
        (BEHIND, COPY, 2048, "refuted"),
    ],
)
def test_all_of_dynamic_memory_is_one_array(
    check: Any, arrays: str, body: str, at: int, verdict: str
) -> None:
    """The parts that a kernel makes of it have no ends; a static array before it has one."""
    text = kernel(body.replace("AT", str(at)), arrays)
    assert check(text, 1, facts(text))["verdict"] == verdict
    assert judged(text, 1) == (set() if verdict == "proved" else {Kind.OUTSIDE})
