"""What launches of a kernel for the same sizes have in common, found once: all but addresses and stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from syncverify.codegen import driver
from syncverify.codegen.packed import Launcher, Shape
from syncverify.codegen.tensor_maps import encoder, pointers
from syncverify.fusion.lower import rests
from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import DTYPE_BYTES, Kernel


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Enqueues a kernel for sizes that the caller holds a proof for: addresses in the order of ``names``."""

    names: tuple[str, ...]
    launcher: Launcher

    def __call__(self, addresses: Mapping[str, int], stream: int) -> None:
        self.launcher([addresses[name] for name in self.names], stream)


def enqueue(
    kernel: Kernel, values: Mapping[str, int], function: driver.Function, device: int, dependent: bool,
    names: Sequence[str] = (),
) -> Enqueue:  # fmt: skip
    """``names``: the order of addresses, else that of the parameters. InputError where TMA cannot address."""
    ends = _rests(kernel, values)
    places = [ends.get(t.name, (t.name, 0)) for t in pointers(kernel)]
    tensors = [*(name for name, _ in places), *(m.tensor for m in kernel.maps)]
    order = tuple(names or dict.fromkeys(tensors))
    x, y, z = (evaluate(e, values) for e in kernel.launch.grid)
    numbers = tuple((values[p.name], driver.INTEGERS[p.dtype]) for p in kernel.params)
    shape = Shape(function, (x, y, z), kernel.launch.block, numbers, device, dependent)
    maps = [(order.index(m.tensor), encoder(kernel, m, values)) for m in kernel.maps]
    return Enqueue(
        order, Launcher(shape, len(order), [(order.index(n), offset) for n, offset in places], maps)
    )


def _rests(kernel: Kernel, values: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Where the ragged ends of outputs start that are tensors of their own."""
    found = rests(kernel)
    sizes = {t.name: math.prod(evaluate(e, values) for e in t.shape) for t in kernel.tensors}
    out: dict[str, tuple[str, int]] = {}
    for t in kernel.tensors:
        if t.name in found:
            whole = sizes[t.name] - sizes[found[t.name]]
            out[found[t.name]] = (t.name, whole * DTYPE_BYTES[t.dtype])
    return out


__all__ = ["Enqueue", "enqueue"]
