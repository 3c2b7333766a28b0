"""The same random programs checked at two commits: where verdicts, rules or lines differ, and the CPU time.

    python benchmarks/checker/verdicts_of_commits.py BEFORE AFTER --first 0 --count 20000 --shard 1/8
        --seconds 3600 --rows rows1.jsonl
    python benchmarks/checker/verdicts_of_commits.py BEFORE AFTER --rows rows?.jsonl --write FILE

A shard is a part of the seeds, with rows of its own; without ``--shard`` there is one.
Programs come from the tests of the tree that the script stands in: an even seed names a kernel of IR, an
odd one a kernel of PTX (set ``all``) with its launch facts; with ``--only ir`` every seed names a kernel of
IR. Options that the ``check`` of a commit does not have yet are left out, and notes are not compared.
``CHUNK`` programs are checked in one process, at both commits one after the other, in an order that
alternates. A run ends after ``--seconds``; the next goes on behind the last seed of ``--rows``. Without
``--count`` the rows are only counted, of all files together.
``--each``: seconds for one kernel; one that needs more at either commit is counted apart. Times are user CPU
seconds of a process with its start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from cpu_of_commits import unpack  # noqa: E402
from ptx_sweep import toml  # noqa: E402

from tests.system.random import generate as ir  # noqa: E402
from tests.system.random_ptx import generate as ptx  # noqa: E402

CHUNK = 50
#: What is asked of both commits, as far as they have the option.
OPTIONS = {
    "--no-cache": [],
    "--jobs": ["1"],
    "--no-replay": [],
    "--no-advice": [],
    "--format": ["json"],
    "--timeout": ["SECONDS"],
}

Told = dict[str, Any]


def written(seed: int, folder: Path, only_ir: bool = False) -> str:
    """Writes the program of a seed, with its facts; the name of its file."""
    if only_ir or seed % 2 == 0:
        name = f"{seed}.syncir"
        (folder / name).write_text(ir.program(seed if only_ir else seed // 2).text(), "utf-8")
        return name
    p = ptx.program(seed // 2, "all")
    name = f"{seed}.ptx"
    (folder / name).write_text(p.text, "utf-8")
    facts = "\n".join(f"{key} = {toml(value)}" for key, value in p.facts.items())
    (folder / f"{name}.launch.toml").write_text(f"[kernel.k]\n{facts}\n", "utf-8")
    return name


def environment(tree: Path) -> dict[str, str]:
    """That of a process which runs a commit."""
    modules = os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))
    found = os.environ | {"PYTHONPATH": modules, "PYTHONHASHSEED": "0"}
    found["PYTHONPYCACHEPREFIX"] = str(tree / "bytecode")  # as an installation has it
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def options(tree: Path, each: int) -> list[str]:
    """The options that the ``check`` of a commit knows."""
    command = [sys.executable, "-m", "syncverify", "check", "--help"]
    env = environment(tree)
    told = subprocess.run(command, capture_output=True, text=True, cwd=tree, env=env, check=True)
    known = [(name, values) for name, values in OPTIONS.items() if f"{name} " in told.stdout]
    return [t.replace("SECONDS", str(each)) for name, values in known for t in (name, *values)]


def checked(tree: Path, folder: Path, more: list[str]) -> tuple[dict[str, Told], float]:
    """What a commit says of each file of a folder, and the user CPU seconds of the process."""
    files = sorted(str(f) for f in folder.iterdir() if f.suffix in (".syncir", ".ptx"))
    command = [sys.executable, "-m", "syncverify", "check", *files, *more]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.DEVNULL, cwd=tree, env=environment(tree)
        )
        _, _, usage = os.wait4(process.pid, 0)
        out.seek(0)
        text = out.read()
    found = {Path(k["file"]).name: said(k) for k in json.loads(text)["kernels"]} if text else {}
    return found, usage.ru_utime


def said(kernel: dict[str, Any]) -> Told:
    """Verdict, kind of reason, and each finding as rule and line."""
    return {
        "verdict": kernel["verdict"],
        "reason": kernel["reason"] if kernel["verdict"] == "unknown" else "",
        "kind": kernel.get("reason_kind") or "",
        "findings": [[d["rule"], d["line"]] for d in kernel["diagnostics"] if d["severity"] != "note"],
    }


def out_of_time(told: Told) -> bool:
    """Whether the time of a kernel ended before all of it was checked."""
    return told.get("kind") == "timeout" or any(rule == "SV907" for rule, _ in told.get("findings", ()))


def differs(one: Told, other: Told) -> bool:
    """Whether verdict, rules or lines differ; a kernel without time at either commit is not compared."""
    if out_of_time(one) or out_of_time(other):
        return False
    return (one.get("verdict"), one.get("findings")) != (other.get("verdict"), other.get("findings"))


def compare(commits: list[str], args: argparse.Namespace, place: Path) -> None:
    """Checks the chunks that ``--rows`` lacks, as far as the seconds last."""
    begin = time.monotonic()
    trees = {c: unpack(c, place / c) for c in commits}
    known = {c: options(trees[c], args.each) for c in commits}
    (rows,) = args.rows
    done = read([rows])
    seeds = shard(args)[CHUNK * len(done) :]
    for at in range(0, len(seeds), CHUNK):
        if time.monotonic() - begin > args.seconds:
            break
        folder = place / f"programs{at}"
        folder.mkdir()
        names = [written(s, folder, args.only == "ir") for s in seeds[at : at + CHUNK]]
        number = len(done) + at // CHUNK
        order = commits if number % 2 == 0 else commits[::-1]
        found = {c: checked(trees[c], folder, known[c]) for c in order}
        row = {
            "seeds": [seeds[at], seeds[at] + len(names) - 1],
            "user": {c: round(found[c][1], 2) for c in commits},
            "programs": {n: [found[c][0].get(n, {}) for c in commits] for n in names},
        }
        with rows.open("a") as kept:
            kept.write(json.dumps(row) + "\n")
        print(row["seeds"], row["user"], flush=True)


def shard(args: argparse.Namespace) -> range:
    """The seeds of a part of all, in whole chunks."""
    part, parts = (int(x) for x in args.shard.split("/"))
    chunks = -(-args.count // CHUNK)
    low, high = chunks * (part - 1) // parts, chunks * part // parts
    return range(args.first + CHUNK * low, args.first + min(CHUNK * high, args.count))


def read(files: list[Path]) -> list[dict[str, Any]]:
    """The rows of files, of those that are there."""
    return [json.loads(line) for f in files if f.exists() for line in f.read_text("utf-8").splitlines()]


def summary(commits: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts, each difference, and the ratio of CPU times."""
    programs = {name: both for row in rows for name, both in row["programs"].items()}
    ratios = [row["user"][commits[1]] / row["user"][commits[0]] for row in rows]
    spent = [sum(row["user"][c] for row in rows) for c in commits]
    return {
        "programs": len(programs),
        "verdicts": {
            c: dict(Counter(both[i].get("verdict", "error") for both in programs.values()))
            for i, c in enumerate(commits)
        },
        "not compared for time": sum(
            out_of_time(one) or out_of_time(other) for one, other in programs.values()
        ),
        "differences": {name: both for name, both in sorted(programs.items()) if differs(*both)},
        "user seconds": dict(zip(commits, (round(s, 1) for s in spent), strict=True)),
        "ratio of sums": round(spent[1] / spent[0], 3) if spent[0] else None,
        "median ratio of chunks": round(median(ratios), 3) if ratios else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=150.0, help="begin no chunk after this")
    parser.add_argument("--shard", default="1/1", help="PART/PARTS of the seeds")
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--only", choices=["ir"], help="kernels of IR alone")
    parser.add_argument("--rows", type=Path, nargs="+", required=True)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    if args.count:
        with tempfile.TemporaryDirectory() as place:
            compare(args.commits, args, Path(place))
    found = summary(args.commits, read(args.rows))
    print(json.dumps(found, indent=1))
    if args.write:
        given = f"{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}"
        args.write.write_text(json.dumps({"command": given, **found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
