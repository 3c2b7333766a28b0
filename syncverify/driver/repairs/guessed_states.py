"""Edits of ring states in a CUDA text: where a state begins, when it flips, which use or slot it is of.

Authors keep a slot and a parity in variables, or work both out from a counter. What goes wrong there makes
the events of several turns wrong, so no edit at one place of the events mends it. Each edit is tried; it
counts if the kernel is proved with it.

Worked examples. A ``PipelineState`` that is declared inside the loop over tiles begins again with each: it is
declared before the loop instead. ``if (++slot == 3) slot = 0;`` wraps without ``phase ^= 1``: that is added.
``if (i >= 3) wait(&empty[i % 3], i / 3 & 1);`` waits for a use to come: ``(i - 3) / 3 & 1`` is that before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

from syncverify.base.diagnostics import Mistake, Repair, TextEdit
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import (
    Lines,
    indent_of,
    is_one_statement,
    last_operand,
    unguarded,
)
from syncverify.driver.repairs.guessed_lines import guess, nearest

#: Edits of each kind that are tried.
_MOST = 3
_LOOP = re.compile(r"\b(?:for|while)\s*\(|\bdo\b")
_DECLARED = re.compile(
    r"^\s*(?!return\b|const\b|constexpr\b|else\b|using\b|static\b)[A-Za-z_][\w:]*(?:\s*<[^<>;]*>)?"
    r"(?:\s+(?!const\b)[A-Za-z_]\w*)?\s+(?=[A-Za-z_]\w*\s*[=({;,])(?P<rest>[^;]*);\s*$"
)
_DECLARATOR = re.compile(r"(?:^|,)\s*(?P<name>[A-Za-z_]\w*)\s*(?=[=({,]|$)")
#: A slot that is set to 0 when it has come to the end of its ring; its line may wrap it by a division.
_WRAPS = re.compile(r"(?P<slot>[\w.]+)\s*=\s*0(?P<end>\s*;)")
_AT_END = re.compile(r"\bif\s*\(.*==")
_WRAPS_BY_DIVISION = re.compile(
    r"(?P<slot>[\w.]+)\s*=\s*\(\s*(?:(?P=slot)\s*\+\s*1|\+\+\s*(?P=slot))\s*\)\s*[%&][^;]*;\s*$"
)
_NAMES = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
#: A state that is moved on by its method, or by an increment of its own type.
_MOVES = re.compile(
    r"^\s*(?:(?P<method>[A-Za-z_]\w*)\.\w*(?:advance|next|step|move|incr)\w*\s*(?:<[^<>;()]*>)?\s*\([^()]*\)"
    r"|\+\+\s*(?P<before>[A-Za-z_]\w*)|(?P<behind>[A-Za-z_]\w*)\s*\+\+)\s*;\s*$"
)
_OF_TYPE = re.compile(
    r"^\s*(?!return\b|else\b|using\b|goto\b)(?P<type>[A-Za-z_][\w:]*(?:<[^<>;]*>)?)\s+(?P<names>[A-Za-z_][^;]*);\s*$"
)
_WAITS = re.compile(r"wait|pass|acquire", re.I)
_ARRIVES = re.compile(r"arrive|release|signal", re.I)
_OTHER_OF_TWO = re.compile(r"\(\s*(?P<slot>\w+)\s*\^\s*1\s*\)")
_FROM = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*>=\s*(?P<uses>\w+)\s*$")
_CONDITION = re.compile(r"\bif\s*\((?P<condition>[^()]*)\)")


def state_guesses(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Edits of ring states near the places, the nearest first."""
    near = nearest(text, places)
    yield from chain(
        islice(_moved_on(file, text, places), _MOST),
        islice(_uses_before(file, text, places), _MOST),
        islice(_flips_at_wraps(file, text, near, places), _MOST),
        islice(_kept_over_turns(file, text, places), _MOST),
        islice(_own_slots(file, text, near), _MOST),
    )


