"""Trees without what no sum in them uses: the kernel then checks less, and so do trials of like trees.

The search introduces every instance of an axiom in sight, and splits before it knows whether a case matters.
An introduction whose constraints are in no sum below is left out. A split one of whose cases does without its
own constraint is that case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from syncverify.checker.kernel.linear import Sum
from syncverify.checker.kernel.proof import Events
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
)

_Introduction = Tile | Monotone | Congruent | Instance
#: How many constraints an introduction adds.
_ADDS: dict[type[_Introduction], int] = {Tile: 4, Monotone: 1, Congruent: 2, Instance: 1}


def pruned(tree: Tree, many: int) -> Tree:
    """The tree under so many premises, without what it does not need. No leaf accounts for events."""
    return _Pruning().tree(tree, many, {i: i for i in range(many)})


def without(tree: Tree, many: int) -> Tree | None:
    """The pruned tree without the last of ``many + 1`` premises; None if it needs that one."""
    pruning = _Pruning()
    if many in pruning.uses(tree, many + 1):
        return None
    return pruning.tree(tree, many + 1, {i: i for i in range(many)})


@dataclass(slots=True)
class _Pruning:
    """``known``: by tree and the number of its premises, the numbers of those that it needs."""

    known: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    def tree(self, t: Tree, at: int, new: Mapping[int, int]) -> Tree:
        """The pruned tree. ``at``: how many premises it had; ``new``: the new numbers of those it has."""
        here = len(new)
        match t:
            case Split(yes=yes, no=no):
                for kid in (yes, no):
                    if at not in self.uses(kid, at + 1):
                        return self.tree(kid, at + 1, new)
                more = {**new, at: here}
                return replace(t, yes=self.tree(yes, at + 1, more), no=self.tree(no, at + 1, more))
            case Residues(kids=kids):
                more = {**new, at: here, at + 1: here + 1}
                return replace(t, kids=tuple(self.tree(kid, at + 2, more) for kid in kids))
            case Absurd(by):
                return Absurd(_renumbered(by, new))
            case Leaf(payload, by_all):
                return Leaf(payload, tuple(_renumbered(by, new) for by in by_all))
        adds = _ADDS[type(t)]
        if self.idle(t, at):
            return self.tree(t.kid, at + adds, new)
        kid = self.tree(t.kid, at + adds, {**new, **{at + k: here + k for k in range(adds)}})
        match t:
            case Monotone(by=by):
                return replace(t, by=_renumbered(by, new), kid=kid)
            case Congruent(by=(a, b)):
                return replace(t, by=(_renumbered(a, new), _renumbered(b, new)), kid=kid)
            case Tile(by=(a, b, c)):
                return replace(t, by=(_renumbered(a, new), _renumbered(b, new), _renumbered(c, new)), kid=kid)
            case Instance():
                return replace(t, kid=kid)

    def uses(self, t: Tree, at: int) -> frozenset[int]:
        """The numbers of the premises that the pruned tree uses."""
        key = (id(t), at)
        if key not in self.known:
            self.known[key] = self._uses(t, at)
        return self.known[key]

    def _uses(self, t: Tree, at: int) -> frozenset[int]:
        match t:
            case Split(yes=yes, no=no):
                sides = [self.uses(kid, at + 1) for kid in (yes, no)]
                alone = next((side for side in sides if at not in side), None)
                return (sides[0] | sides[1]) - {at} if alone is None else alone
            case Residues(kids=kids):
                return frozenset[int]().union(*(self.uses(kid, at + 2) for kid in kids)) - {at, at + 1}
            case Absurd(by):
                return _numbers((by,))
            case Leaf(payload, by_all):
                assert not isinstance(payload, Events)
                return _numbers(by_all)
        own = range(at, at + _ADDS[type(t)])
        below = self.uses(t.kid, own.stop)
        return below if self.idle(t, at) else below.difference(own) | _numbers(_shown(t))

    def idle(self, t: _Introduction, at: int) -> bool:
        """Whether nothing below uses what is introduced. A tile has a name, too, which paths may use."""
        own = range(at, at + _ADDS[type(t)])
        return not isinstance(t, Tile) and self.uses(t.kid, own.stop).isdisjoint(own)


def _shown(t: _Introduction) -> Sequence[Sum]:
    """The sums of an introduction itself."""
    if isinstance(t, Instance):
        return ()
    return (t.by,) if isinstance(t.by, Sum) else t.by


def _numbers(some: Sequence[Sum]) -> frozenset[int]:
    return frozenset(i for by in some for i, _ in by.multipliers)


def _renumbered(by: Sum, new: Mapping[int, int]) -> Sum:
    return Sum(by.divisor, tuple((new[i], k) for i, k in by.multipliers))


__all__ = ["pruned", "without"]
