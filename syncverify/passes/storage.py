"""Shared memory by lifetimes: buffers that never hold values at the same time may lie in the same place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from syncverify.ir.expr import Int
from syncverify.ir.layout import SWIZZLE_ALIGN, BufferLayout, layout
from syncverify.ir.nodes import Kernel, Shared
from syncverify.passes.rings import rings
from syncverify.passes.trace import Touch, traced

Lifetimes = list[tuple[int, int]]


@dataclass(frozen=True)
class Allocate:
    """Gives every buffer an offset, the lowest that no buffer has whose values live at the same time.

    A value lives from the write to its last read, in the order of the program, which for a ring is the order
    of all its uses: so rings of a loop never overlap, and what a later phase uses may. That the passes order
    what reuse makes conflict is not left to luck: they look at bytes, not at names.
    """

    name: str = "allocate"

    def apply(self, kernel: Kernel) -> Kernel:
        lives = lifetimes(kernel)
        values = {p.name: p.default for p in kernel.params if p.default is not None}
        sizes = layout(kernel, values).buffers
        placed: dict[str, int] = {}
        for s in sorted(kernel.shared, key=lambda s: -sizes[s.name].size):
            placed[s.name] = _offset(s, placed, sizes, lives)
        shared = tuple(replace(s, offset=Int(placed[s.name])) for s in kernel.shared)
        return replace(kernel, shared=shared)


def _offset(
    s: Shared, placed: dict[str, int], sizes: Mapping[str, BufferLayout], lives: dict[str, Lifetimes]
) -> int:
    """The lowest place beside all buffers that live at the same time."""
    align = max(s.align, SWIZZLE_ALIGN[s.swizzle])
    taken = sorted((at, at + sizes[n].size) for n, at in placed.items() if overlap(lives[n], lives[s.name]))
    at = 0
    for lo, hi in taken:
        if at < hi and lo < at + sizes[s.name].size:
            at = -(-hi // align) * align
    return at


def overlap(a: Lifetimes, b: Lifetimes) -> bool:
    """Whether values of both exist at one time."""
    return any(x < v and u < y for x, y in a for u, v in b)


def lifetimes(kernel: Kernel) -> dict[str, Lifetimes]:
    """For every buffer the spans, in steps of the trace, from a write to the reads of what it wrote."""
    most = max((r.slots for r in rings(kernel)), default=1) + 2
    written: dict[str, list[tuple[int, Touch]]] = {}
    found: dict[str, Lifetimes] = {s.name: [] for s in kernel.shared}
    for now, t in enumerate(traced(kernel, most)):
        if not isinstance(t, Touch):
            continue
        earlier = written.setdefault(t.region.buffer, [])
        if t.access.writes:
            earlier.append((now, t))
            continue
        sources = [w for w, touch in earlier if _shares(touch, t)]
        found[t.region.buffer].append((_first(sources, earlier, t, now), now + 1))
    return found


def _first(sources: list[int], earlier: list[tuple[int, Touch]], read: Touch, now: int) -> int:
    """The oldest write whose bytes the read may still get: those that no later one covers whole."""
    oldest = now
    for w in reversed(sources):
        oldest = w
        touch = next(t for n, t in earlier if n == w)
        if _covers(touch, read):
            break
    return oldest


def _shares(a: Touch, b: Touch) -> bool:
    return max(a.base, b.base) < min(a.base + len(a.low), b.base + len(b.low))


def _covers(write: Touch, read: Touch) -> bool:
    lo, hi = read.base - write.base, read.base + len(read.low) - write.base
    return lo >= 0 and hi <= len(write.low) and bool((write.low[lo:hi] >= 0).all())
