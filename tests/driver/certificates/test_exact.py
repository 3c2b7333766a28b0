"""The judge of certificates against the checker: what one accepts, the other does not refute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.kernel.exact import Follower, NotJudgedError
from syncverify.driver.certificates import RejectedError, certify, dumps, recheck, resealed
from syncverify.driver.files import read_source
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.systems import systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.events import LaneSplit, System, Unanalysable
from tests.system.random.generate import policy, program

CORPUS = Path(__file__).parents[3] / "corpus"
#: Kernels whose deletions and slips the corpus keeps beside them.
PAIRS = [
    "depth/odd_trip_count",
    "sizes/even_by_assumption",
    "sizes/staging_in_second_persistent_tile",
    "sizes/parity_by_size",
    "rulebook/E05_unfenced_mma_operand",
    "rulebook/E37_fragment_changed_in_flight",
    "rulebook/E70_read_before_grid_wait",
    "more/relaxed_arrive",
]


def found(kernel: Kernel) -> str:
    """What the judge says of a launch with defaults: holds, rejected, or not judged."""
    report = check_kernel(kernel, scope=ScopeKind.EXACT)
    for system in systems(kernel, dict(report.scope.values)):
        if isinstance(system, Unanalysable):
            return "not judged"
        try:
            follow(system)
        except NotJudgedError:
            return "not judged"
        except RejectedError:
            return "rejected"
    return "holds"


def follow(system: System) -> Follower:
    while True:
        try:
            follower = Follower.of(system)
            follower.judge(20_000)
            return follower
        except LaneSplit as split:
            system = system.refined(split)


def kernel(name: str) -> Kernel:
    return read_source(CORPUS / f"{name}.syncir").kernels[0]


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_the_corpus(name: str) -> None:
    assert found(kernel(f"{name}.good")) == "holds"
    assert found(kernel(f"{name}.bad")) == "rejected"


@pytest.mark.parametrize("block", range(6))
def test_random_kernels(block: int) -> None:
    """Where both decide, they agree; a tenth of the kernels may be left to the checker."""
    left = 0
    for seed in range(10_000 + 25 * block, 10_000 + 25 * (block + 1)):
        if policy(seed) != "practical":
            continue
        (drawn,) = parse(program(seed).text(), f"{seed}.syncir")
        verdict, judged = check_kernel(drawn, scope=ScopeKind.EXACT).verdict, found(drawn)
        left += judged == "not judged"
        if judged == "holds":
            assert verdict is Verdict.PROVED, seed
        elif judged == "rejected":
            assert verdict is not Verdict.PROVED, seed
    assert left <= 12


def certificate(name: str) -> dict[str, object]:
    k = kernel(name)
    made: dict[str, object] = json.loads(dumps([certify(k, check_kernel(k, scope=ScopeKind.EXACT))]))
    return made


def test_a_certificate_says_who_judged() -> None:
    k = kernel("depth/odd_trip_count.good")
    data = certificate("depth/odd_trip_count.good")
    (done,) = recheck(json.dumps(data), "c.json", {k.name: k})
    assert set(done.met.counts) == {"systems"}
    assert done.judged
    system = data["kernels"][0]["proof"]["systems"][0]  # type: ignore[index]
    assert system["judge"] == "own"
    system["judge"] = "checker"
    with pytest.raises(RejectedError, match="judge"):
        recheck(json.dumps(resealed(data)), "c.json", {k.name: k})


def test_what_the_kernel_does_not_judge_is_said() -> None:
    k = kernel("idioms/D10_split_k_semaphore")
    (done,) = recheck(json.dumps(certificate("idioms/D10_split_k_semaphore")), "c.json", {k.name: k})
    assert not done.judged
    assert set(done.met.reasons) == {"a bulk reduction into tracked global memory"}


def test_a_copy_to_another_cta_is_judged() -> None:
    k = kernel("idioms/D15_dsmem_push")
    (done,) = recheck(json.dumps(certificate("idioms/D15_dsmem_push")), "c.json", {k.name: k})
    assert done.judged
