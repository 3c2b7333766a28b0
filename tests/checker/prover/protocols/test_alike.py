"""Trees that are found for one operation are tried for those that look the same, in whatever roles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.obligations import Owed
from syncverify.checker.kernel.protocol import Kind, Loop, Op, Protocol
from syncverify.checker.kernel.trees import Tree
from syncverify.checker.prover.protocols.alike import Alike
from syncverify.checker.prover.protocols.prove import search
from syncverify.checker.prover.protocols.search import Search
from tests.checker.kernel.families import plain


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
