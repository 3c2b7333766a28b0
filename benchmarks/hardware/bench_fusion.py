"""Fusions on an H200: correct over many schedules, fast against a copy kernel, refuted ones forced to run.

    python benchmarks/hardware/bench_fusion.py [correct] [arrays] [speed] [refuted] [--quick]

Needs torch, cuda-core and a Hopper GPU. Writes bench_fusion.json into $OUT if that is set. Kernels are
compiled and proved by a pool of processes first; the GPU then runs only what the gate lets through.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.hardware.fusion_prepared import (
    Case,
    fusion_named,
    inputs_for,
    mismatches,
    prove_all,
    reference,
    settings,
    sizes_of,
    torch_dtype,
    torch_module,
)
from benchmarks.hardware.fusion_refuted import refuted
from benchmarks.hardware.fusion_speed import speed
from syncverify import gate
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def correct(quick: bool) -> dict[str, Any]:
    """Every fusion, schedule and size: the result equals the reference, over NaN-poisoned outputs."""
    torch = torch_module()
    cases = prove_all(list(correctness_cases(quick)))
    runs = wrong_runs = 0
    for case in cases:
        fusion = fusion_named(case.fusion)
        kernel = gate.compile(fusion, case.schedule)
        for rows, columns in case.sizes:
            sizes = sizes_of(fusion, rows, columns)
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

    torch = torch_module()
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
        except InputError as e:
            result[f"refused: {name}"] = True
            print(f"  {name}: {e}")
    for name, good in result.items():
        print(f"{'ok   ' if good else 'WRONG'} {name}", flush=True)
    return dict(result)


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
    torch = torch_module()
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
