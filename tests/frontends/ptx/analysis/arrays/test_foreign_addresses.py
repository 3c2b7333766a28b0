"""Addresses that belong to another state space than the access names (PTX ISA, generic addressing)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [128]\ncluster = [1]\n[kernel.k.params]\n0 = 'ptr'\n"
#: Each thread writes its word by a generic address, and reads another's behind a barrier.
BODY = """
    .shared .align 16 .b8 tile[512];
    mov.u32 %r1, %tid.x;
    mov.u64 %rd1, tile;
    cvta.shared.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd2, %rd3;
    st.u32 [%rd4], %r1;
    bar.sync 0;
    xor.b32 %r2, %r1, 127;
    mul.wide.u32 %rd5, %r2, 4;
    add.u64 %rd6, %rd2, %rd5;
    ld.u32 %r3, [%rd6];
    ret;
"""
LOAD = "ld.u32 %r3, [%rd6];"
CONVERTED = "cvta.shared.u64 %rd2, %rd1;"
RIGHT = {
    "generic": (LOAD, LOAD),
    "back": (LOAD, "cvta.to.shared.u64 %rd7, %rd6; ld.shared.u32 %r3, [%rd7];"),
    "narrow": (LOAD, "cvta.to.shared.u64 %rd7, %rd6; cvt.u32.u64 %r9, %rd7; ld.shared.u32 %r3, [%r9];"),
    "carry of 32 bits": (
        LOAD,
        "cvta.to.shared.u64 %rd7, %rd6; cvt.u32.u64 %r9, %rd7; sub.u32 %r9, %r9, 4096; "
        "ld.shared.u32 %r3, [%r9+4096];",
    ),
}
WRONG = {
    "never converted": (CONVERTED, "mov.u64 %rd2, %rd1;"),
    "generic as shared": (LOAD, "ld.shared.u32 %r3, [%rd6];"),
    "generic as global": (LOAD, "ld.global.u32 %r3, [%rd6];"),
    "upper half lost": (LOAD, "cvt.u32.u64 %r9, %rd6; cvt.u64.u32 %rd6, %r9; " + LOAD),
    "carry lost": (LOAD, "sub.u64 %rd6, %rd6, 0x100000000; " + LOAD),
    "of local memory": (CONVERTED, "cvta.local.u64 %rd2, %rd1;"),
    "converted twice": (CONVERTED, CONVERTED + " cvta.shared.u64 %rd2, %rd2;"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_addresses_of_their_own_space(check: Any, name: str) -> None:
    text = module_text(BODY.replace(*RIGHT[name]), ".param .u64 k_p")
    assert check(text, facts=FACTS)["verdict"] == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_addresses_of_another_space(check: Any, name: str) -> None:
    """The second reader agrees: else these were ``unknown``."""
    report = check(module_text(BODY.replace(*WRONG[name]), ".param .u64 k_p"), facts=FACTS)
    assert report["verdict"] == "refuted"
    assert report["diagnostics"][0]["rule"] == "SV114"


FRAGMENT = "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}"
#: One copy or exchange each, by an address of the wrong kind.
OTHERS = {
    "barrier": "mbarrier.init.b64 [%rd10], 1;",
    "generic barrier as shared": "mbarrier.init.shared.b64 [%rd11], 1;",
    "matrix": "ldmatrix.sync.aligned.m8n8.x1.b16 {%r9}, [%rd10];",
    "copy from shared memory": "cp.async.ca.shared.global [%rd10], [%rd11], 4; cp.async.wait_all;",
    "copy to a generic address": "cp.async.ca.shared.global [%rd11], [%rd1], 4; cp.async.wait_all;",
    "lower half": "cvt.u32.u64 %r9, %rd11; ld.shared.u32 %r8, [%r9];",
    "local window as global": ".local .b32 own[4]; mov.u64 %rd12, own; ld.global.u32 %r8, [%rd12];",
    "shared window as global, chosen": (
        "mov.u32 %r9, %tid.x; setp.lt.u32 %p1, %r9, 9; "
        "selp.b64 %rd12, %rd10, %rd1, %p1; ld.global.u32 %r8, [%rd12];"
    ),
    "number as global": "mov.u64 %rd12, 64; st.global.u32 [%rd12], 1;",
    "numbers of threads as global": "mov.u32 %r9, %tid.x; cvt.u64.u32 %rd12, %r9; ld.global.u8 %r8, [%rd12];",
    "map that nobody wrote": "prefetch.tensormap [%rd13];",
    "map beside what nobody wrote": "add.u64 %rd12, %rd13, 64; prefetch.tensormap [%rd12];",
    "map that is written later": "prefetch.tensormap [%rd13]; mov.u64 %rd13, k_p;",
    "part of a map that nobody wrote": "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd13, {%r9}];",
    "source of a bulk copy": (
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%rd11], 64; cp.async.bulk.commit_group; "
        "cp.async.bulk.wait_group 0;"
    ),
    "map in shared memory": "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%rd11], %rd1;",
    "matrix of a warp": f"wmma.load.a.sync.aligned.row.m16n16k16.f16 {FRAGMENT}, [%rd10];",
    "matrix of a warp as shared": f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {FRAGMENT}, [%rd11];",
    "mapped": "mov.u32 %r9, 0; mapa.shared::cluster.u64 %rd12, %rd11, %r9; ld.u32 %r8, [%rd12];",
}


@pytest.mark.parametrize("name", OTHERS)
def test_barriers_matrices_and_copies_by_addresses_of_another_kind(check: Any, name: str) -> None:
    body = f"""
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [k_p];
    mov.u64 %rd10, tile;
    cvta.shared.u64 %rd11, %rd10;
    {OTHERS[name]}
    ret;
    """
    report = check(module_text(body, ".param .u64 k_p"), facts=FACTS.replace("128", "32"))
    assert report["verdict"] != "proved"
    assert report["diagnostics"][0]["rule"] == "SV114"


#: What the text does not follow is judged by its number: a generic address lies in no window.
HIDDEN = "mov.u64 %rd13, 0; xor.b64 %rd12, %rd11, %rd13;"
USES = {
    "destination": "cp.async.ca.shared.global [%rd12], [%rd1], 4; cp.async.wait_all;",
    "barrier": "mbarrier.init.shared.b64 [%rd12], 1;",
    "rows": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%rd12];",
    "matrix": f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {FRAGMENT}, [%rd12];",
    "map": "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%rd12], %rd1;",
    "source": "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%rd12], 64; "
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
}


@pytest.mark.parametrize(("made", "verdict"), [("%rd11", "unknown"), ("%rd10", "proved")])
@pytest.mark.parametrize("name", USES)
def test_a_number_beyond_the_window_of_shared_memory(check: Any, name: str, made: str, verdict: str) -> None:
    body = f"""
    .shared .align 128 .b8 tile[512];
    mov.u32 %r10, %tid.x; setp.ne.u32 %p1, %r10, 0;
    ld.param.u64 %rd1, [k_p]; mov.u64 %rd10, tile; cvta.shared.u64 %rd11, %rd10;
    {HIDDEN.replace("%rd11", made)}
    {USES[name]}
    ret;
    """
    text = module_text(body, ".param .u64 k_p")
    report = check(text, facts=FACTS.replace("128", "1"))
    assert report["verdict"] == verdict
    assert verdict == "proved" or "outside the window of shared memory" in str(report)


RIGHT_KIND = {
    "multimem": (
        "multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%rd10], 64; "
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    ),
    "prefetch of shared memory": "prefetch.L1 [%rd11];",
    "prefetch of local memory": ".local .align 4 .b8 own[64]; mov.u64 %rd12, own; prefetch.local.L1 [%rd12];",
    "matrix": f"wmma.load.a.sync.aligned.row.m16n16k16.f16 {FRAGMENT}, [%rd11];",
}


@pytest.mark.parametrize("name", RIGHT_KIND)
def test_addresses_of_the_right_kind(check: Any, name: str) -> None:
    body = f"""
    .shared .align 128 .b8 tile[512];
    ld.param.u64 %rd1, [k_p]; cvta.to.global.u64 %rd1, %rd1;
    mov.u64 %rd10, tile; cvta.shared.u64 %rd11, %rd10;
    {RIGHT_KIND[name]}
    ret;
    """
    text = module_text(body, ".param .u64 k_p").replace(".version 8.6", ".version 9.1")
    threads = "1" if name == "multimem" else "32"
    assert check(text, facts=FACTS.replace("128", threads))["verdict"] == "proved"


LEAVES = {
    "local": (".local .align 16 .b8 one[64]; .local .align 16 .b8 two[64];", "st.local.u32 [%rd5], 0;"),
    "const": ("", "ld.const.u32 %r9, [%rd5];"),
}


@pytest.mark.parametrize(("step", "verdict"), [(4, "proved"), (8, "refuted")])
@pytest.mark.parametrize("space", LEAVES)
def test_an_index_by_thread_that_leaves_its_array_for_the_next(
    check: Any, space: str, step: int, verdict: str
) -> None:
    """The second reader has gaps between the arrays where it replays that."""
    declared, access = LEAVES[space]
    body = f"""
    {declared}
    mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 15;
    mov.u64 %rd4, one; mov.u64 %rd6, two;
    mul.wide.u32 %rd5, %r1, {step}; add.u64 %rd5, %rd5, %rd4;
    {access}
    ret;
    """
    outside = "" if declared else ".const .align 4 .b8 one[64]; .const .align 4 .b8 two[64];"
    report = check(module_text(body, ".param .u64 k_p", outside), facts=FACTS)
    assert report["verdict"] == verdict
