"""Equal values of a certificate, written once: ``"@3"`` refers to the fourth value of a table.

A list of the table may refer to what is before it. In a list, ``"@3 5*2"`` refers to three values that are
there one after the other, the last two of them the same. No name in a proof begins with ``@``.
"""

from __future__ import annotations

import json
import string
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from typing import Any

from syncverify.base.certificate_data import RejectedError

#: Begins references to values.
MARK = "@"
#: Digits of its number.
DIGITS = f"{string.digits}{string.ascii_letters}"
#: Characters of a reference, with the comma.
_REFERENCE = 3


def shared(data: Any) -> tuple[list[Any], Any]:
    """The table of the values that are in some data several times, and the same data by it."""
    seen = _Values()
    found = seen.key(data)
    seen.used([found])
    return seen.table(), seen.text(found)


def expanded(table: Sequence[Any], data: Any, where: str) -> Any:
    """What ``shared`` made a table of; RejectedError where something else is referred to."""
    known: list[Any] = []

    def of(text: str) -> list[Any]:
        out: list[Any] = []
        for word in text.removeprefix(MARK).split(" "):
            which, repeated, often = word.partition("*")
            at, times = _number(which), _number(often if repeated else "1")
            if at is None or at >= len(known) or times is None:
                raise RejectedError(where, f"{text[:20]!r} refers to no value")
            out += [known[at]] * times
        return out

    def whole(x: Any) -> Any:
        if type(x) is dict:
            return {key: whole(y) for key, y in x.items()}
        if type(x) is list:
            return [z for y in x for z in (of(y) if _refers(y) else [whole(y)])]
        if not _refers(x):
            return x
        if len(found := of(x)) != 1:
            raise RejectedError(where, f"{x[:20]!r} does not refer to one value")
        return found[0]

    try:
        for x in table:
            known.append(whole(x))
        return whole(data)
    except RecursionError:
        raise RejectedError(where, "lists are nested too deeply") from None


def _refers(x: Any) -> bool:
    return type(x) is str and x.startswith(MARK)


def _number(text: str) -> int | None:
    """The number that ``_digits`` writes so; None for none, or one of more than four digits."""
    if not 0 < len(text) <= 4 or not set(text) <= set(DIGITS):
        return None
    return reduce(lambda n, digit: n * len(DIGITS) + DIGITS.index(digit), text, 0)


def _digits(number: int) -> str:
    more, last = divmod(number, len(DIGITS))
    return (_digits(more) if more else "") + DIGITS[last]


class _At(int):
    """The number of a value, apart from numbers in lists."""

    def __hash__(self) -> int:
        return hash((MARK, int(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _At) and int(self) == int(other)


class _Values:
    """Every different value once, those inside it first. Objects, and lists of such, stay where they are."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[type, Any], _At] = {}
        self.values: list[Any] = []
        self.uses: Counter[_At] = Counter()
        self.places: dict[_At, int] = {}  # in the table

    def used(self, some: Sequence[Any]) -> None:
        self.uses.update(x for x in some if isinstance(x, _At))

    def key(self, x: Any) -> Any:
        if type(x) is dict:
            some = {name: self.key(y) for name, y in x.items()}
            self.used([*some.values()])
            return some
        if type(x) is not list:
            return x
        inside = [*map(self.key, x)]
        if any(type(y) in (dict, list) for y in inside):
            self.used(inside)
            return inside
        return self.number(tuple(y if isinstance(y, _At) else self.number(y) for y in inside))

    def number(self, x: Any) -> _At:
        known = (type(x), x)  # 1 and true are equal, but not the same
        if known not in self.numbers:
            self.numbers[known] = _At(len(self.values))
            self.values.append(x)
            if isinstance(x, tuple):
                self.used(x)
        return self.numbers[known]

    def table(self) -> list[Any]:
        """The values that are worth it."""
        length: list[int] = []
        out: list[Any] = []
        for i, x in enumerate(self.values):
            inside = (_REFERENCE if y in self.places else length[y] for y in x) if type(x) is tuple else ()
            length.append(3 + sum(inside) if type(x) is tuple else len(json.dumps(x)) + 1)
            uses = self.uses[_At(i)]
            if (uses - 1) * length[i] > uses * _REFERENCE:
                out.append(self.row(x) if isinstance(x, tuple) else x)
                self.places[_At(i)] = len(out) - 1
        return out

    def row(self, some: Sequence[Any]) -> list[Any]:
        """A list by references, those that follow each other in one."""
        out: list[Any] = []
        for at, same in groupby(some, lambda x: self.places.get(x) if isinstance(x, _At) else None):
            if at is None:
                out += map(self.text, same)
                continue
            times = len([*same])
            word = _digits(at) if times == 1 else f"{_digits(at)}*{_digits(times)}"
            if out and _refers(out[-1]):
                out[-1] += f" {word}"
            else:
                out.append(MARK + word)
        return out

    def text(self, x: Any) -> Any:
        if type(x) is dict:
            return {name: self.text(y) for name, y in x.items()}
        if type(x) is list:
            return self.row(x)
        if not isinstance(x, _At):
            return x
        if x in self.places:
            return f"{MARK}{_digits(self.places[x])}"
        value = self.values[x]
        return self.row(value) if isinstance(value, tuple) else value


__all__ = ["expanded", "shared"]
