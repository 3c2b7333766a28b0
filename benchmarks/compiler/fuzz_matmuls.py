"""Random products with prologues, epilogues and schedules: proved, run (GPU or simulator), beside float64.

    python benchmarks/compiler/fuzz_matmuls.py --seeds 0:400 [--jobs 2] [--set split_k=2 store=tma] [--out \
        DIR]

Factors of every type and layout, ragged sizes; A as it lies or through a prologue; epilogues with biases,
scales of rows and columns, residuals, gates, two products and two results; a schedule of the menu, or one
drawn field by field. ``--set`` fixes fields of all schedules. ``refused`` is a clear error (InputError) for
what no kernel holds. What must not be: an error of another kind, a kernel that is not proved, a wrong result.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.compiler.fuzz_fusions import FLOATS, ONE, TOLERANCE, TWO
from benchmarks.compiler.fuzz_sweep import parser, sweep
from syncverify import fusion as f
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.fusion import Fusion, Tensor, trace
from syncverify.fusion.functions import numpy_dtype
from syncverify.gate import VerificationError
from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Problem, Schedule
from syncverify.matmul.choose import menu

#: Types of factors with the bytes of an element, and how often each is drawn.
FACTORS = {"bf16": (2, 4), "f16": (2, 2), "e4m3": (1, 2), "e5m2": (1, 1), "tf32": (4, 2)}
#: Tensor cores add products of 8-bit factors less exactly than f32 would.
OF_BYTES = 3e-3
#: An element may be off by so many times the tolerance of its type, relative to itself and to what is usual.
OF_ONE = 5.0
M = (1, 8, 63, 64, 65, 129, 136, 200, 264)
N = (8, 16, 17, 24, 40, 64, 72, 130, 136, 192, 208)
#: Bytes of a row along K.
K = (16, 32, 112, 128, 144, 256, 272, 400, 640, 784)
SMS = (1, 2, 3, 4, 6)
#: What schedules set.
FIELDS: dict[str, tuple[Any, ...]] = {
    "stages": (0, 2, 3, 4), "pending": (0, 0, 1), "group": (1, 2, 8), "arrive": ("warp", "warp", "warpgroup"),
    "store": ("direct", "tma"), "cluster": (1, 1, 2), "sums": ("ordered", "any"), "dependent": (False, True),
}  # fmt: skip
#: What the epilogue reads, and names that kernels use themselves.
NAMES = ("bias", "scale", "residual")
ODD_NAMES = (
    "row",
    "col",
    "tile",
    "steps",
    "stage",
    "acc_v",
    "sums",
    "semaphore",
    "lane",
    "t1",
    "out_tile",
    "float",
)
#: Tiles, and warpgroups that multiply.
TILES = ((64, 1), (128, 2), (128, 2), (128, 1), (256, 2), (192, 3))
WIDTHS = (16, 32, 48, 64, 64, 96, 128, 128, 192, 256)


def drawn(seed: int, fixed: Mapping[str, Any]) -> tuple[Problem, Schedule, Policy, dict[str, int], int]:
    """A problem, a schedule, a policy, sizes, and the number of SMs of a simulated machine."""
    rng = Random(seed)
    problem = _problem(rng)
    sizes = _sizes(rng, problem)
    sms = rng.choice(SMS)
    schedule = replace(_schedule(rng, problem, sizes), **fixed)
    return problem, schedule, rng.choice([Policy.PRACTICAL] * 4 + [Policy.STRICT]), sizes, sms


def _problem(rng: Random) -> Problem:
    dtype = rng.choices(list(FACTORS), [often for _, often in FACTORS.values()])[0]
    layout = rng.choice(["KK", "KK", "KN", "MK", "MN"]) if FACTORS[dtype][0] == 2 else "KK"
    prologue = None
    if FACTORS[dtype][0] == 2 and layout[0] == "K" and rng.random() < 0.4:
        prologue = _prologue(rng, dtype)
    return Problem("drawn", dtype, layout, _epilogue(rng), prologue)


def _prologue(rng: Random, dtype: str) -> Fusion:
    source = rng.choice([dtype, "bf16", "f16", "e4m3", "e5m2"])
    steps: list[Callable[[Any], Any]] = [
        rng.choice([*ONE, lambda a: a * 0.125]) for _ in range(rng.randrange(3))
    ]

    def prepared(a: Any) -> Any:
        for step in steps:
            a = step(a)
        return a.cast(dtype)

    return trace(prepared, {"a": Tensor(source, ("M", "K"))})


def _epilogue(rng: Random) -> Fusion:
    c = Tensor("f32", ("M", "N"))
    inputs = {"acc": c} | ({"acc2": c} if rng.random() < 0.15 else {})
    names = NAMES if rng.random() < 0.85 else ODD_NAMES
    for name in rng.sample(names, rng.choice((0, 0, 1, 1, 2, 3))):
        kind = rng.choice([*FLOATS, "bf16", "f32", "e4m3"])
        inputs[name] = Tensor(kind, rng.choice([("N",), ("N",), ("M",), ("M", "N"), ()]))
    seed = rng.randrange(1 << 30)

    def drawn(**given: Any) -> Any:
        return _body(Random(seed), [given[n] for n in inputs])

    named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in inputs]
    drawn.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    return trace(drawn, inputs)


def _body(rng: Random, given: list[Any]) -> Any:
    values = given[:1]
    for other in rng.sample(given[1:], len(given) - 1):
        values += [rng.choice(ONE)(values[-1])] * (rng.random() < 0.3)
        values.append(rng.choice([*TWO, lambda x, y: x * y])(values[-1], other))
    values += [rng.choice(ONE)(values[-1]) for _ in range(rng.choice((0, 0, 1, 2)))]
    if rng.random() < 0.06:
        values.append(values[-1] + f.index(rng.choice("MN")) * 0.01)
    if rng.random() < 0.03:
        values.append(values[-1] - values[-1].max("N"))
    outputs = {"out": values[-1].cast(rng.choice(["bf16", "f16", "f32", "e4m3"]))}
    if rng.random() < 0.25:
        outputs["other"] = rng.choice(values).cast(rng.choice(["bf16", "f16", "f32"]))
    if rng.random() < 0.02:
        outputs["turned"] = values[-1].transpose()
    return outputs


def _sizes(rng: Random, problem: Problem) -> dict[str, int]:
    """Rows of 16 bytes, or once in a while others."""
    k = rng.choice(K) // min(FACTORS[problem.dtype][0], 1 if problem.prologue else 4)
    sizes = {"M": rng.choice(M), "N": rng.choice(N), "K": k}
    if rng.random() < 0.95:
        for d, letter in (("M", problem.layout[0]), ("N", problem.layout[1])):
            if letter == d:
                sizes[d] = -(-sizes[d] // 8) * 8
    return sizes


def _schedule(rng: Random, problem: Problem, sizes: dict[str, int]) -> Schedule:
    if rng.random() < 0.25:
        choices = menu(problem, sizes)
        schedule = rng.choice(choices)
        return replace(
            schedule, stages=rng.choice((0, 2, 3)), persistent=schedule.pingpong or rng.random() < 0.4
        )
    tile_m, consumers = rng.choice(TILES)
    names = rng.sample(sorted(FIELDS), rng.randrange(5))
    fields = {"stages": rng.choice((2, 3))} | {n: rng.choice(FIELDS[n]) for n in names}
    kind = rng.choice(["one", "one", "many", "turns", "split", "split"])
    more: dict[str, Any] = {"consumers": consumers, "persistent": kind in ("many", "turns")}
    if kind == "turns":
        tile_m, more = rng.choice((64, 128)), {"persistent": True, "pingpong": True}
        more["laps"] = Random(str(fields)).choice(("even", "odd", "any"))
    if kind == "split":
        more["split_k"] = rng.choice((2, 2, 3, 4))
    schedule = Schedule(tile_m, _width(rng, problem, fields, kind == "split"), **fields, **more)
    if schedule.consumers == 2 and rng.random() < 0.5:
        schedule = replace(schedule, registers=(40, 232))
    while schedule.tile_n > 64 and schedule.accumulators * len(problem.rights) > 96 and rng.random() < 0.8:
        schedule = replace(schedule, tile_n=schedule.tile_n // 2)
    return schedule


def _width(rng: Random, problem: Problem, fields: dict[str, Any], split: bool) -> int:
    """Columns of a tile, mostly a number that the rest of the schedule allows."""
    unit = 64 if not problem.b_t else 16
    unit = max(unit, 32 * split, 64 * fields["cluster"] if fields.get("cluster", 1) > 1 else 1)
    if fields.get("store") == "tma":
        unit = max(unit, 128 // max(problem.output_sizes))
    allowed = [w for w in WIDTHS if w % unit == 0] or [unit]
    return rng.choice(allowed if rng.random() < 0.97 else WIDTHS) // len(problem.rights)


# ---------------------------------------------------------------- values


def arrays(problem: Problem, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    """Factors as they lie in memory's layout (a: (M, K), b: (K, N)), and what the epilogue reads."""
    rng = np.random.default_rng(seed)
    shapes = {"a": ("M", "K"), **dict.fromkeys(problem.rights, ("K", "N"))}
    small = sizes["K"] ** (-0.5 if problem.prologue else -0.25)
    found = {}
    for name, dims in shapes.items():
        scale = 1.0 if name == "a" and problem.prologue else small
        x = rng.standard_normal([sizes[d] for d in dims]) * scale
        kept = x.astype(numpy_dtype(problem.stored[name]))
        if problem.dtype == "tf32":
            kept = (kept.view(np.uint32) & 0xFFFFE000).view(np.float32)  # what tensor cores read of it
        turned = problem.a_t if name == "a" else problem.b_t
        found[name] = np.ascontiguousarray(kept.T).T if turned else kept
    for name, t in problem.others:
        found[name] = np.asarray(rng.standard_normal([sizes[d] for d in t.dims])).astype(numpy_dtype(t.dtype))
    return found


