"""What the commands share: exit statuses, messages, ``NAME=VALUE`` options and output."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

import click

from syncverify.base.source import UNKNOWN_SPAN, InputError, Span

#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED = 130
#: And after SIGTERM.
TERMINATED = 143


class Exit(IntEnum):
    """Exit statuses; where several apply BAD_INPUT wins, then REFUTED, then UNKNOWN."""

    OK = 0
    REFUTED = 1
    BAD_INPUT = 2
    UNKNOWN = 3


def complain(error: InputError) -> None:
    """One message on stderr for input nobody can use."""
    say("\n".join([f"error: {error}", *getattr(error, "__notes__", ())]))


def say(message: str) -> None:
    """A message on stderr; one that cannot be written must not change the exit status."""
    with suppress(OSError):
        click.echo(message, err=True)


def bug(error: Exception, where: str = "") -> InputError:
    """What is said of a fault of the tool itself, with the place in the tool if that is asked for."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    said = InputError(
        f"internal error, a bug in syncverify, not in your input: {text}",
        Span(where) if where else UNKNOWN_SPAN,
    )
    if os.environ.get("SYNCVERIFY_TRACEBACK"):
        import traceback  # only a fault needs it

        said.add_note("".join(traceback.format_exception(error)).rstrip())
    else:
        said.add_note("set SYNCVERIFY_TRACEBACK=1 to see where")
    return said


def assignments(items: Iterable[str], option: str) -> dict[str, str]:
    """``NAME=VALUE`` items as a dictionary; InputError for anything else or a name given twice."""
    given: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        name, value = name.strip(), value.strip()
        if not name or not equals or not value:
            raise InputError(f"{option} {item!r}: write NAME=VALUE")
        if name in given:
            raise InputError(f"{option}: {name} is given twice")
        given[name] = value
    return given


def integers(items: Iterable[str], option: str) -> dict[str, int]:
    """``NAME=INTEGER`` items; underscores and a ``0x`` prefix are allowed."""
    given: dict[str, int] = {}
    for name, value in assignments(items, option).items():
        try:
            given[name] = int(value, 0)
        except ValueError as e:
            raise InputError(f"{option} {name}={value}: not an integer") from e
    return given


#: What ``-o`` calls stdout.
STDOUT = "-"


def emit(text: str, output: str | None) -> None:
    """Writes a result to a file, or to stdout without one. What no file takes is not lost: stdout gets it."""
    if output is None or output == STDOUT:
        _to_stdout(text)
        return
    try:
        write(Path(output), text.encode("utf-8", "replace"))
    except InputError:
        _to_stdout(text)
        raise


def _to_stdout(text: str) -> None:
    if sys.stdout is None:
        raise InputError("cannot write: stdout is closed")
    try:
        click.echo(text, nl=False, color=True)  # whether it has colours is decided by ``use_color``
    except BrokenPipeError:
        raise
    except OSError as e:
        raise InputError(f"cannot write to stdout: {e.strerror or e}") from e


def write_bytes(data: bytes, output: str | None) -> None:
    """Writes binary data to a file, or to stdout if that is no terminal."""
    if output is not None and output != STDOUT:
        write(Path(output), data)
        return
    if sys.stdout is None or sys.stdout.isatty():
        raise InputError("binary output: name a file with -o")
    sys.stdout.buffer.write(data)


def keep_inputs(inputs: Iterable[str], outputs: Mapping[str, str | None]) -> None:
    """InputError if an option names one of the inputs as the file to write, or the file of another option."""
    taken = {os.path.realpath(path): "is an input" for path in inputs}
    for option, path in outputs.items():
        if path is None or Path(path).is_char_device():
            continue
        real = os.path.realpath(path)
        if real in taken:
            raise InputError(f"{option} would overwrite it: it {taken[real]}", Span(path))
        taken[real] = f"is the file of {option}"


def write(path: Path, data: bytes) -> None:
    """Writes a file, making its directory; InputError with the system's reason when it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as e:
        raise InputError(f"cannot write: {e.strerror or e}", Span(str(path))) from e


def use_color(output: str | None, when: str = "auto") -> bool:
    """Whether a report is coloured: always, never, or by itself on a terminal only.

    Then FORCE_COLOR turns colours on, and NO_COLOR off (force-color.org, no-color.org), whatever their value.
    """
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR") or output is not None or sys.stdout is None:
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def text_width(output: str | None) -> int:
    """The characters of a line of a report: those of the terminal, or COLUMNS; 0: lines are not broken.

    A pipe or a file gets whole lines, for other programs to search, unless COLUMNS is set for the pipe.
    """
    if output is not None or sys.stdout is None:
        return 0
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal():
        return int(asked)
    return shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0
