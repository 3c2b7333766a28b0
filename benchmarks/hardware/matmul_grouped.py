"""Grouped products beside torch on one Hopper GPU: rows of experts that memory names, the default path.

    python benchmarks/hardware/matmul_grouped.py --out FILE [--seed 0]

Each shape is rows, columns, K and right factors. Groups of 128 rows have factors that the seed draws, in
order; 0 takes rows and columns in sum. The others are ``torch._grouped_mm``, a loop of ``torch.mm``, and one
``torch.mm`` of the whole with a single factor, which computes something else and is the speed of a plain
product. Results are compared with the loop's, and once more with a group that has no factor. Times are
medians of CUDA graph replays in alternation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware.matmul_random import alternated, graph  # noqa: E402
from syncverify.gate.matmul import Matmul  # noqa: E402
from syncverify.matmul import grouped_product  # noqa: E402
from syncverify.matmul.problem import GROUP_ROWS  # noqa: E402

#: Rows, columns, K, right factors, layout.
SHAPES = (
    (8192, 4096, 2048, 8, "KN"), (4096, 2048, 4096, 16, "KK"), (16384, 1536, 2048, 64, "KK"),
    (2048, 14336, 4096, 8, "KK"),
)  # fmt: skip
SMS = 132


def prove(shape: tuple[int, int, int, int, str]) -> None:
    """In a process of the pool: proves what a call will run."""
    *sizes, layout = shape
    Matmul(grouped_product(layout=layout)).proved(dict(zip("MNKE", sizes, strict=True)), SMS)


def measured(torch: Any, shape: tuple[int, int, int, int, str], seed: int) -> dict[str, Any]:
    """How far results are off, and microseconds of each way."""
    m, n, k, e, layout = shape
    g = random.Random(seed or m + n)
    drawn = sorted(g.choice(range(e)) for _ in range(m // GROUP_ROWS))
    experts = torch.tensor(drawn, dtype=torch.int32, device="cuda")
    ends = torch.tensor([sum(x <= i for x in drawn) * GROUP_ROWS for i in range(e)], device="cuda").int()

    def random_factor(*extents: int) -> Any:
        return torch.randn(*extents, device="cuda", dtype=torch.bfloat16)

    a = random_factor(m, k)
    b = random_factor(e, n, k).transpose(1, 2) if layout == "KK" else random_factor(e, k, n)
    c, want = (torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ours = Matmul(grouped_product(layout=layout))

    def loop() -> None:
        at = 0
        for i in range(e):
            rows = drawn.count(i) * GROUP_ROWS
            if rows:
                torch.mm(a[at : at + rows], b[i], out=want[at : at + rows])
            at += rows

    loop()
    ours(a, b, out=c, experts=experts)
    error = float((c.float() - want.float()).norm() / want.float().norm())
    experts[0] = -1
    other = ours(a, b, experts=experts)
    none = not other[:GROUP_ROWS].any() and bool((other[GROUP_ROWS:] == c[GROUP_ROWS:]).all())
    experts[0] = drawn[0]
    calls = {
        "ours": lambda: ours(a, b, out=c, experts=experts),
        "loop": loop,
        "grouped_mm": lambda: torch._grouped_mm(a, b, offs=ends),
        "one factor": lambda: torch.mm(a, b[0], out=want),
    }
    times = alternated(torch, {name: graph(torch, [f]) for name, f in calls.items()})
    title = ours.schedule(dict(zip("MNKE", shape[:4], strict=True)), SMS).title
    return {"shape": shape, "schedule": title, "relative_error": error, "no factor": none, "us": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    with multiprocessing.get_context("spawn").Pool(len(SHAPES)) as pool:
        pool.map(prove, SHAPES)
    rows = [measured(torch, s, o.seed) for s in SHAPES]
    o.out.write_text(json.dumps({"card": torch.cuda.get_device_name(0), "rows": rows}, indent=1))
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
