"""Runs of a kernel: one, several by seeds, or every schedule of a small one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from syncverify.simulate.ptx.harm import Harm, HarmFound, StepLimit
from syncverify.simulate.ptx.launch import Buffer, Launch
from syncverify.simulate.ptx.loading import Loaded, load
from syncverify.simulate.ptx.machine import Machine
from syncverify.simulate.ptx.schedules import Choices, Directed, Priorities, Random, Schedule
from syncverify.simulate.ptx.syntax import Module, parse

#: Warp instructions that an execution may take, unless the caller says otherwise.
MOST_STEPS = 2_000_000


@dataclass(eq=False)
class Result:
    """How one execution ended. ``harm`` and ``limit`` are None and False where it came to its end.

    ``still``: what all wait for at the limit, where they have only asked for long whether a phase is over.
    ``memory`` has the bytes of each buffer at the end, in the order of the launch's parameters;
    ``variables`` those of the module's global variables. ``schedule`` is what was executed, if recorded.
    """

    harm: Harm | None
    limit: bool
    steps: int
    buffers: list[tuple[Buffer, npt.NDArray[Any]]] = field(default_factory=list)
    variables: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    warnings: list[tuple[int, str]] = field(default_factory=list)
    schedule: list[tuple[str, int]] = field(default_factory=list)
    missed: list[tuple[str, int]] = field(default_factory=list)
    still: Harm | None = None

    def memory(self, of: Buffer) -> npt.NDArray[Any]:
        """The contents of a buffer at the end, in its type and shape."""
        return next(data for known, data in self.buffers if known is of)


def schedule_of(kind: str, seed: int, records: bool, steps: Sequence[tuple[str, int]]) -> Schedule:
    match kind:
        case "random":
            return Random(seed, records)
        case "any leader":
            return Random(seed, records, any_leader=True)
        case "priorities":
            return Priorities(seed, records=records)
        case "directed":
            return Directed(steps, seed)
    raise ValueError(f"no schedule is called {kind!r}: random, any leader, priorities or directed")


def run(
    text: str | Module,
    kernel: str,
    launch: Launch,
    seed: int = 0,
    schedule: str = "random",
    steps: Sequence[tuple[str, int]] = (),
    limit: int = MOST_STEPS,
    records: bool = False,
) -> Result:
    """One execution of a kernel.

    ``schedule``: ``random``, ``priorities`` (few change points), ``directed`` (by ``steps``, pairs of agent
    and line), or ``any leader`` (random, and elect.sync chooses any lane). CannotExecute for what the machine
    does not know, InputError for text that is no PTX, ValueError for a launch that does not fit.
    """
    module = parse(text) if isinstance(text, str) else text
    loaded = load(module, kernel, launch, seed)
    return run_loaded(loaded, launch, schedule_of(schedule, seed, records, steps), limit, seed)


def run_loaded(loaded: Loaded, launch: Launch, schedule: Schedule, limit: int, seed: int) -> Result:
    machine = Machine(loaded, launch, schedule, limit, seed)
    harm, out_of_steps, still = None, False, None
    try:
        machine.run()
    except HarmFound as e:
        harm = e.harm
    except StepLimit as e:
        out_of_steps, still = True, e.still
    buffers = []
    for number, known in enumerate(loaded.buffers):
        start, (size, _) = machine.memory.starts[number], loaded.buffer_sizes[number]
        raw = machine.memory.bytes[start : start + size].copy()
        buffers.append((known, raw.view(known.data.dtype).reshape(known.data.shape)))
    variables = {name: buffers[n][1].view(np.uint8).ravel() for name, n in loaded.names.items()}
    missed = schedule.missed if isinstance(schedule, Directed) else []
    return Result(
        harm,
        out_of_steps,
        machine.steps,
        buffers,
        variables,
        list(machine.warnings),
        machine.log,
        missed,
        still,
    )


def sample(
    text: str | Module, kernel: str, launch: Launch, seeds: range, limit: int = MOST_STEPS
) -> Iterator[Result]:
    """Executions under random and priority-based schedules, in turn; compiled once."""
    module = parse(text) if isinstance(text, str) else text
    loaded = load(module, kernel, launch, seeds.start)
    for seed in seeds:
        kind = "random" if seed % 2 == 0 else "priorities"
        yield run_loaded(loaded, launch, schedule_of(kind, seed, False, ()), limit, seed)


def first_harm(
    text: str | Module, kernel: str, launch: Launch, seeds: range, limit: int = MOST_STEPS
) -> Harm | None:
    """The first harm among some executions, None if none shows any."""
    return next((r.harm for r in sample(text, kernel, launch, seeds, limit) if r.harm is not None), None)


def exhaust(
    text: str | Module, kernel: str, launch: Launch, most: int = 10_000, limit: int = 100_000
) -> Iterator[Result]:
    """Every order of visible steps of a small kernel, depth first; at most ``most`` executions."""
    module = parse(text) if isinstance(text, str) else text
    loaded = load(module, kernel, launch, 0)
    given: list[int] | None = []
    for _ in range(most):
        if given is None:
            return
        schedule = Choices(given)
        yield run_loaded(loaded, launch, schedule, limit, 0)
        made = schedule.made
        while made and made[-1][0] + 1 >= made[-1][1]:
            made.pop()
        given = [c for c, _ in made[:-1]] + [made[-1][0] + 1] if made else None
    if given is not None:
        raise StepLimit(f"more than {most} executions")
