"""The arrays of a call: checked against what a fusion takes, and made for its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from syncverify.base.source import InputError
from syncverify.codegen.arrays import DeviceArray, describe, empty_like
from syncverify.fusion.graph import Fusion
from syncverify.fusion.row_strides import pitch, pitches
from syncverify.ir.nodes import DTYPE_BYTES


def named_arrays(
    fusion: Fusion, arrays: Sequence[Any], named: Mapping[str, Any]
) -> Mapping[str, Any] | Sequence[Any]:
    if arrays and named:
        raise InputError(f"{fusion.name}: give the inputs either in order or by name")
    return named or arrays


def input_array(fusion: Fusion, name: str, array: Any) -> DeviceArray:
    t = dict(fusion.inputs)[name]
    return _checked(fusion, name, describe(array), t.dtype, t.apart)


def array_pitches(fusion: Fusion, inputs: Mapping[str, DeviceArray]) -> dict[str, int]:
    """How far rows of arrays lie apart, where they may."""
    types = dict(fusion.inputs)
    return {
        pitch(n, d): step
        for n in pitches(fusion)
        if not inputs[n].contiguous
        for d, step, size in zip(types[n].dims[:-1], inputs[n].strides, inputs[n].shape, strict=False)
        if size > 1
    }


def spread(fusion: Fusion, name: str, array: Any) -> Any:
    """An array as its kernel sees it: all that lies from its first to its last element."""
    if name not in pitches(fusion):
        return array
    last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return np.lib.stride_tricks.as_strided(array, (last // array.itemsize + 1,), (array.itemsize,))


def _checked(fusion: Fusion, name: str, array: DeviceArray, dtype: str, apart: bool = False) -> DeviceArray:
    if array.dtype != dtype:
        raise InputError(f"{fusion.name}: {name} has elements of type {array.dtype}, expected {dtype}")
    rows = apart and array.strides[-1:] == (1,) and min(array.strides) >= 0 and array.library != "numpy"
    if not array.contiguous and not rows:
        raise InputError(f"{fusion.name}: {name} is not contiguous; pass a contiguous copy")
    if array.device is not None and array.address % 16:
        raise InputError(
            f"{fusion.name}: {name} does not start at a multiple of 16 bytes, as bulk copies need"
        )
    return array


def result_arrays(
    fusion: Fusion, model: DeviceArray, sizes: Mapping[str, int], out: Any
) -> dict[str, DeviceArray]:
    shapes = {o.name: tuple(sizes[d] for d in o.dims) for o in fusion.outputs}
    if out is None:
        return {o.name: describe(empty_like(model, shapes[o.name], o.dtype)) for o in fusion.outputs}
    given = out if isinstance(out, (tuple, list)) else (out,)
    if len(given) != len(fusion.outputs):
        raise InputError(f"{fusion.name} has {len(fusion.outputs)} outputs; out holds {len(given)}")
    results = {}
    for o, array in zip(fusion.outputs, given, strict=True):
        result = _checked(fusion, o.name, describe(array), o.dtype)
        if result.shape != shapes[o.name]:
            raise InputError(f"{fusion.name}: {o.name} has shape {result.shape}, expected {shapes[o.name]}")
        results[o.name] = result
    return results


def extent(array: DeviceArray) -> int:
    """Bytes from an array's first element to the end of its last."""
    if not math.prod(array.shape):
        return 0
    apart = not array.contiguous and len(array.strides) == len(array.shape)
    last = sum((n - 1) * abs(s) for n, s in zip(array.shape, array.strides, strict=True)) if apart else 0
    return (last + 1 if apart else math.prod(array.shape)) * DTYPE_BYTES[array.dtype]


def refuse_shared(called: str, inputs: Mapping[str, DeviceArray], results: Mapping[str, DeviceArray]) -> None:
    """InputError where a result shares memory with another array: what is proved is proved of arrays that lie
    apart. Host arrays are copied, each to memory of its own."""
    arrays = [
        (n, a.address, a.address + extent(a))
        for n, a in {**inputs, **results}.items()
        if a.device is not None
    ]
    for name, low, high in arrays:
        if name in results:
            other = next((n for n, lo, hi in arrays if n != name and low < hi and lo < high), None)
            if other is not None:
                raise InputError(
                    f"{called}: {name} shares memory with {other}; the kernel is proved for arrays that lie "
                    "apart: pass another out, or a copy"
                )


def device_of(arrays: Mapping[str, DeviceArray]) -> int | None:
    devices = {a.device for a in arrays.values()}
    if len(devices) != 1:
        listed = ", ".join(
            f"{n} on {'host' if a.device is None else f'device {a.device}'}" for n, a in arrays.items()
        )
        raise InputError(f"arrays are on different devices: {listed}")
    (device,) = devices
    if device is None and any(a.library != "numpy" for a in arrays.values()):
        raise InputError("arrays are in host memory: move them to the GPU, or pass NumPy arrays")
    return device


__all__ = [
    "array_pitches", "device_of", "extent", "input_array", "named_arrays", "refuse_shared", "result_arrays",
    "spread",
]  # fmt: skip
