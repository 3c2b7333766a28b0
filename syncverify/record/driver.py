"""Arguments of the calls of the CUDA driver that launch kernels, load code and encode tensor maps.

The structures are those that CUPTI hands over (``generated_cuda_meta.h`` of the CUDA toolkit): the arguments
of each call, in order. Types and numbers are those of ``cuda.h``.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Protocol

#: CUtensorMapDataType, as launch files name the types.
ELEMENTS = (
    "u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16", "f32", "tf32", "tf32",
)  # fmt: skip
#: CUtensorMapSwizzle.
SWIZZLES = ("none", "32B", "64B", "128B")
#: CUlaunchAttributeID of the sizes of a cluster.
CLUSTER_DIMENSION = 4
#: CUfunction_attribute, CUpointer_attribute.
NUM_REGS, MEMORY_TYPE = 4, 2
#: Width, height and depth of the cluster that a function is compiled or set for, 0 if it is not.
REQUIRED_CLUSTER = (11, 12, 13)
#: What precedes the parts of a buffer of parameters.
BUFFER_POINTER, BUFFER_SIZE = 1, 2


class Dim3(Structure):
    _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))

    def dims(self) -> tuple[int, int, int]:
        return self.x, self.y, self.z


class LaunchAttribute(Structure):
    """CUlaunchAttribute: its value is a union of 64 bytes."""

    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_uint * 16))


class LaunchConfig(Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", Dim3), ("block", Dim3), ("dynamic_smem", c_uint), ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)), ("count", c_uint),
    )  # fmt: skip


class LaunchKernel(Structure):
    """cuLaunchKernel, and cuLaunchCooperativeKernel, which has no ``extra``."""

    _fields_ = (
        ("function", c_void_p), ("grid", Dim3), ("block", Dim3), ("dynamic_smem", c_uint),
        ("stream", c_void_p), ("params", POINTER(c_void_p)), ("extra", POINTER(c_void_p)),
    )  # fmt: skip


class LaunchKernelEx(Structure):
    _fields_ = (
        ("config", POINTER(LaunchConfig)), ("function", c_void_p), ("params", POINTER(c_void_p)),
        ("extra", POINTER(c_void_p)),
    )  # fmt: skip


class Load(Structure):
    """cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary, cuLibraryLoadData: what begins them."""

    _fields_ = (("module", POINTER(c_void_p)), ("image", c_void_p))


class GetFunction(Structure):
    """cuModuleGetFunction and cuLibraryGetKernel."""

    _fields_ = (("function", POINTER(c_void_p)), ("module", c_void_p), ("name", c_char_p))


class OfKernel(Structure):
    """cuKernelGetFunction: the function of a kernel."""

    _fields_ = (("function", POINTER(c_void_p)), ("kernel", c_void_p))


class EncodeTiled(Structure):
    """cuTensorMapEncodeTiled."""

    _fields_ = (
        ("map", c_void_p), ("dtype", c_int), ("rank", c_uint32), ("address", c_void_p),
        ("dims", POINTER(c_uint64)), ("strides", POINTER(c_uint64)), ("box", POINTER(c_uint32)),
        ("element_strides", POINTER(c_uint32)), ("interleave", c_int), ("swizzle", c_int),
        ("promotion", c_int), ("fill", c_int),
    )  # fmt: skip


class Driver(Protocol):
    """What is asked of the driver at a launch."""

    def param_sizes(self, function: int) -> list[tuple[int, int]] | None:
        """Offset and size of each parameter, in bytes; None if the driver does not say."""

    def registers(self, function: int) -> int:
        """Registers per thread at entry; 0 if the driver does not say."""

    def cluster(self, function: int) -> tuple[int, ...]:
        """The cluster of a launch that gives none; () if the driver does not say."""

    def is_address(self, value: int) -> bool:
        """Whether a number is an address that the driver knows."""


class LibCuda:
    """The driver itself."""

    def __init__(self) -> None:
        """Raises OSError where there is none."""
        self.lib = ctypes.CDLL("libcuda.so.1")

    def param_sizes(self, function: int) -> list[tuple[int, int]] | None:
        for name in ("cuFuncGetParamInfo", "cuKernelGetParamInfo"):
            ask = getattr(self.lib, name, None)
            found: list[tuple[int, int]] = []
            offset, size = c_size_t(), c_size_t()
            handle = c_void_p(function)
            # the first call fails for a handle of the other kind, and where there are no parameters
            while ask and not ask(handle, c_size_t(len(found)), ctypes.byref(offset), ctypes.byref(size)):
                found.append((offset.value, size.value))
            if found:
                return found
        return None if getattr(self.lib, "cuFuncGetParamInfo", None) is None else []

    def registers(self, function: int) -> int:
        value = c_int()
        failed = self.lib.cuFuncGetAttribute(ctypes.byref(value), NUM_REGS, c_void_p(function))
        return 0 if failed else value.value

    def cluster(self, function: int) -> tuple[int, ...]:
        found: list[int] = []
        for attribute in REQUIRED_CLUSTER:
            value = c_int()
            if self.lib.cuFuncGetAttribute(ctypes.byref(value), attribute, c_void_p(function)):
                return ()
            found.append(max(value.value, 1))
        return tuple(found)

    def is_address(self, value: int) -> bool:
        kind = c_uint()
        return not self.lib.cuPointerGetAttribute(ctypes.byref(kind), MEMORY_TYPE, c_uint64(value))
