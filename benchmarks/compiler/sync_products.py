"""Synchronization of matrix products by kind: what stands in the PTX, and what a step of 64 k's executes.

    python benchmarks/compiler/sync_products.py [--peers DIR/cutlass/pingpong.ptx ...] [--out FILE]

Ours are those of ``matmul_every_size.py`` that ``OURS`` names, compiled; peers' products are PTX files with a
launch file beside each, and one more (``NAME.all.toml``) in which the length of the sum is ``K``. Both are
followed by the same agents, for two lengths: what the longer one executes more, in the first block and per
step, is counted by warp; a poll that passes is a wait. A step copies one box of A, which no block of these
has from another. Statements of the PTX are counted as they stand: a loop that polls may have two or three for
one wait, and a compiler may repeat what a loop does.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.checker.matmul_every_size import SCHEDULES  # noqa: E402
from syncverify.base.diagnostics import Policy, Verdict  # noqa: E402
from syncverify.checker.exact_check import Outcome  # noqa: E402
from syncverify.codegen.cache import Cache  # noqa: E402
from syncverify.driver.ptx.check import Checker, check_module  # noqa: E402
from syncverify.frontends.launch_facts import LaunchFacts  # noqa: E402
from syncverify.frontends.ptx.exec.system import PtxSystem  # noqa: E402
from syncverify.frontends.ptx.syntax.nodes import Instr, Module  # noqa: E402
from syncverify.frontends.ptx.syntax.parser import parse  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.gate.ptx_check import launch_facts  # noqa: E402
from syncverify.matmul import product  # noqa: E402
from syncverify.model.events import Ev, System  # noqa: E402
from syncverify.ptx_replay.run import with_final_classes  # noqa: E402

OURS = (
    "one tile, direct", "one tile, staged", "one tile, cluster", "one tile, pending", "three warpgroups",
    "persistent, 128x256, direct", "persistent, 128x256, staged", "persistent, 256x128, staged",
    "persistent, cluster", "ping-pong, staged, 4 stages", "ping-pong, cluster", "shared by two, direct",
)  # fmt: skip
STEP = 64  # k's
LENGTHS = (16 * STEP, 28 * STEP)
EVENTS = {
    "arrive": {Ev.ARRIVE, Ev.EXPECT_TX},
    "wait": {Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN},
    "bar": {Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE},
    "warp": {Ev.WARP_SYNC},
    "cluster": {Ev.CLUSTER_ARRIVE, Ev.CLUSTER_WAIT},
    "fence": {Ev.FENCE, Ev.PROXY_FENCE, Ev.INIT_FENCE},
    "wgmma": {Ev.WGMMA_FENCE, Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT},
    "bulk": {Ev.BULK_COMMIT, Ev.BULK_WAIT},
    "grid": {Ev.GRID_WAIT, Ev.SPIN},
}
KINDS = ("init", *EVENTS)


def kind_of(i: Instr) -> str | None:
    """The kind of an instruction that does nothing but synchronize."""
    match i.op, i.mods:
        case "mbarrier", (("init" | "inval"), *_):
            return "init"
        case "mbarrier", (("arrive" | "arrive_drop" | "expect_tx" | "complete_tx"), *_):
            return "arrive"
        case "mbarrier", (("try_wait" | "test_wait"), *_):
            return "wait"
        case (("bar" | "barrier"), ("warp", *_)):
            return "warp"
        case (("bar" | "barrier"), ("cluster", *_)):
            return "cluster"
        case (("bar" | "barrier"), _):
            return "bar"
        case (("fence" | "membar"), _):
            return "fence"
        case "wgmma", (("fence" | "commit_group" | "wait_group"), *_):
            return "wgmma"
        case "cp", ("async", "bulk", ("commit_group" | "wait_group"), *_):
            return "bulk"
        case "griddepcontrol", ("wait", *_):
            return "grid"
    return None


def standing(module: Module) -> Counter[str]:
    """Statements of each kind in the text."""
    (entry,) = module.entries
    return Counter(k for i in entry.body if isinstance(i, Instr) if (k := kind_of(i)) is not None)


def place(name: str) -> list[int]:
    """Of a tensor map among the parameters: which, and the byte in it."""
    return [int(x) for x in re.findall(r"\d+", name)]


def executed(module: Module, facts: LaunchFacts, values: Mapping[str, int]) -> Counter[str]:
    """Warp instructions of each kind in the first block of a launch, and its ``steps``."""
    found: list[PtxSystem] = []

    def collect(system: System, policy: Policy) -> Outcome:
        if isinstance(system, PtxSystem):
            found.append(system)
        return Outcome(Verdict.UNKNOWN, (), None, "", {})

    check_module(module, facts, Policy.PRACTICAL, Checker(collect), values=values)
    system, sequences = with_final_classes(found[0], {})
    loads = {e[4] for events in sequences for e in events if e[0] == Ev.BULK_LOAD}
    a = min(loads, key=lambda m: place(system.info.maps[m]))  # A comes first
    kinds = {code: kind for kind, some in EVENTS.items() for code in some}
    times = Counter[tuple[int, int, str]]()  # by warp and place in the text
    for events, c in zip(sequences, system.info.classes, strict=True):
        own = Counter((e[1], kinds[e[0]]) for e in events if e[0] in kinds)
        own += Counter((e[1], "steps") for e in events if e[0] == Ev.BULK_LOAD and e[4] == a)
        for (site, kind), n in own.items() if c.cta == 0 else ():
            # lanes that come to the same place do so together
            times[c.warp, site, kind] = max(times[c.warp, site, kind], n)
    total = Counter[str]()
    for (_, _, kind), n in times.items():
        total[kind] += n
    return total


def row(of: str, name: str, module: Module, runs: Iterable[Counter[str]]) -> dict[str, Any]:
    """``runs``: what is executed for each of the lengths."""
    short, long = runs
    more = {k: long[k] - short[k] for k in ("steps", *EVENTS)}
    each = {k: round(more[k] / more["steps"], 2) for k in EVENTS if more[k]}
    text = standing(module)
    return {"of": of, "kernel": name, "text": {k: text[k] for k in KINDS if text[k]}, "step": each}


def ours(name: str, cache: Cache) -> dict[str, Any]:
    compiled = CompiledMatmul(product(), SCHEDULES[name], cache=cache)
    program, schedule = compiled.program(), compiled.schedule
    module, facts = parse(program.ptx, "k.ptx"), launch_facts(program.kernel)
    sizes = {"M": 4 * schedule.tile_m, "N": 2 * schedule.tile_n}
    values = [compiled.launch_values({**sizes, "K": k}, 8) for k in LENGTHS]
    return row("ours", name, module, [executed(module, facts, v) for v in values])


def at_length(exact: Any, open_: Any, length: int) -> Any:
    """The facts of one launch with another number where those of all launches say K."""
    match exact, open_:
        case dict(), dict():
            return {k: at_length(v, open_.get(k), length) for k, v in exact.items()}
        case list(), list() if len(exact) == len(open_):
            return [at_length(a, b, length) for a, b in zip(exact, open_, strict=True)]
    return length if open_ == "K" else exact


def peer(path: Path) -> dict[str, Any]:
    module = parse(path.read_text(), path.name)
    texts = (Path(f"{path}.launch.toml"), path.with_suffix(".all.toml"))
    exact, open_ = (tomllib.loads(x.read_text())["kernel"] for x in texts)
    facts = [LaunchFacts(at_length(exact, open_, k), path.name) for k in LENGTHS]
    return row(path.parent.name, path.stem, module, [executed(module, f, {}) for f in facts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = []
    print("| kernel | statements | of which | a step executes | of which |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        made = [*((ours, (n, Cache(Path(folder)))) for n in OURS), *((peer, (p,)) for p in given.peers)]
        for make, args in made:
            r = make(*args)
            found.append(r)
            print(f"| {r['of']}: {r['kernel']} | {told(r['text'])} | {told(r['step'])} |", flush=True)
    if given.out:
        given.out.write_text("[\n" + ",\n".join(json.dumps(r) for r in found) + "\n]\n")


def told(counts: Mapping[str, float]) -> str:
    """The sum, and what it is made of."""
    return f"{sum(counts.values()):g} | " + ", ".join(f"{k} {n:g}" for k, n in counts.items())


if __name__ == "__main__":
    main()
