"""What launches of a kernel for the same sizes have in common, found once: all but addresses and stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from syncverify.codegen import driver
from syncverify.codegen.tensor_maps import encoder, pointers
from syncverify.fusion.lower import rests
from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import DTYPE_BYTES, Kernel


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Enqueues a kernel for sizes that the caller holds a proof for.

    ``places``: the tensor in which each pointer lies, and bytes from its start on. ``maps``: the tensors that
    have one, and what encodes it for an address. ``numbers``: the parameters behind them, with their types.
    """

    places: tuple[tuple[str, int], ...]
    maps: tuple[tuple[str, Callable[[int], Any]], ...]
    numbers: tuple[tuple[int, Any], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    function: driver.Function
    device: int
    dependent: bool

    def __call__(self, addresses: Mapping[str, int], stream: int) -> None:
        arguments = (
            *((addresses[name] + offset, driver.POINTER) for name, offset in self.places),
            *((encode(addresses[name]), None) for name, encode in self.maps),
            *self.numbers,
        )
        driver.use_device(self.device)
        driver.launch(self.function, self.grid, self.block, arguments, stream, self.dependent)


def enqueue(
    kernel: Kernel, values: Mapping[str, int], function: driver.Function, device: int, dependent: bool
) -> Enqueue:
    """InputError for a tensor map that TMA cannot address."""
    ends = _rests(kernel, values)
    x, y, z = (evaluate(e, values) for e in kernel.launch.grid)
    return Enqueue(
        tuple(ends.get(t.name, (t.name, 0)) for t in pointers(kernel)),
        tuple((m.tensor, encoder(kernel, m, values)) for m in kernel.maps),
        tuple((values[p.name], driver.INTEGERS[p.dtype]) for p in kernel.params),
        (x, y, z), kernel.launch.block, function, device, dependent,
    )  # fmt: skip


def _rests(kernel: Kernel, values: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Where the ragged ends of outputs start that are tensors of their own."""
    found = rests(kernel)
    out: dict[str, tuple[str, int]] = {}
    for t in kernel.tensors:
        if t.name in found:
            whole = math.prod(evaluate(e, values) for e in t.shape) - values["rest"]
            out[found[t.name]] = (t.name, whole * DTYPE_BYTES[t.dtype])
    return out


__all__ = ["Enqueue", "enqueue"]
