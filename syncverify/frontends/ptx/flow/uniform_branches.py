"""Branches, calls and returns that promise, by ``.uni``, to be taken by all active lanes of a warp or none.

A guard that lanes may hold differently breaks the promise, which is undefined (PTX ISA, bra). An example:

    setp.lt.u32 %p1, %laneid, 7;  @%p1 bra.uni A;

gets an instruction of its own before it, ``uniform %p1;``, whose event compares what the lanes hold. Only
guards that are computed from the numbers of threads get one: what a poll or data says is followed either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Operand, Special, Vector
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.pure_operations import PURE

_PROMISING = ("bra", "call", "ret")
_OF_LANES = ("%tid", "%laneid", "%lanemask")


def with_promises(function: Function) -> Function:
    """The function with ``uniform`` before each such instruction; itself where there is none."""
    promising = [k for k, i in enumerate(function.body) if _promises(i)]
    if not promising:
        return function
    by_lane = _computed_by_lane(function.body)
    by = {k: _checked(function.body[k], by_lane) for k in promising}
    return expanded(function, by, {})


def _promises(i: Instr) -> bool:
    return i.guard is not None and i.op in _PROMISING and "uni" in i.mods


def _checked(i: Instr, by_lane: Mapping[str, bool]) -> Sequence[Instr]:
    """An instruction, and before it the comparison of its guard, where lanes may hold it differently."""
    if i.guard is None or not by_lane.get(i.guard.name):
        return (i,)
    return replace(i, op="uniform", mods=(), operands=(i.guard,), guard=None, negated=False), i


def _computed_by_lane(body: Sequence[Instr]) -> dict[str, bool]:
    """Registers whose every write is arithmetic, and whether any of it takes the number of a lane."""
    written: dict[str, list[Instr]] = {}
    for i in body:
        for name in results(i):
            written.setdefault(name, []).append(i)
    known = {name: any(map(_reads_lane, some)) for name, some in written.items() if all(map(_is_pure, some))}
    changed = True
    while changed:
        changed = False
        for name in tuple(known):
            read = {x for i in written[name] for x in sources(i)}
            if not known.keys() >= read:
                del known[name]
                changed = True
            elif not known[name] and any(known[x] for x in read):
                known[name] = changed = True
    return known


def _is_pure(i: Instr) -> bool:
    return i.op in PURE or (i.op == "ld" and "param" in i.mods)


def _reads_lane(i: Instr) -> bool:
    return any(x.name.startswith(_OF_LANES) for op in i.operands for x in _specials(op))


def _specials(op: Operand) -> Iterator[Special]:
    if isinstance(op, Special):
        yield op
    elif isinstance(op, Vector):
        for x in op.items:
            yield from _specials(x)


__all__ = ["with_promises"]
