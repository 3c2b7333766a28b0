"""Entry point: the commands, and the one place where errors become messages and exit statuses."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

import click

from syncverify import __version__
from syncverify.base.gc_pause import SELDOM
from syncverify.base.source import InputError
from syncverify.cli.common import INTERRUPTED, Exit, bug, complain

#: Command name -> its module, its object and its line in the help; loaded when used, to start fast.
_COMMANDS = {
    "check": ("check", "check", "Verify kernels: proved, refuted with a counterexample, or unknown."),
    "compile": ("compile", "compile_command", "Compile a fusion; only a proved kernel comes out."),
    "run": ("compile", "run_command", "Compile, verify and execute a fusion; compare with its reference."),
    "explain": ("explain", "explain", "Explain a rule: what, why, bad, good, fix."),
    "minimize": ("minimize", "minimize", "Which synchronization of proved kernels can go."),
    "synthesize": ("synthesize", "synthesize", "Insert all synchronization into kernels without any."),
    "recheck": ("recheck", "recheck", "Validate a certificate against its kernel, without the search."),
    "record": ("record", "record", "Run a Python program on a GPU; write what it launches, for check."),
    "watch": ("watch", "watch", "Run a program; check the kernels that compilers make in it."),
    "lsp": ("lsp", "lsp", "Show findings in an editor: a language server."),
    "replay": ("replay", "replay", "Step a counterexample through the simulator."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, _, help_) in _COMMANDS.items()])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[name]
        command = getattr(import_module(f"syncverify.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 all proved; 1 something refuted; 2 bad usage or input; 3 something unknown.",
)
@click.version_option(__version__, prog_name="syncverify")
def cli() -> None:
    """Proves or refutes the asynchronous synchronization of NVIDIA Hopper kernels."""


def run(args: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit status; never raises."""
    try:
        status = cli.main(args=args, prog_name="syncverify", standalone_mode=False)
        _flush()
        return int(status or 0)
    except click.ClickException as e:
        e.show()
        return Exit.BAD_INPUT
    except InputError as e:
        complain(e)
        return Exit.BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout left (head, less): nothing more to say.
        _drop_stdout()
        return 141
    except Exception as e:
        complain(bug(e))
        return Exit.BAD_INPUT


def _flush() -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        _drop_stdout()
        raise InputError(f"cannot write to stdout: {e.strerror or e}") from e


def _drop_stdout() -> None:
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    """Leaves nothing to flush at exit: Python would end with a status of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_streams() -> None:
    """No file that is opened later may take the number of a standard stream that the caller closed."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # names and comments of any language


def _start_fast() -> None:
    """A process that only checks needs no threads for linear algebra, and seldom a search for cycles."""
    gc.set_threshold(SELDOM)
    if sys.argv[1:2] != ["run"]:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded


def main() -> None:
    """The ``syncverify`` command."""
    _open_streams()
    _start_fast()
    status = run()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            _drop(stream)
    sys.exit(status)
