"""Events: the only thing the checker sees of a kernel, and the protocol of the agents that emit them.

An event is a tuple ``(Ev.X, site, ...)``. A *class* is a set of lanes of one warp that do the same;
one event of a class with n lanes represents n lane events (n arrivals, n copies). ``site`` indexes
``System.sites``; ``fp`` indexes ``System.footprints``; ``bar`` indexes ``System.barriers``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, Protocol

from syncverify.base.source import UNKNOWN_SPAN, Span

#: ``(Ev, site, *arguments)``; arguments are ints unless the code's comment says otherwise.
Event = tuple[Any, ...]


#: Of a mask of what a value varies with: it may be another one each time, and in another CTA of the cluster.
EACH_TIME, EACH_BLOCK = 1 << 10, 1 << 11
#: Handles of reads whose values need not arrive, and of those that nothing shows to have arrived.
NO_ARRIVAL_NEEDED, NEVER = -1, -2
#: How registers of a wgmma are accessed: a copy writes them in flight, or since the last fence before another
#: wgmma (both K25); or a wgmma takes them, and another one needs a fence (PTX ISA: wgmma.fence).
MOVED, PLACED, TAKEN = 1, 2, 3


class Trap(str):
    """The reason of an UNKNOWN where the kernel stops itself with an error."""

    __slots__ = ()


class Undefined(Trap):
    """The same where what it goes on with is not defined."""

    __slots__ = ()


class AssumedUnreachable(Exception):  # noqa: N818 -- control flow: the state is not followed
    """An agent has come there: that none does is assumed."""


class Ev(IntEnum):
    """Event codes; the comment gives the arguments after ``site``."""

    EXIT = 0  # the lanes leave the kernel; nothing follows
    FAULT = 1  # rule: str, message: str -- undefined behaviour known to the agent alone (alignment, bounds)
    UNKNOWN = 2  # reason: str -- the agent cannot go on (data-dependent control, unsupported)

    READ = 10  # fp, reg -- generic read; USE(reg) says that its value has arrived; or AT_ONCE, NEVER
    # ... and the scope of a strong one (relaxed, volatile): it never races with atomics of its bytes
    WRITE = 11  # fp -- generic write
    ATOMIC = 12  # fp, scope -- relaxed generic atomic, or strong store, on shared memory
    USE = 13  # reg -- what is computed from the value last read into reg is needed here: it has arrived

    INIT = 20  # bar, count
    INVAL = 21  # bar
    ARRIVE = 22  # bar, count per lane, expected bytes per lane (-1: none), flags; answer: phase (the token)
    EXPECT_TX = 23  # bar, bytes per lane
    COMPLETE_TX = 24  # bar, bytes per lane
    WAIT = 25  # bar, parity, flags -- blocks until the phase with that parity has completed
    WAIT_TOKEN = 26  # bar, phase, flags -- blocks until that phase has completed
    POLL = 27  # bar, parity, flags; answer: 1 if true
    POLL_TOKEN = 28  # bar, phase, flags; answer: 1 if true
    INIT_FENCE = 29  # fence.mbarrier_init.release.cluster

    BARRIER_SYNC = 30  # id, threads (0: whole CTA), flags -- arrives and blocks
    BARRIER_ARRIVE = 31  # id, threads, flags
    WARP_SYNC = 32  # lane mask
    CLUSTER_ARRIVE = 33  # flags
    CLUSTER_WAIT = 34  # flags
    ELECT = 35  # lane mask of the lanes that must execute it together (also before ldmatrix, stmatrix)
    # lane mask, kind, whether of the whole warp -- shfl, vote, mma and the like: lanes of the mask come to
    # one together, those that have left excepted if it is not of the whole warp
    COLLECTIVE = 37
    SETMAXNREG = 36  # 1 for inc, 0 for dec; registers per thread

    FENCE = 40  # flags (ACQUIRE, RELEASE, SC, SYNC_RESTRICT), scope
    PROXY_FENCE = 41  # Space mask, flags (RELEASE or ACQUIRE for the unidirectional halves, else 0)

    CP_ASYNC = 50  # fp written, fp read in global memory (-1: untracked)
    CP_COMMIT = 51
    CP_WAIT = 52  # groups that may stay pending (-1: wait_all)
    CP_ARRIVE = 53  # bar, noinc
    BULK_LOAD = 54  # targets: tuple[(fp written, bar, bytes), ...] per lane's copy, global fp (-1), map (-1)
    BULK_STORE = 55  # fp read, global fp (-1), map (-1), 1 if a reduction
    BULK_COPY = 56  # fp read, fp written (another CTA), bar there, bytes; a reduction: 1
    BULK_COMMIT = 57
    BULK_WAIT = 58  # groups that may stay pending, 1 for .read
    ST_ASYNC = 59  # fp written, bar, bytes, 1 if a reduction

    WGMMA_FENCE = 60
    WGMMA = 61  # acc fragment, fp of A (-1), A fragment (-1), fp of B, 1 if it accumulates, see below
    # ... and the fp of the rows of A that other warps multiply (-1), which only strict mode takes as read,
    # and, unless a warpgroup's threads are known to name the same matrices, the fp of all rows of A (-1) and
    # a number for what else its descriptors say
    WGMMA_COMMIT = 62
    WGMMA_WAIT = 63  # groups that may stay pending
    FRAG_READ = 64  # fragment
    FRAG_WRITE = 65  # fragment, then how, if not by a plain access: MOVED, PLACED, TAKEN

    GLOBAL_READ = 70  # global fp (-1: untracked), flags (ACQUIRE..), scope
    GLOBAL_WRITE = 71  # global fp (-1), flags, scope, value (None: unknown)
    GLOBAL_ATOMIC = 72  # global fp (-1), flags, scope, op: str, value (None: unknown)
    SPIN = 73  # fp, flags, scope, comparison: str, value (or an Ahead) -- blocks until true
    # ... of a lock (flag TAKE): until so many have held it; who lets it go stores one more
    # a store (op: empty) to a word of shared memory that may be a flag, or an atomic
    SIGNAL = 74  # fp, flags, scope, op: str, value (None: unknown)

    MAP_REPLACE = 80  # map, 1 if the lanes of the warp do it as one
    MAP_RELEASE = 81  # scope
    MAP_ACQUIRE = 82  # map, scope
    MAP_CP_FENCE = 83  # map, scope
    GRID_WAIT = 84
    GRID_LAUNCH = 85


class Flag(IntFlag):
    """Modifiers; what is absent is PTX's default (release/acquire at cta scope, local, aligned off)."""

    NONE = 0
    RELAXED = 1
    CLUSTER = 2  # cluster scope
    DROP = 4
    NO_COMPLETE = 8
    TOKEN = 16  # the agent keeps the answer
    ALIGNED = 32
    RED = 64
    MAY_SUSPEND = 128  # try_wait
    ACQUIRE = 256
    RELEASE = 512
    SC = 1024
    SYNC_RESTRICT = 2048
    STRONG = 4096  # a relaxed or stronger global access
    TAKE = 8192  # a wait that takes a lock: what passes it is an atomic, which writes the word
    OR = 16384  # with RED: what is combined by ``or``, and not by ``and``
    COUNT = 32768  # with RED: whose threads are counted
    UNSIGNED = 65536  # a wait that compares without a sign: a number below zero is larger than its bound
    ONCE = 131072  # with TAKE: an atomic that waits for nobody, in an order that is tried


