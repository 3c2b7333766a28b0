"""All synchronization of a kernel that has none, from the model alone: which passes, in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from syncverify.diagnostics import Policy
from syncverify.ir.nodes import Kernel
from syncverify.passes.barriers import Barriers
from syncverify.passes.base import Pass, run
from syncverify.passes.channels import Channels
from syncverify.passes.distribute import Distribute, Tidy
from syncverify.passes.fences import Fences
from syncverify.passes.groups import Groups
from syncverify.passes.lanes import ElectOneLane
from syncverify.passes.mbarriers import InitBarriers
from syncverify.passes.storage import Allocate


def passes(
    policy: Policy, arrive: Literal["warp", "thread"] = "warp", reuse: bool = False
) -> tuple[Pass, ...]:
    """The passes, in order. ``arrive``: one lane of each warp, or every thread, where threads hand over.

    ``reuse``: buffers whose values never live at the same time may lie in the same place.
    """
    return (
        *((Allocate(),) if reuse else ()),
        Channels(arrive),
        Barriers(unaligned=policy is Policy.STRICT),
        Groups(),
        Fences(policy),
        Distribute(),
        ElectOneLane(),
        InitBarriers(),
        Tidy(),
    )


def synthesize(
    kernel: Kernel,
    policy: Policy = Policy.PRACTICAL,
    arrive: Literal["warp", "thread"] = "warp",
    reuse: bool = False,
    observe: Callable[[str, Kernel], None] | None = None,
) -> Kernel:
    """The kernel with all the synchronization that it needs.

    It is written as if every copy were instantaneous and each statement were done by all its threads before
    the next one starts; copies name the mbarrier array that they complete on. InputError for what no pass
    can order. What comes out is to be checked: the passes look at the parameters' defaults only.
    """
    return run(kernel, passes(policy, arrive, reuse), observe)
