"""What each rule of the kernel is for: without it, a protocol that goes wrong at some size has a proof."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from syncverify.checker.kernel import Accepted, Protocol, accept, hops, obligations
from syncverify.checker.kernel.linear import ZERO, num
from syncverify.checker.kernel.protocol import Kind, Level, Loop, N, Op, Ring
from syncverify.checker.prover.protocols import NotFoundError, prove, search
from tests.checker.kernel.families import (
    STEPS,
    S,
    arrive,
    load,
    made,
    plain,
    store,
    wait,
)
from tests.checker.kernel.sweep import wrong_at


def _with(p: Protocol, role: int, change: Callable[[Op], Op | None]) -> Protocol:
    """The protocol with the operations of one role's loop changed or dropped."""
    (loop,) = p.roles[role].body
    assert isinstance(loop, Loop)
    body = tuple(x for op in loop.body if (x := change(op)) is not None)
    roles = list(p.roles)
    roles[role] = replace(p.roles[role], body=(replace(loop, body=body),))
    return replace(p, roles=tuple(roles))


def idle_waiter() -> Protocol:
    p = plain()
    return replace(
        p,
        roles=(
            *p.roles,
            replace(p.roles[1], name="idle", threads=(9,), body=(Loop(ZERO, STEPS, (wait("full", N),)),)),
        ),
    )


def one_wait_more() -> Protocol:
    p = plain()
    math = replace(p.roles[1], body=(*p.roles[1].body, (wait("full", STEPS),)))
    return replace(p, roles=(p.roles[0], math))


def two_arrivers() -> Protocol:
    body = (Loop(ZERO, STEPS, (arrive("b", N),)),)
    return made([("x", body, 1), ("y", body, 1)], {"b": Ring(num(1), 2)}, {}, "N", (STEPS,))


def two_lanes() -> Protocol:
    body = (Loop(ZERO, STEPS, (arrive("b", N),)),)
    return made([("x", body, 2)], {"b": Ring(num(1), 2)}, {}, "N", (STEPS,))


def every_other_turn() -> Protocol:
    """A wait for the odd turns alone: the first one passes before anything has arrived."""
    x = (store("buf", ZERO), arrive("b", N * 2), arrive("b", N * 2 + 1), wait("c", N))
    y = (wait("b", N * 2 + 1), load("buf", ZERO), arrive("c", N))
    roles = [("x", (Loop(ZERO, STEPS, x),), 1), ("y", (Loop(ZERO, STEPS, y),), 1)]
    rings = {"b": Ring(num(1), 1), "c": Ring(num(1), 1)}
    return made(roles, rings, {"buf": num(1)}, "N", (STEPS,))  # type: ignore[arg-type]


def deferred_with_one_slot() -> Protocol:
    p = plain(deferred=True)
    return replace(p, facts=(S - 1, STEPS))


def no_fence() -> Protocol:
    return _with(plain(), 1, lambda op: None if op.kind is Kind.FENCE else op)


def relaxed_release() -> Protocol:
    return _with(plain(), 1, lambda op: replace(op, synchronizes=op.kind is not Kind.ARRIVE))


def early_release() -> Protocol:
    p = plain()
    (loop,) = p.roles[1].body
    assert isinstance(loop, Loop)
    w, read, fence, release = loop.body
    return replace(
        p, roles=(p.roles[0], replace(p.roles[1], body=(replace(loop, body=(w, release, read, fence)),)))
    )


def flipped_parity() -> Protocol:
    return _with(plain(), 1, lambda op: replace(op, parity=1) if op.kind is Kind.WAIT else op)


def lonely_sync() -> Protocol:
    ring = {"o": Ring(num(1), 2, named=True)}
    return made(
        [("x", ((Op(Kind.SYNC, "o", count=2),),), 1), ("y", ((Op(Kind.FENCE),),), 1)], ring, {}, "", ()
    )


def without(monkeypatch: pytest.MonkeyPatch, *rules: str) -> None:
    """Leaves obligations out, of the kernel and of the prover."""
    for module in _modules():
        for name in ("owed", "growing"):
            real = getattr(module, name)
            monkeypatch.setattr(module, name, _filtered(real, rules))


def _modules() -> tuple[Any, Any]:
    import importlib

    return (
        importlib.import_module("syncverify.checker.kernel.accept"),
        importlib.import_module("syncverify.checker.prover.protocols.prove"),
    )


def _filtered(real: Callable[..., Any], rules: tuple[str, ...]) -> Callable[..., Any]:
    return lambda *a: (o for o in real(*a) if o.rule not in rules)


def no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in _modules():
        monkeypatch.setattr(module, "growing", lambda *_: ())
    monkeypatch.setattr(_modules()[1], "ranks", lambda _: {})


def no_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops.Graph, "between", lambda *_: Level.THREAD)


def no_bridges(monkeypatch: pytest.MonkeyPatch) -> None:
    real = obligations.Demand
    monkeypatch.setattr(obligations, "Demand", lambda **k: real(**{**k, "bridge": False}))


def no_causality(monkeypatch: pytest.MonkeyPatch) -> None:
    real = obligations.Demand
    monkeypatch.setattr(obligations, "Demand", lambda **k: real(**{**k, "causal": False}))


def sync_in_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "in", "O6")


CASES: dict[str, tuple[Callable[[], Protocol], Callable[[pytest.MonkeyPatch], None]]] = {
    "O1: two roles arrive and nobody waits": (two_arrivers, lambda m: without(m, "O1")),
    "O2: a wait that skips turns": (every_other_turn, lambda m: without(m, "O2")),
    "O3: a consumer that never releases": (idle_waiter, lambda m: without(m, "O3")),
    "means: a wait more than there are turns": (one_wait_more, lambda m: without(m, "means")),
    "ranks: a deferred release with one slot": (deferred_with_one_slot, no_ranks),
    "levels: lanes know nothing of each other": (two_lanes, no_levels),
    "bridges: no fence before the refill": (no_fence, no_bridges),
    "causality: a relaxed release": (relaxed_release, no_causality),
    "hazards: a release before the read": (
        early_release,
        lambda m: without(m, *(f"hazard {x}" for x in ("later", "earlier", "equal"))),
    ),
    "tail: a generation that is never complete": (lonely_sync, sync_in_the_tail),
}
#: Phases mix, which the theorem's premise forbids; no harm comes of it here.
HARMLESS = ("O1", "levels")


@pytest.mark.parametrize("case", CASES)
def test_a_rule_left_out_lets_something_wrong_in(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, leave_out = CASES[case]
    p = make()
    if not case.startswith(HARMLESS):
        assert wrong_at(p, random.Random(1)) is not None
    with pytest.raises(NotFoundError):
        prove(p)
    leave_out(monkeypatch)
    found = None
    for seed in (1, 2, 3):
        try:
            found = search(p, seed=seed)
            break
        except NotFoundError:
            continue
    assert found is not None
    answer = accept(p, found)
    assert isinstance(answer, Accepted), str(answer)


def test_a_surplus_arrival_is_seen_by_accounting_alone() -> None:
    p = plain(consumers=2)
    p = replace(p, rings={**p.rings, "empty": Ring(S, 1)})
    assert wrong_at(p, random.Random(1)) is not None
    with pytest.raises(NotFoundError, match="empty"):
        prove(p)


def test_a_flipped_parity_names_another_turn() -> None:
    p = flipped_parity()
    assert wrong_at(p, random.Random(1)) is not None
    with pytest.raises(NotFoundError):
        prove(p)
    good = search(plain())
    answer = accept(p, good)
    assert not isinstance(answer, Accepted)
    assert "parity" in str(answer)
