"""``syncverify minimize``: the synchronization that the checker does not need, and the kernel without it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import click

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.cli import options
from syncverify.cli.common import Exit, emit, integers, keep_inputs, write
from syncverify.driver.files import SourceFile, read_ir, read_source
from syncverify.frontends.launch_facts import LaunchFacts, facts_for


@click.command(epilog="Exit status: 0 all proved; 1 refuted; 2 bad usage or input; 3 unknown.")
@click.argument("file", metavar="FILE")
@options.launch
@options.params
@options.kernel
@options.policy
@click.option("--exact", is_flag=True, help="Judge for given or default values, not for every size.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report there instead of stdout.")
@click.option("--write", "written", metavar="OUT", help="Write the kernels without what can go (.syncir).")
def minimize(
    file: str,
    launch: str | None,
    params: tuple[str, ...],
    kernel: str | None,
    policy: str,
    exact: bool,
    format_: str,
    output: str | None,
    written: str | None,
) -> int:
    """Report which syncs, fences, arrivals and waits of proved kernels the checker does not need.

    Each is left out in turn and the rest is checked again, in a .syncir file for every size, in a .ptx or .cu
    file for the values given. A kernel that is not proved is left as it is.
    """
    keep_inputs([file], {"-o": output, "--write": written})
    source = read_source(file) if written is None else read_ir(file, "--write")
    facts = facts_for(file, launch)
    values = integers(params, "--param")
    if source.module is not None:
        return _events(source, facts, values, kernel, Policy(policy), format_, output)
    return _kernels(source, facts, values, kernel, Policy(policy), exact, format_, output, written)


def _kernels(
    source: SourceFile,
    facts: LaunchFacts,
    values: dict[str, int],
    wanted: str | None,
    policy: Policy,
    exact: bool,
    format_: str,
    output: str | None,
    written: str | None,
) -> int:
    from syncverify import minimize as m
    from syncverify.ir.text.printer import print_kernels
    from syncverify.minimize.report import as_json, text

    found: list[m.Minimized] = []
    for k in source.kernels:
        if wanted is None or fnmatchcase(k.name, wanted):
            launched, given = facts.apply(k)
            scope = ScopeKind.EXACT if exact else ScopeKind.ALL
            found.append(m.minimize(launched, given | values, policy, scope))
    _check_selected(found, wanted, source)
    emit(text(found) if format_ == "text" else as_json(found, policy), output)
    if written is not None:
        write(Path(written), print_kernels(x.kernel for x in found).encode())
    return _status([x.report for x in found])


def _events(
    source: SourceFile,
    facts: LaunchFacts,
    values: dict[str, int],
    wanted: str | None,
    policy: Policy,
    format_: str,
    output: str | None,
) -> int:
    from syncverify.minimize.ptx import as_json, minimize_module, text

    found = minimize_module(source, facts, values, wanted, policy)
    _check_selected(found, wanted, source)
    emit(text(found) if format_ == "text" else as_json(found, policy), output)
    return _status([x.report for x in found])


def _check_selected(found: object, wanted: str | None, source: SourceFile) -> None:
    if wanted is not None and not found:
        raise options.no_kernel(wanted, source.names)


def _status(reports: list[KernelReport]) -> int:
    verdicts = {r.verdict for r in reports}
    if Verdict.REFUTED in verdicts:
        return Exit.REFUTED
    return Exit.UNKNOWN if Verdict.UNKNOWN in verdicts else Exit.OK
