"""syncverify: proves, refutes and compiles the asynchronous synchronization of NVIDIA Hopper kernels.

    from syncverify import Policy, Verdict, check_file

    for report in check_file("ring.syncir", values={"N": 8}):
        print(report.name, report.verdict, report.reason)

The names below load when they are first used, so that importing one part stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncverify.diagnostics import Diagnostic, KernelReport, Policy, Severity, Verdict, Witness
    from syncverify.files import check_file
    from syncverify.gate import CompiledKernel, VerificationError, compile
    from syncverify.ir.builder import KernelBuilder
    from syncverify.ir.nodes import Kernel
    from syncverify.ir.parser import parse, parse_file
    from syncverify.ir.printer import print_kernel
    from syncverify.source import InputError
    from syncverify.verify import check_kernel

__version__ = "0.1.0"

_HOME = {
    "CompiledKernel": "gate",
    "Diagnostic": "diagnostics",
    "InputError": "source",
    "Kernel": "ir.nodes",
    "KernelBuilder": "ir.builder",
    "KernelReport": "diagnostics",
    "Policy": "diagnostics",
    "Severity": "diagnostics",
    "Verdict": "diagnostics",
    "VerificationError": "gate",
    "Witness": "diagnostics",
    "check_file": "files",
    "check_kernel": "verify",
    "compile": "gate",
    "parse": "ir.parser",
    "parse_file": "ir.parser",
    "print_kernel": "ir.printer",
}

__all__ = [
    "CompiledKernel",
    "Diagnostic",
    "InputError",
    "Kernel",
    "KernelBuilder",
    "KernelReport",
    "Policy",
    "Severity",
    "Verdict",
    "VerificationError",
    "Witness",
    "check_file",
    "check_kernel",
    "compile",
    "parse",
    "parse_file",
    "print_kernel",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
