"""Where the time of `syncverify check` on PTX goes: processor and wall seconds of a whole process, by stage.

    python benchmarks/checker/bench_ptx_time.py [--scope exact] [--match TEXT] [--seconds N] [-o FILE]

Each kernel of the real corpus is checked in a process of its own, with the launch file of the scope; a child
counts its own seconds, exclusive of the stages inside. What the interpreter itself takes to start is measured
first and not counted. Modules are compiled to bytecode before, as an installation does.
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
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.system.real.cache import kernels  # noqa: E402

#: Run by the child: functions whose time is a stage, as module and name.
CHILD = """
import sys, json, time, io, contextlib
begin = time.process_time()
from importlib import import_module
spent, stack = {}, []
def switch(to):
    now = time.process_time()
    spent[stack[-1][0]] = spent.get(stack[-1][0], 0.0) + now - stack[-1][1]
    stack[-1][1] = now
    if to is None:
        stack.pop()
        stack[-1][1] = now
    else:
        stack.append([to, now])
def staged(stage, function):
    def run(*a, **k):
        switch(stage)
        try:
            return function(*a, **k)
        finally:
            switch(None)
    return run
import syncverify.cli.check, syncverify.frontends.ptx.check_kernel as c
from syncverify.cli.main import run
import syncverify.files as files
spent["import"] = time.process_time() - begin
stack.append(["rest", time.process_time()])
import syncverify.frontends.ptx.parser as parser
import syncverify.frontends.ptx.advice as advice
parser.parse = staged("parse", parser.parse)
c.Program = staged("slice and compile", c.Program)
c.PtxSystem.fresh = staged("lane classes", c.PtxSystem.fresh)
files.run_system = staged("check", files.run_system)
advice.advised = staged("advice", advice.advised)
if "all" in sys.argv[3:]:
    import syncverify.sizes as sizes
    sizes.prove = staged("every size", sizes.prove)
with contextlib.redirect_stdout(io.StringIO()) as out:
    status = run(["check", sys.argv[1], "--launch", sys.argv[2], "--format", "json"])
spent["rest"] = spent.get("rest", 0.0) + time.process_time() - stack[-1][1]
report = json.loads(out.getvalue())["kernels"][0] if out.getvalue() else {"verdict": "error"}
print(json.dumps({"verdict": report["verdict"], "stages": spent}))
"""


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_of_python(environment: dict[str, str]) -> tuple[float, float]:
    """Processor and wall seconds of an interpreter that does nothing, the least of five."""
    found, waited = [], []
    for _ in range(5):
        before, begun = children(), time.monotonic()
        subprocess.run([sys.executable, "-c", "pass"], check=True, env=environment)
        found.append(children() - before)
        waited.append(time.monotonic() - begun)
    return min(found), min(waited)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--scope", default="exact", choices=["exact", "all", "block"])
    options.add_argument("--match", default="")
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    compiled = tempfile.TemporaryDirectory()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": compiled.name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    first = kernels()[0]
    subprocess.run(
        [sys.executable, "-c", CHILD, str(first.ptx), str(first.facts("exact")), given.scope],
        env=environment,
        capture_output=True,
    )
    start, waits = start_of_python(environment)
    loaded = os.getloadavg()[0]
    began = time.monotonic()
    rows: list[dict[str, Any]] = []
    for kernel in kernels():
        name = f"{kernel.ptx.parent.name}/{kernel.ptx.stem}"
        facts = kernel.facts(given.scope)
        if given.match not in name or not Path(facts).exists():
            continue
        if time.monotonic() - began > given.seconds:
            break
        before, begun = children(), time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(kernel.ptx), str(facts), given.scope],
                env=environment,
                capture_output=True,
                text=True,
                timeout=180,
            )
            row = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.TimeoutExpired, ValueError, IndexError):
            row = {"verdict": "failed", "stages": {}}
        wall = round(time.monotonic() - begun - waits, 3)
        row = {"kernel": name, "seconds": round(children() - before - start, 3), "wall": wall} | row
        rows.append(row)
        print(f"{name:44} {row['verdict']:8} {row['seconds']:7.2f} s", _stages(row["stages"]), flush=True)
    stages = sorted({s for r in rows for s in r["stages"]})
    summary = {
        "kernels": len(rows),
        "scope": given.scope,
        "start of the interpreter": round(start, 3),
        "median above it": round(median(r["seconds"] for r in rows), 3) if rows else None,
        "median of wall seconds": round(median(r["wall"] for r in rows), 3) if rows else None,
        "load before and after": [round(loaded, 1), round(os.getloadavg()[0], 1)],
        "median of each stage": {s: round(median(r["stages"].get(s, 0.0) for r in rows), 3) for s in stages},
        "whole corpus, each stage": {s: round(sum(r["stages"].get(s, 0.0) for r in rows), 1) for s in stages},
    }
    print(json.dumps(summary, indent=1))
    if given.output:
        given.output.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    return 0


def _stages(spent: dict[str, float]) -> str:
    return "  ".join(f"{s} {x:.2f}" for s, x in sorted(spent.items(), key=lambda p: -p[1]))


if __name__ == "__main__":
    sys.exit(main())
