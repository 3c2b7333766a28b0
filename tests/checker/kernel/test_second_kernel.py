"""The second checker says what the kernel says: of proofs, changed proofs, and proofs of other protocols."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from benchmarks.checker.second_kernel import why_not
from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.proof import Proof, UnreadableError, read
from syncverify.checker.kernel.protocol import Protocol, malformed
from syncverify.checker.prover.protocols.written import proof as write
from tests.checker.induction.acceptance import Ask, of_text
from tests.checker.induction.test_clusters import PAIR
from tests.checker.induction.test_read import RING
from tests.checker.kernel.families import FAMILIES
from tests.checker.kernel.mutants import Text, corrupted, mutated, shifted
from tests.checker.kernel.plain_protocol import plain
from tests.checker.kernel.sweep import proofs

QUICK = (
    "plain, deferred release",
    "multistage",
    "wgmma, one group pending",
    "cluster of two",
    "register pool",
)
Good = dict[str, tuple[Protocol, Proof]]


@pytest.fixture(scope="module")
def good() -> Good:
    return proofs(list(QUICK))


def both(p: Protocol, data: Any, policy: Policy = Policy.PRACTICAL) -> tuple[bool, bool, str]:
    """Whether the kernel and the second checker accept, and why the latter does not."""
    data = json.loads(json.dumps(data))
    try:
        first = isinstance(accept(p, read(data), policy), Accepted)
    except UnreadableError:
        first = False
    why = why_not(json.loads(json.dumps(plain(p))), data, policy is Policy.STRICT)
    return first, why is None, str(why)


def compared(seed: int, many: int, good: Good) -> tuple[Counter[str], list[str]]:
    """How often both accepted or rejected, and where they differ.

    A third each: a proof for its protocol or a mutant in either policy, a changed proof, a
    changed proof for a mutant.
    """
    rng, counts, differ = random.Random(seed), Counter[str](), []
    texts = {name: Text.of(proof) for name, (_, proof) in good.items()}
    for k in range(many):
        name = rng.choice(list(good))
        p, proof = good[name]
        policy = rng.choice((Policy.PRACTICAL, Policy.PRACTICAL, Policy.STRICT))
        what, how = [], ""
        if k % 3 != 1 and rng.random() < 0.9:
            p, what = mutated(rng, p, rng.choice((1, 1, 2)), keep=True)
        data: Any = write(shifted(rng, p, proof) if rng.random() < 0.3 else proof)
        if k % 3:
            data, how = corrupted(rng, texts[name])
        if malformed(p) is not None:
            continue
        first, second, why = both(p, data, policy)
        counts[f"{'changed proof' if k % 3 else 'proof'}: {'accepted' if first else 'rejected'}"] += 1
        if first is not second:
            differ.append(f"{name}, {what}, {how}, {policy}: kernel {first}, second {second}: {why}")
    return counts, differ


def test_right_proofs_are_accepted_by_both(good: Good) -> None:
    for p, proof in good.values():
        assert both(p, write(proof)) == (True, True, "None")


def test_what_is_read_from_kernels_is_accepted_by_both() -> None:
    for text in (RING, PAIR):
        for p, proof in of_text(text, ask=Ask()).known:
            assert both(p, write(proof)) == (True, True, "None")


def test_both_say_the_same_of_mistakes(good: Good) -> None:
    counts, differ = compared(5, 240, good)
    assert differ == []
    assert counts["changed proof: rejected"] > 50 and counts["proof: accepted"] > 3


@pytest.mark.slow
def test_both_say_the_same_of_many() -> None:
    counts, differ = compared(17, 9_000, proofs([x for x in FAMILIES if not x.startswith("ping-pong")]))
    assert differ == [] and counts["proof: accepted"] > 50
