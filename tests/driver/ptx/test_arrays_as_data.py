"""Accesses that data places, inside the arrays that they name: where all of shared memory leaves it open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.cli.main import run
from syncverify.driver.ptx import every_size

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 in)
.reqntid 64, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<9>, %n, %k, %s, %t, %to, %v, %w; .reg .b64 %d<4>;
  .shared .align 4 .b8 s[1024]; .shared .align 4 .b8 t[1024];
  ld.param.u32 %n, [n]; ld.param.u64 %d1, [in];
  mov.u32 %k, %tid.x; mul.wide.u32 %d2, %k, 4; add.u64 %d3, %d1, %d2;
  ld.global.u32 %w, [%d3]; setp.gt.u32 %p5, %w, 7;
  mov.u32 %s, s; mov.u32 %t, t; {to} mov.u32 %r1, %k;
FILL:
  setp.ge.u32 %p1, %r1, %n; @%p1 bra FILLED;
  mad.lo.u32 %r2, %r1, 4, %s; st.shared.u32 [%r2], %k;
  add.u32 %r1, %r1, 64; bra FILL;
FILLED:
  {between} mov.u32 %r3, %k;
STEP:
  setp.ge.u32 %p2, %r3, %n; @%p2 bra STEPPED;
  mad.lo.u32 %r4, %r3, 4, %s; ld.shared.u32 %v, [%r4+{far}];
  mad.lo.u32 %r5, %r3, 4, %to; st.shared.u32 [%r5], %v; {more}
  add.u32 %r3, %r3, 64; bra STEP;
STEPPED:
  {behind} xor.b32 %r6, %k, 1;
LOAD:
  setp.ge.u32 %p3, %r6, %n; @%p3 bra LOADED;
  mad.lo.u32 %r7, %r6, 4, %t; ld.shared.u32 %v, [%r7];
  add.u32 %r6, %r6, 64; bra LOAD;
LOADED:
  ret;
}}
"""
RIGHT = {
    "to": "mov.u32 %to, %t;",
    "between": "bar.sync 0;",
    "far": "4",
    "more": "",
    "behind": "bar.sync 0;",
}
GOOD = {
    "another array": {},
    "a pointer chosen within one array": {
        "more": "add.u32 %r5, %s, 256; selp.b32 %r5, %s, %r5, %p5; mad.lo.u32 %r5, %w, 4, %r5;"
        " ld.shared.u32 %v, [%r5];"
    },
    "a load where data says": {"more": "mad.lo.u32 %r5, %w, 4, %s; ld.shared.u32 %v, [%r5];"},
}
WRONG = {
    "the neighbour's word of the same array": {"to": "mov.u32 %to, %s;"},
    "no barrier behind the first phase": {"between": ""},
    "no barrier behind the second phase": {"behind": ""},
    "the first array by a constant from the second": {"to": "mov.u32 %to, t-1024;"},
    "the first array by a sum from the second": {"to": "add.u32 %to, %t, -1024;"},
    "a constant that leads to the next array": {"far": "1028"},
    "a pointer to either array": {"to": "selp.b32 %to, %s, %t, %p5;"},
    "a pointer that a branch changes": {"to": "@%p5 mov.u32 %to, %s; @!%p5 mov.u32 %to, %t;"},
    "the difference of two places": {"to": "sub.u32 %r8, %s, %t; add.u32 %to, %t, %r8;"},
    "a store for some data": {"more": "mad.lo.u32 %r5, %w, 4, %s; @%p5 st.shared.u32 [%r5], %v;"},
}


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search over sizes decides, and no small size is tried."""
    found = ParametricResult(Verdict.UNKNOWN, reason="the search is left out")
    monkeypatch.setattr(every_size, "_searched", lambda k, _: every_size.Attempt(k, found))
    monkeypatch.setattr(every_size, "refuted_early", lambda *_, **__: None)
    monkeypatch.setattr(every_size, "_smallest", lambda _, found: found)


def report(*assume: str, **changes: str) -> KernelReport:
    return _checked(assume, changes, replay=True)


def _checked(assume: Sequence[str], changes: dict[str, str], *, replay: bool) -> KernelReport:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": {"0": "n"}, "assume": list(assume)}}}
    text = TEXT.format(**RIGHT | changes)
    (found,) = syncverify.check(text, facts=facts, scope="all", replay=replay, advice=False)
    return found


def places(found: KernelReport) -> set[str]:
    """What accesses are taken to stay inside."""
    return {a.rpartition("inside ")[2] for a in found.assumptions if "where data says" in a}


@pytest.mark.usefixtures("undecided")
@pytest.mark.parametrize("what", GOOD)
def test_each_access_stays_inside_the_array_that_it_names(what: str) -> None:
    found = report("n <= 255", **GOOD[what])
    assert found.verdict is Verdict.PROVED, found.reason
    assert places(found) == {"`s`", "`t`"}


@pytest.mark.usefixtures("undecided")
@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_not_proved(what: str) -> None:
    assert _checked(["n <= 255"], WRONG[what], replay=False).verdict is not Verdict.PROVED


@pytest.mark.usefixtures("undecided")
def test_a_size_that_facts_let_reach_the_next_array_refutes() -> None:
    found = report("n <= 257")  # s[256] is the first word of t
    assert found.verdict is Verdict.REFUTED
    assert found.scope.values["params.0"] == 257


@pytest.mark.usefixtures("undecided")
def test_what_assumes_less_comes_first() -> None:
    found = report("n <= 255", to="mov.u32 %to, %s;", far="0", behind="bar.sync 0; ret;")
    assert found.verdict is Verdict.PROVED
    assert places(found) == {"shared memory"}


TURNS = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in)
.reqntid 64, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<9>, %k, %s, %t, %v, %w, %n; .reg .b16 %h<3>; .reg .b64 %d<4>;
  .shared .align 4 .b8 s[256]; .shared .align 4 .b8 t[128]; .shared .align 4 .b8 u[256];
  ld.param.u64 %d1, [in]; ld.global.u32 %n, [%d1+8];
  mov.u32 %k, %tid.x; mul.wide.u32 %d2, %k, 4; add.u64 %d3, %d1, %d2; ld.global.u32 %w, [%d3];
  mov.u32 %s, s; mad.lo.u32 %s, %k, 4, %s; mov.u32 %t, t; mad.lo.u32 %r1, %w, 2, %t; mad.lo.u32 %t, %k, 2, %t;
  mov.u32 %r2, u; mad.lo.u32 %r2, %w, 4, %r2; st.shared.u16 [%t], %k; mov.u32 %r3, 0;
TOP:
  setp.ge.u32 %p1, %r3, %n; @%p1 bra END;
  {before} st.shared.u32 [%s], %k; ld.shared.u16 %v, [%r1]; red.shared.add.u32 [%r2], 1;
  {behind} st.shared.u16 [%t], %r3; add.u32 %r3, %r3, 1; bra TOP;
END:
  ret;
}}
"""


