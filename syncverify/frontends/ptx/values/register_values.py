"""What registers hold: ints, one value per lane, data.

Generated code computes with Python's operators; the classes here answer them, so that the usual case, ints,
costs nothing. Predicates are 0 or 1. Equality is asked by ``arith.equal``, never by ``==``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from syncverify.base.reason import Cause, Reason

#: Classes of plain numbers; comparisons yield bools.
INTS: frozenset[Any] = frozenset({int, bool})
#: Source of what is computed from a register that no instruction has written.
UNWRITTEN = "unwritten"
#: Sources of values that the block's place in the grid decides.
PLACES = ("ctaid", "grid")
#: Sources of values that may decide whether, and where, an access to shared memory is made.
DECIDING = frozenset({"data", "param", *PLACES})
WARP = 32


class Unknown:
    """A value that the analysis does not have: ``why`` completes "control depends on ...".

    ``source`` groups values by what would have to be known: ``data``, ``ctaid``, ``grid``, ``param``,
    ``lane`` (of lanes that took another path). ``key``: names one value that is the same for all agents
    whenever it is asked for; a comparison with a constant then has one answer, and both can be tried.
    """

    __slots__ = ("_derived", "key", "source", "why")

    def __init__(self, why: str, source: str = "data", key: tuple[Any, ...] | None = None) -> None:
        self.why = why
        self.source = source
        self.key = key
        self._derived: Unknown | None = None

    def __repr__(self) -> str:
        return f"<{self.why}>"

    def derived(self) -> Unknown:
        """What is computed from this value."""
        if self.key is None:
            return self
        if self._derived is None:
            self._derived = Unknown(self.why, self.source)
        return self._derived

    def _same(self, *_: Any) -> Unknown:
        return self.derived()

    def _unless_zero(self, o: Any) -> Any:
        if o.__class__ in INTS and o in (0, 1):
            return self if o and is_choice(self) else 0 if not o else self.derived()
        return self.derived()

    def _and(self, o: Any) -> Any:
        """A choice is one bit: a mask keeps it or not."""
        if o.__class__ in INTS and is_choice(self):
            return self if o & 1 else 0
        return 0 if o.__class__ in INTS and not o else self.derived()

    def _unless_one(self, o: Any) -> Any:
        if o.__class__ in INTS and o in (0, 1) and is_choice(self):
            return 1 if o else self
        return self.derived()

    def _xor(self, o: Any) -> Any:
        """A negated choice is still a choice."""
        if self.key is not None and self.key[0] == "choice" and o.__class__ in INTS and o in (0, 1):
            return choice(self.why, self.source, (*self.key[1:-1], not self.key[-1])) if o else self
        return self.derived()

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _same
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = _same
    __or__ = __ror__ = _unless_one
    __xor__ = __rxor__ = _xor
    __mul__ = __rmul__ = _unless_zero
    __and__ = __rand__ = _and

    def __bool__(self) -> bool:
        raise TypeError(f"a decision on {self.why}")


_CHOICES: dict[tuple[Any, ...], Unknown] = {}


def choice(why: str, source: str, question: tuple[Any, ...]) -> Unknown:
    """The answer, 0 or 1, to a question about a value with a key; ``question`` ends with whether it stands
    as asked or negated. Equal questions give one object."""
    found = _CHOICES.get(question)
    if found is None:
        found = _CHOICES[question] = Unknown(why, source, ("choice", *question))
    return found


def is_choice(value: Unknown) -> bool:
    """Whether a value is the answer, 0 or 1, to a question that has one for all agents."""
    return value.key is not None and value.key[0] == "choice"


#: What a lane that took another path would hold.
ELSEWHERE = Unknown(Reason("lanes that took another path", Cause.DATA), "lane")


class PerLane:
    """One value for each lane of the whole warp. Interned by ``vec``: identity is equality.

    ``fixed``: no lane holds a size without a number, of which what is computed depends on the path; ``adds``:
    but for sums.
    """

    __slots__ = ("adds", "fixed", "lanes", "memo", "views")

    def __init__(self, lanes: tuple[Any, ...]) -> None:
        self.lanes = lanes
        kinds = set(map(type, lanes))
        self.fixed = all(kind in INTS or issubclass(kind, Unknown) for kind in kinds)
        self.adds = all(kind in INTS or getattr(kind, "adds", False) for kind in kinds)
        self.memo: dict[Any, Any] = {}
        self.views: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"PerLane{self.lanes}"

    def __bool__(self) -> bool:
        raise TypeError("a decision on a value per lane")

    def shown(self, kinds: Any) -> bool:
        """Whether some lane holds a value of some kinds, always the same ones."""
        found: bool | None = self.memo.get("shown")
        if found is None:
            found = self.memo["shown"] = any(isinstance(x, kinds) for x in self.lanes)
        return found

    def cut_alike(self, mask: Any) -> bool:
        """Whether what a mask leaves of each lane is the same on every path."""
        if mask.__class__ is not int:
            return False
        found: bool | None = self.memo.get(("cut", mask))
        if found is None:
            lanes = (x.__class__ in INTS or x.cut_alike(mask) for x in self.lanes)
            found = self.memo["cut", mask] = all(lanes)
        return found

    def on(self, mask: int) -> Any:
        """The value as the lanes of ``mask`` hold it: a single one if they agree, else this Vec."""
        found = self.views.get(mask)
        if found is None:
            mine = [v for i, v in enumerate(self.lanes) if mask >> i & 1]
            first = mine[0]
            same = all(v is first or (_plain(v) and _plain(first) and v == first) for v in mine)
            found = self.views[mask] = first if same else self
        return found

    def parts(self, mask: int) -> dict[Any, int]:
        """The lanes of ``mask`` by the value that they hold."""
        out: dict[Any, int] = {}
        for i, v in enumerate(self.lanes):
            if mask >> i & 1:
                key = v if _plain(v) else id(v)
                out[key] = out.get(key, 0) | 1 << i
        return out

    def unknown(self, mask: int) -> Unknown | None:
        """Some lane's missing value, if one is missing."""
        return next((v for i, v in enumerate(self.lanes) if mask >> i & 1 and isinstance(v, Unknown)), None)


