"""Who accepted a proof: the trusted kernel, or only the search; and what the certificate of it is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Severity, Verdict
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.rings import by_induction, prove_cases
from syncverify.checker.prover.rings.by_induction import InductionProof
from syncverify.cli.main import run
from syncverify.driver import acceptance, files
from syncverify.driver.acceptance import KernelFirst, asked, asked_after
from syncverify.driver.certificates import RejectedError, dumps, protocols, resealed
from syncverify.driver.ptx import advice as ptx_advice
from syncverify.driver.ptx.check import kernel_task
from syncverify.driver.ptx.task import Checker
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts, facts_for
from syncverify.model.events import System
from tests.checker.induction import bases
from tests.checker.induction.bases import BEGUN, PTX_FACTS, changed
from tests.checker.induction.test_read import RING
from tests.checker.prover.rings.kernels import GOOD
from tests.system.small_ptx import read as small

PTX = Path(__file__).parents[2] / "corpus" / "ptx"
#: A proof with a case of the sizes left out.
NOTHING = {"kind": "induction", "shared": [], "terms": [], "problems": [[None]]}
RING_OF_PTX = Path(bases.__file__).with_name("ring.ptx")


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> tuple[files.SourceFile, KernelReport]:
    """A ring of any number of stages, and its report with the kernel asked."""
    path = tmp_path_factory.mktemp("ring") / "ring.syncir"
    path.write_text(GOOD["fenced"])
    source = files.read_source(path)
    (plain,) = files.check_source(source, scope=ScopeKind.ALL, repairs=False)
    assert (plain.verdict, plain.accepted_by) == (Verdict.PROVED, "search")
    assert "not asked" in str(plain.acceptance.reason)
    (report,) = asked(source, NO_FACTS, {}, [plain])
    return source, report


def test_a_ring_is_accepted_and_its_invariant_said(ring: tuple[files.SourceFile, KernelReport]) -> None:
    _, report = ring
    assert report.accepted_by == "kernel"
    text = "\n".join(report.acceptance.invariants)
    assert "full[j mod S]: turn j is phase j div S; complete for 0 <= j < N" in text
    assert "follows turn n - S of warp 1 (empty)" in text
    assert report.acceptance.besides


def test_its_certificate_is_accepted_and_any_other_is_not(
    ring: tuple[files.SourceFile, KernelReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, report = ring
    text = dumps(files.certificates(source, NO_FACTS, {}, [report]))
    assert len(text) < 300_000

    def no_search(*_: object, **__: object) -> None:
        raise AssertionError("recheck searches")

    for module in (prove_cases, by_induction):
        monkeypatch.setattr(module, "prove", no_search)
    monkeypatch.setattr(prove_cases, "entails", no_search)
    (done,) = files.recheck(text, "c.json", source, NO_FACTS)
    assert (done.kind, done.judged) == ("protocol", True)
    data = json.loads(text)
    proof = data["kernels"][0]["proof"]["rings"][0][1]
    while proof[0] == "parted":
        proof = proof[2]
    trees = proof[1]["trees"]
    key = next(k for k in trees if k.startswith("O3"))
    trees[key] = ["absurd", [1]]
    with pytest.raises(RejectedError, match=key):
        files.recheck(json.dumps(resealed(data)), "c.json", source, NO_FACTS)


@pytest.mark.parametrize(
    ("name", "policy", "by"),
    [
        ("bulk_ring.good", Policy.PRACTICAL, "kernel"),
        ("multicast_pair.good", Policy.PRACTICAL, "kernel"),
        ("bulk_ring.good", Policy.STRICT, "search"),
    ],
)
def test_launches_of_ptx_are_accepted_by_the_exact_judge(name: str, policy: Policy, by: str) -> None:
    path = PTX / f"{name}.ptx"
    source, facts = files.read_source(path), facts_for(str(path))
    found = files.check_source(source, policy=policy, facts=facts, scope=ScopeKind.ALL, repairs=False)
    (report,) = asked(source, facts, {}, found)
    assert report.accepted_by == by
    assert by == "kernel" or "not judged: strict mode" in str(report.acceptance.reason)


def test_a_case_that_the_search_leaves_out_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ring.syncir"
    path.write_text(RING)
    source = files.read_source(path)
    (plain,) = files.check_source(source, scope=ScopeKind.ALL, repairs=False)
    (right,) = asked(source, NO_FACTS, {}, [plain])
    assert right.protocol is not None
    monkeypatch.setattr(protocols, "written", lambda some: NOTHING)
    (wrong,) = asked(source, NO_FACTS, {}, [plain])
    assert wrong.protocol is None  # what accepts it then is the certificate of the other search


def test_the_command_line_requires_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    good, strict = str(PTX / "bulk_ring.good.ptx"), ["--policy", "strict"]
    assert run(["check", good, "--require", "kernel", "--format", "json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (kernel["accepted_by"], kernel["not_accepted"]) == ("kernel", None)
    assert run(["check", good, *strict]) == 0
    assert run(["check", good, *strict, "--require", "kernel"]) == 3
    assert "not accepted by the kernel" in capsys.readouterr().out
    assert run(["check", str(PTX / "one_fence.bad.ptx"), "--require", "kernel"]) == 1


def test_what_the_search_leaves_undecided_the_kernel_may_accept() -> None:
    source, facts = files.read_source(RING_OF_PTX), LaunchFacts({"*": PTX_FACTS})
    (plain,) = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    left = replace(plain, verdict=Verdict.UNKNOWN, reason="too many runs")
    (found,) = asked(source, facts, {}, [left])
    assert (found.verdict, found.accepted_by, found.reason) == (Verdict.PROVED, "kernel", None)
    assert found.scope == plain.scope
    text = dumps(files.certificates(source, facts, {}, [found]))
    (done,) = files.recheck(text, "c.json", source, facts)
    assert done.judged


#: One thread that loads tiles of a tensor map without a box, one after the other.
TILES = """.version 8.3
.target sm_90a
.address_size 64
.shared .align 8 .b64 bar;
.shared .align 128 .b8 tile[512];
.visible .entry k(.param .align 64 .b8 m[128], .param .u32 n)
.reqntid 1
{
  .reg .pred %p<9>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<9>;
  mov.u32 %r1, bar;
  mov.u32 %r2, tile;
  mov.b64 %rd1, m;
  cvta.param.u64 %rd1, %rd1;
  ld.param.u32 %r3, [n];
  mbarrier.init.shared.b64 [%r1], 1;
  mov.u32 %r4, 0;
  mov.u32 %r5, 0;
L:
  setp.ge.u32 %p1, %r4, %r3;
  @%p1 bra E;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;
  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1,{%r4}], [%r1];
W:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r1], %r5;
  @!%p2 bra W;
  xor.b32 %r5, %r5, 1;
  add.u32 %r4, %r4, 1;
  bra L;
E:
  ret;
}
"""


def test_boxes_are_inferred_for_the_kernel_only_where_they_are_for_the_check() -> None:
    source = files.read_text(TILES, "tiles", "ptx")
    (plain,) = files.check_source(source, scope=ScopeKind.ALL, infer=False, repairs=False)
    assert (plain.verdict, asked(source, NO_FACTS, {}, [plain], infer=False)) == (Verdict.UNKNOWN, [plain])
    (found,) = asked(source, NO_FACTS, {}, [plain])
    assert found.accepted_by == "kernel"
    assert any("box of tensor map 0 is 512 bytes" in text for text in found.assumptions)


def reports_with_the_kernel_first(source: files.SourceFile, facts: LaunchFacts) -> list[KernelReport]:
    """As `check --require kernel` has them."""
    first = KernelFirst(source, facts, {})
    options = files.Options(scope=ScopeKind.ALL, advice=True, repairs=False, first=first)
    return asked_after(first, list(files.check_each(source, facts, options)))


def said(r: KernelReport) -> tuple[object, ...]:
    return r.verdict, r.scope, r.diagnostics, sorted(r.assumptions)


def test_what_the_kernel_accepts_without_a_warning_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    source = files.read_text(TILES, "tiles", "ptx")
    (plain,) = files.check_source(source, scope=ScopeKind.ALL, repairs=False)

    def no_search(*_: object, **__: object) -> None:
        raise AssertionError("it is searched")

    with monkeypatch.context() as m:
        m.setattr(strategy, "decide", no_search)
        (found,) = reports_with_the_kernel_first(source, NO_FACTS)
    assert (found.accepted_by, said(found)) == ("kernel", said(plain))
    text = dumps(files.certificates(source, NO_FACTS, {}, [found]))
    (done,) = files.recheck(text, "c.json", source, NO_FACTS)
    assert done.judged
    monkeypatch.setattr(protocols, "written", lambda some: NOTHING)  # a certificate that is rejected
    (other,) = reports_with_the_kernel_first(source, NO_FACTS)
    assert (other.protocol, said(other)) == (None, said(plain))


def test_what_strict_mode_asks_besides_is_searched_for() -> None:
    text = RING_OF_PTX.read_text().replace("fence.proxy.async.shared::cta;", "")
    source, facts = files.read_text(text, "ring", "ptx"), LaunchFacts({"*": PTX_FACTS})
    (plain,) = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    assert [(d.rule, d.severity) for d in plain.diagnostics] == [("SV105", Severity.WARNING)]
    (found,) = reports_with_the_kernel_first(source, facts)
    assert (found.accepted_by, said(found)) == ("kernel", said(plain))
    first = KernelFirst(source, facts, {})
    for _ in files.check_each(source, facts, files.Options(scope=ScopeKind.ALL, repairs=False, first=first)):
        (kept,) = first.kept.values()
        assert (kept.report.verdict, kept.strictly) == (Verdict.PROVED, False)


def _says_the_same_asked_first(source: files.SourceFile, facts: LaunchFacts, warned: list[str]) -> None:
    """A kernel proved with these warnings: the report is the same if the kernel goes first and accepts."""
    (plain,) = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    assert (plain.verdict, [d.rule for d in plain.diagnostics]) == (Verdict.PROVED, warned)
    first = KernelFirst(source, facts, {})
    options = files.Options(scope=ScopeKind.ALL, repairs=False, first=first)
    (found,) = asked_after(first, list(files.check_each(source, facts, options)))
    assert (found.accepted_by, said(found)) == ("kernel", said(plain))
    assert [k.strictly for k in first.kept.values()] == [not warned]


def test_a_barrier_of_too_many_threads_is_warned_of() -> None:
    """It is never complete, which strict mode refuses, and nobody waits for it."""
    stored = RING_OF_PTX.read_text().replace("\tst.global.v2.u32 \t[%rd1], {%r66, %r67};\n", "")
    read, written = "ld.shared.v2.u32 \t{%r66, %r67}, [%r65];", "st.shared.v2.u32 \t[%r65], {%r27, %r27};"
    stored = stored.replace(read, written)
    met, facts = "\tbar.sync \t0;\n", LaunchFacts({"*": PTX_FACTS})
    for arrived, warned in (("", []), ("\tbar.arrive \t1, 128;\n", ["SV301"])):
        source = files.read_text(stored.replace(met, met + arrived), "ring", "ptx")
        _says_the_same_asked_first(source, facts, warned)


def test_a_kernel_is_asked_about_by_its_own_name() -> None:
    """Not the mangled one of the same base name, which comes first in the file."""
    entry = TILES[TILES.index(".visible") :]
    wrong = entry.replace("xor.b32 %r5, %r5, 1;", "")
    source = files.read_text(TILES.replace(" k(", " _Z1kPKcj(") + wrong, "tiles", "ptx")
    right, plain = files.check_source(source, scope=ScopeKind.ALL, repairs=False)
    assert (right.verdict, plain.name, plain.verdict) == (Verdict.PROVED, "k", Verdict.REFUTED)
    left = replace(plain, verdict=Verdict.UNKNOWN, reason="too many runs", scope=right.scope)
    assert asked(source, NO_FACTS, {}, [left]) == [left]
    first = TILES.replace(" k(", " _Z1kPKcj(").replace("xor.b32 %r5, %r5, 1;", "")
    turned = files.read_text(first + entry, "tiles", "ptx")
    _, found = reports_with_the_kernel_first(turned, NO_FACTS)
    assert (found.name, found.accepted_by) == ("k", "kernel")


def test_what_the_kernel_takes_for_granted_is_assumed() -> None:
    """The search may have found a proof of another abstraction, which rests on less."""
    source, facts = files.read_source(RING_OF_PTX), LaunchFacts({"*": PTX_FACTS})
    (plain,) = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    (found,) = asked(source, facts, {}, [replace(plain, assumptions=("something else",))])
    assert found.accepted_by == "kernel"
    assert found.assumptions == ("something else", *plain.assumptions)
    assert plain.assumptions


def test_what_executions_contradict_stays_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol does not hold all that executions show: they are asked as of any other proof."""
    source, facts = files.read_source(RING_OF_PTX), LaunchFacts({"*": PTX_FACTS})
    (plain,) = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    left = replace(plain, verdict=Verdict.UNKNOWN, reason="an execution contradicts the proof")
    monkeypatch.setattr(acceptance, "sought", lambda report, _: replace(report, verdict=Verdict.UNKNOWN))
    (found,) = asked(source, facts, {}, [left])
    assert found.verdict is Verdict.UNKNOWN


