"""A proof of one mode as one of the other mode, which may ask of more bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Rejected, accept
from syncverify.checker.kernel.protocol import Group, Kind, Loop, Op, Protocol
from syncverify.checker.prover.protocols import prove
from syncverify.checker.prover.protocols.prove import carried
from tests.checker.kernel.families import plain


def with_loads(p: Protocol, times: int, *, fenced: bool = True) -> Protocol:
    """The protocol whose loads are of so many pieces; ``fenced``: with the fences behind them, else with what
    is none.
    """

    def op(x: Op) -> Op:
        if x.kind is Kind.FENCE and not fenced:
            return Op(Kind.COMMIT, group=Group.BULK)
        return replace(x, touches=x.touches * times) if x.kind is Kind.ACCESS else x

    def body(x: Any) -> Any:
        return replace(x, body=tuple(map(op, x.body))) if isinstance(x, Loop) else x

    return replace(p, roles=tuple(replace(r, body=tuple(map(body, r.body))) for r in p.roles))


def test_more_bytes_of_an_instruction_are_ordered_as_its_others() -> None:
    p = plain()
    proof = prove(p, seeds=(1,)).proof
    more = with_loads(p, 2)
    assert isinstance(accept(more, proof, Policy.STRICT), Rejected)
    found = carried(proof, more, Policy.STRICT)
    assert len(found.trees) > len(proof.trees)
    answer = accept(more, found, Policy.STRICT)  # a practical proof does not show that phases are waited for
    assert isinstance(answer, Rejected) and answer.obligation.startswith("observed ")


def test_what_is_carried_is_judged() -> None:
    p = plain()
    wrong = with_loads(p, 2, fenced=False)
    found = carried(prove(p, seeds=(1,)).proof, wrong, Policy.STRICT)
    assert isinstance(accept(wrong, found, Policy.STRICT), Rejected)
