"""The state of a running launch: blocks, warps, and the fragments that warps fall into.

A fragment is a set of lanes of one warp with one program counter. Lanes that a branch parts are fragments of
their own, which run in any order and may or may not come together again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx.types import LANES, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.barriers import NamedBarrier
    from syncverify.simulate.ptx.clocks import Clock, Stamp
    from syncverify.simulate.ptx.engines import Operation
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.mbarriers import MBarrier
    from syncverify.simulate.ptx.program import Compiled
    from syncverify.simulate.ptx.register_pool import RegisterRequest
    from syncverify.simulate.ptx.settle import Pending
    from syncverify.simulate.ptx.wgmma import Warpgroup

#: What a step returns: the next program counter, None for the next instruction, BLOCKED or GONE.
Next = int | None
BLOCKED = -1
GONE = -2
Step = Callable[["Fragment"], Next]


@dataclass(frozen=True, slots=True)
class Meeting:
    """What lanes execute together. ``mask``: the member mask, which all of them name. ``around``: others may
    go round it."""

    what: str
    mask: int = -1
    around: bool = False


@dataclass(eq=False, slots=True)
class Cluster:
    """Blocks that run together, and their barrier."""

    number: int
    blocks: list[Block] = field(default_factory=list)
    arrived: dict[int, bool] = field(default_factory=dict)  # thread -> has arrived in this round
    round: int = 0
    pending: Clock | None = None  # what the arrivals of this round release to the cluster
    complete: Clock | None = None  # of the last complete round
    waiting: dict[int, int] = field(default_factory=dict)  # thread -> the round that it arrived in


@dataclass(eq=False, slots=True)
class Block:
    """A thread block: its place, its memory and its barriers."""

    number: int
    place: tuple[int, int, int]
    cluster: Cluster
    rank: int  # in the cluster
    shared_base: int  # the first address of its window of shared memory
    shared_size: int
    arena: int  # where its bytes begin in the arena of all blocks
    first_thread: int
    threads: int
    warps: list[Warp] = field(default_factory=list)
    named: dict[int, NamedBarrier] = field(default_factory=dict)
    mbarriers: dict[int, MBarrier] = field(default_factory=dict)  # by byte in the arena
    free_registers: int = 0
    warpgroups: dict[int, Warpgroup] = field(default_factory=dict)
    gone: bool = False
    pushes: list[tuple[Stamp, int]] = field(default_factory=list)  # copies to other blocks, and their lines
    waited_for_grid: bool = False
    pending: Clock | None = None  # what relaxed arrivals at the cluster's barrier release to this block
    complete: Clock | None = None  # of the last complete round


@dataclass(eq=False, slots=True)
class Warp:
    """A warp: which of its lanes live, and what belongs to it as a whole."""

    machine: Machine
    block: Block
    number: int  # in the block
    first_thread: int  # in the launch
    count: int  # lanes that exist
    live: Lanes
    fragments: list[Fragment] = field(default_factory=list)
    registers: int = 0
    met_cluster: bool = False  # it has come through a barrier of the cluster
    #: lanes that went on from where they would have met others, which wait for them at an instruction
    passed: Lanes = field(default_factory=lambda: np.zeros(LANES, bool))
    copies: dict[int, list[Operation]] = field(default_factory=dict)  # lane -> cp.async not yet committed
    open_groups: dict[int, int] = field(
        default_factory=dict
    )  # lane -> component of the group not yet committed
    closed: dict[int, list[Stamp]] = field(default_factory=dict)  # the same, told to an mbarrier
    lane_groups: dict[int, list[tuple[list[Stamp], list[Operation]]]] = field(default_factory=dict)
    bulk: dict[int, list[Operation]] = field(default_factory=dict)  # lane -> bulk copies not yet committed
    bulk_groups: dict[int, list[list[Operation]]] = field(default_factory=dict)
    in_flight: frozenset[int] = frozenset()  # registers of wgmma in flight, accumulators and operands
    accumulators: dict[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # register -> whose it is, in flight
    touched: set[int] = field(default_factory=set)  # registers of wgmma written since the last wgmma.fence
    #: registers that a wgmma had since the last wgmma.fence, with the shape of its accumulators or ``A``
    taken: dict[int, str] = field(default_factory=dict)
    fenced: bool = False
    setmaxnreg: list[RegisterRequest] = field(default_factory=list)
    threads: Lanes = field(default_factory=lambda: np.zeros(0, np.int64))
    special: dict[str, Lanes] = field(default_factory=dict)
    operands: dict[int, int] = field(default_factory=dict)  # register of an operand -> wgmma in flight
    flights: dict[tuple[int, ...], list[int]] = field(
        default_factory=dict
    )  # accumulators -> wgmma that had them
    matrix_count: int = 0
    matrix_open: list[int] = field(default_factory=list)  # wgmma not yet committed
    matrix_groups: list[list[int]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Join:
    """Lanes of a branch that are expected to meet again; a hint that may be broken at any time."""

    place: int
    mask: Lanes
    depth: int
    arrived: list[Fragment] = field(default_factory=list)
    broken: bool = False


@dataclass(slots=True)
class Frame:
    """A caller: where it goes on, its registers and its call parameters."""

    code: Compiled
    place: int
    registers: list[Lanes]
    params: dict[str, Lanes]
    results: tuple[tuple[str, Any], ...]
    local: int
    joins: list[Join]


class Fragment:
    """Lanes with one program counter. ``R`` holds registers, special registers and constants."""

    __slots__ = (
        "R",
        "code",
        "frames",
        "joins",
        "local",
        "mask",
        "meets",
        "params",
        "party",
        "pc",
        "pending",
        "polls",
        "ready",
        "resume",
        "since",
        "snapshot",
        "stuck",
        "turns",
        "warp",
    )

    def __init__(self, warp: Warp, code: Compiled, registers: list[Lanes], mask: Lanes) -> None:
        self.warp = warp
        self.code = code
        self.R = registers
        self.mask = mask
        self.pc = 0
        self.params: dict[str, Lanes] = {}
        self.frames: list[Frame] = []
        self.joins: list[Join] = []
        self.local = 0
        self.ready: Callable[[], bool] | None = None  # set while it is blocked
        self.resume: Callable[[], Next] | None = None
        self.meets: Any = None  # what it waits to execute together with other lanes
        self.party: Any = None  # the collective that it waits to execute, if that is one
        self.polls = False  # blocked in a poll that may also answer 'not yet'
        self.turns = 0  # backward branches since the last change of anything shared
        self.since = -1
        self.snapshot: tuple[int, list[Lanes]] | None = None
        self.pending: Pending = {}  # registers that hold what has perhaps not arrived
        self.stuck = -1  # the version at which it was seen to turn in a circle

    def block(
        self, ready: Callable[[], bool], resume: Callable[[], Next] | None = None, polls: bool = False
    ) -> Next:
        """Waits; then ``resume`` gives the next program counter."""
        self.ready = ready
        self.resume = resume
        self.polls = polls
        return BLOCKED

    def split(self, mask: Lanes) -> Fragment:
        """The lanes of ``mask`` as a fragment of their own; the others stay here."""
        other = Fragment(self.warp, self.code, list(self.R), mask)
        other.pc = self.pc
        other.params = dict(self.params)
        other.frames = [
            Frame(x.code, x.place, list(x.registers), dict(x.params), x.results, x.local, list(x.joins))
            for x in self.frames
        ]
        other.joins = list(self.joins)
        other.local = self.local
        other.pending = dict(self.pending)
        self.mask = self.mask & ~mask
        self.warp.fragments.append(other)
        self.warp.machine.fragments.append(other)
        return other

    def alike(self, other: Fragment) -> bool:
        """Whether both stand at the same place of the same calls."""
        return (
            self.pc == other.pc
            and self.code is other.code
            and len(self.frames) == len(other.frames)
            and all(
                a.code is b.code and a.place == b.place
                for a, b in zip(self.frames, other.frames, strict=True)
            )
        )

    def absorb(self, other: Fragment) -> None:
        """The other's lanes come here; it ends."""
        mask = other.mask
        _merge(self.R, other.R, mask)
        self.params = _merge_params(self.params, other.params, mask)
        for a, b in zip(self.frames, other.frames, strict=True):
            _merge(a.registers, b.registers, mask)
            a.params = _merge_params(a.params, b.params, mask)
        self.mask = self.mask | mask
        for slot, loads in other.pending.items():
            own = self.pending.get(slot, ())
            self.pending[slot] = own + tuple(x for x in loads if x not in own)
        self.joins = [j for j in self.joins if j in other.joins]
        other.mask = np.zeros(LANES, bool)
        self.warp.fragments.remove(other)
        self.warp.machine.fragments.remove(other)
        self.warp.machine.version += 1


def _merge(mine: list[Lanes], others: list[Lanes], mask: Lanes) -> None:
    for i, (a, b) in enumerate(zip(mine, others, strict=True)):
        if a is not b:
            mine[i] = np.where(mask[:, None] if a.ndim == 2 else mask, b, a)


def _merge_params(mine: dict[str, Lanes], others: dict[str, Lanes], mask: Lanes) -> dict[str, Lanes]:
    out = dict(others)
    for name, a in mine.items():
        b = others.get(name)
        out[name] = a if b is None or a is b else np.where(mask[:, None], b, a)
    return out
