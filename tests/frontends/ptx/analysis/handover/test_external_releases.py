"""Flags that no part of a kernel waits for: blocks that read what others write are refuted all the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.global_helpers import FACTS, PARAMS, first, line

#: Each block writes 128 bytes of OUT and raises its flag; all but the first read those of the block ahead.
NEIGHBOURS = """
    .shared .align 128 .b8 tile[128];
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r1, 5;
    add.u32 %r3, %r3, %r2;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd4, %rd1, %rd3;
    mul.wide.u32 %rd5, %r1, 4;
    add.u64 %rd6, %rd2, %rd5;
    setp.eq.u32 %p1, %r1, 0;
    setp.ne.u32 %p2, %r2, 0;
    {WRITE}
    bar.sync 0;
    @%p2 bra RAISED;
    {RELEASE}
    RAISED:
    @%p1 bra END;
    @%p2 bra WAITED;
    {WAIT}
    WAITED:
    bar.sync 0;
    {READ}
    END: ret;
"""
WRITE = "st.global.u32 [%rd4], %r2;"
RELEASE = "st.release.gpu.global.u32 [%rd6], 1;"
READ = "ld.global.u32 %r7, [%rd4+-128];"
WAIT = "SPIN: ld.acquire.gpu.global.u32 %r6, [%rd6+-4];\n    setp.eq.u32 %p3, %r6, 0;\n    @%p3 bra SPIN;"
OPEN = FACTS.replace("[{grid}]", '["blocks"]').replace(
    "[kernel.k.params]", 'assume = ["blocks >= 1"]\n[kernel.k.params]'
)


def neighbours(wait: str = "", write: str = WRITE, release: str = RELEASE, read: str = READ) -> str:
    body = NEIGHBOURS
    for name, text in (("WRITE", write), ("RELEASE", release), ("READ", read), ("WAIT", wait)):
        body = body.replace(f"{{{name}}}", text)
    return module_text(body, params=PARAMS)


@pytest.mark.parametrize("blocks", [2, 3, 40])
def test_blocks_that_read_without_a_wait_are_refuted(check: Any, blocks: int) -> None:
    text = neighbours()
    report = check(text, blocks, FACTS)
    assert first(report) == ("SV110", line(text, READ[:-1]))


def test_with_the_wait_they_are_proved(check: Any) -> None:
    assert check(neighbours(WAIT), 3, FACTS)["verdict"] == "proved"


def test_what_is_read_before_others_write_it_is_refuted(check: Any) -> None:
    assert first(check(neighbours(read="ld.global.u32 %r7, [%rd4+128];"), 3, FACTS))[0] in ("SV110", "SV111")


@pytest.mark.parametrize(
    "release",
    [
        "fence.acq_rel.gpu;\n    st.relaxed.gpu.global.u32 [%rd6], 1;",
        "membar.gl;\n    st.volatile.global.u32 [%rd6], 1;",
        "red.release.gpu.global.add.u32 [%rd6], 1;",
        "atom.acq_rel.gpu.global.add.u32 %r8, [%rd6], 1;",
    ],
)
def test_every_way_to_release(check: Any, release: str) -> None:
    assert first(check(neighbours(release=release), 2, FACTS))[0] == "SV110"


@pytest.mark.parametrize("release", ["st.global.u32 [%rd6], 1;", "st.release.cta.global.u32 [%rd6], 1;"])
def test_what_releases_nothing_to_other_blocks_orders_none(check: Any, release: str) -> None:
    text = neighbours(release=release)
    assert first(check(text, 3, FACTS)) == ("SV110", line(text, READ[:-1]))


def test_an_acquire_load_whose_value_nothing_looks_at_is_no_wait(check: Any) -> None:
    load = "ld.acquire.gpu.global.u32 %r6, [%rd6+-4];"
    assert first(check(neighbours(load), 2, FACTS))[0] == "SV110"
    kept = check(neighbours(f"{load}\n    st.shared.u32 [tile], %r6;"), 2, FACTS)
    assert first(kept)[0] in ("SV110", "SV111")


COPY = """    st.shared.u32 [%r9], %r2;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p2 bra COPIED;
    cp.async.bulk.global.shared::cta.bulk_group [%rd4], [tile], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    COPIED:"""


def test_copies_count_as_well(check: Any) -> None:
    write = "mov.u32 %r9, tile;\n    shl.b32 %r10, %r2, 2;\n    add.u32 %r9, %r9, %r10;\n" + COPY
    assert first(check(neighbours(write=write), 2, FACTS))[0] == "SV110"
    assert check(neighbours(WAIT, write=write), 2, FACTS)["verdict"] == "proved"
    place = "shl.b32 %r10, %r2, 2;\n    mov.u32 %r9, tile;\n    add.u32 %r9, %r9, %r10;\n"
    asynchronous = f"{place}    cp.async.ca.shared.global [%r9], [%rd4+-128], 4;\n    cp.async.wait_all;"
    assert first(check(neighbours(read=asynchronous), 2, FACTS))[0] == "SV110"


def test_for_every_size_some_launch_refutes(check: Any) -> None:
    report = check(neighbours(), 0, OPEN)
    assert first(report)[0] == "SV110"
    assert report["scope"]["values"]["grid.x"] > 1
    assert check(neighbours(read="ld.global.u32 %r7, [%rd4];"), 0, OPEN)["verdict"] == "proved"


# ---------------------------------------------------------------- what stays as it was

#: The loaded value adds to the place that is read, so that nobody knows it.
SOMEWHERE = """ld.global.u32 %r9, [%rd1+4096];
    mul.wide.u32 %rd7, %r9, 4;
    add.u64 %rd7, %rd7, %rd1;
    ld.global.u32 %r7, [%rd7];"""


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("each block reads what it wrote itself", neighbours(read="ld.global.u32 %r7, [%rd4];")),
        ("other words are read", neighbours(read="ld.global.u32 %r7, [%rd6+4096];")),
        ("strong accesses race with nobody", neighbours(write="st.relaxed.gpu.global.u32 [%rd4], %r2;",
                                                        read="ld.relaxed.gpu.global.u32 %r7, [%rd4+-128];")),
        ("atomics are for all", neighbours(write="red.relaxed.gpu.global.add.u32 [%rd4], %r2;",
                                           read="ld.relaxed.gpu.global.u32 %r7, [%rd4+-128];")),
        ("where is read is not known", neighbours(read=SOMEWHERE)),
    ],
)  # fmt: skip
def test_what_is_for_other_kernels_stays_proved(check: Any, what: str, text: str) -> None:
    assert check(text, 3, FACTS)["verdict"] == "proved", what


FRAGMENT = "{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}"
TILE = "mul.wide.u32 %rd7, %r1, 1024;\n    add.u64 %rd7, %rd1, %rd7;\n    "
STORED = f"{TILE}wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd7], {FRAGMENT};"


@pytest.mark.parametrize("at", ["%rd7+-1024", "%rd7"])
def test_matrices_and_reductions_are_accesses_like_others(check: Any, at: str) -> None:
    load = f"{TILE}wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {FRAGMENT}, [{at}];"
    expected = "proved" if at == "%rd7" else "refuted"
    assert check(neighbours(write=STORED, read=load), 2, FACTS)["verdict"] == expected
    added = neighbours(write="red.relaxed.gpu.global.add.u32 [%rd4], %r2;")
    assert check(added, 2, FACTS)["verdict"] == "refuted"


def test_a_plain_load_beside_strong_stores_is_a_race(check: Any) -> None:
    """Even of a flag: what releases it orders no load that acquires nothing."""
    text = neighbours(read="ld.global.u32 %r7, [%rd6+-4];")
    assert first(check(text, 3, FACTS)) == ("SV110", line(text, "ld.global.u32 %r7"))
    strong = neighbours(write="st.relaxed.gpu.global.u32 [%rd4], %r2;")
    assert first(check(strong, 3, FACTS))[0] == "SV110"


def test_zeros_that_one_block_stores_beside_sums_of_all_are_a_race(check: Any) -> None:
    zeros = "@%p1 bra SET;\n    st.global.u32 [%rd1], 0;\n    SET: red.global.add.u32 [%rd1], 1;"
    text = neighbours(write="", release="", read="").replace(
        "    bar.sync 0;\n    @%p2 bra RAISED;", zeros, 1
    )
    assert check(text, 3, FACTS)["verdict"] == "refuted"
    assert (
        check(text.replace("st.global.u32 [%rd1], 0", "atom.global.exch.b32 %r7, [%rd1], 0"), 3, FACTS)[
            "verdict"
        ]
        == "proved"
    )


def test_what_all_write_and_read_is_no_proof(check: Any) -> None:
    """A proof would rest on that no other thread reads what is written."""
    text = neighbours(write="st.global.u32 [%rd1], 1;", read="ld.global.u32 %r7, [%rd1];")
    assert check(text, 3, FACTS)["verdict"] in ("unknown", "refuted")
    assert check(text, 1, FACTS)["verdict"] == "proved"


def test_blocks_of_a_cluster_meet_at_its_barrier(check: Any) -> None:
    facts = FACTS.replace("block = [32]", "block = [32]\ncluster = [2]")
    meet = "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    pair = neighbours(read=READ).replace("    @%p1 bra END;\n", f"    {meet}\n    @%p1 bra END;\n")
    assert check(pair, 2, facts)["verdict"] == "proved"
    assert first(check(neighbours(), 2, facts))[0] == "SV110"
    assert first(check(pair, 4, facts))[0] == "SV110"  # the first block of the second cluster reads across


def test_pointers_that_may_be_one_stay_as_they_were(check: Any) -> None:
    facts = FACTS.replace('"flag"', '"out"')
    assert check(neighbours(), 2, facts)["verdict"] == "proved"
