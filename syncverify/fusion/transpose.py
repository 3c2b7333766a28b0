"""Elementwise fusions with outputs whose last two dimensions are swapped: which kernels there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen.accesses import Hint
from syncverify.fusion.graph import Fusion
from syncverify.fusion.schedule import Schedule, check_extent
from syncverify.fusion.transposable import obstacle
from syncverify.fusion.transposed_tiles import Accessed, Copied, launch_values, tile_of, units
from syncverify.ir.nodes import Kernel
from syncverify.passes import synthesize
from syncverify.passes.base import run

#: Where nothing is said the first that fits; as many slots on both sides, so that proofs end soon.
SCHEDULES = tuple(
    Schedule(stages=n, store_stages=n, blocks_per_sm=b).chosen()
    for n, b in ((3, 2), (2, 2), (3, 1), (2, 1), (1, 1))
)
#: The variants: tensor copies, or accesses of the threads.
COPIES, ACCESSES = 1, 0


@dataclass(frozen=True)
class TransposePlan:
    """A fusion with transposed outputs under a schedule."""

    fusion: Fusion
    schedule: Schedule

    def __post_init__(self) -> None:
        _check(self.fusion, self.schedule)

    @property
    def main(self) -> int:
        return COPIES

    def variant(self, sizes: Mapping[str, int]) -> int:
        multiples = units(self.fusion)
        return COPIES if all(sizes[d] % u == 0 for d, u in multiples.items()) else ACCESSES

    def build(
        self, variant: int, policy: Policy, observe: Callable[[str, Kernel], None] | None = None
    ) -> Kernel:
        kernel = (Copied if variant == COPIES else Accessed)(self.fusion, self.schedule).lower()
        if observe is not None:
            observe("lower", kernel)
        passes = synthesize.passes(policy, synthesize.Options(self.schedule.arrive))
        return run(kernel, passes, observe)

    def resources(self, variant: int) -> tuple[int, Hint]:
        return self.schedule.blocks_per_sm, self.schedule.hint

    def most_blocks(self, variant: int, resident: int) -> int:
        return self.schedule.most_blocks(resident)

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        rows, columns = (sizes[d] + 256 for d in self.fusion.dims[-2:])
        check_extent(self.fusion, {**sizes, **dict(zip(self.fusion.dims[-2:], (rows, columns), strict=True))},
                     self.schedule.index, 0)  # fmt: skip


def fitted(fusion: Fusion, schedule: Schedule | None) -> Schedule:
    """A schedule with all chosen that is open: the deepest ring that shared memory holds."""
    if schedule is not None or obstacle(fusion):
        return (schedule or SCHEDULES[0]).chosen()
    fits = (s for s in SCHEDULES if (c := Copied(fusion, s)).bytes <= c.most)
    return next(fits, SCHEDULES[-1])


def _check(f: Fusion, schedule: Schedule) -> None:
    """Raises InputError for what such kernels cannot do."""
    schedule.check()
    if schedule.tile or schedule.mode != "warp-specialized" or schedule.registers or schedule.split:
        raise InputError(f"{f.name} transposes: its schedule sets no tile, mode, split or registers")
    if schedule.source == "direct":
        raise InputError(f"{f.name} transposes: rows and columns meet in shared memory: source=bulk")
    why = obstacle(f)
    if why:
        raise InputError(f"{f.name}: {why}")


__all__ = ["ACCESSES", "COPIES", "TransposePlan", "fitted", "launch_values", "tile_of"]
