"""Fusions of rows beside eager torch, torch.compile, max-autotune and a copy kernel, on one Hopper GPU.

    python benchmarks/hardware/rows_on_gpu.py --out DIR --seconds 300
    python benchmarks/hardware/rows_on_gpu.py --prepare [--jobs 2]       # compiles and proves, no GPU and
        no torch
    python benchmarks/hardware/rows_on_gpu.py --out DIR --cpu --cases softmax --widths 1024   # a trial of
        the plumbing

One run:
1. this project's kernels are compiled and proved by --jobs processes; beside them, torch.compile's functions
   are compiled and tuned by --workers processes, which keep them: with Inductor and with this backend, in the
   default mode and with max-autotune;
2. one process after the other times its points. A point: our results for ragged numbers of rows against
   float64 (outputs full of NaN, three seeds); then every function that is right, at 2^27 elements, as CUDA
   graphs whose replays alternate; medians.
Compiling ends after --compile-share of the time; what is not compiled by then is missing in its point. A
process that answers too late is killed. DIR/rows_on_gpu.json is written again after every point.
--only "CASE DTYPE WIDTH,WIDTH; ..." names single points, --sweep adds the schedules of rows_sweep.py to each,
--near the few of these that may be as fast as the default ones.
--settings "source=bulk" adds a schedule to the default ones; --more FILE adds some to single points, a JSON
object as {"softmax bf16 4096": ["warps=8", "warps=4 blocks_per_sm=6"]}.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.fusion_cases import fusion_of, schedules  # noqa: E402
from benchmarks.hardware import rows_sweep  # noqa: E402
from syncverify import gate  # noqa: E402
from syncverify.fusion import RowSchedule, Schedule  # noqa: E402

CASES = (
    "rmsnorm", "layernorm", "softmax", "add+rmsnorm", "cross_entropy", "row_sum", "bias+gelu", "swiglu",
    "pointwise8",
)  # fmt: skip
#: The most wanted first.
WIDTHS = (4096, 32768, 8192, 16384, 1024, 2048)
DTYPES = ("bf16", "f32")
RAGGED = (1, 131, 1237)
ELEMENTS, TRIAL_ELEMENTS = 1 << 27, 1 << 14
#: Seconds after which a process that was asked to compile or to time a point is killed.
COMPILE_LIMIT, TIME_LIMIT, START_LIMIT = 150.0, 45.0, 90.0
Point = dict[str, Any]


def points(args: argparse.Namespace) -> list[Point]:
    more: dict[str, list[str]] = json.loads(args.more.read_text()) if args.more else {}
    named = rows_sweep.only(args.only) or [
        (c, d, int(w))
        for w in args.widths.split(",")
        for d in args.dtypes.split(",")
        for c in args.cases.split(",")
    ]
    return [
        {
            "case": c, "dtype": d, "width": w,
            "settings": [
                *args.settings, *more.get(f"{c} {d} {w}", ()),
                *(rows_sweep.settings(c, d, w) if args.sweep else ()),
                *(rows_sweep.near(c, d, w) if args.near else ()),
            ],
        }
        for c, d, w in named
    ]  # fmt: skip


def arms(case: str, width: int, settings: list[str]) -> dict[str, RowSchedule | Schedule]:
    """The schedules of a point by name, the default one first."""
    found: dict[str, RowSchedule | Schedule] = dict(schedules(case, width))
    for text in settings:
        kind: RowSchedule | Schedule = Schedule() if "tile=" in text else RowSchedule(width=width)
        found[text] = kind.with_settings(text.split())
    return found


# ---------------------------------------------------------------- proofs


def prepared(point: Point) -> tuple[str, list[str]]:
    """Compiles and proves the kernels of a point; a line for each, and the failures."""
    case, dtype, width = point["case"], point["dtype"], point["width"]
    lines, failed = [], []
    for name, schedule in arms(case, width, point["settings"]).items():
        start, what = time.perf_counter(), f"{case} {dtype} {width} {name}"
        try:
            kernel = gate.compile(fusion_of(case, dtype), schedule)
            assert isinstance(kernel, gate.CompiledKernel), "one kernel does each case"
            for rows in (*RAGGED, ELEMENTS // width):
                sizes = {"R": rows, "C": width}
                kernel.program(sizes).require_proof(kernel.launch_values(sizes))
            undecided = sorted({s for p in kernel.programs.values() for s in p.undecided})
            scope = f"for each launch: {undecided}" if undecided else "for every size"
            lines.append(f"{what} proved {scope} {time.perf_counter() - start:.2f} s")
        except Exception as e:  # one kernel's trouble is no other's
            failed.append(f"{what} {type(e).__name__}: {e}"[:400])
    return "\n".join(lines + failed), failed


def prepare(wanted: list[Point], jobs: int) -> list[str]:
    """Compiles and proves all kernels; what failed."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        failures = []
        for text, failed in pool.map(prepared, wanted):
            print(text, flush=True)
            failures += failed
    return failures


