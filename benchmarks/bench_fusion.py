"""Fusions on an H200: correct over many schedules, fast against a copy kernel, refuted ones forced to run.

    python benchmarks/bench_fusion.py [correct] [arrays] [speed] [refuted] [--quick]

Needs torch, cuda-core and a Hopper GPU. Writes bench_fusion.json into $OUT if that is set. Kernels are
compiled and proved by a pool of processes first; the GPU then runs only what the gate lets through.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from syncverify import gate
from syncverify.codegen import driver
from syncverify.diagnostics import Policy
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule, Tensor, Value, trace, where
from syncverify.fusion.graph import Fusion
from syncverify.fusion.pipeline import build
from syncverify.ir.expr import Binary, Int
from syncverify.ir.nodes import DTYPE_BYTES, Kernel, MbarrierInit, MbarrierWait, Stmt
from syncverify.nvrtc import compile_source
from syncverify.passes.rewrite import flat_map

# ---------------------------------------------------------------- fusions


def _one(a: Value) -> Value:
    return a * 0.5 + 1.0


def _two(a: Value, b: Value) -> Value:
    return a * b


def _three(a: Value, b: Value, c: Value) -> Value:
    return a * b + c


def _four(a: Value, b: Value, c: Value, d: Value) -> Value:
    return where(a > b, c, d) * b


def elementwise(inputs: int, dtype: str) -> Fusion:
    """A fusion of that many full inputs."""
    body: Any = (_one, _two, _three, _four)[inputs - 1]
    return trace(body, dict.fromkeys("abcd"[:inputs], Tensor(dtype, ("R", "C"))))


def fusion_named(name: str) -> Fusion:
    """``two.bf16`` or a name of ``syncverify.examples.fusions``."""
    head, _, dtype = name.partition(".")
    counts = {"one": 1, "two": 2, "three": 3, "four": 4}
    fusion: Fusion = elementwise(counts[head], dtype) if head in counts else getattr(examples, head)
    return fusion


# ---------------------------------------------------------------- proving in parallel


@dataclass(frozen=True)
class Case:
    """One kernel and the sizes to run it on."""

    fusion: str
    schedule: Schedule
    sizes: tuple[tuple[int, int], ...]


def _sizes(fusion: Fusion, rows: int, columns: int) -> dict[str, int]:
    return {"R": rows, "C": columns}


def prove(work: tuple[Case, int]) -> tuple[Case, float, str]:
    """Compiles and proves one case for all its sizes; runs in a pool and leaves its results in the cache."""
    case, multiprocessors = work
    start = time.perf_counter()
    fusion = fusion_named(case.fusion)
    try:
        kernel = gate.compile(fusion, case.schedule)
        for rows, columns in case.sizes:
            sizes = _sizes(fusion, rows, columns)
            program = kernel.program(sizes)
            program.require_proof(kernel.launch_values(sizes, multiprocessors))
            _ = program.cubin
    except (gate.VerificationError, gate.InputError) as e:
        return case, time.perf_counter() - start, str(e)
    return case, time.perf_counter() - start, ""


def prove_all(cases: list[Case]) -> list[Case]:
    """The cases that were proved; prints the others."""
    start = time.perf_counter()
    proved, spent = [], 0.0
    # spawned, not forked: the parent has a CUDA context
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for case, seconds, problem in pool.map(
            prove, [(c, driver.multiprocessors(0)) for c in cases], chunksize=1
        ):
            spent += seconds
            if problem:
                print(f"NOT PROVED {case.fusion} {settings(case.schedule)}: {problem}", flush=True)
            else:
                proved.append(case)
    print(
        f"proved {len(proved)} of {len(cases)} cases "
        f"in {time.perf_counter() - start:.1f} s, {spent:.0f} s of CPU"
    )
    return proved


def settings(schedule: Schedule) -> str:
    """What differs from the default schedule."""
    default = asdict(Schedule())
    return " ".join(f"{k}={v}" for k, v in asdict(schedule).items() if v != default[k]) or "default"


# ---------------------------------------------------------------- running


def _torch() -> Any:
    import torch

    return torch


def torch_dtype(dtype: str) -> Any:
    torch = _torch()
    return {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]


def inputs_for(fusion: Fusion, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    torch = _torch()
    generator = torch.Generator(device="cuda").manual_seed(seed)
    result = {}
    for name, tensor in fusion.inputs:
        shape = tuple(sizes[d] for d in tensor.dims)
        values = torch.randn(shape, device="cuda", generator=generator, dtype=torch.float32)
        result[name] = values.to(torch_dtype(tensor.dtype))
    return result


def reference(fusion: Fusion, arrays: Mapping[str, Any]) -> tuple[Any, ...]:
    """What torch computes, in f32, rounded at the end."""
    torch = _torch()
    functions: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b, "exp": torch.exp, "tanh": torch.tanh,
        "gt": lambda a, b: a > b, "where": torch.where, "relu": torch.relu, "sigmoid": torch.sigmoid,
        "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
        "cast.bf16": lambda a: a.to(torch.bfloat16).float(),
    }  # fmt: skip
    tensors = dict(fusion.inputs)
    values: dict[int, Any] = {}
    for i in fusion.order():
        node = fusion.node(i)
        if node.op == "input":
            dims = tensors[node.name].dims
            index = tuple(slice(None) if d in dims else None for d in fusion.dims)
            values[i] = arrays[node.name].float()[index]
        elif node.op == "const":
            values[i] = torch.tensor(node.value, device="cuda")
        else:
            values[i] = functions[node.op](*(values[a] for a in node.args))
    return tuple(values[o.node].to(torch_dtype(o.dtype)) for o in fusion.outputs)


def mismatches(fusion: Fusion, got: tuple[Any, ...], want: tuple[Any, ...]) -> int:
    """Elements outside the tolerance; NaN (nothing was written) counts."""
    torch = _torch()
    wrong = 0
    for o, a, b in zip(fusion.outputs, got, want, strict=True):
        for x, y in zip(a.flatten().split(2**26), b.flatten().split(2**26), strict=True):
            x, y = x.float(), y.float()
            close = (x - y).abs() <= gate.TOLERANCE[o.dtype] * torch.clamp(y.abs(), min=1.0)
            wrong += int(x.numel() - close.sum())
    return wrong


def correct(quick: bool) -> dict[str, Any]:
    """Every fusion, schedule and size: the result equals the reference, over NaN-poisoned outputs."""
    torch = _torch()
    cases = prove_all(list(correctness_cases(quick)))
    runs = wrong_runs = 0
    for case in cases:
        fusion = fusion_named(case.fusion)
        kernel = gate.compile(fusion, case.schedule)
        for rows, columns in case.sizes:
            sizes = _sizes(fusion, rows, columns)
            arrays = inputs_for(fusion, sizes, seed=rows)
            shape = tuple(sizes[d] for d in fusion.dims)
            out = tuple(
                torch.full(shape, float("nan"), dtype=torch_dtype(o.dtype), device="cuda")
                for o in fusion.outputs
            )
            kernel(**arrays, out=out)
            torch.cuda.synchronize()
            wrong = mismatches(fusion, out, reference(fusion, arrays))
            runs += 1
            if wrong:
                wrong_runs += 1
                print(
                    f"WRONG {case.fusion} {settings(case.schedule)} {rows}x{columns}: {wrong} elements",
                    flush=True,
                )
            del arrays, out
    print(f"correctness: {runs} runs of {len(cases)} kernels, {wrong_runs} wrong", flush=True)
    return {"kernels": len(cases), "runs": runs, "wrong": wrong_runs}


def correctness_cases(quick: bool) -> Iterator[Case]:
    few = ((1, 1000), (7, 1001), (333, 1024))
    more = (*few, (1, 1), (1, 16384), (3001, 777), (8192, 1024))
    huge = ((16384, 16384),)
    names = {1: "one", 2: "two", 3: "three", 4: "four"}
    for inputs in range(1, 5):
        for dtype in ("f32", "bf16"):
            for warps in range(1, 5):
                for stages in (2, 3, 4, 8):
                    for store in ("direct", "tma"):
                        if quick and (warps + stages + inputs) % 4:
                            continue
                        schedule = Schedule(
                            tile=1024, stages=stages, async_warps=warps, compute_warps=4, blocks_per_sm=1
                        )
                        if store == "tma":
                            schedule = replace(schedule, store="tma")
                        name = f"{names[inputs]}.{dtype}"
                        yield Case(name, schedule, more if warps == 2 else few)
                        if stages < 8 and warps < 3:
                            yield Case(name, replace(schedule, mode="pipelined"), few)
    extra = Schedule(tile=2048, compute_warps=8)
    for name in ("two.f32", "two.bf16"):
        yield Case(name, replace(extra, arrive="thread"), few)
        yield Case(name, replace(extra, prefetch=2), few)
        yield Case(name, replace(extra, mode="pipelined", prefetch=3), few)
        yield Case(name, replace(extra, registers=(40, 232), async_warps=2, blocks_per_sm=1), few)
        yield Case(name, replace(extra, store="tma", store_stages=1), few)
        yield Case(name, replace(extra, store="tma", store_stages=3), few)
        yield Case(name, replace(extra, split={"a": (0, 1), "b": (1,)}, async_warps=2), few)
        yield Case(name, replace(extra, index="i64"), few)
    for name in ("bias_gelu", "bias_relu", "swiglu", "normalize", "gate_pair"):
        for schedule in (extra, replace(extra, store="tma"), replace(extra, mode="pipelined")):
            yield Case(name, schedule, more)
    for name in ("one.f32", "two.f32", "two.bf16"):
        yield Case(name, Schedule(), huge)


def arrays(quick: bool) -> dict[str, Any]:
    """The array libraries, the caller's stream, and what is refused."""
    import numpy as np

    torch = _torch()
    kernel = gate.compile(examples.mul, Schedule(tile=2048))
    strict = gate.compile(examples.mul, Schedule(tile=2048), Policy.STRICT)
    result: dict[str, bool] = {}
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((300, 1000), dtype=np.float32) for _ in range(2))
    result["numpy"] = bool(np.array_equal(kernel(a, b), a * b))
    x, y = torch.tensor(a, device="cuda"), torch.tensor(b, device="cuda")
    result["torch"] = bool(torch.equal(kernel(x, y), x * y))
    result["torch, compiled strictly"] = bool(torch.equal(strict(x, y), x * y))
    bf16 = gate.compile(examples.mul_bf16)
    result["torch bf16"] = bool(torch.equal(bf16(x.bfloat16(), y.bfloat16()), x.bfloat16() * y.bfloat16()))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        # the kernel must wait for the slow writer of its input, which only the side stream orders
        torch.cuda._sleep(200_000_000)
        late = x + 1.0
        got = kernel(late, y)
    side.synchronize()
    result["torch, side stream"] = bool(torch.equal(got, (x + 1.0) * y))
    try:
        import cupy

        c, d = cupy.asarray(a), cupy.asarray(b)
        result["cupy"] = bool((kernel(c, d) == c * d).all())
    except ImportError:
        print("cupy is not installed")
    for name, bad in {
        "unaligned": (x.flatten()[1:1001].reshape(1, 1000), y[:1]), "host tensor": (x.cpu(), y.cpu()),
        "two devices": (x, b), "transposed": (x.T, y.T), "other type": (x.double(), y.double()),
    }.items():  # fmt: skip
        try:
            kernel(*bad)
            result[f"refused: {name}"] = False
        except gate.InputError as e:
            result[f"refused: {name}"] = True
            print(f"  {name}: {e}")
    for name, good in result.items():
        print(f"{'ok   ' if good else 'WRONG'} {name}", flush=True)
    return dict(result)


