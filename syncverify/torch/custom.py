"""Fusions and matrix products as operators of torch: they trace, differentiate and go into CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.fusion import Fusion, RowSchedule, Schedule
from syncverify.matmul.problem import BATCH, Problem
from syncverify.torch.call import stored
from syncverify.torch.interpret import evaluate, missing, sizes_of
from syncverify.torch.layouts import own_axes, views
from syncverify.torch.runners import FusionOnGpu, Kernel, ProductOnGpu, Runner
from syncverify.torch.table import DTYPES, INDEX_DTYPES
from syncverify.torch.torch_nodes import without_autocast

_NAMESPACE = "syncverify"
_TYPES = {name: kind for kind, name in {**DTYPES, **INDEX_DTYPES}.items()}


def custom_op(
    fusion: Fusion,
    name: str = "",
    *,
    schedule: Schedule | RowSchedule | None = None,
    policy: Policy = Policy.PRACTICAL,
    runner: Runner | None = None,
) -> Callable[..., Any]:
    """``torch.ops.syncverify.NAME``, a fusion that takes its inputs in order.

    On a GPU it runs the proved kernel, compiled at the first call of each row length; VerificationError says
    why there is none. On a CPU torch's own functions compute the same. Gradients come from these too.
    """
    kernel = FusionOnGpu(fusion, policy, schedule) if runner is None else runner.fusion(fusion)
    names = [n for n, _ in fusion.inputs]

    def sizes(given: Sequence[Any]) -> dict[str, Any]:
        return sizes_of(fusion, dict(zip(names, given, strict=True)))

    def function(given: Sequence[Any]) -> tuple[Any, ...]:
        return evaluate(fusion, dict(zip(names, given, strict=True)))

    kinds = {n: t.dtype for n, t in fusion.inputs}
    return _define(name or fusion.name, kinds, fusion, sizes, function, kernel, runner, None)


def matmul_op(
    problem: Problem,
    name: str = "",
    *,
    policy: Policy = Policy.PRACTICAL,
    runner: Runner | None = None,
) -> Callable[..., Any]:
    """``torch.ops.syncverify.NAME``: a product of ``a`` (M, K) and ``b`` (K, N), and its epilogue's inputs.

    Of a gated pair ``b2`` follows ``b``. Factors of batched problems are (B, M, K) and (B, K, N).
    Factors in another memory order than the problem's layout are copied first. The rest is as in
    ``custom_op``; gradients see the product rounded to the factors' type.
    """
    if problem.grouped:
        raise InputError(f"{problem.name}: grouped products are no operators yet: call gate.matmul's Matmul")
    kernel = ProductOnGpu(problem, policy) if runner is None else runner.product(problem)
    epilogue = problem.epilogue
    others, count = dict(problem.others), 1 + len(problem.rights)

    def sizes(given: Sequence[Any]) -> dict[str, Any]:
        a, *rights = given[:count]
        rank = 3 if problem.batched else 2
        for b in rights:
            fit = a.dim() == b.dim() == rank and a.shape[-1] == b.shape[-2] and a.shape[:-2] == b.shape[:-2]
            if not fit:
                raise InputError(f"{problem.name}: cannot multiply {tuple(a.shape)} by {tuple(b.shape)}")
        shapes = [(a.shape[-2], b.shape[-1]) for b in rights]
        products = [a.new_empty(shape, device="meta", dtype=torch.float32) for shape in shapes]
        found = sizes_of(epilogue, _named(products, given))
        many = {BATCH: a.shape[0]} if problem.batched else {}
        return {**many, **found, "K": a.shape[-1]}

    def function(given: Sequence[Any]) -> tuple[Any, ...]:
        products = [torch.matmul(given[0], b).float() for b in given[1:count]]
        many = given[0].shape[:-2]
        return evaluate(epilogue, _named(products, given), sizes(given), many)

    def _named(products: Sequence[Any], given: Sequence[Any]) -> dict[str, Any]:
        return dict(zip((*problem.products, *others), (*products, *given[count:]), strict=True))

    factors = dict.fromkeys(("a", *problem.rights), problem.dtype)
    kinds = {**factors, **{n: t.dtype for n, t in others.items()}}
    return _define(name or problem.name, kinds, epilogue, sizes, function, kernel, runner, problem)


def _define(
    name: str, kinds: Mapping[str, str], fusion: Fusion, sizes: Callable[[Sequence[Any]], dict[str, Any]],
    function: Callable[[Sequence[Any]], tuple[Any, ...]], kernel: Kernel, runner: Runner | None,
    problem: Problem | None,
) -> Callable[..., Any]:  # fmt: skip
    """Registers the operator with its kernel, its fake and its gradient."""
    unknown = missing(fusion)
    several = len(fusion.outputs) > 1
    turned = () if problem is None else problem.turned
    many = (BATCH,) if problem is not None and problem.batched else ()

    def made(given: Sequence[Any], extents: Mapping[str, Any]) -> list[Any]:
        _demand(name, kinds, given)
        return [
            given[0].new_empty([extents[d] for d in (*many, *o.dims)], dtype=_TYPES[o.dtype])
            for o in fusion.outputs
        ]

    def returned(results: Sequence[Any]) -> Any:
        return tuple(results) if several else results[0]

    def run(*given: Any) -> Any:
        extents = sizes(given)
        results = made(given, extents)
        if 0 in extents.values():
            # nothing to compute but sums of nothing
            return returned(_evaluated(given)) if any(x.numel() for x in results) else returned(results)
        if given[0].device.type == "cpu" and runner is None:
            return returned(_evaluated(given))
        named = dict(zip(kinds, given, strict=True))
        apart = {n: (named[n], own_axes(t, named[n])) for n, t in fusion.inputs if t.apart}
        sized, read = views(fusion, extents, apart)
        tensors = [
            stored(x, turned[k : k + 1] == (True,), n in read) for k, (n, x) in enumerate(named.items())
        ]
        kernel(sized, tensors, results)
        return returned(results)

    def _evaluated(given: Sequence[Any]) -> tuple[Any, ...]:
        if unknown:
            raise InputError(f"{name}: {unknown} has no form in torch's functions: use a GPU")
        with without_autocast(given):
            return function(given)

    def fake(*given: Any) -> Any:
        return returned(made(given, sizes(given)))

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, *gradients: Any) -> Any:
        if unknown:
            raise InputError(f"{name} has no gradient: {unknown} has no form in torch's functions")
        return _gradients(function, ctx.saved_tensors, ctx.needs_input_grad, gradients)

    parameters = ", ".join(f"Tensor {n}" for n in kinds)
    result = f"({', '.join('Tensor' for _ in fusion.outputs)})" if several else "Tensor"
    schema = f"({parameters}) -> {result}"
    op = torch.library.custom_op(f"{_NAMESPACE}::{name}", run, mutates_args=(), schema=schema)
    op.register_fake(fake)
    op.register_autograd(backward, setup_context=remember)
    call: Callable[..., Any] = op
    return call


def _demand(name: str, kinds: Mapping[str, str], given: Sequence[Any]) -> None:
    """InputError unless tensors have the operator's types and are on one device."""
    for (n, kind), x in zip(kinds.items(), given, strict=True):
        if x.dtype is not _TYPES[kind]:
            raise InputError(f"{name}: {n} is {x.dtype}, expected {kind}")
        if x.device != given[0].device:
            raise InputError(f"{name}: {n} is on {x.device}, others on {given[0].device}")


def _gradients(
    function: Callable[[Sequence[Any]], tuple[Any, ...]],
    saved: Sequence[Any],
    needed: Sequence[bool],
    gradients: Sequence[Any],
) -> tuple[Any, ...]:
    """The gradients of the inputs that need one, by torch's functions; ``gradients``: of the results."""
    with torch.enable_grad(), without_autocast(saved):
        given = [x.detach().requires_grad_(x.is_floating_point()) for x in saved]
        results = function(given)
        pairs = [(r, g) for r, g in zip(results, gradients, strict=True) if g is not None]
        wanted = [x for x, need in zip(given, needed, strict=True) if need]
        found = iter(
            torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True)
        )
    return tuple(next(found) if need else None for need in needed)


__all__ = ["custom_op", "matmul_op"]
