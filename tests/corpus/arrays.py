"""Input arrays for corpus kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import Kernel

Array = np.ndarray[Any, np.dtype[Any]]

_NUMPY = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "i8": np.dtype(np.int8),
          "i32": np.dtype(np.int32), "u32": np.dtype(np.uint32)}  # fmt: skip


def defaults(kernel: Kernel) -> dict[str, int]:
    """The launch values that the file states."""
    return {p.name: p.default for p in kernel.params if p.default is not None}


def arrays(kernel: Kernel, values: Mapping[str, int], seed: int = 1) -> dict[str, Array]:
    """Random inputs, zeros where a kernel reads and writes, NaN (or zero) in what it only writes."""
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for t in kernel.tensors:
        shape, dtype = tuple(evaluate(s, values) for s in t.shape), _NUMPY[t.dtype]
        if t.mode == "in":
            made[t.name] = (rng.random(shape) * (8 if dtype.kind in "iu" else 1)).astype(dtype)
        else:
            fill = np.nan if t.mode == "out" and dtype.kind not in "iu" else 0
            made[t.name] = np.full(shape, fill, dtype)
    return made
