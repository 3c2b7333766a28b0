"""The row of an instruction, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from syncverify.frontends.ptx.isa.conditions import possible
from syncverify.frontends.ptx.isa.operand_types import fits
from syncverify.frontends.ptx.isa.rows import Role, Row, Slot, table
from syncverify.frontends.ptx.isa.targets import Target, needed
from syncverify.frontends.ptx.isa.words import NEEDS
from syncverify.frontends.ptx.syntax.nodes import Instr


@dataclass(frozen=True, slots=True)
class Form:
    """A row and the modifiers in its slots. ``mods``: all modifiers in the order of the row; ``slots``: the
    modifier in each slot, by its name."""

    row: Row
    words: tuple[tuple[Slot, str], ...]
    mods: tuple[str, ...]
    slots: Mapping[str, str]

    @property
    def unmodelled(self) -> str | None:
        """Why the front end does not model it; None if it does."""
        if self.row.unmodelled:
            return self.row.unmodelled
        return next((s.reason for s, _ in self.words if s.role is Role.UNMODELLED), None)

    def lacking(self, version: tuple[int, int], here: Target) -> str | None:
        """What a file's version or architecture lacks for it, in words; None if nothing."""
        for since, arch, what in _needs(self):
            if version < since:
                mine, theirs = ".".join(map(str, version)), ".".join(map(str, since))
                return f"{what} needs .version {theirs} or later, the file has {mine}"
            if here.known and not here.has(arch):
                return f"{what} needs .target {needed(arch)}, the file has {here}"
        return None


def _needs(form: Form) -> Iterator[tuple[tuple[int, int], tuple[str, ...], str]]:
    """The version and the architectures that a form and its modifiers need."""
    row = form.row
    yield row.since, row.arch, ".".join((row.opcode, *form.mods))
    for _, word in form.words:
        if word in NEEDS:
            yield *NEEDS[word], f".{word}"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an instruction, for the reader of the file."""

    text: str


@lru_cache(maxsize=1 << 14)
def forms(opcode: str, mods: tuple[str, ...]) -> tuple[Form, ...]:
    """The forms that an opcode and its modifiers may be of, whatever the operands are."""
    found = (_form(row, mods) for row in table().get(opcode, ()))
    return tuple(f for f in found if f is not None)


def _form(row: Row, mods: tuple[str, ...]) -> Form | None:
    n = len(row.head)
    if mods[:n] != row.head:
        return None
    if row.anything:
        return Form(row, (), mods, {})
    places: dict[int, int] = {}  # slot -> place of its modifier
    for at in range(n, len(mods)):
        for k, slot in enumerate(row.slots):
            if k not in places and mods[at] in slot.words:
                places[k] = at
                break
        else:
            return None
    if any(k not in places and not slot.optional for k, slot in enumerate(row.slots)):
        return None
    paired = [k in places for k, slot in enumerate(row.slots) if slot.paired]
    if any(paired) and not all(paired):
        return None
    ordered = [places[k] for k, slot in enumerate(row.slots) if slot.ordered and k in places]
    if ordered != sorted(ordered):
        return None
    words = tuple((slot, mods[places[k]]) for k, slot in enumerate(row.slots) if k in places)
    slots = {slot.name: word for slot, word in words}
    if not possible(row, slots, mods):
        return None
    return Form(row, words, (*row.head, *(word for _, word in words)), slots)


def match(instr: Instr, registers: Mapping[str, str]) -> Form | Problem:
    """The form of an instruction; ``registers``: the types of the registers of its function."""
    found = forms(instr.op, instr.mods)
    if not found:
        return Problem(_unknown(instr.op, instr.mods))
    form = next((f for f in found if fits(instr.operands, f.row, f.slots, f.mods, registers)), None)
    if form is None:
        return Problem(f"{instr.name} does not take these operands")
    return form


@lru_cache(maxsize=256)
def _unknown(opcode: str, mods: tuple[str, ...]) -> str:
    """What is wrong with an opcode or its modifiers, with what may have been meant."""
    rows = table().get(opcode)
    name = ".".join((opcode, *mods))
    if rows is None:
        likely = get_close_matches(opcode, table(), 1)
        hint = f": did you mean {'.'.join((likely[0], *mods))}?" if likely else ""
        return f"unknown instruction {name}{hint}"
    known = {word for row in rows for word in (*row.head, *(w for s in row.slots for w in s.words))}
    strange = next((at for at, word in enumerate(mods) if word not in known), None)
    others: list[tuple[str, ...]] = []
    if strange is not None:
        near = get_close_matches(mods[strange], known, 8, 0.5)
        others = [(*mods[:strange], word, *mods[strange + 1 :]) for word in near]
    others += [(*mods[:at], *mods[at + 1 :]) for at in range(len(mods))]
    meant = next((m for m in others if forms(opcode, m)), None)
    if meant is not None:
        return f"unknown instruction {name}: did you mean {'.'.join((opcode, *meant))}?"
    if strange is not None:
        return f"unknown instruction {name}: .{mods[strange]} is no modifier of {opcode}"
    return f"unknown instruction {name}: {opcode} has no form with these modifiers"
