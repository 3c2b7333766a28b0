"""Random mistakes in kernels that are read from their events: nothing wrong is accepted.

python -m benchmarks.checker.induction_sweep      # the same for longer, and PTX
"""

from __future__ import annotations

import random

import pytest

from syncverify.base.diagnostics import Policy
from tests.checker.induction.acceptance import of_ptx, of_text, refuted
from tests.checker.induction.bases import ASKING, IR, PTX, PTX_FACTS
from tests.checker.induction.guarded import OF_QUESTIONS
from tests.checker.induction.mutants import OF_IR, OF_PTX, mutant
from tests.checker.induction.sweep import ptx_refuted, swept, swept_ptx
from tests.checker.induction.switches import SWITCHES

SMALL = {x: IR[x] for x in ("ring of three", "threads write, two slots")}


def test_mutants_differ_and_some_are_wrong() -> None:
    rng = random.Random(3)
    found = {mutant(IR["ring of three"].text, rng) for _ in range(40)} - {None}
    assert len(found) > 30
    assert refuted(IR["ring of three"].text) is None
    assert refuted(IR["ring of three"].text.replace("(i // 3) % 2", "(i // 3) % 2 ^ 1")) is not None
    assert all(of.__name__ for of in (*OF_IR, *OF_PTX, *OF_QUESTIONS))


def test_nothing_wrong_is_accepted() -> None:
    counts = swept(11, 60, SMALL, many=5)
    assert counts.mistakes == [] and counts.tried == 5


def asked_without(rule: str, seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Mutants of kernels that ask about turns which go wrong, and are accepted without a rule alone."""
    rng, found = random.Random(seed), []
    for name in rng.choices(("phased by two", "phased by three"), k=many):
        text = mutant(ASKING[name].text, rng, OF_QUESTIONS)
        if text is None or of_text(text).accepted:
            continue
        with monkeypatch.context() as patch:
            SWITCHES[rule].off(patch)
            let_in = of_text(text).accepted
        if let_in and refuted(text) is not None:
            found.append(text)
    return found


def test_questions_at_another_residue_are_found_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "what is asked of turns is asked at its residue"
    assert asked_without(rule, 7, 1, monkeypatch)


@pytest.mark.slow
def test_sweep_of_questions() -> None:
    counts = swept(5, 120, ASKING, of=OF_QUESTIONS)
    assert counts.mistakes == [] and counts.answers["accepted"] > 0


def test_compiled_rings_are_read() -> None:
    assert of_ptx(PTX, PTX_FACTS).accepted


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_sweep(seed: int) -> None:
    policy = Policy.STRICT if seed == 3 else Policy.PRACTICAL
    counts = swept(1000 + seed, 120, IR, policy)
    assert counts.mistakes == [] and counts.answers["accepted"] > 0


@pytest.mark.slow
def test_sweep_of_compiled_rings() -> None:
    counts = swept_ptx(7, 120)
    assert counts.mistakes == []
    broken = PTX.replace("mbarrier.arrive", "// mbarrier.arrive", 1)
    assert ptx_refuted(broken) is not None
