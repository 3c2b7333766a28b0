"""What a thread owes by itself, and what a warpgroup executes as one: the reading refuses what breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.induction.alone import Alone
from syncverify.checker.induction.read import LoopText, StraightText
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.linear import ZERO, num
from syncverify.checker.prover.rings.by_induction import protocols
from syncverify.model.events import Ev, Event
from tests.checker.induction.test_read import CORPUS, posed

RED = Path(__file__).parents[1] / "red"
FENCE, COMMIT, READ, WRITE = (Ev.WGMMA_FENCE,), (Ev.WGMMA_COMMIT,), (Ev.FRAG_READ, 0), (Ev.FRAG_WRITE, 0)
MMA, OTHER, LOAD, GRID = (Ev.WGMMA, 0, 1, -1), (Ev.WGMMA, 7, 1, -1), (Ev.BULK_LOAD,), (Ev.GRID_WAIT,)
MOVED = (Ev.FRAG_WRITE, 0, 1)


def wait(n: int) -> Event:
    return (Ev.WGMMA_WAIT, n)


def code(*ways: tuple[Event, ...]) -> StraightText:
    return StraightText((), ZERO, ZERO, ways)


def right(*text: StraightText | LoopText, policy: Policy = Policy.PRACTICAL, waits: bool = False) -> bool:
    try:
        Alone(policy, waits).text(text)
    except NotReadError:
        return False
    return True


def loop(*ways: tuple[Event, ...]) -> LoopText:
    return LoopText(ZERO, num(3), code(*ways))


WHOLE = (FENCE, MMA, COMMIT, wait(0), READ)


@pytest.mark.parametrize("left_out", range(4))
def test_each_of_fence_commit_and_wait_is_needed(left_out: int) -> None:
    assert right(code(WHOLE))
    shorter = WHOLE[:left_out] + WHOLE[left_out + 1 :]
    assert right(code(shorter)) is (WHOLE[left_out] == MMA)


def test_a_wait_that_leaves_groups_pending_covers_older_ones() -> None:
    two = (FENCE, MMA, COMMIT, OTHER, COMMIT)
    assert right(code((*two, wait(1), READ)))
    assert not right(code((*two, wait(2), READ)))
    assert not right(code((*two, wait(1), (Ev.FRAG_READ, 7))))


def test_registers_that_were_touched_need_a_fence() -> None:
    assert not right(code((FENCE, WRITE, MMA)))
    assert right(code((FENCE, WRITE, FENCE, MMA)))
    assert not right(code((FENCE, (Ev.FRAG_WRITE, 3), (Ev.WGMMA, 0, -1, 3))))


def test_a_copy_into_a_register_counts_strictly() -> None:
    text = code((FENCE, MMA, COMMIT, MOVED, wait(0)))
    assert right(text) and not right(text, policy=Policy.STRICT)


def test_every_way_and_every_turn_counts() -> None:
    drained = code((FENCE,)), loop((MMA, COMMIT, wait(0)))
    assert right(*drained, code((READ,)))
    assert not right(code((FENCE,)), loop((MMA, COMMIT, wait(0)), (MMA, COMMIT)), code((READ,)))
    # the wait of the next turn covers it, and there may be none
    deferred = code((FENCE,)), loop((wait(0), MMA, COMMIT))
    assert right(*deferred, code((wait(0), READ))) and not right(*deferred, code((READ,)))
    assert not right(loop((FENCE,)), code((MMA,)))
    assert not right(code((FENCE,)), loop((MMA, COMMIT, wait(0), READ)))


def test_global_memory_comes_after_the_grid_before() -> None:
    assert right(code((LOAD,))) and not right(code((LOAD,)), waits=True)
    assert right(code((GRID, LOAD)), waits=True)
    assert not right(code((GRID, LOAD), (LOAD,)), waits=True)


REFUSED = {
    RED / "remote_write_before_start.bad.syncir": "another block",
    RED / "wgmma_of_three_warps.bad.syncir": "fewer than four warps",
    CORPUS / "rulebook/E35_accumulator_read_in_flight.bad.syncir": "in flight",
    CORPUS / "rulebook/E36_missing_wgmma_fence.bad.syncir": "since the last wgmma.fence",
    CORPUS / "rulebook/E37_fragment_changed_in_flight.bad.syncir": "in flight",
    CORPUS / "rulebook/E63_setmaxnreg_wrong_direction.bad.syncir": "setmaxnreg",
    CORPUS / "rulebook/E63b_setmaxnreg_partial_group.bad.syncir": "warpgroup",
}


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.name)
def test_what_no_protocol_says_is_refused_where_it_is_wrong(path: Path) -> None:
    with pytest.raises(NotReadError, match=REFUSED[path]):
        protocols(posed(path.read_text("utf-8")))
    good = path.with_name(path.name.replace(".bad.", ".good."))
    if "remote" not in path.name:  # generic accesses to other blocks are not read at all
        assert protocols(posed(good.read_text("utf-8")))
