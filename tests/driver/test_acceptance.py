"""Who accepted a proof: the trusted kernel, or only the search; and what the certificate of it is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Severity, Verdict
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.rings import by_induction, prove_cases
from syncverify.cli.main import run
from syncverify.driver import acceptance, by_kernel, files, ptx_advice, ptx_check
from syncverify.driver.acceptance import KernelFirst, asked, asked_after
from syncverify.driver.certificates import RejectedError, dumps, protocols, resealed
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts, facts_for
from syncverify.model.events import System
from tests.checker.induction import bases
from tests.checker.induction.bases import BEGUN, PTX_FACTS, changed
from tests.checker.induction.test_read import RING
from tests.checker.prover.rings.kernels import GOOD

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
        m.setattr(by_kernel, "recheck", no_search)  # the kernel follows it while the check goes on
        (found,) = reports_with_the_kernel_first(source, NO_FACTS)
        assert (found.accepted_by, said(found)) == ("kernel", said(plain))
        with pytest.raises(AssertionError, match="searched"):  # nothing that it followed is left for this
            asked(source, NO_FACTS, {}, [plain])
    text = dumps(files.certificates(source, NO_FACTS, {}, [found]))
    (again,) = asked(source, NO_FACTS, {}, [plain])
    assert text == dumps(files.certificates(source, NO_FACTS, {}, [again]))
    (done,) = files.recheck(text, "c.json", source, NO_FACTS)
    assert done.judged
    monkeypatch.setattr(protocols, "written", lambda some: NOTHING)  # a certificate that is rejected
    (other,) = reports_with_the_kernel_first(source, NO_FACTS)
    assert (other.protocol, said(other)) == (None, said(plain))


def _asked_with(monkeypatch: pytest.MonkeyPatch, **judges: Any) -> None:
    """Exchanges judges of launches in the check that the kernel is asked in first."""
    of_kernel = acceptance.by_events

    def by_events(task: Any, **options: bool) -> acceptance.ByEvents:
        kernel = replace(task.kernel, checker=replace(task.kernel.checker, **judges))
        return of_kernel(replace(task, kernel=kernel), **options)

    monkeypatch.setattr(acceptance, "by_events", by_events)


def _narrowed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A search for which sizes are at most 0: it changes what it is given, before it looks for a proof."""
    starts, shown_cases = by_induction.starts, by_induction.shown_cases

    def changed_starts(launches: Any, space: Any, sizes: Any) -> Any:
        out = starts(launches, space, sizes)
        for path, _ in out:
            for x in path.sizes.values():
                ((a, _),) = x.parts
                if what == "symbols":
                    space.symbols[a] = replace(space.symbols[a], high=0)
                else:
                    path.assume(*space.of(-x))
        return out

    def changed_problem(problem: Any, policy: Policy) -> Any:
        for name, (low, _) in problem.sizes.items():
            problem.sizes[name] = (low, 0)
        return shown_cases(problem, policy)

    if what == "sizes":
        monkeypatch.setattr(acceptance, "shown_cases", changed_problem)
    else:
        monkeypatch.setattr(by_induction, "starts", changed_starts)


@pytest.mark.parametrize("what", ["paths", "symbols", "sizes"])
def test_a_search_that_changes_what_it_is_given_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Nobody waits for the second tile, which a size of 0 does not come to."""
    source = files.read_text(TILES.replace("xor.b32 %r5, %r5, 1;", ""), "tiles", "ptx")
    (plain,) = files.check_source(source, scope=ScopeKind.ALL, repairs=False)
    assert plain.verdict is Verdict.REFUTED
    _narrowed(monkeypatch, what)
    _asked_with(monkeypatch, early=None)
    first = KernelFirst(source, NO_FACTS, {})
    options = files.Options(scope=ScopeKind.ALL, repairs=False, first=first)
    (found,) = asked_after(first, list(files.check_each(source, NO_FACTS, options)))
    assert (found.verdict, found.protocol) == (Verdict.REFUTED, None)
    (kept,) = first.kept.values()  # it has found a proof, which is none of the kernel
    assert (kept.report.verdict, kept.strictly, kept.written) == (Verdict.PROVED, True, None)


@pytest.mark.parametrize(("by_number", "times"), [(Verdict.UNKNOWN, 0), (Verdict.PROVED, 1)])
def test_what_rests_on_launches_by_numbers_is_rechecked_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, by_number: Verdict, times: int
) -> None:
    """Who follows a certificate judges no such launch."""
    source = files.read_text(TILES, "tiles", "ptx")
    reports_of, recheck = ptx_check.reports_of, by_kernel.recheck
    whole: list[str] = []

    def by_numbers(task: Any, scope: ScopeKind) -> Any:
        task.kernel.checker.judge(None, Policy.PRACTICAL)
        return reports_of(task, scope)

    def rechecked(text: str, *rest: Any) -> Any:
        whole.append(text)
        return recheck(text, *rest)

    _asked_with(monkeypatch, judge=lambda x, by: Outcome(by_number) if x is None else run_system(x, by))
    monkeypatch.setattr(acceptance, "reports_of", by_numbers)
    monkeypatch.setattr(by_kernel, "recheck", rechecked)
    (found,) = reports_with_the_kernel_first(source, NO_FACTS)
    assert (found.accepted_by, len(whole)) == ("kernel", times)


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


def test_no_certificate_of_strict_mode_is_accepted() -> None:
    """The kernel accepts the proof of a ring that nobody waits at in strict mode, too, which is wrong there
    (K14): a certificate that is changed to claim it is followed, but does not count as judged.
    """
    source, facts = (
        files.read_text(ARRIVALS.replace("\nJ:\n", "\nJ:\n\n"), "k", "ptx"),
        LaunchFacts({"*": ARRIVALS_FACTS}),
    )
    (report,) = reports_with_the_kernel_first(source, facts)
    assert report.accepted_by == "kernel"
    data = json.loads(dumps(files.certificates(source, facts, {}, [report])))
    (done,) = files.recheck(json.dumps(resealed(data)), "c.json", source, facts)
    assert done.judged
    data["kernels"][0]["policy"] = "strict"
    (done,) = files.recheck(json.dumps(resealed(data)), "c.json", source, facts)
    assert not done.judged
    strictly = files.check_source(
        source, policy=Policy.STRICT, facts=facts, scope=ScopeKind.ALL, repairs=False
    )
    (wrong,) = asked(source, facts, {}, strictly)
    assert (wrong.verdict, wrong.accepted_by) == (Verdict.REFUTED, None)
