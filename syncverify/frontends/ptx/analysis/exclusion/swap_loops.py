"""Loops that repeat a ``cas`` until it succeeds: they change one word as an atomic does, and wait for nobody.

    L: add.f64 %new, %old, %x;  atom.global.cas.b64 %now, [%a], %old, %new;
       setp.ne.b64 %p, %old, %now;  mov.b64 %old, %now;  @%p bra L;

Who goes on found another word than the last turn brought, so another thread has changed it meanwhile. A
thread alone ends in its second turn. A lock is none of these loops: what it compares with stays.
"""

from __future__ import annotations

from collections.abc import Collection

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import from_outside, passes_on, stays_in_registers
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import kind, width

#: Copies and negations between two instructions, at most.
_MOST = 12


def changes_one_word(flow: Flow, k: int, loop: Collection[int]) -> bool:
    """Whether a loop around ``k`` does nothing but change the word of its ``cas``: each turn compares with
    what the turn before found there, and equality ends it.

    Of several ends none may hand on what the loop has made: else it says who was first.
    """
    i = flow.body[k]
    inside = [j for b in sorted(loop) for j in range(flow.blocks[b].lo, flow.blocks[b].hi)]
    if i.op != "atom" or "cas" not in i.mods or i.guard is not None or len(i.operands) != 4:
        return False
    if not all(j == k or stays_in_registers(flow.body[j]) for j in inside):
        return False
    made = {r for j in inside for r in results(flow.body[j])}
    left = [(b, s) for b in loop for s in flow.blocks[b].succ if s not in loop]
    alone = len(left) == 1 or (len({s for _, s in left}) == 1 and not _handed_on(flow, loop, made))
    return alone and not made.intersection(registers(i.operands[1])) and _expects_what_it_found(flow, k, loop)


def _handed_on(flow: Flow, loop: Collection[int], made: Collection[str]) -> bool:
    """Whether an instruction behind a loop may read what is written, or merged, in it."""
    versions, seen = flow.versions, set[int]()
    work = [
        versions.read(name, j)
        for j, x in enumerate(flow.body)
        if flow.block_of[j] in flow.reached - {*loop}
        for name in {*sources(x)}.intersection(made)
    ]
    while work:
        v = work.pop()
        if versions.block[v] in loop:
            return True
        if v not in seen:
            seen.add(v)
            work += [m for _, m in versions.merged(v)]
    return False


def turns_that_decide(flow: Flow) -> int | None:
    """A ``cas`` whose loop changes one word, where something is decided by more than that word behind it."""
    for k, i in enumerate(flow.body):
        if i.op != "atom" or "cas" not in i.mods or flow.block_of[k] not in flow.reached:
            continue
        loop = min((x for x in flow.loops if flow.block_of[k] in x), key=len, default=frozenset[int]())
        if loop and changes_one_word(flow, k, loop) and decides_by_turns(flow, k, loop):
            return k
    return None


def decides_by_turns(flow: Flow, k: int, loop: Collection[int]) -> bool:
    """Whether something behind a loop around a ``cas`` is placed, or decided, by what its turns have made of
    registers: by their number, say. What is found in the word may be anything, as what a load brings."""
    versions = flow.versions
    (head,) = (b for b in loop if all(flow.dominates(b, x) for x in loop))
    inside = [j for b in sorted(loop) for j in range(flow.blocks[b].lo, flow.blocks[b].hi)]
    carried = {versions.entering(name, head) for j in inside for name in results(flow.body[j])}
    carried = {v for v in carried if versions.block[v] == head and versions.writer[v] < 0}

    def whence(v: int) -> frozenset[tuple[bool, int]]:
        return frozenset((b in loop, copied(flow, m)) for b, m in versions.merged(v))

    (asked,) = registers(flow.body[k].operands[2])
    found = whence(copied(flow, versions.read(asked, k)))  # what is asked for is found in the last turn
    turned = {v for v in carried if whence(v) != found}
    work = [
        versions.read(name, j)
        for j, i in enumerate(flow.body)
        if flow.block_of[j] in flow.reached - {*loop}
        for name in _deciding(i)
    ]
    ways = [(g.name, b.hi - 1) for n in loop if (g := flow.body[(b := flow.blocks[n]).hi - 1].guard)]
    seen = set[int]()
    while work:
        v = work.pop()
        if v in turned:
            return True
        if v in seen:
            continue
        seen.add(v)
        w = versions.writer[v]
        if w < 0:
            work += [m for _, m in versions.merged(v)]
            work += [versions.read(*way) for way in ways if versions.block[v] in loop]
        elif not from_outside(flow.body[w]):
            kept = () if flow.body[w].guard is None else (versions.name[v],)
            work += [versions.read(name, w) for name in (*kept, *sources(flow.body[w]))]
    return False


