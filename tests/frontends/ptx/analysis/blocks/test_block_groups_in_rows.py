"""PTX whose block groups are rows of the grid, proved as any member of one; beside small launches, checked
whole.
"""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.strategy import Entry
from syncverify.driver.prover import prover
from syncverify.driver.ptx.check import check_module
from syncverify.driver.ptx.task import Checker
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.analysis.blocks.test_block_groups import (
    _GO,
    _HEAD,
    _LAST,
    _PARTS,
    _WAIT,
    _WORK,
    FACTS,
    _team,
)

_ROWS = _HEAD.replace("mov.u32 %r1, %ctaid.x", "mov.u32 %r3, %ctaid.x")
_ROWS = _ROWS.replace("div.u32 %r2, %r1, 3", "mov.u32 %r2, %ctaid.y")
_ROWS = _ROWS.replace("sub.u32 %r3, %r1, %r9", "add.u32 %r1, %r9, %r3")
GOOD = {
    "each after the one before": _team(head=_ROWS),
    "the last collects": _team(_LAST, _PARTS, head=_ROWS),
}
WRONG = {
    "no release": _team(go=_GO.replace("    fence.acq_rel.gpu;\n", ""), head=_ROWS),
    "the flag first": _team(work="", go=_GO + _WORK, head=_ROWS),
    "the last does not wait": _team(_WAIT.replace("eq.u32 %p1, %r3, 0", "ne.u32 %p1, %r3, 1"), head=_ROWS),
    "a slot too far": _team(_LAST, _PARTS.replace("+-512", "+512"), head=_ROWS),
    "the last looks too early": _team(_LAST.replace("%r8, 2", "%r8, 1"), _PARTS, head=_ROWS),
    "the next team's flag": _team(go=_GO.replace("u32 [%rd4]", "u32 [%rd4+4]"), head=_ROWS),
}


@cache
def _verdict(text: str, teams: str | int) -> Verdict:
    """Of grids of so many rows; of every number if that is a name."""
    every = isinstance(teams, str)
    facts = {**FACTS, "grid": [3, teams, 1], "assume": ["T >= 1"] if every else []}
    facts |= {} if every else {"params": {**FACTS["params"], "3": {"i32": 2}}}
    found = check_module(
        parse(text, "k.ptx"), LaunchFacts({"k": facts}, "the launch"), Policy.PRACTICAL,
        Checker(run_system, prover(Entry.PTX)), scope=ScopeKind.ALL if every else ScopeKind.EXACT,
    )  # fmt: skip
    return found[0].verdict


@pytest.mark.parametrize("name", GOOD)
def test_rows_are_proved_and_small_launches_are(name: str) -> None:
    assert {_verdict(GOOD[name], teams) for teams in ("T", 1, 2)} == {Verdict.PROVED}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_small_launch_refutes_is_not_proved(name: str) -> None:
    assert Verdict.REFUTED in {_verdict(WRONG[name], teams) for teams in (1, 2)}
    assert _verdict(WRONG[name], "T") is not Verdict.PROVED
