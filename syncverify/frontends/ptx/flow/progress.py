"""Whether a loop can come to its end: something that decides about it has to change from turn to turn.

A loop that data decides about is run once, with every register that it writes unknown: its end is assumed. In
``for (i = 0; i < d; ) {...}`` nothing moves on, and whoever enters it never leaves it. In
``for (unsigned i = n; i >= 0; --i) {...}`` something moves, and the test has one outcome
for all that it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import gcd

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.graph import jumps_back
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Reg, Special
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.types import kind, width

#: Instructions that may bring something else each time, whatever their operands are.
_BRING = frozenset(
    "ld ldu atom shfl vote match redux elect mbarrier bar barrier call multimem ldmatrix wmma tex suld "
    "activemask clusterlaunchcontrol".split()
)
#: Special registers that hold another value each time.
_CLOCKS = ("%clock", "%globaltimer")
#: Instructions that give an operand back where another one is this number.
_KEEPS = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}


#: What a comparison of ``b`` with ``a`` asks of ``a`` and ``b``, and the signs of unsigned ones.
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "lo": "hi", "hi": "lo", "ls": "hs", "hs": "ls"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_ANY = 1 << 64
#: Constants that are added one after the other, at most.
_MOST_STEPS = 64


def can_end(flow: Flow, blocks: Collection[int]) -> bool:
    """Whether some exit of a loop depends on what changes in it: a register that its turns move on, or what
    an instruction brings. That it ends is not shown: it may move away from its end."""
    body = [flow.body[k] for b in blocks for k in range(flow.blocks[b].lo, flow.blocks[b].hi)]
    made: dict[str, list[Instr]] = {}
    for i in body:
        for r in results(i):
            made.setdefault(r, []).append(i)
    for b in blocks:
        last = flow.body[flow.blocks[b].hi - 1]
        leaves = last.op in ("ret", "exit") or any(s not in blocks for s in flow.blocks[b].succ)
        if leaves and (last.guard is None or _changes(last.guard.name, made)):
            return True
    return False


#: By version, what each thread that comes to a loop has there, where that is known.
Starts = Callable[[int], Collection[int] | None]


def _unknown(_: int) -> None:
    return None


def endless_loops(flow: Flow, starts: Starts = _unknown) -> list[int]:
    """The first instructions of loops that nobody leaves who turns once, or that some thread does not leave
    whose number it starts with (``starts``)."""
    heads = {head: loop for head, loop in jumps_back(flow.blocks, flow.idom) if head in flow.reached}
    above = flow.controllers()
    found = []
    for h, loop in heads.items():
        all_come = above[h] <= {*loop}  # else those whom it would not end for may not come
        if never_ends(flow, h, loop, starts if all_come else _unknown):
            found.append(flow.blocks[h].lo)
    return sorted(found)


def never_ends(flow: Flow, head: int, loop: Collection[int], starts: Starts = _unknown) -> bool:
    """Whether who turns once in a loop turns for ever: it comes to each exit in every turn, and what an exit
    asks is made in each turn again of what the loop does not write, or has one outcome for each value."""
    known: dict[int, bool] = {}
    back = [b for b in loop if head in flow.blocks[b].succ]

    def fixed(name: str, k: int) -> bool:
        v = flow.versions.read(name, k)
        if v not in known:
            known[v] = False  # what it makes itself from turn to turn is not
            writer = flow.versions.writer[v]
            outside = flow.versions.block[v] not in loop or flow.versions.is_unset(v)
            known[v] = outside or (writer >= 0 and made(flow.body[writer], writer))
            if not known[v] and writer >= 0:
                i = flow.body[writer]
                known[v] = _has_one_outcome(flow, i, writer) or _passes_by(flow, i, writer, head, starts)
        return known[v]

    def made(i: Instr, k: int) -> bool:
        brings = i.op in _BRING or any(name.startswith(_CLOCKS) for name in _specials(i))
        return i.guard is None and not brings and all(fixed(x, k) for x in sources(i))

    for b in loop:
        k = flow.blocks[b].hi - 1
        last = flow.body[k]
        if last.op not in ("ret", "exit") and all(s in loop for s in flow.blocks[b].succ):
            continue
        each_turn = all(flow.dominates(b, x) for x in back)
        if not each_turn or last.guard is None or not fixed(last.guard.name, k):
            return False
        if _leaves_at_once(flow, b, loop):
            return False  # nobody turns once
    return True


def _leaves_at_once(flow: Flow, block: int, loop: Collection[int]) -> bool:
    """Whether who comes to an exit takes it: its guard is a comparison of two numbers, made there."""
    k = flow.blocks[block].hi - 1
    last = flow.body[k]
    writer = flow.versions.writer[flow.versions.read(last.guard.name, k)] if last.guard is not None else -1
    i = flow.body[writer] if writer >= 0 else None
    if i is None or i.op != "setp" or i.guard is not None or last.op == "brx":
        return False
    match i.mods, i.operands[1:]:
        case ["eq" | "ne" as compare, _], [Imm(int(a)), Imm(int(b))]:
            taken = ((a == b) == (compare == "eq")) != last.negated
            return flow.blocks[block].succ[0 if taken else -1] not in loop
    return False


def _has_one_outcome(flow: Flow, i: Instr, k: int) -> bool:
    """Whether a comparison with a constant comes out alike for every value of its register."""
    if i.op != "setp" or i.guard is not None or len(i.mods) != 2 or kind(i.mods[1]) not in ("u", "s", "b"):
        return False
    _, a, b = i.operands
    compare, bits = i.mods[0], width(i.mods[1])
    if isinstance(a, Imm) and isinstance(b, Reg):
        a, b, compare = b, a, _SWAPPED.get(compare, compare)
    if not (isinstance(a, Reg) and isinstance(b, Imm) and isinstance(b.value, int)):
        return False
    signed = kind(i.mods[1]) == "s" and compare not in ("lo", "ls", "hi", "hs")
    top = (1 << bits) - 1
    low, high = (-(top // 2) - 1, top // 2) if signed else (0, top)
    largest = _largest(flow, a.name, k)
    if largest < high:
        low, high = 0, largest
    bound = b.value & top
    if signed and bound > top // 2:
        bound -= top + 1
    below, above = high < bound, low > bound
    return {
        "lt": below or low >= bound,
        "le": high <= bound or above,
        "gt": above or high <= bound,
        "ge": low >= bound or below,
        "eq": below or above or low == high,
        "ne": below or above or low == high,
    }.get(_UNSIGNED.get(compare, compare), False)


def _passes_by(flow: Flow, i: Instr, k: int, head: int, starts: Starts) -> bool:
    """Whether a comparison for equality with a number comes out alike in each turn of a loop: its turns move
    a number on by steps that pass the other one by, also where it wraps. Example: by 2 from 0, beside 7."""
    if i.op != "setp" or i.guard is not None or len(i.mods) != 2 or i.mods[0] not in ("eq", "ne"):
        return False
    _, a, b = i.operands
    if not (isinstance(a, Reg) and isinstance(b, Imm)) or kind(i.mods[1]) not in ("u", "s", "b"):
        return False
    bits, versions = width(i.mods[1]), flow.versions
    v, more = _moved_on(flow, versions.read(a.name, k), bits)
    if versions.writer[v] >= 0 or versions.block[v] != head or versions.is_unset(v):
        return False
    unit, first = 1 << bits, list[Collection[int]]()
    for block, w in versions.merged(v):
        from_, step = _moved_on(flow, w, bits)
        if block >= 0 and flow.dominates(head, block) and from_ == v:
            unit = gcd(unit, step)
        elif (number := _number(flow, from_)) is not None:
            first.append([number + step])
        elif (numbers := starts(from_)) is not None:
            first.append([x + step for x in numbers])
        else:
            return False
    if len(first) == 1:
        return any((b.value - x - more) % unit for x in first[0])  # one thread for which it never comes out
    return all((b.value - x - more) % unit for some in first for x in some)


def _moved_on(flow: Flow, v: int, bits: int) -> tuple[int, int]:
    """The version that constants are added to, to make another one, and their sum."""
    more = 0
    for _ in range(_MOST_STEPS):
        k = flow.versions.writer[v]
        i = flow.body[k] if k >= 0 else None
        if i is None or i.guard is not None or i.op not in ("add", "sub", "mov") or len(i.mods) != 1:
            break
        a, b = (*i.operands[1:], Imm(0))[:2]
        if not isinstance(a, Reg) or not isinstance(b, Imm) or width(i.mods[0]) != bits:
            break
        more += b.value if i.op == "add" else -b.value
        v = flow.versions.read(a.name, k)
    return v, more


def _number(flow: Flow, v: int) -> int | None:
    """The number that one instruction puts into a version."""
    k = flow.versions.writer[v]
    i = flow.body[k] if k >= 0 else None
    plain = i is not None and i.op == "mov" and i.guard is None and isinstance(i.operands[1], Imm)
    return i.operands[1].value if plain else None  # type: ignore[union-attr]


def _largest(flow: Flow, name: str, k: int) -> int:
    """A bound of an unsigned value, as the one instruction that makes it gives it."""
    v = flow.versions.read(name, k)
    writer = flow.versions.writer[v]
    if writer < 0 or flow.versions.is_unset(v):
        return _ANY
    i = flow.body[writer]
    if i.guard is None and i.op == "and":
        return min((o.value for o in i.operands[1:] if isinstance(o, Imm) and o.value >= 0), default=_ANY)
    if i.guard is None and ((i.op == "cvt" and len(i.mods) == 2) or i.op == "ld") and kind(i.mods[-1]) == "u":
        return int((1 << width(i.mods[-1])) - 1)
    return _ANY


def _changes(register: str, made: dict[str, list[Instr]]) -> bool:
    """Whether a register depends on one that is made of itself, or on what an instruction brings."""
    return any(
        i.op in _BRING or any(name.startswith(_CLOCKS) for name in _specials(i)) or _moves(r, made)
        for r in _reached(register, made)
        for i in made.get(r, ())
    )


def _moves(register: str, made: dict[str, list[Instr]]) -> bool:
    """Whether a register is made of itself by an instruction that may change it."""
    return any(
        not _keeps(i) and any(register in _reached(s, made) for s in sources(i))
        for i in made.get(register, ())
    )


def _reached(register: str, made: dict[str, list[Instr]]) -> set[str]:
    """The registers that one is made of, itself among them."""
    seen = {register}
    work = [register]
    while work:
        for i in made.get(work.pop(), ()):
            more = set(sources(i)) - seen
            seen |= more
            work += more
    return seen


def _keeps(i: Instr) -> bool:
    """Whether an instruction gives an operand back as it is."""
    if i.op in ("mov", "cvta"):
        return True
    nothing = _KEEPS.get(i.op)
    return nothing is not None and any(isinstance(o, Imm) and o.value == nothing for o in i.operands[1:])


def _specials(i: Instr) -> Iterator[str]:
    """The names of the special registers that an instruction reads."""
    yield from (o.name for o in i.operands if isinstance(o, Special))


__all__ = ["can_end", "endless_loops"]
