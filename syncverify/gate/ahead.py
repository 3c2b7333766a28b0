"""Proofs of several kernels in processes side by side: what each finds is stored, and found by the caller.

``python -m syncverify.gate.ahead`` proves the kernel that is pickled on its standard input.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.fusion import Fusion, RowSchedule, Schedule
from syncverify.gate import fusions, matmul
from syncverify.matmul.problem import Problem

#: What a process may take beyond the seconds of its proofs: to begin, to make schedules, to compile.
_MORE_SECONDS = 60.0
#: Proofs of one kernel, at most: of its IR and its PTX, in some schedules.
_PROOFS = 4


@dataclass(frozen=True)
class Ahead:
    """A kernel that will be needed for these sizes, on a card with so many multiprocessors."""

    kernel: Fusion | Problem
    sizes: dict[str, int]
    policy: Policy
    multiprocessors: int
    proof_seconds: float


def compile_fusion(
    fusion: Fusion, sizes: dict[str, int], policy: Policy, schedule: Schedule | RowSchedule | None = None,
    proof_seconds: float = fusions.PROOF_SECONDS,
) -> fusions.CompiledKernel:  # fmt: skip
    """The fusion, proved for the row length that is needed first; InputError or VerificationError."""
    if schedule is None and fusion.reduced:
        schedule = RowSchedule(width=sizes[fusion.dims[-1]])
    compiled = fusions.compile(fusion, schedule, policy, proof_seconds=proof_seconds)
    if not isinstance(compiled, fusions.CompiledKernel):
        raise InputError(f"{fusion.name} takes several kernels")
    return compiled


def prove(one: Ahead) -> None:
    """Proves a kernel as the caller will; InputError or VerificationError, which it will meet again."""
    if isinstance(one.kernel, Fusion):
        compiled = compile_fusion(one.kernel, one.sizes, one.policy, proof_seconds=one.proof_seconds)
        values = compiled.launch_values(one.sizes, one.multiprocessors)
        compiled.program(one.sizes).require_proof(dict(values))
        return
    product = matmul.Matmul(one.kernel, one.policy, proof_seconds=one.proof_seconds)
    product.proved(one.sizes, one.multiprocessors)


def prove_ahead(kernels: Sequence[Ahead], jobs: int | None = None) -> None:
    """Proves all kernels, ``jobs`` at a time; a process that fails leaves its kernel to the caller."""
    jobs = jobs or max(1, (os.cpu_count() or 2) - 1)
    if len(kernels) < 2 or jobs < 2:
        return
    with ThreadPoolExecutor(min(jobs, len(kernels))) as pool:
        list(pool.map(_in_process, kernels))


def _in_process(one: Ahead) -> None:
    try:
        subprocess.run(
            [sys.executable, "-m", "syncverify.gate.ahead"], input=pickle.dumps(one), check=False,
            capture_output=True, timeout=_PROOFS * one.proof_seconds + _MORE_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, pickle.PicklingError, TypeError, AttributeError):
        return  # the caller proves it, or says why it cannot


def main() -> int:
    one = pickle.loads(sys.stdin.buffer.read())
    try:
        prove(one)
    except (InputError, fusions.VerificationError) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["Ahead", "compile_fusion", "prove", "prove_ahead"]
