"""Statements that synchronize, in the words of a file's author.

A repair that adds a wait, an arrival or an announcement needs a statement for it. There are three sources:
a statement of the file that does the like, with the mbarrier and the parity exchanged; a call of a device
function of the file whose body holds the instruction; the instruction as inline assembly. The likeliest
come first. Each is a candidate: what does not compile, or does not mend the kernel, is not shown.

Worked example. ``wait(&full[s], (r / 3) & 1)`` is gone, and ``wait(&empty[s], (r / 3 + 1) & 1)`` stands
there. The candidates are ``wait(&full[s], (r / 3 + 1) & 1)`` and, with the other parity,
``wait(&full[s], (r / 3) & 1)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from syncverify.base.diagnostics import EditHint, EditKind

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_GUARD = re.compile(r"^\s*if\s*\(")
_FUNCTION = re.compile(r"__device__[^;{}()]*?\b(\w+)\s*\(([^(){};]*)\)\s*\{")
_MODULO = re.compile(r"^(?P<inner>.+?)\s*(?P<by>&\s*1|%\s*2)$")
#: Expressions of a kind that are tried.
_MOST = 3
_ADDRESS = '"r"(static_cast<unsigned>(__cvta_generic_to_shared({at})))'
_ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%0];"
_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a file, and its kind: cu, ptx or syncir."""

    lines: Sequence[str]
    kind: str

    def code(self, line: int) -> str:
        """A line (from 1) without its comment; ``//`` divides in the IR."""
        text = self.lines[line - 1]
        return (text if self.kind == "syncir" else text.split("//")[0]).rstrip()

    def blocks(self, line: int) -> list[tuple[int, int]]:
        """First and last lines of the blocks around a line, innermost first, without the function's own."""
        indent = len(indent_of(self.lines[line - 1]))
        found: list[tuple[int, int]] = []
        for n in range(line - 1, 0, -1):
            code = self.code(n)
            at = len(indent_of(code))
            if not code.strip() or at >= indent or not code.endswith("{"):
                continue
            closing = (
                m for m in range(line + 1, len(self.lines) + 1) if self.code(m)[: at + 1] == " " * at + "}"
            )
            last = next(closing, 0)
            if not last or not at:
                break
            found.append((n, last))
            indent = at
        return found


def indent_of(line: str) -> str:
    """The white space before a line's text."""
    return line[: len(line) - len(line.lstrip())]


