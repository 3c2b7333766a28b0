"""Whether a loop can come to its end: something that decides about it has to change from turn to turn.

A loop that data decides about is run once, with every register that it writes unknown: its end is assumed. In
``for (i = 0; i < d; ) {...}`` nothing moves on, and whoever enters it never leaves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.graph import jumps_back
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Special
from syncverify.frontends.ptx.syntax.operands import results, sources

#: Instructions that may bring something else each time, whatever their operands are.
_BRING = frozenset(
    "ld ldu atom shfl vote match redux elect mbarrier bar barrier call multimem ldmatrix wmma tex suld "
    "activemask clusterlaunchcontrol".split()
)
#: Special registers that hold another value each time.
_CLOCKS = ("%clock", "%globaltimer")
#: Instructions that give an operand back where another one is this number.
_KEEPS = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}


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


def endless_loops(flow: Flow) -> list[int]:
    """The first instructions of loops that nobody leaves who turns once."""
    heads = {head: loop for head, loop in jumps_back(flow.blocks, flow.idom) if head in flow.reached}
    return sorted(flow.blocks[h].lo for h, loop in heads.items() if never_ends(flow, h, loop))


def never_ends(flow: Flow, head: int, loop: Collection[int]) -> bool:
    """Whether who turns once in a loop turns for ever: it comes to each exit in every turn, and what an exit
    asks is made in each turn again of what the loop does not write."""
    known: dict[int, bool] = {}
    back = [b for b in loop if head in flow.blocks[b].succ]

    def fixed(name: str, k: int) -> bool:
        v = flow.versions.read(name, k)
        if v not in known:
            known[v] = False  # what it makes itself from turn to turn is not
            writer = flow.versions.writer[v]
            outside = flow.versions.block[v] not in loop or flow.versions.is_unset(v)
            known[v] = outside or (writer >= 0 and made(flow.body[writer], writer))
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
    return True


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
