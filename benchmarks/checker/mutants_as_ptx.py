"""Mutants of matrix-product kernels, compiled: what the check of the PTX says of each, beside that of the IR.

    python benchmarks/checker/mutants_as_ptx.py [--schedule NAME ...] [--jobs N] [--out FILE]

The mutants are those of ``matmul_mutants.py``. Whatever the check of the IR refutes has to be refuted as PTX
too, by a front end that reads nothing but the compiled code. Printed are those that the two say other things
of; some have a form that no code is generated for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.checker.matmul_mutants import LONG, OTHERS, SCHEDULES, judge, mutants  # noqa: E402
from syncverify.base.diagnostics import Policy, Severity, Verdict  # noqa: E402
from syncverify.base.nvrtc import compile_kernel  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from syncverify.codegen.cuda import emit  # noqa: E402
from syncverify.gate.ptx_check import check_ptx  # noqa: E402
from syncverify.ir.text.parser import parse  # noqa: E402
from syncverify.ir.text.printer import print_kernel  # noqa: E402
from syncverify.matmul import product  # noqa: E402
from syncverify.matmul.pipeline import build  # noqa: E402


def as_ptx(kernel: Any) -> tuple[str, str]:
    """The verdict on the compiled kernel, at the usual sizes and longer ones, and the first error's rule."""
    try:
        ptx, _ = compile_kernel(emit(kernel), kernel.name)
    except InputError as e:
        return "not compiled", e.message.splitlines()[0]
    names = {p.name for p in kernel.params}
    usual = {p.name: p.default for p in kernel.params if p.default is not None}
    worst = Verdict.PROVED.value, ""
    for values in (usual, *({**usual, **more} for more in LONG if names >= more.keys())):
        try:
            report = check_ptx(kernel, ptx, Policy.PRACTICAL, values)
        except InputError as e:
            if values is usual:
                return "not checked", e.message
            continue  # another kind of kernel's sizes
        if report.verdict is Verdict.REFUTED:
            errors = [d.rule for d in report.diagnostics if d.severity is Severity.ERROR]
            return report.verdict.value, errors[0]
        if report.verdict is not Verdict.PROVED:
            worst = report.verdict.value, report.reason or ""
    return worst


def judged(task: tuple[str, int]) -> dict[str, Any]:
    """One mutant by both checks."""
    name, number = task
    problem, schedule = ({n: (product(), s) for n, s in SCHEDULES.items()} | OTHERS)[name]
    (kernel,) = parse(print_kernel(build(problem, schedule)), f"{name}.syncir")
    m = list(mutants(kernel))[number]
    ir, rule = judge(m.kernel)
    ptx, why = as_ptx(m.kernel)
    row = {"schedule": name, "line": m.line, "what": m.what}
    return row | {"ir": ir.value, "rule": rule, "ptx": ptx, "why": why}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--schedule", nargs="+", default=[])
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    every = {n: (product(), s) for n, s in SCHEDULES.items()} | OTHERS
    tasks = [
        (name, i)
        for name, (problem, schedule) in every.items()
        if not chosen.schedule or name in chosen.schedule
        for i, _ in enumerate(mutants(parse(print_kernel(build(problem, schedule)), name)[0]))
    ]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for row in pool.map(judged, tasks, chunksize=4):
            rows.append(row)
            if row["ir"] != row["ptx"]:
                print(*row.values(), sep=" | ", flush=True)
    counts = Counter(f"{r['ir']} / {r['ptx']}" for r in rows)
    print(len(rows), dict(counts))
    if chosen.out:
        apart = [r for r in rows if r["ir"] != r["ptx"]]
        chosen.out.write_text(json.dumps({"counts": counts, "apart": apart}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
