"""More steps for functions drawn at random: masks, gathers, losses, rotations, padding, attention, integers.

Integers and conditions are made inside of a step, of constants or of comparisons, and what a step gives is
a tensor of floats. Extents may be 0 and 1, and types f64.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.torch.random_graphs import DTYPES, KINDS, Drawn, Found, Steps, finished, placed

#: Some dimensions have no elements, or one.
SIZES = (8, 16, 16, 24, 40, 5, 1, 3)
_EXTENTS_OF_NONE = (0, 8, 16, 1)
_Function = Callable[[Any], Any]

_UNARY: dict[str, _Function] = {
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "elu": F.elu,
    "leaky": F.leaky_relu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "relu6": F.relu6,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "sin": torch.sin,
    "cos": torch.cos,
    "expm1": lambda x: torch.expm1(x.clamp(max=2)),
    "log1p": lambda x: torch.log1p(x.abs()),
    "log2": lambda x: torch.log2(x.abs() + 0.5),
    "exp2": lambda x: torch.exp2(-x.abs()),
    "erf": torch.erf,
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5),
    "reciprocal": lambda x: (x.abs() + 0.5).reciprocal(),
    "power": lambda x: (x.abs() + 0.1) ** 1.5,
    "cube": lambda x: x**3,
    "inverse": lambda x: (x.abs() + 1) ** -2,
    "nan_to_num": torch.nan_to_num,
    "atan": torch.atan,
    "sinh": lambda x: torch.sinh(x.clamp(-2, 2)),
    "clamp min": lambda x: x.clamp(min=-0.5),
    "clamp max": lambda x: torch.clamp(x, max=0.5),
    "threshold": lambda x: F.threshold(x, 0.1, -0.25),
    "celu": F.celu,
    "selu": F.selu,
    "glu": lambda x: F.glu(x, -1),
    "swiglu": lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "cut": lambda x: F.pad(x, (-1, 0)),
    "repeat": lambda x: x.repeat(2, *[1] * (x.dim() - 1)),
    "interleave": lambda x: x.repeat_interleave(2, -1),
    "cumsum": lambda x: x.cumsum(-1) * 0.1,
    "double": lambda x: x.double() * 0.5,
    "float": lambda x: x.float() + 0.25,
    "by 0-dim": lambda x: x * torch.tensor(0.5, dtype=torch.float64),
    "numpy T": lambda x: x.mT.contiguous().mT,
    "triangle": lambda x: x.tril(),
    "upper": lambda x: x.triu(1),
    "sign": lambda x: torch.sign(x) * 0.5,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=0.5),
    "lerp": lambda x, y: torch.lerp(x, y.to(x.dtype), 0.25),
    "clamp by": lambda x, y: torch.clamp(x, y - 0.5, y + 0.5),
    "atan2": lambda x, y: torch.atan2(x, y.abs() + 0.5),
    "hypot": lambda x, y: (x * x + y * y + 0.1).sqrt(),
    "both": lambda x, y: torch.where((x > 0) & (y > 0), x, y),
    "either": lambda x, y: x.masked_fill((x > 0.5) | ~(y > 0.5), 0.0),
    "times mask": lambda x, y: x * (y > 0.1),
    "mask sum": lambda x, y: (y > 0.1).sum(-1, keepdim=True) * 0.1 + x,
    "differ": lambda x, y: ((x > 0) ^ (y > 0)) * x,
    "mask plus mask": lambda x, y: ((x > 0) + (y > 0)) * x,
    "mask mean": lambda x, y: x - (y > 0).float().mean(-1, keepdim=True),
    "infinite": lambda x, y: x.masked_fill(y > 0.5, -torch.inf).softmax(-1).nan_to_num(0.5),
    "lowest": lambda x, y: x.masked_fill(y > -9, torch.finfo(x.dtype).min).softmax(-1),
    "scaled lowest": lambda x, y: (
        x.float().masked_fill(y > 0, torch.finfo(torch.float32).min) * 0.7
    ).softmax(-1),
    "greatest": lambda x, y: torch.maximum(x, y).amax(-1, keepdim=True) - x,
    "stack": lambda x, y: torch.stack((x, y), -1),
    "outer": lambda x, y: x.unsqueeze(-1) * y.unsqueeze(-2),
    "not equal": lambda x, y: torch.where(x != y, x, 0.5),
    "nan": lambda x, y: torch.where(torch.isnan(x), y, x * 0.5),
    "logaddexp": torch.logaddexp,
    "l1": F.l1_loss,
    "mse": F.mse_loss,
    "huber": F.smooth_l1_loss,
    "cosine": lambda x, y: F.cosine_similarity(x, y, -1),
}


def _unary(s: Steps) -> Found:
    name, at = s.r.choice(list(_UNARY)), s.pick()
    return f"{name} {at}", lambda made, wide: _UNARY[name](made[at])


def _binary(s: Steps) -> Found:
    name, a, b = s.r.choice(list(_BINARY)), s.pick(), s.pick()
    return f"{name} {a} {b}", lambda made, wide: _BINARY[name](made[a], made[b])


def _reduced(s: Steps) -> Found:
    at = s.pick(1)
    if at is None:
        return None
    rank = s.made[at].dim()
    dim, keep = s.r.randrange(rank), s.r.random() < 0.5
    reductions: dict[str, _Function] = {
        "std": lambda x: x.std(dim, keepdim=keep),
        "norm": lambda x: (x * x).sum(dim, keepdim=keep).sqrt(),
        "population": lambda x: torch.var(x, dim, correction=0, keepdim=keep),
        "largest": lambda x: x.max(dim, keepdim=keep).values,
        "all": lambda x: x.sum() * 0.01,
        "logsumexp": lambda x: x.logsumexp(dim, keepdim=keep),
        "mean all": lambda x: x.mean(),
        "both moments": lambda x: torch.add(*torch.var_mean(x, dim, keepdim=keep)),
        "as f32": lambda x: x.sum(dim, keepdim=keep, dtype=torch.float32) * 0.1,
        "as f64": lambda x: x.mean(dim, keepdim=keep, dtype=torch.float64),
        "normalized": lambda x: F.normalize(x, dim=dim),
        "top": lambda x: x.topk(1, dim).values,
        "any": lambda x: x * (x > 1).any(dim, keepdim=True),
        "all of": lambda x: (x < 1).all(dim) * 0.5,
        "count": lambda x: (x > 0).sum(dim) * 0.1,
        "l1": lambda x: x.abs().sum(dim, keepdim=keep) * 0.1,
        "product": lambda x: (x.clamp(-1, 1) * 0.5 + 1).prod(dim, keepdim=keep).clamp(max=9),
    }
    name = s.r.choice(list(reductions))
    return f"{name} {at} {dim} {keep}", lambda made, wide: reductions[name](made[at])


def _rows(s: Steps) -> Found:
    at = s.pick(2)
    if at is None:
        return None
    r, shape, w, b = s.r, s.made[at].shape, s.pick(), s.pick()
    length, ignored, kind = shape[-1], r.choice((-100, 2)), r.choice(("mean", "sum", "none"))
    smooth = r.choice((0.0, 0.1))

    def places(x: Any, count: int) -> Any:
        return torch.arange(count) * 7 % max(length, 1)

    def entropy(x: Any, made: Any) -> Any:
        rows = x.flatten(0, -2)
        rows = rows if x.dtype is torch.float64 else rows.float()
        return F.cross_entropy(
            rows, places(x, rows.shape[0]), ignore_index=ignored, reduction=kind, label_smoothing=smooth
        )

    def weights(made: Any, x: Any) -> Any:
        found = [made[k].to(x.dtype) if made[k].shape == (length,) else None for k in (w, b)]
        return [f if f is not None else torch.full((length,), 0.75, dtype=x.dtype) for f in found]

    rows: dict[str, Callable[[Any, Any], Any]] = {
        "entropy": entropy,
        "layer": lambda x, made: F.layer_norm(x, (length,), *weights(made, x)),
        "rms": lambda x, made: F.rms_norm(x, (length,), weights(made, x)[0], eps=1e-3),
        "two": lambda x, made: F.layer_norm(x, x.shape[-2:]),
        "log": lambda x, made: (
            -F.log_softmax(x, -1).gather(-1, places(x, x.shape[-2]).view(-1, 1).expand(*x.shape[:-1], 1))
        ),
        "batch": lambda x, made: F.batch_norm(
            x.reshape(-1, length),
            torch.full((length,), 0.1, dtype=x.dtype),
            torch.full((length,), 1.5, dtype=x.dtype),
        ),
        "group": lambda x, made: F.group_norm(x.reshape(-1, 4, length // 4), 2),
        "hot": lambda x, made: x - F.one_hot(places(x, x.shape[-2]), length).to(x.dtype),
        "embedding": lambda x, made: F.embedding(places(x, 6).view(2, 3) % x.shape[-2], x.flatten(0, -2)),
        "selected": lambda x, made: x.index_select(-1, places(x, 5)),
        "taken": lambda x, made: x[..., places(x, 7).to(torch.int32)],
        "causal": lambda x, made: x.masked_fill(
            torch.arange(length) > torch.arange(x.shape[-2]).unsqueeze(-1), -torch.inf
        ).softmax(-1),
        "softmin": lambda x, made: F.softmin(x, -2),
        "halves": lambda x, made: _rotary(x, False),
        "pairs": lambda x, made: _rotary(x, True),
        "as f32": lambda x, made: F.softmax(x, -1, dtype=torch.float32),
        "steps": lambda x, made: x * (torch.arange(length) // 3 % 4).to(x.dtype) * 0.5,
        "attention": lambda x, made: F.scaled_dot_product_attention(*[x.unsqueeze(0)] * 3, is_causal=True),
        "product": lambda x, made: torch.einsum("...ij,...kj->...ik", x, x) * 0.1,
    }
    name = r.choice(list(rows))
    return f"{name} {at} {w} {b} {ignored} {kind} {smooth}", lambda made, wide: rows[name](made[at], made)


def _rotary(x: Any, pairs: bool) -> Any:
    """Rotary embedding, with the tables of a model."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2]).float(), 1.0 / 100 ** (torch.arange(half).float() / half))
    cos, sin = (f(angles).to(x.dtype) for f in (torch.cos, torch.sin))
    if pairs:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * torch.cat((cos, cos), -1) + turned * torch.cat((sin, sin), -1)


