"""A launch in numbers, as agents see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from syncverify.frontends.ptx.analysis.blocks.block_groups import Places
from syncverify.frontends.ptx.analysis.exclusion.locks import Rows
from syncverify.frontends.ptx.analysis.exclusion.shared_locks import Lock, Turns
from syncverify.frontends.ptx.values.atomic_tickets import Tickets
from syncverify.ir.launch_grid import Dims
from syncverify.symbolic.context import SymbolicContext


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch in numbers. ``grid`` and ``dynamic`` (bytes of dynamic shared memory) may be unknown.

    ``parameter(name, offset, type)`` gives what a load from a parameter brings.
    """

    block: Dims
    cluster: Dims
    grid: Dims | None
    dynamic: int | None
    registers: int | None
    parameter: Callable[[str, int, str], Any]
    maps: Mapping[str, Any] = field(default_factory=dict)
    bytes_of: Mapping[int, Any] = field(default_factory=dict)
    memory: Callable[[int, int], int | str | None] = lambda address, size: None  # ``Tables.memory``
    map_place: Callable[[int], str | None] = lambda address: None  # ``Tables.map_place``
    values: Mapping[str, int] = field(default_factory=dict)
    answers: Mapping[Any, int] = field(default_factory=dict)  # to questions that have one for all agents
    tickets: Tickets = field(default_factory=Tickets)  # what atomics hand out in this run
    images: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # ``PtxFacts.images``
    rows: Rows = field(default_factory=dict)  # in which blocks hold locks
    turns: Turns = field(default_factory=dict)  # in which threads hold locks in shared memory
    counts: Mapping[Lock, int] = field(default_factory=dict)  # what counters there hold at first
    pattern: int = 0  # which way blocks go at branches on data behind them: ``Locks.pattern``
    space: SymbolicContext | None = None  # that of the sizes without a number that parameters and grid hold
    extents: tuple[Any, Any, Any] | None = None  # the grid, where some extent has no number
    #: by CTA: its block, in the same case
    places: Mapping[int, tuple[Any, Any, Any]] = field(default_factory=dict)
    block_group: Places | None = None  # the blocks are a block group that represents all: what they reach
    stays: bool = False  # threads that may leave ahead of all events are taken to stay (K22)
    inside_arrays: bool = False  # where data says, an access stays inside the array that it names
    kept_inside: bool = False  # and where numbers say, an access outside of it is a mistake
    sized: bool = False  # parameters may be any sizes, which are data
    sure: bool = False  # accesses that data decides on are left out
    granted: frozenset[int] = frozenset()  # but for those of these sites
    second_layout: bool = False  # shared variables lie as in the second layout
    chosen: bool = False  # ``PtxFacts.chosen``

    @property
    def ctas(self) -> int:
        return prod(self.cluster)

    @property
    def threads(self) -> int:
        return prod(self.block)


__all__ = ["Launch"]
