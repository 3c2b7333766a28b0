"""Schedules of one point that may be fast: numbers of warps, as many blocks as threads or registers allow.

python benchmarks/hardware/rows_on_gpu.py --sweep --only "rmsnorm f32 2048,4096; layernorm bf16 8192" --out \
        DIR

``best`` reads what came out, and says which schedules to try again beside each point's default one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LANES, THREADS_PER_SM, REGISTERS = 32, 2048, 65536
#: Accesses of one thread to a row, and registers beside those that hold it.
ACCESSES, OTHER_REGISTERS = range(1, 9), 22
#: Fusions of one elementwise pass, and those that read a row once.
TILES, ONCE = ("bias+gelu", "swiglu", "pointwise8"), ("row_sum",)


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
    for warps in (4, 8, 16):
        for accesses in (1, 2, 4):
            tile = f"tile={accesses * vector * warps * LANES} source=direct compute_warps={warps}"
            yield f"{tile} blocks_per_sm={64 // warps}"
            yield f"{tile} blocks_per_sm={32 // warps}"


def _rows(case: str, width: int, vector: int) -> Iterator[str]:
    several = 2 if case == "add+rmsnorm" else 1
    yield "grid=persistent"
    for warps in (2, 4, 8, 16, 32):
        threads = warps * LANES
        accesses = width // (threads * vector)
        if accesses not in ACCESSES:
            continue
        most = min(16, THREADS_PER_SM // threads)
        held = OTHER_REGISTERS + accesses * vector * several
        fitting = max(1, min(most, REGISTERS // (held * threads)))
        for blocks in sorted({fitting, max(1, fitting * 3 // 4)}, reverse=True):
            yield f"warps={warps} blocks_per_sm={blocks}"
        if case not in ONCE:
            for blocks in sorted({most, max(1, most * 3 // 4)}, reverse=True):
                yield f"reread=yes warps={warps} blocks_per_sm={blocks}"


#: Schedules beside the default ones that come within 2% of them, or may: of points, what is tried again.
NEAR: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("layernorm bf16 1024; rmsnorm bf16 1024; softmax bf16 1024; layernorm f32 1024; softmax f32 1024",
     ("warps=1 rows=4 b=6", "warps=1 rows=2 b=12", "warps=1 rows=1 b=16", "warps=1 rows=4 b=5")),
    ("layernorm bf16 1024; softmax bf16 1024", ("warps=2 rows=2 b=10",)),
    ("layernorm bf16 2048; rmsnorm bf16 2048", ("warps=2 b=12", "warps=2 rows=2 b=6", "warps=4 b=12")),
    ("layernorm bf16 4096", ("warps=4 b=6 operands=registers", "again 8 6", "again 4 12")),
    ("layernorm f32 4096", ("again 8 8", "again 16 4", "again 8 7")),
    ("rmsnorm f32 32768; softmax f32 32768; layernorm f32 32768",
     ("again 32 1", "source=bulk warps=16", "source=bulk warps=16 cache=normal", "source=bulk warps=24")),
    ("layernorm bf16 32768; layernorm f32 16384", ("source=bulk warps=16",)),
    ("add+rmsnorm f32 32768", ("again 32 1",)),
    ("add+rmsnorm bf16 2048", ("again 8 8", "again 4 12")),
)  # fmt: skip


def near(case: str, dtype: str, width: int) -> list[str]:
    """Those of ``NEAR`` for one point."""
    named = [s for text, some in NEAR if (case, dtype, width) in only(text) for s in some]
    return list(dict.fromkeys(map(_long, named)))


def _long(text: str) -> str:
    kind, *numbers = text.split()
    if kind == "again":
        return "reread=yes warps={} blocks_per_sm={}".format(*numbers)
    if kind == "tile":
        return "tile={} source=direct compute_warps={} blocks_per_sm={}".format(*numbers)
    return text.replace("b=", "blocks_per_sm=")


def best(found: dict[str, Any], count: int = 3) -> dict[str, list[str]]:
    """By point, the fastest schedules of a run beside the default ones."""
    result = {}
    for p in found["points"]:
        ours = {n[5:]: a["us"] for n, a in p.get("arms", {}).items() if n.startswith("ours ") and "=" in n}
        result[f"{p['case']} {p['dtype']} {p['width']}"] = sorted(ours, key=lambda n: float(ours[n]))[:count]
    return result


if __name__ == "__main__":
    print(json.dumps(best(json.loads(Path(sys.argv[1]).read_text("utf-8"))), indent=1))
