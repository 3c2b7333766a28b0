"""Data handed over through global memory: flags after bulk stores, spins, counters (SV501, SV504)."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.frontends.ptx.analysis.handover.handover_detection import hand_over
from syncverify.frontends.ptx.flow.control_flow import Flow
from tests.frontends.ptx.execute_helpers import function, module_text
from tests.frontends.ptx.global_helpers import FACTS, PARAMS, first, line

#: Block 0 fills OUT by a bulk copy and raises FLAG; block 1 waits for it and reads.
HANDOVER = """
    .shared .align 128 .b8 tile[1024];
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, tile;
    add.u32 %r4, %r4, %r3;
    setp.ne.u32 %p1, %r2, 0;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra CONSUMER;
    st.shared.u32 [%r4], %r2;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 bra END;
    mov.u32 %r5, tile;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group{READ} 0;
    {RELEASE}
    bra END;
    CONSUMER:
    @%p1 bra WAITED;
    SPIN:
    {LOAD}
    {UNTIL}
    @%p3 bra SPIN;
    {AFTER}
    WAITED:
    bar.sync 0;
    cvt.u64.u32 %rd3, %r3;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r7, [%rd4];
    END: ret;
"""


def handover(read: str = "", release: str = "st.release.gpu.global.u32 [%rd2], 1;",
             load: str = "ld.acquire.gpu.global.u32 %r6, [%rd2];", until: str = "setp.ne.u32 %p3, %r6, 1;",
             after: str = "") -> str:  # fmt: skip
    body = HANDOVER
    for name, text in (("READ", read), ("RELEASE", release), ("LOAD", load), ("UNTIL", until),
                       ("AFTER", after)):  # fmt: skip
        body = body.replace(f"{{{name}}}", text)
    return module_text(body, params=PARAMS)


def test_a_flag_after_the_full_wait_is_proved(check: Any) -> None:
    report = check(handover())
    assert report["verdict"] == "proved"
    assert "flags and counters in global memory are zero at launch" in report["assumptions"]
    assert "the 2 clusters of the grid run at the same time" in report["assumptions"]


@pytest.mark.parametrize("policy", ["practical", "strict"])
def test_a_flag_after_the_read_wait_is_refuted(check: Any, policy: str) -> None:
    text = handover(read=".read")
    assert first(check(text, 2, FACTS, "--policy", policy)) == ("SV501", line(text, "st.release"))


@pytest.mark.parametrize(
    ("looked", "good"), [("", True), ("setp.eq.u32 %p4, %r9, 1; @%p4 bra WAITED; trap;", False)]
)
def test_how_often_a_flag_was_looked_at_is_not_known(check: Any, looked: str, good: bool) -> None:
    text = handover(until="add.u32 %r9, %r9, 1; setp.ne.u32 %p3, %r6, 1;", after=looked)
    text = text.replace("    SPIN:", "    mov.u32 %r9, 0;\n    SPIN:")
    assert (check(text)["verdict"] == "proved") is good


def test_a_flag_before_any_wait_is_refuted(check: Any) -> None:
    text = handover().replace("cp.async.bulk.wait_group 0;", "")
    assert first(check(text)) == ("SV501", line(text, "st.release"))


def test_another_thread_may_release_after_a_barrier(check: Any) -> None:
    swapped = handover().replace("@%p1 bra END;\n    mov.u32 %r5", "@%p1 bra MET;\n    mov.u32 %r5")
    good = swapped.replace("    st.release.gpu", "    MET: bar.sync 0;\n    setp.ne.u32 %p4, %r2, 1;\n"
                                                "    @%p4 bra END;\n    st.release.gpu")  # fmt: skip
    assert check(good)["verdict"] == "proved"
    bad = good.replace("wait_group 0", "wait_group.read 0")
    assert first(check(bad))[0] == "SV501"


def test_a_relaxed_store_hands_nothing_over(check: Any) -> None:
    assert first(check(handover(release="st.relaxed.gpu.global.u32 [%rd2], 1;")))[0] == "SV110"


def test_a_release_of_the_block_alone_is_too_narrow(check: Any) -> None:
    text = handover(release="st.release.cta.global.u32 [%rd2], 1;")
    assert first(check(text)) == ("SV115", line(text, "st.release"))


@pytest.mark.parametrize(
    "store",
    [
        "st.relaxed.gpu.global.u32 [%rd2], 1;",
        "st.volatile.global.u32 [%rd2], 1;",
        "red.relaxed.gpu.global.add.u32 [%rd2], 1;",
    ],
)
def test_a_fence_before_a_strong_store_releases(check: Any, store: str) -> None:
    assert check(handover(release=f"fence.acq_rel.gpu;\n    {store}"))["verdict"] == "proved"


def test_a_fence_after_a_relaxed_spin_acquires(check: Any) -> None:
    load = "ld.volatile.global.u32 %r6, [%rd2];"
    assert check(handover(load=load, after="fence.acq_rel.gpu;"))["verdict"] == "proved"
    assert first(check(handover(load=load)))[0] == "SV110"
    narrow = check(handover(load=load, after="fence.acq_rel.cta;"))
    assert narrow["verdict"] == "unknown"
    assert "too small a scope" in narrow["reason"]


@pytest.mark.parametrize(
    "until", ["setp.lt.u32 %p3, %r6, 1;", "setp.eq.s32 %p3, %r6, 0;", "setp.gt.u32 %p3, 1, %r6;"]
)
def test_other_comparisons_end_a_spin(check: Any, until: str) -> None:
    assert check(handover(until=until))["verdict"] == "proved"


@pytest.mark.parametrize(("least", "good"), [(1, True), (0, False)])
def test_what_ends_a_spin_may_be_made_in_its_loop(check: Any, least: int, good: bool) -> None:
    made = f"add.u32 %r9, %r1, {least - 1};\n    setp.lt.s32 %p3, %r6, %r9;"
    report = check(handover(until=made))
    assert report["verdict"] == "proved" if good else first(report)[0] == "SV110"


def test_a_spin_that_no_value_ends_hangs(check: Any) -> None:
    assert first(check(handover(until="setp.ne.u32 %p3, %r6, 2;")))[0] == "SV210"


AGAIN = "ld.acquire.gpu.global.u32 %r6, [%rd5];"


@pytest.mark.parametrize(
    ("made", "good"),
    [
        ("add.u64 %rd5, %rd2, 0;", True),
        ("mul.wide.u32 %rd6, %r1, 4;\n sub.u64 %rd7, %rd6, 4;\n add.u64 %rd5, %rd2, %rd7;", True),
        ("mov.u64 %rd5, %rd8;\n add.u64 %rd8, %rd8, 4;", False),  # the next place in each turn
        ("mov.u64 %rd5, %rd8;\n mov.u64 %rd8, %rd1;", False),  # another one from the second turn on
        ("cvt.u64.u32 %rd6, %r6;\n add.u64 %rd5, %rd2, %rd6;", False),  # where the last value tells
        ("mov.u64 %rd5, %rd2;\n @%p4 mov.u64 %rd5, %rd1;", False),  # made in two places
        ("mov.u64 %rd6, %clock64;\n add.u64 %rd5, %rd2, %rd6;", False),
    ],
)
def test_the_place_of_a_spin_may_be_made_in_each_turn(check: Any, made: str, good: bool) -> None:
    before = "mov.u64 %rd8, %rd2;\n mov.u32 %r6, 0;\n setp.eq.u32 %p4, %r1, 7;\n SPIN:\n"
    text = handover(load=f"{made}\n    {AGAIN}").replace("SPIN:\n", before, 1)
    assert (check(text)["verdict"] == "proved") is good


def test_a_spin_may_have_its_first_turn_before_the_loop(check: Any) -> None:
    once = "ld.acquire.gpu.global.u32 %r8, [%rd2];\n setp.eq.u32 %p4, %r8, 1;\n @%p4 bra WAITED;\n SPIN:\n"
    assert check(handover().replace("SPIN:\n", once, 1))["verdict"] == "proved"


@pytest.mark.parametrize("own", ["%r6", "%r8"])
def test_who_passes_a_first_look_has_nothing_of_the_turns(check: Any, own: str) -> None:
    once = "ld.acquire.gpu.global.u32 %r8, [%rd2];\n setp.eq.u32 %p4, %r8, 1;\n @%p4 bra WAITED;\n SPIN:\n"
    text = handover().replace("SPIN:\n", once, 1)
    text = text.replace(
        "mov.u32 %r1, %ctaid.x;", "mov.u32 %r1, %ctaid.x;\n mov.u32 %r6, 7; mov.u32 %r8, 7;", 1
    )
    asked = f"WAITED:\n setp.eq.u32 %p5, {own}, 1;\n @%p5 bra END;\n"
    assert check(text.replace("WAITED:\n", asked, 1))["verdict"] == "unknown"


def test_a_weak_poll_races_with_the_flag(check: Any) -> None:
    text = handover(load="ld.global.u32 %r6, [%rd2];")
    report = check(text)
    assert first(report)[0] in ("SV110", "SV111")
    assert any("depends on data (ld.global.u32" in d["message"] for d in report["diagnostics"])


def test_a_lock_is_undecided(check: Any) -> None:
    report = check(handover(load="atom.acquire.gpu.global.cas.b32 %r6, [%rd2], 1, 2;"))
    assert report["verdict"] == "unknown"
    assert "a lock that is not free at launch" in report["reason"]


def test_one_look_at_a_flag_is_undecided(check: Any) -> None:
    report = check(handover(until="mov.pred %p3, 0; st.shared.u32 [%r4], %r6;"))
    assert report["verdict"] == "unknown"
    assert "acquire load" in report["reason"]


def test_a_flag_that_nothing_here_writes_is_undecided(check: Any) -> None:
    report = check(handover(release=""))
    assert report["verdict"] == "unknown"
    assert "nothing in this kernel writes" in report["reason"]


def test_the_grid_must_be_known(check: Any) -> None:
    report = check(handover(), 2, FACTS.replace("grid = [{grid}]", 'grid = ["n"]'))
    assert report["verdict"] == "unknown"
    assert "give grid" in report["reason"]


def test_large_grids_are_refuted_by_their_first_blocks_but_not_proved(check: Any) -> None:
    assert first(check(handover(read=".read"), 100))[0] == "SV501"
    report = check(handover(), 100)
    assert report["verdict"] == "unknown"
    assert "at most 16 are run together" in report["reason"]


def test_blocks_of_a_large_grid_may_wait_for_later_ones(check: Any) -> None:
    text = handover().replace("setp.ne.u32 %p2, %r1, 0;", "setp.ne.u32 %p2, %r1, 99;")
    report = check(text, 100)
    assert report["verdict"] == "unknown"
    assert "at most 16 are run together" in report["reason"]


def test_the_address_of_a_flag_must_be_known(check: Any) -> None:
    report = check(handover(), 2, FACTS.replace('1 = {{ptr = "flag"}}\n', ""))
    assert report["verdict"] == "unknown"
    assert "param 1" in report["reason"]


#: A whole block waits: thread 0 asks, shared memory tells the others.
BLOCK_POLL = """
    .shared .align 4 .b8 told[4];
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    setp.eq.u32 %p1, %r2, 0;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra POLL;
    st.global.u32 [%rd4], %r2;
    bar.sync 0;
    mov.u32 %r3, 1;
    @%p1 atom.acq_rel.gpu.global.exch.b32 %r4, [%rd2], %r3;
    bra END;
    POLL:
    bar.sync 0;
    mov.u32 %r3, 1;
    @%p1 atom.acq_rel.gpu.global.cas.b32 %r4, [%rd2], %r3, %r3;
    @%p1 st.shared.u32 [told], %r4;
    TOLD
    ld.shared.u32 %r5, [told];
    setp.ne.u32 %p3, %r5, 1;
    @%p3 bra POLL;
    ld.global.u32 %r6, [%rd4];
    END: ret;
