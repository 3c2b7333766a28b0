"""This project's kernels for a table of memory-bound fusions: ``fusion(case, dtype, M, N)``.

    python benchmarks/peers/peer_plugin.py --prepare [--workers N]     # compile and prove all, no GPU needed

A benchmark that imports this file asks ``fusion`` for functions of torch tensors. Kernels come out of the
gate only, from the cache directory ($SYNCVERIFY_CACHE) where they were prepared.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from benchmarks.compiler.fusion_cases import CASES, fusion_of, schedules  # noqa: E402
from syncverify import gate  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402

WIDTHS = (4096, 32768, 8192, 16384, 1024, 2048)
#: Whether other schedules than the chosen one are tried, too.
others = True
_compiled: dict[tuple[str, str, int, str], Any] = {}


def kernel(case: str, dtype: str, width: int, name: str) -> Any:
    """The proved kernel of a case under one of its schedules; raises what the gate raises."""
    key = (case, dtype, width, name)
    if key not in _compiled:
        _compiled[key] = gate.compile(fusion_of(case, dtype), schedules(case, width)[name])
    return _compiled[key]


def fusion(case: str, dtype: str, rows: int, width: int) -> list[tuple[str, Callable[..., Any]]]:
    """Named functions of the case's tensors; empty for a case that is not known here."""
    found: list[tuple[str, Callable[..., Any]]] = []
    if case not in CASES:
        return found
    for name in list(schedules(case, width))[: None if others else 1]:
        try:
            found.append((f"syncverify/{name}", kernel(case, dtype, width, name)))
        except (gate.VerificationError, InputError) as e:
            print(f"{case} {dtype} {width} {name}: {e}", file=sys.stderr)
    return found


def _prepare(point: tuple[str, str, int, str]) -> tuple[tuple[str, str, int, str], float, str]:
    start = time.time()
    try:
        _ = kernel(*point).cubin
    except (gate.VerificationError, InputError) as e:
        return point, time.time() - start, str(e)
    return point, time.time() - start, ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--chosen", action="store_true", help="no other schedules than the chosen ones")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    args = parser.parse_args()
    points = [
        (case, dtype, int(width), name)
        for width in args.widths.split(",")
        for case in args.cases.split(",")
        for dtype in ("bf16", "fp32")
        for name in list(schedules(case, int(width)))[: 1 if args.chosen else None]
    ]
    failed = 0
    with ProcessPoolExecutor(args.workers) as pool:
        for point, seconds, error in pool.map(_prepare, points):
            failed += bool(error)
            print(*point, f"{seconds:.2f} s", error or "proved", flush=True)
    print(f"{len(points)} kernels, {failed} without proof")


if __name__ == "__main__":
    main()
