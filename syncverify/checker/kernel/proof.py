"""What a proof consists of, and its text: the format of docs/proof_format.md.

A proof claims turns, ends and ranks, and has one tree for each obligation. The reader takes this version
only, and rejects what is missing, surplus or of another type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from syncverify.checker.kernel.hops import Drained, Half, How, Path, Program, Same, Step, Turn
from syncverify.checker.kernel.linear import ZERO, Apply, Atom, Sum, Term
from syncverify.checker.kernel.protocol import N2, U2, N, U
from syncverify.checker.kernel.trees import (
    Absurd,
    Congruent,
    Instance,
    Leaf,
    Monotone,
    Residues,
    Split,
    Tile,
    Tree,
)

FORMAT = "syncverify proof"
VERSION = 2
#: Trees and terms that are nested deeper are not read.
DEEPEST = 120


class UnreadableError(ValueError):
    """A text that is no proof of this version."""


@dataclass(frozen=True, slots=True)
class Follows:
    """The obligation's own constraints follow."""


@dataclass(frozen=True, slots=True)
class Along:
    """A path meets the obligation. ``reverse``: the second of a pair comes before the first."""

    path: Path
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class SameEvent:
    """The pair is one event."""


@dataclass(frozen=True, slots=True)
class Grows:
    """The rank grows at this level, and is not smaller at those before."""

    level: int


@dataclass(frozen=True, slots=True)
class Events:
    """Who contributes to a turn: (site, u, n). ``only``: by site, that each of its events there is one of
    these.
    """

    events: tuple[tuple[int, Term, Term], ...]
    only: dict[int, Tree] = field(default_factory=dict)


Payload = Follows | Along | SameEvent | Grows | Events


@dataclass(frozen=True, slots=True)
class Proof:
    """``shift``: see ``hops.Graph``. ``end``: of each ring, turns 0 to end - 1 are complete in the end.
    ``rank``: of each site, and of its completion; terms in u, n and parameters. ``trees``: by obligation.
    """

    shift: dict[int, int]
    end: dict[str, Term]
    rank: dict[tuple[int, bool], tuple[Term, ...]]
    trees: dict[str, Tree]


# ---------------------------------------------------------------- reading

_T = TypeVar("_T")


def _list(x: Any, length: int | None = None) -> list[Any]:
    if type(x) is not list or (length is not None and len(x) != length):
        raise UnreadableError(
            f"a list{'' if length is None else f' of {length}'} is expected, not {_short(x)}"
        )
    return x


def _int(x: Any, least: int | None = None) -> int:
    if type(x) is not int or (least is not None and x < least):
        raise UnreadableError(f"a number is expected, not {_short(x)}")
    return x


def _text(x: Any) -> str:
    if type(x) is not str:
        raise UnreadableError(f"a name is expected, not {_short(x)}")
    return x


def _short(x: Any) -> str:
    return repr(x)[:60]


def _unique(pairs: Iterable[tuple[Any, _T]]) -> dict[Any, _T]:
    out: dict[Any, _T] = {}
    for key, value in pairs:
        if key in out:
            raise UnreadableError(f"{key!r} stands twice")
        out[key] = value
    return out


def _term(x: Any, depth: int = 0) -> Term:
    if depth > DEEPEST:
        raise UnreadableError("a term is nested too deeply")
    const, *parts = _list(x)
    pairs = [_list(p, 2) for p in parts]
    atoms = _unique((_atom(a, depth + 1), _int(k)) for k, a in pairs)
    if any(k == 0 for k in atoms.values()):
        raise UnreadableError("a coefficient is 0")
    return Term(atoms, _int(const))


def _atom(x: Any, depth: int) -> Atom:
    if type(x) is str:
        return x
    f, argument = _list(x, 2)
    return Apply(_text(f), _term(argument, depth))


