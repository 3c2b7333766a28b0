"""Arrays that sizes carve out of one dynamic shared memory: proofs, and mistakes that are none."""

from __future__ import annotations

from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.driver.executions import sought
from syncverify.driver.ptx import every_size

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 smem[];
.visible .entry k(.param .u32 n, .param .u64 in, .param .u32 m)
.reqntid 64, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<20>, %n, %k, %row, %bins, %v, %w, %m; .reg .b64 %d<4>;
  ld.param.u32 %n, [n]; ld.param.u64 %d1, [in]; ld.param.u32 %m, [m];
  mov.u32 %k, %tid.x; mul.wide.u32 %d2, %k, 4; add.u64 %d3, %d1, %d2;
  ld{space}.u32 %w, [%d3]; setp.gt.u32 %p5, %w, 7;
  mov.u32 %row, smem; {carve} mov.u32 %r1, %k;
FILL:
  setp.ge.u32 %p1, %r1, %n; @%p1 bra FILLED;
  mad.lo.u32 %r2, %r1, 4, %row; st.shared.u32 [%r2], %k; {fill}
  add.u32 %r1, %r1, {step}; bra FILL;
FILLED:
  {between} mov.u32 %r3, %k;
STEP:
  setp.ge.u32 %p2, %r3, %n; @%p2 bra STEPPED;
  mad.lo.u32 %r4, %r3, 4, %row; ld.shared.u32 %v, [%r4];
  mad.lo.u32 %r5, %v, 4, %bins; {count}
  add.u32 %r3, %r3, 64; bra STEP;
STEPPED:
  {behind} xor.b32 %r6, %k, 1; setp.ge.u32 %p3, %r6, %n; @%p3 bra END;
  mad.lo.u32 %r7, %r6, 4, %bins; ld.shared.u32 %v, [%r7];
