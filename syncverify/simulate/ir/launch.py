"""A kernel with numbers for everything: values, grid, clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.simulate.ir.layout import number


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with numbers for everything: what one simulation is about."""

    kernel: n.Kernel
    values: Mapping[str, int]
    grid: tuple[int, int, int]
    clusters: tuple[int, ...]
    elected: int
    strict: bool


def launch_values(kernel: n.Kernel, values: Mapping[str, int]) -> dict[str, int]:
    """A number for every parameter: the caller's, else its default."""
    known = {p.name for p in kernel.params}
    for name in values:
        if name not in known:
            raise InputError(f"{kernel.name} has no parameter {name!r}", kernel.span)
    out: dict[str, int] = {}
    for p in kernel.params:
        v = values.get(p.name, p.default)
        if v is None:
            raise InputError(f"the parameter {p.name!r} of {kernel.name} needs a value", p.span)
        out[p.name] = int(v)
    for a in kernel.assumes:
        if not number(a, out, kernel.span, "an assumption"):
            raise InputError(f"the values {out} break an assumption of {kernel.name}", kernel.span)
    return out


def grid_of(kernel: n.Kernel, values: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (number(e, values, kernel.launch.span, "the grid") for e in kernel.launch.grid)
    if min(x, y, z) < 1:
        raise InputError(f"the grid {x}x{y}x{z} is empty", kernel.launch.span)
    return x, y, z


def cluster_blocks(kernel: n.Kernel, grid: tuple[int, int, int], cluster: int) -> list[int]:
    """Linear block numbers of a cluster's CTAs, by rank."""
    cx, cy, cz = kernel.launch.cluster
    per_x, per_y = max(1, grid[0] // cx), max(1, grid[1] // cy)
    ox, oy, oz = cluster % per_x * cx, cluster // per_x % per_y * cy, cluster // (per_x * per_y) * cz
    return [
        (ox + r % cx) + (oy + r // cx % cy) * grid[0] + (oz + r // (cx * cy)) * grid[0] * grid[1]
        for r in range(cx * cy * cz)
    ]
