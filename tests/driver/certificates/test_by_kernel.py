"""Certificates that the kernel accepts alone: IR and PTX, wrong kernels, changed claims, and no search."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.certificate_data import RejectedError, write
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.driver.acceptance import asked
from syncverify.driver.by_kernel import Follower
from syncverify.driver.certificates import dumps
from syncverify.driver.certificates.reseal import resealed
from syncverify.driver.files import certificates, check_source, read_text, recheck, suffices
from syncverify.driver.rechecked import Rechecked
from syncverify.driver.shared_lists import expanded
from syncverify.driver.verdicts import text_hash
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from tests.checker.induction.bases import COMPILED, IR, PTX, PTX_FACTS
from tests.checker.induction.test_read import MISTAKES, RING

FACTS = LaunchFacts.of({"kernel": {"ring": dict(PTX_FACTS)}})


def certificate(text: str, kind: str, facts: LaunchFacts) -> tuple[dict[str, Any], KernelReport]:
    source = read_text(text, "ring", kind)
    reports = check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    (report,) = asked(source, facts, {}, reports)
    return json.loads(dumps(certificates(source, facts, {}, [report]))), report


def follow(data: Any, text: str, kind: str = "syncir", facts: LaunchFacts = NO_FACTS) -> Rechecked:
    (done,) = recheck(write(resealed(data)), "ring.json", read_text(text, "ring", kind), facts)
    return done


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """The certificate of a kernel with every value where it belongs, which is one, too."""
    (kernel,) = data["kernels"]
    proof = kernel["proof"]
    rest = {key: x for key, x in proof.items() if key not in ("kind", "shared")}
    whole = copy.deepcopy(expanded(proof["shared"], rest, "here"))
    return {**data, "kernels": [{**kernel, "proof": {"kind": proof["kind"], "shared": [], **whole}}]}


@pytest.fixture(scope="module")
def of_ir() -> dict[str, Any]:
    return certificate(RING, "syncir", NO_FACTS)[0]


@pytest.fixture(scope="module")
def of_ptx() -> dict[str, Any]:
    return certificate(PTX, "ptx", FACTS)[0]


def test_a_proof_of_the_ir_is_followed_by_the_kernel_alone(of_ir: dict[str, Any]) -> None:
    assert suffices(write(of_ir), "ring.json")
    done = follow(of_ir, RING)
    assert done.judged and done.kind == "induction" and done.met.counts["obligations"] > 50


def test_a_proof_of_ptx_is_followed_by_the_kernel_alone(of_ptx: dict[str, Any]) -> None:
    assert suffices(write(of_ptx), "ring.json")
    assert follow(of_ptx, PTX, "ptx", FACTS).judged
    with pytest.raises(RejectedError, match="another text"):
        follow(of_ptx, PTX.replace("mov.u32", "mov.b32", 1), "ptx", FACTS)


@pytest.mark.parametrize("form", ["quotient", "first turn"])
def test_names_of_quotients_and_other_values_are_in_certificates(form: str) -> None:
    text = COMPILED[form].text
    data, _ = certificate(text, "ptx", FACTS)
    assert follow(data, text, "ptx", FACTS).judged
    data = plain(data)
    ((case,),) = data["kernels"][0]["proof"]["problems"]
    if form == "quotient":
        assert case[0] == "quotient" and case[2] == 16
        case[2] = 32  # the loop's end is no sum of sizes any more
    else:
        claims = case[1]["claims"]
        headers = [h for claim in claims for h in claim[2] if len(h) > 5 and h[5]]  # what else registers hold
        assert headers
        for h in headers:
            h[5] = []
    with pytest.raises(RejectedError):
        follow(data, text, "ptx", FACTS)


def test_a_proof_refers_to_values_that_are_there(of_ptx: dict[str, Any]) -> None:
    assert follow(plain(of_ptx), PTX, "ptx", FACTS).judged
    proof = of_ptx["kernels"][0]["proof"]
    assert proof["shared"]
    for wrong in ([], "@0", None, {}, proof["shared"][:-1], [["@0"], *proof["shared"]]):
        other = copy.deepcopy(of_ptx)
        other["kernels"][0]["proof"]["shared"] = wrong
        with pytest.raises(RejectedError):
            follow(other, PTX, "ptx", FACTS)


def test_cases_of_sizes_share_their_terms_and_values() -> None:
    text = IR["ring that may be empty"].text
    data, _ = certificate(text, "syncir", NO_FACTS)
    proof = data["kernels"][0]["proof"]
    assert proof.keys() == {"kind", "shared", "terms", "problems"}
    for field in ("terms", "shared"):
        less = copy.deepcopy(data)
        del less["kernels"][0]["proof"][field]
        with pytest.raises(RejectedError):
            follow(less, text)
    whole = plain(data)
    whole["kernels"][0]["proof"]["terms"].reverse()
    with pytest.raises(RejectedError):
        follow(whole, text)


@pytest.mark.parametrize("what", MISTAKES)
def test_no_wrong_kernel_is_accepted_with_the_proof_of_the_right_one(
    what: str, of_ir: dict[str, Any]
) -> None:
    wrong = RING.replace(*MISTAKES[what])
    (kernel,) = parse(wrong, "ring")
    data = copy.deepcopy(of_ir)
    data["kernels"][0]["text"] = text_hash(print_kernel(kernel))
    with pytest.raises(RejectedError):
        follow(data, wrong)


def test_cases_of_the_sizes_may_not_be_left_out() -> None:
    text = IR["ring that may be empty"].text
    data, report = certificate(text, "syncir", NO_FACTS)
    assert report.acceptance.kernel and follow(data, text).judged
    (case,) = data["kernels"][0]["proof"]["problems"][0]
    assert case[0] == "parted"
    for side in (2, 3):
        less = copy.deepcopy(data)
        less["kernels"][0]["proof"]["problems"][0][0][side] = None
        with pytest.raises(RejectedError):
            follow(less, text)
    for problems in ([], [[]], [[case], [case]], [[case, case]], [None], [None, [case]], [[case], None]):
        other = copy.deepcopy(data)
        other["kernels"][0]["proof"]["problems"] = problems
        with pytest.raises(RejectedError):
            follow(other, text)


def test_a_proof_may_leave_a_problem_undecided_that_the_check_can_do_without(of_ptx: dict[str, Any]) -> None:
    (problem,) = of_ptx["kernels"][0]["proof"]["problems"]
    follower = Follower(
        {"kind": "induction", "shared": [], "terms": [], "problems": [None]}, Policy.PRACTICAL, "here"
    )
    assert follower.posed({}, (), None, None).verdict is Verdict.UNKNOWN
    with pytest.raises(RejectedError, match="left out"):
        follower.posed({}, (), None, None)
    for problems in ([None], [None, problem], [problem, None]):  # this check has no other problem
        other = copy.deepcopy(of_ptx)
        other["kernels"][0]["proof"]["problems"] = problems
        with pytest.raises(RejectedError):
            follow(other, PTX, "ptx", FACTS)


def test_trees_are_found_by_their_whole_names(of_ir: dict[str, Any]) -> None:
    def with_trees(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        data = plain(of_ir)
        change(data["kernels"][0]["proof"]["problems"][0][0][2]["trees"])
        return data

    def renamed(trees: dict[str, Any]) -> None:
        some = next(x for x in trees.values() if " " in x[0][0])
        some[0][0] = f"another {some[0][0].partition(' ')[2]}"

    def twice(trees: dict[str, Any]) -> None:
        some = next(iter(trees.values()))
        some[0].append(some[0][0].split(" ")[0])
        some[1].append(some[1][0])

    def fewer(trees: dict[str, Any]) -> None:
        next(iter(trees.values()))[1].pop()

    def deeper(trees: dict[str, Any]) -> None:
        some = next(iter(trees.values()))
        some[1][0] = {"": some[1][0]}

    assert follow(with_trees(lambda trees: None), RING).judged
    for wrong in (renamed, twice, fewer, deeper):
        with pytest.raises(RejectedError):
            follow(with_trees(wrong), RING)


def places(x: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in some data with each of its keys."""
    if isinstance(x, dict | list):
        for k in [*x] if isinstance(x, dict) else range(len(x)):
            yield x, k
            yield from places(x[k])


