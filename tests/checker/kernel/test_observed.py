"""Strict mode: somebody has waited for a phase before each arrival of the next one (K14).

A judge that explores interleavings says of each protocol whether that is so. It knows of no turns and paths.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks.checker.second_kernel import why_not
from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.hops import Half, Program, Same, Step
from syncverify.checker.kernel.linear import ZERO, num, var
from syncverify.checker.kernel.proof import Along, Proof
from syncverify.checker.kernel.protocol import Block, Loop, N, Protocol, Ring, U
from syncverify.checker.kernel.trees import Leaf
from syncverify.checker.prover.protocols.claims import NotFoundError
from syncverify.checker.prover.protocols.prove import carried, prove
from syncverify.checker.prover.protocols.written import proof as write
from tests.checker.kernel.families import FAMILIES, STEPS, arrive, consumer, made, plain, producer, wait
from tests.checker.kernel.plain_protocol import plain as as_data
from tests.checker.kernel.sweep import wrong_at

kernel = import_module("syncverify.checker.kernel.accept")


def ring_beside(
    reader: Block = (), loader: Block = (), behind: Block = (), loads: Block = (), depth: int = 2
) -> Protocol:
    """The plain ring with a further one, on which the reader arrives in each step.

    ``reader`` and ``loader`` come before what each does in a step, ``behind`` and ``loads`` after it.
    """
    p = plain()
    step = (*reader, *consumer(), arrive("more", N), *behind)
    roles: list[tuple[str, tuple[object, ...], int]] = [
        ("load", (Loop(ZERO, STEPS, (*loader, *producer(), *loads)),), 1),
        ("math", (Loop(ZERO, STEPS, step),), 1),
    ]
    return made(roles, {**p.rings, "more": Ring(num(depth), 1)}, p.buffers, "S N", p.facts)


def lap(begin: int) -> Block:
    """A wait for the arrival of one lap before; from a step on."""
    return (wait("more", N, 1, guard=(N - begin,)),)


AT_ONCE = (wait("more", N),)
#: Protocols, and whether each phase is waited for in time, which was decided before they were asked about.
CASES = {
    "nobody waits": (ring_beside(), False),
    "the reader waits at once": (ring_beside(behind=AT_ONCE), True),
    "the reader waits one lap later": (ring_beside(lap(0)), True),
    "the reader waits one lap later, for one slot": (ring_beside(lap(1), depth=1), True),
    "the reader does not wait for the first one": (ring_beside(lap(3)), False),
    "the reader does not wait for the first one, of one slot": (ring_beside(lap(2), depth=1), False),
    "the loader waits before it loads": (ring_beside(loader=lap(2)), True),
    "the loader waits after it has loaded": (ring_beside(loads=AT_ONCE), True),
    "the loader waits for all but the first one": (ring_beside(loader=lap(3)), False),
}


def strictly(p: Protocol) -> Proof | None:
    try:
        return prove(p, Policy.STRICT, (1,)).proof
    except NotFoundError:
        return None


@pytest.mark.parametrize("name", CASES)
def test_phases_are_waited_for_in_time(name: str) -> None:
    p, right = CASES[name]
    assert wrong_at(p, random.Random(1), 8) is None
    assert (wrong_at(p, random.Random(1), 8, observes=True) is None) is right
    assert (strictly(p) is not None) is right


@pytest.mark.parametrize("name", [name for name, (_, right) in CASES.items() if not right])
def test_without_the_obligation_a_wrong_one_is_accepted(name: str) -> None:
    p, _ = CASES[name]
    proof = carried(prove(p, seeds=(1,)).proof, p, Policy.STRICT)
    assert isinstance(accept(p, proof), Accepted)
    refused = accept(p, proof, Policy.STRICT)
    assert isinstance(refused, Rejected) and refused.obligation.startswith("observed ")
    with patch.object(kernel, "observed", lambda _: ()):
        assert isinstance(accept(p, proof, Policy.STRICT), Accepted)


@pytest.mark.parametrize("name", ["prefilled", "persistent, two consumers", "wgmma, one group pending"])
def test_practical_proofs_have_no_such_trees(name: str) -> None:
    p = FAMILIES[name]()
    proof = strictly(p)
    assert proof is not None and any(key.startswith("observed ") for key in proof.trees)
    assert isinstance(accept(p, proof), Rejected)  # in practical mode nobody asks for these trees
    assert why_not(as_data(p), json.loads(json.dumps(write(proof))), strict=True) is None


# ---------------------------------------------------------------- forged paths

#: Changes of a path, by what they claim.
FORGED: dict[str, Callable[[Along], Any]] = {
    "no path": lambda x: Along(()),
    "the wait alone": lambda x: Along(x.path[:1]),
    "without the wait": lambda x: Along(x.path[1:]),
    "another hop to the wait": lambda x: Along(((Program(0), x.path[0][1]), *x.path[1:])),
    "before the wait": lambda x: Along(((Same(), x.path[0][1]._replace(half=Half.IN)), *x.path[1:])),
    "the wait of another step": lambda x: Along(
        ((Same(), x.path[0][1]._replace(n=x.path[0][1].n + 1)), *x.path[1:])
    ),
    "a name from nowhere": lambda x: Along(((Same(), x.path[0][1]._replace(n=var("%9"))), *x.path[1:])),
    "an arrival": lambda x: Along(((Same(), x.path[-1][1]._replace(half=Half.OUT)), *x.path[1:])),
    "the other direction": lambda x: replace(x, reverse=True),
    "on to nowhere": lambda x: Along((*x.path, (Program(4), Step(0, Half.OUT, U, N)))),
    "no such site": lambda x: Along(((Same(), x.path[0][1]._replace(site=99)), *x.path[1:])),
}


def leaves(t: Any, change: Callable[[Along], Any]) -> Any:
    """The tree with other paths."""
    if isinstance(t, Leaf):
        return replace(t, payload=change(t.payload)) if isinstance(t.payload, Along) else t
    if hasattr(t, "yes"):
        return replace(t, yes=leaves(t.yes, change), no=leaves(t.no, change))
    return replace(t, kid=leaves(t.kid, change)) if hasattr(t, "kid") else t


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_path_is_rejected_by_both_kernels(forged: str) -> None:
    p, _ = CASES["the reader waits one lap later"]
    proof = strictly(p)
    assert proof is not None
    assert why_not(as_data(p), json.loads(json.dumps(write(proof))), strict=True) is None
    for key in [key for key in proof.trees if key.startswith("observed ")]:
        wrong = replace(proof, trees={**proof.trees, key: leaves(proof.trees[key], FORGED[forged])})
        answer = accept(p, wrong, Policy.STRICT)
        assert isinstance(answer, Rejected) and answer.obligation == key
        assert why_not(as_data(p), json.loads(json.dumps(write(wrong))), strict=True) is not None


def test_a_proof_of_a_protocol_that_waits_is_none_of_one_that_does_not() -> None:
    p, _ = CASES["the reader waits one lap later"]
    proof = strictly(p)
    assert proof is not None
    wrong, _ = CASES["the reader does not wait for the first one"]
    assert isinstance(accept(wrong, proof, Policy.STRICT), Rejected)