# ---------------------------------------------------------------- processes


class Worker:
    """A process of rows_torch.py that answers commands, or is killed and started again."""

    def __init__(self, kind: str, elements: int, scratch: Path, log: Path) -> None:
        self.arguments = [kind, str(elements), str(scratch / "gpu.lock")]
        self.log = log
        self.environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
            "TRITON_CACHE_DIR": str(scratch / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.version = ""
        self.number = 0  # of processes that were started
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, str(HERE / "rows_torch.py"), *self.arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("a"), text=True,
            env=self.environment,
        )  # fmt: skip
        self.number += 1
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_pump, args=(self.process, self.answers), daemon=True).start()
        self.version = self._answer(START_LIMIT).get("ready", "")

    def ask(self, do: str, point: Point, seconds: float) -> Point:
        """The answer, or ``error``: after which the process is a new one."""
        try:
            if self.process is None:
                self.start()
            assert self.process is not None and self.process.stdin is not None
            self.process.stdin.write(json.dumps({"do": do, "point": point}) + "\n")
            self.process.stdin.flush()
            return self._answer(seconds)
        except (OSError, queue.Empty) as e:
            self.stop()
            return {"error": f"{do}: killed after {seconds:.0f} s" if isinstance(e, queue.Empty) else str(e)}

    def _answer(self, seconds: float) -> Point:
        text = self.answers.get(timeout=max(1.0, seconds))
        if not text:
            self.stop()
            return {"error": "the process ended"}
        found: Point = json.loads(text)
        if "CUDA" in found.get("error", ""):
            self.stop()  # its context is lost
        return found

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _pump(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put("")


Made = dict[int, tuple[Worker, int, Point]]


def compile_all(wanted: list[Point], workers: list[Worker], end: float) -> Made:
    """Has torch.compile's functions made until ``end``; by point, which process has them and what it said."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(wanted)):
        waiting.put(number)
    done: Made = {}

    def work(worker: Worker) -> None:
        while time.time() < end:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            # a point at which the end is near may still finish: others wait for it
            answer = worker.ask("compile", wanted[number], min(COMPILE_LIMIT, end + 30 - time.time()))
            done[number] = (worker, worker.number, answer)

    threads = [threading.Thread(target=work, args=(w,)) for w in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return done


# ---------------------------------------------------------------- results


def summary(found: list[Point]) -> dict[str, Any]:
    """Shares of the copy kernel, and times beside torch.compile, of the default schedules."""
    fractions: dict[str, list[float]] = {"4096 and more": [], "1024 and 2048": []}
    limit = {"4096 and more": 0.95, "1024 and 2048": 0.90}
    ratios, eager, best = [], [], []
    for p in found:
        ours = _ours(p)
        if ours is None:
            continue
        wide = "4096 and more" if p["width"] >= 4096 else "1024 and 2048"
        fractions[wide].append(ours["fraction"])
        peers = [p["arms"][n]["us"] for n in ("compile", "max-autotune") if n in p["arms"]]
        if peers:
            ratios.append(min(peers) / ours["us"])
            best.append(min(peers) / min(a["us"] for n, a in p["arms"].items() if n.startswith("ours ")))
        if "eager" in p["arms"]:
            eager.append(p["arms"]["eager"]["us"] / ours["us"])
    checks = [c for p in found for c in p.get("correct", {}).values()]
    return {
        "points": len(found), "correct": f"{sum(c['ok'] for c in checks)} of {len(checks)}",
        "of the copy": {
            k: {"geomean": _geomean(v), f">= {limit[k]}": f"{sum(x >= limit[k] for x in v)} of {len(v)}"}
            for k, v in fractions.items()
        },
        "beside the better of compile and max-autotune": {
            "geomean": _geomean(ratios), "ahead": f"{sum(x > 1 for x in ratios)} of {len(ratios)}",
        },
        "the same, with the best of our schedules": {
            "geomean": _geomean(best), "ahead": f"{sum(x > 1 for x in best)} of {len(best)}",
        },
        "beside eager": {"geomean": _geomean(eager)},
    }  # fmt: skip


def _ours(p: Point) -> Point | None:
    names = [n for n in p.get("arms", {}) if n.startswith("ours ")]
    return p["arms"][names[0]] if names else None


def _geomean(values: list[float]) -> float | None:
    return round(statistics.geometric_mean(values), 4) if values else None


def shown(p: Point) -> str:
    text = f"{p['case']:13} {p['dtype']:4} {p['width']:5}"
    if "error" in p:
        return f"{text} {p['error']}"
    wrong = [f"{n} WRONG {c['error']:.2g}" for n, c in p["correct"].items() if not c["ok"]]
    times = [f"{n} {a['us']:.1f} us {a['fraction']:.3f}" for n, a in p["arms"].items()]
    return f"{text} {'; '.join(times + wrong + [f'{n} {x}' for n, x in p['failed'].items()])}"


def measure(args: argparse.Namespace, wanted: list[Point], start: float) -> int:
    end = start + args.seconds
    kind = "cpu" if args.cpu else "cuda"
    args.out.mkdir(parents=True, exist_ok=True)
    scratch = args.scratch or Path(tempfile.mkdtemp(prefix="rows-"))
    elements = TRIAL_ELEMENTS if args.cpu else ELEMENTS
    workers = [Worker(kind, elements, scratch, args.out / "rows_on_gpu.log") for _ in range(args.workers)]
    with ThreadPoolExecutor(1) as beside:
        compiling = beside.submit(compile_all, wanted, workers, start + args.compile_share * args.seconds)
        failures = prepare(wanted, args.jobs)
        at: dict[str, float] = {"proved": round(time.time() - start, 1)}
        made = compiling.result()
    at["compiled"] = round(time.time() - start, 1)
    print(f"proved after {at['proved']} s; {len(made)} of {len(wanted)} compiled after {at['compiled']} s")
    found: list[Point] = []
    for number, point in enumerate(wanted):
        if end - time.time() < 3:
            break
        worker, process, compiled = made.get(number, (workers[number % len(workers)], 0, {}))
        if "seconds" in compiled and (worker.process is None or process != worker.number):
            # another process took its place; what torch.compile made is on disk
            worker.ask("compile", point, min(TIME_LIMIT, end - time.time()))
        answer = worker.ask("time", point, min(TIME_LIMIT, end - time.time()))
        found.append({**point, "compiled": compiled, **answer})
        print(shown(found[-1]), flush=True)
        at["timed"] = round(time.time() - start, 1)
        whole = {
            "torch": worker.version, "seconds": at, "unproved": failures,
            "left out": len(wanted) - len(found), "summary": summary(found), "points": found,
        }  # fmt: skip
        (args.out / "rows_on_gpu.json").write_text(json.dumps(whole, indent=1))
    for worker in workers:
        worker.stop()
    print(json.dumps(summary(found), indent=1))
    print(f"{len(found)} of {len(wanted)} points after {time.time() - start:.0f} s")
    return 1 if failures or any("error" in p for p in found) else 0


def main() -> int:
    start = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--scratch", type=Path, help="what torch.compile makes is kept there")
    parser.add_argument("--compile-share", type=float, default=0.55)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--only", default="", help="single points")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--settings", action="append", default=[])
    parser.add_argument("--more", type=Path, help="schedules of single points")
    parser.add_argument("--cpu", action="store_true", help="torch on the processor, kernels on the simulator")
    args = parser.parse_args()
    wanted = points(args)
    if args.prepare:
        failures = prepare(wanted, args.jobs)
        print(f"{len(wanted)} points, {len(failures)} failures")
        return 1 if failures else 0
    return measure(args, wanted, start)


if __name__ == "__main__":
    sys.exit(main())
