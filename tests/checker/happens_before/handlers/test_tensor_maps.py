"""A tensor map that a warp as a whole publishes: its lanes act as one, other warps do not."""

from __future__ import annotations

from syncverify.base.diagnostics import Verdict
from syncverify.checker.exact_check import check
from syncverify.model.events import Ev, Event, Footprint, ThreadClass
from syncverify.model.proxies import Scope
from tests.checker.scripts import Scripts

EXIT = (Ev.EXIT, 7)
LEADER, OTHERS = ThreadClass(0, 0, 1), ThreadClass(0, 0, 0xFFFFFFFE)


def publish(whole: int = 1) -> list[Event]:
    return [
        (Ev.ELECT, 0, 0xFFFFFFFF),
        (Ev.MAP_REPLACE, 1, 0, whole),
        (Ev.MAP_CP_FENCE, 1, 0, int(Scope.GPU)),
        (Ev.MAP_ACQUIRE, 2, 0, int(Scope.GPU)),
    ]


USE = (Ev.BULK_STORE, 3, 0, -1, 0, 0)


def verdict(*events: list[Event], classes: tuple[ThreadClass, ...]) -> Verdict:
    return check(Scripts([Footprint(0, ((0, 16),))], events, classes)).verdict


DRAIN = [(Ev.BULK_COMMIT, 4), (Ev.BULK_WAIT, 5, 0, 1), EXIT]


def test_any_lane_of_the_warp_may_use_it() -> None:
    for user in (0, 1):
        streams = [publish(), publish()]
        streams[user] += [USE, *DRAIN[:-1]]
        assert verdict(*[[*s, EXIT] for s in streams], classes=(LEADER, OTHERS)) == Verdict.PROVED


def test_lanes_that_edit_one_by_one_are_not_one() -> None:
    streams = [[*publish(0), EXIT], [*publish(0), EXIT]]
    assert verdict(*streams, classes=(LEADER, OTHERS)) == Verdict.REFUTED


def test_two_warps_are_not_one() -> None:
    classes = (ThreadClass(0, 0, 0xFFFFFFFF), ThreadClass(0, 1, 0xFFFFFFFF))
    streams = [[*publish(), EXIT], [*publish(), EXIT]]
    assert verdict(*streams, classes=classes) == Verdict.REFUTED


def test_an_acquire_is_still_needed() -> None:
    streams = [[*publish()[:-1], USE, *DRAIN], [*publish()[:-1], EXIT]]
    assert verdict(*streams, classes=(LEADER, OTHERS)) == Verdict.REFUTED
