"""Mutants of matrix-product kernels: one synchronizing statement deleted or changed, judged by the checker.

    python benchmarks/checker/matmul_mutants.py [--write results/matmul_mutants.json] [--schedule NAME ...]

Rows of other schedules than those named stay as they are in the file.

Each must be refuted, or stand in ``REDUNDANT`` with the argument why the kernel is right without it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, trace
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Expr, Int, Var
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.pipeline import build

TURNS = Schedule(64, 128, stages=3, persistent=True, pingpong=True)
PAIRS = Schedule(64, 128, consumers=1, stages=2, split_k=3)
#: One of each kind; small rings, so that every slot is soon used again.
SCHEDULES = {
    "direct": Schedule(128, 64, stages=2),
    "pending": Schedule(128, 64, stages=3, pending=1),
    "tma": Schedule(128, 128, stages=2, store="tma"),
    "persistent": Schedule(128, 64, stages=3, persistent=True, registers=(40, 232)),
    "persistent tma": Schedule(128, 128, stages=3, persistent=True, store="tma", registers=(40, 232)),
    "cluster": Schedule(128, 128, stages=3, persistent=True, store="tma", cluster=2),
    "ping-pong": replace(TURNS, store="tma", laps="any"),
    "ping-pong pending": replace(TURNS, tile_n=64, pending=1, laps="any"),
    "ping-pong cluster": replace(TURNS, store="tma", cluster=2, registers=(40, 232), laps="any"),
    "ping-pong, even laps": replace(TURNS, store="tma"),
    "ping-pong, odd laps": replace(TURNS, pending=1, laps="odd"),
    "one consumer": Schedule(64, 64, consumers=1, stages=2, persistent=True, store="tma"),
    "split": Schedule(64, 128, consumers=1, stages=2, split_k=2, shares="any"),
    "split in three": Schedule(128, 256, stages=2, store="tma", split_k=3, shares="any", registers=(40, 232)),
    "split, any order": Schedule(64, 128, consumers=1, stages=2, split_k=3, shares="any", sums="any"),
    "split of clusters": Schedule(
        64, 128, consumers=1, stages=2, store="tma", split_k=2, shares="any", cluster=2
    ),
    "pairs": PAIRS,
    "pairs, persistent": replace(PAIRS, persistent=True, store="tma"),
    "one": replace(PAIRS, shares="one"),
    "one, persistent": Schedule(
        128, 128, stages=2, split_k=3, shares="one", persistent=True, store="tma", registers=(40, 232)
    ),
    "dependent": Schedule(128, 64, stages=2, persistent=True, dependent=True),
}


def _prologue(source: str) -> Problem:
    def halved(a):  # type: ignore[no-untyped-def]
        return (a * 0.5).cast("bf16")

    made = trace(halved, {"a": Tensor(source, ("M", "K"))})
    return Problem("prologue", "bf16", "KK", product().epilogue, made)


def _pair() -> Problem:
    def both(acc, acc2):  # type: ignore[no-untyped-def]
        return (acc * acc2).cast("bf16")

    c = Tensor("f32", ("M", "N"))
    return Problem("pair", "bf16", "KK", trace(both, {"acc": c, "acc2": c}))


#: Other types of factors, A from registers, and two products.
OTHERS: dict[str, tuple[Problem, Schedule]] = {
    "fp8": (product("e4m3"), Schedule(128, 64, stages=2, store="tma", persistent=True)),
    "tf32": (product("tf32"), Schedule(64, 64, consumers=1, stages=3, pending=1)),
    "gated pair": (_pair(), Schedule(128, 64, stages=3, store="tma", persistent=True)),
    "prologue": (_prologue("bf16"), Schedule(128, 64, stages=2, persistent=True)),
    "prologue of 8 bits": (_prologue("e4m3"), Schedule(64, 128, stages=2, store="tma", persistent=True,
                                                        consumers=1, cluster=2)),
}  # fmt: skip
_DELETED = (
    n.MbarrierInit, n.MbarrierArrive, n.MbarrierWait, n.BarrierSync, n.WgmmaFence, n.WgmmaCommit, n.WgmmaWait,
    n.FenceProxyAsync, n.BulkCommit, n.BulkWait, n.SetMaxNReg, n.SpinGlobal, n.AtomGlobal, n.WarpSync,
    n.GridDepWait,
)  # fmt: skip

K5 = "reductions of one block after another's: the async proxies of both are taken for one (K5)"
#: Mutants that leave the kernel right, and why.
REDUNDANT = {
    ("pending", "delete WgmmaFence"): "accumulators of one shape in a row are ordered (PTX ISA, wgmma.fence)",
    (
        "ping-pong cluster",
        "delete SetMaxNReg",
    ): "fewer registers, which the assembler would refuse; orders nothing",
    ("ping-pong pending", "delete WgmmaFence"): "accumulators of one shape in a row are ordered, as above",
    ("pending", "phase stays"): "after the first step of the only tile the ring is not at its end",
    ("pending", "ring of one slot less"): "after the first step of the only tile the ring is not at its end",
    ("persistent", "delete SetMaxNReg"): "fewer registers, which the assembler would refuse; orders nothing",
    (
        "persistent tma",
        "delete SetMaxNReg",
    ): "fewer registers, which the assembler would refuse; orders nothing",
}
REDUNDANT |= {
    ("tf32", what): REDUNDANT["pending", what]
    for what in ("delete WgmmaFence", "phase stays", "ring of one slot less")
}
AT_FIRST = "every tile begins at the first slot: after its first step the ring is not at its end"
REDUNDANT |= {
    ("ping-pong, odd laps", "delete WgmmaFence"): REDUNDANT["pending", "delete WgmmaFence"],
    ("ping-pong, odd laps", "phase stays"): AT_FIRST,
    ("ping-pong, odd laps", "ring of one slot less"): AT_FIRST,
}
REDUNDANT |= {
    ("split", "twice"): "one block of two leaves a sum: the other waits for any count, and sets it to zero",
    (
        "split in three",
        "delete SetMaxNReg",
    ): "fewer registers, which the assembler would refuse; orders nothing",
    ("split of clusters", "twice"): "one cluster of two leaves a sum: the other waits for any count",
    ("split of clusters", "delete BarrierSync"): "the barrier before the first part tells them, too",
    ("split in three", "delete BarrierSync"): "the barrier before the first part of the tile tells them, too",
    ("split in three", "delete FenceProxyAsync"): K5,
    ("split in three", "fence of global"): K5,
}
PARTS = "waits in front of the parts of the finished tile, and one for all before them: either is enough"
REDUNDANT |= {
    ("pairs", "twice"): "one block leaves a sum: the next waits for any count, and sets it to zero",
    ("pairs, persistent", "twice"): "one block leaves a sum: the next waits for any count, as above",
    ("one, persistent", "delete BulkWait"): PARTS,
    ("one, persistent", "one more pending"): PARTS,
    ("one, persistent", "delete BarrierSync"): "the barrier before the sums are added tells them, too",
    (
        "one, persistent",
        "delete SetMaxNReg",
    ): "fewer registers, which the assembler would refuse; orders nothing",
}
#: More steps and turns, where the usual sizes refute nothing: surplus arrivals gather over many phases.
LONG: tuple[dict[str, int], ...] = (
    {"K": 64 * 41, "steps": 41, "each": 13, "more": 1},
    {"K": 64 * 40, "steps": 40, "each": 14},
    {"K": 64 * 40, "steps": 40},
    {"turns": 12},
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed kernel: what was done, and on which line of the printed one."""

    what: str
    line: int
    kernel: n.Kernel


