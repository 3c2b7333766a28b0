"""A row of the table: one form of an instruction; and how rows are written.

A line is ``name modifiers ; operands ; attributes``, for instance

    cp.async.ca <TO:SHARED <FROM:global ~HINT? ; a a i k? s:b64? ; ptx=7.0 arch=80

- The name with its dots is the head: ptxas reads it as one word, so that its parts come in this order.
- A modifier is a word, words to choose from (``row|col``) or a set of ``words.SETS``; ``NAME:`` gives its
  slot a name. ``?``: it may be left out. ``~``: it has no effect on synchronization, ``!``: no instruction
  with it is modelled (both with a reason in ``words``). Every other one is read. Modifiers come in any order
  (ptxas takes them so), but those with ``<`` and types (slots of one letter) in theirs, and of two slots
  for one word the first is filled first. ``&``: with the others so marked, or none of them. ``...``: any.
- Operands: ``d:T`` a destination of the type that slot ``T`` holds, ``s:T`` a source, ``r:T`` a register,
  ``m:T`` a source or the address of a variable, ``x:T`` a source or a special register, ``M:T`` any of these,
  ``L:T`` and ``S:T`` what is loaded or stored (a vector where ``VEC`` says so), ``u:T`` and ``U:T`` a
  destination as ``d`` and ``L``, or ``_``, ``p``, ``o`` and ``P`` a predicate to write (``o``: or ``_``;
  ``P``: also two, ``p|q``), ``D:T`` and ``E:T`` a word and a predicate (``d|p``; of ``D`` the predicate may
  lack), ``q`` and ``Q`` a predicate to read (``q``: or a number), ``a`` an address, ``t`` a tensor map with
  coordinates, ``i`` a number, ``h`` a cache policy (where ``HINT`` is filled), ``k`` a number of bytes or a
  predicate, ``v`` a vector, ``l`` a label, ``_`` the sink, ``*`` anything. ``~`` after the kind: the register
  may be wider; ``2T``: twice as wide; type ``a``: as wide as an address.
- Attributes: ``ptx=`` the first version, ``arch=`` the architectures (``targets.Target.has``), ``mask=`` who
  executes it together, ``!reason``: it is not modelled.
- ``@chapter`` and ``@effect`` hold for the rows that follow.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from syncverify.frontends.ptx.isa.groups import TEXTS
from syncverify.frontends.ptx.isa.words import HARMLESS, SETS, UNMODELLED

#: The version of what is older than all that this table distinguishes.
OLDEST = (1, 0)


class Role(enum.Enum):
    """What becomes of a modifier."""

    READ = "read"
    HARMLESS = "no effect on synchronization"
    UNMODELLED = "not modelled"


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one modifier of some; ``reason``: why it is harmless, or not modelled."""

    name: str
    words: tuple[str, ...]
    optional: bool = False
    ordered: bool = False
    paired: bool = False
    role: Role = Role.READ
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OperandKind:
    """What may stand at an operand's place; ``type``: a slot's name, or a type."""

    kind: str
    type: str = ""
    wider: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Row:
    """A form of an instruction. ``mask``: who executes it together (``operand``: the lanes that a mask
    names; ``aligned``: all threads of the warp; ``warp``; ``warpgroup``). ``unmodelled``: why it is not."""

    opcode: str
    head: tuple[str, ...]
    slots: tuple[Slot, ...]
    operands: tuple[OperandKind, ...]
    effect: str
    chapter: str
    since: tuple[int, int] = OLDEST
    arch: tuple[str, ...] = ()
    mask: str = ""
    unmodelled: str = ""
    anything: bool = False  # whatever modifiers follow

    @cached_property
    def name(self) -> str:
        return ".".join((self.opcode, *self.head))

    @cached_property
    def section(self) -> str:
        """The title of the section of the ISA that describes it."""
        return f"{self.chapter}: {self.name}"

    def slot(self, name: str) -> Slot | None:
        return next((s for s in self.slots if s.name == name), None)


@lru_cache(maxsize=1)
def table() -> dict[str, tuple[Row, ...]]:
    """All rows, by opcode."""
    found: dict[str, list[Row]] = {}
    for text in TEXTS:
        for row in read(text):
            found.setdefault(row.opcode, []).append(row)
    return {opcode: tuple(rows) for opcode, rows in found.items()}


def read(text: str) -> Iterator[Row]:
    """The rows of a chapter's text."""
    chapter = effect = ""
    for line in text.splitlines():
        if line.startswith("@chapter "):
            chapter = line.removeprefix("@chapter ")
        elif line.startswith("@effect "):
            effect = line.removeprefix("@effect ")
        elif line:
            yield _row(line, chapter, effect)


def _row(line: str, chapter: str, effect: str) -> Row:
    modifiers, operands, *attributes = (part.strip() for part in line.split(";"))
    name, *tokens = modifiers.split()
    opcode, *head = name.split(".")
    known, _, unmodelled = (attributes[0] if attributes else "").partition("!")
    given = dict(token.split("=") for token in known.split())
    major, _, minor = given.get("ptx", "1.0").partition(".")
    return Row(
        opcode=opcode,
        head=tuple(head),
        slots=tuple(_slot(token) for token in tokens if token != "..."),
        operands=tuple(map(_operand, operands.split())),
        effect=effect,
        chapter=chapter,
        since=(int(major), int(minor)),
        arch=tuple(given["arch"].split(",")) if "arch" in given else (),
        mask=given.get("mask", ""),
        unmodelled=unmodelled,
        anything="..." in tokens,
    )


def _slot(token: str) -> Slot:
    rest = token.lstrip("~!<&")
    marks = token[: len(token) - len(rest)]
    optional = rest.endswith("?")
    rest = rest.removesuffix("?")
    head, colon, tail = rest.partition(":")
    named = bool(colon) and not tail.startswith(":") and not head.endswith(":")
    name, choice = (head, tail) if named else (rest, rest)
    words = SETS.get(choice) or tuple(word for part in choice.split("|") for word in SETS.get(part, (part,)))
    role = Role.HARMLESS if "~" in marks else Role.UNMODELLED if "!" in marks else Role.READ
    reason = ""
    if role is not Role.READ:
        reasons = HARMLESS if role is Role.HARMLESS else UNMODELLED
        reason = reasons[name]
    ordered = "<" in marks or (len(name) == 1 and name.isupper())
    return Slot(name, words, optional, ordered, "&" in marks, role, reason)


def _operand(token: str) -> OperandKind:
    optional = token.endswith("?")
    kind, _, type_ = token.removesuffix("?").partition(":")
    return OperandKind(kind.removesuffix("~"), type_, kind.endswith("~"), optional)
