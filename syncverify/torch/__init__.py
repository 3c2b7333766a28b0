"""PyTorch: ``torch.compile(f, backend="syncverify")``, and proved kernels as custom operators."""

from __future__ import annotations

from syncverify.torch.backend import Backend, backend, explain, make_backend, register
from syncverify.torch.custom import custom_op, matmul_op
from syncverify.torch.report import Report
from syncverify.torch.runners import (
    GateRunner,
    ProvingRunner,
    ReferenceRunner,
    RefusedError,
    Runner,
    SimulatorRunner,
)

register()

__all__ = [
    "Backend", "GateRunner", "ProvingRunner", "ReferenceRunner", "RefusedError", "Report", "Runner",
    "SimulatorRunner", "backend", "custom_op", "explain", "make_backend", "matmul_op",
]  # fmt: skip
