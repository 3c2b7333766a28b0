"""O8 of docs/theory.md in the judge of launches: which sets of setmaxnreg may wait together."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import NotJudgedError
from syncverify.checker.kernel.exact.knowledge import VectorClock
from syncverify.checker.kernel.exact.registers import RegisterPools, Request, free
from syncverify.model.events import ThreadClass


def request(group: int, number: int, need: int, *known: Request) -> Request:
    """A request of one class, whose past holds some others. The class is ``group``, its time the number."""
    past = VectorClock(beyond={("t", r.group[1]): r.number + 1 for r in known})
    return Request((0, group), number, need, {group: past}, {group: number + 1}, {group: number + 1})


def serve(*every: Request) -> None:
    RegisterPools.serve(cast(Any, SimpleNamespace(info=SimpleNamespace(name="k"))), list(every))


def test_returned_registers_serve_who_waits() -> None:
    returned = request(0, 0, -72)
    serve(returned, request(1, 0, 72))
    with pytest.raises(RejectedError, match="cannot serve"):
        serve(returned, request(1, 0, 80))


def test_a_return_that_waits_for_the_request_is_none() -> None:
    takes = request(1, 0, 72)
    with pytest.raises(RejectedError, match="cannot serve"):
        serve(request(0, 0, -72, takes), takes)


def test_two_that_wait_together() -> None:
    """72 are free for two that take 72 each: both must give them back, as either may be served first."""
    free_ = request(0, 0, -72)
    first, back = request(1, 0, 72), request(1, 1, -72)
    second, returned = request(2, 0, 72), request(2, 1, -72)
    with pytest.raises(RejectedError, match="cannot serve"):
        serve(free_, first, back, second)
    serve(free_, first, back, second, returned)


def test_each_returns_what_the_other_waits_for() -> None:
    """Both take before they return: neither is served."""
    with pytest.raises(RejectedError, match="cannot serve"):
        serve(request(1, 0, 72), request(1, 1, -72), request(2, 0, 72), request(2, 1, -72))


def test_who_is_known_to_be_served_does_not_wait() -> None:
    """The second asks when the first has returned what it took."""
    first = request(1, 0, 72)
    back = request(1, 1, -72, first)
    serve(request(0, 0, -72), first, back, request(2, 0, 72, first, back))


def test_what_some_warps_know_counts_against_the_set() -> None:
    """A return that one of two warps makes after a request is not sure to come; one that takes is."""
    waits = request(1, 0, 8)
    half = Request(
        (0, 2), 0, -8, {4: VectorClock(beyond={("t", 1): 1}), 5: VectorClock()}, {4: 1, 5: 1}, {4: 1, 5: 1}
    )
    assert free([waits], [waits, half]) == 0
    takes = Request((0, 2), 0, 8, half.pasts, half.times, half.last)
    assert free([waits], [waits, takes]) == -8


@dataclass
class Asks:
    """A class of a warp with what it asked for: registers, whether more, time, and its past."""

    warp: int
    requests: list[Any]

    @property
    def info(self) -> ThreadClass:
        return ThreadClass(0, self.warp, (1 << 32) - 1)

    @property
    def lanes(self) -> Any:
        return SimpleNamespace(cls=self.warp)


def requests(*some: Asks, held: int = 168) -> list[Request]:
    judge = cast(Any, SimpleNamespace(info=SimpleNamespace(name="k")))
    return list(RegisterPools.requests(judge, (0, 0), cast(Any, list(some)), held))


def everybody(*asked: tuple[int, bool], past: dict[Any, int]) -> list[Asks]:
    rows = [(n, more, past if k else {}, k + 1, k + 1) for k, (n, more) in enumerate(asked)]
    return [Asks(w, rows) for w in range(4)]


def test_requests_of_a_warpgroup_in_turn() -> None:
    met = {("t", w): 1 for w in range(4)}
    found = requests(*everybody((24, False), (240, True), past=met))
    assert [r.need for r in found] == [24 - 168, 240 - 24]
    with pytest.raises(RejectedError, match="without a barrier"):
        requests(*everybody((24, False), (240, True), past={}))
    with pytest.raises(RejectedError, match="holds 168"):
        requests(*everybody((240, False), past=met))
    with pytest.raises(NotJudgedError, match="some warps"):
        requests(*everybody((24, False), past=met)[1:])