# ---------------------------------------------------------------- speed

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
    torch = _torch()
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
    torch = _torch()
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
    torch = _torch()

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
    torch = _torch()
    fusion = fusion_named(name)
    kernel = gate.compile(fusion, schedule)
    sizes = _sizes(fusion, rows, columns)
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
    torch = _torch()
    rows, columns = (8192, 8192) if quick else (16384, 8192)
    names = ["one.f32", "two.f32", "three.f32", "two.bf16", "bias_relu", "bias_gelu", "swiglu", "gate_pair"]
    fitting: dict[str, list[Schedule]] = {}
    cases = []
    for name in names:
        fitting[name] = []
        for schedule in candidates(quick):
            try:
                build(fusion_named(name), schedule)
            except gate.InputError:
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
        sizes = _sizes(fusion, rows, columns)
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


# ---------------------------------------------------------------- refuted kernels


def _without(*names: str) -> Callable[[Fusion, Schedule], Kernel]:
    return lambda fusion, schedule: build(fusion, schedule, without=frozenset(names))


def _edited(edit: Callable[[Stmt], Stmt]) -> Callable[[Fusion, Schedule], Kernel]:
    def make(fusion: Fusion, schedule: Schedule) -> Kernel:
        kernel = build(fusion, schedule)
        return replace(kernel, body=flat_map(kernel.body, lambda s: (edit(s),)))

    return make


