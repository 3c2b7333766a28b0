"""Launches with open sizes: none is left out in silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.open_launches import starts, symbols
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.ir.expr import Binary, Int, Var
from syncverify.symbolic.context import NotConcrete, SymbolicContext


def _problem(*facts: Binary, divides: bool = False) -> Problem:
    def systems(sizes: Mapping[str, Any], space: SymbolicContext) -> list[Any]:
        return [1 // int(not divides)]

    return Problem({"n": (0, 9)}, facts, systems, exact=lambda _: Verdict.UNKNOWN)


def _starts(problem: Problem) -> int:
    space = SymbolicContext()
    return len(starts(problem, space, symbols(problem, space)))


def test_a_launch_that_facts_allow() -> None:
    assert _starts(_problem(Binary(">=", Var("n"), Int(2)))) == 1


def test_a_launch_that_divides_by_zero_is_no_proof() -> None:
    with pytest.raises(NotConcrete, match="divides by zero"):
        _starts(_problem(divides=True))


def test_no_launch_is_no_proof() -> None:
    with pytest.raises(NotConcrete, match="no launch"):
        _starts(_problem(Binary(">=", Var("n"), Int(12))))
