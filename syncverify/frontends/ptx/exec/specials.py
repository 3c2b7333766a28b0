"""Values of special registers in a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.values.register_values import WARP, Unknown, per_lane
from syncverify.ir.launch_grid import Dims, Grid
from syncverify.model.automata.named_barrier import FIRST_OF_TILES
from syncverify.model.elected_lane import ElectedLane

_AXES = "xyz"


_MASKS = frozenset(f"%lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt"))
_OF_WARPS = _MASKS | {"%tid", "%laneid", "%ntid", "%@live", "%@elected"}
_OF_BLOCKS = frozenset(
    {"%@cluster", "%dynamic_smem_size", "%cluster_ctarank", "%cluster_nctarank"}
    | {"%cluster_nctaid", "%cluster_ctaid", "%is_explicit_cluster"}
)
_OF_GROUPS = ("%block_group", "%member")


@dataclass(frozen=True, slots=True)
class Specials:
    """Those of the warps of one system. ``cluster``: its first; None: any."""

    launch: Launch
    cluster: int | None
    elected: ElectedLane

    def of(self, name: str, cta: int, warp: int) -> Any:
        """The value of a special register in a warp."""
        base, _, axis = name.partition(".")
        n = _AXES.index(axis) if axis and axis in _AXES else 0
        if base.startswith("%@tile"):
            warps = int(axis) // WARP
            return warp % warps if base == "%@tile_rank" else tile_barrier(warps, warp)
        if base in _OF_WARPS:
            return self._of_warp(base, n, warp)
        if base in _OF_BLOCKS or (base in _OF_GROUPS and self.launch.block_group is not None):
            return self._of_block(base, n, cta)
        return self._of_grid(base, n, cta)

    def _of_warp(self, base: str, n: int, warp: int) -> Any:
        """Of the lanes of a warp, and of its block's shape."""
        launch = self.launch
        whole = warp_mask(launch.threads, warp)
        match base:
            case "%tid":
                x, y, _ = launch.block
                tids = [32 * warp + i for i in range(WARP)]
                each = [(t % x, t // x % y, t // (x * y))[n] for t in tids]
                return per_lane([v if whole >> i & 1 else each[0] for i, v in enumerate(each)])
            case "%laneid":
                return per_lane([i if whole >> i & 1 else 0 for i in range(WARP)])
            case "%ntid":
                return launch.block[n]
            case _ if base in _MASKS:
                return per_lane([_lane_mask(base, i) for i in range(WARP)])
            case "%@live":
                return whole
            case "%@elected":
                return self.elected
        raise AssertionError(base)

    def _of_block(self, base: str, n: int, cta: int) -> Any:
        """Of a block in its cluster or block group, and of its shared memory."""
        launch = self.launch
        match base:
            case "%@cluster":
                return cta // launch.ctas - 1 if self.cluster is None else self.cluster + cta // launch.ctas
            case "%dynamic_smem_size":
                if launch.dynamic is None:
                    return Unknown(Reason("dynamic_smem", Cause.MISSING_FACT), "param")
                return launch.dynamic
            case "%cluster_ctarank":
                return cta % launch.ctas
            case "%cluster_nctarank":
                return launch.ctas
            case "%cluster_nctaid":
                return launch.cluster[n]
            case "%cluster_ctaid":
                return _unflatten(cta % launch.ctas, launch.cluster)[n]
            case "%is_explicit_cluster":  # a host may ask for clusters of one, too
                return 1 if launch.ctas > 1 else Unknown(base)
            case "%block_group" if launch.block_group is not None:
                return launch.block_group.at_launch
            case "%member" if launch.block_group is not None:
                return (
                    launch.block_group.at_launch
                    if launch.block_group.anyone is None
                    else launch.block_group.member
                )
        raise AssertionError(base)

    def _of_grid(self, base: str, n: int, cta: int) -> Any:
        launch = self.launch
        if launch.extents is not None and base in ("%nctaid", "%ctaid", "%nclusterid", "%clusterid"):
            value = launch.extents[n] if base.startswith("%n") else launch.places[cta][n]
            if value is not None:
                return value if base.endswith("ctaid") else value // launch.cluster[n]
        if base in ("%nctaid", "%nclusterid", "%ctaid", "%clusterid") and launch.grid is None:
            place = () if base.startswith("%n") else (Cause.BLOCK_PLACE,)
            text = f"the grid ({base}.{_AXES[n]}): give grid"
            return Unknown(Reason(text, Cause.MISSING_FACT, *place), "grid")
        match base:
            case "%nctaid":
                assert launch.grid is not None
                return launch.grid[n]
            case "%nclusterid":
                assert launch.grid is not None
                return launch.grid[n] // launch.cluster[n]
            case "%ctaid" | "%clusterid":
                assert launch.grid is not None
                if self.cluster is None:
                    if launch.grid[n] == launch.cluster[n]:
                        return _unflatten(cta, launch.cluster)[n] if base == "%ctaid" else 0
                    return Unknown(Reason(f"{base}.{_AXES[n]}", Cause.BLOCK_PLACE), "ctaid")
                g = Grid(launch.grid, launch.block, launch.cluster)
                block = g.block_of(self.cluster + cta // launch.ctas, cta % launch.ctas)
                at = g.coordinates(block)[n]
                return at if base == "%ctaid" else at // launch.cluster[n]
        # PTX ISA, %warpid: where a warp runs, which is no number of a block's warps, and may change;
        # %total_smem_size: in units that the architecture allots
        return Unknown(f"{base}")


def tile_barrier(warps: int, warp: int) -> int:
    """The number of the barrier of a warp's tile (``analysis.warps.tile_barriers``)."""
    return FIRST_OF_TILES + WARP * (warps.bit_length() - 2) + warp // warps


def warp_mask(threads: int, warp: int) -> int:
    """The lanes of a warp that there are."""
    return (1 << min(32, threads - 32 * warp)) - 1


def _lane_mask(base: str, i: int) -> int:
    match base[-2:]:
        case "eq":
            return 1 << i
        case "le":
            return (2 << i) - 1
        case "lt":
            return (1 << i) - 1
        case "ge":
            return 0xFFFFFFFF & ~((1 << i) - 1)
    return 0xFFFFFFFF & ~((2 << i) - 1)


def _unflatten(i: int, dims: Dims) -> Dims:
    return i % dims[0], i // dims[0] % dims[1], i // (dims[0] * dims[1])


__all__ = ["Specials", "warp_mask"]
