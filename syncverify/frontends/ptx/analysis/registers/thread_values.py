"""What registers hold in each thread of a block, where the text and the block's shape alone decide.

A value is an array with one number for each thread, in the order of their numbers. What data, parameters or a
loop decide has none. Example: behind ``mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31;`` in a block of 64 threads
``%r2`` is 0 to 31, twice. The caller may give values of versions of registers, such as the result of an
atomic instruction, and ask what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Not, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.ir.launch_grid import Dims

Numbers = NDArray[np.uint64]

#: What ``%reserved_smem_offset_1`` counts as: a number that nothing else in a kernel is made of.
RESERVED = 0x5EED0000
_AXES = "xyz"
_WARP = np.uint64(32)


class RegisterValues:
    """The values of one function's registers in some threads, whose special registers are given."""

    #: By opcode, what it computes; None where that is not known.
    operations: Mapping[str, Callable[[Instr, list[Any]], Numbers | None]] = {}

    def __init__(self, flow: Flow, threads: int, specials: Mapping[str, Numbers]) -> None:
        self.flow = flow
        self.threads = threads
        self._specials = specials
        self._known: dict[int, Numbers | None] = {}

    def all(self, number: int) -> Numbers:
        """One number in every thread."""
        return np.full(self.threads, number & (1 << 64) - 1, dtype=np.uint64)

    def read(self, op: Operand, k: int, given: Mapping[int, Numbers] | None = None) -> Numbers | None:
        """What instruction ``k`` reads; None where it is not known. ``given``: values by version."""
        return self._operand(op, k, self._known if not given else dict(given))

    def version(self, name: str, k: int) -> int:
        """The version of a register that instruction ``k`` reads."""
        return self.flow.versions.read(name, k)

    def of_version(self, v: int) -> Numbers | None:
        """What a version of a register holds."""
        return self._version(v, self._known)

    def _operand(self, op: Operand, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        match op:
            case Imm(value):
                return self.all(value)
            case Special(name):
                return self._specials.get(name)
            case Reg(name):
                return self._version(self.version(name, k), known)
            case Not(Reg(name)):
                found = self._version(self.version(name, k), known)
                return None if found is None else found ^ np.uint64(1)
        return None

    def _version(self, v: int, known: dict[int, Numbers | None]) -> Numbers | None:
        if v not in known:
            known[v] = None  # a value that is made of itself has none
            k = self.flow.versions.writer[v]
            known[v] = self._made(self.flow.body[k], k, known) if k >= 0 else None
        return known[v]

    def _made(self, i: Instr, k: int, known: dict[int, Numbers | None]) -> Numbers | None:
        compute = self.operations.get(i.op)
        plain = i.guard is None and compute is not None and isinstance(i.operands[0], Reg)
        if (
            not plain
            or compute is None
            or i.mods[-1:] == ()
            or kind(i.mods[-1]) not in ("u", "s", "b", "pred")
        ):
            return None
        args = [self._operand(op, k, known) for op in i.operands[1:]]
        if any(a is None for a in args):
            return None
        found = compute(i, args)
        into = i.operands[0]
        if found is None or i.op != "cvt" or not isinstance(into, Reg):
            return found
        held = width(self.flow.function.registers.get(into.name, i.mods[-2]))
        return cut(as_type(found, i.mods[-2]), max(held, width(i.mods[-2])))  # more than its type, perhaps


def numbers_of_threads(n: Numbers, block: Dims) -> dict[str, Numbers]:
    """The special registers of threads with some numbers in a block of a shape."""
    x, y, _ = block
    each = (n % np.uint64(x), n // np.uint64(x) % np.uint64(y), n // np.uint64(x * y))
    found = {f"%tid.{axis}": each[i] for i, axis in enumerate(_AXES)}
    found |= {f"%ntid.{axis}": np.full_like(n, block[i]) for i, axis in enumerate(_AXES)}
    return found | {"%laneid": n % _WARP}


def of_lanes(specials: Mapping[str, Numbers], lanes: Numbers) -> dict[str, Numbers] | None:
    """The special registers of other lanes of each thread's warp; None where a block has no such lane."""
    at, size = ([specials[f"%{name}.{axis}"] for axis in _AXES] for name in ("tid", "ntid"))
    thread = at[0] + size[0] * (at[1] + size[1] * at[2])
    other = thread // _WARP * _WARP + lanes
    x, y, z = (int(n.flat[0]) for n in size)
    if (other >= np.uint64(x * y * z)).any():
        return None
    return {**specials, **numbers_of_threads(other, (x, y, z))}


def cut(a: Numbers, bits: int) -> Numbers:
    """The lower bits of numbers."""
    return a & np.uint64((1 << bits) - 1)


def signed(a: Numbers, bits: int) -> NDArray[np.int64]:
    """Two's complement values of ``bits`` bits."""
    up = np.int64(64 - bits)
    return (cut(a, bits).view(np.int64) << up) >> up


def as_type(a: Numbers, type_: str) -> Numbers:
    """A number of a type in 64 bits."""
    bits = width(type_)
    return signed(a, bits).view(np.uint64) if kind(type_) == "s" else cut(a, bits)


def _integers(f: Callable[..., Any]) -> Callable[[Instr, list[Any]], Numbers | None]:
    """An operation whose low bits are those of the same operation on 64 bits."""

    def compute(i: Instr, args: list[Any]) -> Numbers | None:
        if any(m in ("sat", "cc", "hi") for m in i.mods):
            return None
        type_ = i.mods[-1]
        bits = width(type_)
        if "wide" in i.mods:
            factors = [as_type(a, type_) for a in args[:2]]
            return cut(f(*factors, *args[2:]), 2 * bits)
        return cut(f(*args), bits)

    return compute


def _converted(i: Instr, args: list[Any]) -> Numbers | None:
    to, of = i.mods[-2:] if len(i.mods) > 1 else ("f32", "f32")
    if kind(to) not in ("u", "s", "b") or "sat" in i.mods:
        return None
    return cut(as_type(args[0], of), width(to))


def _shift(*, left: bool) -> Callable[[Instr, list[Any]], Numbers | None]:
    def compute(i: Instr, args: list[Any]) -> Numbers | None:
        type_ = i.mods[-1]
        bits = width(type_)
        a, by = args[0], np.minimum(cut(args[1], 32), np.uint64(bits))
        n = np.minimum(by, np.uint64(63))  # numpy shifts by no more
        if bits == 64 and (left or kind(type_) != "s"):
            a = np.where(by > n, np.uint64(0), a)
        if left:
            return cut(a << n, bits)
        moved = signed(a, bits) >> n.view(np.int64) if kind(type_) == "s" else cut(a, bits) >> n
        return cut(moved.view(np.uint64), bits)

    return compute


def _funnel(i: Instr, args: list[Any]) -> Numbers | None:
    if "l" not in i.mods or "wrap" not in i.mods:
        return None
    low, high, n = cut(args[0], 32), cut(args[1], 32), args[2] & np.uint64(31)
    moved: Numbers = ((high << np.uint64(32) | low) << n) >> np.uint64(32)
    return moved


#: What joins the answer of a comparison to a third operand.
_JOINS: Mapping[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _compared(i: Instr, args: list[Any]) -> Numbers | None:
    test, type_ = _TESTS.get(i.mods[0]), i.mods[-1]
    joins = _JOINS.get(i.mods[1]) if len(i.mods) == 3 else None
    if test is None or len(i.mods) != len(args) or (joins is None) is not (len(args) == 2):
        return None
    a, b = (as_type(x, type_) for x in args[:2])
    if kind(type_) == "s":
        a, b = a.view(np.int64), b.view(np.int64)
    answers: Numbers = test(a, b).astype(np.uint64)
    return answers if joins is None else joins(answers, args[2])


def _chosen(i: Instr, args: list[Any]) -> Numbers | None:
    return cut(np.where(args[2] & np.uint64(1), args[0], args[1]), width(i.mods[-1]))


_TESTS: Mapping[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
OPERATIONS: Mapping[str, Callable[[Instr, list[Any]], Numbers | None]] = {
    "mov": _integers(lambda a: a),
    "cvta": _integers(lambda a: a),
    "cvt": _converted,
    "add": _integers(np.add),
    "sub": _integers(np.subtract),
    "mul": _integers(np.multiply),
    "mad": _integers(lambda a, b, c: a * b + c),
    "and": _integers(np.bitwise_and),
    "or": _integers(np.bitwise_or),
    "xor": _integers(np.bitwise_xor),
    "not": _integers(np.invert),
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "shf": _funnel,
    "setp": _compared,
    "selp": _chosen,
}


class ThreadValues(RegisterValues):
    """The values of one function's registers in a block of one shape."""

    operations = OPERATIONS

    def __init__(self, flow: Flow, block: Dims) -> None:
        x, y, z = block
        n = np.arange(x * y * z, dtype=np.uint64)
        self.lane = n % np.uint64(32)
        self.warp = n // np.uint64(32)
        reserved = np.full_like(n, RESERVED)
        super().__init__(
            flow, x * y * z, {**numbers_of_threads(n, block), "%reserved_smem_offset_1": reserved}
        )


__all__ = [
    "OPERATIONS",
    "RESERVED",
    "Numbers",
    "RegisterValues",
    "ThreadValues",
    "as_type",
    "cut",
    "numbers_of_threads",
    "of_lanes",
    "signed",
]
