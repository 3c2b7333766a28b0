"""``syncverify check``: verify the kernels of files and report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.kernel_names import base_name
from syncverify.base.source import InputError, Span
from syncverify.cli import options
from syncverify.cli.common import (
    INTERRUPTED,
    Exit,
    bug,
    complain,
    emit,
    integers,
    keep_inputs,
    say,
    use_color,
    write,
)
from syncverify.driver.files import certificates, check_source, read_source
from syncverify.frontends.launch_facts import LaunchFacts, facts_for, read_facts
from syncverify.report.base import Report, counted
from syncverify.report.excerpt import LONGEST_NAME
from syncverify.report.text import colored, plain
from syncverify.report.text import render as render_text
from syncverify.report.witness import dumps

if TYPE_CHECKING:
    from syncverify.frontends.cuda.to_ptx import CudaOptions

#: Formats other than text, each a module of ``syncverify.report`` with ``render(report) -> str``.
FORMATS = ("json", "sarif", "github", "junit", "html", "trace")
#: Longer names of kernels, as templates have them, do not fit into the name of a file.
LONGEST_STEM = 200


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to check, and how."""

    facts: LaunchFacts | None
    values: Mapping[str, int]
    kernel: str | None
    policy: Policy
    cuda: CudaOptions | None
    infer: bool


@dataclass(frozen=True, slots=True)
class _Checked:
    """What the check of one file has found."""

    reports: tuple[KernelReport, ...] = ()
    names: frozenset[str] = frozenset()  # every kernel seen, selected or not
    errors: tuple[InputError, ...] = ()


@dataclass(slots=True)
class _Run:
    """What one ``check`` has found so far."""

    reports: list[KernelReport] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    errors: list[InputError] = field(default_factory=list)

    def add(self, file: _Checked) -> None:
        self.reports += file.reports
        self.names |= file.names
        for error in file.errors:
            self.reject(error)

    def reject(self, error: InputError) -> None:
        if str(error) not in map(str, self.errors):  # a launch file's mistake is each kernel's
            complain(error)
        self.errors.append(error)


