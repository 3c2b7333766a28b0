"""Masks as inequalities between the places of queries and keys: what they say at sizes that are symbols.

A mask that cannot be made, because its sizes are symbols, is read instead. Numbers of places are sums of the
places of axes and a number: ``arange(n)[:, None] + 2`` is ``q + 2``. A comparison of two is an inequality,
and ``&`` joins inequalities. Example: ``arange(n) < arange(n)[:, None] + 1`` is ``k - q <= 0``: causal.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node


@dataclass(frozen=True)
class Numbers:
    """A tensor of integers: at places ``p`` of its axes, the sum of ``factors[i] * p[i]``, and ``more``."""

    factors: tuple[int, ...]
    more: int = 0

    def __add__(self, other: Numbers) -> Numbers:
        one, two = _aligned(self.factors, other.factors)
        return Numbers(tuple(map(operator.add, one, two)), self.more + other.more)

    def __neg__(self) -> Numbers:
        return Numbers(tuple(-f for f in self.factors), -self.more)


@dataclass(frozen=True)
class Truths:
    """A tensor of booleans with so many axes: where all of some numbers are 0 or less."""

    rank: int
    least: tuple[Numbers, ...] = ()


def _aligned(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Factors of as many axes, as tensors are broadcast."""
    rank = max(len(one), len(two))
    return (0,) * (rank - len(one)) + one, (0,) * (rank - len(two)) + two


def _at_most(one: Numbers, two: Numbers, less: int = 0) -> Truths:
    """``one + less <= two``."""
    found = one + Numbers((), less) + -two
    return Truths(len(found.factors), (found,))


#: Comparisons of integers.
_COMPARED: dict[str, Callable[[Numbers, Numbers], Truths]] = {
    "le": _at_most,
    "lt": lambda x, y: _at_most(x, y, 1),
    "ge": lambda x, y: _at_most(y, x),
    "gt": lambda x, y: _at_most(y, x, 1),
}
_INTEGERS = (torch.int64, torch.int32)


def causal(mask: Node) -> tuple[bool, list[Node]] | None:
    """Whether a mask is causal for as many queries as keys, or masks nothing, and what it is made of.

    None where it says anything else, or is not understood.
    """
    seen: dict[Node, Numbers | Truths | None] = {}
    found = _read(mask, seen)
    if not isinstance(found, Truths):
        return None
    said = [_said(n.factors, n.more) for n in found.least]
    if None in said:
        return None
    return any(said), list(seen)


def _said(factors: tuple[int, ...], more: int) -> bool | None:
    """Whether numbers are 0 or less only where keys are not behind queries; False where they always are."""
    *others, query, key = (0, 0, *factors)
    if any(others):
        return None
    if query <= 0 and key <= 0 and more <= 0:
        return False
    return True if query < 0 and key == -query and not more else None


def _read(node: Any, seen: dict[Node, Numbers | Truths | None]) -> Numbers | Truths | None:
    """What a node is; None where it is nothing that this module knows."""
    if isinstance(node, int) and not isinstance(node, bool):
        return Numbers((), node)
    if not isinstance(node, Node) or node.op not in ("call_function", "call_method"):
        return None
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return None
    if node not in seen:
        found = _computed(node, value, seen)
        kinds = _INTEGERS if isinstance(found, Numbers) else (torch.bool,)
        seen[node] = found if value.dtype in kinds else None
    return seen[node]


def _computed(
    node: Node, value: torch.Tensor, seen: dict[Node, Numbers | Truths | None]
) -> Numbers | Truths | None:
    name = node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", ""))
    if name == "arange":
        plain = len(node.args) == 1 and not set(node.kwargs) - {"device", "dtype"}
        return Numbers((1,)) if plain and _several(value.shape[0]) else None
    if name in ("ones", "new_ones"):
        return Truths(value.dim())
    first = _read(node.args[0], seen)
    if first is None or (node.kwargs and name not in ("to", "unsqueeze")):
        return None
    if name in ("add", "sub", "and_", "logical_and", *_COMPARED):
        return _of_two(name, first, _read(node.args[1], seen) if len(node.args) == 2 else None)
    if name in ("to", "bool", "contiguous"):
        return first
    if name == "expand":
        return _moved(first, (*range(-value.dim(), 0),))
    axes = _new_axes(name, node, value.dim())
    return None if axes is None else _moved(first, axes)


def _several(size: Any) -> bool:
    """Whether there are at least two: one place could become many by broadcasting. Symbols are never 1."""
    hint = getattr(getattr(size, "node", None), "hint", size)
    return isinstance(hint, int) and hint > 1


def _of_two(name: str, one: Numbers | Truths, two: Numbers | Truths | None) -> Numbers | Truths | None:
    if isinstance(one, Numbers) and isinstance(two, Numbers):
        if name in _COMPARED:
            return _COMPARED[name](one, two)
        return one + two if name == "add" else one + -two if name == "sub" else None
    if isinstance(one, Truths) and isinstance(two, Truths) and name in ("and_", "logical_and"):
        return Truths(max(one.rank, two.rank), (*one.least, *two.least))
    return None


def _new_axes(name: str, node: Node, rank: int) -> tuple[int | None, ...] | None:
    """Which axis each of a result is, of the tensor's from the end; None for one that is new."""
    at = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if name == "unsqueeze" and isinstance(at, int):
        new = {at % rank}
    elif name == "getitem" and isinstance(at, tuple) and all(one is None or one == slice(None) for one in at):
        new = {k for k, one in enumerate(at) if one is None}
    else:
        return None
    left = iter(range(-(rank - len(new)), 0))
    return tuple(None if k in new else next(left) for k in range(rank))


def _moved(found: Numbers | Truths, axes: tuple[int | None, ...]) -> Numbers | Truths:
    """With such axes."""
    if isinstance(found, Truths):
        return Truths(len(axes), tuple(_moved_numbers(n, axes) for n in found.least))
    return _moved_numbers(found, axes)


def _moved_numbers(found: Numbers, axes: tuple[int | None, ...]) -> Numbers:
    own = found.factors
    factors = (0 if at is None or -at > len(own) else own[at] for at in axes)
    return Numbers(tuple(factors), found.more)


__all__ = ["causal"]
