"""Proofs of the matrix products that a GPU run timed: IR and PTX, for each launch.

    python benchmarks/checker/matmul_launches.py [--first] [--jobs N]

Reads benchmarks/results/peers_h100.json, and adds under "proofs" what the gate says of every schedule and
size in it, with CPU seconds. ``--first``: the schedule chosen first for a shape only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.peers.peer_plugin_gemm import candidates, named  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402

RECORD = HERE.parent / "results" / "peers_h100.json"
#: SMs of the machine of the record.
MULTIPROCESSORS = 132

Job = tuple[int, int, int, str, str, Schedule]


def proved(job: Job) -> dict[str, Any]:
    """Verdict and CPU seconds of both stages for one launch."""
    m, n, k, layout, name, schedule = job
    kernel = CompiledMatmul(product(layout=layout), schedule)
    values = kernel.launch_values({"M": m, "N": n, "K": k}, MULTIPROCESSORS)
    found: dict[str, Any] = {"M": m, "N": n, "K": k, "layout": layout, "schedule": name}
    for stage in ("ir", "ptx"):
        begun = time.process_time()
        try:
            report = kernel.program().check(stage, values)
            found[stage] = str(report.verdict) if report.verdict == "proved" else _why(report)
        except Exception as e:
            found[stage] = f"{type(e).__name__}: {e}"[:200]
        found[f"{stage} seconds"] = round(time.process_time() - begun, 2)
    return found


def _why(report: Any) -> str:
    return f"{report.verdict}: {report.reason or [d.rule for d in report.diagnostics]}"[:200]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    record = json.loads(RECORD.read_text())
    jobs: list[Job] = []
    for c in record["gemm"]:
        found = candidates(product(layout=c["layout"]), c["M"], c["N"], c["K"])
        schedules = {named(s): s for s in found}
        names = [n for n in c["us"] if n in schedules]
        jobs += [
            (c["M"], c["N"], c["K"], c["layout"], name, schedules[name])
            for name in (names[:1] if options.first else names)
        ]
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(proved, jobs):
            print(*(f"{k} {v}" for k, v in row.items()), flush=True)
            rows.append(row)
    record["proofs"] = rows
    RECORD.write_text(
        "{\n" + ",\n".join(
            f" {json.dumps(k)}: "
            + (json.dumps(v) if not isinstance(v, list) else
               "[\n" + ",\n".join("  " + json.dumps(x) for x in v) + "\n ]")
            for k, v in record.items()
        ) + "\n}\n"
    )  # fmt: skip


if __name__ == "__main__":
    main()
