"""Mutants of real kernels: does the first finding show the reader the line that was changed?

    python benchmarks/checker/mutant_lines.py [--count 300] [--seed 0] [--kernels FOLDER] [--jobs N]
        [--seconds 60] [--until 540] [--out FILE]

One synchronizing instruction of a kernel of the real corpus is deleted, its parity negated, or its bytes
raised (``ptx_deletion.mutants``). The line table is taken out first, so that findings stand on lines of the
PTX. A refuted mutant counts as shown if its first finding names, by its place, a related place, its repair or
the lines between which its fix adds something,

    the changed line     that very line
    the pair around it   of a deleted one: two places with the deleted instruction between them, which means
                         that control comes from the first to it without the second, and from it to the second
                         without the first
    by its kind          of a pair: both places stand at most NEAR lines from the deleted one, or the cause or
                         the repair names what was deleted (a wait, a fence, an arrival, ...). Wide pairs that
                         name nothing show the reader little, so they are counted apart. A wide pair counts by
                         its fix where that adds the deleted operation again, with no label and no branch
                         between its place and the deleted one: then either place is right

Kernels are those of the real corpus, or of a folder laid out like it (``--kernels``). Each mutant is checked
in a process of its own, with so many seconds of processor time. None is begun that could end later than
``--until`` seconds after the start; the rows of these say so. ``--out``
(benchmarks/results/mutant_lines.json) is written after each row: counts in each sense, and rows, which say of
each miss what was shown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.checker.ptx_deletion import Mutant, apart, mutants  # noqa: E402
from syncverify.base.deadline import Guard  # noqa: E402
from syncverify.base.diagnostics import Diagnostic, Mistake, ScopeKind, Severity, Verdict  # noqa: E402
from syncverify.driver.files import Options, check_each, read_source  # noqa: E402
from syncverify.frontends.launch_facts import LaunchFacts  # noqa: E402
from syncverify.report.edit_diff import neighbours  # noqa: E402
from tests.system.real.cache import Kernel, kernels  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "mutant_lines.json"
REAL = ROOT / "benchmarks" / "results" / "real.json"
_LOC = re.compile(r"^\s*\.loc\b[^\n]*", re.M)
_BRANCH = re.compile(r"(?P<guard>@!?[%\w$]+\s+)?\b(?P<op>bra|brx|ret|exit|trap)\b[\w.]*\s*(?P<to>[\w$]*)")
_LABEL = re.compile(r"^\s*([$\w]+):", re.M)


def named(d: Diagnostic, text: str) -> set[int]:
    """The lines of a text that a finding shows, those around what its fix adds among them."""
    edit = d.repair.edit if d.repair is not None else None
    around = () if edit is None else neighbours(edit, text.split("\n"))
    spans = [d.span, *(label.span for label in d.related), *([d.repair.span] if d.repair else [])]
    return {*(span.line for span in spans if span.line), *around}


#: Lines between a deleted instruction and a place that is near it.
NEAR = 40
#: What a mistake is called where an instruction is deleted that matches.
_KINDS = (
    (r"mbarrier\.init", {Mistake.MISSING_INIT}),
    (r"try_wait|test_wait", {Mistake.MISSING_WAIT, Mistake.MISPLACED_WAIT, Mistake.LIFETIME}),
    (r"wait_group|wait_all|griddepcontrol\.wait", {Mistake.MISSING_WAIT, Mistake.LAX_WAIT}),
    (r"commit_group|mbarrier\.arrive\.noinc", {Mistake.MISSING_COMMIT}),
    (r"expect_tx", {Mistake.BYTES}),
    (r"mbarrier\.arrive|st\.async|red\.async", {Mistake.MISSING_ARRIVE, Mistake.COUNT}),
    (r"fence", {Mistake.MISSING_FENCE, Mistake.MISPLACED_FENCE}),
    (r"^bar|barrier\.", {Mistake.MISSING_BARRIER, Mistake.DIVERGENCE, Mistake.COUNT}),
    (r"setmaxnreg", {Mistake.REGISTERS, Mistake.DIVERGENCE}),
)


def names_kind(mutant: Mutant, d: Diagnostic) -> bool:
    """Whether a finding's cause, or its repair, is the lack of what was deleted."""
    said = {d.cause, d.repair.mistake if d.repair is not None else None}
    return next((bool(kinds & said) for op, kinds in _KINDS if re.search(op, mutant.op)), False)


