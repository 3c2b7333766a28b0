"""What the warps of a kernel do, as operations that touch slots ``index mod depth``.

An *operation* represents its executions at all values of one counter in a domain of linear constraints.
What cannot be written this way raises ``OutsideError``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.checker.prover.rings.linear import Lin
from syncverify.ir import nodes as n
from syncverify.ir.expr import names
from syncverify.model.proxies import Access

#: The counter of an operation; in pairs, that of the second one.
FIRST, SECOND = "n'", "m'"
#: The counter of tiles, and the steps before a tile, up to its end, and of all tiles: prefix sums of the trip
#: counts of the loop inside.
TILE, BEFORE, BEHIND, ALL = "t'", "steps before t'", "steps up to t'", "steps of all tiles"
#: A ring: an array of barriers or slots, or one element of it.
Ring = tuple[str, int | None]
#: Bytes that one thread touches inside a slot: first, end, thread.
Piece = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Touch:
    """One access to a shared buffer: slot ``index mod depth``; ``pieces`` of each thread inside the slot."""

    access: Access
    buffer: str
    index: Lin
    pieces: tuple[Piece, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of an agent. ``statement`` distinguishes statements and copies of unrolled ones.

    ``kind``: arrive, expect, wait, init, inval, copy, store, commit, drain, mma, mma_commit, mma_drain, meet,
    warp_meet, fence, touch, use. ``index``: of the barrier's slot, or how many groups a drain leaves.
    ``count``, ``bytes``: of one thread. ``lag``: a wait's parity relative to its own iteration, or the id of
    a meeting.
    """

    kind: str
    statement: tuple[int, ...]
    segment: int
    place: int
    domain: tuple[Lin, ...]
    span: Span = field(default=UNKNOWN_SPAN, compare=False)
    ring: Ring | None = None
    index: Lin = Lin()
    count: int = 0
    bytes: int = 0
    lag: int = 0
    touches: tuple[Touch, ...] = ()
    of: int = -1  # the place of the read that a ``use`` belongs to


@dataclass(frozen=True, slots=True)
class Case:
    """Some of a kernel's launches: sizes that meet constraints, and the lane that each warp elects.

    What is no matter of iterations and depends on no ``fixed`` parameter is left to checks of a few values.
    """

    sizes: tuple[Lin, ...] = ()
    elected: tuple[int, ...] = ()
    fixed: frozenset[str] = frozenset()


def single(domain: tuple[Lin, ...], name: str = FIRST) -> int | None:
    """The only value of the counter, if the constraints say so outright."""
    lows = [-c.const for c in domain if c.terms == ((name, 1),)]
    highs = [c.const for c in domain if c.terms == ((name, -1),)]
    return max(lows) if lows and highs and max(lows) == min(highs) else None


def lows(domain: tuple[Lin, ...]) -> list[Lin]:
    """Forms that the counter is at least."""
    return [Lin(c.terms, c.const).put({FIRST: Lin()}).scaled(-1) for c in domain if c.coefficient(FIRST) == 1]


def highs(domain: tuple[Lin, ...]) -> list[Lin]:
    """Forms that the counter is at most."""
    return [c.put({FIRST: Lin()}) for c in domain if c.coefficient(FIRST) == -1]


def stage_parameters(kernel: n.Kernel) -> frozenset[str]:
    """Parameters that decide how many slots or barriers there are."""
    sizes = [e for s in kernel.shared for e in s.shape] + [b.count for b in kernel.barriers]
    return frozenset(x for e in sizes for x in names(e)) & {p.name for p in kernel.params}
