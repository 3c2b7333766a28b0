"""Tiles that move a ring on by all their steps at once, flags of first tiles, steps before a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.induction import read
from syncverify.checker.induction.claims import KEPT, Claim, Form, Header, Lanes
from syncverify.checker.induction.claims_text import read as read_claims
from syncverify.checker.induction.program import Claimed
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.protocol import Kind, Loop, Op, Tiles
from syncverify.checker.prover.protocols.written import claims as write
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.induction.acceptance import of_ptx, of_text
from tests.checker.induction.advanced import ADVANCED, MISTAKES, PEELED, SIZES
from tests.checker.induction.bases import PTX_FACTS
from tests.checker.induction.switches import LOOKED
from tests.checker.induction.test_raises import by_claims

SIZE = {"B": 2, "N": 4, "R": 5}
#: These are tried in every run.
QUICK = ("the slot stays", "what is kept changes in a step", "the first step waits for the phase before")


def test_kept_slots_and_flags_of_first_tiles_are_read() -> None:
    found = of_text(ADVANCED)
    assert found.accepted, found
    (begun,) = {o.ring: o for p, _ in found.known for r in p.roles for o in _ops(r.body)
                if o.kind is Kind.ARRIVE and o.ring == "begun"}.values()  # fmt: skip
    assert [str(g) for g in begun.guard] == ["- u"]


def test_a_step_before_the_loop_is_its_first_turn() -> None:
    found = of_text(PEELED)
    assert found.accepted, found
    loops = [q for p, _ in found.known for r in p.roles for t in r.body if isinstance(t, Tiles)
             for q in t.body if isinstance(q, Loop)]  # fmt: skip
    assert loops and all(q.lo.functions() and not q.lo.const for q in loops)


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in MISTAKES]
)
def test_a_mistake_is_not_accepted(what: str) -> None:
    (kernel,) = parse(MISTAKES[what], "wrong.syncir")
    assert check_kernel(kernel, SIZES.get(what, SIZE)).verdict is Verdict.REFUTED
    found = of_text(MISTAKES[what])
    assert not found.accepted and found.cause != "no kernel", found


def _inner(change: Callable[[Header], Header]) -> Callable[[Claimed], Claimed]:
    """A change of the loops in tiles of all claims."""

    def changed(c: Claim) -> Claim:
        return replace(c, headers=tuple(change(h) if h.begins else h for h in c.headers))

    return lambda some: replace(some, claims=tuple(map(changed, some.claims)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda h: replace(h, begins=h.begins[:1]), "leave some out"),
        (lambda h: replace(h, begins=h.begins[::-1]), "leave some out"),
        (lambda h: replace(h, ahead=-1), "fewer steps than none before"),
        (lambda h: replace(h, ahead=1), ""),
        (lambda h: replace(h, trip=Form(1, h.trip.parts)), ""),
        (lambda h: replace(h, others={(0, 0): {99: Lanes((1, 2))}}), "no sums"),
        (lambda h: replace(h, others={(0, 0): {99: KEPT}}), "no sums"),
        (lambda h: replace(h, begins=tuple((a, b, {99: KEPT}) for a, b, _ in h.begins)), "no sums"),
        (lambda h: replace(h, begins=tuple((a, b, {s: replace(f, c=f.c + 1) for s, f in x.items()})
                                           for a, b, x in h.begins)), ""),
    ],
)  # fmt: skip
def test_claims_of_where_a_tile_begins_are_borne_out(change: Callable[[Header], Header], why: str) -> None:
    with pytest.raises(NotReadError, match=why or "."):
        by_claims(ADVANCED, _inner(change))


def test_only_loops_in_tiles_say_where_these_begin() -> None:
    def everywhere(some: Claimed) -> Claimed:
        headers = (tuple(replace(h, ahead=1) if h.tiles else h for h in c.headers) for c in some.claims)
        return replace(
            some, claims=tuple(replace(c, headers=h) for c, h in zip(some.claims, headers, strict=True))
        )

    with pytest.raises(NotReadError):
        by_claims(ADVANCED, everywhere)


def test_a_look_that_spares_a_wait_is_that_wait() -> None:
    found = of_ptx(LOOKED, PTX_FACTS)
    assert found.accepted, found


def test_certificates_keep_what_is_claimed() -> None:
    forms = {(0, 0): {1: KEPT}}
    begins = ((0, 3, {1: Form(0, (("p", 1), ("y", -6)))}), (3, 6, {1: Form(2, ())}))
    trip = Form(0, (("$N", 1),))
    inner = Header(4, False, 2, True, forms, begins=begins, ahead=1, trip=trip)
    claimed = Claimed((Claim(6, 1, (Header(2, True, None, False, forms), inner)),))
    assert read_claims(write(claimed)) == claimed
    assert read.First.TURN < read.First.TILE < read.First.ANY


def _ops(body: Iterable[Any]) -> list[Op]:
    out: list[Op] = []
    for part in body:
        out += _ops(part.body) if isinstance(part, Tiles) else part.body if isinstance(part, Loop) else part
    return out