def mutants(kernel: n.Kernel) -> Iterator[Mutant]:
    """Every mutant; ``kernel`` comes from its own text, so that spans name lines."""
    for path, stmt in _places(kernel.body, ()):
        for what, changed in _changes(stmt, kernel.launch.threads > 256):
            body = _put(kernel.body, path, changed)
            yield Mutant(what, stmt.span.line, replace(kernel, body=body))


def _changes(s: n.Stmt, several: bool) -> Iterator[tuple[str, n.Stmt | None]]:
    """The changes of one statement; ``several``: there is more than one multiplying warpgroup."""
    if isinstance(s, _DELETED):
        yield f"delete {type(s).__name__}", None
    match s:
        case n.MbarrierInit(count=Int(c)):
            yield "count + 1", replace(s, count=Int(c + 1))
            if c > 1:
                yield "count - 1", replace(s, count=Int(c - 1))
        case n.MbarrierArrive(expect=Int(size)):
            yield "fewer bytes", replace(s, expect=Int(size - 128))
            yield "more bytes", replace(s, expect=Int(size + 128))
            yield "next slot", replace(s, bar=_next(s.bar))
        case n.MbarrierArrive():
            yield "next slot", replace(s, bar=_next(s.bar))
            yield "twice", replace(s, count=Int(2))
        case n.MbarrierWait(phase=phase):
            yield "other parity", replace(s, phase=phase ^ 1)
            yield "next slot", replace(s, bar=_next(s.bar))
        case n.TmaLoad(dst=dst):
            yield "next slot of data", replace(s, dst=_slot(dst))
            yield "next slot of barrier", replace(s, bar=_next(s.bar))
        case n.Wgmma(a=a, b=b) if isinstance(a, n.Region):
            yield "next slot of A", replace(s, a=_slot(a))
            yield "next slot of B", replace(s, b=_slot(b))
        case n.Wgmma(b=b):
            yield "next slot of B", replace(s, b=_slot(b))
        case n.LdShared(src=src):
            yield "next slot of A", replace(s, src=_slot(src))
        case n.WgmmaWait(pending=Int(p)):
            yield "one more pending", replace(s, pending=Int(p + 1))
        case n.BulkWait(pending=Int(p), read=read):
            yield "one more pending", replace(s, pending=Int(p + 1))
            if not read:
                yield "wait for reads only", replace(s, read=True)
        case n.SpinGlobal(value=value):
            yield "one less", replace(s, value=value - 1)
            yield "relaxed", replace(s, sem="relaxed")
            yield "in the block only", replace(s, scope="cta")
        case n.AtomGlobal():
            yield "relaxed", replace(s, sem="relaxed")
            yield "in the block only", replace(s, scope="cta")
            yield "twice", replace(s, value=Int(2))
        case n.If(then=(n.BulkWait() as wait, n.AtomGlobal() as release)):
            yield "release before the wait", replace(s, then=(release, wait))
        case n.BulkStore(src=src):
            yield "other slot", replace(s, src=replace(src, index=(src.index[0], 1 - src.index[1])))
        case n.BarrierSync(count=Int(c)):
            yield "count + 32", replace(s, count=Int(c + 32))
            yield "count - 32", replace(s, count=Int(c - 32))
            if several:
                yield "same id for both", replace(s, id=Int(1))
        case n.TmaStore(src=src):
            yield "other slot", replace(s, src=replace(src, index=(src.index[0], 1 - src.index[1])))
        case n.FenceProxyAsync():
            yield "fence of global", replace(s, space="global")
        case n.Assign("turn"):
            yield "turn stays", replace(s, value=Var("turn"))
        case n.Assign("stage", Binary("%", there, slots)):
            yield "one slot further", replace(s, value=(there + 1) % slots)
        case n.Assign("phase", value):
            yield "phase stays", replace(s, value=Var("phase"))
        case n.Assign("stage", value) if value == Int(0):
            yield "ring of one slot less", replace(s, value=Int(1))


