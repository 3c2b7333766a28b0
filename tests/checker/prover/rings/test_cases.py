"""Kernels of the IR as protocols: proofs for every size that the trusted kernel accepts."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted, Rejected
from syncverify.checker.prover.rings.cases import OutsideError, accept_kernel
from syncverify.checker.prover.rings.prove_cases import NotFoundError, in_words, prove_kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.rings.kernels import COUNTS, GOOD, kernel, role

#: One leaves a number of pending groups that is a parameter.
SOME = sorted(set(GOOD) - {"staged store"})


@pytest.mark.parametrize(
    "name", [x if x in ("deferred", "tail") else pytest.param(x, marks=pytest.mark.slow) for x in SOME]
)
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


def _persistent(step: str = "n = n + 1", drained: bool = True) -> str:
    """Tiles of K steps each, through one ring: its counter goes on from tile to tile."""
    load = (
        "let n = 0", "for t in 0..T {", "for k in 0..K {",
        "mbarrier.wait empty[n % S], (n // S + 1) % 2",
        "mbarrier.arrive.expect_tx full[n % S], 256",
        "bulk.load tile[n % S], a[(t * K + k) * 64 : 64], full[n % S]",
        "n = n + 1", "}", "}",
    )  # fmt: skip
    read = (
        "let n = 0", "for t in 0..T {", "for k in 0..K {",
        "mbarrier.wait full[n % S], (n // S) % 2",
        "ld.shared x, tile[n % S][tid % 32 * 2 : 2]",
        "fence.proxy.async.shared_cta",
        "mbarrier.arrive empty[n % S]" if drained else "",
        step, "}", "}",
    )  # fmt: skip
    return kernel(
        role("producer", "0..1", *load, once=True),
        role("consumer", "1..2", *read),
        bars=COUNTS,
        params=("S : i32 = 2", "T : i32 = 3", "K : i32 = 2"),
        assume=("S >= 1", "T >= 0", "K >= 0"),
        tensors=("a : f32[T * K * 64] in", "out : f32[T * 64] out"),
    )


def test_a_persistent_ring_is_accepted_for_any_tiles_and_steps() -> None:
    (k,) = parse(_persistent(), "k.syncir")
    proof = prove_kernel(k, {})
    answer = accept_kernel(k, {}, proof)
    assert isinstance(answer, Accepted), str(answer)
    said = in_words(k, {}, proof)
    assert "P(t): the steps of all tiles before tile t" in said
    assert any("complete for 0 <= j < P(T)" in text for text in said)
    (wrong,) = parse(_persistent(drained=False), "k.syncir")
    assert isinstance(accept_kernel(wrong, {}, proof), Rejected)


@pytest.mark.parametrize("step", ["", "n = n + 2"])
def test_a_persistent_ring_with_another_counter_has_none(step: str) -> None:
    (k,) = parse(_persistent(step), "k.syncir")
    with pytest.raises((NotFoundError, OutsideError)):
        prove_kernel(k, {})


def test_tiles_whose_steps_differ_between_roles_are_no_protocol() -> None:
    text = _persistent()
    at = text.rindex("for k in 0..K")
    (k,) = parse(text[:at] + text[at:].replace("0..K", "0..(K + 1)", 1), "k.syncir")
    with pytest.raises(OutsideError, match="different numbers or lengths"):
        prove_kernel(k, {})


@pytest.mark.parametrize("count", ["32", "N"])
@pytest.mark.parametrize(("name", "copy"), [("ring", "a[i * 64 : "), ("staged store", "out[i * 64 : ")])
def test_a_copy_that_names_other_bytes_of_its_tensor_is_not_read(name: str, copy: str, count: str) -> None:
    text = GOOD[name]
    assert f"{copy}64]" in text
    (wrong,) = parse(text.replace(f"{copy}64]", f"{copy}{count}]"), name)
    with pytest.raises((NotFoundError, OutsideError), match="names others|no number"):
        prove_kernel(wrong, {})
