"""Sizes that the search looks at: those where guards begin to hold, and as many slots as a prologue needs."""

from __future__ import annotations

import random

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel import protocol as k
from syncverify.checker.kernel.accounting import account_kinds
from syncverify.checker.kernel.linear import ZERO, Term, apply, equal, num, var
from syncverify.checker.kernel.protocol import Kind, N, Op
from syncverify.checker.prover.protocols import NotFoundError, prove
from syncverify.checker.prover.protocols.prove import MANY, _Searches, relaxed
from syncverify.checker.prover.protocols.sizes import MOST_SOLUTIONS, Plan, holds, prefix, samples
from syncverify.model.proxies import Access

ROWS = var("rows")
SLOTS = var("slots_4")


def guarded(least: int, *, drained: bool = True) -> k.Protocol:
    """A thread that copies a row where there are so many, and waits for it."""
    enough = (ROWS - least,)
    copies = Op(Kind.ASYNC, group=k.Group.CP_ASYNC, guard=enough,
                touches=(k.Touch(Access.CPASYNC_WRITE, "row", ZERO, ((0, 16, 0),)),))  # fmt: skip
    commit, drain = Op(Kind.COMMIT, group=k.Group.CP_ASYNC), Op(Kind.DRAIN, group=k.Group.CP_ASYNC, count=0)
    read = Op(Kind.ACCESS, touches=(k.Touch(Access.GENERIC_READ, "row", ZERO, ((0, 16, 0),)),))
    body = (copies, commit, drain, read) if drained else (copies, drain, commit, read)
    role = k.Role("thread", (0,), (body,))
    return k.Protocol((role,), {}, {"row": num(1)}, frozenset({"rows"}), (ROWS - 1,))


def ahead(prologue: int) -> k.Protocol:
    """A thread with a ring of four slots loads so many steps ahead, and three steps ahead in its loop."""
    facts = (*equal(SLOTS, num(4)), var("N") - 4)

    def loads(index: Term, *guard: Term) -> tuple[Op, Op]:
        more = {"ring": "full", "index": index, "bytes": 16, "guard": guard}
        return Op(Kind.ARRIVE, count=1, **more), Op(  # type: ignore[arg-type]
            Kind.COPY,
            touches=(k.Touch(Access.ASYNC_WRITE, "data", index, ((0, 16, 0),)),),
            **more,  # type: ignore[arg-type]
        )

    wait = Op(Kind.WAIT, ring="full", index=N)
    read = Op(Kind.ACCESS, touches=(k.Touch(Access.GENERIC_READ, "data", N, ((0, 16, 0),)),), label="r")
    again = (wait, read, Op(Kind.USE, label="r"), Op(Kind.FENCE), *loads(N - 1 + SLOTS, var("N") - N - 4))
    begun = tuple(op for i in range(prologue) for op in loads(num(i)))
    role = k.Role("thread", (0,), (begun, k.Loop(ZERO, var("N"), again)))
    rings = {"full": k.Ring(SLOTS, 1)}
    return k.Protocol((role,), rings, {"data": SLOTS}, frozenset({"N", "slots_4"}), facts)


@pytest.mark.parametrize("least", [2, 9, 400])
def test_guards_on_sizes_hold_in_some_sample(least: int) -> None:
    found = samples(guarded(least), random.Random(1), MANY)
    assert {e["rows"] >= least for e in found} == {True, False}


def test_what_is_guarded_by_a_large_size_is_proved() -> None:
    prove(guarded(9), Policy.PRACTICAL)
    with pytest.raises(NotFoundError):
        prove(guarded(9, drained=False), Policy.PRACTICAL)


def test_a_ring_whose_prologue_needs_its_slots_keeps_them() -> None:
    """With two slots the first loads would share turns, so that nothing adds up."""
    p = ahead(3)
    prove(p, Policy.PRACTICAL)
    some = _Searches(p, Policy.PRACTICAL, 1, MANY)
    some.begin()
    for what in account_kinds(some.first.g, "full"):
        some.turns("full", what)
    assert some.first is some.whole


def test_depths_that_are_kept_are_not_relaxed() -> None:
    p = ahead(3)
    assert relaxed(p) is not None
    assert relaxed(p, frozenset({"slots_4"})) is None


@pytest.mark.parametrize("prologue", [2, 4])
def test_a_load_that_is_missing_or_comes_twice_has_no_proof(prologue: int) -> None:
    with pytest.raises(NotFoundError):
        prove(ahead(prologue), Policy.PRACTICAL)


@pytest.mark.parametrize("steps", [3, 9])
def test_a_plan_gives_counters_the_first_numbers_that_meet_its_constraints(steps: int) -> None:
    """As trying all numbers in turn does."""
    e = {"T": 4, "P": prefix([1, 2, 0, 3])}
    u, n, j = var("u"), var("n"), var("j")
    given = [*equal(j * 2, n + u), n - apply("P", u), apply("P", u + 1) + 2 - n, var("T") - u - 1]
    plan = Plan.of(given, ("j", "u", "n"))
    numbers = ({"j": a, "u": b, "n": c} for a in range(steps) for b in range(5) for c in range(steps))
    every = [x for x in numbers if holds(given, {**e, **x})]
    found = plan.solutions(e, 4, steps)
    assert [{v: x[v] for v in ("j", "u", "n")} for x in found] == every[: MOST_SOLUTIONS + 1]
    assert all(x["u'"] == 0 == x["n'"] and x["T"] == 4 for x in found)
    assert plan.still == () and len(every) > steps // 3
