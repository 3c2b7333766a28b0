"""syncverify: proves, refutes and compiles the asynchronous synchronization of NVIDIA Hopper kernels.

    import syncverify

    for report in syncverify.check("ring.syncir"):
        print(report.name, report.verdict, report.reason)

The names below load when they are first used, so that importing one part stays cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would have to be loaded, in every process
if TYPE_CHECKING:
    from syncverify.api import certify, check, recheck, replay
    from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Severity, Verdict, Witness
    from syncverify.base.source import InputError
    from syncverify.driver.certificates import Rechecked, RejectedError
    from syncverify.driver.files import check_file
    from syncverify.driver.ir import check_kernel
    from syncverify.frontends.launch_facts import LaunchFacts
    from syncverify.gate import CompiledKernel, VerificationError, compile
    from syncverify.ir.builder.kernel_builder import KernelBuilder
    from syncverify.ir.nodes import Kernel
    from syncverify.ir.text.parser import parse, parse_file
    from syncverify.ir.text.printer import print_kernel

__version__ = "0.1.0"

_HOME = {
    "CompiledKernel": "gate",
    "Diagnostic": "base.diagnostics",
    "InputError": "base.source",
    "Kernel": "ir.nodes",
    "KernelBuilder": "ir.builder.kernel_builder",
    "KernelReport": "base.diagnostics",
    "LaunchFacts": "frontends.launch_facts",
    "Policy": "base.diagnostics",
    "Rechecked": "driver.certificates",
    "RejectedError": "driver.certificates",
    "Severity": "base.diagnostics",
    "Verdict": "base.diagnostics",
    "VerificationError": "gate",
    "Witness": "base.diagnostics",
    "certify": "api",
    "check": "api",
    "check_file": "driver.files",
    "check_kernel": "driver.ir",
    "compile": "gate",
    "parse": "ir.text.parser",
    "parse_file": "ir.text.parser",
    "print_kernel": "ir.text.printer",
    "recheck": "api",
    "replay": "api",
}

__all__ = [
    "CompiledKernel",
    "Diagnostic",
    "InputError",
    "Kernel",
    "KernelBuilder",
    "KernelReport",
    "LaunchFacts",
    "Policy",
    "Rechecked",
    "RejectedError",
    "Severity",
    "Verdict",
    "VerificationError",
    "Witness",
    "certify",
    "check",
    "check_file",
    "check_kernel",
    "compile",
    "parse",
    "parse_file",
    "print_kernel",
    "recheck",
    "replay",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
