"""Proofs for every size as plain data: the graphs of decisions that an exploration came to."""

from __future__ import annotations

from typing import Any

from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.checker.prover.reach.domain.affine_sets import substitution
from syncverify.checker.prover.reach.graph import Node, NodeStatus, ReachabilityGraph
from syncverify.driver.certificates import affine_rows
from syncverify.symbolic.context import SymbolicContext


def to_plain(found: ParametricResult) -> dict[str, Any]:
    """A proof of ``sizes.prove`` as plain data."""
    spaces = [n.path.space for g in found.graphs for n in g.nodes if n.path is not None]
    out: dict[str, Any] = {"kind": "sizes"}
    if spaces and spaces[0].forgotten:
        out["any_turn"] = spaces[0].forgets
    return {**out, "systems": [_graph(g, spaces[0] if spaces else SymbolicContext()) for g in found.graphs]}


def rotates(found: ParametricResult) -> bool:
    """Whether a proof has states that stand for others at other places of a ring: there is no word for it."""
    return any(g.rotates for g in found.graphs) or any(rotates(p) for _, p in found.parts)


def _graph(g: ReachabilityGraph, space: SymbolicContext) -> dict[str, Any]:
    return {
        "splits": [[cls, list(parts)] for cls, parts in g.splits],
        **({"asks_last": True} if g.asks_last else {}),
        "nodes": [_node(g, n, space) for n in g.nodes],
    }


def _node(g: ReachabilityGraph, n: Node, space: SymbolicContext) -> dict[str, Any]:
    out: dict[str, Any] = {"is": n.settled.name.lower(), "after": n.parent}
    if n.answer is not None:
        out["answer"] = n.answer
    match n.settled:
        case NodeStatus.ASKED:
            assert n.question is not None
            asked = {**out, "by": n.asker, "question": affine_rows.question(space, n.question)}
            return asked if n.path is None else {**asked, "state": affine_rows.state(n.rows, n.path)}
        case NodeStatus.COVERED:
            target = g.nodes[n.target]
            found = substitution(target.rows, n.rows)
            assert found is not None
            names = affine_rows.order(n.rows)
            return {
                **out,
                "by": n.target,
                **({"less": True} if n.less >= 0 else {}),
                "as": [affine_rows.plain(found[a], names) for a in affine_rows.order(target.rows)],
            }
        case NodeStatus.WIDENED:
            names = affine_rows.order(affine_rows.replaced(dict(n.found), r) for r in n.rows)
            found = dict(n.found)
            made = [a for a, s in n.found if s != (0, ((a, 1),))]
            facts = affine_rows.needed(space, n.rows, n.facts)
            told = affine_rows.order([*n.rows, *facts])
            pairs = affine_rows.products(space, [*made, *(a for a in told if a not in made)], names)
            pairs = {a: f for a, f in pairs.items() if a in told and a not in names}
            new = [a for a in made if a not in pairs]
            atoms = [*new, *names, *pairs]
            return {
                **out,
                "registers": [affine_rows.plain(r, atoms) for r in n.rows],
                "facts": [affine_rows.plain(s, atoms) for s in facts],
                "as": [affine_rows.plain(found[a], names) for a in new],
                **({"less": n.less} if n.less >= 0 else {}),
                **({"products": [sorted(map(atoms.index, f)) for f in pairs.values()]} if pairs else {}),
            }
        case _:
            return {**out, "events": n.events}


__all__ = ["to_plain"]
