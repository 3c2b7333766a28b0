"""Elementwise fusions with outputs whose last two dimensions are swapped: which kernels there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from syncverify.codegen.accesses import Hint
from syncverify.diagnostics import Policy
from syncverify.fusion.graph import ROTATIONS, Fusion
from syncverify.fusion.schedule import Schedule, check_extent
from syncverify.fusion.turned import Accessed, Copied, launch_values, tile_of, units
from syncverify.ir.nodes import Kernel
from syncverify.passes import synthesize
from syncverify.passes.base import run
from syncverify.source import InputError

#: Where nothing else is said; as many slots on both sides, so that proofs end soon.
SCHEDULE = Schedule(stages=3, store_stages=3)
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
        return self.schedule.blocks_per_sm, self.schedule.cache

    def most_blocks(self, variant: int, resident: int) -> int:
        return self.schedule.most_blocks(resident)

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        rows, columns = (sizes[d] + 256 for d in self.fusion.dims[-2:])
        check_extent(self.fusion, {**sizes, **dict(zip(self.fusion.dims[-2:], (rows, columns), strict=True))},
                     self.schedule.index, 0)  # fmt: skip


def _check(f: Fusion, schedule: Schedule) -> None:
    """Raises InputError for what such kernels cannot do."""
    schedule.check()
    if schedule.tile or schedule.mode != "warp-specialized" or schedule.registers or schedule.split:
        raise InputError(f"{f.name} transposes: its schedule sets no tile, mode, split or registers")
    if schedule.source == "direct":
        raise InputError(f"{f.name} transposes: rows and columns meet in shared memory: source=bulk")
    unable = sorted(f.ops() & {"random", *ROTATIONS})
    if unable:
        raise InputError(
            f"{f.name}: {', '.join(unable)} beside transpose(): transpose in a fusion of its own"
        )
    last = f.dims[-2:]
    for name, t in f.inputs:
        if t.dims not in (f.dims, last[:1], last[1:], ()):
            raise InputError(
                f"{f.name}: {name} has dimensions {', '.join(t.dims)}; beside inputs of "
                f"({', '.join(f.dims)}) a transpose takes operands of ({last[0]}), of ({last[1]}) and scalars"
            )
    if not f.streamed:
        raise InputError(f"{f.name}: transpose() needs an input with all dimensions: {', '.join(f.dims)}")


__all__ = ["ACCESSES", "COPIES", "SCHEDULE", "TransposePlan", "launch_values", "tile_of"]
