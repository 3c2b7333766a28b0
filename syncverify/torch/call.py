"""A group at run time: a module that launches its kernel, or runs its nodes where there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node

from syncverify.torch.dims import UnfitError, extent
from syncverify.torch.region import value_of
from syncverify.torch.report import Region
from syncverify.torch.runners import Kernel, RefusedError
from syncverify.torch.translate import Translation

log = logging.getLogger("syncverify.torch")

#: What every tensor's memory has to start at a multiple of.
ALIGNMENT = 16


@dataclass(frozen=True)
class Shapes:
    """The extents of a kernel's dimensions and the shapes of its results, for each call's arguments."""

    dims: tuple[str, ...]
    compute: Callable[[Sequence[Any]], tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]]
    hint: dict[str, int]


def shapes_of(translation: Translation, arguments: Sequence[Node]) -> Shapes:
    """How sizes follow from arguments; raises UnfitError where some cannot be known."""
    dims = tuple(translation.extents)
    sizes = [translation.extents[d] for d in dims]
    results = [[extent(s) for s in value_of(n).shape] for n in translation.outputs]
    everything = [*sizes, *(s for r in results for s in r)]
    symbols = sorted({s for e in everything for s in e.free_symbols}, key=str)
    if not symbols:
        fixed = tuple(map(int, sizes)), tuple(tuple(map(int, r)) for r in results)
        return Shapes(dims, lambda _: fixed, dict(zip(dims, fixed[0], strict=True)))
    sources = [_source(s, arguments) for s in symbols]
    formula = sympy.lambdify(symbols, [sizes, results], "math")

    def compute(given: Sequence[Any]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        found = formula(*(source(given) for source in sources))
        return tuple(map(int, found[0])), tuple(tuple(map(int, r)) for r in found[1])

    hints = formula(*(_hint(s, arguments) for s in symbols))[0]
    return Shapes(dims, compute, dict(zip(dims, map(int, hints), strict=True)))


def _source(symbol: Any, arguments: Sequence[Node]) -> Callable[[Sequence[Any]], int]:
    """Where a call's arguments show the value of a symbol."""
    for k, node in enumerate(arguments):
        x = node.meta.get("val")
        if isinstance(x, torch.SymInt) and extent(x) == symbol:
            return lambda given, k=k: int(given[k])  # type: ignore[misc]
        if isinstance(x, torch.Tensor):
            for d, size in enumerate(x.shape):
                if extent(size) == symbol:
                    return lambda given, k=k, d=d: int(given[k].shape[d])  # type: ignore[misc]
    raise UnfitError("a size that no argument shows")


def _hint(symbol: Any, arguments: Sequence[Node]) -> int:
    """The value of a symbol in the call that is compiled for."""
    for node in arguments:
        x = node.meta.get("val")
        for size in x.shape if isinstance(x, torch.Tensor) else (x,):
            if isinstance(size, torch.SymInt) and extent(size) == symbol and size.node.hint is not None:
                return int(size.node.hint)
    raise UnfitError("a size that is known at run time only")


class Fused(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """One kernel in the place of some nodes; ``nodes`` are those, run where there is no kernel."""

    def __init__(
        self, translation: Translation, nodes: GraphModule, kernel: Kernel, shapes: Shapes,
        inputs: Sequence[int], region: Region,
    ) -> None:  # fmt: skip
        super().__init__()
        self.nodes = nodes
        self.region = region
        self._kernel = kernel
        self._shapes = shapes
        self._inputs = tuple(inputs)
        self._outputs = tuple(value_of(n).dtype for n in translation.outputs)
        problem = translation.problem
        self._turned = (problem.a_t, problem.b_t) if problem is not None else ()
        self._refused: set[tuple[int, ...]] = set()

    def forward(self, *given: Any) -> Any:
        sizes, shapes = self._shapes.compute(given)
        first = given[self._inputs[0]]
        if sizes in self._refused or 0 in sizes or isinstance(first, FakeTensor):
            return self.nodes(*given)
        device = first.device
        named = dict(zip(self._shapes.dims, sizes, strict=True))
        if not self._kernel.prepared(named, device) and _capturing(device):
            self.region.note("captured before its kernel was compiled for these sizes: torch ran instead")
            return self.nodes(*given)
        inputs = [stored(given[at], self._turned[k : k + 1] == (True,)) for k, at in enumerate(self._inputs)]
        outputs = [
            torch.empty(s, dtype=dtype, device=device) for s, dtype in zip(shapes, self._outputs, strict=True)
        ]
        try:
            self._kernel(named, inputs, outputs)
        except RefusedError as e:
            self._refused.add(sizes)
            self.region.refuse(named, str(e))
            log.warning("%s is left to torch for %s: %s", self.region.name, named, e)
            return self.nodes(*given)
        return tuple(outputs)


def stored(x: Any, turned: bool = False) -> Any:
    """A tensor, or the matrix turned, as a kernel reads it: contiguous and aligned, else a copy."""
    x = x.detach()
    x = (x.t() if turned else x).contiguous()
    return x.clone() if x.data_ptr() % ALIGNMENT else x


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def prepare(kernel: Kernel, shapes: Shapes, device: torch.device, region: Region) -> None:
    """Compiles for the sizes at hand, so that the first call has nothing left to do; raises RefusedError."""
    if 0 in shapes.hint.values():
        region.note("empty where it was compiled")
        return
    region.status = kernel.prepare(shapes.hint, device)


__all__ = ["Fused", "Shapes", "prepare", "shapes_of", "stored"]
