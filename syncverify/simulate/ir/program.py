"""What every lane group of a launch does, in order: the data that the machine steps through.

Control does not depend on the schedule (polls aside), so each group's events are worked out before
any schedule is tried. Knowledge is kept in sets of *accesses*, one bit of an int per access.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from syncverify.base.source import Span

LANES = 32
NO_MEMORY = 1 << LANES  # beside the mask of a meeting of lanes that orders no memory (PTX ISA, elect.sync)
VIRTUAL = -2  # ``Access.memory`` of events that are known like accesses but touch no bytes
GLOBAL = -1  # ``Access.memory`` of global memory; shared memory has its CTA's number


class Kind(IntEnum):
    """How an access reaches memory (PTX ISA, Async Proxy; cp.async and st.async are generic)."""

    GR = 0  # generic read
    GW = 1  # generic write
    AT = 2  # generic atomic
    AR = 3  # bulk or TMA store reading its source
    AW = 4  # bulk or TMA load writing its destination
    MR = 5  # wgmma reading its operands
    CW = 6  # cp.async writing
    SW = 7  # st.async or red.async writing
    MU = 8  # a copy using a tensor map
    MW = 9  # a tensor map being edited
    RD = 10  # TMA reduction into global memory (atomic among its own kind)

    @property
    def writes(self) -> bool:
        return self not in (Kind.GR, Kind.AR, Kind.MR, Kind.MU)

    @property
    def by_async_proxy(self) -> bool:
        return self in (Kind.AR, Kind.AW, Kind.MR, Kind.RD)


class Op(IntEnum):
    """Events. The first block concerns its own group only, the second is seen by others."""

    ACCESS = 0  # bits
    ISSUE = 1  # bits; asyncs
    LEARN = 2  # mask: completions observed by a group wait
    SETTLE = 3  # mask: own reads whose values were used
    FENCE = 4  # acquire?, release?
    PROXY_FENCE = 5  # mask of accesses in the space it names; own mask
    HARM = 6  # undefined behaviour that the group alone shows
    MAP_RELEASE = 7  # pairs
    MAP_ACQUIRE = 8  # pairs
    MARK = 9  # mask becomes known (griddep.wait)
    NEED = 10  # mask: one of it must be known (griddep.wait before global accesses)
    WGMMA_COMMIT = 11
    EXIT = 19

    INIT = 20
    INVAL = 21
    ARRIVE = 22
    EXPECT = 23
    COMPLETE = 24
    WAIT = 25
    WAIT_TOKEN = 26
    POLL = 27
    POLL_TOKEN = 28
    PEND = 29  # cp.async.mbarrier.arrive without .noinc raises the pending count
    BAR_SYNC = 30
    BAR_ARRIVE = 31
    WARP_SYNC = 32
    CLUSTER_ARRIVE = 33
    CLUSTER_WAIT = 34
    REGISTERS = 35
    SPIN = 36
    FLAG_WRITE = 37
    FLAG_READ = 38
    WGMMA_WAIT = 39


#: Events after which nothing outside the group can tell that they happened.
PRIVATE_BELOW = Op.EXIT


@dataclass(frozen=True, slots=True)
class Access:
    """One access of one group. ``lanes``: which lane touches which bytes; None: every lane, all of them."""

    bit: int
    group: int
    kind: Kind
    memory: int
    intervals: tuple[tuple[int, int], ...]
    lanes: tuple[tuple[int, int, int], ...] | None
    span: Span
    text: str
    clash: bool = False  # lanes of the group write one byte with different values
    friend: tuple[int, ...] = ()  # accesses with equal keys write one value: no conflict
    atomic: int = -1  # atomics: their scope (0 CTA, 1 cluster, 2 device); -1 for other accesses
    remote: bool = False  # a thread's access to another CTA's shared memory


@dataclass(slots=True)
class Event:
    """One step of a group. Which fields mean something depends on ``op``."""

    op: Op
    span: Span
    text: str
    line: int
    bar: int = -1
    n: int = 1  # lanes, or named-barrier threads, or registers
    count: int = 1
    bytes: int = -1
    mask: int = 0
    own: int = 0
    flags: frozenset[str] = frozenset()
    bits: tuple[int, ...] = ()
    asyncs: tuple[int, ...] = ()
    key: int = 0  # barrier id, parity, direction, lane mask
    token: str = ""
    touches: tuple[int, ...] = ()  # mbarriers whose bytes the accesses hit
    maps: tuple[int, ...] = ()
    rule: str = ""
    message: str = ""
    remote: bool = False  # touches the shared memory of another CTA
    ends: bool = False  # the statement is done with it
    cells: tuple[tuple[int, int, Kind, tuple[int, ...]], ...] = ()  # (access, its bit, kind, cells)


@dataclass(frozen=True, slots=True)
class Async:
    """A completion to come: ``bytes`` on a barrier, or (``arrive``) arrivals on it."""

    group: int
    seq: int
    bar: int
    bytes: int
    mask: int
    arrive: int
    memory: int
    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes of one warp that do the same; ``lanes`` is a mask."""

    cta: int
    warp: int
    lanes: int

    @property
    def count(self) -> int:
        return self.lanes.bit_count()

    @property
    def name(self) -> str:
        return f"cta{self.cta}.warp{self.warp}.lanes{lane_text(self.lanes)}"


