"""From fusion and schedule to the synchronized kernel: which passes run, in which order."""

from __future__ import annotations

from collections.abc import Callable

from syncverify.base.diagnostics import Policy
from syncverify.fusion.columns import ColumnKernel
from syncverify.fusion.graph import Fusion
from syncverify.fusion.lower import fitted, full_barrier, lower, pieces, tile_buffer
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.rows import RowKernel
from syncverify.fusion.schedule import Schedule
from syncverify.fusion.streamed import StreamedRows
from syncverify.ir.nodes import Kernel
from syncverify.passes import synthesize
from syncverify.passes.base import Pass, run
from syncverify.passes.buffers import CircularBuffers
from syncverify.passes.exchange import ExchangeBarriers
from syncverify.passes.grid import DependentLaunch
from syncverify.passes.lanes import ElectOneLane
from syncverify.passes.mbarriers import EmptyBarriers, FullBarriers, InitBarriers
from syncverify.passes.registers import SetRegisters
from syncverify.passes.role_handover import BulkGroups, HandoverBarriers, ProxyFences
from syncverify.passes.roles import Prefetch, Specialize

#: The pass names, in order; ``--print-after`` takes one of them, or "lower".
PASS_NAMES = (
    "circular-buffers", "specialize", "prefetch", "full-barriers", "empty-barriers", "bulk-groups",
    "handover-barriers", "exchange-barriers", "proxy-fences", "elect", "mbarrier-init", "setmaxnreg",
    "dependent-launch",
)  # fmt: skip


def passes(fusion: Fusion, schedule: Schedule, policy: Policy) -> tuple[Pass, ...]:
    """The passes of one compilation, in order: none where each thread works alone."""
    if schedule.source == "direct":
        return _dependent(schedule)
    stages = {tile_buffer(n): schedule.stages for n in fusion.streamed}
    if schedule.store == "tma":
        stages |= {tile_buffer(o.name): schedule.store_stages for o in fusion.outputs}
    loads = pieces(fusion, schedule) if fusion.streamed else ()
    warps = {full_barrier(w): w for w in sorted({p.warp for p in loads})}
    ahead = schedule.prefetch_distance
    strict = policy is Policy.STRICT
    result: list[Pass] = [CircularBuffers(stages)]
    if schedule.mode == "warp-specialized":
        reserved = 4 if schedule.registers else len(warps)
        result.append(Specialize(warps, schedule.compute_warps, reserved))
    else:
        result.append(Prefetch(ahead, warps, free_before=ahead < schedule.stages))
    result.append(FullBarriers())
    if schedule.mode == "warp-specialized":
        result.append(EmptyBarriers(ahead, schedule.arrive))
    result += [
        BulkGroups(),
        HandoverBarriers(unaligned=strict),
        ProxyFences(policy),
        ElectOneLane(),
        InitBarriers(),
    ]
    if schedule.registers is not None:
        result.append(SetRegisters(*schedule.registers))
    return (*result, *_dependent(schedule))


def _dependent(schedule: Schedule | RowSchedule) -> tuple[Pass, ...]:
    """Others may start as soon as the kernel before is over: they fill what the last blocks leave."""
    return (DependentLaunch("start"),) if schedule.dependent == "yes" else ()


def build(
    fusion: Fusion,
    schedule: Schedule,
    policy: Policy = Policy.PRACTICAL,
    vector: int | None = None,
    observe: Callable[[str, Kernel], None] | None = None,
    without: frozenset[str] = frozenset(),
    width: int = 0,
) -> Kernel:
    """The synchronized kernel. ``without`` leaves passes out, for experiments: such a kernel is broken."""
    schedule = fitted(fusion, schedule)
    kernel = lower(fusion, schedule, vector, width)
    if observe is not None:
        observe("lower", kernel)
    return run(kernel, [p for p in passes(fusion, schedule, policy) if p.name not in without], observe)


def row_passes(kernel: RowKernel, policy: Policy) -> tuple[Pass, ...]:
    """The passes of a kernel of rows."""
    schedule = kernel.schedule
    own = frozenset(tile_buffer(o.name) for o in kernel.gathered if kernel.gathers_by_warp)
    exchange = ExchangeBarriers(unaligned=policy is Policy.STRICT, by_warp=own)
    if schedule.source == "direct":
        return (exchange, *_dependent(schedule))
    return (
        CircularBuffers(
            dict.fromkeys((*kernel.staged, *(tile_buffer(o.name) for o in kernel.stored)), schedule.stages)
        ),
        Specialize({full_barrier(c.number or 0): 0 for c in kernel.chunks}, schedule.compute_warps, 1),
        FullBarriers(),
        EmptyBarriers(schedule.stages, schedule.arrive),
        BulkGroups(),
        HandoverBarriers(unaligned=policy is Policy.STRICT),
        exchange,
        ProxyFences(policy),
        ElectOneLane(),
        InitBarriers(),
        *_dependent(schedule),
    )


def build_rows(
    fusion: Fusion,
    schedule: RowSchedule,
    width: int,
    policy: Policy = Policy.PRACTICAL,
    observe: Callable[[str, Kernel], None] | None = None,
    without: frozenset[str] = frozenset(),
) -> Kernel:
    """The synchronized kernel for rows of one width, under a fitted schedule; ``without`` as in ``build``."""
    rows = RowKernel(fusion, schedule, width)
    kernel = rows.lower()
    if observe is not None:
        observe("lower", kernel)
    return run(kernel, [p for p in row_passes(rows, policy) if p.name not in without], observe)


def build_streamed(
    rows: StreamedRows,
    policy: Policy = Policy.PRACTICAL,
    observe: Callable[[str, Kernel], None] | None = None,
    without: frozenset[str] = frozenset(),
) -> Kernel:
    """The synchronized kernel of rows that are streamed; ``without``: as above."""
    kernel = rows.lower()
    if observe is not None:
        observe("lower", kernel)
    exchange = ExchangeBarriers(unaligned=policy is Policy.STRICT, by_thread=rows.kept_buffers)
    passes = (exchange, *_dependent(rows.schedule))
    return run(kernel, [p for p in passes if p.name not in without], observe)


def build_columns(
    kernel: ColumnKernel,
    policy: Policy = Policy.PRACTICAL,
    observe: Callable[[str, Kernel], None] | None = None,
    without: frozenset[str] = frozenset(),
) -> Kernel:
    """The synchronized kernel of a reduction over rows; ``without``: as above."""
    lowered = kernel.lower()
    if observe is not None:
        observe("lower", lowered)
    return run(lowered, [p for p in synthesize.passes(policy) if p.name not in without], observe)
