"""Decisions by narrow, packed and vector registers, beside executions that follow which bits have a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from syncverify.frontends.ptx.analysis.handover import unset_paths
from syncverify.frontends.ptx.analysis.handover.path_conditions import Flags, Known, LaunchValues
from syncverify.frontends.ptx.analysis.handover.unset_paths import unset_decisions
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Reg
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.analysis.drawn_halves import harms, program, written


def number(_name: str, _offset: int, _size: int) -> int | None:
    return None


def found_in(seed: int) -> bool:
    flow = Flow(parse(written(program(seed))).entries[0])
    values = LaunchValues(flow, (64, 1, 1), number)
    return any(True for _ in unset_decisions(flow, values, number))


def missed(seeds: range) -> list[int]:
    """Programs that decide by bits without a value, of which nothing is found."""
    return [s for s in seeds if harms(program(s)) and not found_in(s)]


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1_000, 5_000, 500))]
)
def test_decisions_by_bits_without_a_value_are_found(first: int) -> None:
    assert missed(range(first, first + (500 if first else 120))) == []


@pytest.mark.parametrize("first", [0, pytest.param(1_000, marks=pytest.mark.slow)])
def test_few_others_are(first: int) -> None:
    """A register of which a half has a value, and the other half alone is not asked."""
    seeds = range(first, first + (1_000 if first else 120))
    found = [s for s in seeds if not harms(program(s)) and found_in(s)]
    assert len(found) <= len(seeds) // 40


Uses = Callable[[Instr, int], Iterator[Any]]


def _without_parts(uses: Uses) -> Uses:
    """No register is made of the parts of another."""

    def of(i: Instr, k: int) -> Iterator[Any]:
        parts = i.op == "mov" and not (
            isinstance(i.operands[0], Reg) and isinstance(i.operands[1], Reg | Imm)
        )
        return iter(()) if parts else uses(i, k)

    return of


def test_a_mistake_of_parts_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unset_paths, "_uses", _without_parts(unset_paths._uses))
    assert missed(range(109, 110)) == [109]


def test_a_mistake_of_flags_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(self: Flags, k: int, known: Known) -> Known:
        step = self._steps.get(k)
        return Known() if step is None else frozenset((step[0], 1) for v, _ in known if v == step[1])

    monkeypatch.setattr(Flags, "made", always)
    assert missed(range(249, 250)) == [249]
