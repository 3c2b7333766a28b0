"""Loops that nothing ends are undecided soon, and long loops that end are followed to their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.reason import Cause, Reason
from syncverify.checker.happens_before.run import MANY_IN_A_ROW
from syncverify.checker.outcome import Outcome
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ptx.check import Checker, check_module
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.model.events import System
from tests.frontends.ptx.execute_helpers import module_text

BARRIER = """
    .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    READY:
    bar.sync 0;
"""
#: Every turn waits for the phase before the first, which is over.
ENDLESS = (
    BARRIER
    + """
    AGAIN:
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 1;
    @!%p2 bra W;
    setp.lt.u32 %p3, %r1, 1024;
    @%p3 bra AGAIN;
    ret;
"""
)
COUNTED = ENDLESS.replace("AGAIN:", "mov.u32 %r2, 0;\n    AGAIN:", 1).replace(
    "setp.lt.u32 %p3, %r1, 1024;", f"add.u32 %r2, %r2, 1;\n    setp.lt.u32 %p3, %r2, {3 * MANY_IN_A_ROW};"
)


def check(folder: Path, body: str, scope: ScopeKind) -> KernelReport:
    source, facts = folder / "k.ptx", folder / "k.launch.toml"
    source.write_text(module_text(body))
    facts.write_text("[kernel.k]\nblock = [32, 1, 1]\ngrid = [1]\n")
    (report,) = check_source(read_source(source), facts=read_facts(facts), scope=scope, repairs=False)
    return report


@pytest.mark.parametrize("scope", [ScopeKind.EXACT, ScopeKind.ALL])
def test_a_loop_that_nothing_ends(tmp_path: Path, scope: ScopeKind) -> None:
    report = check(tmp_path, ENDLESS, scope)
    assert report.verdict is Verdict.UNKNOWN
    assert "a loop never ends" in str(report.reason)
    assert report.diagnostics[0].span.line > 0


def test_a_long_loop_that_ends(tmp_path: Path) -> None:
    assert check(tmp_path, COUNTED, ScopeKind.EXACT).verdict is Verdict.PROVED


#: A loop without events, on a register that is written before it, in it or not at all.
SPIN = """
    mov.u32 %r1, %tid.x;
    BEFORE
    AGAIN:
    INSIDE
    @%p1 bra AGAIN;
    bar.sync 0;
    ret;
"""
ASKS = "setp.eq.u32 %p1, %r1, 7;"


@pytest.mark.parametrize(
    ("before", "inside", "verdict"),
    [
        ("", ASKS, Verdict.UNKNOWN),
        ("", "", Verdict.UNKNOWN),  # nobody writes what decides
        (ASKS, "", Verdict.UNKNOWN),
        ("", "mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 7;", Verdict.UNKNOWN),
        ("", "mov.u32 %r2, %clock; setp.eq.u32 %p1, %r2, 7;", Verdict.PROVED),
        ("", ASKS + "add.u32 %r1, %r1, 1;", Verdict.PROVED),
        ("", ASKS + "mov.u32 %r1, 8;", Verdict.PROVED),  # another value from the second turn on
        ("setp.eq.u32 %p1, 0, 0;", "mov.pred %p2, %p1; @%p2 setp.eq.u32 %p1, 0, 1;", Verdict.PROVED),
    ],
)
def test_a_loop_without_events_has_to_move_on(
    tmp_path: Path, before: str, inside: str, verdict: Verdict
) -> None:
    body = SPIN.replace("BEFORE", before).replace("INSIDE", inside)
    for scope in (ScopeKind.EXACT, ScopeKind.ALL):
        assert check(tmp_path, body, scope).verdict is verdict


PLACED = """
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, 0;
    AGAIN:
    bar.sync 0;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p2, %r2, %r1;
    @%p2 bra AGAIN;
    ret;
"""


@pytest.mark.parametrize(("reason", "runs"), [(Reason("it ends late", Cause.BUDGET), 1), ("nobody knows", 4)])
def test_a_run_without_an_end_is_not_taken_for_every_block(tmp_path: Path, reason: str, runs: int) -> None:
    judged: list[int] = []

    def judge(system: System, policy: Policy) -> Outcome:
        judged.append(system.cluster)  # type: ignore[attr-defined]
        return Outcome(Verdict.UNKNOWN, (), None, reason, {})

    text = module_text(PLACED)
    (launch := tmp_path / "k.toml").write_text("[kernel.k]\nblock = [32]\ngrid = [4]\ncluster = [1]\n")
    (report,) = check_module(
        parse(text, "k.ptx"), read_facts(launch), Policy.PRACTICAL, Checker(judge), infer=False
    )
    assert report.verdict is Verdict.UNKNOWN and len(judged) == runs
