"""Records the launches of Triton and Gluon kernels on a machine without a GPU.

`Tracer.install` puts a driver in place that claims to be an H100. A kernel is then called as ever,
`kernel[grid](...)`; it is compiled, and instead of a launch its PTX and launch facts are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import triton
from emit import Emitter, Launch, Leaf, Size, ptr, tensormap
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.compiler.compiler import CompiledKernel

SMS = 132
MOST_SHARED = 232448
ELEMENT_TYPES = {
    0: "u8",
    1: "u16",
    2: "u32",
    3: "i32",
    4: "u64",
    5: "i64",
    6: "f16",
    7: "f32",
    8: "f32",
    9: "f64",
    10: "bf16",
}
INTEGERS = {
    "i1": "u8",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "u8": "u8",
    "u16": "u16",
    "u32": "u32",
    "u64": "u64",
}


class Tensor:
    """A tensor without memory: what Triton asks of an argument. `values`: integers that steer the kernel."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: str = "float16",
        strides: Sequence[int] | None = None,
        values: Sequence[int] | None = None,
    ):
        self.values = values
        self.shape = tuple(shape)
        self.dtype = _DType(dtype)
        self._strides = tuple(strides) if strides is not None else _row_major(shape)
        self.device = "cuda"

    def data_ptr(self) -> int:
        return 1 << 20

    def stride(self, dim: int | None = None) -> Any:
        return self._strides if dim is None else self._strides[dim]

    def element_size(self) -> int:
        return self.dtype.itemsize

    def numel(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


class _DType:
    def __init__(self, name: str):
        self.name = name
        bits = {"float8_e4m3fn": 8, "float8_e5m2": 8, "bool": 8}.get(name) or int(
            "".join(c for c in name if c.isdigit())
        )
        self.itemsize = bits // 8
        self.is_floating_point = "float" in name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    def __repr__(self) -> str:
        return str(self)

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return str(other) == str(self)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


class _Utils:
    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        return None, None, 0, 0, 1024

    def unload_module(self, module: Any) -> None:
        return None

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": MOST_SHARED,
            "max_num_regs": 65536,
            "multiprocessor_count": SMS,
            "warpSize": 32,
            "sm_clock_rate": 1980000,
            "mem_clock_rate": 2619000,
            "mem_bus_width": 5120,
        }


class _Driver(GPUDriver):
    def __init__(self) -> None:
        self.utils = _Utils()
        self.launcher_cls = lambda src, metadata: None
        self.get_current_device = lambda: 0
        self.set_current_device = lambda device: None
        self.get_current_stream = lambda device: 0
        self.get_device_capability = lambda device=0: (9, 0)

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        return lambda call, quantiles=(), **kw: [1.0 for _ in quantiles] or 1.0

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_empty_cache_for_benchmark(self) -> Any:
        return None

    def clear_cache(self, cache: Any) -> None:
        return None

    def get_device_interface(self) -> Any:
        raise RuntimeError("no device")


class Tracer:
    """Writes what is launched into an `Emitter`; `name` says how the next kernel is called."""

    def __init__(self, emitter: Emitter):
        self.emitter = emitter
        self.name: Callable[[str], str] = lambda kernel: kernel
        self.covers: Sequence[str] = ()
        self._seen: set[str] = set()

    def install(self) -> None:
        triton.runtime.driver.set_active(_Driver())
        triton.set_allocator(lambda size, align, stream: Tensor([size], "int8"))
        tracer = self

        def start(kernel: CompiledKernel) -> None:
            if kernel._run is None:
                kernel._run = lambda *args: tracer.launched(kernel, args[:3], args[9:])

        CompiledKernel._init_handles = start

    def case(self, name: str, call: Callable[[], Any], covers: Sequence[str] = ()) -> None:
        """Runs `call`, whose launches are called `name` (and `name_2`, ...); a failure is recorded."""
        self.name, self.covers = (lambda kernel: name), covers
        before = len(self.emitter.rows)
        try:
            call()
            if len(self.emitter.rows) == before:
                raise RuntimeError("nothing was launched")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            if len(self.emitter.rows) == before:
                self.emitter.failed(name, error)

    def launched(self, kernel: CompiledKernel, grid: Sequence[int], args: Sequence[Any]) -> None:
        text = kernel.asm["ptx"]
        if text in self._seen:
            return
        self._seen.add(text)
        if kernel.metadata.shared > MOST_SHARED:
            raise RuntimeError(
                f"{kernel.metadata.shared} bytes of shared memory: no launch on sm_90 has them"
            )
        name = base = self.name(kernel.name)
        number = 1
        while any(row["kernel"] == name for row in self.emitter.rows):
            number += 1
            name = f"{base}_{number}"
        self.emitter.kernel(name, text, launch_of(kernel, grid, args), self.covers)


def launch_of(kernel: CompiledKernel, grid: Sequence[int], args: Sequence[Any]) -> Launch:
    """The launch facts; sizes are the integer arguments that the compiler did not fix."""
    meta = kernel.metadata
    leaves: list[Leaf] = []
    assume: list[str] = []
    maps = list(getattr(meta, "tensordesc_meta", None) or [])
    signature = dict(kernel.src.signature)
    for index, ((name, type_), value) in enumerate(zip(signature.items(), args, strict=True)):
        attrs = dict(kernel.src.attrs.get((index,), []))
        leaves += _leaves(name, type_, value, maps, 16 if attrs.get("tt.divisibility") == 16 else 1, assume)
    leaves += [ptr("global_scratch"), ptr("profile_scratch")]
    ctas = meta.num_ctas
    return Launch(
        block=(meta.num_warps * 32, 1, 1),
        grid=(grid[0] * ctas, grid[1], grid[2]),
        cluster=(ctas, 1, 1),
        dynamic_smem=meta.shared,
        params=dict(enumerate(leaves)),
        assume=tuple(assume),
    )


def _leaves(
    name: str, type_: Any, value: Any, maps: list[dict[str, Any]], divisor: int, assume: list[str]
) -> Iterable[Leaf]:
    if isinstance(type_, tuple):
        for i, (part, item) in enumerate(zip(type_, value, strict=True)):
            yield from _leaves(f"{name}_{i}", part, item, maps, 1, assume)
    elif type_ == "constexpr":
        return
    elif type_.startswith("tensordesc"):
        yield _descriptor(name, maps.pop(0))
        for i, extent in enumerate(value.shape):
            yield _size(f"{name}_shape{i}", "i32", extent, 1, assume)
        for i, stride in enumerate(value.strides):
            yield _size(f"{name}_stride{i}", "i64", stride, 1, assume)
    elif type_.startswith("*"):
        values = getattr(value, "values", None)
        yield ptr(name, (type_[1:], values) if values is not None else None)
    elif type_ in INTEGERS:
        yield _size(name, INTEGERS[type_], int(value), divisor, assume)
    else:
        yield Leaf({"fp16": "f16", "fp32": "f32", "fp64": "f64"}.get(type_, type_), float(value))


def _size(name: str, kind: str, value: int, divisor: int, assume: list[str]) -> Leaf:
    assume.append(f"{name} >= 1")
    if divisor > 1:
        assume.append(f"{name} % {divisor} == 0")
    return Leaf(kind, Size(name, value))


def _descriptor(name: str, meta: dict[str, Any]) -> Leaf:
    dtype = ELEMENT_TYPES[meta["elem_type"]]
    return tensormap(name, dtype, list(reversed(meta["block_size"])), _swizzle_bytes(meta["swizzle"]))


def _swizzle_bytes(mode: int) -> int:
    return {0: 0, 1: 32, 2: 64, 3: 128}[mode]
