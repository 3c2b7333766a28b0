"""Records the launches of CuTe DSL kernels (quack, flash-attention 4) on a machine without a GPU.

The kernels' PTX comes from the DSL's own dump; `cute_probe.c` stands in for its runtime library and writes
what is launched. Tensors are CPU tensors that cross into the compiled host code as GPU tensors, at fake
addresses.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bytes_facts import FIRST_POINTER, LARGEST_OFFSET, POINTER_STEP, Sample, leaves
from emit import Emitter, Launch, Leaf, tensormap
from nvcc import param_kinds

HERE = Path(__file__).parent
RUNTIME = "nvidia_cutlass_dsl/cu12/lib/libcute_dsl_runtime.so"
SETTINGS = {
    "CUTE_DSL_ARCH": "sm_90a",
    "CUTE_DSL_KEEP": "ptx",
    "CUTE_DSL_LINEINFO": "1",
    "QUACK_ARCH": "90",
    "QUACK_CACHE_ENABLED": "0",
    "FLASH_ATTENTION_ARCH": "sm_90",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0",
}


def restart_with_probe() -> Path:
    """Runs this program again with the probe before the runtime library; then its folder for dumps."""
    folder = os.environ.get("SYNCVERIFY_PROBE_FOLDER")
    if folder is not None:
        return Path(folder)
    made = Path(tempfile.mkdtemp())
    (made / "dump").mkdir()
    library = made / "libprobe.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "cute_probe.c"], check=True)
    runtime = next(Path(p) / RUNTIME for p in sys.path if (Path(p) / RUNTIME).exists())
    variables = os.environ | SETTINGS | {
        "CUTE_DSL_LIBS": f"{library}:{runtime}",
        "CUTE_DSL_DUMP_DIR": str(made / "dump"),
        "LD_PRELOAD": str(library),
        "SYNCVERIFY_PROBE": str(made / "launches"),
        "SYNCVERIFY_PROBE_FOLDER": str(made),
    }  # fmt: skip
    status = subprocess.run([sys.executable, *sys.argv], env=variables).returncode
    shutil.rmtree(made, ignore_errors=True)
    sys.exit(status)


class Tracer:
    """Writes what a call launches into an `Emitter`."""

    def __init__(self, emitter: Emitter, folder: Path):
        self.emitter, self.folder = emitter, folder
        self._tensors: list[Any] = []

    def install(self) -> None:
        import cutlass.cute.runtime
        import cutlass.utils
        import torch
        from cuda_tensor import CudaTensor
        from cutlass.cutlass_dsl import tvm_ffi_provider as provider

        numbers: dict[int, int] = {}

        def cross(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                at = value.untyped_storage().data_ptr()
                index = numbers.setdefault(at, len(numbers)) % 16
                made = CudaTensor(index, value.shape, str(value.dtype).removeprefix("torch."), value.stride())
                self._tensors.append(made)  # DLPack's consumers hold no reference
                return made
            if isinstance(value, tuple) and hasattr(value, "_fields"):
                return type(value)(*map(cross, value))
            if isinstance(value, tuple | list):
                return type(value)(map(cross, value))
            return value

        for kind in (provider.TVMFFIJitCompiledFunction, provider.TVMFFIJitCompiledFunctionWithKwargs):
            kind.__call__ = _crossing(kind.__call__, cross, numbers)
        original = cutlass.cute.runtime.from_dlpack
        cutlass.cute.runtime.from_dlpack = lambda tensor, **options: original(cross(tensor), **options)
        cutlass.utils.HardwareInfo = _Hardware
        torch.cuda.get_device_capability = lambda device=None: (9, 0)
        torch.cuda.current_device = lambda: 0
        torch.cuda.is_available = lambda: True
        torch.cuda.device_count = lambda: 1
        torch.cuda.get_device_properties = lambda device=None: _Properties()
        torch.cuda.current_stream = lambda device=None: _Stream()

    def case(
        self,
        name: str,
        call: Callable[[int], Any],
        sizes: Sequence[int],
        size: str = "N",
        covers: Sequence[str] = (),
        holds: Mapping[str, tuple[str, Sequence[int]]] | None = None,
        addresses: Mapping[int, str] | None = None,
    ) -> None:
        """Runs `call` for each of `sizes` (the first is the exact launch's); writes each kernel launched.

        `holds`: what lies in tensors that steer, by the names of their pointers, for the exact launch.
        `addresses`: names of pointers that are passed as host addresses.
        """
        launches, dump = self.folder / "launches", self.folder / "dump"
        try:
            rounds = []
            for value in sizes:
                launches.unlink(missing_ok=True)
                if value == sizes[0]:
                    for old in dump.glob("*"):
                        old.unlink()
                call(value)
                rounds.append(_read(launches))
            texts = [
                path.read_text().rstrip("\0")
                for path in sorted(dump.glob("*.ptx"), key=lambda p: p.stat().st_mtime_ns)
            ]
            if not rounds[0][0]:
                raise RuntimeError("nothing was launched")
            if len(texts) != len(rounds[0][0]):
                raise RuntimeError(f"{len(rounds[0][0])} launches of {len(texts)} kernels")
            for number, text in enumerate(texts):
                label = name if number == 0 else f"{name}_{number + 1}"
                launch = _launch(text, [r[0][number] for r in rounds], [r[1] for r in rounds], sizes, size)
                launch = replace(launch, **_named(launch, addresses or {}))
                if holds:
                    launch = replace(launch, params={i: _held(p, holds) for i, p in launch.params.items()})
                self.emitter.kernel(label, text, launch, covers)
        except Exception as error:
            self.emitter.failed(name, error)
            if os.environ.get("SYNCVERIFY_REAL_DEBUG"):
                raise
        self.emitter.close()


class _Properties:
    multi_processor_count, major, minor, total_memory, name = 132, 9, 0, 80 << 30, "H100"
    shared_memory_per_block_optin = 232448
    L2_cache_size = 50 << 20


class _Hardware:
    """Few enough processors that a persistent kernel gets several tiles of a small problem."""

    def __init__(self, device_id: int = 0):
        self.device_id = device_id

    def get_max_active_clusters(self, cluster_size: int, stream: Any = None) -> int:
        return max(1, 4 // cluster_size)

    def get_device_multiprocessor_count(self) -> int:
        return 4

    def get_l2_cache_size_in_bytes(self) -> int:
        return 50 << 20


class _Stream:
    cuda_stream, device_index = 0, 0


def _crossing(
    original: Callable[..., Any], cross: Callable[[Any], Any], numbers: dict[int, int]
) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        numbers.clear()
        return original(self, *map(cross, args), **{k: cross(v) for k, v in kwargs.items()})

    return call


def _read(path: Path) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """The launches and the tensor maps that the probe wrote."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if "grid" in line], {line["map"]: line for line in lines if "map" in line}


def _launch(
    text: str, launches: list[dict[str, Any]], maps: list[dict[int, Any]], sizes: Sequence[int], size: str
) -> Launch:
    first = launches[0]
    names = [f"T{i}" for i in range(16)]
    exact: dict[int, Leaf | list[Leaf]] = {}
    general: dict[int, Leaf | list[Leaf]] = {}
    for index, (_, width) in enumerate(_params(text)):
        samples = [
            Sample(value, bytes.fromhex(one["params"][index])[:width], made)
            for value, one, made in zip(sizes, launches, maps, strict=True)
        ]
        exact[index], general[index] = leaves(samples, size, names)
        described = _tensor_map(samples[0].data, names)
        if described is not None:
            exact[index] = general[index] = described
    return Launch(
        block=tuple(first["block"]),
        grid=tuple(first["grid"]),
        cluster=tuple(first["cluster"]),
        dynamic_smem=first["shared"],
        params=exact,
        symbolic_params=general,
        assume=(f"{size} >= 1",),
    )


def _named(launch: Launch, addresses: Mapping[int, str]) -> dict[str, Any]:
    """The launch's parameters, with pointers for those that are host addresses."""

    def named(param: Leaf | list[Leaf]) -> Leaf | list[Leaf]:
        if isinstance(param, list) and len(param) == 1 and param[0].kind == "bytes":
            name = addresses.get(int.from_bytes(bytes.fromhex(str(param[0].value)), "little"))
            return param if name is None else Leaf("ptr", name)
        return param

    both = {"params": launch.params, "symbolic_params": launch.symbolic_params or {}}
    return {key: {i: named(p) for i, p in params.items()} for key, params in both.items()}


def _held(param: Leaf | list[Leaf], holds: Mapping[str, tuple[str, Sequence[int]]]) -> Leaf | list[Leaf]:
    """A parameter with what its pointers lead to."""
    if isinstance(param, list):
        return [leaf for one in param for leaf in [_held(one, holds)] if isinstance(leaf, Leaf)]
    if param.kind != "ptr" or param.value not in holds:
        return param
    return replace(param, extra=(*param.extra, ("holds", holds[str(param.value)])))


# The hardware's codes of element types, in bits 7 to 10 of a tensor map's second word.
_ELEMENTS = {
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


def _tensor_map(data: bytes, names: Sequence[str]) -> Leaf | None:
    """A parameter that is a tensor map: the DSL's host code fills it in by itself, without the driver."""
    if len(data) != 128:
        return None
    address, flags = struct.unpack_from("<QI", data)
    index, offset = divmod(address - FIRST_POINTER, POINTER_STEP)
    if not (0 <= index < len(names) and offset < LARGEST_OFFSET):
        return None
    rank = (flags >> 4 & 7) + 1
    box = [data[55 + d] + 1 for d in range(rank)]
    return tensormap(names[index], _ELEMENTS[flags >> 7 & 15], box, (0, 32, 64, 128)[flags >> 13 & 3])


def _params(text: str) -> list[tuple[str, int]]:
    entries = re.findall(r"\.entry\s+([\w$]+)\s*\(", text)
    if len(entries) != 1:
        raise RuntimeError(f"{len(entries)} entries in one file")
    return param_kinds(text, entries[0])
