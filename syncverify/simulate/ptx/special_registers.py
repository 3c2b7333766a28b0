"""The special registers of a warp: all but ``%warpid`` are the same in every execution of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from syncverify.simulate.ptx.memory import RESERVED_SHARED, SHARED_START
from syncverify.simulate.ptx.types import LANES, Lanes

#: Warps whose registers are kept.
_MOST = 2048

Axes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class WarpPlace:
    """Where a warp is in a launch. ``dynamic``: bytes of dynamic shared memory; ``shared``: of all of it;
    ``base``: where the block's begins; ``number``, ``place``, ``rank``: of the block; ``warp``: in its
    block."""

    block: Axes
    grid: Axes
    cluster: Axes
    dynamic: int
    shared: int
    base: int
    number: int
    place: Axes
    rank: int
    warp: int


@lru_cache(maxsize=_MOST)
def special_registers(of: WarpPlace) -> Mapping[str, Lanes]:
    """What the special registers hold in each lane (PTX ISA: special registers)."""
    bx, by, _ = of.block
    lane = np.arange(LANES)
    linear = of.warp * LANES + lane
    out: dict[str, Any] = {
        "%tid.x": linear % bx,
        "%tid.y": linear // bx % by,
        "%tid.z": linear // (bx * by),
        "%laneid": lane,
        "%smid": of.number % 132,
        "%nsmid": 132,
        "%gridid": 1,
        "%is_explicit_cluster": int(of.cluster != (1, 1, 1)),
        "%cluster_ctarank": of.rank,
        "%cluster_nctarank": of.cluster[0] * of.cluster[1] * of.cluster[2],
        "%lanemask_eq": 1 << lane,
        "%lanemask_le": (2 << lane) - 1,
        "%lanemask_lt": (1 << lane) - 1,
        "%lanemask_ge": 0xFFFFFFFF & ~((1 << lane) - 1),
        "%lanemask_gt": 0xFFFFFFFF & ~((2 << lane) - 1),
        "%dynamic_smem_size": of.dynamic,
        "%reserved_smem_offset_1": of.base - RESERVED_SHARED,
        "%total_smem_size": of.shared + SHARED_START,
        "%aggr_smem_size": of.shared + SHARED_START,
    }
    for i, axis in enumerate("xyz"):
        out[f"%ntid.{axis}"] = of.block[i]
        out[f"%ctaid.{axis}"] = of.place[i]
        out[f"%nctaid.{axis}"] = of.grid[i]
        out[f"%clusterid.{axis}"] = of.place[i] // of.cluster[i]
        out[f"%nclusterid.{axis}"] = of.grid[i] // of.cluster[i]
        out[f"%cluster_ctaid.{axis}"] = of.place[i] % of.cluster[i]
        out[f"%cluster_nctaid.{axis}"] = of.cluster[i]
    return {name: in_all_lanes(v) for name, v in out.items()}


def in_all_lanes(value: Any) -> Lanes:
    """A number in every lane, or one for each."""
    return np.broadcast_to(np.asarray(value, np.uint64), LANES)


__all__ = ["WarpPlace", "in_all_lanes", "special_registers"]
