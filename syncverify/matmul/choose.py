"""Which schedule suits given sizes: a menu of forms, ranked by the model of their time (``matmul.cost``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from syncverify.base.source import InputError
from syncverify.matmul import batch, split
from syncverify.matmul.cards import Card, here
from syncverify.matmul.cost import LONG, Facts, clusters_of, matrices, steps_of, together
from syncverify.matmul.estimate import Launch, estimated
from syncverify.matmul.lower import computed, stages_of
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule

#: Registers of the loading and of the multiplying warpgroups: of two, of three, of one of two blocks.
TWO, THREE, HALF = (40, 232), (32, 160), (40, 208)
#: Tiles that are considered: rows, columns, multiplying warpgroups, registers, blocks of an SM.
TILES: tuple[tuple[int, int, int, tuple[int, int] | None, int], ...] = (
    *((128, n, 2, TWO if n > 64 else None, 1) for n in (64, 96, 128, 160, 192, 224, 256)),
    *((256, n, 2, TWO, 1) for n in (64, 96, 128, 160, 192)),
    *((192, n, 3, THREE, 1) for n in (64, 96, 128, 160, 192)),
    *((64, n, 1, None, 1) for n in (32, 64, 96, 128, 160, 192, 256)),
    *((64, n, 1, None, 2) for n in (32, 64, 96, 128)),
    (128, 64, 1, None, 2), (128, 96, 1, HALF, 2), (128, 128, 1, HALF, 2), (64, 160, 1, HALF, 2),
    (64, 192, 1, HALF, 2), (64, 64, 1, None, 3),
)  # fmt: skip
#: How blocks may share tiles, and how many of them; steps that a part has at least.
SPLITS: tuple[tuple[Literal["pairs", "one"], int], ...] = (
    *(("pairs", q) for q in (2, 3, 4)), *(("one", q) for q in (2, 3, 4, 5, 6, 8, 11, 13)),
)  # fmt: skip
SHORTEST = 4
#: Tiles whose width is fitted to the columns: rows, multiplying warpgroups, registers, blocks of an SM, and
#: the widest. So many of them side by side at most.
FITTED: tuple[tuple[int, int, tuple[int, int] | None, int, int], ...] = (
    (128, 2, TWO, 1, 256), (256, 2, TWO, 1, 200), (192, 3, THREE, 1, 192), (64, 1, None, 1, 256),
    (64, 1, None, 2, 128), (128, 1, HALF, 2, 128),
)  # fmt: skip
MOST_FITTING = 5
#: The narrowest of several side by side; columns of a panel of B where it lies across K, and how many times
#: the panels that there are tiles may bring.
LEAST_FITTED, PANEL, MOST_BROUGHT = 40, 64, 1.15
#: Turns of blocks that tiles fill with the widths that are fitted to the SMs, and steps of a tile at least:
#: K of 1024. Below they lose more than they gain (docs/choice.md), and where B lies across K, as neighbours
#: bring panels of 64 columns twice.
FILLED_TURNS, LEAST_FILLED_STEPS = (1, 2), 16
#: Blocks of a cluster, and whether they lie side by side: of all products, and of plain ones beside.
_Clusters = tuple[tuple[Literal[1, 2, 4], bool], ...]
CLUSTERS: _Clusters = ((1, False), (2, False), (2, True))
FOURS: _Clusters = ((4, False), (4, True))
#: Tiles for which a proof that blocks share one of them behind whole ones takes long, and how many blocks
#: may share one at most: behind whole ones; clusters, by their multiplying warpgroups.
SLOW = {(128, 192), (128, 64)}
MOST_BEHIND, MOST_CLUSTERS = 6, {1: 6, 2: 4, 3: 2}
#: Fields of the schedules in front that are changed for tuning, by their place in the ranking.
VARIATIONS: tuple[tuple[int, dict[str, Any]], ...] = (
    (0, {}), (1, {}), (2, {}), (0, {"pending": 1}), (3, {}), (0, {"group": 4}), (4, {}), (5, {}),
    (1, {"pending": 1}), (6, {}), (7, {}), (8, {}), (1, {"group": 4}), (9, {}), (10, {}), (11, {}),
)  # fmt: skip


#: Launches whose times differ by no more are alike to the model, which is off by more (docs/choice.md).
ALIKE = 0.01
#: Where warpgroups take turns for the ends of tiles: tiles for each SM at least, and K at most.
LEAST_PINGPONG_TILES, MOST_PINGPONG_K = 8, 4096


@dataclass(frozen=True, slots=True)
class _Form:
    """A schedule of the menu, and its slots of the ring."""

    schedule: Schedule
    stages: int


def menu(problem: Problem, sizes: Mapping[str, int], multiprocessors: int = 132) -> list[Schedule]:
    """The schedules that the problem allows at those sizes: none that leaves half of its tiles empty, whole
    tiles persistent where there are several turns of them, shared ones where these leave SMs idle."""
    return [x.schedule for x in launches(problem, sizes, multiprocessors)]


def forms(problem: Problem) -> list[Schedule]:
    """Every schedule that the menu may have for the problem, at some sizes."""
    return [f.schedule for staged in (True, False) for f in _forms(_Kind.of(problem, staged))]


def ranked(
    problem: Problem, sizes: Mapping[str, int], multiprocessors: int, card: Card | None = None
) -> list[Schedule]:
    """The menu by the time that the model gives for the card, or this machine's; dependent launches where
    they are short."""
    found = launches(problem, sizes, multiprocessors)
    times = estimated(card or here(), found, multiprocessors)
    order = sorted(zip(times.tolist(), range(len(found)), strict=True))
    every = [replace(found[n].schedule, dependent=time < LONG) for time, n in order]
    return [*_pingpong_first(problem, sizes, multiprocessors), *every] if every else every


def choose(
    problem: Problem, sizes: Mapping[str, int], multiprocessors: int, card: Card | None = None
) -> Schedule:
    """The schedule that the model prefers; InputError if the problem allows none."""
    found = ranked(problem, sizes, multiprocessors, card)
    if not found:
        raise InputError(f"{problem.name}: no schedule has the registers and the shared memory for it")
    return found[0]


def among(
    known: Collection[Schedule],
    problem: Problem,
    sizes: Mapping[str, int],
    multiprocessors: int,
    card: Card | None = None,
) -> Schedule:
    """What the model prefers, or of the ``known`` schedules the fastest one that is alike to it.

    Kernels of the known ones are proved or asked for already, and a proof is for every size. Example: a layer
    of GPT-2 and its gradients have 15 products, for which 13 kernels are preferred, and 10 are enough.
    """
    first = choose(problem, sizes, multiprocessors, card)
    if first in known or first.pingpong:
        return first
    found = [x for x in launches(problem, sizes, multiprocessors) if _plain(x.schedule) in map(_plain, known)]
    every = [replace(x, schedule=s) for x in found for s in known if _plain(s) == _plain(x.schedule)]
    best = predicted(problem, first, sizes, multiprocessors, card)
    times = estimated(card or here(), every, multiprocessors).tolist() if every else []
    order = sorted((time, n) for n, time in enumerate(times) if time <= best * (1 + ALIKE))
    return every[order[0][1]].schedule if order else first


def _plain(schedule: Schedule) -> Schedule:
    """The schedule as the menu has it, which says nothing of the kernel in front."""
    return replace(schedule, dependent=False)


def predicted(
    problem: Problem,
    schedule: Schedule,
    sizes: Mapping[str, int],
    multiprocessors: int,
    card: Card | None = None,
) -> float:
    """Microseconds that the model gives a launch."""
    problem, sizes = problem.computed(schedule.by_columns), computed(schedule, sizes)
    launch = Launch(Facts.of(problem), schedule, stages_of(problem, schedule), sizes)
    return float(estimated(card or here(), [launch], multiprocessors)[0])


def candidates(
    problem: Problem, sizes: Mapping[str, int], multiprocessors: int, count: int = 6, card: Card | None = None
) -> list[Schedule]:
    """What is worth timing, the most promising first: what the model ranks first, and variations of it."""
    order = ranked(problem, sizes, multiprocessors, card)
    short = bool(order) and order[0].dependent
    varied = [replace(order[place], **fields) for place, fields in VARIATIONS if place < len(order)]
    if order and order[0].split_k > 1 and order[0].cluster == 1:
        # runs that begin and end anywhere: only launches are proved
        varied.insert(1, replace(order[0], shares="any", persistent=False))
    varied[2:2] = [replace(s, dependent=short) for s in _in_turn(problem, sizes)]
    if not short:
        varied = [x for s in varied for x in (s, replace(s, dependent=True))]
    return [s for s in dict.fromkeys(varied) if possible(problem, s)][:count]


def possible(problem: Problem, schedule: Schedule) -> bool:
    """Whether the problem can be computed so."""
    if not batch.allows(problem, schedule):
        return False
    try:
        problem = problem.computed(schedule.by_columns)
        schedule.check(len(problem.rights))
        schedule.fitted_stages(schedule.staging(problem.output_sizes), len(problem.rights), not problem.b_t)
    except InputError:
        return False
    return not (problem.prologue and schedule.pending)


def proved_soon(schedule: Schedule) -> bool:
    """Whether a split is proved for every size in seconds: not where neighbours share their only tiles, nor
    where blocks share one tile of some sizes, or many do, behind whole ones. Clusters share one tile, few of
    them, and none by columns."""
    if schedule.by_columns and (schedule.cluster > 1 or schedule.persistent):
        return False
    if schedule.cluster > 1:
        alone = schedule.shares == "one" and not schedule.persistent
        return alone and schedule.split_k <= MOST_CLUSTERS[schedule.consumers]
    if schedule.shares == "pairs":
        return schedule.persistent
    if not schedule.persistent:
        return True
    return (schedule.tile_m, schedule.tile_n) not in SLOW and schedule.split_k <= MOST_BEHIND


def launches(problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> list[Launch]:
    """The launches of the menu at those sizes."""
    found: list[Launch] = []
    for by_columns, p in _kinds(problem):
        own = {**sizes, "M": sizes["N"], "N": sizes["M"]} if by_columns else dict(sizes)
        staged = not own["M" if by_columns else "N"] % (16 // min(p.output_sizes))
        if by_columns and not staged:
            continue
        facts, kind = Facts.of(p), _Kind.of(p, staged)
        long = p.b_t and matrices(own) == 1 and steps_of(p.size, own) >= LEAST_FILLED_STEPS
        filled = filling(own["M"], own["N"], multiprocessors) if long else ()
        every = (
            *(() if by_columns else _forms(kind)),
            *_fitted_forms(kind, fitting(own["N"], along_n=not p.b_t), by_columns=by_columns),
            *_filled_forms(kind, filled, by_columns=by_columns),
        )
        some = dict.fromkeys(f for f in every if _suits(f.schedule, p, own, multiprocessors))
        found += [Launch(facts, f.schedule, f.stages, own) for f in some]
    return found


def _kinds(problem: Problem) -> list[tuple[bool, Problem]]:
    """The problem, and where it can be computed so, that of the transposes (True)."""
    other = problem.transposed
    return [(False, problem), *([(True, other)] if other is not None else [])]


def fitting(columns: int, *, along_n: bool = False) -> tuple[int, ...]:
    """Widths of tiles, a few of which cover so many columns almost without a rest.

    ``along_n``: B is read in panels of 64 columns. Widths that divide a panel otherwise than in halves have
    neighbours that bring the same panel. They are left out where panels cover N, for they gain no columns,
    and where they bring many more panels than there are. Example: an H200 takes 25.6 us for 4736 x 512 x 2240
    so, in five tiles of 104 columns, where cuBLAS takes 18.8.
    """
    by_count = {count: -(-columns // (count * 8)) * 8 for count in range(1, MOST_FITTING + 1)}
    found = {n for count, n in by_count.items() if n <= 256 and (count == 1 or n >= LEAST_FITTED)}
    return tuple(sorted(n for n in found if not along_n or _few_panels(columns, n)))


def _few_panels(columns: int, width: int) -> bool:
    """Whether tiles divide panels in halves at most, or bring few of them twice where the last has a rest."""
    brought, there = -(-columns // width) * -(-width // PANEL), -(-columns // PANEL)
    return width % (PANEL // 2) == 0 or (columns % PANEL != 0 and brought < MOST_BROUGHT * there)


def filling(rows: int, columns: int, multiprocessors: int) -> tuple[tuple[int, int, int], ...]:
    """Tiles whose widths are fitted to the SMs: rows, blocks of an SM, and the width with which all tiles of
    a product are just as many as run in one turn or two.

    Example: 128 rows and 9856 columns are 77 tiles of 128 by 128, and leave 55 of 132 SMs idle; of 128 by 80
    they are 124. Tiles of 256 by 192 divide 384 rows and 6912 columns into 72; of 192 by 112 they are 124.
    """
    found = set()
    for m, _, _, resident, most in FITTED:
        down = -(-rows // m)
        for turns in FILLED_TURNS:
            across = multiprocessors * resident * turns // down
            width = -(-columns // (across * 8)) * 8 if across else 0
            if LEAST_FITTED <= width <= most:
                found.add((m, resident, width))
    return tuple(sorted(found))


def _suits(s: Schedule, problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> bool:
    """Whether a form is worth a thought at those sizes."""
    m, n = sizes["M"], sizes["N"]
    if not batch.allows(problem, s):
        return False
    if (m <= s.tile_m - 64 and s.tile_m > 64) or (n <= s.tile_n - 64 and s.tile_n > 64):
        return False
    if s.cluster > 1 and (n <= s.tile_n * s.cluster // 2 if s.beside else m <= s.tile_m * s.cluster // 2):
        return False
    tiles, many = clusters_of(s, sizes) * s.cluster * matrices(sizes), matrices(sizes)
    if s.split_k > 1 and (many > 1 or reads_and_writes(problem)):
        return False
    if s.split_k == 1:
        several = tiles > multiprocessors * s.resident
        small = s.resident > 1 or s.tile_m * s.tile_n <= 128 * 128
        return several if s.persistent else (small or not several)
    if tiles % multiprocessors == 0 or steps_of(problem.size, sizes) < SHORTEST * s.split_k:
        return False
    if s.persistent != (tiles >= multiprocessors):
        return False
    blocks = split.values(s, tiles // s.cluster, steps_of(problem.size, sizes), multiprocessors)["blocks"]
    return blocks <= together(multiprocessors, s.cluster)


class _Kind(NamedTuple):
    """What of a problem its forms depend on: whether B runs along K, whether there is a prologue, bytes of
    the elements of outputs, right factors, and whether results can be staged."""

    b_t: bool
    prologue: bool
    outputs: tuple[int, ...]
    rights: int
    staged: bool

    @classmethod
    def of(cls, problem: Problem, staged: bool) -> _Kind:
        outputs = tuple(problem.output_sizes)
        return cls(problem.b_t, problem.prologue is not None, outputs, len(problem.rights), staged)


@lru_cache(maxsize=256)
def _forms(kind: _Kind) -> tuple[_Form, ...]:
    """Every form of the menu's tiles that such problems allow, whatever their sizes."""
    return tuple(_made(kind, _tiles(kind.rights)))


