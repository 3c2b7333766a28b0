"""The least that an address of shared memory may be, where a loop counts it up.

Example: of ``mov b, row+32; shl o, i, 2; add a, b, o``, where ``i`` starts at ``%tid.x`` and 256 is added in
each turn, the address is ``row+32`` at least, whatever the number of turns is. Numbers count as whole numbers
here: each turn comes to the access, so that a sum that leaves its 32 bits was far outside shared memory turns
before, for steps are small. An access that some turns leave out, or one behind the loop, has no bound.
Data and numbers of blocks take no small steps: a product of these may leave 32 bits at once, and bounds
nothing. Nor is a step small that a turn multiplies, or adds to itself: 32 turns double a number out of its
bits, to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.types import kind, width

#: Of a version that is being looked at: it bounds nothing.
_ABOVE = 1 << 40
#: Constants beyond it may stand for negative ones, or lead past 32 bits in a few turns.
LARGEST = 1 << 16
#: Versions that one address is followed through.
MOST = 200
_COUNTS = ("%tid.", "%ntid.", "%laneid")


class LowestPlaces:
    """The least values of a function's registers. ``shared``: the places of its variables."""

    def __init__(self, flow: Flow, shared: Mapping[str, int]) -> None:
        self.flow, self.shared = flow, shared
        self._left = 0
        self._grows: dict[tuple[int, int], bool] = {}
        self._counted: set[int] = set()  # versions that turns of loops move on, behind one address

    def of(self, k: int) -> int | None:
        """The least place of an access; None where nothing bounds it."""
        place = next((x for x in self.flow.body[k].operands if isinstance(x, Mem)), None)
        low = None if place is None else self.of_address(place, k)
        return low if self._met_in_each_turn(k) else None

    def of_address(self, place: Mem, k: int) -> int | None:
        """The least that an address is where an instruction reads it."""
        self._left = MOST
        self._counted.clear()
        found = self._operand(place.base, k, {})
        return None if found is None or found >= _ABOVE // 2 else found + place.offset

    def _met_in_each_turn(self, k: int) -> bool:
        """Whether each turn that counts the address of an access up comes to the access: it leaves shared
        memory then, turns before its number leaves 32 bits."""
        flow, here = self.flow, self.flow.block_of[k]
        back = {
            b
            for v in self._counted
            for b, _ in flow.versions.merged(v)
            if b >= 0 and flow.dominates(flow.versions.block[v], b)
        }
        return not back or (flow.body[k].guard is None and all(flow.dominates(here, b) for b in back))

    def _operand(self, x: Operand, k: int, known: dict[int, int]) -> int | None:
        match x:
            case Imm():
                return _constant(x)
            case Sym(name, offset) if name in self.shared:
                return self.shared[name] + offset
            case Special(name) if name.startswith(_COUNTS):
                return 0
            case Reg(name):
                return self._version(self.flow.versions.read(name, k), known)
        return None

    def _version(self, v: int, known: dict[int, int]) -> int | None:
        """The least that a version holds, with that of versions that are being looked at."""
        if v in known:
            return known[v]
        self._left -= 1
        versions = self.flow.versions
        k = versions.writer[v]
        if self._left < 0 or versions.is_unset(v):
            return None
        if k < 0:
            return self._merged([m for _, m in versions.merged(v)], v, known)
        i = self.flow.body[k]
        if i.guard is not None or i.operands[:1] != (Reg(versions.name[v]),):
            return None
        return self._made(v, i, k, known)

    def _merged(self, versions: list[int], v: int, known: dict[int, int]) -> int | None:
        """The least of what is merged, if no turn leads below it."""
        found = [self._version(m, {**known, v: _ABOVE}) for m in versions]
        first = [x for x in found if x is not None]
        if len(first) < len(found) or not first:
            return None
        low = min(first)
        again = [self._version(m, {**known, v: low}) for m in versions]
        self._counted.add(v)
        return low if all(x is not None and x >= low for x in again) else None

    def _made(self, v: int, i: Instr, k: int, known: dict[int, int]) -> int | None:
        type_ = i.mods[-1] if i.mods else ""
        if width(type_) != 32 or kind(type_) not in "usb" or not {"lo"}.issuperset(i.mods[:-1]):
            return None
        rule = _RULES.get(i.op)
        xs = [self._operand(x, k, known) for x in i.operands[1:3]] if i.op != "mad" else []
        if i.op == "mad":
            xs = [self._operand(x, k, known) for x in i.operands[1:]]
        return None if rule is None or (known and self._multiplied(v, i, k)) else rule(i, xs)

    def _multiplied(self, v: int, i: Instr, k: int) -> bool:
        """Whether a turn multiplies what an instruction made in an earlier one, or adds it to itself."""
        kept = [self._made_of(x, k, v) for x in i.operands[1:]]
        return any(kept[:2]) if i.op in ("mul", "shl", "mad") else i.op == "add" and all(kept)

    def _made_of(self, x: Operand, k: int, made: int) -> bool:
        """Whether an operand is made of a version, by whatever path."""
        if not isinstance(x, Reg):
            return False
        first = self.flow.versions.read(x.name, k)
        if (first, made) not in self._grows:
            self._grows[first, made] = made in behind(self.flow, [first])
        return self._grows[first, made]


def _sum(_: Instr, xs: list[int | None]) -> int | None:
    a, b = xs
    return None if a is None or b is None else a + b


def _constant(x: Operand) -> int | None:
    return x.value if isinstance(x, Imm) and abs(x.value) <= LARGEST else None


def _less(i: Instr, xs: list[int | None]) -> int | None:
    by = _constant(i.operands[2])
    return None if by is None or xs[0] is None else xs[0] - by


def _product(i: Instr, xs: list[int | None]) -> int | None:
    by = _constant(i.operands[2])
    return None if by is None or by < 0 or xs[0] is None else _times(xs[0], by)


def _times(x: int, by: int) -> int:
    return x if x >= _ABOVE // 2 else x * by


def _shifted(i: Instr, xs: list[int | None]) -> int | None:
    by = _constant(i.operands[2])
    return None if by is None or not 0 <= by <= 16 or xs[0] is None else _times(xs[0], 1 << by)


def _mad(i: Instr, xs: list[int | None]) -> int | None:
    product = _product(i, xs)
    return None if product is None or xs[2] is None else product + xs[2]


def _masked(i: Instr, xs: list[int | None]) -> int | None:
    by = _constant(i.operands[2])
    return None if by is None or by < 0 or xs[0] is None else 0


def _right(i: Instr, xs: list[int | None]) -> int | None:
    by = _constant(i.operands[2])
    if by is None or not 0 < by < 32 or xs[0] is None:
        return None
    return 0 if i.mods[-1][0] != "s" else None  # a product that leaves its bits may be negative


_RULES: dict[str, Callable[[Instr, list[int | None]], int | None]] = {
    "mov": lambda _, xs: xs[0],
    "add": _sum,
    "sub": _less,
    "mul": _product,
    "shl": _shifted,
    "mad": _mad,
    "and": _masked,
    "shr": _right,
}


__all__ = ["LowestPlaces"]
