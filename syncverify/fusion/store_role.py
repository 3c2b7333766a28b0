"""Elementwise fusions whose results leave by a role of their own: loads, arithmetic and stores run apart.

The kernel is lowered as any other, given roles, and synchronized by the passes that know no shape of kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from syncverify.base.diagnostics import Policy
from syncverify.fusion.graph import Fusion
from syncverify.fusion.lower import fitted, full_barrier, lower, pieces, tile_buffer
from syncverify.fusion.schedule import Schedule
from syncverify.ir.nodes import Kernel
from syncverify.passes import synthesize
from syncverify.passes.base import Pass, run
from syncverify.passes.buffers import CircularBuffers
from syncverify.passes.inline import InlineRoles


def passes(fusion: Fusion, schedule: Schedule, policy: Policy) -> tuple[Pass, ...]:
    """The passes of one compilation, in order."""
    stages = {tile_buffer(n): schedule.stages for n in fusion.streamed}
    stages |= {tile_buffer(o.name): schedule.store_stages for o in fusion.outputs}
    loads = pieces(fusion, schedule) if fusion.streamed else ()
    warps = {full_barrier(w): w for w in sorted({p.warp for p in loads})}
    return (
        CircularBuffers(stages),
        InlineRoles(warps, schedule.compute_warps),
        *synthesize.passes(policy, synthesize.Options(schedule.arrive)),
    )


def build(
    fusion: Fusion,
    schedule: Schedule,
    policy: Policy = Policy.PRACTICAL,
    vector: int | None = None,
    observe: Callable[[str, Kernel], None] | None = None,
    width: int = 0,
) -> Kernel:
    """The synchronized kernel."""
    schedule = fitted(fusion, schedule)
    kernel = lower(fusion, schedule, vector, width)
    if observe is not None:
        observe("lower", kernel)
    return run(kernel, passes(fusion, schedule, policy), observe)
