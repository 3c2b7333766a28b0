"""Blocks of which one adds up what others store have ranks, in clusters and with registers that move too."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.kernel.hops import Graph
from syncverify.checker.kernel.linear import ZERO
from syncverify.checker.kernel.protocol import Kind, Op, Protocol, Ring, Role
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols import prove
from syncverify.checker.prover.protocols.rank_search import _blocks, _epochs, _parts
from syncverify.checker.prover.rings.by_induction import protocols
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build


def pair(name: str, first: int, flag: Op) -> list[Role]:
    """Two threads that change their registers, meet, and of which the first has a flag."""
    meets = Op(Kind.SYNC, ring=f"meet {name}", count=2)
    head = Op(Kind.REGISTERS, count=32)
    return [
        Role(f"{name}0", (first,), ((head, flag, meets),)),
        Role(f"{name}1", (first + 1,), ((head, meets),)),
    ]


def handed_on() -> Protocol:
    """Two pairs; the second waits for the flag of the first."""
    roles = [*pair("a", 0, Op(Kind.ARRIVE, ring="flag")), *pair("b", 128, Op(Kind.WAIT, ring="flag"))]
    one = ZERO + 1
    rings = {x: Ring(one, 2, named=True) for x in ("meet a", "meet b")} | {"flag": Ring(one, 1)}
    return Protocol(roles=tuple(roles), rings=rings, buffers={})


def test_each_pair_has_its_own_epochs_and_registers_come_before_all() -> None:
    g = Graph(handed_on(), {})
    parts = _parts(g)
    assert parts[0] == parts[1] != parts[2] == parts[3]
    blocks = _blocks(g, parts)
    for i, s in enumerate(g.sites):
        early = s.op.kind is Kind.REGISTERS
        assert blocks[i] == (-1 if early else 0 if s.role < 2 else 1)
    meets = {i: e for i, e in enumerate(_epochs(g, parts)) if e % 2}
    assert sorted(meets) == [i for i, s in enumerate(g.sites) if s.op.kind is Kind.SYNC]


@pytest.mark.slow
def test_shared_sums_of_clusters_are_accepted() -> None:
    schedule = Schedule(192, 64, consumers=3, registers=(32, 160), cluster=2, split_k=2, shares="one")
    problem = problem_of(build(product(), schedule), {}, lambda _: Verdict.UNKNOWN)
    assert problem is not None
    (p,) = protocols(problem)
    assert prove(p).accepted.obligations > 1000
