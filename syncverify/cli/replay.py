"""``syncverify replay``: step a witness through the simulator."""

from __future__ import annotations

from pathlib import Path

import click

from syncverify.cli.common import Exit
from syncverify.diagnostics import Witness
from syncverify.files import read_bytes, read_source
from syncverify.ir.nodes import Kernel
from syncverify.launch import relaunch
from syncverify.report.text import steps_table
from syncverify.report.witness import loads
from syncverify.simulate import replay as simulate_replay
from syncverify.source import InputError, Span


@click.command(epilog="Exit status: 0 the claim is reproduced; 1 it is not; 2 malformed or stale input.")
@click.argument("witness_file", metavar="WITNESS.json")
@click.option("--kernel-file", metavar="FILE", help="The kernel's file, if it has moved since the check.")
@click.option("--quiet", is_flag=True, help="Print the conclusion only, not the steps.")
def replay(witness_file: str, kernel_file: str | None, quiet: bool) -> int:
    """Step a counterexample through the simulator, which knows nothing of the checker."""
    data = read_bytes(Path(witness_file))
    witness = loads(data.decode("utf-8", "replace"), witness_file)
    kernel = witnessed_kernel(witness, kernel_file, witness_file)
    result = simulate_replay(witness, kernel)
    if not quiet:
        for line in steps_table(result.trace):
            click.echo(line)
    said = "reproduced" if result.reproduced else "NOT reproduced"
    click.echo(f"{witness.kernel}: {witness.claim} {said}: {result.reason}")
    return Exit.OK if result.reproduced else Exit.REFUTED


def witnessed_kernel(witness: Witness, kernel_file: str | None, witness_file: str) -> Kernel:
    """The kernel of a witness as it was launched; InputError if its text has changed since."""
    path = kernel_file or witness.file
    if not path:
        raise InputError("the witness names no file: give --kernel-file", Span(witness_file))
    source = read_source(path)
    if source.hash != witness.source_hash:
        raise InputError(
            f"{path} has changed since the witness was written (hash {source.hash[:12]}, the witness has "
            f"{witness.source_hash[:12]}): check it again",
            Span(witness_file),
        )
    for kernel in source.kernels:
        if kernel.name == witness.kernel:
            return relaunch(kernel, witness.grid, witness.registers)
    if source.module is not None:
        raise InputError(
            "only kernels of the IR can be stepped through; this witness's steps are for reading",
            Span(witness_file),
        )
    raise InputError(f"{path} has no kernel {witness.kernel}", Span(witness_file))
