"""Verdicts for every number of stages: good rings proved, wrong ones refuted at the smallest sizes."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.checker.prover.rings import decide_stages, prove_stages
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.rings.kernels import CONSUMER, COUNTS, GOOD, PRODUCER, kernel


def read(text: str) -> Kernel:
    (k,) = parse(text, "ring.syncir")
    return k


def decided(text: str, policy: Policy = Policy.PRACTICAL, **given: int) -> ParametricResult:
    k = read(text)
    found = decide_stages(k, given, policy, lambda values: check_kernel(k, values, policy).verdict)
    assert found is not None
    return found


def changed(name: str, *pairs: tuple[str, str]) -> str:
    text = GOOD[name]
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


#: The others take longer: ``python -m tests.checker.prover.rings.brute`` checks them all.
QUICK = [
    "ring", "registers", "leader", "two consumers", "threads write", "staged store", "masked", "fenced",
]  # fmt: skip
SELDOM = ["chained 2", "deferred", "double", "expect apart", "shifted"]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in SELDOM)])
def test_right_rings_are_proved_for_every_number_of_stages(name: str) -> None:
    assert prove_stages(read(GOOD[name])).cases


WAIT_EMPTY = "mbarrier.wait empty[i % S], (i // S + 1) % 2\n"
RELEASE = "mbarrier.arrive empty[i % S]"

#: A good kernel, what is changed in it, and the first sizes at which that shows.
WRONG = [
    ("ring", [(WAIT_EMPTY, "")], {"S": 1, "N": 2}),
    ("ring", [("(i // S + 1) % 2", "(i // S) % 2")], {"S": 1, "N": 1}),
    ("ring", [("mbarrier.init empty[s], 32", "mbarrier.init empty[s], 31")], {"S": 1, "N": 2}),
    ("ring", [("x, tile[i % S]", "x, tile[(i + 1) % S]")], {"S": 2, "N": 2}),
    ("ring", [(RELEASE, "mbarrier.arrive empty[(i + 1) % S]")], {"S": 2, "N": 2}),
    ("ring", [("full[i % S], 256", "full[i % S], 272")], {"S": 1, "N": 1}),
    ("ring", [("// S", "// 2")], {"S": 1, "N": 2}),
    ("ring", [("bar.sync 0", "")], {"S": 1, "N": 1}),
    ("fenced", [("fence.proxy.async.shared_cta", "")], {"S": 1, "N": 2}),
    ("leader", [("warp.sync", "")], {"S": 1, "N": 2}),
    ("deferred", [("assume S >= 2", "assume S >= 1")], {"S": 1, "N": 2}),
    ("two consumers", [("mbarrier.init empty[s], 64", "mbarrier.init empty[s], 32")], {"S": 1, "N": 2}),
    ("staged store", [("bulk.wait.read S - 1", "bulk.wait.read S")], {"S": 1, "N": 2}),
    ("prefetch P", [("P <= S", "P <= S + 1")], {"S": 1, "P": 2, "N": 2}),
    ("chained equal", [("mbarrier.wait free[i % S], (i // S + 1) % 2", "")], {"S": 1, "N": 2}),
    ("turns", [("turn[1], (i + 0) % 2", "turn[1], (i + 1) % 2")], {"S": 1, "N": 1}),
]


@pytest.mark.parametrize(("name", "pairs", "sizes"), WRONG)
def test_mistakes_are_refuted_at_the_smallest_sizes(
    name: str, pairs: list[tuple[str, str]], sizes: dict[str, int]
) -> None:
    found = decided(changed(name, *pairs))
    assert (found.verdict, dict(found.values)) == (Verdict.REFUTED, sizes)


def test_a_mistake_that_only_many_stages_show_is_refuted() -> None:
    guard = "if i < 4 * S or S < 4 {"
    late = changed("ring", (RELEASE, f"{guard}\n{RELEASE}\n}}"))
    found = decided(late)
    assert found.verdict is not Verdict.PROVED


def test_the_report_covers_all_sizes() -> None:
    report = check_kernel(read(GOOD["ring"]), scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_a_fixed_number_of_stages_is_no_matter_for_this_part() -> None:
    k = read(GOOD["ring"])
    assert decide_stages(k, {"S": 3}, Policy.PRACTICAL, lambda _: Verdict.UNKNOWN) is None


def test_other_sizes_may_be_fixed() -> None:
    assert decided(GOOD["ring"], N=7).verdict is Verdict.PROVED


def test_large_slots_leave_so_few_stages_that_each_is_checked() -> None:
    large = changed(
        "fenced", ("f32[S, 64]", "f32[S, 10240]"), ("load tile[i % S]", "load tile[i % S][0 : 64]")
    )
    found = decided(large, Policy.STRICT)
    assert (found.verdict, found.stats["stages"]) == (Verdict.PROVED, 5)


def test_what_is_outside_the_class_is_unknown_and_says_why() -> None:
    found = decided(changed("ring", ("compute y = x * 2.0", "compute y = x * 2.0\ncp.async.wait_all")))
    assert found.verdict is Verdict.UNKNOWN
    assert "CpAsyncWait" in str(found.reason)


@pytest.mark.slow  # test_cases.py has the cases themselves
def test_sizes_without_a_lower_bound_are_covered_by_cases() -> None:
    text = GOOD["prefilled"].replace("  assume N >= 0\n", "")
    assert len(prove_stages(read(text)).cases) > len(prove_stages(read(GOOD["prefilled"])).cases)


def test_barriers_may_be_invalidated_when_all_are_done() -> None:
    end = (
        "bar.sync 0\nif tid == 0 {\nfor s in 0..S {\nmbarrier.inval full[s]\nmbarrier.inval empty[s]\n}\n}\n}"
    )
    last = CONSUMER + "\n" + end.removesuffix("}")
    assert decided(kernel(PRODUCER, last, bars=COUNTS)).verdict is Verdict.PROVED
    early = last.replace("bar.sync 0\n", "")
    assert decided(kernel(PRODUCER, early, bars=COUNTS)).verdict is Verdict.REFUTED
