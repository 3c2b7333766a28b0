"""Atomics in shared memory that say who comes when: random programs beside a brute force."""

from __future__ import annotations

import random

import pytest

from syncverify.base.diagnostics import Verdict
from tests.checker.happens_before.flag_model import Op, Threads, TooManyError, harm
from tests.checker.happens_before.flag_programs import turned
from tests.checker.happens_before.test_flag_model import _verdict

#: Random programs: how many each run draws, and the slow one, in parts.
DRAWN, MORE, PARTS = 24, 3000, 4

_DATA, _READ, _FREE = Op("write"), Op("read"), Op("store", 0, 0, release=True)


def _tries(kind: str, *ops: Op, acquire: bool = True) -> tuple[Op, ...]:
    return (Op(kind, 0, 1, acquire=acquire, skips=len(ops)), *ops)


def _counts(wanted: int, *ops: Op) -> tuple[Op, ...]:
    return (Op("count", 0, 1, release=True, acquire=True, wanted=wanted, skips=len(ops)), *ops)


@pytest.mark.parametrize(
    ("threads", "wrong"),
    [
        ((_tries("try", _DATA), _tries("try", _DATA)), None),
        ((_tries("swap", _DATA), _tries("swap", _DATA)), None),
        ((_tries("try", _DATA, _FREE), _tries("try", _DATA, _FREE)), None),
        ((_tries("try", _DATA, _FREE), _tries("try", _DATA, _FREE, acquire=False)), "race"),
        ((_tries("try", _FREE, _DATA), _tries("try", _DATA, _FREE)), "race"),
        ((_tries("try", _DATA), (*_tries("try", _DATA), _READ)), "race"),
        (((_DATA, *_counts(1)), _counts(1, _READ)), None),
        (((_DATA, *_counts(1)), _counts(0, _READ)), "race"),
    ],
)  # fmt: skip
def test_the_model(threads: Threads, wrong: str | None) -> None:
    assert harm(threads) == wrong


def _differing(first: int, last: int) -> tuple[list[str], int, int]:
    """Programs with a wrong verdict; how many are right, and how many of these are proved."""
    wrong, right, proved = [], 0, 0
    for seed in range(first, last):
        p = turned(random.Random(seed))
        try:
            harms = harm(p.meant) is not None
        except TooManyError:
            continue
        said = _verdict(p, replay=False)
        if said is Verdict.REFUTED and not harms:
            said = _verdict(p, replay=True)
        right += not harms
        proved += not harms and said is Verdict.PROVED
        if said is (Verdict.PROVED if harms else Verdict.REFUTED):
            wrong.append(f"seed {seed}: {p}")
    return wrong, right, proved


def test_random_programs() -> None:
    wrong, right, proved = _differing(0, DRAWN)
    assert wrong == []
    assert proved > right * 2 / 3 > DRAWN / 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_more_random_programs(part: int) -> None:
    size = MORE // PARTS
    assert _differing(DRAWN + part * size, DRAWN + (part + 1) * size)[0] == []
