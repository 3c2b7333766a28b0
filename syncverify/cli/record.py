"""``syncverify record``: what a program launches, as inputs of ``check``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from syncverify.base.kernel_names import base_name
from syncverify.base.source import InputError
from syncverify.cli.common import say
from syncverify.record.ptx_files import PtxFiles, usual_folders
from syncverify.record.recording import record as record_program
from syncverify.record.recording import write

#: Kernels that are left out are named up to this many.
MOST_NAMED = 20


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Exit status: that of the program; 2 where nothing can be recorded.",
)
@click.option("-o", "--output", metavar="DIR", default="kernels", show_default=True, help="Where to write.")
@click.option(
    "--kernel", "kernels", multiple=True, metavar="NAME", help="Only kernels of this name (* and ? match)."
)
@click.option("--ptx", "folders", multiple=True, metavar="DIR", help="Where else PTX of the kernels lies.")
@click.option(
    "--most", type=click.IntRange(1), default=4, show_default=True, help="Launches of one kernel to keep."
)
@click.option(
    "--open", "open_", is_flag=True, help="Leave out sizes that differ between launches of a kernel."
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module.")
@click.argument("program", metavar="PROGRAM")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
def record(
    output: str, kernels: tuple[str, ...], folders: tuple[str, ...], most: int, open_: bool, as_module: bool,
    program: str, arguments: tuple[str, ...],
) -> int:  # fmt: skip
    """Run a Python program on a GPU and write its kernels' PTX and launch files, for check.

    Kernels whose PTX is not found (in the code itself, in the caches of Triton and torch.compile, or where
    --ptx says) are named and left out.
    """
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"{output}: cannot be written to: {e.strerror}") from None
    journal, status, wrong = record_program(program, arguments, as_module=as_module)
    files = PtxFiles([*map(Path, folders), *usual_folders(os.environ)])
    said = " ".join(["recorded by `syncverify record`:", *(["-m"] if as_module else []), program, *arguments])
    done = write(journal, Path(output), files, kernels, most, said, open_)
    say(f"{sum(journal.launches.values())} launches; {len(done.files)} written to {output}")
    for kernel, why in done.left[:MOST_NAMED]:
        say(f"  left out: {base_name(kernel) or kernel}: {why}")
    if len(done.left) > MOST_NAMED:
        say(f"  and {len(done.left) - MOST_NAMED} more")
    if done.built_in:
        say(f"  left out: {done.built_in} kernels that libraries bring compiled, without PTX")
    for text in sorted(set(wrong)):
        say(f"  not understood: {text}")
    return status
