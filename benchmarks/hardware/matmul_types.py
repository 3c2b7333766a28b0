"""Products of f16, fp8 and tf32, and products with prologues, on a Hopper GPU: right, then time.

    python benchmarks/hardware/matmul_types.py --prove [--jobs 2]                      # no GPU needed
    python benchmarks/hardware/matmul_types.py --out DIR [--seconds 90] [--jobs 14]

Every launch is proved first, IR and PTX, for its sizes; the gate lets nothing else run. Results of ragged and
tiny sizes are compared with float64, over results full of NaN, two shapes a hundred times; then 4096 x 4096 x
4096 is timed beside torch (cuBLAS) in alternating CUDA graphs. DIR/matmul_types.json gets everything.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.children import strided, supervised  # noqa: E402
from benchmarks.hardware.matmul_timing import alternated, captured, errors, input_sets, poisoned  # noqa: E402
from syncverify.fusion import Tensor, Value, silu, trace  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Problem, Schedule, product  # noqa: E402

SMS = 132
#: Ragged and tiny products; rows of 8-bit elements are multiples of 16.
SHAPES = (
    (128, 128, 64),
    (1, 16, 32),
    (129, 144, 80),
    (333, 336, 2064),
    (1000, 1008, 1024),
    (2048, 112, 4096),
)
MANY = {(129, 144, 80), (1000, 1008, 1024)}
SPEED = (4096, 4096, 4096)
#: Largest relative error, by the type of the result.
LIMITS = {"bf16": 5e-3, "f16": 1e-3, "f32": 2e-3}
PATIENCE, WORKERS = 60.0, 2

_TWO = (40, 232)
_PERSISTENT = Schedule(128, 256, registers=_TWO, persistent=True, store="tma")
SCHEDULES = {
    "128x128": Schedule(128, 128),
    "128x256t": Schedule(128, 256, registers=_TWO, store="tma"),
    "128x256pt": _PERSISTENT,
    "128x128tc": Schedule(128, 128, store="tma", cluster=2),
    "128x128t/2": Schedule(128, 128, store="tma", split_k=2),
    "128x128ptpp": replace(_PERSISTENT, tile_n=128, pingpong=True),
}


def _dequantized(a: Value) -> Value:
    return (a * 0.125).cast("bf16")


def _activated(a: Value) -> Value:
    return silu(a).cast("bf16")


def _cast(a: Value) -> Value:
    return a.cast("f16")


def _with(name: str, dtype: str, source: str, function: Any) -> Problem:
    prologue = trace(function, {"a": Tensor(source, ("M", "K"))})
    return Problem(name, dtype, "KK", product(dtype).epilogue, prologue)


def problems() -> dict[str, Problem]:
    found = {d: product(d, "KK") for d in ("f16", "e4m3", "e5m2", "tf32")}
    found["scale e4m3"] = _with("scaled", "bf16", "e4m3", _dequantized)
    found["silu bf16"] = _with("activated", "bf16", "bf16", _activated)
    found["cast e5m2"] = _with("widened", "f16", "e5m2", _cast)
    return found


def cases() -> list[str]:
    return [f"{p}, {s}" for p in problems() for s in SCHEDULES]


@lru_cache
def compiled(case: str) -> CompiledMatmul:
    """The product of a case; InputError where the schedule is none for it."""
    problem, schedule = case.split(", ")
    return CompiledMatmul(problems()[problem], SCHEDULES[schedule], each_launch=True)


def prove(case: str, timed: bool = True) -> dict[str, Any]:
    """Both proofs of every launch; ``timed``: of the one that is timed, too."""
    begun, matmul = time.process_time(), compiled(case)
    for m, n, k in (*SHAPES, SPEED) if timed else SHAPES:
        values = matmul.launch_values({"M": m, "N": n, "K": k}, SMS)
        matmul.program(2).require_proof(values)
    return {"case": case, "what": "prove", "seconds": round(time.process_time() - begun, 1)}


# ---------------------------------------------------------------- on the GPU


def correct(case: str) -> dict[str, Any]:
    """Against float64, over all of C."""
    import torch

    torch.manual_seed(0)
    matmul, worst, deviation, launches = compiled(case), 0.0, 0.0, 0
    limit = LIMITS[matmul.problem.epilogue.outputs[0].dtype]
    for m, n, k in SHAPES:
        a, b = _factors(torch, matmul.problem, (m, n, k))
        want = _made(torch, case, a) @ b.float().double()
        out = poisoned(torch, (m, n, k), _result(torch, matmul.problem))
        for _ in range(100 if (m, n, k) in MANY else 3):
            out.fill_(math.nan)
            matmul(a, b, out=out)
            found = errors(out, want)
            worst, deviation, launches = max(worst, found[0]), max(deviation, found[1]), launches + 1
    return {"case": case, "what": "correct", "right": worst < limit, "error": worst, "limit": limit,
            "worst_rms": deviation, "launches": launches}  # fmt: skip


def speed(case: str) -> dict[str, Any]:
    """Beside torch: the same product, with the prologue as a kernel of its own."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    matmul = compiled(case)
    kind = _result(torch, matmul.problem)
    sets = [
        (*_factors(torch, matmul.problem, SPEED), poisoned(torch, SPEED, kind))
        for _ in range(input_sets(SPEED))
    ]
    peer = _peer(torch, case)
    arms = {
        "torch": captured(torch, [lambda s=s: peer(s[0], s[1]) for s in sets]),  # type: ignore[misc]
        "ours": captured(torch, [lambda s=s: matmul(s[0], s[1], out=s[2]) for s in sets]),  # type: ignore[misc]
    }
    found = alternated(torch, arms)
    flops = 2.0 * math.prod(SPEED)
    ours = found["ours"]["us"]
    return {"case": case, "what": "speed", "times": found, "ratio": round(found["torch"]["us"] / ours, 4),
            "tflops": round(flops / ours / 1e6, 1)}  # fmt: skip


