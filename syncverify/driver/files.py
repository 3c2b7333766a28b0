"""Files to reports: what a file holds, and the check of its kernels, by the front end of its kind.

Each front end is loaded when a file asks for it: most of a short check is loading code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.base.suppressions import Suppression
from syncverify.base.suppressions import apply as apply_suppressions
from syncverify.base.suppressions import find as find_suppressions
from syncverify.driver.verdicts import merge, run_system, text_hash
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts

if TYPE_CHECKING:
    from syncverify.checker.outcome import Outcome
    from syncverify.driver.certificates import Rechecked
    from syncverify.frontends.cuda.to_ptx import CudaOptions
    from syncverify.frontends.ptx.syntax.nodes import Module
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


def _read_ptx(path: Path, data: bytes, cuda: CudaOptions | None) -> SourceFile:
    from syncverify.driver.remarks import source_shares
    from syncverify.frontends.ptx.syntax.parser import parse as parse_ptx

    made: tuple[str, ...] = ()
    if path.suffix == ".cu":
        from syncverify.frontends.cuda.nvcc import MARK
        from syncverify.frontends.cuda.to_ptx import DEFAULTS, compile_cuda

        text = compile_cuda(path, cuda or DEFAULTS)
        made = ("the PTX that nvcc makes: NVRTC takes no host code",) if text.endswith(MARK) else ()
    else:
        text = decode(data, str(path))
    module = parse_ptx(text, str(path))
    if not module.entries:
        template = path.suffix == ".cu" and re.search(rb"\btemplate\s*<", data)
        why = "; a template is compiled where something instantiates it" if template else ""
        raise InputError(f"no kernel in this file{why}", Span(str(path)))
    ignored = find_suppressions(decode(data, str(path)), str(path))
    shares = path.suffix == ".cu" and source_shares(data)
    return SourceFile(str(path), (), text_hash(data), module, made, ignored, shares)


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

    ``values`` win over ``facts``, which win over defaults. With ``on_error`` a kernel that cannot be
    used is handed there and the others are still checked; without it its InputError is raised.
    ``infer``: host facts that PTX only implies may be used, as assumptions.
    ``advice`` adds notes on what proved kernels could do without (SV6xx). Comments of the source silence
    warnings and notes.
    """
    reports = _checked(source, facts, values or {}, kernel, policy, on_error, advice, scope, infer)
    reports = _remarked(source, reports)
    complete = kernel is None and len(reports) == (
        len(source.kernels) or len(source.module.entries if source.module else ())
    )
    return apply_suppressions(reports, source.suppressions, source.path, complete)


def _remarked(source: SourceFile, reports: list[KernelReport]) -> list[KernelReport]:
    """The reports, with a note on kernels in which nothing is left to check."""
    from syncverify.driver.remarks import nothing_in_ir, nothing_in_ptx, remarked

    if source.module is None:
        empty = [k.name for k in source.kernels if nothing_in_ir(k)]
        places = {k.name: k.span for k in source.kernels}
    else:
        entries = source.module.entries
        empty = [f.name for f in entries if nothing_in_ptx(source.module, f)]
        from_cuda = Path(source.path).suffix == ".cu"
        places = {} if from_cuda else {f.name: Span(source.path, f.line) for f in entries}
    return remarked(reports, empty, places, source.shares)


def _checked(
    source: SourceFile,
    facts: LaunchFacts,
    values: Mapping[str, int],
    kernel: str | None,
    policy: Policy,
    on_error: Callable[[InputError], None] | None,
    advice: bool,
    scope: ScopeKind,
    infer: bool,
) -> list[KernelReport]:
    if source.module is not None:
        from syncverify.checker.prover.strategy import Entry
        from syncverify.driver.prover import prover
        from syncverify.driver.ptx_check import Checker, check_module

        proved = _Proved()
        found = check_module(
            source.module,
            facts,
            policy,
            Checker(proved.judge if advice else run_system, merge, prover(Entry.PTX)),
            kernel=kernel,
            values=values,
            source_hash=source.hash,
            on_error=on_error,
            scope=scope,
            infer=infer,
        )
        made = [replace(r, assumptions=(*r.assumptions, *source.assumptions)) for r in found]
        return [_spelled(proved.advised(r, source.module, policy) if advice else r) for r in made]
    from syncverify.driver.ir import check_launched

    reports: list[KernelReport] = []
    for k in source.kernels:
        if kernel is not None and not fnmatchcase(k.name, kernel):
            continue
        try:
            reports.append(
                check_launched(k, facts, values, policy, source.path, source.hash, advice=advice, scope=scope)
            )
        except InputError as e:
            if on_error is None:
                raise
            on_error(e)
    return reports


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