def lane_text(mask: int) -> str:
    """A lane mask as ``0-3,8``."""
    runs: list[str] = []
    lane = 0
    while mask >> lane:
        if mask >> lane & 1:
            first = lane
            while mask >> (lane + 1) & 1:
                lane += 1
            runs.append(f"{first}" if first == lane else f"{first}-{lane}")
        lane += 1
    return ",".join(runs)


@dataclass(frozen=True, slots=True)
class Mbar:
    """One mbarrier object."""

    cta: int
    offset: int
    name: str


@dataclass(slots=True)
class Program:
    """A launch of some CTAs, ready to be stepped."""

    def distance(self, a: int, b: int) -> int:
        """The narrowest scope that includes threads of both CTAs: 0 CTA, 1 cluster, 2 device."""
        return 0 if a == b else 1 if a // self.cluster_size == b // self.cluster_size else 2

    groups: list[Group] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    after: list[tuple[int, int]] = field(default_factory=list)  # next node; for polls (false, true)
    accesses: list[Access] = field(default_factory=list)
    asyncs: list[Async] = field(default_factory=list)
    bars: list[Mbar] = field(default_factory=list)
    cells: int = 0
    generic: int = 0  # masks over accesses
    cp_writes: int = 0
    st_writes: int = 0
    generic_sync: int = 0
    reads: int = 0
    sources: int = 0
    pinned: int = 0  # never forgotten: inits, marks
    memory_mask: dict[int, int] = field(default_factory=dict)
    friends: dict[int, int] = field(default_factory=dict)
    ctas: int = 1
    warps: int = 1
    threads: int = LANES
    registers: int = 0
    flags: list[str] = field(default_factory=list)
    eager_bars: frozenset[tuple[int, int]] = frozenset()
    cluster_size: int = 1
    static_harms: list[tuple[str, str, str, Span]] = field(
        default_factory=list
    )  # claim, rule, message, place
    entities: list[tuple[int, ...]] = field(default_factory=list)  # groups that move together
    edited_maps: frozenset[str] = frozenset()
    # Map -> (an edit, its CTA, its releases within the CTA, the cluster, the device).
    map_pairs: dict[int, list[tuple[int, int, tuple[int, int, int]]]] = field(default_factory=dict)
    halves: list[tuple[int, int]] = field(default_factory=list)  # release halves of a proxy fence: mark, own
    bar_users: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    pool_is_void: bool = False  # setmaxnreg is split, which is undefined: nobody waits for registers then
    demand: dict[tuple[int, int], int] = field(default_factory=dict)  # most registers a warpgroup asks for
    grid_marks: int = 0
    marks: dict[int, int] = field(default_factory=dict)  # group -> that it has started, in a cluster
    started: dict[int, int] = field(default_factory=dict)  # CTA -> the marks of its groups
    bridged: int = 0  # accesses that an async access must know through a fence
    strict: bool = False
    away: dict[tuple[int, int], int] = field(default_factory=dict)  # see ``tables._away``
    warp_groups: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    warpgroup_groups: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