def _next(bar: n.BarrierRef) -> n.BarrierRef:
    slots: Expr = Int(2)
    return replace(bar, index=((bar.index if bar.index is not None else Int(0)) + 1) % slots)


def _slot(r: n.Region) -> n.Region:
    return replace(r, index=((r.index[0] + 1) % 2, *r.index[1:]))


Path_ = tuple[tuple[int, str], ...]


def _places(body: tuple[n.Stmt, ...], at: Path_) -> Iterator[tuple[Path_, n.Stmt]]:
    for k, s in enumerate(body):
        yield (*at, (k, "")), s
        for part in ("body", "then", "orelse"):
            if hasattr(s, part):
                yield from _places(getattr(s, part), (*at, (k, part)))


def _put(body: tuple[n.Stmt, ...], path: Path_, changed: n.Stmt | None) -> tuple[n.Stmt, ...]:
    (k, part), *rest = path
    if not rest:
        return (*body[:k], *(() if changed is None else (changed,)), *body[k + 1 :])
    inner: Any = replace(body[k], **{part: _put(getattr(body[k], part), tuple(rest), changed)})
    return (*body[:k], inner, *body[k + 1 :])


def judge(kernel: n.Kernel) -> tuple[Verdict, str]:
    """The verdict at the default sizes, or at longer ones if nothing is refuted there, and the first error's
    rule."""
    report = check_kernel(kernel, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    for values in LONG:
        known = {p.name for p in kernel.params} >= set(values)
        if report.verdict is not Verdict.REFUTED and known:
            with suppress(InputError):  # another kind of kernel's sizes
                report = check_kernel(kernel, values, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    if report.verdict is Verdict.UNKNOWN and "launch cooperatively" in (report.reason or ""):
        # wrong even where all blocks run at once, which says more
        at_once = replace(kernel, launch=replace(kernel.launch, cooperative=True))
        report = check_kernel(at_once, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    errors = [d.rule for d in report.diagnostics if d.severity.value == "error"]
    return report.verdict, errors[0] if errors else (report.reason or "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write")
    parser.add_argument("--schedule", nargs="+", default=[])
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    plain = {name: (product(), schedule) for name, schedule in SCHEDULES.items()}
    for name, (problem, schedule) in {**plain, **OTHERS}.items():
        if args.schedule and name not in args.schedule:
            continue
        (kernel,) = parse(print_kernel(build(problem, schedule)), f"{name}.syncir")
        assert judge(kernel)[0] is Verdict.PROVED, name
        started, counts = time.process_time(), Counter[str]()
        for m in mutants(kernel):
            verdict, why = judge(m.kernel)
            argument = REDUNDANT.get((name, m.what)) if verdict is Verdict.PROVED else None
            counts["redundant" if argument else verdict.value] += 1
            row = {"schedule": name, "line": m.line, "what": m.what, "verdict": verdict.value, "rule": why}
            rows.append(row | ({"argument": argument} if argument else {}))
            if verdict is not Verdict.REFUTED and not argument:
                print(f"  {name}: {m.what} at line {m.line}: {verdict.value} {why}")
        print(f"{name}: {dict(counts)}, {time.process_time() - started:.1f} s")
    if args.write:
        to = Path(args.write)
        old = json.loads(to.read_text()) if args.schedule else []
        kept = [row for row in old if row["schedule"] not in args.schedule]
        to.write_text(json.dumps(kept + rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
