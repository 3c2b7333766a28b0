"""The commands as functions, with the defaults of the command line: check, certify, recheck, replay.

What they take is a path (a ``str`` or ``Path``; ``check`` takes that of a folder, too), the text of a kernel
(a ``str`` with a line break, PTX or ``.syncir``), or a ``Kernel`` of the IR. Launch facts are those given,
else those beside the file.

    >>> import syncverify
    >>> (report,) = syncverify.check("kernel k {\\n  param n : i32\\n  bar.sync 0\\n}\\n")
    >>> print(report.name, report.verdict, report.scope.kind)
    k proved all
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from syncverify.base.deadline import CHECK_SECONDS, check_guard
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Witness
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.driver.files import (
    Options,
    SourceFile,
    certificates,
    check_each,
    finished,
    has_certificates,
    read_source,
    read_text,
)
from syncverify.driver.files import recheck as validate
from syncverify.driver.kernel_files import kernel_files
from syncverify.driver.verdicts import text_hash
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts, facts_for, of_no_kernel, read_facts
from syncverify.ir.nodes import Kernel

if TYPE_CHECKING:
    from syncverify.driver.certificates import Rechecked
    from syncverify.frontends.cuda.options import CudaOptions
    from syncverify.simulate.ir.replay import ReplayResult

#: What is checked: a path, a text with a line break, or a kernel of the IR.
Input = str | PathLike[str] | Kernel
#: Launch facts: the tables of a launch file, its path, or what ``LaunchFacts`` holds.
Facts = LaunchFacts | Mapping[str, Any] | str | PathLike[str] | None
#: What reports call a text without a file.
TEXT = "<text>"


def check(
    kernels: Input,
    *,
    facts: Facts = None,
    values: Mapping[str, int] | None = None,
    kernel: str | None = None,
    policy: Policy | str = Policy.PRACTICAL,
    scope: ScopeKind | Literal["all", "exact"] = ScopeKind.ALL,
    infer: bool = True,
    timeout: float | None = CHECK_SECONDS,
    max_memory: int | None = None,
    cuda: CudaOptions | None = None,
    require: Literal["kernel"] | None = None,
    replay: bool = True,
    advice: bool = True,
) -> list[KernelReport]:
    """The reports of ``syncverify check`` on the kernels of a file, a folder or a text, or on one kernel of
    the IR.

    ``facts``: launch facts; without them those of ``<input>.launch.toml`` beside a file. ``values``: numbers
    for open sizes, as ``--param``. ``kernel``: only kernels of this name; ``*`` and ``?`` match. ``scope``:
    ``all`` for every size that is open, ``exact`` for given and default values alone. ``timeout`` in seconds
    and ``max_memory`` in MiB bound each kernel; 0: no end, and no ``max_memory``: three quarters of the
    machine's. ``require``: the small trusted kernel is asked about every proof, and ``accepted_by`` of a
    report says whether it accepted. ``replay``: refutations of PTX and CUDA are replayed on the second
    reader; what it executes without harm is ``unknown``. ``advice``: repairs of refuted kernels are looked
    for, and what proved ones could do without.

    Raises InputError for input that nobody can use, of a folder for the first file that is not; a fault of
    the tool is a report (SV906).
    """
    sources = [_source(x, cuda) for x in _inputs(kernels)]
    names = {name for source in sources for name in source.names}
    if facts is not None:
        for error in of_no_kernel(_facts(facts, sources[0]), names):
            raise error
    options = Options(
        values=values or {},
        kernel=kernel,
        policy=_policy(policy),
        advice=advice,
        scope=_scope(scope),
        infer=infer,
        guard=check_guard(timeout, max_memory),
        isolated=True,
        replay=replay,
        repairs=advice,
    )
    asks = require is not None
    found = [r for source in sources for r in _checked(source, _facts(facts, source), options, asks=asks)]
    if kernel is not None and not found:
        raise InputError(f"no kernel matches {kernel!r} (found: {', '.join(sorted(names))})")
    return found


def _checked(source: SourceFile, facts: LaunchFacts, options: Options, *, asks: bool) -> list[KernelReport]:
    """The reports of one file; ``asks``: the small kernel is asked about its proofs."""
    reports = list(check_each(source, facts, options))
    if asks:
        from syncverify.driver.acceptance import asked

        reports = asked(source, facts, options.values, reports)
    return finished(source, reports, options.kernel is None)


def certify(
    kernels: Input,
    *,
    facts: Facts = None,
    values: Mapping[str, int] | None = None,
    policy: Policy | str = Policy.PRACTICAL,
    reports: Sequence[KernelReport] | None = None,
) -> str:
    """The certificate, as JSON, of the kernels of an input that are proved (by ``reports``, if given).

    Raises InputError where none is proved, or a proof cannot be written down; CUDA has no certificate.
    """
    from syncverify.driver.certificates import dumps

    source = _certified(kernels)
    found = check(kernels, facts=facts, values=values, policy=policy) if reports is None else reports
    proofs = certificates(source, _facts(facts, source), values or {}, found)
    if not proofs:
        raise InputError("no kernel is proved: there is nothing to certify", Span(source.path))
    return dumps(proofs)


def recheck(certificate: str | PathLike[str], kernels: Input, *, facts: Facts = None) -> list[Rechecked]:
    """What a certificate (its JSON, or the path of its file) proves of an input, without any search.

    Raises RejectedError where it proves nothing, InputError where it cannot be used.
    """
    text, name = _text(certificate)
    source = _certified(kernels)
    return validate(text, name, source, _facts(facts, source))


def replay(
    witness: Witness | str | PathLike[str], kernels: Input | None = None, *, facts: Facts = None
) -> ReplayResult:
    """Steps a counterexample (a report's witness, its JSON, or the path of its file) through the simulator.

    ``kernels``: where its kernel is; without it the file that the witness names. Raises InputError where the
    text has changed since.
    """
    from syncverify.ptx_replay.replayed import replayed
    from syncverify.report.witness import loads

    text, name = ("", "the witness") if isinstance(witness, Witness) else _text(witness)
    found = witness if isinstance(witness, Witness) else loads(text, name)
    source = _source(found.file if kernels is None else kernels, None)
    return replayed(source, found, _facts(facts, source), name)


def _certified(kernels: Input) -> SourceFile:
    if not (isinstance(kernels, Kernel) or _is_text(kernels)):
        has_certificates(fspath(kernels))
    return _source(kernels, None)


def _inputs(kernels: Input) -> Sequence[Input]:
    """The files of a folder, or the one input that is none."""
    if isinstance(kernels, Kernel) or _is_text(kernels):
        return [kernels]
    return kernel_files(Path(kernels)) if isdir(kernels) else [kernels]


def _is_text(kernels: str | PathLike[str]) -> TypeGuard[str]:
    """Whether it is the text of kernels, and no path."""
    return isinstance(kernels, str) and "\n" in kernels


def _source(kernels: Input, cuda: CudaOptions | None) -> SourceFile:
    if isinstance(kernels, Kernel):
        from syncverify.ir.text.printer import print_kernel

        file = kernels.span.file if kernels.span.line else TEXT
        return SourceFile(file, (kernels,), text_hash(print_kernel(kernels)))
    if _is_text(kernels):
        return read_text(kernels, TEXT, "ptx" if _is_ptx(kernels) else "syncir")
    return read_source(fspath(kernels), cuda)


def _is_ptx(text: str) -> bool:
    """Whether a text is PTX: its first directive is its version."""
    lines = (line.strip() for line in text.splitlines())
    return next((x for x in lines if x and not x.startswith("//")), "").startswith(".")


def _facts(given: Facts, source: SourceFile) -> LaunchFacts:
    if isinstance(given, LaunchFacts):
        return given
    if isinstance(given, Mapping):
        return LaunchFacts.of(given)
    if given is not None:
        return read_facts(fspath(given))
    return facts_for(source.path) if Path(source.path).is_file() else NO_FACTS


def _text(given: str | PathLike[str]) -> tuple[str, str]:
    """A JSON text, or that of a file, and what to call it."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        return given, TEXT
    path = fspath(given)
    return decode(read_bytes(path), path), path


def _policy(given: Policy | str) -> Policy:
    try:
        return Policy(given)
    except ValueError:
        raise InputError(f"policy is {given!r}: use {' or '.join(map(repr, map(str, Policy)))}") from None


def _scope(given: ScopeKind | str) -> ScopeKind:
    if given not in (ScopeKind.ALL, ScopeKind.EXACT):
        raise InputError(f"scope is {given!r}: use 'all' or 'exact'")
    return ScopeKind(given)


__all__ = ["certify", "check", "recheck", "replay"]
