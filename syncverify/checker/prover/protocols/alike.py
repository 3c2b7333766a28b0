"""Trees for obligations that are as others, but for which of several like roles they are about.

Warps of one kind, and blocks of a cluster, do the same. A tree that was found for one of them is tried for
the others, with the sites of like roles in the place of its own. So is one of accesses that stand in the same
stretch of code, between the same waits and arrivals, and one of operations that look the same in roles that
differ elsewhere: the k-th operation of a look is tried for the k-th. The kernel decides whether it holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from syncverify.checker.kernel.accept import always
from syncverify.checker.kernel.accounting import account_tree, landing
from syncverify.checker.kernel.hops import Drained, Graph, Step
from syncverify.checker.kernel.linear import RejectedError, Term
from syncverify.checker.kernel.obligations import Either, Observed, Owed, Reaches
from syncverify.checker.kernel.proof import Along, Events
from syncverify.checker.kernel.protocol import Kind, Level, Protocol
from syncverify.checker.kernel.trees import (
    Absurd,
    Congruent,
    Instance,
    Leaf,
    Monotone,
    Residues,
    Split,
    Tile,
    Tree,
    check,
)

#: Ways of renaming roles that are tried for one tree, and trees that are kept for one kind of obligation.
MOST_WAYS, MOST_TREES = 16, 4
#: Operations that order nothing by themselves, and rules whose trees are tried for accesses nearby.
_ACCESSES = frozenset({Kind.ACCESS, Kind.ASYNC, Kind.USE, Kind.COPY, Kind.NOTHING})
_NEAR = frozenset({"hazard", "O1", "O2", "O3", "O4", "O5", "O6", "observed"})


@dataclass(slots=True)
class Alike:
    """``core``: the sites of each role without inits; ``family``: roles whose cores are alike."""

    p: Protocol
    g: Graph
    core: list[list[int]] = field(default_factory=list)
    family: list[int] = field(default_factory=list)
    members: dict[int, list[int]] = field(default_factory=dict)  # the roles of each family
    found: dict[Hashable, list[tuple[tuple[int, ...], Tree]]] = field(default_factory=dict)
    stretch: list[int] = field(
        default_factory=list
    )  # of each site: operations of order before it in its role
    uses: dict[str, int] = field(default_factory=dict)  # the first use of what a read is called
    twins: dict[tuple[str, int], int] = field(
        default_factory=dict
    )  # sites of one collective instruction, by role
    look: list[int] = field(default_factory=list)  # of each site: what it has in common with like ones
    nth: list[int] = field(default_factory=list)  # of each site: how many of its role look so before it
    at: dict[tuple[int, int, int], int] = field(default_factory=dict)  # sites by role, look and how many
    many: Counter[tuple[int, int]] = field(default_factory=Counter)  # how many, by role and look
    equal: dict[Hashable, Tree] = field(
        default_factory=dict
    )  # by premises and goal, where no site is in them
    of_ring: dict[tuple[int, int, str], list[int]] = field(default_factory=dict)  # by role, look and ring
    accounts: dict[Hashable, list[tuple[list[int], Tree]]] = field(
        default_factory=dict
    )  # of turns of rings, with the sites that land on them

    @classmethod
    def of(cls, p: Protocol, g: Graph) -> Alike:
        made = cls(p, g)
        kinds: dict[Hashable, int] = {}
        looks: dict[Hashable, int] = {}
        for i, s in enumerate(g.sites):
            look = looks.setdefault(made.like(i), len(looks))
            k = made.many[s.role, look]
            made.many[s.role, look] += 1
            made.look.append(look)
            made.nth.append(k)
            made.at[s.role, look, k] = i
            made.of_ring.setdefault((s.role, look, s.op.ring), []).append(i)
        for r in range(len(p.roles)):
            sites = [i for i, s in enumerate(g.sites) if s.role == r and s.op.kind is not Kind.INIT]
            made.core.append(sites)
            looks_there = tuple(sorted(made.look[i] for i in sites))
            made.family.append(kinds.setdefault(looks_there, len(kinds)))
            made.members.setdefault(made.family[r], []).append(r)
        count, role = 0, -1
        for i, s in enumerate(g.sites):
            count, role = (count, role) if s.role == role else (0, s.role)
            ring = p.rings.get(s.op.ring)
            count += s.op.kind not in _ACCESSES and (ring is None or ring.level is Level.ALL)
            made.stretch.append(count)
            if s.op.kind is Kind.USE and s.op.label:
                made.uses.setdefault(s.op.label, i)
            if s.op.kind is Kind.ASYNC and s.op.label:
                made.twins.setdefault((s.op.label, s.role), i)
        return made

    def like(self, i: int) -> tuple[Any, ...]:
        """What a site has in common with those of like roles."""
        s = self.g.sites[i]
        op, ring = s.op, self.p.rings.get(s.op.ring)
        barrier = None if ring is None else (ring.depth, ring.count, ring.named, ring.level, ring.visible)
        plain = replace(op, ring="", touches=(), label="")
        at = s.position
        return plain, barrier, len(op.touches), bool(op.label), s.domain, (at.tiles, at.loops)

    def key(self, o: Owed) -> Hashable:
        """Obligations of one key may have like trees."""
        places = tuple(self.place(i) for i in o.sites)
        same = len({self.g.sites[i].role for i in o.sites})
        return (
            o.rule,
            re.sub(r"\d+(?=[ .]|$)", "#", o.key),
            re.findall(r"\.(\d+)", o.key).__str__(),
            places,
            same,
        )

    def near(self, o: Owed) -> Hashable:
        """Obligations of one key are about accesses in the same stretches, and may have like trees."""
        if not _near(o):
            return None
        touched = re.findall(r"(\d+)\.(\d+)", o.key)
        slots = tuple(str(self.g.sites[int(i)].op.touches[int(a)].slot) for i, a in touched)
        places = tuple(
            (self.family[s.role], self.stretch[i], s.op.kind, bool(s.op.label), s.domain)
            for i, s in ((i, self.g.sites[i]) for i in o.sites)
        )
        same = len({self.g.sites[i].role for i in o.sites})
        return o.rule, re.sub(r"[\d.]+", "#", o.key), slots, places, same

    def far(self, o: Owed) -> Hashable:
        """Obligations of one key are about operations that look the same, in whatever roles."""
        touched = re.findall(r"(\d+)\.(\d+)", o.key)
        slots = tuple(str(self.g.sites[int(i)].op.touches[int(a)].slot) for i, a in touched)
        same = len({self.g.sites[i].role for i in o.sites})
        return "far", o.rule, re.sub(r"[\d.]+", "#", o.key), slots, tuple(self.look[i] for i in o.sites), same

    def drained(self, o: Owed) -> Hashable:
        """Obligations of one key differ in where indices are by numbers alone, as those of a drain do, one
        for each slot. Few small sizes may meet one of them.
        """

        def shape(i: int) -> Hashable:
            plain, *rest = self.like(i)
            ring = self.p.rings.get(plain.ring or self.g.sites[i].op.ring)
            slots = ring.depth.names() if ring is not None else frozenset()
            index = Term({a: k for a, k in plain.index.parts.items() if a not in slots})
            return replace(plain, index=index), *rest, self.g.sites[i].role, self.g.sites[i].op.ring

        return "drained", o.rule, re.sub(r"[\d.]+", "#", o.key), tuple(map(shape, o.sites))

    def place(self, i: int) -> Hashable:
        role, op = self.g.sites[i].role, self.g.sites[i].op
        if op.kind is Kind.INIT:
            return self.family[role], "init", op.count
        return self.family[role], (self.core[role].index(i) if i in self.core[role] else -1 - i)

    def tree(self, o: Owed) -> Tree | None:
        """A tree of a like obligation that meets this one, if there is one."""
        if isinstance(o.goal, Reaches | Either | Observed):
            return self.renamed_tree(o)
        asked = (o.premises, o.goal)  # no site is in it
        if asked not in self.equal:
            found = self.renamed_tree(o)
            if found is None:
                return None
            self.equal[asked] = found
        return self.equal[asked]

    def renamed_tree(self, o: Owed) -> Tree | None:
        """The tree of a like obligation with the sites of this one, if it meets this one."""
        premises = [*always(self.p), *o.premises]
        scope = self.p.parameters | {"u", "n", "u'", "n'"}

        def needs(x: Any, _: list[Term], names: frozenset[str]) -> Any:
            return o.goal.needs(x, names)

        for sites, tree in dict.fromkeys(x for key in self.keys(o) for x in self.found.get(key, ())):
            for way in islice(self.ways(sites, o.sites, tree), MOST_WAYS):
                try:
                    new: Tree = renamed(tree, way)
                    check(self.p, premises, new, needs, scope)
                except RejectedError:
                    continue
                return new
        return None

    # ---------------------------------------------------------------- turns of rings

    def _turns_key(self, ring: str, what: str, end: Term) -> tuple[Hashable, list[int]]:
        """What rings with like accounts have in common, and the sites that land on one, in an order of
        looks.
        """
        sites = sorted(landing(self.g, ring, what), key=lambda i: (self.look[i], i))
        r = replace(self.p.rings[ring], barrier="")
        return (what, r, end, tuple(self.look[i] for i in sites)), sites

    def turns(self, ring: str, what: str, end: Term) -> Tree | None:
        """The tree of a like ring's turns that holds of this one, if there is one."""
        key, sites = self._turns_key(ring, what, end)
        for old, tree in self.accounts.get(key, ()):
            way = dict(zip(old, sites, strict=True))
            new = renamed(tree, way)
            try:
                account_tree(self.g, (what, ring), end, new, always(self.p))
            except RejectedError:
                continue
            return new
        return None

    def keep_turns(self, ring: str, what: str, end: Term, tree: Tree) -> None:
        key, sites = self._turns_key(ring, what, end)
        kept = self.accounts.setdefault(key, [])
        if len(kept) < MOST_TREES:
            kept.append((sites, tree))

    # ---------------------------------------------------------------- other obligations

    def keys(self, o: Owed) -> tuple[Hashable, ...]:
        """What obligations with like trees have in common, the likeliest first."""
        some = (self.key(o), self.near(o), self.far(o), self.drained(o))
        return some if _near(o) else some[:1]

    def keep(self, o: Owed, tree: Tree) -> None:
        if not isinstance(o.goal, Reaches | Either | Observed):
            self.equal[o.premises, o.goal] = tree
        for key in self.keys(o):
            kept = self.found.setdefault(key, [])
            if len(kept) < MOST_TREES:
                kept.append((o.sites, tree))

    def ways(self, old: tuple[int, ...], new: tuple[int, ...], tree: Tree) -> Iterator[dict[int, int]]:
        """Maps of the sites of a tree: the obligation's own as they are, those of other roles to like ones.

        First those that rename rings along with roles, as where blocks of a cluster change places.
        """
        roles: dict[int, int] = {}
        exact = dict(zip(old, new, strict=True))
        labels: dict[str, str] = {}  # of what roles execute as one
        for a, b in zip(old, new, strict=True):
            called, now = self.g.sites[a].op.label, self.g.sites[b].op.label
            if self.g.sites[a].op.kind is Kind.ASYNC and called and now:
                labels[called] = now
            if called in self.uses and now in self.uses:
                exact[self.uses[called]] = self.uses[now]
        for a, b in exact.items():
            x, y = self.g.sites[a].role, self.g.sites[b].role
            if roles.setdefault(x, y) != y:
                return
        used: dict[int, list[int]] = {}
        for i in sorted(set(sites_of(tree)) - exact.keys()):
            used.setdefault(self.g.sites[i].role, []).append(i)
        rings = self.renamed_rings({}, exact)
        some = [r for r in used if r in roles] + [r for r in used if r not in roles]
        for renaming in (rings, None) if rings is not None else (None,):
            for every, names in self.roles_for(some, used, roles, renaming):
                try:
                    yield exact | {i: self.image(i, every, names, labels) for r in some for i in used[r]}
                except KeyError:
                    continue

    def roles_for(
        self, left: list[int], used: Mapping[int, list[int]], roles: Mapping[int, int], rings: _Rings
    ) -> Iterator[tuple[Mapping[int, int], Mapping[str, str]]]:
        """Like roles for those that are left, with the names of rings that go with them.

        No ``rings``: these are not looked at.
        """
        if not left:
            yield roles, rings or {}
            return
        r, *rest = left
        like = self.members[self.family[r]]
        for x in (roles[r],) if r in roles else sorted(like, key=lambda x: x != r):
            names = rings
            if rings is not None:
                alone = [i for i in used[r] if self.many[r, self.look[i]] == 1]
                names = self.renamed_rings(
                    rings, {i: self.at[x, self.look[i], 0] for i in alone if (x, self.look[i], 0) in self.at}
                )
                if names is None:
                    continue
            yield from self.roles_for(rest, used, {**roles, r: x}, names)

    def renamed_rings(self, rings: Mapping[str, str], sites: Mapping[int, int]) -> dict[str, str] | None:
        """Names for rings, with those that these sites ask for; None where they contradict each other."""
        out = dict(rings)
        for i, k in sites.items():
            a, b = self.g.sites[i].op.ring, self.g.sites[k].op.ring
            if out.setdefault(a, b) != b:
                return None
        return out

    def image(
        self, i: int, roles: Mapping[int, int], rings: Mapping[str, str], labels: Mapping[str, str]
    ) -> int:
        """The site for one of another obligation's tree; KeyError where there is none."""
        op, role = self.g.sites[i].op, roles[self.g.sites[i].role]
        if op.label in labels and (labels[op.label], role) in self.twins:
            return self.twins[labels[op.label], role]
        if op.kind is Kind.INIT:
            return i
        if op.ring and op.ring in rings:
            return self.of_ring[role, self.look[i], rings[op.ring]][self.nth_of_ring(i)]
        return self.at[role, self.look[i], self.nth[i]]

    def nth_of_ring(self, i: int) -> int:
        """How many sites of a role and a ring look the same before one."""
        s = self.g.sites[i]
        return self.of_ring[s.role, self.look[i], s.op.ring].index(i)


