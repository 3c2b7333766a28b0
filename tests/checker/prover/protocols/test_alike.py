"""Trees that are found for one operation are tried for those that look the same, in whatever roles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.hops import Graph, Half, Same, Step
from syncverify.checker.kernel.linear import ZERO
from syncverify.checker.kernel.obligations import Owed
from syncverify.checker.kernel.proof import Along
from syncverify.checker.kernel.protocol import Kind, Loop, N, Op, Protocol, Ring
from syncverify.checker.kernel.trees import Leaf, Tree
from syncverify.checker.prover.protocols.alike import Alike
from syncverify.checker.prover.protocols.prove import search
from syncverify.checker.prover.protocols.search import Search
from tests.checker.kernel.families import FENCE, STEPS, S, arrive, copy, made, plain, wait
from tests.checker.kernel.families import load as read


def unlike() -> Protocol:
    """Two consumers of one ring, of which the second does something more in each turn."""
    p = plain(consumers=2)
    *others, last = p.roles
    (loop,) = last.body
    assert isinstance(loop, Loop)
    more = replace(loop, body=(Op(Kind.NOTHING), *loop.body))
    return replace(p, roles=(*others, replace(last, body=(more,))))


def searched(p: Protocol, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The obligations for which a tree is searched, but for ranks; the proof is accepted."""
    keys: list[str] = []
    tree = Search.tree

    def noted(self: Search, o: Owed) -> Tree:
        keys.append(o.key)
        return tree(self, o)

    monkeypatch.setattr(Search, "tree", noted)
    assert isinstance(accept(p, search(p)), Accepted)
    return [k for k in keys if not k.startswith("rank")]


def test_roles_that_differ_elsewhere_share_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    p = unlike()
    alike = Alike.of(p, Graph(p, {}))
    assert alike.family[-1] != alike.family[-2]
    shared = searched(p, monkeypatch)
    monkeypatch.setattr(Alike, "far", lambda _, o: o.key)  # of one obligation alone
    assert len(shared) < len(searched(p, monkeypatch))


def test_the_kth_operation_of_a_look_stands_for_the_kth() -> None:
    p = unlike()
    g = Graph(p, {})
    alike = Alike.of(p, g)
    for i, s in enumerate(g.sites):
        assert alike.at[s.role, alike.look[i], alike.nth[i]] == i


def exchanging() -> Protocol:
    """Two blocks: each loader copies to both, and each reader releases to both, its own block first."""
    ranks = (0, 1)
    rings = {f"full{r}": Ring(S, 1) for r in ranks} | {f"empty{r}": Ring(S, 2) for r in ranks}
    roles: list[tuple[str, tuple[object, ...], int]] = []
    for r in ranks:
        order = (r, 1 - r)
        copies = tuple(copy(f"full{q}", N, f"buf{r}{q}") for q in order)
        load = (wait(f"empty{r}", N, 1), arrive(f"full{r}", N, bytes=4), *copies)
        reads = tuple(read(f"buf{q}{r}", N) for q in ranks)
        math = (wait(f"full{r}", N), *reads, FENCE, *(arrive(f"empty{q}", N) for q in order))
        roles += [(f"load{r}", (Loop(ZERO, STEPS, load),), 1), (f"math{r}", (Loop(ZERO, STEPS, math),), 1)]
    return made(roles, rings, {f"buf{q}{r}": S for q in ranks for r in ranks}, "S N", (S - 1, STEPS))


def test_blocks_that_change_places_share_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    p = exchanging()
    shared = searched(p, monkeypatch)
    monkeypatch.setattr(Alike, "renamed_rings", lambda *_: None)  # rings keep their names
    assert len(shared) < len(searched(p, monkeypatch))


def test_a_way_renames_the_rings_of_operations_that_look_the_same() -> None:
    """Where blocks change places, the release to the first block becomes one to the second."""
    p = exchanging()
    g = Graph(p, {})
    alike = Alike.of(p, g)
    full = [g.of(f"full{r}", (Kind.ARRIVE,))[0] for r in (0, 1)]
    waits = [g.of(f"full{r}", (Kind.WAIT,))[0] for r in (0, 1)]
    released = [[i for i in g.of(f"empty{q}", (Kind.ARRIVE,)) if g.sites[i].role == 3] for q in (0, 1)]
    freed = [[i for i in g.of(f"empty{q}", (Kind.ARRIVE,)) if g.sites[i].role == 1] for q in (0, 1)]
    path = tuple((Same(), Step(i, Half.OUT, ZERO, ZERO)) for i in (waits[0], freed[0][0]))
    (way, *_) = alike.ways((full[0],), (full[1],), Leaf(Along(path), ()))
    assert way == {full[0]: full[1], waits[0]: waits[1], freed[0][0]: released[1][0]}
