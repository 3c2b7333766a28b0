"""Tiles that groups of warps take in turn, each skipping the steps of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.induction.claims import Claim, Form, Header
from syncverify.checker.induction.claims_text import read as read_claims
from syncverify.checker.induction.program import Claimed
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.protocol import Tiles
from syncverify.checker.prover.protocols.written import claims as write
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.induction.acceptance import of_text
from tests.checker.induction.in_turn import IN_TURN, MISTAKES, SIZES
from tests.checker.induction.test_raises import by_claims

#: Its search for a proof takes a minute.
SLOW = ("turns are not handed on",)


def test_groups_that_take_tiles_in_turn_are_accepted() -> None:
    found = of_text(IN_TURN)
    assert found.accepted, found
    tiles = [
        {(t.first, t.stride) for r in p.roles for t in r.body if isinstance(t, Tiles)} for p, _ in found.known
    ]
    assert {(0, 1), (0, 2), (1, 2)} in tiles
    rounds = [x for p, _ in found.known for x in p.parameters if x.startswith("rounds")]
    assert rounds == ["rounds_0"]


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=pytest.mark.slow if x in SLOW else []) for x in MISTAKES]
)
def test_a_mistake_is_not_accepted(what: str) -> None:
    (kernel,) = parse(MISTAKES[what], "wrong.syncir")
    assert check_kernel(kernel, SIZES[what]).verdict is Verdict.REFUTED
    found = of_text(MISTAKES[what])
    assert not found.accepted and found.cause != "no kernel", found


def _outer(change: Callable[[Header], Header]) -> Callable[[Claimed], Claimed]:
    """A change of the loops of tiles that are taken in turn."""

    def changed(c: Claim) -> Claim:
        return replace(c, headers=tuple(change(h) if h.stride > 1 else h for h in c.headers))

    return lambda some: replace(some, claims=tuple(map(changed, some.claims)))


def _inner(change: Callable[[Header], Header]) -> Callable[[Claimed], Claimed]:
    def changed(c: Claim) -> Claim:
        turns = any(h.stride > 1 for h in c.headers)
        return replace(c, headers=tuple(change(h) if turns and h.begins else h for h in c.headers))

    return lambda some: replace(some, claims=tuple(map(changed, some.claims)))


def _slow(*case: Any) -> Any:
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_outer(lambda h: replace(h, first=2)), "of no agent's turn"),
        (_outer(lambda h: replace(h, first=1 - h.first)), ""),
        _slow(_outer(lambda h: replace(h, stride=3)), ""),
        _slow(_outer(lambda h: replace(h, first=0, stride=1)), ""),
        (_inner(lambda h: replace(h, trip=None)), "steps the tiles of others have"),
        _slow(_inner(lambda h: replace(h, trip=Form(1, h.trip.parts if h.trip else ()))), ""),
        _slow(_inner(lambda h: replace(h, stride=2)), "of no agent's turn"),
    ],
)
def test_claims_of_turns_are_borne_out(change: Any, why: str) -> None:
    with pytest.raises(NotReadError, match=why or "."):
        by_claims(IN_TURN, change)


def test_certificates_keep_turns() -> None:
    outer = Header(2, True, None, False, {(0, 0): {1: Form(0, ())}}, first=1, stride=2)
    claimed = Claimed((Claim(6, 2, (outer,)),))
    assert read_claims(write(claimed)) == claimed
