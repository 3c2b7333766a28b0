"""What each mechanism of the search for proofs is needed for: it is switched off, and kernels are checked.

    python -m benchmarks.checker.mechanisms corpus real products [--draw 40] [--seed 1] [--most 3]
    python -m benchmarks.checker.mechanisms --table [--out FILE]
    python -m benchmarks.checker.mechanisms corpus real products --effects [--draw 40] [--seed 1] [--most 3]

With ``--effects`` nothing is switched off: in how many kernels each does anything is counted, at the cost of
one check each. Where one does nothing, nothing changes without it.

Kernels that are proved for every size within ``most`` seconds of processor time are asked about. One is lost
without a mechanism where it is not proved in five times its time and two seconds more. Whether the kernel for
proofs of protocols accepts it is said beside it, as a loss that the kernel makes good is none.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.checker.kernel_accepts import ROOT, drawn, items, of_kernel
from benchmarks.checker.matmul_mutants import SCHEDULES
from benchmarks.checker.trusted_lines import count
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.prover.budget import modular_enabled, symmetry_enabled
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.reach import knowledge_order, worklist
from syncverify.checker.prover.reach.widening_strategy import BackEdges, RingLoopExtrapolation
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ir import check_kernel
from syncverify.frontends.launch_facts import NO_FACTS, read_facts
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import product
from syncverify.matmul.pipeline import build
from tests.system.real.cache import kernels as real_kernels

RESULTS = ROOT / "benchmarks" / "results" / "mechanisms.json"
Off = Callable[[], object]


def _put(owner: Any, name: str, value: Any) -> Off:
    return lambda: patch.object(owner, name, lambda *_, **__: value).start()


_NODES = worklist.NodeProcessing
#: By mechanism: how it is switched off, and the files that are for it alone.
MECHANISMS: dict[str, tuple[tuple[Off, ...], tuple[str, ...]]] = {
    "places of a ring": (
        (lambda: symmetry_enabled.set(False),), ("checker/prover/reach/ring/*.py",),
    ),
    "clusters alone": ((lambda: modular_enabled.set(False),), ("checker/prover/modular/*.py",)),
    "order of knowledge": (
        (_put(knowledge_order, "supports_knowledge_order", False),),
        ("checker/prover/reach/knowledge_order.py", "checker/prover/reach/threshold_abstraction.py"),
    ),
    "history of tiles": (
        (_put(worklist, "forget_tile_history", None),), ("checker/prover/reach/tile_history.py",),
    ),
    "weakenings at all slots": (
        tuple(_put(knowledge_order, f, []) for f in (
            "extend_to_orbit", "orbit_of_access_weakening", "orbit_of_barrier_weakening")),
        ("checker/prover/reach/ring/orbits.py",),
    ),
    "laps ahead": (
        (_put(_NODES, "extrapolate_ring_loop", None),), (),
    ),
    "translates": ((_put(RingLoopExtrapolation, "translates", []),), ()),
    "inner loops first": (
        (_put(BackEdges, "enters_loop", False), _put(BackEdges, "stays_in_inner_loop", True)), (),
    ),
    "weakened to earlier": ((_put(_NODES, "weaken_to_earlier", False),), ()),
    "covered by later": ((_put(_NODES, "covered_by_later", False),), ()),
}  # fmt: skip
Row = dict[str, Any]
#: What a mechanism returns where it does nothing: a value that is false, or None, is nothing.
_RINGS, _EDGES = RingLoopExtrapolation, BackEdges
EFFECTS: dict[str, tuple[Any, str]] = {
    "clusters alone": (strategy, "each_cluster_alone"),
    "history of tiles: what slots miss": (knowledge_order, "extend_to_orbit"),
    "weakenings of accesses at all slots": (knowledge_order, "orbit_of_access_weakening"),
    "weakenings of barriers at all slots": (knowledge_order, "orbit_of_barrier_weakening"),
    "laps ahead": (_NODES, "extrapolate_ring_loop"),
    "translates": (_RINGS, "translates"),
    "inner loops first": (_EDGES, "enters_loop"),
    "holds what it would be widened with": (_NODES, "already_subsumes"),
    "weakened to earlier": (_NODES, "weaken_to_earlier"),
    "covered by later": (_NODES, "covered_by_later"),
    "places one by one": (_NODES, "sequential_orbit_visit"),
    "order of knowledge": (_NODES, "enable_knowledge_order"),
}


def noted(found: set[str]) -> None:
    """Takes note of what does anything from here on, in this process."""
    for label, (owner, name) in EFFECTS.items():
        real = getattr(owner, name)

        def call(*args: Any, _real: Any = real, _label: str = label, **more: Any) -> Any:
            x = _real(*args, **more)
            if x:
                found.add(_label)
            return x

        setattr(owner, name, call)


def effects(path: Path, facts: Path | None) -> Row:
    """The answer, with what took part in it."""
    found: set[str] = set()
    noted(found)
    return {**answer(path, facts), "effects": sorted(found)}


def counted(groups: list[str], draw: int, seed: int, most: int, until: float) -> str:
    """In how many of the proved kernels each mechanism does anything."""
    many, of = Counter[str](), Counter[str]()
    end = time.monotonic() + until
    for group in groups:
        for _, path, facts in sources(group, draw, seed, most):
            if time.monotonic() > end:
                break
            row = forked(lambda p=path, f=facts: effects(p, f), 3 * most)
            if row["proved"]:
                of[group] += 1
                many.update(row["effects"])
    lines = [f"| {name} | {many[name]} |" for name in EFFECTS]
    return "\n".join([f"of {dict(of)}", *lines]) + "\n"


def answer(path: Path, facts: Path | None) -> Row:
    """The verdicts of a file for every size, and how long they took."""
    begun = time.process_time()
    if not path.suffix:
        report = check_kernel(product_of(path.name), {}, scope=ScopeKind.ALL)
        good = report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.ALL
        return {"proved": good, "seconds": round(time.process_time() - begun, 2)}
    known = NO_FACTS if facts is None else read_facts(facts)
    reports = check_source(read_source(path), facts=known, scope=ScopeKind.ALL, replay=False)
    good = all(r.verdict is Verdict.PROVED and r.scope.kind is ScopeKind.ALL for r in reports)
    return {"proved": bool(good), "seconds": round(time.process_time() - begun, 2)}


def forked(ask: Callable[[], Row], seconds: int, off: tuple[Off, ...] = ()) -> Row:
    """The answer of a fork in which mechanisms are off."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
        try:
            for each in off:
                each()
            row = ask()
        except Exception as e:
            row = {"proved": False, "why": f"{type(e).__name__}: {e}"[:200]}
        with os.fdopen(write, "w") as pipe:
            json.dump(row, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    answered: Row = json.loads(said) if said else {"proved": False, "why": "limit"}
    return answered


def product_of(name: str) -> Kernel:
    """A product of one kind, as text that was read."""
    (kernel,) = parse(print_kernel(build(product(), SCHEDULES[name])), f"{name}.syncir")
    return kernel


def sources(group: str, many: int, seed: int, most: float) -> Iterator[tuple[str, Path, Path | None]]:
    """Some files of a group, with their facts: real kernels that took no longer when last recorded."""
    if group == "products":
        yield from ((name, Path(name), None) for name in SCHEDULES)
        return
    if group == "real":
        by_label = {k.label: k for k in real_kernels()}
        kept = json.loads((ROOT / "benchmarks" / "results" / "real.json").read_text())
        fast = [x for x in items("real", False) if kept[x.label]["all"]["cpu"] <= most]
        for item in drawn(fast, many, seed):
            k = by_label[item.label]
            yield item.label, k.ptx, k.facts("all")
        return
    for item in drawn(list(items("corpus", False)), many, seed):
        path = ROOT / "corpus" / item.label
        facts = path.with_name(path.name + ".launch.toml")
        yield item.label, path, facts if facts.exists() else None


def accepted(group: str, label: str) -> bool:
    """Whether the kernel accepts a proof of it."""
    if group == "products":
        return bool(of_kernel(product_of(label), "ir", str)[0]["answer"] == "accepted")
    rows = next(x for x in items(group, False) if x.label == label).rows()
    return bool(rows) and all(r["answer"] == "accepted" for r in rows)


def measured(group: str, label: str, path: Path, facts: Path | None, most: int) -> Row | None:
    """What is lost of one kernel; None for one that is not proved for every size in time."""
    plain = forked(lambda: answer(path, facts), most)
    if not plain["proved"]:
        return None
    limit = int(5 * plain["seconds"]) + 2
    lost, slower = [], {}
    for name, (off, _) in MECHANISMS.items():
        row = forked(lambda: answer(path, facts), limit, off)
        if not row["proved"]:
            lost.append(name)
        else:
            slower[name] = round(row["seconds"] / max(plain["seconds"], 0.01), 2)
    took = {"seconds": plain["seconds"], "lost": lost, "times": slower}
    if lost:
        took["accepted"] = forked(lambda: {"proved": accepted(group, label)}, 40)["proved"]
    return took


def table(kept: dict[str, dict[str, Row]]) -> str:
    """For each mechanism what needs it."""
    lines = [
        "| mechanism | lines of its own | needed by | of these accepted by the kernel | which |",
        "|---|---|---|---|---|",
    ]
    for name, (_, files) in MECHANISMS.items():
        some = [(x, r) for rows in kept.values() for x, r in rows.items() if name in r["lost"]]
        good = sum(bool(r.get("accepted")) for _, r in some)
        shown = ", ".join(f"`{x}`" for x, _ in some[:6]) + (", ..." if len(some) > 6 else "")
        lines.append(f"| {name} | {count(list(files)) or ''} | {len(some)} | {good} | {shown} |")
    tried = ", ".join(f"{len(rows)} of {group}" for group, rows in kept.items())
    return "\n".join([*lines, "", f"Asked about: {tried}."]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("groups", nargs="*", choices=["corpus", "real", "products", []])
    parser.add_argument("--draw", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--until", type=float, default=600, help="seconds after which no kernel is begun")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--effects", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    kept: dict[str, dict[str, Row]] = json.loads(args.out.read_text()) if args.out.exists() else {}
    if args.table:
        sys.stdout.write(table(kept))
        return 0
    if args.effects:
        sys.stdout.write(counted(args.groups, args.draw, args.seed, args.most, args.until))
        return 0
    end = time.monotonic() + args.until
    for group in args.groups:
        for label, path, facts in sources(group, args.draw, args.seed, args.most):
            if time.monotonic() > end:
                break
            row = measured(group, label, path, facts, args.most)
            if row is not None:
                kept.setdefault(group, {})[label] = row
                sys.stdout.write(f"{group} {label}: {row}\n")
                sys.stdout.flush()
                args.out.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
