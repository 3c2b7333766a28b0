"""Every kind of event has a row, is silent to a protocol, or is refused: none is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.base.source import UNKNOWN_SPAN
from syncverify.checker.induction.event_operations import BY_EVENT, Meetings, Occurrence, Spot, operations
from syncverify.checker.induction.flags import Flags
from syncverify.checker.induction.operations import SILENT
from syncverify.checker.induction.read import Piece
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel import protocol as k
from syncverify.checker.kernel.linear import ZERO
from syncverify.model.events import Ev, Event, Footprint, Site, SystemInfo, ThreadClass

#: Kinds that no protocol expresses. CLUSTER_WAIT is taken together with its arrival before (``assemble``).
REFUSED = {
    Ev.EXIT, Ev.FAULT, Ev.UNKNOWN, Ev.ATOMIC, Ev.COMPLETE_TX, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN,
    Ev.CLUSTER_WAIT, Ev.CP_ARRIVE, Ev.BULK_COPY, Ev.ST_ASYNC, Ev.MAP_REPLACE, Ev.MAP_RELEASE, Ev.MAP_ACQUIRE,
    Ev.MAP_CP_FENCE, Ev.SIGNAL,
}  # fmt: skip

_WARP = ThreadClass(0, 0, 0xFFFF_FFFF)
_SPOT = Spot("straight", ZERO, ZERO, ZERO, False, ("straight", 0, 1))


def occurrence(*events: Event, lanes: int = 0xFFFF_FFFF) -> Occurrence:
    """A piece that is each of these events, turn by turn."""
    info = SystemInfo("k", "k.ptx", {}, (0, 0, 0), 1, 1, 32, None, [_WARP])
    info.footprints.append(Footprint(0, ((0, 4),)))
    info.sites.append(Site(UNKNOWN_SPAN, ""))
    system = Meetings(info, Policy.PRACTICAL, Flags(info), {}, {(0, 0): 0xFFFF_FFFF})
    piece = Piece(0, {(turn, 0): e for turn, e in enumerate(events)}, ())
    return Occurrence(system, 0, ThreadClass(0, 0, lanes), piece, _SPOT)


@pytest.mark.parametrize("ev", Ev, ids=lambda e: e.name)
def test_every_kind_is_decided_about_once(ev: Ev) -> None:
    assert sum((ev in BY_EVENT, ev in SILENT, ev in REFUSED)) == 1


@pytest.mark.parametrize("ev", sorted(REFUSED), ids=lambda e: e.name)
def test_a_kind_without_a_row_is_refused(ev: Ev) -> None:
    with pytest.raises(NotReadError, match=f"{ev.name} is no operation of a protocol"):
        operations(occurrence((ev, 0, 0, 0, 0)))


def test_a_barrier_of_the_block_is_met_by_all_its_threads() -> None:
    x = occurrence((Ev.BARRIER_SYNC, 0, 3, 0, 0))
    (made,) = operations(x)
    assert (made.op.kind, made.op.count) == (k.Kind.SYNC, 32)
    assert x.system.rings[made.op.ring].barrier == "barrier 3 of block 0"


def test_a_barrier_of_more_threads_than_the_block_has_is_refused_in_strict_mode() -> None:
    for policy, count, taken in (("practical", 64, True), ("strict", 32, True), ("strict", 64, False)):
        x = occurrence((Ev.BARRIER_ARRIVE, 0, 3, count, 0))
        x = replace(x, system=replace(x.system, policy=Policy(policy)))
        if taken:
            (made,) = operations(x)
            assert made.op.count == count
        else:
            with pytest.raises(NotReadError, match="barrier 3 of 64 threads"):
                list(operations(x))


def test_an_operand_that_changes_from_turn_to_turn_is_refused() -> None:
    with pytest.raises(NotReadError, match="BARRIER_SYNC whose operands change"):
        list(operations(occurrence((Ev.BARRIER_SYNC, 0, 3, 0, 0), (Ev.BARRIER_SYNC, 0, 4, 0, 0))))


def test_a_slot_may_change_from_turn_to_turn() -> None:
    (made,) = operations(occurrence((Ev.EXPECT_TX, 0, 0, 64), (Ev.EXPECT_TX, 0, 1, 64)))
    assert made.ring == {(0, 0): 0, (1, 0): 1}


def test_half_a_warp_meets_the_other_half_at_a_wgmma() -> None:
    half = occurrence((Ev.WGMMA_COMMIT, 0), lanes=0xFFFF)
    assert [m.op.kind for m in operations(half)] == [k.Kind.SYNC, k.Kind.COMMIT]
    assert [m.op.kind for m in operations(occurrence((Ev.WGMMA_COMMIT, 0)))] == [k.Kind.COMMIT]


def test_an_operand_of_a_wgmma_is_all_from_its_first_byte_to_its_last() -> None:
    x = occurrence((Ev.WGMMA, 0, 0, 0, -1), lanes=3)
    x.info.footprints[0] = Footprint(0, ((0, 4), (16, 20)))
    ((_, a), _) = list(operations(x))[-1].accesses
    assert a.by[0, 0].pieces == ((0, 20, 0), (0, 20, 1))


def test_an_access_to_another_block_is_refused() -> None:
    x = occurrence((Ev.WRITE, 0, 0))
    (made,) = operations(x)
    assert made.op.kind is k.Kind.ACCESS
    x.info.footprints[0] = Footprint(1, ((0, 4),))
    with pytest.raises(NotReadError, match="memory of another block"):
        list(operations(x))