def test_what_the_kernel_does_not_accept_stays_undecided(tmp_path: Path) -> None:
    path = tmp_path / "ring.ptx"
    path.write_text(changed((BEGUN, BEGUN.replace("%r95", "1"))))
    source, facts = files.read_source(path), LaunchFacts({"*": PTX_FACTS})
    (plain,) = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    left = replace(plain, verdict=Verdict.UNKNOWN, reason="too many runs")
    assert asked(source, facts, {}, [left]) == [left]


#: A thread that arrives in each turn at a barrier with nobody waiting; and all threads waiting in every turn.
ARRIVALS = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .shared .align 8 .b8 bars[8];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, bars;
  mov.u32 %r5, 0;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra S;
  mbarrier.init.shared::cta.b64 [%r3], 1;
S:
  bar.sync 0;
  mov.u32 %r4, 0;
L:
  setp.ge.u32 %p2, %r4, %r1;
  @%p2 bra E;
  @%p1 bra J;
  mbarrier.arrive.shared::cta.b64 _, [%r3];
J:
  add.u32 %r4, %r4, 1;
  bra L;
E:
  ret;
}
"""
ARRIVALS_FACTS = {
    "grid": [1, 1, 1], "block": [64, 1, 1], "assume": ["N >= 1"], "params": {"0": {"i32": "N"}},
}  # fmt: skip
WAIT = """
Q:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], %r5;
  @!%p3 bra Q;
  bar.sync 0;
