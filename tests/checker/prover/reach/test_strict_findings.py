"""Warnings that only strict mode asks for do not distinguish states, and hide nothing else."""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build
from tests.checker.prover.reach.kernels import ARRIVE, proof
from tests.checker.prover.reach.ring.test_symmetry import FENCE, READ, pipeline


def _without_fence(early: str = "t < 0", fence: str = "") -> str:
    """A ring whose reads are bridged by nobody; slots are given back too ``early`` in some iterations."""
    return pipeline(
        3,
        read=f"if {early} {{\n {ARRIVE}\n }}\n {READ}",
        fence=fence,
        arrive=f"if not ({early}) {{\n {ARRIVE}\n }}",
    )


def _rules(found: ParametricResult | KernelReport) -> set[tuple[str, int | None]]:
    return {(d.rule, d.span.line if d.span else None) for d in found.diagnostics}


def test_a_warning_in_every_turn_is_told_once() -> None:
    text = pipeline(3, fence="")
    found = proof(text)
    assert found.verdict is Verdict.PROVED
    (kernel,) = parse(text, "kernel.syncir")
    exact = check_kernel(kernel, {"T": 4, "K": 5}, Policy.PRACTICAL)
    assert _rules(found) == _rules(exact) != set()
    assert proof(text, Policy.STRICT).verdict is Verdict.REFUTED


@cache
def _warned() -> frozenset[str]:
    return frozenset(d.rule for d in proof(pipeline(3, fence="")).diagnostics)


@pytest.mark.parametrize(
    "when",
    [
        "t == 0", "k == 0 and t == 0", "t == 0 and k + 1 == K",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("t > 1", "k == 4")),
    ],
)  # fmt: skip
def test_a_warning_of_some_turns_is_told(when: str) -> None:
    text = pipeline(3, fence=f"if not ({when}) {{\n {FENCE}\n }}")
    found = proof(text)
    assert found.verdict is Verdict.PROVED
    assert {d.rule for d in found.diagnostics} == _warned()


EARLY = ["t == 0", "t == 1", "t > 2", "k == 3", "k == 0 and t == 1", "t > 0 and k + 1 == K"]


@pytest.mark.parametrize("early", EARLY)
def test_a_mistake_of_the_same_two_accesses_is_found(early: str) -> None:
    assert proof(_without_fence(early)).verdict is Verdict.REFUTED


TWICE = "bar.arrive 1, 128\nbar.sync 1, 128"  # both warps count twice, in a block of 96 threads


@pytest.mark.parametrize(
    ("when", "smallest"), [("t > 3", {"T": 5, "K": 1}), ("k == 0 and t > 0", {"T": 2, "K": 1})]
)
def test_what_is_as_little_for_all_counts_in_strict_mode(when: str, smallest: dict[str, int]) -> None:
    """States that stand for others meet it first: the proof is restarted for nothing but that."""
    text = pipeline(3, read=f"if {when} {{\n {TWICE}\n }}\n {READ}")
    found = proof(text)
    (kernel,) = parse(text, "kernel.syncir")
    exact = check_kernel(kernel, {"T": 6, "K": 3}, Policy.PRACTICAL)
    assert found.verdict is exact.verdict is Verdict.PROVED
    assert _rules(found) == _rules(exact) != set()
    found = proof(text, Policy.STRICT)
    assert (found.verdict, found.values) == (Verdict.REFUTED, smallest)


def _cluster() -> str:
    schedule = Schedule(128, 128, stages=2, registers=(40, 232), persistent=True, cluster=2, pending=1)
    return print_kernel(build(product(), schedule))


RELEASED = "        wgmma.wait 1\n"
LAST = "      wgmma.wait 0\n"
WRONG = {
    "in every step": (RELEASED, ""),
    "a step too early": (RELEASED, "        wgmma.wait 2\n"),
    "the first step of a tile": (RELEASED, f"if k > 1 {{\n{RELEASED}}}\n"),
    "the second step of a tile": (RELEASED, f"if k != 2 {{\n{RELEASED}}}\n"),
    "the first tile": (RELEASED, f"if i > 0 {{\n{RELEASED}}}\n"),
    "the second tile": (RELEASED, f"if i != 1 {{\n{RELEASED}}}\n"),
    "one warpgroup": (RELEASED, f"if wg == 0 {{\n{RELEASED}}}\n"),
    "one block": (RELEASED, f"if rank == 0 {{\n{RELEASED}}}\n"),
    "one slot": (RELEASED, f"if last == 0 {{\n{RELEASED}}}\n"),
    "the end of a tile": (LAST, "      wgmma.wait 1\n"),
    "the end of the second tile": (LAST, f"if i != 1 {{\n{LAST}}}\n"),
}  # fmt: skip


#: Others tell of another tile, and of its end.
SELDOM = ("the second tile", "the end of the second tile")


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in WRONG]
)
def test_slots_that_a_cluster_gives_back_early(what: str) -> None:
    text = _cluster()
    assert text.count(WRONG[what][0]) == 1
    (kernel,) = parse(text.replace(*WRONG[what]), "k.syncir")
    assert check_kernel(kernel, scope=ScopeKind.ALL).verdict is Verdict.REFUTED


def test_a_cluster_with_a_group_in_flight_is_proved() -> None:
    (kernel,) = parse(_cluster(), "k.syncir")
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
