"""Schedules of products whose epilogue reads and writes several matrices, on one Hopper GPU.

    python benchmarks/hardware/matmul_long_ends.py --out FILE [--m 8192 --n 5632 --k 2048] [--seconds 40]

The epilogues are those of a gated layer in training: both products and their combination (``three``), its
second half (``half``), its gradient (``dgrad``); one that adds a matrix (``read``), and one of two results
(``two``). Schedules are compiled, compared with the first one's results, and not proved. Times are medians of
seven calls, in microseconds, with nothing in caches.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from syncverify.base.source import InputError  # noqa: E402
from syncverify.fusion import Tensor, Value, exp, trace  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Problem, Schedule  # noqa: E402
from syncverify.matmul.choose import TWO, ranked  # noqa: E402

SMS = 132
#: Relative difference of results from which on a schedule computes something else.
WRONG = 2e-2
C, X = Tensor("f32", ("M", "N")), Tensor("bf16", ("M", "N"))


def two(acc: Value) -> dict[str, Value]:
    return {"y0": acc.cast("bf16"), "y1": (acc / (1.0 + exp(-acc))).cast("bf16")}


def read(acc: Value, x0: Value) -> dict[str, Value]:
    return {"y0": (acc + x0).cast("bf16")}


def half(acc: Value, x0: Value) -> dict[str, Value]:
    g, y = acc.cast("bf16"), (x0 / (1.0 + exp(-x0))).cast("bf16")
    return {"y0": g, "y1": (y * g).cast("bf16")}


def dgrad(acc: Value, x0: Value, x1: Value) -> dict[str, Value]:
    s, g = 1.0 / (1.0 + exp(-x0)), acc.cast("bf16")
    return {
        "y0": (g * (x0 * s)).cast("bf16"),
        "y1": (g * x1 * (s * (1.0 + x0 * (1.0 - s)))).cast("bf16"),
    }


def three(acc: Value, acc2: Value) -> dict[str, Value]:
    a, b = acc.cast("bf16"), acc2.cast("bf16")
    return {"y0": a, "y1": b, "y2": (a / (1.0 + exp(-a)) * b).cast("bf16")}


def problems() -> dict[str, Problem]:
    """Each epilogue with a product in the layout that it has in a model."""
    functions: list[tuple[Callable[..., Any], str, dict[str, Tensor]]] = [
        (half, "KK", {"acc": C, "x0": X}), (dgrad, "KN", {"acc": C, "x0": X, "x1": X}),
        (three, "KK", {"acc": C, "acc2": C}), (read, "KK", {"acc": C, "x0": X}), (two, "KK", {"acc": C}),
    ]  # fmt: skip
    return {f.__name__: Problem(f.__name__, "bf16", layout, trace(f, t)) for f, layout, t in functions}


def some(problem: Problem, sizes: dict[str, int]) -> list[Schedule]:
    """The first-ranked ones, whole and shared tiles, and warpgroups that take turns."""
    order = ranked(problem, sizes, SMS)
    whole = [s for s in order if s.split_k == 1 and not s.pingpong]
    wide = [s for s in whole if (s.tile_m, s.tile_n) == (192, 192)]
    found = [order[0], whole[0], *wide[:1]]
    for m, n in ((128, 128), (64, 256)):
        plain = Schedule(
            m, n // len(problem.rights), registers=TWO, persistent=True, pingpong=True, store="tma"
        )
        for pending in (1, 0):
            fields: dict[str, Any] = {"pending": pending}
            try:
                made = Schedule(**{**{f: getattr(plain, f) for f in plain.__slots__}, **fields})
                made.check(len(problem.rights))
            except InputError:
                continue
            found.append(made)
    return list(dict.fromkeys(found))


def compiled(job: tuple[str, Schedule]) -> str:
    """In a process of the pool: compiles a schedule; nothing, or what failed."""
    try:
        _ = CompiledMatmul(problems()[job[0]], job[1], each_launch=True).program(2).cubin
        return ""
    except Exception as e:  # one schedule's trouble is no other's
        return repr(e)[:200]


def microseconds(torch: Any, call: Callable[[], Any], flushed: Any) -> float:
    for _ in range(3):
        call()
    found = []
    for _ in range(7):
        flushed.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(1_000_000)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e3)
    return round(statistics.median(found), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=40.0)
    for name, size in (("m", 8192), ("n", 5632), ("k", 2048)):
        parser.add_argument(f"--{name}", type=int, default=size)
    o = parser.parse_args()
    import torch

    begun, m, n, k = time.monotonic(), o.m, o.n, o.k
    known = problems()
    jobs = [(name, s) for name, p in known.items() for s in some(p, {"M": m, "N": n, "K": k})]
    pool = multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 1))
    waiting = [pool.apply_async(compiled, (job,)) for job in jobs]

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda").bfloat16()

    a, b, b_n = drawn(m, k), drawn(n, k).t(), drawn(k, n)
    inputs = {"x0": drawn(m, n), "x1": drawn(m, n), "b2": b}
    flushed = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    rows: list[list[Any]] = [["library", "mm", microseconds(torch, lambda: torch.mm(a, b), flushed)]]
    first: dict[str, Any] = {}
    for (name, s), job in zip(jobs, waiting, strict=True):
        if time.monotonic() - begun > o.seconds:
            break
        why, p = job.get(), known[name]
        if why:
            print(name, s.title, why, flush=True)
            continue
        f, right = CompiledMatmul(p, s, each_launch=True), b if p.b_t else b_n
        wanted = [*dict(p.others), *p.rights[1:]]
        given = {x: inputs[x.rstrip("_")] for x in wanted}
        call = lambda f=f, right=right, given=given: f(a, right, proved=False, **given)  # noqa: E731
        result = call()
        whole = torch.stack(result).float() if isinstance(result, tuple) else result.float()
        want = first.setdefault(name, whole)
        wrong = not float((whole - want).norm() / want.norm()) < WRONG
        rows.append([name, s.title, microseconds(torch, call, flushed), *(["wrong"] if wrong else [])])
        print(*rows[-1], flush=True)
    pool.terminate()
    o.out.write_text(json.dumps({"card": torch.cuda.get_device_name(0), "sizes": [m, n, k], "rows": rows}))


if __name__ == "__main__":
    main()
