"""A fusion becomes what can be called: one proved kernel, or a sequence of several."""

from __future__ import annotations

from collections.abc import Callable

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.graph import Fusion
from syncverify.fusion.plan import plan_of
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.schedule import Schedule
from syncverify.fusion.segments import whole
from syncverify.gate.fusions import CompiledKernel, compiled
from syncverify.gate.proof_time import PROOF_SECONDS, policy_of
from syncverify.gate.sequence import CompiledSequence, compile_sequence
from syncverify.ir.nodes import Kernel


def compile(
    fusion: Fusion,
    schedule: Schedule | RowSchedule | ColumnSchedule | None = None,
    policy: Policy = Policy.PRACTICAL,
    *,
    cache: Cache | None = None,
    observe: Callable[[str, Kernel], None] | None = None,
    proof_seconds: float = PROOF_SECONDS,
) -> CompiledKernel | CompiledSequence:
    """Compiles and proves a fusion; raises VerificationError (with the report) if it is not proved.

    What one kernel cannot hold comes back as a sequence of several, which is called alike. ``proof_seconds``
    of processor time are what each proof may take.
    """
    if not isinstance(fusion, Fusion):
        raise InputError(f"{fusion!r} is no fusion: declare its tensors by @fusion, or use trace()")
    if not isinstance(schedule, Schedule | RowSchedule | ColumnSchedule | None):
        raise InputError(f"{schedule!r} is no schedule: use Schedule, RowSchedule or ColumnSchedule")
    policy = policy_of(policy)
    if isinstance(schedule, ColumnSchedule) or (schedule is None and not whole(fusion)):
        columns = schedule or ColumnSchedule()
        return compile_sequence(
            fusion, policy, schedule=columns, cache=cache, observe=observe, proof_seconds=proof_seconds
        )
    plan = plan_of(fusion, schedule)
    return compiled(plan, policy, cache=cache, observe=observe, proof_seconds=proof_seconds)
