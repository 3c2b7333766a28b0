"""Refutations of PTX and CUDA are confirmed by the second reader, or they are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import syncverify
from syncverify.base.deadline import OutOfTimeError
from syncverify.base.diagnostics import KernelReport, Policy, Replayed, ScopeKind, Severity, Verdict
from syncverify.base.reason import Cause, has
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.strategy import REPLAY, Entry
from syncverify.driver.executions.confirmed import confirmed
from syncverify.driver.executions.drawn_launch import DRAWS, drawn_launch
from syncverify.driver.files import check_source, read_source
from syncverify.driver.prover import prover
from syncverify.driver.ptx.check import Checker, check_module, kernel_task, reports_of
from syncverify.driver.verdicts import run_system
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.launch_facts import facts_for, read_facts
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.model.events import System
from syncverify.simulate.ptx import Launch
from syncverify.simulate.ptx.confirm import Limits, confirm
from tests.corpus.entries import CORPUS, wrong_ptx
from tests.frontends.cuda.entries import CudaEntry, entries
from tests.system.small_ptx import read

#: What an input decides has no witness: ``tests/ptx_replay/test_corpus.py`` asks for an execution.
BY_INPUT = frozenset({"row_by_leader.bad.ptx", "slot_modulo.bad.ptx"})
BAD = [p for p in wrong_ptx() if p.name not in BY_INPUT]
SMALL = Path(__file__).parents[2] / "system" / "small_ptx"
ONE = CORPUS / "ptx" / "one_fence.bad.ptx"


def unconfirmed(path: Path) -> tuple[KernelReport, Module]:
    """A refutation as the checker makes it, with the system that shows it."""
    module = read_source(path).module
    assert module is not None
    checker = Checker(run_system, prover(Entry.PTX))
    (report,) = check_module(module, facts_for(path), Policy.PRACTICAL, checker)
    # what data or an open size decides is refuted by an execution alone
    assert report.verdict is Verdict.REFUTED or report.suspect is not None
    return report, module


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_harm_of_a_wrong_kernel_is_seen(path: Path) -> None:
    report = confirmed(*unconfirmed(path))
    assert report.verdict is Verdict.REFUTED
    assert report.replay is not None
    assert report.replay.outcome is Replayed.REPRODUCED, report.replay


REFUTED = [e for e in entries() if e.expected[Policy.PRACTICAL].verdict is Verdict.REFUTED]


@pytest.mark.parametrize("entry", REFUTED, ids=lambda e: e.path.stem)
def test_harm_of_a_wrong_cuda_kernel_is_seen(entry: CudaEntry) -> None:
    source = read_source(entry.path, CudaOptions(prelude=entry.prelude))
    facts = read_facts(f"{entry.path}.launch.toml")
    (report,) = check_source(source, facts=facts, values=dict(entry.sizes), repairs=False)
    assert report.replay is not None
    assert report.replay.outcome is Replayed.REPRODUCED, report.replay
    assert f"{entry.path}:" in report.replay.detail
    assert "of its PTX" in report.replay.detail


def test_a_finding_without_harm_is_no_refutation() -> None:
    """The witness of a kernel without a fence, on the text of its twin that has one."""
    report, _ = unconfirmed(ONE)
    good = read_source(CORPUS / "ptx" / "one_fence.good.ptx").module
    assert good is not None
    found = confirmed(report, good)
    assert found.verdict is Verdict.UNKNOWN
    assert has(found.reason, Cause.NOT_REPLAYED)
    assert found.replay is not None
    assert found.replay.outcome is Replayed.NOT_REPRODUCED
    assert found.witness is None
    first = found.diagnostics[0]
    assert (first.rule, first.severity) == ("SV101", Severity.WARNING)
    assert first.message in str(found.reason)


@pytest.mark.parametrize(
    ("file", "group", "name"),
    [
        ("readings", "cluster relaxed", "exits while the peer reads"),  # after a race of lanes
        ("roles_and_groups", "im2col", "reads before"),
        (
            "windows_and_counts",
            "a warp exits before bar.sync",
            "function of a generic pointer, not converted",
        ),
    ],
)
def test_nothing_else_keeps_a_finding_from_being_seen(file: str, group: str, name: str) -> None:
    """Races at other lines of global memory, a copy in im2col mode, a finding inside a function."""
    (k,) = (x for x in read(SMALL / f"{file}.kernels") if (x.group, x.name) == (group, name))
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, advice=False)
    assert report.verdict is Verdict.REFUTED
    assert report.replay is not None and report.replay.outcome is Replayed.REPRODUCED


def test_a_replay_that_cannot_end_refutes_nothing() -> None:
    """The finding is shown; the strict policy, which asks for more than harm, keeps its refutation."""
    report, module = unconfirmed(CORPUS / "ptx" / "bulk_ring.bad.ptx")
    found = confirmed(report, module, replace(REPLAY, steps=40, witness=0))
    assert found.verdict is Verdict.UNKNOWN
    assert has(found.reason, Cause.UNFINISHED) and found.diagnostics[0].message in str(found.reason)
    strict = confirmed(replace(report, policy=Policy.STRICT), module, replace(REPLAY, steps=40, witness=0))
    assert strict.verdict is Verdict.REFUTED
    assert found.replay is not None
    assert (found.replay.outcome, "40 warp instructions" in found.replay.detail) == (Replayed.NOT_ENDED, True)


def test_the_schedule_of_a_long_witness_may_take_longer() -> None:
    report, module = unconfirmed(CORPUS / "ptx" / "bulk_ring.bad.ptx")
    found = confirmed(report, module, replace(REPLAY, steps=40, witness=10_000))
    assert found.replay is not None and found.replay.outcome is Replayed.REPRODUCED


def test_time_that_is_over_before_the_replay_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict does not hang on how fast a machine is: what was not replayed is shown, and unknown."""

    def late(*_: object) -> None:
        raise OutOfTimeError(1.0)

    monkeypatch.setattr("syncverify.driver.executions.confirmed.confirm", late)
    (report,) = syncverify.check(ONE, advice=False)
    assert report.verdict is Verdict.UNKNOWN and has(report.reason, Cause.UNFINISHED)
    assert "not ordered" in str(report.reason) or "fence" in str(report.reason)
    assert {d.severity for d in report.diagnostics if d.rule == "SV101"} == {Severity.WARNING}
    (strict,) = syncverify.check(ONE, policy="strict", advice=False)
    assert strict.verdict is Verdict.REFUTED


