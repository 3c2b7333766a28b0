"""Functions that only wrap an operation, by the line table.

Inline assembly usually stands in small functions: ``barrier_wait(b, p)`` holds one ``mbarrier.try_wait``.
A mistake in its use is not there but where the function is called. So a report names the call.

A function is a *wrapper* if its own lines hold at most two synchronizing operations and call nothing that
holds any; or if they hold none and call one wrapper. A barrier of the block or of a number of threads counts
only where the function touches no memory itself: a reduction with a barrier in it is no wrapper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from syncverify.frontends.ptx.syntax.nodes import WRAPPED, Instr, Loc

#: Synchronizing operations, by line, that a wrapper may hold: an operation and its commit.
MOST_OPERATIONS = 2
#: Barriers, which CUDA itself has, too, and accesses beside which they wrap nothing.
BARRIERS, ACCESSES = frozenset({"bar"}), frozenset({"ld", "st", "atom", "red"})


def wrappers(body: Iterable[Instr], inlined: Mapping[Loc, str]) -> frozenset[Loc]:
    """The places inside wrappers. ``inlined``: places inside inlined functions, by the function's label."""
    operations: dict[str, set[int]] = defaultdict(set)
    calls: dict[str, dict[int, str]] = defaultdict(dict)
    body = tuple(body)
    touching = {
        inlined[i.loc] for i in body if i.op in ACCESSES and "param" not in i.mods and i.loc in inlined
    }
    for i in body:
        if i.op not in WRAPPED | BARRIERS or i.loc not in inlined:
            continue
        if i.op in BARRIERS and inlined[i.loc] in touching:
            continue
        inner = inlined[i.loc]
        operations[inner].add(i.loc[1])
        for caller in i.callers:
            if caller not in inlined:
                break
            outer = inlined[caller]
            calls[outer][caller[1]] = inner
            inner = outer
    found = {f for f, lines in operations.items() if len(lines) <= MOST_OPERATIONS and not calls.get(f)}
    while more := {
        f
        for f, called in calls.items()
        if f not in found and not operations.get(f) and len(called) == 1 and set(called.values()) <= found
    }:
        found |= more
    return frozenset(loc for loc, function in inlined.items() if function in found)
