"""Files to reports: what a file holds, and the check of its kernels, by the front end of its kind.

Each front end is loaded when a file asks for it: most of a short check is loading code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncverify.base.deadline import Guard, guarded
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.base.suppressions import Suppression
from syncverify.base.suppressions import apply as apply_suppressions
from syncverify.base.suppressions import find as find_suppressions
from syncverify.driver.capture import blank, captured
from syncverify.driver.explained import explained
from syncverify.driver.verdicts import merge, run_system, text_hash
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts

if TYPE_CHECKING:
    from syncverify.checker.outcome import Outcome
    from syncverify.driver.certificates import Rechecked
    from syncverify.driver.ptx_check import Task
    from syncverify.frontends.cuda.to_ptx import CudaOptions
    from syncverify.frontends.ptx.syntax.nodes import Function, Module
    from syncverify.ir.nodes import Kernel
    from syncverify.model.events import System


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable input: the kernels of a .syncir file, or the PTX of a .ptx or .cu file; and its hash."""

    path: str
    kernels: tuple[Kernel, ...]
    hash: str
    module: Module | None = None
    assumptions: tuple[str, ...] = ()  # of every report
    suppressions: tuple[Suppression, ...] = ()
    shares: bool = False  # a CUDA source that has shared memory or synchronization

    @property
    def names(self) -> set[str]:
        """The names by which a kernel of the file can be called for."""
        if self.module is None:
            return {k.name for k in self.kernels}
        from syncverify.base.kernel_names import base_name

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
    return _read_ir(path, data)


def read_text(text: str, name: str, kind: str) -> SourceFile:
    """The kernels of a text of kind ``ptx`` or ``syncir``; ``name`` is what reports call it."""
    if kind == "ptx":
        return _read_ptx(Path(f"{name}.ptx"), text.encode(), None, name)
    if kind == "syncir":
        return _read_ir(Path(name), text.encode())
    raise InputError(f"a text is of kind ptx or syncir, not {kind!r}", Span(name))


def _read_ir(path: Path, data: bytes) -> SourceFile:
    from syncverify.ir.text.parser import parse

    text = decode(data, str(path))
    kernels = parse(text, str(path))
    if not kernels:
        raise InputError("no kernel in this file", Span(str(path)))
    return SourceFile(str(path), kernels, text_hash(data), suppressions=find_suppressions(text, str(path)))


def read_ir(path: str, taker: str) -> SourceFile:
    """The kernels of a ``.syncir`` file; InputError for other files, which ``taker`` does not take."""
    if Path(path).suffix in (".ptx", ".cu"):
        raise InputError(f"{taker} takes .syncir files only", Span(path))
    return read_source(path)


def _read_ptx(path: Path, data: bytes, cuda: CudaOptions | None, name: str | None = None) -> SourceFile:
    shown = name or str(path)
    from syncverify.driver.remarks import source_shares
    from syncverify.frontends.ptx.syntax.parser import parse as parse_ptx

    made: tuple[str, ...] = ()
    if path.suffix == ".cu":
        from syncverify.frontends.cuda.nvcc import MARK
        from syncverify.frontends.cuda.to_ptx import DEFAULTS, compile_cuda

        text = compile_cuda(path, cuda or DEFAULTS)
        made = ("the PTX that nvcc makes: NVRTC takes no host code",) if text.endswith(MARK) else ()
    else:
        text = decode(data, shown)
    module = parse_ptx(text, shown)
    if not module.entries:
        template = path.suffix == ".cu" and re.search(rb"\btemplate\s*<", data)
        why = "; a template is compiled where something instantiates it" if template else ""
        raise InputError(f"no kernel in this file{why}", Span(shown))
    if path.suffix == ".cu":
        from syncverify.driver.source_names import listed_sources, with_source_names

        module = with_source_names(module, listed_sources(module) | {shown: decode(data, shown)})
    else:
        from syncverify.frontends.ptx.syntax.debug_names import with_debug_names

        module = with_debug_names(module, text)
    ignored = find_suppressions(decode(data, shown), shown)
    shares = path.suffix == ".cu" and source_shares(data)
    return SourceFile(shown, (), text_hash(data), module, made, ignored, shares)


