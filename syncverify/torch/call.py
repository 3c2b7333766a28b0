"""A group at run time: a module that launches its kernel, or runs its nodes where there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node

from syncverify.fusion.pitches import known, pitch
from syncverify.torch.dims import UnfitError, extent
from syncverify.torch.layouts import ALIGNMENT, Layout, expressions, numbers, steps, views
from syncverify.torch.region import value_of
from syncverify.torch.report import Region
from syncverify.torch.runners import Kernel, RefusedError
from syncverify.torch.translate import Translation

log = logging.getLogger("syncverify.torch")

Computed = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], list[Layout]]


@dataclass(frozen=True)
class Shapes:
    """The extents of a kernel's dimensions and the shapes of its results, for each call's arguments.

    The third that is computed: how the axes of its inputs make dimensions, where rows lie apart.
    """

    dims: tuple[str, ...]
    compute: Callable[[Sequence[Any]], Computed]
    hint: dict[str, int]


def shapes_of(translation: Translation, arguments: Sequence[Node]) -> Shapes:
    """How sizes follow from arguments; raises UnfitError where some cannot be known."""
    dims = tuple(translation.extents)
    sizes = [translation.extents[d] for d in dims]
    results = [[extent(s) for s in value_of(n).shape] for n in translation.outputs]
    parts = expressions(translation.layouts)
    everything = [*sizes, *(s for r in results for s in r), *map(sympy.sympify, parts)]
    symbols = sorted({s for e in everything for s in e.free_symbols}, key=str)
    if not symbols:
        layouts = numbers(translation.layouts, list(map(int, parts)))
        fixed = tuple(map(int, sizes)), tuple(tuple(map(int, r)) for r in results), layouts
        hints = _hinted(translation, dict(zip(dims, fixed[0], strict=True)), layouts)
        return Shapes(dims, lambda _: fixed, hints)
    sources = [_source(s, arguments) for s in symbols]
    formula = sympy.lambdify(symbols, [sizes, results, parts], "math")

    def computed(values: Iterable[int]) -> Computed:
        found = formula(*values)
        layouts = numbers(translation.layouts, list(map(int, found[2])))
        return tuple(map(int, found[0])), tuple(tuple(map(int, r)) for r in found[1]), layouts

    usual, _, layouts = computed(_hint(s, arguments) for s in symbols)
    hints = _hinted(translation, dict(zip(dims, usual, strict=True)), layouts)
    return Shapes(dims, lambda given: computed(source(given) for source in sources), hints)


def _hinted(translation: Translation, sizes: dict[str, int], layouts: list[Layout]) -> dict[str, int]:
    """The sizes with the pitches of the call that is compiled for, as far as they are numbers."""
    found: dict[str, int] = {}
    names = [n for n, _ in translation.fusion.inputs]
    for node, own in zip(translation.layouts, layouts, strict=True):
        x = value_of(node)
        strides = [getattr(getattr(s, "node", None), "hint", s) for s in x.stride()]
        if all(isinstance(s, int) for s in strides):
            name = names[translation.inputs.index(node)]
            apart = steps(own, strides, x.element_size()) or {}
            found |= {pitch(name, d): n for d, n in apart.items()}
    return known(translation.fusion, {**sizes, **found})


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
        self._fusion = translation.fusion
        names = [n for n, _ in translation.fusion.inputs]
        places = [translation.inputs.index(n) for n in translation.layouts]
        self._apart = {k: names[k] for k in places}
        problem = translation.problem
        self._turned = (problem.a_t, problem.b_t) if problem is not None else ()
        self._refused: set[tuple[int, ...]] = set()

    def forward(self, *given: Any) -> Any:
        sizes, shapes, layouts = self._shapes.compute(given)
        first = given[self._inputs[0]]
        if sizes in self._refused or 0 in sizes or isinstance(first, FakeTensor):
            return self.nodes(*given)
        device = first.device
        named, read = dict(zip(self._shapes.dims, sizes, strict=True)), set[str]()
        if layouts:
            own = zip(self._apart.items(), layouts, strict=True)
            apart = {name: (given[self._inputs[k]], found) for (k, name), found in own}
            named, read = views(self._fusion, named, apart)
        if not self._kernel.prepared(named, device) and _capturing(device):
            self.region.note("captured before its kernel was compiled for these sizes: torch ran instead")
            return self.nodes(*given)
        inputs = [
            stored(given[at], self._turned[k : k + 1] == (True,), self._apart.get(k) in read)
            for k, at in enumerate(self._inputs)
        ]
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


def stored(x: Any, turned: bool = False, apart: bool = False) -> Any:
    """A tensor, or the matrix turned, as a kernel reads it: contiguous and aligned, else a copy.

    ``apart``: the kernel reads its rows where they lie.
    """
    x = x.detach()
    if apart:
        return x
    x = (x.t() if turned else x).contiguous()
    return x.clone() if x.data_ptr() % ALIGNMENT else x


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def prepare(kernel: Kernel, shapes: Shapes, device: torch.device, region: Region) -> None:
    """Compiles for the sizes at hand, so that the first call has nothing left to do; raises RefusedError."""
    if any(shapes.hint[d] == 0 for d in shapes.dims):
        region.note("empty where it was compiled")
        return
    region.status = kernel.prepare(shapes.hint, device)


__all__ = ["Fused", "Shapes", "prepare", "shapes_of", "stored"]
