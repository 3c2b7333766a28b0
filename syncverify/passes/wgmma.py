"""Synchronization of tensor-core kernels: loading and multiplying roles, and what orders their accesses.

Each pass asks the ordering table which pairs of accesses need something: tensor copies that fill a slot and
the wgmmas that read it (*completion* of the copies: full barriers), those wgmmas and the next copies into
the slot (*completion* of the group, then an arrival: empty barriers), accumulators and their readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Literal

from syncverify.base.source import InputError
from syncverify.ir.expr import Expr, Int, Var, evaluate
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Assign,
    Barrier,
    BarrierRef,
    BarrierSync,
    ClusterArrive,
    ClusterWait,
    Elect,
    FenceMbarrierInit,
    FenceProxyAsync,
    For,
    FragRead,
    If,
    Kernel,
    Let,
    LoadIndex,
    MbarrierArrive,
    MbarrierInit,
    MbarrierWait,
    Role,
    Stmt,
    TmaLoad,
    WarpSync,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from syncverify.model.ordering import Need
from syncverify.model.proxies import Access
from syncverify.passes.access import needed, touches
from syncverify.passes.rewrite import Body, contains, flat_map, keep, replaced, unused, walk, with_bodies
from syncverify.passes.roles import COMPUTE
from syncverify.passes.running import PHASE, STAGE, ring_loop, used_lets, without_empty
from syncverify.passes.staging import ISSUER

LOAD = "load"
ELECTED = Var("elected")
LAST = Var("last")
#: Threads of a warpgroup.
GROUP = 128


@dataclass(frozen=True)
class LoadAndMultiply:
    """A warp of its own for the tensor copies, after ``consumers`` warpgroups for everything else."""

    consumers: int
    name: str = "load-and-multiply"

    def apply(self, kernel: Kernel) -> Kernel:
        def load(s: Stmt) -> bool:
            return isinstance(s, TmaLoad)

        def known(s: Stmt) -> bool:
            return isinstance(s, Let | LoadIndex)

        shared = tuple(s for s in kernel.body if known(s))
        work = tuple(s for s in kernel.body if not known(s))
        loads = without_empty(keep(work, lambda s: load(s) or known(s)), load)
        rest = keep(work, lambda s: not load(s))
        at = 4 * self.consumers
        roles = (
            Role(COMPUTE, "warps", Int(0), Int(at), used_lets(rest)),
            Role(LOAD, "warps", Int(at), Int(at + 1), used_lets(loads)),
        )
        return replace(kernel, body=(*shared, *roles))


@dataclass(frozen=True)
class TensorFullBarriers:
    """Async write, then wgmma read: the copies' bytes are announced, and readers wait for the phase."""

    name: str = "full-barriers"

    def apply(self, kernel: Kernel) -> Kernel:
        needs = needed(kernel, Access.ASYNC_WRITE, Access.MMA_READ)
        needs |= needed(kernel, Access.ASYNC_WRITE, Access.GENERIC_READ)
        copies = [s for s in walk(kernel.body) if isinstance(s, TmaLoad)]
        fulls, filled = dict.fromkeys(s.bar.name for s in copies), {s.dst.buffer for s in copies}
        if any(needs.get(buffer) is not Need.COMPLETION for buffer in filled):
            raise InputError(f"{kernel.name}: copies that nobody reads")

        def around(stmt: Stmt) -> Iterable[Stmt]:
            if not ring_loop(stmt):
                return (stmt,)
            assert isinstance(stmt, For)
            body = stmt.body
            loads = [s for s in body if isinstance(s, TmaLoad)]
            if loads:
                # every block of the mask gets the same from each other one
                ctas = kernel.launch.ctas
                total = sum(box_bytes(kernel, s) * (1 if s.multicast is None else ctas) for s in loads)
                at = body.index(loads[0])
                arrive = MbarrierArrive(loads[0].bar, expect=Int(total))
                return (replace(stmt, body=(*body[:at], arrive, *body[at:])),)
            at = next(k for k, s in enumerate(body) if _reads(s, filled))
            waits = tuple(MbarrierWait(BarrierRef(bar, STAGE), PHASE) for bar in fulls)
            return (replace(stmt, body=(*body[:at], *waits, *body[at:])),)

        return replace(kernel, body=flat_map(kernel.body, around))


