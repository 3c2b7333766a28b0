"""Proofs that the kernel accepts, for problems of any front end: agents are read by induction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.checker.induction.program import protocol_of
from syncverify.checker.induction.stepping import NotReadError, SizeCaseError
from syncverify.checker.kernel import Accepted, Proof, Protocol
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.protocols import NotFoundError, prove
from syncverify.checker.prover.protocols.registers import Sampler
from syncverify.checker.prover.protocols.words import invariants
from syncverify.checker.prover.reach.analysis import split_on_preconditions
from syncverify.ir.expr import Expr, evaluate
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.path_condition import PathCondition

#: Cases of the sizes of one system.
MOST_CASES = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """One protocol with a proof that the kernel accepts."""

    protocol: Protocol
    proof: Proof
    accepted: Accepted

    def words(self) -> tuple[str, ...]:
        return invariants(self.protocol, self.proof)


def starts(
    problem: Problem, space: SymbolicContext, sizes: Mapping[str, Any]
) -> list[tuple[PathCondition, Sequence[Any]]]:
    """The paths that the facts leave, with the systems that start on them."""
    path = space.path
    path.sizes.update(sizes)
    out: list[tuple[PathCondition, Sequence[Any]]] = []

    def holds(f: Expr) -> Callable[[], bool]:
        return lambda: bool(evaluate(f, {**problem.fixed, **space.path.sizes}))

    def build() -> bool:
        out.append((space.path, list(problem.systems(dict(space.path.sizes), space))))
        return True

    split_on_preconditions(space, path, [*map(holds, problem.facts), build])
    return out


def protocols(problem: Problem, policy: Policy = Policy.PRACTICAL) -> list[Protocol]:
    """The protocols that together stand for every launch, each once; NotReadError with the reason where there
    are none. Clusters that hand on through global memory alone are protocols of their own.
    """
    space = SymbolicContext()
    sizes = {
        name: space.symbol(name, low, high, frozenset({name})) for name, (low, high) in problem.sizes.items()
    }

    def numbered(values: Mapping[str, int]) -> tuple[SymbolicContext, PathCondition, Sequence[Any]] | None:
        other = SymbolicContext()
        found = starts(problem, other, values)
        return (other, *found[0]) if len(found) == 1 else None

    out: list[Protocol] = []
    try:
        for path, systems in starts(problem, space, sizes):
            for i, system in enumerate(systems):
                out += _cases(space, path, system, partial(Sampler, numbered, i), policy)
    except (NotConcrete, InputError) as e:
        raise NotReadError(str(e)) from None
    if not out:
        raise NotReadError("no size meets the facts")
    return [p for i, p in enumerate(out) if p not in out[:i]]


def _cases(
    space: SymbolicContext, root: PathCondition, system: Any, sampler: Callable[[], Sampler], policy: Policy
) -> list[Protocol]:
    """The protocols of one system: one for each case of the sizes that its agents distinguish."""
    out: list[Protocol] = []
    work = [root]
    while work:
        path = work.pop()
        if len(work) + len(out) > MOST_CASES:
            raise NotReadError("too many cases of the sizes")
        try:
            out.append(protocol_of(space, path.fork(), system, sampler(), policy)[0])
        except SizeCaseError as e:
            for c, parts in ((e.c, e.parts), (-e.c - 1, negated(e.parts))):
                case = path.fork()
                space.path = case
                case.assume_branch(c, parts)
                if not case.dead:
                    work.append(case)
    return out


def by_induction(problem: Problem, policy: Policy) -> list[Shown]:
    """Proofs for every size. NotReadError where the kernel is no protocol, NotFoundError where no proof was
    found.
    """
    return [
        Shown(p, found.proof, found.accepted)
        for p in protocols(problem, policy)
        for found in (prove(p, policy),)
    ]


__all__ = ["NotFoundError", "NotReadError", "Shown", "by_induction", "protocols", "starts"]
