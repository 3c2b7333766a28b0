"""What agents at several places of a ring do to the same registers is done once, and is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.compile.lockstep_memo import BlockPart, Blocks, StepMemo, parts_of
from syncverify.frontends.ptx.exec.agent import PtxAgent
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.symbolic.context import SymbolicContext, UndecidedBranch
from tests.frontends.ptx.analysis.slicing.test_iteration_havoc import FACTS, PARAMS, RING
from tests.frontends.ptx.execute_helpers import module_text

#: A stage that goes round and a question that is the same at all places.
TURN = [
    " r[20] = (r[12] + 1) & 4294967295",
    " r[12] = (0 if r[20] == 4 else r[20])",
    " r[13] = (r[13] + 1) & 4294967295",
    " r[21] = (r[13] < r[14])",
    " v = r[21]",
    " if v.__class__ not in I: r[0] = 40; v = D(r, v, 3)",
    " if v is not None: r[0] = 8 if v else 16",
]


#: The same ring of two slots with a stage and a parity.
WRAPS = (
    RING.replace("RESET", "")
    .replace("mov.u32 %r4, 0;", "mov.u32 %r4, 0;\n    mov.u32 %r24, 0;")
    .replace("and.b32 %r5, %r4, 1;", "mov.u32 %r5, %r4;")
    .replace("bfe.u32 %r9, %r4, 1, 1;", "mov.u32 %r9, %r24;")
    .replace(
        "add.u32 %r4, %r4, 1;",
        """add.u32 %r4, %r4, 1;
    setp.eq.u32 %p7, %r4, 2;
    selp.b32 %r4, 0, %r4, %p7;
    selp.u32 %r25, 1, 0, %p7;
    xor.b32 %r24, %r24, %r25;""",
    )
)


def blocks(lines: list[str], slots: tuple[int, ...]) -> tuple[tuple[BlockPart, ...], list[int]]:
    """The parts of one block, which counts how often it asks."""
    asked: list[int] = []

    def decides(r: list[Any], v: Any, k: int) -> Any:
        asked.append(k)
        return v

    names = {"I": {int, bool}, "D": decides}
    exec("\n".join(["def b8(r, a):", *lines]), names)
    return Blocks({8: lines}, {8: slots}, names).at(8), asked


def registers(stage: int, turn: Any, end: Any) -> list[Any]:
    r: list[Any] = [8, (), 0, None, None, None, (), 0xFFFFFFFF, *[0] * 30]
    r[12], r[13], r[14] = stage, turn, end
    return r


def test_what_a_branch_needs_is_told_from_the_rest() -> None:
    rest, end = parts_of(TURN, (12, 13, 20, 21))
    assert rest.text == TURN[:2] and end.text == TURN[2:]
    assert rest.slots == {12, 20} and end.slots == {13, 21}


@pytest.mark.parametrize(
    "line",
    [
        " r[9] = L(r, 'shared', r[8], 4, c3)",  # what lies in memory is the agent's own
        " if P(r, r[8], 3): r[0] = 16",
        " other(r)",
        " N(r, 3)",
    ],
)
def test_code_that_does_more_is_run_by_each(line: str) -> None:
    assert parts_of([" r[8] = 1", line, " r[0] = 16"], (8, 9)) == []


def test_a_line_that_reads_what_the_end_writes_runs_before_it() -> None:
    lines = [" r[10] = r[11] + 1", " r[11] = 5", " v = r[11]", " r[0] = 8 if v else 16"]
    assert [x.text for x in parts_of(lines, (10, 11))] == [lines]


def test_the_same_registers_are_asked_once_and_stages_go_on() -> None:
    space = SymbolicContext()
    n = space.symbol("n", 5, None)
    parts, _ = blocks(TURN, (12, 13, 20, 21))
    steps = StepMemo()
    found = []
    for stage in range(4):
        r = registers(stage, SymbolicWord(space.term(0, ()) + n - 5, 32), SymbolicWord(n, 32))
        for part in parts:
            steps.run(part, r, 0)
        found.append((r[0], r[12], r[21]))
        assert r[13].term is n - 4
    assert found == [(8, 1, True), (8, 2, True), (8, 3, True), (8, 0, True)]
    assert len(steps.done) == 1


def test_an_open_question_is_the_same_question() -> None:
    space = SymbolicContext()
    n = space.symbol("n", 0, None)
    parts, _ = blocks(TURN, (12, 13, 20, 21))
    steps, asked = StepMemo(), []
    for stage in range(3):
        r = registers(stage, 3, SymbolicWord(n, 32))
        with pytest.raises(UndecidedBranch) as e:
            for part in parts:
                steps.run(part, r, 0)
        asked.append(e.value)
    assert asked[0] is asked[1] is asked[2]


def test_other_registers_are_not_taken_for_the_same() -> None:
    space = SymbolicContext()
    n, m = space.symbol("n", 9, None), space.symbol("m", 0, 2)
    parts, _ = blocks(TURN, (12, 13, 20, 21))
    steps = StepMemo()
    found = []
    for end in (SymbolicWord(n, 32), SymbolicWord(m, 32)):
        r = registers(0, 3, end)
        for part in parts:
            steps.run(part, r, 0)
        found.append(r[0])
    assert found == [8, 16]


def test_a_decision_that_may_write_more_is_made_by_each() -> None:
    parts, asked = blocks([" r[21] = r[14]", *TURN[4:]], (21,))
    steps, odd = StepMemo(), SymbolicWord(SymbolicContext().symbol("n", 5, None), 32)
    for _ in range(2):
        r = registers(0, 0, odd)
        for part in parts:
            steps.run(part, r, 0)
    assert asked == [3, 3]


def proved(folder: Path) -> KernelReport:
    (path := folder / "k.ptx").write_text(module_text(WRAPS, params=PARAMS))
    (launch := folder / "k.toml").write_text(FACTS)
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is Verdict.PROVED, report.reason
    return report


def test_a_proof_round_a_ring_is_the_same_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[StepMemo] = []

    def steps() -> StepMemo:
        made.append(StepMemo())
        return made[-1]

    monkeypatch.setattr(PtxAgent, "lockstep_memo", staticmethod(steps))
    report = proved(tmp_path)
    assert any(s.done for s in made)
    monkeypatch.setattr(PtxAgent, "lockstep_memo", staticmethod(lambda: None))
    assert proved(tmp_path).stats == report.stats
