"""Views of tensors that a kernel reads where they lie: parts of rows, heads of a projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sympy

from syncverify.fusion import Fusion, Tensor
from syncverify.fusion.row_strides import known, pitch
from syncverify.torch.dims import Atom, Axes, Axis, Space, extent

#: What every row has to start at a multiple of, in bytes.
ALIGNMENT = 16


@dataclass(frozen=True)
class Part:
    """What an axis of a tensor gives to a dimension of a kernel: ``size`` places, ``below`` places apart."""

    axis: int
    below: Any
    size: Any


#: The dimensions of an input in order, each with its parts, outermost first.
Layout = tuple[tuple[str, tuple[Part, ...]], ...]


def _parts(space: Space, axes: Axes) -> list[tuple[Atom, Part]]:
    """Every atom of a tensor as a part, in order."""
    found = []
    for k, axis in enumerate(space.resolved(axes)):
        for at, atom in enumerate(axis):
            found.append((atom, Part(k, space.size(axis[at + 1 :]), space.extents[atom])))
    return found


def breaks(space: Space, axes: Axes, x: Any, reduced: Axis) -> list[Axis]:
    """The ends of a tensor's atoms before which rows lie apart; none where it is contiguous, or copied.

    ``reduced``: what a row is made of, and so lies together.
    """
    parts, strides = _parts(space, axes), [extent(s) for s in x.stride()]
    steps = [strides[p.axis] * p.below for _, p in parts]
    if not parts or steps[-1] != 1:
        return []
    apart = [k for k in range(1, len(parts)) if steps[k - 1] != steps[k] * parts[k][1].size]
    ends = [tuple(atom for atom, _ in parts[k:]) for k in apart]
    return [] if any(set(end) < set(reduced) for end in ends) else ends


def dense(x: Any) -> bool:
    """Whether a tensor's elements fill its memory, in the order of some permutation of its axes."""
    left = [(n, s) for n, s in zip(map(extent, x.shape), map(extent, x.stride()), strict=True) if n != 1]
    expected = extent(1)
    while left:
        found = next((axis for axis in left if axis[1] == expected), None)
        if found is None:
            return False
        left.remove(found)
        expected = sympy.expand(expected * found[0])
    return True


def layout(space: Space, axes: Axes, names: Mapping[str, Axis], dims: Sequence[str]) -> Layout:
    """Which axes of a tensor make each dimension of its kernel's input."""
    parts = dict(_parts(space, axes))
    return tuple((d, tuple(parts[a] for a in names[d])) for d in dims)


def expressions(layouts: Mapping[str, Layout]) -> list[Any]:
    """All numbers of layouts, in order, as far as they may be symbols."""
    return [e for found in layouts.values() for _, parts in found for p in parts for e in (p.below, p.size)]


def numbers(layouts: Mapping[str, Layout], values: Sequence[int]) -> dict[str, Layout]:
    """The layouts with the values of their ``expressions``."""
    left = iter(values)
    return {
        name: tuple((d, tuple(Part(p.axis, next(left), next(left)) for p in parts)) for d, parts in found)
        for name, found in layouts.items()
    }


def steps(found: Layout, strides: Sequence[int], size: int) -> dict[str, int] | None:
    """How far places along each dimension lie apart, or None where a copy is needed.

    ``strides``: the tensor's. ``size``: bytes of an element.
    """
    result: dict[str, int] = {}
    for k, (dim, parts) in enumerate(found):
        own = [(strides[p.axis] * p.below, p.size) for p in parts if p.size != 1]
        if any(a != b * n for (a, _), (b, n) in pairwise(own)):
            return None
        last = k == len(found) - 1
        if own and (own[-1][0] != 1 if last else own[-1][0] * size % ALIGNMENT):
            return None
        if own and not last:
            result[dim] = own[-1][0]
    return result


def views(
    fusion: Fusion, sizes: Mapping[str, int], tensors: Mapping[str, tuple[Any, Layout]]
) -> tuple[dict[str, int], set[str]]:
    """The sizes with all pitches, in one order, and the tensors that are read where they lie, not copied."""
    found: dict[str, int] = {}
    read: set[str] = set()
    for name, (x, own) in tensors.items():
        apart = None if x.data_ptr() % ALIGNMENT else steps(own, x.stride(), x.element_size())
        if apart is not None:
            found |= {pitch(name, d): n for d, n in apart.items()}
            read.add(name)
    values = known(fusion, {**sizes, **found})
    return {n: values[n] for n in known(fusion, sizes)}, read


def own_axes(t: Tensor, x: Any) -> Layout:
    """The layout of a tensor whose axes are the input's dimensions."""
    return tuple((d, (Part(k, 1, int(x.shape[k])),)) for k, d in enumerate(t.dims))


__all__ = [
    "ALIGNMENT", "Layout", "breaks", "dense", "expressions", "layout", "numbers", "own_axes", "steps",
    "views",
]  # fmt: skip
