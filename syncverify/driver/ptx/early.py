"""Small launches before the search for a proof: most wrong kernels go wrong within a few turns.

A search for every size follows the states of a wrong kernel for long before one of them fails: of a
persistent kernel whose parity starts again with each tile they never repeat. So each open size is set to a
few numbers first, all to the same one, then by turns to two. Such a launch is checked as any other. What
refutes the kernel there is made smaller, size by size. Where the facts assume something of the sizes, the
numbers are the first few that satisfy it. Tiles of a block's threads take more than one turn at twice
their number. Nothing is concluded from launches that are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import cycle, islice
from math import prod

from syncverify.base.diagnostics import KernelReport, Severity, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ptx.task import CheckTask, compiled
from syncverify.frontends.ptx.launch.small_sizes import small_sizes
from syncverify.frontends.ptx.launch.symbolic_launch import open_sizes
from syncverify.frontends.ptx.syntax.nodes import Function, Imm

#: What open sizes are set to, in turn: all to one within the first lap of a ring, or beyond the end of most;
#: then every second one to less than its neighbours, for turns that a difference of two sizes counts.
PAIRS = ((2, 2), (5, 5), (5, 2), (2, 5))
#: Numbers that are tried instead, size by size, once some refute the kernel.
SMALLER = (1, 2, 3, 4)
#: Rules that a launch breaks which its author rules out: places, sizes and counts that parameters give.
CONTRACT = frozenset({"SV114", "SV301", "SV701"})
#: Numbers that satisfy what is assumed, the smallest first: so many, and of these every second at first.
MOST_ASSUMED = 5
#: Sizes of a kernel that is tried so.
MOST_SIZES = 6

#: Constants that the text compares with and that sizes are set to, and to one more: how many, how large.
MOST_COMPARED, LARGEST_COMPARED = 4, 4096

Check = Callable[[CheckTask, Mapping[str, int]], KernelReport]


def refuted_early(k: CheckTask, check: Check, *, several: bool = True) -> dict[str, int] | None:
    """Small numbers for the open sizes that refute the kernel; None if none were found.

    ``several``: also those at which tiles take several turns, and those that the text compares with.
    ``check``: of the kernel with numbers for its open sizes, by the judge of small launches, if there is one.
    """
    judge = k.checker.early
    if judge is None:
        return None
    sizes = open_sizes(k.facts, compiled(k)[1].for_sizes)
    ranges = {n: r for n, r in k.facts.symbols().items() if n in sizes and not n.startswith("grid.")}
    if not 0 < len(ranges) <= MOST_SIZES:
        return None
    brief = replace(k, checker=replace(k.checker, judge=judge, prove=None))

    def wrong(values: Mapping[str, int]) -> bool:
        try:
            report = check(brief, values)
        except InputError:  # no such launch
            return False
        rules = [d.rule for d in report.diagnostics if d.severity is Severity.ERROR]
        return report.verdict is Verdict.REFUTED and rules[0] not in CONTRACT

    if k.facts.assume:
        some = list(islice(small_sizes(k.facts), MOST_ASSUMED))
        found = next((i for i in range(0, len(some), 2) if wrong(some[i])), None)
        if found is None:
            return None
        return some[found - 1] if found and wrong(some[found - 1]) else some[found]
    pairs = PAIRS if len(ranges) > 1 else PAIRS[:2]
    beyond = [x for c in _compared(k.function) for x in (c, c + 1)]
    turns = 2 * prod(k.facts.block or ()) + 1
    larger = [(x, x) for x in (*beyond, turns)] if several else []
    for pair in (*pairs, *larger):
        numbers = zip(ranges.items(), cycle(pair), strict=False)
        values = {n: min(max(number, low), high) for (n, (low, high)), number in numbers}
        if not wrong(values):
            continue
        for name, (low, _) in ranges.items():
            smaller = (x for x in SMALLER if low <= x < values[name])
            values[name] = next((x for x in smaller if wrong({**values, name: x})), values[name])
        return values
    return None


def _compared(function: Function) -> list[int]:
    """The first few constants beyond the numbers of ``PAIRS`` that the text compares integers with.

    Example: ``if (n > 1000) __syncwarp(); else __syncthreads();`` goes wrong from 1001 on.
    """
    beyond = max(max(pair) for pair in PAIRS)
    found = {
        op.value
        for i in function.body
        if i.op == "setp" and i.mods[-1:] and i.mods[-1][0] in "us"
        for op in i.operands
        if isinstance(op, Imm) and beyond < op.value <= LARGEST_COMPARED
    }
    return sorted(found)[:MOST_COMPARED]


__all__ = ["refuted_early"]
