"""Bytes per second of proved fusions against a copy kernel."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.hardware.fusion_prepared import (
    Case,
    fusion_named,
    inputs_for,
    prove_all,
    settings,
    sizes_of,
    torch_dtype,
    torch_module,
)
from syncverify import gate
from syncverify.base.nvrtc import compile_source
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.fusion import Schedule
from syncverify.fusion.graph import Fusion
from syncverify.fusion.pipeline import build
from syncverify.ir.nodes import DTYPE_BYTES

COPY = r"""
template <int Unroll> __device__ __forceinline__ void copy(uint4* to, const uint4* from, long long n) {
  long long step = (long long)gridDim.x * blockDim.x * Unroll;
  for (long long i = (long long)blockIdx.x * blockDim.x * Unroll + threadIdx.x; i < n; i += step) {
    uint4 v[Unroll];
#pragma unroll
    for (int k = 0; k < Unroll; ++k) if (i + k * blockDim.x < n) v[k] = from[i + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < Unroll; ++k) if (i + k * blockDim.x < n) to[i + k * blockDim.x] = v[k];
  }
}
#define COPY(N)                                                                    \
  extern "C" __global__ void __launch_bounds__(1024)                               \
  copy##N(uint4* to, const uint4* from, long long n) { copy<N>(to, from, n); }
