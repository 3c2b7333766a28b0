"""Proofs of matrix products for every M, N and K: IR and PTX, with processor time. No GPU.

    python benchmarks/checker/matmul_every_size.py [--only NAME;NAME] [--stages ir,ptx] [--seconds 150] \
        [--out FILE]
    python benchmarks/checker/matmul_every_size.py --menu [...]   # what `matmul.choose` may take, and what
        is timed

Each proof runs in a child process that is killed after so many seconds of processor time ("limit").
A proof for the usual sizes alone, where none for every size was found, is "exact".
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from syncverify.codegen.cache import Cache  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import TWO, forms  # noqa: E402

SCHEDULES = {
    "one tile, direct": Schedule(128, 128),
    "one tile, staged": Schedule(128, 256, registers=TWO, store="tma"),
    "one tile, cluster": Schedule(128, 256, registers=TWO, store="tma", cluster=2),
    "one tile, pending": Schedule(128, 128, pending=1),
    "three warpgroups": Schedule(192, 128, consumers=3, registers=(32, 160)),
    "persistent, direct, 2 stages": Schedule(128, 128, stages=2, registers=TWO, persistent=True),
    "persistent, direct, 4 stages": Schedule(128, 128, stages=4, registers=TWO, persistent=True),
    "persistent, 128x256, direct": Schedule(128, 256, registers=TWO, persistent=True),
    "persistent, staged, 2 stages": Schedule(128, 128, stages=2, registers=TWO, persistent=True, store="tma"),
    "persistent, staged, 4 stages": Schedule(128, 128, stages=4, registers=TWO, persistent=True, store="tma"),
    "persistent, 128x256, staged": Schedule(128, 256, registers=TWO, persistent=True, store="tma"),
    "persistent, 256x128, staged": Schedule(256, 128, registers=TWO, persistent=True, store="tma"),
    "persistent, cluster": Schedule(128, 256, registers=TWO, persistent=True, store="tma", cluster=2),
    "persistent, direct, pending": Schedule(128, 128, stages=2, registers=TWO, persistent=True, pending=1),
    "persistent, staged, pending": Schedule(
        128, 128, stages=4, registers=TWO, persistent=True, store="tma", pending=1
    ),
    "persistent, cluster, pending": Schedule(
        128, 256, registers=TWO, persistent=True, store="tma", cluster=2, pending=1
    ),
    "one tile, dependent": Schedule(128, 128, store="tma", dependent=True),
    "persistent, 128x256, dependent": Schedule(
        128, 256, registers=TWO, persistent=True, store="tma", dependent=True
    ),
    "persistent, cluster, dependent": Schedule(
        128, 256, registers=TWO, persistent=True, store="tma", cluster=2, dependent=True
    ),
    "ping-pong, 2 stages": Schedule(
        128, 128, stages=2, registers=TWO, persistent=True, pingpong=True, laps="any"
    ),
    "ping-pong, pending": Schedule(
        128, 128, stages=2, registers=TWO, persistent=True, pingpong=True, laps="any", pending=1
    ),
    "ping-pong, staged": Schedule(
        128, 128, stages=2, registers=TWO, persistent=True, pingpong=True, laps="any", store="tma"
    ),
    "ping-pong, staged, 4 stages": Schedule(
        128, 128, stages=4, registers=TWO, persistent=True, pingpong=True, laps="any", store="tma"
    ),
    "ping-pong, cluster": Schedule(
        128, 128, stages=2, registers=TWO, persistent=True, pingpong=True, laps="any", store="tma", cluster=2
    ),
    "shared by two, direct": Schedule(128, 128, stages=2, split_k=2, shares="any"),
    "shared by two, staged": Schedule(
        128, 256, stages=2, registers=TWO, split_k=2, shares="any", store="tma"
    ),
    "shared by two, any order": Schedule(
        128, 128, stages=2, split_k=2, shares="any", store="tma", sums="any"
    ),
    "shared by two, 4 stages": Schedule(128, 128, stages=4, split_k=2, shares="any"),
    "shared by two clusters": Schedule(128, 128, stages=2, split_k=2, shares="any", cluster=2),
    "shared by two, dependent": Schedule(128, 128, stages=2, split_k=2, shares="any", dependent=True),
    "shared by three": Schedule(128, 128, stages=2, split_k=3, shares="any"),
    "shared by four": Schedule(128, 128, stages=2, split_k=4, shares="any"),
    "ping-pong, 4 stages": Schedule(
        128, 128, stages=4, registers=TWO, persistent=True, pingpong=True, laps="any"
    ),
}


def of_menu() -> dict[str, Schedule]:
    """By title, each once; the plain ones also as dependent launches."""
    plain = forms(product())
    late = [replace(s, dependent=True) for s in plain if s.split_k == 1]
    return {s.title: s for s in (*plain, *late)}


def proof(name: str, stage: str) -> dict[str, Any]:
    """In a child: the proof of one stage, with its processor time without that of the CUDA compiler."""
    with tempfile.TemporaryDirectory() as folder:
        schedule = (SCHEDULES | of_menu())[name]
        program = CompiledMatmul(product(), schedule, cache=Cache(Path(folder))).program()
        if stage == "ptx":
            assert program.ptx
        begun = time.process_time()
        report = program.check(stage)
        seconds = round(time.process_time() - begun, 2)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"verdict": report.verdict.value, "scope": report.scope.kind.value, "seconds": seconds, "MiB": mib}


def limited(name: str, stage: str, seconds: int) -> dict[str, Any]:
    """The same from a child that may take so many seconds of processor time."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", name, stage],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds + 3, seconds + 3)),
    )
    if done.returncode:
        return {"verdict": "limit" if done.returncode < 0 else done.stderr.strip()[-300:], "seconds": seconds}
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="names of schedules, separated by semicolons")
    parser.add_argument("--menu", action="store_true")
    parser.add_argument("--stages", default="ir,ptx")
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "matmul_every_size.json")
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(proof(*options.child)))
        return
    names = options.only.split(";") if options.only else [*(of_menu() if options.menu else SCHEDULES)]
    if unknown := [name for name in names if name not in SCHEDULES and name not in of_menu()]:
        parser.error(f"no schedule has the name {unknown[0]!r}; --only takes names that a run prints")
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in names:
        for stage in options.stages.split(","):
            row = limited(name, stage, options.seconds)
            found.setdefault(name, {})[stage] = row
            print(f"{name:32} {stage:4} {row}", flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
