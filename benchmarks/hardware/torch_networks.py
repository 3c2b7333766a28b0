"""Small whole networks through ``torch.compile(backend="syncverify")``, beside eager torch and float64.

    python benchmarks/hardware/torch_networks.py [--runner gate] [--cases gpt,llama] [--types float16] \
        [--out DIR]

Results and gradients of each network of torch_models.py. An error counts where it is clearly larger than that
of eager torch, both measured from float64. Some run with sizes that are symbols as well. ``--runner gate`` (a
GPU) runs proved kernels, ``simulator`` executes their IR, ``reference`` is NumPy: what is tried then is how
graphs are divided and put together. DIR/torch_networks.md and .json get the table. Without torch it says so
and ends with status 0.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import math
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

#: How much larger an error may be than eager torch's, and errors that count as none.
MORE, LEAST = 2.5, {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}
#: Of whole numbers and truth values, how many may differ where two results are almost the same.
DIFFER = 0.01
COLUMNS = (
    "case",
    "type",
    "sizes",
    "what",
    "error",
    "eager's",
    "kernels",
    "refused",
    "left to torch",
    "seconds",
)


def inputs(case: Any, device: str, dtype: Any) -> list[Any]:
    import torch

    found = []
    for given in case.inputs:
        match given:
            case ("index", most, shape):
                found.append(torch.randint(0, most, shape, device=device))
            case ("mask", shape):
                found.append(torch.ones(shape, dtype=torch.bool, device=device))
            case shape:
                found.append(torch.randn(shape, device=device, dtype=dtype))
    return found


def leaves(found: Any) -> list[Any]:
    import torch

    return [found] if isinstance(found, torch.Tensor) else [x for part in found for x in leaves(part)]


def results(call: Callable[..., Any], owner: Any, given: list[Any], gradients: bool) -> list[Any]:
    """What a call gives, then the gradients of a weighted sum of it."""
    import torch

    torch.manual_seed(0)
    own = [x.detach().clone().requires_grad_(gradients and x.is_floating_point()) for x in given]
    out = leaves(call(*own))
    if not gradients:
        return [x.detach() for x in out]
    parameters = list(owner.parameters()) if isinstance(owner, torch.nn.Module) else []
    weights = torch.Generator().manual_seed(1)
    loss = sum(
        (x.to(torch.promote_types(x.dtype, torch.float32))
         * torch.randn(x.shape, generator=weights).to(x.device)).sum()
        for x in out if x.requires_grad
    )  # fmt: skip
    asked = [x for x in own if x.requires_grad] + parameters
    found = torch.autograd.grad(loss, asked, allow_unused=True)
    return [x.detach() for x in (*out, *found) if x is not None]


def error(got: Any, exact: Any) -> float:
    """Of numbers, relative to all of them (or to a thousandth, where they should be 0); of whole numbers, the
    share that differs."""
    if not got.numel():
        return 0.0
    if not got.is_floating_point():
        return float((got != exact).float().mean())
    least = 1e-3 * math.sqrt(got.numel())
    off = float((got.double() - exact.double()).norm() / exact.double().norm().clamp_min(least))
    return off if math.isfinite(off) else math.inf


def compared(got: list[Any], eager: list[Any], exact: list[Any], least: float) -> dict[str, Any]:
    """``right`` or ``wrong``, with the worst error and eager torch's at that place."""
    shapes = [(x.shape, x.dtype) for x in eager]
    if [(x.shape, x.dtype) for x in got] != shapes:
        return {"what": "wrong", "why": "other results, shapes or types than eager torch's"}
    found = []
    for g, e, x in zip(got, eager, exact, strict=True):
        ours, theirs = error(g, x), error(e, x)
        limit = max(MORE * theirs, least) if g.is_floating_point() else max(theirs, DIFFER)
        found.append((ours / limit, ours, theirs))
    excess, ours, theirs = max(found, default=(0.0, 0.0, 0.0))
    return {"what": "right" if excess <= 1 else "wrong", "error": ours, "eager's": theirs}


def tried(name: str, dtype: str, symbols: bool, runner: str) -> dict[str, Any]:
    """A row of the table."""
    import torch

    import syncverify.torch as sv
    from benchmarks.compiler.torch_models import CASES

    device = "cuda" if runner == "gate" else "cpu"
    case, kind, begun = CASES[name], getattr(torch, dtype), time.perf_counter()
    row: dict[str, Any] = {"case": name, "type": dtype, "sizes": "symbols" if symbols else "numbers"}
    backend = sv.make_backend({"runner": runner, "use": "always"})
    try:
        torch._dynamo.reset()
        torch.manual_seed(0)
        owner = case.make()
        module = isinstance(owner, torch.nn.Module)
        owner = owner.to(device, kind) if module else owner
        given = inputs(case, device, kind)
        wide = copy.deepcopy(owner).double() if module else owner
        wider = [x.double() if x.is_floating_point() else x for x in given]
        eager = results(owner, owner, given, case.gradients)
        exact = results(wide, wide, wider, case.gradients)
        compiled = torch.compile(owner, backend=backend, dynamic=True if symbols else None)
        row |= compared(results(compiled, owner, given, case.gradients), eager, exact, LEAST[dtype])
    except Exception as e:
        row |= {"what": "error", "why": "".join(traceback.format_exception_only(e))[-600:]}
    report = backend.report
    row |= {"kernels": len(report.regions), "refused": len(report.refused), "left to torch": len(report.left)}
    row["reasons"] = sorted({f"{r.kind}: {r.refused}" for r in report.refused})
    return row | {"seconds": round(time.perf_counter() - begun, 1)}


def table(rows: list[dict[str, Any]]) -> str:
    def cell(x: Any) -> str:
        return f"{x:.1e}" if isinstance(x, float) and x < 0.1 else str(x)

    lines = [COLUMNS, ("---",) * len(COLUMNS), *([cell(r.get(c, "")) for c in COLUMNS] for r in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runner", default="reference", choices=["gate", "simulator", "reference"])
    parser.add_argument("--cases", default="", help="separated by commas; all")
    parser.add_argument("--types", default="float32", help="of float32, bfloat16, float16")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no case begins later")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("skipped: the extra torch is not installed")
        return 0
    from benchmarks.compiler.torch_models import CASES

    names = args.cases.split(",") if args.cases else list(CASES)
    unknown = [n for n in [*names, *args.types.split(",")] if n not in {**CASES, **LEAST}]
    if unknown:
        parser.error(f"no case or type {', '.join(unknown)}; the cases are {', '.join(CASES)}")
    asked = [
        (n, t, s) for t in args.types.split(",") for n in names for s in (False, True)[: 1 + CASES[n].sizes]
    ]
    until, rows = time.monotonic() + args.seconds, []
    for name, dtype, symbols in asked:
        if time.monotonic() > until:
            break
        rows.append(tried(name, dtype, symbols, args.runner))
        print(json.dumps(rows[-1]), flush=True)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "torch_networks.json").write_text(json.dumps(rows, indent=1) + "\n")
        (args.out / "torch_networks.md").write_text(table(rows))
    bad = [r["case"] for r in rows if r["what"] != "right"]
    print(
        f"{len(rows) - len(bad)} of {len(rows)} right, {len(asked) - len(rows)} not begun; "
        f"not right: {bad or 'none'}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
