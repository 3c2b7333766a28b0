"""A fusion in torch's own functions: for gradients, and for tensors that no kernel takes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from syncverify.base.source import InputError
from syncverify.fusion import Fusion

_KINDS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def _cast(dtype: torch.dtype) -> Callable[[Any], Any]:
    return lambda x: x.to(dtype).float()


#: What each elementwise function is on tensors.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "neg": operator.neg, "abs": torch.abs, "minimum": torch.minimum, "maximum": torch.maximum,
    "pow": torch.pow, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq,
    "ne": torch.ne, "and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor,
    "not": torch.logical_not, "where": torch.where, "exp": torch.exp, "exp2": torch.exp2,
    "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p, "sin": torch.sin,
    "cos": torch.cos, "tanh": torch.tanh, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "floor": torch.floor,
    "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "erf": torch.erf,
    "sigmoid": torch.sigmoid, "relu": torch.relu, "sign": torch.sign, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "softplus": F.softplus,
    "mish": F.mish, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish,
    "float": lambda x: x.float(), "cast.f32": lambda x: x,
    "cast.bf16": _cast(torch.bfloat16), "cast.f16": _cast(torch.float16),
}  # fmt: skip

REDUCTIONS: dict[str, Callable[[Any, int], Any]] = {
    "reduce.add": lambda x, at: x.sum(at, keepdim=True),
    "reduce.max": lambda x, at: x.amax(at, keepdim=True),
    "reduce.min": lambda x, at: x.amin(at, keepdim=True),
}


def missing(fusion: Fusion) -> str:
    """A function of the fusion that torch has no form of here, or an empty string."""
    others = {"input", "const", "size", "index", "take"}
    known = FUNCTIONS.keys() | REDUCTIONS.keys() | others
    return next((op for op in (fusion.node(i).op for i in fusion.order()) if op not in known), "")


def sizes_of(fusion: Fusion, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The extent of every dimension, which may be symbols; InputError where tensors do not fit."""
    sizes: dict[str, Any] = {}
    for name, tensor in fusion.inputs:
        x = tensors[name]
        if x.dim() != len(tensor.dims):
            raise InputError(f"{fusion.name}: {name} has {x.dim()} dimensions, expected {tensor.dims}")
        for dim, extent in zip(tensor.dims, x.shape, strict=True):
            if sizes.setdefault(dim, extent) != extent:
                raise InputError(f"{fusion.name}: {dim} of {name} is {extent}, elsewhere {sizes[dim]}")
    return sizes


def evaluate(
    fusion: Fusion,
    tensors: Mapping[str, Any],
    sizes: Mapping[str, Any] | None = None,
    many: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """The fusion's results, each operation a function of torch: differentiable, on any device.

    ``many``: extents in front of the fusion's dimensions, which results have, and those tensors that differ
    along them; with ``sizes``, as tensors alone do not tell which they are.
    """
    sizes = sizes_of(fusion, tensors) if sizes is None else sizes
    device = next(iter(tensors.values())).device
    made: dict[int, Any] = {}
    for i in fusion.order():
        made[i] = _value(fusion, i, made, tensors, sizes, device)
    results = []
    for o in fusion.outputs:
        shape = [*many, *(sizes[d] if d in o.dims else 1 for d in fusion.dims)]
        x = torch.as_tensor(made[o.node], device=device).expand(shape)
        results.append(x.reshape([*many, *(sizes[d] for d in o.dims)]).to(_KINDS[o.dtype]))
    return tuple(results)


def _value(
    fusion: Fusion, i: int, made: Mapping[int, Any], tensors: Mapping[str, Any], sizes: Mapping[str, Any],
    device: Any,
) -> Any:  # fmt: skip
    node = fusion.node(i)
    args = [made[a] for a in node.args]
    if node.op == "input":
        return _aligned(fusion, tensors[node.name], dict(fusion.inputs)[node.name].dims)
    if node.op in ("const", "size"):
        number = node.value if node.op == "const" else sizes[node.dim]
        return torch.full((1,) * len(fusion.dims), number, dtype=torch.float32, device=device)
    if node.op == "index":
        return _aligned(fusion, torch.arange(sizes[node.dim], device=device), (node.dim,))
    if node.op == "take":
        return _taken(args[0], args[1])
    if node.op in REDUCTIONS:
        shape = [sizes[d] if d in fusion.dims_of(node.args[0]) else 1 for d in fusion.dims]
        return REDUCTIONS[node.op](args[0].expand(shape), fusion.dims.index(node.dim))
    if node.op not in FUNCTIONS:
        raise InputError(f"{fusion.name}: {node.op} has no form in torch's functions")
    return FUNCTIONS[node.op](*args)


def _aligned(fusion: Fusion, x: Any, dims: Sequence[str]) -> Any:
    """A tensor as f32 in all dimensions of the fusion; indices as they are."""
    x = x[(..., *(slice(None) if d in dims else None for d in fusion.dims))]
    return x.float() if x.is_floating_point() else x


def _taken(x: Any, place: Any) -> Any:
    """The element of each row at a place, 0 outside of the row."""
    width = x.shape[-1]
    inside = (place >= 0) & (place < width)
    shape = [*torch.broadcast_shapes(x.shape[:-1], place.shape[:-1]), 1]
    at = place.clamp(0, width - 1).long().expand(shape)
    return torch.where(inside, x.expand([*shape[:-1], width]).gather(-1, at), 0.0)


__all__ = ["evaluate", "missing", "sizes_of"]
