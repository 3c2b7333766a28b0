"""Functions of an author's files whose bodies hold a synchronizing instruction, and calls of them.

An edit in the author's words calls what the author has: a function, a method of the barrier's own type, or a
template whose argument is the instruction's. Worked example. ``struct Barrier { void arrive() {...} };`` with
an ``mbarrier.arrive`` in the body makes ``empty[s].arrive();`` of the barrier ``empty[s]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_HEAD = re.compile(
    r"(?:template\s*<(?P<template>[^<>]*)>\s*)?(?:\b(?:static|inline|constexpr)\s+)*\b__device__"
    r"[^;{}()]*?\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*)\)\s*(?:const\s*)?\{"
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define (?P<name>\w+)[ \t]+[^\n(]*\b__device__\b[^\n(]*$", re.MULTILINE)
_NUMBER = re.compile(r"\s*(?:unsigned |u?int\w*|auto)")
_TYPE = re.compile(r"\b(?:struct|class)\b[^;{}()]*\{")


@dataclass(frozen=True, slots=True)
class AuthorFunction:
    """A device function: its parameters as declared; whether it is a method, a template of one number.

    ``scope``: the namespace that calls name, with its colons.
    """

    name: str
    parameters: tuple[str, ...]
    body: str
    method: bool
    template: bool
    scope: str = ""


def functions(texts: Iterable[str]) -> tuple[AuthorFunction, ...]:
    """The device functions of texts, also of those whose ``__device__`` a macro says."""
    every = tuple(texts)
    macros = {m["name"] for text in every for m in _MACRO.finditer(text)}
    if macros:
        said = re.compile(rf"(?<!define )\b(?:{'|'.join(sorted(macros))})\b")
        every = tuple(said.sub("__device__", text) for text in every)
    found = (f for text in every for f in _of_one(text))
    return tuple(replace(f, scope=_scope(f, every)) for f in found)


def _scope(f: AuthorFunction, texts: Iterable[str]) -> str:
    """The namespace in the first call of a function that says one."""
    calls = re.compile(rf"(?<![\w.>:])(?P<scope>(?:\w+::)+){re.escape(f.name)}\s*[(<]")
    found = None if f.method else next((m for text in texts if (m := calls.search(text))), None)
    return found["scope"] if found is not None else ""


def _of_one(text: str) -> Iterator[AuthorFunction]:
    types = [(m.end(), _closing(text, m.end())) for m in _TYPE.finditer(text)]
    for m in _HEAD.finditer(text):
        template = m["template"]
        if template is not None and ("," in template or not _NUMBER.match(template)):
            continue
        parameters = tuple(p.strip() for p in m["parameters"].split(",") if p.strip() not in ("", "void"))
        body = text[m.end() : _closing(text, m.end())]
        method = any(first <= m.start() < last for first, last in types)
        yield AuthorFunction(m["name"], parameters, body, method, template is not None)


def _closing(text: str, start: int) -> int:
    """Where the brace closes that opens right before a place."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return len(text)


def barrier_calls(
    known: Iterable[AuthorFunction], instruction: str, barrier: str, *operands: str, remote: bool = False
) -> Iterator[str]:
    """Calls that execute an instruction on an mbarrier, an object of the author's such as ``empty[s]``.

    ``instruction``: a part of its text, no other operation; an arrival does not announce, unless it says so.
    ``remote``: on that of another block, whose rank is the last operand.
    """
    for f in known:
        if instruction not in f.body or f.template or remote is not ("mapa" in f.body):
            continue
        if "expect_tx" in f.body and "expect_tx" not in instruction:
            continue
        if f.method and len(f.parameters) == len(operands):
            yield f"{barrier}.{f.name}({', '.join(operands)});"
        elif not f.method and len(f.parameters) == 1 + len(operands):
            at = barrier if "&" in f.parameters[0] or "*" not in f.parameters[0] else f"&{barrier}"
            yield f"{f.scope}{f.name}({', '.join((at, *operands))});"


def plain_calls(known: Iterable[AuthorFunction], instruction: str) -> Iterator[str]:
    """Calls that execute an instruction with no operand, or with one number: ``cp.async.wait_group 0``."""
    opcode, _, number = instruction.partition(" ")
    whole = re.compile(rf"{re.escape(opcode)}(?![\w.])")
    for f in known:
        found = whole.search(f.body)
        if found is None or f.method or f.parameters or f.body.count("asm") != 1:
            continue
        if f.template and number:
            yield f"{f.scope}{f.name}<{number}>();"
        elif not f.template and (not number or re.match(rf"\s+{number}\b", f.body[found.end() :])):
            yield f"{f.scope}{f.name}();"


__all__ = ["AuthorFunction", "barrier_calls", "functions", "plain_calls"]
