"""What a proof claims, in words: which turn each wait means, and whom it follows."""

from __future__ import annotations

from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.prover.protocols.prove import Proved, prove
from syncverify.checker.prover.protocols.words import invariants
from tests.checker.kernel.families import persistent, plain


def proof_of(p: Protocol) -> Proof:
    found = prove(p)
    assert isinstance(found, Proved)
    return found.proof


def test_a_ring_is_said_by_its_slots_and_its_waits() -> None:
    p = plain(consumers=2)
    said = invariants(p, proof_of(p))
    assert "full[j mod S]: turn j is phase j div S; complete for 0 <= j < N" in said
    assert "step n of load follows turn n - S of math0 and math1 (empty)" in said
    assert "step n of math0 follows turn n of load (full)" in said
    assert len(set(said)) == len(said)


def test_functions_of_tiles_are_explained_first() -> None:
    p = persistent()
    assert invariants(p, proof_of(p))[0] == "P(t): the steps of all tiles before tile t"
