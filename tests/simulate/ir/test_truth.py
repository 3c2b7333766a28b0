"""Programs whose truth is known: the theory's table, and litmus kernels measured on hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse_file
from syncverify.simulate.ir import explore

HERE = Path(__file__).parent / "kernels"
THEORY = {k.name: k for k in parse_file(HERE / "theory.syncir")}
LITMUS = {k.name: k for k in parse_file(HERE / "litmus.syncir")}

#: What some execution shows, beside operations that land in different phases.
HARMS = {
    "arrive_closes_empty": {"stale-value", "ub"},
    "expect_never_completes": {"hang", "ub"},
    "bytes_before_arrive": {"hang"},
    "two_arrives_odd_wait": set(),
    "two_arrives_even_wait": {"hang"},
    "lanes_without_syncwarp": {"hang", "stale-value"},
    "two_lanes_arrive_twice": set(),
    "barrier_between_arrivals": set(),
    "pool_of_two": {"hang"},
    "copy_between_store_and_load": set(),
}
#: Those whose operations land in different phases, which strict mode refutes.
MIXED = {
    "arrive_closes_empty", "expect_never_completes", "bytes_before_arrive", "two_arrives_odd_wait",
    "lanes_without_syncwarp", "two_lanes_arrive_twice",
}  # fmt: skip


def kinds(kernel: Kernel, policy: Policy = Policy.PRACTICAL) -> set[str]:
    found = explore(kernel, policy=policy)
    assert found.complete and found.unsupported is None
    return set(found.kinds)


@pytest.mark.parametrize("name", HARMS)
def test_programs_of_the_theory(name: str) -> None:
    shown = kinds(THEORY[name])
    assert shown - {"order-violation"} == HARMS[name]
    assert ("order-violation" in shown) == (name in MIXED)


def test_every_program_of_the_theory_has_its_truth() -> None:
    assert HARMS.keys() == THEORY.keys()


def test_strict_wants_every_phase_observed() -> None:
    found = explore(THEORY["barrier_between_arrivals"], policy=Policy.STRICT)
    assert found.rules == {"SV207"}


@pytest.mark.parametrize("name", LITMUS)
def test_litmus_as_measured(name: str) -> None:
    assert ("stale-value" in kinds(LITMUS[name])) == name.endswith("_bad")


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("store_then_bulk_store_bad", "SV101"),
        ("fence_of_another_space_bad", "SV101"),
        ("source_overwritten_bad", "SV104"),
        ("refill_used_after_arrive_bad", "SV105"),
        ("refill_summed_before_arrive_bad", "SV105"),
        ("refill_shuffled_before_arrive_bad", "SV105"),
        ("store_then_wgmma_bad", "SV101"),
    ],
)
def test_litmus_rules(name: str, rule: str) -> None:
    assert explore(LITMUS[name]).rules == {rule}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("refill_stored_before_arrive", "SV105"),
        ("refill_after_acq_rel_fence", "SV105"),
        ("store_then_bulk_store_issuer_fences", "SV101"),
        ("cp_async_then_bulk_store", "SV101"),
    ],
)
def test_contested_points_in_strict_mode(name: str, rule: str) -> None:
    assert explore(LITMUS[name], policy=Policy.STRICT).rules - {"SV207"} == {rule}


def test_refill_with_a_proxy_fence_is_clean_in_strict_mode() -> None:
    assert kinds(LITMUS["refill_fenced"], Policy.STRICT) == set()