def _assigned(s: Steps) -> Found:
    """A copy of which some elements are set."""
    at, by, name = s.pick(1), s.pick(), s.r.choice(("row", "number", "scattered", "added"))
    if at is None or by is None:
        return None

    def step(made: list[Any], wide: bool) -> Any:
        y, x = made[at].clone(), made[by]
        if name == "row":
            y[..., 0] = x.to(y.dtype).mean()
        elif name == "number":
            y[0] = 0.5
        elif name == "scattered":
            y.index_fill_(-1, torch.tensor([0]), 0.25)
        else:
            y.index_add_(0, torch.tensor([0, 0]), y[:1].repeat(2, *[1] * (y.dim() - 1)), alpha=0.5)
        return y * 1.0

    return f"set {name} {at} {by}", step


_MORE = (
    _unary,
    _unary,
    _unary,
    _binary,
    _binary,
    _binary,
    _reduced,
    _reduced,
    _rows,
    _rows,
    _rows,
    _assigned,
)


def draw(seed: int, most: int = 10) -> Drawn:
    """A function of a seed of these steps and of the plain ones, with its inputs."""
    r = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = _EXTENTS_OF_NONE if r.random() < 0.1 else SIZES
    rows, columns = r.choice(sizes), r.choice(sizes)
    shapes = [
        (rows, columns),
        (rows, columns),
        (columns,),
        (rows, 1),
        (2, rows, columns),
        (columns, rows),
        (),
    ]
    shapes = r.sample(shapes, r.randint(2, 5))
    dtype = r.choice(DTYPES)
    kinds = [dtype if r.random() < 0.8 else r.choice((*DTYPES, torch.float64)) for _ in shapes]
    inputs = [
        placed(r, s, d, generator) if 0 not in s else torch.empty(s, dtype=d)
        for s, d in zip(shapes, kinds, strict=True)
    ]
    if r.random() < 0.15:
        inputs.append(inputs[0])  # the same tensor twice
    drawn = Drawn(inputs)
    steps = Steps(r, drawn, [x.double() for x in inputs], True, (*_MORE, *KINDS), least=0)
    return finished(r, drawn, steps, most)


__all__ = ["draw"]