#: New names of rings; None where they are not looked at.
_Rings = Mapping[str, str] | None


def _near(o: Owed) -> bool:
    return o.rule.split()[0] in _NEAR


def renamed(t: Tree, way: Mapping[int, int]) -> Tree:
    """A tree with other sites in its paths, and in its turns."""
    if isinstance(t, Leaf):
        if isinstance(t.payload, Events):
            events = tuple((way[i], u, n) for i, u, n in t.payload.events)
            return replace(t, payload=Events(events, {way[i]: x for i, x in t.payload.only.items()}))
        if not isinstance(t.payload, Along):
            return t

        def step(s: Step) -> Step:
            return s._replace(site=way[s.site])

        path = []
        for how, s in t.payload.path:
            if isinstance(how, Drained):
                twin = None if how.twin is None else way[how.twin]
                how = replace(how, commits=tuple(map(step, how.commits)), twin=twin)
            path.append((how, step(s)))
        return replace(t, payload=replace(t.payload, path=tuple(path)))
    match t:
        case Split(yes=yes, no=no):
            return replace(t, yes=renamed(yes, way), no=renamed(no, way))
        case Residues(kids=kids):
            return replace(t, kids=tuple(renamed(k, way) for k in kids))
        case Tile(kid=kid) | Monotone(kid=kid) | Congruent(kid=kid) | Instance(kid=kid):
            return replace(t, kid=renamed(kid, way))
        case Absurd():
            return t


def sites_of(t: Tree) -> Iterator[int]:
    """The sites on the paths of a tree."""
    if isinstance(t, Leaf):
        if isinstance(t.payload, Along):
            for how, s in t.payload.path:
                yield s.site
                if isinstance(how, Drained):
                    yield from (c.site for c in how.commits)
                    if how.twin is not None:
                        yield how.twin
        return
    for kid in _kids(t):
        yield from sites_of(kid)


def _kids(t: Tree) -> tuple[Tree, ...]:
    match t:
        case Split(yes=yes, no=no):
            return yes, no
        case Residues(kids=kids):
            return kids
        case Tile(kid=kid) | Monotone(kid=kid) | Congruent(kid=kid) | Instance(kid=kid):
            return (kid,)
        case Absurd() | Leaf():
            return ()


__all__ = ["Alike"]
