"""The text of generated code: lines with their sites, names and slots, expressions and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from syncverify.base.reason import Reason
from syncverify.ir.evaluate import (  # fmt: skip
    Reader,
    closure,
    condition,
    fold,
    mentions,
    shared_parts,
    shift_left,
    shift_right,
    source,
    terms,
    total,
    truth,
)
from syncverify.ir.expr import BUILTINS, LANE_BUILTINS, Binary, Expr, Int, names
from syncverify.ir.footprints import Value
from syncverify.model.events import Event
from syncverify.symbolic.context import AffineTerm

Registers = list[Any]
Slow = Callable[[Registers, Any], Event | None]
Block = Callable[[Registers, int], Event | None]

PC, QUEUE, CLASS, CTA, ELECTED = range(5)
BUILTIN_SLOTS: dict[str, int] = {name: 5 + i for i, name in enumerate(sorted(BUILTINS))}
FIRST_REGISTER = 5 + len(BUILTIN_SLOTS)
#: What the range lo..hi of a difference says about its comparison with 0: surely true, surely false.
_DECIDED = {
    "<": ("hi < 0", "lo >= 0"),
    "<=": ("hi <= 0", "lo > 0"),
    ">": ("lo > 0", "hi <= 0"),
    ">=": ("lo >= 0", "hi < 0"),
    "==": ("lo == hi == 0", "lo > 0 or hi < 0"),
    "!=": ("lo > 0 or hi < 0", "lo == hi == 0"),
}
#: Block 0 hands out queued events; block 1 is the end; block 2 the kernel's entry.
QUEUED, ENDED, ENTRY = 0, 1, 2


class Vec:
    """One value per lane of a class. Interned per program, so identity is equality."""

    __slots__ = ("lanes",)

    def __init__(self, lanes: tuple[int, ...]) -> None:
        self.lanes = lanes

    def __repr__(self) -> str:
        return f"Vec{self.lanes}"


def symbolic(value: Any) -> bool:
    """Whether a register, or a key of several, holds a size without a number."""
    if isinstance(value, tuple):
        return any(map(symbolic, value))
    return symbolic(value.lanes) if isinstance(value, Vec) else isinstance(value, AffineTerm)


class Disagreement(Exception):  # noqa: N818 -- control flow, not an error
    """Lanes of a class disagree on a decision; ``values`` has one entry per lane of the class."""

    def __init__(self, values: tuple[int, ...]) -> None:
        super().__init__("lanes disagree")
        self.values = values


class UntriedLanesError(Exception):
    """A class elects, and none of its lanes was tried as the elected one."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Vecs:
    """The interned lane values of a program."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], Vec] = {}

    def register(self, lanes: Iterable[int]) -> int | Vec:
        """The register value: an int where all lanes agree."""
        key = tuple(lanes)
        if all(x is key[0] or (isinstance(x, int) and x == key[0]) for x in key):
            return key[0]
        if key not in self._known:
            self._known[key] = Vec(key)
        return self._known[key]


class CodeText:
    """Writes blocks of generated code. ``varying``: names that may differ between the lanes of a class."""

    def __init__(self, known: dict[str, Expr], varying: frozenset[str], vecs: Vecs) -> None:
        self.varying = varying
        self.vecs = vecs
        self.scope = dict(known)
        self.slots: dict[str, int] = dict(BUILTIN_SLOTS)
        self.size = FIRST_REGISTER
        self.space: dict[str, Any] = {"shift_left": shift_left, "shift_right": shift_right, "truth": truth}
        self.lines: list[str] = []
        self.line_sites: list[int] = []
        self.site = 0
        self.count = ENTRY  # of blocks
        self.depth = 1  # of indentation
        self.has_decisions = False  # that lanes may disagree on

    def _text(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        self.line_sites.append(self.site)

    def _open(self, label: int) -> None:
        self.lines.append(f"def b{label}(r, a):")
        self.line_sites.append(self.site)

    def _label(self) -> int:
        self.count += 1
        return self.count - 1

    def _jump(self, label: int) -> None:
        self._text(f"r[0] = {label}")
        self._text("return None")

    def _constant(self, value: Any) -> str:
        name = f"k{len(self.space)}"
        self.space[name] = value
        return name

    def _slot(self) -> int:
        self.size += 1
        return self.size - 1

    # ------------------------------------------------------------ names and expressions

    def _name(self, name: str) -> int:
        if name not in self.slots:
            self.slots[name] = self._slot()
        return self.slots[name]

    def _ready(self, e: Expr) -> Expr:
        return fold(e, self.scope)

    def _varies(self, e: Expr) -> bool:
        return mentions(e, self.varying)

    def _key(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def _parts(self, exprs: Iterable[Expr]) -> list[str]:
        """Source of what decides the expressions' values, besides the class itself."""
        registers = self.varying - LANE_BUILTINS
        out: dict[str, None] = {}
        for e in exprs:
            for p in shared_parts(e, self.varying, registers):
                if not isinstance(p, Int):
                    out[source(p, self.slots)] = None
        return list(out)

    def _reader(self, e: Expr) -> Callable[[Registers], Value]:
        """Evaluates one operand slowly: an int, or one value per lane."""
        fn: Reader = closure(e, self.slots)
        leaves = tuple(self.slots[x] for x in names(e) if x in self.varying)
        if not leaves:
            return fn

        def each_lane(r: Registers) -> Value:
            vecs = [(s, r[s].lanes) for s in leaves if isinstance(r[s], Vec)]
            if not vecs:
                return fn(r)
            copy = list(r)
            out = []
            for lane in range(len(vecs[0][1])):
                for s, lanes in vecs:
                    copy[s] = lanes[lane]
                out.append(fn(copy))
            return out[0] if all(x == out[0] for x in out) else tuple(out)

        return each_lane

    def _value(self, e: Expr, *, decision: bool) -> str:
        """Source of a value; where lanes may differ, memoized, and agreed on if it is a decision."""
        if not self._varies(e):
            return source(e, self.slots)
        self.has_decisions |= decision
        if decision and isinstance(e, Binary) and self._decided(e):
            return "v"
        read = self._reader(e)
        memo: dict[Any, Any] = {}
        register_of = self.vecs.register

        def slow(r: Registers, key: Any) -> Any:
            v = read(r)
            if isinstance(v, tuple) and decision:
                raise Disagreement(v)
            register = register_of(v) if isinstance(v, tuple) else v
            if not symbolic(key):
                memo[key] = register
            return register

        m, s = self._constant(memo), self._constant(slow)
        self._text(f"k = {self._key([f'r[{CLASS}]', *self._parts([e])])}")
        self._text(f"v = {m}[k] if k in {m} else {s}(r, k)")
        return "v"

    def _decided(self, e: Binary) -> bool:
        """Shorter ways to a decision, left in ``v``; False if there is none.

        Loops often guard by ``uniform + lane part < bound``: nearly always the lane part's range decides.
        """
        if e.op in ("and", "or") and not self._varies(e.left):
            test = condition(e.left, self.slots)
            self._text(f"v = {int(e.op == 'or')}")
            self._text(f"if {test}:" if e.op == "and" else f"if not {test}:")
            self.depth += 1
            self._text(f"v = 1 if {self._value(e.right, decision=True)} else 0")
            self.depth -= 1
            return True
        if e.op not in _DECIDED:
            return False
        parts = list(terms(Binary("-", e.left, e.right), 1))
        lanes = [(f, t) for f, t in parts if self._varies(t)]
        if not all(names(t) <= LANE_BUILTINS for _, t in lanes):
            return False
        span, whole = self._reader(total(lanes)), self._reader(e)
        memo: dict[int, tuple[int, int]] = {}

        def lane_range(r: Registers) -> tuple[int, int]:
            v = span(r)
            memo[r[CLASS]] = found = (v, v) if isinstance(v, int) else (min(v), max(v))
            return found

        def undecided(r: Registers) -> int:
            v = whole(r)
            if isinstance(v, tuple):
                raise Disagreement(v)
            return v

        m, f, s = self._constant(memo), self._constant(lane_range), self._constant(undecided)
        shared = source(total((x, t) for x, t in parts if not self._varies(t)), self.slots)
        yes, no = _DECIDED[e.op]
        self._text(f"w = {m}[r[{CLASS}]] if r[{CLASS}] in {m} else {f}(r)")
        self._text(f"u = {shared}")
        self._text("lo, hi = u + w[0], u + w[1]")
        self._text(f"v = 1 if {yes} else 0 if {no} else {s}(r)")
        return True
