"""Small whole networks, and functions of parts of them, for benchmarks/hardware/torch_networks.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH = 512, 256


def heads(x: Tensor, count: int) -> Tensor:
    """(batch, time, width) as (batch, heads, time, width of a head)."""
    return x.view(*x.shape[:2], count, -1).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class GptBlock(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.packed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads(t, 4) for t in self.packed(self.before(x)).chunk(3, -1))
        attended = joined(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + F.dropout(self.out(attended), self.dropout, self.training)
        inner = self.down(F.gelu(self.up(self.between(x)), approximate="tanh"))
        return x + F.dropout(inner, self.dropout, self.training)


class Gpt(nn.Module):
    def __init__(self, width: int = WIDTH, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(128, width)
        self.blocks = nn.Sequential(*(GptBlock(width, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        return self.head(self.norm(self.blocks(self.words(words) + self.places(places))))


class LlamaBlock(nn.Module):
    """Rotated queries and keys, keys that heads share, a gated inner layer."""

    def __init__(self, width: int, count: int, shared: int) -> None:
        super().__init__()
        self.count, self.shared = count, shared
        few = width // count * shared
        self.before, self.between = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        sizes = {
            "q": (width, width), "k": (width, few), "v": (width, few), "out": (width, width),
            "gate": (width, 3 * width), "up": (width, 3 * width), "down": (3 * width, width),
        }  # fmt: skip
        self.of = nn.ModuleDict({n: nn.Linear(*s, bias=False) for n, s in sizes.items()})

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.before(x)
        q = turned(heads(self.of["q"](y), self.count), cos, sin)
        k = turned(heads(self.of["k"](y), self.shared), cos, sin)
        v = heads(self.of["v"](y), self.shared)
        k, v = (t.repeat_interleave(self.count // self.shared, 1) for t in (k, v))
        x = x + self.of["out"](joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        y = self.between(x)
        return x + self.of["down"](F.silu(self.of["gate"](y)) * self.of["up"](y))


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Llama(nn.Module):
    def __init__(self, width: int = WIDTH, count: int = 4, shared: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, count, shared) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, VOCABULARY, bias=False)
        size = width // count
        rates = 10000.0 ** (-torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(256).float(), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, words: Tensor) -> Tensor:
        x, time = self.words(words), words.shape[1]
        for block in self.blocks:
            x = block(x, self.cos[:time].to(x.dtype), self.sin[:time].to(x.dtype))
        return self.head(self.norm(x))


class BiasedAttention(nn.Module):
    """Scores with a bias of their places and a mask, and their softmax, written out."""

    def __init__(self, width: int = 128, count: int = 4) -> None:
        super().__init__()
        self.count = count
        self.norm, self.out = nn.RMSNorm(width), nn.Linear(width, width)
        self.packed = nn.Linear(width, 3 * width, bias=False)
        self.bias = nn.Parameter(torch.randn(count, 64, 64) * 0.1)

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        time = x.shape[1]
        q, k, v = (heads(t, self.count) for t in self.packed(self.norm(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + self.bias[:, :time, :time]
        weights = scores.masked_fill(~kept[:, None, None, :], float("-inf")).softmax(-1)
        return x + self.out(joined(weights @ v))


class ResidualBlock(nn.Module):
    """Of a network that takes noise away: group norms, convolutions, the time added to channels."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, channels) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(64, channels)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        y = self.convolutions[0](F.silu(self.norms[0](x))) + self.time(F.silu(t))[:, :, None, None]
        return x + self.convolutions[1](F.silu(self.norms[1](y)))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU6(),
            nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.classes = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.classes(self.features(x)), -1)


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.block = nn.TransformerEncoderLayer(
            width, 3, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.classes = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.classes(self.block(x)[:, 0])


class Experts(nn.Module):
    """Two of four experts for each row, weighed by a router."""

    def __init__(self, width: int = 128, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) * 0.05)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) * 0.05)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.einsum("teh,ehd->ted", F.silu(torch.einsum("td,edh->teh", x, self.up)), self.down)
        picked = torch.gather(y, 1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        return (picked * weights[..., None]).sum(1)


class Recurrent(nn.Module):
    """Gates of a recurrent cell, step by step."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, steps: Tensor) -> Tensor:
        state = torch.zeros_like(steps[0])
        for x in steps.unbind(0):
            (reset, update, new) = self.of_input(x).chunk(3, -1)
            (of_reset, of_update, of_new) = self.of_state(state).chunk(3, -1)
            kept = torch.sigmoid(update + of_update)
            new = torch.tanh(new + torch.sigmoid(reset + of_reset) * of_new)
            state = (1 - kept) * new + kept * state
        return state


class StateSpace(nn.Module):
    """Decays that add up along time, and a gate."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.norm, self.packed = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.steps, self.rates = nn.Linear(width, width), nn.Parameter(torch.rand(width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.packed(self.norm(x)).chunk(2, -1)
        logs = torch.cumsum(-F.softplus(self.steps(u)) * self.rates, 1)
        return x + self.out(torch.exp(logs) * torch.cumsum(torch.exp(-logs) * u, 1) * F.silu(gate))


# ---------------------------------------------------------------- functions


def extremes(x: Tensor, y: Tensor) -> Any:
    chosen = torch.where(x > y, x.clamp(-1, 1), y.abs().sqrt())
    return chosen, (x - y).pow(2).mean(-1), torch.stack([x.amax(-1), y.amin(-1)])


def statistics(x: Tensor) -> Any:
    rest = x - x.mean(-1, keepdim=True)
    scaled = rest * torch.rsqrt(x.var(-1, unbiased=True, keepdim=True) + 1e-5)
    return scaled, x.std(-1), x.logsumexp(-1), x.norm(dim=-1), x.prod(-1), x.argmax(-1)


def types(x: Tensor, y: Tensor) -> Any:
    z = x.float() * y.float().unsqueeze(0)
    return z.sum(0).to(x.dtype), (z > 0).sum(-1), z.half()


def in_place(x: Tensor, w: Tensor) -> Any:
    x = x.clone().mul_(w).add_(1)
    x[:, :64].zero_()
    x[1:, 64:] += x[:-1, 64:].clone()  # without a copy torch itself has two answers, compiled and eager
    return F.normalize(x, dim=-1)


def no_rows(x: Tensor) -> Any:
    return F.softmax(x * 2, -1), x.sum(-1)


def one_number(x: Tensor) -> Any:
    return (x * x).mean(), x.sum()


def odd_norm(x: Tensor, w: Tensor) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w) * torch.sigmoid(x)