def shown(mutant: Mutant, lines: set[int]) -> tuple[str, int]:
    """How a finding that names these lines shows the mutation: changed, pair, or empty; and of the narrowest
    pair, how far its further place is away."""
    if mutant.line in lines:
        return "changed", 0
    if mutant.kind != "deleted" or len(lines) < 2:
        return "", 0
    forth = successors(mutant.text)
    back: dict[int, set[int]] = {}
    for n, others in forth.items():
        for other in others:
            back.setdefault(other, set()).add(n)
    widths = [
        max(abs(a - mutant.line), abs(b - mutant.line))
        for a, b in permutations(sorted(lines), 2)
        if a in _reached(back, mutant.line, b) and b in _reached(forth, mutant.line, a)
    ]
    return ("pair", min(widths)) if widths else ("", 0)


def restored(mutant: Mutant, d: Diagnostic) -> int | None:
    """How far from a deleted instruction the fix adds the like, if control goes straight between both."""
    edit = d.repair.edit if d.repair is not None else None
    opcode = mutant.op.split()[0].rstrip(";")
    if mutant.kind != "deleted" or edit is None or not any(opcode in line for line in edit.new):
        return None
    lines = mutant.text.split("\n")
    first, last = sorted((edit.line, mutant.line))
    between = "\n".join(lines[first - 1 : last])
    if _LABEL.search(between) or _BRANCH.search(re.sub(r"//.*", "", between)):
        return None
    return last - first


def successors(text: str) -> dict[int, set[int]]:
    """By line, the lines that control goes on to."""
    lines = text.split("\n")
    labels: dict[str, list[int]] = {}
    for m in _LABEL.finditer(text):
        labels.setdefault(m[1], []).append(text.count("\n", 0, m.start(1)) + 1)
    found: dict[int, set[int]] = {}
    for n, line in enumerate(lines, 1):
        branches = list(_BRANCH.finditer(line.split("//")[0]))
        last = branches[-1] if branches else None
        falls = last is None or last["guard"] is not None
        found[n] = {n + 1} if falls and n < len(lines) else set()
        for branch in branches:
            # A label in the braces of inline assembly stands there many times; the nearest is meant.
            found[n] |= {min(labels.get(branch["to"], ()), key=lambda at, n=n: abs(at - n), default=n + 1)}
            if branch["op"] == "brx":
                found[n] |= {at for places in labels.values() for at in places}
    return found


def _reached(graph: dict[int, set[int]], start: int, without: int) -> set[int]:
    """The lines that a walk from one comes to without another."""
    seen, work = {start}, [start]
    while work:
        for n in graph.get(work.pop(), ()):
            if n != without and n not in seen:
                seen.add(n)
                work.append(n)
    return seen


def judged(path: Path, facts: LaunchFacts, mutant: Mutant, seconds: float) -> dict[str, Any]:
    """The verdict on the only kernel of a file, and what its first error shows of the mutation."""
    options = Options(scope=ScopeKind.EXACT, guard=Guard(seconds), isolated=True, replay=False)
    (report,) = check_each(read_source(path), facts, options)
    row: dict[str, Any] = {"verdict": str(report.verdict)}
    error = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    if report.verdict is Verdict.UNKNOWN:
        return row | {"reason": str(report.reason or "")}
    if report.verdict is not Verdict.REFUTED or error is None:
        warned = sorted({f"{d.rule}: {d.message}" for d in report.diagnostics})
        return row | {"warned": warned}
    lines = named(error, mutant.text)
    how, width = shown(mutant, lines)
    by_fix = restored(mutant, error)
    width = width if by_fix is None else min(width, by_fix)
    row |= {"rule": error.rule, "named": sorted(lines), "shown": how, "width": width}
    row |= {"names_kind": names_kind(mutant, error), "cause": str(error.cause or "")}
    return row if how and width <= NEAR else row | {"said": said(error)}


def said(d: Diagnostic) -> dict[str, Any]:
    """What a finding tells its reader."""
    told: dict[str, Any] = {"message": d.message, "line": d.span.line, "fix": d.fix}
    told["related"] = [f"{label.span.line}: {label.text}" for label in d.related]
    if d.repair is not None:
        edit = d.repair.edit
        told["repair"] = f"{d.repair.span.line}: {d.repair.text}"
        told["edit"] = [] if edit is None else [edit.line, *edit.new]
    return told


