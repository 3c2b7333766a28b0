"""``syncverify recheck``: validate a certificate against the text of its kernels."""

from __future__ import annotations

import click

from syncverify.base.certificate_data import RejectedError
from syncverify.base.diagnostics import ScopeKind
from syncverify.base.source import decode, read_bytes
from syncverify.cli import options
from syncverify.cli.common import Exit
from syncverify.driver.files import has_certificates, read_source
from syncverify.driver.files import recheck as validate
from syncverify.driver.rechecked import Rechecked
from syncverify.frontends.launch_facts import facts_for

_RELIED = "the parser, the model and the execution of its agents"
_CHECKER = ", the obligations of the checker"
_FURTHER = {
    "exact": "docs/theory.md (one run decides)",
    "sizes": "docs/symbolic.md (graphs of decisions; arithmetic of paths)",
    "stages": "docs/stages.md and z3 (stages); docs/symbolic.md (the other sizes)",
    "each": "docs/symbolic.md (graphs of decisions; arithmetic of paths)",
    "few": "docs/theory.md (one run decides); which launches differ (docs/symbolic.md)",
    "protocol": "docs/kernel.md (the rings); docs/symbolic.md (fragments, places in global memory)",
    "induction": "docs/kernel.md; no search was loaded",
    "ptx": "what the check assumes of the launch; docs/theory.md (one run decides), docs/symbolic.md (sizes)",
}

#: Why no certificate of strict mode counts as judged; to take it from ``driver.acceptance`` loads the search.
_STRICT = "strict mode, in which what a proof assumes is not settled"


@click.command(
    epilog="Exit status: 0 the kernel accepts it; 1 it is rejected; 2 bad usage or input;"
    " 3 it holds as far as it was followed, but the kernel does not judge it."
)
@click.argument("certificate", metavar="FILE")
@click.argument("kernel", metavar="KERNEL")
@options.launch
def recheck(certificate: str, kernel: str, launch: str | None) -> int:
    """Validate a certificate that `check --certificate` wrote against the kernels of a .syncir or .ptx file.

    Events are derived from the kernel again and every step of the proof is replayed; nothing is searched.
    """
    text = decode(read_bytes(certificate), certificate)
    has_certificates(kernel)
    source = read_source(kernel)
    facts = facts_for(kernel, launch)
    try:
        done = validate(text, certificate, source, facts)
    except RejectedError as e:
        click.echo(f"rejected: {certificate}: {e}")
        return Exit.REFUTED
    for r in done:
        click.echo(_summary(r))
    return Exit.OK if all(r.judged for r in done) else Exit.UNKNOWN


def _summary(r: Rechecked) -> str:
    values = ", ".join(f"{k} = {v}" for k, v in r.values.items())
    scope = {
        ScopeKind.ALL: "every size",
        ScopeKind.PARTIAL: f"every size with {values}",
        ScopeKind.EXACT: values,
    }[r.scope]
    met = ", ".join(f"{n} {what}" for what, n in r.met.counts.items())
    followed = f" (followed: {met})" if met else ""
    assumed = "".join(f"\n  assumed: {text}" for text in r.assumptions)
    head = f"{r.kernel}: holds for {scope}, {r.policy}{followed}{assumed}"
    if r.judged:
        return f"{head}\n  accepted by the kernel; relies on {_RELIED}; {_FURTHER[r.kind]}"
    why = "; ".join(dict.fromkeys(r.met.reasons)) or _STRICT
    many = f" ({len(r.met.reasons)} systems)" if r.met.reasons else ""
    not_judged = f"  not judged by the kernel{many}: {why}"
    return f"{head}\n{not_judged}\n  relies on {_RELIED}{_CHECKER}; {_FURTHER[r.kind]}"
