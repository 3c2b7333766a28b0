"""Entry point: the commands, and the one place where errors become messages and exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from syncverify.cli.common import Exit, complain, complain_bug
from syncverify.source import InputError

#: Command name -> its module and object; loaded when used, so that each command starts fast.
_COMMANDS = {
    "check": ("syncverify.cli.check", "check"),
    "compile": ("syncverify.cli.compile", "compile_command"),
    "run": ("syncverify.cli.compile", "run_command"),
    "explain": ("syncverify.cli.explain", "explain"),
    "replay": ("syncverify.cli.replay", "replay"),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 all proved; 1 something refuted; 2 bad usage or input; 3 something unknown.",
)
@click.version_option(package_name="syncverify")
def cli() -> None:
    """Proves or refutes the asynchronous synchronization of NVIDIA Hopper kernels."""


def run(args: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit status; never raises."""
    try:
        status = cli.main(args=args, prog_name="syncverify", standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except click.ClickException as e:
        e.show()
        return Exit.BAD_INPUT
    except InputError as e:
        complain(e)
        return Exit.BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of stdout left (head, less): nothing more to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as e:
        complain_bug(e)
        return Exit.BAD_INPUT


def main() -> None:
    """The ``syncverify`` command."""
    sys.exit(run())
