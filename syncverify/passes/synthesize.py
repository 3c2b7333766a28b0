"""All synchronization of a kernel that has none, from the model alone: which passes, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from syncverify.base.diagnostics import Policy
from syncverify.ir.nodes import Kernel
from syncverify.passes.barriers import Barriers
from syncverify.passes.base import Pass, run
from syncverify.passes.channels import Channels
from syncverify.passes.cluster import ClusterPushes
from syncverify.passes.counters import CountUses
from syncverify.passes.distribute import Distribute, Tidy
from syncverify.passes.fences import Fences
from syncverify.passes.grid import DependentLaunch, GridSemaphores
from syncverify.passes.groups import Groups
from syncverify.passes.lanes import ElectOneLane
from syncverify.passes.mbarriers import InitBarriers
from syncverify.passes.storage import Allocate


@dataclass(frozen=True, slots=True)
class Options:
    """``arrive``: one lane of each warp, or every thread, where threads hand over. ``reuse``: buffers whose
    values never live at the same time may lie in the same place. ``serial``: blocks that add to one tensor
    do so in turn. ``dependent``: the kernel is launched while the one in front of it still runs."""

    arrive: Literal["warp", "thread"] = "warp"
    reuse: bool = False
    serial: bool = False
    dependent: bool = False


def passes(policy: Policy, options: Options = Options()) -> tuple[Pass, ...]:
    """The passes, in order."""
    return (
        *((Allocate(),) if options.reuse else ()),
        *((DependentLaunch(),) if options.dependent else ()),
        ClusterPushes(),
        Channels(options.arrive),
        Barriers(unaligned=policy is Policy.STRICT),
        GridSemaphores(serial=options.serial),
        Groups(),
        Fences(policy),
        Distribute(),
        CountUses(),
        ElectOneLane(),
        InitBarriers(),
        Tidy(),
    )


def synthesize(
    kernel: Kernel,
    policy: Policy = Policy.PRACTICAL,
    options: Options = Options(),
    observe: Callable[[str, Kernel], None] | None = None,
) -> Kernel:
    """The kernel with all the synchronization that it needs.

    It is written as if every copy were instantaneous and each statement were done by all its threads before
    the next one starts; copies name the mbarrier array that they complete on. InputError for what no pass
    can order. What comes out is to be checked: the passes look at the parameters' defaults only.
    """
    return run(kernel, passes(policy, options), observe)
