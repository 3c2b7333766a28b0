"""``syncverify recheck``: validate a certificate against the text of its kernels."""

from __future__ import annotations

from pathlib import Path

import click

from syncverify.base.diagnostics import ScopeKind
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.cli import options
from syncverify.cli.common import Exit
from syncverify.driver.certificates import Rechecked, RejectedError
from syncverify.driver.files import read_source
from syncverify.driver.files import recheck as validate
from syncverify.frontends.launch_facts import facts_for

_RELIED = "the parser, the model and the execution of its agents"
_CHECKER = ", the obligations of the checker"
_FURTHER = {
    "exact": "docs/theory.md (one run decides)",
    "sizes": "docs/symbolic.md (graphs of decisions; arithmetic of paths)",
    "stages": "docs/stages.md and z3 (stages); docs/symbolic.md (the other sizes)",
    "each": "docs/symbolic.md (graphs of decisions; arithmetic of paths)",
    "few": "docs/theory.md (one run decides); which launches differ (docs/symbolic.md)",
    "ptx": "what the check assumes of the launch; docs/theory.md (one run decides), docs/symbolic.md (sizes)",
}


@click.command(epilog="Exit status: 0 it holds; 1 it is rejected; 2 bad usage or input.")
@click.argument("certificate", metavar="FILE")
@click.argument("kernel", metavar="KERNEL")
@options.launch
def recheck(certificate: str, kernel: str, launch: str | None) -> int:
    """Validate a certificate that `check --certificate` wrote against the kernels of a .syncir or .ptx file.

    Events are derived from the kernel again and every step of the proof is replayed; nothing is searched.
    """
    text = decode(read_bytes(certificate), certificate)
    if Path(kernel).suffix == ".cu":
        raise InputError("recheck takes .syncir and .ptx files only", Span(kernel))
    source = read_source(kernel)
    facts = facts_for(kernel, launch)
    try:
        done = validate(text, certificate, source, facts)
    except RejectedError as e:
        click.echo(f"rejected: {certificate}: {e}")
        return Exit.REFUTED
    for r in done:
        click.echo(_told(r))
    return Exit.OK


def _told(r: Rechecked) -> str:
    values = ", ".join(f"{k} = {v}" for k, v in r.values.items())
    scope = {
        ScopeKind.ALL: "every size",
        ScopeKind.PARTIAL: f"every size with {values}",
        ScopeKind.EXACT: values,
    }[r.scope]
    met = ", ".join(f"{n} {what}" for what, n in r.met.items())
    followed = f" (followed: {met})" if met else ""
    apart = "by the checker" not in r.met
    relied = _RELIED + ("" if apart else _CHECKER)
    return f"{r.kernel}: holds for {scope}, {r.policy}{followed}\n  relies on {relied}; {_FURTHER[r.kind]}"
