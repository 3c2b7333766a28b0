"""The gate: what is proved runs, what is not is refused."""

from syncverify.gate.compiler import compile
from syncverify.gate.fusions import (
    H200_SMS,
    PROOF_SECONDS,
    STAGES,
    TOLERANCE,
    CompiledKernel,
    Program,
    RunResult,
    VerificationError,
    launch,
    run,
    run_on_host,
)
from syncverify.gate.unsafe_run import run_unsafe

__all__ = [
    "H200_SMS",
    "PROOF_SECONDS",
    "STAGES",
    "TOLERANCE",
    "CompiledKernel",
    "Program",
    "RunResult",
    "VerificationError",
    "compile",
    "launch",
    "run",
    "run_on_host",
    "run_unsafe",
]
