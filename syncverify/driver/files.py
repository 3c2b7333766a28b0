"""Files to reports: what a file holds, and the check of its kernels, by the front end of its kind.

Each front end is loaded when a file asks for it: most of a short check is loading code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from syncverify.base.deadline import Guard, guarded
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.base.suppressions import Suppression
from syncverify.base.suppressions import apply as apply_suppressions
from syncverify.base.suppressions import find as find_suppressions
from syncverify.driver.repairs.judged import Judged
from syncverify.driver.reports.capture import InterruptedCheck, blank, captured
from syncverify.driver.verdicts import run_briefly, run_system, text_hash
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts

if TYPE_CHECKING:
    from syncverify.checker.outcome import Outcome
    from syncverify.driver.certificates.doubts import Doubts
    from syncverify.driver.ptx.check import Task
    from syncverify.driver.rechecked import Rechecked
    from syncverify.frontends.cuda.options import CudaOptions
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
    text: str | None = None  # what stands in the file
    cuda: CudaOptions | None = None  # how a CUDA source was compiled

    @property
    def kind(self) -> str:
        """cu, ptx or syncir."""
        return "syncir" if self.module is None else "cu" if self.path.endswith(".cu") else "ptx"

    @property
    def names(self) -> set[str]:
        """The names by which a kernel of the file can be called for."""
        if self.module is None:
            return {k.name for k in self.kernels}
        from syncverify.base.kernel_names import base_name

        return {name for f in self.module.entries for name in (f.name, base_name(f.name))}


def has_certificates(path: str) -> None:
    """Raises InputError for a file whose kernels have none: CUDA becomes other PTX with another compiler."""
    if Path(path).suffix == ".cu":
        raise InputError("certificates are for .syncir and .ptx files only: compile it to PTX", Span(path))


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
    ignored = find_suppressions(text, str(path))
    return SourceFile(str(path), kernels, text_hash(data), suppressions=ignored, text=text)


def read_ir(path: str, taker: str) -> SourceFile:
    """The kernels of a ``.syncir`` file; InputError for other files, which ``taker`` does not take."""
    if Path(path).suffix in (".ptx", ".cu"):
        raise InputError(f"{taker} takes .syncir files only", Span(path))
    return read_source(path)


def _read_ptx(path: Path, data: bytes, cuda: CudaOptions | None, name: str | None = None) -> SourceFile:
    shown = name or str(path)
    from syncverify.driver.reports.remarks import source_shares
    from syncverify.frontends.ptx.syntax.parser import parse as parse_ptx

    made: tuple[str, ...] = ()
    if path.suffix == ".cu":
        from syncverify.frontends.cuda.nvcc import MARK
        from syncverify.frontends.cuda.options import DEFAULTS
        from syncverify.frontends.cuda.to_ptx import compile_cuda, prelude_of

        cuda = cuda or DEFAULTS
        needed = prelude_of(decode(data, shown)) if cuda.prelude is None else None
        if needed is not None:
            cuda = replace(cuda, prelude=needed)
            made = (f"the runtime of {needed} is the prelude of that name: the source brings none",)
        text = compile_cuda(path, cuda)
        if text.endswith(MARK):
            made = (*made, "the PTX that nvcc makes: NVRTC takes no host code")
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
    own = decode(data, shown)
    ignored = find_suppressions(own, shown)
    shares = path.suffix == ".cu" and source_shares(data)
    return SourceFile(shown, (), text_hash(data), module, made, ignored, shares, own, cuda)


def _headers(source: SourceFile) -> tuple[str, ...]:
    """The texts of a CUDA source's other files, as far as they are its author's."""
    if source.kind != "cu" or source.module is None:
        return ()
    from syncverify.driver.source_names import listed_sources
    from syncverify.frontends.cuda.nvcc import TOOLKIT

    texts = listed_sources(source.module)
    own = (t for path, t in texts.items() if path != source.path and not any(x in path for x in TOOLKIT))
    return tuple(text for text in own if len(text) <= LARGEST_HEADER)


def _edited(source: SourceFile, text: str) -> SourceFile:
    """The source with another text. Raises InputError where that cannot be compiled."""
    if source.kind == "ptx":
        return _read_ptx(Path(source.path), text.encode(), None, source.path)
    from syncverify.frontends.cuda.options import DEFAULTS

    cuda = source.cuda or DEFAULTS
    here = str(Path(source.path).resolve().parent)
    with TemporaryDirectory(prefix="syncverify-") as folder:
        path = Path(folder) / Path(source.path).name
        path.write_text(text, "utf-8")
        return _read_ptx(path, text.encode(), replace(cuda, include_paths=(here, *cuda.include_paths)))


#: Characters of a header that is looked through for its author's functions.
LARGEST_HEADER = 200_000


@dataclass(frozen=True, slots=True)
class Options:
    """How the kernels of a file are checked.

    ``values`` win over launch facts, which win over defaults. ``kernel``: only those whose name matches;
    ``entry``: only the one of exactly this name. ``infer``: host facts that PTX only implies may be used, as
    assumptions. ``advice`` adds notes on what proved kernels could do without (SV6xx). ``guard``: what one
    kernel may take. ``isolated``: a fault of the tool is a kernel's report, and goes no further. ``replay``:
    refutations of PTX and CUDA are replayed on the second reader (``driver.executions.confirmed``).
    ``repairs``: an edit that mends a refuted kernel is looked for, and block and sizes with which a kernel
    is proved. ``first``: who is asked about an entry of PTX at every size before it is searched, and may
    give its report.
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
    replay: bool = True
    repairs: bool = True
    first: Callable[[Task], KernelReport | None] | None = None


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
    replay: bool = True,
    repairs: bool = True,
) -> list[KernelReport]:
    """Checks the kernels of a file whose name matches ``kernel`` (all of them without it).

    See ``Options``. With ``on_error`` a kernel that cannot be used is handed there and the others are still
    checked; without it its InputError is raised. Comments of the source silence warnings and notes.
    """
    options = Options(
        values or {}, kernel, None, policy, advice, scope, infer, replay=replay, repairs=repairs
    )
    return finished(source, list(check_each(source, facts, options, on_error)), kernel is None)


