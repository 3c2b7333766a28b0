"""Dimensions of a group of tensors: which axes of which tensors are the same, and how they are laid out.

An axis is a tuple of *atoms*, outermost first: () where its extent is 1 or it is repeated along the axis,
one atom for most, several where a view merged axes. Making two axes equal may split atoms. Extents are sympy
expressions, so that they may be known as symbols only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import networkx as nx
import sympy

Atom = int
Axis = tuple[Atom, ...]
Axes = tuple[Axis, ...]


class UnfitError(Exception):
    """Tensors that one kernel cannot hold together; the text says why."""


def extent(size: Any) -> Any:
    """A torch size, a number or a symbol, as a sympy expression."""
    node = getattr(size, "node", None)
    return _number(int(size)) if node is None else sympy.expand(node.expr)


@lru_cache(maxsize=4096)
def _number(size: int) -> Any:
    return sympy.Integer(size)


@lru_cache(maxsize=4096)
def _product(sizes: tuple[Any, ...]) -> Any:
    return sympy.expand(sympy.Mul(*sizes))


class Space:
    """The atoms of one group of tensors: their extents, and what each was split into or made equal to."""

    def __init__(self) -> None:
        self.extents: dict[Atom, Any] = {}
        self._parts: dict[Atom, Axis] = {}

    @property
    def splits(self) -> int:
        """How many atoms were split, or made equal to others."""
        return len(self._parts)

    def copy(self) -> Space:
        other = Space()
        other.extents, other._parts = dict(self.extents), dict(self._parts)
        return other

    def atom(self, size: Any) -> Atom:
        self.extents[len(self.extents)] = size
        return len(self.extents) - 1

    def axes(self, shape: Iterable[Any]) -> Axes:
        """New atoms for the axes of a tensor."""
        return tuple(() if s == 1 else (self.atom(s),) for s in map(extent, shape))

    def resolve(self, axis: Axis) -> Axis:
        """The axis in atoms that are not split further."""
        if self._parts.keys().isdisjoint(axis):
            return axis
        found: list[Atom] = []
        for atom in axis:
            parts = self._parts.get(atom)
            found += (atom,) if parts is None else self.resolve(parts)
        return tuple(found)

    def resolved(self, axes: Axes) -> Axes:
        return tuple(self.resolve(axis) for axis in axes)

    def size(self, axis: Axis) -> Any:
        if len(axis) == 1:
            return self.extents[axis[0]]
        return _product(tuple(self.extents[a] for a in axis))

    def unify(self, left: Axis, right: Axis) -> Axis:
        """Makes two axes equal, splitting atoms where one is finer; UnfitError if their extents disagree."""
        rest_l, rest_r = list(self.resolve(left)), list(self.resolve(right))
        while rest_l and rest_r:
            self._match(rest_l, rest_r)
        if rest_l or rest_r:
            raise UnfitError("axes of different extent")
        return self.resolve(left)

    def _match(self, left: list[Atom], right: list[Atom]) -> None:
        """Takes from the front of both what can be made equal: an atom, and as many as it has to be."""
        for one, many in ((left, right), (right, left)):
            for count in range(1, len(many) + 1):
                if self.size(tuple(many[:count])) == self.extents[one[0]]:
                    if many[:count] != one[:1]:
                        if one[0] in many[:count]:
                            raise UnfitError("an axis inside itself")
                        self._parts[one[0]] = tuple(many[:count])
                    del one[:1], many[:count]
                    return
        raise UnfitError("axes of different extent")

    def view(self, axes: Axes, shape: Sequence[Any]) -> Axes:
        """The axes of a tensor of these axes seen with another shape."""
        rest = [a for axis in axes for a in self.resolve(axis)]
        found: list[Axis] = []
        for size in map(extent, shape):
            found.append(() if size == 1 else self._taken(rest, size))
        if rest:
            raise UnfitError("a view that does not follow the axes")
        return tuple(found)

    def _taken(self, rest: list[Atom], size: Any) -> Axis:
        for count in range(1, len(rest) + 1):
            taken = tuple(rest[:count])
            if self.size(taken) == size:
                del rest[:count]
                return taken
        if not rest:
            raise UnfitError("a view that does not follow the axes")
        quotient = sympy.cancel(self.extents[rest[0]] / size)
        if sympy.denom(quotient) != 1 or (quotient.is_Integer and quotient < 2):
            raise UnfitError("a view that does not follow the axes")
        first, second = self.atom(size), self.atom(sympy.expand(quotient))
        self._parts[rest[0]] = (first, second)
        rest[:1] = [second]
        return (first,)

    def broadcast(self, operands: Sequence[Axes]) -> Axes:
        """The axes of an elementwise function of tensors of these axes, aligned at the innermost."""
        rank = max((len(o) for o in operands), default=0)
        result: list[Axis] = []
        for at in range(-rank, 0):
            axis: Axis = ()
            for operand in operands:
                other = operand[at] if -at <= len(operand) else ()
                axis = self.unify(axis, other) if axis and other else axis or other
            result.append(self.resolve(axis))
        return tuple(result)

    def order(self, tensors: Iterable[Axes]) -> tuple[Atom, ...]:
        """All atoms, outermost first, in an order that every tensor keeps; UnfitError if there is none."""
        return _order(tuple(dict.fromkeys(map(self.flat, tensors))))

    def flat(self, axes: Axes) -> tuple[Atom, ...]:
        """The atoms of a tensor, outermost first."""
        return tuple(a for axis in axes for a in self.resolve(axis))

    def merged(self, tensors: Sequence[Axes]) -> tuple[tuple[Atom, ...], ...]:
        """The order, with neighbours joined that no tensor has apart."""
        kept = [{a for axis in t for a in self.resolve(axis)} for t in tensors]
        groups: list[list[Atom]] = []
        for atom in self.order(tensors):
            together = groups and all((groups[-1][-1] in has) == (atom in has) for has in kept)
            if together:
                groups[-1].append(atom)
            else:
                groups.append([atom])
        return tuple(tuple(g) for g in groups)


@lru_cache(maxsize=4096)
def _order(tensors: tuple[tuple[Atom, ...], ...]) -> tuple[Atom, ...]:
    """The order of tensors' atoms. A group grows node by node, and few nodes bring a new kind of tensor."""
    graph: nx.DiGraph = nx.DiGraph()
    for flat in tensors:
        if len(set(flat)) != len(flat):
            raise UnfitError("a tensor that has one dimension twice")
        graph.add_nodes_from(flat)
        graph.add_edges_from(pairwise(flat))
    try:
        return tuple(nx.lexicographical_topological_sort(graph))
    except nx.NetworkXUnfeasible:
        raise UnfitError("tensors that order their dimensions differently") from None


__all__ = ["Atom", "Axes", "Axis", "Space", "UnfitError", "extent"]
