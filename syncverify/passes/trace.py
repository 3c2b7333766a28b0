"""What the threads of one block touch, statement by statement, for given sizes: the program as it is meant.

A kernel without synchronization means what it says: each statement is done by all its threads before the next
one starts. Its control is run in that order for all threads at once, and every access noted with its bytes.
Sizes are the parameters' defaults, and no loop goes round more often than asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncverify.base.source import InputError
from syncverify.ir.expr import Expr, Int
from syncverify.ir.layout import Layout, layout
from syncverify.ir.nodes import Assign, Elect, Exit, For, If, Kernel, Let, LoadIndex, Region, Role, Stmt
from syncverify.ir.vectors import evaluate_all
from syncverify.model.proxies import Access
from syncverify.passes.access import accesses
from syncverify.passes.edits import Path
from syncverify.passes.rewrite import Body, bodies

#: Above every thread.
NOBODY = 1 << 62
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Accesses that one thread issues for its whole warp or role; which thread, nobody says.
ISSUED = frozenset({Access.ASYNC_READ, Access.ASYNC_WRITE})


@dataclass(frozen=True, eq=False)
class Touch:
    """One access, by all threads that make it at once.

    ``warps``: who makes it; for an issued copy the first warp of the role. ``low`` and ``high``: for each
    byte from ``base`` on, the lowest and highest thread that touches it (-1: nobody). ``rounds``: the loops
    around it, with the number of the iteration of each.
    """

    path: Path
    stmt: Stmt
    access: Access
    region: Region
    warps: frozenset[int]
    base: int
    low: Ints
    high: Ints
    rounds: tuple[tuple[Path, int], ...]

    def meets(self, other: Touch) -> tuple[bool, bool]:
        """Whether two different threads touch a common byte, and whether they may be of different warps."""
        lo = max(self.base, other.base)
        hi = min(self.base + len(self.low), other.base + len(other.low))
        if lo >= hi:
            return False, False
        a, b = slice(lo - self.base, hi - self.base), slice(lo - other.base, hi - other.base)
        both = (self.low[a] >= 0) & (other.low[b] >= 0)
        if not both.any():
            return False, False
        least = np.minimum(self.low[a], other.low[b])[both]
        most = np.maximum(self.high[a], other.high[b])[both]
        apart = bool((least // 32 != most // 32).any())
        issued = self.access in ISSUED or other.access in ISSUED
        return issued or bool((least != most).any()), apart


@dataclass(frozen=True, eq=False)
class Step:
    """A statement that touches nothing of the block's own, as it was met: a synchronization, mostly."""

    path: Path
    stmt: Stmt
    warps: frozenset[int]
    rounds: tuple[tuple[Path, int], ...]
    threads: int = 0


Trace = list[Touch | Step]


def traced(kernel: Kernel, most: int, skipped: Collection[Path] = (), rank: int = 0) -> Trace:
    """The accesses and other statements of one block, of the first cluster, in the order of the program.

    ``most``: rounds of any one loop that are followed; loops ``skipped`` go round no time. InputError for
    control that the defaults do not determine.
    """
    missing = [p.name for p in kernel.params if p.default is None]
    if missing:
        raise InputError(
            f"{kernel.name}: parameter {missing[0]} needs a default to trace the kernel", kernel.span
        )
    values = {p.name: p.default for p in kernel.params if p.default is not None}
    run = _Run(kernel, layout(kernel, values), most, frozenset(skipped))
    run.body(kernel.body, (), np.ones(kernel.launch.threads, dtype=bool), _env(kernel, values, rank), ())
    return run.trace


