"""Claims about registers as plain data, in certificates: the grammar is in docs/proof_format.md.

What is read is a claim like any other: the reading of the agents has to bear it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from syncverify.checker.induction.claims import ANY, KEPT, MOVES, Claim, Form, Header, Lanes
from syncverify.checker.induction.program import Claimed
from syncverify.checker.induction.words import Stored

_T = TypeVar("_T")
#: Claims of a register in one word.
_WORDS = {f.shape(): f for f in (ANY, KEPT, MOVES)}


class MalformedClaimError(ValueError):
    """Data that is no claim."""


def read(data: Any) -> Claimed:
    """The claims that plain data is; MalformedClaimError for what is none."""
    try:
        return _read(data)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as e:
        raise MalformedClaimError(str(e)) from None


def _read(data: Any) -> Claimed:
    if type(data) is not dict or set(data) != {"splits", "claims", "of"}:
        raise MalformedClaimError("fields are missing, or there are others")
    splits = tuple((_int(cls), tuple(_int(x) for x in _list(parts))) for cls, parts in _list(data["splits"]))
    table = [_claim(c) for c in _list(data["claims"])]
    of = [_int(i) for i in _list(data["of"])]
    if set(of) != set(range(len(table))):
        raise MalformedClaimError("a claim of no class, or a class of no claim")
    return Claimed(tuple(table[i] for i in of), splits)


def _claim(x: Any) -> Claim:
    steps, tiles, headers, *held = _list(x)
    if _int(steps) < 1 or _int(tiles) < 1:
        raise MalformedClaimError("a period below 1")
    found = tuple(_once((h.place, h) for h in map(_header, _list(headers))).values())
    if not held:
        return Claim(steps, tiles, found)
    words, versions = held
    stored = tuple(Stored(*(_int(y) for y in _list(w))) for w in _list(words))
    if any(w.size < 1 for w in stored):
        raise MalformedClaimError("a word of no bytes")
    return Claim(steps, tiles, found, stored, tuple(_int(y) for y in _list(versions)))


def _header(x: Any) -> Header:
    place, tiles, outer, late, forms, *more = _list(x)
    apart = late == "apart"
    late = True if apart else late
    if type(tiles) is not bool or type(late) is not bool or (tiles and late and not apart):
        raise MalformedClaimError("a truth value is expected")
    if len(more) > 6:
        raise MalformedClaimError("a header has eleven parts at most")
    default: list[Any] = [[], [], 0, None, 0, 1]
    others, begins, ahead, trip, first, stride = [*more, *default[len(more) :]]
    steps = None if trip is None else _slot([0, trip])[1]
    kept = tuple((_int(r), _int(end), _once(_slot(s) for s in _list(some))) for r, end, some in _list(begins))
    around = None if outer is None else _int(outer)
    return Header(
        _int(place),
        tiles,
        around,
        late,
        _by_residue(forms),
        _by_residue(others),
        kept,
        _int(ahead),
        steps,
        apart,
        _int(first),
        _int(stride),
    )


def _by_residue(x: Any) -> dict[tuple[int, int], dict[Any, Form]]:
    return _once(((_int(r), _int(q)), _once(_slot(s) for s in _list(some))) for r, q, some in _list(x))


def _once(pairs: Iterable[tuple[Any, _T]]) -> dict[Any, _T]:
    """A table in which nothing is said twice."""
    every = list(pairs)
    if len(found := dict(every)) != len(every):
        raise MalformedClaimError("one thing is said twice")
    return found


def _slot(x: Any) -> tuple[Any, Form]:
    slot, form = _list(x)
    key: Any = tuple(slot) if type(slot) is list else slot if type(slot) is str else _int(slot)
    if type(form) is str:
        return key, _WORDS[form]
    if _list(form)[:1] == ["lanes"]:
        return key, Lanes(tuple(_int(y) for y in form[1:]))
    c, *parts = form
    return key, Form(_int(c), tuple((_text(name), _int(k)) for name, k in parts))


def _list(x: Any) -> list[Any]:
    if type(x) is not list:
        raise MalformedClaimError(f"a list is expected, not {x!r}"[:80])
    return x


def _int(x: Any) -> int:
    if type(x) is not int:
        raise MalformedClaimError(f"a number is expected, not {x!r}"[:80])
    return x


def _text(x: Any) -> str:
    if type(x) is not str:
        raise MalformedClaimError(f"a name is expected, not {x!r}"[:80])
    return x
