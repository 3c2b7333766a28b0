"""``syncverify check``: verify the kernels of files and report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from syncverify.cli.common import Exit, complain, complain_bug, emit, integers, use_color, write
from syncverify.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.files import check_source, read_source
from syncverify.launch import NO_FACTS, LaunchFacts, beside, read_facts
from syncverify.report.base import Report
from syncverify.report.text import colored, plain
from syncverify.report.text import render as render_text
from syncverify.report.witness import dumps
from syncverify.source import InputError, Span

if TYPE_CHECKING:
    from syncverify.frontends.cuda import CudaOptions

#: Formats other than text, each a module of ``syncverify.report`` with ``render(report) -> str``.
FORMATS = ("json", "sarif", "github", "junit", "html", "trace")


@dataclass(slots=True)
class _Run:
    """What one ``check`` has found so far."""

    reports: list[KernelReport] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # every kernel seen, selected or not
    failed: bool = False

    def reject(self, error: InputError) -> None:
        self.failed = True
        complain(error)


@click.command(epilog="Exit status: 0 all proved; 1 refuted; 2 bad usage or input; 3 unknown.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--launch", metavar="FILE", help="Launch facts (TOML); else <input>.launch.toml if it exists.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Value of a kernel parameter.")
@click.option("--kernel", metavar="NAME", help="Only kernels of this name (* and ? match).")
@click.option(
    "--policy",
    type=click.Choice([str(p) for p in Policy]),
    default=str(Policy.PRACTICAL),
    show_default=True,
    help="How contested points are decided.",
)
@click.option("--format", "format_", type=click.Choice(["text", *FORMATS]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report there instead of stdout.")
@click.option("--witness-dir", metavar="DIR", help="Write each witness to DIR/<kernel>.json.")
@click.option("--certificate", metavar="FILE", help="(.syncir) Write there what was proved, for recheck.")
@click.option(
    "--on-unknown", type=click.Choice(["pass", "fail"]), help="Exit 0 (pass) or 1 (fail) instead of 3."
)
@click.option("-I", "include", multiple=True, metavar="DIR", help="(.cu) Where to look for headers.")
@click.option("-D", "define", multiple=True, metavar="NAME[=VALUE]", help="(.cu) Defines a macro.")
@click.option("--std", default="c++17", show_default=True, help="(.cu) The C++ standard.")
@click.option("--prelude", metavar="NAME", help="(.cu) Device functions of a generator's runtime: nvfuser.")
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
    no_infer: bool,
) -> int:
    """Verify kernels: proved, refuted with a counterexample, or unknown with the reason.

    FILE is a .syncir, .ptx or .cu file; a .cu file is compiled by NVRTC, which needs no GPU. A .syncir file
    states every host fact, so --no-infer changes nothing for it.
    """
    found = _Run()
    values = integers(params, "--param")
    facts = None if launch is None else read_facts(launch)
    cuda = None
    if any(Path(f).suffix == ".cu" for f in files):
        from syncverify.frontends.cuda import CudaOptions

        cuda = CudaOptions(include, define, std, prelude)
    for file in files:
        _check_file(found, file, facts, values, kernel, Policy(policy), cuda, not no_infer)
    if kernel is not None and found.names and not found.reports and not found.failed:
        has = ", ".join(sorted(found.names))
        found.reject(InputError(f"no kernel matches --kernel {kernel} (found: {has})"))
    if facts is not None and not found.failed:
        _check_tables(found, facts)
    paths = {} if witness_dir is None else dict(_write_witnesses(found.reports, Path(witness_dir)))
    if certificate is not None:
        _write_certificate(found, files, facts, Path(certificate))
    report = Report(Policy(policy), tuple(found.reports), paths)
    if found.reports or format_ != "text":
        emit(_renderer(format_, use_color(output))(report), output)
    return status(report, found.failed, on_unknown)


def _check_file(
    found: _Run,
    file: str,
    facts: LaunchFacts | None,
    values: Mapping[str, int],
    kernel: str | None,
    policy: Policy,
    cuda: CudaOptions | None,
    infer: bool,
) -> None:
    """Checks one file; whatever is wrong with it is reported and the run goes on."""
    try:
        source = read_source(file, cuda)
        found.names.update(source.names)
        own = facts
        if own is None:
            own = read_facts(beside(file)) if beside(file).exists() else NO_FACTS
        found.reports += check_source(
            source,
            facts=own,
            values=values,
            kernel=kernel,
            policy=policy,
            on_error=found.reject,
            advice=True,
            scope=ScopeKind.ALL,
            infer=infer,
        )
    except InputError as e:
        found.reject(e)
    except Exception as e:
        found.failed = True
        complain_bug(e, file)


def _check_tables(found: _Run, facts: LaunchFacts) -> None:
    for name in facts.tables:
        if name != "*" and name not in found.names:
            has = ", ".join(sorted(found.names))
            found.reject(InputError(f'kernel."{name}" names no kernel (found: {has})', Span(facts.file)))


def _write_witnesses(reports: list[KernelReport], directory: Path) -> Iterator[tuple[int, str]]:
    """Writes each witness to ``<kernel>.json``; a second kernel of one name gets ``<kernel>-2.json``."""
    used: dict[str, int] = {}
    for i, report in enumerate(reports):
        if report.witness is None:
            continue
        used[report.name] = n = used.get(report.name, 0) + 1
        path = directory / (f"{report.name}.json" if n == 1 else f"{report.name}-{n}.json")
        write(path, dumps(report.witness).encode())
        yield i, str(path)


def _write_certificate(found: _Run, files: tuple[str, ...], facts: LaunchFacts | None, path: Path) -> None:
    """Writes the proofs of all kernels of one file that were proved."""
    from syncverify.certificate import certify
    from syncverify.certificate import dumps as written

    if len(files) != 1 or Path(files[0]).suffix != ".syncir":
        found.reject(InputError("--certificate: one .syncir file has one"))
        return
    proved = {r.name: r for r in found.reports if r.verdict is Verdict.PROVED}
    try:
        own = facts or (read_facts(beside(files[0])) if beside(files[0]).exists() else NO_FACTS)
        kernels = [k for k in read_source(files[0]).kernels if k.name in proved]
        proofs = [certify(own.apply(k)[0], proved[k.name]) for k in kernels]
        write(path, written(proofs).encode())
    except InputError as e:
        found.reject(e)


def _renderer(format_: str, color: bool) -> Callable[[Report], str]:
    if format_ == "text":
        return lambda report: render_text(report, colored if color else plain)
    render: Callable[[Report], str] = import_module(f"syncverify.report.{format_}").render
    return render


def status(report: Report, failed: bool, on_unknown: str | None = None) -> int:
    """The exit status of a run: bad input, then refuted, then unknown (as ``--on-unknown`` says)."""
    counts = report.counts
    if failed:
        return Exit.BAD_INPUT
    if counts[Verdict.REFUTED]:
        return Exit.REFUTED
    if counts[Verdict.UNKNOWN]:
        return {None: Exit.UNKNOWN, "pass": Exit.OK, "fail": Exit.REFUTED}[on_unknown]
    return Exit.OK