def _env(kernel: Kernel, values: Mapping[str, int], rank: int) -> dict[str, Any]:
    tid = np.arange(kernel.launch.threads, dtype=np.int64)
    x, y, _ = kernel.launch.block
    env: dict[str, Any] = dict(values)
    env |= {
        "tid": tid, "warp": tid // 32, "lane": tid % 32, "wg": tid // 128, "rank": rank,
        "tid.x": tid % x, "tid.y": tid // x % y, "tid.z": tid // (x * y),
        "block": rank, "block.x": rank, "block.y": 0, "block.z": 0,
    }  # fmt: skip
    grid = [int(evaluated(e, env)) for e in kernel.launch.grid]
    env |= {"grid": prod(grid), "grid.x": grid[0], "grid.y": grid[1], "grid.z": grid[2]}
    return env


@dataclass
class _Run:
    kernel: Kernel
    layout: Layout
    most: int
    skipped: frozenset[Path]
    trace: Trace = field(default_factory=list)
    last: tuple[Mask, frozenset[int]] | None = None  # the threads of the last access, and their warps

    def body(
        self, body: Body, at: Path, mask: Mask, env: dict[str, Any], rounds: tuple[tuple[Path, int], ...]
    ) -> Mask:
        """Runs statements for the threads of ``mask``; gives the threads that are left after them."""
        for k, stmt in enumerate(body):
            if not mask.any():
                break
            mask = self.statement(stmt, (*at, k), mask, env, rounds)
        return mask

    def statement(
        self, s: Stmt, path: Path, mask: Mask, env: dict[str, Any], rounds: tuple[tuple[Path, int], ...]
    ) -> Mask:
        match s:
            case Let(name, value) | Assign(name, value):
                old = env.get(name, 0)
                env[name] = np.where(mask, evaluated(value, env), old)
            case Elect(name):
                env[name] = (env["lane"] == 0).astype(np.int64)
            case LoadIndex():
                raise InputError("control that depends on data cannot be traced", s.span)
            case Exit():
                return np.zeros_like(mask)
            case Role(unit=unit, lo=lo, hi=hi, body=inner):
                me = env[{"threads": "tid", "warps": "warp", "warpgroups": "wg"}[unit]]
                inside = mask & (me >= evaluated(lo, env)) & (me < evaluated(hi, env))
                left = self.body(inner, (*path, 0), inside, env, rounds)
                stays: Mask = mask & (~inside | left)
                return stays
            case If(cond=cond):
                then: Mask = mask & (np.broadcast_to(evaluated(cond, env), mask.shape) != 0)
                other: Mask = mask & ~then
                done = self.body(s.then, (*path, 0), then, env, rounds)
                if s.orelse:
                    other = self.body(s.orelse, (*path, 1), other, env, rounds)
                joined: Mask = done | other
                return joined
            case For():
                return self.loop(s, path, mask, env, rounds)
            case _:
                self.access(s, path, mask, env, rounds)
        return mask

    def loop(
        self, s: For, path: Path, mask: Mask, env: dict[str, Any], rounds: tuple[tuple[Path, int], ...]
    ) -> Mask:
        if path in self.skipped:
            return mask
        low, high, step = (np.broadcast_to(evaluated(e, env), mask.shape) for e in (s.lo, s.hi, s.step))
        left = mask
        for n in range(self.most):
            i = low + n * step
            inside = left & (i < high)
            if not inside.any():
                break
            env[s.var] = i
            left = (left & ~inside) | self.body(s.body, (*path, 0), inside, env, (*rounds, (path, n)))
        return left

    def access(
        self, s: Stmt, path: Path, mask: Mask, env: dict[str, Any], rounds: tuple[tuple[Path, int], ...]
    ) -> None:
        if self.last is None or self.last[0] is not mask:
            self.last = (mask, _warps(mask))
        warps = self.last[1]
        touched = accesses(s)
        for access, region in touched:
            if region.rank is None:
                self.trace.append(self.touch(s, path, mask, env, rounds, access, region, warps))
        if all(region.rank is not None for _, region in touched):
            self.trace.append(Step(path, s, warps, rounds, int(mask.sum())))

    def touch(
        self,
        s: Stmt,
        path: Path,
        mask: Mask,
        env: dict[str, Any],
        rounds: tuple[tuple[Path, int], ...],
        access: Access,
        region: Region,
        warps: frozenset[int],
    ) -> Touch:
        who = np.nonzero(mask)[0]
        lo, size, count, pitch = self.bytes(region, env, mask.shape)
        if access in ISSUED:
            who, warps = who[:1], frozenset({min(warps)})
        starts = lo[who]
        base = int(starts.min())
        places = ((starts - base).astype(np.int64).tobytes(), who.astype(np.int64).tobytes())
        return Touch(path, s, access, region, warps, base, *_threads(*places, size, count, pitch), rounds)

    def bytes(self, r: Region, env: dict[str, Any], shape: tuple[int, ...]) -> tuple[Ints, int, int, int]:
        """Of each thread the first byte; of all the bytes of a row, the rows, and the bytes between two."""
        buffer = self.layout.buffers[r.buffer]
        at = np.zeros(shape, dtype=np.int64) + buffer.offset
        for e, stride, n in zip(r.index, buffer.strides, buffer.shape, strict=False):
            at = at + np.clip(evaluated(e, env), 0, n - 1) * stride
        rest = prod(buffer.shape[len(r.index) :])
        start = 0 if r.start is None else evaluated(r.start, env)
        count = rest if r.count is None else int(np.max(evaluated(r.count, env)))
        rows = 1 if r.rows is None else int(np.max(evaluated(r.rows, env)))
        pitch = count if r.pitch is None else int(np.max(evaluated(r.pitch, env)))
        return at + start * buffer.element, count * buffer.element, rows, pitch * buffer.element


