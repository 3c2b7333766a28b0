"""What the commands share: exit statuses, messages, ``NAME=VALUE`` options and output."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

import click

from syncverify.source import InputError, Span


class Exit(IntEnum):
    """Exit statuses; where several apply BAD_INPUT wins, then REFUTED, then UNKNOWN."""

    OK = 0
    REFUTED = 1
    BAD_INPUT = 2
    UNKNOWN = 3


def complain(error: InputError) -> None:
    """One message on stderr for input nobody can use."""
    click.echo(f"error: {error}", err=True)


def complain_bug(error: Exception, where: str = "") -> None:
    """One message on stderr for a fault of the tool itself."""
    at = f"{where}: " if where else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(f"error: {at}internal error, a bug in syncverify, not in your input: {text}", err=True)
    if os.environ.get("SYNCVERIFY_TRACEBACK"):
        traceback.print_exception(error)
    else:
        click.echo("set SYNCVERIFY_TRACEBACK=1 to see where", err=True)


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


def emit(text: str, output: str | None) -> None:
    """Writes a result to a file, or to stdout without one."""
    if output is None:
        click.echo(text, nl=False)
        return
    write(Path(output), text.encode())


def write_bytes(data: bytes, output: str | None) -> None:
    """Writes binary data to a file, or to stdout if that is no terminal."""
    if output is not None:
        write(Path(output), data)
        return
    if sys.stdout.isatty():
        raise InputError("binary output: name a file with -o")
    sys.stdout.buffer.write(data)


def write(path: Path, data: bytes) -> None:
    """Writes a file, making its directory; InputError with the system's reason when it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as e:
        raise InputError(f"cannot write: {e.strerror or e}", Span(str(path))) from e


def use_color(output: str | None) -> bool:
    """Colours go to a terminal only, and NO_COLOR turns them off (no-color.org)."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
