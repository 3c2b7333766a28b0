"""Experiments with matrix products on a Hopper GPU; kernels are compiled and judged beforehand.

    python benchmarks/hardware/matmul_on_gpu.py --prepare DIR [--parts pabcde] [--jobs N]     # no GPU needed
    python benchmarks/hardware/matmul_on_gpu.py DIR --out OUT [--parts pabcde] [--seconds 250 c=150] [--jobs \
        N]

p  18 products beside cuBLAS: the candidates that are proved, the fastest timed again
a  clusters that multicast, warpgroups that take turns: ragged and tiny products against cuBLAS, and times
b  mutants of the kernels: hang, stopped, wrong or right, beside the checker's verdict
c  fused epilogues beside cuBLAS with PyTorch, torch.compile, and max-autotune
d  the proxy fence of the store epilogue, by whom and where: verdict, outcome, time
e  the ladder: TFLOP/s after each technique

Every part runs in child processes that are killed at their deadlines, and writes ``matmul_PART.json``.
``--seconds``: a limit for all parts, limits for single ones, or both. Preparing p takes as long as it is
given, and goes on where it stopped; with ``--jobs`` the run proves what is left before it starts. Parts p,
a, c, d, e need torch; b needs cuda-bindings and NumPy only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware import matmul_fused, matmul_products  # noqa: E402
from benchmarks.hardware import matmul_prepared as prepared  # noqa: E402
from benchmarks.hardware.matmul_prepared import Item  # noqa: E402
from benchmarks.hardware.matmul_timing import DEVIATION, Row, tell  # noqa: E402
from benchmarks.peers import matmul_peers  # noqa: E402
from syncverify.gate.unsafe_run import watched  # noqa: E402

#: Seconds that each part may take, unless --seconds says otherwise.
SECONDS = {"p": 150.0, "a": 60.0, "b": 70.0, "c": 150.0, "d": 25.0, "e": 25.0}
#: A child that has started and prints nothing for so long hangs; compilers are slower.
QUIET = {"p": 15.0, "a": 10.0, "b": 10.0, "c": 60.0, "d": 10.0, "e": 10.0}
MUTANTS, LAUNCHES, AT_ONCE = 40, 100, 8
#: Seconds that proofs still missing may take before part p, with ``--jobs`` of two and more.
PROVING = 110.0

NOT_RUN = "not run: no time left"


# ---------------------------------------------------------------- b: mutants


def bf16(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Random numbers as the bits of bfloat16."""
    bits: np.ndarray[Any, Any] = rng.standard_normal(shape, np.float32).view(np.uint32)
    return np.ascontiguousarray((bits >> 16).astype(np.uint16))


