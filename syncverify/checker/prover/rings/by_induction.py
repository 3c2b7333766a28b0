"""Proofs that the kernel accepts, for problems of any front end: agents are read by induction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.checker.induction.claims import Claim
from syncverify.checker.induction.program import parameters
from syncverify.checker.induction.quotients import Product, Quotient, UnnamedSizeError, with_size
from syncverify.checker.induction.stepping import NotReadError, SizeCaseError
from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.hops import MEETINGS, Graph
from syncverify.checker.kernel.linear import RejectedError
from syncverify.checker.kernel.obligations import observed
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.open_launches import starts, symbols
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.protocols import NotFoundError, prove
from syncverify.checker.prover.protocols.prove import Proved, carried, waits_for_phases
from syncverify.checker.prover.protocols.readings import Reading, protocol_of
from syncverify.checker.prover.protocols.registers import Sampler
from syncverify.checker.prover.protocols.words import invariants
from syncverify.model.events import ThreadClass
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.inequalities import Parts, negated
from syncverify.symbolic.path_condition import PathCondition

#: Cases of the sizes of one system.
MOST_CASES = 12
#: Quotients of sizes that get a name, of one system.
MOST_QUOTIENTS = 24


@dataclass(frozen=True, slots=True)
class Shown:
    """One protocol with a proof that the kernel accepts, and how it was read."""

    reading: Reading
    proof: Proof
    accepted: Accepted

    @property
    def protocol(self) -> Protocol:
        return self.reading.protocol

    def words(self) -> tuple[str, ...]:
        return invariants(self.protocol, self.proof)


@dataclass(frozen=True, slots=True)
class SizeCases:
    """Sizes in two cases: ``c`` plus a sum of sizes with factors is at least 0, or below. None: no launch."""

    c: int
    parts: tuple[tuple[str, int], ...]
    yes: Cases | None
    no: Cases | None


@dataclass(frozen=True, slots=True)
class NamedCases:
    """The same with a name for a quotient or a product of sizes."""

    size: Quotient | Product
    inner: Cases | None


#: What is read or shown of one system: of all its launches, or by cases.
Cases = Reading | Shown | SizeCases | NamedCases


@dataclass(frozen=True, slots=True)
class InductionProof:
    """What was shown of a kernel: for each problem that it poses, the cases of each system; None for one that
    stays undecided, where the check of the kernel has another. ``written``: as a certificate has it, once it
    was written.
    """

    problems: tuple[tuple[Cases, ...] | None, ...]
    written: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    def words(self) -> tuple[str, ...]:
        """The invariants that were proved, each once."""
        some = (w for p in self.problems for system in p or () for x in leaves(system) for w in x.words())
        return tuple(dict.fromkeys(some))


def protocols(problem: Problem, policy: Policy = Policy.PRACTICAL) -> list[Protocol]:
    """The protocols that together stand for every launch, each once; NotReadError with the reason where there
    are none. Clusters that hand on through global memory alone are protocols of their own.
    """
    return unique([x.protocol for system in readings(problem, policy) for x in leaves(system)])


def unique(some: Sequence[Protocol]) -> list[Protocol]:
    """Each protocol once."""
    return [p for i, p in enumerate(some) if p not in some[:i]]


def leaves(cases: Cases | None) -> Iterator[Any]:
    """The readings, or what was shown of them, of all cases."""
    if isinstance(cases, SizeCases):
        yield from leaves(cases.yes)
        yield from leaves(cases.no)
    elif isinstance(cases, NamedCases):
        yield from leaves(cases.inner)
    elif cases is not None:
        yield cases


def readings(problem: Problem, policy: Policy = Policy.PRACTICAL) -> list[Cases]:
    """What is read of each system of every launch. NotReadError with the reason where it is no protocol."""
    space, other = (SymbolicContext(may_havoc=False) for _ in range(2))
    out: list[Cases] = []
    try:
        begun = starts(problem, space, symbols(problem, space))
        again = starts(problem, other, symbols(problem, other))
        for (path, systems), (start, twins) in zip(begun, again, strict=True):
            for system, twin in zip(systems, twins, strict=True):
                claims = partial(Sampler, other, start, twin, problem.sizes.keys())
                one = _System(space, system, claims, policy)
                found = one.cases(path)
                assert found is not None
                out.append(found)
    except (NotConcrete, InputError) as e:
        raise NotReadError(str(e)) from None
    if not out:
        raise NotReadError("no size meets the facts")
    return out


@dataclass(slots=True)
class _System:
    """One system, and how its agents' claims are found."""

    space: SymbolicContext
    system: Any
    sampler: Callable[[], Sampler]
    policy: Policy
    many: int = 0
    quotients: int = 0
    known: dict[ThreadClass, Claim] = field(default_factory=dict)  # what held of classes in some case

    def cases(self, path: PathCondition) -> Cases | None:
        """The readings on a path, one for each case of the sizes that agents distinguish."""
        if path.dead:
            return None
        self.many += 1
        if self.many > 2 * MOST_CASES:
            raise NotReadError("too many cases of the sizes")
        self.space.path = path
        names = parameters(self.space, path)
        try:
            claims = self.sampler()
            claims.naming = self.quotients < MOST_QUOTIENTS
            claims.before = self.known
            found = protocol_of(self.space, path.fork(), self.system, claims, self.policy)
            asked = met_by_sizes(found.protocol, names)
            if asked is not None:
                raise SizeCaseError(*asked)
            return found
        except UnnamedSizeError as q:
            self.quotients += 1
            self.many -= 1
            named_path = with_size(self.space, path, names, q.size)
            return NamedCases(q.size, self.cases(named_path))
        except SizeCaseError as e:
            sides = []
            for c, parts in ((e.c, e.parts), (-e.c - 1, negated(e.parts))):
                case = path.fork()
                self.space.path = case
                case.assume_branch(c, parts)
                sides.append(case)
            named = tuple((names[a], k) for a, k in e.parts)
            # what holds of many sizes may hold of few
            order = sorted((0, 1), key=lambda i: len(sides[i].defs))
            found_of = {i: self.cases(sides[i]) for i in order}
            return SizeCases(e.c, named, found_of[0], found_of[1])