def _reads(s: Stmt, buffers: Iterable[str]) -> bool:
    """Whether the statement reads one of the buffers, as an operand or by itself."""
    return any(touches(s, kind, buffers) for kind in (Access.MMA_READ, Access.GENERIC_READ))


def box_bytes(kernel: Kernel, load: TmaLoad) -> int:
    m = next(m for m in kernel.maps if m.name == load.map)
    dtype = next(t.dtype for t in kernel.tensors if t.name == m.tensor)
    return prod(m.box) * DTYPE_BYTES[dtype]


@dataclass(frozen=True)
class WgmmaGroups:
    """A group of wgmmas for each iteration, of which ``pending`` stay in flight.

    The accumulators are fenced before each group (they may have been touched) and complete after the loop. An
    iteration that leaves its own group pending has nothing to release the first time, which is peeled off.
    """

    pending: int
    name: str = "wgmma-groups"

    def apply(self, kernel: Kernel) -> Kernel:
        read = any(isinstance(s, FragRead) for s in walk(kernel.body))

        def around(stmt: Stmt) -> Iterable[Stmt]:
            if not (ring_loop(stmt) and contains(stmt, Wgmma)):
                return (stmt,)
            assert isinstance(stmt, For)
            body = stmt.body
            if self.pending and any(isinstance(s, Wgmma) and isinstance(s.a, str) for s in body):
                raise InputError(f"{kernel.name}: registers that a group in flight reads cannot be refilled")
            products = [k for k, s in enumerate(body) if isinstance(s, Wgmma)]
            first, last = products[0], products[-1] + 1
            group = (*body[:first], WgmmaFence(), *body[first:last], WgmmaCommit())
            done: tuple[Stmt, ...] = (WgmmaWait(Int(0)),) if read and self.pending else ()
            if self.pending == 0:
                return (replace(stmt, body=(*group, WgmmaWait(Int(0)), *body[last:])),)
            peeled = tuple(_accumulating(replaced(s, {stmt.var: stmt.lo}), 0) for s in group)
            steady = tuple(_accumulating(s, 1) for s in group)
            loop = replace(
                stmt,
                lo=Int(1),
                body=(*steady, WgmmaWait(Int(self.pending)), Assign("last", STAGE), *body[last:]),
            )
            start = (*peeled, Let("last", STAGE), *body[last:])
            return (*start, loop, *done)

        return replace(kernel, body=flat_map(kernel.body, around))


def _accumulating(stmt: Stmt, value: int) -> Stmt:
    """The products of the first iteration write their accumulators, later ones add to them."""
    return replace(stmt, accumulate=Int(value)) if isinstance(stmt, Wgmma) else stmt