@dataclass(frozen=True, slots=True)
class Options:
    """How the kernels of a file are checked.

    ``values`` win over launch facts, which win over defaults. ``kernel``: only those whose name matches;
    ``entry``: only the one of exactly this name. ``infer``: host facts that PTX only implies may be used, as
    assumptions. ``advice`` adds notes on what proved kernels could do without (SV6xx). ``guard``: what one
    kernel may take. ``isolated``: a fault of the tool is a kernel's report, and goes no further.
    """

    values: Mapping[str, int] = field(default_factory=dict)
    kernel: str | None = None
    entry: str | None = None
    policy: Policy = Policy.PRACTICAL
    advice: bool = False
    scope: ScopeKind = ScopeKind.EXACT
    infer: bool = True
    guard: Guard = Guard(None)
    isolated: bool = False


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
    infer: bool = True,
) -> list[KernelReport]:
    """Checks the kernels of a file whose name matches ``kernel`` (all of them without it).

    See ``Options``. With ``on_error`` a kernel that cannot be used is handed there and the others are still
    checked; without it its InputError is raised. Comments of the source silence warnings and notes.
    """
    options = Options(values or {}, kernel, None, policy, advice, scope, infer)
    return finished(source, list(check_each(source, facts, options, on_error)), kernel is None)


def check_each(
    source: SourceFile,
    facts: LaunchFacts,
    options: Options,
    on_error: Callable[[InputError], None] | None = None,
) -> Iterator[KernelReport]:
    """The report of each kernel, as soon as it is there; ``finished`` is for when all are."""
    checks = _ptx_checks if source.module is not None else _ir_checks
    for nothing, span, checked, propose in checks(source, facts, options):
        steps = partial(_explained, checked, options.policy, propose)
        try:
            if options.isolated:
                report = captured(nothing, steps, options.guard, span)
            else:
                with guarded(options.guard):
                    *_, report = steps()
            (report,) = _remarked(source, [report])
            yield report
        except InputError as e:
            if on_error is None:
                raise
            on_error(e)


def _explained(
    checked: Callable[[], Iterator[KernelReport]], policy: Policy, propose: _Propose
) -> Iterator[KernelReport]:
    """Each report of a check; a refutation without a repair, then with one: that search may be cut off. So
    may the last one, which proposes an assumption."""
    report: KernelReport | None = None
    for found in checked():
        yield replace(found, refuted_system=None)
        yield (report := explained(found, policy))
    if report is not None:
        yield propose(report)


def finished(source: SourceFile, reports: list[KernelReport], every: bool) -> list[KernelReport]:
    """The reports without what comments silence. ``every``: no kernel was left out on purpose."""
    complete = every and len(reports) == (
        len(source.kernels) or len(source.module.entries if source.module else ())
    )
    return apply_suppressions(reports, source.suppressions, source.path, complete)


def _remarked(source: SourceFile, reports: list[KernelReport]) -> list[KernelReport]:
    """The reports, with a note on kernels in which nothing is left to check."""
    from syncverify.driver.ptx_task import place_of
    from syncverify.driver.remarks import nothing_in_ir, nothing_in_ptx, remarked

    if source.module is None:
        empty = [k.name for k in source.kernels if nothing_in_ir(k)]
        places = {k.name: k.span for k in source.kernels}
    else:
        entries = source.module.entries
        empty = [f.name for f in entries if nothing_in_ptx(source.module, f)]
        places = {f.name: place_of(source.module, f) for f in entries}
    return remarked(reports, empty, places, source.shares)


#: A report, with an assumption that would help if one is found.
_Propose = Callable[[KernelReport], KernelReport]
#: A kernel before its check: the report that says nothing, its place, the steps of the check, and what may
#: follow them.
_Check = tuple[KernelReport, Span, Callable[[], Iterator[KernelReport]], _Propose]


