"""Timing and comparing matrix products on a GPU: what the parts of ``matmul_on_gpu.py`` share."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

L2_BYTES = 60 << 20
#: The gate of every timed kernel: relative error, and largest deviation by the root mean square.
RELATIVE, DEVIATION = 1e-2, 0.25

Shape = tuple[int, int, int]
Row = dict[str, Any]
Call = Callable[[], Any]


def factors(torch: Any, shape: Shape, layout: str) -> tuple[Any, Any]:
    """A (M, K) and B (K, N), each contiguous in its layout."""
    m, n, k = shape

    def made(rows: int, columns: int, along_rows: bool) -> Any:
        size = (columns, rows) if along_rows else (rows, columns)
        x = torch.randn(*size, device=device(torch), dtype=torch.bfloat16)
        return x.t() if along_rows else x

    return made(m, k, layout[0] == "M"), made(k, n, layout[1] == "K")


def device(torch: Any) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def errors(out: Any, want: Any) -> tuple[float, float]:
    """Relative error and largest deviation; infinite where something is not a number."""
    want = want.float()
    off = out.float() - want
    relative = float((off.norm() / want.norm().clamp_min(1e-30)).item())
    worst = float((off.abs().max() / want.square().mean().sqrt().clamp_min(1e-30)).item())
    return (relative, worst) if math.isfinite(relative) and math.isfinite(worst) else (math.inf, math.inf)


def captured(torch: Any, calls: Sequence[Call], seconds: float = 6e-3) -> tuple[Call, int]:
    """A CUDA graph of the calls, one for each set of inputs, repeated to fill ``seconds``."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    calls[0]()
    after.record()
    after.synchronize()
    each = max(before.elapsed_time(after) / 1e3, 1e-6)
    rounds = max(1, min(200, round(seconds / (each * len(calls)))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()

    def replay(held: Sequence[Call] = calls) -> None:  # a graph does not keep what its calls read and write
        graph.replay()

    replay()
    torch.cuda.synchronize()
    return replay, rounds * len(calls)


def alternated(
    torch: Any, arms: Mapping[str, tuple[Call, int]], replays: int = 20, warm: float = 0.2
) -> dict[str, dict[str, float]]:
    """Microseconds of each arm's calls: replays in turn, median and outer deciles."""
    end = time.monotonic() + warm
    while time.monotonic() < end:
        for run, _ in arms.values():
            run()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(replays):
        names = list(arms) if turn % 2 == 0 else list(reversed(arms))
        marks = []
        for name in names:
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            arms[name][0]()
            after.record()
            marks.append((name, before, after))
        torch.cuda.synchronize()
        for name, before, after in marks:
            times[name].append(before.elapsed_time(after) * 1e3 / arms[name][1])
    return {
        name: {"us": round(statistics.median(each), 2), "p10": round(sorted(each)[len(each) // 10], 2),
               "p90": round(sorted(each)[-1 - len(each) // 10], 2)}
        for name, each in times.items()
    }  # fmt: skip


def input_sets(shape: Shape, bytes_beside: int = 0) -> int:
    """So many that replays do not find their inputs in L2."""
    m, n, k = shape
    return max(1, min(8, math.ceil(3 * L2_BYTES / (2 * (m * k + n * k + m * n) + bytes_beside))))


def tell(row: Row) -> None:
    print(json.dumps(row), flush=True)


def ready(torch: Any) -> None:
    """From here on silence is a hang."""
    torch.cuda.synchronize()
    tell({"ready": torch.__version__})


def failed(e: Exception) -> Row:
    return {"ok": False, "error": f"{type(e).__name__}: {e}"[:300]}


def broken(e: Exception) -> bool:
    """Whether the context is lost."""
    return any(s in str(e) for s in ("CUDA_ERROR", "CUDA error", "launch failure", "illegal"))


def poisoned(torch: Any, shape: Shape, dtype: Any = None) -> Any:
    return torch.full(shape[:2], math.nan, device=device(torch), dtype=dtype or torch.bfloat16)
