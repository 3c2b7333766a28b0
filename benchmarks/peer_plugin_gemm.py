"""Matrix products for ``peer_bench.py --plugin``: the schedules that suit a shape.

Every launch is proved before it runs. With SYNCVERIFY_UNPROVED set none is: for timing where
``matmul_launches.py`` proves the same launches on another machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from syncverify.gate_matmul import CompiledMatmul
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.choose import ranked

#: Schedules of the model's ranking that are timed for each shape, and the SMs that it counts with.
TRIED = int(os.environ.get("SYNCVERIFY_TRIED", "3"))
SMS = 132
_PROVED = "SYNCVERIFY_UNPROVED" not in os.environ
_KERNELS: dict[tuple[str, Schedule], CompiledMatmul] = {}


def named(schedule: Schedule) -> str:
    marks = ("p" if schedule.persistent else "") + ("t" if schedule.store == "tma" else "")
    marks += "c" if schedule.cluster > 1 else ""
    return f"{schedule.tile_m}x{schedule.tile_n}{marks}"


def candidates(problem: Problem, M: int, N: int, K: int) -> list[Schedule]:
    """The schedules that the model ranks first, and the first one's cluster of two."""
    found = ranked(problem, {"M": M, "N": N, "K": K}, SMS)[:TRIED]
    if found[0].persistent and found[0].tile_n % 128 == 0:
        found.append(replace(found[0], cluster=2))
    return found


def gemm(M: int, N: int, K: int, layout: str) -> list[tuple[str, Callable[..., Any]]]:
    """What peer_bench.py asks for: names, and functions of A, B and C."""
    problem = product(layout=layout)

    def runner(schedule: Schedule) -> Callable[..., Any]:
        key = (layout, schedule)
        if key not in _KERNELS:
            _KERNELS[key] = CompiledMatmul(problem, schedule)
        kernel = _KERNELS[key]
        return lambda a, b, c: kernel(a, b, out=c, proved=_PROVED)

    return [(named(schedule), runner(schedule)) for schedule in candidates(problem, M, N, K)]
