"""Random fusions under random schedules: compiled, proved, run (GPU or simulator), beside float64.

python benchmarks/compiler/fuzz_fusions.py --seeds 0:400 [--jobs 2] [--out DIR]

A fusion is drawn from the operations of docs/fusion.md over one to three named dimensions of ragged sizes; a
schedule from the fields that it may set. ``refused`` is a clear error (InputError) for what no kernel holds.
What must not be: an error of another kind, a kernel that is not proved, a wrong result.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.compiler.fuzz_sweep import parser, sweep
from syncverify import fusion as f
from syncverify import gate
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.fusion import Fusion, RowSchedule, Schedule, Tensor, trace
from syncverify.fusion.functions import numpy_dtype

#: Largest error of an output, relative to all of it.
TOLERANCE = {"f32": 5e-4, "bf16": 2e-2, "f16": 4e-3, "e4m3": 1e-1, "e5m2": 2e-1}
FLOATS = ("f32", "bf16", "f16")
#: Functions whose results stay as close as their operands.
ONE: tuple[Callable[[Any], Any], ...] = (
    f.tanh, f.sigmoid, f.silu, f.gelu, f.relu, f.sin, f.erf, f.softplus, f.hardswish, f.mish,
    abs, lambda x: -x, lambda x: f.clamp(x, -1.5, 2.0), lambda x: f.exp(f.minimum(x, 1.0)),
    lambda x: f.sqrt(abs(x) + 0.25), lambda x: f.rsqrt(f.square(x) + 1.0), lambda x: f.log1p(abs(x)),
    lambda x: 1.0 / (abs(x) + 0.5), lambda x: x * 0.5 + 1.0, lambda x: f.where(x > 0.0, x, x * 0.1),
)  # fmt: skip
TWO: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * f.tanh(y), f.minimum, f.maximum,
    lambda x, y: x / (1.0 + abs(y)), lambda x, y: f.where(f.isfinite(x), y, x),
)  # fmt: skip
REDUCED: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, d: x.sum(d), lambda x, d: x.max(d), lambda x, d: x.min(d), lambda x, d: x.mean(d),
    lambda x, d: x.var(d), lambda x, d: f.logsumexp(x, d),
)  # fmt: skip
NORMS: tuple[Callable[[Any], Any], ...] = (f.softmax, f.log_softmax, f.rms_norm, f.layer_norm)
CACHES = ("auto", "normal", "streaming", "loads", "past", "kept")
#: What schedules set.
OF_BOTH: dict[str, tuple[Any, ...]] = {
    "stages": (1, 2, 3), "arrive": ("warp", "thread"), "index": ("i32", "i64"), "blocks_per_sm": (1, 2, 3),
    "source": ("auto", "bulk", "direct"), "grid": ("auto", "persistent", "tiles"),
    "dependent": ("auto", "yes", "no"), "ahead": ("auto", "yes", "no"),
}  # fmt: skip
OF_TILES: dict[str, tuple[Any, ...]] = OF_BOTH | {
    "tile": (512, 1024, 2048, 4096), "prefetch": (1, 2), "async_warps": (1, 2, 3), "store_stages": (1, 2, 3),
    "mode": ("warp-specialized", "pipelined"), "store": ("direct", "tma", "role"),
    "compute_warps": (1, 2, 4, 8), "cache": CACHES,
}  # fmt: skip
OF_ROWS: dict[str, tuple[Any, ...]] = OF_BOTH | {
    "warps": (1, 2, 4, 8), "rows": (1, 2, 4), "split": ("auto", "yes", "no"), "stream": ("auto", "yes", "no"),
    "operands": ("auto", "registers", "reload"), "reread": ("auto", "yes", "no"),
    "cache": CACHES,
}  # fmt: skip
SIZES = {"B": (1, 2, 3), "R": (1, 2, 5, 9, 17, 33), "C": (1, 3, 8, 31, 40, 64, 72, 100, 128, 200, 256, 264)}


def drawn(seed: int) -> tuple[Fusion, Schedule | RowSchedule | None, dict[str, int]]:
    """A fusion, a schedule (None: chosen), and sizes."""
    rng = Random(seed)
    dims = rng.choice([("C",), ("R", "C"), ("R", "C"), ("R", "C"), ("B", "R", "C")])
    sizes = {d: rng.choice(SIZES[d]) for d in dims}
    common = rng.choice(FLOATS)
    inputs = {"x": Tensor(common, dims)}
    for name in "yzw"[: rng.randrange(4)]:
        some = dims if rng.random() < 0.5 else tuple(d for d in dims if rng.random() < 0.6)
        inputs[name] = Tensor(common if rng.random() < 0.6 else rng.choice(FLOATS), some)
    body = _body(rng.randrange(1 << 30))
    taking: tuple[Callable[..., Any], ...] = (
        lambda x: body(x), lambda x, y: body(x, y), lambda x, y, z: body(x, y, z),
        lambda x, y, z, w: body(x, y, z, w),
    )  # fmt: skip
    fusion = trace(taking[len(inputs) - 1], inputs)
    return fusion, _schedule(rng, fusion, sizes["C"]), sizes


def _body(seed: int) -> Callable[..., Any]:
    def random(*given: Any) -> Any:
        rng = Random(seed)
        values = list(given)
        for _ in range(rng.randrange(1, 8)):
            values.append(_next(rng, values))
        if set(values[-1].dims) != set(given[0].dims):
            values.append(rng.choice(TWO)(values[-1], given[0]))
        outputs = {"out": values[-1]}
        if rng.random() < 0.3:
            outputs["other"] = rng.choice(values[len(given) :])
        if rng.random() < 0.15 and len(values[-1].dims) > 1:
            outputs["turned"] = values[-1].transpose()
        if rng.random() < 0.4:
            outputs["out"] = outputs["out"].cast(rng.choice(["f32", "bf16", "f16", "e4m3"]))
        return outputs

    return random


def _next(rng: Random, values: list[Any]) -> Any:
    kind = rng.random()
    x = rng.choice(values[-3:])
    if kind < 0.4:
        return rng.choice(ONE)(x)
    if kind < 0.7 or not x.dims:
        return rng.choice(TWO)(x, rng.choice(values))
    if kind < 0.8:
        return rng.choice(NORMS)(x) if x.dims[-1:] == ("C",) else rng.choice(ONE)(x)
    if kind < 0.96:
        along = x.dims[-1] if rng.random() < 0.7 else rng.choice(x.dims)
        return rng.choice(TWO)(rng.choice(values), rng.choice(REDUCED)(x, along))
    return x + f.index(rng.choice(x.dims)) * 0.01


def _schedule(rng: Random, fusion: Fusion, width: int) -> Schedule | RowSchedule | None:
    if rng.random() < 0.4:
        return None
    if fusion.reduced is None:
        return Schedule(**_some(rng, OF_TILES))
    return RowSchedule(width=width, **_some(rng, OF_ROWS))


def _some(rng: Random, fields: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Up to three of the fields, set at random."""
    return {n: rng.choice(fields[n]) for n in rng.sample(sorted(fields), rng.randrange(4))}


