"""Persistent products of clusters for all sizes: few decisions, and a mistake at one slot only is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Int, Var
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import flat_map

PAIR = Schedule(128, 128, stages=3, registers=(40, 232), persistent=True, store="tma", cluster=2)


def kernel(stages: int = 3, policy: Policy = Policy.PRACTICAL) -> n.Kernel:
    return build(product(), replace(PAIR, stages=stages), policy)


def checked(k: n.Kernel, policy: Policy = Policy.PRACTICAL) -> KernelReport:
    (found,) = parse(print_kernel(k), "k.syncir")
    return check_kernel(found, {}, policy, scope=ScopeKind.ALL)


@pytest.mark.parametrize("policy", list(Policy))
def test_proved_in_few_decisions_for_each_slot(policy: Policy) -> None:
    """Runs that end a tile in the first lap are cases of those that do so later."""
    for stages in (2, 4):
        report = checked(kernel(stages, policy), policy)
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
        assert report.stats["nodes"] < (35 + 5 * stages if policy is Policy.PRACTICAL else 20 * stages)


def _at(slot: int, s: n.Stmt) -> n.Stmt:
    return n.If(Binary("!=", Var("stage"), Int(slot)), (s,), ())


def _frees(s: n.Stmt) -> bool:
    return isinstance(s, n.MbarrierArrive) and s.bar.name == "empty"


def _for(s: n.Stmt, name: str) -> bool:
    return isinstance(s, n.MbarrierWait) and s.bar.name == name


@pytest.mark.parametrize("slot", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("what", ["nobody frees it", "no wait for its reads", "no wait for its copies"])
def test_a_mistake_at_one_slot_is_found(slot: int, what: str) -> None:
    def wrong(s: n.Stmt) -> tuple[n.Stmt, ...]:
        hit = _frees(s) if what == "nobody frees it" else _for(s, "empty" if "reads" in what else "full")
        return (_at(slot, s),) if hit else (s,)

    k = kernel()
    bad = replace(k, body=flat_map(k.body, wrong))
    assert bad != k
    assert checked(bad).verdict is Verdict.REFUTED


def test_a_wait_that_passes_in_every_other_lap_is_found() -> None:
    def wrong(s: n.Stmt) -> tuple[n.Stmt, ...]:
        return (replace(s, phase=Int(1)),) if isinstance(s, n.MbarrierWait) and _for(s, "empty") else (s,)

    k = kernel()
    bad = replace(k, body=flat_map(k.body, wrong))
    assert bad != k
    assert checked(bad).verdict is Verdict.REFUTED
