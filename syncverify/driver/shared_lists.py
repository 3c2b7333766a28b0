"""Equal lists of a certificate, written once: ``"@3"`` refers to the fourth list of a table.

A list of the table may refer to those before it. No name in a proof begins with ``@``. Names that differ in
their last word alone stand together: ``{"O1 7": {"7": x, "8": y}}`` is of ``O1 7 7`` and ``O1 7 8``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from syncverify.base.certificate_data import RejectedError

#: Begins a reference to a list. Shorter lists are written where they are.
MARK = "@"
SHORTEST = 10
#: Characters of a reference, with the comma.
_REFERENCE = 7


def shared(some: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The table, and the same data by it, with the names together."""
    seen = _Lists()
    found = {key: seen.key(x) for key, x in some.items()}
    seen.uses.update(x for x in found.values() if isinstance(x, _At))
    return seen.table(), _together({key: seen.text(x) for key, x in found.items()})


def expanded(table: Sequence[Any], some: dict[str, Any], where: str) -> dict[str, Any]:
    """What ``shared`` made a table of; RejectedError where something else is referred to."""
    known: list[Any] = []

    def whole(x: Any) -> Any:
        if type(x) is list:
            return [whole(y) for y in x]
        if type(x) is not str or not x.startswith(MARK):
            return x
        number = x.removeprefix(MARK)
        if not number.isdecimal() or int(number) >= len(known):
            raise RejectedError(where, f"{x[:20]!r} refers to no list")
        return known[int(number)]

    try:
        for x in table:
            known.append(whole(x))
        return {key: whole(x) for key, x in _apart(some, where).items()}
    except RecursionError:
        raise RejectedError(where, "lists are nested too deeply") from None


def _together(some: dict[str, Any]) -> dict[str, Any]:
    """The data by names without their last word, then by that; one word alone stands under no word."""
    out: dict[str, Any] = {}
    for name, x in some.items():
        first, _, last = name.rpartition(" ")
        out.setdefault(first, {})[last] = x
    return out


def _apart(some: dict[str, Any], where: str) -> dict[str, Any]:
    """The same by whole names, some of which may be whole already; RejectedError where one stands twice."""
    out: dict[str, Any] = {}
    for first, x in some.items():
        inside = x if type(x) is dict else {first: x}
        before = f"{first} " if inside is x and first else ""
        for last, y in inside.items():
            if before + last in out:
                raise RejectedError(where, f"{before}{last} is there twice")
            out[before + last] = y
    return out


class _At(int):
    """The number of a list, apart from numbers in lists."""

    def __hash__(self) -> int:
        return hash((MARK, int(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _At) and int(self) == int(other)


class _Lists:
    """Every different list once, those inside it first."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], _At] = {}
        self.lists: list[tuple[Any, ...]] = []
        self.uses: Counter[_At] = Counter()
        self.places: dict[_At, int] = {}  # in the table

    def key(self, x: Any) -> Any:
        if type(x) is not list:
            return x
        inside = tuple(map(self.key, x))
        known = tuple((type(y), y) for y in inside)  # 1 and true are equal, but not the same
        if known not in self.numbers:
            self.numbers[known] = _At(len(self.lists))
            self.lists.append(inside)
            self.uses.update(y for y in inside if isinstance(y, _At))
        return self.numbers[known]

    def table(self) -> list[Any]:
        """The lists that are worth it."""
        length: list[int] = []
        out: list[Any] = []
        for i, some in enumerate(self.lists):
            parts = (
                _REFERENCE if y in self.places else length[y] if isinstance(y, _At) else len(repr(y)) + 1
                for y in some
            )
            length.append(2 + sum(parts))
            if self.uses[_At(i)] > 1 and length[i] > SHORTEST:
                out.append([self.text(y) for y in some])
                self.places[_At(i)] = len(out) - 1
        return out

    def text(self, x: Any) -> Any:
        if not isinstance(x, _At):
            return x
        if x in self.places:
            return f"{MARK}{self.places[x]}"
        return [self.text(y) for y in self.lists[x]]


__all__ = ["expanded", "shared"]
