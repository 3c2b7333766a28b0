"""The whole check of a kernel: its systems, each through the checker, merged into one report.

``check_kernel`` is what the gate and the command line call; ``check_file`` does it for every kernel of
a file. Launch values are exact here: every parameter gets a number before anything runs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncverify.advice import advise, exchanges_globally
from syncverify.checker import Outcome, check, necessity
from syncverify.diagnostics import (
    Diagnostic,
    KernelReport,
    Policy,
    Scope,
    ScopeKind,
    Severity,
    Verdict,
)
from syncverify.ir.execute import systems
from syncverify.ir.expr import Expr, evaluate, names
from syncverify.ir.nodes import FenceProxyAsync, Kernel, Param
from syncverify.ir.parser import parse
from syncverify.ir.printer import print_expr, print_kernel
from syncverify.ir.verify import verify
from syncverify.launch import NO_FACTS, LaunchFacts
from syncverify.model.events import LaneSplit, System, Unanalysable
from syncverify.passes.rewrite import walk
from syncverify.sizes import all_sizes
from syncverify.source import InputError, Span
from syncverify.stages import decide_stages
from syncverify.suppressions import Suppression
from syncverify.suppressions import apply as apply_suppressions
from syncverify.suppressions import find as find_suppressions

if TYPE_CHECKING:
    from syncverify.frontends.cuda import CudaOptions
    from syncverify.frontends.ptx.nodes import Module

#: A class splits at most once per lane and reason; more restarts than this means an agent keeps asking.
MAX_RESTARTS = 4096

_RANGES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


# ---------------------------------------------------------------- one kernel


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
    others stand for every value: if that can be neither proved nor refuted, the report is the exact one,
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
    if missing:
        listed = ", ".join(missing)
        plural = "parameters" if len(missing) > 1 else "parameter"
        reason = f"no value for {plural} {listed}: give one in a launch file, with --param, or as a default"
        outcomes = [_unknown(reason, kernel.span)]
    else:
        _check_assumes(kernel, bound)
        source_hash = source_hash or text_hash(print_kernel(kernel))
        outcomes = [_outcome(s, policy) for s in systems(kernel, bound, source_hash=source_hash)]
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
    )


def _every_size(
    kernel: Kernel, given: dict[str, int], policy: Policy, file: str, source_hash: str
) -> KernelReport:
    """A proof for every size, the smallest size that refutes the kernel, or the exact verdict with a note."""
    start = time.perf_counter()
    launch_values(kernel, given)

    def exactly(values: Mapping[str, int]) -> KernelReport:
        return check_kernel(kernel, values, policy, file, source_hash=source_hash)

    def verdict(values: Mapping[str, int]) -> Verdict:
        return exactly(values).verdict

    found = decide_stages(kernel, given, policy, verdict) or all_sizes(kernel, given, policy, verdict)
    if found.verdict is Verdict.REFUTED:
        return replace(exactly(found.values), seconds=time.perf_counter() - start)
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
    )


def run_system(system: System, policy: Policy = Policy.PRACTICAL) -> Outcome:
    """Checks one system; where the lanes of a class disagree, splits the class and starts again."""
    for _ in range(MAX_RESTARTS):
        try:
            return check(system, policy)
        except LaneSplit as split:
            system = system.refined(split)
    return _unknown(f"lane classes of {system.info.name} did not settle", Span(system.info.file))


def launch_values(kernel: Kernel, given: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """The value of every parameter (the caller's, else its default), and the parameters without one."""
    known = {p.name: p for p in kernel.params}
    for name in given:
        if name not in known:
            has = ", ".join(known) or "none"
            raise InputError(f"kernel {kernel.name} has no parameter {name!r} (it has: {has})", kernel.span)
    bound: dict[str, int] = {}
    missing: list[str] = []
    for name, param in known.items():
        value = given.get(name, param.default)
        if value is None:
            missing.append(name)
        else:
            bound[name] = _in_range(param, value)
    return bound, missing


def _in_range(param: Param, value: int) -> int:
    low, high = _RANGES[param.dtype]
    if not low <= value <= high:
        raise InputError(f"{param.name} = {value} does not fit its type {param.dtype}", param.span)
    return value


def _check_assumes(kernel: Kernel, values: Mapping[str, int]) -> None:
    """A check under values that an ``assume`` excludes would prove nothing."""
    for fact in kernel.assumes:
        if not _holds(fact, values):
            shown = ", ".join(f"{n} = {values[n]}" for n in sorted(names(fact) & values.keys()))
            raise InputError(f"launch values break `assume {print_expr(fact)}`: {shown}", kernel.span)


def _holds(fact: Expr, values: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(fact, values))
    except (KeyError, ZeroDivisionError) as e:
        raise InputError(f"cannot evaluate `assume {print_expr(fact)}`: {e}") from e


def _outcome(system: System | Unanalysable, policy: Policy) -> Outcome:
    if isinstance(system, Unanalysable):
        return _unknown(system.reason, system.span, "SV901")
    return run_system(system, policy)


def _unknown(reason: str, span: Span, rule: str = "SV902") -> Outcome:
    note = Diagnostic(rule, Severity.WARNING, reason, span)
    return Outcome(Verdict.UNKNOWN, (note,), None, reason, {})


def _placed(d: Diagnostic, span: Span) -> Diagnostic:
    return d if d.span.line else replace(d, span=span)


def text_hash(text: str | bytes) -> str:
    """The hash that ties a witness to the text it was found in."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


# ---------------------------------------------------------------- merging

_RANK = {Verdict.REFUTED: 0, Verdict.UNKNOWN: 1, Verdict.PROVED: 2}
_SEVERITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """One outcome for several systems: refuted if any is, else unknown if any is, else proved.

    Findings of a refuted system come first and keep their order (root cause first); the same rule at
    the same place is one finding, with the highest severity that any system gave it.
    """
    ranked = sorted(outcomes, key=lambda o: _RANK[o.verdict])
    if not ranked:
        return _unknown("the launch has no block: its grid is empty", Span())
    seen: dict[tuple[object, ...], Diagnostic] = {}
    for d in (d for o in ranked for d in o.diagnostics):
        key = (d.rule, d.span, d.contested)
        if key not in seen or _SEVERITY[d.severity] < _SEVERITY[seen[key].severity]:
            seen[key] = d
    first = ranked[0]
    return Outcome(
        first.verdict,
        tuple(seen.values()),
        first.witness,
        first.reason if first.verdict is Verdict.UNKNOWN else None,
        _summed(ranked),
    )


def _summed(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Numbers added up; anything else as the first system that has it says."""
    total: dict[str, Any] = {"systems": 0}
    for o in outcomes:
        total["systems"] += 1
        for key, value in o.stats.items():
            if isinstance(value, int | float):
                total[key] = total.get(key, 0) + value
            else:
                total.setdefault(key, value)
    return total


# ---------------------------------------------------------------- files


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable input: the kernels of a .syncir file, or the PTX of a .ptx or .cu file; and its hash."""

    path: str
    kernels: tuple[Kernel, ...]
    hash: str
    module: Module | None = None
    suppressions: tuple[Suppression, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names by which a kernel of the file can be called for."""
        if self.module is None:
            return {k.name for k in self.kernels}
        from syncverify.frontends.names import base_name

        return {name for f in self.module.entries for name in (f.name, base_name(f.name))}


def read_source(path: str | Path, cuda: CudaOptions | None = None) -> SourceFile:
    """The kernels of a file, or InputError when it is unreadable, malformed or of a kind not supported.

    ``cuda``: how a ``.cu`` file is compiled.
    """
    path = Path(path)
    data = read_bytes(path)
    if path.suffix in (".ptx", ".cu"):
        return _read_ptx(path, data, cuda)
    if path.suffix != ".syncir":
        kind = path.suffix or "a file without a suffix"
        raise InputError(f"not supported: {kind} (.syncir, .ptx and .cu are)", Span(str(path)))
    text = _text(path, data)
    kernels = parse(text, str(path))
    if not kernels:
        raise InputError("no kernel in this file", Span(str(path)))
    return SourceFile(str(path), kernels, text_hash(data), suppressions=find_suppressions(text, str(path)))


def _read_ptx(path: Path, data: bytes, cuda: CudaOptions | None) -> SourceFile:
    from syncverify.frontends.ptx.parser import parse as parse_ptx

    if path.suffix == ".cu":
        from syncverify.frontends.cuda import DEFAULTS, compile_cuda

        text = compile_cuda(path, cuda or DEFAULTS)
    else:
        text = _text(path, data)
    module = parse_ptx(text, str(path))
    if not module.entries:
        raise InputError("no kernel in this file", Span(str(path)))
    ignored = find_suppressions(_text(path, data), str(path))
    return SourceFile(str(path), (), text_hash(data), module, ignored)


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise InputError(f"not a text file: byte {e.start} is not UTF-8", Span(str(path))) from e


def read_bytes(path: Path) -> bytes:
    """The content of a file, or InputError with the system's reason."""
    try:
        return path.read_bytes()
    except OSError as e:
        raise InputError(f"cannot read: {e.strerror or e}", Span(str(path))) from e


def check_source(
    source: SourceFile,
    *,
    facts: LaunchFacts = NO_FACTS,
    values: Mapping[str, int] | None = None,
    kernel: str | None = None,
    policy: Policy = Policy.PRACTICAL,
    on_error: Callable[[InputError], None] | None = None,
    advice: bool = False,
    scope: ScopeKind = ScopeKind.EXACT,
) -> list[KernelReport]:
    """Checks the kernels of a file whose name matches ``kernel`` (all of them without it).

    ``values`` win over ``facts``, which win over defaults. With ``on_error`` a kernel that cannot be
    used is handed there and the others are still checked; without it its InputError is raised.
    ``advice`` adds notes on what proved kernels could do without (SV6xx). Comments of the source silence
    warnings and notes.
    """
    reports = _checked(source, facts, values or {}, kernel, policy, on_error, advice, scope)
    complete = kernel is None and len(reports) == (
        len(source.kernels) or len(source.module.entries if source.module else ())
    )
    return apply_suppressions(reports, source.suppressions, source.path, complete)


def _checked(
    source: SourceFile,
    facts: LaunchFacts,
    values: Mapping[str, int],
    kernel: str | None,
    policy: Policy,
    on_error: Callable[[InputError], None] | None,
    advice: bool,
    scope: ScopeKind,
) -> list[KernelReport]:
    if source.module is not None:
        from syncverify.frontends.ptx.check import Checker, check_module

        return check_module(
            source.module,
            facts,
            policy,
            Checker(run_system, merge),
            kernel=kernel,
            values=values,
            source_hash=source.hash,
            on_error=on_error,
            scope=scope,
        )
    reports: list[KernelReport] = []
    for k in source.kernels:
        if kernel is not None and not fnmatchcase(k.name, kernel):
            continue
        try:
            reports.append(_launched(k, source, facts, values, policy, advice, scope))
        except InputError as e:
            if on_error is None:
                raise
            on_error(e)
    return reports


def _launched(
    kernel: Kernel,
    source: SourceFile,
    facts: LaunchFacts,
    values: Mapping[str, int],
    policy: Policy,
    advice: bool,
    scope: ScopeKind,
) -> KernelReport:
    launched, given = facts.apply(kernel)
    given.update(values)
    report = check_kernel(launched, given, policy, source.path, source_hash=source.hash, scope=scope)
    if advice:
        notes = advise(launched, report, lambda k: _as_widely(k, given, policy, source.path, report))
        report = replace(report, diagnostics=report.diagnostics + notes)
        report = replace(
            report, diagnostics=report.diagnostics + _idle_fences(launched, given, policy, report)
        )
    if report.witness is None or launched.launch == kernel.launch:
        return report
    grid = facts.grid(kernel.name)
    return replace(report, witness=replace(report.witness, grid=grid, registers=launched.launch.registers))


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
    return necessity.advise(found, lambda s: run_system(s, policy), known, rules=("SV604",))


def _as_widely(
    kernel: Kernel, given: Mapping[str, int], policy: Policy, file: str, report: KernelReport
) -> KernelReport:
    """The check of a variant, for the same launches as ``report``; ``unknown`` where it says less."""
    exact = report.scope.kind is ScopeKind.EXACT
    found = check_kernel(kernel, given, policy, file, scope=ScopeKind.EXACT if exact else ScopeKind.ALL)
    if found.verdict is Verdict.PROVED and found.scope.kind is not report.scope.kind:
        return replace(found, verdict=Verdict.UNKNOWN)
    return found


def check_file(
    path: str | Path,
    *,
    facts: LaunchFacts = NO_FACTS,
    values: Mapping[str, int] | None = None,
    kernel: str | None = None,
    policy: Policy = Policy.PRACTICAL,
) -> list[KernelReport]:
    """Checks the kernels of a file; see ``check_source``."""
    return check_source(read_source(path), facts=facts, values=values, kernel=kernel, policy=policy)
