"""Kernels that were slower by far in a context: other contexts do not try them again.

Example: a softmax of 65536 rows in attention takes 490 us, where Inductor's code takes 220. T5 has it in six
contexts, each of which would be compiled three times.

This holds in one process, on one device, and in one mode of Inductor. What lies otherwise than row after row
may have to be copied for a kernel. So a finding holds for the same layout then, and for every layout where
the kernel's own tensors were the best that it can have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch.fx import Node

from syncverify.torch.call import shapes_of
from syncverify.torch.candidate import Candidate
from syncverify.torch.choice import Times, modes
from syncverify.torch.dims import UnfitError
from syncverify.torch.region import outputs_of

#: From which factor on a kernel is so much slower in a context that it is tried in no other one.
_BY_FAR = 1.25
#: The layout of tensors that all lie row after row.
_ROWS = ""
#: What such kernels compute, and where, and the layout of their tensors.
_FOUND: set[tuple[object, ...]] = set()


def by_far(kernels: float, inductor: float) -> bool:
    """Whether a context with kernels takes so much longer than Inductor's code of it."""
    return kernels > _BY_FAR * inductor


def known(c: Candidate) -> bool:
    """Whether a candidate's kernel was slower by far in another context."""
    what = _computes(c)
    return not _FOUND.isdisjoint({(what, _ROWS), (what, _layout(c))})


def note(members: Sequence[Candidate], times: Times) -> None:
    """Keeps in mind which kernels made a context slower by far, with all others and without them."""
    for place, c in enumerate(members):
        own = [us for arm, us in times.others.items() if str(place) in arm.split(",")]
        if own and by_far(min(own), times.inductor):
            _FOUND.add((_computes(c), _layout(c)))


def forget() -> None:
    """Nothing is known of any kernel."""
    _FOUND.clear()


def _computes(c: Candidate) -> tuple[object, ...]:
    """What a candidate computes and where, whatever else its context has."""
    types = (str(getattr(a.meta.get("val"), "dtype", "")) for a in c.arguments)
    sizes: Mapping[str, object] = c.region.sizes
    with suppress(UnfitError):
        sizes = shapes_of(c.found.translation, c.arguments).hint
    return c.device, modes(), c.region.operations, *types, *sorted((d, str(n)) for d, n in sizes.items())


def _layout(c: Candidate) -> str:
    """How the tensors of a candidate lie: of an argument that is a copy, what is copied."""
    nodes = [_copied(a) for a in c.arguments] + outputs_of(c.found.group)
    tensors = [x for x in (n.meta.get("val") for n in nodes) if isinstance(x, torch.Tensor)]
    if all(map(_in_rows, tensors)):
        return _ROWS
    return str([tuple(map(_hint, x.stride())) for x in tensors])


def _copied(node: Node) -> Node:
    """What a copy is of. Inductor's code reads that itself where it lies."""
    while node.target is torch.ops.aten.clone.default and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _in_rows(x: torch.Tensor) -> bool:
    """Whether a tensor lies row after row."""
    expected = 1
    for size, stride in zip(map(_hint, reversed(x.shape)), map(_hint, reversed(x.stride())), strict=True):
        if size is None or (size != 1 and stride != expected):
            return False
        expected *= size
    return True


def _hint(n: Any) -> int | None:
    """An extent; of a symbol, that of the call that is compiled for."""
    node = getattr(n, "node", None)
    found: int | None = n if node is None else node.hint
    return found


__all__ = ["by_far", "forget", "known", "note"]
