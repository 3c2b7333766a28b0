"""Proofs of protocols for every size: turns, ends, ranks, then one tree for each obligation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.accounting import account_keys, account_kinds
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.linear import ZERO, RejectedError, Term, var
from syncverify.checker.kernel.obligations import Owed, impossible, observed, owed
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Kind, N, Protocol, U, malformed
from syncverify.checker.kernel.ranks import Around, growing
from syncverify.checker.kernel.trees import Congruent, Instance, Leaf, Monotone, Tree, check
from syncverify.checker.prover.protocols import accounts
from syncverify.checker.prover.protocols.alike import Alike
from syncverify.checker.prover.protocols.claims import NotFoundError, claims
from syncverify.checker.prover.protocols.rank_search import ranks, requests
from syncverify.checker.prover.protocols.search import Search
from syncverify.checker.prover.protocols.sizes import Sample, all_events, samples, value

#: Samples that a search begins with, and seeds that are tried.
MANY, SEEDS = 14, (1, 2, 3)
#: A quarter of the sizes for which phases are looked at (``samples``).
FEW = 2
#: The counters (u, n) of the events of each site.
Events = Sequence[Sequence[tuple[int, int]]]
#: Slots that rings are taken to have at least, where they have more.
FEW_SLOTS = 2
#: Obligations that have a tree only with as many slots as there are, until they are all taken so at first.
OFTEN = 2


@dataclass(frozen=True, slots=True)
class Proved:
    """A proof that the kernel accepts."""

    proof: Proof
    accepted: Accepted


def relaxed(p: Protocol, kept: frozenset[str] = frozenset()) -> Protocol | None:
    """The protocol with fewer slots, where facts give depths numbers above 2: small sizes then go round.

    Each fact stays in its place and asks less, so that sums of the relaxed facts are sums of the facts.
    ``kept``: depths that stay what they are. None: there is no such fact.
    """
    depths = {x for t in (*(r.depth for r in p.rings.values()), *p.buffers.values()) for x in t.names()}
    depths -= kept
    facts = []
    for f in p.facts:
        ((a, k), *more) = f.parts.items() if f.parts else (("", 0),)
        if a in depths and not more and k == 1 and -f.const > FEW_SLOTS:
            f = var(str(a)) - FEW_SLOTS
        elif a in depths and not more and k == -1 and f.const >= FEW_SLOTS:
            f = ZERO
        facts.append(f)
    return None if tuple(facts) == p.facts else replace(p, facts=tuple(facts))


@dataclass(slots=True)
class _Searches:
    """Searches of one protocol: with fewer slots first, and as it is where that leads nowhere.

    ``kept``: depths whose rings add up only as they are. ``former``: the search before these were kept, for
    the slots of a ring and of its bytes may have different names. ``order``: of the searches. ``rescued``:
    how many obligations had a tree only with a search that is not the first.
    """

    p: Protocol
    policy: Policy
    seed: int
    many: int
    shift: dict[int, int] = field(default_factory=dict)
    end: dict[str, Term] = field(default_factory=dict)
    few: Search | None = None
    whole: Search | None = None
    former: Search | None = None
    kept: frozenset[str] = frozenset()
    order: list[str] = field(default_factory=lambda: ["few", "whole", "former"])
    rescued: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Finds turns and ends that add up; with fewer slots if they do so there."""
        for exact in (False, True):
            s = self.exact() if exact else self.fewer()
            if s is None:
                continue
            try:
                self.shift, self.end = claims(s.p, s.sizes, all_events(s.p, s.sizes))
            except NotFoundError:
                if exact:
                    raise
                self.few = None  # a prologue of so many loads needs as many slots
                continue
            for some in (self.few, self.whole):
                if some is not None:
                    some.g = Graph(some.p, self.shift, self.policy)
            return

    def fewer(self) -> Search | None:
        q = relaxed(self.p, self.kept)
        self.few = None if q is None else self._of(q)
        return self.few

    def exact(self) -> Search:
        if self.whole is None:
            self.whole = self._of(self.p)
        return self.whole

    def _of(self, q: Protocol) -> Search:
        return Search.of(q, random.Random(self.seed), self.many, Graph(q, self.shift, self.policy))

    def named(self, name: str) -> Search | None:
        return self.exact() if name == "whole" else self.few if name == "few" else self.former

    @property
    def first(self) -> Search:
        return next(s for x in self.order if (s := self.named(x)) is not None)

    def tree(self, make: Callable[[Search], dict[str, Tree]]) -> dict[str, Tree]:
        """What some search finds. One that is needed often comes first from then on."""
        why: NotFoundError | None = None
        for name in tuple(self.order):
            if (one := self.named(name)) is None:
                continue
            try:
                found = make(one)
            except NotFoundError as e:
                why = why or e
                continue
            if why is not None:
                self.rescued[name] += 1
                if self.rescued[name] == OFTEN:
                    self.order.remove(name)
                    self.order.insert(0, name)
            return found
        raise why or NotFoundError("no search")

    def turns(self, ring: str, what: str) -> dict[str, Tree]:
        """The accounts of a ring. One whose turns do not add up with fewer slots has as many as it has."""

        def of(s: Search) -> dict[str, Tree]:
            return accounts.trees(s, ring, self.end[ring], what)

        if self.few is None:
            return of(self.exact())
        try:
            return of(self.few)
        except NotFoundError:
            found = of(self.exact())
            self.kept |= self.p.rings[ring].depth.names()
            self.former = self.former or self.few
            self.fewer()
            return found


