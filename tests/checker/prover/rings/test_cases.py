"""Kernels of the IR as protocols: proofs for every size that the trusted kernel accepts."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel import Accepted, Rejected
from syncverify.checker.prover.rings.cases import NotFoundError, accept_kernel, prove_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.rings.kernels import GOOD

SOME = ["ring", "prefilled", "two consumers", "deferred", "expect apart", "lagging store"]


@pytest.mark.parametrize("name", SOME)
def test_a_ring_has_a_proof_that_the_kernel_accepts(name: str) -> None:
    (kernel,) = parse(GOOD[name], "k.syncir")
    proof = prove_kernel(kernel, {})
    assert isinstance(accept_kernel(kernel, {}, proof), Accepted)


@pytest.mark.parametrize(
    "change",
    [
        ("mbarrier.arrive empty[i % S]", "", "empty"),  # never released
        ("(i // S + 1) % 2", "(i // S) % 2", "no"),  # no free first pass
        ("mbarrier.init full[s], 1", "mbarrier.init full[s], 2", "full"),
        ("i in 0..N", "i in 1..N", "no"),
    ],
)
def test_a_ring_with_a_mistake_has_none(change: tuple[str, str, str]) -> None:
    old, new, _ = change
    text = GOOD["ring"]
    assert old in text
    (kernel,) = parse(text.replace(old, new, 1), "k.syncir")
    with pytest.raises(NotFoundError):
        prove_kernel(kernel, {})


def test_the_proof_of_another_kernel_is_rejected() -> None:
    (ring,) = parse(GOOD["ring"], "k.syncir")
    (other,) = parse(GOOD["ring"].replace("(i // S) % 2", "(i // S + 1) % 2", 1), "k.syncir")
    proof = prove_kernel(ring, {})
    answer = accept_kernel(other, {}, proof)
    assert isinstance(answer, Rejected)
    assert str(answer)


def test_strictly_a_fence_bridges_what_its_own_thread_read() -> None:
    (fenced,) = parse(GOOD["fenced"], "k.syncir")
    proof = prove_kernel(fenced, {}, Policy.STRICT)
    assert isinstance(accept_kernel(fenced, {}, proof, Policy.STRICT), Accepted)
    (unfenced,) = parse(GOOD["ring"], "k.syncir")
    practical = prove_kernel(unfenced, {})
    assert isinstance(accept_kernel(unfenced, {}, practical, Policy.STRICT), Rejected)
    with pytest.raises(NotFoundError, match="hazard"):
        prove_kernel(unfenced, {}, Policy.STRICT)
