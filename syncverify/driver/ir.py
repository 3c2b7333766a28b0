"""The whole check of a kernel of the IR: its systems, each through the checker, merged into one report.

``check_kernel`` is what the gate calls, and ``files`` for each kernel of a ``.syncir`` file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.base.source import InputError, Span
from syncverify.checker.exact_check import Outcome
from syncverify.checker.explain import redundancy
from syncverify.checker.prover.parametric.enumerate_launches import launches
from syncverify.checker.prover.parametric.strategy import ParametricResult, all_sizes, any_group
from syncverify.checker.prover.rings import decide_stages
from syncverify.driver.ir_advice import advise, exchanges_globally
from syncverify.driver.launch_values import check_assumes, launch_values
from syncverify.driver.reports.size_proposals import Bounds, proposed
from syncverify.driver.verdicts import merge, outcome_of, run_system, text_hash, undecided
from syncverify.frontends.ir import block_groups
from syncverify.frontends.ir.flag_chain import assumed
from syncverify.frontends.ir.systems import MAX_CLUSTERS, systems
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.ir.check.path_facts import demand_launch
from syncverify.ir.check.well_formed import verify
from syncverify.ir.expr import Expr, evaluate, names
from syncverify.ir.launch_grid import Grid
from syncverify.ir.memo import once
from syncverify.ir.nodes import FenceProxyAsync, Kernel
from syncverify.ir.text.printed_expressions import print_expr
from syncverify.ir.text.printer import print_kernel
from syncverify.model.events import Unanalysable
from syncverify.passes.rewrite import walk


def check_kernel(
    kernel: Kernel,
    values: Mapping[str, int] | None = None,
    policy: Policy = Policy.PRACTICAL,
    file: str = "",
    *,
    source_hash: str = "",
    scope: ScopeKind = ScopeKind.EXACT,
) -> KernelReport:
    """Proves or refutes one kernel for exact launch values, or with ``scope`` ALL for every size.

    ``values`` overrides the parameters' defaults; under scope ALL it fixes those parameters, and the
    others represent every value: if that can be neither proved nor refuted, the report is the exact one,
    with a note that says why. Raises InputError for a kernel that is not well formed and for values that
    its parameters or ``assume`` lines do not allow.
    """
    start = time.perf_counter()
    verify(kernel)
    if scope is ScopeKind.ALL and kernel.params and set(values or {}) != {p.name for p in kernel.params}:
        return _every_size(kernel, dict(values or {}), policy, file, source_hash)
    bound, missing = launch_values(kernel, values or {})
    file = file or kernel.span.file
    kind = ScopeKind.EXACT if kernel.params else ScopeKind.ALL
    covered = Scope(kind, bound, tuple(print_expr(a) for a in kernel.assumes))
    granted: tuple[str, ...] = ()
    if missing:
        listed = ", ".join(missing)
        plural = "parameters" if len(missing) > 1 else "parameter"
        text = f"no value for {plural} {listed}: give one in a launch file, with --param, or as a default"
        reason = Reason(text, Cause.MISSING_FACT)
        outcomes = [undecided(reason, kernel.span)]
    else:
        check_assumes(kernel, bound)
        found = _any_block_group(kernel, bound, policy)
        if found is not None:
            granted = _assumed(kernel, found)
            outcomes = [Outcome(found.verdict, found.diagnostics, stats=found.stats)]
        else:
            source_hash = source_hash or _hash_of(kernel)
            outcomes = [outcome_of(s, policy) for s in systems(kernel, bound, source_hash=source_hash)]
    merged = merge(outcomes)
    witness = merged.witness
    if witness is not None:
        witness = replace(
            witness, kernel=kernel.name, file=file, source_hash=source_hash, policy=policy, values=bound
        )
    return KernelReport(
        name=kernel.name,
        file=file,
        verdict=merged.verdict,
        policy=policy,
        scope=covered,
        arch=kernel.arch,
        reason=merged.reason,
        seconds=time.perf_counter() - start,
        witness=witness,
        diagnostics=tuple(_placed(d, kernel.span) for d in merged.diagnostics),
        stats=merged.stats,
        refuted_system=merged.system,
        assumptions=granted,
    )


@once
def _hash_of(kernel: Kernel) -> str:
    return text_hash(print_kernel(kernel))


def _every_size(
    kernel: Kernel, given: dict[str, int], policy: Policy, file: str, source_hash: str
) -> KernelReport:
    """A proof for every size, the smallest size that refutes the kernel, or the exact verdict with a note."""
    start = time.perf_counter()
    launch_values(kernel, given)
    unsure = demand_launch(kernel, given)

    def exactly(values: Mapping[str, int]) -> KernelReport:
        return check_kernel(kernel, values, policy, file, source_hash=source_hash)

    def verdict(values: Mapping[str, int]) -> Verdict:
        return exactly(values).verdict

    found = decide_stages(kernel, given, policy, verdict) or all_sizes(kernel, given, policy, verdict)
    if found.verdict is Verdict.REFUTED:
        return replace(exactly(found.values), seconds=time.perf_counter() - start)
    if found.verdict is Verdict.UNKNOWN:
        found, refuted = _one_by_one(kernel, given, found, exactly)
        if refuted is not None:
            return replace(refuted, seconds=time.perf_counter() - start)
    if found.verdict is Verdict.UNKNOWN:
        report = exactly(given)
        text = f"this is not shown for every size: {found.reason}"
        note = Diagnostic("SV902", Severity.NOTE, text, kernel.span)
        seconds = time.perf_counter() - start
        return replace(report, diagnostics=(*report.diagnostics, note), seconds=seconds)
    kind = ScopeKind.PARTIAL if given else ScopeKind.ALL
    return KernelReport(
        name=kernel.name,
        file=file or kernel.span.file,
        verdict=Verdict.PROVED,
        policy=policy,
        scope=Scope(kind, given, tuple(print_expr(a) for a in kernel.assumes)),
        arch=kernel.arch,
        seconds=time.perf_counter() - start,
        diagnostics=tuple(_placed(d, kernel.span) for d in found.diagnostics),
        stats=found.stats,
        proof=found,
        assumptions=(*unsure, *_assumed(kernel, found)),
    )


def _any_block_group(kernel: Kernel, values: Mapping[str, int], policy: Policy) -> ParametricResult | None:
    """A proof of a launch of many clusters, if they share global memory in block groups that one can stand
    for.
    """
    if not block_groups.group_size(kernel) or Grid.of(kernel, values).clusters <= MAX_CLUSTERS:
        return None
    found = any_group(kernel, values, policy)
    return found if found.verdict is Verdict.PROVED else None


def _assumed(kernel: Kernel, found: ParametricResult) -> tuple[str, ...]:
    """What a proof for every size takes for granted."""
    if found.launches:
        return ()
    return block_groups.assumed(kernel, found.restores) or assumed(kernel)


def _one_by_one(
    kernel: Kernel,
    given: dict[str, int],
    found: ParametricResult,
    exactly: Callable[[Mapping[str, int]], KernelReport],
) -> tuple[ParametricResult, KernelReport | None]:
    """A proof by checks of all launches that differ, where they are few; or the first that is refuted."""
    every = launches(kernel, given)
    if every is None:
        return found, None
    try:
        reports = [exactly({**given, **values}) for values in every]
    except InputError:
        return found, None
    refuted = next((r for r in reports if r.verdict is Verdict.REFUTED), None)
    if refuted is not None or any(r.verdict is not Verdict.PROVED for r in reports):
        return found, refuted
    notes = {(d.rule, d.span, d.contested): d for r in reports for d in r.diagnostics}
    stats = {"launches": len(every), "events": sum(int(r.stats.get("events", 0)) for r in reports)}
    shown = tuple(notes.values())
    return ParametricResult(Verdict.PROVED, diagnostics=shown, stats=stats, launches=tuple(every)), None


def check_extents(kernel: Kernel, given: Mapping[str, int]) -> None:
    """Given values that a tensor's sizes cannot have are a mistake: no launch has such arrays."""
    for t in kernel.tensors:
        for e in t.shape:
            if names(e) and names(e) <= given.keys() and (n := _number(e, given)) is not None and n < 0:
                shown = ", ".join(f"{name} = {given[name]}" for name in sorted(names(e)))
                raise InputError(f"a size of tensor {t.name} is {n}, for {shown}", t.span)