"""


def block_poll(told: str = "bar.sync 0;", **others: str) -> str:
    body = BLOCK_POLL.replace("TOLD", told)
    for old, new in others.items():
        body = body.replace(old, new)
    return module_text(body, params=PARAMS)


def test_a_block_may_poll_as_a_whole(check: Any) -> None:
    assert check(block_poll())["verdict"] == "proved"


def test_a_block_poll_needs_its_release(check: Any) -> None:
    assert first(check(block_poll(**{"acq_rel.gpu.global.exch": "relaxed.gpu.global.exch"})))[0] == "SV110"


def test_a_block_poll_needs_the_writers_barrier(check: Any) -> None:
    bad = block_poll(**{"st.global.u32 [%rd4], %r2;\n    bar.sync 0;": "st.global.u32 [%rd4], %r2;"})
    assert first(check(bad, 2, FACTS.replace("[32]", "[64]")))[0] == "SV110"


def test_a_block_poll_needs_the_barrier_between_turns(check: Any) -> None:
    text = block_poll(**{"POLL:\n    bar.sync 0;": "POLL:"})
    assert check(text, 2, FACTS.replace("[32]", "[64]"))["verdict"] == "refuted"


CHAIN = """
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra TURN;
    SPIN:
    ld.acquire.gpu.global.u32 %r6, [%rd2];
    setp.ne.u32 %p3, %r6, %r1;
    @%p3 bra SPIN;
    TURN:
    bar.sync 0;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r7, [%rd4];
    add.u32 %r7, %r7, 1;
    st.global.u32 [%rd4], %r7;
    bar.sync 0;
    @%p1 bra END;
    fence.acq_rel.gpu;
    red.relaxed.gpu.global.add.u32 [%rd2], 1;
    END: ret;
