"""Whether the harm that a witness claims comes true on the text: by its schedule, then by others.

A refutation is confirmed by any execution that does harm of a kind that its claim may show as. Four things
are distinguished: harm was seen; executions ran to their end and did none; a budget was spent before enough
of them ended; nothing could be executed (an instruction that this machine does not know, other harm before).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from syncverify.base.deadline import check as check_time
from syncverify.simulate.ptx.execute import run_loaded
from syncverify.simulate.ptx.harm import CannotExecute, Harm, Kind
from syncverify.simulate.ptx.launch import Launch
from syncverify.simulate.ptx.loading import Loaded, load
from syncverify.simulate.ptx.schedules import Holding, Priorities, Random, Schedule
from syncverify.simulate.ptx.syntax import Module
from syncverify.simulate.ptx.witness import Step, Stepping

#: Executions that have to come to their end before it counts that none of them does harm.
FEWEST = 6
#: The same where they are long: the witness's schedule, on so many launches, spends the budget.
FEWEST_LONG = 3
#: Executions that hold back who comes to some lines, where there are some.
_HOLDING = (2, 3)
#: Warp instructions that may be executed for one step of a witness.
WARP_INSTRUCTIONS_A_STEP = 64
#: What an execution of each claim may show: what is undefined or races in one hangs in another.
#: Spaces of addresses that may have been drawn.
_DRAWN = frozenset({"global", "generic", "const", "param"})
_NOT_SHOWN = {"hang": frozenset[Kind](), "stale-value": frozenset({Kind.HANG})}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a replay may cost, in warp instructions: all of it, and one execution. And how many executions.

    ``witness``: what the first execution may take where a long witness asks for more than ``each``.
    ``seconds``: of processor time after which no further execution begins, once one has ended; sweeps alone
    give it, for verdicts are to repeat.
    """

    steps: int
    each: int
    executions: int
    witness: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """``harm`` was seen under the schedule ``how``; or none was, in ``ended`` executions that ended.

    ``why``: what kept executions from ending, empty if nothing did. ``followed``: executions are
    long, and all that the budget allowed have ended, the witness's schedule among them. ``limited``: it was
    limits alone that kept executions from ending.
    """

    harm: Harm | None
    how: str = ""
    ended: int = 0
    why: str = ""
    followed: bool = False
    limited: bool = False

    @property
    def ran(self) -> bool:
        """Whether it says something that no harm was seen."""
        return self.harm is not None or self.ended >= FEWEST or self.followed


def confirm(
    module: Module,
    kernel: str,
    steps: Sequence[Step],
    claim: str,
    draw: Callable[[int], Launch],
    launches: int,
    limits: Limits,
    elected: int = 0,
    lines: frozenset[int] = frozenset(),
    counts: Callable[[Harm], bool] | None = None,
    held: frozenset[int] = frozenset(),
) -> Confirmed:
    """Executes a kernel until harm of the claim is seen or the limits are spent.

    ``draw`` gives the launch of a number: what the facts leave open is drawn differently for each.
    ``elected``: the lane that elect.sync chooses, where it is one of its lanes. ``lines``: those of the
    finding; at others addresses in global memory do no harm, for what has been drawn may have made them.
    ``counts``: whether harm counts, instead of the claim. ``held``: lines of atomics that
    count, to which all come before one goes on, in a few executions.
    """
    made: dict[int, tuple[Loaded, Launch]] = {}
    spent = ended = 0
    why, cut, others = "", False, False  # whether executions were cut off, and whether other harm ended them
    begin = time.process_time()
    for number in range(limits.executions):
        check_time()
        which = number % launches
        try:
            if which not in made:
                launch = draw(which) if counts else replace(draw(which), racing=lines)
                made[which] = load(module, kernel, launch, which), launch
            schedule, how = _schedule(number, launches, steps, elected, held)
            loaded, launch = made[which]
            most = _most(number, steps, limits, spent)
            result = run_loaded(loaded, launch, schedule, most, number)
        except CannotExecute as e:
            return Confirmed(None, "", ended, str(e))
        spent += min(result.steps, limits.each)  # what a long witness takes beyond is not charged
        if result.harm is not None and (counts(result.harm) if counts else _shows(claim, result.harm, lines)):
            return Confirmed(result.harm, how, ended)
        if claim == "hang" and counts is None and result.still is not None:
            return Confirmed(result.still, how, ended)
        if result.limit and ended and most < limits.each:
            why = why or f"{ended} executions take {spent - result.steps:,} warp instructions"
            break  # this one was cut off by what the others had cost
        if result.limit:
            why, cut = f"an execution does not end within {most:,} warp instructions", True
        elif result.harm is None:
            ended += 1
        else:
            why, others = f"an execution ends otherwise ({result.harm})", True
        if limits.seconds is not None and ended and time.process_time() - begin > limits.seconds:
            why = why or f"{ended} executions take more than {limits.seconds:g} seconds"
            break
        if spent >= limits.steps:
            why = why or f"{ended} executions take {spent:,} warp instructions"
            break
    followed = bool(steps) and ended >= FEWEST_LONG and not cut and not others
    return Confirmed(None, "", ended, why, followed, bool(why) and not others)


def _most(number: int, steps: Sequence[Step], limits: Limits, spent: int) -> int:
    """Warp instructions that an execution may take: the first one, under a witness, as many as that needs."""
    if number:
        return min(limits.each, limits.steps - spent)
    return max(min(limits.each, limits.steps), min(WARP_INSTRUCTIONS_A_STEP * len(steps), limits.witness))


def _schedule(
    number: int, launches: int, steps: Sequence[Step], elected: int, held: frozenset[int]
) -> tuple[Schedule, str]:
    """The schedule of an execution: the witness's in each launch, then random and priority-based in turn; of
    these the ``_HOLDING`` hold back who comes to some lines."""
    schedule: Random
    if held and number in _HOLDING:
        schedule, how = Holding(number, held), f"a schedule that holds back who counts (seed {number})"
    elif number < launches and steps:
        schedule, how = Stepping(steps, number), "the witness's schedule"
    elif number % 2:
        schedule, how = Priorities(number), f"a schedule by priorities (seed {number})"
    else:
        schedule, how = Random(number), f"a random schedule (seed {number})"
    schedule.elected = elected
    return schedule, how


def _shows(claim: str, harm: Harm, lines: frozenset[int]) -> bool:
    """Whether harm shows a claim: a trap, which is the kernel's own, and what was drawn wrong do not."""
    if harm.kind is Kind.TRAP or harm.kind in _NOT_SHOWN.get(claim, frozenset()):
        return False
    if harm.where.line in lines or (harm.space not in _DRAWN and harm.kind is not Kind.OUTSIDE):
        return True
    return harm.other is not None and harm.other.line in lines


__all__ = ["FEWEST", "Confirmed", "Limits", "confirm"]
