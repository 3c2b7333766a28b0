"""Fused epilogues beside cuBLAS with PyTorch, torch.compile and max-autotune."""

from __future__ import annotations

import math
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from benchmarks.hardware import matmul_prepared as prepared
from benchmarks.hardware.matmul_prepared import Item
from benchmarks.hardware.matmul_timing import (
    DEVIATION,
    RELATIVE,
    Call,
    Row,
    Shape,
    alternated,
    broken,
    captured,
    device,
    errors,
    factors,
    failed,
    input_sets,
    poisoned,
    ready,
    tell,
)


def prove(place: Path, workers: int) -> None:
    """Both proofs of every launch that is timed; kernels keep the sizes that they are proved for."""
    items = prepared.load(place, "c")
    launches = [(x, shape) for x in items for shape in prepared.FUSED_SIZES]
    with Pool(workers) as pool:
        rows = pool.starmap(prepared.judged, launches, 1)
    for x in items:
        x.facts["proved"] = []
    for (x, shape), row in zip(launches, rows, strict=True):
        if row["ir"] == row.get("ptx") == "proved":
            x.facts["proved"].append(shape)
        else:
            print(x.facts["case"], row)
    (place / "c.pickle").write_bytes(pickle.dumps(items))
    print(f"c: {sum(len(x.facts['proved']) for x in items)} of {len(launches)} launches proved", flush=True)


def peers(torch: Any, name: str) -> dict[str, Callable[..., Any]]:
    """The same function in PyTorch, of A (M, K), W (N, K) and the other inputs; and by cuBLASLt."""
    F = torch.nn.functional
    plain: dict[str, Callable[..., Any]] = {
        "bias_gelu": lambda a, w, bias: F.gelu(F.linear(a, w, bias)),
        "bias_gelu_tanh": lambda a, w, bias: F.gelu(F.linear(a, w, bias), approximate="tanh"),
        "bias_relu": lambda a, w, bias: F.relu(F.linear(a, w, bias)),
        "residual": lambda a, w, residual: F.linear(a, w) + residual,
        "gated": lambda a, w, gate: F.silu(gate) * F.linear(a, w),
        "bias_gelu_residual": lambda a, w, bias, residual: F.gelu(F.linear(a, w, bias)) + residual,
        "row_scale": lambda a, w, scale: (F.linear(a, w) * scale[:, None]).to(a.dtype),
        "f32_result": lambda a, w: F.linear(a, w).float(),
        "two_results": lambda a, w, bias: both(F, F.linear(a, w, bias)),
        "swiglu": lambda a, w, w2: F.silu(F.linear(a, w)) * F.linear(a, w2),
    }
    library: dict[str, Callable[..., Any]] = {
        "bias_relu": lambda a, w, bias: torch._addmm_activation(bias, a, w.t()),
        "bias_gelu_tanh": lambda a, w, bias: torch._addmm_activation(bias, a, w.t(), use_gelu=True),
        "f32_result": lambda a, w: torch.mm(a, w.t(), out_dtype=torch.float32),
    }
    found = {"eager": plain[name]}
    return found | ({"cublaslt": library[name]} if name in library else {})


def both(F: Any, h: Any) -> tuple[Any, Any]:
    return h, F.gelu(h)


