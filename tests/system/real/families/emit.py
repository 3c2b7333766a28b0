"""What a generator writes for one kernel: its PTX and three files of launch facts.

This module runs inside the generators' own environments, so it imports nothing but the standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Size:
    """A size of the problem: a number for the exact launch, a name where every size is asked about."""

    name: str
    value: int


Dim = int | str | Size


@dataclass(frozen=True)
class Leaf:
    """One scalar, pointer, run of bytes or tensor map inside a parameter; `extra` are further keys."""

    kind: str
    value: int | float | str | Size
    extra: tuple[tuple[str, Any], ...] = ()


def ptr(name: str, holds: tuple[str, Sequence[int]] | None = None) -> Leaf:
    """`holds`: the type and the values of what lies there, given for the exact launch."""
    return Leaf("ptr", name, (("holds", holds),) if holds is not None else ())


def tensormap(name: str, dtype: str, box: Sequence[int], swizzle: int) -> Leaf:
    """`box` in elements, innermost first; `swizzle` in bytes, 0 for none."""
    shape = ("box", list(box))
    pattern = ("swizzle", f"{swizzle}B" if swizzle else "none")
    return Leaf("tensormap", name, (("dtype", dtype), shape, pattern))


@dataclass(frozen=True)
class Launch:
    """The facts of one launch; `params` by index, an index left out is symbolic."""

    block: tuple[int, int, int]
    grid: tuple[Dim, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    params: dict[int, Leaf | list[Leaf]] = field(default_factory=dict)
    assume: tuple[str, ...] = ()
    symbolic_params: dict[int, Leaf | list[Leaf]] | None = None
    """The parameters for every size, where naming the sizes is not enough."""


def one_row(grid: Sequence[int], cluster: Sequence[int]) -> tuple[str, ...]:
    """Facts on the grid that hold of every launch: persistent schedulers lay all clusters out along one axis,
    the one that the raster order in the parameters asks for."""
    return tuple(
        f"grid.{axis} == {c}" for axis, extent, c in zip("xyz", grid, cluster, strict=True) if extent == c
    )


def launch_toml(launch: Launch, scope: str) -> str:
    """The facts as TOML: `exact`, `all` (sizes by name) or `block` (block and cluster alone)."""
    lines = ['[kernel."*"]', f"block = {list(launch.block)}", f"cluster = {list(launch.cluster)}"]
    if scope == "block":
        return "\n".join(lines) + "\n"
    exact = scope == "exact"
    if exact and launch.grid:
        lines.append(f"grid = [{', '.join(_dim(d, exact) for d in (*launch.grid, 1, 1, 1)[:3])}]")
    lines.append(f"dynamic_smem = {launch.dynamic_smem}")
    if not exact and launch.assume:
        lines.append(f"assume = {json.dumps(list(launch.assume))}")
    params = launch.params if exact or launch.symbolic_params is None else launch.symbolic_params
    lines.append('[kernel."*".params]')
    lines += [f"{i} = {_param(p, exact)}" for i, p in sorted(params.items())]
    return "\n".join(lines) + "\n"


def _dim(dim: Dim, exact: bool) -> str:
    if isinstance(dim, Size):
        return str(dim.value) if exact else json.dumps(dim.name)
    return str(dim) if isinstance(dim, int) else json.dumps(dim)


def _param(param: Leaf | list[Leaf], exact: bool) -> str:
    if isinstance(param, list):
        return f"[{', '.join(_leaf(leaf, exact) for leaf in param)}]"
    return _leaf(param, exact)


def _leaf(leaf: Leaf, exact: bool) -> str:
    value = leaf.value
    text = _dim(value, exact) if isinstance(value, Size) else json.dumps(value)
    pairs = [f"{leaf.kind} = {text}", *(f"{k} = {json.dumps(v)}" for k, v in leaf.extra if k != "holds")]
    for type_, values in [v for k, v in leaf.extra if k == "holds" and exact]:
        pairs.append(f"holds = {{{type_} = {list(values)}}}")
    return f"{{{', '.join(pairs)}}}"


@dataclass
class Emitter:
    """Writes the kernels of one family into `out` and keeps their index."""

    out: Path
    generator: str
    family: str = ""
    """Its name, where several folders hold one family."""
    rows: list[dict[str, object]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def kernel(self, name: str, ptx: str, launch: Launch, covers: Sequence[str] = ()) -> None:
        """`ptx` must hold one entry; several compilations of one kernel need names of their own."""
        name = re.sub(r"\W+", "_", name).strip("_")[:100]
        if any(row["kernel"] == name for row in self.rows):
            raise ValueError(f"two kernels are called {name}")
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / f"{name}.ptx").write_text(ptx)
        for scope, suffix in (("exact", "ptx.launch"), ("all", "all"), ("block", "block")):
            (self.out / f"{name}.{suffix}.toml").write_text(launch_toml(launch, scope))
        self.rows.append(
            {
                "kernel": name,
                "family": self.family or self.out.name,
                "generator": self.generator,
                "lines": ptx.count("\n"),
                "covers": list(covers),
            }
        )

    def failed(self, name: str, error: BaseException) -> None:
        self.failures[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]

    def close(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        index = {"generator": self.generator, "kernels": self.rows, "failures": self.failures}
        (self.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