def _number(e: Expr, values: Mapping[str, int]) -> int | None:
    try:
        return evaluate(e, values)
    except ZeroDivisionError:
        return None


def _placed(d: Diagnostic, span: Span) -> Diagnostic:
    return d if d.span.line else replace(d, span=span)


def check_launched(
    kernel: Kernel,
    facts: LaunchFacts,
    values: Mapping[str, int],
    policy: Policy,
    file: str,
    source_hash: str,
    *,
    advice: bool,
    scope: ScopeKind,
) -> KernelReport:
    """The report on a kernel as a launch file starts it; with ``advice`` also what it could do without."""
    steps = launched_reports(kernel, facts, values, policy, file, source_hash, advice=advice, scope=scope)
    *_, report = steps
    return report


def launched_reports(
    kernel: Kernel,
    facts: LaunchFacts,
    values: Mapping[str, int],
    policy: Policy,
    file: str,
    source_hash: str,
    *,
    advice: bool,
    scope: ScopeKind,
) -> Iterator[KernelReport]:
    """The reports of ``check_launched`` after each step: the verdict, then the advice."""
    launched, given = facts.apply(kernel)
    given.update(values)
    check_extents(launched, given)
    report = check_kernel(launched, given, policy, file, source_hash=source_hash, scope=scope)
    if report.witness is not None and launched.launch != kernel.launch:
        grid = facts.grid(kernel.name)
        witness = replace(report.witness, grid=grid, registers=launched.launch.registers)
        report = replace(report, witness=witness)
    yield report
    if advice:
        notes = advise(launched, report, lambda k: _as_widely(k, given, policy, file, report))
        report = replace(report, diagnostics=report.diagnostics + notes)
        idle = _idle_fences(launched, given, policy, report)
        yield replace(report, diagnostics=report.diagnostics + idle)


