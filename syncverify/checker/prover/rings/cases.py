"""Proofs of kernels: one for each way of electing lanes, and for each sign of a loop's length that matters.

A loop over a negative number of steps does nothing, which no linear sum can say: such sizes are a case of
their own. ``accept_kernel`` looks at every case again, without a search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.linear import RejectedError, Sum, follows
from syncverify.checker.kernel.linear import num as number
from syncverify.checker.kernel.proof import FORMAT, Proof, UnreadableError, read
from syncverify.checker.prover.rings.extract import elections
from syncverify.checker.prover.rings.fixed import with_fixed
from syncverify.checker.prover.rings.linear import Lin, OutsideError, form, plain_form
from syncverify.checker.prover.rings.linear import num as lin_number
from syncverify.checker.prover.rings.program import Case
from syncverify.checker.prover.rings.to_protocol import Names, protocol_of
from syncverify.ir.nodes import Kernel

#: Most signs that are distinguished.
MOST_SIGNS = 4


@dataclass(frozen=True, slots=True)
class Parted:
    """Two cases: the form is at least 0, or it is less."""

    form: Lin
    yes: Cases
    no: Cases


@dataclass(frozen=True, slots=True)
class Nothing:
    """No launch is of this case: its facts contradict each other."""

    by: Sum


Cases = Parted | Nothing | Proof


@dataclass(frozen=True, slots=True)
class KernelProof:
    """Of each way of electing lanes, the cases."""

    cases: tuple[tuple[tuple[int, ...], Cases], ...]

    def proofs(self) -> list[Proof]:
        out: list[Proof] = []
        rest: list[Cases] = [c for _, c in self.cases]
        while rest:
            match rest.pop():
                case Parted(_, yes, no):
                    rest += [yes, no]
                case Proof() as p:
                    out.append(p)
        return out


def accept_kernel(
    kernel: Kernel, given: Mapping[str, int], proof: KernelProof, policy: Policy = Policy.PRACTICAL
) -> Accepted | Rejected:
    """Whether the proof holds for every value of the open parameters."""
    kernel = with_fixed(kernel, given)
    try:
        every = elections(kernel)
        if [lanes for lanes, _ in proof.cases] != every:
            return Rejected("cases", kernel.span, "they are of other elected lanes")
        found = [_accepted(kernel, lanes, (), cases, policy) for lanes, cases in proof.cases]
    except OutsideError as e:
        return Rejected("protocol", kernel.span, f"the kernel is no protocol of rings: {e}")
    wrong = next((f for f in found if isinstance(f, Rejected)), None)
    if wrong is not None:
        return wrong
    right = [f for f in found if isinstance(f, Accepted)]
    shown = dict.fromkeys(a for f in right for a in f.assumptions)
    return Accepted(tuple(shown), sum(f.obligations for f in right))


def _accepted(
    kernel: Kernel, lanes: tuple[int, ...], sizes: tuple[Lin, ...], cases: Cases, policy: Policy
) -> Accepted | Rejected:
    match cases:
        case Parted(at, yes, no):
            first = _accepted(kernel, lanes, (*sizes, at), yes, policy)
            if isinstance(first, Rejected):
                return first
            second = _accepted(kernel, lanes, (*sizes, lin_number(-1) - at), no, policy)
            if isinstance(second, Rejected):
                return second
            return Accepted(
                tuple(a for a in first.assumptions if a in second.assumptions),
                first.obligations + second.obligations,
            )
        case Nothing(by):
            p = protocol_of(kernel, Case(sizes, lanes), Names())
            try:
                follows(p.facts, number(-1), by)
            except RejectedError as e:
                return Rejected("cases", kernel.span, f"a case is left out: {e}")
            return Accepted()
        case Proof():
            return accept(protocol_of(kernel, Case(sizes, lanes), Names()), cases, policy)


# ---------------------------------------------------------------- as plain data


def from_plain(data: Any) -> KernelProof:
    """The proof that plain data is; UnreadableError for what is none."""
    try:
        return KernelProof(tuple((tuple(map(_lane, lanes)), _cases(cases)) for lanes, cases in data))
    except (TypeError, ValueError, InputError, RecursionError) as e:
        raise UnreadableError(str(e)) from None


def _lane(x: Any) -> int:
    if type(x) is not int:
        raise UnreadableError(f"{x!r} is no lane")
    return x


def _cases(data: Any, depth: int = 0) -> Cases:
    match data:
        case ["parted", dict() as told, yes, no] if depth <= MOST_SIGNS:
            found = form(told)
            if plain_form(found) != told:
                raise UnreadableError("a form that is not as such forms are written")
            return Parted(found, _cases(yes, depth + 1), _cases(no, depth + 1))
        case ["nothing", [int() as divisor, *pairs]]:
            return Nothing(Sum(divisor, tuple((i, m) for i, m in pairs)))
        case ["proof", dict() as inner] if "format" not in inner:
            return read({**inner, "format": FORMAT})
    raise UnreadableError("no cases of a proof")


__all__ = ["Cases", "KernelProof", "Nothing", "OutsideError", "Parted", "accept_kernel", "from_plain"]