"""


@pytest.mark.parametrize(("behind", "warned"), [("", ["SV207"]), (f"{WAIT}  xor.b32 %r5, %r5, 1;", [])])
def test_a_phase_that_nobody_waits_for_is_warned_of(behind: str, warned: list[str]) -> None:
    """The kernel does not ask for these waits in strict mode."""
    source = files.read_text(ARRIVALS.replace("\nJ:\n", f"\nJ:\n{behind}\n"), "k", "ptx")
    facts = LaunchFacts({"*": ARRIVALS_FACTS})
    _says_the_same_asked_first(source, facts, warned)


def test_advice_is_tried_once_on_each_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a budget for all of them. The kernel is asked first here, and says nothing."""
    tried: list[int] = []

    def advised(report: KernelReport, _: object, systems: Sequence[System], __: object) -> KernelReport:
        tried.append(len(systems))
        return report

    monkeypatch.setattr(ptx_advice, "advised", advised)
    source = files.read_text(ARRIVALS.replace("%r4, %r1;", "%r4, 2;"), "k", "ptx")
    facts = LaunchFacts({"*": ARRIVALS_FACTS})
    files.check_source(source, facts=facts, scope=ScopeKind.ALL, advice=True, repairs=False)
    reports_with_the_kernel_first(source, facts)
    assert tried == [1, 1]


