"""Triton on a machine without a GPU: kernels are compiled for an H100, and their launches do nothing.

A driver stands in for the GPU's. It answers what Triton asks before it compiles; what a kernel would have
computed is not there, so a program that looks at results sees what lay in its tensors before.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from syncverify.watch.on_import import when_imported
from syncverify.watch.replaced import Undo, wrap

#: Of an H100: compute capability, multiprocessors, bytes of shared memory of a block.
CAPABILITY, MULTIPROCESSORS, MOST_SHARED = 90, 132, 232448


class _Utils:
    def load_binary(self, *_args: Any) -> tuple[Any, ...]:
        return None, None, 0, 0, 1024

    def unload_module(self, _module: Any) -> None:
        return None

    def get_device_properties(self, _device: int) -> dict[str, int]:
        return {
            "max_shared_mem": MOST_SHARED,
            "max_num_regs": 65536,
            "multiprocessor_count": MULTIPROCESSORS,
            "warpSize": 32,
            "sm_clock_rate": 1980000,
            "mem_clock_rate": 2619000,
            "mem_bus_width": 5120,
        }


def _driver(base: type, target: Any) -> Any:
    """A driver of Triton's own class that launches nothing."""

    class StandIn(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.utils = _Utils()
            self.launcher_cls = lambda src, metadata: lambda *args, **named: None
            self.get_current_device = lambda: 0
            self.set_current_device = lambda device: None
            self.get_current_stream = lambda device: 0
            self.get_device_capability = lambda device=0: divmod(CAPABILITY, 10)

        @staticmethod
        def is_active() -> bool:
            return True

        def get_current_target(self) -> Any:
            return target

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cpu")

        def get_benchmarker(self) -> Any:
            return lambda call, quantiles=(), **named: [1.0 for _ in quantiles or (0,)]

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_empty_cache_for_benchmark(self) -> Any:
            return None

        def clear_cache(self, cache: Any) -> None:
            return None

        def get_device_interface(self) -> Any:
            raise RuntimeError("no GPU: syncverify's driver launches nothing")

    return StandIn()


def _begin(runtime: ModuleType) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import GPUDriver

    runtime.driver.set_active(_driver(GPUDriver, GPUTarget("cuda", CAPABILITY, 32)))


def _no_handles(compiler: ModuleType) -> None:
    def around(_original: Any) -> Any:
        def start(kernel: Any) -> None:
            kernel._run = lambda *args, **named: None

        return start

    wrap(compiler.CompiledKernel, "_init_handles", around)


def stand_in() -> Undo:
    """Lets Triton compile without a GPU from now on. Returns what ends the waiting for its import."""
    ends = (when_imported("triton.runtime", _begin), when_imported("triton.compiler.compiler", _no_handles))

    def undo() -> None:
        for end in ends:
            end()

    return undo
