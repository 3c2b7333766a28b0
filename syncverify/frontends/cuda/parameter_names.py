"""The kernels that a CUDA source defines, with the names of their parameters.

The text is searched for ``__global__ ... name(parameters) {``; what macros make is not seen.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_GLOBAL = re.compile(r"\b__global__\b")
#: The kernel's name before its parameters: no attribute has a list that a body or ``;`` follows.
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
_POINTER_TO = re.compile(r"\(\s*[*&]+\s*(?:const\s+)?(\w+)")
_LAST_WORD = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
#: Words that end a type: a parameter that ends in one has no name.
_TYPE_WORDS = frozenset(
    "int unsigned signed char short long float double bool void const volatile auto __restrict__ "
    "restrict".split()
)
_SIGNED = frozenset("const signed int short long int16_t int32_t int64_t std ptrdiff_t ssize_t".split())
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A kernel in a source: its name, its first and last line, its parameters (empty: without a name), and
    which of them are signed integers."""

    name: str
    first: int
    last: int
    parameters: tuple[str, ...]
    signed: tuple[bool, ...] = ()


def definitions(text: str) -> Iterator[Definition]:
    """The kernels that a source defines.

    >>> list(definitions("__global__ void f(const float* a, int n) { }"))
    [Definition(name='f', first=1, last=1, parameters=('a', 'n'), signed=(False, True))]
    """
    code = _NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    starts = [0, *(m.end() for m in re.finditer(r"\n", code))]
    for found in _GLOBAL.finditer(code):
        head = _head(code, found.end())
        if head is None:
            continue
        name, inside, body = head
        end = _closing(code, body)
        first, last = (bisect_right(starts, at) for at in (found.start(), end))
        declared = _split(inside)
        names = tuple(map(_name, declared))
        yield Definition(name, first, last, names, tuple(map(_is_signed, declared)))


def _head(code: str, at: int) -> tuple[str, str, int] | None:
    """Name, parameter list and the place of the body of the definition that goes on at ``at``."""
    while (found := _NAME.search(code, at)) is not None and not set(";{}") & set(code[at : found.start()]):
        end = _closing(code, found.end() - 1)
        rest = re.compile(r"\s*").match(code, end + 1)
        body = rest.end() if rest else end + 1
        if code[body : body + 1] == "{":
            inside = code[found.end() : end]
            return None if "#" in inside else (found[1], inside, body)
        at = end + 1
    return None


def _closing(code: str, at: int) -> int:
    """Where the bracket that opens at ``at`` is closed; the end of the code if it is not."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] in _OPEN:
            depth += 1
        elif code[i] in _CLOSE:
            depth -= 1
            if depth == 0:
                return i
    return len(code)


def _split(inside: str) -> list[str]:
    """The parameters of a list, at commas outside of all brackets (those of templates too)."""
    parts, brackets, angles, start = [], 0, 0, 0
    for i, c in enumerate(inside):
        if c in _OPEN + _CLOSE:
            brackets += 1 if c in _OPEN else -1
        elif c in "<>" and not brackets:  # inside of brackets they compare
            angles += 1 if c == "<" else -1
        elif c == "," and brackets == angles == 0:
            parts.append(inside[start:i])
            start = i + 1
    parts.append(inside[start:])
    return [] if [p.strip() for p in parts] in ([""], ["void"]) else parts


def _is_signed(parameter: str) -> bool:
    declared = parameter.partition("=")[0].strip()
    type_ = declared.removesuffix(_name(parameter))
    words = set(re.findall(r"\w+", type_))
    return bool(words - {"const", "std"}) and words <= _SIGNED and not set("*&[<") & set(type_)


def _name(parameter: str) -> str:
    """The name in ``const T* __restrict__ name = 3``; empty where there is none."""
    declared = parameter.partition("=")[0].strip()
    pointer = _POINTER_TO.search(declared)
    if pointer is not None:
        return pointer[1]
    word = _LAST_WORD.search(declared)
    if word is None or word[1] in _TYPE_WORDS or not declared[: word.start()].strip() or "..." in declared:
        return ""
    return "" if declared[: word.start()].rstrip().endswith("::") else word[1]