def arrays(fusion: Fusion, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {n: tuple(sizes[d] for d in t.dims) for n, t in fusion.inputs}
    types = {n: t.dtype for n, t in fusion.inputs}
    return {n: np.asarray(rng.standard_normal(s)).astype(numpy_dtype(types[n])) for n, s in shapes.items()}


def results(kernel: Any, given: dict[str, Any], sizes: dict[str, int]) -> tuple[Any, ...]:
    """By the GPU, if there is one."""
    if not driver.available():
        return tuple(kernel.simulate(given, sizes))
    found = kernel(**given)
    return found if isinstance(found, tuple) else (found,)


def errors(fusion: Fusion, got: tuple[Any, ...], want: tuple[Any, ...]) -> list[float]:
    """Of each output, relative to its tolerance: more than 1 is wrong. Of gelu far below 0 few digits can be
    right: results below 1e-5 are measured beside numbers of 0.01."""
    found = []
    for o, g, w in zip(fusion.outputs, got, want, strict=True):
        wide, exact = np.asarray(g, np.float64), np.asarray(w, np.float64)
        if wide.shape != exact.shape or not np.array_equal(np.isnan(wide), np.isnan(exact)):
            found.append(np.inf)
            continue
        norm = float(np.linalg.norm(np.nan_to_num(exact)))
        one = exact.size**0.5
        beside = max(0.01 * one if norm < 1e-5 * one else norm, 1e-3)
        off = float(np.linalg.norm(np.nan_to_num(wide - exact))) / beside
        found.append(off / TOLERANCE.get(o.dtype, 1e-9))
    return found


def tried(seed: int) -> dict[str, Any]:
    """What became of one: ``right``, ``refused``, ``wrong``, ``not proved`` or ``error``."""
    began = time.process_time()
    row: dict[str, Any] = {"seed": seed}
    try:
        fusion, schedule, sizes = drawn(seed)
        row |= {"fusion": ", ".join(map(str, fusion.inputs)), "schedule": str(schedule), "sizes": sizes}
        kernel = gate.compile(fusion, schedule)
        given = arrays(fusion, sizes, seed)
        want = fusion.reference(given, np.float64)
        found = errors(fusion, results(kernel, given, sizes), want)
        # norms of rows whose numbers are equal are rounding alone: then NumPy's float32 is as far off
        plain = errors(fusion, fusion.reference(given), want)
        worst = max(mine / max(1.0, 4 * numpy) for mine, numpy in zip(found, plain, strict=True))
        row |= {"what": "right" if worst <= 1 else "wrong", "worst": worst}
    except InputError as e:
        row |= {"what": "refused", "why": str(e)[:300]}
    except gate.VerificationError as e:
        row |= {"what": "not proved", "why": str(e)[:2000]}
    except Exception as e:  # what users must never see
        row |= {"what": "error", "why": f"{type(e).__name__}: {e}"[:600]}
    return row | {"seconds": round(time.process_time() - began, 2)}


if __name__ == "__main__":
    sweep(tried, parser(__doc__).parse_args(), "fuzz_fusions")
