"""Tensors whose rows lie apart in memory: how far is up to each call, for all dimensions but the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from operator import mul

from syncverify.base.source import InputError
from syncverify.fusion.traced import Fusion, Output, Tensor
from syncverify.ir.expr import Expr, Int, Var


def pitch(tensor: str, dim: str) -> str:
    """The parameter that says how many elements lie from one place along a dimension to the next."""
    return f"{tensor}_{dim}_apart"


def tensors(fusion: Fusion) -> dict[str, tuple[str, ...]]:
    """The dimensions of every tensor whose rows lie apart: inputs, then outputs."""
    found = {n: t.dims for n, t in fusion.inputs if t.apart}
    found |= {o.name: o.dims for o in fusion.outputs if o.apart}
    return {n: dims for n, dims in found.items() if len(dims) > 1}


def pitches(fusion: Fusion) -> dict[str, list[str]]:
    """Their pitches."""
    return {n: [pitch(n, d) for d in dims[:-1]] for n, dims in tensors(fusion).items()}


def place(dims: tuple[str, ...], tensor: str, own: tuple[str, ...], index: Expr) -> Expr:
    """The element of a tensor with dimensions ``own`` for the flat element ``index`` of ``dims``.

    ``own`` lacks the tensor's last dimension where ``dims`` do: then it is the first of a row.
    """
    terms = [_coordinate(dims, d, index) * Var(pitch(tensor, d)) for d in own]
    return reduce(lambda a, b: a + b, terms)


def element(dims: tuple[str, ...], tensor: str, own: tuple[str, ...], index: Expr) -> Expr:
    """The same with the place along the tensor's last dimension, whose elements are neighbours."""
    last = _coordinate(dims, own[-1], index)
    return place(dims, tensor, own[:-1], index) + last if own[:-1] else last


def _coordinate(dims: tuple[str, ...], dim: str, index: Expr) -> Expr:
    """The place along one dimension."""
    at = dims.index(dim)
    inner = [Var(d) for d in dims[at + 1 :]]
    if inner:
        index = index // reduce(mul, inner)
    return index % Var(dim) if at else index


def shape(name: str, t: Tensor | Output, extent: Callable[[str], Expr]) -> tuple[Expr, ...]:
    """What a kernel says of a tensor: its dimensions, or one row of all from its first element on."""
    if not t.apart or len(t.dims) < 2:
        return tuple(map(extent, t.dims)) or (Int(1),)
    whole = extent(t.dims[-1])
    for d in t.dims[:-1]:
        whole = whole + (extent(d) - 1) * Var(pitch(name, d))
    return Int(1), whole


def assumed(fusion: Fusion, vector: int) -> list[Expr]:
    """What launches keep to: rows of which a thread reads ``vector`` elements at once start at multiples."""
    facts: list[Expr] = []
    for name, dims in tensors(fusion).items():
        found = [Var(pitch(name, d)) for d in dims[:-1]]
        facts += [p >= 0 for p in found]
        if vector > 1 and dims[-1] == fusion.dims[-1]:
            facts += [(p % vector).eq(0) for p in found]
    return facts


def known(fusion: Fusion, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with all pitches: rows lie one behind the other where nothing else is said."""
    found = dict(sizes)
    for name, dims in tensors(fusion).items():
        for k, d in enumerate(dims[:-1]):
            found.setdefault(pitch(name, d), prod(sizes[x] for x in dims[k + 1 :]))
    return found


def defaults(fusion: Fusion, sizes: Mapping[str, int]) -> dict[str, int]:
    """The pitches alone."""
    found = known(fusion, sizes)
    return {p: found[p] for names in pitches(fusion).values() for p in names}


def fitting(fusion: Fusion, sizes: Mapping[str, int], vector: int) -> bool:
    """Whether all rows of which so many elements are accessed at a time start at a multiple of them."""
    found = known(fusion, sizes)
    along = {n: dims for n, dims in tensors(fusion).items() if dims[-1] == fusion.dims[-1]}
    return all(found[pitch(n, d)] % vector == 0 for n, dims in along.items() for d in dims[:-1])


def extents(fusion: Fusion, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Elements from the first to the last of every such tensor, and its largest pitch."""
    values = known(fusion, sizes)
    found = {}
    for name, dims in tensors(fusion).items():
        steps = {d: values[pitch(name, d)] for d in dims[:-1]}
        span = sum((sizes[d] - 1) * p for d, p in steps.items()) + sizes[dims[-1]]
        found[name] = span, max(steps.values())
    return found


def refuse(fusion: Fusion, what: str) -> None:
    """Raises InputError where rows of some tensor lie apart."""
    apart = ", ".join(pitches(fusion))
    if apart:
        raise InputError(f"{fusion.name}: rows of {apart} lie apart, which {what}", fusion.span)


__all__ = [
    "assumed", "defaults", "element", "extents", "fitting", "known", "pitch", "pitches", "place", "refuse",
    "shape", "tensors",
]  # fmt: skip