COPY(1)
COPY(2)
COPY(4)
COPY(8)
"""


@dataclass(frozen=True)
class Arm:
    """Something to time: ``run(k)`` uses the k-th set of buffers."""

    name: str
    run: Callable[[int], None]
    bytes: int


def time_arms(arms: list[Arm], repetitions: int, sets: int) -> dict[str, float]:
    """Median seconds of each arm; arms alternate, buffers rotate."""
    torch = torch_module()
    for k in range(3):
        for arm in arms:
            arm.run(k % sets)
    events: dict[str, list[Any]] = {a.name: [] for a in arms}
    for k in range(repetitions):
        for arm in arms:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            arm.run(k % sets)
            end.record()
            events[arm.name].append((begin, end))
    torch.cuda.synchronize()
    return {n: statistics.median(b.elapsed_time(e) for b, e in pairs) / 1000 for n, pairs in events.items()}


def copy_arms(elements: int, sets: int) -> list[Arm]:
    """Vectorised grid-stride copies in several shapes; the best of them is the ceiling."""
    torch = torch_module()
    source = compile_source(COPY, "copy").code
    buffers = [
        (torch.randn(elements, device="cuda"), torch.empty(elements, device="cuda")) for _ in range(sets)
    ]
    words = elements // 4
    arms = []
    for unroll in (1, 2, 4, 8):
        function = driver.load(source, f"copy{unroll}", 0, 0)
        for threads in (256, 512, 1024):
            full = -(-words // (threads * unroll))
            for grid in (
                full,
                *(driver.multiprocessors(0) * per for per in (2048 // threads, 4096 // threads)),
            ):
                arms.append(
                    Arm(
                        f"copy u{unroll} t{threads} g{grid}",
                        _copy(function, buffers, words, threads, grid),
                        8 * elements,
                    )
                )
    return arms


def _copy(
    function: driver.Function, buffers: list[Any], words: int, threads: int, grid: int
) -> Callable[[int], None]:
    torch = torch_module()

    def run(k: int) -> None:
        source, target = buffers[k]
        arguments = [
            (target.data_ptr(), driver.POINTER),
            (source.data_ptr(), driver.POINTER),
            (words, driver.INTEGERS["i64"]),
        ]  # fmt: skip
        driver.launch(
            function, (grid, 1, 1), (threads, 1, 1), arguments, torch.cuda.current_stream().cuda_stream
        )

    return run


def fusion_arm(name: str, schedule: Schedule, rows: int, columns: int, sets: list[Any]) -> Arm:
    """A proved kernel on the given sets of (inputs, outputs)."""
    torch = torch_module()
    fusion = fusion_named(name)
    kernel = gate.compile(fusion, schedule)
    sizes = sizes_of(fusion, rows, columns)
    program = kernel.program(sizes)
    values = kernel.launch_values(sizes, driver.multiprocessors(0))
    program.require_proof(values)
    addresses = [
        {n: t.data_ptr() for n, t in arrays.items()}
        | {o.name: t.data_ptr() for o, t in zip(fusion.outputs, outputs, strict=True)}
        for arrays, outputs in sets
    ]
    stream = torch.cuda.current_stream().cuda_stream

    def run(k: int) -> None:
        gate.launch(program, addresses[k], values, 0, stream)

    return Arm(f"{name} {settings(schedule)}", run, moved(fusion, sizes))


def moved(fusion: Fusion, sizes: Mapping[str, int]) -> int:
    """Bytes that must cross the memory bus: every input and output once."""
    total = 0
    for dims, dtype in [(t.dims, t.dtype) for _, t in fusion.inputs] + [
        (fusion.dims, o.dtype) for o in fusion.outputs
    ]:
        elements = 1
        for d in dims:
            elements *= sizes[d]
        total += elements * DTYPE_BYTES[dtype]
    return total


def candidates(quick: bool) -> list[Schedule]:
    """Schedules worth timing: 64 KB or more in flight per SM, by deep stages or by several blocks."""
    base = Schedule()
    shapes = [
        (4096, 3, 2, 8), (2048, 4, 2, 8), (4096, 2, 3, 8), (2048, 3, 4, 4), (2048, 4, 3, 8), (2048, 6, 2, 8),
        (1024, 6, 4, 4), (8192, 3, 1, 16), (4096, 4, 1, 16), (4096, 6, 1, 8), (2048, 2, 4, 8),
        (4096, 3, 2, 16), (8192, 2, 2, 16), (4096, 2, 4, 16),
    ]  # fmt: skip
    direct = [Schedule(tile=t, stages=s, blocks_per_sm=b, compute_warps=w) for t, s, b, w in shapes]
    result = [base, replace(base, cache="streaming")]
    for k, schedule in enumerate(direct):
        result.append(schedule)
        if k < 5:
            result.append(replace(schedule, cache="streaming"))
        if k < 4:
            result.append(replace(schedule, store="tma"))
            result.append(replace(schedule, mode="pipelined"))
    result.append(replace(direct[0], async_warps=2))
    result.append(replace(direct[1], store="tma", cache="streaming"))
    result.append(replace(direct[1], store="tma", store_stages=3))
    return result[:8] if quick else result


def speed(quick: bool) -> dict[str, Any]:
    """Bytes per second of proved fusions against the copy kernel, in one run."""
    torch = torch_module()
    rows, columns = (8192, 8192) if quick else (16384, 8192)
    names = ["one.f32", "two.f32", "three.f32", "two.bf16", "bias_relu", "bias_gelu", "swiglu", "gate_pair"]
    fitting: dict[str, list[Schedule]] = {}
    cases = []
    for name in names:
        fitting[name] = []
        for schedule in candidates(quick):
            try:
                build(fusion_named(name), schedule)
            except InputError:
                continue
            fitting[name].append(schedule)
            cases.append(Case(name, schedule, ((rows, columns),)))
    proved = {(c.fusion, settings(c.schedule)) for c in prove_all(cases)}
    copies = copy_arms(rows * columns, 2)
    times = time_arms(copies, 8, 2)
    best_copy = min(copies, key=lambda a: times[a.name] / a.bytes)
    print(
        f"best copy kernel: {best_copy.name}, {best_copy.bytes / times[best_copy.name] / 1e9:.0f} GB/s",
        flush=True,
    )
    result: dict[str, Any] = {"rows": rows, "columns": columns, "copy": best_copy.name, "fusions": {}}
    print(f"{'fusion':12} {'GB/s':>6} {'copy':>6} {'ratio':>6} {'default':>8}  schedule")
    for name in names:
        fusion = fusion_named(name)
        sizes = sizes_of(fusion, rows, columns)
        sets = []
        for seed in range(2):
            arrays = inputs_for(fusion, sizes, seed)
            outputs = [
                torch.empty((rows, columns), dtype=torch_dtype(o.dtype), device="cuda")
                for o in fusion.outputs
            ]
            sets.append((arrays, outputs))
        arms = [
            fusion_arm(name, s, rows, columns, sets) for s in fitting[name] if (name, settings(s)) in proved
        ]
        if not arms:
            print(f"{name}: no schedule was proved")
            continue
        tried = time_arms(arms, 6, 2)
        best = min(arms, key=lambda a: tried[a.name])
        final = time_arms([best_copy, best], 30, 2)
        rate = best.bytes / final[best.name] / 1e9
        ceiling = best_copy.bytes / final[best_copy.name] / 1e9
        default = arms[0].bytes / tried[arms[0].name] / 1e9
        print(
            f"{name:12} {rate:6.0f} {ceiling:6.0f} {rate / ceiling:6.3f} "
            f"{default / ceiling:8.3f}  {best.name}",
            flush=True,
        )
        result["fusions"][name] = {
            "GB/s": rate, "copy GB/s": ceiling, "ratio": rate / ceiling, "best": best.name,
            "all": {a.name: a.bytes / tried[a.name] / 1e9 for a in arms},
        }  # fmt: skip
        del sets, arms
        torch.cuda.empty_cache()
    return result
