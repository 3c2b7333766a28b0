"""What lark says of a syntax error, in the user's words."""

from __future__ import annotations

import re

from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from syncverify.base.source import InputError, Span
from syncverify.ir.text import forms
from syncverify.ir.text.lines import Source

_WORDS = {
    "_LB": "'{'", "RBRACE": "'}'", "_NL": "the end of the line", "$END": "the end of the file",
    "NAME": "a name", "BINOP": "an operator", "EQUAL": "'='", "COLON": "':'", "COMMA": "','",
    "LSQB": "'['", "RSQB": "']'", "LPAR": "'('", "RPAR": "')'", "AT": "'@'", "__ANON_0": "'..'",
    "MODE": "in, out or inout", "UNIT": "threads, warps or warpgroups", "SWIZZLE": "none, 32B, 64B or 128B",
    "INT": "a number", "FLOAT": "a number", "PREFIX": "an expression",
}  # fmt: skip
_HEADER = (
    "kernel", "arch", "launch", "param", "assume", "tensor", "tensormap", "shared", "mbarrier", "fragment",
    "for", "if", "role", "let", "compute",
)  # fmt: skip


def explain(e: Exception, source: Source) -> InputError:
    """An InputError for an exception of the parser."""
    if isinstance(e, UnexpectedToken) and e.token.type != "$END":
        start = e.token.start_pos or 0
        return InputError(_unexpected(e, source, start, str(e.token)), source.span(start, e.token.end_pos))
    if isinstance(e, UnexpectedCharacters):
        start = e.pos_in_stream or 0
        word = re.compile(r"[\w.]+|.", re.S).match(source.code, start)
        message = _unexpected(e, source, start, word[0] if word else "")
        return InputError(message, source.span_of_character(start))
    if isinstance(e, UnexpectedInput | UnexpectedEOF):
        last = Span(source.file, source.text.count("\n") + 1)
        return InputError("the file ends in the middle of a kernel; is a '}' missing?", last)
    raise e


def _unexpected(e: UnexpectedInput, source: Source, start: int, found: str) -> str:
    line_start = source.code.rfind("\n", 0, start) + 1
    line = source.code[line_start:start]
    first = re.match(r"\s*([\w.]+)", source.code[line_start:])
    what = "the end of the line" if not found.strip() else f"'{_short(found)}'"
    message = f"unexpected {what}"
    wanted = _expected(e)
    if wanted:
        message += f"; expected {wanted}"
    if first:
        hint = _hint(first[1], line, e)
        if hint:
            message += hint
    return message


def _short(found: str) -> str:
    return found if len(found) <= 60 else f"{found[:57]}..."


def _expected(e: UnexpectedInput) -> str:
    names: set[str] = set()
    if isinstance(e, UnexpectedToken):
        names = set(e.accepts or e.expected or ())
    elif isinstance(e, UnexpectedCharacters):
        names = set(e.allowed or ())
    if "LET" in names:
        return "a statement"
    if "PREFIX" in names:
        return "an expression"
    words = sorted({_WORDS.get(n, n.lower()) for n in names})
    if len(words) > 6:
        return ""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _hint(first: str, line: str, e: UnexpectedInput) -> str:
    """Did you mean: the first word of the line is what most often is misspelt."""
    form = None
    try:
        form, _ = forms.lookup(first)
    except forms.FormError:
        if first not in _HEADER and first not in ("}", "else"):
            return forms.did_you_mean(first, [*_HEADER, *forms.known_mnemonics()])
        return ""
    return f"; the form is: {form.usage}"