def test_few_executions_count_where_they_spend_the_budget() -> None:
    report, _ = unconfirmed(ONE)
    good = read_source(CORPUS / "ptx" / "one_fence.good.ptx").module
    assert good is not None
    # 76 warp instructions each; the fourth execution is cut off
    found = confirmed(report, good, replace(REPLAY, steps=250, witness=0))
    assert found.verdict is Verdict.UNKNOWN
    assert found.replay is not None and "3 executions" in found.replay.detail
    fewer = confirmed(report, good, replace(REPLAY, steps=200, witness=0))
    assert fewer.replay is not None and fewer.replay.outcome is Replayed.NOT_ENDED
    assert has(fewer.reason, Cause.UNFINISHED) and not has(fewer.reason, Cause.NOT_REPLAYED)


def test_an_instruction_that_the_reader_does_not_know_refutes_nothing(tmp_path: Path) -> None:
    lines = ONE.read_text().splitlines()
    unknown = "{ .reg .pred %q; istypep.surfref %q, %rd1; }\n"
    at = next(n for n, line in enumerate(lines) if "ld.param.u64" in line) + 1
    path = tmp_path / "k.ptx"
    path.write_text("\n".join([*lines[:at], unknown, *lines[at:]]))
    (tmp_path / "k.ptx.launch.toml").write_text(Path(f"{ONE}.launch.toml").read_text())
    (report,) = syncverify.check(path, advice=False)
    assert report.verdict is Verdict.UNKNOWN
    assert {d.severity for d in report.diagnostics if d.rule == "SV101"} == {Severity.WARNING}
    assert report.replay is not None
    assert report.replay.outcome is Replayed.IMPOSSIBLE and has(report.reason, Cause.NOT_REPLAYED)
    assert "istypep" in report.replay.detail and "istypep" in str(report.reason)


def test_strict_asks_for_more_than_harm() -> None:
    """Two warps store one value: a race by the text, of which no execution shows anything."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{
  .shared .align 4 .b8 flag[4];
  st.shared.b32 [flag], 7;
  bar.sync 0;
  ret;
}
"""
    (report,) = syncverify.check(text, facts={"grid": [1], "block": [64]}, policy="strict", advice=False)
    assert report.verdict is Verdict.REFUTED
    assert report.replay is not None
    assert report.replay.outcome is Replayed.IMPOSSIBLE


