"""Which schedule suits given sizes: a menu of tiles, and a model of the time that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import K_SPAN, Schedule
from syncverify.source import InputError

#: Registers of the loading and of two multiplying warpgroups.
TWO = (40, 232)
#: Schedules that are considered, with the share of the best rate that a long product reaches (a guess
#: until it is measured: wider tiles read less shared memory for each product).
MENU: tuple[tuple[Schedule, float], ...] = (
    (Schedule(128, 256, registers=TWO), 1.0),
    (Schedule(256, 128, registers=TWO), 1.0),
    (Schedule(128, 192, registers=TWO), 0.94),
    (Schedule(192, 128, consumers=3, registers=(32, 160)), 0.94),
    (Schedule(128, 128), 0.85),
    (Schedule(64, 256, consumers=1), 0.8),
    (Schedule(128, 64), 0.6),
    (Schedule(64, 128, consumers=1), 0.6),
    (Schedule(64, 64, consumers=1), 0.4),
)
#: Multiply-adds per microsecond of one SM at its best, and microseconds that a tile takes beside them.
RATE = 3.0e6
START, TURN = 3.0, 1.5


def menu(problem: Problem, sizes: Mapping[str, int]) -> list[tuple[Schedule, float]]:
    """The schedules that the problem allows at those sizes, each in the form that suits it."""
    found = []
    whole = not sizes["N"] % (16 // problem.output_sizes[0])
    for schedule, share in MENU:
        if not problem.b_t and schedule.tile_n % 64:
            continue
        try:
            staged = replace(schedule, store="tma")
            staged.fitted_stages(staged.staging(problem.output_sizes))
        except InputError:
            staged = schedule
        found.append((staged if whole else schedule, share))
    return found


def microseconds(schedule: Schedule, share: float, sizes: Mapping[str, int], multiprocessors: int) -> float:
    """What the model says; the last turn counts in full, however few blocks it has."""
    tiles = -(-sizes["M"] // schedule.tile_m) * -(-sizes["N"] // schedule.tile_n)
    turns = -(-tiles // multiprocessors)
    steps = -(-sizes["K"] * 2 // K_SPAN) * (K_SPAN // 2)
    each = schedule.tile_m * schedule.tile_n * steps / (RATE * share)
    return START + turns * (each + TURN)


def ranked(problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> list[Schedule]:
    """The menu by the time that the model gives, persistent where there are several turns."""
    options = [
        (microseconds(s, share, sizes, multiprocessors), k, s)
        for k, (s, share) in enumerate(menu(problem, sizes))
    ]
    return [_turning(s, sizes, multiprocessors) for _, _, s in sorted(options, key=lambda o: o[:2])]


def choose(problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> Schedule:
    """The schedule that the model prefers."""
    return ranked(problem, sizes, multiprocessors)[0]


def _turning(schedule: Schedule, sizes: Mapping[str, int], multiprocessors: int) -> Schedule:
    tiles = -(-sizes["M"] // schedule.tile_m) * -(-sizes["N"] // schedule.tile_n)
    return replace(schedule, persistent=tiles > multiprocessors)


__all__ = ["MENU", "choose", "menu", "microseconds", "ranked"]
