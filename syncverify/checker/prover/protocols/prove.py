"""Proofs of protocols for every size: turns, ends, ranks, then one tree for each obligation."""

from __future__ import annotations

import random
from dataclasses import dataclass

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.linear import RejectedError
from syncverify.checker.kernel.obligations import impossible, owed
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Protocol, malformed
from syncverify.checker.kernel.ranks import growing
from syncverify.checker.kernel.trees import Tree
from syncverify.checker.prover.protocols import accounts
from syncverify.checker.prover.protocols.claims import NotFoundError, claims
from syncverify.checker.prover.protocols.rank_search import ranks
from syncverify.checker.prover.protocols.search import Search

#: Samples that a search begins with, and seeds that are tried.
MANY, SEEDS = 14, (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Proved:
    """A proof that the kernel accepts."""

    proof: Proof
    accepted: Accepted


def search(p: Protocol, policy: Policy = Policy.PRACTICAL, seed: int = 1, many: int = MANY) -> Proof:
    """A proof, which the kernel has not seen yet; NotFoundError with the first obligation that stays open."""
    why = malformed(p)
    if why is not None:
        raise NotFoundError(why)
    rnd = random.Random(seed)
    s = Search.of(p, rnd, many, Graph(p, {}, policy))
    shift, end = claims(p, s.sizes, s.events)
    s.g = Graph(p, shift, policy)
    trees: dict[str, Tree] = {}
    try:
        for ring in p.rings:
            trees |= accounts.trees(s, ring, end[ring])
        rank = ranks(s)
        for o in (*owed(s.g, end), *growing(s.g, rank)):
            if not impossible(o.premises):
                trees[o.key] = s.tree(o)
    except RejectedError as e:
        raise NotFoundError(str(e)) from None
    return Proof(shift, end, rank, trees)


def prove(p: Protocol, policy: Policy = Policy.PRACTICAL, seeds: tuple[int, ...] = SEEDS) -> Proved:
    """A proof that the kernel accepts; NotFoundError where none of the seeds leads to one."""
    why: NotFoundError | None = None
    for seed in seeds:
        try:
            found = search(p, policy, seed)
        except NotFoundError as e:
            why = why or e
            continue
        answer = accept(p, found, policy)
        if isinstance(answer, Rejected):
            why = NotFoundError(f"the kernel rejects the proof: {answer}")
            continue
        return Proved(found, answer)
    raise why or NotFoundError("no seed")
