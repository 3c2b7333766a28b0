"""Distances never exceed the hops of a path that the kernel accepts; what cannot arrive has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from syncverify.checker.kernel.hops import Graph, Path
from syncverify.checker.kernel.obligations import Either, Owed, Reaches, owed
from syncverify.checker.kernel.proof import Along
from syncverify.checker.kernel.protocol import Kind, Position, Protocol
from syncverify.checker.kernel.trees import Leaf, Tree
from syncverify.checker.prover.protocols.alike import _kids
from syncverify.checker.prover.protocols.distances import Distances, may_precede, place
from syncverify.checker.prover.protocols.prove import search
from tests.checker.kernel.families import cluster, persistent, plain, tensor_core


def paths(t: Tree) -> Iterator[tuple[Path, bool]]:
    """The paths of a tree, and whether they lead from the second of a pair to the first."""
    if isinstance(t, Leaf) and isinstance(t.payload, Along):
        yield t.payload.path, t.payload.reverse
    for kid in _kids(t):
        yield from paths(kid)


def goal_of(o: Owed, reverse: bool) -> Reaches:
    if isinstance(o.goal, Either):
        return o.goal.back if reverse else o.goal.forth
    assert isinstance(o.goal, Reaches)
    return o.goal


@pytest.mark.parametrize("family", [plain, persistent, cluster, tensor_core])
def test_a_path_has_as_many_hops_as_the_distance_at_least(family: Callable[[], Protocol]) -> None:
    p = family()
    proof = search(p)
    g = Graph(p, proof.shift)
    distances = Distances(g)
    seen = 0
    for o in owed(g, proof.end):
        for path, reverse in paths(proof.trees[o.key]) if o.key in proof.trees else ():
            goal = goal_of(o, reverse)
            start = place(goal.start.site, goal.start.half, ready=not distances.fences(goal))
            assert distances.to(goal)[start] <= len(path)
            seen += 1
    assert seen


def test_nothing_leads_back_to_a_place_before_all_loops() -> None:
    g = Graph(plain(), {})
    (waits, *_) = (i for i, s in enumerate(g.sites) if s.op.kind is Kind.WAIT)
    first, loop = Position(0, False, 0, False, 0), g.sites[waits].position
    assert may_precede(first, loop)
    assert not may_precede(loop, first)
    assert may_precede(loop, loop), "of the turn before"
