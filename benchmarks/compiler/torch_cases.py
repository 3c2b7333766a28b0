"""Functions that benchmarks/hardware/torch_backend.py compiles: small parts of networks, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@dataclass(frozen=True)
class Case:
    """``shapes``: of each input; one that holds indices is ("index", shape, most).

    ``rows``: inputs whose first dimension is the number of rows.
    ``gradients``: the backward of the sum of the results, weighted, is compared as well.
    """

    function: Callable[..., Any]
    shapes: tuple[Any, ...]
    dtype: torch.dtype = BF16
    tolerance: float = 2e-2
    gradients: bool = False
    rows: tuple[int, ...] = (0,)


def rms_norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], w, b)


def add_rms_norm(x: Any, residual: Any, w: Any) -> Any:
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], w, 1e-6), total


def softmax(x: Any) -> Any:
    return F.softmax(x * 0.125, -1)


def log_softmax(x: Any) -> Any:
    return F.log_softmax(x + 0.5, -1)


def bias_gelu(x: Any, b: Any) -> Any:
    return F.gelu(x + b)


def swiglu(x: Any, y: Any) -> Any:
    return F.silu(x) * y


def chunked_swiglu(x: Any) -> Any:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def head_norms(x: Any, w: Any, v: Any) -> Any:
    """Norms of the heads of queries and keys, which lie in a packed projection."""
    q, k, _ = x.view(*x.shape[:-1], 3, -1, 128).unbind(-3)
    return F.rms_norm(q, (128,), w, 1e-6), F.rms_norm(k, (128,), v, 1e-6)


def gated_prefix(x: Any, b: Any) -> Any:
    """A gate and what passes it, of unlike widths in one projection."""
    return torch.sigmoid(x[:, 4096:8192] + b) * x[:, :4096]


def positions(x: Any, p: Any, w: Any) -> Any:
    return torch.tanh(x + p) * w


def cross_entropy(x: Any, t: Any) -> Any:
    return F.cross_entropy(x.float(), t)


def gelu_mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)


def swiglu_mlp(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
    return F.linear(F.silu(F.linear(x, w1)) * F.linear(x, w2), w3)


def residual_linear(x: Any, w: Any, residual: Any) -> Any:
    return residual + F.relu(F.linear(x, w)).square()


def block(x: Any, norm1: Any, qkv: Any, out: Any, norm2: Any, up: Any, gate: Any, down: Any) -> Any:
    """A transformer block: attention and a gated feed-forward part, each behind a norm."""
    batch, length, width = x.shape
    heads = width // 64
    h = F.rms_norm(x, (width,), norm1, 1e-6)
    q, k, v = F.linear(h, qkv).view(batch, length, 3, heads, 64).permute(2, 0, 3, 1, 4)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(a.transpose(1, 2).reshape(batch, length, width), out)
    h = F.rms_norm(x, (width,), norm2, 1e-6)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


R, C = 8192, 4096
CASES: dict[str, Case] = {
    "rms_norm": Case(rms_norm, ((R, C), (C,))),
    "layer_norm": Case(layer_norm, ((R, C), (C,), (C,))),
    "add_rms_norm": Case(add_rms_norm, ((R, C), (R, C), (C,)), rows=(0, 1)),
    "softmax": Case(softmax, ((R, C),)),
    "bias_gelu": Case(bias_gelu, ((R, C), (C,))),
    "swiglu": Case(swiglu, ((R, C), (R, C)), rows=(0, 1)),
    "cross_entropy": Case(cross_entropy, ((4096, 16384), ("index", (4096,), 16384)), rows=(0, 1)),
    "gelu_mlp": Case(gelu_mlp, ((4096, 1024), (4096, 1024), (4096,), (1024, 4096), (1024,))),
    "swiglu_mlp": Case(swiglu_mlp, ((4096, 1024), (4096, 1024), (4096, 1024), (1024, 4096))),
    "block": Case(
        block,
        (
            (4, 512, 1024), (1024,), (3072, 1024), (1024, 1024), (1024,),
            (4096, 1024), (4096, 1024), (1024, 4096),
        ),
    ),
    "rms_norm_f32": Case(rms_norm, ((R, 2048), (2048,)), F32, 1e-4),
    "log_softmax_f32": Case(log_softmax, ((R, 2048),), F32, 1e-4),
    "positions_f16": Case(positions, ((16, 512, 1024), (512, 1024), (1024,)), F16, 5e-3),
    "residual_linear": Case(residual_linear, ((2048, 1024), (2048, 1024), (2048, 2048)), rows=(0, 2)),
    "chunked_swiglu": Case(chunked_swiglu, ((R, 2 * C),)),
    "head_norms": Case(head_norms, ((4, 2048, 3 * C), (128,), (128,))),
    "gated_prefix": Case(gated_prefix, ((R, 3 * C), (C,))),
    "norm_of_a_slice": Case(lambda x, w: rms_norm(x[:, C : 2 * C], w), ((R, 3 * C), (C,))),
    "ragged": Case(add_rms_norm, ((7, 13, 1000), (7, 13, 1000), (1000,)), rows=(0, 1)),
    "odd_width": Case(layer_norm, ((333, 77), (77,), (77,))),
    "rms_norm_grad": Case(rms_norm, ((4096, 2048), (2048,)), gradients=True),
    "layer_norm_grad": Case(layer_norm, ((4096, 2048), (2048,), (2048,)), gradients=True),
    "softmax_grad": Case(softmax, ((4096, 2048),), gradients=True),
    "cross_entropy_grad": Case(
        cross_entropy, ((4096, 16384), ("index", (4096,), 16384)), gradients=True, rows=(0, 1)
    ),
    "gelu_mlp_grad": Case(gelu_mlp, ((1024, 512), (2048, 512), (2048,), (512, 2048), (512,)), gradients=True),
}  # fmt: skip


def make_inputs(case: Case, device: str, seed: int = 0) -> list[Any]:
    """Inputs of about unit results: matrices of weights are scaled by their rows' length."""
    torch.manual_seed(seed)
    made = []
    for k, shape in enumerate(case.shapes):
        if shape[0] == "index":
            made.append(torch.randint(0, shape[2], shape[1], device=device))
            continue
        x = torch.randn(shape, device=device, dtype=torch.float32)
        if k and len(shape) == 2 and case.function in (gelu_mlp, swiglu_mlp, residual_linear, block):
            x = x * shape[1] ** -0.5
        made.append(x.to(case.dtype).requires_grad_(case.gradients))
    return made


