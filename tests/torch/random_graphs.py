"""Functions drawn at random: views, products, reductions, changes in place, and results that share memory.

A function is a list of steps, each on tensors that were made before. It runs with the types as drawn, and
with all of them wide, which judges the first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

#: Sizes that dimensions have. Few, so that tensors meet; some are no multiple of what kernels read at once.
SIZES = (8, 16, 16, 24, 40, 5)
DTYPES = (torch.bfloat16, torch.bfloat16, torch.float32, torch.float16)
#: Elements of a tensor at most.
_MOST = 40_000
Step = Callable[[list[Any], bool], Any]


@dataclass
class Drawn:
    """``inputs``: of types as drawn. ``steps``: each makes one more tensor of those so far and ``wide``."""

    inputs: list[Any]
    steps: list[tuple[str, Step]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    wide: bool = False

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        made = list(inputs)
        for _, step in self.steps:
            made.append(step(made, self.wide))
        return tuple(made[k] for k in self.results)

    @property
    def text(self) -> str:
        given = [(x.dtype, tuple(x.shape), x.stride(), x.storage_offset()) for x in self.inputs]
        return "\n".join([*map(str, given), *(n for n, _ in self.steps), f"results {self.results}"])


def placed(r: random.Random, shape: tuple[int, ...], dtype: torch.dtype, generator: Any) -> Any:
    """Numbers somewhere in memory: contiguous, behind an offset, in longer rows, transposed, or repeated."""
    x = torch.randn(shape, generator=generator).to(dtype)
    kind = r.choice(("plain", "plain", "plain", "offset", "long", "turned", "repeated", "steps"))
    if kind == "offset":
        memory = torch.empty(x.numel() + 8, dtype=dtype)
        return memory.narrow(0, r.choice((1, 8)), x.numel()).copy_(x.flatten()).view(shape)
    if not shape or kind == "plain":
        return x
    if kind == "long":
        more = r.choice((8, 3))
        memory = torch.empty((*shape[:-1], shape[-1] + more), dtype=dtype)
        return memory.narrow(-1, r.choice((0, more)), shape[-1]).copy_(x)
    if kind == "turned" and len(shape) > 1:
        a, b = r.sample(range(len(shape)), 2)
        return x.transpose(a, b).contiguous().transpose(a, b)
    if kind == "repeated":
        at = r.randrange(len(shape))
        return x.narrow(at, 0, 1).expand(shape)
    if kind == "steps":
        return torch.empty((*shape[:-1], 2 * shape[-1]), dtype=dtype)[..., ::2].copy_(x)
    return x


def draw(seed: int, most: int = 14, changes: bool = True) -> Drawn:
    """A function of a seed, with its inputs; ``changes``: some steps write to tensors.

    Without them it may be trained: then no step compares. A maximum's gradient does, with what is made
    again and rounded otherwise.
    """
    r = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    rows, columns, inner = r.choice(SIZES), r.choice(SIZES), r.choice(SIZES[:-1])
    many = r.choice((2, 3))
    shapes = [(rows, columns), (rows, columns), (columns,), (rows, 1), (1, columns), (many, rows, columns),
              (many, rows, inner), (inner, columns), (columns, inner), ()]  # fmt: skip
    shapes = r.sample(shapes, r.randint(3, 6))
    dtype = r.choice(DTYPES)
    kinds = [dtype if r.random() < 0.7 else r.choice(DTYPES) for _ in shapes]
    drawn = Drawn([placed(r, s, d, generator) for s, d in zip(shapes, kinds, strict=True)])
    made = [x.double() for x in drawn.inputs]
    # what writes is the last kind
    return finished(r, drawn, Steps(r, drawn, made, changes, KINDS if changes else KINDS[:-1]), most)


def finished(r: random.Random, drawn: Drawn, source: Steps, most: int) -> Drawn:
    """The function with so many steps, and what it returns."""
    while len(drawn.steps) < most:
        source.add()
    last = list(range(len(drawn.inputs), len(source.made)))
    drawn.results = [*last[-3:], *r.sample(last, min(len(last), r.randint(1, 3)))]
    return drawn


class Steps:
    """Draws steps of some kinds. ``made``: what they give in f64. ``least``: elements of each."""

    def __init__(
        self, r: random.Random, drawn: Drawn, made: list[Any], changes: bool, kinds: tuple[Any, ...],
        least: int = 1,
    ) -> None:  # fmt: skip
        self.r, self.drawn, self.made, self.changes = r, drawn, made, changes
        self.kinds, self.least = kinds, least

    def add(self) -> None:
        """One more step, if what is drawn can be computed."""
        found = self.r.choice(self.kinds)(self)
        if found is None:
            return
        name, step = found
        try:
            result = step(self.made, True)
        except (RuntimeError, IndexError):
            return
        if not isinstance(result, torch.Tensor) or not self.least <= result.numel() <= _MOST:
            return
        if not bool(torch.isfinite(result).all()) or bool((result.abs() > 1e3).any()):
            return
        self.drawn.steps.append((f"{len(self.made)}: {name} -> {tuple(result.shape)}", step))
        self.made.append(result)

    def pick(self, least: int = 0) -> int | None:
        """The place of a tensor, mostly a late one."""
        fit = [k for k, x in enumerate(self.made) if x.dim() >= least]
        if not fit:
            return None
        return self.r.choice(fit[-4:] if self.r.random() < 0.6 else fit)


Found = tuple[str, Step] | None
_UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu,
    "neg": torch.neg, "half": lambda x: x * 0.5, "more": lambda x: x + 1, "rsub": lambda x: 1 - x,
    "exp": lambda x: torch.exp(-x.abs()), "clamp": lambda x: x.clamp(-1.0, 0.75), "square": lambda x: x * x,
    "abs": torch.abs,
    "mask": lambda x: torch.where(x > 0.1, x, -0.25), "root": lambda x: (x.abs() + 1).sqrt(),
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "alpha": lambda x, y: torch.add(x, y, alpha=0.5),
    "max": torch.maximum, "min": torch.minimum, "div": lambda x, y: x / (y.abs() + 1),
    "chosen": lambda x, y: torch.where(x < y, x, y * 0.5), "fill": lambda x, y: x.masked_fill(y > 0.5, 0.25),
}  # fmt: skip
#: What jumps, or whose gradient does.
_COMPARING = ("relu", "clamp", "abs", "mask", "max", "min", "chosen", "fill")


def _unary(s: Steps) -> Found:
    name, at = s.r.choice([n for n in _UNARY if s.changes or n not in _COMPARING]), s.pick()
    return f"{name} {at}", lambda made, wide: _UNARY[name](made[at])


def _binary(s: Steps) -> Found:
    name = s.r.choice([n for n in _BINARY if s.changes or n not in _COMPARING])
    a, b = s.pick(), s.pick()
    return f"{name} {a} {b}", lambda made, wide: _BINARY[name](made[a], made[b])


def _cast(s: Steps) -> Found:
    at, dtype = s.pick(), s.r.choice(DTYPES)
    return f"to {at} {dtype}", lambda made, wide: made[at] if wide else made[at].to(dtype)


def _reduced(s: Steps) -> Found:
    at = s.pick(1)
    if at is None:
        return None
    rank = s.made[at].dim()
    dims = s.r.sample(range(rank), s.r.choice((1, 1, min(2, rank))))
    names = ("mean", "var", "sum", "amax", "amin")[: 5 if s.changes else 3]
    name, keep = s.r.choice(names), s.r.random() < 0.5

    def step(made: list[Any], wide: bool) -> Any:
        if name == "sum":
            return made[at].sum(dims, keepdim=keep) * 0.125
        return getattr(torch, name)(made[at], dims, keepdim=keep)

    return f"{name} {at} {dims} {keep}", step


def _rows(s: Steps) -> Found:
    at = s.pick(1)
    if at is None:
        return None
    length, rank, name = (
        s.made[at].shape[-1],
        s.made[at].dim(),
        s.r.choice(("softmax", "layer", "rms", "log")),
    )
    axis = s.r.randrange(rank) if s.r.random() < 0.3 else rank - 1
    rows: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda x: x.softmax(axis), "log": lambda x: x.log_softmax(axis),
        "layer": lambda x: F.layer_norm(x, (length,)), "rms": lambda x: F.rms_norm(x, (length,), eps=1e-3),
    }  # fmt: skip
    return f"{name} {at} {axis}", lambda made, wide: rows[name](made[at])


def _view(s: Steps) -> Found:
    at = s.pick(1)
    if at is None:
        return None
    r, x = s.r, s.made[at]
    rank, d = x.dim(), r.randrange(x.dim())
    n = x.shape[d]
    if not n:
        return None
    begin = r.randrange(n)
    length, step = r.randint(1, n - begin), r.choice((1, 1, 2))
    order = r.sample(range(rank), rank)
    grown = [r.choice((1, 3, 8)) if k == 1 else k for k in x.shape]
    new, halves = r.randint(0, rank), r.choice((2, 4, 8))
    views: dict[str, Callable[[Any], Any]] = {
        "turn": lambda y: y.permute(order),
        "slice": lambda y: y[(*[slice(None)] * d, slice(begin, begin + length, step))],
        "half": lambda y: y.chunk(2, -1)[begin % 2],
        "one": lambda y: y.select(d, begin),
        "new": lambda y: y.unsqueeze(new),
        "repeat": lambda y: y.expand(grown),
        "repeat new": lambda y: y.unsqueeze(new).expand([*x.shape[:new], 3, *x.shape[new:]]),
        "flat": lambda y: y.flatten(max(0, rank - 2)),
        "split": lambda y: y.unflatten(-1, (halves, -1)),
        "compact": lambda y: y.contiguous(),
        "copy": lambda y: y.permute(order).contiguous(),
        "join": lambda y: torch.cat((y, y * 0.5), d),
        "flip": lambda y: torch.cat((-y.chunk(2, -1)[-1], y.chunk(2, -1)[0]), -1),
        "detach": lambda y: y.detach(),
    }  # fmt: skip
    name = r.choice(list(views))
    return f"{name} {at} d={d} {begin}:{length}:{step} {order} {grown} {new} {halves}", (
        lambda made, wide: views[name](made[at])
    )


def _product(s: Steps) -> Found:
    """A product of what fits, in one type, perhaps with a sum, or two of one left factor."""
    a = s.pick(2)
    if a is None:
        return None
    x, r = s.made[a], s.r
    rights = [
        (k, turn)
        for k, y in enumerate(s.made)
        if y.dim() == 2 or (y.dim() > 2 and y.shape[:-2] == x.shape[:-2])
        for turn in (False, True)
        if y.shape[-1 if turn else -2] == x.shape[-1]
    ]
    if not rights:
        return None
    (b, turned), (c, other) = r.choice(rights), r.choice(rights)
    dtype, kind = r.choice((torch.bfloat16, torch.float16)), r.choice(("plain", "add", "gate"))
    beta, alpha, bias = r.choice((1, 0, 0.5)), r.choice((1, 2)), s.pick() or 0

    def step(made: list[Any], wide: bool) -> Any:
        def own(k: int, turn: bool) -> Any:
            y = made[k].mT if turn else made[k]
            return y if wide else y.to(dtype)

        left, right = own(a, False), own(b, turned)
        scale = 0.25
        if kind == "gate":
            return F.silu(left @ right) * (left @ own(c, other)) * scale
        if kind == "add" and left.dim() == right.dim() in (2, 3):
            extra = made[bias] if wide else made[bias].to(dtype)
            add = torch.addmm if left.dim() == 2 else torch.baddbmm
            return add(extra, left, right, beta=beta, alpha=alpha) * scale
        return left @ right * scale

    return f"{kind} {a} {b}{turned} {c}{other} {bias} {beta} {alpha}", step


def _repeats(x: Any) -> bool:
    """Whether several places of a tensor are one in memory."""
    return any(n > 1 and k == 0 for n, k in zip(x.shape, x.stride(), strict=True))


def _changed(s: Steps) -> Found:
    """A tensor that was made or given is written to, whole or in part: all that shares its memory changes."""
    at, by, name = s.pick(), s.pick(), s.r.choice(("add_", "mul_", "part", "copy_", "tanh_"))
    x = s.made[at] if at is not None else None
    if at is None or x is None or by is None or any(map(_repeats, (x, *s.drawn.inputs))):
        return None

    def step(made: list[Any], wide: bool) -> Any:
        target, source = made[at], made[by]
        if name == "tanh_":
            target.tanh_()
        elif name == "part":
            target[..., : max(1, target.shape[-1] // 2)].mul_(0.5)
        else:
            getattr(target, name)(source if wide else source.to(target.dtype))
        return target * 1.0

    return f"{name} {at} {by}", step


KINDS = (
    _unary, _unary, _binary, _binary, _cast, _reduced, _rows, _view, _view, _view, _product, _product,
    _changed,
)  # fmt: skip

__all__ = ["DTYPES", "KINDS", "Drawn", "Found", "Steps", "draw", "finished", "placed"]
