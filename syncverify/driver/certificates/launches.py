"""The launches that a proof for every size is about."""

from __future__ import annotations

from typing import Any

from syncverify.checker.kernel.exact.data import RejectedError
from syncverify.checker.prover.parametric.strategy import Problem
from syncverify.ir.expr import evaluate
from syncverify.symbolic.context import SymbolicContext, SymbolSplit, UndecidedBranch
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.protocol import SymbolicSystem


def some_end(paths: list[PathCondition], graphs: list[Any], where: str) -> None:
    """Some launch must be there at which no assertion of the kernel fails."""
    met = [{n["is"] for n in g["nodes"]} for g in graphs]
    short = [p for p, kinds in zip(paths, met, strict=True) if "stopped" in kinds and "ended" not in kinds]
    if paths and all(any(p is x for x in short) for p in paths):
        raise RejectedError(where, "an assertion of the kernel fails for all sizes")


def starts(problem: Problem, space: SymbolicContext) -> list[tuple[PathCondition, list[SymbolicSystem]]]:
    """All launches: the paths that the facts leave, each with its systems."""
    for name, (low, high) in problem.sizes.items():
        space.path.sizes[name] = space.symbol(name, low, high, frozenset({name}))
    out: list[tuple[PathCondition, list[SymbolicSystem]]] = []
    work = [(space.path, 0)]
    while work:
        path, i = work.pop()
        space.path = path
        try:
            if i == len(problem.facts):
                out.append((path, list(problem.systems(dict(path.sizes), space))))
            elif evaluate(problem.facts[i], {**problem.fixed, **path.sizes}):
                work.append((path, i + 1))
        except ZeroDivisionError:
            continue
        except SymbolSplit as r:
            path.substitute(r.atom, r.c, r.parts)
            work.append((path, i))
        except UndecidedBranch as o:
            other = path.fork()
            path.assume(o.c, o.parts)
            other.assume(-o.c - 1, negated(o.parts))
            work += [(p, i) for p in (other, path) if not p.dead]
    return out
