"""The verdicts for every size against exact checks of all sizes up to four times the stages.

    python benchmarks/checker/all_sizes.py [--family sizes] [--jobs 2] [--json \
        benchmarks/results/all_sizes.json]

    python benchmarks/checker/all_sizes.py --random 300

Every kernel of the corpus that has sizes, or random programs of tiles and steps. What is proved for every
size must not be refuted at any; what is refuted must be so at the smallest sizes. With ``--json`` the rows
of this run replace those in the file, each as it comes. ``--exact FILE`` keeps the exact verdicts, so that
only kernels that changed are checked again; it is worth nothing once the checker has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.parametric.brute import (
    Brute,
    bare,
    brute,
    disagreement,
    fallback,
    launches,
    steering,
)
from tests.checker.prover.parametric.generate import program
from tests.corpus.entries import CORPUS, entries

RANDOM = "random/"
#: The smallest sizes that the files themselves state.
STATED = {e.name: e.smallest for e in entries()}


@dataclass(frozen=True)
class Row:
    """One kernel: the verdict for every size, what it cost, and what exact checks say of it."""

    kernel: str
    kind: str
    verdict: str
    scope: str
    sizes: dict[str, int]
    seconds: float
    events: int
    reason: str
    exact_checks: int
    exact_largest: int
    exact_complete: bool
    exact_refuted: dict[str, int] | None
    exact_seconds: float
    problem: str


def text_of(name: str) -> str:
    """A corpus file, or ``random/SEED``."""
    if name.startswith(RANDOM):
        return program(int(name.removeprefix(RANDOM)))
    return (CORPUS / name).read_text(encoding="utf-8")


class OutOfTimeError(Exception):
    """A verdict took longer than ``--limit``."""


def _stop(*_: object) -> None:
    raise OutOfTimeError


def judge(name: str, laps: int, budget: float, limit: float, known: dict[str, Any]) -> tuple[Row, str, Brute]:
    """Both judgements of one kernel; ``known``: exact verdicts of earlier runs."""
    text = text_of(name)
    (kernel,) = parse(text, name)
    key = hashlib.sha256(f"{text}{launches(kernel, laps)}".encode()).hexdigest()
    report: KernelReport | None = None
    problem = reason = verdict = ""
    scope, values, events = str(ScopeKind.ALL), {}, 0
    found = Brute(**known[key]) if key in known else brute(kernel, laps, budget)
    start = time.process_time()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        report = check_kernel(bare(kernel), scope=ScopeKind.ALL)
    except OutOfTimeError:
        verdict, reason = str(Verdict.UNKNOWN), f"no verdict after {limit:g} s"
    except InputError as e:
        verdict, reason = "input error", e.message
        problem = f"input error: {e.message}"
    except Exception as e:  # a crash is a finding of its own
        verdict = "crash"
        problem = f"{type(e).__name__}: {e}"
    seconds = time.process_time() - start
    signal.setitimer(signal.ITIMER_PROF, 0)
    if report is not None:
        verdict, scope = str(report.verdict), str(report.scope.kind)
        events = int(report.stats.get("events", 0))
        reason = fallback(report) or ""
        if report.verdict is Verdict.REFUTED:
            values = {x: v for x, v in report.scope.values.items() if x in steering(kernel)}
        problem = disagreement(kernel, report, found, STATED.get(name, {})) or ""
    first = {x: v for x, v in found.refuted[0].items() if x in steering(kernel)} if found.refuted else None
    kind = name.split(".")[1] if name.count(".") == 2 else ""
    row = Row(
        name, kind, verdict, scope, values, round(seconds, 3), events, reason, found.checked, found.largest,
        found.complete, first, round(found.seconds, 2), problem,
    )  # fmt: skip
    return row, key, found


def status(row: Row) -> str:
    """``wrong``, or the verdict for every size: ``proved``, ``refuted``, ``unknown``."""
    if row.problem:
        return "wrong"
    return "unknown" if row.reason else row.verdict


def table(rows: list[Row]) -> str:
    lines = ["| kernel | verdict | scope | sizes | s | events | exact checks | reason |", "|" + "---|" * 8]
    for r in rows:
        sizes = " ".join(f"{k}={v}" for k, v in r.sizes.items())
        lines.append(
            f"| {r.kernel} | {status(r)} | {r.scope} | {sizes} | {r.seconds} | {r.events} | {r.exact_checks} "
            f"| {(r.problem or r.reason)[:150]} |"
        )
    return "\n".join(lines)


def summary(rows: list[Row]) -> dict[str, Any]:
    bad = [
        r for r in rows if r.exact_refuted is not None or r.verdict == Verdict.REFUTED or STATED.get(r.kernel)
    ]
    good = [r for r in rows if r not in bad]
    return {
        "kernels": len(rows),
        "exact checks": sum(r.exact_checks for r in rows),
        "wrong verdicts": sum(status(r) == "wrong" for r in rows),
        "good": dict(Counter(map(status, good))),
        "bad": dict(Counter(map(status, bad))),
        "reasons": dict(Counter(r.reason.split(": ", 1)[-1][:90] for r in rows if r.reason).most_common()),
    }


def keep(path: Path, rows: list[Row], laps: int, note: str) -> None:
    """These rows instead of those that the file has of the same kernels."""
    old = json.loads(path.read_text()) if path.exists() else {}
    merged = {r["kernel"]: r for r in old.get("rows", [])} | {r.kernel: asdict(r) for r in rows}
    everything = [Row(**merged[k]) for k in sorted(merged) if k.startswith(RANDOM) or (CORPUS / k).exists()]
    told = {"laps": laps, "limit": note or old.get("limit", "")}
    path.write_text(
        json.dumps(summary(everything) | told | {"rows": [asdict(r) for r in everything]}, indent=1) + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", action="append", help="directories below corpus/ (default: all)")
    parser.add_argument("--random", type=int, default=0, help="this many random programs with two sizes")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--match", default="", help="only kernels whose name contains this")
    parser.add_argument("--laps", type=int, default=4, help="sizes up to this many times the stages")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of exact checks per kernel")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of CPU per verdict")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="keep the rows here")
    parser.add_argument("--exact", type=Path, help="keep exact verdicts here")
    parser.add_argument("--note", default="", help="how the rows were measured, for the file")
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong, and the summary")
    options = parser.parse_args()
    families = options.family or ([] if options.random else sorted({e.family for e in entries()}))
    chosen = [e.name for e in entries() if "param " in e.text and e.family in families]
    chosen += [f"{RANDOM}{options.first + i}" for i in range(options.random)]
    chosen = [name for name in chosen if options.match in name]
    kept: dict[str, Any] = {}
    if options.exact and options.exact.exists():
        kept = json.loads(options.exact.read_text())
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = []
        for name in chosen:
            jobs.append(pool.submit(judge, name, options.laps, options.budget, options.limit, kept))
        for job in jobs:
            row, key, found = job.result()
            rows.append(row)
            kept[key] = asdict(found)
            if options.exact:
                options.exact.write_text(json.dumps(kept))
            if options.json:
                keep(options.json, [row], options.laps, options.note)
            if not options.quiet or row.problem:
                print(table([row]).splitlines()[-1], flush=True)
    print(json.dumps(summary(rows), indent=2))
    return 1 if any(r.problem for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
