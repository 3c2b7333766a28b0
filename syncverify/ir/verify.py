"""What a well-formed kernel is: names, kinds, shapes and immediates. Not whether it is correct.

Wrong counts, parities, missing fences and accesses out of bounds are for the checker to find and
explain; here only what no kernel can mean, or PTX cannot encode, is an error.
"""

from __future__ import annotations

from syncverify.ir import nodes, verify_launch, verify_ops
from syncverify.ir.checks import Checks, Problem
from syncverify.source import InputError


def verify(kernel: nodes.Kernel) -> None:
    """InputError with the first error, and how many more there are."""
    errors = [p for p in problems(kernel) if p.level == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more problems in kernel {kernel.name})" if len(errors) > 1 else ""
        raise InputError(errors[0].message + more, errors[0].span)


def problems(kernel: nodes.Kernel, prove: bool = False) -> list[Problem]:
    """Everything wrong with a kernel, in text order; with ``prove`` also what the solver can show."""
    checks = Checks(kernel)
    verify_launch.check(checks)
    if not checks.found:
        checks.body(kernel.body, verify_ops.RULES)
    if prove and not checks.found:
        from syncverify.ir.facts import notes

        checks.found += notes(kernel)
    return checks.found


__all__ = ["Problem", "problems", "verify"]