def _deciding(i: Instr) -> set[str]:
    """The registers that place what an instruction accesses, or decide something."""
    if i.op == "selp" or i.op == "slct" or passes_on(i):
        return {*sources(i)}
    guard = () if i.guard is None else (i.guard.name,)
    return {*guard, *(name for op in i.operands if isinstance(op, Mem) for name in registers(op))}


def _expects_what_it_found(flow: Flow, k: int, loop: Collection[int]) -> bool:
    """Whether each turn asks for what the last one found, and goes on only where it found something else."""
    value, asked = flow.body[k].operands[0], flow.body[k].operands[2]
    if not isinstance(value, Reg) or not isinstance(asked, Reg):
        return False
    versions = flow.versions
    expected, found = copied(flow, versions.read(asked.name, k)), versions.written(value.name, k)
    head = versions.block[expected]
    if versions.writer[expected] >= 0 or head not in loop or not all(flow.dominates(head, b) for b in loop):
        return False
    turned = {copied(flow, v) for b, v in versions.merged(expected) if b in loop}
    back = [b for b in loop if head in flow.blocks[b].succ]
    return turned == {found} and any(
        all(flow.dominates(b, x) for x in back) and _ends_by(flow, b, loop, k, {expected, found})
        for b in loop
    )


def copied(flow: Flow, v: int) -> int:
    """The version that one is a copy of."""
    for _ in range(_MOST):
        w = flow.versions.writer[v]
        i = flow.body[w] if w >= 0 else None
        if i is None or i.op != "mov" or i.guard is not None or not isinstance(i.operands[1], Reg):
            break
        if not isinstance(i.operands[0], Reg):
            break
        v = flow.versions.read(i.operands[1].name, w)
    return v


def _ends_by(flow: Flow, block: int, loop: Collection[int], k: int, pair: set[int]) -> bool:
    """Whether a branch leaves a loop where two versions are equal, and stays in it only where they differ."""
    last = flow.blocks[block].hi - 1
    branch, succ = flow.body[last], flow.blocks[block].succ
    if branch.op != "bra" or branch.guard is None or len(succ) != 2 or (succ[0] in loop) == (succ[1] in loop):
        return False
    stays = (succ[0] in loop) != branch.negated  # what the predicate is in a turn that goes on
    v = flow.versions.read(branch.guard.name, last)
    for _ in range(_MOST):
        w = flow.versions.writer[v]
        i = flow.body[w] if w >= 0 else None
        if i is None or i.guard is not None or not isinstance(i.operands[1], Reg):
            return False
        if i.op == "setp":
            wide = width(i.mods[-1]) == width(flow.body[k].mods[-1])
            return wide and _asks_whether(flow, w, pair, differ=stays)
        if i.op not in ("not", "mov") or i.mods != ("pred",):
            return False
        stays ^= i.op == "not"
        v = flow.versions.read(i.operands[1].name, w)
    return False


def _asks_whether(flow: Flow, w: int, pair: set[int], *, differ: bool) -> bool:
    """Whether a comparison asks if two versions ``differ`` in a bit, or if they are equal."""
    i = flow.body[w]
    if len(i.mods) != 2 or len(i.operands) != 3 or i.mods[0] != ("ne" if differ else "eq"):
        return False
    return kind(i.mods[1]) in ("u", "s", "b") and {_of(flow, op, w) for op in i.operands[1:]} == pair


def _of(flow: Flow, op: Operand, at: int) -> int:
    return copied(flow, flow.versions.read(op.name, at)) if isinstance(op, Reg) else -1


__all__ = ["changes_one_word", "copied", "decides_by_turns", "turns_that_decide"]
