"""Agents of one class at several places of a ring: what code does to the same registers is done once.

All of them step on one path, and code that reads nothing but registers comes to the same wherever these hold
the same: the same values, the same event, the same open question. See the product of runs,
``checker/prover/reach/ring/product.py``.

Of a block two parts are distinguished: what its end (an event, a branch) needs, and the rest. Where a block
counts on round the ring and asks whether its loop goes on, the question is the same at all places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from syncverify.frontends.ptx.compile.state import CONTEXT, MASK, PARTED, PC, QUEUE, Registers, Run
from syncverify.frontends.ptx.values.register_values import INTS
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.model.events import Event
from syncverify.symbolic.context import UndecidedBranch

_SLOT = re.compile(r"\br\[(\d+)\]")
_PLAIN = re.compile(r" r\[(\d+)\] = (?!=)")
_GUARD = re.compile(r"v = (?:decided\()?r\[(\d+)\]\)?")
_HELPER = re.compile(r"\b(\w+)\(r\b(?!\[)")
#: Helpers that look at registers, the class and its lanes, and at nothing else of the agent; so do those that
#: make the events of an instruction (``c12``).
_OF_REGISTERS = frozenset("AMONG B D ELECT G H agreed".split())
_OF_EVENTS = re.compile(r"c\d+")
#: What they look at.
_OF_LANES = (QUEUE, CONTEXT, MASK, PARTED)


@dataclass(frozen=True, slots=True, eq=False)
class BlockPart:
    """Lines of a block: what they read and write. ``guards``: what holds plain numbers, or else more may be
    written."""

    run: Run
    numbers: tuple[int, ...]  # that they read
    reads: Callable[[Registers], tuple[Any, ...]]
    slots: tuple[int, ...]
    writes: Callable[[Registers], tuple[Any, ...]]
    guards: tuple[int, ...]

    def plain(self, r: Registers) -> bool:
        """Whether nothing was written but ``slots``."""
        return all(r[s].__class__ in INTS for s in self.guards)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a part did: values of its slots and an event, or a question. ``read``: kept, so that what names
    them names nothing else."""

    read: tuple[Any, ...]
    written: tuple[Any, ...] = ()
    event: Event | None = None
    question: UndecidedBranch | None = None


@dataclass(slots=True)
class StepMemo:
    """What parts of blocks did to the same registers in one step of a class; ``soon``: those that read
    numbers alone, which are sooner run than looked up."""

    done: dict[tuple[Hashable, ...], StepResult] = field(default_factory=dict)
    soon: dict[BlockPart, bool] = field(default_factory=dict)

    def run(self, part: BlockPart, r: Registers, answer: Any) -> Event | None:
        """Runs a part, or what it did before. Raises what it raises."""
        soon = self.soon.get(part)
        if soon is None:
            soon = self.soon[part] = all(r[s].__class__ in INTS for s in part.numbers)
        if soon:
            return part.run(r, answer)
        read = part.reads(r)
        key = (part, _name(answer), *[v if v.__class__ is int else _name(v) for v in read])
        done = self.done.get(key)
        if done is None:
            return self._first(part, r, answer, key, read)
        if done.question is not None:
            raise done.question.with_traceback(None)
        for slot, value in zip(part.slots, done.written, strict=True):
            r[slot] = value
        return done.event

    def _first(
        self, part: BlockPart, r: Registers, answer: Any, key: tuple[Hashable, ...], read: tuple[Any, ...]
    ) -> Event | None:
        try:
            event = part.run(r, answer)
        except UndecidedBranch as e:
            self.done[key] = StepResult(read, question=e)
            raise
        if part.plain(r):
            self.done[key] = StepResult(read, part.writes(r), event)
        return event


def _name(value: Any) -> Hashable:
    """Equal for values that are the same."""
    if value.__class__ in INTS:
        return int(value)
    if value.__class__ is SymbolicWord:
        return id(value.term), value.bits, value.kind
    return (id(value),)


