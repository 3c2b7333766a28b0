"""``syncverify watch``: run a program, catch the kernels that compilers make in it, and check them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

import syncverify.watch
from syncverify.base.source import InputError
from syncverify.cli.check import check
from syncverify.cli.common import Exit, say
from syncverify.watch.compilers import COMPILERS
from syncverify.watch.options import cuda_options

_CHILD = Path(syncverify.watch.__file__).parent / "child"


class _Split(click.Command):
    """What stands before the first ``--`` are options; what follows is the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else None
        if at is None and not any(a in ctx.help_option_names for a in args[:1]):
            args, at = ["--", *args], 0
        ctx.obj = args[at + 1 :] if at is not None else []
        return super().parse_args(ctx, args[:at])


@click.command(
    cls=_Split,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS] -- PROGRAM [ARGS]...",
    epilog="Exit status: that of check; that of the program where all is proved or nothing was compiled.",
)
@click.option("--keep", metavar="DIR", help="Leave the kernels and their launch files there.")
@click.option(
    "--compiler", "compilers", multiple=True, type=click.Choice(list(COMPILERS)),
    help="Only kernels of this compiler. Repeatable.",
)  # fmt: skip
@click.option("--raise", "raises", is_flag=True, help="Let the program fail at a kernel that is refuted.")
@click.option("--no-gpu", is_flag=True, help="Let Triton compile without a GPU; launches then do nothing.")
@click.argument("check_options", metavar="", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def watch(
    program: list[str], keep: str | None, compilers: tuple[str, ...], raises: bool, no_gpu: bool,
    check_options: tuple[str, ...],
) -> int:  # fmt: skip
    """Run a program and check every kernel that Triton (torch.compile's too), the CuTe DSL, TileLang or NVRTC
    (cuda-python, CuPy) compiles in it or in the processes that it starts.

    No GPU and no launch file are needed. Other options are those of check: --format, -o, -j, --policy.
    """
    if not program:
        raise click.UsageError("name the program: syncverify watch -- python app.py")
    with TemporaryDirectory(prefix="syncverify-watch-") as made:
        folder = Path(keep or made)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(f"{folder}: cannot be written to: {e.strerror}") from None
        before = set(folder.iterdir())
        status = _run(program, _variables(os.environ, folder, compilers or tuple(COMPILERS), raises, no_gpu))
        files = _inputs(folder, before)
        if status:
            say(f"{program[0]} ended with status {status}")
        if not files:
            say("no kernel was compiled in it")
            return status or int(Exit.OK)
        found = check.main(args=[*check_options, *files], prog_name="syncverify check", standalone_mode=False)
        return int(found or 0) or status


def _variables(
    around: Mapping[str, str], folder: Path, compilers: Sequence[str], raises: bool, no_gpu: bool
) -> dict[str, str]:
    """The environment of the program: Python finds what begins to watch before anything else."""
    paths = [str(_CHILD), *filter(None, [around.get("PYTHONPATH")])]
    return {
        **around,
        "PYTHONPATH": os.pathsep.join(paths),
        "SYNCVERIFY_WATCH": ",".join(compilers),
        "SYNCVERIFY_WATCH_FOLDER": str(folder.resolve()),
        **({"SYNCVERIFY_WATCH_RAISE": "1"} if raises else {}),
        **({"SYNCVERIFY_WATCH_NO_GPU": "1"} if no_gpu else {}),
    }


def _run(program: Sequence[str], variables: Mapping[str, str]) -> int:
    """The status of the program; a ``.py`` file is run by this Python."""
    command = [sys.executable, *program] if program[0].endswith(".py") else list(program)
    try:
        status = subprocess.run(command, env=dict(variables), check=False).returncode
    except OSError as e:
        raise InputError(f"{command[0]}: cannot be run: {e.strerror or e}") from None
    return status if status >= 0 else 128 - status


def _inputs(folder: Path, before: set[Path]) -> list[str]:
    """What was caught, as files that ``check`` takes: CUDA sources with options of their own become PTX."""
    files: list[str] = []
    for path in sorted(p for p in folder.iterdir() if p not in before):
        if path.name.startswith(".") or path.suffix not in (".ptx", ".cu"):
            continue
        options = path.with_name(f"{path.name}.options")
        if not options.exists():
            files.append(str(path))
            continue
        from syncverify.frontends.cuda.to_ptx import compile_cuda

        try:
            text = compile_cuda(path, cuda_options(options.read_text("utf-8").splitlines()))
        except InputError as e:
            say(f"error: {e}")
            continue
        ptx = path.with_suffix(".ptx")
        ptx.write_text(text, "utf-8")
        facts = path.with_name(f"{path.name}.launch.toml")
        facts.replace(facts.with_name(f"{ptx.name}.launch.toml"))
        files.append(str(ptx))
    return files
