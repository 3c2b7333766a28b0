"""Texts, where things stand in them, and the one exception for input nobody can use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of source text; lines and columns count from 1, 0 means unknown."""

    file: str = "<unknown>"
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        if self.line == 0:
            return self.file
        if self.column == 0:
            return f"{self.file}:{self.line}"
        return f"{self.file}:{self.line}:{self.column}"


UNKNOWN_SPAN = Span()


class InputError(Exception):
    """Input that cannot be used: unreadable, malformed, or outside what the tool accepts.

    The command line prints it as one message and ends with status 2.
    ``message`` says what is wrong and what to do; ``span`` says where.
    """

    def __init__(self, message: str, span: Span = UNKNOWN_SPAN) -> None:
        super().__init__(message)
        self.message = message
        self.span = span

    def __str__(self) -> str:
        if self.span.line == 0 and self.span.file == "<unknown>":
            return self.message
        return f"{self.span}: {self.message}"


def of_author(trace: TracebackType | None) -> Span:
    """The newest line of a traceback that belongs to neither this package nor Python's imports."""
    package, found = str(Path(__file__).parents[1]), UNKNOWN_SPAN
    examples = str(Path(package, "examples"))
    import traceback  # only a fault needs it

    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        ours = file.startswith(package) and not file.startswith(examples)
        if not ours and not file.startswith("<frozen") and "importlib" not in file:
            found = Span(file, line)
    return found


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, or InputError with the system's reason."""
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise InputError(f"cannot read: {e.strerror or e}", Span(str(path))) from None


def decode(data: bytes, path: str) -> str:
    """The text of a file, without a byte order mark; InputError with the line that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise InputError(f"not UTF-8 text: byte 0x{data[e.start]:02x}", Span(path, line)) from None
