"""Compare the checker with exhaustive simulation on many random small kernels, and record the result.

    python benchmarks/checker/sweep.py --count 20000 --jobs 2 --out sweep.json

Programs are those of the seeds from ``--first`` on, without repetitions; a seed names its program for ever.
Programs on which the two disagree are written to ``--save`` as ``.syncir``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from syncverify.base.diagnostics import Policy, Verdict
from tests.system.random.compare import judge_twice
from tests.system.random.generate import policy, program

CHUNK = 50


@dataclass(frozen=True)
class Row:
    """The outcome of one seed."""

    seed: int
    family: str
    bug: str
    edits: tuple[str, ...]
    verdict: str
    rules: tuple[str, ...]
    obligation: str
    harms: tuple[str, ...]
    strict: bool
    problem: str
    check_seconds: float
    explore_seconds: float
    reason: str
    replay: str = ""


def run(seed: int) -> Row:
    """Judges one program; one that only mixes phases is judged in strict mode."""
    made = program(seed)
    text = made.text()
    judged = policy(seed)
    strict = judged is Policy.STRICT
    try:
        j = judge_twice(text, judged)
        strict = j.policy is Policy.STRICT
    except Exception as e:  # a crash of either side is a finding, with its place
        where = traceback.extract_tb(e.__traceback__)[-1]
        crash = f"crash: {type(e).__name__}: {e} ({Path(where.filename).name}:{where.lineno})"
        edits = tuple(made.edits)
        return Row(seed, made.family, made.bug, edits, "crash", (), "", (), strict, crash, 0.0, 0.0, "")
    edits = tuple(made.edits)
    return Row(
        seed, made.family, made.bug, edits, str(j.verdict), j.rules, j.obligation, j.harms, strict, j.problem,
        j.check_seconds, j.explore_seconds, j.reason or "",
        j.replay,
    )  # fmt: skip


def run_many(seeds: list[int]) -> list[Row]:
    return [run(s) for s in seeds]


def distinct(first: int, count: int) -> list[int]:
    """The first seeds from ``first`` on whose programs, with their policies, are all different."""
    seen: dict[tuple[str, Policy], int] = {}
    seed = first
    while len(seen) < count:
        seen.setdefault((program(seed).text(), policy(seed)), seed)
        seed += 1
    return list(seen.values())


def rows(first: int, count: int, jobs: int) -> Iterator[Row]:
    """Every row, in the order of the seeds."""
    seeds = distinct(first, count)
    chunks = [seeds[i : i + CHUNK] for i in range(0, count, CHUNK)]
    if jobs == 1:
        for c in chunks:
            yield from run_many(c)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for part in pool.map(run_many, chunks):
            yield from part


def summary(found: list[Row], first: int, seconds: float) -> dict[str, Any]:
    """The counts that docs/testing.md quotes."""
    refuted = [r for r in found if r.verdict == Verdict.REFUTED and not r.problem]
    proved = [r for r in found if r.verdict == Verdict.PROVED and not r.problem]
    n = max(1, len(found))
    return {
        "count": len(found),
        "first_seed": first,
        "seconds": round(seconds, 1),
        "proved": len(proved),
        "refuted": len(refuted),
        "judged_strictly": sum(r.strict for r in found),
        "unknown": sum(r.verdict == Verdict.UNKNOWN for r in found),
        "disagreements": sum(bool(r.problem) for r in found),
        "proved_share": round(len(proved) / n, 3),
        "refuted_share": round(len(refuted) / n, 3),
        "check_ms": round(1e3 * sum(r.check_seconds for r in found) / n, 2),
        "explore_ms": round(1e3 * sum(r.explore_seconds for r in found) / n, 2),
        "witnesses": sum(bool(r.replay) for r in refuted),
        "witnesses_reproduced": sum(r.replay == "reproduced" for r in refuted),
        "families": dict(sorted(Counter(r.family for r in found).items())),
        "first_rule": dict(sorted(Counter(r.rules[0] for r in refuted if r.rules).items())),
        "obligation": dict(sorted(Counter(r.obligation for r in refuted).items())),
        "harms": dict(sorted(Counter(h for r in refuted for h in r.harms).items())),
        "problems": dict(Counter(r.problem[:120] for r in found if r.problem).most_common(40)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the summary and the rows that disagree as JSON")
    parser.add_argument("--save", type=Path, default=Path("sweep-disagreements"))
    options = parser.parse_args()
    start = time.perf_counter()
    found: list[Row] = []
    for row in rows(options.first, options.count, options.jobs):
        found.append(row)
        if row.problem:
            options.save.mkdir(parents=True, exist_ok=True)
            mode = "strict" if row.strict else "practical"
            head = (
                f"// seed {row.seed}, {row.family}, {row.bug} {list(row.edits)}\n// {mode}: {row.problem}\n"
            )
            more = f"// checker: {row.verdict} {' '.join(row.rules)} {row.reason}\n"
            (options.save / f"{row.seed}.syncir").write_text(head + more + program(row.seed).text())
        if len(found) % 1000 == 0:
            print(
                f"{len(found)} programs, {sum(bool(r.problem) for r in found)} disagreements", file=sys.stderr
            )
    result = summary(found, options.first, time.perf_counter() - start)
    print(json.dumps(result, indent=2))
    if options.out:
        result["disagreeing"] = [vars(r) for r in found if r.problem]
        result["not_reproduced"] = [[r.seed, r.replay] for r in found if r.replay not in ("", "reproduced")]
        result["command"] = (
            f"python benchmarks/checker/sweep.py --count {options.count} --first {options.first}"
        )
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(r.problem for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
