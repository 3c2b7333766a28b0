"""Which schedule suits given sizes: a menu of tiles, and a model of the time that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from syncverify.base.source import InputError
from syncverify.matmul import split, stream
from syncverify.matmul.lower import stages_of
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import K_SPAN, Schedule

#: Registers of the loading and of two multiplying warpgroups, and of three.
TWO, THREE = (40, 232), (32, 160)
#: Schedules that are considered, with the share of the best rate that a long product reaches (wider tiles
#: read less of L2 and of shared memory for each product).
MENU: tuple[tuple[Schedule, float], ...] = (
    (Schedule(128, 256, registers=TWO), 1.0),
    (Schedule(256, 128, registers=TWO), 0.98),
    (Schedule(128, 192, registers=TWO), 0.94),
    (Schedule(192, 128, consumers=3, registers=THREE), 0.88),
    (Schedule(192, 176, consumers=3, registers=THREE), 0.86),
    (Schedule(128, 128), 0.85),
    (Schedule(64, 256, consumers=1), 0.8),
    (Schedule(128, 64), 0.6),
    (Schedule(64, 128, consumers=1), 0.6),
    (Schedule(64, 64, consumers=1), 0.4),
    (Schedule(64, 32, consumers=1), 0.25),
    (Schedule(128, 128, registers=TWO, persistent=True, pingpong=True, pending=1), 0.75),
)
#: Multiply-adds per microsecond of one SM at its best, and microseconds that a tile takes beside them.
RATE = 3.0e6
START, TURN = 3.0, 1.5
#: How blocks may share tiles, and how many of them; steps that a part has at least; microseconds that handing
#: a partial sum over takes, and bytes of it per microsecond; what the model has to promise of a split, for it
#: knows less of it: more where whole tiles fill this share of the SMs in one turn, because their blocks read
#: the same rows at the same time.
SPLITS: tuple[tuple[Literal["pairs", "one"], int], ...] = (
    ("pairs", 2), ("pairs", 3), ("pairs", 4), *(("one", q) for q in (3, 4, 5, 6, 8, 11, 13)),
)  # fmt: skip
SHORTEST = 4
#: Tiles of the menu for which a proof that blocks share one of them behind whole ones takes long.
SLOW = {(128, 192), (128, 64)}
HAND_OVER, SUM_RATE = 2.0, 1.0e5
MARGIN, EACH = 1.05, 0.01
FILLED, MARGIN_OF_FILLED = 0.75, 1.3
#: Microseconds from which on a kernel is not started before the one in front of it ends: blocks that begin
#: at different times share less of L2.
LONG = 300.0
#: What is worth timing: a place in the ranking and fields of its schedule that are changed, the most
#: promising first.
VARIATIONS: tuple[tuple[int, dict[str, Any]], ...] = (
    (0, {}), (0, {"cluster": 2}), (1, {}), (0, {"cluster": 2, "pending": 1}), (0, {"pending": 1}), (2, {}),
    (1, {"cluster": 2}), (1, {"pending": 1}), (3, {}), (0, {"cluster": 2, "group": 4}), (4, {}),
    (2, {"pending": 1}), (0, {"group": 4}), (3, {"pending": 1}), (5, {}), (6, {}),
)  # fmt: skip


def menu(problem: Problem, sizes: Mapping[str, int]) -> list[tuple[Schedule, float]]:
    """The schedules that the problem allows at those sizes, each in the form that suits it.

    Two products share the columns of a tile.
    """
    found = []
    whole = not sizes["N"] % (16 // min(problem.output_sizes))
    for wide, share in MENU:
        schedule = replace(wide, tile_n=wide.tile_n // len(problem.rights))
        if not possible(problem, schedule):
            continue
        if not problem.b_t and schedule.tile_n % 64:
            continue
        try:
            staged = replace(schedule, store="tma")
            staged.fitted_stages(staged.staging(problem.output_sizes), len(problem.rights))
        except InputError:
            staged = schedule
        found.append((_in_laps(problem, staged if whole else schedule, sizes), share))
    return found


def _in_laps(problem: Problem, schedule: Schedule, sizes: Mapping[str, int]) -> Schedule:
    """Where warpgroups take turns, with the number of laps of the ring that fits K best."""
    if not schedule.pingpong:
        return schedule
    laps = -(-steps_of(problem.size, sizes) // stages_of(problem, schedule))
    return replace(schedule, laps="odd" if laps % 2 else "even")


def microseconds(
    schedule: Schedule, share: float, sizes: Mapping[str, int], multiprocessors: int, size: int = 2
) -> float:
    """What the model says for factors of ``size`` bytes; the last turn counts in full, however few blocks it
    has. Products of a byte along K take the same time for all types, and so does a second factor's byte."""
    tiles = _tiles(schedule, sizes)
    steps = steps_of(size, sizes)
    each = schedule.tile_m * schedule.tile_n * steps * (K_SPAN // 2) / (RATE * share)
    turns = -(-tiles // (multiprocessors // schedule.cluster))
    if schedule.pingpong:
        # what a tile takes beside its products, others' products hide, if there are any
        return START + max(turns, 2) * each + TURN
    if schedule.split_k == 1:
        return START + turns * (each + TURN)
    return START + _shared_out(schedule, tiles, steps, each, multiprocessors)


def steps_of(size: int, sizes: Mapping[str, int]) -> int:
    """Steps of a tile along K, of factors of ``size`` bytes."""
    return -(-sizes["K"] * size // K_SPAN)


def _bytes(problem: Problem) -> int:
    """Bytes of right factors for each element of K and column."""
    return problem.size * len(problem.rights)


def _tiles(schedule: Schedule, sizes: Mapping[str, int]) -> int:
    """Tiles of blocks, or of whole clusters."""
    return -(-sizes["M"] // (schedule.tile_m * schedule.cluster)) * -(-sizes["N"] // schedule.tile_n)


def _shared_out(schedule: Schedule, tiles: int, steps: int, each: float, multiprocessors: int) -> float:
    """The tiles that a block has alone, its parts of others, and what it takes to bring sums together."""
    q = schedule.split_k
    if schedule.streams:
        shares = stream.values(schedule, tiles, steps, multiprocessors)["share"] / q
    else:
        alone = split.values(schedule, tiles, steps, multiprocessors).get("turns", 0)
        shares = alone + (1 / q if schedule.shares == "one" else (q - 1) / q)
    others = q - 1 if schedule.shares == "one" else 1
    moved = 4 * schedule.tile_m * schedule.tile_n * (1 + others) / SUM_RATE
    return shares * (each + TURN) + TURN + HAND_OVER + moved


def splits(
    problem: Problem, sizes: Mapping[str, int], multiprocessors: int, cluster: Literal[1, 2] = 1
) -> list[tuple[Schedule, float]]:
    """Schedules whose blocks or clusters share tiles, where whole tiles leave more SMs idle."""
    found = []
    steps = steps_of(problem.size, sizes)
    for schedule, share in menu(problem, sizes) if len(problem.rights) == 1 else ():
        for shares, q in SPLITS:
            shared = replace(schedule, split_k=q, shares=shares, cluster=cluster)
            tiles = _tiles(shared, sizes)
            shared = replace(shared, persistent=tiles >= multiprocessors // cluster)
            if tiles % (multiprocessors // cluster) == 0 or not proved_soon(shared):
                continue
            if not possible(problem, shared):
                continue
            blocks = split.values(shared, tiles, steps, multiprocessors)["blocks"]
            if blocks <= multiprocessors and steps >= SHORTEST * q:
                found.append((shared, share))
    return found


def ranked(problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> list[Schedule]:
    """The menu by the time that the model gives, persistent where there are several turns; splits of the
    steps along K among them, where they promise much."""
    whole = menu(problem, sizes)
    filled = any(FILLED * multiprocessors <= _tiles(s, sizes) <= multiprocessors for s, _ in whole)
    margin = MARGIN_OF_FILLED if filled else MARGIN
    options = [(*x, 1.0) for x in whole]
    options += [(*x, margin + EACH * x[0].split_k) for x in splits(problem, sizes, multiprocessors)]
    order = _sorted(problem, sizes, multiprocessors, options)
    return [_turning(s, sizes, multiprocessors) for s in order]


def _sorted(
    problem: Problem,
    sizes: Mapping[str, int],
    multiprocessors: int,
    options: list[tuple[Schedule, float, float]],
) -> list[Schedule]:
    """By the model's time, times what it has to promise."""

    def time(s: Schedule, share: float, margin: float) -> float:
        return microseconds(s, share, sizes, multiprocessors, _bytes(problem)) * margin

    return [s for s, _, _ in sorted(options, key=lambda o: time(*o))]


def candidates(
    problem: Problem, sizes: Mapping[str, int], multiprocessors: int, count: int = 6
) -> list[Schedule]:
    """What is worth timing, the most promising first: variations of what the model ranks first."""
    order = ranked(problem, sizes, multiprocessors)
    shares = dict(menu(problem, sizes))
    plain = replace(order[0], split_k=1, persistent=False, shares="pairs")
    time = microseconds(order[0], shares.get(plain, 1.0), sizes, multiprocessors, _bytes(problem))
    short = time < LONG
    varied = [
        replace(order[place], dependent=short, **fields) for place, fields in VARIATIONS if place < len(order)
    ]
    if order[0].split_k > 1:
        pairs = [(*x, 1.0) for x in splits(problem, sizes, multiprocessors, 2)]
        best = _sorted(problem, sizes, multiprocessors, pairs)[:2]
        runs = replace(order[0], shares="any", persistent=False)  # these begin and end anywhere
        varied[1:1] = [replace(s, dependent=short) for s in (runs, *best)]
    if problem.others:
        # reads in front of stores that nothing parts from them, while the other warpgroup multiplies
        turns = [replace(s, store="direct") for s, _ in menu(problem, sizes) if s.pingpong]
        varied[2:2] = [replace(s, dependent=short) for s in turns]
    if not short:
        varied = [x for s in varied for x in (s, replace(s, dependent=True))]
    # tiles that begin anywhere leave room for one more slot, but only launches are proved
    varied = [x for s in varied for x in ((s, replace(s, laps="any")) if s.pingpong else (s,))]
    return [s for s in dict.fromkeys(varied) if possible(problem, s)][:count]


def proved_soon(schedule: Schedule) -> bool:
    """Whether a split is proved for every size in seconds: not where neighbours share their only tiles, nor
    where blocks share one tile of these sizes behind whole ones."""
    if schedule.shares == "pairs":
        return schedule.persistent
    return not schedule.persistent or (schedule.tile_m, schedule.tile_n) not in SLOW


def possible(problem: Problem, schedule: Schedule) -> bool:
    """Whether the problem can be computed so."""
    try:
        schedule.check(len(problem.rights))
        schedule.fitted_stages(schedule.staging(problem.output_sizes), len(problem.rights))
    except InputError:
        return False
    return True


def choose(problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> Schedule:
    """The schedule that the model prefers."""
    return ranked(problem, sizes, multiprocessors)[0]


def _turning(schedule: Schedule, sizes: Mapping[str, int], multiprocessors: int) -> Schedule:
    if schedule.split_k > 1 or schedule.pingpong:
        return schedule
    tiles = -(-sizes["M"] // schedule.tile_m) * -(-sizes["N"] // schedule.tile_n)
    return replace(schedule, persistent=tiles > multiprocessors)


__all__ = ["MENU", "candidates", "choose", "menu", "microseconds", "possible", "proved_soon", "ranked",
           "splits"]  # fmt: skip
