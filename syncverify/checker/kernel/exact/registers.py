"""Register pools in a run: O8 of docs/theory.md, section 4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import NotJudgedError
from syncverify.checker.kernel.exact.knowledge import VectorClock
from syncverify.checker.kernel.exact.state import ReplayedAgent, State
from syncverify.model.automata.register_pool import legal, most_registers
from syncverify.model.events import ThreadClass

#: Sets of requests that are looked at.
MOST_SETS = 20_000


@dataclass(frozen=True, slots=True)
class Request:
    """A setmaxnreg of a warpgroup. ``need``: registers a thread that it takes, or returns if negative; by
    class, ``pasts`` is what had happened before it, ``times`` when it asked first, ``last`` when last.
    """

    group: tuple[int, int]
    number: int
    need: int
    pasts: dict[int, VectorClock]
    times: dict[int, int]
    last: dict[int, int]

    def surely_before(self, other: Request) -> bool:
        """Whether every warp of another one asks when all warps of this one have been served."""
        if self.group == other.group:
            return self.number < other.number
        return all(p.get(("t", c), 0) >= t for p in other.pasts.values() for c, t in self.times.items())

    def perhaps_before(self, other: Request) -> bool:
        """Whether some warp of another one asks when some warp of this one has been served."""
        if self.group == other.group:
            return self.number < other.number
        return any(p.get(("t", c), 0) >= t for p in other.pasts.values() for c, t in self.times.items())


class RegisterPools(State):
    """The rules of setmaxnreg."""

    def on_setmaxnreg(self, a: ReplayedAgent, inc: int, registers: int) -> bool:
        if a.requests and a.requests[-1][0] == registers:  # asked for again, it changes nothing
            registers, first, past, time, _ = a.requests.pop()
            a.requests.append((registers, first, past, time, a.lanes.time))
            return True
        a.requests.append(
            (registers, bool(inc), a.lanes.hand_happened(VectorClock()), a.lanes.time, a.lanes.time)
        )
        return True

    def pool(self) -> None:
        """O8: of every set of unordered requests, one of each warpgroup, one can be served, whatever else has
        been. Returned registers count only where nothing of the set comes before their return.
        """
        held = self.info.registers or most_registers(self.info.threads)
        groups: dict[tuple[int, int], list[ReplayedAgent]] = {}
        for a in self.actors:
            groups.setdefault(group_of(a.info), []).append(a)
        every = [r for group, some in groups.items() for r in self.requests(group, some, held)]
        for cta in {r.group[0] for r in every}:
            self.serve([r for r in every if r.group[0] == cta])

    def requests(self, group: tuple[int, int], some: list[ReplayedAgent], held: int) -> Iterator[Request]:
        """The requests of a warpgroup in order: the same by all its warps, each after the one before."""
        asked = [a.requests for a in some]
        if not any(asked):
            return
        if len({a.info.warp for a in some}) != 4 or len({tuple(r[:2] for r in rs) for rs in asked}) != 1:
            raise NotJudgedError("setmaxnreg by some warps of a warpgroup, or of different numbers")
        before: Request | None = None
        for k, (registers, inc, *_) in enumerate(asked[0]):
            if not legal(registers) or (registers < held if inc else registers > held):
                text = f"setmaxnreg {registers} by a warpgroup that holds {held}"
                raise RejectedError(self.info.name, text)
            rows = {a.lanes.cls: a.requests[k] for a in some}
            r = Request(
                group,
                k,
                registers - held,
                {c: row[2] for c, row in rows.items()},
                {c: row[3] for c, row in rows.items()},
                {c: row[4] for c, row in rows.items()},
            )
            if before is not None and any(
                p.get(("t", c), 0) < t
                for own, p in r.pasts.items()
                for c, t in before.last.items()
                if c != own
            ):
                raise RejectedError(self.info.name, "two setmaxnreg of a warpgroup without a barrier between")
            held, before = registers, r
            yield r

    def serve(self, every: list[Request]) -> None:
        """Every set of a CTA's requests that may wait together."""
        takes: dict[tuple[int, int], list[Request]] = {}
        for r in every:
            if r.need > 0:
                takes.setdefault(r.group, []).append(r)
        if prod(len(rs) + 1 for rs in takes.values()) > MOST_SETS:
            raise NotJudgedError(f"more than {MOST_SETS} sets of setmaxnreg")
        for some in product(*([None, *rs] for rs in takes.values())):
            waiting = [r for r in some if r is not None]
            if any(a.surely_before(b) or b.surely_before(a) for a, b in combinations(waiting, 2)):
                continue
            if waiting and all(r.need > free(waiting, every) for r in waiting):
                raise RejectedError(self.info.name, "the register pool cannot serve every setmaxnreg")


def free(waiting: list[Request], every: list[Request]) -> int:
    """How many registers a thread are sure to be free while some requests wait."""
    left = 0
    for r in every:
        follows = Request.surely_before if r.need > 0 else Request.perhaps_before
        if r not in waiting and not any(follows(w, r) for w in waiting):
            left -= r.need
    return left


def group_of(c: ThreadClass) -> tuple[int, int]:
    """The warpgroup of a class."""
    return c.cta, c.warp // 4


__all__ = ["RegisterPools", "group_of"]
