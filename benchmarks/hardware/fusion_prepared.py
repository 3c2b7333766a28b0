"""Fusions to measure, proved by a pool of processes; their inputs, and what torch computes of them."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from syncverify import gate
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule, Tensor, Value, trace, where
from syncverify.fusion.graph import Fusion


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


@dataclass(frozen=True)
class Case:
    """One kernel and the sizes to run it on."""

    fusion: str
    schedule: Schedule
    sizes: tuple[tuple[int, int], ...]


def sizes_of(fusion: Fusion, rows: int, columns: int) -> dict[str, int]:
    return {"R": rows, "C": columns}


def prove(work: tuple[Case, int]) -> tuple[Case, float, str]:
    """Compiles and proves one case for all its sizes; runs in a pool and leaves its results in the cache."""
    case, multiprocessors = work
    start = time.perf_counter()
    fusion = fusion_named(case.fusion)
    try:
        kernel = gate.compile(fusion, case.schedule)
        for rows, columns in case.sizes:
            sizes = sizes_of(fusion, rows, columns)
            program = kernel.program(sizes)
            program.require_proof(kernel.launch_values(sizes, multiprocessors))
            _ = program.cubin
    except (gate.VerificationError, InputError) as e:
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


def torch_module() -> Any:
    import torch

    return torch


def torch_dtype(dtype: str) -> Any:
    torch = torch_module()
    return {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]


def inputs_for(fusion: Fusion, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    torch = torch_module()
    generator = torch.Generator(device="cuda").manual_seed(seed)
    result = {}
    for name, tensor in fusion.inputs:
        shape = tuple(sizes[d] for d in tensor.dims)
        values = torch.randn(shape, device="cuda", generator=generator, dtype=torch.float32)
        result[name] = values.to(torch_dtype(tensor.dtype))
    return result


def reference(fusion: Fusion, arrays: Mapping[str, Any]) -> tuple[Any, ...]:
    """What torch computes, in f32, rounded at the end."""
    torch = torch_module()
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
    torch = torch_module()
    wrong = 0
    for o, a, b in zip(fusion.outputs, got, want, strict=True):
        for x, y in zip(a.flatten().split(2**26), b.flatten().split(2**26), strict=True):
            x, y = x.float(), y.float()
            close = (x - y).abs() <= gate.TOLERANCE[o.dtype] * torch.clamp(y.abs(), min=1.0)
            wrong += int(x.numel() - close.sum())
    return wrong