def check_each(
    source: SourceFile,
    facts: LaunchFacts,
    options: Options,
    on_error: Callable[[InputError], None] | None = None,
) -> Iterator[KernelReport]:
    """The report of each kernel, as soon as it is there; ``finished`` is for when all are."""
    checks = _ptx_checks if source.module is not None else _ir_checks
    replayed = source.module if options.replay else None
    for nothing, span, checked, follow in checks(source, facts, options):
        steps = partial(_explained, checked, options, replayed, follow, _locates(source))
        try:
            if options.isolated:
                report = captured(nothing, steps, options.guard, span)
            else:
                with guarded(options.guard):
                    *_, report = steps()
            (report,) = _remarked(source, [report])
            yield report
        except InterruptedCheck as e:
            yield e.report
            raise
        except InputError as e:
            if on_error is None:
                raise
            on_error(e)


def _explained(
    checked: Callable[[], Iterator[KernelReport]],
    options: Options,
    module: Module | None,
    follow: _Follow,
    located: Callable[[KernelReport], KernelReport],
) -> Iterator[KernelReport]:
    """Each report of a check; of a refutation also what became of its witness, then a repair; and last the
    repair as an edit of the text, and an assumption that would help.

    Each of these may be cut off. ``module``: of the kernel; None where nothing is replayed. ``located``: the
    report with the lines that its finding comes from.
    """
    from syncverify.driver.explained import bare, executions_decide, explained, not_executed

    last: KernelReport | None = None
    for last in checked():
        yield bare(last, module is not None)
    if last is None:
        return
    if module is None:
        last = not_executed(last)
    if module is not None and executions_decide(last):
        from syncverify.driver.executions.sought import sought

        last = sought(last, module)
    if module is not None and (last.refuted_facts is not None or last.suspect is not None):
        from syncverify.driver.executions.confirmed import confirmed

        last = confirmed(last, module)
        yield bare(last)
    if not options.repairs:
        yield located(bare(last))
        return
    last = explained(last, options.policy, further=options.scope is ScopeKind.ALL)
    last = bare(last)
    yield located(last)
    yield from map(located, follow(last))