def _adds(v: Any) -> bool:
    """Whether what is added to a lane's value is the same on every path."""
    return v.__class__ in INTS or getattr(v.__class__, "adds", False)


def _plain(v: Any) -> bool:
    return v.__class__ in INTS


_KNOWN: dict[tuple[Any, ...], PerLane] = {}


def per_lane(lanes: Sequence[Any]) -> Any:
    """A register's content: a single value where all lanes hold the same."""
    key = tuple(lanes)
    first, last = key[0], key[-1]  # most often these differ
    if first.__class__ in INTS:
        if last.__class__ in INTS and last == first and all(v.__class__ in INTS and v == first for v in key):
            return first
    elif last is first and all(v is first for v in key):
        return first
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = PerLane(key)
    return found


def lanes_of(value: Any) -> tuple[Any, ...]:
    """The value of each lane of the warp."""
    return value.lanes if value.__class__ is PerLane else (value,) * WARP


def restrict(value: Any, mask: int) -> Any:
    """The value with nothing known of the lanes outside ``mask``."""
    return per_lane([v if mask >> i & 1 else ELSEWHERE for i, v in enumerate(lanes_of(value))])


def lift(f: Callable[..., Any], *args: Any) -> Any:
    """``f``, which takes plain numbers, on whatever the arguments are."""
    for v in args:
        if v.__class__ is PerLane:
            break
    else:
        return _scalar(f, args)
    # remembered with the first Vec; identity of the others is equality
    key = (f, *[a if a.__class__ in INTS else id(a) for a in args])
    owner: PerLane = next(v for v in args if v.__class__ is PerLane)
    found = owner.memo.get(key)
    if found is None:
        columns = [lanes_of(v) for v in args]
        result = per_lane([_scalar(f, row) for row in zip(*columns, strict=True)])
        if not all(map(fixed, args)):
            return result
        owner.memo[key] = found = (result, args)  # the arguments are kept alive, so their ids stay theirs
    return found[0]


def fixed(value: Any) -> bool:
    """Whether what is computed of a value is the same on every path: it holds no size without a number."""
    if value.__class__ is PerLane:
        return bool(value.fixed)
    return value.__class__ in INTS or isinstance(value, Unknown)


def _scalar(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    for v in args:
        if isinstance(v, Unknown):
            return v.derived()
    return f(*args)


def _operator(f: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    def left(self: PerLane, o: Any) -> Any:
        return lift_operator(f, self, o)

    def right(self: PerLane, o: Any) -> Any:
        return lift_operator(f, o, self)

    return left, right, f


def lift_operator(f: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """As ``lift``, but operators also know what to do with a missing value (0 times it is 0)."""
    owner, other = (a, b) if a.__class__ is PerLane else (b, a)
    name = None
    sums = owner.adds and (
        (f in _SUMS and (other.adds if other.__class__ is PerLane else _adds(other)))
        or (f in _CUTS and owner.cut_alike(other))
    )
    if sums and other.__class__ not in (*INTS, PerLane):
        name = id(other.term), other.bits, other.kind  # kept below, so that nothing else is named so
    key = (f, *[x if x.__class__ in INTS else (x is other and name) or id(x) for x in (a, b)])
    found = owner.memo.get(key)
    if found is None:
        lanes = _at_once(f, owner, other) or tuple(map(f, lanes_of(a), lanes_of(b)))
        if not (sums or (fixed(a) and fixed(b))):
            return per_lane(lanes)
        if sums and len(owner.memo) >= _MOST_SUMS:
            owner.memo.clear()
        owner.memo[key] = found = (per_lane(lanes), a, b)
    return found[0]


def _at_once(f: Callable[[Any, Any], Any], owner: PerLane, other: Any) -> tuple[Any, ...] | None:
    """What an operator makes of all lanes, where one look at them tells; see ``Size.signed_alike``."""
    alike = getattr(owner.lanes[0], "signed_alike", None) if f in _FLIPS and other.__class__ is int else None
    found: tuple[Any, ...] | None = alike(owner.lanes, other) if alike is not None else None
    return found


#: Sums that are remembered with one Vec.
_MOST_SUMS = 1 << 12
_SUMS: set[Any] = set()
_CUTS: set[Any] = set()  # what cuts off upper bits
_FLIPS: set[Any] = set()  # what flips bits

for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    _left, _right, _plainly = _operator(getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))
    _SUMS |= {_plainly} if _name in ("add", "sub") else set()
    _CUTS |= {_plainly} if _name == "and" else set()
    _FLIPS |= {_plainly} if _name == "xor" else set()
    setattr(PerLane, f"__{_name}__", _left)
    setattr(PerLane, f"__r{_name}__", _right)
for _name in ("lt", "le", "gt", "ge"):
    setattr(PerLane, f"__{_name}__", _operator(getattr(operator, _name))[0])