def results(case: Case, function: Callable[..., Any], inputs: list[Any]) -> list[Any]:
    """All tensors that a call makes: its results, and the gradients if they are wanted."""
    out = function(*inputs)
    made = list(out) if isinstance(out, tuple) else [out]
    if not case.gradients:
        return made
    floats = [x for x in inputs if x.is_floating_point()]
    for x in floats:
        x.grad = None
    torch.autograd.backward(made, [_upstream(case, o) for o in made])
    return [*(o.detach() for o in made), *(x.grad for x in floats)]


def exact(case: Case, inputs: list[Any]) -> list[Any]:
    """The same in float64."""
    wide = [x.detach().double() if x.is_floating_point() else x for x in inputs]
    if not case.gradients:
        out = case.function(*wide)
        return list(out) if isinstance(out, tuple) else [out]
    wide = [x.requires_grad_() if x.is_floating_point() else x for x in wide]
    out = case.function(*wide)
    made = list(out) if isinstance(out, tuple) else [out]
    torch.autograd.backward(made, [_upstream(case, o).double() for o in made])
    return [*(o.detach() for o in made), *(x.grad for x in wide if x.is_floating_point())]


def _upstream(case: Case, out: Any) -> Any:
    """Gradients of a result that differ within a row: a softmax takes away what they have in common."""
    places = torch.arange(out.numel(), device=out.device, dtype=torch.float64)
    return torch.cos(places).to(case.dtype).view(out.shape).to(out.dtype)
