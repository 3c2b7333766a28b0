"""What one cluster of a block group that is run alone does in global memory: see ``members``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import AG, XG, H
from syncverify.model.proxies import Access

if TYPE_CHECKING:
    from syncverify.checker.happens_before.handlers.global_memory import Spin, Write
    from syncverify.checker.happens_before.run import LaneClass, Run

Bytes = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class FlagWait:
    """A spin on a flag at some bytes; ``columns``: what it makes known, in every execution, of accesses that
    are seen, and of those that are bridged to the async proxy."""

    flag: Bytes
    spin: Spin
    columns: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class FlagWrite:
    """A write of a flag."""

    flag: Bytes
    write: Write


Step = FlagWait | FlagWrite
#: Which bytes, how, by whom, completed by what, and what of other clusters was known: spins whose accesses
#: are seen, bridged by a fence, bridged when they were acquired, and bridged by a fence of the own block.
Reach = tuple[tuple[Bytes, ...], Access, int, int, bool, int, tuple[frozenset[int], ...]]


def tracked_access(run: Run, t: LaneClass, record: Record) -> None:
    """Keeps an access to tracked memory: the newest of those that nothing but their times distinguishes."""
    spins = [x for x in run.ledger if isinstance(x, FlagWait)]
    m = t.clock.m
    seen, bridged, handed, near = (
        frozenset(i for i, x in enumerate(spins) if m[row, x.columns[which]])
        for row, which in ((H, 1), (AG, 1), (AG, 2), (XG, 1))
    )
    places = tuple(run.info.footprints[record.fp].intervals)
    tag = record.tag if record.kind.asynchronous else -1
    key = (places, record.kind, record.cls, tag, record.atomic, record.scope, (seen, bridged, handed, near))
    run.reached[key] = record


def same_step(key: Reach, columns: Mapping[int, int]) -> Reach:
    """The same with columns by other numbers."""
    places, kind, cls, tag, atomic, scope, known = key
    return places, kind, cls, columns.get(tag, tag), atomic, scope, known


__all__ = ["Bytes", "FlagWait", "FlagWrite", "Reach", "Step", "same_step", "tracked_access"]
