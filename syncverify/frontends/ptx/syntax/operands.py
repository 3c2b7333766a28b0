"""What instructions read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import chain

from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Not, Operand, Pair, Reg, Special, Sym, Vector
from syncverify.frontends.ptx.syntax.pure_operations import REPEATABLE

_POLLS = ("mbarrier.test_wait", "mbarrier.try_wait")
#: Instructions whose first operand is no destination.
_NO_RESULT = frozenset(
    "st red bar barrier fence membar bra brx ret exit trap call nanosleep prefetch prefetchu cp wgmma "
    "stmatrix setmaxnreg griddepcontrol discard applypriority tensormap pmevent brkpt uniform".split()
)


#: The condition code: the register of one bit in which sums leave their carry (PTX ISA, extended-precision
#: integer arithmetic). It is no operand, and no register of a text has such a name.
CARRY = "CC.CF"
#: Instructions that read it. Those with ``.cc`` write it.
CARRIED = frozenset({"addc", "subc", "madc"})
#: Instructions whose registers are remembered, at most.
_MOST = 1 << 16
Names = Callable[[Instr], tuple[str, ...]]


def _remembered(of: Names) -> Names:
    """The same, looked for once in each instruction."""
    known: dict[int, tuple[Instr, tuple[str, ...]]] = {}  # by identity

    @wraps(of)
    def found(i: Instr) -> tuple[str, ...]:
        entry = known.get(id(i))
        if entry is None:
            if len(known) >= _MOST:
                known.clear()
            entry = known[id(i)] = i, of(i)
        return entry[1]

    return found


def registers(op: Operand | None) -> tuple[str, ...]:
    """The registers that an operand names."""
    if isinstance(op, Reg):
        return (op.name,)
    if isinstance(op, Vector):
        return tuple(chain.from_iterable(map(registers, op.items)))
    if isinstance(op, Mem):
        base = registers(op.base)
        return (*base, *chain.from_iterable(map(registers, op.coords))) if op.coords else base
    if isinstance(op, Pair):
        return registers(op.first) + registers(op.second)
    return (op.reg.name,) if isinstance(op, Not) else ()


def symbols(op: Operand | None) -> tuple[str, ...]:
    """The variables, labels and functions that an operand names."""
    match op:
        case Sym(name, _):
            return (name,)
        case Mem(base, _, coords):
            return (*symbols(base), *chain.from_iterable(map(symbols, coords)))
        case Vector(items):
            return tuple(chain.from_iterable(map(symbols, items)))
        case Pair(a, b):
            return symbols(a) + symbols(b)
    return ()


@_remembered
def results(i: Instr) -> tuple[str, ...]:
    """The registers that an instruction writes, and the condition code."""
    if not i.operands:
        return ()
    if i.op in _NO_RESULT:
        if i.op == "wgmma" and i.mods and i.mods[0] == "mma_async":
            return registers(i.operands[0])
        if i.op == "bar" or i.op == "barrier":
            return registers(i.operands[0]) if "red" in i.mods else ()
        if i.op == "call":
            return registers(i.operands[0])
        return ()
    if i.op == "wmma" and i.mods[:1] == ("store",):
        return ()
    if i.op == "mbarrier" and i.mods[0] in ("init", "inval", "expect_tx", "complete_tx"):
        return ()
    if i.op in ("multimem", "tensormap", "clusterlaunchcontrol") and not i.name.startswith("multimem.ld"):
        return () if i.name != "clusterlaunchcontrol.query_cancel" else registers(i.operands[0])
    first = i.operands[0]
    carry = (CARRY,) if "cc" in i.mods else ()
    return () if isinstance(first, Mem) else (*registers(first), *carry)


@_remembered
def sources(i: Instr) -> tuple[str, ...]:
    """The registers that an instruction reads, its guard and the condition code included."""
    guard = () if i.guard is None else (i.guard.name,)
    if i.op == "wgmma" or not results(i):
        read = i.operands
    elif len(i.operands) == 2:  # most
        return guard + registers(i.operands[1])
    else:
        read = i.operands[1:]
    carry = (CARRY,) if i.op in CARRIED else ()
    return (*guard, *chain.from_iterable(map(registers, read)), *carry)


def is_poll(i: Instr) -> bool:
    """Whether the instruction looks once whether a phase has completed."""
    return i.op == "mbarrier" and i.name.startswith(_POLLS)


def computed_from(names: Iterable[str], body: Sequence[Instr]) -> frozenset[str]:
    """Some registers, and all that the instructions of ``body`` compute from them, in whatever order.

    Example: of ``%r1`` with ``add %r2, %r1, 1; mov %r3, %r2;`` all three.
    """
    found, grows = set(names), True
    while grows:
        more = {n for i in body if found.intersection(sources(i)) for n in results(i)} - found
        found |= more
        grows = bool(more)
    return frozenset(found)


#: Special registers that stay as they are.
_PLACES = ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%cluster")


def repeats(i: Instr) -> bool:
    """Whether an instruction makes the same of the same registers each time."""
    named = [op for op in i.operands[1:] if isinstance(op, Special)]
    return i.op in REPEATABLE and all(s.name.startswith(_PLACES) for s in named)


_FLOATS = ("f16", "bf16", "f32", "f64")
_WIDTHS = ("8", "16", "32", "64")
#: Ways in which a conversion rounds; without one, each number has one of the other format.
_ROUNDED = frozenset("rn rz rm rp rni rzi rmi rpi".split())


def float_conversion(i: Instr) -> bool:
    """Whether it is a conversion from or to floating point that is computed where its operand is known."""
    if i.op != "cvt" or len(i.mods) < 2 or len(i.operands) != 2:
        return False
    to, of = (m in _FLOATS for m in i.mods[-2:])
    integers = all(m in _FLOATS or (m[0] in "us" and m[1:] in _WIDTHS) for m in i.mods[-2:])
    allowed = _ROUNDED | {"ftz"} | (set() if to else {"sat"})
    return (to or of) and integers and allowed.issuperset(i.mods[:-2])


def float_product(i: Instr) -> bool:
    """Whether it is a product of f32 to nearest, which is computed where its operands are known."""
    return i.op == "mul" and i.mods[-1] == "f32" and {*i.mods[:-1]} <= {"rn", "ftz"}
