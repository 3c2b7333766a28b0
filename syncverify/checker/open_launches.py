"""Launches with open sizes: the paths that their facts leave, and the systems that start on each.

Shared by who searches for proofs and by who checks them: it searches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from syncverify.ir.expr import Expr, evaluate
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.preconditions import split_on_preconditions


class OpenLaunches(Protocol):
    """What ``prover.parametric.Problem`` has of a kernel: see there."""

    @property
    def sizes(self) -> Mapping[str, tuple[int, int | None]]: ...

    @property
    def facts(self) -> tuple[Expr, ...]: ...

    @property
    def fixed(self) -> Mapping[str, int]: ...

    @property
    def systems(self) -> Callable[[Mapping[str, Any], SymbolicContext], Iterable[Any]]: ...


def symbols(launches: OpenLaunches, space: SymbolicContext) -> dict[str, Any]:
    """The open sizes as symbols of a space."""
    return {
        name: space.symbol(name, low, high, frozenset({name})) for name, (low, high) in launches.sizes.items()
    }


def starts(
    launches: OpenLaunches,
    space: SymbolicContext,
    sizes: Mapping[str, Any],
    asked: Iterable[Callable[[], Any]] = (),
) -> list[tuple[PathCondition, Sequence[Any]]]:
    """The paths that the facts leave, with the systems that start on them. ``asked``: further conditions that
    are decided before systems start.

    Raises NotConcrete where a launch divides by zero, and where no path is left. Some sizes satisfy the
    facts, as the caller has made sure, so that would be a proof of nothing.
    """
    path = space.path
    path.sizes.update(sizes)
    out: list[tuple[PathCondition, Sequence[Any]]] = []

    def holds(f: Expr) -> Callable[[], bool]:
        return lambda: bool(evaluate(f, {**launches.fixed, **space.path.sizes}))

    def build() -> None:
        out.append((space.path, list(launches.systems(dict(space.path.sizes), space))))

    try:
        split_on_preconditions(space, path, [*map(holds, launches.facts), *asked], build)
    except ZeroDivisionError as e:
        raise NotConcrete("a launch of some sizes divides by zero") from e
    if not out:
        raise NotConcrete("no launch was found that the facts allow")
    return out