@dataclass(frozen=True)
class TensorEmptyBarriers:
    """wgmma read, then async write of the same slot by another role: a group that is complete releases it.

    ``each``: one thread of a ``warpgroup`` arrives (group completion is collective, K8) or of a ``warp``.
    Where lanes have read for themselves, they fence first (K1). ``strict``: cluster scope for what blocks of
    a cluster tell each other. Nothing but copies is ordered by that, for which the scope of a block is enough
    in practice (K4), and costs no memory fence.
    """

    each: str = "warpgroup"
    strict: bool = True
    name: str = "empty-barriers"

    @property
    def scope(self) -> Literal["cta", "cluster"]:
        return "cluster" if self.strict else "cta"

    def apply(self, kernel: Kernel) -> Kernel:
        needs = needed(kernel, Access.MMA_READ, Access.ASYNC_WRITE)
        fulls = dict.fromkeys(s.bar.name for s in walk(kernel.body) if isinstance(s, TmaLoad))
        filled = {s.dst.buffer for s in walk(kernel.body) if isinstance(s, TmaLoad)}
        if not any(needs.get(buffer) is Need.COMPLETION for buffer in filled):
            return kernel
        empties = tuple(Barrier(_empty(b.name), b.count) for b in kernel.barriers if b.name in fulls)
        shared = any(isinstance(s, TmaLoad) and s.multicast is not None for s in walk(kernel.body))
        ctas = kernel.launch.ctas if shared else 1
        body = flat_map(kernel.body, lambda s: (self._acquired(s, ctas) if isinstance(s, For) else s,))
        body = tuple(
            replace(s, body=self._released(s.body, tuple(fulls), ctas, filled))
            if isinstance(s, Role) and s.name == COMPUTE
            else s
            for s in body
        )
        return replace(kernel, body=body, barriers=(*kernel.barriers, *empties))

    def _acquired(self, loop: For, ctas: int) -> For:
        out: list[Stmt] = []
        for s in loop.body:
            if isinstance(s, MbarrierArrive) and s.expect is not None:
                # the first use of each slot passes at once: the phase before phase 0 counts as complete (B19)
                empty = BarrierRef(_empty(s.bar.name), s.bar.index)
                out.append(MbarrierWait(empty, PHASE ^ 1, scope=self.scope if ctas > 1 else "cta"))
            out.append(s)
        return replace(loop, body=tuple(out))

    def _released(self, body: Body, fulls: tuple[str, ...], ctas: int, filled: set[str]) -> Body:
        """After each wait for groups: the slot whose reads it covers, if it is ever filled again.

        Where blocks of a cluster fill each other's slots, each of them hears of it.
        """
        pending = any(isinstance(s, WgmmaWait) and s.pending != Int(0) for s in walk(body))
        slot: Expr = LAST if pending else STAGE
        arrivals: tuple[Stmt, ...] = tuple(MbarrierArrive(BarrierRef(_empty(f), slot)) for f in fulls)
        if ctas > 1:
            arrivals = tuple(
                MbarrierArrive(BarrierRef(_empty(f), slot, Int(rank)), scope=self.scope)
                for f in fulls
                for rank in range(ctas)
            )
        arrive: tuple[Stmt, ...] = (If(self._leader(), arrivals),)
        if any(touches(s, Access.GENERIC_READ, filled) for s in body):
            # each lane has read for itself: all of them come before the one that tells of it (K1)
            arrive = (FenceProxyAsync("shared_cta"), WarpSync(), *arrive)

        def after(stmt: Stmt) -> Iterable[Stmt]:
            return (stmt, *arrive) if isinstance(stmt, WgmmaWait) else (stmt,)

        # a wait outside of all loops comes after the last use of the ring
        return tuple(
            with_bodies(s, lambda b: flat_map(b, after)) if isinstance(s, For | If) else s for s in body
        )

    def _leader(self) -> Expr:
        # the lane that is elected anyway, so that the others stay alike
        return ISSUER if self.each == "warpgroup" else ELECTED


def _empty(full: str) -> str:
    return "empty" + full.removeprefix("full")


@dataclass(frozen=True)
class ElectLoader:
    """One lane of the loading warp does all it does."""

    name: str = "elect"

    def apply(self, kernel: Kernel) -> Kernel:
        body = tuple(
            replace(s, body=(If(ELECTED, s.body),)) if isinstance(s, Role) and s.name == LOAD else s
            for s in kernel.body
        )
        return replace(kernel, body=(Elect(ELECTED.name), *body))


@dataclass(frozen=True)
class InitRings:
    """Initializes every mbarrier with the arrivals that one phase gets, counted thread by thread.

    The n-th arrival of a thread on a slot belongs to the slot's n-th phase.
    """

    name: str = "mbarrier-init"

    def apply(self, kernel: Kernel) -> Kernel:
        counts = ring_arrivals(kernel)
        inits: list[Stmt] = []
        slot = unused(kernel, "s")
        for slots in sorted({_slots(b) for b in kernel.barriers}):
            group = [b.name for b in kernel.barriers if _slots(b) == slots]
            each = tuple(MbarrierInit(BarrierRef(b, Var(slot)), Int(counts[b])) for b in group)
            inits.append(For(slot, Int(0), Int(slots), Int(1), each))
        together = kernel.launch.ctas > 1
        fence = (FenceMbarrierInit(),) if together else ()
        # other blocks use the objects from the start on while they run; the fence is the release (B24)
        meeting: tuple[Stmt, ...] = (BarrierSync(Int(0)),)
        if together:
            meeting = (ClusterArrive("relaxed"), ClusterWait())
        init = Role("init", "warps", Int(0), Int(1), (If(ELECTED, (*inits, *fence)),))
        at = next(k for k, s in enumerate(kernel.body) if not isinstance(s, Elect | Let))
        end = (ClusterArrive(), ClusterWait()) if together else ()
        return replace(kernel, body=(*kernel.body[:at], init, *meeting, *kernel.body[at:], *end))


