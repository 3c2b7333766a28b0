"""Shared memory by lifetimes: buffers that never hold values at the same time may lie in the same place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.ir.expr import Int
from syncverify.ir.layout import SWIZZLE_ALIGN, layout
from syncverify.ir.nodes import Kernel, Shared
from syncverify.passes.rings import rings
from syncverify.passes.trace import Touch, traced

Lifetimes = list[tuple[int, int]]


@dataclass(frozen=True)
class Allocate:
    """Gives every buffer an offset, the lowest that no buffer has whose values live at the same time.

    A value lives from the write to its last read, in the order of the program; a ring of several slots lives
    as long as its loop runs, for it is there to let roles run ahead. Only buffers of the same one or two
    groups of warps share a place, so that a copy has one phase to complete on. That what reuse makes conflict
    is ordered is not left to luck: the passes look at bytes, not at names.
    """

    name: str = "allocate"

    def apply(self, kernel: Kernel) -> Kernel:
        found = {r.buffer: r for r in rings(kernel) if not r.shared_by}
        lives = lifetimes(kernel)
        values = {p.name: p.default for p in kernel.params if p.default is not None}
        sizes = layout(kernel, values).buffers
        placed: dict[str, int] = {}

        def apart(a: str, b: str) -> bool:
            homes = {h for n in (a, b) if n in found for h in found[n].homes}
            return len(homes) > 2 or overlap(lives[a], lives[b])

        for s in sorted(kernel.shared, key=lambda s: -sizes[s.name].size):
            taken = [(at, at + sizes[n].size) for n, at in placed.items() if apart(n, s.name)]
            placed[s.name] = _offset(s, sorted(taken), sizes[s.name].size)
        shared = tuple(replace(s, offset=Int(placed[s.name])) for s in kernel.shared)
        return replace(kernel, shared=shared)


def _offset(s: Shared, taken: list[tuple[int, int]], size: int) -> int:
    """The lowest place beside all that is taken."""
    align = max(s.align, SWIZZLE_ALIGN[s.swizzle])
    at = 0
    for lo, hi in taken:
        if at < hi and lo < at + size:
            at = -(-hi // align) * align
    return at


def overlap(a: Lifetimes, b: Lifetimes) -> bool:
    """Whether values of both exist at one time."""
    return any(x < v and u < y for x, y in a for u, v in b)


def lifetimes(kernel: Kernel) -> dict[str, Lifetimes]:
    """For every buffer the spans, in steps of the trace, in which it holds values that are still read.

    A write takes its own step at least: it would destroy what lives there.
    """
    found_rings = {r.buffer: r for r in rings(kernel) if not r.shared_by}
    most = max((r.slots for r in found_rings.values()), default=1) + 2
    written: dict[str, list[tuple[int, Touch]]] = {}
    found: dict[str, Lifetimes] = {s.name: [] for s in kernel.shared}
    running: dict[tuple[str, object], list[int]] = {}
    for now, t in enumerate(traced(kernel, most)):
        if not isinstance(t, Touch):
            continue
        ring = found_rings[t.region.buffer]
        if ring.slots > 1:
            outside = tuple(r for r in t.rounds if not any(r[0][: len(c)] == c for c in ring.carriers))
            running.setdefault((ring.buffer, outside), []).append(now)
        earlier = written.setdefault(t.region.buffer, [])
        if t.access.writes:
            earlier.append((now, t))
            found[ring.buffer].append((now, now + 1))
            continue
        sources = [w for w, touch in earlier if _shares(touch, t)]
        found[ring.buffer].append((_first(sources, earlier, t, now), now + 1))
    for (buffer, _), steps in running.items():
        found[buffer].append((min(steps), max(steps) + 1))
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
