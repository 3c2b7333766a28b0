"""Schedules of fusions that reduce along rows: how many warps share a row, how many rows are in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, get_args

from syncverify.base.schedule_fields import check_fields
from syncverify.base.source import InputError
from syncverify.codegen.accesses import CacheHint, Hint
from syncverify.fusion import row_choices, row_strides
from syncverify.fusion.graph import Fusion
from syncverify.fusion.schedule import (
    YesNo,
    apply_settings,
    choice,
    fetches,
    overlaps,
    require,
    shared_per_block,
)
from syncverify.ir.nodes import DTYPE_BYTES

#: Bytes of the widest access of one thread.
VECTOR_BYTES = 16
#: The most elements of a row that one thread can hold in registers.
MOST_ELEMENTS = 64
#: The shortest rows that are peeled, and the fewest threads that share one: they have all single elements.
PEELED, PEELING = 128, 16
#: The longest rows that are kept in registers unless it is asked for: 32 elements of a thread.
MOST_WIDTH = 32768
#: Bytes that should be on their way to one SM.
IN_FLIGHT = 128 * 1024
#: The most slots that are chosen, and where rows have several reductions: with more, proofs take long.
MOST_STAGES, MOST_WITH_SEVERAL = 3, 2
#: Warps of a row from which on its groups are copied one by one: much of it is on its way while some is read.
SPLIT_FROM = 16
#: A thread that holds more elements of a row has no registers left for operands.
KEPT_OPERANDS = 16
LANES = 32
#: Rows of a tile where each warp has a row of its own.
ROWS = 8


@dataclass(frozen=True, slots=True)
class RowSchedule:
    """How a fusion of rows runs; 0 leaves a choice to ``fitted``.

    ``width``: the row length that is compiled first; others follow when they are needed. ``warps``: warps
    that share a row. ``lanes``: lanes that do, where rows are shorter than one access of a warp. ``rows``:
    how many such groups of warps a block has, each with a row of its own. ``stages``: tiles in
    shared memory. ``split``: each group of a row's elements has a buffer of its own, which is free for the
    next row as soon as it was read. ``source``: rows come by bulk copies, or each thread loads its own part.
    ``grid``: as many blocks as run together, which take one tile after the other, or a block for each tile.
    ``operands``: those that are the same for all rows stay in registers or are loaded again for each.
    ``reread``: elements are loaded again for every step of reductions, and none stays in registers; of
    streamed rows those of the first pieces may stay in ``shared`` memory.
    ``stream``: blocks go through rows piece by piece (``streamed``), chosen where they are too long to keep.
    ``arrive``, ``index``, ``blocks_per_sm``: as in ``Schedule``; ``cache`` too, or ``held``: what is read
    again stays in the caches until the last time, and then gives way first.
    ``dependent``: blocks start while the kernel before ends, and wait for that; ``ahead`` as in ``Schedule``.
    ``group``: elements of a row that one thread handles together, which its registers hold at a time.
    ``peel``: of rows that are no multiple of 16 bytes threads access aligned vectors, and the single elements
    in front of the first and behind the last apart from these.
    ``store``: each thread stores what it computed, or tiles of results leave shared memory: by ``bulk``
    copies, or (``shared``) threads store vectors of 16 bytes from there, where rows are no multiple of these.
    ``unroll``: rows of one warp (or of its lanes) that go through all steps abreast.
    ``cluster``: blocks of a cluster that share a row, each with its part of the ``warps``; 0: one block.
    """

    width: int = 4096
    warps: int = 0
    lanes: int = 0
    rows: int = 0
    stages: int = 0
    split: Literal["auto", "yes", "no"] = "auto"
    blocks_per_sm: int = 0
    source: Literal["auto", "bulk", "direct"] = "auto"
    grid: Literal["auto", "persistent", "tiles"] = "auto"
    operands: Literal["auto", "registers", "reload"] = "auto"
    stream: Literal["auto", "yes", "no"] = "auto"
    reread: Literal["auto", "yes", "no", "shared"] = "auto"
    arrive: Literal["warp", "thread"] = "warp"
    index: Literal["i32", "i64"] = "i32"
    cache: Literal["auto", "held", CacheHint] = "auto"
    dependent: YesNo = "auto"
    ahead: YesNo = "auto"
    group: int = 0
    peel: YesNo = "auto"
    store: Literal["auto", "threads", "bulk", "shared"] = "auto"
    unroll: int = 0
    cluster: int = 0

    def check(self) -> None:
        """Raises InputError for values that no fusion can use."""
        check_fields(self)
        require(self.width >= 1, "width must be positive")
        require(0 <= self.warps <= 31 or self.warps == 32, "warps must be 1 to 32")
        require(self.lanes in (0, 1, 2, 4, 8, 16, 32), "lanes must be a power of two up to 32")
        require(0 <= self.rows <= 24, "rows must be 1 to 24")
        require(0 <= self.stages <= 64, "stages must be 1 to 64")
        require(0 <= self.blocks_per_sm <= 16, "blocks_per_sm must be 1 to 16")
        require(0 <= self.group <= 64, "group must be 1 to 64")
        require(0 <= self.unroll <= 8, "unroll must be 1 to 8")
        require(self.cluster in (0, 2, 4, 8), "cluster must be 2, 4 or 8, or 0 for none")

    def streams(self, width: int) -> bool:
        """Whether rows of that length are gone through piece by piece."""
        return width > MOST_WIDTH and not self.cluster if self.stream == "auto" else self.stream == "yes"

    @property
    def hint(self) -> Hint:
        """What L2 is told of global data; ``fitted`` has chosen."""
        if self.reread == "yes":
            return "held" if self.cache == "held" else "again"
        return "normal" if self.cache == "auto" or self.cache == "held" else self.cache

    @property
    def compute_warps(self) -> int:
        """Warps of a block that compute; ``fitted`` has chosen."""
        return self.warps * self.rows

    @property
    def tile_rows(self) -> int:
        """Rows of one slot; ``fitted`` has chosen."""
        return self.rows * (LANES // self.row_lanes * (self.unroll or 1) if self.warps == 1 else 1)

    @property
    def row_lanes(self) -> int:
        """Lanes that share a row of one warp; ``fitted`` has chosen."""
        return self.lanes or LANES

    def with_settings(self, settings: Iterable[str]) -> RowSchedule:
        """The schedule with ``NAME=VALUE`` settings applied; raises InputError for a bad one."""
        result = apply_settings(self, settings, _PARSERS, _HELP)
        result.check()
        return result


def widest_vector(fusion: Fusion) -> int:
    """Elements of 16 bytes of the widest type."""
    sizes = [DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed]
    sizes += [DTYPE_BYTES[o.dtype] for o in fusion.outputs if o.dims == fusion.dims]
    return VECTOR_BYTES // max(sizes, default=4)


def vector(fusion: Fusion, width: int) -> int:
    """Elements per access of one thread: the widest type fills 16 bytes, and rows are a multiple of it."""
    v = widest_vector(fusion)
    while width % v:
        v //= 2
    return v


def row_bytes(fusion: Fusion, width: int) -> int:
    """Bytes of one row of all streamed inputs."""
    return width * sum(DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed)


def moved_bytes(fusion: Fusion, width: int) -> int:
    """Bytes of one row of all that has its length: read, or written."""
    return row_bytes(fusion, width) + _written_bytes(fusion, width)


def _written_bytes(fusion: Fusion, width: int) -> int:
    """Bytes of one row of all outputs that have its length."""
    return width * sum(DTYPE_BYTES[o.dtype] for o in fusion.outputs if o.dims == fusion.dims)


def fitted(fusion: Fusion, schedule: RowSchedule, width: int) -> RowSchedule:
    """The schedule for rows of one width, with all chosen that it leaves open; InputError if nothing fits."""
    schedule.check()
    choice = _measured(fusion, schedule, width)
    chosen = _shared(fusion, schedule, width, choice)
    per_thread = -(-width // (chosen.warps * chosen.lanes * max(1, chosen.cluster)))
    _refuse(fusion, chosen, width, per_thread)
    if chosen.source == "bulk":
        found = _ring(fusion, chosen, width, per_thread)
    else:
        found = _direct(chosen, per_thread, None if schedule.warps else choice)
    return _started(
        fusion, replace(found, cache=_either(found.cache, _cached(fusion, found, width, choice))), width
    )


def _measured(fusion: Fusion, schedule: RowSchedule, width: int) -> row_choices.Choice:
    """What was fastest for rows of that width; what was measured together is chosen together."""
    open_ = not (schedule.warps or schedule.blocks_per_sm or schedule.stages or schedule.split == "yes")
    whole = open_ and schedule.reread == "auto" and schedule.source != "bulk"
    return row_choices.choice(fusion, width, whole or schedule.reread == "yes", whole)


def _shared(fusion: Fusion, schedule: RowSchedule, width: int, choice: row_choices.Choice) -> RowSchedule:
    """Who shares a row, how many rows a block has, and where their elements come from."""
    warps = schedule.warps or choice.warps
    rows = schedule.rows or (0 if schedule.warps else choice.rows) or (ROWS if warps == 1 else 1)
    unroll = schedule.unroll or 1
    if unroll > 1 < warps:
        raise InputError("schedule: unroll is for rows of one warp")
    together = rows * (LANES // (schedule.lanes or LANES) * unroll if warps == 1 else 1)
    source = _source(fusion, schedule, width, together)
    if source == "bulk" and rows * warps >= LANES:
        if schedule.warps:
            raise InputError("schedule: beside the warp that copies a block has room for 31 warps")
        warps = LANES // 2
    if schedule.lanes not in (0, LANES) and warps > 1:
        raise InputError("schedule: lanes are for rows of one warp")
    peel: YesNo = "yes" if peeled(fusion, schedule, width) else "no"
    alone = warps == 1 and source == "direct"
    lanes = schedule.lanes or (_lanes(fusion, width, peel == "yes") if alone else LANES)
    reread: YesNo = "yes" if choice.rereads and source == "direct" else "no"
    return replace(
        schedule, warps=warps, lanes=lanes, rows=rows, source=source, peel=peel, unroll=unroll,
        reread=_either(schedule.reread, reread), store=_either(schedule.store, "threads"),
    )  # fmt: skip


def _refuse(fusion: Fusion, chosen: RowSchedule, width: int, per_thread: int) -> None:
    """Raises InputError where registers or shared memory cannot hold what was asked for."""
    bulk = chosen.source == "bulk"
    if per_thread > MOST_ELEMENTS:
        raise InputError(
            f"{fusion.name}: rows of {width} elements need more than {chosen.warps} warps "
            "to stay in registers"
        )
    if chosen.cluster and (bulk or chosen.rows > 1 or chosen.warps == 1):
        raise InputError("schedule: cluster needs source=direct, and several warps for each row")
    if chosen.rows > 1 < chosen.warps and (bulk or chosen.compute_warps > LANES):
        raise InputError("schedule: several rows of several warps need source=direct, and up to 32 warps")
    if chosen.reread == "shared":
        raise InputError("schedule: reread=shared needs stream=yes: other rows stay in registers")
    if chosen.reread == "yes" and bulk:
        raise InputError("schedule: reread=yes needs source=direct: a ring is read once")
    if chosen.store in ("bulk", "shared"):
        _refuse_stores(fusion, chosen, width)
    if chosen.split == "yes" and (not bulk or chosen.warps == 1):
        raise InputError("schedule: split=yes needs source=bulk, and rows that several warps share")


def _refuse_stores(fusion: Fusion, chosen: RowSchedule, width: int) -> None:
    """Raises InputError where tiles of results cannot leave shared memory."""
    how, bulk = chosen.store, chosen.source == "bulk"
    if how == "bulk" and not bulk:
        raise InputError("schedule: store=bulk needs source=bulk: results leave as tiles come")
    if how == "shared" and (bulk or chosen.warps > 1 or chosen.peel == "yes" or row_strides.pitches(fusion)):
        raise InputError(
            "schedule: store=shared needs source=direct, peel=no, and rows of one warp, one behind the other"
        )
    for o in fusion.outputs:
        size = chosen.tile_rows * width * DTYPE_BYTES[o.dtype]
        if o.dims == fusion.dims and size % VECTOR_BYTES:
            raise InputError(f"schedule: store={how}: a tile of {o.name} has {size} bytes, no multiple of 16")
    tile, most = chosen.tile_rows * _written_bytes(fusion, width), shared_per_block(chosen.blocks_per_sm or 1)
    if how == "shared" and tile > most:
        raise InputError(
            f"schedule: store=shared: {tile} bytes of results exceed {most}, what a block may have"
        )


def gathers_by_warp(fusion: Fusion, schedule: RowSchedule, width: int) -> bool:
    """Whether results pass through shared memory and the rows of one warp are a multiple of 16 bytes: then no
    warp waits for another. ``fitted`` has chosen."""
    rows = schedule.tile_rows // max(schedule.rows, 1) * width
    sizes = [rows * DTYPE_BYTES[o.dtype] for o in fusion.outputs if o.dims == fusion.dims]
    return schedule.store == "shared" and bool(sizes) and not any(size % VECTOR_BYTES for size in sizes)


def _cached(
    fusion: Fusion, chosen: RowSchedule, width: int, choice: row_choices.Choice
) -> Literal["held", CacheHint]:
    """What caches are told of the elements, where the schedule leaves it open."""
    if chosen.source == "bulk":
        # lines that neighbouring tiles share stay until both have come
        return "normal" if chosen.warps == 1 else "streaming"
    if chosen.reread == "yes":
        return "held"
    return choice.hint or row_choices.hint_of(fusion, width)


def _started(fusion: Fusion, chosen: RowSchedule, width: int) -> RowSchedule:
    """When blocks start, how many there are, and whether their first rows come to L2 before."""
    direct = chosen.source == "direct"
    moved, read = moved_bytes(fusion, width), row_bytes(fusion, width)
    waits = direct and overlaps(chosen.tile_rows * moved, row_choices.numbers(fusion))
    waits = waits and row_choices.early(fusion, width) and not chosen.cluster
    dependent: YesNo = _either(chosen.dependent, "yes" if waits else "no")
    ahead: YesNo = _either(chosen.ahead, "auto" if row_choices.fetched(fusion, width) else "no")
    return replace(
        chosen, dependent=dependent, ahead=fetches(ahead, dependent if direct else "no", read, moved - read),
        grid=_either(chosen.grid, "tiles" if direct else "persistent"),
    )  # fmt: skip


def peeled(fusion: Fusion, schedule: RowSchedule, width: int) -> bool:
    """Whether rows are peeled: where they are long enough that it pays, unless it is said otherwise."""
    whole = width % widest_vector(fusion) == 0
    able = not whole and schedule.source != "bulk" and not row_strides.pitches(fusion) and width >= PEELED
    able = able and (schedule.lanes == 0 or schedule.lanes >= PEELING)
    if schedule.peel == "yes" and not able and not whole:
        raise InputError(
            f"schedule: peel=yes needs source=direct, {PEELING} lanes, and rows of {PEELED} elements or more "
            "that lie one behind the other"
        )
    return able and schedule.peel != "no"


def _lanes(fusion: Fusion, width: int, peel: bool) -> int:
    """Lanes for one access of each, so that short rows leave none idle."""
    lanes, accesses = (
        1,
        max(PEELING, width // widest_vector(fusion)) if peel else width // vector(fusion, width),
    )
    while lanes < min(accesses, LANES):
        lanes *= 2
    return lanes


def _source(fusion: Fusion, schedule: RowSchedule, width: int, rows: int) -> Literal["bulk", "direct"]:
    tile = rows * row_bytes(fusion, width)
    aligned = all(
        rows * width * DTYPE_BYTES[t.dtype] % VECTOR_BYTES == 0
        for n, t in fusion.inputs
        if n in fusion.streamed
    )
    if schedule.source == "bulk" and not tile:
        raise InputError(f"{fusion.name} reads no rows that copies could bring: source=direct")
    if schedule.source == "bulk" and not aligned:
        raise InputError(
            f"{fusion.name}: rows of {width} elements are no multiple of 16 bytes: source=direct"
        )
    if row_strides.pitches(fusion):
        if schedule.source == "bulk" or schedule.stages or schedule.split == "yes":
            row_strides.refuse(fusion, "needs source=direct")
        return "direct"
    if schedule.source != "auto" or schedule.cluster:
        return "bulk" if schedule.source == "bulk" else "direct"
    # who asks for slots asks for a ring
    ring = schedule.reread != "yes" and row_choices.ring(fusion, width)
    wanted = schedule.stages > 0 or schedule.split == "yes" or ring
    return "bulk" if wanted and aligned and 0 < tile <= shared_per_block(1) else "direct"


def _direct(schedule: RowSchedule, per_thread: int, choice: row_choices.Choice | None) -> RowSchedule:
    by_registers = row_choices.resident(schedule.compute_warps * LANES, per_thread)
    blocks = schedule.blocks_per_sm or (choice.blocks if choice else 0) or by_registers
    keeps = schedule.grid == "persistent" and per_thread <= KEPT_OPERANDS
    keeps |= choice is not None and choice.keeps
    return replace(
        schedule, blocks_per_sm=blocks, stages=1, split="no",
        operands=_either(schedule.operands, "registers" if keeps else "reload"),
    )  # fmt: skip


def _ring(fusion: Fusion, schedule: RowSchedule, width: int, per_thread: int) -> RowSchedule:
    moved = moved_bytes if schedule.store == "bulk" else row_bytes
    tile = schedule.tile_rows * moved(fusion, width)
    warps, threads = schedule.warps, (schedule.compute_warps + 1) * LANES
    # 64 registers a thread hold 16 elements and what is made of them, 120 hold 64
    blocks = schedule.blocks_per_sm or max(1, min(8, (1024 if per_thread <= 32 else 544) // threads))
    while not schedule.blocks_per_sm and blocks > 1 and tile > shared_per_block(blocks):
        blocks -= 1
    most = shared_per_block(blocks) // tile
    slow = row_choices.several(fusion) or warps >= SPLIT_FROM
    limit = MOST_WITH_SEVERAL if slow else MOST_STAGES
    stages = schedule.stages or max(1, min(most, max(2, -(-IN_FLIGHT // (blocks * tile))), limit))
    if stages > most:
        raise InputError(
            f"schedule: {stages} slots of {tile} bytes exceed {shared_per_block(blocks)}, the most that "
            f"{blocks} blocks per SM leave to each; lower stages or blocks_per_sm"
        )
    parts = warps >= SPLIT_FROM or stages == 1 < warps
    return replace(
        schedule, blocks_per_sm=blocks, stages=stages,
        split=_either(schedule.split, "yes" if parts else "no"),
        operands=_either(schedule.operands, "registers" if per_thread <= KEPT_OPERANDS else "reload"),
    )  # fmt: skip


C = TypeVar("C", bound=str)


def _either(given: C, chosen: C) -> C:
    return chosen if given == "auto" else given


_PARSERS: dict[str, Any] = {
    "width": int, "warps": int, "lanes": int, "rows": int, "stages": int, "blocks_per_sm": int,
    "group": int, "unroll": int, "cluster": int,
    "split": choice("auto", "yes", "no"),
    "source": choice("auto", "bulk", "direct"), "grid": choice("auto", "persistent", "tiles"),
    "operands": choice("auto", "registers", "reload"),
    "stream": choice("auto", "yes", "no"), "reread": choice("auto", "yes", "no", "shared"),
    "arrive": choice("warp", "thread"), "index": choice("i32", "i64"),
    "cache": choice("auto", "held", *get_args(CacheHint)), "dependent": choice("auto", "yes", "no"),
    "ahead": choice("auto", "yes", "no"), "peel": choice("auto", "yes", "no"),
    "store": choice("auto", "threads", "bulk", "shared"),
}  # fmt: skip
_HELP = {
    "width": "a number", "warps": "a number", "lanes": "a number", "rows": "a number", "stages": "a number",
    "group": "a number", "unroll": "a number", "cluster": "a number",
    "split": "auto, yes or no",
    "blocks_per_sm": "a number", "source": "auto, bulk or direct",
    "grid": "auto, persistent or tiles", "operands": "auto, registers or reload",
    "stream": "auto, yes or no", "reread": "auto, yes, no or shared",
    "arrive": "warp or thread", "index": "i32 or i64",
    "cache": f"auto, held, {', '.join(get_args(CacheHint))}", "dependent": "auto, yes or no",
    "ahead": "auto, yes or no", "peel": "auto, yes or no", "store": "auto, threads, bulk or shared",
}  # fmt: skip
assert set(_PARSERS) == {f.name for f in fields(RowSchedule)}
