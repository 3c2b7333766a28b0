"""What a kernel computes as PTX: emitted, compiled by NVRTC, and executed by the reader of PTX.

``run`` has the signature of the simulator of the IR, so that whatever simulates a kernel can execute its PTX
instead. The two share no semantics: wrong CUDA, a helper that is not exact enough, and what the compiler
makes of either show here alone. The assembler that follows may do more: ``contracted`` is what it may make of
products that are added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from syncverify.base.nvrtc import compile_source
from syncverify.codegen.cuda import emit
from syncverify.codegen.names import entry_name
from syncverify.codegen.tensor_maps import pointers
from syncverify.fusion.functions import numpy_dtype
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import evaluate
from syncverify.ir.layout import layout
from syncverify.ir.nodes import DTYPE_BYTES, GridDepWait, Kernel
from syncverify.simulate.ptx import Buffer, Launch, TensorMap
from syncverify.simulate.ptx import run as execute

#: Warp instructions of one execution.
MOST_STEPS = 3_000_000
_SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_DTYPES = {"u32": np.uint32, "tf32": np.float32}


@lru_cache(maxsize=64)
def ptx(source: str, name: str) -> str:
    return compile_source(source, name, "ptx").code.rstrip(b"\0").decode()


def run(
    kernel: Kernel, values: Mapping[str, int], arrays: Mapping[str, Any], *, contract: bool = False
) -> dict[str, Any]:
    """The arrays after the kernel; AssertionError for a race, a hang or undefined behaviour."""
    text = ptx(emit(kernel), kernel.name)
    buffers = {t.name: _buffer(t, values, arrays.get(t.name)) for t in kernel.tensors}
    params: list[Any] = [buffers[t.name] for t in pointers(kernel)]
    params += [_map(kernel, m, buffers[m.tensor], values) for m in kernel.maps]
    params += [int(values[p.name]) for p in kernel.params]
    x, y, z = (evaluate(e, values) for e in kernel.launch.grid)
    launch = Launch(
        kernel.launch.block, (x, y, z), kernel.launch.cluster, layout(kernel, {}).size, tuple(params),
        dependent="all" if any(isinstance(s, GridDepWait) for s in statements(kernel.body)) else "",
        registers=kernel.launch.registers or 0,
    )  # fmt: skip
    text = contracted(text) if contract else text
    result = execute(text, entry_name(kernel.name), launch, seed=1, limit=MOST_STEPS)
    assert result.harm is None, result.harm
    assert not result.limit, "too many steps"
    passed = [p.buffer if isinstance(p, TensorMap) else p for p in params]
    return {name: result.memory(b) if b in passed else b.data for name, b in buffers.items()}


_MADE = re.compile(r"^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s+(%\w+|\{[^}]*\})", re.M)
_PRODUCT = re.compile(r"^\s*mul\.f32\s+(%f\d+), (\S+), (\S+);", re.M)
_SUM = re.compile(r"^(\s*)(add|sub)\.f32\s+(%f\d+), (\S+), (\S+);", re.M)


def contracted(text: str) -> str:
    """Every sum of a product that names no rounding as one multiply-add, as an assembler may make it."""
    made = Counter(register for m in _MADE.finditer(text) for register in re.findall(r"%f\d+", m[1]))
    products = {d: (a, b) for d, a, b in _PRODUCT.findall(text) if all(made[x] < 2 for x in (d, a, b))}

    def joined(m: re.Match[str]) -> str:
        pad, op, to, x, y = m.groups()
        for product, other, first in ((x, y, True), (y, x, False)):
            if product in products:
                a, b = products[product]
                turned = other if first else a
                a, other = (
                    ("%minus", other)
                    if not first and op == "sub"
                    else (a, "%minus" if op == "sub" else other)
                )
                minus = f"neg.f32 %minus, {turned}; " if op == "sub" else ""
                return f"{pad}{{ .reg .f32 %minus; {minus}fma.rn.f32 {to}, {a}, {b}, {other}; }}"
        return m[0]

    return _SUM.sub(joined, text)


def _buffer(tensor: Any, values: Mapping[str, int], given: Any) -> Buffer:
    shape = tuple(evaluate(e, values) for e in tensor.shape)
    dtype = np.dtype(_DTYPES.get(tensor.dtype) or numpy_dtype(tensor.dtype))
    data = np.zeros(shape, dtype) if given is None else np.array(given, order="C").reshape(shape)
    assert data.dtype.itemsize == DTYPE_BYTES[tensor.dtype]
    return Buffer(data.view(dtype))


def _map(kernel: Kernel, m: Any, memory: Buffer, values: Mapping[str, int]) -> TensorMap:
    tensor = next(t for t in kernel.tensors if t.name == m.tensor)
    shape = [evaluate(e, values) for e in tensor.shape]
    strides = [DTYPE_BYTES[tensor.dtype]]
    for extent in reversed(shape):
        strides.append(strides[-1] * extent)
    kind = {"e4m3": "u8", "e5m2": "u8", "bool": "u8", "i8": "u8", "i32": "s32", "i64": "s64"}
    return TensorMap(
        memory, tuple(reversed(shape)), tuple(strides[1:-1]), tuple(reversed(m.box)),
        kind.get(tensor.dtype, tensor.dtype), _SWIZZLES[m.swizzle],
    )  # fmt: skip


__all__ = ["contracted", "ptx", "run"]
