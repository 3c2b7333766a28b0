"""Comparisons in all samples at once say what each sample says."""

from __future__ import annotations

import pytest

from syncverify.checker.kernel.hops import Graph, Half, Step
from syncverify.checker.kernel.linear import num
from syncverify.checker.kernel.protocol import N, Protocol, U
from syncverify.checker.prover.protocols.masks import Masks
from syncverify.checker.prover.protocols.sizes import Sample, executed, value
from tests.checker.kernel.families import STEPS, S, plain

SAMPLES: list[Sample] = [{"S": s, "N": n, "u": 0, "n": k} for s in (1, 2, 3) for n in (0, 4) for k in (0, 3)]


@pytest.fixture
def protocol() -> Protocol:
    return plain()


@pytest.fixture
def masks(protocol: Protocol) -> Masks:
    return Masks(Graph(protocol, {}), SAMPLES)


def bits(mask: int) -> list[bool]:
    return [bool(mask >> i & 1) for i in range(len(SAMPLES))]


def test_terms_are_compared_in_each_sample(masks: Masks) -> None:
    a, b = masks.number(S + N), masks.number(STEPS)
    worth = [(value(S + N, e), value(STEPS, e)) for e in SAMPLES]
    assert bits(masks.below(a, b)) == [x < y for x, y in worth]
    assert bits(masks.equal(a, b)) == [x == y for x, y in worth]
    assert masks.number(N + S) == a


def test_constraints_hold_among_the_samples_that_are_asked_of(masks: Masks) -> None:
    everywhere = (1 << len(SAMPLES)) - 1
    found = masks.holds([S - 2, STEPS - 1], everywhere)
    assert bits(found) == [e["S"] >= 2 and e["N"] >= 1 for e in SAMPLES]
    assert masks.holds([S - 2], 0) == 0
    assert masks.holds([num(-1)], everywhere) == 0


def test_events_are_inside_where_their_domain_is(masks: Masks) -> None:
    for i, site in enumerate(masks.g.sites):
        test = executed(site.domain)
        assert bits(masks.inside(i, U, N)) == [test(e, e["u"], e["n"]) for e in SAMPLES]


def test_program_order_is_by_turn_then_by_place(masks: Masks) -> None:
    """In one role an event is before one of a later turn, or of a later place in its turn."""
    inside = [i for i, s in enumerate(masks.g.sites) if s.role == 0 and s.position.loops]
    first, second = sorted(inside, key=lambda i: masks.g.sites[i].position.place)[:2]
    other = next(i for i, s in enumerate(masks.g.sites) if s.role == 1)

    def earlier(a: Step, b: Step) -> list[bool]:
        there = bits(masks.inside(b.site, b.u, b.n))
        return [x for x, exists in zip(bits(masks.earlier(a, b)), there, strict=True) if exists]

    now, next_turn = Step(first, Half.IN, U, N), Step(first, Half.IN, U, N + 1)
    assert all(earlier(now, next_turn)) and all(earlier(now, Step(second, Half.IN, U, N)))
    assert not any(earlier(Step(second, Half.IN, U, N), now))
    assert not any(earlier(now, now))
    assert masks.earlier(now, Step(other, Half.IN, U, N)) == 0
