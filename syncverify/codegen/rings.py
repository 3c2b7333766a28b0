"""Slots and parities of circular buffers as counters that wrap, instead of divisions by their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from syncverify.base.source import Span
from syncverify.ir.expr import Binary, Expr, Int, Var, walk
from syncverify.ir.nodes import For, Stmt

#: A use of a ring: the loop's variable plus a constant, and the number of slots.
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Ring:
    """The counters for ``(i + offset) % slots`` and, if asked for, ``(i + offset) // slots % 2``."""

    key: Key
    slot: str
    parity: str | None

    @property
    def start(self) -> tuple[int, int]:
        """Both for ``i = 0``."""
        _, offset, slots = self.key
        return offset % slots, offset // slots % 2

    def declaration(self) -> str:
        slot, parity = self.start
        return f"int {self.slot} = {slot}" + (f", {self.parity} = {parity};" if self.parity else ";")

    def advance(self) -> str:
        slots = self.key[2]
        if self.parity is None:
            return f"{self.slot} = {self.slot} == {slots - 1} ? 0 : {self.slot} + 1;"
        return f"if (++{self.slot} == {slots}) {{ {self.slot} = 0; {self.parity} ^= 1; }}"


def slot_of(e: Expr) -> Key | None:
    """The ring whose slot an expression is."""
    match e:
        case Binary("%", use, Int(slots)) if slots > 1:
            return _use(use, slots)
    return None


def parity_of(e: Expr) -> tuple[Key, int] | None:
    """The ring whose parity an expression is, and whether it is the other one."""
    match e:
        case Binary("%", Binary("+", Binary("//", use, Int(slots)), Int(odd)), Int(2)):
            key = _use(use, slots)
            return None if key is None else (key, odd % 2)
        case Binary("%", Binary("//", use, Int(slots)), Int(2)):
            key = _use(use, slots)
            return None if key is None else (key, 0)
    return None


def _use(e: Expr, slots: int) -> Key | None:
    match e:
        case Var(name):
            return name, 0, slots
        case Binary("+" | "-" as op, Var(name), Int(by)):
            return name, by if op == "+" else -by, slots
    return None


def rings_of(loop: For, taken: set[str]) -> list[Ring]:
    """The rings that a loop from 0 in steps of 1 goes round; ``taken``: names that are no longer free."""
    if loop.lo != Int(0) or loop.step != Int(1):
        return []
    found: dict[Key, bool] = {}
    for e in _expressions(loop.body):
        parity, slot = parity_of(e), slot_of(e)
        if parity is not None and parity[0][0] == loop.var:
            found[parity[0]] = True
        elif slot is not None and slot[0] == loop.var:
            found.setdefault(slot, False)
    return [
        Ring(key, _free(f"{loop.var}_slot", taken), _free(f"{loop.var}_parity", taken) if parity else None)
        for key, parity in found.items()
    ]


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while (tried := name if number == 1 else f"{name}{number}") in taken:
        number += 1
    taken.add(tried)
    return tried


def _expressions(x: Any) -> Iterator[Expr]:
    """Every expression below statements."""
    if isinstance(x, Expr):
        yield from walk(x)
    elif isinstance(x, Sequence) and not isinstance(x, str):
        for y in x:
            yield from _expressions(y)
    elif isinstance(x, Stmt) or (is_dataclass(x) and not isinstance(x, Span)):
        for f in fields(x):
            yield from _expressions(getattr(x, f.name))


__all__ = ["Key", "Ring", "parity_of", "rings_of", "slot_of"]
