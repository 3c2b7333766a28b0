"""User CPU time of the same checks at several commits, alternately: for docs/decisions/cpu-of-the-names.md.

    python benchmarks/checker/cpu_of_commits.py COMMIT [COMMIT ...] [--kernels 40] [--write FILE]

The sample is every n-th real kernel with its exact facts, each checked in a process of its own, and each
folder of the corpus of the first commit, checked in one process. Each item is checked at all commits before
the next item begins, in an order that alternates. Printed: the ratio of summed user time to that of
the first commit, and the median of ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.system.real.cache import kernels  # noqa: E402

#: Folders of the corpus: those that one commit checks in about a minute.
FOLDERS = ("hardware", "ptx", "theory", "two_async_warps")
SECONDS = 120


def unpack(commit: str, folder: Path) -> Path:
    """The package and the corpus of a commit."""
    folder.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "archive", commit, "syncverify", "corpus"], cwd=ROOT, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


def options(tree: Path) -> list[str]:
    """What makes the commits do the same: no cache, one process, and no replay where there is one."""
    text = (tree / "syncverify" / "cli" / "check.py").read_text("utf-8")
    return ["--no-cache", "-j", "1", *(["--no-replay"] if "--no-replay" in text else []), "--format", "json"]


def user_seconds(tree: Path, arguments: list[str]) -> tuple[float, list[str]]:
    """User CPU seconds of one check with the package of a tree, and its verdicts."""
    command = [sys.executable, "-m", "syncverify", "check", *arguments, *options(tree)]
    modules = os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": modules, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, cwd=tree, env=environment)
        _, _, usage = os.wait4(process.pid, 0)
        out.seek(0)
        try:
            verdicts = [k["verdict"] for k in json.loads(out.read())["kernels"]]
        except (ValueError, KeyError):
            verdicts = ["error"]
    return usage.ru_utime, verdicts


def sample(count: int, corpus: Path) -> list[tuple[str, list[str]]]:
    """Names of the items and the arguments of their checks."""
    all_of_them = list(kernels())
    step = max(1, len(all_of_them) // max(count, 1))
    chosen = all_of_them[::step][:count] if count else []
    real = [(k.label, [str(k.ptx), "--launch", str(k.facts("exact"))]) for k in chosen]
    return real + [(f"corpus/{name}", [str(corpus / name)]) for name in FOLDERS]


def measure(commits: list[str], count: int, place: Path) -> list[dict[str, Any]]:
    """One row an item: user seconds and verdicts by commit."""
    trees = {commit: unpack(commit, place / commit) for commit in commits}
    items = sample(count, trees[commits[0]] / "corpus")
    for tree in trees.values():
        user_seconds(tree, items[0][1])  # compiles the modules
        user_seconds(tree, items[-1][1])
    rows = []
    for number, (name, arguments) in enumerate(items):
        order = commits if number % 2 == 0 else commits[::-1]
        found = {commit: user_seconds(trees[commit], arguments) for commit in order}
        rows.append(
            {
                "item": name,
                "user": {c: round(found[c][0], 3) for c in commits},
                "same": len({tuple(v) for _, v in found.values()}) == 1,
            }
        )
        print(name, rows[-1]["user"], "" if rows[-1]["same"] else "VERDICTS DIFFER", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--kernels", type=int, default=40)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        rows = measure(given.commits, given.kernels, Path(place))
    first = given.commits[0]
    for commit in given.commits:
        spent, before = (sum(r["user"][c] for r in rows) for c in (commit, first))
        middle = median(r["user"][commit] / r["user"][first] for r in rows)
        print(f"{commit}: {spent:.1f} s, {spent / before:.3f} of {first}, median {middle:.3f}")
    print(f"{sum(r['same'] for r in rows)} of {len(rows)} items with equal verdicts")
    if given.write:
        given.write.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
