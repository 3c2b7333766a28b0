"""Other abstractions of one launch: ways to look at a kernel that the first one leaves undecided.

An abstraction is sound for a proof: it lets more executions happen. So a proof under any of them counts. What
it refutes counts only where its caller says so. Which causes call for which is the table of
``checker.prover.strategy``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from syncverify.base.reason import causes_of
from syncverify.checker.prover.strategy import CAUSES, Step
from syncverify.driver.ptx.task import CheckTask, with_lanes_that_meet
from syncverify.frontends.ptx.analysis.blocks.copies_in_flight import copied_to_one_place
from syncverify.frontends.ptx.analysis.polls.shared_polls import shared_polls


def with_contents_as_data(k: CheckTask) -> CheckTask:
    """The same with what lies in shared memory as data."""
    return k.abstracted(replace(k.abstraction, shared_contents=False))


def with_parameters_as_data(k: CheckTask) -> CheckTask:
    """The same with sizes that have no number as data."""
    return k.abstracted(replace(k.abstraction, parameters_as_data=True))


def with_barriers_aside(k: CheckTask) -> CheckTask:
    """The same with barriers of the block that order nothing, and what lies in shared memory as data."""
    return k.abstracted(replace(k.abstraction, barriers=False, shared_contents=False))


def inside_arrays(k: CheckTask) -> CheckTask:
    """The same where accesses that data places stay inside the arrays that they name."""
    return k.abstracted(replace(k.abstraction, inside_arrays=True))


def with_turns(k: CheckTask) -> Iterator[CheckTask]:
    """The same where each order of the atomics in shared memory that decide is tried, if there are any."""
    if k.code.compiled is not None and k.code.compiled.deciding_turns:
        yield k.abstracted(replace(k.abstraction, turns=True))


def with_copies_apart(k: CheckTask) -> CheckTask | None:
    """The same where bulk copies in flight write different places in global memory; None where that says
    nothing, or the text contradicts it: other accesses are handed over there as well, such copies are taken
    apart already, or some that are in flight have one place."""
    p = k.code.compiled
    if p is None or p.handing is None or p.handing.again is None or copied_to_one_place(p.flow) is not None:
        return None
    return k.abstracted(replace(k.abstraction, copies_apart=True))


def steers(k: CheckTask) -> bool:
    """Whether data decides where a thread goes, as far as the code was looked at."""
    return k.code.compiled is not None and bool(k.code.compiled.steers)


def polls_not_followed(k: CheckTask) -> list[int]:
    """Waits in shared memory that are no events, by instruction; none as long as nothing was compiled."""
    p = k.code.compiled
    return [] if p is None else [at for at in shared_polls(p.flow) if at not in p.flags.waits]


def lanes_only_meet(k: CheckTask, reason: str | None) -> Iterator[CheckTask]:
    """The kernel with barriers of warps that order nothing, where data keeps it from a verdict; if need be
    first with what lies in shared memory as data."""
    if not causes_of(reason) & CAUSES[Step.LANES_MEET]:
        return
    if not k.abstraction.warp_order or k.facts.block is None or polls_not_followed(k):
        return
    if with_lanes_that_meet(k.facts, k.function) is k.function:
        return
    if steers(k):
        yield k.abstracted(replace(k.abstraction, warp_order=False, shared_contents=False))
    yield k.abstracted(replace(k.abstraction, warp_order=False))


__all__ = [
    "inside_arrays",
    "lanes_only_meet",
    "polls_not_followed",
    "steers",
    "with_barriers_aside",
    "with_contents_as_data",
    "with_copies_apart",
    "with_parameters_as_data",
    "with_turns",
]