def widened(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide: np.ndarray[Any, Any] = bits.astype(np.uint32) << 16
    return wide.view(np.float32)


def run_mutant(whole: Item, mutant: Item) -> None:
    """The kernel as it was, against NumPy; then the mutant many times against that, bit by bit."""
    from syncverify import gate
    from syncverify.codegen import driver

    sizes = prepared.MUTANT_SIZES
    m, n, k = (sizes[d] for d in "MNK")
    rng = np.random.default_rng(3)
    a, b = bf16(rng, (m, k)), bf16(rng, (n, k))
    driver.use_device(0)
    places = {name: driver.allocate(x) for name, x in (("a", a.nbytes), ("b", b.nbytes), ("out", m * n * 2))}
    driver.copy_in(places["a"], a)
    driver.copy_in(places["b"], b)
    poison = np.full((m, n), 0xFFFF, np.uint16)

    def result(item: Item) -> np.ndarray[Any, Any]:
        driver.copy_in(places["out"], poison)
        values = item.matmul.launch_values(sizes, driver.multiprocessors(0))
        gate.launch(item.matmul.program(), places, values, 0, 0)
        driver.synchronize(0)
        out = np.empty_like(poison)
        driver.copy_out(out, places["out"])
        return out

    want = result(whole)
    rows = rng.integers(0, m, 16)
    exact = widened(a[rows]) @ widened(b).T
    off = np.abs(widened(want[rows]) - exact).max() / np.sqrt(np.square(exact).mean())
    if not off < DEVIATION:
        sys.exit(f"the kernel that is no mutant is wrong by {off}")
    tell({"ready": True})
    begun, wrong, launches = time.monotonic(), 0, 0
    while launches < LAUNCHES and time.monotonic() - begun < 4.0:
        different = int(np.count_nonzero(result(mutant) != want))
        launches += 1
        wrong += different > 0
        if launches in (1, 10) or launches % 25 == 0:
            tell({"launches": launches, "wrong": wrong, "elements": different})
    tell({"launches": launches, "wrong": wrong})


def mutants(place: Path, seconds: float) -> Iterator[Row]:
    items = prepared.load(place, "b")
    whole = {x.name: x for x in items if not x.facts["what"]}
    end = time.monotonic() + seconds

    def one(item: Item) -> Row:
        row: Row = {"schedule": item.name, **item.facts}
        left = end - time.monotonic()
        if left < QUIET["b"]:
            return {**row, "outcome": "not run"}
        command = [sys.executable, str(HERE / "matmul_on_gpu.py"), "--child", "b"]
        seen = watched(command, pickle.dumps((whole[item.name], item)), min(left, 30.0), QUIET["b"])
        told = [json.loads(line) for line in seen.output.splitlines() if line.startswith("{")]
        last = told[-1] if told else {}
        row |= {"launches": last.get("launches", 0), "wrong launches": last.get("wrong", 0)}
        if not told:
            return {**row, "outcome": "not run", "message": seen.message}
        ends = {"timeout": "hang", "crashed": "stopped", "failed": "failed"}
        outcome = ends.get(seen.ending) or ("wrong" if last["wrong"] else "right")
        return {**row, "outcome": outcome, "message": seen.message}

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, [x for x in items if x.facts["what"]])


# ---------------------------------------------------------------- children and their parent

TASKS: dict[str, Callable[[Sequence[Item]], list[Row]]] = {
    "p": matmul_peers.tasks, "a": matmul_products.cluster_tasks, "c": matmul_fused.epilogue_tasks,
    "d": matmul_products.fence_tasks, "e": matmul_products.ladder_tasks,
}  # fmt: skip
RUN: dict[str, Callable[[Sequence[Item], Sequence[Row]], None]] = {
    "p": matmul_peers.run_peers, "a": matmul_products.run_products, "c": matmul_fused.run_epilogues,
    "d": matmul_products.run_fences, "e": matmul_products.run_products,
}  # fmt: skip


def tasks_of(place: Path, part: str, seconds: float) -> Iterator[Row]:
    """Runs a part's tasks; a child that dies or hangs loses its task, and another goes on behind it."""
    end = time.monotonic() + seconds
    left = TASKS[part](prepared.load(place, part))
    command = [sys.executable, str(HERE / "matmul_on_gpu.py"), "--child", part]
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(Path(tempfile.gettempdir()) / "inductor"), **os.environ}
    while left and end - time.monotonic() > 8.0:
        work = pickle.dumps((str(place.resolve()), left))
        seen = watched(command, work, end - time.monotonic(), QUIET[part], environment)
        told = [json.loads(line) for line in seen.output.splitlines() if line.startswith("{")]
        if not told:
            yield {"task": {"part": part}, "ok": False, "ending": "did not start", "message": seen.message}
            return
        yield from (x for x in told if "task" in x and not x.get("done"))
        ended = {json.dumps(x["task"]) for x in told if "task" in x}
        behind = [t for t in left if json.dumps(t) not in ended]
        if seen.ending == "finished":
            left = behind
            break
        over = end - time.monotonic() <= 0
        if (
            behind
            and seen.ending in ("timeout", "crashed")
            and len(behind) < len(left)
            and "error" in told[-1]
        ):
            left = behind  # the task that broke the context has told so
        elif behind and not over:
            yield {"task": behind[0], "ok": False, "ending": seen.ending, "message": seen.message}
            left = behind[1:]
        else:
            left = behind
    yield from ({"task": t, "ok": False, "ending": NOT_RUN} for t in left)


def machine() -> str:
    query = "name,driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
    try:
        asked = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip().splitlines()[0] if asked.stdout.strip() else ""


