"""Any cluster of a block group that shares global memory, and what each of them reaches there: see
docs/block_groups.md, "Any member of a block group"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from syncverify.symbolic.context import NotConcrete

#: Bytes from the places of one block group to those of the next.
FARTHEST = 1 << 36


@dataclass(slots=True)
class Strides:
    """Of each memory how many bytes its places move by from group to group, or, where they move with the
    cluster (``each``), from cluster to cluster.

    What moves with the cluster depends on where the first cluster of the next group is: so no place lies
    before its memory. ``base_of``: where the memory starts that an address lies in.
    """

    clusters: int
    base_of: Callable[[int], int | None]
    found: dict[int, tuple[int, bool]] = field(default_factory=dict)

    def keep(self, base: int, step: int, each: bool, reached: Iterable[tuple[int, int]]) -> None:
        """Takes note of how places of one memory move. Raises NotConcrete where they do so in several ways,
        or
        lie so far apart that they are taken for another memory's."""
        if self.found.setdefault(base, (step, each)) != (step, each):
            raise NotConcrete("clusters of a block group access one tensor with several strides")
        if abs(step) * self.clusters >= FARTHEST:
            raise NotConcrete("places in global memory that are far apart")
        if any(self.base_of(a) != base or self.base_of(b - 1) != base for a, b in reached):
            raise NotConcrete("places in global memory that are far apart")

    def ahead(self, step: int, each: bool) -> int:
        """How far a place is told beyond where a cluster 0 of a block group 0 would be."""
        return step * self.clusters if each else 0

    def at(self, place: tuple[int, int], number: int) -> tuple[int, int] | None:
        """The bytes that one cluster of block group 0 reaches; None where they may be another block
        group's.
        """
        base = self.base_of(place[0])
        if base is None or base not in self.found:
            return None
        step, each = self.found[base]
        back = step * (self.clusters - number) if each else 0
        whole = step * self.clusters if each else step
        low, high = place[0] - back, place[1] - back
        return (low, high) if base <= low and high <= base + whole else None


__all__ = ["Strides"]