@lru_cache(maxsize=512)
def _threads(starts: bytes, threads: bytes, size: int, count: int, pitch: int) -> tuple[Ints, Ints]:
    """The lowest and the highest thread that touches each byte: ``count`` rows from each one's start on."""
    first, who = np.frombuffer(starts, dtype=np.int64), np.frombuffer(threads, dtype=np.int64)
    end = int((first + (count - 1) * pitch + size).max())
    low = np.full(end, NOBODY, dtype=np.int64)
    high = np.full(end, -1, dtype=np.int64)
    if (first == first[0]).all():
        for r in range(count):
            low[r * pitch : r * pitch + size] = who[0]
            high[r * pitch : r * pitch + size] = who[-1]
    else:
        within = (np.arange(count)[:, None] * pitch + np.arange(size)).ravel()
        at = (first[:, None] + within).ravel()
        by = np.repeat(who, len(within))  # in order: of several the last one stays
        low[at[::-1]], high[at] = by[::-1], by
    low[high < 0] = -1
    low.flags.writeable = high.flags.writeable = False
    return low, high


def _warps(mask: Mask) -> frozenset[int]:
    """The warps that have a thread in a mask."""
    whole = mask if len(mask) % 32 == 0 else np.concatenate([mask, np.zeros(-len(mask) % 32, dtype=bool)])
    return frozenset(np.flatnonzero(whole.reshape(-1, 32).any(axis=1)).tolist())


# ---------------------------------------------------------------- expressions


def evaluated(e: Expr, env: Mapping[str, Any]) -> Any:
    """An index expression, for all threads at once: an int, or an array with one number for each."""
    try:
        return evaluate_all(e, env)
    except KeyError as name:
        raise InputError(f"{name.args[0]} has no value where the kernel is traced") from None
    except (TypeError, ZeroDivisionError) as why:
        raise InputError(f"the kernel cannot be traced: {why}") from None


def loops(body: Body, at: Path = ()) -> list[Path]:
    """The places of all loops whose number of rounds is not a number of at least one."""
    found: list[Path] = []
    for k, s in enumerate(body):
        here = (*at, k)
        match s:
            case For(lo=Int(a), hi=Int(b)) if a < b:
                pass
            case For():
                found.append(here)
        for branch, inner in enumerate(bodies(s)):
            found += loops(inner, (*here, branch))
    return found
