"""A group at run time: what launches its kernel, or runs its nodes where there is none."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import sympy
import torch
from torch.fx import Node

from syncverify.fusion import Fusion
from syncverify.fusion.graph import Output
from syncverify.fusion.row_strides import known, pitch
from syncverify.matmul.problem import Problem
from syncverify.torch.dims import UnfitError, extent
from syncverify.torch.layouts import ALIGNMENT, Layout, expressions, numbers, steps, views
from syncverify.torch.region import value_of
from syncverify.torch.report import Region
from syncverify.torch.runners import Kernel, RefusedError
from syncverify.torch.torch_nodes import TorchNodes
from syncverify.torch.translate import Translation

log = logging.getLogger("syncverify.torch")

#: Layouts of calls that a kernel keeps what it found for, at most.
_MOST_READY = 256
#: Extents of dimensions; each result's shape, and strides where its rows lie apart; layouts of such tensors;
#: the sizes that all this follows from.
Computed = tuple[tuple[int, ...], list[tuple[list[int], list[int]]], dict[str, Layout], tuple[int, ...]]


@dataclass(frozen=True)
class Called:
    """What a call needs of a translation. ``names``: of the kernel's tensors; ``dtypes``: of its results."""

    fusion: Fusion
    problem: Problem | None
    names: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]


def called_of(translation: Translation) -> Called:
    """What a call needs of it."""
    names, dtypes = tensor_names(translation), [value_of(n).dtype for n in translation.outputs]
    return Called(translation.fusion, translation.problem, tuple(names), tuple(dtypes))


@dataclass(frozen=True)
class Shapes:
    """The extents of a kernel's dimensions and the shapes of its results, for each call's arguments.

    ``static``: they are the same in every call. ``strided``: of each result, whether its strides are given.
    """

    dims: tuple[str, ...]
    compute: Callable[[Sequence[Any]], Computed]
    hint: dict[str, int]
    static: bool = False
    strided: tuple[bool, ...] = ()


def shapes_of(translation: Translation, arguments: Sequence[Node]) -> Shapes:
    """How sizes follow from arguments; raises UnfitError where some cannot be known."""
    dims = tuple(translation.extents)
    sizes = [translation.extents[d] for d in dims]
    called = [(o.name in translation.layouts, value_of(n)) for o, n in _outputs(translation)]
    results = [
        [[extent(s) for s in x.shape], [extent(s) for s in x.stride()] if apart else []]
        for apart, x in called
    ]
    parts = [sympy.sympify(e) for e in expressions(translation.layouts)]
    everything = [*sizes, *(s for r in results for part in r for s in part), *parts]
    symbols = sorted({s for e in everything for s in e.free_symbols}, key=str)
    formula = sympy.lambdify(symbols, [sizes, results, parts], [_computable(everything), "math"])

    def computed(values: tuple[int, ...]) -> Computed:
        extents, shapes, own = formula(*values)
        made = [(list(map(int, shape)), list(map(int, strides))) for shape, strides in shapes]
        return tuple(map(int, extents)), made, numbers(translation.layouts, list(map(int, own))), values

    usual = computed(tuple(_hint(s, arguments) for s in symbols))
    strided = tuple(apart for apart, _ in called)
    hints = _hinted(translation, dict(zip(dims, usual[0], strict=True)), usual[2])
    if not symbols:
        return fixed(dims, usual, hints, strided)
    sources = [_source(s, arguments) for s in symbols]
    remembered = lru_cache(maxsize=256)(lambda *values: computed(values))
    return Shapes(
        dims, lambda given: remembered(*[source(given) for source in sources]), hints, strided=strided
    )


#: Functions of sizes that torch's symbols have beside sums and products.
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod, "CeilDiv": lambda a, b: -(-a // b), "Max": max, "Min": min,
}  # fmt: skip


def _computable(sizes: Iterable[Any]) -> dict[str, Callable[..., int]]:
    """The functions that sizes need; raises UnfitError for one that is not known here."""
    needed = {type(f).__name__ for e in sizes for f in e.atoms(sympy.Function, sympy.Max, sympy.Min)}
    missing = needed - _FUNCTIONS.keys()
    if missing:
        raise UnfitError(f"a size that takes {', '.join(sorted(missing))}")
    return {name: _FUNCTIONS[name] for name in needed}


def fixed(
    dims: tuple[str, ...], computed: Computed, hint: dict[str, int], strided: tuple[bool, ...]
) -> Shapes:
    """Shapes that are the same in every call."""
    return Shapes(dims, lambda _: computed, hint, True, strided)


def _hinted(translation: Translation, sizes: dict[str, int], layouts: dict[str, Layout]) -> dict[str, int]:
    """The sizes with the pitches of the call that is compiled for, as far as they are numbers."""
    found: dict[str, int] = {}
    nodes = dict(zip(tensor_names(translation), (*translation.inputs, *translation.outputs), strict=True))
    for name, own in layouts.items():
        x = value_of(nodes[name])
        strides = [getattr(getattr(s, "node", None), "hint", s) for s in x.stride()]
        if all(isinstance(s, int) for s in strides):
            apart = steps(own, strides, x.element_size()) or {}
            found |= {pitch(name, d): n for d, n in apart.items()}
    return known(translation.fusion, {**sizes, **found})


