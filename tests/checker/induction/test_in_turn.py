"""Tiles that groups of warps take in turn, each skipping the steps of the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.induction.claims import Claim, Form, Header
from syncverify.checker.induction.claims_text import read as read_claims
from syncverify.checker.induction.program import Claimed, protocol_by
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.protocol import Protocol, Tiles, places
from syncverify.checker.open_launches import starts, symbols
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols.written import claims as write
from syncverify.checker.prover.rings.by_induction import leaves, readings
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from syncverify.symbolic.context import SymbolicContext
from tests.checker.induction.acceptance import of_text
from tests.checker.induction.in_turn import (
    AHEAD,
    BARE,
    BARE_AHEAD,
    IN_TURN,
    MEETINGS,
    MISTAKES,
    MISTAKES_AHEAD,
    MISTAKES_OF_MEETINGS,
    SIZES,
)

#: This one is found soonest.
QUICK = ("a group skips no tile",)


@lru_cache(2)
def _found(text: str) -> tuple[Problem, Claimed]:
    """The one system of a kernel, and what is claimed of its last case."""
    (kernel,) = parse(text, "bare.syncir")
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    *_, claimed = (x.claimed for case in readings(problem) for x in leaves(case))
    return problem, claimed


def _read_by(change: Callable[[Claim], Claim], text: str = BARE) -> Protocol:
    """What is read by claims that are changed; of tiles of one step where that is a case."""
    problem, claimed = _found(text)
    space = SymbolicContext(may_havoc=False)
    ((path, (system,)),) = starts(problem, space, symbols(problem, space))
    if text != BARE:
        space.path = path
        path.assume_branch(*space.of(1 - path.sizes["N"]))
    changed = replace(claimed, claims=tuple(map(change, claimed.claims)))
    return protocol_by(space, path, system, changed, Policy.PRACTICAL)


def _protocol(text: str) -> Protocol:
    """What is read of the last case of a kernel."""
    (kernel,) = parse(text, "met.syncir")
    found = readings(problem_of(kernel, {}, lambda _: Verdict.UNKNOWN))
    last: Protocol = [x.protocol for case in found for x in leaves(case)][-1]
    return last


def _two_counts(text: str) -> str:
    """The second meeting waits for half of a group."""
    first, second, rest = text.split("bar.sync 1, 64")
    return f"{first}bar.sync 1, 64{second}bar.sync 1, 32{rest}"


def _tiles(p: Protocol) -> set[tuple[int, int]]:
    return {(t.first, t.stride) for r in p.roles for t in r.body if isinstance(t, Tiles)}


def test_tiles_in_turn_are_read() -> None:
    p = _read_by(lambda c: c)
    assert _tiles(p) == {(0, 1), (0, 2), (1, 2)}
    assert [x for x in p.parameters if x.startswith("rounds")] == ["rounds_0"]


@pytest.mark.slow
@pytest.mark.parametrize("text", [BARE, IN_TURN, BARE_AHEAD, AHEAD, MEETINGS])
def test_groups_that_take_tiles_in_turn_are_accepted(text: str) -> None:
    found = of_text(text)
    assert found.accepted, found
    assert {(0, 1), (0, 2), (1, 2)} in [_tiles(p) for p, _ in found.known]


def test_meetings_of_both_groups_are_of_one_ring() -> None:
    p = _protocol(MEETINGS)
    (ring,) = (x for x in p.rings if x.startswith("barrier 1"))
    found = {str(s.op.index) for s in places(p)[0] if s.op.ring == ring}
    assert found == {"4*u", "4*u + 1", "4*u + 2", "4*u + 3"}


def test_meetings_of_several_counts_at_one_barrier_stay_apart() -> None:
    counts = {r.count for r in _protocol(_two_counts(MEETINGS)).rings.values() if r.barrier}
    assert {32, 64} <= counts


_EVERY = MISTAKES | MISTAKES_AHEAD | MISTAKES_OF_MEETINGS


@pytest.mark.parametrize("what", MISTAKES_AHEAD)
def test_a_mistake_shows_in_tiles_of_one_step(what: str) -> None:
    (kernel,) = parse(MISTAKES_AHEAD[what], "wrong.syncir")
    assert check_kernel(kernel, SIZES[what]).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in _EVERY]
)
def test_a_mistake_is_not_accepted(what: str) -> None:
    (kernel,) = parse(_EVERY[what], "wrong.syncir")
    assert check_kernel(kernel, SIZES[what]).verdict is Verdict.REFUTED
    found = of_text(_EVERY[what])
    assert not found.accepted and found.cause != "no kernel", found


def _in_turn(c: Claim) -> bool:
    return any(h.stride > 1 for h in c.headers)


def _outer(**more: Any) -> Callable[[Claim], Claim]:
    """Loops of tiles that are taken in turn, changed."""
    return lambda c: replace(c, headers=tuple(replace(h, **more) if h.stride > 1 else h for h in c.headers))


def _inner(change: Callable[[Header], Header]) -> Callable[[Claim], Claim]:
    """Loops in such tiles, changed."""
    return lambda c: replace(
        c, headers=tuple(change(h) if _in_turn(c) and h.begins else h for h in c.headers)
    )


def _inner_trip(trip: Form | None) -> Callable[[Claim], Claim]:
    """Loops inside tiles that are taken in turn, with other numbers of steps."""
    return lambda c: replace(
        c,
        headers=tuple(replace(h, trip=trip) if _in_turn(c) and h.outer is not None else h for h in c.headers),
    )


def _exchanged(c: Claim) -> Claim:
    """Each group takes the tiles of the other."""
    return replace(c, headers=tuple(replace(h, first=1 - h.first) if h.stride > 1 else h for h in c.headers))


def _more(h: Header, by: int, times: int = 1) -> Header:
    """Tiles of other numbers of steps."""
    parts = () if h.trip is None else h.trip.parts
    return replace(h, trip=Form(by, tuple((x, k * times) for x, k in parts)))


def _shifted(h: Header) -> Header:
    """In each range of residues, registers hold what they hold in the next one."""
    kept = [b[2] for b in h.begins]
    return replace(
        h, begins=tuple((b[0], b[1], k) for b, k in zip(h.begins, kept[1:] + kept[:1], strict=True))
    )


_HELD, _STEPS = "register .* holds", "a tile has another number of steps"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_outer(first=2), "of no agent's turn"),
        (_outer(first=-1), "of no agent's turn"),
        (_outer(stride=0), "of no agent's turn"),
        (_exchanged, _HELD),
        (_outer(first=0), _HELD),
        (_outer(first=1), _HELD),
        (_outer(stride=3), _HELD),
        (_outer(stride=4), _HELD),
        (_outer(first=0, stride=1), _HELD),
        (_inner(lambda h: replace(h, trip=None)), "steps the tiles of others have"),
        (_inner(lambda h: _more(h, 1)), _STEPS),
        (_inner(lambda h: _more(h, 0, 2)), _STEPS),
        (_inner(lambda h: _more(h, 0, 0)), "fewer steps than none"),
        (_inner(lambda h: replace(h, stride=2)), "of no agent's turn"),
        (_inner(lambda h: replace(h, ahead=1)), _HELD),
        (_inner(_shifted), _HELD),
        (_inner(lambda h: replace(h, begins=h.begins[:-1])), "leave some out"),
    ],
)
def test_claims_of_turns_are_borne_out(change: Callable[[Claim], Claim], why: str) -> None:
    with pytest.raises(NotReadError, match=why):
        _read_by(change)


@pytest.mark.slow
def test_tiles_of_one_step_are_read() -> None:
    p = _read_by(lambda c: c, BARE_AHEAD)
    assert _tiles(p) == {(0, 2), (1, 2)}
    assert not p.prefix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_exchanged, _HELD),
        (_outer(first=0), _HELD),
        (_outer(stride=3), _HELD),
        (_inner_trip(None), "steps the tiles of others have|other steps than one"),
        (_inner_trip(Form(2, ())), "other steps than one|" + _HELD),
        (_inner_trip(Form(0, ())), "other steps than one|" + _HELD),
    ],
)
def test_claims_of_tiles_of_one_step_are_borne_out(change: Callable[[Claim], Claim], why: str) -> None:
    with pytest.raises(NotReadError, match=why):
        _read_by(change, BARE_AHEAD)


def test_a_claimed_end_is_asked_for() -> None:
    """A claim of another end than the loop asks for does not hold."""
    text = """kernel ends {
  launch grid [1] block [32]
  param N : i32 = 5
  assume N >= 1
  shared tile : f32[32] align 128
  role all warps 0..1 {
    for i in 0..N {
      st.shared tile[][lane : 1], 1.0
    }
  }
}
"""
    problem, claimed = _found(text)
    ((header,),) = (c.headers for c in claimed.claims)
    assert header.trip == Form(0, (("$N", 1),))
    for end in (header, *(replace(header, trip=Form(more, (("$N", 1),))) for more in (1, -1))):
        space = SymbolicContext(may_havoc=False)
        ((path, (system,)),) = starts(problem, space, symbols(problem, space))
        changed = replace(claimed, claims=(replace(claimed.claims[0], headers=(end,)),))
        with nullcontext() if end is header else pytest.raises(NotReadError, match="ends elsewhere"):
            protocol_by(space, path, system, changed, Policy.PRACTICAL)


def test_certificates_keep_turns() -> None:
    outer = Header(2, True, None, False, {(0, 0): {1: Form(0, ())}}, first=1, stride=2)
    claimed = Claimed((Claim(6, 2, (outer,)),))
    assert read_claims(write(claimed)) == claimed
