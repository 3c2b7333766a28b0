"""What each mechanism of the search for proofs is needed for: it is switched off, and kernels are checked.

    python -m benchmarks.checker.mechanisms real products corpus --jobs 16 [--draw 40] [--until 240]
    python -m benchmarks.checker.mechanisms --table [--out FILE]

A kernel is first checked with all mechanisms, and those that do anything are noted; without the others it
would be checked in the same way. Then each that did something is switched off alone. The kernel needs it if
it is not proved for every size then, in three times its seconds and three more.

``real``: kernels of the real cache that are recorded as proved for every size. ``products``: one form of
each kind of the menu, and those that mutants are made of. ``corpus``: its good files. Kernels that took
longest are begun first, and mechanisms are switched off in the fastest first. What the time did not reach is
asked about by the same command again: rows of ``--out`` are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from benchmarks.checker.kernel_accepts import ROOT, Item, drawn, items
from benchmarks.checker.matmul_every_size import of_menu
from benchmarks.checker.matmul_mutants import SCHEDULES
from benchmarks.checker.trusted_lines import count
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.prover.budget import modular_enabled, symmetry_enabled
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.reach import knowledge_order, worklist
from syncverify.checker.prover.reach.ring import detection
from syncverify.checker.prover.reach.widening_strategy import (
    LoopEntries,
    RegisterChangeStatistics,
    RingLoopExtrapolation,
)
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ir import check_kernel
from syncverify.frontends.launch_facts import NO_FACTS, read_facts
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import product
from syncverify.matmul.pipeline import build
from tests.system.real.cache import kernels as real_kernels

RESULTS = ROOT / "benchmarks" / "results" / "mechanisms.json"
#: How much longer than with all mechanisms a check may take without one.
TIMES, SECONDS = 3, 3
#: Processor seconds of the first check.
MOST = 200
Row = dict[str, Any]
_NODES = worklist.NodeProcessing


@dataclass(frozen=True)
class Mechanism:
    """``at``: the function that does it, and what it returns where nothing is done. ``does``: which results
    tell that something was; so does an exception, which begins an exploration again. ``off``: what switches
    it off otherwise. ``files``: for it alone."""

    at: tuple[Any, str]
    nothing: Any = None
    does: Callable[[Any], object] = bool
    off: Callable[[], object] | None = None
    files: tuple[str, ...] = ()

    def switch_off(self) -> None:
        if self.off is not None:
            self.off()
            return
        owner, name = self.at
        setattr(owner, name, lambda *_, **__: self.nothing)

    def note(self, label: str, found: set[str]) -> None:
        """Has it say when it does anything."""
        owner, name = self.at
        real = getattr(owner, name)

        def call(*args: Any, **more: Any) -> Any:
            try:
                x = real(*args, **more)
            except Exception:
                found.add(label)
                raise
            if self.does(x):
                found.add(label)
            return x

        setattr(owner, name, call)


def always(_: Any) -> bool:
    """What is called where it does anything alone."""
    return True


MECHANISMS: dict[str, Mechanism] = {
    "places of a ring": Mechanism(
        (detection, "detect_ring"),
        off=lambda: symmetry_enabled.set(False),
        files=("checker/prover/reach/ring/*.py",),
    ),
    "sizes read again in each iteration": Mechanism(
        (strategy, "_round_robin_attempt"),
        does=lambda x: x[0].space.round_robin is not None and x[0].space.round_robin.havocked_sizes,
        off=lambda: setattr(strategy, "RoundRobin", lambda: None),
        files=("symbolic/round_robin.py", "frontends/ptx/analysis/slicing/iteration_havoc.py"),
    ),
    "clusters alone": Mechanism(
        (strategy, "each_cluster_alone"),
        does=lambda x: x.verdict is Verdict.PROVED,
        off=lambda: modular_enabled.set(False),
        files=("checker/prover/modular/compose.py", "checker/prover/parametric/compose_sizes.py"),
    ),
    "order of knowledge": Mechanism(
        (_NODES, "enable_knowledge_order"), False,
        files=("checker/prover/reach/knowledge_order.py", "checker/prover/reach/threshold_abstraction.py"),
    ),
    "history of tiles": Mechanism(
        (worklist, "forget_tile_history"), does=always, files=("checker/prover/reach/tile_history.py",)
    ),
    "history of tiles at all slots": Mechanism((knowledge_order, "extend_to_orbit"), []),
    "weakenings of accesses at all slots": Mechanism((knowledge_order, "orbit_of_access_weakening"), []),
    "weakenings of barriers at all slots": Mechanism(
        (knowledge_order, "orbit_of_barrier_weakening"), [], files=("checker/prover/reach/ring/orbits.py",)
    ),
    "laps ahead": Mechanism((_NODES, "extrapolate_ring_loop")),
    "translates": Mechanism((RingLoopExtrapolation, "translates"), []),
    "loops are left at once first": Mechanism((LoopEntries, "enters_loop"), False),
    "loops are told apart": Mechanism((RegisterChangeStatistics, "mixes_loops"), False),
    "holds what it would be widened with": Mechanism((_NODES, "already_subsumes"), False),
    "weakened to earlier": Mechanism((_NODES, "weaken_to_earlier"), False),
    "covered by later": Mechanism((_NODES, "covered_by_later"), False),
    "places one by one": Mechanism((_NODES, "sequential_orbit_visit")),
    "rings looked for before states repeat": Mechanism((_NODES, "seek")),
    "rings looked for from the start": Mechanism((_NODES, "look_soon")),
}  # fmt: skip


# -------------------------------------------------------------------- what is asked about


def check_file(path: Path, facts: Path | None) -> bool:
    """Whether all kernels of a file are proved for every size."""
    known = NO_FACTS if facts is None else read_facts(facts)
    reports = check_source(read_source(path), facts=known, scope=ScopeKind.ALL, replay=False)
    found = [r.verdict is Verdict.PROVED and r.scope.kind is ScopeKind.ALL for r in reports]
    return bool(found) and all(found)


@cache
def schedules() -> dict[str, Any]:
    return {**of_menu(), **SCHEDULES}


def check_product(name: str) -> bool:
    """Whether a product, as text that was read, is proved for every size."""
    (kernel,) = parse(print_kernel(build(product(), schedules()[name])), f"{name}.syncir")
    report = check_kernel(kernel, {}, scope=ScopeKind.ALL)
    return report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.ALL


@dataclass(frozen=True)
class Asked:
    """A kernel, how it is checked, and the seconds that this took when last recorded."""

    group: str
    label: str
    check: Callable[[], bool]
    seconds: float = 0.0


def asked(group: str) -> Iterator[Asked]:
    if group == "products":
        for name in [*SCHEDULES, *(x.label for x in items("menu-ir", False))]:
            yield Asked(group, name, lambda n=name: check_product(n), 5)  # type: ignore[misc]
        return
    if group == "real":
        kept = json.loads((ROOT / "benchmarks" / "results" / "real.json").read_text())
        by_label = {k.label: k for k in real_kernels()}
        for item in items("real", False):
            k = by_label[item.label]
            seconds = kept[item.label]["all"]["cpu"]
            yield Asked(group, item.label, lambda k=k: check_file(k.ptx, k.facts("all")), seconds)  # type: ignore[misc]
        return
    for item in items("corpus", False):
        path = ROOT / "corpus" / item.label
        facts = path.with_name(path.name + ".launch.toml")
        known = facts if facts.exists() else None
        yield Asked(group, item.label, lambda p=path, f=known: check_file(p, f))  # type: ignore[misc]


# -------------------------------------------------------------------- asking


@dataclass(frozen=True)
class Task:
    """A check of a kernel, with all mechanisms (``off`` is empty) or without one."""

    of: Asked
    off: str = ""
    limit: int = MOST

    def run(self) -> Row:
        """In a fork."""
        found: set[str] = set()
        if self.off:
            MECHANISMS[self.off].switch_off()
        else:
            for label, mechanism in MECHANISMS.items():
                mechanism.note(label, found)
        begun = time.process_time()
        proved = self.of.check()
        return {
            "proved": proved, "seconds": round(time.process_time() - begun, 2), "effects": sorted(found)
        }  # fmt: skip


@dataclass
class Forks:
    """Tasks in forks, so many at once; ``done`` is told what each came to, and may add tasks."""

    jobs: int
    until: float
    done: Callable[[Task, Row], list[tuple[float, Task]]]
    left: list[tuple[float, int, Task]] = field(default_factory=list)
    running: dict[int, tuple[int, Task]] = field(default_factory=dict)  # by pipe: the process
    number: int = 0

    def add(self, order: float, task: Task) -> None:
        """Keeps a task; the lowest order is begun first."""
        self.number += 1
        heappush(self.left, (order, self.number, task))

    def run(self) -> None:
        while self.running or self.left:
            while self.left and len(self.running) < self.jobs:
                self.begin(heappop(self.left)[2])
            if not self.running:
                break
            ready, _, _ = select.select(list(self.running), [], [], 5)
            for pipe in ready:
                self.end(pipe)

    def begin(self, task: Task) -> None:
        """Begins a task, unless it could end too late."""
        if time.monotonic() + (task.limit if task.off else 0) > self.until:
            return
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            resource.setrlimit(resource.RLIMIT_CPU, (task.limit, task.limit + 2))
            try:
                row = task.run()
            except Exception as e:
                row = {"proved": False, "why": f"{type(e).__name__}: {e}"[:200]}
            with os.fdopen(write, "w") as pipe:
                json.dump(row, pipe)
            os._exit(0)
        os.close(write)
        self.running[read] = child, task

    def end(self, pipe: int) -> None:
        child, task = self.running.pop(pipe)
        with os.fdopen(pipe) as said:
            words = said.read()
        os.waitpid(child, 0)
        row: Row = json.loads(words) if words else {"proved": False, "why": "limit"}
        for order, further in self.done(task, row):
            self.add(order, further)


@dataclass
class Table:
    """Rows by group and kernel: seconds, what did anything, and what it came to without each of that."""

    out: Path
    kept: dict[str, dict[str, Row]] = field(default_factory=dict)

    def done(self, task: Task, row: Row) -> list[tuple[float, Task]]:
        """Takes note of a row; what is to be asked next."""
        rows = self.kept.setdefault(task.of.group, {})
        if task.off:
            rows[task.of.label]["without"][task.off] = row["seconds"] if row["proved"] else "not proved"
            self.write()
            return []
        if row["proved"]:
            rows[task.of.label] = {"seconds": row["seconds"], "effects": row["effects"], "without": {}}
            self.write()
        return self.without(task.of)

    def without(self, of: Asked) -> list[tuple[float, Task]]:
        """What is left to ask of a kernel that was checked with all."""
        row = self.kept.get(of.group, {}).get(of.label)
        if row is None:
            return []
        limit = int(TIMES * row["seconds"]) + SECONDS
        left = [x for x in row["effects"] if x in MECHANISMS and x not in row["without"]]
        return [(row["seconds"], Task(of, x, limit)) for x in left]

    def write(self) -> None:
        self.out.write_text(json.dumps(self.kept, indent=1) + "\n")

    def text(self) -> str:
        """For each mechanism where it does anything, and what needs it."""
        every = [(x, r) for rows in self.kept.values() for x, r in rows.items()]
        lines = ["| mechanism | lines of its own | does anything in | switched off in | needed by | which |"]
        lines.append("|---|---|---|---|---|---|")
        for name, mechanism in MECHANISMS.items():
            does = sum(name in r["effects"] for _, r in every)
            tried = [(x, r["without"][name]) for x, r in every if name in r["without"]]
            needs = [x for x, said in tried if said == "not proved"]
            shown = ", ".join(f"`{x}`" for x in needs[:4]) + (", ..." if len(needs) > 4 else "")
            own = count(list(mechanism.files)) or ""
            lines.append(f"| {name} | {own} | {does} | {len(tried)} | {len(needs)} | {shown} |")
        tried_all = ", ".join(f"{len(rows)} of {group}" for group, rows in self.kept.items())
        return "\n".join([*lines, "", f"Asked about: {tried_all}."]) + "\n"


def chosen(groups: list[str], draw: int, seed: int, match: str) -> list[Asked]:
    """The kernels that are asked about."""
    every = [x for group in groups for x in asked(group) if match in x.label]
    names = {x.label for x in drawn([Item(x.label, list) for x in every], draw, seed)}
    return [x for x in every if x.label in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("groups", nargs="*", choices=["corpus", "real", "products", []])
    parser.add_argument("--draw", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--until", type=float, default=600, help="seconds after which no check is begun")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    table = Table(args.out, json.loads(args.out.read_text()) if args.out.exists() else {})
    if not args.table:
        forks = Forks(args.jobs, time.monotonic() + args.until, table.done)
        for one in chosen(args.groups, args.draw, args.seed, args.match):
            if one.label in table.kept.get(one.group, {}):
                for order, task in table.without(one):
                    forks.add(order, task)
            else:
                forks.add(-one.seconds - 1, Task(one))
        forks.run()
    sys.stdout.write(table.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
