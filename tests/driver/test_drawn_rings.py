"""Rings that the kernel accepts before they are searched: beside exact checks in strict mode at some sizes.

A proof takes the place of the search only where strict mode asks for no more. Its trees come from practical
mode. The exact check knows of neither: it follows all accesses of a launch with numbers.
"""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind
from syncverify.checker.prover.rings import by_induction
from syncverify.driver import files
from syncverify.driver.acceptance import KernelFirst, asked_after
from syncverify.frontends.launch_facts import LaunchFacts
from tests.driver.drawn_rings import Ring, ring
from tests.sweeps import part_of


def with_the_kernel_first(k: Ring) -> tuple[KernelReport, bool]:
    """The report at every size, and whether nothing was searched."""
    source = files.read_text(k.text(), "ring", "ptx")
    facts = LaunchFacts(k.facts()["kernel"])
    first = KernelFirst(source, facts, {})
    options = files.Options(scope=ScopeKind.ALL, repairs=False, first=first)
    (found,) = asked_after(first, list(files.check_each(source, facts, options)))
    return found, any(x.strictly for x in first.kept.values())


def strictly(k: Ring, turns: int) -> str:
    """What the exact check says in strict mode."""
    (found,) = check(
        k.text(),
        facts=k.facts(turns),
        advice=False,
        policy=Policy.STRICT,
        scope=ScopeKind.EXACT,
        replay=False,
    )
    return str(found.verdict)


def wrong(seed: int) -> str:
    """What is said of a drawn ring that exact checks contradict; nothing if they do not."""
    return contradicted(ring(seed))


def contradicted(k: Ring) -> str:
    """The same of any ring."""
    found, first = with_the_kernel_first(k)
    exact = [strictly(k, turns) for turns in (2, 2 * k.stages + 1)]
    clean = str(found.verdict) == "proved" and not found.diagnostics
    if clean and exact != ["proved"] * 2:
        return f"proved without a warning{', not searched' * first}, and strict mode says {exact}"
    right = str(found.verdict) == "refuted" and exact == ["proved"] * 2
    return "refuted, and strict mode proves it" if right else ""


SEEDS = range(60)
#: One of so many in each run.
EVERY = 19


@pytest.mark.parametrize("seed", part_of(SEEDS, EVERY))
def test_what_is_said_holds_at_some_sizes_in_strict_mode(seed: int) -> None:
    assert wrong(seed) == ""


@pytest.mark.slow
def test_what_is_said_of_many_holds() -> None:
    assert {s: said for s in SEEDS if (said := wrong(s))} == {}


@pytest.mark.slow
def test_most_are_accepted_before_they_are_searched() -> None:
    reached = [s for s in SEEDS if with_the_kernel_first(ring(s))[1]]
    assert len(reached) > len(SEEDS) // 2


def test_a_mistake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_induction, "_strictly", lambda _: True)
    assert wrong(0).startswith("proved without a warning, not searched")


def test_a_phase_without_a_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers arrive on a further barrier in each turn, and nobody waits for its phases (K14)."""
    unwaited = Ring(2, 1, "read late", "first, all fence", 1, filled=True, relaxed="", further="unwaited")
    monkeypatch.setattr(by_induction, "waits_for_phases", lambda *_: True)
    assert contradicted(unwaited).startswith("proved without a warning, not searched")
