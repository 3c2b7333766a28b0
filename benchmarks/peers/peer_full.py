"""Every row of another program's table of memory-bound fusions, max-autotune beside.

    python benchmarks/peers/peer_full.py PEER_BENCH.py --out DIR --seconds 400

By itself peer_bench.py has torch.compile's functions compiled one after the other, which takes most of its
time, and so compares max-autotune at two row lengths only. Here:
1. processes have them compiled and tuned, at once (each tries its configurations while it has the GPU alone);
   what inductor makes is kept on disk. Beside them this project's kernels are compiled and proved.
2. Then, in one process, every point is one call of ``fusion_case``: eager, torch.compile, max-autotune and
   ours, whose replays alternate.
DIR/peer_full.json is written again after every point. Row lengths 1024 and 2048 are added to the table's.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

WIDTHS = (4096, 32768, 8192, 16384, 1024, 2048)
DTYPES = ("bf16", "fp32")
PEERS = ("compile", "tuned")
Point = tuple[str, str, int]


def peer_bench(path: Path) -> Any:
    """The other program, as a module."""
    spec = importlib.util.spec_from_file_location("peer_bench", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settled(path: Path, cpu: bool) -> tuple[Any, Any]:
    """The module and its machine, set as its own main() sets them."""
    bench = peer_bench(path)
    bench.torch.manual_seed(0)
    bench.torch.set_grad_enabled(False)
    bench.torch.backends.cuda.matmul.allow_tf32 = False
    return bench, bench.Bench(cpu)


# ---------------------------------------------------------------- compiling at once

_warm: tuple[Any, Any, Path] | None = None


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def begin(path: Path, cpu: bool, lock: Path) -> None:
    global _warm
    _warm = (*settled(path, cpu), lock)
    if not cpu:
        measure_alone(lock)


def measure_alone(lock: Path) -> None:
    """Has inductor try its configurations while no other process uses the GPU."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    plain = CachingAutotuner.bench

    def bench(self: Any, *args: Any, **named: Any) -> Any:
        with alone(lock):
            return plain(self, *args, **named)

    CachingAutotuner.bench = bench  # type: ignore[method-assign, unused-ignore]


def warmed(point: Point, elements: int) -> str:
    """Compiles both functions of a point as fusion_case does, so that they lie on disk."""
    assert _warm is not None
    bench, machine, lock = _warm
    (name, dtype, width), start = point, time.time()
    function, kinds, _, _ = bench.FUSIONS[name]
    with alone(lock):
        given = bench.fusion_inputs(machine, kinds, elements // width, width, bench.DT[dtype])
        machine.sync()
    for mode in (None, "max-autotune-no-cudagraphs"):
        bench.compiled(function, mode)(*given)
        machine.sync()
    del given
    if not machine.cpu:
        bench.torch.cuda.empty_cache()
    return f"{name} {dtype} {width} compiled in {time.time() - start:.1f} s"


def warm(path: Path, args: argparse.Namespace, points: list[Point], end: float) -> None:
    pool = ProcessPoolExecutor(
        args.workers, get_context("spawn"), begin, (path, args.cpu, args.cache / "gpu.lock")
    )  # fmt: skip
    waiting: list[Future[str]] = [pool.submit(warmed, p, args.elements) for p in points]
    for point, future in zip(points, waiting, strict=True):
        try:
            print(future.result(max(0.1, end - time.time())), flush=True)
        except Exception as e:  # what is not on disk is compiled when it is timed
            print(f"{point}: {type(e).__name__}: {e}"[:200], flush=True)
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=time.time() < end, cancel_futures=True)
    for process in processes:  # who is late must not use the GPU beside what is timed
        process.kill()
        process.join()


# ---------------------------------------------------------------- timing


def measured(bench: Any, machine: Any, plugin: Any, point: Point, elements: int, few: bool) -> dict[str, Any]:
    """One point: eager, unless there shall be ``few``, both of torch.compile, and ours."""
    (name, dtype, width), rows = point, elements // point[2]

    def functions(*of: Any) -> list[tuple[str, Any]]:
        eager = [] if few else [("eager", bench.FUSIONS[name][0])]
        return [*eager, *(plugin.fusion(*of) if plugin else ())]

    found: dict[str, Any] = bench.fusion_case(
        machine, name, dtype, rows, width, SimpleNamespace(fusion=functions), True
    )
    bench.torch._dynamo.reset()
    if not machine.cpu:
        machine.sync()
        bench.torch.cuda.empty_cache()
    return found


def times(found: dict[str, Any]) -> tuple[float | None, float | None]:
    """Microseconds of our default schedule, and of the better of torch.compile's two."""
    by = {n: v["median_us"] for n, v in found["variants"].items()}
    ours = [us for n, us in by.items() if n.startswith("syncverify/")]
    peers = [by[n] for n in PEERS if n in by]
    return (ours[0] if ours else None), (min(peers) if peers else None)


