"""What statements do when a kernel is run: a handler for each kind, and what all handlers need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr
from syncverify.simulate.ir.code import compiled
from syncverify.simulate.ir.device import Count, Cta
from syncverify.simulate.ir.meetings import COMPARE
from syncverify.simulate.ir.values import Array

if TYPE_CHECKING:
    from syncverify.simulate.ir.numeric import Agent, _Launch

Handler = Callable[["_Launch", "Agent", Any], None]
HANDLERS: dict[type[n.Stmt], Handler] = {}
WARPGROUP = 128
#: Bytes of a row of each swizzle pattern; 0: rows of any length.
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def handles(*kinds: type[n.Stmt]) -> Callable[[Handler], Handler]:
    def add(h: Handler) -> Handler:
        for k in kinds:
            HANDLERS[k] = h
        return h

    return add


def num(run: _Launch, a: Agent, e: Expr | None, default: int = 0) -> int:
    """A number on which the agent's threads agree; else the agent parts."""
    return default if e is None else run.agreed(compiled(e)(a.env))


def cta_of(run: _Launch, a: Agent, rank: Expr | None) -> Cta:
    if rank is None:
        return a.cta
    ctas = run.clusters[id(a.cta)]
    r = num(run, a, rank)
    if not 0 <= r < len(ctas):
        raise InputError(f"rank {r} is not in the cluster", run.stmt(a).span)
    return ctas[r]


def bar_of(run: _Launch, a: Agent, b: n.BarrierRef, cta: Cta | None = None) -> tuple[int, Count]:
    index = num(run, a, b.index)
    bars = (cta or cta_of(run, a, b.rank)).bars
    if (b.name, index) not in bars:
        raise InputError(f"{b.name}[{index}] does not exist", run.code[a.pc].stmt.span)  # type: ignore[union-attr]
    return index, bars[b.name, index]


def warps_of(a: Agent) -> Array:
    return np.unique(a.tids // 32)


def ready(run: _Launch, a: Agent) -> bool:
    """Whether what an agent waits for has happened."""
    match a.waits:
        case ("mbarrier", _, _, count, parity):
            return bool(count.phase % 2 != parity)
        case ("token", _, _, count, phase):
            return bool(count.phase > phase)
        case ("rounds", counter, goal):
            return bool(counter[1] >= goal)
        case ("mma", cta, groups, goal):
            return all(len(cta.mma.get(g, ())) >= goal and cta.mma[g][goal - 1] >= WARPGROUP for g in groups)
        case ("spin", place, compare, wanted):
            return bool(COMPARE[compare](int(place.view[place.where].reshape(-1)[0]), wanted))
    return True