def last_operand(code: str, kind: str) -> tuple[int, int] | None:
    """Where the last operand stands: of the last call in CUDA, else of the statement."""
    end = len(code.rstrip("; \t"))
    if kind == "cu":
        end = code.rfind(")", 0, end)
        if end < 0:
            return None
    depth = 0
    for i in range(end - 1, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth < 0 or (depth == 0 and code[i] == ","):
            start = i + 1 + len(code[i + 1 :]) - len(code[i + 1 :].lstrip())
            return (start, end) if start < end else None
    return None


def flipped(operand: str, kind: str) -> Iterator[str]:
    """Expressions of the other parity."""
    if operand in ("0", "1"):
        yield "10"[int(operand)]
        return
    if kind == "ptx":  # a register: what it holds is made elsewhere
        return
    modulo = _MODULO.match(operand)
    if modulo is not None:
        inner, by = modulo["inner"], modulo["by"]
        bare = inner[1:-1] if _wrapped(inner) else inner
        if bare.endswith("+ 1"):
            yield f"({bare.removesuffix('+ 1').rstrip()}) {by}"
        yield f"({bare} + 1) {by}"
    yield f"({operand} + 1) % 2" if kind == "syncir" else f"({operand}) ^ 1"


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses holds the whole text."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[0] == "(" and i == len(text) - 1
    return False


def unguarded(statement: str) -> str:
    """A statement without the ``if (...)`` around it."""
    guard = _GUARD.match(statement)
    if guard is None:
        return statement.strip()
    depth = 1
    for i in range(guard.end(), len(statement)):
        depth += (statement[i] == "(") - (statement[i] == ")")
        if depth == 0:
            return statement[i + 1 :].strip()
    return statement.strip()


def is_one_statement(code: str) -> bool:
    """Whether a line of CUDA or PTX holds one statement, and no block."""
    bare = _QUOTED.sub('""', code)
    return bare.count(";") == 1 and bare.rstrip().endswith(";") and not {*"{}"} & {*bare}


def statements(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """What may be put at ``line`` to wait, arrive, announce, initialize or meet, without indent."""
    match hint.kind:
        case EditKind.WAIT:
            yield from _waits(hint, text)
        case EditKind.ARRIVE:
            yield from _arrivals(hint, text, line)
        case EditKind.ANNOUNCE:
            yield from _announcements(hint, text, line)
        case EditKind.INIT:
            yield from _like(hint, text, number=hint.number)
        case EditKind.BARRIER:
            yield from _meetings(hint, text)


def parities(hint: EditHint, text: Lines) -> Iterator[str]:
    """Parities that other waits of the file ask for, and the others of theirs."""
    found: dict[str, None] = {}
    for model in hint.models:
        code = text.code(model)
        spot = last_operand(code, text.kind)
        if spot is not None:
            found[code[slice(*spot)]] = None
    yield from found
    for operand in found:
        yield from list(flipped(operand, text.kind))[:1]


def _waits(hint: EditHint, text: Lines) -> Iterator[str]:
    """Waits of the file for this mbarrier; the first time at once (``number`` 1), or not."""
    same = list(_like(hint, text))
    other = [new for statement in same for new in _with_other_parity(statement, text.kind)]
    yield from dict.fromkeys((*same, *other))


def _with_other_parity(statement: str, kind: str) -> list[str]:
    spot = last_operand(statement, kind)
    if spot is None:
        return []
    start, end = spot
    return [
        statement[:start] + new + statement[end:] for new in list(flipped(statement[start:end], kind))[:1]
    ]


def _arrivals(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Arrivals without bytes."""
    if text.kind == "syncir":
        yield from (f"mbarrier.arrive {at}" for at in _mbarriers(hint, text, line))
        return
    functions = list(_functions(text.lines, "mbarrier.arrive", 1, without="expect_tx"))
    for at in _mbarriers(hint, text, line):
        yield from (f"{function}({at});" for function in functions)
        if text.kind == "cu":
            yield f'asm volatile("{_ARRIVE}" ::{_ADDRESS.format(at=at)} : "memory");'


def _announcements(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Arrivals that announce bytes."""
    if text.kind == "syncir":
        yield from (f"mbarrier.arrive.expect_tx {at}, {hint.number}" for at in _mbarriers(hint, text, line))
        return
    yield from _like(hint, text, number=hint.number)
    functions = list(_functions(text.lines, "arrive.expect_tx", 2))
    for at in _mbarriers(hint, text, line):
        yield from (f"{function}({at}, {hint.number});" for function in functions)
        if text.kind == "cu":
            yield f'asm volatile("{_EXPECT}" ::{_ADDRESS.format(at=at)}, "r"({hint.number}) : "memory");'


def _meetings(hint: EditHint, text: Lines) -> Iterator[str]:
    """Barriers of the block (``number`` 0), or like others of the same warps."""
    if not hint.number:
        yield {"cu": "__syncthreads();", "ptx": "bar.sync 0;", "syncir": "bar.sync 0"}[text.kind]
        return
    own = (text.code(model).strip() for model in hint.models)
    yield from dict.fromkeys(x for x in own if text.kind == "syncir" or is_one_statement(x))
    bare = f"bar.sync 15, {hint.number}"
    yield {"cu": f'asm volatile("{bare};" ::: "memory");', "ptx": f"{bare};", "syncir": bare}[text.kind]


def _like(hint: EditHint, text: Lines, number: int | None = None) -> Iterator[str]:
    """The statements of a hint's models for its mbarrier, with a number as their last operand."""
    words = _words(hint.names)
    if words is None or not re.fullmatch(r"[A-Za-z_]\w*", hint.name):
        return
    found: dict[str, None] = {}
    for model in hint.models:
        code = text.code(model)
        if text.kind != "syncir" and not is_one_statement(code):
            continue
        statement = words.sub(hint.name, unguarded(code))
        spot = last_operand(statement, text.kind)
        if number is not None and spot is not None:
            statement = statement[: spot[0]] + str(number) + statement[spot[1] :]
        found[statement] = None
    yield from list(found)[:_MOST]


def _words(names: Iterable[str]) -> re.Pattern[str] | None:
    """What finds the names of mbarriers in a line."""
    known = [name for name in names if re.fullmatch(r"[A-Za-z_]\w*", name)]
    return re.compile(rf"\b(?:{'|'.join(known)})\b") if known else None


def _mbarriers(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """How the file writes its mbarrier, or would by the place of others, the nearest to ``line`` first."""
    words = _words(hint.names)
    if words is None or not re.fullmatch(r"[A-Za-z_]\w*", hint.name):
        return
    sign = "&" if text.kind == "cu" else ""
    spelled = re.compile(rf"{sign}{words.pattern}(?:\s*\[[^][]*\])?")
    found: dict[str, None] = {}
    for n in sorted(range(1, len(text.lines) + 1), key=lambda n: (abs(n - line), n)):
        for m in spelled.finditer(text.code(n)):
            found[words.sub(hint.name, m[0])] = None
        if len(found) >= _MOST:
            break
    yield from list(found)[:_MOST]


def _functions(lines: Sequence[str], instruction: str, arguments: int, without: str = "") -> Iterator[str]:
    """Device functions of so many parameters whose body holds an instruction, and not another."""
    text = "\n".join(lines)
    for m in _FUNCTION.finditer(text):
        parameters = [p for p in m[2].split(",") if p.strip()]
        body = text[m.end() : text.find("\n}", m.end())]
        if len(parameters) == arguments and instruction in body and not (without and without in body):
            yield m[1]


__all__ = [
    "Lines",
    "flipped",
    "indent_of",
    "is_one_statement",
    "last_operand",
    "parities",
    "statements",
    "unguarded",
]