# ------------------------------------------------------------------ parts of a text


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a part, and the slots that it writes."""

    text: list[str]
    slots: frozenset[int]

    def part(self, run: Run) -> BlockPart:
        numbers, written = set[int](), set[int]()
        for line in self.text:
            m = _PLAIN.match(line)
            numbers |= _slots(line[m.end() :] if m is not None else line) - written
            written |= set() if m is None else {int(m[1])}
        every = tuple(sorted(numbers | {*_OF_LANES}))
        slots = tuple(sorted({*self.slots, PC, QUEUE}))
        guards = {int(s) for line in self.text for s in _GUARD.findall(line) if _asks(self.text)}
        known = tuple(sorted(numbers - {PC, *_OF_LANES}))
        return BlockPart(run, known, itemgetter(*every), slots, itemgetter(*slots), tuple(sorted(guards)))


def parts_of(lines: list[str], slots: Iterable[int]) -> list[Lines]:
    """The parts of a function that reads registers alone, its end last; none where it reads more. ``slots``:
    those that it writes."""
    names = {name for line in lines for name in _HELPER.findall(line)}
    if not all(name in _OF_REGISTERS or _OF_EVENTS.fullmatch(name) for name in names):
        return []
    first = next((n for n, line in enumerate(lines) if not _PLAIN.match(line) or _HELPER.search(line)), 0)
    if first == 0:
        return [Lines(lines, frozenset(slots))]
    needed = _needed(lines, first)
    rest = [line for n, line in enumerate(lines) if n not in needed]
    end = [line for n, line in enumerate(lines) if n in needed]
    written = {int(_PLAIN.match(line)[1]) for line in rest}  # type: ignore[index]
    found = [Lines(rest, frozenset(written))] if rest else []
    return [*found, Lines(end, frozenset(slots) - written)]


def _needed(lines: list[str], first: int) -> set[int]:
    """The lines from ``first`` on, with those before that must run in order with them."""
    found = set(range(first, len(lines)))
    touched = {s for line in lines[first:] for s in _slots(line)}
    written = {s for line in lines[first:] for s in _slots(line)}
    again = True
    while again:
        again = False
        for n in range(first):
            m = _PLAIN.match(lines[n])
            assert m is not None
            if n not in found and (int(m[1]) in touched or not written.isdisjoint(_slots(lines[n]))):
                found.add(n)
                touched |= _slots(lines[n])
                written.add(int(m[1]))
                again = True
    return found


def _slots(text: str) -> set[int]:
    return {int(s) for s in _SLOT.findall(text)}


def _asks(lines: list[str]) -> bool:
    return any("D(r" in line for line in lines)


class Blocks:
    """The parts of the blocks of a program, made when they are first asked for. ``text``: lines by label;
    ``saved``: the slots that each writes; ``names``: what the text names."""

    def __init__(
        self, text: dict[int, list[str]], saved: Mapping[int, tuple[int, ...]], names: dict[str, Any]
    ) -> None:
        self._text, self._saved, self._names = text, saved, names
        self._found: dict[int, tuple[BlockPart, ...]] = {}

    def at(self, label: int) -> tuple[BlockPart, ...]:
        """The parts of a block, in order; none if it does more than they may."""
        found = self._found.get(label)
        if found is None:
            found = self._found[label] = tuple(self._made(label))
        return found

    def _made(self, label: int) -> Iterator[BlockPart]:
        lines = self._text.get(label)
        some = [] if lines is None or label not in self._saved else parts_of(lines, self._saved[label])
        for part in some:
            if len(some) == 1:
                yield part.part(self._names[f"b{label}"])
                continue
            space: dict[str, Any] = {}
            exec("\n".join(["def run(r, a):", *part.text]), self._names, space)
            yield part.part(space["run"])


__all__ = ["BlockPart", "Blocks", "Lines", "StepMemo", "parts_of"]
