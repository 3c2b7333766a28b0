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
from syncverify.checker.outcome import Budget
from syncverify.checker.prover.parametric.strategy import Limits, Problem, Sized, any_size_of_teams, prove
from syncverify.codegen.names import entry_name
from syncverify.codegen.tensor_maps import pointers
from syncverify.driver.ptx_check import Checker, check_module
from syncverify.driver.ptx_task import NotShownError, Prove
from syncverify.driver.verdicts import merge, run_system, text_hash
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.ir.layout import layout
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.printer import print_expr

#: What the proof for every size may cost: it is made once and kept.
LIMITS = Limits(events=800_000, long=60_000, path=60_000, nodes=3_000, failures=1, stretch=2)
#: What is tried first: where it does not do, little was lost.
SOON = replace(LIMITS, events=200_000, nodes=500, soon=40_000, asks_last=True, stretch=4)
#: The only look where two clusters share global memory as a team.
TEAMS = Limits(events=2_000_000, nodes=6_000, failures=0, asks_last=True)
#: And the proof of one launch.
LAUNCH = Budget(max_events=4_000_000)


def check_ptx(
    kernel: Kernel, ptx: str, policy: Policy, values: Mapping[str, int] | None = None
) -> KernelReport:
    """The report on PTX for every launch that the kernel's facts admit, or for one launch's ``values``.

    Nothing is proved of PTX that leaves out what the kernel does: compilers drop stores that nobody comes to.
    """
    report, left_out = _report(kernel, ptx, policy, values), never_stored(kernel, ptx)
    if report.verdict is not Verdict.PROVED or not left_out:
        return report
    reason = f"the compiled code stores nothing to {', '.join(left_out)}: it is not the kernel's"
    return replace(report, verdict=Verdict.UNKNOWN, reason=reason)


def never_stored(kernel: Kernel, ptx: str) -> list[str]:
    """Outputs that a kernel has the addresses of, and that its PTX never reads."""
    name = entry_name(kernel.name)
    given = enumerate(pointers(kernel))
    return [t.name for i, t in given if t.mode == "out" and f"[{name}_param_{i}]" not in ptx]


def _report(kernel: Kernel, ptx: str, policy: Policy, values: Mapping[str, int] | None) -> KernelReport:
    module, facts = parse(ptx, f"{kernel.name}.ptx"), launch_facts(kernel)

    def checked(values: Mapping[str, int] | None, scope: ScopeKind, prove: Prove = _prove) -> KernelReport:
        (report,) = check_module(
            module,
            facts,
            policy,
            Checker(partial(run_system, budget=LAUNCH), merge, prove),
            kernel=entry_name(kernel.name),
            values=values,
            source_hash=text_hash(ptx),
            scope=scope,
            infer=False,
        )
        return report

    if values is not None:
        return checked(values, ScopeKind.EXACT)
    with suppress(NotShownError):  # a right kernel needs no more than this
        report = checked(None, ScopeKind.ALL, _shown)
        if report.verdict is Verdict.PROVED:
            return _of_every_size(report)
    usual = {p.name: p.default for p in kernel.params if p.default is not None}
    first = checked(usual, ScopeKind.EXACT)  # wrong code mostly fails there, and soon
    if first.verdict is not Verdict.PROVED:
        return first
    report = checked(None, ScopeKind.ALL)
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


def _prove(
    sizes: Any, facts: Any, systems: Any, exact: Any, policy: Policy, clusters: int, alone: Any
) -> Any:
    if clusters > 1:  # there is one look, and it was taken
        return Sized(Verdict.UNKNOWN, reason="no proof for any team of blocks was found")
    return prove(Problem(sizes, facts, systems, exact), policy, LIMITS)


def _shown(
    sizes: Any, facts: Any, systems: Any, exact: Any, policy: Policy, clusters: int, alone: Any
) -> Any:
    """A proof, and no search for sizes that refute where there is none: the usual ones are tried first."""
    problem = Problem(sizes, facts, systems, lambda values: Verdict.UNKNOWN, alone=alone)
    if clusters > 1:
        found = any_size_of_teams(problem, policy, clusters, TEAMS)
    else:
        found = prove(problem, policy, LIMITS, small=False, first=SOON, once=True)
    if found.verdict is not Verdict.PROVED:
        raise NotShownError(found.reason)
    return found


__all__ = ["check_ptx", "launch_facts"]