def strictly_proved(source: files.SourceFile, facts: LaunchFacts) -> KernelReport:
    """What the search says in strict mode; with the proof that the kernel accepts there, if it is proved."""
    (found,) = files.check_source(
        source, policy=Policy.STRICT, facts=facts, scope=ScopeKind.ALL, repairs=False
    )
    if found.verdict is not Verdict.PROVED:
        return found
    (said,) = asked(source, facts, {}, [found])
    assert said.accepted_by == "search" and "strict mode" in str(said.acceptance.reason)
    alone = acceptance._by_events(KernelFirst(source, facts, {}), found)
    assert alone is not None and alone.acceptance.kernel, alone
    return alone


def test_a_certificate_of_strict_mode_shows_that_phases_are_waited_for() -> None:
    """A proof of a ring that nobody waits at (K14) is none in strict mode. One of a ring at which all wait
    is, but it is no proof of the other ring.
    """
    facts = LaunchFacts({"*": ARRIVALS_FACTS})
    nobody, everybody = (
        files.read_text(ARRIVALS.replace("\nJ:\n", f"\nJ:\n{behind}\n"), "k", "ptx")
        for behind in ("", f"{WAIT}  xor.b32 %r5, %r5, 1;")
    )
    (report,) = reports_with_the_kernel_first(nobody, facts)
    assert report.accepted_by == "kernel"
    data = json.loads(dumps(files.certificates(nobody, facts, {}, [report])))
    (done,) = files.recheck(json.dumps(resealed(data)), "c.json", nobody, facts)
    assert done.judged
    data["kernels"][0]["policy"] = "strict"
    with pytest.raises(RejectedError, match="observed"):
        files.recheck(json.dumps(resealed(data)), "c.json", nobody, facts)
    wrong, right = strictly_proved(nobody, facts), strictly_proved(everybody, facts)
    assert (wrong.verdict, right.verdict) == (Verdict.REFUTED, Verdict.PROVED)
    forged = json.loads(dumps(files.certificates(everybody, facts, {}, [right])))
    (done,) = files.recheck(json.dumps(forged), "c.json", everybody, facts)
    assert not done.judged and done.policy is Policy.STRICT  # what it may assume is not settled
    forged["kernels"][0]["text"] = nobody.hash
    with pytest.raises(RejectedError):
        files.recheck(json.dumps(resealed(forged)), "c.json", nobody, facts)


#: Each turn writes by a bulk copy, and waits until its source was read alone.
TO_ONE_PLACE = "cp.async.bulk.global.shared::cta.bulk_group [%rd2],"
TO_ITS_OWN = (
    "mul.wide.u32 %rd9, %r10, 256; add.u64 %rd9, %rd2, %rd9; "
    "cp.async.bulk.global.shared::cta.bulk_group [%rd9],"
)


def copies_in_turns() -> tuple[str, LaunchFacts]:
    (k,) = (
        k
        for k in small(Path(__file__).parents[1] / "system" / "small_ptx" / "copies_to_one_place.kernels")
        if (k.group, k.name) == ("bulk copies to one place by open turns", "read")
    )
    assert TO_ONE_PLACE in k.text
    return k.text.replace("cp.async.bulk.wait_group 0;", ""), LaunchFacts({"*": k.facts})


def alone(text: str, facts: LaunchFacts) -> KernelReport | None:
    """The proof that the kernel finds without the search, if there is one."""
    source = files.read_text(text, "k", "ptx")
    assert source.module is not None
    (f,) = source.module.entries
    task = kernel_task(source.module, f, facts, Policy.PRACTICAL, Checker(run_system), {}, source.hash, True)
    found = acceptance.by_events(task)
    shown = found.report.verdict is Verdict.PROVED and any(found.shown)
    return replace(found.report, protocol=InductionProof(found.shown)) if shown else None