def _empty_count_plus_one(s: Stmt) -> Stmt:
    if isinstance(s, MbarrierInit) and s.bar.name.startswith("empty") and isinstance(s.count, Int):
        return replace(s, count=Int(s.count.value + 1))
    return s


def _full_parity_flipped(s: Stmt) -> Stmt:
    if isinstance(s, MbarrierWait) and s.bar.name.startswith("full"):
        return replace(s, phase=Binary("%", s.phase + 1, Int(2)))
    return s


def _no_full_wait(fusion: Fusion, schedule: Schedule) -> Kernel:
    kernel = build(fusion, schedule)
    body = flat_map(
        kernel.body, lambda s: () if isinstance(s, MbarrierWait) and s.bar.name.startswith("full") else (s,)
    )
    return replace(kernel, body=body)


RING = Schedule(tile=2048, stages=2)

#: name -> fusion, how the kernel is broken, schedule
BROKEN: dict[str, tuple[str, Callable[[Fusion, Schedule], Kernel], Schedule]] = {
    "no empty barriers": ("two.f32", _without("empty-barriers"), RING),
    "no block barrier before the refill": (
        "two.f32",
        _without("handover-barriers"),
        replace(RING, mode="pipelined"),
    ),
    "empty count one too many": ("two.f32", _edited(_empty_count_plus_one), RING),
    "full parity flipped": ("two.f32", _edited(_full_parity_flipped), RING),
    "full phase never waited for": ("two.f32", _no_full_wait, RING),
    "no bulk groups": ("two.f32", _without("bulk-groups"), replace(RING, store="tma", store_stages=1)),
    "no barrier before the TMA store": ("two.f32", _without("handover-barriers"), replace(RING, store="tma")),
    "no proxy fence before the TMA store": (
        "gate_pair",
        _without("proxy-fences"),
        replace(RING, store="tma"),
    ),
}