def holds_strictly(cases: Sequence[Cases]) -> bool:
    """Whether the proofs of these cases show what strict mode asks, too: then there is nothing to warn of."""
    return all(_strictly(x) for one in cases for x in leaves(one))


def _strictly(x: Shown) -> bool:
    """Whether the trees of a proof are those of one in strict mode."""
    p = x.reading.strict()
    if p is None:
        return False
    try:
        proof = carried(x.proof, p, Policy.STRICT)
    except (RejectedError, LookupError):  # the protocols have other sites
        return False
    answer = accept(p, proof, Policy.STRICT)
    # what comes last is that phases are waited for, of which the proof has no trees
    last = {o.key for o in observed(Graph(p, proof.shift, Policy.STRICT))}
    all_else = isinstance(answer, Accepted) or answer.obligation in last
    return all_else and waits_for_phases(p, proof.shift)


def met_by_sizes(p: Protocol, names: Mapping[int, str]) -> tuple[int, Parts] | None:
    """What sizes decide of a barrier outside loops: it has one generation or none, which no one end says."""
    atoms = {name: a for a, name in names.items()}
    for part in (x for r in p.roles for x in r.body if isinstance(x, tuple)):
        for op in part:
            for g in op.guard if op.kind in MEETINGS else ():
                if g.parts and not g.functions() and g.names() <= atoms.keys():
                    return g.const, tuple(sorted((atoms[str(x)], k) for x, k in g.parts.items()))
    return None


def by_induction(problem: Problem, policy: Policy) -> list[Shown]:
    """Proofs for every size, of each protocol once. NotReadError where the kernel is no protocol,
    NotFoundError where no proof was found.
    """
    found: list[Shown] = [x for system in shown_cases(problem, policy) for x in leaves(system)]
    return [x for i, x in enumerate(found) if x.protocol not in [y.protocol for y in found[:i]]]


def shown_cases(problem: Problem, policy: Policy) -> list[Cases]:
    """The same, by systems and cases of the sizes."""
    known: list[tuple[Protocol, Proved]] = []

    def proved(p: Protocol) -> Proved:
        found = next((x for q, x in known if q == p), None)
        if found is None:
            found = prove(p, policy)
            known.append((p, found))
        return found

    def shown(x: Cases | None) -> Cases | None:
        if isinstance(x, SizeCases):
            return SizeCases(x.c, x.parts, shown(x.yes), shown(x.no))
        if isinstance(x, NamedCases):
            return NamedCases(x.size, shown(x.inner))
        if not isinstance(x, Reading):
            return x
        found = proved(x.protocol)
        return Shown(x, found.proof, found.accepted)

    return [y for x in readings(problem, policy) for y in (shown(x),) if y is not None]


__all__ = [
    "Cases",
    "InductionProof",
    "NotFoundError",
    "NotReadError",
    "NamedCases",
    "SizeCases",
    "Shown",
    "by_induction",
    "holds_strictly",
    "protocols",
    "shown_cases",
    "starts",
]
