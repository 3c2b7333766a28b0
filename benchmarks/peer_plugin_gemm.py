"""Matrix products for ``peer_bench.py --plugin``: the schedules that suit a shape.

With SYNCVERIFY_PROVED set every kernel is proved before it runs; without, timing does not wait for proofs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from syncverify.gate_matmul import CompiledMatmul
from syncverify.matmul import Schedule, product

_REGISTERS = (40, 232)
_PROVED = bool(os.environ.get("SYNCVERIFY_PROVED"))
_KERNELS: dict[tuple[str, Schedule], CompiledMatmul] = {}


def candidates(m: int, n: int, k: int) -> list[tuple[str, Schedule]]:
    """Schedules to try for a shape."""
    if m <= 64:
        return [("64x128", Schedule(64, 128, consumers=1)), ("64x64", Schedule(64, 64, consumers=1))]
    if -(-m // 128) * -(-n // 256) < 100:
        return [("128x128t", Schedule(128, 128, store="tma")), ("128x64", Schedule(128, 64))]
    return [
        ("128x256pt", Schedule(128, 256, registers=_REGISTERS, persistent=True, store="tma")),
        ("256x128pt", Schedule(256, 128, registers=_REGISTERS, persistent=True, store="tma")),
        ("128x256p", Schedule(128, 256, registers=_REGISTERS, persistent=True)),
    ]


def gemm(M: int, N: int, K: int, layout: str) -> list[tuple[str, Callable[..., Any]]]:
    """What peer_bench.py asks for: names, and functions of A, B and C."""

    def runner(schedule: Schedule) -> Callable[..., Any]:
        key = (layout, schedule)
        if key not in _KERNELS:
            _KERNELS[key] = CompiledMatmul(product(layout=layout), schedule)
        kernel = _KERNELS[key]
        return lambda a, b, c: kernel(a, b, out=c, proved=_PROVED)

    return [(name, runner(schedule)) for name, schedule in candidates(M, N, K)]