def _moved_on(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Loops that use a state and do not move it on, where others do: they move it on at their end."""
    moves: dict[str, str] = {}
    for n in range(1, len(text.lines) + 1):
        m = _MOVES.match(text.code(n))
        if m is not None:
            moves.setdefault(m["method"] or m["before"] or m["behind"], text.code(n).strip())
    for name, move in [*moves.items()]:
        moves |= {other: re.sub(rf"\b{name}\b", other, move) for other in _alike(text, name) - moves.keys()}
    for first, last in _loops(text, places):
        code = [text.code(n) for n in range(first, last + 1)]
        for name, move in moves.items():
            used = re.compile(rf"[(\[&]\s*(?:[^()]*[^\w.])?{name}\b")
            changes = re.compile(rf"(?<![\w.]){name}\s*(?:\.\w+\s*)?(?:[-+^|&]?=(?!=)|\+\+)|\+\+\s*{name}\b")
            if move in " ".join(code) or any(changes.search(x) for x in code):
                continue
            if any(used.search(x) for x in code[1:]) and text.code(last).strip() == "}":
                new = indent_of(text.lines[first]) + move
                said = f"{name} moves on in each turn, as elsewhere: {move}"
                edit = TextEdit(file, last, (), (new,))
                yield Repair(Mistake.MISSING_ADVANCE, Span(file, last), said, edit=edit)


def _alike(text: Lines, name: str) -> set[str]:
    """Other variables that are declared with the type of one."""
    found: dict[str, set[str]] = {}
    for n in range(1, len(text.lines) + 1):
        declared = _OF_TYPE.match(text.code(n))
        if declared is not None:
            names = {m["name"] for m in _DECLARATOR.finditer(declared["names"])}
            found.setdefault(declared["type"], set()).update(names)
    return set().union(*(names for names in found.values() if name in names)) - {name}


def _loops(text: Lines, places: list[int]) -> list[tuple[int, int]]:
    """The loops of a file, those nearest to the places first."""
    every = (block for n in nearest(text, places) for block in text.blocks(n))
    return [*dict.fromkeys(block for block in every if _LOOP.search(text.code(block[0])))]


def _own_slots(file: str, text: Lines, near: list[int]) -> Iterator[Repair]:
    """Arrivals on the other of two slots: on that of the turn instead."""
    for n in near:
        code = text.code(n)
        if _ARRIVES.search(code) and _OTHER_OF_TWO.search(code):
            new = _OTHER_OF_TWO.sub(r"\g<slot>", code)
            yield guess(Mistake.OTHER_BARRIER, Span(file, n), "the slot of this turn is meant", text, new)


def _kept_over_turns(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Variables that are declared at the head of a loop around a place, and change in it: before the loop."""
    loops = dict.fromkeys(
        block for p in places for block in text.blocks(p) if _LOOP.search(text.code(block[0]))
    )
    for first, last in loops:
        heads = [n for n in range(first + 1, last) if _is_state(text, n, first, last)]
        for n in heads:
            run = [m for m in range(n, last) if set(range(n, m + 1)) <= set(heads)]
            old = tuple(text.lines[first - 1 : run[-1]])
            kept = old[: n - first]
            before = (indent_of(old[0]) + text.lines[m - 1].strip() for m in run)
            edit = TextEdit(file, first, old, (*before, *kept))
            said = "declare this before the loop: here it begins again in each turn"
            yield Repair(Mistake.LATER_PARITY, Span(file, n), said, edit=edit)


def _is_state(text: Lines, n: int, first: int, last: int) -> bool:
    """Whether a line of a loop's own body declares a variable that the loop changes."""
    declared = _DECLARED.match(text.code(n))
    if declared is None or text.blocks(n)[:1] != [(first, last)]:
        return False
    names = [re.escape(m["name"]) for m in _DECLARATOR.finditer(declared["rest"])]
    one = "|".join(names)
    changes = re.compile(
        rf"(?:\+\+|--)\s*(?:{one})\b(?!\.)|(?<![\w.])(?:{one})\s*(?:\+\+|--|[-+^|&]?=(?!=))"
        rf"|(?<![\w.])(?:{one})\.\w*(?:advance|next|step)\w*\s*\("
    )
    return bool(names) and any(changes.search(text.code(m)) for m in range(n + 1, last + 1))


def _flips_at_wraps(file: str, text: Lines, near: list[int], places: list[int]) -> Iterator[Repair]:
    """Slots that wrap where no parity flips: with the variables that waits at the places ask for."""
    asked = dict.fromkeys(
        name
        for p in places
        if _WAITS.search(text.code(p)) and (spot := last_operand(text.code(p), text.kind)) is not None
        for name in _NAMES.findall(text.code(p)[slice(*spot)])
    )
    for n in near:
        line = text.lines[n - 1]
        for name in asked:
            new = _with_flip(text, n, name)
            if new is not None:
                edit = TextEdit(file, n, (line,), new)
                yield Repair(
                    Mistake.LATER_PARITY, Span(file, n), f"{name} flips when the slot wraps", edit=edit
                )


def _with_flip(text: Lines, n: int, name: str) -> tuple[str, ...] | None:
    """A line that wraps a slot, and the flip of a parity with it; none if it wraps none, or flips already."""
    code = text.code(n)
    around = (text.code(m) for m in range(max(n - 1, 1), min(n + 2, len(text.lines)) + 1))
    if any(re.search(rf"(?<![\w.]){re.escape(name)}\s*(?:\^=|=(?!=))", other) for other in around):
        return None
    by_division = _WRAPS_BY_DIVISION.search(code)
    if by_division is not None:
        return code, f"{indent_of(code)}if ({by_division['slot']} == 0) {name} ^= 1;"
    wraps = _WRAPS.search(code)
    heads = (code, *(text.code(first) for first, _ in text.blocks(n)[:1]))
    if (
        wraps is None
        or wraps["slot"] == name
        or _LOOP.search(code)
        or not any(_AT_END.search(head) for head in heads)
    ):
        return None
    return (f"{code[: wraps.start('end')]}, {name} ^= 1{code[wraps.start('end') :]}",)


def _uses_before(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Waits that a condition keeps back for the first uses of a ring: for the use that was so many before."""
    for n in dict.fromkeys(places):
        code = text.code(n)
        heads = (code, *(text.code(first) for first, _ in text.blocks(n)[:1]))
        late = next((m for head in heads for m in _from(head)), None)
        spot = last_operand(code, text.kind)
        if late is None or spot is None or not is_one_statement(code) or not unguarded(code):
            continue
        start, end = spot
        name, uses = late["name"], late["uses"]
        bare = code[start:end]
        before = f"{name} - {uses}"
        new = before if bare == name else re.sub(rf"(?<![\w.]){name}\b", f"({before})", bare)
        if new != bare and before not in bare:
            edit = TextEdit(file, n, (text.lines[n - 1],), (code[:start] + new + code[end:],))
            yield Repair(Mistake.LATER_PARITY, Span(file, n), f"wait for the use before: {before}", edit=edit)


def _from(head: str) -> Iterator[re.Match[str]]:
    """What a condition says of the first turn for which it holds."""
    for m in _CONDITION.finditer(head):
        found = _FROM.search(m["condition"])
        if found is not None:
            yield found


__all__ = ["state_guesses"]
