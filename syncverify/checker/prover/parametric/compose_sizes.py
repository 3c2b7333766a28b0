"""Clusters of a block group that were explored alone, put together for all sizes: see docs/block_groups.md.

Each exploration leaves the accounts of its runs, each with what is known of the sizes there. Accounts of all
clusters that may belong to one launch, by the sizes, must go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from syncverify.base.deadline import check as check_time
from syncverify.checker.happens_before.effect_log import Bytes
from syncverify.checker.prover.modular.compose import ClusterSummary, Composition, Pairs
from syncverify.model.events import ANY, GroupFootprint
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.inequalities import Sum, add, eliminated, negated
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import MEMBER

#: Accounts of clusters that are put together before it is given up.
MOST_TOGETHER = 20_000

#: Ways in which accounts go together that are looked at whatever is known of sizes.
FEW_TOGETHER = 8

#: What is known of sizes at the end of a run: of each that it has a sum, over unknowns numbered in order, and
#: what is known of these.
Ends = tuple[tuple[tuple[str, Sum], ...], tuple[Sum, ...]]


@dataclass(slots=True)
class ComposedClusters:
    """The accounts of each cluster, and the paths that lead there."""

    space: SymbolicContext
    accounts: list[dict[ClusterSummary, dict[Ends, None]]] = field(default_factory=list)
    restores: bool = True
    tried: int = 0
    known: dict[tuple[int, ...], tuple[str | None, bool]] = field(
        default_factory=dict
    )  # by identities of accounts
    pairs: dict[tuple[int, int], Pairs] = field(default_factory=dict)
    of_any: dict[ClusterSummary, dict[Ends, None]] = field(default_factory=dict)  # cluster, whichever
    strict: bool = False

    def take(
        self, member: tuple[int, int] | None, found: Iterable[tuple[ClusterSummary, PathCondition]]
    ) -> None:
        """More runs of one cluster: which, of how many."""
        assert member is not None
        number, clusters = member
        self.accounts = self.accounts or [{} for _ in range(clusters)]
        for account, path in found:
            kept = self.of_any if number == ANY else self.accounts[number]
            kept.setdefault(account, {})[ends(path)] = None

    def spread(self, root: PathCondition, neighbours: GroupFootprint) -> None:
        """The accounts of each cluster, by those of any one that what is known there does not rule out."""
        of_any = {account: fewer(self.space, some) for account, some in self.of_any.items()}
        for number, found in enumerate(self.accounts):
            here = self.placed(root, number)
            for account, some in of_any.items():
                may_be = [known for known in some if joint_path(self.space, here, known) is not None]
                if may_be:
                    found.setdefault(_moved(account, neighbours, number), {}).update(dict.fromkeys(may_be))

    def placed(self, path: PathCondition, number: int) -> PathCondition:
        """The path with the cluster known that is put beside those before it."""
        if MEMBER not in path.sizes:
            return path
        path = path.fork()
        path.sizes[MEMBER] = number
        return path

    def wrong(self, root: PathCondition) -> str | None:
        """Why some launch that starts on a path may go wrong; None if none does."""
        if not all(self.accounts):
            return "no run of some cluster of a block group ends"
        for found in self.accounts:
            for account, some in found.items():
                found[account] = dict.fromkeys(fewer(self.space, some))
        if prod(len(found) for found in self.accounts) <= FEW_TOGETHER:
            if all(self.judged(chosen) == (None, True) for chosen in product(*self.accounts)):
                return None
        return self.follow(root, ())

    def follow(self, path: PathCondition, chosen: tuple[ClusterSummary, ...]) -> str | None:
        if len(chosen) == len(self.accounts):
            return self.judge(chosen)
        path = self.placed(path, len(chosen))
        for account, all_ends in self.accounts[len(chosen)].items():
            for known in all_ends:
                self.tried += 1
                check_time()
                if self.tried > MOST_TOGETHER:
                    raise NotConcrete("blocks of a group may share memory in too many ways")
                both = joint_path(self.space, path, known)
                found = None if both is None else self.follow(both, (*chosen, account))
                if found is not None:
                    return found
        return None

    def judge(self, chosen: tuple[ClusterSummary, ...]) -> str | None:
        found, restores = self.judged(chosen)
        self.restores &= restores
        return found

    def judged(self, chosen: tuple[ClusterSummary, ...]) -> tuple[str | None, bool]:
        """What is wrong, and whether flags are left as they were found."""
        key = tuple(map(id, chosen))  # each is kept once
        if key not in self.known:
            together = Composition(chosen, pairs=self.pairs, strict=self.strict)
            self.known[key] = together.wrong(), together.restores
        return self.known[key]


def _moved(account: ClusterSummary, neighbours: GroupFootprint, number: int) -> ClusterSummary:
    """What one cluster does where any one leaves an account."""

    def at(place: Bytes) -> Bytes:
        found = neighbours.at(place, number)
        if found is None:
            raise NotConcrete("block groups may access the same global memory")
        return found

    steps = tuple(replace(step, flag=at(step.flag)) for step in account.steps)
    accesses = tuple(replace(x, places=tuple(map(at, x.places))) for x in account.accesses)
    return ClusterSummary(steps, accesses)


def ends(path: PathCondition) -> Ends:
    """What the end of a run says of sizes. Its unknowns are its own: only by what it says of sizes is it
    related to others."""
    path = path.fork()
    rows = {name: _sum(path, value) for name, value in sorted(path.sizes.items())}
    path.eliminate({a for _, parts in rows.values() for a, _ in parts})
    rows = {name: path.resolve(*row) for name, row in rows.items()}
    numbers: dict[int, int] = {}
    for _, parts in rows.values():
        for a, _ in parts:
            numbers.setdefault(a, len(numbers))
    facts: set[Sum] = set()
    for a in list(numbers):
        low, high = path.interval(a)
        facts |= set() if low is None else {(-low, ((numbers[a], 1),))}
        facts |= set() if high is None else {(high, ((numbers[a], -1),))}
    for parts, c in path.inequalities.items():
        if all(a in numbers for a, _ in parts):
            facts.add((c, _renamed(parts, numbers)))
    named = tuple((name, (c, _renamed(parts, numbers))) for name, (c, parts) in rows.items())
    return named, tuple(sorted(facts))


def _sum(path: PathCondition, value: Any) -> Sum:
    return path.resolve(*path.space.of(value))


def _renamed(parts: Sequence[tuple[int, int]], numbers: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((numbers[a], k) for a, k in parts))


def fewer(space: SymbolicContext, some: Iterable[Ends]) -> list[Ends]:
    """Ends that say no more: of those that name sizes by the same sums what all of them say."""
    alike: dict[Any, list[tuple[Sum, ...]]] = {}
    for named, facts in some:
        alike.setdefault(named, []).append(facts)
    out: list[Ends] = []
    for named, all_facts in alike.items():
        check_time()
        count = 1 + max((a for _, (_, parts) in named for a, _ in parts), default=-1)
        atoms = [space.symbol("end") for _ in range(count)]
        paths = [_with(space, atoms, facts) for facts in all_facts]
        common = [
            s
            for s in sorted({s for facts in all_facts for s in facts})
            if all(p.dead or p.implies(*p.resolve(*space.of(_over(atoms, s)))) for p in paths)
        ]
        out.append((named, tuple(common)))
    return out


def _with(space: SymbolicContext, atoms: Sequence[Any], facts: Iterable[Sum]) -> PathCondition:
    path = PathCondition(space)
    for s in facts:
        path.assume(*space.of(_over(atoms, s)))
    return path


def _over(atoms: Any, s: Sum) -> Any:
    """A sum over other unknowns."""
    return sum((atoms[a] * k for a, k in s[1]), s[0])


def joint_path(space: SymbolicContext, path: PathCondition, known: Ends) -> PathCondition | None:
    """A path on which all that is known at the end of a run holds too; None if there is none."""
    named, facts = known
    path = path.fork()
    atoms: dict[int, Any] = {}
    for name, (c, parts) in named:  # the unknowns that are sizes
        if name in path.sizes and len(parts) == 1 and parts[0][1] == 1 and parts[0][0] not in atoms:
            atoms[parts[0][0]] = path.sizes[name] - c
    for i in {a for _, (_, parts) in named for a, _ in parts} - atoms.keys():
        atoms[i] = space.symbol("end")

    for s in facts:
        path.assume(*space.of(_over(atoms, s)))
    for name, s in named:
        if name in path.sizes:
            c, parts = path.resolve(*space.of(_over(atoms, s) - path.sizes[name]))
            path.assume(c, parts)
            path.assume(-c, negated(parts))
    return path if not path.dead and _possible(path) else None


def _possible(path: PathCondition) -> bool:
    """Whether inequalities are not known to contradict each other."""
    work: dict[Any, int] = dict(path.inequalities)
    atoms = {a for p in work for a, _ in p}
    for a in sorted(atoms):
        low, high = path.interval(a)
        if (low is not None and add(work, -low, ((a, 1),))) or (
            high is not None and add(work, high, ((a, -1),))
        ):
            return False
    return not eliminated(work, atoms)


__all__ = ["ComposedClusters", "Ends", "ends", "joint_path"]