def _slots(b: Barrier) -> int:
    assert isinstance(b.count, Int)
    return b.count.value


def ring_arrivals(kernel: Kernel) -> dict[str, int]:
    """Arrivals per phase of every mbarrier array of a block, from its whole cluster, at the default sizes."""
    values = {p.name: p.default for p in kernel.params if p.default is not None}
    grid = evaluate(kernel.launch.grid[0], values)
    phases: Counter[tuple[str, int, int]] = Counter()
    alike: dict[tuple[str, ...], dict[tuple[int, ...], Counter[tuple[str, int, int]]]] = {}
    for rank, tid in product(range(kernel.launch.ctas), range(kernel.launch.threads)):
        env = {**values, "tid": tid, "warp": tid // 32, "lane": tid % 32, "wg": tid // GROUP,
               "block": rank, "block.x": rank, "block.y": 0, "rank": rank, "grid": grid,
               "elected": int(tid % 32 == 0)}  # fmt: skip
        found = next((f for k, known in alike.items() if (f := known.get(_of(env, k))) is not None), None)
        if found is None:
            asked = _Asked(env)
            seen: Counter[tuple[str, int]] = Counter()
            _arrive(kernel.body, asked, seen)
            found = Counter((bar, slot, n) for (bar, slot), times in seen.items() for n in range(times))
            # whoever has the same values of all that was asked does the same
            names = tuple(sorted(asked.names & env.keys()))
            alike.setdefault(names, {})[_of(env, names)] = found
        phases.update(found)
    counts: dict[str, int] = {}
    for (bar, slot, n), arrivals in phases.items():
        if counts.setdefault(bar, arrivals) != arrivals:
            raise InputError(
                f"{kernel.name}: phase {n} of {bar}[{slot}] gets {arrivals} arrivals, others {counts[bar]}"
            )
    return counts


def _of(env: dict[str, int], names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple([env[x] for x in names])


class _Asked(dict[str, int]):
    """Values of a thread, and which of them were asked for."""

    def __init__(self, values: dict[str, int]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> int:
        self.names.add(name)
        return super().__getitem__(name)


def _arrive(body: Iterable[Stmt], env: dict[str, int], seen: Counter[tuple[str, int]]) -> None:
    for s in body:
        match s:
            case Let(name, value) | Assign(name, value):
                env[name] = evaluate(value, env)
            case MbarrierArrive(bar=bar, count=count):
                assert bar.index is not None
                if (env["rank"] if bar.rank is None else evaluate(bar.rank, env)) == 0:
                    seen[bar.name, evaluate(bar.index, env)] += evaluate(count, env)
            case Role(unit=unit, lo=lo, hi=hi, body=inner):
                me = env[{"threads": "tid", "warps": "warp", "warpgroups": "wg"}[unit]]
                if evaluate(lo, env) <= me < evaluate(hi, env) and contains(s, MbarrierArrive):
                    _arrive(inner, env, seen)
            case If(cond, then, orelse) if contains(s, (MbarrierArrive, Assign)):
                _arrive(then if evaluate(cond, env) else orelse, env, seen)
            case For(var, lo, hi, step, inner) if contains(s, MbarrierArrive):
                for i in range(evaluate(lo, env), evaluate(hi, env), evaluate(step, env)):
                    env[var] = i
                    _arrive(inner, env, seen)


__all__ = [
    "ElectLoader", "InitRings", "LoadAndMultiply", "TensorEmptyBarriers", "TensorFullBarriers", "WgmmaGroups",
    "ring_arrivals",
]  # fmt: skip
