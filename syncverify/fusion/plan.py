"""What the compiler needs to know of a kind of fusion: its kernels, which sizes each serves, its launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen.accesses import Hint
from syncverify.fusion import (
    column_schedule,
    columns,
    halves,
    kept_choices,
    lower,
    row_menu,
    row_schedule,
    row_strides,
    streamed,
)
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.columns import ColumnKernel
from syncverify.fusion.graph import Fusion
from syncverify.fusion.persistent import tile_of
from syncverify.fusion.row_schedule import RowSchedule, vector
from syncverify.fusion.rows import row_values
from syncverify.fusion.schedule import MOST_BLOCKS, Schedule, check_extent
from syncverify.fusion.segments import whole
from syncverify.ir.nodes import Kernel

Observe = Callable[[str, Kernel], None]


class Plan(Protocol):
    """A fusion under a schedule. Its kernels are distinguished by a number, the *variant*."""

    @property
    def fusion(self) -> Fusion: ...

    @property
    def schedule(self) -> Schedule | RowSchedule | ColumnSchedule: ...

    @property
    def main(self) -> int:
        """The variant that is compiled first."""

    def variant(self, sizes: Mapping[str, int]) -> int:
        """The variant for given sizes; raises InputError where there is none."""

    def build(self, variant: int, policy: Policy, observe: Observe | None = None) -> Kernel:
        """The synchronized kernel."""

    def resources(self, variant: int) -> tuple[int, Hint]:
        """Blocks per SM, and what L2 is told of global data."""

    def most_blocks(self, variant: int, resident: int) -> int:
        """The largest grid, on a machine on which so many blocks run together."""

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
        # the passes: only who makes a kernel needs them
        from syncverify.fusion import pipeline, store_role

        if self.schedule.store == "role":
            return store_role.build(self.fusion, self.schedule, policy, variant, observe)
        return pipeline.build(self.fusion, self.schedule, policy, variant, observe)

    def resources(self, variant: int) -> tuple[int, Hint]:
        return self.schedule.blocks_per_sm, self.schedule.hint

    def most_blocks(self, variant: int, resident: int) -> int:
        return self.schedule.most_blocks(resident)

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        check_extent(self.fusion, sizes, self.schedule.index, 2 * self.schedule.tile)


@dataclass(frozen=True)
class RowPlan:
    """Fusions that reduce along rows. A variant is a row length, or, where rows are streamed, a negative
    number (``_Pieces``): one kernel for many lengths."""

    fusion: Fusion
    schedule: RowSchedule

    @property
    def main(self) -> int:
        return self._variant(self.schedule.width)

    def variant(self, sizes: Mapping[str, int]) -> int:
        return self._variant(sizes[self.fusion.dims[-1]])

    @cached_property
    def _known(self) -> dict[int, tuple[RowSchedule, int]]:
        """By length of rows: the schedule with what is chosen by it, and the variant."""
        return {}

    def _asked(self, width: int) -> RowSchedule:
        return self._chosen(width)[0]

    def _variant(self, width: int) -> int:
        return self._chosen(width)[1]

    def _chosen(self, width: int) -> tuple[RowSchedule, int]:
        if width not in self._known:
            asked = self.schedule
            if row_menu.applies(self.fusion, asked, width):
                asked = kept_choices.chosen(self.fusion, asked, width)
            self._known[width] = asked, self._number(asked, width)
        return self._known[width]

    def _number(self, asked: RowSchedule, width: int) -> int:
        if len(self.fusion.dims) > 1 and not asked.streams(width):
            return width
        peeled = row_schedule.peeled(self.fusion, asked, width)
        access = row_schedule.widest_vector(self.fusion) if peeled else vector(self.fusion, width)
        fitted = streamed.fitted(asked, peeled)
        kept = 0
        if fitted.reread == "shared":
            kept = streamed.StreamedRows(self.fusion, fitted, access).pieces_that_fit(width)
        return _Pieces(access, peeled, fitted.warps, fitted.blocks_per_sm, kept).number

    def fitted(self, variant: int) -> RowSchedule:
        if variant < 0:
            p = _Pieces.of(variant)
            asked = replace(self.schedule, warps=p.warps or self.schedule.warps, blocks_per_sm=p.blocks)
            asked = replace(asked, reread="shared") if p.kept else asked
            return streamed.fitted(asked, p.peeled)
        return row_schedule.fitted(self.fusion, self._asked(variant), variant)

    def build(self, variant: int, policy: Policy, observe: Observe | None = None) -> Kernel:
        from syncverify.fusion.pipeline import build_rows, build_streamed

        if variant < 0:
            p = _Pieces.of(variant)
            kernel = streamed.StreamedRows(self.fusion, self.fitted(variant), p.access, p.kept)
            return build_streamed(kernel, policy, observe)
        return build_rows(self.fusion, self.fitted(variant), variant, policy, observe)

    def resources(self, variant: int) -> tuple[int, Hint]:
        fitted = self.fitted(variant)
        return fitted.blocks_per_sm, fitted.hint

    def most_blocks(self, variant: int, resident: int) -> int:
        return MOST_BLOCKS if self.fitted(variant).grid == "tiles" else resident

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        width = sizes[self.fusion.dims[-1]]
        # the rows of a tile: short ones (up to 2048 elements) are up to 192 of a block's warps, or as many
        # times the lanes of a warp by those that share a row
        check_extent(self.fusion, sizes, self.schedule.index, max(32 * width, 1 << 19))


@dataclass(frozen=True)
class _Pieces:
    """A kernel of streamed rows: elements of an ``access``, whether rows are peeled, warps of a block, blocks
    on a multiprocessor, pieces that stay in shared memory."""

    access: int
    peeled: bool
    warps: int
    blocks: int
    kept: int = 0

    @property
    def number(self) -> int:
        """A negative number that tells all of it."""
        threads = (self.kept << 6 | self.warps) << 5 | self.blocks
        return -((threads << 1 | self.peeled) << 5 | self.access)

    @staticmethod
    def of(number: int) -> _Pieces:
        rest, access = divmod(-number, 1 << 5)
        rest, peeled = divmod(rest, 2)
        threads, blocks = divmod(rest, 1 << 5)
        kept, warps = divmod(threads, 1 << 6)
        return _Pieces(access, bool(peeled), warps, blocks, kept)


#: A variant of a column plan: columns of a thread times this, plus threads side by side.
_ACROSS = 64


@dataclass(frozen=True)
class ColumnPlan:
    """Fusions that reduce over rows: ``partial`` results of strips, or all rows in one block. A variant says
    how a block's threads stand."""

    fusion: Fusion
    schedule: ColumnSchedule
    partial: bool = False

    @property
    def main(self) -> int:
        return self.variant({self.fusion.dims[-1]: 4096})

    def variant(self, sizes: Mapping[str, int]) -> int:
        vector, across = column_schedule.shape(self.fusion, sizes)
        return vector * _ACROSS + across

    def kernel(self, variant: int) -> ColumnKernel:
        return ColumnKernel(self.fusion, self.schedule, *divmod(variant, _ACROSS), self.partial)

    def build(self, variant: int, policy: Policy, observe: Observe | None = None) -> Kernel:
        from syncverify.fusion.pipeline import build_columns

        return build_columns(self.kernel(variant), policy, observe)

    def resources(self, variant: int) -> tuple[int, Hint]:
        blocks = self.schedule.blocks_per_sm * self.schedule.warps * 32 // self.kernel(variant).threads
        return max(1, min(16, blocks)), self.schedule.cache

    def most_blocks(self, variant: int, resident: int) -> int:
        return resident

    def check_extent(self, sizes: Mapping[str, int]) -> None:
        check_extent(self.fusion, sizes, self.schedule.index, 64 * sizes[self.fusion.dims[-1]])


