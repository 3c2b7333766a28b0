"""Fences, releases and acquires of generic memory (PTX ISA, memory consistency model; 9.7.13 membar/fence).

What a release leaves at a place in memory is a clock. A strong read that finds it there synchronizes, at once
if it acquires, else at the thread's next acquire fence. Read-modify-writes carry it on; plain stores end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.clocks import Clock, merged
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr, Mem
from syncverify.simulate.ptx.types import Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.addressing import Part
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Next, Step

SCOPES = {"cta": 1, "cluster": 2, "gpu": 3, "sys": 4}


def scope_of(mods: tuple[str, ...]) -> int:
    return next((SCOPES[m] for m in mods if m in SCOPES), 0)


@dataclass(frozen=True, slots=True)
class Release:
    """What a release left: a clock, of which thread, and the narrowest scope on its way there."""

    clock: Clock
    by: int
    scope: int

    def covers(self, earlier: Release, threads: int) -> bool:
        """Whether who synchronizes with this one learns all that an earlier release would tell; ``threads``:
        of a block. Whose scope has a thread of a block has all of that block."""
        if earlier.by // threads != self.by // threads or earlier.scope > self.scope:
            return False
        n = earlier.clock.shape[1]
        return n <= self.clock.shape[1] and bool((earlier.clock <= self.clock[:, :n]).all())


def key_of(part: Part, at: int) -> int:
    """A byte in global or shared memory as a number."""
    if part.arena.shadow is None and part.space == "global":
        return at + (1 << 48)  # perhaps nowhere, whose bytes are numbered again
    return at if part.space == "global" else -at - 1


def in_scope(m: Machine, mine: int, mine_scope: int, other: int, other_scope: int) -> bool:
    """Whether each of two threads lies in the other's scope."""
    scope = min(mine_scope, other_scope)
    a, b = m.blocks[mine // m.launch.threads], m.blocks[other // m.launch.threads]
    return a is b or scope >= 3 or (scope == 2 and a.cluster is b.cluster)


def read_flags(m: Machine, f: Fragment, part: Part, acquires: bool, scope: int) -> None:
    """A strong read: what releases have left there, with the value that is read, becomes known."""
    older = {} if m.older is None else m.older.found
    for lane, at in zip(part.lanes, part.at, strict=True):
        thread = int(f.warp.threads[lane])
        found = older.get(int(lane))
        for left in m.flags.get(key_of(part, int(at)), ()) if found is None else found.left:
            if not in_scope(m, thread, scope, left.by, left.scope):
                continue
            if acquires:
                m.acquire(slice(thread, thread + 1), left.clock)
            else:
                seen = m.fence_acquire.setdefault(thread, [])
                if not any(x is left for x in seen):  # a relaxed poll reads one release many times
                    seen.append(left)
    older.clear()


def write_flags(m: Machine, f: Fragment, part: Part, releases: bool, scope: int, changes: bool) -> None:
    """A write: what it releases stands there; ``changes``: it has read what stood there before."""
    for lane, at in zip(part.lanes, part.at, strict=True):
        key = key_of(part, int(at))
        thread = int(f.warp.threads[lane])
        left = m.flags.get(key, ()) if changes else ()
        new: list[Release] = []
        if scope and releases:
            new = [Release(m.release(slice(thread, thread + 1)), thread, scope)]
        elif scope:
            fenced = m.fence_release.get(thread, {})
            new = [Release(clock, thread, min(scope, s)) for s, clock in fenced.items()]
        if new:  # threads that spin on a lock leave one release, not one for each try
            threads = m.launch.threads
            left = (*(r for r in left if not any(x.covers(r, threads) for x in new)), *new)
        if left:
            m.flags[key] = left
        elif not changes:
            m.flags.pop(key, None)


def fenced(m: Machine, thread: int, scope: int = 0) -> Clock | None:
    """What a thread's fences of at least a scope have released."""
    out = None
    for reach, clock in m.fence_release.get(thread, {}).items():
        if reach >= scope:
            out = merged(out, clock)
    return out


def fence(m: Machine, f: Fragment, on: Lanes, releases: bool, acquires: bool, scope: int) -> None:
    """A fence of the lanes: releases cover what they know now; what relaxed reads saw is known after.

    A fence orders threads of its scope alone: ``fence.acq_rel.cta`` before a flag of scope gpu releases
    nothing to other blocks.
    """
    threads = f.warp.threads[on]
    if acquires:
        for t in map(int, threads):
            for left in m.fence_acquire.get(t, ()):
                if in_scope(m, t, scope, left.by, left.scope):
                    m.acquire(slice(t, t + 1), left.clock)
            if scope >= SCOPES["gpu"]:
                m.fence_acquire.pop(t, None)
    if releases:
        for t in map(int, threads):
            m.fence_release.setdefault(t, {})[scope] = m.clocks.know[:, t].copy()
        m.clocks.tick(threads)


def _sequential(m: Machine, f: Fragment, on: Lanes, scope: int) -> None:
    """fence.sc: ordered after all earlier ones whose scopes include each other."""
    block = f.warp.block
    key = {1: f"b{block.number}", 2: f"c{block.cluster.number}"}.get(scope, "all")
    for t in f.warp.threads[on]:
        row = slice(int(t), int(t) + 1)
        m.acquire(row, m.sc_order.get(key))
        m.sc_order[key] = merged(m.sc_order.get(key), m.release(row))


@builder("fence", "membar")
def _fence(c: Context, i: Instr) -> Step:
    words = set(i.mods)
    if "proxy" in words or any(w.startswith("proxy") for w in words):
        return _proxy_fence(c, i)
    if "mbarrier_init" in words:

        def init(f: Fragment, on: Lanes) -> Next:
            m = f.warp.machine
            for t in f.warp.threads[on]:
                m.fenced_inits.setdefault(int(t), set()).update(m.own_inits.get(int(t), ()))
            return None

        return c.masked(init)
    scope = scope_of(i.mods) or SCOPES["sys"]
    if i.op == "membar":
        scope = {"cta": 1, "gl": 3, "sys": 4, "gpu": 3}.get(i.mods[-1], 0)
        words = {"sc"}
        if not scope:
            raise c.fail()
    elif (
        words
        - set(SCOPES)
        - {
            "sc",
            "acq_rel",
            "acquire",
            "release",
            "sync_restrict::shared::cta",
            "sync_restrict::shared::cluster",
        }
    ):
        raise c.fail()
    releases = bool(words & {"sc", "acq_rel", "release"}) or not words - set(SCOPES)
    acquires = bool(words & {"sc", "acq_rel", "acquire"}) or not words - set(SCOPES)
    strong = "sc" in words

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        fence(m, f, on, releases, acquires, scope)
        if strong:
            _sequential(m, f, on, scope)
        if releases:
            m.settle_all(f, on)
        return None

    return c.masked(run)


def _proxy_fence(c: Context, i: Instr) -> Step:
    words = [w for w in i.mods if w != "proxy"]
    if "alias" in words:
        return lambda f: None
    if any(w.startswith("tensormap") for w in words):
        return _tensormap_fence(c, i)
    if not words or not words[0].startswith("async"):
        raise c.fail()
    shared = words[0] in ("async", "async::generic") and not any(w == "global" for w in words)
    outside = words[0] in ("async", "async::generic") and not any(w.startswith("shared") for w in words)
    if words[0] == "async::generic":
        shared, outside = True, False

    def run(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        m.clocks.bridge(f.warp.threads[on], shared, outside)
        m.settle_all(f, on)
        return None

    return c.masked(run)


def _tensormap_fence(c: Context, i: Instr) -> Step:
    """Writers release, users acquire: then the map's bytes are known to the tensormap proxy."""
    words, scope = set(i.mods), scope_of(i.mods) or SCOPES["gpu"]
    if "release" in words:

        def release(f: Fragment, on: Lanes) -> Next:
            m = f.warp.machine
            fence(m, f, on, True, False, scope)
            return None

        return c.masked(release)
    if "acquire" not in words:
        raise c.fail()
    operand = i.operands[0]
    if not isinstance(operand, Mem):
        raise c.fail("expected [address], 128")
    from syncverify.simulate.ptx.addressing import address, parts

    where = address(c, operand)

    def acquire(f: Fragment, on: Lanes) -> Next:
        m = f.warp.machine
        fence(m, f, on, False, True, scope)
        for part in parts(m, f, "generic", where(f.R), on, 128, 64):
            if part.space != "global":
                raise m.undefined(
                    f, "the fence names no memory in the global space", "membar/fence: tensormap"
                )
            for lane, at in zip(part.lanes, part.at, strict=True):
                thread = int(f.warp.threads[lane])
                key = (f.warp.block.number, int(at))
                known = m.clocks.know[:, thread].copy()
                m.tensormap_known[key] = merged(m.tensormap_known.get(key), known)
                m.clocks.tick(np.array([thread]))
        return None

    return c.masked(acquire)