def reference(problem: Problem, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """In float64; factors are rounded as the prologue says."""
    a = given["a"]
    if problem.prologue is not None:
        (a,) = problem.prologue.reference({"a": a})
    sums = {
        acc: np.asarray(a, np.float64) @ np.asarray(given[b], np.float64)
        for acc, b in zip(problem.products, problem.rights, strict=True)
    }
    return tuple(problem.epilogue.reference({**sums, **{n: given[n] for n, _ in problem.others}}, np.float64))


def results(
    compiled: CompiledMatmul, given: dict[str, Any], out: tuple[Any, ...], sms: int
) -> tuple[Any, ...]:
    """By the GPU, if there is one."""
    if not driver.available():
        return compiled.simulate(**given, out=out, multiprocessors=sms)
    found = compiled(**given, out=out)
    return found if isinstance(found, tuple) else (found,)


def error(got: Any, want: Any, tolerance: float) -> float:
    """Relative to the tolerance, of the whole and of each element: more than 1 is wrong."""
    wide, exact = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if wide.shape != exact.shape or not np.array_equal(np.isnan(wide), np.isnan(exact)):
        return math.inf
    off, exact = np.nan_to_num(np.abs(wide - exact)), np.nan_to_num(np.abs(exact))
    usual = max(float(np.sqrt(np.mean(exact**2))), 1e-3)
    each = float(np.max(off / (exact + usual))) / OF_ONE
    return max(float(np.sqrt(np.mean(off**2))) / usual, each) / tolerance


def tried(seed: int, fixed: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """What became of one: ``right``, ``refused``, ``wrong``, ``not proved`` or ``error``."""
    began = time.process_time()
    row: dict[str, Any] = {"seed": seed}
    try:
        problem, schedule, policy, sizes, sms = drawn(seed, fixed)
        row |= {
            "problem": _said(problem),
            "schedule": str(schedule),
            "policy": policy.value,
            "sizes": sizes,
            "sms": sms,
        }
        compiled = CompiledMatmul(problem, schedule, policy, each_launch=True)
        given = arrays(problem, sizes, seed)
        outputs = problem.epilogue.outputs
        out = tuple(np.full((sizes["M"], sizes["N"]), np.nan, numpy_dtype(o.dtype)) for o in outputs)
        got, want = results(compiled, given, out, sms), reference(problem, given)
        least = OF_BYTES if FACTORS[problem.dtype][0] == 1 else 0.0
        worst = max(
            error(g, w, max(TOLERANCE[o.dtype], least)) for o, g, w in zip(outputs, got, want, strict=True)
        )
        row |= {"what": "right" if worst <= 1 else "wrong", "worst": worst}
    except InputError as e:
        row |= {"what": "refused", "why": str(e)[:300]}
    except VerificationError as e:
        row |= {"what": "not proved", "why": str(e)[:2000]}
    except Exception as e:  # what users must never see
        row |= {"what": "error", "why": f"{type(e).__name__}: {e}"[:600]}
    return row | {"seconds": round(time.process_time() - began, 2)}


def _said(problem: Problem) -> str:
    before = f" of {problem.types['a']}" if problem.prologue else ""
    inputs = ", ".join(f"{n}: {t.dtype}{t.dims}" for n, t in problem.epilogue.inputs)
    return (
        f"{problem.dtype} {problem.layout}{before}, {inputs} -> {[o.dtype for o in problem.epilogue.outputs]}"
    )


def fields(given: list[str]) -> dict[str, Any]:
    """``name=value`` as fields of a schedule: numbers, True and False, else words."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    replace(Schedule(), **found)
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE")
    args = options.parse_args()
    sweep(partial(tried, fixed=fields(args.set)), args, "fuzz_matmuls")


if __name__ == "__main__":
    main()
