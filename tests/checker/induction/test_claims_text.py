"""Claims as plain data say each thing once."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.checker.induction.claims import Claim, Form, Header
from syncverify.checker.induction.claims_text import MalformedClaimError, read
from syncverify.checker.induction.program import Claimed
from syncverify.checker.prover.protocols import written

_HOLDS = {(0, 0): {1: Form(4, ())}}
_LOOP = Header(3, False, None, True, _HOLDS, _HOLDS, ((0, 1, _HOLDS[0, 0]),))
RIGHT = Claimed((Claim(1, 1, (_LOOP,)), Claim(1, 1, ())))


def _said() -> dict[str, Any]:
    return written.claims(RIGHT)


def test_claims_are_read_as_written() -> None:
    assert read(_said()) == RIGHT


@pytest.mark.parametrize(
    "path",
    [(), (0, 4), (0, 4, 0, 2), (0, 5), (0, 5, 0, 2), (0, 6, 0, 2)],
    ids=lambda p: ".".join(map(str, p)),
)
def test_nothing_is_said_twice(path: tuple[int, ...]) -> None:
    data = _said()
    at = data["claims"][0][2]
    for step in path:
        at = at[step]
    at.append(at[0])
    with pytest.raises(MalformedClaimError, match="twice"):
        read(data)


@pytest.mark.parametrize("of", [[0], [0, 0], [0, -1], [0, 1, 2], []])
def test_each_claim_is_of_some_class(of: list[int]) -> None:
    with pytest.raises(MalformedClaimError):
        read({**_said(), "of": of})
