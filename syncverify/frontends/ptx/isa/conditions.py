"""What the modifiers of one instruction ask of each other, where a row does not say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncverify.frontends.ptx.isa.rows import Row
from syncverify.frontends.ptx.syntax.types import kind, width

_FLOATS = ("f16", "f32")
_PREFETCHES = frozenset({"L2::64B", "L2::128B", "L2::256B"})


def possible(row: Row, slots: Mapping[str, str], mods: Sequence[str]) -> bool:
    """Whether modifiers that each have a slot go together."""
    if "VEC" in slots and "T" in slots and mods.index(slots["T"]) != mods.index(slots["VEC"]) + 1:
        return False  # a vector's length stands before its type
    match row.opcode:
        case "ld" | "st" if any(m.startswith("L1::") or m in _PREFETCHES for m in mods):
            # PTX ISA, ld, st: eviction priorities and prefetch sizes are for global and generic addresses.
            return not any(m.split("::")[0] in ("shared", "param", "local", "const") for m in mods)
        case "cvt" if "sat" in slots:
            floats = {kind(slots["D"]), kind(slots["S"])} - {"s", "u"}
            return bool(floats) or _narrows(slots["D"], slots["S"])
        case "mma":
            return _same_sums(mods)
        case "wmma" if row.head[:1] == ("mma",):
            types = [m for m in mods if m in ("s8", "u8", "s4", "u4")]
            return len(set(types)) < 2
    return True


def _narrows(to: str, of: str) -> bool:
    """Whether a type lacks numbers of another: only then is there something to saturate to.

    Of a float there always is: it becomes a number from 0 to 1.
    """
    if kind(to) == "f":
        return True
    if kind(to) == kind(of):
        return width(to) < width(of)
    return kind(of) == "s" or width(to) <= width(of)


def _same_sums(mods: Sequence[str]) -> bool:
    """Whether the sum of a product has the type of what is added (PTX ISA, mma: restrictions)."""
    types = [m for m in mods if m in _FLOATS]
    if len(types) < 2:
        return True
    d, c = types[0], types[-1]
    return d == c or ("m8n8k4" in mods and (d, c) == ("f32", "f16"))