def test_a_replay_can_be_left_out() -> None:
    (report,) = syncverify.check(ONE, replay=False, advice=False)
    assert (report.verdict, report.replay) == (Verdict.REFUTED, None)
    (report,) = syncverify.check(ONE, advice=False)
    assert report.replay is not None
    assert report.refuted_system is None


def test_memory_holds_what_a_kernel_compares_with() -> None:
    """A store that one word among 2**32 lets a lane make."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 c[256];
  ld.param.u64 %d1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d2, %d1, %d2;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, c;
  add.u32 %r3, %r3, %r2;
  ld.global.u32 %r4, [%d2];
  setp.ne.u32 %p1, %r4, 3141592653;
  st.shared.u32 [%r3], %r1;
  @%p1 bra OVER;
  ld.shared.u32 %r5, [c+128];
OVER:
  bar.sync 0;
  ret;
}
"""
    (report,) = syncverify.check(
        text, facts={"grid": [1], "block": [64], "params": {"0": {"ptr": "A"}}}, advice=False
    )
    assert report.replay is not None
    assert report.replay.outcome is Replayed.REPRODUCED


def test_a_kernel_without_dynamic_memory_has_none() -> None:
    """A bulk store reads beyond the last variable."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .b64 %d<2>; .shared .align 128 .b8 tile[512];
  ld.param.u64 %d1, [p];
  cp.async.bulk.global.shared::cta.bulk_group [%d1], [tile], 1024;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
"""
    (report,) = syncverify.check(
        text, facts={"grid": [1], "block": [1], "params": {"0": {"ptr": "A"}}}, advice=False
    )
    assert report.replay is not None
    assert report.replay.outcome is Replayed.REPRODUCED


GOOD = sorted((CORPUS / "ptx").glob("*.good.ptx"))


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_launches_that_are_drawn_do_no_harm_to_right_kernels(path: Path) -> None:
    """Else what is drawn, and no mistake of the kernel, might confirm a refutation."""
    module = read_source(path).module
    assert module is not None
    systems: list[System] = []

    def judge(system: System, policy: Policy) -> Outcome:
        systems.append(system)
        return run_system(system, policy)

    function, facts = module.entries[0], facts_for(path)
    checker = Checker(judge)
    task = kernel_task(module, function, facts, Policy.PRACTICAL, checker, {}, "", True)
    *_, report = reports_of(task, ScopeKind.EXACT)
    assert report.verdict is Verdict.PROVED
    system = systems[-1]
    assert isinstance(system, PtxSystem)

    def draw(number: int) -> Launch:
        return drawn_launch(module, function, task.kernel.facts, system, number)

    found = confirm(module, function.name, [], "", draw, DRAWS, Limits(20_000, 10_000, 9))
    assert found.harm is None
    assert found.ended >= 3, found.why  # strides of a map may be drawn wrong


def test_a_kernel_without_an_unsized_array_has_no_more_shared_memory_than_it_declares() -> None:
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n.reqntid 32\n"
        "{ .reg .b32 %r<5>; .shared .align 4 .b8 s[128];\n"
        "mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 6; mov.u32 %r2, s; add.u32 %r2, %r2, %r1;\n"
        "st.shared.u32 [%r2], %r1;\nret; }\n"
    )
    (report,) = syncverify.check(text, advice=False)
    assert report.verdict is Verdict.REFUTED
    assert report.replay is not None and report.replay.outcome is Replayed.REPRODUCED


def test_dynamic_memory_of_another_kernel_is_not_there(tmp_path: Path) -> None:
    """A kernel that does not name the dynamic variable has what it declares, and a store behind it is out."""
    (tmp_path / "k.ptx").write_text(
        """.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 pool[];
.visible .entry other() { .reg .b32 %r<2>; mov.u32 %r1, pool; st.shared.u32 [%r1], 0; ret; }
.visible .entry k()
.reqntid 64, 1, 1
{
.reg .b32 %r<5>;
.shared .align 4 .b8 s[128];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 4, %r2;
st.shared.u32 [%r3], %r1;
ret;
}
"""
    )
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), kernel="k", repairs=False)
    assert found.verdict is Verdict.REFUTED
    assert [d.rule for d in found.diagnostics][:1] == ["SV114"]
