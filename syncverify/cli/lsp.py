"""``syncverify lsp``: the language server, on standard input and output."""

from __future__ import annotations

import click

from syncverify.base.deadline import CHECK_SECONDS
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.cli import options


@click.command(epilog="Exit status: 0; 2 where the extra 'lsp' is not installed.")
@options.policy
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=min(CHECK_SECONDS, 60.0), show_default=True,
    help="Seconds for each kernel.",
)  # fmt: skip
def lsp(policy: str, timeout: float) -> int:
    """Show findings in an editor: a server of the Language Server Protocol on standard input and output.

    Files (.cu, .ptx, .syncir) are checked when they are opened and saved. Edits that were checked are offered
    as quick fixes.
    """
    try:
        from syncverify.lsp.server import server
    except ImportError as e:
        raise InputError(f"{e.name or e} is missing: pip install '.[lsp]' brings it") from None
    server(Policy(policy), timeout).start_io()
    return 0
