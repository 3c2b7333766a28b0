"""Gradients of embeddings that have few rows, as products.

Inductor adds each element of such a gradient to its row in memory, one after the other where rows are few.
Example: T5 learns a bias for 32 distances of places and 16 heads. 512 by 512 places are 4 million additions
to 512 numbers, which take 2.7 to 3.7 ms of an H200. As a product of a matrix of zeros and ones with the
gradient it takes a pass over both. Each number of a result is a sum of f32, in an order that is the same in
every run. Where two rows are chosen by many places, a sum that leaves out those of the other is taken for
each. Where products of f32 may round their factors to TF32 or bf16, gradients of bf16 alone are taken:
they lose nothing by it.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import torch

#: Rows of an embedding, at most; places, at least; elements of the matrix of zeros and ones, at most. For
#: gradients whose places follow each other in memory: threads side by side add to one row then.
_ROWS, _PLACES, _ELEMENTS = 128, 1 << 14, 1 << 24
#: The same for others, and the elements of a gradient, at least. Threads side by side add to one row's
#: elements there, and only two rows or so make them wait for each other whatever the indices are.
_APART_ROWS, _APART_PLACES, _APART_ELEMENTS = 2, 1 << 16, 1 << 22
#: Parts that places are divided into, each of them a product of its own; places of a part, at least.
_PARTS, _PART = 256, 64


def backward(grad: Any, indices: Any, rows: Any, padding: Any, by_frequency: Any) -> Any:
    """The gradient of an embedding's rows; NotImplemented where additions in memory may be as fast."""
    places = indices.numel()
    known = isinstance(rows, int) and isinstance(places, int) and isinstance(grad.numel(), int)
    if by_frequency or not known or not _few(rows, places) or not (_turned(grad) or _crowded(rows, grad)):
        return NotImplemented
    if grad.dtype != torch.bfloat16 and torch.get_float32_matmul_precision() != "highest":
        return NotImplemented
    parts = gcd(places, _PARTS)
    given = indices.reshape(parts, 1, -1)
    row = torch.arange(rows, device=indices.device, dtype=indices.dtype).reshape(1, rows, 1)
    chosen = (given == row) & (given != padding)
    kind = torch.promote_types(grad.dtype, torch.float32)
    grads = grad.reshape(parts, places // parts, -1).to(kind)
    shape = (rows, *grad.shape[indices.dim() :])
    if not _turned(grad):
        summed = torch.where(chosen.unsqueeze(-1), grads.unsqueeze(1), 0.0).sum(2).sum(0)
        return summed.to(grad.dtype).reshape(shape)
    if not (isinstance(padding, int) and padding < 0):
        grads = torch.where((given == padding).transpose(1, 2), 0.0, grads)
    found = chosen.to(kind) @ torch.cat(_parts_of(grads), -1)
    return _joined(*found.sum(0).chunk(3, -1)).to(grad.dtype).reshape(shape)


def _parts_of(grads: Any) -> tuple[Any, Any, Any]:
    """What is finite of gradients, which numbers are not, and the signs of infinite ones.

    Nought times infinity is no number, so that a product of them all would spoil rows that have none.
    """
    finite = torch.isfinite(grads)
    infinite = (grads == torch.inf).to(grads.dtype) - (grads == -torch.inf).to(grads.dtype)
    return torch.where(finite, grads, 0.0), (~finite).to(grads.dtype), infinite


def _joined(finite: Any, others: Any, signs: Any) -> Any:
    """Sums of all numbers, from sums of the parts: infinite where all that is not finite has one sign."""
    infinite = torch.where(signs == others, torch.inf, torch.where(signs == -others, -torch.inf, torch.nan))
    return torch.where(others > 0, infinite, finite)


def _few(rows: int, places: int) -> bool:
    parts = gcd(places, _PARTS)
    enough = places >= _PLACES and places // parts >= _PART and parts >= _PARTS // 8
    return rows <= _ROWS and enough and rows * places <= _ELEMENTS


def _turned(grad: Any) -> bool:
    """Whether places of a gradient follow each other in memory, and elements of a row do not."""
    return bool(grad.shape[-1] > 1 and grad.stride(-1) != 1)


def _crowded(rows: int, grad: Any) -> bool:
    """Whether additions to so few rows wait for each other whatever the indices are."""
    places = grad.numel() // max(grad.shape[-1], 1)
    return rows <= _APART_ROWS and places >= _APART_PLACES and grad.numel() >= _APART_ELEMENTS


__all__ = ["backward"]
