"""Mutants of persistent matrix products, judged for every size beside the exact check: none that is wrong at
some size may be proved for all.

    python benchmarks/mutants_every_size.py [--jobs 2] [--ptx] [--schedule NAME ...] [--out FILE]

Rings of many slots and blocks that share tiles behind whole ones, whose states stand for many places. With
``--ptx`` what becomes of each mutant is judged, too. A check may take ``SECONDS`` of wall time ("limit").
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from matmul_mutants import SCHEDULES as FEW_SLOTS  # noqa: E402
from matmul_mutants import judge, mutants  # noqa: E402

from syncverify.codegen.cuda import emit  # noqa: E402
from syncverify.diagnostics import Policy, ScopeKind, Verdict  # noqa: E402
from syncverify.gate_ptx import check_ptx  # noqa: E402
from syncverify.ir.parser import parse  # noqa: E402
from syncverify.ir.printer import print_kernel  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import TWO  # noqa: E402
from syncverify.matmul.pipeline import build  # noqa: E402
from syncverify.nvrtc import compile_kernel  # noqa: E402
from syncverify.source import InputError  # noqa: E402
from syncverify.verify import check_kernel  # noqa: E402

SECONDS = 90
SCHEDULES = {
    name: FEW_SLOTS[name]
    for name in ("persistent", "persistent tma", "cluster", "pairs, persistent", "one, persistent")
} | {
    "8 slots": Schedule(128, 64, stages=8, persistent=True, store="tma"),
    "8 slots, pending": Schedule(128, 64, stages=8, persistent=True, store="tma", pending=1),
    "8 slots, three neighbours": Schedule(
        128, 64, stages=8, persistent=True, store="tma", split_k=3, shares="pairs"
    ),
    "3 slots, four neighbours": Schedule(
        256, 128, registers=TWO, stages=3, persistent=True, store="tma", split_k=4, shares="pairs"
    ),
    "9 slots, five at one": Schedule(
        64, 32, consumers=1, stages=9, persistent=True, split_k=5, shares="one"
    ),
}  # fmt: skip


class Late(Exception):  # noqa: N818 -- control flow
    """A check took too long."""


def _late(*_: Any) -> None:
    raise Late


def judged(task: tuple[str, int, bool]) -> dict[str, Any]:
    """One mutant by the exact check and for every size."""
    name, number, ptx = task
    (kernel,) = parse(print_kernel(build(product(), SCHEDULES[name])), f"{name}.syncir")
    m = list(mutants(kernel))[number]
    exact, rule = judge(m.kernel)
    signal.signal(signal.SIGALRM, _late)
    row = {"schedule": name, "line": m.line, "what": m.what, "exact": exact.value, "rule": rule}
    for stage in ("ir", "ptx")[: 1 + ptx]:
        signal.alarm(SECONDS)
        try:
            if stage == "ptx":
                text, _ = compile_kernel(emit(m.kernel), m.kernel.name)
                report = check_ptx(m.kernel, text, Policy.PRACTICAL, None)
            else:
                report = check_kernel(m.kernel, {}, Policy.PRACTICAL, scope=ScopeKind.ALL)
            every = report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.ALL
            row[stage] = "proved for every size" if every else report.verdict.value
        except InputError as e:
            row[stage] = f"no code: {e.message.splitlines()[0]}"
        except Late:
            row[stage] = "limit"
        finally:
            signal.alarm(0)
    return row


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--schedule", nargs="+", default=[])
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--of", type=int, default=1, help="one of so many mutants")
    options.add_argument("--ptx", action="store_true")
    options.add_argument("--out", type=Path)
    args = options.parse_args()
    tasks = []
    for name in args.schedule or SCHEDULES:
        (kernel,) = parse(print_kernel(build(product(), SCHEDULES[name])), f"{name}.syncir")
        tasks += [(name, i, args.ptx) for i, _ in enumerate(mutants(kernel))]
    stages = ("ir", "ptx")[: 1 + args.ptx]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for row in pool.map(judged, tasks[:: args.of]):
            rows.append(row)
            print(*row.values(), sep=" | ", flush=True)
            if args.out is not None:
                args.out.write_text(json.dumps(rows, indent=1) + "\n")
    met = Counter((r["exact"], *(r[s].partition(":")[0] for s in stages)) for r in rows)
    for verdicts, times in sorted(met.items()):
        print(f"{times:5} {' / '.join(verdicts)}")
    wrong = [
        r for r in rows if r["exact"] == "refuted" and any(r[s] == "proved for every size" for s in stages)
    ]
    for r in wrong:
        print("wrong:", r)
    return bool([r for r in wrong if r["ir"] == "proved for every size"])


if __name__ == "__main__":
    sys.exit(main())