END:
  ret;
}}
"""
RIGHT = {
    "space": ".global",
    "carve": "mad.lo.u32 %bins, %n, 4, %row;",
    "fill": "mad.lo.u32 %r8, %r1, 4, %bins; st.shared.u32 [%r8], 0;",
    "step": "64",
    "between": "bar.sync 0;",
    "count": "atom.shared.add.u32 %r9, [%r5], 1;",
    "behind": "bar.sync 0;",
}
ENDS = "setp.le.s32 %p6, %n, %r3; @%p6 bra STEPPED; sub.u32 %r10, %n, %r3; "
LAST = "mad.lo.u32 %r8, %r10, 4, %row; ld.shared.u32 %r9, [%r8+-4];"
FROM_THE_END = {"count": ENDS + LAST}
TWO_MORE = {
    "carve": "mad.lo.u32 %bins, %n, 4, %row; add.u32 %bins, %bins, 8;",
    "count": "ld.shared.u32 %r9, [%r4+8]; atom.shared.add.u32 %r9, [%r5], 1;",
}
ON_BY_A_SIZE = {
    "carve": "mad.lo.u32 %bins, %n, 4, %row; mad.lo.u32 %r15, %k, 4, %row;",
    "fill": "mad.lo.u32 %r8, %n, 4, %r15; st.shared.u32 [%r8], %k; add.u32 %r15, %r15, 256;",
}
#: A loop counts up a number that begins at a size.
FROM_A_SIZE = {
    "carve": "mad.lo.u32 %bins, %n, 4, %row; shl.b32 %r15, %n, 2; mad.lo.u32 %r16, %k, 4, %row;",
    "fill": "add.u32 %r8, %r16, %r15; st.shared.u32 [%r8], %k; add.u32 %r15, %r15, 256;",
}
HALF = (
    "DOUBLE shr.u32 %r10, %n, 31; add.u32 %r10, %n, %r10; shr.s32 %r12, %r10, 1; "
    "mad.lo.u32 %bins, %r12, 4, %row;"
)
GOOD: dict[str, dict[str, str]] = {
    "bins behind a row": {},
    "data behind a generic pointer": {"space": ""},
    "a sum before it is scaled": {"fill": "add.u32 %r10, %r1, %n; mad.lo.u32 %r8, %r10, 4, %row; "
                                          "st.shared.u32 [%r8], 0;"},
    "a size rounded up": {"carve": "add.u32 %r10, %n, 3; and.b32 %r10, %r10, -4; "
                                   "mad.lo.u32 %bins, %r10, 4, %row;"},
    "from the end of the row": {"count": "sub.u32 %r10, %n, %r3; mad.lo.u32 %r8, %r10, 4, %row; "
                                         "ld.shared.u32 %r9, [%r8+-4];"},
    "from the end of the bins": {"count": "sub.u32 %r10, %n, %r3; mad.lo.u32 %r8, %r10, 4, %bins; "
                                          "ld.shared.u32 %r9, [%r8+-4];"},
    "from the end, where the size is compared": FROM_THE_END,
    "two more words before the bins": TWO_MORE,
    "a sum of 64 bits": {"carve": "cvt.u64.u32 %d2, %n; shl.b64 %d2, %d2, 2; cvt.u32.u64 %r10, %d2; "
                                  "add.u32 %bins, %r10, %row;"},
    "a pointer that goes on by a size": ON_BY_A_SIZE,
    "a number that goes on from a size": FROM_A_SIZE,
    "a size with its last bit set": {"carve": "or.b32 %r10, %n, 1; mad.lo.u32 %bins, %r10, 4, %row;"},
    "a quotient that is rounded to 0": {"carve": HALF.replace("%n", "%r11").replace("DOUBLE",
                                                                                  "shl.b32 %r11, %n, 1;")},
}  # fmt: skip
ROUNDED = "add.u32 %r10, %n, {}; and.b32 %r10, %r10, -256; mad.lo.u32 %bins, %r10, 4, %row;"
GOOD["a size rounded up to 256"] = {"carve": ROUNDED.format(255)}
WRONG = {
    "a size rounded up that is one too small at 257": {"carve": ROUNDED.format(254)},
    "a size with bits set and one more word at 255": {
        "carve": "or.b32 %r10, %n, 255; mad.lo.u32 %bins, %r10, 4, %row; add.u32 %n, %n, 1;"},
    "no barrier behind the zeros": {"between": ""},
    "no barrier behind the counts": {"behind": ""},
    "counts without an atomic": {"count": "st.shared.u32 [%r5], 1;"},
    "threads with words of others": {"step": "48"},
    "bins begin in the last element": {"carve": "mad.lo.u32 %bins, %n, 4, %row; add.u32 %bins, %bins, -4;"},
    "bins behind half of the row": {"carve": "shr.u32 %r10, %n, 1; mad.lo.u32 %bins, %r10, 4, %row;"},
    "bins where another size says": {"carve": "mad.lo.u32 %bins, %m, 4, %row;"},
    "a size rounded down": {"carve": "and.b32 %r10, %n, -32; mad.lo.u32 %bins, %r10, 4, %row;"},
    "a size that a mask keeps small": {"carve": "and.b32 %r10, %n, 1023; mad.lo.u32 %bins, %r10, 4, %row;"},
    "the lesser of a size and a number": {"carve": "min.u32 %r10, %n, 600; mad.lo.u32 %bins, %r10, 4, %row;"},
    "either of two places": {"carve": "mad.lo.u32 %bins, %n, 4, %row; @%p5 mov.u32 %bins, %row;"},
    "a row of twice as many": {"carve": "mad.lo.u32 %bins, %n, 4, %row; shl.b32 %n, %n, 1;", "fill": ""},
    "the word before the bins": {"fill": "mad.lo.u32 %r8, %r1, 4, %bins; st.shared.u32 [%r8+-4], 0;"},
    "from the end, where the size is compared, no barrier": FROM_THE_END | {"between": ""},
    "two words that the bins have, too": TWO_MORE | {"carve": RIGHT["carve"]},
    "a sum of 64 bits that is too small": {"carve": "cvt.u64.u32 %d2, %n; shl.b64 %d2, %d2, 1; "
                                                    "cvt.u32.u64 %r10, %d2; add.u32 %bins, %r10, %row;"},
    "a third word": TWO_MORE | {"count": TWO_MORE["count"].replace("+8", "+12")},
    "a pointer that goes on by a size and fewer words": {
        n: text.replace("256", "128") for n, text in ON_BY_A_SIZE.items()},
    "a number that goes on from a size, in smaller steps": {
        n: text.replace("256", "128") for n, text in FROM_A_SIZE.items()},
    "a quotient that is too small": {"carve": HALF.replace("DOUBLE", "")},
    "a number that goes on by a size": {
        n: text.replace("%r15, 256", "%r15, %n") for n, text in FROM_A_SIZE.items()},
    "a pointer that goes on by another size": {
        n: text.replace("%r8, %n", "%r8, %m") for n, text in ON_BY_A_SIZE.items()},
    "a place that is stored": {"fill": "st.shared.u32 [%r2], %bins;"},
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("undecided")


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search over sizes decides, no places by sizes, no small size is tried, and no input is drawn."""
    found = ParametricResult(Verdict.UNKNOWN, reason="the search is left out")
    monkeypatch.setattr(every_size, "_searched", lambda k, _: every_size.Attempt(k, found))
    monkeypatch.setattr(every_size, "_proved_by_places", lambda _: None)
    monkeypatch.setattr(every_size, "refuted_early", lambda *_, **__: None)
    monkeypatch.setattr(every_size, "_smallest", lambda _, found: found)
    monkeypatch.setattr(every_size, "_with_fewer_terms", lambda _: None)
    monkeypatch.setattr(sought, "sought", lambda found, *_: found)


def report(changes: dict[str, str], *, replay: bool = True, **facts: Any) -> KernelReport:
    given = {"grid": [1, 1, 1], "params": {"0": "n", "2": "m"}, **facts}
    (found,) = syncverify.check(
        TEXT.format(**RIGHT | changes),
        facts={"kernel": {"k": given}},
        scope="all",
        advice=False,
        replay=replay,
        timeout=90,
    )
    return found


def arrays(found: KernelReport) -> list[str]:
    return [a for a in found.assumptions if a.startswith("accesses stay inside the arrays")]


@pytest.mark.parametrize("what", GOOD)
def test_each_array_is_a_variable_of_its_own(what: str) -> None:
    found = report(GOOD[what])
    assert found.verdict is Verdict.PROVED, found.reason
    (said,) = arrays(found)
    assert "`smem+0`" in said and "n = 2; n = 3; n = 33" in said


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_not_proved(what: str) -> None:
    assert report(WRONG[what], replay=False).verdict is not Verdict.PROVED


def test_bytes_that_do_not_hold_the_last_array_are_no_proof() -> None:
    assert report({}, dynamic_smem="8 * n + 256").verdict is Verdict.PROVED
    assert report({}, replay=False, dynamic_smem="4 * n + 4").verdict is not Verdict.PROVED


def test_arrays_at_numbers() -> None:
    found = report({}, params={"0": 100})
    assert found.verdict is Verdict.PROVED
    assert report({"behind": ""}, replay=False, params={"0": 100}).verdict is not Verdict.PROVED


def test_a_few_numbers_refute_what_no_search_over_sizes_compares() -> None:
    found = report(WRONG["bins behind half of the row"])
    assert found.verdict is Verdict.REFUTED
    assert found.scope.values["params.0"] == 2 and "params.1" not in found.scope.values
