"""The grid of a launch: blocks, clusters, warps, and the value of every builtin in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from syncverify.base.source import InputError
from syncverify.ir.expr import evaluate

if TYPE_CHECKING:
    from syncverify.ir import nodes as n

Dims = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch in numbers; blocks, clusters and threads are numbered with x fastest."""

    grid: Dims
    block: Dims
    cluster: Dims

    @classmethod
    def of(cls, kernel: n.Kernel, values: Mapping[str, int]) -> Grid:
        """The launch for given parameter values. Raises InputError if it cannot be launched."""
        launch = kernel.launch
        sizes = []
        for e in launch.grid:
            try:
                sizes.append(evaluate(e, values))
            except KeyError as missing:
                raise InputError(f"the grid needs a value for {missing.args[0]}", launch.span) from None
            except (ArithmeticError, TypeError):
                raise InputError("the grid cannot be computed", launch.span) from None
        grid = (sizes[0], sizes[1], sizes[2])
        if min(grid) < 1:
            raise InputError(f"the grid {list(grid)} is empty", launch.span)
        if any(g % c for g, c in zip(grid, launch.cluster, strict=True)):
            text = f"the grid {list(grid)} is no multiple of the cluster {list(launch.cluster)}"
            raise InputError(text, launch.span)
        return cls(grid, launch.block, launch.cluster)

    @property
    def threads(self) -> int:
        return prod(self.block)

    @property
    def warps(self) -> int:
        return -(-self.threads // 32)

    @property
    def ctas(self) -> int:
        return prod(self.cluster)

    @property
    def clusters(self) -> int:
        return prod(self.grid) // self.ctas

    def sizes(self) -> dict[str, int]:
        """The builtins that are the same for the whole launch."""
        return {"grid": prod(self.grid)} | {f"grid.{a}": g for a, g in zip("xyz", self.grid, strict=True)}

    def warp_mask(self, warp: int) -> int:
        """The lanes that the warp has; the last warp may be partial."""
        return (1 << min(32, self.threads - 32 * warp)) - 1

    def coordinates(self, block: int) -> Dims:
        return _unflatten(block, self.grid)

    def block_of(self, cluster: int, rank: int) -> int:
        """The linear block of a CTA of a cluster."""
        across = tuple(g // c for g, c in zip(self.grid, self.cluster, strict=True))
        base = _unflatten(cluster, (across[0], across[1], across[2]))
        inner = _unflatten(rank, self.cluster)
        x, y, z = (b * c + i for b, c, i in zip(base, self.cluster, inner, strict=True))
        return x + self.grid[0] * (y + self.grid[1] * z)

    def builtins(
        self, cluster: int, cta: int, warp: int, lanes: tuple[int, ...]
    ) -> dict[str, tuple[int, ...]]:
        """Every builtin of some lanes. ``cta`` is numbered from the system's first cluster on."""
        rank = cta % self.ctas
        block = self.block_of(cluster + cta // self.ctas, rank)
        shared = {"warp": warp, "wg": warp // 4, "rank": rank, "block": block} | self.sizes()
        for axis, at in zip("xyz", self.coordinates(block), strict=True):
            shared[f"block.{axis}"] = at
        out: dict[str, tuple[int, ...]] = {name: (v,) for name, v in shared.items()}
        tids = tuple(32 * warp + lane for lane in lanes)
        places = [_unflatten(t, self.block) for t in tids]
        out["tid"], out["lane"] = tids, lanes
        for i, axis in enumerate("xyz"):
            out[f"tid.{axis}"] = tuple(p[i] for p in places)
        return out


def _unflatten(i: int, dims: Dims) -> Dims:
    return i % dims[0], i // dims[0] % dims[1], i // (dims[0] * dims[1])
