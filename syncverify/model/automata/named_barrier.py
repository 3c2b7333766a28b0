"""CTA barriers 0..15 (PTX ISA: bar, barrier): warps arrive, the generation ends when the count is full."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The last barrier of the hardware, and the first of those that software makes of memory: one for each tile.
LAST_ID, FIRST_OF_TILES = 15, 256


def exists(number: int) -> bool:
    """Whether there is a barrier with this number; those of tiles are named by front ends alone."""
    return 0 <= number <= LAST_ID or number >= FIRST_OF_TILES


@dataclass(slots=True)
class NamedBarrier:
    """``arrived``: lanes by warp; a warp counts as 32 threads once all its live lanes have arrived."""

    threads: int = 0
    generation: int = 0
    arrived: dict[int, int] = field(default_factory=dict)
    marked: set[int] = field(default_factory=set)
    again: int = 0  # arrivals of warps that have come a second time since
    whole: bool = False  # its participants name no count: it is for all warps that have not left
    gone: int = 0  # warps that have left before they arrived at an open generation that is whole

    def mismatch(self, threads: int) -> bool:
        """Whether a participant names another count than those already there."""
        return bool(self.arrived) and self.threads != threads

    def arrive(self, warp: int, lanes: int, live: int, threads: int, gone: int = -1) -> bool:
        """Lanes of one warp arrive; true if the generation is complete now. ``gone``: where no count is
        named, how many warps have left the kernel without having arrived; -1: a count is named."""
        self.threads = threads
        self.whole, self.gone = gone >= 0, max(gone, 0)
        self.arrived[warp] = self.arrived.get(warp, 0) | lanes
        if self.arrived[warp] & live == live:
            self.marked.add(warp)
        return self.full

    def twice(self, warp: int, lanes: int) -> bool:
        """Whether these lanes arrived in this generation already."""
        return bool(self.arrived.get(warp, 0) & lanes)

    def ahead(self, warp: int, lanes: int) -> bool:
        """Whether these lanes have arrived while others of their warp have not."""
        return warp not in self.marked and self.twice(warp, lanes)

    def count_again(self, warp: int) -> None:
        """The arrival of a whole warp stands; the warp may come once more."""
        self.again += 1
        self.marked.discard(warp)
        del self.arrived[warp]

    def leave(self, warp: int, live: int, gone: int = 0) -> bool:
        """Lanes of a warp exit; true if those that arrived before now complete the generation. ``gone``: as
        in ``arrive``, counted now, for whole warps may have left since."""
        self.gone = gone if self.whole else 0
        if live and warp in self.arrived and warp not in self.marked and self.arrived[warp] & live == live:
            self.marked.add(warp)
            return self.full
        return False

    def leave_whole(self, gone: int) -> bool:
        """A warp that had not arrived exits; true if the others now complete the generation."""
        self.gone = gone if self.whole else 0
        return self.whole and self.full

    @property
    def full(self) -> bool:
        return bool(self.marked) and (len(self.marked) + self.again + self.gone) * 32 >= self.threads

    def reset(self) -> None:
        """The next generation begins; warps of which only some lanes have come belong to it."""
        self.generation += 1
        self.arrived = {w: lanes for w, lanes in self.arrived.items() if w not in self.marked}
        self.marked = set()
        self.again = self.gone = 0

    def clear(self) -> None:
        """The next generation begins with nobody there."""
        self.generation += 1
        self.arrived = {}
        self.marked = set()
        self.again = self.gone = 0
