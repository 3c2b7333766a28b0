"""The state of a launch: counters, cells, and who knows which accesses.

A group's knowledge: ``H`` accesses that happened before (all its lanes know them), ``O`` its own
(each lane its own), ``A`` and ``AO`` those among them that a proxy fence bridged to the async proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from syncverify.base.source import Span

TX_LIMIT = (1 << 20) - 1  # PTX ISA, mbarrier: valid range of the tx-count
END = -1
NO_CLUSTER: tuple[int, int, int, int, int, int, tuple[tuple[int, int, int, int], ...]] = (
    0,
    0,
    0,
    0,
    0,
    0,
    (),
)


class Bar(NamedTuple):
    """An mbarrier object (PTX ISA, mbarrier). ``R*``: what release arrivals of the open phase hand on,
    ``C*``: the same of the last completed one; ``X``: what only cluster-scope waits receive (K4)."""

    alive: bool = False
    ever: bool = False
    phase: int = 0  # completed phases
    pending: int = 0
    expected: int = 0
    tx: int = 0
    RH: int = 0
    RA: int = 0
    RX: int = 0
    RXA: int = 0
    CH: int = 0
    CA: int = 0
    CX: int = 0
    CXA: int = 0
    init: int = 0  # accesses that initialized it
    by: tuple[int, ...] = ()  # which instruction of which warp did, in its first life
    seen: bool = True  # somebody has waited for the last completed phase


@dataclass(frozen=True, slots=True)
class Named:
    """A named barrier, warp barrier or cluster barrier in use."""

    threads: int = 0
    red: bool = False
    arrived: int = 0  # mask of groups
    waiting: int = 0  # those that block
    brought: tuple[tuple[int, int, int, int], ...] = ()  # group, the H and A it came with, its event
    again: int = 0  # warps that arrived and then came once more, to wait


class Found:
    """A harm as the machine meets it; the explorer adds the schedule."""

    __slots__ = ("claim", "group", "message", "other", "rule", "span", "stops")

    def __init__(
        self,
        claim: str,
        rule: str,
        message: str,
        span: Span,
        group: int,
        other: Span | None = None,
        stops: bool = False,
    ) -> None:
        self.claim, self.rule, self.message, self.span = claim, rule, message, span
        self.group, self.other, self.stops = group, other, stops

    @property
    def key(self) -> tuple[str, str, int, int]:
        return (self.claim, self.rule, self.span.line, self.other.line if self.other else 0)


#: H and A by scope: CTA, cluster, device.
Scoped = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
NOTHING: Scoped = ((0, 0), (0, 0), (0, 0))


class State:
    """Everything that decides what can happen next. Lists hold immutable values, so a copy is shallow."""

    __slots__ = (
        "A",
        "AO",
        "H",
        "O",
        "acquired",
        "bars",
        "cluster",
        "commits",
        "cr",
        "cw",
        "flags",
        "fly",
        "named",
        "node",
        "partial",
        "pool",
        "released",
        "rounds",
        "tokens",
        "wgs",
    )

    def __init__(self) -> None:
        self.node: list[int] = []
        self.H: list[int] = []
        self.O: list[int] = []
        self.A: list[int] = []
        self.AO: list[int] = []
        # What a relaxed arrive hands on (a release fence's past), and what an acquire fence would add after
        # relaxed waits: H and A for peers in the CTA, in the cluster, on the device.
        self.released: list[Scoped] = []
        self.acquired: list[Scoped] = []
        self.tokens: list[tuple[tuple[str, int], ...]] = []
        self.commits: list[int] = []
        self.bars: list[Bar] = []
        self.cw: list[int] = []  # per cell: the last write (with atomics and equal writes beside it)
        self.cr: list[int] = []  # reads since
        self.fly = 0
        self.partial: tuple[tuple[int, int], ...] = ()
        self.named: dict[tuple[int, int, int, int], Named] = {}
        self.rounds: dict[tuple[int, int, int, int], int] = {}  # of named barriers: completed so far
        # Arrived and released groups; H and A of the open round and of the last one; the same per CTA.
        self.cluster: dict[
            int, tuple[int, int, int, int, int, int, tuple[tuple[int, int, int, int], ...]]
        ] = {}
        self.wgs: dict[tuple[int, int], tuple[int, int]] = {}
        self.pool: list[int] = []
        self.flags: list[tuple[int, tuple[tuple[int, int, int, int], ...]]] = []

    def copy(self) -> State:
        s = State.__new__(State)
        s.node, s.H, s.O, s.A, s.AO = self.node[:], self.H[:], self.O[:], self.A[:], self.AO[:]
        s.released, s.acquired, s.tokens = self.released[:], self.acquired[:], self.tokens[:]
        s.commits, s.bars = self.commits[:], self.bars[:]
        s.cw, s.cr, s.fly, s.partial = self.cw[:], self.cr[:], self.fly, self.partial
        s.named, s.cluster, s.wgs = self.named.copy(), self.cluster.copy(), self.wgs.copy()
        s.rounds = self.rounds.copy()
        s.pool, s.flags = self.pool[:], self.flags[:]
        return s
