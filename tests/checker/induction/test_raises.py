"""Each place where the reading refuses: without it a wrong kernel is accepted, or the table says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.induction.program import Claimed, parameters, protocol_by
from syncverify.checker.induction.quotients import with_quotient
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.open_launches import symbols
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols import prove, registers
from syncverify.checker.prover.rings.by_induction import leaves, readings, starts
from syncverify.ir.text.parser import parse
from syncverify.symbolic.context import SymbolicContext
from tests.checker.induction.acceptance import Answer, refuted
from tests.checker.induction.refusals import BACKED, CLAIMED, DROPPED, OPEN, WRONG, by_name
from tests.checker.kernel.raises import Raise, raised_at, without

PLACES = by_name()
#: These are tried in every run.
QUICK = ("event_operations.same: {} whose operands change from turn to turn",)


def test_every_place_is_in_one_table() -> None:
    tables = [*WRONG, *CLAIMED, *BACKED, *OPEN]
    assert sorted(tables) == sorted(PLACES)


def asked(problem: Problem, refusals: list[tuple[str, int]]) -> Answer:
    """Whether the kernel accepts a problem; the place of a refusal is added."""
    try:
        for case in readings(problem):
            for x in leaves(case):
                prove(x.protocol, Policy.PRACTICAL, seeds=(1,))
    except NotReadError as e:
        refusals.append(raised_at(e))
        return Answer(False, "not read", str(e))
    except Exception as e:  # errors that follow a refusal which is left out
        return Answer(False, "error", str(e))
    return Answer(True)


def answer(text: str, refusals: list[tuple[str, int]]) -> Answer:
    (kernel,) = parse(text, "wrong.syncir")
    return asked(problem_of(kernel, {}, lambda _: Verdict.UNKNOWN), refusals)


def claiming(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    real = registers.Sampler.claim
    monkeypatch.setattr(registers.Sampler, "claim", lambda self, i, cls: change(real(self, i, cls)))


def here(r: Raise, refusals: list[tuple[str, int]]) -> bool:
    """Whether the last refusal was at a place, which may be a statement of several lines."""
    return bool(refusals) and refusals[-1][0] == r.module and 0 <= refusals[-1][1] - r.line < 3


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in WRONG]
)
def test_a_place_alone_keeps_a_wrong_kernel_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r, wrong, refusals = PLACES[name], WRONG[name], list[tuple[str, int]]()
    assert refuted(wrong.text, sizes=wrong.sizes) is not None
    claiming(monkeypatch, wrong.claim)
    assert not answer(wrong.text, refusals).accepted and here(r, refusals)
    with without(r):
        let_in = answer(wrong.text, refusals)
    assert let_in.accepted, let_in


@pytest.mark.slow
@pytest.mark.parametrize("name", [x for x, b in BACKED.items() if b.text])
def test_a_place_is_backed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r, refusals = PLACES[name], list[tuple[str, int]]()
    claiming(monkeypatch, BACKED[name].claim)
    assert not answer(BACKED[name].text, refusals).accepted and here(r, refusals)
    with without(r):
        assert not answer(BACKED[name].text, refusals).accepted


def by_claims(text: str, change: Callable[[Claimed], Claimed]) -> list[Proof]:
    """Proofs of what is read by other claims than those that are found."""
    (kernel,) = parse(text, "wrong.syncir")
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    found = [x.claimed for case in readings(problem) for x in leaves(case)]
    space = SymbolicContext(may_havoc=False)
    ((path, systems),) = starts(problem, space, symbols(problem, space))
    read = (
        protocol_by(space, path, s, change(c), Policy.PRACTICAL) for s, c in zip(systems, found, strict=True)
    )
    return [prove(p, Policy.PRACTICAL, seeds=(1,)).proof for p in read]


def test_a_class_in_parts_has_all_its_lanes() -> None:
    def two_lanes(c: Claimed) -> Claimed:
        return Claimed((c.claims[0], *c.claims), ((0, (1, 2)),))

    with pytest.raises(NotReadError, match="parts of no class"):
        by_claims(DROPPED, two_lanes)
    with without(PLACES[CLAIMED[0]]):
        assert by_claims(DROPPED, two_lanes)
    assert refuted(DROPPED) is not None


def test_a_quotient_is_by_two_at_least() -> None:
    """Of a quotient by -1 the two facts contradict, so that nothing would be owed."""
    (kernel,) = parse(DROPPED, "wrong.syncir")
    space = SymbolicContext(may_havoc=False)
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    ((path, _),) = starts(problem, space, symbols(problem, space))
    space.path = path
    total, names = (0, (("N", 1),)), parameters(space, path)
    with pytest.raises(NotReadError, match="a quotient of no sizes"):
        with_quotient(space, path, names, total, -1)
    with without(PLACES[CLAIMED[1]]):
        assert with_quotient(space, path, names, total, -1).dead
    assert not with_quotient(space, path, names, total, 2).dead
