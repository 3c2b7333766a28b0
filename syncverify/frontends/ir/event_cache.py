"""When an event whose places move with a block group may be kept: see docs/block_groups.md, "Members of a
block group".

A place ``k t + c`` in global memory is told as the number c, whatever is known of t. So an event may be kept
where its registers hold numbers and sums over t alone, and no sum over t is divided, compared or chosen by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from syncverify.checker.prover.modular.group_positions import multiples
from syncverify.frontends.ir.code_text import Vec, symbolic
from syncverify.ir.expr import Binary, Expr, Int, Unary, Var, children, names
from syncverify.symbolic.context import AffineTerm

_STRAIGHT = frozenset("+-*")


def bent(exprs: Iterable[Expr]) -> frozenset[str]:
    """The names that expressions divide, compare or choose by."""
    found: set[str] = set()
    work = list(exprs)
    while work:
        e = work.pop()
        if isinstance(e, Binary | Unary) and e.op in _STRAIGHT:
            work += children(e)
        elif not isinstance(e, Int | Var):
            found |= names(e)
    return frozenset(found)


def keeps(key: Any, values: Sequence[Any], block_group: Any, bends: Iterable[Any]) -> bool:
    """Whether the event of a key may be kept. ``values``: of its operands; ``block_group``: the number of the
    block group, or of the cluster, by which the place moves; ``bends``: registers of names that are bent."""
    if not isinstance(block_group, AffineTerm) or any(map(symbolic, bends)):
        return False
    return multiples((x for x in _flat((key, values)) if isinstance(x, AffineTerm)), block_group)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for x in value:
            yield from _flat(x)
    elif isinstance(value, Vec):
        yield from _flat(value.lanes)
    else:
        yield value


__all__ = ["bent", "keeps"]
