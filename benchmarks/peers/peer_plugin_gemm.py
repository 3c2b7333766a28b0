"""Matrix products for ``peer_bench.py --plugin``: the schedules that suit a shape.

Every launch is proved before it runs. With SYNCVERIFY_UNPROVED set none is: for timing where
``matmul_launches.py`` proves the same launches on another machine. With SYNCVERIFY_PREPARED=DIR the kernels
are those that ``matmul_on_gpu.py --prepare DIR --parts p`` compiled, and proved for the shape; with
SYNCVERIFY_TIMED=DIR/matmul_p.json, the fastest of them as part p found.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Problem, Schedule, product  # noqa: E402
from syncverify.matmul.choose import ranked  # noqa: E402

#: Schedules of the model's ranking that are timed for each shape, and the SMs that it counts with.
TRIED = int(os.environ.get("SYNCVERIFY_TRIED", "3"))
SMS = 132
_PROVED = "SYNCVERIFY_UNPROVED" not in os.environ
_PREPARED = os.environ.get("SYNCVERIFY_PREPARED", "")
_TIMED = os.environ.get("SYNCVERIFY_TIMED", "")
_KERNELS: dict[tuple[str, Schedule], CompiledMatmul] = {}


def candidates(problem: Problem, M: int, N: int, K: int) -> list[Schedule]:
    """The schedules that the model ranks first."""
    return ranked(problem, {"M": M, "N": N, "K": K}, SMS)[:TRIED]


def gemm(M: int, N: int, K: int, layout: str) -> list[tuple[str, Callable[..., Any]]]:
    """What peer_bench.py asks for: names, and functions of A, B and C."""
    if _PREPARED:
        return _prepared(M, N, K, layout)
    problem = product(layout=layout)

    def runner(schedule: Schedule) -> Callable[..., Any]:
        key = (layout, schedule)
        if key not in _KERNELS:
            _KERNELS[key] = CompiledMatmul(problem, schedule)
        kernel = _KERNELS[key]
        return lambda a, b, c: kernel(a, b, out=c, proved=_PROVED)

    return [(schedule.title, runner(schedule)) for schedule in candidates(problem, M, N, K)]


@lru_cache(maxsize=1)
def _items() -> list[Any]:
    found: list[Any] = pickle.loads((Path(_PREPARED) / "p.pickle").read_bytes())
    return found


@lru_cache(maxsize=1)
def _timed() -> dict[tuple[int | str, ...], dict[str, float]]:
    """Microseconds of each schedule, by shape."""
    rows = json.loads(Path(_TIMED).read_text())["rows"]
    return {tuple(r["task"]["shape"]): {x: t["us"] for x, t in r.get("candidates", {}).items()} for r in rows}


def _prepared(M: int, N: int, K: int, layout: str) -> list[tuple[str, Callable[..., Any]]]:
    """The kernels whose launch is proved for the shape."""

    def run(kernel: CompiledMatmul, a: Any, b: Any, c: Any) -> Any:
        return kernel(a, b, out=c, proved=False)

    items = [x for x in _items() if (M, N, K, layout) in x.facts["proved"]]
    if _TIMED:
        times = _timed()[M, N, K, layout]
        items = sorted((x for x in items if x.name in times), key=lambda x: times[x.name])[:TRIED]
    return [(x.name, partial(run, x.matmul)) for x in items]
