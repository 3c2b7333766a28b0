"""Mistakes that accounting and parities alone show."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.protocol import Kind, Loop, Protocol, Ring
from syncverify.checker.prover.protocols import NotFoundError, prove, search
from tests.checker.kernel.families import S, plain
from tests.checker.kernel.sweep import wrong_at


def flipped_parity() -> Protocol:
    p = plain()
    (loop,) = p.roles[1].body
    assert isinstance(loop, Loop)
    body = tuple(replace(op, parity=1) if op.kind is Kind.WAIT else op for op in loop.body)
    return replace(p, roles=(p.roles[0], replace(p.roles[1], body=(replace(loop, body=body),))))


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
