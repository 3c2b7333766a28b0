"""Schedules of one point that may be fast: numbers of warps, as many blocks as threads or registers allow.

python benchmarks/rows_on_gpu.py --sweep --only "rmsnorm f32 2048,4096; layernorm bf16 8192" --out DIR
"""

from __future__ import annotations

from collections.abc import Iterator

LANES, THREADS_PER_SM, REGISTERS = 32, 2048, 65536
#: Accesses of one thread to a row, and registers beside those that hold it.
ACCESSES, BESIDE = range(1, 9), 22
#: Fusions of one elementwise pass, by how many tensors they read.
TILES = {"bias+gelu": 1, "swiglu": 2, "pointwise8": 2}
HINTS = ("ahead", "both", "streaming", "loads")


def only(text: str) -> list[tuple[str, str, int]]:
    """Points from "CASE DTYPE WIDTH,WIDTH; ..."."""
    found = []
    for part in filter(str.strip, text.split(";")):
        case, dtype, widths = part.split()
        found += [(case, dtype, int(w)) for w in widths.split(",")]
    return found


def settings(case: str, dtype: str, width: int) -> list[str]:
    vector = 4 if dtype == "f32" else 8
    return list(dict.fromkeys(_tiles(vector) if case in TILES else _rows(case, width, vector)))


def _tiles(vector: int) -> Iterator[str]:
    for accesses in (1, 2, 4):
        for warps in (4, 8, 16):
            tile = accesses * vector * warps * LANES
            yield f"tile={tile} source=direct compute_warps={warps} blocks_per_sm={32 // warps}"
    for hint in HINTS:
        yield f"tile={vector * 16 * LANES} source=direct compute_warps=16 cache={hint}"


def _rows(case: str, width: int, vector: int) -> Iterator[str]:
    several = 2 if case == "add+rmsnorm" else 1
    for warps in (2, 4, 8, 16, 32):
        threads = warps * LANES
        accesses = width // (threads * vector)
        if accesses not in ACCESSES:
            continue
        most = min(16, THREADS_PER_SM // threads)
        held = BESIDE + accesses * vector * several
        fitting = max(1, min(most, REGISTERS // (held * threads)))
        for blocks in sorted({fitting, max(1, fitting * 3 // 4)}, reverse=True):
            yield f"warps={warps} blocks_per_sm={blocks}"
        if case != "row_sum":
            for blocks in sorted({most, max(1, most * 3 // 4)}, reverse=True):
                yield f"reread=yes warps={warps} blocks_per_sm={blocks}"
    yield from (f"cache={hint}" for hint in HINTS)
    yield "grid=persistent"


__all__ = ["only", "settings"]