def short(part: str, row: Row) -> str:
    if part == "b":
        expected = "as argued" if row["argument"] else row["verdict"]
        where = f"{row['schedule']:14} {row['what']:22} line {row['line']:<4} {expected:9} {row['rule']:6}"
        seen = f"{row['wrong launches']} of {row['launches']} launches wrong {row['message']}"
        return f"{where} -> {row['outcome']:8} {seen}"
    if part == "d" and "form" in row:
        judged = f"{row['kernel']:12} {row['form']:36} {row['verdict']:8} {','.join(row['warnings']):6}"
        seen = f"wrong {row['wrong runs']}, different {row['runs that differ']} of {row['runs']}"
        return f"{judged} {seen}, {row['us']} us"
    if part == "p" and "best" in row:
        cublas = f"cuBLAS {row['cublas us']} us {row['cublas tflops']} TFLOP/s"
        ours = f"{row['best']} {row['us']} us {row['tflops']} TFLOP/s"
        return f"{row['task']['shape']} {cublas}, {ours}: {row['ratio']} {row['failed'] or ''}"
    what = {k: v for k, v in row["task"].items() if k not in ("item", "items")}
    rest = {k: v for k, v in row.items() if k not in ("task", "first call s")}
    return f"{what} {rest}"


def run(
    place: Path, out: Path, parts: Iterable[str], seconds: Mapping[str, float], total: float, jobs: int
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + total
    for part in parts:
        if part == "p" and jobs > 1:
            matmul_peers.complete(place, jobs, PROVING)
        begun = time.monotonic()
        limit = min(seconds[part], end - begun)
        print(f"== {part}", flush=True)
        found: list[Row] = []
        record: Row = {"machine": machine(), "seconds": 0.0, "rows": found}
        for row in mutants(place, limit) if part == "b" else tasks_of(place, part, limit):
            found.append(row)
            if row.get("ending") != NOT_RUN and not (row.get("ok") and row["task"].get("do") == "correct"):
                print("  ", short(part, row), flush=True)
            record["seconds"] = round(time.monotonic() - begun, 1)
            (out / f"matmul_{part}.json").write_text(json.dumps(record, indent=1) + "\n")
        if part == "b":
            counts = Counter((r["verdict"], bool(r["argument"]), r["outcome"]) for r in found)
            print("  ", {f"{v}{' (argued)' if x else ''}: {o}": c for (v, x, o), c in sorted(counts.items())})
        if part == "p":
            print("  ", matmul_peers.conclusion(found), flush=True)
        checks = [r for r in found if r.get("task", {}).get("do") == "correct"]
        skipped = sum(r.get("ending") == NOT_RUN or r.get("outcome") == "not run" for r in found)
        right = f"{sum(r['ok'] for r in checks)} of {len(checks)} products right, " if checks else ""
        print(f"   {right}{skipped} not run, {record['seconds']} s", flush=True)


def child(part: str) -> None:
    work = pickle.load(sys.stdin.buffer)
    if part == "b":
        run_mutant(*work)
    else:
        place, tasks = work
        RUN[part](prepared.load(Path(place), part), tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("place", nargs="?", type=Path, help="where the prepared kernels are")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--parts", default="pabcde")
    parser.add_argument("--jobs", type=int, default=1, help="proofs at once")
    parser.add_argument("--seconds", nargs="*", default=[], metavar="[PART=]SECONDS")
    parser.add_argument("--cases", default="", help="the only epilogues of part c that are prepared")
    parser.add_argument("--child")
    options = parser.parse_args()
    single = dict(x.split("=") for x in options.seconds if "=" in x)
    limits = {**SECONDS, **{p: float(s) for p, s in single.items()}}
    total = min((float(x) for x in options.seconds if "=" not in x), default=math.inf)
    if options.child:
        child(options.child)
    elif options.prepare:
        if "p" in options.parts:
            matmul_peers.prepare(options.prepare, options.jobs, total)
        cases = [x for x in options.cases.split(",") if x]
        prepared.prepare(options.prepare, options.parts.replace("p", ""), MUTANTS, cases)
        if "c" in options.parts:
            matmul_fused.prove(options.prepare, options.jobs)
    elif options.place:
        run(options.place, options.out, options.parts, limits, total, options.jobs)
    else:
        parser.error("give a folder of prepared kernels, or --prepare")


if __name__ == "__main__":
    main()
