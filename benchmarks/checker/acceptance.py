"""How much of what is proved does the trusted kernel accept; what do certificates and `recheck` cost?

    python -m benchmarks.checker.acceptance [exact corpus all] --rows FILE [--jobs 2] [--seconds 300] \
        [--each 120] [--match TEXT] [--seed 7 | --dearest] [--proved] [--plain]
    python -m benchmarks.checker.acceptance all+140 --rows FILE      # all but the 140 cheapest
    python -m benchmarks.checker.acceptance --table --rows FILE

``exact`` and ``all``: every kernel of the real cache with that launch file; ``corpus``: the good files. Each
is asked with `check --require kernel`, and its certificate is followed by `recheck`, in processes of their
own whose processor seconds are those of the whole command. ``--plain``: `check` without the kernel, too.

A group begins when all kernels of the one before have begun. In a group those come first that took least
when `bench_real.py` measured them, or are shortest; with ``--seed`` the order is random, so that what was
reached is a sample, and with ``--dearest`` it is the other way round. ``--proved``: of the real kernels those
alone that are recorded as proved with that launch file. After ``--seconds`` nothing new begins, and what runs
is given up as not asked. FILE gets a line of JSON for each kernel; a kernel that has one is not asked again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.checker.kernel_accepts import commit
from tests.system.real.cache import Kernel, kernels

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "benchmarks" / "results" / "real.json"
GROUPS = ("exact", "corpus", "all")
#: Bytes that a certificate is aimed at, and bytes of address space that a command may have.
AIM, MEMORY = 300_000, 6 << 30
#: Exit statuses that `recheck` may have.
STATUSES = (0, 1, 3)
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A kernel to ask about. ``launch``: where it is not beside the file. ``cost``: what orders a group.
    ``proved``: it is recorded as proved, or good."""

    group: str
    label: str
    file: Path
    launch: Path | None
    cost: float
    proved: bool


@dataclass(frozen=True)
class Ended:
    """How a command ended: ``status`` is None where it was given up or killed."""

    status: int | None
    cpu: float
    out: str
    err: str


def of_corpus() -> list[Asked]:
    """The good files of the corpus that have certificates."""
    corpus = ROOT / "corpus"
    files = [p for p in sorted(corpus.rglob("*.good.*")) if p.suffix in (".ptx", ".syncir")]
    return [Asked("corpus", str(p.relative_to(corpus)), p, None, p.stat().st_size, True) for p in files]


def of_real(scope: str) -> list[Asked]:
    """Every kernel of the real cache with a scope's launch file."""
    recorded = json.loads(RECORDED.read_text())

    def one(k: Kernel) -> Asked:
        known = recorded.get(k.label, {}).get(scope, {})
        cost = float(known.get("cpu", 1e6))
        return Asked(scope, k.label, k.ptx, k.facts(scope), cost, known.get("verdict") == "proved")

    return [one(k) for k in kernels()]


def in_order(groups: Iterable[str], options: argparse.Namespace) -> list[Asked]:
    """All that is asked about: group after group, the cheap first, the dear first, or at random."""
    found: list[Asked] = []
    for word in groups:
        group, _, cheapest = word.partition("+")
        some = sorted(of_corpus() if group == "corpus" else of_real(group), key=lambda x: x.cost)
        some = some[int(cheapest or 0) :]
        some = [x for x in some if options.match in x.label and (x.proved or not options.proved)]
        if options.dearest:
            some.reverse()
        elif options.seed is not None:
            random.Random(f"{options.seed} {group}").shuffle(some)
        found += some
    return found


