"""Compiles functions with NumPy in the place of kernels and compares them with float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import syncverify.torch as sv

#: Largest error of a result, relative to all of it.
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 2e-6}


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(sum(shape) + 1000 * seed)
    return torch.randn(shape, generator=generator).to(dtype)


def wide(x: Any) -> Any:
    return x.detach().double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def close(got: Any, want: Any) -> None:
    """Same shape, and as near to float64 as the type of the result allows."""
    results = got if isinstance(got, tuple) else (got,)
    expected = want if isinstance(want, tuple) else (want,)
    assert len(results) == len(expected)
    for g, w in zip(results, expected, strict=True):
        assert g.shape == w.shape
        if not g.is_floating_point():
            assert torch.equal(g, w)
            continue
        error = (g.double() - w.double()).norm() / w.double().norm().clamp_min(1e-30)
        assert float(error) < TOLERANCE[g.dtype], float(error)


def compiled(
    function: Callable[..., Any], *inputs: Any, dynamic: bool | None = None, least: int = 2, **options: Any
) -> sv.Report:
    """The report of a function whose results were right."""
    torch._dynamo.reset()
    backend = sv.Backend(options.get("runner") or sv.ReferenceRunner(), least)
    got = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)(*inputs)
    close(got, function(*map(wide, inputs)))
    return backend.report


def trained(function: Callable[..., Any], *inputs: Any) -> sv.Report:
    """The same with the gradients of all inputs."""
    torch._dynamo.reset()
    backend = sv.Backend(sv.ReferenceRunner())
    narrow = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    exact = [wide(x).requires_grad_() if x.is_floating_point() else x for x in inputs]
    got = torch.compile(function, backend=backend, fullgraph=True)(*narrow)
    want = function(*exact)
    weights = torch.linspace(-1, 1, got.numel()).view(got.shape).to(got.dtype)
    got.backward(weights)
    want.backward(weights.double())
    close(got, want)
    for x, y in zip(narrow, exact, strict=True):
        if x.is_floating_point():
            close(x.grad, y.grad)
    return backend.report
