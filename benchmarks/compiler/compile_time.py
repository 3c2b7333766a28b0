"""Seconds to compile and prove each example, by stage, and to take it from the cache. No GPU.

    python benchmarks/compiler/compile_time.py [--only softmax,mul] [--widths 1024,32768] [--out \
        compile_time.json]

Each kernel is made by a new process with an empty cache directory, then by another one with that directory.
Seconds are those of the process, without the interpreter's start and the imports, so that other work on the
machine does not show; ``wall`` and ``hit wall`` are by the clock. ``hit`` is what ``gate.compile`` does, in
a process that has compiled something else before. --settings "source=bulk" has all made under that schedule.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from syncverify import gate  # noqa: E402
from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.codegen.cache import Cache  # noqa: E402
from syncverify.examples import attention, fusions, losses, norms, rows  # noqa: E402
from syncverify.fusion import Fusion, RowSchedule, Schedule  # noqa: E402
from syncverify.fusion.kernel_cache import built  # noqa: E402
from syncverify.fusion.plan import plan_of  # noqa: E402
from syncverify.fusion.segments import whole  # noqa: E402
from syncverify.gate import ptx_check, sequence  # noqa: E402, F401

EXAMPLES: dict[str, Fusion] = {
    name: found
    for module in (fusions, rows, attention, norms, losses)
    for name, found in vars(module).items()
    if isinstance(found, Fusion)
}
WIDTHS = (1024, 4096, 32768)
#: What is wanted.
LIMIT, HIT_LIMIT = 2.0, 0.020


def schedule_of(name: str, width: int, settings: str) -> RowSchedule | Schedule | None:
    """The example's schedule; None has the compiler choose."""
    if width:
        return RowSchedule(width=width).with_settings(settings.split())
    return Schedule().with_settings(settings.split()) if settings else None


def compiled(name: str, width: int, settings: str) -> dict[str, Any]:
    """Compiles and proves one kernel; seconds of each stage."""
    fusion, schedule = EXAMPLES[name], schedule_of(name, width, settings)
    wall, start = time.perf_counter(), time.process_time()
    at = [start]

    def lap() -> float:
        at.append(time.process_time())
        return round(at[-1] - at[-2], 3)

    found: dict[str, Any] = {}
    plan = plan_of(fusion, schedule)
    blocks, hint = plan.resources(plan.main)
    kernel = built(plan, plan.main, Policy.PRACTICAL, Cache.default())
    program = gate.Program(kernel, Policy.PRACTICAL, blocks, hint)
    _ = program.source
    found["passes"] = lap()
    _ = program.code
    found["nvrtc"] = lap()
    for stage in gate.STAGES:
        report = program.proof(stage)
        found[stage] = lap()
        found[f"{stage} scope"] = report.scope.kind.value
    found["total"] = round(at[-1] - start, 3)
    return {**found, "wall": round(time.perf_counter() - wall, 3), "ptx lines": program.ptx.count("\n")}


def several(name: str) -> bool:
    """Whether a fusion takes several kernels, or one whose schedule it chooses itself."""
    return not whole(EXAMPLES[name])


def loaded(name: str, width: int, settings: str) -> None:
    """A fusion's kernels, compiled and proved, with their code."""
    schedule = None if several(name) else schedule_of(name, width, settings)
    kernel = gate.compile(EXAMPLES[name], schedule)
    if isinstance(kernel, gate.CompiledKernel):
        _ = kernel.cubin


def at_once(name: str, width: int, settings: str) -> dict[str, Any]:
    """The same as ``gate.compile`` does it: the IR is proved in a copy of the process where there may be one.
    ``gate``: processor seconds up to there, and from there on those of the slower one of the two."""
    wall, start = time.perf_counter(), time.process_time()
    loaded(name, width, settings)
    own = time.process_time() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    copy = used.ru_utime + used.ru_stime
    before = time.process_time()
    if not several(name):
        plan = plan_of(EXAMPLES[name], schedule_of(name, width, settings))
        plan.build(plan.main, Policy.PRACTICAL)
    before = time.process_time() - before
    seconds = round(max(own, copy + before), 3)
    return {"gate": seconds, "copy": round(copy, 3), "gate wall": round(time.perf_counter() - wall, 3)}


def taken(name: str, width: int, settings: str) -> dict[str, Any]:
    """The same, from the cache."""
    other = EXAMPLES["scale" if name != "scale" else "mul"]
    gate.compile(other)
    wall, start = time.perf_counter(), time.process_time()
    loaded(name, width, settings)
    hit = round(time.process_time() - start, 4)
    return {"hit": hit, "hit wall": round(time.perf_counter() - wall, 4)}


def child(what: str, name: str, width: int, settings: str, cache: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", what, name, str(width), settings]
    done = subprocess.run(
        command, env={**os.environ, "SYNCVERIFY_CACHE": cache}, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:300]}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(EXAMPLES))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--settings", default="")
    parser.add_argument("--child", nargs=4)
    args = parser.parse_args()
    if args.child:
        what, name, width, settings = args.child
        work = {"compile": compiled, "gate": at_once, "take": taken}[what]
        print(json.dumps(work(name, int(width), settings)))
        return 0
    results = []
    for name in args.only.split(","):
        by_rows = EXAMPLES[name].reduced and not several(name)
        widths = [int(w) for w in args.widths.split(",")] if by_rows else [0]
        for width in widths:
            with tempfile.TemporaryDirectory() as cache:
                line = {"name": name, "width": width}
                line |= child("gate" if several(name) else "compile", name, width, args.settings, cache)
                if "failed" not in line:
                    line |= child("take", name, width, args.settings, cache)
            if not several(name):
                with tempfile.TemporaryDirectory() as cache:
                    line |= child("gate", name, width, args.settings, cache)
            results.append(line)
            print(json.dumps(line), flush=True)
    if args.out:
        args.out.write_text(json.dumps(results, indent=1))
    slow = [r for r in results if r.get("total", r.get("gate", 99.0)) > LIMIT]
    long = [r for r in results if r.get("gate", 99.0) > LIMIT]
    late = [r for r in results if r.get("hit", 99.0) > HIT_LIMIT]
    shown = f"{len(slow)} on one core, {len(long)} on two"
    print(f"{len(results)} kernels; over {LIMIT} s: {shown}; hits over {HIT_LIMIT} s: {len(late)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
