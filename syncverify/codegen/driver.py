"""The CUDA driver: loading cubins, memory, streams. Only ``packed.py`` and tensor maps call it besides."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from syncverify.base.source import InputError

#: A kernel that does nothing: the driver is asked about its launches.
_NOTHING = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n\0"
NO_DRIVER = "no CUDA driver: run on the simulator instead (syncverify run does so by itself)"


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel loaded into the current context, ready for launches with that much shared memory."""

    handle: Any
    module: Any
    shared_bytes: int


def available() -> bool:
    """Whether a driver and at least one device are there."""
    try:
        driver = _driver()
    except InputError:
        return False
    status, count = driver.cuDeviceGetCount()
    return int(status) == 0 and int(count) > 0


@lru_cache(maxsize=1)
def _driver() -> Any:
    try:
        from cuda.bindings import driver

        (status,) = driver.cuInit(0)
    except (ImportError, RuntimeError, OSError):
        raise InputError(NO_DRIVER) from None
    if int(status) != 0:
        raise InputError(f"{NO_DRIVER} ({status.name})")
    return driver


def checked(answer: tuple[Any, ...], doing: str) -> Any:
    """The value of a driver call, or InputError with what failed."""
    status, *values = answer
    if int(status) != 0:
        raise InputError(f"CUDA: {doing} failed: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


@lru_cache(maxsize=8)
def _context(device: int) -> Any:
    driver = _driver()
    handle = checked(driver.cuDeviceGet(device), f"selecting device {device}")
    return checked(driver.cuDevicePrimaryCtxRetain(handle), f"opening device {device}")


def context(device: int) -> int:
    """The primary context of a device, as a number."""
    return int(_context(device))


def error(status: int) -> str:
    """The name of what a driver's function returned."""
    found: str = _driver().CUresult(status).name
    return found


def use_device(device: int) -> None:
    """Makes the device's primary context (the one torch and CuPy use) current."""
    checked(_driver().cuCtxSetCurrent(_context(device)), f"using device {device}")


@lru_cache(maxsize=8)
def multiprocessors(device: int) -> int:
    """The number of SMs; raises InputError if the device is no Hopper."""
    driver = _driver()
    handle = checked(driver.cuDeviceGet(device), f"selecting device {device}")
    attribute = driver.CUdevice_attribute
    major = checked(
        driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle), "asking"
    )
    if int(major) != 9:
        raise InputError(f"device {device} has compute capability {major}.x; these kernels need 9.0 (Hopper)")
    return int(
        checked(
            driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle), "asking"
        )
    )


@lru_cache(maxsize=8)
def device_name(device: int) -> str:
    """What the driver calls a device."""
    driver = _driver()
    handle = checked(driver.cuDeviceGet(device), f"selecting device {device}")
    name: bytes = checked(driver.cuDeviceGetName(128, handle), "asking for the name")
    return name.split(b"\0")[0].decode()


@lru_cache(maxsize=8)
def clusters_at_once(device: int, blocks: int, shared_bytes: int) -> int:
    """How many clusters of so many blocks run at one time, if a block needs so many bytes of shared memory.

    A cluster lies in one group of SMs, and cards of one name differ in how many SMs each group has.
    """
    driver = _driver()
    with _outside_of_captures():
        nothing = load(_NOTHING, "nothing", shared_bytes, device)
        asked = driver.CUlaunchConfig()
        asked.gridDimX, asked.gridDimY, asked.gridDimZ = blocks, 1, 1
        asked.blockDimX, asked.blockDimY, asked.blockDimZ = 128, 1, 1
        asked.sharedMemBytes = shared_bytes
        cluster = driver.CUlaunchAttribute()
        cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = cluster.value.clusterDim
        size.x, size.y, size.z = blocks, 1, 1
        asked.attrs, asked.numAttrs = [cluster], 1
        answer = driver.cuOccupancyMaxActiveClusters(nothing.handle, asked)
        found = int(checked(answer, "asking for clusters"))
        checked(driver.cuModuleUnload(nothing.module), "unloading")
    return found


def load(cubin: bytes, name: str, shared_bytes: int, device: int) -> Function:
    """Loads a kernel on a device and allows it its dynamic shared memory."""
    use_device(device)
    driver = _driver()
    module = checked(driver.cuModuleLoadData(cubin), f"loading {name}")
    handle = checked(driver.cuModuleGetFunction(module, name.encode()), f"finding {name}")
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    checked(
        driver.cuFuncSetAttribute(handle, limit, shared_bytes), f"reserving {shared_bytes} bytes for {name}"
    )
    return Function(handle, module, shared_bytes)


def launch(
    function: Function,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: Sequence[tuple[Any, Any]],
    stream: int,
) -> None:
    """Enqueues one launch; ``arguments`` are (value, ctypes type) pairs in the kernel's order.

    For experiments: what the gate launches often is packed (``packed.py``).
    """
    values = tuple(v for v, _ in arguments)
    types = tuple(t for _, t in arguments)
    checked(
        _driver().cuLaunchKernel(
            function.handle, *grid, *block, function.shared_bytes, stream, (values, types), 0
        ),
        "the launch",
    )


def synchronize(stream: int) -> None:
    checked(_driver().cuStreamSynchronize(stream), "waiting for the kernel")


def allocate(size: int) -> int:
    return int(checked(_driver().cuMemAlloc(max(size, 16)), f"allocating {size} bytes"))


def clear(address: int, size: int, stream: int) -> None:
    """Enqueues zeros for so many bytes."""
    checked(_driver().cuMemsetD8Async(address, 0, size, stream), "clearing memory")


def zeroed(size: int) -> int:
    """New memory full of zeros, also where a stream is being captured: nothing of this becomes part of it."""
    driver = _driver()
    with _outside_of_captures():
        address = allocate(size)
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        own = checked(driver.cuStreamCreate(int(flags)), "making a stream")
        checked(driver.cuMemsetD8Async(address, 0, max(size, 16), own), "clearing memory")
        checked(driver.cuStreamSynchronize(own), "clearing memory")
        checked(driver.cuStreamDestroy(own), "clearing memory")
    return address


@contextmanager
def _outside_of_captures() -> Iterator[None]:
    """What this thread asks of the driver meanwhile disturbs no capture of a stream."""
    driver = _driver()
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = checked(driver.cuThreadExchangeStreamCaptureMode(relaxed), "leaving captures alone")
    try:
        yield
    finally:
        checked(driver.cuThreadExchangeStreamCaptureMode(before), "leaving captures alone")


def capture(stream: int) -> int:
    """The number of the capture that a stream is in; 0 outside of any."""
    if stream == 0:
        return 0
    driver = _driver()
    status, state, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    return int(number) if checked((status, state), "asking for captures") == active else 0


def free_all(addresses: Iterable[int]) -> None:
    """Gives memory back; a context that a kernel broke cannot, and what broke it is already reported."""
    for address in addresses:
        _driver().cuMemFree(address)


def copy_in(address: int, host: Any) -> None:
    """From a contiguous NumPy array to the device."""
    if host.nbytes:
        checked(_driver().cuMemcpyHtoD(address, host.ctypes.data, host.nbytes), "copying to the device")


def copy_out(host: Any, address: int) -> None:
    """From the device into a contiguous NumPy array."""
    if host.nbytes:
        checked(_driver().cuMemcpyDtoH(host.ctypes.data, address, host.nbytes), "copying from the device")


POINTER = ctypes.c_void_p
INTEGERS = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64}
