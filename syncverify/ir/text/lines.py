"""Source text made ready for the lexer: comments blanked, lines joined inside brackets, places kept."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from syncverify.base.source import InputError, Span
from syncverify.ir.expr import BUILTINS

MAX_NESTING = 100
MAX_OPERATORS = 200

_INTERESTING = re.compile(r"//|[()\[\]{}\n]")
_OPERATOR = re.compile(r"//|<<|>>|[<>=!]=|[-+*/%&|^<>~(\[]|\b(?:and|or|not)\b")
_INTEGER_NAME = re.compile(r"\b(?:param|let|for|elect)\s+([A-Za-z_]\w*)")
#: A comment that could as well be the rest of a division: ``2``, ``(N + 1) % 2``, ``S {``.
_LIKE_DIVISOR = re.compile(
    r"\s*[-~(]*([\w.]+)\)*"
    r"(?:\s*(?://|<<|>>|[<>=!]=|[-+*/%&|^<>,]|and\b|or\b)\s*[-~(]*[\w.]+\)*)*\s*\{?\s*$"
)
_AMBIGUOUS = "'//' starts a comment here; put a division in parentheses, or word the comment differently"
_ELSE = re.compile(r"\}([ \t\r]*\n\s*)else\b")


class Source:
    """One file: ``code`` has the length of ``text``, without comments and without newlines in brackets.

    ``//`` divides inside parentheses and brackets and starts a comment outside them.
    """

    __slots__ = ("_ends", "_starts", "code", "file", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        bad = re.search("[\x00-\x08\x0b\x0e-\x1f]", text)
        if bad:
            raise InputError("this is not a text file", self.span(bad.start(), bad.end()))
        self.code = _ELSE.sub(lambda m: "}" + " " * len(m[1]) + "else", self._clean())

    def span(self, start: int, end: int | None = None) -> Span:
        """The span of a range of offsets; without ``end``, to the end of the logical line."""
        if end is None:
            end = self.code.find("\n", start)
            end = start + len(self.code[start : end if end >= 0 else None].rstrip(" \t\r\n}"))
        line = bisect_right(self._starts, start)
        last = line if end <= start else bisect_right(self._starts, end - 1)
        first = self._starts[line - 1]
        return Span(self.file, line, start - first + 1, last, end - self._starts[last - 1] + 1)

    def _clean(self) -> str:
        """One pass over brackets, comments and newlines."""
        text = self.text
        out: list[str] = []
        copied = at = statement = 0
        nesting = _Nesting(self._error)
        suspicious: list[tuple[int, str]] = []  # comments that could be divisors
        while m := _INTERESTING.search(text, at):
            at = m.end()
            what = m[0]
            if what == "\n" and nesting.brackets:
                out += text[copied : m.start()], " "
                copied = at
            elif what == "\n":
                statement = at
            elif what != "//":
                nesting.take(what, m.start())
            elif not nesting.brackets:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                if divisor := self._like_divisor(text[statement : m.start()], at, end):
                    suspicious.append((m.start(), divisor))
                out += text[copied : m.start()], " " * (end - m.start())
                copied = at = end
        nesting.demand_closed()
        out.append(text[copied:])
        code = "".join(out)
        if suspicious:
            integers = BUILTINS.union(_INTEGER_NAME.findall(code))
            for start, divisor in suspicious:
                # `let r = i // 2` must not silently lose its divisor
                if divisor.isdigit() or divisor in integers:
                    raise self._error(_AMBIGUOUS, start)
        self._limit_operators(code)
        return code

    def _like_divisor(self, before: str, at: int, end: int) -> str:
        """The first word of a comment that could as well be the rest of a division; else nothing."""
        before = before.rstrip()
        if before and (before[-1].isalnum() or before[-1] in "_)]"):
            like = _LIKE_DIVISOR.match(self.text, at, end)
            return like[1] if like else ""
        return ""

    def _error(self, message: str, offset: int) -> InputError:
        return InputError(message, self.span_of_character(offset))

    def span_of_character(self, offset: int) -> Span:
        line = bisect_right(self._starts, offset)
        column = offset - self._starts[line - 1] + 1
        return Span(self.file, line, column, line, column + 1)

    def _limit_operators(self, code: str) -> None:
        """Keeps expressions shallow enough for every recursive reader of them."""
        start = 0
        for line in code.split("\n"):
            if len(line) > MAX_OPERATORS and len(_OPERATOR.findall(line)) > MAX_OPERATORS:
                message = f"more than {MAX_OPERATORS} operators in one statement; split it with let"
                raise self._error(message, start + len(line) - len(line.lstrip()))
            start += len(line) + 1


class _Nesting:
    """The brackets and blocks that are open at a place."""

    def __init__(self, error: Callable[[str, int], InputError]) -> None:
        self.brackets: list[int] = []  # where each begins
        self.blocks = 0
        self._error = error

    def take(self, what: str, offset: int) -> None:
        """One bracket or brace."""
        if what in "([":
            self.brackets.append(offset)
            if len(self.brackets) > MAX_NESTING:
                raise self._error(f"brackets nest deeper than {MAX_NESTING}", offset)
        elif what in ")]":
            if self.brackets:
                self.brackets.pop()
        else:
            self.demand_closed()
            self.blocks += 1 if what == "{" else -1
            if self.blocks > MAX_NESTING:
                raise self._error(f"blocks nest deeper than {MAX_NESTING}", offset)

    def demand_closed(self) -> None:
        """Brackets do not go on over braces, or over the end of the text."""
        if self.brackets:
            raise self._error("this bracket is never closed", self.brackets[-1])
