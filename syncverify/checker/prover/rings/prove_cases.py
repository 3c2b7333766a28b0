"""Finds proofs of kernels by cases, and writes them down. Not trusted: ``cases`` looks at each again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.linear import Term
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import Loop, Protocol, Tiles
from syncverify.checker.prover.protocols import NotFoundError, prove, written
from syncverify.checker.prover.protocols.multipliers import absurd, entails
from syncverify.checker.prover.protocols.words import invariants
from syncverify.checker.prover.rings.cases import MOST_SIGNS, Cases, KernelProof, Nothing, Parted
from syncverify.checker.prover.rings.extract import elections
from syncverify.checker.prover.rings.fixed import with_fixed
from syncverify.checker.prover.rings.linear import Lin, plain_form
from syncverify.checker.prover.rings.linear import num as lin_number
from syncverify.checker.prover.rings.program import Case
from syncverify.checker.prover.rings.to_protocol import Names, protocol_of
from syncverify.ir.nodes import Kernel


def prove_kernel(kernel: Kernel, given: Mapping[str, int], policy: Policy = Policy.PRACTICAL) -> KernelProof:
    """A proof for every value of the parameters that ``given`` leaves open.

    OutsideError where the kernel is no protocol, NotFoundError where no proof was found.
    """
    kernel = with_fixed(kernel, given)
    return KernelProof(tuple((lanes, _proved(kernel, lanes, (), policy)) for lanes in elections(kernel)))


def _proved(kernel: Kernel, lanes: tuple[int, ...], sizes: tuple[Lin, ...], policy: Policy) -> Cases:
    names = Names()
    p = protocol_of(kernel, Case(sizes, lanes), names)
    by = absurd(p.facts)
    if by is not None:
        return Nothing(by)
    sign = next((f for f in _lengths(p) if not entails(p.facts, f)), None)
    if sign is None or len(sizes) >= MOST_SIGNS:
        return prove(p, policy).proof
    at = names.back(sign)
    if at is None or entails(p.facts, -sign - 1):
        return prove(p, policy).proof
    return Parted(
        at,
        _proved(kernel, lanes, (*sizes, at), policy),
        _proved(kernel, lanes, (*sizes, lin_number(-1) - at), policy),
    )


def _lengths(p: Protocol) -> list[Term]:
    """Numbers of steps and of tiles, which may be negative."""
    found = [b.hi - b.lo for r in p.roles for b in r.body if isinstance(b, Loop)]
    found += [b.count for r in p.roles for b in r.body if isinstance(b, Tiles)]
    return list(dict.fromkeys(found))


def to_plain(proof: KernelProof) -> list[Any]:
    """The proof as a certificate holds it."""
    return [[list(lanes), _plain(cases)] for lanes, cases in proof.cases]


def _plain(cases: Cases) -> list[Any]:
    match cases:
        case Parted(at, yes, no):
            return ["parted", plain_form(at), _plain(yes), _plain(no)]
        case Nothing(by):
            return ["nothing", [by.divisor, *([i, m] for i, m in by.multipliers)]]
        case Proof():
            return ["proof", {k: v for k, v in written.proof(cases).items() if k != "format"}]


def in_words(kernel: Kernel, given: Mapping[str, int], proof: KernelProof) -> tuple[str, ...]:
    """The invariant of the rings that was proved, of the first case that has launches."""
    kernel = with_fixed(kernel, given)
    for lanes, cases in proof.cases:
        sizes: tuple[Lin, ...] = ()
        while isinstance(cases, Parted):
            sizes, cases = (*sizes, cases.form), cases.yes
        if isinstance(cases, Proof):
            return invariants(protocol_of(kernel, Case(sizes, lanes), Names()), cases)
    return ()


__all__ = ["NotFoundError", "in_words", "prove_kernel", "to_plain"]