def _locates(source: SourceFile) -> Callable[[KernelReport], KernelReport]:
    """What adds to a refutation the lines that its finding comes from; to one of the IR nothing."""
    if source.module is None:
        return lambda report: report
    from syncverify.driver.ptx.origins import Origins

    return Origins(source.module).located


def finished(source: SourceFile, reports: list[KernelReport], every: bool) -> list[KernelReport]:
    """The reports without what comments silence. ``every``: no kernel was left out on purpose."""
    complete = every and len(reports) == (
        len(source.kernels) or len(source.module.entries if source.module else ())
    )
    return apply_suppressions(reports, source.suppressions, source.path, complete)


def _remarked(source: SourceFile, reports: list[KernelReport]) -> list[KernelReport]:
    """The reports, with what the text alone tells: a note on kernels in which nothing is left to check."""
    from syncverify.driver.ptx.task import place_of
    from syncverify.driver.reports.remarks import (
        nothing_in_ir,
        nothing_in_ptx,
        remarked,
        with_stray_exchanges,
    )

    if source.module is None:
        empty = [k.name for k in source.kernels if nothing_in_ir(k)]
        places = {k.name: k.span for k in source.kernels}
    else:
        entries = source.module.entries
        empty = [f.name for f in entries if nothing_in_ptx(source.module, f)]
        places = {f.name: place_of(source.module, f) for f in entries}
        reports = with_stray_exchanges(reports, source.module)
    return remarked(reports, empty, places, source.shares)


#: A report with more and more that helps: an edit of the text, an assumption.
_Follow = Callable[[KernelReport], Iterator[KernelReport]]
#: A kernel before its check: the report that says nothing, its place, the steps of the check, and what may
#: follow them.
_Check = tuple[KernelReport, Span, Callable[[], Iterator[KernelReport]], _Follow]


def _ptx_checks(source: SourceFile, facts: LaunchFacts, options: Options) -> Iterator[_Check]:
    from syncverify.base.kernel_names import matches
    from syncverify.driver.ptx.task import place_of
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
        yield nothing, uncalled.span, wrong, lambda report: iter((report,))
    for f in module.entries:
        if options.kernel is not None and not matches(f.name, options.kernel):
            continue
        if options.entry not in (None, f.name):
            continue
        span = place_of(module, f)
        nothing = replace(blank(f.name, source.path, options.policy, span), arch=module.target)
        check = _PtxCheck(source, module, f, facts, options)
        yield nothing, span, check.reports, check.followed