def _outputs(translation: Translation) -> Iterable[tuple[Output, Node]]:
    return zip(translation.fusion.outputs, translation.outputs, strict=True)


def tensor_names(translation: Translation) -> list[str]:
    """What a fusion calls the tensors of its kernel: inputs, then outputs; of a product's factors nothing."""
    f, problem = translation.fusion, translation.problem
    first = [""] * len(problem.turned) if problem is not None else []
    inputs = f.inputs if problem is None else problem.others
    tables = () if problem is None else problem.tables
    return [*first, *(n for n, _ in inputs), *tables, *(o.name for o in f.outputs)]


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


@dataclass(frozen=True, slots=True)
class Ready:
    """A kernel for inputs of one layout that it reads where they lie: what is left of a call."""

    run: Callable[[Sequence[int]], None]
    device: int
    make: Callable[..., Any]
    results: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]

    def __call__(self, addresses: list[int]) -> list[Any]:
        make = self.make
        made = [make(shape, strides, dtype) for shape, strides, dtype in self.results]
        self.run([*addresses, *[x.data_ptr() for x in made]])
        return made


def _maker(device: torch.device) -> Callable[..., Any]:
    """What makes a tensor of a shape, strides and type on the current device, ``device``."""
    if device.type == "cuda":
        found = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
        if found is not None:
            return cast("Callable[..., Any]", found)
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)