def _factors(torch: Any, problem: Problem, shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """A (M, K) and B (K, N), both contiguous along K."""
    m, n, k = shape
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "f32": torch.float32,
             "bf16": torch.bfloat16, "f16": torch.float16}  # fmt: skip
    a, b = (
        torch.randn(*size, device="cuda").to(kinds[problem.stored[name]])
        for name, size in (("a", (m, k)), ("b", (n, k)))
    )
    return a, b.t()


def _result(torch: Any, problem: Problem) -> Any:
    out = problem.epilogue.outputs[0].dtype
    return {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[out]


def _made(torch: Any, case: str, a: Any) -> Any:
    """What the prologue makes of A, as the factor is rounded."""
    wide = a.float()
    if case.startswith("scale"):
        return (wide * 0.125).bfloat16().double()
    if case.startswith("silu"):
        return torch.nn.functional.silu(wide).bfloat16().double()
    return wide.double()


def _peer(torch: Any, case: str) -> Any:
    if case.startswith("e"):
        if case.startswith("e5m2"):
            return lambda a, b: torch.mm(a.bfloat16(), b.bfloat16())  # cuBLAS has no product of two e5m2
        one = torch.ones((), device="cuda")
        return lambda a, b: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    if case.startswith("scale"):
        return lambda a, b: torch.mm((a.bfloat16() * 0.125), b)
    if case.startswith("silu"):
        return lambda a, b: torch.mm(torch.nn.functional.silu(a), b)
    return lambda a, b: torch.mm(a.to(b.dtype), b)


# ---------------------------------------------------------------- children and their parent


def child(what: str, names: list[str], timed: bool) -> None:
    steps = {"prove": lambda name: prove(name, timed), "correct": correct, "speed": speed}
    step: Callable[[str], dict[str, Any]] = steps[what]
    for name in names:
        print(json.dumps({"begins": name}), flush=True)
        try:
            found = step(name)
        except Exception as e:
            found = {"case": name, "what": what, "failed": f"{type(e).__name__}: {e}"[:600]}
        print(json.dumps(found), flush=True)
        if "CUDA" in str(found.get("failed", "")):
            sys.exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--prove", action="store_true")
    parser.add_argument("--prove-seconds", type=float, default=120.0)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--cases", default="", help="separated by semicolons")
    parser.add_argument("--untimed", action="store_true", help="right only: the large product is left out")
    parser.add_argument("--child", choices=["prove", "correct", "speed"])
    args = parser.parse_args()
    names = args.cases.split(";") if args.cases else cases()
    if args.child:
        child(args.child, names, not args.untimed)
        return 0

    def command(what: str) -> Any:
        more = ["--untimed"] if args.untimed else []
        return lambda some: [sys.executable, __file__, *more, "--child", what, "--cases", ";".join(some)]

    limit = math.inf if args.prove else time.monotonic() + args.prove_seconds
    rows = supervised(command("prove"), [[n] for n in names], limit, 1e6, args.jobs)
    proved = [r["case"] for r in rows if "failed" not in r]
    if not args.prove:
        until = time.monotonic() + args.seconds
        rows += supervised(command("correct"), strided(proved, WORKERS), until, PATIENCE, WORKERS)
        if not args.untimed:
            rows += supervised(command("speed"), [proved], until, PATIENCE)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "matmul_types.json").write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [r["case"] for r in rows if r.get("right") is False]
    right = sum(r.get("right", False) for r in rows)
    print(f"{len(proved)} of {len(names)} cases proved, {right} right; wrong: {wrong or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
