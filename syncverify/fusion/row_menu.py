"""Which schedule suits rows of a length that was not measured: a menu, ranked by the model of their time.

The schedules of lengths that were measured one by one are in ``row_choices``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from syncverify.base.source import InputError
from syncverify.fusion import row_choices, row_schedule, streamed
from syncverify.fusion.graph import Fusion
from syncverify.fusion.row_estimate import Estimate, RowLaunch
from syncverify.fusion.row_schedule import RowSchedule, row_bytes
from syncverify.fusion.schedule import YesNo
from syncverify.ir.nodes import DTYPE_BYTES

#: Lengths that were measured one by one.
MEASURED = frozenset({1024, 2048, 4096, 8192, 16384, 32768})
#: Warps of a row; elements of a row that a thread holds, at most and at least; threads of a multiprocessor.
WARPS, HELD, LEAST, THREADS, MOST_BLOCKS = (1, 2, 4, 8, 16, 32), 64, 4, 2048, 16
#: Other numbers of warps, where they leave fewer lanes without elements: how many at most, the least share of
#: lanes that have some, and blocks of a multiprocessor as parts of the most.
FITTING, FILLED, FITTING_PARTS = 3, 0.87, (1, 0.75, 0.5, 0.375, 0.25)
#: Lengths of rows of several inputs and outputs that are not read again: registers hold them.
NOT_AGAIN = (8192, 32768)
#: Rows of a block of one warp each, and blocks of a multiprocessor.
ROWS_AND_BLOCKS = (
    (16, 2), (16, 3), (16, 4), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (8, 8),
    (4, 4), (4, 6), (4, 8), (4, 10), (4, 12), (4, 14), (4, 16), (2, 8), (2, 12), (2, 16),
)  # fmt: skip
#: The same of two and of four warps each.
SEVERAL = {
    2: ((4, 4), (4, 6), (4, 8), (2, 8), (2, 12), (2, 16)), 3: ((4, 4), (2, 6), (2, 8), (2, 10)),
    4: ((2, 4), (2, 6), (2, 8)),
}  # fmt: skip
#: Lanes that share short rows, and blocks of a multiprocessor then. The shortest rows that may be gone
#: through piece by piece, in bytes, and their warps.
LANES, NARROW, PIECES_FROM, PIECE_WARPS = (8, 16), (4, 5, 6, 7, 8), 16384, (4, 8, 16, 32)
#: Of rows in so few lanes that go abreast: how many, their elements of a thread, rows of a block and blocks
#: of a multiprocessor. The last are blocks of a multiprocessor where four warps have such rows in turn.
NARROW_UNROLL, NARROW_HELD = 2, 48
NARROW_ABREAST = ((8, 2), (8, 3), (8, 4), (4, 4), (4, 6), (4, 8))
NARROW_FOUR = (6, 8, 10, 12)
#: Rows of one warp abreast, and how many of their elements a thread holds at most; rows of a block and blocks
#: of a multiprocessor then.
UNROLLS, ABREAST_HELD = (2, 4), 64
ABREAST = (
    (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 8),
    (4, 6), (4, 8), (4, 10), (4, 12), (4, 14), (4, 16), (2, 16),
)  # fmt: skip
#: Of tiles of several rows that copies bring, where one row is no multiple of 16 bytes: rows abreast, rows of
#: a block, slots; threads of a multiprocessor.
RING_UNROLLS, RING_ROWS, RING_STAGES = (1, 2, 4), (8, 16), (2, 3)
RING_THREADS = (550, 800, 1100, 1600, 2048)
#: Elements of 16 bytes from which on there may be such tiles.
SMALL = 8
#: Of rows that are no multiple of 16 bytes, whose results leave through shared memory: rows of a block, rows
#: abreast, threads of a multiprocessor, and the longest such rows.
SHARED_ROWS, SHARED_UNROLLS, SHARED_THREADS = (4, 8), (1, 2, 4), (400, 600, 800, 1100, 1600, 2048)
SHARED_WIDTH = 1536
#: Warps and blocks of a multiprocessor where the first pieces of a row stay in shared memory.
KEPT = ((32, 1), (16, 1), (16, 2), (16, 3), (8, 2), (8, 3), (8, 4), (8, 6))
#: Where blocks of a cluster share a row: the shortest and the longest such rows, bytes that are read and
#: written of an element at least, blocks of the cluster, warps, blocks of a multiprocessor. First of 4-byte
#: elements, then of others.
CLUSTERS = (
    (43009, 63488, 16, 4, 8, 2), (63489, 69632, 16, 4, 16, 2),
    (32769, 49152, 8, 4, 8, 3), (69633, 106496, 8, 8, 8, 3),
)  # fmt: skip
CLUSTERS_OF_OTHERS = ((43009, 49152, 8, 4, 8, 3), (49153, 63488, 8, 4, 8, 2), (69633, 106496, 8, 8, 8, 3))
#: Blocks of a multiprocessor, as parts of the most that there may be.
PARTS = (1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25)


def applies(fusion: Fusion, schedule: RowSchedule, width: int) -> bool:
    """Whether the schedule is chosen here: it leaves all of it open, and such rows were not measured."""
    plain = RowSchedule(width=schedule.width, index=schedule.index, arrive=schedule.arrive)
    same = replace(schedule, cache="auto", dependent="auto", ahead="auto", operands="auto") == plain
    return same and width not in MEASURED and row_choices.reduces(fusion) and len(fusion.dims) > 1


def chosen(fusion: Fusion, schedule: RowSchedule, width: int) -> RowSchedule:
    """The schedule that the model prefers: with warps, rows and blocks, how rows are read, whether they are
    peeled, and what caches are told."""
    # what is brought ahead is for blocks without a ring
    found = [s for s in ranked(fusion, width) if schedule.ahead != "yes" or s.source != "bulk"]
    if not found:
        return schedule
    first = found[0]
    kept = schedule.cache == "auto" and leaves_last(fusion, first)
    return replace(
        schedule, warps=first.warps, lanes=first.lanes, rows=first.rows, blocks_per_sm=first.blocks_per_sm,
        reread=first.reread, stream=first.stream, peel=first.peel, unroll=first.unroll, source=first.source,
        store=first.store, stages=first.stages, cluster=first.cluster,
        cache="kept" if kept else schedule.cache,
    )  # fmt: skip


def ranked(fusion: Fusion, width: int) -> list[RowSchedule]:
    """The menu by the time that the model gives; what no kernel can do is left out."""
    found = launches(fusion, width)
    cycles = Estimate(fusion).cycles([x for _, x in found])
    return [found[n][0] for _, n in sorted(zip(cycles.tolist(), range(len(found)), strict=True))]


def launches(fusion: Fusion, width: int) -> list[tuple[RowSchedule, RowLaunch]]:
    """The schedules of the menu that a kernel can have, each with what it is when nothing is left open."""
    model, found = Estimate(fusion), []
    for s in menu(fusion, width):
        fitted = done(fusion, s, width)
        if fitted is not None:
            found.append((s, model.launch(fitted, width)))
    return found


def done(fusion: Fusion, schedule: RowSchedule, width: int) -> RowSchedule | None:
    """The schedule with nothing left open; None where no kernel can do it."""
    try:
        if schedule.streams(width):
            return streamed.fitted(schedule, row_schedule.peeled(fusion, schedule, width))
        return row_schedule.fitted(fusion, schedule, width)
    except InputError:
        return None


def menu(fusion: Fusion, width: int) -> list[RowSchedule]:
    """Schedules that may be fast."""
    vector = row_schedule.widest_vector(fusion)
    whole = width % vector == 0
    peels: tuple[YesNo, ...] = ("no",) if whole or width < row_schedule.PEELED else ("yes", "no")
    forms = [s for s in _forms(width, row_bytes(fusion, width), vector) if _may_pay(fusion, s, width)]
    found = [replace(s, peel=peel) for s in forms for peel in peels]
    # lanes of odd rows of 16 bits store single elements there, which costs more than it gains
    found += [replace(s, peel=peel) for s in kept(fusion, width) for peel in peels]
    found += [replace(s, peel=peels[0]) for s in clusters(fusion, width)]
    pairs = vector < SMALL or width % 2 == 0
    if not whole and pairs and width <= SHARED_WIDTH and _writes(fusion):
        found += through_shared(width)
    # tiles pay where elements are so small that instructions set the pace, not memory
    return found if whole or vector < SMALL else [*found, *rings(fusion, width)]


def _may_pay(fusion: Fusion, schedule: RowSchedule, width: int) -> bool:
    """Without two forms that lost nearly wherever they were timed, and that the model took for good all the
    same (docs/fusion_results.md): rows that become numbers, piece by piece in blocks of 32 warps; and rows of
    several inputs and outputs that are read again, where registers hold them."""
    if schedule.stream == "yes":
        return schedule.warps < max(WARPS) or _writes(fusion)
    written = sum(o.dims == fusion.dims for o in fusion.outputs)
    several = len(fusion.streamed) > 1 < written and NOT_AGAIN[0] <= width <= NOT_AGAIN[1]
    return schedule.reread != "yes" or not several


def kept(fusion: Fusion, width: int) -> list[RowSchedule]:
    """Schedules of rows piece by piece whose first pieces stay in shared memory."""
    if row_bytes(fusion, width) < PIECES_FROM:
        return []
    plain = RowSchedule(width=width, stream="yes", reread="shared")
    found = [replace(plain, warps=warps, blocks_per_sm=blocks) for warps, blocks in KEPT]
    return [s for s in found if streamed.kept_share(fusion, streamed.fitted(s), width)]


def clusters(fusion: Fusion, width: int) -> list[RowSchedule]:
    """The schedule of long rows that the blocks of a cluster share, where it was fast: rows that are written,
    with many bytes between two meetings of the cluster."""
    vector = row_schedule.widest_vector(fusion)
    wide = vector * 4 == row_schedule.VECTOR_BYTES
    moved = row_schedule.moved_bytes(fusion, width) / width
    fit = [
        rest
        for shortest, longest, least, *rest in (CLUSTERS if wide else CLUSTERS_OF_OTHERS)
        if shortest <= width <= longest and moved >= least
    ]
    if not fit or not _writes(fusion) or (not wide and width % vector):
        return []
    cluster, warps, blocks = fit[0]
    plain = RowSchedule(width=width, stream="no", reread="no", source="direct")
    return [replace(plain, cluster=cluster, warps=warps, blocks_per_sm=blocks)]


def rings(fusion: Fusion, width: int) -> list[RowSchedule]:
    """Schedules of rows whose tiles come by copies, several rows in each."""
    plain = RowSchedule(width=width, stream="no", reread="no", source="bulk", warps=1)
    plain = replace(plain, peel="no", store="bulk" if _writes(fusion) else "threads")
    return [
        replace(plain, unroll=unroll, rows=rows, stages=stages, blocks_per_sm=blocks)
        for unroll in RING_UNROLLS
        if -(-width // 32) * unroll <= ABREAST_HELD
        for rows in RING_ROWS
        for blocks in sorted({threads // ((rows + 1) * 32) for threads in RING_THREADS} - {0})
        for stages in RING_STAGES
    ]


def through_shared(width: int) -> list[RowSchedule]:
    """Schedules of rows whose results threads store in vectors of 16 bytes, from tiles of several rows."""
    plain = RowSchedule(width=width, stream="no", reread="no", source="direct", warps=1, lanes=32)
    plain = replace(plain, peel="no", store="shared")
    return [
        replace(plain, rows=rows, unroll=unroll, blocks_per_sm=blocks)
        for unroll in SHARED_UNROLLS
        if -(-width // 32) * unroll <= ABREAST_HELD
        for rows in SHARED_ROWS
        for blocks in sorted({min(threads // (rows * 32), MOST_BLOCKS) for threads in SHARED_THREADS})
    ]


def leaves_last(fusion: Fusion, schedule: RowSchedule) -> bool:
    """Whether it pays that what is loaded leaves L2 last: then what is written leaves it in longer runs.

    That is so where memory sets the pace: elements of 4 bytes, or one input. With more inputs of 16 bits
    threads wait for other things, and it costs up to a fifth (docs/fusion_results.md).
    """
    kinds = dict(fusion.inputs)
    wide = all(DTYPE_BYTES[kinds[n].dtype] == 4 for n in fusion.streamed)
    return (wide or len(fusion.streamed) == 1) and _once(fusion, schedule)


def twins(fusion: Fusion, schedule: RowSchedule) -> list[RowSchedule]:
    """A schedule of the menu, and the same with loads that leave L2 last, where that can be."""
    return [schedule, *([replace(schedule, cache="kept")] if _once(fusion, schedule) else [])]


def _once(fusion: Fusion, schedule: RowSchedule) -> bool:
    """Whether rows are read once, and as long ones are written."""
    direct = schedule.source != "bulk" and schedule.stream == "no" and not schedule.cluster
    return _writes(fusion) and direct and schedule.reread == "no"


def _writes(fusion: Fusion) -> bool:
    """Whether rows as long as those that are read are written."""
    return any(o.dims == fusion.dims for o in fusion.outputs)


@lru_cache(maxsize=256)
def _forms(width: int, size: int, vector: int) -> tuple[RowSchedule, ...]:
    """``size``: bytes of a row that is read; ``vector``: elements of 16 bytes."""
    return tuple(_made(width, size, vector))


def fitting(width: int, vector: int) -> list[int]:
    """Numbers of warps that are no power of two and leave few lanes without elements of such rows, those
    first that leave fewest."""
    accesses, found = -(-width // vector), dict[int, float]()
    for each in range(1, HELD // vector + 1):
        warps = -(-accesses // (32 * each))
        filled = accesses / (32 * each * warps)
        if 2 < warps < 32 and warps & (warps - 1) and filled >= FILLED:
            found[warps] = max(filled, found.get(warps, 0.0))
    return sorted(found, key=lambda warps: -found[warps])[:FITTING]


def _made(width: int, size: int, vector: int) -> Iterator[RowSchedule]:
    plain = RowSchedule(width=width, stream="no")
    rereads: tuple[Literal["yes", "no"], ...] = ("no", "yes")
    odd = fitting(width, vector)
    for warps in (*WARPS, *odd):
        held = -(-width // (warps * 32))
        if held > HELD or (held < LEAST and warps > 1):
            continue
        if warps == 1:
            for rows, blocks in ROWS_AND_BLOCKS:
                yield replace(plain, warps=1, rows=rows, blocks_per_sm=blocks, lanes=32, reread="no")
            yield from _abreast(replace(plain, warps=1, lanes=32, reread="no"), held)
            for lanes in LANES:
                if width <= lanes * HELD // 2:
                    yield from _narrow(replace(plain, warps=1, lanes=lanes, reread="no"), -(-width // lanes))
            continue
        for blocks in _blocks(warps, FITTING_PARTS if warps in odd else PARTS):
            for reread in rereads:
                yield replace(plain, warps=warps, rows=1, blocks_per_sm=blocks, reread=reread)
        for rows, blocks in SEVERAL.get(warps, ()):
            yield replace(plain, warps=warps, rows=rows, blocks_per_sm=blocks, reread="no")
    for warps in PIECE_WARPS if size >= PIECES_FROM else ():
        for blocks in _blocks(warps):
            yield replace(plain, warps=warps, blocks_per_sm=blocks, stream="yes")


def _narrow(plain: RowSchedule, held: int) -> Iterator[RowSchedule]:
    """Rows that share a warp. ``held``: elements of one row that a thread holds."""
    for rows, several in ((8, NARROW), (4, NARROW_FOUR)):
        for blocks in several:
            yield replace(plain, rows=rows, blocks_per_sm=blocks)
    for rows, blocks in NARROW_ABREAST if held * NARROW_UNROLL <= NARROW_HELD else ():
        yield replace(plain, rows=rows, blocks_per_sm=blocks, unroll=NARROW_UNROLL)


def _abreast(plain: RowSchedule, held: int) -> Iterator[RowSchedule]:
    """``held``: elements of one row that a thread holds."""
    for unroll in UNROLLS:
        for rows, blocks in ABREAST if held * unroll <= ABREAST_HELD else ():
            yield replace(plain, rows=rows, blocks_per_sm=blocks, unroll=unroll)


def _blocks(warps: int, parts: tuple[float, ...] = PARTS) -> list[int]:
    most = min(MOST_BLOCKS, THREADS // (warps * 32))
    return sorted({math.ceil(most * part) for part in parts}, reverse=True)


__all__ = ["MEASURED", "applies", "chosen", "done", "leaves_last", "menu", "ranked", "twins"]