@click.command(epilog="Exit status: 0 all proved; 1 refuted; 2 bad usage or input; 3 unknown.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.launch
@options.params
@options.kernel
@options.policy
@click.option("--format", "format_", type=click.Choice(["text", *FORMATS]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report there instead of stdout.")
@click.option("--witness-dir", metavar="DIR", help="Write each witness to DIR/<kernel>.json.")
@click.option("--certificate", metavar="FILE", help="Write there what was proved, for recheck.")
@click.option(
    "--on-unknown", type=click.Choice(["pass", "fail"]), help="Exit 0 (pass) or 1 (fail) instead of 3."
)
@options.cuda
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Files to check side by side; 0: one for each processor.",
)
@click.option("--no-infer", is_flag=True, help="Take no host fact for granted that the input only implies.")
def check(
    files: tuple[str, ...],
    launch: str | None,
    params: tuple[str, ...],
    kernel: str | None,
    policy: str,
    format_: str,
    output: str | None,
    witness_dir: str | None,
    certificate: str | None,
    on_unknown: str | None,
    include: tuple[str, ...],
    define: tuple[str, ...],
    std: str,
    prelude: str | None,
    jobs: int,
    no_infer: bool,
) -> int:
    """Verify kernels: proved, refuted with a counterexample, or unknown with the reason.

    FILE is a .syncir, .ptx or .cu file; a .cu file is compiled by NVRTC, which needs no GPU. A .syncir file
    states every host fact, so --no-infer changes nothing for it.
    """
    keep_inputs(files, {"-o": output, "--certificate": certificate})
    values = integers(params, "--param")
    facts = None if launch is None else read_facts(launch)
    cuda = options.cuda_options(files, include, define, std, prelude)
    wanted = _Wanted(facts, values, kernel, Policy(policy), cuda, not no_infer)
    found = _Run()
    interrupted = _check_all(found, files, wanted, jobs)
    if interrupted and format_ != "text":
        return INTERRUPTED
    if kernel is not None and found.names and not (found.reports or found.errors or interrupted):
        found.reject(options.no_kernel(kernel, found.names))
    if facts is not None and not found.errors and not interrupted:
        _check_tables(found, facts)
    paths = {} if witness_dir is None else dict(_write_witnesses(found, Path(witness_dir)))
    if certificate is not None:
        _write_certificate(found, files, facts, values, Path(certificate))
    report = Report(Policy(policy), tuple(found.reports), paths, tuple(found.errors))
    if found.reports or format_ != "text":
        emit(_renderer(format_, use_color(output))(report), output)
    return INTERRUPTED if interrupted else status(report, on_unknown)


def _check_all(found: _Run, files: Sequence[str], wanted: _Wanted, jobs: int) -> bool:
    """Checks the files in their order; True if Ctrl-C came before the last."""
    at_once = _at_once(jobs, len(files))
    work = partial(_check_file, wanted)
    done = 0
    try:
        for checked in map(work, files) if at_once == 1 else _side_by_side(work, files, at_once):
            found.add(checked)
            done += 1
    except KeyboardInterrupt:
        say(f"interrupted: {done} of {counted(len(files), 'file')} checked")
        return True
    return False


def _at_once(jobs: int, files: int) -> int:
    if jobs == 1 or files == 1:
        return 1
    from syncverify.cli.jobs import cores  # loads much of multiprocessing

    return min(jobs or cores(), files)


def _side_by_side(work: Callable[[str], _Checked], files: Sequence[str], jobs: int) -> Iterator[_Checked]:
    from syncverify.cli.jobs import side_by_side

    return side_by_side(partial(_without_proofs, work), files, jobs, _lost)


def _without_proofs(work: Callable[[str], _Checked], file: str) -> _Checked:
    """What another process needs of a result."""
    checked = work(file)
    return replace(checked, reports=tuple(replace(r, proof=None) for r in checked.reports))


def _lost(file: str, code: int | None) -> _Checked:
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    error = InputError(f"the process that checked it {how} (too little memory?)", Span(file))
    return _Checked(errors=(error,))


def _check_file(wanted: _Wanted, file: str) -> _Checked:
    """Checks one file; whatever is wrong with it stands beside what was found."""
    errors: list[InputError] = []
    names: set[str] = set()
    reports: list[KernelReport] = []
    try:
        source = read_source(file, wanted.cuda)
        names = source.names
        reports = check_source(
            source,
            facts=facts_for(file) if wanted.facts is None else wanted.facts,
            values=wanted.values,
            kernel=wanted.kernel,
            policy=wanted.policy,
            on_error=errors.append,
            advice=True,
            scope=ScopeKind.ALL,
            infer=wanted.infer,
        )
    except InputError as e:
        errors.append(e)
    except Exception as e:
        errors.append(bug(e, file))
    return _Checked(tuple(reports), frozenset(names), tuple(errors))


def _check_tables(found: _Run, facts: LaunchFacts) -> None:
    for name in facts.tables:
        if name != "*" and name not in found.names:
            has = ", ".join(sorted(n for n in found.names if len(n) <= LONGEST_NAME or base_name(n) == n))
            found.reject(InputError(f'kernel."{name}" names no kernel (found: {has})', Span(facts.file)))


def _write_witnesses(found: _Run, directory: Path) -> Iterator[tuple[int, str]]:
    """Writes each witness to ``<kernel>.json``; a second kernel of one name gets ``<kernel>-2.json``."""
    used: set[str] = set()
    for i, report in enumerate(found.reports):
        if report.witness is None:
            continue
        name = report.name if len(report.name) <= LONGEST_STEM else base_name(report.name)[:LONGEST_STEM]
        stems = chain([name], (f"{name}-{n}" for n in count(2)))
        stem = next(s for s in stems if s not in used)
        used.add(stem)
        path = directory / f"{stem}.json"
        try:
            write(path, dumps(report.witness).encode())
        except InputError as e:
            found.reject(e)
            return
        yield i, str(path)


def _write_certificate(
    found: _Run, files: tuple[str, ...], facts: LaunchFacts | None, values: Mapping[str, int], path: Path
) -> None:
    """Writes the proofs of all kernels of one file that were proved."""
    from syncverify.driver.certificates import dumps as written

    if len(files) != 1 or Path(files[0]).suffix not in (".syncir", ".ptx"):
        found.reject(InputError("--certificate: one .syncir or .ptx file has one"))
        return
    try:
        own = facts_for(files[0]) if facts is None else facts
        proofs = certificates(read_source(files[0]), own, values, found.reports)
        write(path, written(proofs).encode())
    except InputError as e:
        found.reject(e)


def _renderer(format_: str, color: bool) -> Callable[[Report], str]:
    if format_ == "text":
        return lambda report: render_text(report, colored if color else plain)
    render: Callable[[Report], str] = import_module(f"syncverify.report.{format_}").render
    return render


def status(report: Report, on_unknown: str | None = None) -> int:
    """The exit status of a run: bad input, then refuted, then unknown (as ``--on-unknown`` says)."""
    counts = report.counts
    if report.errors:
        return Exit.BAD_INPUT
    if counts[Verdict.REFUTED]:
        return Exit.REFUTED
    if counts[Verdict.UNKNOWN]:
        return {None: Exit.UNKNOWN, "pass": Exit.OK, "fail": Exit.REFUTED}[on_unknown]
    return Exit.OK