@dataclass(slots=True)
class _Reader:
    terms: list[Term]

    def term(self, x: Any) -> Term:
        i = _int(x, 0)
        if i >= len(self.terms):
            raise UnreadableError(f"there is no term {i}")
        return self.terms[i]

    def sum(self, x: Any) -> Sum:
        divisor, *pairs = _list(x)
        return Sum(_int(divisor, 1), tuple((_int(i, 0), _int(m, 0)) for i, m in (_list(p, 2) for p in pairs)))

    def sums(self, x: Any, count: int | None = None) -> tuple[Sum, ...]:
        return tuple(self.sum(s) for s in _list(x, count))

    def step(self, x: Any) -> Step:
        site, half, u, n = _list(x, 4)
        if half not in ("in", "out", "done"):
            raise UnreadableError(f"{_short(half)} is no point of an event")
        return Step(_int(site, 0), Half(half), self.term(u), self.term(n))

    def how(self, x: Any) -> How:
        match x:
            case ["program", level]:
                return Program(_int(level, 0))
            case ["same"]:
                return Same()
            case ["turn"]:
                return Turn()
            case ["drained", commits, levels, twin]:
                steps = tuple(self.step(c) for c in _list(commits))
                site = None if twin is None else _int(twin, 0)
                return Drained(steps, tuple(_int(level, 0) for level in _list(levels)), site)
        raise UnreadableError(f"{_short(x)} is no hop")

    def payload(self, x: Any, depth: int) -> Payload:
        match x:
            case ["follows"]:
                return Follows()
            case ["same"]:
                return SameEvent()
            case ["grows", level]:
                return Grows(_int(level, 0))
            case ["along" | "reverse" as way, hops]:
                pairs = [_list(h, 2) for h in _list(hops)]
                return Along(tuple((self.how(h), self.step(s)) for h, s in pairs), way == "reverse")
            case ["events", events, only]:
                found = [_list(e, 3) for e in _list(events)]
                trees = [_list(o, 2) for o in _list(only)]
                return Events(
                    tuple((_int(i, 0), self.term(u), self.term(n)) for i, u, n in found),
                    _unique((_int(i, 0), self.tree(t, depth + 1)) for i, t in trees),
                )
        raise UnreadableError(f"{_short(x)} does not meet an obligation")

    def tree(self, x: Any, depth: int = 0) -> Tree:
        if depth > DEEPEST:
            raise UnreadableError("a tree is nested too deeply")

        def kid(t: Any) -> Tree:
            return self.tree(t, depth + 1)

        match x:
            case ["split", term, yes, no]:
                return Split(self.term(term), kid(yes), kid(no))
            case ["residues", term, name, kids]:
                return Residues(self.term(term), _text(name), tuple(kid(k) for k in _list(kids)))
            case ["tile", f, term, top, name, by, rest]:
                a, b, c = self.sums(by, 3)
                return Tile(_text(f), self.term(term), self.term(top), _text(name), (a, b, c), kid(rest))
            case ["monotone", f, low, high, by, rest]:
                return Monotone(_text(f), self.term(low), self.term(high), self.sum(by), kid(rest))
            case ["congruent", f, a, b, by, rest]:
                up, down = self.sums(by, 2)
                return Congruent(_text(f), self.term(a), self.term(b), (up, down), kid(rest))
            case ["instance", schema, term, rest]:
                return Instance(_int(schema, 0), self.term(term), kid(rest))
            case ["absurd", by]:
                return Absurd(self.sum(by))
            case ["leaf", payload, by]:
                return Leaf(self.payload(payload, depth), self.sums(by))
        raise UnreadableError(f"{_short(x)} is no tree")


def _fields(x: Any, names: Iterable[str]) -> list[Any]:
    if type(x) is not dict or set(x) != set(names):
        raise UnreadableError("fields are missing, or there are others")
    return [x[n] for n in names]


def read(data: Any) -> Proof:
    """The proof that plain data is; UnreadableError for what is none."""
    try:
        return _read(data)
    except (ValueError, TypeError, RecursionError) as e:
        raise UnreadableError(str(e)) from None


def _read(data: Any) -> Proof:
    names = ("format", "version", "terms", "shift", "end", "rank", "trees")
    form, version, terms, shift, end, rank, trees = _fields(data, names)
    if form != FORMAT or type(version) is not int or version != VERSION:
        raise UnreadableError(f"version {_short(version)} of {_short(form)} is not read")
    own = {t: t for t in (U, N, U2, N2, ZERO)}
    r = _Reader([own.get(x, x) for x in map(_term, _list(terms))])
    ranks = [_list(x, 3) for x in _list(rank)]
    if any(type(done) is not bool for _, done, _ in ranks):
        raise UnreadableError("a truth value is expected")
    return Proof(
        _unique((_int(i, 0), _int(k)) for i, k in (_list(x, 2) for x in _list(shift))),
        _named(end, r.term),
        _unique(((_int(i, 0), done), tuple(r.term(t) for t in _list(ts))) for i, done, ts in ranks),
        _named(trees, r.tree),
    )


def _named(x: Any, value: Callable[[Any], _T]) -> dict[str, _T]:
    if type(x) is not dict:
        raise UnreadableError("an object is expected")
    return {_text(k): value(v) for k, v in x.items()}
