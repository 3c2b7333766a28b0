"""Explorations in which an agent asks only when no other can go on: the same verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.budget import worklist_is_small
from syncverify.checker.prover.parametric.strategy import ExplorationBudget, problem_of, prove
from syncverify.driver.files import read_source
from syncverify.ir.nodes import Kernel
from tests.checker.prover.reach.kernels import ring
from tests.checker.prover.reach.test_sizes import MISTAKES

SIZES = Path(__file__).parents[4] / "corpus" / "sizes"
WRONG = sorted(SIZES.glob("*.bad.syncir"))
LAST = ExplorationBudget(
    events=30_000,
    max_nodes=200,
    max_unconfirmed_failures=1,
    branch_when_nobody_else_can_run=True,
    extension_factor=4,
)


def shown(kernel: Kernel, limits: ExplorationBudget = LAST) -> tuple[Verdict, int]:
    """The verdict, and the events that it took."""
    found = prove(
        problem_of(kernel, {}, lambda values: Verdict.UNKNOWN), Policy.PRACTICAL, limits, small=False
    )
    return found.verdict, found.stats.get("events", 0)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_good_ring_is_proved(stages: int) -> None:
    assert shown(ring(stages))[0] is Verdict.PROVED


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_ring_is_not(name: str) -> None:
    assert shown(MISTAKES[name][0])[0] is Verdict.UNKNOWN


#: They take longest; ``parametric/test_family.py`` refutes each, the first attempt in this order.
SELDOM = {
    "assumed_relation_of_sizes", "flat_against_nested", "four_bit_counter_of_tiles", "last_block_is_ragged",
    "phase_reset_by_consumer", "phase_reset_multiple_of_stages", "phase_reset_per_tile",
    "pingpong_skips_a_tile_wrongly", "product_is_twelve", "release_missing_at_step_12",
    "stage_and_phase_registers", "sum_of_sizes", "three_nested_loops", "three_nested_loops_reset",
    "tile_loop_of_any_grid",
}  # fmt: skip


def _name(path: Path) -> str:
    return path.name.split(".")[0]


def _some(paths: list[Path]) -> list[object]:
    marks = {p: pytest.mark.slow if _name(p) in SELDOM else () for p in paths}
    return [pytest.param(p, marks=marks[p], id=_name(p)) for p in paths]


@pytest.mark.parametrize("path", _some(WRONG))
def test_no_wrong_kernel_of_the_corpus_is_proved(path: Path) -> None:
    for kernel in read_source(path).kernels:
        assert shown(kernel)[0] is not Verdict.PROVED


@pytest.mark.parametrize(("nodes", "stretch", "wanted"), [
    (18, 1, Verdict.UNKNOWN), (18, 4, Verdict.PROVED), (10, 4, Verdict.UNKNOWN),
])  # fmt: skip
def test_limits_stretch_while_few_states_are_left(nodes: int, stretch: int, wanted: Verdict) -> None:
    (kernel,) = read_source(SIZES / "bytes_of_all_tiles_gathered.good.syncir").kernels
    problem = problem_of(kernel, {}, lambda values: Verdict.UNKNOWN)
    first = ExplorationBudget(max_nodes=nodes, extension_factor=stretch)
    found = prove(problem, Policy.PRACTICAL, small=False, first=first, once=True)
    assert found.verdict is wanted


def test_what_does_not_end_is_told_by_how_much_is_left() -> None:
    assert worklist_is_small(100, 140)  # too early to tell
    assert worklist_is_small(24, 200) and not worklist_is_small(40, 200)