@dataclass(frozen=True, slots=True)
class _PtxCheck:
    """A kernel of a PTX or CUDA file, and what it is checked with."""

    source: SourceFile
    module: Module
    function: Function
    facts: LaunchFacts
    options: Options

    def task(self, judge: Callable[[System, Policy], Outcome]) -> Task:
        """The check of the kernel, whose systems ``judge`` decides."""
        from syncverify.checker.prover.strategy import Entry
        from syncverify.driver.prover import prover
        from syncverify.driver.ptx.check import Checker, kernel_task

        o = self.options
        checker = Checker(
            judge, prover(Entry.PTX), prover(Entry.PTX_DATA), prover(Entry.PTX_AHEAD), early=run_briefly
        )
        return kernel_task(
            self.module, self.function, self.facts, o.policy, checker, o.values, self.source.hash, o.infer
        )

    def reports(self) -> Iterator[KernelReport]:
        """The report after each step of the check, the last of them with advice."""
        from syncverify.driver.ptx.block_shapes import reports_of_shapes

        proved = _Proved()
        task = self.task(proved.judge if self.options.advice else run_system)
        ask = self.options.first if self.options.scope is ScopeKind.ALL else None
        first = None if ask is None else ask(task)
        if first is None:  # advice is tried on what the search proves, each system once
            proved.systems.clear()
        for found in reports_of_shapes(task, self.options.scope) if first is None else (first,):
            report = replace(found, assumptions=(*found.assumptions, *self.source.assumptions))
            yield _spelled(report)
        if self.options.advice:
            yield _spelled(proved.advised(report, self.module, self.options.policy))

    def followed(self, report: KernelReport) -> Iterator[KernelReport]:
        """The report with a block size, an edit of the text or sizes that would help."""
        source, scope = self.source, self.options.scope
        if report.verdict is not Verdict.REFUTED:
            return
        from syncverify.driver.ptx.check import proposed_sizes
        from syncverify.driver.repairs.text_edits import Origin, with_text
        from syncverify.frontends.ptx.launch.concretize import sizes_at

        task = self.task(run_system)
        values = {**self.options.values, **sizes_at(task.kernel.facts, report.scope.values)}
        if source.text is not None:
            origin = Origin(source.path, source.text, source.kind, _headers(source))
            once = lru_cache(maxsize=1)(partial(_edited, source))  # CUDA is compiled once for two questions
            judge = partial(self.verdict_of, values, once)
            yield (report := with_text(report, origin, judge, wide=scope is ScopeKind.ALL))
        if scope is ScopeKind.ALL:
            yield _spelled(proposed_sizes(task, report))

    def verdict_of(
        self, values: Mapping[str, int], read: Callable[[str], SourceFile], text: str, *, everywhere: bool
    ) -> Judged:
        """The verdict on the kernel in an edited text: at ``values``, or as the check was asked for."""
        from syncverify.checker.prover.strategy import Entry
        from syncverify.driver.executions.sought import sought
        from syncverify.driver.prover import prover
        from syncverify.driver.ptx.check import Checker, kernel_task, reports_of, with_whole_block
        from syncverify.frontends.ptx.isa.validate import checked

        o = self.options
        edited = read(text)
        assert edited.module is not None
        whole = checked(edited.module).module
        g = next((x for x in whole.entries if x.name == self.function.name), None)
        if g is None:
            return Judged(Verdict.UNKNOWN)
        given, scope = (o.values, o.scope) if everywhere else (values, ScopeKind.EXACT)
        checker = Checker(run_system, prover(Entry.PTX), prover(Entry.PTX_DATA))
        task = kernel_task(whole, g, self.facts, o.policy, checker, given, "", o.infer)
        *_, found = reports_of(task if everywhere else with_whole_block(task), scope)
        if found.verdict is Verdict.PROVED and found.doubted is not None:  # executions may contradict it
            found = sought(found, edited.module)
        return Judged.of(found, edited.path, self.source.path)


def _ir_checks(source: SourceFile, facts: LaunchFacts, options: Options) -> Iterator[_Check]:
    from syncverify.driver.ir import launched_reports, proposed_sizes
    from syncverify.ir.text.parser import parse

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

        def follow(report: KernelReport, k: Kernel = k) -> Iterator[KernelReport]:
            if report.verdict is not Verdict.REFUTED:
                return
            values = {**options.values, **report.scope.values}

            def judge(text: str, *, everywhere: bool) -> Judged:
                g = next((x for x in parse(text, source.path) if x.name == k.name), None)
                if g is None:
                    return Judged(Verdict.UNKNOWN)
                given, scope = (options.values, options.scope) if everywhere else (values, ScopeKind.EXACT)
                *_, found = launched_reports(
                    g, facts, given, options.policy, source.path, "", advice=False, scope=scope
                )
                return Judged(found.verdict, found.diagnostics)

            if source.text is not None:
                from syncverify.driver.repairs.text_edits import Origin, with_text

                wide = options.scope is ScopeKind.ALL
                origin = Origin(source.path, source.text, source.kind)
                yield (report := with_text(report, origin, judge, wide=wide))
            if options.scope is ScopeKind.ALL:
                yield proposed_sizes(k, facts, options.values, options.policy, report)

        yield blank(k.name, source.path, options.policy, k.span), k.span, steps, follow


