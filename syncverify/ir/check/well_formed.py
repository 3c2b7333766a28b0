"""What a well-formed kernel is: names, kinds, shapes and immediates. Not whether it is correct.

Wrong counts, parities, missing fences and accesses out of bounds are for the checker to find and
explain; here only what no kernel can mean, or PTX cannot encode, is an error.
"""

from __future__ import annotations

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.check import launch, operations
from syncverify.ir.check.rules import Checks, Problem
from syncverify.ir.memo import once


@once
def verify(kernel: nodes.Kernel) -> None:
    """InputError with the first error, and how many more there are; or if no launch keeps its facts."""
    errors = [p for p in problems(kernel) if p.level == "error"]
    if errors:
        first, more = errors[0], len(errors) - 1
        count = f" (the first of {more + 1} problems in kernel {kernel.name})" if more else ""
        raise InputError(first.message + count, first.span)
    if kernel.assumes:
        from syncverify.ir.check.path_facts import demand_launch

        demand_launch(kernel)


def problems(kernel: nodes.Kernel, prove: bool = False) -> list[Problem]:
    """Everything wrong with a kernel, in text order; with ``prove`` also what the solver can show."""
    checks = Checks(kernel)
    launch.check(checks)
    if not checks.found:
        checks.body(kernel.body, operations.RULES)
    if prove and not any(p.level == "error" for p in checks.found):
        from syncverify.ir.check.path_facts import notes

        checks.found += notes(kernel)
    return checks.found


__all__ = ["Problem", "problems", "verify"]