def summary(fusions: list[dict[str, Any]], copy: float) -> dict[str, Any]:
    pairs = [(f, *times(f)) for f in fusions]
    ratios = [peer / ours for _, ours, peer in pairs if ours and peer]
    result: dict[str, Any] = {
        "points": len(fusions),
        "failed": [[f["case"], f["dtype"], f["N"], f["failed"]] for f in fusions if f["failed"]],
        "beside max-autotune too": sum("tuned" in f["variants"] for f in fusions),
        "ahead": f"{sum(r > 1 for r in ratios)} of {len(ratios)}",
        "0.995 or more": sum(r >= 0.995 for r in ratios),
        "lowest": round(min(ratios), 4) if ratios else None, "geomean": geomean(ratios),
    }  # fmt: skip
    for text, bar, wide in (("4096 and more", 0.95, True), ("1024 and 2048", 0.90, False)):
        of = [f["bytes"] / (ours * 1e3) / copy for f, ours, _ in pairs if ours and (f["N"] >= 4096) is wide]
        result[text] = {
            f"at least {bar} of the copy": f"{sum(x >= bar for x in of)} of {len(of)}",
            "lowest": round(min(of), 4) if of else None, "geomean": geomean(of),
        }  # fmt: skip
    return result


def geomean(values: list[float]) -> float | None:
    return round(statistics.geometric_mean(values), 4) if values else None


def shown(found: dict[str, Any], copy: float) -> str:
    line = f"{found['case']:13} {found['dtype']} {found['N']:5}"
    for name, v in found["variants"].items():
        line += f" | {name.removeprefix('syncverify/')} {v['median_us']:.1f} us {v['GBps'] / copy:.3f}"
    ours, peer = times(found)
    if ours and peer:
        line += f" | {peer / ours:.3f}"
    return line + "".join(f" | {n} FAILED {x[:80]}" for n, x in found["failed"].items())


def proofs(args: argparse.Namespace) -> subprocess.Popen[bytes]:
    """A process that compiles and proves this project's kernels."""
    plugin = [sys.executable, str(HERE / "peer_plugin.py"), "--prepare", *(["--chosen"] if args.few else [])]
    text = (args.out / "prepare.txt").open("w")
    return subprocess.Popen(
        [*plugin, "--workers", str(args.jobs), "--widths", args.widths], stdout=text, stderr=subprocess.STDOUT
    )


def main() -> int:
    start = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("peer_bench", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--warm-seconds", type=float, default=150.0)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--few", action="store_true", help="neither eager nor other schedules of ours")
    parser.add_argument("--cases", default="")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument(
        "--cache", type=Path, default=Path("/tmp/peer_full"), help="what inductor makes is kept there"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="a trial of the plumbing: small tensors, none of ours"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.cache.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "TORCHINDUCTOR_CACHE_DIR": str(args.cache / "inductor"),
        "TRITON_CACHE_DIR": str(args.cache / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    args.elements = 1 << 14 if args.cpu else 1 << 27
    beside = None if args.cpu else proofs(args)
    path = args.peer_bench.resolve()
    bench, machine = settled(path, args.cpu)
    cases = [c for c in args.cases.split(",") if c] or list(bench.FUSIONS)
    points = [(c, d, int(w)) for w in args.widths.split(",") for d in args.dtypes.split(",") for c in cases]
    warm(path, args, points, start + args.warm_seconds)
    if beside is not None:
        beside.wait()
    whole: dict[str, Any] = {
        "torch": bench.torch.__version__, "machine": bench.smi(),
        "warm seconds": round(time.time() - start, 1),
        "bandwidth": bench.bandwidth(machine), "left out": [], "errors": [], "fusion": [],
    }  # fmt: skip
    copy = max(whole["bandwidth"][k]["GBps"] for k in ("copy", "copy_kernel"))
    print(f"warm after {whole['warm seconds']} s; copy {copy:.0f} GB/s", flush=True)
    if not args.cpu:
        from benchmarks.peers import peer_plugin

        peer_plugin.others = not args.few
    for point in points:
        if time.time() - start > args.seconds - 8:
            whole["left out"].append(point)
            continue
        try:
            whole["fusion"].append(
                measured(bench, machine, None if args.cpu else peer_plugin, point, args.elements, args.few)
            )
            print(shown(whole["fusion"][-1], copy), flush=True)
        except Exception as e:  # one point's trouble is no other's
            whole["errors"].append([*point, f"{type(e).__name__}: {e}"[:400]])
            print(*whole["errors"][-1], flush=True)
        whole |= {"seconds": round(time.time() - start, 1), "summary": summary(whole["fusion"], copy)}
        (args.out / "peer_full.json").write_text(json.dumps(whole, indent=1))
    print(json.dumps(whole["summary"], indent=1))
    return 1 if whole["errors"] or whole["left out"] else 0


if __name__ == "__main__":
    sys.exit(main())
