"""Gradients of embeddings with few rows on a GPU: as products, and as additions in memory.

    python benchmarks/hardware/torch_embeddings.py --out FILE [--seconds 60]

Inductor compiles both, of the same gradients. Indices are equal, drawn evenly, or distances as T5 has them;
places of a gradient follow each other in memory (``turned``, as T5 has it), or the elements of a row do.
The limits of ``embeddings.py`` are lifted, so that both sides of each are seen. Each line: rows, places,
elements of a row, indices, layout; microseconds of additions and of products, medians of replays of CUDA
graphs; how far both are from sums of float64. Without a GPU nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

#: Rows, places and elements of a row of what is measured, in this order of importance.
ROWS, PLACES, WIDTHS = (32, 2, 8, 128), (1 << 18, 1 << 16, 1 << 14), (16, 256)
KINDS = ("distances", "evenly", "equal")
#: Elements of the matrix of zeros and ones, at most; bytes of a gradient, at most.
MOST, BYTES = 1 << 26, 1 << 29


def cases() -> Iterator[tuple[int, int, int, bool, str]]:
    """Each program's cases behind each other."""
    for places, width, rows, turned, kind in product(PLACES, WIDTHS, ROWS, (True, False), KINDS):
        if rows * places <= MOST and 4 * places * width <= BYTES:
            yield rows, places, width, turned, kind


def indices_of(torch: Any, rows: int, places: int, kind: str) -> Any:
    """Which row each place has."""
    if kind == "equal":
        return torch.zeros(places, dtype=torch.int64, device="cuda")
    if kind == "evenly":
        return torch.randint(0, rows, (places,), device="cuda")
    side = 1 << ((places.bit_length() - 1) // 2)
    far = torch.arange(places // side, device="cuda")[:, None] - torch.arange(side, device="cuda")[None, :]
    half = rows // 2  # as T5: half of the rows for each direction, more distances in a row the farther
    near = (far.abs().float() / 2).clamp(min=1).log2().mul(half / 8).long().clamp(0, half - 1)
    return (near + half * (far > 0)).clamp(0, rows - 1).reshape(-1)


def microseconds(torch: Any, call: Callable[[], Any]) -> float:
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            call()
    found = []
    for _ in range(7):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 4 * 1e3)
    return round(statistics.median(found), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    if not torch.cuda.is_available():
        print("no GPU: nothing is measured")
        return
    from syncverify.torch import embeddings

    embeddings._few = lambda rows, places: True  # type: ignore[assignment]
    embeddings._turned = lambda grad: True  # type: ignore[assignment]
    begun, lines = time.monotonic(), []
    added = torch.ops.aten.embedding_dense_backward
    made: dict[tuple[int, ...], tuple[Any, Any]] = {}
    for rows, places, width, turned, kind in cases():
        if time.monotonic() - begun > o.seconds:
            print("time is over", flush=True)
            break
        shape = (width, places) if turned else (places, width)
        grad = torch.randn(*shape, device="cuda").bfloat16()
        grad = grad.t() if turned else grad
        at = indices_of(torch, rows, places, kind)
        if (rows, places, width, turned) not in made:
            torch._dynamo.reset()
            plain = torch.compile(lambda g, x, n=rows: added(g, x, n, -1, False), dynamic=False)
            ours = torch.compile(lambda g, x, n=rows: embeddings.backward(g, x, n, -1, False), dynamic=False)
            made = {(rows, places, width, turned): (plain, ours)}
        plain, ours = made[rows, places, width, turned]
        exact = torch.zeros(rows, width, dtype=torch.float64, device="cuda").index_add_(0, at, grad.double())
        far = [float((f(grad, at).double() - exact).norm() / exact.norm()) for f in (plain, ours)]
        us = [microseconds(torch, partial(f, grad, at)) for f in (plain, ours)]
        case = {"rows": rows, "places": places, "width": width, "turned": turned, "indices": kind}
        lines.append({**case, "us": us, "rel": far})
        layout = "turned" if turned else "plain"
        shown = f"{rows:4} rows {places:6} places {width:4} wide {layout:6} {kind:9}: additions {us[0]:8.1f},"
        print(
            f"{shown} products {us[1]:8.1f}, ratio {us[0] / us[1]:.2f}, rel {far[0]:.1e} {far[1]:.1e}",
            flush=True,
        )
        o.out.write_text(json.dumps({"card": torch.cuda.get_device_name(0), "rows": lines}) + "\n")


if __name__ == "__main__":
    main()