def _spelled(report: KernelReport) -> KernelReport:
    """The report of a PTX kernel, with fixes in the words of PTX."""
    from syncverify.driver.ptx.wording import as_ptx

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
        from syncverify.driver.ptx.advice import advised

        function = next(f for f in module.entries if f.name == report.name)
        return advised(report, function, self.systems.get(report.name, []), lambda s: run_system(s, policy))


def certificates(
    source: SourceFile, facts: LaunchFacts, values: Mapping[str, int], reports: Iterable[KernelReport]
) -> list[dict[str, Any]]:
    """The certificates of the kernels of a file that its reports prove. Raises InputError."""
    proved = {r.name: r for r in reports if r.verdict is Verdict.PROVED}
    if source.module is None:
        from syncverify.driver.certificates.issue import certify

        return [certify(facts.apply(k)[0], proved[k.name]) for k in source.kernels if k.name in proved]
    from syncverify.checker.prover.strategy import Entry
    from syncverify.driver.certificates import issue_ptx
    from syncverify.driver.prover import prover

    def certified(r: KernelReport) -> dict[str, Any]:
        if r.blocks:
            return issue_ptx.for_blocks(source, r, facts, values, search)
        if r.protocol is not None:
            return issue_ptx.by_kernel_alone(source, r, values)
        return issue_ptx.certify(module, r.name, source.hash, facts, values, r.policy, search)

    module, search = source.module, prover(Entry.PTX)
    return [certified(r) for r in proved.values()]


def suffices(text: str, file: str) -> bool:
    """Whether all certificates of a file need the kernel alone."""
    from syncverify.base.certificate_data import read
    from syncverify.driver.rechecked import INDUCTION

    found = read(text, file).get("kernels")  # its digests are looked at by who follows it
    proofs = [e.get("proof") for e in found if isinstance(e, dict)] if isinstance(found, list) else []
    return bool(proofs) and all(isinstance(p, dict) and p.get("kind") == INDUCTION for p in proofs)


def recheck(text: str, file: str, source: SourceFile, facts: LaunchFacts) -> list[Rechecked]:
    """Validates certificates against the kernels of a source. Raises RejectedError, InputError.

    Those that the kernel accepts alone need no search code, and load none. Where blocks may race or count
    themselves in global memory, it is asked as in a check whether the text contradicts the proof.
    """
    if suffices(text, file):
        from syncverify.driver import by_kernel

        return by_kernel.recheck(text, file, source, facts, _doubts())
    if source.module is None:
        from syncverify.driver.certificates.follow import recheck as validate

        return validate(text, file, {k.name: facts.apply(k)[0] for k in source.kernels})
    from syncverify.driver.certificates import follow_ptx

    launched = follow_ptx.Launched(source.module, source.hash, facts, _doubts())
    return follow_ptx.recheck(text, file, launched)


def _doubts() -> Doubts:
    """Who looks at what proofs take for granted; what that needs is loaded where something is asked."""
    from syncverify.driver.certificates.doubts import Doubts

    def executed(report: KernelReport, module: Module) -> KernelReport:
        from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import used_counts

        p = report.doubted.code.program
        if p.handing is None and not used_counts(p.flow):
            return report
        from syncverify.driver.executions.sought import sought

        return sought(report, module)

    return Doubts(run_system, executed)


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