def _ptx_checks(source: SourceFile, facts: LaunchFacts, options: Options) -> Iterator[_Check]:
    from syncverify.base.kernel_names import matches
    from syncverify.checker.prover.strategy import Entry
    from syncverify.driver.prover import prover
    from syncverify.driver.ptx_check import Checker, kernel_task, proposed_sizes, reports_of
    from syncverify.driver.ptx_task import place_of
    from syncverify.frontends.ptx.isa.validate import checked

    assert source.module is not None
    valid = checked(source.module)
    module = valid.module
    first = module.entries[0]
    uncalled = valid.uncalled()
    if uncalled is not None and options.kernel is None and options.entry in (None, first.name):

        def wrong(error: InputError = uncalled) -> Iterator[KernelReport]:
            raise error

        nothing = blank(first.name, source.path, options.policy, place_of(module, first))
        yield nothing, uncalled.span, wrong, lambda report: report
    for f in module.entries:
        if options.kernel is not None and not matches(f.name, options.kernel):
            continue
        if options.entry not in (None, f.name):
            continue

        def task_of(f: Function, judge: Callable[[System, Policy], Outcome]) -> Task:
            checker = Checker(judge, merge, prover(Entry.PTX))
            return kernel_task(
                module, f, facts, options.policy, checker, options.values, source.hash, options.infer
            )

        def steps(f: Function = f) -> Iterator[KernelReport]:
            proved = _Proved()
            task = task_of(f, proved.judge if options.advice else run_system)
            for found in reports_of(task, options.scope):
                report = replace(found, assumptions=(*found.assumptions, *source.assumptions))
                yield _spelled(report)
            if options.advice:
                yield _spelled(proved.advised(report, module, options.policy))

        def propose(report: KernelReport, f: Function = f) -> KernelReport:
            wanted = report.verdict is Verdict.REFUTED and options.scope is ScopeKind.ALL
            return _spelled(proposed_sizes(task_of(f, run_system), report)) if wanted else report

        span = place_of(module, f)
        nothing = replace(blank(f.name, source.path, options.policy, span), arch=module.target)
        yield nothing, span, steps, propose


def _ir_checks(source: SourceFile, facts: LaunchFacts, options: Options) -> Iterator[_Check]:
    from syncverify.driver.ir import launched_reports, proposed_sizes

    for k in source.kernels:
        if options.kernel is not None and not fnmatchcase(k.name, options.kernel):
            continue
        if options.entry not in (None, k.name):
            continue

        def steps(k: Kernel = k) -> Iterator[KernelReport]:
            return launched_reports(
                k,
                facts,
                options.values,
                options.policy,
                source.path,
                source.hash,
                advice=options.advice,
                scope=options.scope,
            )

        def propose(report: KernelReport, k: Kernel = k) -> KernelReport:
            if options.scope is not ScopeKind.ALL:
                return report
            return proposed_sizes(k, facts, options.values, options.policy, report)

        yield blank(k.name, source.path, options.policy, k.span), k.span, steps, propose


def _spelled(report: KernelReport) -> KernelReport:
    """The report of a PTX kernel, with fixes in the words of PTX."""
    from syncverify.driver.ptx_wording import as_ptx

    found = (replace(d, fix=as_ptx(d.fix)) if d.fix else d for d in report.diagnostics)
    return replace(report, diagnostics=tuple(found))


@dataclass(slots=True)
class _Proved:
    """The systems that a check proved, by kernel: advice is tried out on them."""

    systems: dict[str, list[System]] = field(default_factory=dict)

    def judge(self, system: System, policy: Policy) -> Outcome:
        outcome = run_system(system, policy)
        if outcome.verdict is Verdict.PROVED:
            self.systems.setdefault(system.info.name, []).append(system)
        return outcome

    def advised(self, report: KernelReport, module: Module, policy: Policy) -> KernelReport:
        from syncverify.driver.ptx_advice import advised

        function = next(f for f in module.entries if f.name == report.name)
        return advised(report, function, self.systems.get(report.name, []), lambda s: run_system(s, policy))


def certificates(
    source: SourceFile, facts: LaunchFacts, values: Mapping[str, int], reports: Iterable[KernelReport]
) -> list[dict[str, Any]]:
    """The certificates of the kernels of a file that its reports prove. Raises InputError."""
    proved = {r.name: r for r in reports if r.verdict is Verdict.PROVED}
    if source.module is None:
        from syncverify.driver.certificates import certify

        return [certify(facts.apply(k)[0], proved[k.name]) for k in source.kernels if k.name in proved]
    from syncverify.checker.prover.strategy import Entry
    from syncverify.driver.certificates import ptx
    from syncverify.driver.prover import prover

    return [
        ptx.certify(source.module, r.name, source.hash, facts, values, r.policy, prover(Entry.PTX))
        for r in proved.values()
    ]


def recheck(text: str, file: str, source: SourceFile, facts: LaunchFacts) -> list[Rechecked]:
    """Validates certificates against the kernels of a source. Raises RejectedError, InputError."""
    if source.module is None:
        from syncverify.driver.certificates import recheck as validate

        return validate(text, file, {k.name: facts.apply(k)[0] for k in source.kernels})
    from syncverify.driver.certificates import ptx

    return ptx.recheck(text, file, source.module, source.hash, facts)


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
