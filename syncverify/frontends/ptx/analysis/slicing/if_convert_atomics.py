"""A branch around an atomic that hands out a counter's numbers, as a predicate.

Compilers write ``if (thread == 0) tile = atomicAdd(...)`` with a predicate on the atomic or with a branch.
At a branch the lanes would part, and those that hear of the number by a ``shfl`` could not be told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import replace

from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Label, Sym
from syncverify.frontends.ptx.syntax.operands import results

_LONGEST = 16
_PLAIN = frozenset({"mov", "cvta", "add", "sub", "shl", "mul", "mad", "cvt"})


def predicated(function: Function, takes: Collection[int]) -> Function:
    """The same function without branches around ``takes``; instructions keep their numbers."""
    body = list(function.body)
    if not takes:
        return function
    starts = sorted(set(function.labels.values()))
    for k, i in enumerate(function.body):
        end = _skips(function, k, i)
        if end is None or bisect_right(starts, k) != bisect_right(starts, end - 1):
            continue  # something may jump in between
        inside = function.body[k + 1 : end]
        counts = [j in takes for j in range(k + 1, end)]
        if not any(counts) or not all(c or _plain(j) for c, j in zip(counts, inside, strict=True)):
            continue
        assert i.guard is not None
        if any(i.guard.name in results(j) or j.guard is not None for j in inside):
            continue
        body[k] = Instr("nanosleep", ("u32",), (Imm(0),), i.line, i.loc, callers=i.callers)
        body[k + 1 : end] = [replace(j, guard=i.guard, negated=not i.negated) for j in inside]
    return function if body == list(function.body) else replace(function, body=tuple(body))


def _skips(function: Function, k: int, i: Instr) -> int | None:
    """Where a branch that some lanes take leads, a few instructions on."""
    if i.op != "bra" or i.guard is None or not i.operands:
        return None
    target = i.operands[0]
    end = function.labels.get(target.name, -1) if isinstance(target, Label | Sym) else -1
    return end if k + 1 < end <= k + 1 + _LONGEST else None


def _plain(i: Instr) -> bool:
    """Whether an instruction may stand under the predicate as well."""
    return i.guard is None and (i.op in _PLAIN or (i.op == "ld" and "param" in i.mods))


__all__ = ["predicated"]
