"""A guard on data says what a branch on data says: both forms have the same verdict."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.flow.data_guards import with_data_guards_as_branches
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

BODY = """
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [k_in];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd1, %rd3;
    ld.global.u32 %r8, [%rd2];
    setp.gt.s32 %p1, %r8, 0;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], 0;
    STORE
    WAIT
    xor.b32 %r5, %r2, 4;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd2], %r7;
    ret;
"""
GUARD = "@%p1 st.shared.u32 [PLACE], %r8;"
BRANCH = "@!%p1 bra OVER; st.shared.u32 [PLACE], %r8; OVER:"


def _text(store: str, wait: str, place: str) -> str:
    body = BODY.replace("STORE", store.replace("PLACE", place)).replace("WAIT", wait)
    text = module_text(body, ".param .u64 k_in")
    return text.replace("(.param .u64 k_in)", "(.param .u64 k_in)\n.reqntid 96")


@pytest.mark.parametrize("store", [GUARD, BRANCH], ids=["guard", "branch"])
@pytest.mark.parametrize(
    ("wait", "place", "verdict", "rule"),
    [
        ("bar.sync 0;", "%r4", Verdict.PROVED, ""),
        ("", "%r4", Verdict.REFUTED, "SV110"),
        ("bar.sync 0;", "%r3", Verdict.REFUTED, "SV112"),  # all to one word
    ],
)
def test_an_access_that_data_guards(store: str, wait: str, place: str, verdict: Verdict, rule: str) -> None:
    (report,) = check(_text(store, wait, place))
    assert report.verdict is verdict, report.reason
    assert not rule or rule in {d.rule for d in report.diagnostics}


def test_guards_on_numbers_of_threads_and_branches_stay() -> None:
    numbers = _text(GUARD, "", "%r4").replace("setp.gt.s32 %p1, %r8, 0", "setp.gt.s32 %p1, %r1, 9")
    for text in (numbers, _text(BRANCH, "", "%r4")):
        (function,) = parse(text).entries
        assert with_data_guards_as_branches(function) is function


def test_labels_follow() -> None:
    (function,) = parse(_text("bra ON;" + GUARD + "ON:", "", "%r4")).entries
    changed = with_data_guards_as_branches(function)
    at = function.labels["ON"]
    assert changed.labels["ON"] == at + 1
    assert [i.op for i in changed.body[at - 2 : at + 1]] == ["bra", "bra", "st"]
    assert changed.body[at - 2].operands[0].target == at + 1  # type: ignore[union-attr]
    over = changed.body[at - 1]
    assert over.guard is not None and over.negated and over.operands[0].target == at + 1  # type: ignore[union-attr]