def plan_of(fusion: Fusion, schedule: Schedule | RowSchedule | None = None) -> Plan:
    """The plan for a fusion; elementwise ones may also run by rows. InputError for an impossible schedule."""
    if fusion.along - {fusion.dims[-1]}:
        raise InputError(
            f"{fusion.name} reduces along {', '.join(sorted(fusion.along))}; one kernel reduces along "
            f"{fusion.dims[-1]}, the innermost dimension"
        )
    if not whole(fusion):
        raise InputError(f"{fusion.name} takes several kernels, which choose their schedules themselves")
    if fusion.transposed or (fusion.reduced is None and halves.applies(fusion)):
        row_strides.refuse(fusion, "tiles that are turned or hold whole rows do not do")
    if isinstance(schedule, RowSchedule) and not fusion.transposed:
        return RowPlan(fusion, schedule)
    if isinstance(schedule, RowSchedule):
        raise InputError(f"{fusion.name} transposes: it takes a Schedule, not a RowSchedule")
    if fusion.transposed:
        from syncverify.fusion import transpose

        return transpose.TransposePlan(fusion, transpose.fitted(fusion, schedule))
    if fusion.reduced is None and halves.applies(fusion):
        return halves.HalvesPlan(fusion, (schedule or Schedule()).chosen())
    if fusion.reduced is None:
        schedule = schedule or Schedule()
        chosen = lower.loaded(fusion, schedule) if schedule.open else schedule
        fitted = lower.fitted(fusion, chosen)
        if fitted.source != "direct":
            row_strides.refuse(fusion, "needs source=direct")
        return TilePlan(fusion, fitted)
    if schedule is not None:
        raise InputError(f"{fusion.name} reduces along {fusion.reduced}: it takes a RowSchedule")
    return RowPlan(fusion, RowSchedule())


def with_settings(fusion: Fusion, settings: Iterable[str]) -> Schedule | RowSchedule:
    """The schedule of the fusion's kind with ``NAME=VALUE`` settings; raises InputError for a bad one."""
    kind = Schedule() if fusion.reduced is None else RowSchedule()
    return kind.with_settings(settings)


def launch_values(fusion: Fusion, kernel: Kernel, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    """The parameters of a lowered kernel for given sizes and so many blocks at most."""
    fusion.check_sizes(sizes)
    sizes = row_strides.known(fusion, sizes)
    found = _launch_values(fusion, kernel, {d: sizes[d] for d in fusion.dims}, sizes, blocks)
    return {**{p.name: sizes[p.name] for p in kernel.params if p.name in sizes}, **found}


def _launch_values(
    fusion: Fusion, kernel: Kernel, sizes: Mapping[str, int], known: Mapping[str, int], blocks: int
) -> dict[str, int]:
    params = {p.name for p in kernel.params}
    if "columns" in params:
        return columns.launch_values(kernel, known, blocks, fusion.dims)
    if "chunks" in params:
        return streamed.launch_values(kernel, sizes, blocks, fusion.dims)
    if "tiles_m" in params:
        from syncverify.fusion import transpose

        return transpose.launch_values(fusion.dims, transpose.tile_of(kernel), sizes, blocks)
    if fusion.dims[-1] in params:
        return lower.launch_values(kernel, sizes, blocks)
    return row_values(tile_of(kernel), sizes, blocks, fusion.dims[:-1])
