"""Loops whose last turn does something else than the others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from syncverify.checker.induction import claims_text
from syncverify.checker.induction.claims import Claim, Form, Header
from syncverify.checker.induction.program import Claimed
from syncverify.checker.prover.protocols import written
from tests.checker.induction.test_read import RING, accepted, accepted_with, posed

RELEASE = "      fence.proxy.async.shared_cta\n      mbarrier.arrive empty[i % 3]\n"
#: What the last step read is not released: nobody waits for it.
LAST = RING.replace(RELEASE, "      if i < N - 1 {\n" + RELEASE + "      }\n")
MISTAKES = {
    "a release too few": ("if i < N - 1 {", "if i < N - 4 {"),
    "the last step is not waited for": (
        "      mbarrier.wait full[i % 3], (i // 3) % 2\n",
        "      if i < N - 1 {\n      mbarrier.wait full[i % 3], (i // 3) % 2\n      }\n",
    ),
    "only the last step is released": ("if i < N - 1 {", "if i >= N - 1 {"),
    "the other parity": ("(i // 3) % 2", "(i // 3 + 1) % 2"),
    "a count off by one": ("empty[s], 32", "empty[s], 33"),
    "a slot is released early": (
        "      ld.shared x, tile[i % 3][lane * 2 : 2]\n",
        "      if i < N - 1 {\n      mbarrier.arrive empty[i % 3]\n      }\n"
        "      ld.shared x, tile[i % 3][lane * 2 : 2]\n",
    ),
}


def test_the_last_step_is_not_released() -> None:
    assert accepted(posed(LAST))


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_not_accepted(what: str) -> None:
    old, new = MISTAKES[what]
    assert not accepted_with(LAST, old, new)


def test_a_last_turn_that_stands_apart_is_claimed() -> None:
    h = Header(3, False, None, True, {(0, 0): {1: Form(0, ())}}, {(0, 0): {1: Form(4, ())}}, apart=True)
    claimed = Claimed((Claim(1, 1, (h, replace(h, place=4, apart=False, others={}))),))
    assert claims_text.read(json.loads(json.dumps(written.claims(claimed)))) == claimed