"""


def test_blocks_take_turns_by_a_counter(check: Any) -> None:
    assert check(module_text(CHAIN, params=PARAMS), 5)["verdict"] == "proved"


def test_without_the_barrier_only_one_thread_waits_its_turn(check: Any) -> None:
    text = module_text(CHAIN.replace("TURN:\n    bar.sync 0;", "TURN:"), params=PARAMS)
    assert first(check(text, 5))[0] in ("SV110", "SV111", "SV112")


MIXED = """
    .shared .align 128 .b8 tile[128];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra END;
    mov.u32 %r5, tile;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r5], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ATOMIC
    END: ret;
"""


def test_atomics_beside_bulk_reductions_are_refuted(check: Any) -> None:
    text = module_text(MIXED.replace("ATOMIC", "red.global.add.u32 [%rd1+64], 1;"), params=PARAMS)
    assert first(check(text))[0] == "SV504"


def test_atomics_on_other_bytes_are_none_of_it(check: Any) -> None:
    text = module_text(MIXED.replace("ATOMIC", "red.global.add.u32 [%rd1+128], 1;"), params=PARAMS)
    assert check(text)["verdict"] == "proved"


@pytest.mark.parametrize(("wait", "verdict"), [("wait_group 0", "proved"), ("wait_group.read 0", "refuted")])
def test_a_block_reads_back_what_it_stored(check: Any, wait: str, verdict: str) -> None:
    body = MIXED.replace("reduce.async", "async").replace(".add.u32", "").replace("wait_group 0", wait)
    text = module_text(body.replace("ATOMIC", "ld.global.u32 %r7, [%rd1];"), params=PARAMS)
    assert check(text, 1)["verdict"] == verdict


LOADED_BACK = """
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r5, tile;
    mov.u32 %r6, full;
    st.global.u32 [%rd4], %r2;
    FENCE
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    READY:
    bar.sync 0;
    @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1], 128, [%r6];
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;
    @!%p2 bra WAIT;
    ret;
