"""A kernel of the IR with some of its parameters open: ranges, facts, and the systems of its launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from syncverify.frontends.ir.block_groups import group_size, in_rows
from syncverify.frontends.ir.symbolic_launch import launch_facts, open_systems
from syncverify.ir import solver
from syncverify.ir.expr import Binary, Expr, Int, Var, evaluate
from syncverify.ir.nodes import Kernel
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.protocol import SymbolicSystem

Systems = Callable[[Mapping[str, Any], SymbolicContext], Iterable[SymbolicSystem]]
_TYPES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class OpenKernel:
    """The fields of ``prover.parametric.Problem``; ``alone``: its ``modular_systems``."""

    sizes: Mapping[str, tuple[int, int | None]]
    facts: tuple[Expr, ...]
    systems: Systems
    defaults: Mapping[str, int]
    fixed: Mapping[str, int]
    alone: Systems | None


def open_kernel(kernel: Kernel, given: Mapping[str, int]) -> OpenKernel:
    """The kernel with the parameters that ``given`` does not fix left open."""
    open_: Mapping[str, tuple[int, int | None]] = {
        p.name: _TYPES[p.dtype] for p in kernel.params if p.name not in given
    }
    if group_size(kernel) and not in_rows(kernel):
        open_ = unbounded(open_)
    facts = (*kernel.assumes, *launch_facts(kernel))
    defaults = {p.name: p.default for p in kernel.params if p.default is not None}
    values = {p.name: defaults.get(p.name, 1) for p in kernel.params} | dict(given)
    values = decided(values, facts, given) or values

    def systems(sizes: Mapping[str, Any], space: SymbolicContext) -> Iterable[SymbolicSystem]:
        return open_systems(kernel, values, sizes, space)

    def each(sizes: Mapping[str, Any], space: SymbolicContext) -> Iterable[SymbolicSystem]:
        return open_systems(kernel, values, sizes, space, alone=True)

    return OpenKernel(open_, facts, systems, defaults, dict(given), each if group_size(kernel) else None)


def unbounded(sizes: Mapping[str, tuple[int, int | None]]) -> dict[str, tuple[int, int | None]]:
    """Ranges without an end, where blocks share global memory in block groups: what a size leaves of its end
    would distinguish states once it is dropped with its cluster.
    """
    return {name: (low, None) for name, (low, _) in sizes.items()}


def decided(
    values: Mapping[str, int], facts: Iterable[Expr], given: Mapping[str, int]
) -> dict[str, int] | None:
    """Values that keep all facts, changed where they must be; None if none were found."""
    facts = list(facts)
    if all(_true(f, values) for f in facts):
        return dict(values)
    known = [Binary("==", Var(k), Int(v)) for k, v in given.items()]
    model = solver.model([*facts, *known])
    return None if model is None else {**values, **{k: v for k, v in model.items() if k in values}}


def _true(f: Expr, values: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(f, values))
    except (KeyError, ZeroDivisionError):
        return False
