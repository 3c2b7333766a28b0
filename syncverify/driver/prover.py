"""What proves PTX kernels for every size, for no more than the effort of an entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.prover.strategy import EFFORTS, Entry
from syncverify.driver.ptx.task import Prove


def prover(entry: Entry) -> Prove:
    """The search that an entry pays for, as the check of a PTX kernel asks for it."""

    def prove(
        sizes: Any,
        facts: Any,
        systems: Any,
        exact: Callable[..., Any],
        policy: Policy,
        clusters: int,
        alone: Any,
    ) -> Any:
        from syncverify.checker.prover.parametric.strategy import Problem, decide

        block_groups = clusters if clusters > 1 else 0
        problem = Problem(sizes, facts, systems, exact, modular_systems=alone if block_groups else None)
        return decide(problem, policy, EFFORTS[entry], block_groups)

    return prove


__all__ = ["prover"]
