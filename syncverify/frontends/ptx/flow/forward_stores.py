"""Loads from shared memory of what the same thread has just stored there, as copies of registers.

    st.shared.v2.u32 [%a], {%m, %x};  ld.shared.v2.u32 {%n, %y}, [%a];

The load stays, for it is an access; its results go to registers that nobody reads, and ``mov.b32 %n, %m``
follows. Between the two accesses of a block stand neither other stores, atomics and calls nor anything that
waits or orders memory, and both name one address. Whoever writes there meanwhile races with the thread, and a
race is found all the same. Volatile and other strong accesses are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Operand, Reg, Vector
from syncverify.frontends.ptx.syntax.operands import registers, results
from syncverify.frontends.ptx.syntax.pure_operations import PURE

#: What stands between two accesses, beside instructions that only compute.
_BETWEEN = frozenset({"ld", "ldu", "vote", "shfl", "match", "redux", "activemask"})
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
#: Begins the names of registers with what is loaded and not read.
_UNREAD = "%@loaded"
_WORDS = frozenset({"u32", "s32", "b32", "f32"})


@dataclass(frozen=True, slots=True)
class _Words:
    """Words of 32 bits in registers, at an address of shared memory."""

    place: Mem
    items: tuple[Reg, ...]


def with_forwarded_stores(function: Function) -> Function:
    """The function with such copies; itself where there are none, or where no register names lanes."""
    if not any(map(_names_lanes, function.body)):
        return function
    flow = Flow(function)
    by: dict[int, list[Instr]] = {}
    types: dict[str, str] = {}
    for b in flow.blocks:
        for k, stored in _forwarded(function, range(b.lo, b.hi)):
            by[k] = list(_copies(function.body[k], stored, k, types))
    return expanded(function, by, types) if by else function


def _names_lanes(i: Instr) -> bool:
    """Whether lanes come together to an instruction by a mask in a register."""
    meets = i.op in ("vote", "shfl", "match", "redux") or (i.op == "bar" and i.mods == ("warp", "sync"))
    return meets and isinstance(i.operands[-1], Reg)


def _forwarded(function: Function, block: range) -> Iterator[tuple[int, _Words]]:
    """The loads of a block from where its last store was, with what that has stored."""
    last: _Words | None = None
    for k in block:
        i = function.body[k]
        if i.op == "st":
            last = _words(function, i, i.operands[0], i.operands[1])
            continue
        found = _words(function, i, i.operands[1], i.operands[0]) if i.op == "ld" else None
        if last is not None and found is not None and _inside(last, found):
            yield k, last
        if not orders_nothing(i):
            last = None
        elif last is not None and not _kept(last).isdisjoint(results(i)):
            last = None


def orders_nothing(i: Instr) -> bool:
    """Whether an instruction writes no memory and orders none."""
    return i.op in PURE or (i.op in _BETWEEN and _STRONG.isdisjoint(i.mods))


def _inside(stored: _Words, loaded: _Words) -> bool:
    at = loaded.place.offset - stored.place.offset
    within = at % 4 == 0 and 0 <= at <= 4 * (len(stored.items) - len(loaded.items))
    again = loaded.items[0].name.startswith(_UNREAD)
    return loaded.place.base == stored.place.base and within and not again


def _kept(words: _Words) -> set[str]:
    return {*registers(words.place), *(r.name for r in words.items)}


def _words(function: Function, i: Instr, place: Operand, values: Operand) -> _Words | None:
    """The words of a plain access to shared memory; None where it is another one."""
    plain = {"shared", "shared::cta", "weak", "v2", "v4"}
    if i.guard is not None or i.mods[-1] not in _WORDS or not plain.issuperset(i.mods[:-1]):
        return None
    if not {"shared", "shared::cta"} & set(i.mods) or not isinstance(place, Mem) or place.coords:
        return None
    items = values.items if isinstance(values, Vector) else (values,)
    found = tuple(x for x in items if isinstance(x, Reg) and _holds_a_word(function, x))
    return _Words(place, found) if len(found) == len(items) else None


def _holds_a_word(function: Function, x: Reg) -> bool:
    return function.registers.get(x.name) in _WORDS


def _copies(load: Instr, stored: _Words, k: int, types: dict[str, str]) -> Iterator[Instr]:
    """A load whose results nobody reads, and copies of what was stored."""
    place, into = load.operands[1], load.operands[0]
    assert isinstance(place, Mem)
    items = into.items if isinstance(into, Vector) else (into,)
    first = (place.offset - stored.place.offset) // 4
    unread = tuple(Reg(f"{_UNREAD}{k}.{n}") for n in range(len(items)))
    types |= {x.name: "b32" for x in unread}
    dropped: Operand = Vector(unread) if isinstance(into, Vector) else unread[0]
    yield replace(load, operands=(dropped, place))
    kept = [Reg(f"%@kept{k}.{n}") for n in range(len(items))]
    types |= {x.name: "b32" for x in kept}
    for n, x in enumerate(kept):  # all are read before any is written
        yield replace(load, op="mov", mods=("b32",), operands=(x, stored.items[first + n]))
    for x, to in zip(kept, items, strict=True):
        yield replace(load, op="mov", mods=("b32",), operands=(to, x))


__all__ = ["orders_nothing", "with_forwarded_stores"]
