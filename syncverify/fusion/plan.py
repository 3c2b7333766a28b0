"""What the compiler needs to know of a kind of fusion: its kernels, which sizes each serves, its launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from syncverify.diagnostics import Policy
from syncverify.fusion import lower, row_schedule, store_role
from syncverify.fusion.graph import Fusion
from syncverify.fusion.pipeline import build, build_rows
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.rows import row_values
from syncverify.fusion.schedule import Schedule
from syncverify.ir.expr import Binary, Int, Var
from syncverify.ir.nodes import Kernel
from syncverify.source import InputError

Observe = Callable[[str, Kernel], None]


class Plan(Protocol):
    """A fusion under a schedule. Its kernels are told apart by a number, the *variant*."""

    @property
    def fusion(self) -> Fusion: ...

    @property
    def schedule(self) -> Schedule | RowSchedule: ...

    @property
    def main(self) -> int:
        """The variant that is compiled first."""

    def variant(self, sizes: Mapping[str, int]) -> int:
        """The variant for given sizes; raises InputError where there is none."""

    def build(self, variant: int, policy: Policy, observe: Observe | None = None) -> Kernel:
        """The synchronized kernel."""

    def resources(self, variant: int) -> tuple[int, bool]:
        """Blocks per SM, and whether global data is used once."""

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        """Raises InputError where an index would not fit the schedule's type."""


@dataclass(frozen=True)
class TilePlan:
    """Elementwise fusions over flattened tiles; a variant is a number of elements per access."""

    fusion: Fusion
    schedule: Schedule

    @property
    def main(self) -> int:
        return lower.widest_vector(self.fusion, self.schedule)

    def variant(self, sizes: Mapping[str, int]) -> int:
        return lower.vector_for(self.fusion, self.schedule, sizes)

    def build(self, variant: int, policy: Policy, observe: Observe | None = None) -> Kernel:
        if self.schedule.store == "role":
            return store_role.build(self.fusion, self.schedule, policy, variant, observe)
        return build(self.fusion, self.schedule, policy, variant, observe)

    def resources(self, variant: int) -> tuple[int, bool]:
        return self.schedule.blocks_per_sm, self.schedule.cache == "streaming"

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        _check_extent(self.fusion, sizes, self.schedule.index, 2 * self.schedule.tile)


@dataclass(frozen=True)
class RowPlan:
    """Fusions that reduce along rows; a variant is a row length."""

    fusion: Fusion
    schedule: RowSchedule

    @property
    def main(self) -> int:
        return self.schedule.width

    def variant(self, sizes: Mapping[str, int]) -> int:
        return sizes[self.fusion.dims[-1]]

    def fitted(self, variant: int) -> RowSchedule:
        return row_schedule.fitted(self.fusion, self.schedule, variant)

    def build(self, variant: int, policy: Policy, observe: Observe | None = None) -> Kernel:
        return build_rows(self.fusion, self.fitted(variant), variant, policy, observe)

    def resources(self, variant: int) -> tuple[int, bool]:
        return self.fitted(variant).blocks_per_sm, self.schedule.cache == "streaming"

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        _check_extent(self.fusion, sizes, self.schedule.index, 32 * sizes[self.fusion.dims[-1]])


def plan_of(fusion: Fusion, schedule: Schedule | RowSchedule | None = None) -> Plan:
    """The plan for a fusion; elementwise ones may also run by rows. InputError for an impossible schedule."""
    if isinstance(schedule, RowSchedule):
        return RowPlan(fusion, schedule)
    if fusion.reduced is None:
        return TilePlan(fusion, lower.fitted(fusion, schedule or Schedule()))
    if schedule is not None:
        raise InputError(f"{fusion.name} reduces along {fusion.reduced}: it takes a RowSchedule")
    return RowPlan(fusion, RowSchedule())


def with_settings(fusion: Fusion, settings: Iterable[str]) -> Schedule | RowSchedule:
    """The schedule of the fusion's kind with ``NAME=VALUE`` settings; raises InputError for a bad one."""
    kind = Schedule() if fusion.reduced is None else RowSchedule()
    return kind.with_settings(settings)


def launch_values(fusion: Fusion, kernel: Kernel, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    """The parameters of a lowered kernel for given sizes and so many blocks at most."""
    if fusion.dims[-1] in {p.name for p in kernel.params}:
        return lower.launch_values(kernel, sizes, blocks)
    return row_values(_tile_rows(kernel), sizes, blocks, fusion.dims[:-1])


def _tile_rows(kernel: Kernel) -> int:
    """The rows of a tile: a lowered kernel assumes that fewer are left over."""
    for fact in kernel.assumes:
        match fact:
            case Binary("<", Var("rest"), Int(rows)):
                return rows
    raise InputError(f"kernel {kernel.name} is no lowered fusion", kernel.span)


def _check_extent(fusion: Fusion, sizes: Mapping[str, int], index: str, ahead: int) -> None:
    """With 32-bit indices the last index that any thread forms must fit; ``ahead``: elements past the end."""
    elements = math.prod(sizes[d] for d in fusion.dims)
    if index == "i32" and elements + ahead >= 2**31:
        raise InputError(f"{fusion.name}: {elements} elements need the schedule's index=i64")
