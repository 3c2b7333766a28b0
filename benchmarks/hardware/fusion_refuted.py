"""Broken fusions: what the checker says, and what the GPU does when they are forced to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from benchmarks.hardware.fusion_prepared import fusion_named
from syncverify import gate
from syncverify.base.diagnostics import Policy
from syncverify.fusion import Schedule
from syncverify.fusion.graph import Fusion
from syncverify.fusion.pipeline import build
from syncverify.ir.expr import Binary, Int
from syncverify.ir.nodes import Kernel, MbarrierInit, MbarrierWait, Stmt
from syncverify.passes.rewrite import flat_map


def _without(*names: str) -> Callable[[Fusion, Schedule], Kernel]:
    return lambda fusion, schedule: build(fusion, schedule, without=frozenset(names))


def _edited(edit: Callable[[Stmt], Stmt]) -> Callable[[Fusion, Schedule], Kernel]:
    def make(fusion: Fusion, schedule: Schedule) -> Kernel:
        kernel = build(fusion, schedule)
        return replace(kernel, body=flat_map(kernel.body, lambda s: (edit(s),)))

    return make


def _empty_count_plus_one(s: Stmt) -> Stmt:
    if isinstance(s, MbarrierInit) and s.bar.name.startswith("empty") and isinstance(s.count, Int):
        return replace(s, count=Int(s.count.value + 1))
    return s


def _full_parity_flipped(s: Stmt) -> Stmt:
    if isinstance(s, MbarrierWait) and s.bar.name.startswith("full"):
        return replace(s, phase=Binary("%", s.phase + 1, Int(2)))
    return s


def _no_full_wait(fusion: Fusion, schedule: Schedule) -> Kernel:
    kernel = build(fusion, schedule)
    body = flat_map(
        kernel.body, lambda s: () if isinstance(s, MbarrierWait) and s.bar.name.startswith("full") else (s,)
    )
    return replace(kernel, body=body)


RING = Schedule(tile=2048, stages=2)
#: name -> fusion, how the kernel is broken, schedule
BROKEN: dict[str, tuple[str, Callable[[Fusion, Schedule], Kernel], Schedule]] = {
    "no empty barriers": ("two.f32", _without("empty-barriers"), RING),
    "no block barrier before the refill": (
        "two.f32",
        _without("handover-barriers"),
        replace(RING, mode="pipelined"),
    ),
    "empty count one too many": ("two.f32", _edited(_empty_count_plus_one), RING),
    "full parity flipped": ("two.f32", _edited(_full_parity_flipped), RING),
    "full phase never waited for": ("two.f32", _no_full_wait, RING),
    "no bulk groups": ("two.f32", _without("bulk-groups"), replace(RING, store="tma", store_stages=1)),
    "no barrier before the TMA store": ("two.f32", _without("handover-barriers"), replace(RING, store="tma")),
    "no proxy fence before the TMA store": (
        "gate_pair",
        _without("proxy-fences"),
        replace(RING, store="tma"),
    ),
}


def shows(claim: str | None, seen: Any) -> bool:
    """Whether the GPU did what the witness claims; undefined behaviour may show as anything or nothing."""
    if claim == "hang":
        return seen.ending in ("timeout", "crashed")
    if claim == "stale-value":
        return seen.ending == "finished" and seen.wrong > 0
    return claim == "ub"


def refuted(quick: bool) -> dict[str, Any]:
    """Broken kernels: what the checker says, and what the GPU does when they are forced to run."""
    sizes = {"R": 4096, "C": 4100}
    result: dict[str, Any] = {}
    for name, (fused, make, schedule) in BROKEN.items():
        fusion = fusion_named(fused)
        kernel = make(fusion, schedule)
        report = gate.Program(kernel, Policy.PRACTICAL).check("ir")
        claim = report.witness.claim.value if report.witness else None
        rule = report.diagnostics[0].rule if report.diagnostics else None
        seen = gate.run_unsafe(fusion, kernel, sizes, timeout=30.0, launches=2 if quick else 10)
        what = f"{seen.wrong} of {seen.elements} wrong" if seen.ending == "finished" else seen.ending
        agrees = shows(claim, seen)
        print(
            f"{name:36} {report.verdict.value:8} {rule} {claim or '-':11} GPU: {what}"
            f"{'' if agrees else '  (not seen this time)'} {seen.message}",
            flush=True,
        )
        result[name] = {
            "verdict": report.verdict.value, "rule": rule, "claim": claim,
            "gpu": asdict(seen), "agrees": agrees,
        }  # fmt: skip
    return result
