"""``syncverify check``: verify the kernels of files and report."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from types import FrameType
from typing import Any

import click

from syncverify.base.deadline import CHECK_SECONDS, check_guard
from syncverify.base.diagnostics import Policy, Severity
from syncverify.base.kernel_names import base_name
from syncverify.base.source import InputError
from syncverify.cli import config, options, repeated
from syncverify.cli.common import (
    INTERRUPTED,
    TERMINATED,
    emit,
    integers,
    keep_inputs,
    say,
    text_width,
    use_color,
    write,
)
from syncverify.cli.dependencies import dependencies
from syncverify.cli.inputs import STDIN, Item, items
from syncverify.cli.outcome import Counting, rules, shown, statistics, status
from syncverify.cli.progress import Progress
from syncverify.cli.work import Checked, Run, Wanted, check_all
from syncverify.driver.reports import baseline, stored_reports
from syncverify.frontends.launch_facts import LaunchFacts, facts_for, of_no_kernel, read_facts
from syncverify.report.base import Report, source_lines
from syncverify.report.text import colored, plain
from syncverify.report.text import render as render_text
from syncverify.report.witness import dumps

#: Formats other than text, each a module of ``syncverify.report`` with ``render(report) -> str``.
FORMATS = ("json", "sarif", "github", "junit", "html", "trace", "markdown")
#: Longer names of kernels, as templates have them, do not fit into the name of a file.
LONGEST_STEM = 200
#: Where the context of the command holds the configuration's path.
_CONFIG = "syncverify.config"
#: What writes or says more than the report, or asks for another look.
_BESIDES = (
    "witness_dir", "certificate", "baseline_", "write_baseline", "dask", "counted", "require", "no_cache"
)  # fmt: skip


def _configured(ctx: click.Context, _: click.Parameter, given: str | None) -> None:
    """Takes defaults from a configuration: the one that is named, else the nearest; ``none``: no file."""
    if given == "none" or ctx.resilient_parsing:
        return
    path = config.find(Path.cwd()) if given is None else Path(given)
    if path is not None:
        ctx.meta[_CONFIG] = str(path)
        ctx.default_map = {**(ctx.default_map or {}), **config.read(path)}


@click.command(epilog="Exit status: 0 all proved; 1 refuted; 2 bad usage or input; 3 unknown.")
@click.argument("files", nargs=-1, metavar="FILE...")
@options.launch
@options.params
@options.kernel
@options.policy
@click.option("--format", "format_", type=click.Choice(["text", *FORMATS]), default="text", show_default=True)
@click.option(
    "-o",
    "--output",
    "output",
    multiple=True,
    metavar="[FORMAT:]FILE",
    help="Write the report there instead of stdout; with a format, besides. Repeatable.",
)
@click.option(
    "--require",
    type=click.Choice(["kernel"]),
    help="Ask the small trusted kernel about every proof; what it does not accept makes the status 3.",
)
@click.option("--draw", "drawn", is_flag=True, help="Draw the schedules of refuted kernels, in text reports.")
@click.option("--witness-dir", metavar="DIR", help="Write each witness to DIR/<kernel>.json.")
@click.option("--certificate", metavar="FILE", help="Write there what was proved, for recheck.")
@click.option(
    "--on-unknown", type=click.Choice(["pass", "fail"]), help="Exit 0 (pass) or 1 (fail) instead of 3."
)
@click.option(
    "--fail-on",
    type=click.Choice([str(s) for s in Severity]),
    default=str(Severity.ERROR),
    show_default=True,
    help="The least severity of a finding that makes the status 1.",
)
@click.option("--select", multiple=True, metavar="RULES", help="Show warnings and notes of these rules only.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Show no warnings and notes of these rules.")
@click.option("--baseline", "baseline_", metavar="FILE", help="Findings that are accepted.")
@click.option("--write-baseline", metavar="FILE", help="Write there what was found, to be accepted.")
@options.cuda
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Files to check side by side; 0: one for each processor.",
)
@click.option(
    "--dask", metavar="ADDRESS", help="Check on the workers of this Dask scheduler: tcp://HOST:PORT."
)
@click.option(
    "--no-advice",
    is_flag=True,
    help="Look for no repair, and for nothing that proved kernels can do without.",
)
@click.option("--no-infer", is_flag=True, help="Take no host fact for granted that the input only implies.")
@click.option(
    "--no-replay",
    is_flag=True,
    help="Report refutations of PTX and CUDA without replaying them on the second reader.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=CHECK_SECONDS,
    show_default=True,
    help="Seconds for each kernel; 0: no end.",
)
@click.option(
    "--max-memory",
    type=click.IntRange(0),
    metavar="MIB",
    help="Memory for each kernel, in MiB; 0: no end. [default: 3/4 of the machine's]",
)
@click.option(
    "--changed",
    "files_are",
    flag_value="changed",
    default="named",
    help="FILEs are what changed: of launch files and headers, check the kernels they belong to.",
)
@click.option(
    "--kind",
    type=click.Choice(["ptx", "cu", "syncir"]),
    help="What standard input is.",
)
@click.option("--no-cache", is_flag=True, help="Check again what was checked before.")
@click.option(
    "--statistics", "counted", is_flag=True, help="Say on stderr what was found, and how long it took."
)
@options.color
@click.option(
    "--config",
    is_eager=True,
    expose_value=False,
    callback=_configured,
    metavar="FILE",
    help="Defaults of these options; none: no file. [default: the nearest pyproject.toml or syncverify.toml]",
)
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    files: tuple[str, ...],
    launch: str | None,
    params: tuple[str, ...],
    kernel: str | None,
    policy: str,
    format_: str,
    output: tuple[str, ...],
    require: str | None,
    drawn: bool,
    witness_dir: str | None,
    certificate: str | None,
    on_unknown: str | None,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline_: str | None,
    write_baseline: str | None,
    include: tuple[str, ...],
    define: tuple[str, ...],
    std: str,
    prelude: str | None,
    jobs: int,
    dask: str | None,
    no_advice: bool,
    no_infer: bool,
    no_replay: bool,
    timeout: float,
    max_memory: int | None,
    files_are: str,
    kind: str | None,
    no_cache: bool,
    counted: bool,
    color: str,
) -> int:
    """Verify kernels: proved, refuted with a counterexample, or unknown with the reason.

    FILE is a .syncir, .ptx or .cu file, a directory of such, a pattern, or - for standard input; a .cu file
    is compiled by NVRTC, which needs no GPU. A .syncir file states every host fact, so --no-infer changes
    nothing for it.
    """
    files = files or tuple((ctx.default_map or {}).get("files", ()))
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.", ctx)
    outputs = _outputs(output, format_)
    if files_are == "changed":
        from syncverify.cli.changed import concerned

        files = concerned(files, include)
        if not files:
            say("no kernel is concerned")
    inputs, unusable = items(files, kind)
    _keep(inputs, outputs, certificate, write_baseline)
    chosen, hidden = rules(select, "--select"), rules(ignore, "--ignore")
    known = Counter() if baseline_ is None else baseline.read(baseline_)
    values = integers(params, "--param")
    facts = None if launch is None else read_facts(launch)
    cuda = options.cuda_options([i.path for i in inputs], include, define, std, prelude)
    guard = check_guard(timeout, max_memory, jobs)
    caches = not (no_cache or certificate or require or os.environ.get("SYNCVERIFY_NO_CACHE"))
    asks = require == "kernel"
    wanted = Wanted(
        facts,
        values,
        kernel,
        Policy(policy),
        cuda,
        not no_infer,
        guard,
        caches,
        asks,
        replay=not no_replay,
        advice=not no_advice,
    )
    found = Run()
    for error in unusable:
        found.reject(error)
    progress = Progress(len(inputs))

    def on_done(_: int, item: Item, checked: Checked) -> None:
        progress.input_done(item.path, checked.reports)

    with _terminable() as ended:
        interrupted = check_all(found, inputs, wanted, jobs, on_done, dask)
    progress.over()
    if not interrupted:
        _reject_unmatched(found, kernel, facts)
    paths = {} if witness_dir is None else dict(_write_witnesses(found, Path(witness_dir)))
    compared = baseline.compared(known, found.reports, source_lines)
    if not interrupted:
        if certificate is not None:
            _write_certificate(found, [i.path for i in inputs], facts, values, Path(certificate))
        if write_baseline is not None and found.errors:
            say(f"{write_baseline} is not written: not all inputs could be checked (see the errors above)")
        elif write_baseline is not None:
            write(Path(write_baseline), baseline.written(found.reports, source_lines).encode())
        for entry in compared.stale:
            say(f"stale in {baseline_}: {entry.file}: {entry.kernel}: {entry.rule} is gone (write it again)")
    kernels = tuple(shown(r, chosen, hidden) for r in found.reports)
    report = Report(Policy(policy), kernels, paths, tuple(found.errors))
    rendered = _render(report, outputs, color, drawn=drawn)
    if counted:
        say(statistics(report, found.inputs, found.stored))
    if interrupted:
        return TERMINATED if ended else INTERRUPTED
    if write_baseline is not None and not report.errors:
        return 0
    ends = status(report, Counting(on_unknown, Severity(fail_on), compared, asks))
    return _remembered(ctx, inputs, found, rendered, ends)


def _remembered(
    ctx: click.Context,
    inputs: Sequence[Item],
    found: Run,
    rendered: Sequence[tuple[str | None, str]],
    ends: int,
) -> int:
    """The status of the run, whose output is kept for this command line: if reports are all that the run
    made, each in a file of its own or on stdout, and no clock decided it."""
    given = ctx.params
    files = given["files"] or (ctx.default_map or {}).get("files", ())
    besides = any(given[name] for name in _BESIDES) or given["files_are"] == "changed" or found.errors
    printed = "".join(text for file, text in rendered if file in (None, STDIN))
    reports = {file: text.encode("utf-8", "replace") for file, text in rendered if file not in (None, STDIN)}
    ordinary = all(Path(file).is_file() for file in reports)
    if rendered and ordinary and not besides and stored_reports.kept(found.reports):
        with suppress(OSError):
            paths = dependencies(inputs, files, given["include"], (given["launch"], ctx.meta.get(_CONFIG)))
            if paths is not None:
                repeated.keep(printed, ends, paths, reports)
    return ends


def _reject_unmatched(found: Run, kernel: str | None, facts: LaunchFacts | None) -> None:
    """An error if a kernel that was asked for, or that the launch file names, was not found."""
    if kernel is not None and found.names and not (found.reports or found.errors):
        found.reject(options.no_kernel(kernel, found.names))
    if facts is not None and not found.errors:
        for error in of_no_kernel(facts, found.names):
            found.reject(error)


def _render(
    report: Report, outputs: Sequence[tuple[str, str | None]], color: str, *, drawn: bool
) -> list[tuple[str | None, str]]:
    """Writes the report in each format to its place; raises the first error once all others are written.

    Returns what went to which file, None for stdout; nothing where a step's summary may have more.
    """
    failed: list[InputError] = []
    rendered: list[tuple[str | None, str]] = []
    for form, file in outputs:
        if report.kernels or form != "text":
            try:
                text = _renderer(form, file, color, drawn=drawn)(report)
                emit(text, file)
                rendered.append((file, text))
            except InputError as e:
                failed.append(e)
            if form == "github":
                _summarize(report)
    if failed:
        raise failed[0]
    return [] if any(form == "github" for form, _ in outputs) else rendered


def _outputs(given: Sequence[str], format_: str) -> list[tuple[str, str | None]]:
    """Formats and where each goes: ``--format`` to the plain ``-o``, else to stdout."""
    plain: list[str] = []
    formatted: list[tuple[str, str | None]] = []
    for one in given:
        form, colon, file = one.partition(":")
        if colon and form in ("text", *FORMATS):
            if not file:
                raise InputError(f"-o {one}: name a file after the colon")
            formatted.append((form, file))
        elif colon and len(form) > 1 and form.isalpha():
            close = get_close_matches(form, ("text", *FORMATS), 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise InputError(f"-o {one}: no format {form!r}{hint} (known: {', '.join(('text', *FORMATS))})")
        else:
            plain.append(one)
    if len(plain) > 1:
        raise InputError(f"-o is given twice without a format: write FORMAT:FILE ({', '.join(plain)})")
    if any(file == STDIN for _, file in formatted):
        return formatted  # stdout is taken
    return [(format_, plain[0] if plain else None), *formatted]


def _keep(
    inputs: Sequence[Item],
    outputs: Sequence[tuple[str, str | None]],
    certificate: str | None,
    written: str | None,
) -> None:
    """InputError if something would be written over an input, or twice."""
    named: dict[str, str | None] = {}
    for form, file in outputs:
        named["-o" if "-o" not in named else f"-o {form}:{file}"] = None if file == STDIN else file
    named |= {"--certificate": certificate, "--write-baseline": written}
    keep_inputs([i.path for i in inputs if i.data is None], named)


def _summarize(report: Report) -> None:
    """Adds the run to the summary of a GitHub step, where there is one."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    from syncverify.report import markdown

    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(markdown.render(report))
    except OSError as e:
        say(f"warning: {summary}: the step's summary cannot be written: {e.strerror}")


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """SIGTERM ends the check as Ctrl-C does; the block's list is not empty then."""
    ended: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    try:
        before: Any = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        yield ended
        return
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)


