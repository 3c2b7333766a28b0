"""Whether executions of one launch end with different memory: then something was read in no certain order.

Strong accesses of one word in no order do no harm by themselves. Where lanes part at them, and nothing else
in a kernel may differ from run to run, different contents of a buffer at the end come from them alone.

Strong loads may read older values, too (``older_values``).

Example: a sum of a warp by volatile words without ``__syncwarp`` ends with other sums where lanes 16 to 31
stay behind. The largest word of a table that lanes relax until nothing changes is the same in all runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from syncverify.base.deadline import check as check_time
from syncverify.simulate.ptx.confirm import Limits
from syncverify.simulate.ptx.execute import Result, run_loaded
from syncverify.simulate.ptx.harm import CannotExecute
from syncverify.simulate.ptx.launch import Launch
from syncverify.simulate.ptx.loading import load, reached_functions
from syncverify.simulate.ptx.schedules import Parting, Random
from syncverify.simulate.ptx.syntax import Module, Special

#: Launches that are drawn, and executions of each beside the first.
LAUNCHES, EACH = 3, 12
#: The chance that a strong load reads an older value where it may, in every other execution.
LATENESS = 0.3
#: What may differ from run to run by itself: order of atomics, lanes that are there, an elected one.
_BY_CHANCE = frozenset({"atom", "red", "activemask", "elect", "multimem", "discard"})
_CLOCKS = ("%clock", "%globaltimer", "%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid", "%pm", "%envreg")


def differing_outcome(
    module: Module,
    kernel: str,
    draw: Callable[[int], Launch],
    limits: Limits,
    lines: frozenset[int],
) -> tuple[str, str]:
    """How two executions of a launch end differently, empty if none do; and why nothing was to be seen.

    ``lines``: where lanes of a warp part. Harm of an execution is none that is asked for here.
    """
    why = _by_chance(module, kernel)
    if why:
        return "", why
    spent = 0
    for number in range(LAUNCHES):
        launch = draw(number)
        try:
            loaded = load(module, kernel, launch, number)
            first: Result | None = None
            for seed in range(EACH + 1):
                check_time()
                schedule = Parting(seed, lines, LATENESS * (seed % 2)) if seed else Random(0)
                result = run_loaded(loaded, launch, schedule, limits.each, number)
                spent += result.steps
                if result.harm is not None or result.limit:
                    why = why or (f"an execution ends with {result.harm}" if result.harm else "no end")
                    continue
                if first is None:
                    first = result
                found = _difference(first, result)
                if found:
                    return f"{found}, where lanes part at lines {_list(lines)}", ""
                if spent >= limits.steps:
                    return "", f"executions take {spent:,} warp instructions"
        except CannotExecute as e:
            return "", str(e)
    return "", why or f"{LAUNCHES * (EACH + 1)} executions end alike"


def _by_chance(module: Module, kernel: str) -> str:
    """What in a kernel may differ from run to run by itself."""
    entry = next(f for f in module.functions if f.name == kernel and f.entry)
    for f in reached_functions(module, entry)[0]:
        for i in f.body:
            reduces = i.op in ("cp", "st") and "reduce" in i.mods
            if i.op in _BY_CHANCE or reduces or "async" in i.mods[:1]:
                return f"{i.op} at line {i.line} may differ from run to run by itself"
            if any(isinstance(x, Special) and x.name.startswith(_CLOCKS) for x in i.operands):
                return f"a clock or place at line {i.line} differs from run to run by itself"
    return ""


def _difference(one: Result, other: Result) -> str:
    for number, ((_, a), (_, b)) in enumerate(zip(one.buffers, other.buffers, strict=True)):
        x, y = (np.ascontiguousarray(z).view(np.uint8).ravel() for z in (a, b))
        at = np.flatnonzero(x != y)
        if at.size:
            place = int(at[0])
            return (
                f"byte {place} of buffer {number} ends as {x[place]} in one execution, {y[place]} in others"
            )
    return ""


def _list(lines: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(lines)))


__all__ = ["differing_outcome"]
