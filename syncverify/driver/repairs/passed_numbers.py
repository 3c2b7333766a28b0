"""Numbers that reach a statement as arguments: where an author's calls give them.

A library's author announces ``bytes`` or initializes with ``count``; who uses the library gives the number in
a call, several functions away. Each call that may give it is a candidate for another number there; it counts
if the kernel is proved with it.

Worked example. In a header, ``Pipe(Storage& s, uint32_t bytes) : s(s), bytes(bytes)`` keeps what
``full.arrive_and_expect_tx(bytes)`` announces. In the source, ``Pipe<4> pipe(sm.bars, sizeof(sm.a));`` gives
it, so the second argument there may be the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from syncverify.driver.repairs.author_statements import Lines

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.|->)(?:\w+(?:\.|->))*(?P<member>[A-Za-z_]\w*)")
_STRUCT = re.compile(r"\b(?:struct|class)\s+(?P<name>\w+)\s*\{(?P<fields>[^{}()]*)\}")
_ARGUMENTS = re.compile(r"\(([^()]*)\)")
_HEAD = re.compile(
    r"\b(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^(){};]*)\)\s*(?:const\s*)?(?::[^;{}]*(?:\{[^{}]*\}[^;{}]*)*)?\{"
)
_KEPT = r"\b{member}\s*(?:\(\s*(?P<a>\w+)\s*\)|\{{\s*(?P<b>\w+)\s*\}}|=\s*(?P<c>\w+)\s*;)"
#: Candidates of one statement, and how deep calls are followed.
_MOST, _DEPTH = 6, 2


def passed(text: Lines, code: str, number: str) -> Iterator[tuple[int, str]]:
    """Lines of a file of CUDA with the number in calls that may give it to a statement, and which lines."""
    if text.kind != "cu":
        return
    whole = ("\n".join(text.lines), *text.headers)
    found = 0
    for member in dict.fromkeys(x for statement in _inside(text, code) for x in _given(statement)):
        names = _parameters(member, whole)
        members = list(_members(member, whole))
        takers = {taker: None for name in names for taker in _takers(name, whole)}
        for n in range(1, len(text.lines) + 1):
            code_of = text.code(n)
            lists = (new for of in members for new in _with_member(code_of, of, number))
            for new in chain(_with_arguments(code_of, takers, number, names), lists):
                if found < _MOST:
                    yield n, new
                found += 1


def _inside(text: Lines, code: str) -> list[str]:
    """A statement, and the bodies of the author's functions that it calls, and that those call."""
    bodies = {f.name: f.body for f in text.functions()}
    found, names = [code], {*_IDENTIFIER.findall(code)}
    for _ in range(_DEPTH):
        called = [bodies.pop(name) for name in list(bodies) if name in names]
        found += called
        names = {word for body in called for word in _IDENTIFIER.findall(body)}
    return found


def _given(code: str) -> list[str]:
    """Names that stand alone as arguments of calls, the last first, and last members of paths there."""
    said = [a.strip() for m in _ARGUMENTS.finditer(code) for a in m[1].split(",")]
    paths = (_PATH.fullmatch(a) for a in reversed(said))
    return [*(a for a in reversed(said) if _IDENTIFIER.fullmatch(a)), *(p["member"] for p in paths if p)]


def _parameters(member: str, whole: Sequence[str]) -> list[str]:
    """A name, and the parameters that constructors keep under it."""
    kept = re.compile(_KEPT.format(member=re.escape(member)))
    of = (m[g] for t in whole for m in kept.finditer(t) for g in "abc" if m[g])
    return list(dict.fromkeys((member, *of)))


def _takers(name: str, whole: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Functions and constructors with a parameter of that name, and its place."""
    for m in (m for t in whole for m in _HEAD.finditer(t)):
        parameters = [_IDENTIFIER.findall(p.split("=")[0]) for p in m["parameters"].split(",")]
        yield from ((m["name"], i) for i, p in enumerate(parameters) if len(p) > 1 and p[-1] == name)


def _with_arguments(
    code: str, takers: dict[tuple[str, int], None], number: str, names: Sequence[str]
) -> Iterator[str]:
    """A line with the number as that argument of a call; or as what a member of these names is set to."""
    if "__device__" in code.split("{")[0]:  # it declares, and calls nothing
        return
    for taker, place in takers:
        for m in re.finditer(rf"\b{taker}\b\s*(?:<[^<>;()]*>)?\s*(?:\w+\s*)?[({{]", code):
            spots = _arguments(code, m.end())
            if place < len(spots) and code[slice(*spots[place])] != number:
                start, end = spots[place]
                yield code[:start] + number + code[end:]
    for name in names:
        for m in re.finditer(rf"\.{name}\s*=(?!=)\s*(?P<value>[^;,]+)[;,]", code):
            yield code[: m.start("value")] + number + code[m.end("value") :]


def _members(name: str, whole: Sequence[str]) -> Iterator[tuple[re.Pattern[str], int]]:
    """Where lists of values begin that set a member of that name, and its place in them: of the author's
    types with such a member, and of calls that take one of them."""
    for m in (m for t in whole for m in _STRUCT.finditer(t)):
        fields = [
            _IDENTIFIER.findall(one.split("=")[0])[-1:]
            for field in m["fields"].split(";")
            for one in field.split(",")
            if field.strip()
        ]
        if [name] not in fields:
            continue
        of_type = re.compile(rf"\b{m['name']}\b")
        heads = (head for t in whole for head in _HEAD.finditer(t))
        takers = {head["name"] for head in heads if of_type.search(head["parameters"])}
        calls = "".join(rf"|\b{taker}\s*\(\s*" for taker in sorted(takers))
        yield re.compile(rf"(?:\b{m['name']}(?:\s+\w+)?\s*=?\s*{calls})\{{"), fields.index([name])


def _with_member(code: str, of: tuple[re.Pattern[str], int], number: str) -> Iterator[str]:
    """A line with the number as one value of a list."""
    begins, place = of
    for m in begins.finditer(code):
        spots = _arguments(code, m.end())
        if place < len(spots) and code[slice(*spots[place])] != number:
            start, end = spots[place]
            yield code[:start] + number + code[end:]


def _arguments(code: str, start: int) -> list[tuple[int, int]]:
    """Where the arguments of a call stand whose list begins there; none if it goes on in another line."""
    spots: list[tuple[int, int]] = []
    depth, first = 0, start
    for i in range(start, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}" and depth:
            depth -= 1
        elif depth == 0 and code[i] in ",)}":
            bare = code[first:i].strip()
            at = first + code[first:i].index(bare)
            spots.append((at, at + len(bare)))
            first = i + 1
            if code[i] != ",":
                return spots
    return []


__all__ = ["passed"]
