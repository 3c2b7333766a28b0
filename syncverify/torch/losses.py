"""The loss of chosen classes, and its gradient, as operators of rows that keep integers inside.

Torch takes both apart into arithmetic on integers, which no kernel can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from syncverify.fusion import Value, index, take, where
from syncverify.fusion.graph import apply

#: How several rows' losses become one: the numbers of torch's own operators.
NONE, MEAN = 0, 1
#: Integers below are distinguished as f32.
_EXACT = 1 << 24


def chosen(x: torch.Tensor, target: torch.Tensor, ignored: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The element of each row at its index, and 1; 0 and 0 where the index is ``ignored``."""
    kept = target != ignored
    found = torch.gather(x, 1, torch.where(kept, target, 0).unsqueeze(1)).squeeze(1)
    return torch.where(kept, found, 0.0), kept.to(x.dtype)


def chosen_fake(x: torch.Tensor, target: torch.Tensor, ignored: int) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape[:1]), x.new_empty(x.shape[:1])


def placed(x: torch.Tensor, like: torch.Tensor, target: torch.Tensor, ignored: int) -> torch.Tensor:
    """Rows of ``like``'s length: ``x``, one number, at each row's index, and 0 elsewhere."""
    kept = (target != ignored).unsqueeze(1)
    places = torch.where(kept, target.unsqueeze(1), 0)
    return torch.zeros_like(like).scatter(1, places, torch.where(kept, x, 0.0).to(like.dtype))


def placed_fake(x: torch.Tensor, like: torch.Tensor, target: torch.Tensor, ignored: int) -> torch.Tensor:
    return torch.empty_like(like)


for _name, _function, _fake in (("chosen", chosen, chosen_fake), ("placed", placed, placed_fake)):
    torch.library.custom_op(f"syncverify::{_name}", _function, mutates_args=()).register_fake(_fake)
CHOSEN, PLACED = torch.ops.syncverify.chosen.default, torch.ops.syncverify.placed.default


def placed_by_place(x: Any, like: Any, target: Any, ignored: int) -> Any:
    """``placed`` as one loop over the elements, which a compiler can fuse with others."""
    places = torch.arange(like.shape[1], device=like.device)
    here = (places == target.unsqueeze(1)) & (target != ignored).unsqueeze(1)
    return torch.where(here, x, 0.0).to(like.dtype)


#: The operators as functions of torch, for a compiler that holds integers.
PLAIN: dict[Any, Callable[..., Any]] = {CHOSEN: chosen, PLACED: placed_by_place}


def fused_chosen(x: Value, target: Value, ignored: int) -> tuple[Value, Value]:
    """``chosen`` in a fusion's own functions, where an index outside of its row takes 0."""
    kept = apply("ne", target, float(ignored))
    return where(kept, take(x, target), 0.0), where(kept, 1.0, 0.0)


def fused_placed(x: Value, target: Value, ignored: int, dim: str) -> Value:
    here = apply("eq", index(dim), target)
    return where(here, where(apply("ne", target, float(ignored)), x, 0.0), 0.0)


@contextmanager
def recomputed() -> Iterator[None]:
    """Lets AOTAutograd's partitioner see operators of losses as it sees those that they represent.

    Else it saves what they read, which is as large as the logits.
    """
    from torch._functorch import partitioners

    plain = getattr(partitioners, "get_default_op_list", None)
    if plain is None:
        # another version of torch: it saves more
        yield
        return

    def listed() -> Any:
        found = plain()
        more = {CHOSEN.overloadpacket, PLACED.overloadpacket}
        return replace(
            found, fusible_ops={*found.fusible_ops, *more}, recomputable_ops={*found.recomputable_ops, *more}
        )

    partitioners.get_default_op_list = listed
    try:
        yield
    finally:
        partitioners.get_default_op_list = plain


def _plain(x: Any, target: Any, weight: Any, ignored: int) -> bool:
    """Whether these are rows of f32 and an index for each, without weights; what is ignored is a number."""
    rows = x.dim() == 2 and target.dim() == 1 and x.dtype is torch.float32
    return rows and weight is None and isinstance(ignored, int) and abs(ignored) < _EXACT


def forward(x: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Any:
    """aten.nll_loss_forward."""
    if not _plain(x, target, weight, ignored):
        return NotImplemented
    found, kept = CHOSEN(x, target, ignored)
    if reduction == NONE:
        return -found, x.new_full((), 0.0)
    count = kept.sum()
    return (-found.sum() / count if reduction == MEAN else -found.sum()), count


def backward(
    gradient: Any, x: Any, target: Any, weight: Any, reduction: int, ignored: int, count: Any
) -> Any:
    """aten.nll_loss_backward."""
    if not _plain(x, target, weight, ignored):
        return NotImplemented
    share = gradient / count if reduction == MEAN else gradient
    return PLACED(-(share.unsqueeze(1) if reduction == NONE else share), x, target, ignored)


__all__ = [
    "CHOSEN", "PLACED", "PLAIN", "backward", "forward", "fused_chosen", "fused_placed", "recomputed",
]  # fmt: skip
