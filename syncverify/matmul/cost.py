"""What a product takes on a card: a model of its time, of what a launch does and what the card does a second.

A launch is counted first (``counted``): turns of tiles, steps of a tile, cycles of the tensor cores, rows of
factors that come from L2, bytes of memory. None of this depends on the card. ``microseconds`` then weighs the
counts by a card's ``Coefficients``, which are fitted to measured launches
(``benchmarks/hardware/matmul_fit.py``).

Of what goes on at one time the slowest sets the pace, and the others delay it a little: such times are joined
by a norm, (x^p + y^p + ...)^(1/p). The arithmetic of ``microseconds`` is that of numbers and of arrays alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syncverify.ir.nodes import DTYPE_BYTES
from syncverify.matmul import split, stream
from syncverify.matmul.problem import BATCH, EXPERTS, Problem
from syncverify.matmul.schedule import K_SPAN, Schedule

#: Multiply-adds of 16-bit factors that an SM of sm_90 makes in a cycle, bytes of shared memory that it reads.
MULTIPLY_ADDS, SHARED_BYTES = 2048, 128
#: Part of the cost of rows that are no multiple of 128 bytes, by the bytes that they are a multiple of.
CROSSING = {64: 0.5, 32: 0.8}
#: Microseconds from which on blocks that begin before the kernel in front ends cost more than they save, and
#: the rates that tell how long a launch takes at least: products and bytes per microsecond.
LONG, LEAST_PRODUCTS, LEAST_BYTES = 50.0, 3.25e8, 4.2e6
#: SMs of a group of sm_90 of which clusters have all, or all but two.
GROUP = 16
#: Stores by single threads instead of tensor copies, by what these take (not fitted).
DIRECT = 2.0


@dataclass(frozen=True, slots=True)
class Processors:
    """The SMs of a card. ``fours``: how many clusters of four it runs at one time, where it was asked; cards
    of one name differ in how many SMs each of their groups has."""

    count: int
    fours: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a problem the time depends on. ``size``: bytes of an element of a factor as it is multiplied;
    ``rights``: right factors; ``read``, ``written``: bytes beside factors for each element of C;
    ``by_columns``: whether C is stored so."""

    a_t: bool
    b_t: bool
    size: int
    stored: int
    rights: int
    read: int
    written: int
    by_columns: bool

    @staticmethod
    def of(problem: Problem) -> Facts:
        read = sum(DTYPE_BYTES[t.dtype] for _, t in problem.others if len(t.dims) == 2)
        stored = DTYPE_BYTES[problem.types["a"]]
        rights, written = len(problem.rights), sum(problem.output_sizes)
        return Facts(
            problem.a_t, problem.b_t, problem.size, stored, rights, read, written, problem.by_columns
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """What a launch does, for the block of an SM that does most.

    ``steps`` along K of a tile; ``stages`` of the ring. ``turns`` of ``at_once`` blocks of an SM, and a
    ``last`` one (0 or 1) of ``at_last`` blocks in which the share ``busy_last`` of all SMs has work;
    ``busy``: in the others. ``ends``: tiles that are stored in turns. ``restarts``: blocks that begin behind
    others.
    Of a step: ``products``, cycles of the tensor cores; ``operands``, cycles of reading shared memory;
    ``rows`` of 128 bytes from L2, ``crossing`` of them that lie across lines; ``filled``, rows of shared
    memory. ``area``: elements of a tile that are stored; ``ragged``: how far rows of C cross lines.
    ``others``: partial sums that a block adds; ``sums``: elements of them. ``bytes`` of memory.
    The rest are 0 or 1: C is stored by columns (``turned``); of a split, a cluster, one or three multiplying
    warpgroups, a group in flight, a dependent launch, one that is long.
    """

    steps: float
    stages: float
    turns: float
    at_once: float
    busy: float
    last: float
    at_last: float
    busy_last: float
    ends: float
    restarts: float
    products: float
    operands: float
    rows: float
    crossing: float
    filled: float
    area: float
    ragged: float
    others: float
    sums: float
    bytes: float
    turned: float
    split: float
    cluster: float
    one: float
    three: float
    pending: float
    dependent: float
    long: float


@dataclass(frozen=True)
class Coefficients:
    """What a card takes. Cycles, unless said otherwise; factors have no unit.

    ``clock``: cycles per microsecond. ``products``, ``operands``: factors of the cycles counted. ``row``,
    ``crossing``: for a row from L2, and how much more for one that crosses lines; ``filled``: for a row that
    is written to shared memory. ``latency`` of a load, over as many stages as there are. ``idle``: the power
    of the share of busy SMs by which loads become faster where others are idle. ``end``, ``stored``: for the
    end of a tile, and for each of its elements; ``ragged``: how much more where rows of C cross lines;
    ``turned``: how much more where C is stored by columns;
    ``beside``: what is left of the end of a tile beside the products of another block. ``restart``,
    ``cluster_restart``: of a block, of one in a cluster, behind others. ``hand_over``, ``each``, ``sum``: of
    partial sums, at all, for each of them, for each element. ``memory``: microseconds for 10^6 bytes.
    ``launch``, ``cluster_launch``, ``dependent``: microseconds of a launch, more in clusters, less where it
    is dependent; ``long``: the factor of dependent launches that are long. ``cluster``, ``one``, ``three``,
    ``pending``, ``split``: factors of the products of those kinds. ``pace``, ``whole``: the powers of the
    norms of a step, and of SMs and memory. ``tiles``: factors of the products by tile (``tile_name``).
    """

    clock: float
    products: float
    operands: float
    row: float
    crossing: float
    filled: float
    latency: float
    idle: float
    end: float
    stored: float
    ragged: float
    turned: float
    beside: float
    restart: float
    cluster_restart: float
    hand_over: float
    each: float
    sum: float
    memory: float
    launch: float
    cluster_launch: float
    dependent: float
    long: float
    cluster: float
    one: float
    three: float
    pending: float
    split: float
    pace: float
    whole: float
    tiles: Mapping[str, float]


def tile_name(schedule: Schedule) -> str:
    """Tiles of one name have one factor: those of nearly as many columns."""
    least, most = (32, 256) if schedule.tile_m == 64 else (64, 256)
    columns = min(max(round(schedule.tile_n / 32) * 32, least), most)
    name = f"{schedule.tile_m}x{columns}/{schedule.consumers}"
    return name if schedule.resident == 1 else f"{name}x{schedule.resident}"


def steps_of(size: int, sizes: Mapping[str, int]) -> int:
    """Steps of a tile along K, of factors of ``size`` bytes."""
    return -(-sizes["K"] * size // K_SPAN)


def clusters_of(schedule: Schedule, sizes: Mapping[str, int]) -> int:
    """Tiles of blocks, or of whole clusters, of one matrix."""
    down = -(-sizes["M"] // (schedule.tile_m * schedule.sharing_b))
    return down * -(-sizes["N"] // (schedule.tile_n * schedule.sharing_a))


def matrices(sizes: Mapping[str, int]) -> int:
    """Products of one shape that a launch makes."""
    return sizes.get(BATCH, 1)


def together(multiprocessors: int, cluster: int) -> int:
    """SMs that clusters of so many blocks can have at one time: one lies in one of the card's groups of 16 or
    18 SMs, so that fours leave the last two of each idle."""
    return max(multiprocessors // GROUP * GROUP, 1) if cluster == 4 else multiprocessors


def slots_of(schedule: Schedule, tiles: int, sms: Processors) -> int:
    """Blocks that run at one time. Launches that fit are told as on the cards that were measured."""
    cluster, resident, fours = schedule.cluster, schedule.resident, sms.fours
    slots = max(together(sms.count, cluster) * resident // cluster, 1) * cluster
    if cluster == 4 and fours is not None and tiles > fours * 4 * resident:
        return max(min(slots, fours * 4 * resident), 4)
    return slots


def crossing(row: int) -> float:
    """How far rows of so many bytes cross lines of L2: none of them to all."""
    return 0.0 if row % 128 == 0 else next((x for size, x in CROSSING.items() if row % size == 0), 1.0)


def counted(
    facts: Facts, schedule: Schedule, stages: int, sizes: Mapping[str, int], sms: Processors
) -> Counts:
    """What a launch of the schedule does on a card with those SMs."""
    multiprocessors = sms.count
    m, n, k, many = sizes["M"], sizes["N"], sizes["K"], matrices(sizes)
    cluster, resident = schedule.cluster, schedule.resident
    sharing_a, sharing_b = schedule.sharing_a, schedule.sharing_b
    down, across = -(-m // (schedule.tile_m * sharing_b)), -(-n // (schedule.tile_n * sharing_a))
    tiles, steps = down * across * cluster * many, steps_of(facts.size, sizes)
    columns = schedule.tile_n * facts.rights
    # rows that a block's tiles hold on average: what lies outside does not come from memory
    rows_a = m / (down * sharing_b) / sharing_a
    rows_b = n / (across * sharing_a) / sharing_b * facts.rights
    wide = schedule.columns(not facts.b_t)
    if wide > schedule.tile_n:
        rows_b = min(wide, n)  # neighbours bring a panel twice
    lines_a = crossing((m if facts.a_t else k) * facts.stored)
    lines_b = crossing((k if facts.b_t else n) * facts.size)
    q, others = schedule.split_k, 0
    last = at_last = busy_last = 0.0
    restarts = 0.0
    if q > 1:
        turns, alone, busy = _shared(schedule, down * across, tiles, steps, multiprocessors)
        at_once, ends = 1, alone + 1.0
        others = q - 1 if schedule.shares == "one" else 1
    else:
        slots = slots_of(schedule, tiles, sms)
        turns, rest = divmod(tiles, slots)
        at_once, busy = resident, 1.0
        if schedule.pingpong:
            turns, rest = -(-tiles // slots), 0
        if rest:
            last, at_last = 1.0, max(-(-rest // multiprocessors), 1)
            busy_last = min(rest / multiprocessors, 1.0)
        ends = turns
        if not schedule.persistent:
            restarts = max(turns - (rest == 0), 0)
    moved = m * n * (facts.read + facts.written)
    right = n * facts.size * facts.rights * sizes.get(EXPERTS, 1)
    moved = many * (moved + k * (m * facts.stored + right))
    least = max(many * m * n * facts.rights * steps * (K_SPAN // 2) / LEAST_PRODUCTS, moved / LEAST_BYTES)
    direct = DIRECT if schedule.store == "direct" else 1.0
    return Counts(
        steps, stages, turns, at_once, busy, last, at_last, busy_last, ends, restarts,
        schedule.tile_m * columns * (K_SPAN // 2) / MULTIPLY_ADDS,
        schedule.tile_m // 64 * 4 * (64 * 32 + columns * 32) / SHARED_BYTES,
        rows_a + rows_b, rows_a * lines_a + rows_b * lines_b, schedule.tile_m + wide * facts.rights,
        schedule.tile_m * schedule.tile_n * (facts.read + facts.written) / 2 * direct,
        crossing((m if facts.by_columns else n) * facts.written), others,
        schedule.tile_m * columns * (1 + others) if others else 0, moved,
        facts.by_columns, q > 1, cluster > 1, schedule.consumers == 1, schedule.consumers == 3,
        schedule.pending,
        schedule.dependent, schedule.dependent and least > LONG,
    )  # fmt: skip


def _shared(
    schedule: Schedule, clusters: int, tiles: int, steps: int, multiprocessors: int
) -> tuple[float, int, float]:
    """Of tiles that are shared: turns of a block, whole tiles among them, the share of SMs that are busy."""
    q = schedule.split_k
    if schedule.streams:
        found = stream.values(schedule, clusters, steps, multiprocessors)
        return found["share"] / q, 0, min(tiles * q / multiprocessors, 1.0)
    alone = split.values(schedule, clusters, steps, multiprocessors).get("turns", 0)
    share = 1 / q if schedule.shares == "one" else (q - 1) / q
    return alone + share, alone, min(tiles * q / multiprocessors, 1.0)


def microseconds(c: Coefficients, x: Counts, tile: float) -> float:
    """The time of a launch; ``tile``: the factor of its tile."""
    products = x.products * c.products * tile
    for factor, given in (
        (c.cluster, x.cluster), (c.one, x.one), (c.three, x.three), (c.pending, x.pending),
        (c.split, x.split),
    ):  # fmt: skip
        products = products * (1 + (factor - 1) * given)
    loads = (x.rows + c.crossing * x.crossing) * c.row + x.filled * c.filled
    late = (c.latency / x.stages) ** c.pace
    work = (products**c.pace) + (x.operands * c.operands) ** c.pace

    def step(at_once: float, busy: float) -> float:
        """Cycles of one step of all blocks of an SM."""
        own = (work + (loads * busy**c.idle) ** c.pace) * at_once**c.pace
        found: float = (own + late) ** (1 / c.pace)
        return found

    end = c.end + c.stored * x.area * (1 + c.ragged * x.ragged) * (1 + c.turned * x.turned)
    cycles = x.turns * x.steps * step(x.at_once, x.busy) + x.ends * end * (1 + (x.at_once - 1) * c.beside)
    ends = 1 + (x.at_last - 1) * c.beside
    cycles = cycles + x.last * (x.steps * step(x.at_last + 1 - x.last, x.busy_last + 1 - x.last) + end * ends)
    cycles = cycles + x.restarts * (c.restart + c.cluster_restart * x.cluster)
    cycles = cycles + x.split * c.hand_over + x.others * c.each + x.sums * c.sum
    busy = cycles / c.clock * (1 + (c.long - 1) * x.long)
    moved = x.bytes * c.memory / 1e6
    whole: float = (busy**c.whole + moved**c.whole) ** (1 / c.whole)
    return c.launch - c.dependent * x.dependent + c.cluster_launch * x.cluster + whole


__all__ = ["LONG", "Coefficients", "Counts", "Facts", "clusters_of", "counted", "crossing", "matrices",
           "microseconds", "steps_of", "tile_name", "together"]  # fmt: skip
