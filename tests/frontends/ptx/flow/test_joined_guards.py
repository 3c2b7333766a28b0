"""Joined guards apart: the same lanes do the same, and right halos are proved that were undecided."""

from __future__ import annotations

from itertools import product

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.flow.joined_guards import with_joined_guards_apart
from syncverify.frontends.ptx.syntax.nodes import Function, Label
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

BODY = """
    .shared .align 16 .b8 tile[520];
    ld.param.u64 %rd1, [k_in];
    ld.param.u64 %rd6, [k_out];
    ld.param.u32 %r9, [k_n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r10, %ctaid.x;
    mad.lo.u32 %r11, %r10, 128, %r1;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd1, %rd3;
    add.s64 %rd7, %rd6, %rd3;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    setp.ne.s32 %p1, %r1, 127;
    setp.ge.s32 %p2, %r11, %r9;
    STORE
    WAIT
    ld.shared.u32 %r7, [%r4+4];
    st.global.u32 [%rd7], %r7;
    ret;
"""
BRANCH = (
    "OP.pred %p3, %p1, %p2; @NOT%p3 bra OVER; ld.global.u32 %r5, [%rd2+4]; st.shared.u32 [%r3+AT], %r5; OVER:"
)
GUARD = "OP.pred %p3, %p1, %p2; @NOT%p3 st.shared.u32 [%r3+AT], %r9;"
#: A jump table leads behind the instruction that joins the predicates, which holds %p4 until then.
TABLE = BRANCH.replace(
    "OP.pred",
    """mov.pred %p3, %p4; T: .branchtargets A, B;
    setp.gt.u32 %p8, %r9, 7; selp.u32 %r20, 1, 0, %p8; brx.idx %r20, T;
A:  OP.pred""",
).replace("@NOT", "\nB: @NOT")


def text(store: str, op: str, negated: str, at: int = 512, wait: str = "bar.sync 0;") -> str:
    body = BODY.replace("STORE", store.replace("OP", op).replace("NOT", negated).replace("AT", str(at)))
    whole = module_text(body.replace("WAIT", wait), ".param .u64 k_in, .param .u32 k_n, .param .u64 k_out")
    return whole.replace("k_out)", "k_out)\n.reqntid 128")


def stores(function: Function, values: dict[str, bool]) -> bool:
    """Whether a lane comes to the last store to shared memory; the joined predicate is computed."""
    at, done = next(k for k, i in enumerate(function.body) if i.op == "setp") + 2, False
    while function.body[at].op != "bar":
        i = function.body[at]
        on = i.guard is None or values[i.guard.name] != i.negated
        at += 1
        if on and i.op == "bra" and isinstance(i.operands[0], Label):
            at = i.operands[0].target
        done |= on and i.op == "st"
    return done


@pytest.mark.parametrize("store", [BRANCH, GUARD], ids=["branch", "guard"])
@pytest.mark.parametrize("op", ["and", "or"])
@pytest.mark.parametrize("negated", ["", "!"])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_same_lanes_store(store: str, op: str, negated: str, swapped: bool) -> None:
    whole = text(store, op, negated)
    if swapped:
        whole = whole.replace("%p3, %p1, %p2", "%p3, %p2, %p1")
    (function,) = parse(whole).entries
    parted = with_joined_guards_apart(function)
    either = store == GUARD and (op == "or") != bool(negated)
    assert (parted is function) == either
    for one, two in product((False, True), repeat=2):
        values = {"%p1": one, "%p2": two, "%p3": one and two if op == "and" else one or two}
        assert stores(parted, values) == stores(function, values), (one, two)


def test_what_is_made_alike_or_set_again_stays() -> None:
    plain = text(BRANCH, "or", "")
    two_numbers = plain.replace("setp.ge.s32 %p2, %r11, %r9", "setp.ge.s32 %p2, %r1, 9")
    two_sizes = plain.replace("setp.ne.s32 %p1, %r1, 127", "setp.ne.s32 %p1, %r9, 127")
    again = plain.replace("@%p3 bra", "setp.ge.s32 %p2, %r9, 5; @%p3 bra")
    met = plain.replace("ld.global.u32 %r5, [%rd2+4];", "bar.sync 0; mov.u32 %r5, 0;")
    into = plain.replace("@%p3 bra", "ON: @%p3 bra").replace("WAIT", "").replace("ret;", "@%p2 bra ON; ret;")
    for whole in (two_numbers, two_sizes, again, met, into):
        (function,) = parse(whole).entries
        assert with_joined_guards_apart(function) is function


@pytest.mark.parametrize(
    ("whole", "verdict"),
    [
        (text(BRANCH, "or", ""), Verdict.PROVED),
        (text(GUARD, "or", "!"), Verdict.PROVED),
        (text(BRANCH, "or", "", wait=""), Verdict.REFUTED),
        (text(GUARD, "or", "!", at=508), Verdict.PROVED),  # its own word again
        (text(GUARD, "or", "!", at=504), Verdict.REFUTED),  # a neighbour's
        (text(BRANCH, "and", ""), Verdict.REFUTED),  # all but the last store there
        (text("setp.ne.s32 %p4, %r1, %r1;" + TABLE, "or", ""), Verdict.REFUTED),
        (text("setp.ne.s32 %p4, %r1, 127;" + TABLE, "or", ""), Verdict.PROVED),
    ],
    ids=[
        *("branch", "guard", "no barrier", "its own word", "a neighbour's word", "all but the last"),
        *("all by a table", "the last by a table"),
    ],
)
def test_an_element_of_the_halo_behind_the_tile(whole: str, verdict: Verdict) -> None:
    (report,) = check(whole)
    assert report.verdict is verdict, report.reason