@pytest.mark.parametrize(
    ("before", "behind"), [("bar.sync 0;", "bar.sync 0;"), ("", "bar.sync 0;"), ("bar.sync 0;", "")]
)
def test_loops_as_long_as_a_word_says_beside_such_accesses(before: str, behind: str) -> None:
    """The word is one for the block; elements of three arrays have two widths."""
    facts = {"kernel": {"k": {"grid": [1, 1, 1]}}}
    (found,) = syncverify.check(
        TURNS.format(before=before, behind=behind), facts=facts, scope="all", replay=False, advice=False
    )
    if before and behind:
        assert found.verdict is Verdict.PROVED, found.reason
        assert places(found) == {"`t`", "`u`"}
    else:
        assert found.verdict is not Verdict.PROVED


def test_a_certificate_covers_the_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ptx, launch, proof = (str(tmp_path / name) for name in ("k.ptx", "k.ptx.launch.toml", "k.json"))
    head, _, rest = TEXT.format(**RIGHT | GOOD["a load where data says"]).partition("ld.param.u32 %n, [n];")
    Path(ptx).write_text(f"{head}mov.u32 %n, 64;{rest}")
    Path(launch).write_text("[kernel.k]\ngrid = [1, 1, 1]\n")
    assert run(["check", "--no-cache", "--certificate", proof, ptx]) == 0
    assert run(["recheck", proof, ptx]) == 0
    said = [
        text.partition("assumed: ")[2] for text in capsys.readouterr().out.splitlines() if "assumed" in text
    ]
    (checked, rechecked) = (text for text in said if "where data says" in text)
    assert checked == rechecked and "stays inside" in checked