def exact(torch: Any, name: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
    found = peers(torch, name)["eager"](*(x.float() for x in inputs))
    return found if isinstance(found, tuple) else (found,)


def epilogue_inputs(torch: Any, item: Item, shape: Shape) -> dict[str, Any]:
    """The inputs beside A and B, by name."""
    sizes = dict(zip("MNK", shape, strict=True))
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    problem = item.matmul.problem
    second = {name: factors(torch, shape, problem.layout)[1] for name in problem.rights[1:]}
    return second | {
        name: torch.randn(*(sizes[d] for d in t.dims), device=device(torch), dtype=types[t.dtype])
        for name, t in problem.others
    }


def epilogue_case(torch: Any, items: Sequence[Item], shape: Shape, tuned: bool) -> Row:
    """One epilogue and size: all arms through the gate, then timed in alternation."""
    name = items[0].facts["case"]
    others = [epilogue_inputs(torch, items[0], shape) for _ in range(input_sets(shape))]
    pairs = [factors(torch, shape, "KK") for _ in others]
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    outputs = items[0].matmul.problem.epilogue.outputs
    results = [tuple(poisoned(torch, shape, types[o.dtype]) for o in outputs) for _ in others]
    functions: dict[str, Callable[[int], Any]] = {}
    for arm, f in peers(torch, name).items():
        functions[arm] = _peer(f, pairs, others)
    for arm, mode in (("compile", None), ("max-autotune", "max-autotune-no-cudagraphs")):
        if mode is None or tuned:
            torch._dynamo.reset()
            f = torch.compile(peers(torch, name)["eager"], dynamic=False, fullgraph=True, mode=mode)
            functions[arm] = _peer(f, pairs, others)
    for item in (x for x in items if shape in x.facts["proved"]):
        functions[f"ours {item.name}"] = _ours(item, pairs, others, results)
    want = exact(torch, name, [pairs[0][0], pairs[0][1].t(), *_as_weights(others[0])])
    arms: dict[str, tuple[Call, int]] = {}
    fails: dict[str, str] = {}
    first: dict[str, float] = {}
    for arm, f in functions.items():
        begun = time.monotonic()
        try:
            for x in results[0]:
                x.fill_(math.nan)
            got = f(0)
            torch.cuda.synchronize()
            first[arm] = round(time.monotonic() - begun, 2)
            got = got if isinstance(got, tuple) else (got,)
            worst = [errors(g, w) for g, w in zip(got, want, strict=True)]
            if any(r >= RELATIVE or d >= DEVIATION for r, d in worst):
                fails[arm] = f"wrong: {worst}"
            else:
                arms[arm] = captured(torch, [lambda f=f, k=k: f(k) for k in range(len(others))])  # type: ignore[misc]
        except Exception as e:
            if broken(e):
                raise
            fails[arm] = f"{type(e).__name__}: {e}"[:300]
        tell({"arm": arm})
    found = alternated(torch, arms)
    for times in found.values():
        products = len(items[0].matmul.problem.rights)
        times["tflops"] = round(2.0 * math.prod(shape) * products / times["us"] / 1e6, 1)
    mine = [t["us"] for a, t in found.items() if a.startswith("ours")]
    rest = {a: t["us"] for a, t in found.items() if not a.startswith("ours")}
    ahead = {a: round(us / min(mine), 3) for a, us in rest.items()} if mine else {}
    return {
        "ok": not fails,
        "times": found,
        "failed": fails,
        "first call s": first,
        "their time by ours": ahead,
    }


def _peer(f: Callable[..., Any], pairs: Sequence[Any], others: Sequence[Any]) -> Callable[[int], Any]:
    return lambda k: f(pairs[k][0], pairs[k][1].t(), *_as_weights(others[k]))


def _as_weights(others: dict[str, Any]) -> list[Any]:
    """The other inputs as PyTorch takes them: a second factor as a linear layer holds it."""
    return [x.t() if name == "b2" else x for name, x in others.items()]


def _ours(
    item: Item, pairs: Sequence[Any], others: Sequence[Any], results: Sequence[Any]
) -> Callable[[int], Any]:
    return lambda k: item.matmul(*pairs[k], out=results[k], proved=False, **others[k])


def epilogue_tasks(items: Sequence[Item]) -> list[Row]:
    """The first size with max-autotune for all, then the others."""
    groups: dict[str, list[int]] = {}
    for k, x in enumerate(items):
        groups.setdefault(x.facts["case"], []).append(k)
    names = list(groups)
    small, large = prepared.FUSED_SIZES
    order = [(x, small) for x in names[:4]] + [(x, large) for x in names[:4]]
    order += [(x, small) for x in names[4:]] + [(x, large) for x in names[4:]]
    return [{"case": x, "items": groups[x], "shape": s, "tuned": True} for x, s in order]


def run_epilogues(items: Sequence[Item], tasks: Sequence[Row]) -> None:
    import torch

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    ready(torch)
    for task in tasks:
        try:
            found = epilogue_case(
                torch, [items[k] for k in task["items"]], tuple(task["shape"]), task["tuned"]
            )
        except Exception as e:
            found = failed(e)
        tell({"task": task, **found})
        if "error" in found and broken(RuntimeError(found["error"])):
            sys.exit(found["error"])
