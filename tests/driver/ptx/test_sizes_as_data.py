"""Some sizes as terms and the others as data: turns of a block whose threads share out words up to a size."""

from __future__ import annotations

from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.strategy import EFFORTS, Effort, Entry
from syncverify.driver.ptx import every_size
from tests.system.open_sizes.agreement import tried_as_data

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 rows)
.reqntid 64, 1, 1
{{
  .reg .pred %p<6>; .reg .b32 %r<9>, %n, %m, %t, %s, %v, %w;
  .shared .align 4 .b8 words[1024];
  ld.param.u32 %n, [n];
  ld.param.u32 %m, [rows];
  mov.u32 %t, %tid.x;
  mov.u32 %s, words;
  mov.u32 %r5, 0;
ROW:
  setp.ge.u32 %p3, %r5, %m;
  @%p3 bra DONE;
  mov.u32 %r1, %t;
STORE:
  setp.ge.u32 %p1, %r1, %n;
  @%p1 bra STORED;
  mad.lo.u32 %r2, %r1, 4, %s;
  st.shared.u32 [%r2], %t;
  {stored}
  add.u32 %r1, %r1, 64;
  bra STORE;
STORED:
  {between}
  mov.u32 %r3, 0;
LOAD:
  setp.ge.u32 %p2, %r3, %n;
  @%p2 bra LOADED;
  mad.lo.u32 %r4, %r3, 4, %s;
  ld.shared.u32 %v, [%r4];
  ld.shared.u32 %w, [%r4+4];
  add.u32 %r3, %r3, 2;
  bra LOAD;
LOADED:
  setp.lt.u32 %p4, %n, 7;
  @%p4 bra NEXT;
  ld.shared.u32 %v, [%s];
NEXT:
  {behind}
  add.u32 %r5, %r5, 1;
  bra ROW;
DONE:
  ret;
}}
"""
RIGHT = {"stored": "", "between": "bar.sync 0;", "behind": "bar.sync 0;"}
WRONG = {
    "no barrier ahead of the next row": {"behind": ""},
    "no barrier behind the stores": {"between": ""},
    "a barrier for some sizes": {"between": "setp.gt.u32 %p5, %n, 100; @%p5 bra LATE; bar.sync 0; LATE:"},
    "a barrier in the loop": {"stored": "bar.sync 0;"},
    "a barrier for some threads": {"between": "setp.lt.u32 %p5, %t, %n; @%p5 bra LATE; bar.sync 0; LATE:"},
    "a barrier that counts a size": {"between": "bar.sync 0, %n;"},
}  # fmt: skip


def report(*assume: str, **changes: str) -> KernelReport:
    params = {"0": "n", "1": "rows"}
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": params, "assume": list(assume)}}}
    (found,) = syncverify.check(TEXT.format(**RIGHT | changes), facts=facts, scope="all", advice=False)
    return found


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other attempt decides."""
    monkeypatch.setattr(every_size, "_tried", tried_as_data)
    monkeypatch.setattr(every_size, "refuted_early", lambda *_, **__: None)


@pytest.mark.usefixtures("alone")
def test_a_row_is_shared_out_in_every_turn() -> None:
    found = report("n <= 256")
    assert found.verdict is Verdict.PROVED
    assert len([a for a in found.assumptions if "stays inside shared memory" in a]) == 3


@pytest.mark.usefixtures("alone")
def test_a_size_that_facts_let_go_outside_refutes() -> None:
    found = report("n <= 257")
    assert found.verdict is Verdict.REFUTED
    assert found.scope.values["params.0"] == 257


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_not_proved(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_size, "_smallest", lambda _, found: found)
    assert report(**WRONG[what]).verdict is not Verdict.PROVED


def test_it_comes_before_the_long_search(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[Effort] = []
    decide = strategy.decide

    def counted(problem: Any, policy: Any, effort: Effort, *more: Any) -> Any:
        efforts.append(effort)
        return decide(problem, policy, effort, *more)

    monkeypatch.setattr(strategy, "decide", counted)
    monkeypatch.setattr(every_size, "_with_fewer_terms", lambda _: None)
    assert report().verdict is Verdict.PROVED
    assert efforts == [EFFORTS[Entry.PTX_AHEAD], EFFORTS[Entry.PTX_DATA]]
