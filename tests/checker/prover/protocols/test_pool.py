"""What is shown of changes of registers is a leaf alone, as the kernel takes it."""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.linear import Sum
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.kernel.ranks import Around, growing
from syncverify.checker.kernel.trees import Instance, Leaf
from syncverify.checker.prover.protocols.prove import bare, chosen, prove
from syncverify.checker.prover.protocols.rank_search import requests
from tests.checker.kernel.families import persistent, register_pool


def with_pool() -> Protocol:
    """Tiles of any trip counts, whose loader gives registers back."""
    tiles, (few, many), moved = persistent(), (r.body[0] for r in register_pool().roles), []
    for role, change in zip(tiles.roles, (few, many), strict=True):
        moved.append(replace(role, body=((*change[:1],), *role.body)))  # type: ignore[index]
    return replace(tiles, roles=tuple(moved), registers=register_pool().registers)


def test_a_tree_of_registers_is_its_leaf() -> None:
    p = with_pool()
    proof = prove(p).proof
    g = Graph(p, proof.shift, Policy.PRACTICAL)
    asked = requests(g)
    around = [o for o in growing(g, proof.rank) if isinstance(o.goal, Around) and asked.get(o.key)]
    assert around
    wrapped = dict(proof.trees)
    for o in around:
        one = chosen(o, asked)
        leaf = proof.trees[o.key]
        assert one is not None and isinstance(leaf, Leaf)
        tree = Instance(0, p.facts[0], leaf)
        assert bare(p, one, tree) == leaf
        needs = replace(leaf, by=(Sum(1, ((10_000, 1),)), *leaf.by[1:]))
        assert bare(p, one, Instance(0, p.facts[0], needs)) == Instance(0, p.facts[0], needs)
        wrapped[o.key] = tree
    assert isinstance(accept(p, proof), Accepted)
    assert isinstance(accept(p, replace(proof, trees=wrapped)), Rejected)