#: ``Footprint.memory`` of global memory; a CTA's shared memory is its rank in the cluster.
GLOBAL_MEMORY = -1


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes one event touches in one memory.

    ``intervals``: sorted, disjoint, merged ``(lo, hi)``. ``lanes``: sorted ``(lo, hi, lane)``, which
    lane touches which bytes; empty if every lane of the class touches all of them. ``overlap``: two
    lanes touch a common byte with possibly different values; ``alike``: two lanes of one store do, with one
    value. ``cover``: for a read of scattered bytes, a few
    intervals around them, by which it is entered; accesses that meet there are judged by ``intervals``.
    ``element``: bytes of each single access, where a strong one is several (vectors, packed values: PTX ISA,
    memory consistency model); 0: a lane's range is one. ``word``: bytes of each access, where data says which
    of the bytes it is to, aligned; 0: it is to all of a lane's range. ``slots``: of accesses with the same
    number, other than 0, any two by different threads touch no common byte, or one comes after the other.
    """

    memory: int
    intervals: tuple[tuple[int, int], ...]
    lanes: tuple[tuple[int, int, int], ...] = ()
    overlap: bool = False
    cover: tuple[tuple[int, int], ...] = ()
    alike: bool = False
    element: int = 0
    slots: int = 0
    word: int = 0

    @property
    def bytes(self) -> int:
        return sum(h - lo for lo, h in self.intervals)


def of_one_element(first: Footprint, second: Footprint) -> bool:
    """Whether two accesses are to elements of one size, aligned alike, so that those which meet are equal."""
    size = first.element
    if not size or size != second.element:
        return False
    ends = (x for fp in (first, second) for a, b, *_ in fp.lanes or fp.intervals for x in (a, b))
    return len({x % size for x in ends}) == 1


#: The text of the site at which lanes run to the kernel's end; an ``exit`` in the source has its own.
END = "end of kernel"


@dataclass(frozen=True, slots=True)
class Site:
    """One operation in the source: where, its text for reports, and where that code is called from.

    ``wrapped``: the place of the operation itself where ``span`` is the call of a function that wraps it.
    ``code_line``: its line in the code that is executed, the PTX of a CUDA source, say; 0: ``span`` has it.
    ``operand``: what the source calls the mbarrier of an init, or the member that an access is to; empty
    where that is not known.
    """

    span: Span
    text: str
    callers: tuple[Span, ...] = ()
    wrapped: Span | None = None
    code_line: int = 0
    operand: str = ""


@dataclass(frozen=True, slots=True)
class ThreadClass:
    """Lanes of one warp that execute the same events. ``lanes`` is a bit mask."""

    cta: int
    warp: int
    lanes: int
    role: str = ""

    @property
    def count(self) -> int:
        return self.lanes.bit_count()

    @property
    def name(self) -> str:
        return f"cta{self.cta}.warp{self.warp}.lanes{lane_ranges(self.lanes)}"


def lane_ranges(mask: int) -> str:
    """A lane mask as text: ``0-31``, ``0``, ``1-3,8``."""
    parts: list[str] = []
    lane = 0
    while lane < 32:
        if mask >> lane & 1:
            start = lane
            while lane < 31 and mask >> (lane + 1) & 1:
                lane += 1
            parts.append(str(start) if start == lane else f"{start}-{lane}")
        lane += 1
    return ",".join(parts)


@dataclass(frozen=True, slots=True)
class BarrierInfo:
    """One mbarrier object: its CTA, byte offset in that CTA's shared memory, and its name in reports.

    ``placed``: the name only says where it lies; its init may give it a better one.
    """

    cta: int
    offset: int
    name: str
    placed: bool = False


#: Tensor ``t`` starts at ``t << TENSOR_SHIFT`` in the one global memory of footprints.
TENSOR_SHIFT = 40
#: Where two blocks represent a grid, tensors are cut into windows of so many bits of address: the first for
#: places that do not depend on the block, others for those that move with it.
WINDOW_SHIFT = 34


@dataclass(frozen=True, slots=True)
class BlockRelative:
    """A number as such, and how much more it is than that of the block that comes to it; None: not known."""

    by: int | None
    number: int | None = None


class FootprintPartition(Protocol):
    """Addresses of global memory that move with the blocks of a system, wherever these are in their grid."""

    def apart(self, first: tuple[int, int], second: tuple[int, int]) -> bool:
        """Whether nothing of one range of addresses is what the other names."""

    def before(self, first: int, second: int) -> bool:
        """Whether what the second block names is, determined by the block before it, what the first names."""

    def next(self, one: int, other: int) -> bool:
        """Whether the block after this one would name by one address what this one names by the other."""


class GroupFootprint(Protocol):
    """Where clusters of a block group reach global memory, determined by what any one of them does there."""

    def at(self, place: tuple[int, int], number: int) -> tuple[int, int] | None:
        """The bytes that one cluster of a block group reaches; None where they may be another block
        group's.
        """


class LaneSplit(Exception):  # noqa: N818 -- control flow, not an error
    """Raised by an agent whose lanes disagree on a decision: split the class, then run again."""

    def __init__(self, cls: int, parts: tuple[int, ...]) -> None:
        super().__init__(f"class {cls} splits into {[lane_ranges(p) for p in parts]}")
        self.cls = cls
        self.parts = parts


#: With a slot, in what an agent shows of its registers: by how much lanes hold more than the first one. It is
#: part of where the agent is, and is not replaced by another one.
LANES_APART = "lanes"


class Agent(Protocol):
    """One class of lanes, resumable. Agents of one system share nothing but the system."""

    __slots__ = ()  # so that an agent that derives from it may have slots only

    cls: int

    def step(self, answer: int = 0) -> Event:
        """Runs to the next event and returns it. ``answer`` answers the previous event (token, poll).

        Raises LaneSplit.
        """

    def fork(self) -> Agent:
        """An independent copy at the same point."""

    def snapshot(self) -> Hashable:
        """The exact state: equal snapshots behave equally."""

    def normalize(self) -> Hashable:
        """The snapshot without dead registers and without the value of counters that only ever feed
        arithmetic modulo a period (kept modulo it)."""


class StrongWord(IntFlag):
    """What is known of a strong load or store of shared memory, whose value is used."""

    VOLATILE = 1
    OF_EACH_THREAD = 2  # its address varies with the thread: words are exchanged, not one looked at
    OF_EACH_LANE = 4  # the same of the lanes of a warp


@dataclass
class SystemInfo:
    """Facts about a launch that events refer to. Tables may grow while agents run."""

    name: str
    file: str
    values: Mapping[str, int]
    block: tuple[int, int, int]  # which block of the grid (the cluster's first)
    ctas: int  # CTAs of the cluster
    warps: int  # per CTA
    threads: int  # per CTA
    registers: int | None  # per thread at entry; None: not given
    classes: list[ThreadClass]
    barriers: list[BarrierInfo] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    fragments: list[str] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    elected_lane: int = 0
    cooperative: bool = False
    source_hash: str = ""
    entry: Span = UNKNOWN_SPAN  # where the kernel begins
    smem_names: list[tuple[int, int, str]] = field(default_factory=list)  # (lo, hi, buffer name) in every CTA
    tracks_global: bool = False
    edits_maps: bool = False  # tensor maps may be edited, so their uses matter
    ends_barriers: bool = False  # mbarriers may be invalidated: who has used them last is compared
    dependent_launch: bool = False  # the kernel waits on, or launches, a dependent grid
    has_to_wait: bool = False  # it is launched while the grid before may still run
    assumes_inputs: bool = False  # what it reads before that wait is taken for no output of the grid before
    #: whether what is read of global memory at a site is known to be no output of the grid before
    reads_only_inputs: Callable[[int], bool] | None = None
    #: whether who leaves at one site, a whole warp or not, has run past a barrier at another, through what
    #: follows it for all
    skips: Callable[[int, int, bool], bool] | None = None
    #: by the site of a store, what its value varies with: a mask over the bits of a thread's number in its
    #: block, and ``EACH_TIME``; None: nothing is known of any
    varies: Callable[[int], int] | None = None
    equal_stores: AbstractSet[int] = frozenset()  # sites of stores that were seen to store one known value
    #: strong loads and stores of shared memory by site; atomics that read and write at once are none
    strong_words: Mapping[int, StrongWord] = field(default_factory=dict)
    #: pairs of footprints -> whether each byte of both is one lane's; kept by the checker
    lanes_agree: dict[tuple[int, int], bool] = field(default_factory=dict)
    #: by those of the parts of a joined access -> its footprint; kept by the checker
    joined: dict[tuple[int, ...], int] = field(default_factory=dict)
    strict_copies: bool = False  # cp.async needs a proxy fence before asynchronous readers (K6) in any policy
    clusters: int = 1  # clusters in the system; CTA numbers are then cluster * ctas + rank
    #: where in global memory flags lie that each block hands on to the next: the system then is two blocks
    #: of a grid of any size, the second after the first, and flags hold an ``BlockRelative``
    #: (docs/block_groups.md)
    flag_chain: tuple[tuple[int, int], ...] = ()
    footprint_partition: FootprintPartition | None = None
    #: one cluster of a block group of several, alone: which, or ``ANY``, and how many there are
    #: (docs/block_groups.md)
    modular_cluster: tuple[int, int] | None = None
    group_footprint: GroupFootprint | None = None  # where each of these reaches what any one does
    # clusters run one after the other: each begins when the one before it has left
    clusters_run_sequentially: bool = False

    def passes(self, left: int, barrier: int, whole: bool) -> bool:
        """Whether who leaves the kernel at one site, a whole warp or not, has run past a barrier at another:
        where nothing more is known, who runs to the kernel's end has."""
        if self.skips is not None:
            return self.skips(left, barrier, whole)
        return left < 0 or self.sites[left].text == END


#: Any cluster of a block group.
ANY = -1


class System(Protocol):
    """A launch of one cluster, ready to run: what the checker is given."""

    info: SystemInfo

    def agents(self) -> Sequence[Agent]:
        """Fresh agents at the kernel's entry, one per entry of ``info.classes``, in that order."""

    def refined(self, split: LaneSplit) -> System:
        """The same launch with one class split."""


@dataclass(frozen=True, slots=True)
class Unanalysable:
    """A system that could not even be set up, with the reason (verdict ``unknown``)."""

    reason: str
    span: Span