@lru_cache(maxsize=256)
def _fitted_forms(kind: _Kind, widths: tuple[int, ...], *, by_columns: bool) -> tuple[_Form, ...]:
    """The forms of tiles of the given widths beside those of the menu; by columns there are no others."""
    return tuple(_made(kind, _fitted(kind.rights, widths, by_columns=by_columns)))


@lru_cache(maxsize=256)
def _filled_forms(
    kind: _Kind, filled: tuple[tuple[int, int, int], ...], *, by_columns: bool
) -> tuple[_Form, ...]:
    """The forms of tiles whose widths are fitted to the SMs (``filling``); blocks share none of them."""
    return tuple(_made(kind, _filled(kind.rights, filled, by_columns=by_columns), splits=False))


def _tiles(rights: int) -> Iterator[Schedule]:
    """Tiles of the menu."""
    for m, wide, consumers, registers, resident in TILES:
        # two products share the columns of a tile
        yield Schedule(m, wide // rights, consumers, registers=registers, resident=resident)


def _fitted(rights: int, widths: tuple[int, ...], *, by_columns: bool) -> Iterator[Schedule]:
    """Tiles of the given widths."""
    known = {(t[0], t[1] // rights, t[2], t[4]) for t in TILES} if not by_columns else set()
    for m, consumers, registers, resident, most in FITTED if rights == 1 else ():
        for n in widths:
            if n <= most and (m, n, consumers, resident) not in known:
                own = None if (m, consumers) == (128, 2) and n <= 64 else registers
                yield Schedule(m, n, consumers, registers=own, resident=resident, by_columns=by_columns)


def _filled(rights: int, filled: tuple[tuple[int, int, int], ...], *, by_columns: bool) -> Iterator[Schedule]:
    """Tiles of widths that are fitted to the SMs, each with the rows that it is fitted for."""
    for m, consumers, registers, resident, _ in FITTED if rights == 1 else ():
        for n in [n for rows, blocks, n in filled if (rows, blocks) == (m, resident)]:
            own = None if (m, consumers) == (128, 2) and n <= 64 else registers
            yield Schedule(m, n, consumers, registers=own, resident=resident, by_columns=by_columns)


def _made(kind: _Kind, tiles: Iterable[Schedule], *, splits: bool = True) -> Iterator[_Form]:
    """The forms of tiles: whole ones, and those that blocks share."""
    several = kind.rights > 1
    for tile in tiles:
        if tile.tile_n % 8 or (several and tile.tile_n % (16 if kind.b_t else PANEL)):
            continue
        for whole in _whole(tile, kind.prologue, kind.rights):
            shared = _splits(whole) if splits and tile.resident == 1 and not several else ()
            for s in (whole, *shared):
                form = _stored(s, kind)
                if form is not None:
                    yield form


def _whole(tile: Schedule, prologue: bool, rights: int) -> Iterator[Schedule]:
    """Whole tiles: alone, in clusters above or beside each other, alone and in twos each also persistent; in
    fours for one product of factors as they are in memory."""
    for cluster, adjacent in (*CLUSTERS, *(FOURS if rights == 1 and not prologue else ())):
        for persistent in (False, True) if cluster < 4 else (False,):
            # one group in flight pays where one warpgroup multiplies alone; its proofs in clusters take long,
            # persistent ones or by columns
            alone = tile.consumers == 1 and tile.resident == 1
            alone = alone and not (cluster > 1 and (persistent or tile.by_columns))
            pending: Literal[0, 1] = 1 if alone and not prologue else 0
            yield replace(
                tile,
                cluster=cluster,
                beside=adjacent,
                persistent=persistent,
                pending=pending,
            )


def _splits(whole: Schedule) -> Iterator[Schedule]:
    for shares, q in SPLITS:
        s = replace(whole, split_k=q, shares=shares, pending=0)
        if proved_soon(s):
            yield s


def _stored(s: Schedule, kind: _Kind) -> _Form | None:
    """By tensor copies where rows allow them and shared memory has the room, else directly."""
    stores: tuple[Literal["tma", "direct"], ...] = ("tma", "direct") if kind.staged else ("direct",)
    for store in ("tma",) if s.by_columns else stores:
        form = replace(s, store=store)
        try:
            form.fits(kind.rights)
            stages = form.fitted_stages(form.staging(list(kind.outputs)), kind.rights, not kind.b_t)
        except InputError:
            continue
        return _Form(form, stages)
    return None


def reads_and_writes(problem: Problem) -> bool:
    """Whether the epilogue reads a matrix as large as C and writes several: then the end of a tile is long.

    The model was fitted on products that do one of both at most. On an H200, 8192 x 5632 x 2048 with one such
    input and two results takes 494 us in tiles that blocks share, which it prefers, and 334 in whole ones.
    """
    return len(problem.epilogue.outputs) > 1 and any(len(t.dims) == 2 for _, t in problem.others)


def _pingpong_first(problem: Problem, sizes: Mapping[str, int], multiprocessors: int) -> list[Schedule]:
    """For long ends of tiles, many tiles and short K: one warpgroup stores while the other multiplies.

    With two inputs and two results of 8192 x 5632 and K = 2048: 340 us, and 379 in tiles of both together.
    """
    apart = problem.grouped or len(problem.rights) > 1
    if apart or not reads_and_writes(problem) or sizes["K"] > MOST_PINGPONG_K:
        return []
    found = Schedule(64, 256, registers=TWO, persistent=True, pingpong=True, pending=1, store="tma")
    staged = not sizes["N"] % (16 // min(problem.output_sizes))
    tiles = clusters_of(found, sizes) * matrices(sizes)
    if not staged or tiles < LEAST_PINGPONG_TILES * multiprocessors or not possible(problem, found):
        return []
    laps = -(-steps_of(problem.size, sizes) // stages_of(problem, found))
    return [replace(found, laps="odd" if laps % 2 else "even")]


def _in_turn(problem: Problem, sizes: Mapping[str, int]) -> list[Schedule]:
    """Warpgroups that take turns, for tuning: with the number of laps of the ring that fits K best, and tiles
    that begin anywhere, for which only launches are proved."""
    staged = not sizes["N"] % (16 // min(problem.output_sizes))
    plain = Schedule(
        128, 128 // len(problem.rights), registers=TWO, persistent=True, pingpong=True, pending=1,
        store="tma" if staged and not problem.others else "direct",
    )  # fmt: skip
    if not possible(problem, plain):
        return []
    laps = -(-steps_of(problem.size, sizes) // stages_of(problem, plain))
    return [replace(plain, laps="odd" if laps % 2 else "even"), replace(plain, laps="any")]


__all__ = ["TILES", "candidates", "choose", "forms", "menu", "possible", "predicted", "proved_soon", "ranked"]
