"""Proofs that are malformed, incomplete, surplus or of another protocol are rejected."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from syncverify.checker.kernel.accept import Rejected, accept
from syncverify.checker.kernel.linear import RejectedError, Sum, Term, follows, num, var
from syncverify.checker.kernel.proof import Follows, Proof, UnreadableError, read
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.kernel.trees import Absurd, Leaf, Residues, Split, check
from syncverify.checker.prover.protocols import search
from syncverify.checker.prover.protocols.written import proof as write
from tests.checker.kernel.families import FAMILIES, plain
from tests.checker.kernel.sweep import corruptions, planted, proofs, transplanted


@pytest.fixture(scope="module")
def good() -> tuple[Protocol, Proof]:
    p = plain()
    return p, search(p)


def _why(p: Protocol, proof: Proof) -> str:
    answer = accept(p, proof)
    assert isinstance(answer, Rejected)
    return str(answer)


def test_the_text_of_a_proof_is_read_back(good: tuple[Protocol, Proof]) -> None:
    _, proof = good
    assert read(json.loads(json.dumps(write(proof)))) == proof


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("end"),
        lambda d: d.update(more=1),
        lambda d: d.update(version=1),
        lambda d: d.update(version=True),
        lambda d: d["terms"].append([0, [0, "S"]]),
        lambda d: d["terms"].append([0, [1, "S"], [1, "S"]]),
        lambda d: d["terms"].append("S"),
        lambda d: d["shift"].append([0]),
        lambda d: d["shift"].extend([[1, 0], [1, 0]]),
        lambda d: d["rank"].append([0, 1, []]),
        lambda d: d["trees"].update({"x": []}),
        lambda d: d["trees"].update({"x": ["leaf", ["grows", -1], []]}),
        lambda d: d["trees"].update({"x": ["absurd", [0]]}),
        lambda d: d["trees"].update({"x": ["absurd", [1, [0, -1]]]}),
        lambda d: d["trees"].update({"x": ["absurd", []]}),
    ],
)
def test_what_is_not_of_the_format_is_unreadable(good: tuple[Protocol, Proof], change: Any) -> None:
    data = copy.deepcopy(write(good[1]))
    change(data)
    with pytest.raises(UnreadableError):
        read(data)


def test_a_tree_that_is_nested_without_end_is_unreadable() -> None:
    tree: Any = ["absurd", [1]]
    for _ in range(10_000):
        tree = ["split", 0, tree, ["absurd", [1]]]
    with pytest.raises(UnreadableError):
        read(
            {
                "format": "syncverify proof",
                "version": 2,
                "terms": [[0]],
                "shift": [],
                "end": {},
                "rank": [],
                "trees": {"x": tree},
            }
        )


def test_every_tree_is_owed_and_no_other_is(good: tuple[Protocol, Proof]) -> None:
    p, proof = good
    for key in proof.trees:
        rest = {k: t for k, t in proof.trees.items() if k != key}
        assert isinstance(accept(p, replace(proof, trees=rest)), Rejected), key
    assert "nobody asks" in _why(p, replace(proof, trees={**proof.trees, "more": Absurd(Sum(1, ()))}))


def test_ends_and_ranks_are_functions_of_what_they_may_be(good: tuple[Protocol, Proof]) -> None:
    p, proof = good
    assert "no function" in _why(p, replace(proof, end={**proof.end, "full": var("u")}))
    key = next(iter(proof.rank))
    rank = {**proof.rank, key: (var("u'"), *proof.rank[key][1:])}
    assert "no function" in _why(p, replace(proof, rank=rank))


def test_a_rejection_names_the_obligation(good: tuple[Protocol, Proof]) -> None:
    p, proof = good
    answer = accept(replace(p, facts=p.facts[1:]), proof)
    assert isinstance(answer, Rejected)
    assert answer.obligation in proof.trees or answer.obligation.startswith(("turns", "depth"))


# ---------------------------------------------------------------- sums and trees


def test_a_sum_rounds_up_to_integers() -> None:
    x = var("x")
    follows([x * 2 - 1], x - 1, Sum(2, ((0, 1),)))
    with pytest.raises(RejectedError):
        follows([x * 2 - 1], x - 2, Sum(2, ((0, 1),)))


@pytest.mark.parametrize("by", [Sum(0, ()), Sum(1, ((0, -1),)), Sum(1, ((1, 1),)), Sum(1, ())])
def test_a_sum_with_a_wrong_multiplier_shows_nothing(by: Sum) -> None:
    with pytest.raises(RejectedError):
        follows([var("x")], var("x"), by)


def _nothing(*_: Any) -> list[Term]:
    return []


def test_a_name_may_not_be_split_on_before_it_is_introduced() -> None:
    """Else 0 = %q in one branch and 20 = %q in the other would refute 5 <= %q and its opposite."""
    q = var("%q")
    yes = Residues(num(0), "%q", (Absurd(Sum(1, ((0, 1), (1, 1)))),))
    no = Residues(num(20), "%q", (Absurd(Sum(1, ((0, 1), (1, 1)))),))
    with pytest.raises(RejectedError, match="no value"):
        check(plain(), [], Split(q - 5, yes, no), _nothing, frozenset())


def test_a_fresh_name_is_introduced_once() -> None:
    inner = Residues(num(1), "%q", (Leaf(Follows(), ()),))
    with pytest.raises(RejectedError, match="not fresh"):
        check(plain(), [], Residues(num(0), "%q", (inner,)), _nothing, frozenset())
    with pytest.raises(RejectedError, match="not fresh"):
        check(plain(), [], Residues(num(0), "S", (Leaf(Follows(), ()),)), _nothing, frozenset())


# ---------------------------------------------------------------- the wrong protocol


SOME = ["plain", "plain, deferred release", "prefilled", "multistage", "init and inval", "elected lane"]


@pytest.fixture(scope="module")
def some() -> dict[str, tuple[Protocol, Proof]]:
    return proofs(SOME)


def test_no_proof_is_accepted_for_a_protocol_that_goes_wrong(some: dict[str, tuple[Protocol, Proof]]) -> None:
    counts = transplanted(7, 150, some)
    assert counts.tried == 150
    assert not counts.mistakes


def test_no_changed_proof_is_accepted_for_a_protocol_that_goes_wrong(
    some: dict[str, tuple[Protocol, Proof]],
) -> None:
    counts = corruptions(7, 150, some)
    assert counts.tried == 150
    assert not counts.mistakes


def test_no_proof_is_accepted_for_a_protocol_that_one_rule_keeps_out() -> None:
    counts = planted(7, 1_000)
    assert counts.tried == 1_000
    assert not counts.mistakes


def test_a_kernel_that_looks_at_nothing_is_caught(some: dict[str, tuple[Protocol, Proof]]) -> None:
    """The test bed sees what it should: almost every mutant is wrong."""
    counts = transplanted(7, 20, some, ok=lambda *_: True)
    assert len(counts.mistakes) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_sweep(seed: int) -> None:
    good = proofs([x for x in FAMILIES if not x.startswith("ping-pong")])
    assert not transplanted(seed, 1_000, good).mistakes
    assert not corruptions(seed, 1_000, good).mistakes
