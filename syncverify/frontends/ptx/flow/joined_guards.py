"""Guards that join a thread's number with a size or data, as two guards one after the other.

``if (tx == 15 && c + 1 < w) s[...] = ...;`` is compiled to one predicate. Which lanes take part follows from
their numbers; whether they do, from a size. Of the joined predicate nothing is known, as if any lane might
store. As two branches, the lanes are parted by number first. Example:

    setp.ne.s32 %p1, %r1, 15;  setp.ge.s32 %p2, %r2, %r3;  or.pred %p3, %p1, %p2;  @%p3 bra OVER;

becomes ``@%p1 bra OVER; @%p2 bra OVER;``. The two forms mean the same. So does a guarded access, as branches
around it. Only branches over accesses to shared memory and arithmetic are parted, so that loops, barriers and
copies keep their form. What counts as made of a thread's number is read off the text, register by register;
a mistake there changes the form alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Label, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import computed_from, results

_ACCESSES = frozenset({"ld", "st", "atom", "red"})
_SHARED = frozenset({"shared", "shared::cta"})
#: What may stand behind a branch that is parted, beside accesses.
_PLAIN = frozenset(
    "abs add and bfe bfi cvt cvta div ex2 fma lg2 mad max min mov mul neg not or prmt rcp rem rsqrt selp setp"
    " shl shr sqrt sub xor".split()
)
#: What ends a stretch of code.
_ENDS = frozenset({"bra", "brx", "call", "ret", "exit", "trap"})
_NUMBERS = ("%tid.", "%ntid.", "%laneid", "%warpid")


def with_joined_guards_apart(function: Function) -> Function:
    """The function with such guards parted; itself where there is none."""
    body = function.body
    tables = (name for table in function.tables.values() for name in table)  # labels, or functions to call
    targets = {function.labels[name] for name in tables if name in function.labels}
    targets |= {op.target for i in body for op in i.operands if isinstance(op, Label)}
    wanted = [k for k in range(len(body)) if _decides(body, k, targets)]
    if not wanted:
        return function
    others = _of_others(body)
    by: dict[int, Sequence[Instr]] = {}
    for k in wanted:
        joined = _joined(body, k, targets)
        if joined is None:
            continue
        op, (one, two) = joined
        if one not in others and two in others:
            by[k] = _parted(body[k], k, op, one, two)
        elif two not in others and one in others:
            by[k] = _parted(body[k], k, op, two, one)
    by = {k: some for k, some in by.items() if len(some) > 1}
    return expanded(function, by, {}) if by else function


def _decides(body: Sequence[Instr], k: int, targets: set[int]) -> bool:
    """Whether an instruction has a guard, and this decides about accesses to shared memory and no more."""
    i = body[k]
    if i.guard is None:
        return False
    if i.op in _ACCESSES:
        return not _SHARED.isdisjoint(i.mods)
    if i.op != "bra" or "uni" in i.mods or not isinstance(i.operands[0], Label):
        return False
    over = i.operands[0].target
    inside = body[k + 1 : over]
    plain = all(x.op in _PLAIN or (x.op in _ACCESSES and "volatile" not in x.mods) for x in inside)
    alone = not any(k < at < over for at in targets)
    return plain and alone and any(x.op in _ACCESSES and not _SHARED.isdisjoint(x.mods) for x in inside)


def _joined(body: Sequence[Instr], k: int, targets: set[int]) -> tuple[str, tuple[str, str]] | None:
    """How the guard of an instruction is joined of two predicates, where these hold the same there still."""
    guard, written = body[k].guard, set[str]()
    at = k
    while guard is not None and at > 0 and at not in targets:
        at -= 1
        i = body[at]
        if i.op in _ENDS:
            return None
        if guard.name not in results(i):
            written.update(results(i))
            continue
        two = tuple(op.name for op in i.operands[1:] if isinstance(op, Reg))
        if i.op not in ("and", "or") or i.mods != ("pred",) or i.guard is not None or len(two) != 2:
            return None
        return (i.op, (two[0], two[1])) if written.isdisjoint(two) and guard.name not in two else None
    return None


def _parted(i: Instr, k: int, op: str, first: str, second: str) -> tuple[Instr, ...]:
    """An instruction under two guards instead of their ``op``, ``first`` first.

    An access that either of two guards allows stays as it is: no label is in front of it.
    """
    guard = i.guard
    assert guard is not None
    leaves = i.op == "bra"
    past = Label("", k + 1)
    target = i.operands[0] if leaves else past
    holds = leaves != i.negated  # what the joined guard is where it branches

    def branch(name: str, to: Operand, *, when: bool) -> Instr:
        on = replace(guard, name=name)
        return replace(i, op="bra", mods=(), guard=on, negated=not when, operands=(to,))

    if holds == (op == "or"):  # either of the two may decide that it branches
        both = (branch(first, target, when=holds), branch(second, target, when=holds))
        return both if leaves else (*both, replace(i, guard=None, negated=False))
    if leaves:  # either of the two may decide that it does not
        return (branch(first, past, when=not holds), branch(second, target, when=holds))
    return (i,)


def _of_others(body: Sequence[Instr]) -> frozenset[str]:
    """Registers that may hold something else than what is made of a thread's number and constants."""
    found: set[str] = set()
    for i in body:
        special = any(isinstance(op, Special) and not op.name.startswith(_NUMBERS) for op in i.operands)
        if special or i.op not in _PLAIN:
            found.update(results(i))
    return computed_from(found, body)


__all__ = ["with_joined_guards_apart"]
