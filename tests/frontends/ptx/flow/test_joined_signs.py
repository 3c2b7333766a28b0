"""Signs of an ``or`` asked number by number: the same answer for all bits, where the numbers hold still."""

from __future__ import annotations

from itertools import product

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.flow.joined_signs import with_signs_apart
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Reg
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

ASKED = "or.b32 %r3, %r1, %r2; MORE setp.HOW.s32 %p1, %r3, BOUND; @%p1 st.global.u32 [%rd1], %r3; ret;"
#: A tile with a ring of zeros, and one thread for each word of it: who is outside of the picture leaves late.
KERNEL = """
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %rd1, [k_out];
    ld.param.u32 %r9, [k_n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r10, %ctaid.x;
    mad.lo.s32 %r11, %r10, 14, %r1;
    add.s32 %r11, %r11, -1;
    mov.u32 %r12, %ctaid.y;
    mad.lo.s32 %r13, %r12, 14, %r2;
    add.s32 %r13, %r13, -1;
    or.b32 %r14, %r11, %r13;
    shl.b32 %r3, %r2, 6;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    mov.u32 %r6, tile;
    add.u32 %r7, %r6, %r5;
    st.shared.u32 [%r7], %r2;
    WAIT
    setp.lt.s32 %p1, %r14, 0;
    @%p1 bra OVER;
    setp.ge.s32 %p2, %r11, %r9;
    @%p2 bra OVER;
    xor.b32 %r8, %r5, 256;
    add.u32 %r20, %r6, %r8;
    ld.shared.u32 %r21, [%r20];
    st.global.u32 [%rd1], %r21;
OVER:
    ret;
"""


def _function(body: str) -> Function:
    return parse(module_text(body, ".param .u64 k_out, .param .u32 k_n")).functions[0]


def _answer(body: tuple[Instr, ...], values: dict[str, int]) -> int:
    """What the comparisons say of numbers of 32 bits."""
    held = dict(values)
    for i in body:
        read = [
            x.value if isinstance(x, Imm) else held.get(x.name, 0) if isinstance(x, Reg) else 0
            for x in i.operands
        ]
        to = i.operands[0].name if i.operands and isinstance(i.operands[0], Reg) else ""
        if i.op == "setp":
            one, two = ((x + 2**31) % 2**32 - 2**31 for x in read[1:])
            held[to] = {"lt": one < two, "le": one <= two, "ge": one >= two, "gt": one > two}[i.mods[0]]
        elif i.op in ("or", "and"):
            held[to] = read[1] | read[2] if i.op == "or" else read[1] & read[2]
    return held["%p1"]


@pytest.mark.parametrize(
    ("how", "bound"), [("lt", "0"), ("le", "-1"), ("ge", "0"), ("gt", "-1"), ("gt", "0xffffffff")]
)
def test_both_forms_answer_alike(how: str, bound: str) -> None:
    f = _function(ASKED.replace("HOW", how).replace("BOUND", bound).replace("MORE", ""))
    apart = with_signs_apart(f)
    assert sum(i.op == "setp" for i in apart.body) == 2
    for one, two in product((0, 1, 2**31 - 1, 2**31, 2**32 - 1), repeat=2):
        values = {"%r1": one, "%r2": two}
        assert _answer(f.body, values) == _answer(apart.body, values)


@pytest.mark.parametrize(
    ("how", "bound", "more"),
    [
        ("lt", "1", ""),
        ("gt", "0", ""),
        ("eq", "0", ""),
        ("lt", "0", "add.s32 %r1, %r1, 1;"),  # the number is another one by then
        ("lt", "0", "@%p2 mov.u32 %r3, 0;"),
        ("lt", "0", "xor.b32 %r3, %r1, %r2;"),
    ],
)
def test_what_is_no_sign_of_an_or_stays(how: str, bound: str, more: str) -> None:
    f = _function(ASKED.replace("HOW", how).replace("BOUND", bound).replace("MORE", more))
    assert with_signs_apart(f) is f


def test_an_or_of_the_turn_before_stays() -> None:
    turn = "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r3, 0; or.b32 %r3, %r1, %r2; @%p1 bra L;"
    f = _function(f"or.b32 %r3, %r1, %r2; L: {turn} ret;")
    assert with_signs_apart(f) is f


@pytest.mark.parametrize(("wait", "verdict"), [("bar.sync 0;", Verdict.PROVED), ("", Verdict.REFUTED)])
def test_a_guard_of_two_signs_is_followed(wait: str, verdict: Verdict) -> None:
    text = module_text(KERNEL.replace("WAIT", wait), ".param .u64 k_out, .param .u32 k_n")
    (found,) = check(text.replace(".param .u32 k_n)", ".param .u32 k_n)\n.reqntid 16, 16, 1"))
    assert found.verdict is verdict
