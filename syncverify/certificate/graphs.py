"""Proofs for every size as plain data: the graphs of decisions that an exploration came to."""

from __future__ import annotations

from typing import Any

from syncverify.certificate import sums
from syncverify.checker.explore.graph import Graph, Node, Settled
from syncverify.checker.explore.lattice import substitution
from syncverify.model.terms import Space
from syncverify.sizes import Sized


def written(found: Sized) -> dict[str, Any]:
    """A proof of ``sizes.prove`` as plain data."""
    spaces = [n.path.space for g in found.graphs for n in g.nodes if n.path is not None]
    out: dict[str, Any] = {"kind": "sizes"}
    if spaces and spaces[0].forgotten:
        out["any_turn"] = spaces[0].forgets
    return {**out, "systems": [_graph(g, spaces[0] if spaces else Space()) for g in found.graphs]}


def rotates(found: Sized) -> bool:
    """Whether a proof has states that stand for others at other places of a ring: there is no word for it."""
    return any(g.rotates for g in found.graphs) or any(rotates(p) for _, p in found.parts)


def _graph(g: Graph, space: Space) -> dict[str, Any]:
    return {
        "splits": [[cls, list(parts)] for cls, parts in g.splits],
        **({"asks_last": True} if g.asks_last else {}),
        "nodes": [_node(g, n, space) for n in g.nodes],
    }


def _node(g: Graph, n: Node, space: Space) -> dict[str, Any]:
    out: dict[str, Any] = {"is": n.settled.name.lower(), "after": n.parent}
    if n.answer is not None:
        out["answer"] = n.answer
    match n.settled:
        case Settled.ASKED:
            assert n.question is not None
            asked = {**out, "by": n.asker, "question": sums.question(space, n.question)}
            return asked if n.path is None else {**asked, "state": sums.state(n.rows, n.path)}
        case Settled.COVERED:
            target = g.nodes[n.target]
            found = substitution(target.rows, n.rows)
            assert found is not None
            names = sums.order(n.rows)
            return {
                **out,
                "by": n.target,
                **({"less": True} if n.less >= 0 else {}),
                "as": [sums.plain(found[a], names) for a in sums.order(target.rows)],
            }
        case Settled.WIDENED:
            names = sums.order(sums.replaced(dict(n.found), r) for r in n.rows)
            found = dict(n.found)
            made = [a for a, s in n.found if s != (0, ((a, 1),))]
            facts = sums.needed(space, n.rows, n.facts)
            told = sums.order([*n.rows, *facts])
            pairs = sums.products(space, [*made, *(a for a in told if a not in made)], names)
            pairs = {a: f for a, f in pairs.items() if a in told and a not in names}
            new = [a for a in made if a not in pairs]
            atoms = [*new, *names, *pairs]
            return {
                **out,
                "registers": [sums.plain(r, atoms) for r in n.rows],
                "facts": [sums.plain(s, atoms) for s in facts],
                "as": [sums.plain(found[a], names) for a in new],
                **({"less": n.less} if n.less >= 0 else {}),
                **({"products": [sorted(map(atoms.index, f)) for f in pairs.values()]} if pairs else {}),
            }
        case _:
            return {**out, "events": n.events}


__all__ = ["written"]