def test_no_certificate_takes_copies_to_one_place_apart() -> None:
    """A proof may assume that copies in flight write different places, and says so; but not where each turn
    writes the place of the one before."""
    text, facts = copies_in_turns()
    apart = text.replace(TO_ONE_PLACE, TO_ITS_OWN)
    one, own = files.read_text(text, "k", "ptx"), files.read_text(apart, "k", "ptx")
    for policy in Policy:
        found = files.check_source(one, policy=policy, facts=facts, scope=ScopeKind.ALL, repairs=False)
        (said,) = asked(one, facts, {}, found)
        assert (said.verdict, said.accepted_by) == (Verdict.REFUTED, None)
    assert alone(text, facts) is None
    report = alone(apart, facts)
    assert report is not None
    data = json.loads(dumps(files.certificates(own, facts, {}, [report])))
    (done,) = files.recheck(json.dumps(resealed(data)), "c.json", own, facts)
    assert done.judged and "different places" in " ".join(done.assumptions)
    data["kernels"][0]["text"] = one.hash
    with pytest.raises(RejectedError, match="it does not follow"):
        files.recheck(json.dumps(resealed(data)), "c.json", one, facts)


#: Whose places come back in another turn, or do not; the labels are those of the file.
COME_BACK = {(k.name, k.right): k for k in small(Path(__file__).parent / "copies_that_come_back.kernels")}


@pytest.mark.parametrize(
    "name, right",
    [("along", True), ("moved on by nothing", False), ("masked away", False), ("all to one place", False)],
)
def test_copies_whose_places_come_back_are_not_taken_apart(name: str, right: bool) -> None:
    k = COME_BACK[name, right]
    assert (alone(k.text, LaunchFacts({"*": k.facts})) is not None) is right


#: Each turn copies by cp.async what a bulk store reads. Without the fence it is practically right, but on
#: targets where that failed (K6).
UNFENCED = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_in, .param .u64 k_out, .param .u32 k_n)
{
  .reg .pred %p<4>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<6>;
  .shared .align 128 .b8 s[512];
  ld.param.u64 %rd1, [k_in];
  ld.param.u64 %rd2, [k_out];
  ld.param.u32 %r9, [k_n];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, s;
  shl.b32 %r3, %r1, 4;
  add.u32 %r4, %r2, %r3;
  cvt.u64.u32 %rd3, %r3;
  add.s64 %rd1, %rd1, %rd3;
  setp.ne.u32 %p1, %r1, 0;
  mov.u32 %r5, 0;
L:
  setp.ge.u32 %p2, %r5, %r9;
  @%p2 bra END;
  cp.async.cg.shared.global [%r4], [%rd1], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra N;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 512;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
N:
  bar.sync 0;
  add.u32 %r5, %r5, 1;
  bra L;
END:
  ret;
}
"""


def test_copies_without_a_fence_are_not_accepted_where_they_need_one() -> None:
    """No certificate of another target is accepted there: the check refutes the kernel (K6)."""
    facts = LaunchFacts({"*": {"grid": [1, 1, 1], "block": [32, 1, 1], "params": {"0": "ptr", "1": "ptr"}}})
    text = UNFENCED.replace("  fence.proxy.async.shared::cta;\n", "")
    here, there = (
        files.read_text(x, "k", "ptx")
        for x in (text, text.replace("sm_90a", "sm_100a").replace("8.6", "8.7"))
    )
    fenced = files.read_text(UNFENCED.replace("sm_90a", "sm_100a").replace("8.6", "8.7"), "k", "ptx")
    (report,) = reports_with_the_kernel_first(here, facts)
    assert (report.verdict, report.accepted_by) == (Verdict.PROVED, "kernel")
    data = json.loads(dumps(files.certificates(here, facts, {}, [report])))
    data["kernels"][0]["text"] = there.hash
    with pytest.raises(RejectedError, match="K6"):
        files.recheck(json.dumps(resealed(data)), "c.json", there, facts)
    (report,) = reports_with_the_kernel_first(there, facts)
    assert (report.verdict, report.accepted_by) == (Verdict.REFUTED, None)
    assert strictly_proved(fenced, facts).verdict is Verdict.PROVED