"""


@pytest.mark.parametrize(
    ("fence", "found"),
    [
        ("fence.proxy.async.global;", None),
        ("fence.proxy.async;", None),
        ("", "SV101"),
        ("fence.proxy.async.shared::cta;", "SV103"),
    ],
)
def test_a_bulk_load_of_what_threads_stored_needs_the_fence(
    check: Any, fence: str, found: str | None
) -> None:
    report = check(module_text(LOADED_BACK.replace("FENCE", fence), params=PARAMS), 1)
    if found is None:
        assert report["verdict"] == "proved"
    else:
        assert first(report)[0] == found


@pytest.mark.parametrize(("load", "verdict"), [("acquire.gpu", "proved"), ("relaxed.gpu", "refuted")])
def test_cp_async_reads_what_was_handed_over(check: Any, load: str, verdict: str) -> None:
    text = handover(load=f"ld.{load}.global.u32 %r6, [%rd2];").replace(
        "ld.global.u32 %r7, [%rd4];", "cp.async.ca.shared.global [%r4], [%rd4], 4;\n    cp.async.wait_all;"
    )
    assert check(text)["verdict"] == verdict


def test_a_flag_for_other_kernels_is_an_assumption(check: Any) -> None:
    text = module_text(MIXED.replace("ATOMIC", "st.release.gpu.global.u32 [%rd2], 1;").replace(
        "mov.u32 %r2", "ld.param.u64 %rd2, [k_flag];\n    mov.u32 %r2"), params=PARAMS)  # fmt: skip
    report = check(text)
    assert report["verdict"] == "proved"
    assert any("no other kernel takes data" in a and str(line(text, "st.release")) in a
               for a in report["assumptions"])  # fmt: skip


# ---------------------------------------------------------------- what is looked at at all


def handing(body: str) -> bool:
    flow = Flow(function(body, params=PARAMS))
    return hand_over(flow, {}) is not None


def test_kernels_without_a_consumer_keep_their_cost() -> None:
    pointer = "ld.param.u64 %rd1, [k_out];"
    assert not handing(f"{pointer} ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1; ret;")
    assert not handing(f"{pointer} red.release.gpu.global.add.u32 [%rd1], 1; ret;")
    assert not handing(f"{pointer} atom.global.add.u32 %r1, [%rd1], 1; ret;")


def test_a_search_that_moves_on_is_no_spin() -> None:
    assert not handing("""
    ld.param.u64 %rd1, [k_out];
    L: ld.global.u32 %r1, [%rd1];
    add.u64 %rd1, %rd1, 4;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra L;
    ret;""")


def test_the_last_block_to_arrive_is_a_consumer() -> None:
    assert handing("""
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    st.global.u32 [%rd1], 1;
    membar.gl;
    atom.global.add.u32 %r1, [%rd2], 1;
    setp.ne.u32 %p1, %r1, 3;
    @%p1 bra END;
    ld.global.u32 %r2, [%rd1];
    END: ret;""")


# ---------------------------------------------------------------- boxes of tensor maps


def test_no_proof_rests_on_addresses_that_are_not_known(check: Any) -> None:
    facts = FACTS.replace('0 = {{ptr = "out"}}\n', "")
    good = module_text(LOADED_BACK.replace("FENCE", "fence.proxy.async;"), params=PARAMS)
    report = check(good, 1, facts)
    assert report["verdict"] == "unknown"
    assert "param 0" in report["reason"]
    hangs = good.replace("expect_tx.shared::cta.b64 _, [%r6], 128", "expect_tx.shared::cta.b64 _, [%r6], 256")
    assert check(hangs, 1, facts)["verdict"] == "refuted"


@pytest.mark.parametrize(("adds", "awaited", "verdict"), [
    (8, 8, "proved"), (8, 32, "refuted"), (1, 1, "proved"), (1, 32, "refuted"), (32, 32, "proved"),
])  # fmt: skip
def test_a_guard_says_how_many_lanes_count(check: Any, adds: int, awaited: int, verdict: str) -> None:
    text = handover(until=f"setp.ne.u32 %p3, %r6, {awaited};")
    copy = text[text.index("    @%p1 bra END;") : text.index("    bra END;")]
    counted = "ld.shared.u32 %r8, [%r4]; cvt.u64.u32 %rd3, %r3; add.u64 %rd4, %rd1, %rd3;\n"
    counted += f"    st.global.u32 [%rd4], %r8;\n    bar.sync 0;\n    setp.lt.u32 %p5, %r2, {adds};\n"
    report = check(text.replace(copy, f"    {counted}    @%p5 red.release.gpu.global.add.u32 [%rd2], 1;\n"))
    assert report["verdict"] == verdict


def test_one_lane_of_a_class_writes_twice(check: Any) -> None:
    stores = "".join(f"    @%p5 st.global.u32 [%rd1+512], {n};\n" for n in (1, 2))
    twice = f"setp.eq.u32 %p5, %r2, 5;\n{stores}"
    text = handover().replace("    st.shared.u32 [%r4], %r2;", f"    {twice}    st.shared.u32 [%r4], %r2;")
    assert check(text)["verdict"] == "proved"
    last = "    @%p5 st.global.u32 [%rd1+512], 2;"
    other = text.replace(last, "    setp.eq.u32 %p6, %r2, 6;\n" + last.replace("%p5", "%p6"))
    assert first(check(other))[0] == "SV112"