def shows(claim: str | None, seen: Any) -> bool:
    """Whether the GPU did what the witness claims; undefined behaviour may show as anything or nothing."""
    if claim == "hang":
        return seen.ending in ("timeout", "crashed")
    if claim == "stale-value":
        return seen.ending == "finished" and seen.wrong > 0
    return claim == "ub"


def refuted(quick: bool) -> dict[str, Any]:
    """Broken kernels: what the checker says, and what the GPU does when they are forced to run."""
    sizes = {"R": 4096, "C": 4100}
    result: dict[str, Any] = {}
    for name, (fused, make, schedule) in BROKEN.items():
        fusion = fusion_named(fused)
        kernel = make(fusion, schedule)
        report = gate.Program(kernel, Policy.PRACTICAL).check("ir")
        claim = report.witness.claim.value if report.witness else None
        rule = report.diagnostics[0].rule if report.diagnostics else None
        seen = gate.run_unsafe(fusion, kernel, sizes, timeout=30.0, launches=2 if quick else 10)
        what = f"{seen.wrong} of {seen.elements} wrong" if seen.ending == "finished" else seen.ending
        agrees = shows(claim, seen)
        print(
            f"{name:36} {report.verdict.value:8} {rule} {claim or '-':11} GPU: {what}"
            f"{'' if agrees else '  (not seen this time)'} {seen.message}",
            flush=True,
        )
        result[name] = {
            "verdict": report.verdict.value, "rule": rule, "claim": claim,
            "gpu": asdict(seen), "agrees": agrees,
        }  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[], help="which parts (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer cases")
    options = parser.parse_args()
    available: dict[str, Callable[[bool], dict[str, Any]]] = {
        "correct": correct,
        "arrays": arrays,
        "speed": speed,
        "refuted": refuted,
    }
    torch = _torch()
    torch.zeros(1, device="cuda")
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__}
    for part in options.parts or list(available):
        start = time.perf_counter()
        result[part] = available[part](options.quick)
        print(f"-- {part}: {time.perf_counter() - start:.1f} s", flush=True)
    if "OUT" in os.environ:
        Path(os.environ["OUT"], "bench_fusion.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