def focal_loss(x: Tensor, target: Tensor) -> Any:
    log = F.log_softmax(x.float(), -1).gather(-1, target[:, None]).squeeze(-1)
    return (-((1 - log.exp()) ** 2) * log).mean()


def losses(x: Tensor, y: Tensor) -> Any:
    divergence = F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean")
    return divergence, F.smooth_l1_loss(x, y), F.binary_cross_entropy_with_logits(x, torch.sigmoid(y))


def quantized(x: Tensor) -> Any:
    scale = x.abs().amax(-1, keepdim=True) / 127
    whole = torch.round(x / scale).clamp(-128, 127).to(torch.int8)
    return whole, scale, whole.to(x.dtype) * scale


def turned_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Any:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def gated(x: Tensor) -> Any:
    a, b = x.chunk(2, -1)
    return a * F.gelu(b)


def transposed(x: Tensor) -> Any:
    return (x.transpose(-1, -2) * 2 + 1).contiguous(), x.permute(2, 0, 1).exp()


def one_element(x: Tensor) -> Any:
    return F.silu(x) * 2 + 1


def long_rows(x: Tensor, w: Tensor) -> Any:
    return F.rms_norm(x, (x.shape[-1],), w)


def strided(x: Tensor) -> Any:
    return F.softmax(x[:, ::2] + 1, -1) * x[:, 1::2]


def expanded(x: Tensor, b: Tensor) -> Any:
    return (x + b.expand(16, 8, 64)).tanh() * x


def norm_with_gradient(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return F.layer_norm(x, (512,), w, b).relu().square()


# ---------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """``make``: a module or a function. ``inputs``: shapes of random numbers; ("index", most, shape) and
    ("mask", shape) are others. ``gradients`` of inputs and parameters are compared too; ``sizes``: also with
    sizes that are symbols."""

    make: Callable[[], Callable[..., Any]]
    inputs: tuple[Any, ...]
    gradients: bool = False
    sizes: bool = False


def _plain(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: function


_WORDS = ("index", VOCABULARY, (2, 64))
CASES: dict[str, Case] = {
    "gpt": Case(Gpt, (_WORDS,), True, True),
    "gpt that is evaluated": Case(lambda: Gpt(dropout=0.1).eval(), (_WORDS,)),
    "llama": Case(Llama, (_WORDS,), True, True),
    "biased attention": Case(BiasedAttention, ((2, 64, 128), ("mask", (2, 64))), True),
    "residual block": Case(ResidualBlock, ((2, 32, 16, 16), (2, 64)), True),
    "convolutions": Case(ConvNet, ((4, 3, 32, 32),), True),
    "vision transformer": Case(VisionTransformer, ((2, 3, 32, 32),), True),
    "experts": Case(Experts, ((64, 128),), True),
    "recurrent": Case(Recurrent, ((4, 8, 128),), True),
    "state space": Case(StateSpace, ((2, 32, 128),), True),
    "extremes": Case(_plain(extremes), ((33, 256), (33, 256)), True, True),
    "statistics": Case(_plain(statistics), ((17, 384),)),
    "types": Case(_plain(types), ((24, 512), (512,))),
    "in place": Case(_plain(in_place), ((16, 256), (256,))),
    "no rows": Case(_plain(no_rows), ((0, 256),)),
    "one number": Case(_plain(one_number), ((1000,),), True),
    "odd norm": Case(_plain(odd_norm), ((7, 1001), (1001,)), True, True),
    "focal loss": Case(_plain(focal_loss), ((32, 1000), ("index", 1000, (32,))), True),
    "losses": Case(_plain(losses), ((16, 512), (16, 512))),
    "quantized": Case(_plain(quantized), ((16, 512),), sizes=True),
    "turned pairs": Case(_plain(turned_pairs), ((2, 8, 64, 128), (64, 64), (64, 64)), True),
    "gated": Case(_plain(gated), ((4, 32, 512),), True),
    "transposed": Case(_plain(transposed), ((4, 64, 96),)),
    "one element": Case(_plain(one_element), ((1,),)),
    "long rows": Case(_plain(long_rows), ((3, 65536), (65536,))),
    "strided": Case(_plain(strided), ((16, 512),)),
    "expanded": Case(_plain(expanded), ((16, 8, 64), (8, 64)), True),
    "norm with its gradient": Case(_plain(norm_with_gradient), ((64, 512), (512,), (512,)), True, True),
}
