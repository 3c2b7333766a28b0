"""Elementwise fusions in which elements need those half a row apart: one kernel per row length.

Tiles hold whole rows, so that both halves of a row are in shared memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import lcm

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen.accesses import Hint
from syncverify.fusion import lower
from syncverify.fusion.elements import partners
from syncverify.fusion.graph import Fusion
from syncverify.fusion.schedule import Schedule, check_extent, shared_per_block
from syncverify.ir.nodes import DTYPE_BYTES, Kernel

#: The row length that is compiled first: a usual head of attention.
WIDTH = 128


@dataclass(frozen=True)
class HalvesPlan:
    """A fusion that rotates halves, under a schedule; a variant is a row length."""

    fusion: Fusion
    schedule: Schedule

    def __post_init__(self) -> None:
        if self.schedule.source == "direct":
            raise InputError(f"{self.fusion.name}: rotate(..., 'halves') goes through tiles: source=bulk")

    @property
    def main(self) -> int:
        return WIDTH

    def variant(self, sizes: Mapping[str, int]) -> int:
        width = sizes[self.fusion.dims[-1]]
        if width % 2:
            raise InputError(
                f"{self.fusion.name}: rotate(..., 'halves') needs an even {self.fusion.dims[-1]}, not {width}"
            )
        return width

    def fitted(self, width: int) -> tuple[Schedule, int]:
        """The schedule with a tile of whole rows, and the elements per access."""
        vector = lower.widest_vector(self.fusion, replace(self.schedule, tile=2**30))
        while (width // 2) % vector:
            vector //= 2
        while True:
            tile = self._tile(width, vector)
            if tile:
                return replace(self.schedule, tile=tile), vector
            if vector == 1:
                raise InputError(
                    f"{self.fusion.name}: no tile of whole rows of {width} elements fits: lower stages, "
                    "compute_warps or blocks_per_sm"
                )
            vector //= 2

    def _tile(self, width: int, vector: int) -> int:
        """Elements of a tile; 0 where none fits."""
        schedule = self.schedule
        unit = lcm(width, vector * schedule.compute_warps * 32)
        most = self._most()
        if schedule.tile:
            return schedule.tile if schedule.tile % unit == 0 and schedule.tile <= most else 0
        return max(unit, min(most, lower.TILE) // unit * unit) if unit <= most else 0

    def _most(self) -> int:
        """The most elements for which there is shared memory."""
        schedule = self.schedule
        streamed = sum(DTYPE_BYTES[t.dtype] for n, t in self.fusion.inputs if n in self.fusion.streamed)
        staged = sum(DTYPE_BYTES[o.dtype] for o in self.fusion.outputs) if schedule.staged else 0
        per_element = streamed * schedule.stages + staged * schedule.store_stages or 1
        return shared_per_block(schedule.blocks_per_sm) // per_element

    def build(
        self, variant: int, policy: Policy, observe: Callable[[str, Kernel], None] | None = None
    ) -> Kernel:
        schedule, vector = self.fitted(variant)
        from syncverify.fusion import pipeline, store_role  # only who makes a kernel needs the passes

        make = store_role.build if schedule.store == "role" else pipeline.build
        return make(self.fusion, schedule, policy, vector, observe, width=variant)

    def resources(self, variant: int) -> tuple[int, Hint]:
        return self.schedule.blocks_per_sm, self.schedule.hint

    def most_blocks(self, variant: int, resident: int) -> int:
        return self.schedule.most_blocks(resident)

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        schedule, _ = self.fitted(self.variant(sizes))
        check_extent(self.fusion, sizes, schedule.index, 2 * schedule.tile)


def applies(fusion: Fusion) -> bool:
    """Whether a fusion needs kernels of this kind."""
    return bool(partners(fusion))


__all__ = ["HalvesPlan", "applies"]
