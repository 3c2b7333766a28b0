"""``syncverify replay``: step a witness through the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from syncverify.base.diagnostics import Step, Witness
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.cli import options
from syncverify.cli.common import Exit
from syncverify.driver.files import SourceFile, read_source
from syncverify.frontends.launch_facts import NO_FACTS, facts_for
from syncverify.ir.nodes import Kernel
from syncverify.ptx_replay.replayed import replayed, unchanged, witnessed
from syncverify.report.text import steps_table
from syncverify.report.witness import loads

if TYPE_CHECKING:
    from syncverify.frontends.cuda.options import CudaOptions

#: How the step at which an asynchronous operation is done begins.
COMPLETION = "completion of "


@click.command(epilog="Exit status: 0 the claim is reproduced; 1 it is not; 2 malformed or stale input.")
@click.argument("witness_file", metavar="WITNESS.json")
@click.option("--kernel-file", metavar="FILE", help="The kernel's file, if it has moved since the check.")
@options.launch
@click.option("--quiet", is_flag=True, help="Print the conclusion only, not the steps.")
@options.cuda
def replay(
    witness_file: str,
    kernel_file: str | None,
    launch: str | None,
    quiet: bool,
    include: tuple[str, ...],
    define: tuple[str, ...],
    std: str,
    prelude: str | None,
) -> int:
    """Step a counterexample through the simulator, which knows nothing of the checker.

    A PTX or CUDA kernel is unrolled for the witness's launch first.
    """
    witness = loads(decode(read_bytes(witness_file), witness_file), witness_file)
    path = kernel_file or witness.file
    source = _source(path, witness_file, options.cuda_options([path], include, define, std, prelude))
    facts = NO_FACTS if source.module is None else facts_for(source.path, launch)
    result = replayed(source, witness, facts, witness_file)
    ours = source.module is None
    texts = {s.span.line: s.op.removeprefix(COMPLETION) for s in witness.steps} if ours else {}
    if not quiet:
        for line in steps_table([_said(s, texts) for s in result.trace]):
            click.echo(line)
    said = "reproduced" if result.reproduced else "NOT reproduced"
    click.echo(f"{witness.kernel}: {witness.claim} {said}: {result.reason}")
    return Exit.OK if result.reproduced else Exit.REFUTED


def _said(step: Step, texts: Mapping[int, str]) -> Step:
    """A step of the simulator with the statement of its line as the witness has it."""
    start = COMPLETION if step.op.startswith(COMPLETION) else ""
    text = texts.get(step.span.line)
    return step if text is None else replace(step, op=start + text)


def witnessed_kernel(witness: Witness, kernel_file: str | None, witness_file: str) -> Kernel:
    """The kernel of a witness as it was launched; InputError if its text has changed since."""
    source = _source(kernel_file or witness.file, witness_file, None)
    unchanged(source, witness, witness_file)
    return witnessed(source, witness)


def _source(path: str, witness_file: str, cuda: CudaOptions | None) -> SourceFile:
    if not path:
        raise InputError("the witness names no file: give --kernel-file", Span(witness_file))
    return read_source(path, cuda)
