"""Random programs of PTX: the checker's verdicts beside executions of the text by the second reader.

    python benchmarks/checker/ptx_sweep.py --count 20000 [--first 0] [--set open] [--jobs 2] [--save DIR]
        [--rows FILE] [--out FILE]

A seed names its program of a set for ever. Sets: protocols, open, data, wgmma, boxes, words, contracts,
lanes, values, strong, arrays, engines, bypasses, heads; ``all`` draws from the first nine in turn, and
``every`` from all: its seeds are those of the set that a row names. All processes serve all sets.
A third are right, a third have a planted mistake, a third random edits. Wrong are: proved, and an execution
does harm; refuted, and none of 130 executions does; not replayed, and one does. A proof that warns of a
contested point at the line of the harm is ``contested``; it is ``warned`` where harm comes only after what
the reader warns of at such a line. One that names another box of a tensor map is
``other box`` if executions with that box do no harm. Disagreements go to ``--save`` with their facts,
shrunk by ``--shrink``. What is unknown is counted by its reason.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.system.random_ptx.generate import SETS, program
from tests.system.random_ptx.judge import judge, shrunk
from tests.system.random_ptx.writer import Program

CHUNK = 5
#: A set and seeds of it.
Chunk = tuple[str, range]
#: Of which sets ``every`` takes five programs in turn.
EVERY = ("all", "engines", "all", "lanes", "all", "values", "engines", "strong", "all", "arrays", "all")


@dataclass(frozen=True)
class Row:
    """The outcome of one seed."""

    seed: int
    family: str
    mistake: str
    verdict: str
    reason: str
    kind: str
    harm: str
    seconds: float
    set: str


def run(seed: int, set_: str, seconds: float) -> Row:
    p = program(seed, set_)
    begin = time.perf_counter()
    try:
        j = judge(p, seconds)
    except Exception as e:  # a crash of either side is a finding, with its place
        at = traceback.extract_tb(e.__traceback__)[-1]
        kind = f"crash: {type(e).__name__}: {e} ({Path(at.filename).name}:{at.lineno})"
        return Row(seed, p.family, p.mistake, "crash", "", kind, "", time.perf_counter() - begin, set_)
    took = time.perf_counter() - begin
    return Row(seed, p.family, p.mistake, j.verdict, j.reason, j.kind, str(j.harm or ""), took, set_)


def run_many(chunk: Chunk, seconds: float) -> list[Row]:
    set_, seeds = chunk
    return [run(s, set_, seconds) for s in seeds]


def chunks_of(set_: str, seeds: range) -> list[Chunk]:
    """The work in pieces; of ``every`` set in turn."""
    pieces = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    return [(EVERY[n % len(EVERY)] if set_ == "every" else set_, piece) for n, piece in enumerate(pieces)]


def warmed() -> None:
    """What each process would import and build for itself is there before they part."""
    judge(program(0), 20.0)
    gc.collect()
    gc.freeze()


def disagrees(row: Row) -> bool:
    found = ("wrong proof", "ends differ", "no harm found", "harm not replayed", "not replayed, none")
    return row.kind in found or row.kind.startswith(("crash", "cannot"))


def cause(reason: str) -> str:
    """The reason of an unknown verdict without its numbers and names."""
    return re.sub(r"%\w+", "REG", re.sub(r"\d+", "N", reason))[:100]


def summary(rows: list[Row]) -> dict[str, Any]:
    def counted(key: Any) -> dict[str, int]:
        return dict(Counter(map(key, rows)).most_common())

    return {
        "programs": len(rows),
        "verdicts": counted(lambda r: r.verdict),
        "kinds": counted(lambda r: r.kind),
        "right programs": dict(Counter(r.verdict for r in rows if not r.mistake)),
        "sets": counted(lambda r: r.set),
        "families": counted(lambda r: r.family),
        "unknown by cause": dict(
            Counter(cause(r.reason) for r in rows if r.verdict == "unknown").most_common(30)
        ),
        "seeds of unknown": [f"{r.set} {r.seed}" for r in rows if r.verdict == "unknown"],
        "disagreements": [vars(r) for r in rows if disagrees(r)],
        "seconds per program": round(sum(r.seconds for r in rows) / max(len(rows), 1), 3),
    }


def toml(value: object) -> str:
    """A fact of a launch file."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def save(p: Program, row: Row, where: Path, shrinks: bool) -> None:
    """Writes a program on which the two sides disagree, with its launch facts."""
    where.mkdir(parents=True, exist_ok=True)
    made = shrunk(p, row.kind) if shrinks else p
    head = f"// seed {row.seed}, family {row.family}: {row.mistake or 'right'}\n"
    head += f"// checker: {row.verdict} {row.reason}\n// second reader: {row.harm or 'no harm'}\n"
    path = where / f"{row.set}_{row.seed}.ptx"
    path.write_text(head + made.text)
    given = made.facts
    facts = "\n".join(f"{k} = {toml(v)}" for k, v in given.items() if k != "params")
    params = "\n".join(f"{k} = {toml(v)}" for k, v in cast(dict[str, object], given["params"]).items())
    Path(f"{path}.launch.toml").write_text(f"[kernel.k]\n{facts}\n[kernel.k.params]\n{params}\n")


def judged(
    work: Callable[[Chunk], list[Row]], chunks: list[Chunk], jobs: int, seconds: float | None
) -> Iterator[list[Row]]:
    """The rows of each chunk as it ends; after so many seconds those that are not done are left."""
    pool = ProcessPoolExecutor(jobs)
    futures = [pool.submit(work, c) for c in chunks]
    try:
        for done in as_completed(futures, timeout=seconds):
            yield done.result()
    except TimeoutError:
        processes = list(pool._processes.values())
        pool.shutdown(wait=False, cancel_futures=True)
        for p in processes:
            p.kill()
    else:
        pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--set", choices=[*SETS, "all", "every"], default="protocols", help="which families")
    parser.add_argument("--each", type=float, default=20.0, help="seconds of the checker for one program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this many seconds")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--rows", type=Path, help="each row as it comes, a line of JSON each")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chunks = chunks_of(args.set, range(args.first, args.first + args.count))
    rows: list[Row] = []
    warmed()
    for some in judged(partial(run_many, seconds=args.each), chunks, args.jobs, args.seconds or None):
        rows += some
        if args.rows:
            with args.rows.open("a") as kept:
                kept.writelines(json.dumps(vars(r)) + "\n" for r in some)
        for row in filter(disagrees, some):
            print(vars(row), flush=True)
            if args.save:
                save(program(row.seed, row.set), row, args.save, args.shrink)
    found = summary(rows)
    print(json.dumps({k: v for k, v in found.items() if k != "disagreements"}, indent=1))
    if args.out:
        args.out.write_text(json.dumps({"command": " ".join(sys.argv), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
