"""The lane that the warps of a system elect, and which others it represents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syncverify.base.reason import Cause, Reason
from syncverify.model.events import lane_ranges

#: Lanes of a warp.
WARP = 32
#: Every lane of a warp, as a mask.
EVERY = (1 << WARP) - 1
PAIRS = "what several warps do depends on the numbers of the lanes that they elect: pairs are not tried"


@dataclass(frozen=True, slots=True)
class ElectedLane:
    """A lane that is elected.

    ``tried``: the lanes, as a mask, of all systems that differ by this alone; every lane, where those left
    out are known to do the same as one of them. ``of_one_mask``: whether it matters if an election of other
    lanes of the warp, which cannot choose it, chooses another one than the lowest. ``pairs``: whether it
    matters if another warp elects another lane.
    """

    lane: int
    tried: int = EVERY
    of_one_mask: bool = False
    pairs: bool = False

    def unrepresented(self, lanes: int) -> Reason | None:
        """Why lanes that no branch distinguishes need not do, each elected, what some tried lane does.

        They do where another tried lane is among them: the lanes of a class have been the same in all that
        they came to. The elected one itself has gone its own way.
        """
        if not lanes & ~self.tried or lanes & self.tried & ~(1 << self.lane):
            return None
        text = f"of lanes {lane_ranges(lanes)}, which part from others, none was tried as the elected lane"
        return Reason(text, Cause.UNTRIED_LANE)


#: The lane that the hardware elects.
LOWEST = ElectedLane(0)
#: A lane that no warp has: no lane is elected.
NOBODY = ElectedLane(WARP)


def each_of(
    lanes: Iterable[int], *, all_needed: bool, of_one_mask: bool = False, pairs: bool = False
) -> list[ElectedLane]:
    """Some lanes, one after the other. ``all_needed``: lanes that are left out have to be represented."""
    found = list(dict.fromkeys(lanes))
    tried = sum(1 << lane for lane in found) if all_needed else EVERY
    return [ElectedLane(lane, tried, of_one_mask, pairs) for lane in found]


def of_all(choices: Iterable[Sequence[ElectedLane]]) -> list[ElectedLane]:
    """Each lane of some choices; those left out are represented where they are so in one of them."""
    every = [x for one in choices for x in one]
    needed, one_mask = any(x.tried != EVERY for x in every), any(x.of_one_mask for x in every)
    pairs = any(x.pairs for x in every)
    return each_of((x.lane for x in every), all_needed=needed, of_one_mask=one_mask, pairs=pairs)


__all__ = ["EVERY", "LOWEST", "NOBODY", "PAIRS", "WARP", "ElectedLane", "each_of", "of_all"]
