"""``syncverify synthesize``: kernels without synchronization in, proved kernels out."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.cli import options
from syncverify.cli.common import Exit, emit, keep_inputs
from syncverify.driver.files import read_ir
from syncverify.ir.nodes import Kernel


@click.command(epilog="Exit status: 0 all proved; 1 refuted; 2 bad usage or input; 3 unknown.")
@click.argument("file", metavar="FILE.syncir")
@options.kernel
@options.policy
@click.option(
    "--arrive",
    type=click.Choice(["warp", "thread"]),
    default="warp",
    show_default=True,
    help="Who arrives where threads hand over: one lane of each warp, or every thread.",
)
@click.option("--reuse", is_flag=True, help="Buffers that never live at once may lie in the same place.")
@click.option("--serial", is_flag=True, help="Blocks that add to one tensor do so in turn.")
@click.option("--dependent", is_flag=True, help="The kernel starts while the one before it still runs.")
@options.print_after
@click.option("-o", "--output", metavar="FILE", help="Write the kernels there instead of stdout.")
def synthesize(
    file: str,
    kernel: str | None,
    policy: str,
    arrive: str,
    reuse: bool,
    serial: bool,
    dependent: bool,
    passes: tuple[str, ...],
    output: str | None,
) -> int:
    """Insert all synchronization into kernels that have none, and check the result for every size.

    A kernel is written as if copies were instantaneous and each statement were done by all its threads before
    the next one starts (docs/passes.md). What is not proved is not written.
    """
    from syncverify.driver.ir import check_kernel
    from syncverify.ir.text.printer import print_kernel, print_kernels
    from syncverify.passes.synthesize import Options
    from syncverify.passes.synthesize import synthesize as insert

    keep_inputs([file], {"-o": output})
    source = read_ir(file, "synthesize")
    seen: set[str] = set()

    def observe(name: str, k: Kernel) -> None:
        seen.add(name)
        if name in passes:
            click.echo(f"// after {name}\n{print_kernel(k)}", err=True)

    how = Options("thread" if arrive == "thread" else "warp", reuse, serial, dependent)
    built: list[Kernel] = []
    reports: list[KernelReport] = []
    for k in source.kernels:
        if kernel is None or fnmatchcase(k.name, kernel):
            built.append(insert(k, Policy(policy), how, observe))
            reports.append(check_kernel(built[-1], policy=Policy(policy), file=file, scope=ScopeKind.ALL))
    if not built:
        raise options.no_kernel(kernel, source.names)
    for name in passes:
        if name not in seen:
            raise options.no_pass(name, sorted(seen))
    verdicts = {r.verdict for r in reports}
    if verdicts == {Verdict.PROVED}:
        emit(print_kernels(built), output)
        return Exit.OK
    _refuse(reports)
    return Exit.REFUTED if Verdict.REFUTED in verdicts else Exit.UNKNOWN


def _refuse(reports: list[KernelReport]) -> None:
    from syncverify.report.base import Report
    from syncverify.report.text import render

    click.echo(render(Report(reports[0].policy, tuple(reports))), nl=False, err=True)
    click.echo("error: not everything is proved, so nothing was written", err=True)
