"""Is following a proof cheaper than finding it? `recheck` beside `check`, by drawn kernels.

    python -m benchmarks.checker.kernel_recheck --group corpus --draw 12 --seed 7 [--until 60] [--jobs 1]

``corpus``: its good files of PTX and IR; ``real`` and ``exact``: kernels of the real cache that are recorded
as proved for every size, and at exact sizes. Each command is a process of its own: its processor seconds are
those of the whole command. `check` is asked as it is, and with `--require kernel` for the certificate; the
first is what `recheck` stands beside. ``--until``: after so many seconds nothing new begins, and the kernels
that are left are said to be not asked.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.system.real.cache import kernels

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "benchmarks" / "results" / "real.json"
#: Wall seconds after which a command is given up.
LIMIT = 150
#: Bytes that a certificate is aimed at.
AIM = 300_000
#: A kernel: its name, its file and its launch file, if that has another name than the file's.
Drawn = tuple[str, Path, Path | None]


def of_corpus() -> list[Drawn]:
    """The good files of the corpus that have certificates."""
    found = sorted((ROOT / "corpus").rglob("*.good.*"))
    return [(str(p.relative_to(ROOT)), p, None) for p in found if p.suffix in (".ptx", ".syncir")]


def of_real(scope: str) -> list[Drawn]:
    """The real kernels that are recorded as proved for a scope: ``exact`` sizes, or ``all``."""
    recorded = json.loads(RECORDED.read_text())
    proved = {name for name, row in recorded.items() if row.get(scope, {}).get("verdict") == "proved"}
    return [(k.label, k.ptx, k.facts(scope)) for k in kernels() if k.label in proved]


def spent() -> float:
    """Processor seconds of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*words: str | Path) -> tuple[int | None, float]:
    """The exit status of a command, None where it was given up; and its processor seconds."""
    before = spent()
    command = [sys.executable, "-m", "syncverify", *map(str, words)]
    try:
        status: int | None = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=LIMIT).returncode
    except subprocess.TimeoutExpired:
        status = None
    return status, spent() - before


def row(drawn: Drawn, until: float) -> str | None:
    """What the commands say of a kernel, and take; None once the time is over."""
    if time.time() > until:
        return None
    name, file, launch = drawn
    facts: list[str | Path] = [] if launch is None else ["--launch", launch]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "certificate.json"
        _, alone = run("check", file, *facts, "--no-cache")
        asked = ("--no-cache", "--require", "kernel", "--certificate", made)
        said, check = run("check", file, *facts, *asked)
        if not made.exists():
            return f"| `{name}` | {alone:.1f} s | {said} | {check:.1f} s | | no certificate | |"
        followed, again = run("recheck", made, file, *facts)
        size = made.stat().st_size
    over = ", over" if size > AIM else ""
    return (
        f"| `{name}` | {alone:.1f} s | {said} | {check:.1f} s | {followed} | {again:.1f} s "
        f"({alone / again:.1f} times) | {size / 1000:.0f} KB{over} |"
    )


def rows(drawn: list[Drawn], seconds: float, jobs: int) -> Iterator[str]:
    """A row for each kernel; what the time did not reach is said last."""
    until, left = time.time() + seconds, list[str]()
    with ProcessPoolExecutor(jobs) as pool:
        for (name, _, _), found in zip(drawn, pool.map(row, drawn, [until] * len(drawn)), strict=True):
            if found is None:
                left.append(name)
            else:
                yield found
    if left:
        yield "not asked: " + ", ".join(left)


def main() -> None:
    about = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    about.add_argument("--group", choices=["corpus", "real", "exact"], required=True)
    about.add_argument("--draw", type=int, default=12)
    about.add_argument("--seed", type=int, default=0)
    about.add_argument("--until", type=float, default=60)
    about.add_argument("--jobs", type=int, default=1)
    given = about.parse_args()
    every = of_corpus() if given.group == "corpus" else of_real("all" if given.group == "real" else "exact")
    drawn = random.Random(given.seed).sample(every, min(given.draw, len(every)))
    for line in rows(drawn, given.until, given.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