@dataclass(frozen=True)
class Chosen:
    """A mutant by its place in those of its kernel: the texts of all of them would be too long to keep."""

    kernel: Kernel
    index: int

    def mutant(self) -> Mutant:
        return next(islice(mutants(_text(self.kernel)), self.index, None))


def _text(kernel: Kernel) -> str:
    """The PTX of a kernel without its line table."""
    return _LOC.sub("", kernel.ptx.read_text("utf-8"))


def chosen(count: int, seed: int, folder: Path | None) -> list[Chosen]:
    """So many mutants, spread over the kernels that are proved themselves: others have findings already."""
    draw = random.Random(seed)
    known = json.loads(REAL.read_text("utf-8"))
    right = {label for label, found in known.items() if found.get("exact", {}).get("verdict") == "proved"}
    every = sorted((k for k in kernels(folder) if k.label in right), key=lambda k: k.label)
    draw.shuffle(every)
    pools = []
    for kernel in every:
        pool = list(range(sum(1 for _ in mutants(_text(kernel)))))
        draw.shuffle(pool)
        pools.append((kernel, pool))
    found: list[Chosen] = []
    while len(found) < count and any(pool for _, pool in pools):
        found += [Chosen(kernel, pool.pop()) for kernel, pool in pools if pool]
    return found[:count]


def row_of(some: Chosen, seconds: int, last_start: float) -> dict[str, Any]:
    """The row of a mutant, unless it is too late to begin with it."""
    row: dict[str, Any] = {"kernel": some.kernel.label, "index": some.index}
    if time.monotonic() > last_start:
        return row | {"verdict": "not run"}
    mutant = some.mutant()
    row |= {"line": mutant.line, "kind": mutant.kind, "op": mutant.op}
    begin = time.monotonic()
    row |= apart(some.kernel, mutant, str, partial(judged, mutant=mutant, seconds=0.8 * seconds), seconds)
    return row | {"seconds": round(time.monotonic() - begin, 1)}


def counts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many mutants are shown in each sense, by kind of mutation."""
    refuted = [r for r in rows if "shown" in r]
    found: dict[str, Any] = {"verdicts": dict(Counter(r["verdict"] for r in rows).most_common())}
    for kind in ("all", "deleted", "parity", "bytes"):
        some = [r for r in refuted if kind in ("all", r["kind"])]
        hits = [r for r in some if r["shown"]]
        near = [r for r in hits if r["width"] <= NEAR]
        either = sum(r["width"] <= NEAR or r["names_kind"] for r in hits)
        found[kind] = {"refuted": len(some), "by line": sum(r["shown"] == "changed" for r in hits)}
        found[kind] |= _share("shown", len(hits), len(some))
        found[kind] |= _share("near, or wide and of its kind", either, len(some))
        found[kind] |= _share("near", len(near), len(some))
    return found


def _share(name: str, part: int, whole: int) -> dict[str, Any]:
    return {name: part, f"{name}, share": round(part / max(whole, 1), 4)}


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=Path, help="a folder with the real kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=int, default=60, help="of processor time for one mutant")
    parser.add_argument("--until", type=float, default=math.inf, help="of wall time, for all")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    begin = time.monotonic()
    last_start = begin + args.until - args.seconds
    some = chosen(args.count, args.seed, args.kernels)
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        todo = [pool.submit(row_of, one, args.seconds, last_start) for one in some]
        for done in as_completed(todo):
            rows.append(done.result())
            print(json.dumps(rows[-1]), flush=True)
            told = {"seed": args.seed, "count": args.count, "jobs": args.jobs, "seconds": args.seconds}
            told |= {"wall": round(time.monotonic() - begin), "counts": counts(rows)}
            told["rows"] = sorted(rows, key=lambda r: (r["kernel"], r["index"]))
            args.out.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    print(json.dumps(counts(rows), indent=1))
    misses = Counter((r["kind"], r["op"], r["rule"]) for r in rows if "shown" in r and not r["shown"])
    for miss, n in misses.most_common(20):
        print(n, *miss)


if __name__ == "__main__":
    main()