def chosen(o: Owed, requests: Mapping[str, bool]) -> Owed | None:
    """The obligation with what is to be shown of it; None where a proof leaves it out."""
    if not isinstance(o.goal, Around):
        return o
    waits = requests.get(o.key)
    return None if waits is None else o._replace(goal=o.goal.waits if waits else o.goal.after)


def bare(p: Protocol, o: Owed, tree: Tree) -> Tree:
    """The tree without what it introduces, where its leaf does without: of changes of registers the kernel
    takes leaves alone.
    """
    leaf = tree
    while isinstance(leaf, Monotone | Congruent | Instance):
        leaf = leaf.kid
    if leaf is tree or not isinstance(leaf, Leaf):
        return tree
    scope = p.parameters | {"u", "n", "u'", "n'"}
    try:
        check(p, [*p.facts, *o.premises], leaf, lambda x, _, names: o.goal.needs(x, names), scope)
    except RejectedError:
        return tree
    return leaf


def search(p: Protocol, policy: Policy = Policy.PRACTICAL, seed: int = 1, many: int = MANY) -> Proof:
    """A proof, which the kernel has not seen yet; NotFoundError with the first obligation that stays open."""
    why = malformed(p)
    if why is not None:
        raise NotFoundError(why)
    ways = _Searches(p, policy, seed, many)
    ways.begin()
    trees: dict[str, Tree] = {}

    def of(o: Owed) -> Callable[[Search], dict[str, Tree]]:
        return lambda s: {o.key: s.tree(o)}

    try:
        g = ways.first.g
        alike = Alike.of(p, g)
        for ring in p.rings:
            for what in account_kinds(g, ring):
                known = alike.turns(ring, what, ways.end[ring])
                if known is None:
                    known = ways.turns(ring, what)[f"{what} {ring}"]
                    alike.keep_turns(ring, what, ways.end[ring], known)
                trees[f"{what} {ring}"] = known
        rank = ranks(ways.first)
        asked = requests(g)
        for o in (*owed(g, ways.end), *growing(g, rank), *observed(g)):
            if impossible(o.premises):
                continue
            if (one := chosen(o, asked)) is None:
                continue
            around, o = isinstance(o.goal, Around), one
            known = alike.tree(o)
            if known is None:
                try:
                    known = ways.tree(of(o))[o.key]
                except NotFoundError:
                    if o.optional:
                        continue
                    raise
                alike.keep(o, known)
            trees[o.key] = bare(p, o, known) if around else known
    except RejectedError as e:
        raise NotFoundError(str(e)) from None
    return Proof(ways.shift, ways.end, rank, trees)


def carried(proof: Proof, p: Protocol, policy: Policy) -> Proof:
    """A proof of the same code in another mode, from the trees of this one; obligations without one are left
    out. The other mode may ask of more bytes of an instruction: they are ordered as those that are in both.
    """
    g = Graph(p, proof.shift, policy)
    alike = {_without_bytes(key): tree for key, tree in proof.trees.items()}
    every = (*owed(g, proof.end), *growing(g, proof.rank), *observed(g))
    owes = (o.key for o in every if not impossible(o.premises))
    trees = {key: proof.trees[key] for key in account_keys(g) if key in proof.trees}
    for key in owes:
        found = proof.trees.get(key, alike.get(_without_bytes(key)))
        if found is not None:
            trees[key] = found
    return replace(proof, trees=trees)


def waits_for_phases(p: Protocol, shift: Mapping[int, int]) -> bool:
    """Whether somebody waits for each phase that a further arrival follows, as small sizes show it.

    Strict mode asks it of each arrival (K14). A proof of practical mode has no trees for that.
    """
    g = Graph(p, shift, Policy.STRICT)
    sizes = samples(p, random.Random(1), FEW)
    for e, events in zip(sizes, all_events(p, sizes), strict=True):

        def turns(ring: str, kind: Kind, e: Sample = e, events: Events = events) -> set[int]:
            each = ((g.turn(i, U, N), u, n) for i in g.of(ring, (kind,)) for u, n in events[i])
            return {value(t, {**e, "u": u, "n": n}) for t, u, n in each}

        for ring in (x for x, r in p.rings.items() if not r.named):
            depth = value(p.rings[ring].depth, e)
            before = {t - depth for t in turns(ring, Kind.ARRIVE)}
            if any(t >= 0 for t in before - turns(ring, Kind.WAIT)):
                return False
    return bool(sizes)


def _without_bytes(key: str) -> str:
    """The name of an obligation about two instructions, without which of their bytes it is about."""
    return " ".join(word.partition(".")[0] for word in key.split(" ")) if key.startswith("hazard") else key


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
