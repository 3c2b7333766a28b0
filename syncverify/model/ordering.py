"""THE TABLE: what orders two accesses to the same shared bytes (docs/model.md C; PTX ISA, async proxy).

Each row is one fact. The checker asks it which knowledge the second access needs of the first; the
passes ask it what to insert; the documentation prints it. Nothing else may state such a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from syncverify.model.proxies import Access


class Need(Enum):
    """What must be known of the first access, in the second one's causal past.

    For an asynchronous second access the past is the snapshot taken at its issue.
    """

    NOTHING = "no hazard: two reads"
    ORDER = "any causality path (program order, barrier, mbarrier, warp sync)"
    BRIDGE = "a causality path with fence.proxy.async for shared memory after the first access"
    COMPLETION = (
        "the observed completion of the first access (its mbarrier phase or group), then a causality path"
    )
    COMPLETION_BRIDGE = "the observed completion, then a path with fence.proxy.async for shared memory"


class Hazard(Enum):
    RAW = "RAW"
    WAR = "WAR"
    WAW = "WAW"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Ordering:
    """One row. ``unordered`` and ``unbridged`` are the rule ids reported when the need is not met."""

    first: Access
    second: Access
    hazard: Hazard
    need: Need
    recipe: str  # R0..R9 of docs/model.md, C
    unordered: str
    unbridged: str
    contested: str | None
    cite: str


def _hazard(first: Access, second: Access) -> Hazard:
    if first.writes:
        return Hazard.WAW if second.writes else Hazard.RAW
    return Hazard.WAR if second.writes else Hazard.NONE


_UNORDERED = {Hazard.RAW: "SV110", Hazard.WAR: "SV111", Hazard.WAW: "SV112", Hazard.NONE: ""}

GR, GW, AR, AW, MR, CW, SW = (
    Access.GENERIC_READ, Access.GENERIC_WRITE, Access.ASYNC_READ, Access.ASYNC_WRITE,
    Access.MMA_READ, Access.CPASYNC_WRITE, Access.STASYNC_WRITE,
)  # fmt: skip

# first, second, need, recipe, unordered rule (None: by hazard), unbridged rule, contested, citation
_ROWS: list[tuple[Access, Access, Need, str, str | None, str, str | None, str]] = []


def _row(first: Access, seconds: tuple[Access, ...], need: Need, recipe: str, cite: str,
         unordered: str | None = None, unbridged: str = "", contested: str | None = None) -> None:  # fmt: skip
    for s in seconds:
        _ROWS.append((first, s, need, recipe, unordered, unbridged, contested, cite))


_row(GW, (GW, GR, CW, SW), Need.ORDER, "R1", "PTX ISA, Memory Consistency Model: Causality Order")
_row(GW, (AW, AR, MR), Need.BRIDGE, "R2", "PTX ISA, Async Proxy; fence.proxy.async", unbridged="SV101")
_row(GR, (GW, CW, SW), Need.ORDER, "R1", "PTX ISA, Memory Consistency Model: Causality Order")
_row(
    GR, (AW,), Need.BRIDGE, "R2", "PTX ISA, Async Proxy; measured on H200", unbridged="SV105", contested="K1"
)
_row(
    AW, (GW, GR, AW, AR, MR, CW, SW), Need.COMPLETION, "R3", "PTX ISA, cp.async.bulk: Completion; Async Proxy"
)
_row(
    AR,
    (GW, AW, CW, SW),
    Need.COMPLETION,
    "R4",
    "PTX ISA, cp.async.bulk.wait_group",
    unordered="SV104",
    contested="K9",
)
_row(MR, (GW, AW, CW, SW), Need.COMPLETION, "R5", "PTX ISA, wgmma.wait_group", contested="K8")
_row(CW, (GW, GR, CW, SW), Need.COMPLETION, "R6", "PTX ISA, cp.async.wait_group")
_row(
    CW,
    (AW, AR, MR),
    Need.COMPLETION_BRIDGE,
    "R7",
    "PTX ISA, cp.async (generic proxy)",
    unbridged="SV101",
    contested="K6",
)
_row(SW, (GW, GR, CW, SW), Need.COMPLETION, "R8", "PTX ISA, st.async")
_row(SW, (AW, AR, MR), Need.COMPLETION_BRIDGE, "R9", "PTX ISA, st.async (generic proxy)", unbridged="SV101")
_row(GR, (GR, AR, MR), Need.NOTHING, "R0", "two reads")
_row(AR, (GR, AR, MR), Need.NOTHING, "R0", "two reads")
_row(MR, (GR, AR, MR), Need.NOTHING, "R0", "two reads")

#: Every pair of access kinds, exactly once.
ORDERINGS: dict[tuple[Access, Access], Ordering] = {
    (f, s): Ordering(f, s, _hazard(f, s), need, recipe, u or _UNORDERED[_hazard(f, s)], b, k, cite)
    for f, s, need, recipe, u, b, k, cite in _ROWS
}
_BY_NUMBER = tuple(tuple(ORDERINGS[f, s] for s in Access) for f in Access)


def ordering(first: Access, second: Access) -> Ordering:
    """The row for two accesses to the same shared bytes."""
    return _BY_NUMBER[first][second]
