"""Where things stand in the author's file, and the one exception for input nobody can use."""

from __future__ import annotations

from dataclasses import dataclass


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
