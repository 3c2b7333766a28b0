"""Arrays of torch, CuPy, JAX and NumPy as one thing: address, shape, type, device, stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncverify.base.source import InputError

#: Names of element types in NumPy's, torch's and the array interface's spelling.
_DTYPES = {
    "float32": "f32", "bfloat16": "bf16", "float16": "f16", "torch.float32": "f32", "torch.bfloat16": "bf16",
    "torch.float16": "f16", "<f4": "f32", "<f2": "f16", "int32": "i32", "int64": "i64", "torch.int32": "i32",
    "torch.int64": "i64", "<i4": "i32", "<i8": "i64", "bool": "bool", "torch.bool": "bool", "|b1": "bool",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "torch.float8_e4m3fn": "e4m3",
    "torch.float8_e5m2": "e5m2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Memory of a GPU that an array names. ``owner`` keeps it alive; ``device`` is None for host memory.

    ``strides``: in elements, for arrays that are not contiguous; () where they are not known.
    """

    owner: Any
    address: int
    shape: tuple[int, ...]
    dtype: str
    device: int | None
    contiguous: bool
    library: str
    strides: tuple[int, ...] = ()


def describe(array: Any) -> DeviceArray:
    """What an array is; raises InputError for objects of no known kind."""
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if isinstance(array, np.ndarray):
        return DeviceArray(
            array,
            array.ctypes.data,
            array.shape,
            _dtype(array.dtype),
            None,
            array.flags.c_contiguous,
            "numpy",
            tuple(s // array.itemsize for s in array.strides),
        )
    kind = type(array).__module__.split(".")[0]
    if kind == "torch":
        device = int(array.device.index or 0) if array.is_cuda else None
        shape = tuple(int(s) for s in array.shape)
        return DeviceArray(
            array,
            int(array.data_ptr()),
            shape,
            _dtype(array.dtype),
            device,
            bool(array.is_contiguous()),
            "torch",
            tuple(int(s) for s in array.stride()),
        )
    if hasattr(array, "__cuda_array_interface__"):
        facts = array.__cuda_array_interface__
        shape = tuple(int(s) for s in facts["shape"])
        owner = int(getattr(getattr(array, "device", None), "id", 0))
        steps = facts.get("strides")
        size = int(facts["typestr"][2:])
        strides = () if steps is None else tuple(int(s) // size for s in steps)
        address, dtype = int(facts["data"][0]), _dtype(facts["typestr"])
        return DeviceArray(array, address, shape, dtype, owner, steps is None, kind, strides)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, kind)
    raise InputError(f"cannot use an object of type {type(array).__name__} as an array")


def _from_dlpack(array: Any, kind: str) -> DeviceArray:
    """A DLPack exporter (JAX among them), through whichever of torch and CuPy is loaded."""
    for name in ("torch", "cupy"):
        library = sys.modules.get(name)
        if library is not None:
            view = library.from_dlpack(array) if hasattr(library, "from_dlpack") else None
            if view is not None:
                return describe(view)
    raise InputError(f"{kind}: import torch or cupy to pass DLPack arrays")


def _dtype(dtype: Any) -> str:
    return _DTYPES.get(str(dtype), str(dtype))


#: What each library calls the types that it has.
_TORCH = {
    "f32": "float32", "bf16": "bfloat16", "f16": "float16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "i32": "int32", "bool": "bool",
}  # fmt: skip
_CUPY = {"f32": "float32", "f16": "float16", "i32": "int32", "bool": "bool"}
_ML_DTYPES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def turned(array: Any) -> Any:
    """The same memory with the last two dimensions in the other order."""
    return array.swapaxes(-2, -1)


def empty_like(model: DeviceArray, shape: tuple[int, ...], dtype: str) -> Any:
    """A new array of the same library and device."""
    if model.library == "torch":
        return empty_torch(shape, dtype, model.owner.device)
    if model.library == "cupy":
        cupy = sys.modules["cupy"]
        if dtype not in _CUPY:
            raise InputError(f"CuPy has no type {dtype}: pass torch or NumPy arrays")
        return cupy.empty(shape, dtype=_CUPY[dtype])
    if model.library == "numpy":
        if dtype in _ML_DTYPES:
            import ml_dtypes

            return np.empty(shape, dtype=getattr(ml_dtypes, _ML_DTYPES[dtype]))
        return np.empty(shape, dtype=_CUPY[dtype])
    raise InputError(f"cannot create {model.library} arrays: pass out=")


def empty_torch(shape: tuple[int, ...], dtype: str, device: Any) -> Any:
    """A new array of torch, which the caller's arrays have loaded."""
    torch = sys.modules["torch"]
    return torch.empty(shape, dtype=getattr(torch, _TORCH[dtype]), device=device)


def current_stream(model: DeviceArray) -> int:
    """The stream that the array's library would use now; 0 is CUDA's default stream."""
    if model.library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(model.device).cuda_stream)
    if model.library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0