@pytest.mark.parametrize("seed", range(3))
def test_changed_claims_are_rejected_or_hold(seed: int, of_ir: dict[str, Any]) -> None:
    rng = random.Random(seed)
    rejected = 0
    for _ in range(12):
        data = plain(of_ir)
        claimed = data["kernels"][0]["proof"]["problems"][0][0][1]
        where, key = rng.choice(list(places(claimed)))
        old = where[key]
        where[key] = old + rng.choice((-1, 1, 6)) if type(old) is int else rng.choice((None, [], 3, "N"))
        try:
            assert follow(data, RING).judged
        except RejectedError:
            rejected += 1
    assert rejected > 3


def test_no_search_is_loaded(of_ir: dict[str, Any], of_ptx: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "ring.json").write_text(write(of_ir), "utf-8")
    (tmp_path / "ring.syncir").write_text(RING, "utf-8")
    heavy = ("z3", *(f"syncverify.checker.{x}" for x in ("happens_before", "explain", "exact_check")))
    rooms = tuple(f"syncverify.checker.prover.{x}" for x in ("parametric", "protocols", "reach", "rings"))
    code = (
        "import sys\nfrom syncverify.cli.main import run\n"
        "print('exit', run(['recheck', 'ring.json', 'ring.syncir']))\n"
        f"print([m for m in sys.modules if m.startswith({heavy + rooms})])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    *_, status, loaded = done.stdout.strip().splitlines()
    assert (status, loaded) == ("exit 0", "[]"), done.stdout
