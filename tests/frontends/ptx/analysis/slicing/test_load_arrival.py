"""Values that may arrive only after their buffer was handed on."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.slicing.load_arrival import NO_USES, unarrived_loads
from syncverify.frontends.ptx.flow.control_flow import Flow
from tests.frontends.ptx.effect_helpers import function

LOAD = "ld.shared.b32 %r1, [%a]"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%b]"
STORE = "st.global.b32 [%d9], %r1"
SUM = "add.u32 %r2, %r1, 1"
STORE_SUM = "st.global.b32 [%d9], %r2"
REFILL = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%a], [%d1], 16, [%b]"


def uses(*lines: str, refill: bool = True) -> tuple[list[str], dict[str, int]]:
    """Lines of late loads, and how many of them each line shows to be over."""
    if refill:  # in a place that no path comes to: it only tells that there are refills
        lines = (*lines, "ret", REFILL)
    f = function(*lines)
    loads = [k for k, i in enumerate(f.body) if i.op == "ld" and "shared" in i.mods]
    found = unarrived_loads(Flow(f), loads)
    text = [line for line in lines if not line.endswith(":")]
    return [text[k] for k in sorted(found.late)], {text[k]: len(v) for k, v in found.at.items()}


def test_stored_before_the_hand_over() -> None:
    assert uses(LOAD, STORE, ARRIVE) == ([], {})


def test_stored_after_it() -> None:
    assert uses(LOAD, ARRIVE, STORE) == ([LOAD], {STORE: 1})


def test_a_copy_is_no_use() -> None:
    later = "st.global.b32 [%d9], %r3"
    assert uses(LOAD, "mov.b32 %r3, %r1", ARRIVE, later) == ([LOAD], {later: 1})


@pytest.mark.parametrize(
    "arithmetic",
    [
        SUM,
        "mul.lo.u32 %r2, %r1, %r1",
        "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1",
        "redux.sync.add.s32 %r2, %r1, -1",
        "match.any.sync.b32 %r2, %r1, -1",
        "ld.global.nc.b32 %r2, [%r1]",
        "ld.const.b32 %r2, [%r1]",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1",
        "@%p1 add.u32 %r2, %r1, 1",
    ],
)
def test_what_ptxas_moves_behind_the_release_is_no_use(arithmetic: str) -> None:
    """Seen in the machine code that ptxas 13.0 makes of each of them."""
    assert uses(LOAD, arithmetic, ARRIVE, STORE_SUM) == ([LOAD], {STORE_SUM: 1})
    assert uses(LOAD, arithmetic, STORE_SUM, ARRIVE) == ([], {})


def test_a_vote_is_no_use() -> None:
    lines = (LOAD, "setp.ne.u32 %p2, %r1, 0", "vote.sync.ballot.b32 %r2, %p2, -1", ARRIVE, STORE_SUM)
    assert uses(*lines) == ([LOAD], {STORE_SUM: 1})


@pytest.mark.parametrize(
    "operation",
    [
        "st.shared.b32 [%c], %r1",
        "st.shared.b32 [%r1], %r9",
        "@%p1 st.global.b32 [%d9], %r1",
        "red.global.add.u32 [%d9], %r1",
        "atom.shared.add.u32 %r8, [%c], %r1",
        "cp.async.ca.shared.global [%r1], [%d1], 4",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%c], {%r1}",
        "barrier.cta.sync %r1, 128",
        "mbarrier.arrive.shared::cta.b64 _, [%b], %r1",
    ],
)
def test_memory_operations_and_barriers_are_uses(operation: str) -> None:
    assert uses(LOAD, operation, ARRIVE, STORE)[0] == []


def test_a_load_from_there_is_a_use_if_it_is_needed() -> None:
    load = "ld.global.b32 %r2, [%r1]"
    assert uses(LOAD, load, ARRIVE, STORE_SUM) == ([], {})
    assert uses(LOAD, load, ARRIVE, STORE) == ([LOAD], {STORE: 1})


def test_local_memory_may_be_a_register() -> None:
    reload = "ld.local.b32 %r2, [%l]"
    assert uses(LOAD, "st.local.b32 [%l], %r1", ARRIVE, reload, STORE_SUM) == ([LOAD], {STORE_SUM: 1})


def test_a_branch_over_arithmetic_is_no_use() -> None:
    """ptxas makes selections of it."""
    decided = "setp.ne.u32 %p2, %r1, 0"
    lines = (LOAD, decided, "mov.u32 %r2, 1", "@%p2 bra OUT", "mov.u32 %r2, 2", "OUT:")
    assert uses(*lines, ARRIVE, STORE_SUM)[0] == [LOAD]


def test_a_branch_over_a_store_is_a_use() -> None:
    decided = "setp.ne.u32 %p2, %r1, 0"
    lines = (LOAD, decided, "@%p2 bra OUT", "st.global.b32 [%d9], %r9", "OUT:", ARRIVE)
    assert uses(*lines) == ([], {})


def test_a_branch_that_a_loop_depends_on_is_a_use() -> None:
    lines = ("LOOP:", "add.u32 %r2, %r1, 1", "setp.ne.u32 %p2, %r2, 0", "@%p2 bra LOOP", ARRIVE, STORE_SUM)
    assert uses(LOAD, *lines) == ([], {})


def test_sums_over_tiles_are_never_over() -> None:
    """The sum of the last iterations holds values of the same load."""
    total = "st.global.b32 [%d9], %r5"
    lines = ("LOOP:", LOAD, "add.u32 %r5, %r5, %r1", ARRIVE, "@%p1 bra LOOP", total)
    assert uses(*lines) == ([LOAD], {})


def test_what_is_stored_too_is_over() -> None:
    lines = ("LOOP:", LOAD, "add.u32 %r5, %r5, %r1", STORE, ARRIVE, "@%p1 bra LOOP")
    assert uses(*lines, "st.global.b32 [%d9], %r5") == ([], {})


def test_what_nothing_needs_is_no_load() -> None:
    assert uses("LOOP:", LOAD, "add.u32 %r5, %r5, %r1", ARRIVE, "@%p1 bra LOOP") == ([], {})


def test_without_refills_there_is_nothing_to_ask() -> None:
    assert uses(LOAD, ARRIVE, STORE, refill=False) == ([], {})
    f = function(LOAD, ARRIVE, STORE)
    assert unarrived_loads(Flow(f), [0]) is NO_USES


def test_waits_hand_nothing_on() -> None:
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%b], 0"
    assert uses(LOAD, wait, STORE) == ([], {})


def test_only_the_first_use_counts() -> None:
    assert uses(LOAD, ARRIVE, STORE, "st.global.b32 [%d8], %r1") == ([LOAD], {STORE: 1})


def test_dead_on_the_path_that_hands_on() -> None:
    assert uses(LOAD, "@%p1 bra OUT", STORE, "bra END", "OUT:", ARRIVE, "END:") == ([], {})


def test_each_path_has_a_first_use() -> None:
    other = "st.global.b32 [%d8], %r1"
    late, at = uses(LOAD, ARRIVE, "@%p1 bra OUT", STORE, "bra END", "OUT:", other, "END:")
    assert late == [LOAD]
    assert at == {STORE: 1, other: 1}


def test_around_a_loop() -> None:
    """The store of the next turn needs the value; behind the loop nothing does."""
    late, at = uses("LOOP:", STORE, LOAD, ARRIVE, "@%p1 bra LOOP")
    assert (late, at) == ([LOAD], {STORE: 1, "ret": 1})


def test_a_value_overtaken_by_its_own_load_is_never_used() -> None:
    late, at = uses("LOOP:", LOAD, "st.global.b32 [%d9], %r3", "mov.b32 %r3, %r1", ARRIVE, "@%p1 bra LOOP")
    assert (late, at) == ([LOAD], {})


def test_bulk_copies_hand_on() -> None:
    assert uses(LOAD, REFILL, STORE)[0] == [LOAD]
    assert uses(LOAD, "cp.async.bulk.commit_group", STORE)[0] == []


def test_a_store_after_such_a_branch_is_a_use() -> None:
    lines = (LOAD, "setp.ne.u32 %p2, %r1, 0", "@%p2 bra OUT", "mov.u32 %r2, 2", "OUT:", STORE, ARRIVE)
    assert uses(*lines, STORE_SUM) == ([], {})


def test_where_a_branch_leaves_the_value_behind_the_read_is_over() -> None:
    """One lane stores what a shuffle summed up; the others need nothing from there on."""
    shuffle, sync = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1", "bar.sync 0"
    late, at = uses(LOAD, shuffle, sync, "@%p1 bra OUT", STORE_SUM, "OUT:", "add.u32 %r8, %r9, 1", sync)
    assert late == [LOAD]
    assert at == {STORE_SUM: 1, "add.u32 %r8, %r9, 1": 1}


def test_a_value_that_is_needed_behind_the_branch_is_not_over() -> None:
    late, at = uses(LOAD, ARRIVE, "@%p1 bra OUT", "add.u32 %r8, %r9, 1", "OUT:", ARRIVE, STORE)
    assert (late, at) == ([LOAD], {STORE: 1})