def _write_witnesses(found: Run, directory: Path) -> Iterator[tuple[int, str]]:
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
    found: Run, files: Sequence[str], facts: LaunchFacts | None, values: Mapping[str, int], path: Path
) -> None:
    """Writes the proofs of all kernels of one file that were proved; none are written of none, or if they
    do not hold once they are followed."""
    from syncverify.driver.certificates import RejectedError
    from syncverify.driver.certificates import dumps as written
    from syncverify.driver.files import certificates, read_source, recheck

    if found.errors:
        say(f"{path} is not written: not all inputs could be checked (see the errors above)")
        return
    if len(files) != 1 or Path(files[0]).suffix not in (".syncir", ".ptx"):
        found.reject(InputError("--certificate: one .syncir or .ptx file has one"))
        return
    try:
        own = facts_for(files[0]) if facts is None else facts
        source = read_source(files[0])
        proofs = certificates(source, own, values, found.reports)
        if not proofs:
            say(f"{path} is not written: no kernel is proved")
            return
        text = written(proofs)
        recheck(text, str(path), source, own)
        write(path, text.encode())
    except RejectedError as e:
        found.reject(InputError(f"{path} is not written: the certificate is rejected: {e}"))
    except InputError as e:
        found.reject(e)


#: The width of a drawing where the text has none.
_DRAWN = 120


def _renderer(form: str, file: str | None, color: str, *, drawn: bool) -> Callable[[Report], str]:
    if form == "text":
        paint = colored if use_color(file, color) else plain
        width = text_width(file)
        draw_width = (width or _DRAWN) if drawn else 0
        return lambda report: render_text(report, paint, draw_width, width)
    render: Callable[[Report], str] = import_module(f"syncverify.report.{form}").render
    return render
