"""Proofs for every size as plain data: the graphs of decisions that an exploration came to."""

from __future__ import annotations

from typing import Any

from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.checker.prover.reach.domain.affine_sets import substitution
from syncverify.checker.prover.reach.graph import Node, NodeStatus, ReachabilityGraph
from syncverify.driver.certificates import affine_rows
from syncverify.symbolic.context import SymbolicContext

#: What became of a node, in the words of the file format.
_WORDS = {
    NodeStatus.SPLIT: "asked",
    NodeStatus.COVERED: "covered",
    NodeStatus.WIDENED: "widened",
    NodeStatus.TERMINAL: "ended",
    NodeStatus.ASSUMED_UNREACHABLE: "stopped",
    NodeStatus.ERROR: "failed",
}


def to_plain(found: ParametricResult) -> dict[str, Any]:
    """A proof of ``sizes.prove`` as plain data."""
    spaces = [n.path.space for g in found.graphs for n in g.nodes if n.path is not None]
    out: dict[str, Any] = {"kind": "sizes"}
    if spaces and spaces[0].havocked:
        out["any_turn"] = spaces[0].havocs
    return {**out, "systems": [_graph(g, spaces[0] if spaces else SymbolicContext()) for g in found.graphs]}


def rotates(found: ParametricResult) -> bool:
    """Whether a proof has states that represent others at other places of a ring: there is no word for it."""
    return any(g.rotates for g in found.graphs) or any(rotates(p) for _, p in found.parts)


def _graph(g: ReachabilityGraph, space: SymbolicContext) -> dict[str, Any]:
    return {
        "splits": [[cls, list(parts)] for cls, parts in g.splits],
        **({"asks_last": True} if g.asks_last else {}),
        "nodes": [_node(g, n, space) for n in g.nodes],
    }


def _node(g: ReachabilityGraph, n: Node, space: SymbolicContext) -> dict[str, Any]:
    out: dict[str, Any] = {"is": _WORDS[n.status], "after": n.parent}
    if n.branch_taken is not None:
        out["answer"] = n.branch_taken
    match n.status:
        case NodeStatus.SPLIT:
            assert n.branch_condition is not None
            asked = {
                **out,
                "by": n.branching_class,
                "question": affine_rows.question(space, n.branch_condition),
            }
            return asked if n.path is None else {**asked, "state": affine_rows.state(n.valuation, n.path)}
        case NodeStatus.COVERED:
            return {**out, **_covered(n, g.nodes[n.target])}
        case NodeStatus.WIDENED:
            return {**out, **_widened(n, space)}
        case _:
            return {**out, "events": n.events}


def _covered(n: Node, target: Node) -> dict[str, Any]:
    """How the values of a node are among those of an earlier one."""
    found = substitution(target.valuation, n.valuation)
    assert found is not None
    names = affine_rows.order(n.valuation)
    return {
        "by": n.target,
        **({"less": True} if n.less >= 0 else {}),
        "as": [affine_rows.plain(found[a], names) for a in affine_rows.order(target.valuation)],
    }


def _widened(n: Node, space: SymbolicContext) -> dict[str, Any]:
    """What replaces a node: its registers, what is known of them, and its own values among them."""
    names = affine_rows.order(affine_rows.replaced(dict(n.substitution), r) for r in n.valuation)
    found = dict(n.substitution)
    made = [a for a, s in n.substitution if s != (0, ((a, 1),))]
    facts = affine_rows.needed(space, n.valuation, n.constraints)
    used_rows = affine_rows.order([*n.valuation, *facts])
    pairs = affine_rows.products(space, [*made, *(a for a in used_rows if a not in made)], names)
    pairs = {a: f for a, f in pairs.items() if a in used_rows and a not in names}
    new = [a for a in made if a not in pairs]
    atoms = [*new, *names, *pairs]
    return {
        "registers": [affine_rows.plain(r, atoms) for r in n.valuation],
        "facts": [affine_rows.plain(s, atoms) for s in facts],
        "as": [affine_rows.plain(found[a], names) for a in new],
        **({"less": n.less} if n.less >= 0 else {}),
        **({"products": [sorted(map(atoms.index, f)) for f in pairs.values()]} if pairs else {}),
    }


__all__ = ["to_plain"]
