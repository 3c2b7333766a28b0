"""A compiled fusion on random inputs, beside its reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.fusion.graph import Fusion

if TYPE_CHECKING:
    from syncverify.gate import CompiledKernel
    from syncverify.gate.sequence import CompiledSequence


@dataclass(frozen=True, slots=True)
class RunResult:
    """What ``run`` did: where it ran, the results, and how far they are from the reference."""

    backend: str
    outputs: tuple[Any, ...]
    reference: tuple[Any, ...]
    largest_error: float
    equal: bool


#: Elements of the largest tensor of a trial run: the reference takes several copies in float64.
MOST_ELEMENTS = 2**28
#: Relative tolerance against the NumPy reference, by element type.
TOLERANCE = {
    "f32": 1e-5, "bf16": 2.0**-7, "f16": 2.0**-10, "e4m3": 2.0**-3, "e5m2": 2.0**-2, "i32": 0.0, "bool": 0.0,
}  # fmt: skip


def run(kernel: CompiledKernel | CompiledSequence, sizes: Mapping[str, int], seed: int = 0) -> RunResult:
    """Executes on random inputs, on the GPU if there is one, else in the simulator, and compares."""
    elements = _elements(kernel.fusion, sizes)
    if elements > MOST_ELEMENTS:
        shown = ", ".join(f"{d} = {sizes[d]}" for d in kernel.fusion.dims)
        raise InputError(f"{shown}: {elements} elements, of a trial run at most {MOST_ELEMENTS}")
    inputs = kernel.fusion.random_inputs(sizes, seed)
    reference = kernel.fusion.reference(inputs)
    if driver.available():
        result = kernel(**inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        return compared(kernel.fusion, "gpu", outputs, reference)
    return compared(kernel.fusion, "simulator", kernel.simulate(inputs, sizes), reference)


def _elements(fusion: Fusion, sizes: Mapping[str, int]) -> int:
    """Of all inputs, of all outputs, and of what the reference makes in between."""
    shapes = [t.dims for _, t in fusion.inputs] + [o.dims for o in fusion.outputs]
    return max(math.prod(sizes[d] for d in dims if d in sizes) for dims in [*shapes, fusion.dims])


def compared(fusion: Fusion, backend: str, outputs: tuple[Any, ...], reference: tuple[Any, ...]) -> RunResult:
    """The largest relative error of a run, and whether each output is as near as its type allows."""
    largest = 0.0
    equal = True
    for o, got, want in zip(fusion.outputs, outputs, reference, strict=True):
        a, b = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(a - b) / np.maximum(np.abs(b), 1.0))
        worst = float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0))
        largest = max(largest, worst)
        equal = equal and worst <= TOLERANCE[o.dtype]
    return RunResult(backend, outputs, reference, largest, equal)


__all__ = ["TOLERANCE", "RunResult", "compared", "run"]