def proposed_sizes(
    kernel: Kernel, facts: LaunchFacts, values: Mapping[str, int], policy: Policy, report: KernelReport
) -> KernelReport:
    """A refutation for every size, with a note where larger sizes than its own are proved."""
    if report.verdict is not Verdict.REFUTED:
        return report
    launched, given = facts.apply(kernel)
    given.update(values)

    def again(bounds: Bounds) -> tuple[KernelReport, Mapping[str, int]]:
        larger = replace(launched, assumes=(*launched.assumes, bounds.condition))
        found = check_kernel(larger, given, policy, report.file, scope=ScopeKind.ALL)
        return found, found.scope.values

    sizes = {p.name: report.scope.values[p.name] for p in kernel.params
             if p.name not in given and p.name in report.scope.values}  # fmt: skip
    return proposed(report, sizes, again, kernel.span, "write 'assume {}' into the kernel")


def _idle_fences(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, report: KernelReport
) -> tuple[Diagnostic, ...]:
    """Fences of a proved kernel that more warps execute than need to (SV604), found for exact values."""
    bound, missing = launch_values(kernel, given)
    fenced = any(isinstance(s, FenceProxyAsync) for s in walk(kernel.body))
    if report.verdict is not Verdict.PROVED or missing or not fenced or exchanges_globally(kernel):
        return ()
    found = [s for s in systems(kernel, bound) if not isinstance(s, Unanalysable)]
    known = [d for s in found for d in run_system(s, policy).diagnostics]
    return redundancy.advise(found, lambda s: run_system(s, policy), known, rules=("SV604",))


def _as_widely(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, file: str, report: KernelReport
) -> KernelReport:
    """The check of a variant, for the same launches as ``report``; ``unknown`` where it says less."""
    exact = report.scope.kind is ScopeKind.EXACT
    found = check_kernel(kernel, given, policy, file, scope=ScopeKind.EXACT if exact else ScopeKind.ALL)
    if found.verdict is Verdict.PROVED and found.scope.kind is not report.scope.kind:
        return replace(found, verdict=Verdict.UNKNOWN)
    return found
