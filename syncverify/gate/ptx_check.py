"""The gate's second check: the PTX that a fusion's CUDA became, as any PTX file is checked.

It is told what the launch passes (grid, block, shared memory, parameters and the facts that every launch is
tested for), and nothing else of how the code came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.checker.prover.strategy import EFFORTS, Entry
from syncverify.codegen.names import entry_name
from syncverify.codegen.tensor_maps import pointers
from syncverify.driver.executions.confirmed import confirmed
from syncverify.driver.explained import bare
from syncverify.driver.prover import prover
from syncverify.driver.ptx.check import Checker, check_module
from syncverify.driver.ptx.task import NotShownError, Prove
from syncverify.driver.verdicts import run_system, text_hash
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.ir.layout import layout
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.printed_expressions import print_expr


def check_ptx(
    kernel: Kernel, ptx: str, policy: Policy, values: Mapping[str, int] | None = None
) -> KernelReport:
    """The report on PTX for every launch that the kernel's facts admit, or for one launch's ``values``.

    Nothing is proved of PTX that leaves out what the kernel does: compilers drop stores that nobody comes to.
    """
    module = parse(ptx, f"{kernel.name}.ptx")
    report, left_out = (
        confirmed(_report(kernel, module, ptx, policy, values), module),
        never_stored(kernel, ptx),
    )
    report = bare(report)
    if report.verdict is not Verdict.PROVED or not left_out:
        return report
    reason = f"the compiled code stores nothing to {', '.join(left_out)}: it is not the kernel's"
    return replace(report, verdict=Verdict.UNKNOWN, reason=reason)


def never_stored(kernel: Kernel, ptx: str) -> list[str]:
    """Outputs that a kernel has the addresses of, and that its PTX never reads."""
    name = entry_name(kernel.name)
    given = enumerate(pointers(kernel))
    return [t.name for i, t in given if t.mode == "out" and f"[{name}_param_{i}]" not in ptx]


def _report(
    kernel: Kernel, module: Module, ptx: str, policy: Policy, values: Mapping[str, int] | None
) -> KernelReport:
    facts = launch_facts(kernel)

    def checked(
        values: Mapping[str, int] | None, scope: ScopeKind, prove: Prove, fewer: Prove | None = None
    ) -> KernelReport:
        (report,) = check_module(
            module,
            facts,
            policy,
            Checker(partial(run_system, budget=EFFORTS[Entry.GATE].launch), prove, fewer),
            kernel=entry_name(kernel.name),
            values=values,
            source_hash=text_hash(ptx),
            scope=scope,
            infer=False,
        )
        return report

    every = prover(Entry.GATE)
    if values is not None:
        return checked(values, ScopeKind.EXACT, every)
    with suppress(NotShownError):  # a right kernel needs no more than this, some with all sizes as terms
        report = checked(None, ScopeKind.ALL, _shown, prover(Entry.GATE_FIRST))
        if report.verdict is Verdict.PROVED:
            return _of_every_size(report)
    usual = {p.name: p.default for p in kernel.params if p.default is not None}
    first = checked(usual, ScopeKind.EXACT, every)  # wrong code mostly fails there, and soon
    if first.verdict is not Verdict.PROVED:
        return first
    report = checked(None, ScopeKind.ALL, every)
    if report.verdict is Verdict.PROVED:
        return _of_every_size(report)
    # undecided for every size: the usual ones are proved, and the gate asks for those of each launch
    return first if report.verdict is Verdict.UNKNOWN else report


def _of_every_size(report: KernelReport) -> KernelReport:
    """A proof's report: every size of the kernel was left open."""
    return replace(report, scope=replace(report.scope, kind=ScopeKind.ALL, values={}))


def launch_facts(kernel: Kernel) -> LaunchFacts:
    """What a launch passes: pointers to memory of their own that starts at 16 bytes, tensor maps, sizes."""
    passed: list[dict[str, Any]] = [{"ptr": t.name, "align": 16} for t in pointers(kernel)]
    types = {t.name: t.dtype for t in kernel.tensors}
    passed += [
        {"tensormap": m.name, "dtype": types[m.tensor], "box": list(reversed(m.box)), "swizzle": m.swizzle}
        for m in kernel.maps
    ]
    passed += [{p.dtype: p.name} for p in kernel.params]
    params = {str(i): x for i, x in enumerate(passed)}
    launch = kernel.launch
    facts: dict[str, Any] = {
        "grid": [print_expr(e) for e in launch.grid],
        "block": list(launch.block),
        "cluster": list(launch.cluster),
        "dynamic_smem": layout(kernel, {}).size,
        "assume": [print_expr(a) for a in kernel.assumes],
        "params": params,
    }
    if launch.dependent:
        facts["dependent"] = True
    return LaunchFacts({entry_name(kernel.name): facts}, f"the launch of {kernel.name}")


def _shown(*problem: Any) -> Any:
    """A proof, and no search for sizes that refute where there is none: the usual ones are tried first."""
    found = prover(Entry.GATE_FIRST)(*problem)
    if found.verdict is not Verdict.PROVED:
        raise NotShownError(found.reason)
    return found


__all__ = ["check_ptx", "launch_facts"]
