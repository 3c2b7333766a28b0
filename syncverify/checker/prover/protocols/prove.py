"""Proofs of protocols for every size: turns, ends, ranks, then one tree for each obligation."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.linear import ZERO, RejectedError, Term, var
from syncverify.checker.kernel.obligations import Owed, impossible, owed
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Protocol, malformed
from syncverify.checker.kernel.ranks import growing
from syncverify.checker.kernel.trees import Tree
from syncverify.checker.prover.protocols import accounts
from syncverify.checker.prover.protocols.alike import Alike
from syncverify.checker.prover.protocols.claims import NotFoundError, claims
from syncverify.checker.prover.protocols.rank_search import ranks
from syncverify.checker.prover.protocols.search import Search
from syncverify.checker.prover.protocols.sizes import all_events

#: Samples that a search begins with, and seeds that are tried.
MANY, SEEDS = 14, (1, 2, 3)
#: Slots that rings are taken to have at least, where they have more.
FEW_SLOTS = 2


@dataclass(frozen=True, slots=True)
class Proved:
    """A proof that the kernel accepts."""

    proof: Proof
    accepted: Accepted


def relaxed(p: Protocol) -> Protocol | None:
    """The protocol with fewer slots, where facts give depths numbers above 2: small sizes then go round.

    Each fact stays in its place and asks less, so that sums of the relaxed facts are sums of the facts.
    """
    depths = {x for t in (*(r.depth for r in p.rings.values()), *p.buffers.values()) for x in t.names()}
    facts = []
    for f in p.facts:
        ((a, k), *more) = f.parts.items() if f.parts else (("", 0),)
        if a in depths and not more and k == 1 and -f.const > FEW_SLOTS:
            f = var(str(a)) - FEW_SLOTS
        elif a in depths and not more and k == -1 and f.const > FEW_SLOTS:
            f = ZERO
        facts.append(f)
    return None if tuple(facts) == p.facts else replace(p, facts=tuple(facts))


def _begun(
    p: Protocol, policy: Policy, seed: int, many: int
) -> tuple[list[Protocol], Search, tuple[dict[int, int], dict[str, Term]]]:
    """The protocol and those it is taken for at first, that search, with turns and ends that add up there."""
    found = [q for q in (relaxed(p), p) if q is not None]
    while True:
        s = Search.of(found[0], random.Random(seed), many, Graph(found[0], {}, policy))
        try:
            return found, s, claims(s.p, s.sizes, all_events(s.p, s.sizes))
        except NotFoundError:
            if len(found) == 1:
                raise
            found = found[1:]  # a prologue of so many loads needs as many slots


def search(p: Protocol, policy: Policy = Policy.PRACTICAL, seed: int = 1, many: int = MANY) -> Proof:
    """A proof, which the kernel has not seen yet; NotFoundError with the first obligation that stays open."""
    why = malformed(p)
    if why is not None:
        raise NotFoundError(why)
    found, s, (shift, end) = _begun(p, policy, seed, many)
    every = [s]

    def exact() -> Search:
        if len(every) < len(found):
            every.append(Search.of(p, random.Random(seed), many, Graph(p, shift, policy)))
        return every[-1]

    s.g = Graph(s.p, shift, policy)
    trees: dict[str, Tree] = {}

    def tree(make: Callable[[Search], dict[str, Tree]]) -> dict[str, Tree]:
        try:
            return make(s)
        except NotFoundError:
            if len(found) == 1:
                raise
            return make(exact())

    def of(o: Owed) -> Callable[[Search], dict[str, Tree]]:
        return lambda s: {o.key: s.tree(o)}

    def turns(ring: str, what: str) -> Callable[[Search], dict[str, Tree]]:
        return lambda s: accounts.trees(s, ring, end[ring], what)

    try:
        for ring in p.rings:
            for what in accounts.kinds(s, ring):
                trees |= tree(turns(ring, what))
        rank = ranks(s)
        alike = Alike.of(p, s.g)
        for o in (*owed(s.g, end), *growing(s.g, rank)):
            if impossible(o.premises):
                continue
            known = alike.tree(o)
            if known is None:
                known = tree(of(o))[o.key]
                alike.keep(o, known)
            trees[o.key] = known
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