class Fused:
    """One kernel in the place of some nodes; ``nodes`` are those, run where there is no kernel.

    ``inputs``: which of the arguments the kernel reads, in its order. ``count``: how many results there are.
    """

    def __init__(
        self, called: Called, nodes: TorchNodes, kernel: Kernel, shapes: Shapes, inputs: Sequence[int],
        region: Region,
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.region = region
        self.called = called
        self._kernel = kernel
        self.shapes = shapes
        self.inputs = tuple(inputs)
        self._outputs = called.dtypes
        self._fusion = called.fusion
        self._names = called.names
        problem = called.problem
        self._turned = problem.turned if problem is not None else ()
        self._refused: set[tuple[int, ...]] = set()
        self._seen: dict[Any, tuple[dict[str, int], set[str]]] = {}
        self._ready: dict[tuple[Any, ...], Ready] = {}
        self._last: tuple[list[Any], Ready] | None = None
        self._plain = self.inputs == tuple(range(nodes.takes))
        self.count = len(self._outputs)
        self._single = self.count == 1

    def __call__(self, *given: Any) -> Any:
        """The results; one alone is no tuple."""
        inputs = given if self._plain else [given[at] for at in self.inputs]
        last = self._last
        if last is not None and [x.stride() for x in inputs] == last[0]:
            # of sizes that never change, only where the tensors lie is left to see
            ready = last[1]
            addresses = [x.data_ptr() for x in inputs]
            if torch.cuda.current_device() == ready.device and aligned(addresses):
                return self._returned(ready(addresses))
        computed = self.shapes.compute(given)
        key = (computed[3], inputs[0].get_device(), *[x.stride() for x in inputs])
        found = self._ready.get(key)
        if found is not None and torch.cuda.current_device() == found.device:
            addresses = [x.data_ptr() for x in inputs]
            if aligned(addresses):
                return self._returned(found(addresses))
        return self._returned(self._found(given, computed, key))

    def into(self, *given: Any, out: Any) -> None:
        """Writes its one result into a tensor of Inductor's, of the shape and strides of a call's."""
        last = self._last
        if last is not None:
            inputs = given if self._plain else [given[at] for at in self.inputs]
            addresses = [x.data_ptr() for x in (*inputs, out)]
            ready = last[1]
            here = torch.cuda.current_device() == ready.device
            if here and aligned(addresses) and [x.stride() for x in inputs] == last[0]:
                ready.run(addresses)
                return
        out.copy_(self(*given))

    @property
    def result(self) -> tuple[list[int], list[int], torch.dtype] | None:
        """Shape, strides and type of its result, where there is one and its sizes never change."""
        if not self._single or not self.shapes.static:
            return None
        ((shape, strides),) = self.shapes.compute(())[1]
        return shape, strides or list(torch.empty(shape, device="meta").stride()), self._outputs[0]

    def _returned(self, made: Sequence[Any]) -> Any:
        return made[0] if self._single else tuple(made)

    def fake(self, *given: Any) -> Any:
        """Results without elements, of the shapes and strides of a call's."""
        if self.shapes.static:
            kinds = [(s, strides or None) for s, strides in self.shapes.compute(())[1]]
        else:
            own = zip(self.nodes(*given), self.shapes.strided, strict=True)
            kinds = [(x.shape, x.stride() if strided else None) for x, strided in own]
        device = given[self.inputs[0]].device
        made = [
            torch.empty(s, dtype=dtype, device=device)
            if strides is None
            else torch.empty_strided(s, strides, dtype=dtype, device=device)
            for (s, strides), dtype in zip(kinds, self._outputs, strict=True)
        ]
        return self._returned(made)

    def _by_torch(self, given: Sequence[Any], made: Sequence[Any]) -> Sequence[Any]:
        """The nodes one by one, with results that lie as the kernel's would."""
        return [
            x if x.stride() == y.stride() else y.copy_(x)
            for x, y in zip(self.nodes(*given), made, strict=True)
        ]

    def _found(self, given: Sequence[Any], computed: Computed, key: tuple[Any, ...]) -> Sequence[Any]:
        """A call of which not everything is known yet, or whose inputs have to be copied."""
        sizes, shapes, layouts, _ = computed
        device = given[self.inputs[0]].device
        made = [
            torch.empty_strided(s, strides, dtype=dtype, device=device)
            if strides
            else torch.empty(s, dtype=dtype, device=device)
            for (s, strides), dtype in zip(shapes, self._outputs, strict=True)
        ]
        if sizes in self._refused or 0 in sizes:
            return self._by_torch(given, made)
        tensors: dict[str, tuple[Any, Layout]] = {}
        if layouts:
            pairs = zip(self._names, (*(given[at] for at in self.inputs), *made), strict=True)
            tensors = {n: (x, layouts[n]) for n, x in pairs if n in layouts}
        named, apart = self._views(sizes, tensors)
        if not self._kernel.prepared(named, device) and _capturing(device):
            self.region.note("captured before its kernel was compiled for these sizes: torch ran instead")
            return self._by_torch(given, made)
        inputs = [
            stored(given[at], self._turned[k : k + 1] == (True,), name in apart)
            for k, (at, name) in enumerate(zip(self.inputs, self._names, strict=False))
        ]
        # a result whose rows no kernel can write where they belong is copied there
        outputs = [
            torch.empty(x.shape, dtype=x.dtype, device=device) if n in layouts and n not in apart else x
            for n, x in zip(self._names[len(inputs) :], made, strict=True)
        ]
        try:
            self._kernel(named, inputs, outputs)
        except RefusedError as e:
            self._refused.add(sizes)
            self.region.refuse(named, str(e))
            log.warning("%s is left to torch for %s: %s", self.region.name, named, e)
            return self._by_torch(given, made)
        places = [x.data_ptr() for x in inputs]
        if places == [given[at].data_ptr() for at in self.inputs] and all(map(operator.is_, outputs, made)):
            self._keep(key, named, made)
        return [x if x is y else x.copy_(y) for x, y in zip(made, outputs, strict=True)]

    def _keep(self, key: tuple[Any, ...], named: dict[str, int], made: Sequence[Any]) -> None:
        """From now on such a call finds everything ready."""
        bound = getattr(self._kernel, "bound", None)
        if bound is None:
            return
        device = made[0].device
        run = bound(named, device)
        if run is None:
            return
        results = tuple((tuple(x.shape), x.stride(), x.dtype) for x in made)
        if len(self._ready) >= _MOST_READY:
            self._ready.clear()
        self._ready[key] = Ready(run, run.device, _maker(device), results)
        if self.shapes.static:
            self._last = list(key[2:]), self._ready[key]

    def _views(
        self, sizes: tuple[int, ...], tensors: dict[str, tuple[Any, Layout]]
    ) -> tuple[dict[str, int], set[str]]:
        """The sizes with all pitches, and the tensors that stay where they are: found once for all alike."""
        places = tuple((x.stride(), x.data_ptr() % ALIGNMENT) for x, _ in tensors.values())
        found = self._seen.get((sizes, places))
        if found is None:
            named = dict(zip(self.shapes.dims, sizes, strict=True))
            found = views(self._fusion, named, tensors) if tensors else (named, set())
            self._seen[sizes, places] = found
        return found


def aligned(addresses: Sequence[int]) -> bool:
    """Whether all start where kernels read."""
    bits = 0
    for at in addresses:
        bits |= at
    return not bits % ALIGNMENT


def stored(x: Any, turned: bool = False, apart: bool = False) -> Any:
    """A tensor, or its matrices turned, as a kernel reads it: contiguous and aligned, else a copy.

    ``apart``: the kernel reads its rows where they lie.
    """
    x = x.detach() if x.requires_grad else x
    if apart:
        return x
    x = (x.mT if turned else x).contiguous()
    return x.clone() if x.data_ptr() % ALIGNMENT else x


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def prepare(kernel: Kernel, shapes: Shapes, device: torch.device, region: Region) -> None:
    """Compiles for the sizes at hand, so that the first call has nothing left to do; raises RefusedError."""
    if any(shapes.hint[d] == 0 for d in shapes.dims):
        region.note("empty where it was compiled")
        return
    region.status = kernel.prepare(shapes.hint, device)


__all__ = ["Called", "Fused", "Shapes", "called_of", "fixed", "prepare", "shapes_of", "stored"]
