"""Random small kernels: the checker and the exhaustive simulator agree on every one."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from tests.system.random.compare import judge, judge_twice
from tests.system.random.generate import FAMILIES, draw, policy, program


@pytest.mark.parametrize("block", range(12))
def test_checker_and_simulator_agree(block: int) -> None:
    seeds = range(1_000_000 + 25 * block, 1_000_000 + 25 * block + 25)
    verdicts = []
    for seed in seeds:
        text = program(seed).text()
        found = judge_twice(text, policy(seed))
        assert not found.problem and found.verdict is not Verdict.UNKNOWN, f"seed {seed}: {found}\n{text}"
        verdicts.append(found.verdict)
    assert Verdict.PROVED in verdicts and Verdict.REFUTED in verdicts


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_any_drawn_program_agrees(rng: random.Random) -> None:
    text = draw(rng).text()
    found = judge_twice(text, Policy.PRACTICAL)
    assert not found.problem, f"{found}\n{text}"


@pytest.mark.parametrize("index", range(len(FAMILIES)), ids=[f.__name__ for f, _, _ in FAMILIES])
def test_without_a_bug_a_family_is_proved(index: int) -> None:
    family, _, _ = FAMILIES[index]
    for seed in range(12):
        text = family(random.Random(seed), "none").text()
        found = judge(text)
        assert found.verdict is Verdict.PROVED and not found.problem, f"{found}\n{text}"


def test_programs_round_trip_through_their_text() -> None:
    for seed in range(200):
        (kernel,) = parse(program(seed).text(), "random.syncir")
        assert parse(print_kernel(kernel), "random.syncir") == (kernel,)


def test_a_seed_is_a_program() -> None:
    assert program(7).text() == program(7).text()
    assert len({program(s).text() for s in range(300)}) > 250
