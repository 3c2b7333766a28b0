"""The families of ring protocols are accepted for every size, and no interleaving of a small size goes
wrong.
"""

from __future__ import annotations

import random

import pytest

from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.proof import read
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.prover.protocols import NotFoundError, prove, search
from syncverify.checker.prover.protocols.written import proof as write
from tests.checker.kernel.explore import explore
from tests.checker.kernel.families import FAMILIES, in_two_phases, later_meetings, plain, unguarded_drain
from tests.checker.kernel.programs import pick, program, shown
from tests.checker.kernel.sweep import SEEDS

#: Families whose search takes more than a second.
SLOW = [
    x
    for x in FAMILIES
    if x.startswith(("ping-pong", "persistent,", "epilogue", "two rings", "nonempty", "store"))
]
QUICK = [x for x in FAMILIES if x not in SLOW]


def _accepted(name: str) -> None:
    p = FAMILIES[name]()
    proof = prove(p, seeds=SEEDS).proof
    answer = accept(p, read(write(proof)))
    assert isinstance(answer, Accepted), str(answer)


@pytest.mark.parametrize("name", QUICK)
def test_a_family_is_accepted_for_every_size(name: str) -> None:
    _accepted(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_family_with_tiles_is_accepted_for_every_size(name: str) -> None:
    _accepted(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_interleaving_of_a_small_size_goes_wrong(name: str) -> None:
    p = FAMILIES[name]()
    for e in pick(p, random.Random(1), 8):
        found = program(p, e)
        assert found is not None
        assert explore(found, 4_000).wrong is None, shown(e)


def test_facts_and_schemas_are_what_a_verdict_rests_on() -> None:
    p = plain(deferred=True)
    answer = accept(p, search(p))
    assert isinstance(answer, Accepted)
    assert answer.assumptions == ("S - 2 >= 0", "N >= 0")


def test_a_drain_that_an_empty_tile_reaches_hangs_and_has_no_proof() -> None:
    p = unguarded_drain()
    wrong = [e for e in pick(p, random.Random(2), 60) if explore(program(p, e), 4_000).wrong]  # type: ignore[arg-type]
    assert wrong and all(0 in e["trips"] for e in wrong)
    with pytest.raises(NotFoundError):
        search(p)


def test_meetings_that_a_first_step_attends_alone_or_not_all_attend_have_no_proof() -> None:
    proof = search(later_meetings())
    for first in ((1, 0), (1, 2), (1, None)):
        p = later_meetings(first)
        assert any(explore(program(p, e), 4_000).wrong for e in pick(p, random.Random(1), 12))  # type: ignore[arg-type]
        with pytest.raises(NotFoundError, match="no end of meet"):
            search(p)
        assert isinstance(accept(p, proof), Rejected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "why"),
    [(in_two_phases(epilogue=(0,)), "no path"), (in_two_phases(onward=0), "ranks of sites .* fall")],
)
def test_groups_that_do_not_wait_for_each_other_have_no_proof(p: Protocol, why: str) -> None:
    assert any(explore(program(p, e), 4_000).wrong for e in pick(p, random.Random(1), 12))  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match=why):
        search(p)