def run(words: Sequence[str | Path], until: float) -> Ended:
    """A command of the tool, given up at a time."""
    command = [sys.executable, "-m", "syncverify", *map(str, words)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.time() > until:
                process.send_signal(signal.SIGKILL)
                _, status, used = os.wait4(process.pid, 0)
                break
            time.sleep(0.01)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        cpu = round(used.ru_utime + used.ru_stime, 2)
        return Ended(code if code >= 0 else None, cpu, out.read(), err.read())


def said(ended: Ended) -> Row:
    """The verdict on all kernels of a file, who accepted it, and why it was not the kernel."""
    try:
        reports = json.loads(ended.out)["kernels"]
    except (ValueError, KeyError):
        lines = [line for line in ended.err.splitlines() if line.strip()]
        verdict = "limit" if ended.status is None else "error"
        return {"verdict": verdict, "accepted": "", "why": lines[-1][:300] if lines else ""}
    verdicts = {r["verdict"] for r in reports}
    proved = verdicts == {"proved"}
    verdict = "proved" if proved else next(v for v in ("refuted", "unknown", "proved") if v in verdicts)
    scope = "all" if all(r["scope"]["kind"] == "all" for r in reports) else "some"
    by = sorted({str(r["accepted_by"]) for r in reports}) if proved else []
    why = [r["not_accepted"] if r["verdict"] == "proved" else r["reason"] for r in reports]
    reason = next((str(x) for x in why if x), "")
    return {"verdict": verdict, "scope": scope, "accepted": " and ".join(by), "why": reason[:400]}


def row(asked: Asked, until: float, each: float, plain: bool) -> Row | None:
    """What the commands say of a kernel, and take; None where the time was over before."""
    if time.time() >= until:
        return None
    last = min(until, time.time() + each)
    facts: list[str | Path] = [] if asked.launch is None else ["--launch", asked.launch]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "certificate.json"
        words = ("--no-cache", "--require", "kernel", "--certificate", made, "--format", "json")
        check = run(["check", asked.file, *facts, *words], last)
        found: Row = {"group": asked.group, "label": asked.label, **said(check), "check": check.cpu}
        if check.status is None and last == until:
            return None
        if made.exists():
            again = run(["recheck", made, asked.file, *facts], until)
            if again.status is None and time.time() >= until:
                return None
            found |= {"bytes": made.stat().st_size, "recheck": again.cpu, "status": again.status}
            if again.status:
                lines = (again.out + again.err).strip().splitlines()
                found["followed"] = " ".join(lines)[:400]
    if plain:
        alone = run(["check", asked.file, *facts, "--no-cache", "--format", "json"], until)
        found["plain"] = alone.cpu if alone.status is not None else None
    return found


def load(path: Path) -> list[Row]:
    """The rows of a file; a line that was cut off is none."""
    rows: list[Row] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def ask(work: list[Asked], options: argparse.Namespace) -> Iterator[Row]:
    """A row for each kernel that the time reaches, as soon as it is there."""
    until = time.time() + options.seconds
    with ThreadPoolExecutor(options.jobs) as pool:
        some = [pool.submit(row, x, until, options.each, options.plain) for x in work]
        for ended in as_completed(some):
            if (found := ended.result()) is not None:
                yield found


def cause(why: str) -> str:
    """A reason without the places and numbers in which equal reasons differ."""
    text = re.sub(r"\S*/([\w.+-]+):\d+: ", "", why)
    text = re.sub(r" \(lines? [\d, and]+\)", "", text)
    return re.sub(r"\d+", "#", text)[:150]


def middle(of: list[float]) -> str:
    """The median and the most."""
    ordered = sorted(of)
    return f"{ordered[len(ordered) // 2]:.1f}; {ordered[-1]:.1f}" if ordered else ""


def table(rows: list[Row]) -> str:
    """Shares and costs of each group, what ended as it should not, and reasons with counts."""
    lines = [
        "| group | kernels | proved | accepted | share | certificates | of at most 300 KB | largest "
        "| check s | recheck s | slower than check | recheck ends with |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    causes: list[str] = []
    odd: list[str] = []
    for group in (g for g in GROUPS if any(r["group"] == g for r in rows)):
        some = [r for r in rows if r["group"] == group]
        proved = [r for r in some if r["verdict"] == "proved"]
        good = [r for r in proved if r["accepted"] == "kernel"]
        made = [r for r in some if "bytes" in r]
        slow = [r for r in made if r["recheck"] >= r["check"]]
        ends = Counter(str(r["status"]) for r in made)
        share = f"{100 * len(good) / len(proved):.1f}%" if proved else ""
        largest = f"{max(r['bytes'] for r in made) / 1000:.0f} KB" if made else ""
        small = sum(r["bytes"] <= AIM for r in made)
        costs = (middle([r["check"] for r in made]), middle([r["recheck"] for r in made]))
        cells = [group, len(some), len(proved), len(good), share, len(made), small, largest, *costs]
        cells += [len(slow), ", ".join(f"{k}: {n}" for k, n in ends.most_common())]
        lines.append(f"| {' | '.join(map(str, cells))} |")
        counts = Counter(f"proved, not accepted: {cause(r['why'])}" for r in proved if r not in good)
        counts.update(f"{r['verdict']}: {cause(r['why'])}" for r in some if r["verdict"] != "proved")
        causes += [f"| {group} | {n} | {what} |".replace("\n", " ") for what, n in counts.most_common()]
        odd += [f"{group} {r['label']}: {what}" for r in some if (what := strange(r))]
    parts = [*lines, "", "| group | kernels | cause |", "|---|---|---|", *causes]
    return "\n".join(parts + (["", "Not as asked:", "", *odd] if odd else [])) + "\n"


def strange(r: Row) -> str:
    """What of a row is not as it should be."""
    if "bytes" not in r:
        return "accepted, no certificate" if r["accepted"] == "kernel" else ""
    found = []
    if r["bytes"] > AIM:
        found.append(f"{r['bytes'] / 1000:.0f} KB")
    if r["recheck"] >= r["check"]:
        found.append(f"recheck {r['recheck']} s, check {r['check']} s")
    elif r.get("plain") is not None and r["recheck"] >= r["plain"]:
        found.append(f"recheck {r['recheck']} s, check without the kernel {r['plain']} s")
    if r["status"] not in STATUSES or (r["status"] == 0) != (r["accepted"] == "kernel"):
        found.append(f"accepted by {r['accepted'] or 'none'}, recheck {r['status']}: {r.get('followed', '')}")
    return "; ".join(found)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("groups", nargs="*", metavar="GROUP[+CHEAPEST]", help=", ".join(GROUPS))
    parser.add_argument("--rows", type=Path, required=True, help="lines of JSON, added to")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="after which all ends")
    parser.add_argument("--each", type=float, default=120, help="seconds that a check may take")
    parser.add_argument("--match", default="", help="only kernels whose name contains this")
    parser.add_argument("--seed", type=int, help="a random order within each group")
    parser.add_argument("--dearest", action="store_true", help="those that took most come first")
    parser.add_argument("--proved", action="store_true", help="what is recorded as proved alone")
    parser.add_argument("--plain", action="store_true", help="also `check` without the kernel")
    parser.add_argument("--table", action="store_true", help="print the table of FILE, and ask nothing")
    options = parser.parse_args()
    if wrong := {word.partition("+")[0] for word in options.groups} - set(GROUPS):
        parser.error(f"no group: {', '.join(sorted(wrong))}")
    if not options.table:
        had = {(r["group"], r["label"]) for r in load(options.rows)}
        work = in_order(options.groups or GROUPS, options)
        work = [x for x in work if (x.group, x.label) not in had]
        with options.rows.open("a") as file:
            for found in ask(work, options):
                print(json.dumps({**found, "at": commit()}), file=file, flush=True)
    sys.stdout.write(table(load(options.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
