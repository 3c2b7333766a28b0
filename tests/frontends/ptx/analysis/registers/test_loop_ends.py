"""Loops of which the text shows that they end, beside all that their registers may hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.registers.loop_ends import granted_loops
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

#: Of 16 bits: every turn of a loop is computed. The second word is data, or a number.
LOOP = """ld.global.u16 %rs1, [%rd1];
ld.global.u16 %rs2, [%rd1+2];
AGAIN: TURN
GUARD bra AGAIN;
END: ret;"""
STEPS = (1, 2, 3, 4, 64, -1, -2, -3, -4)
NUMBERS = (0, 1, 2, 7, 8, 32764, 32767, 32768, 65532, 65535)
TOP = 1 << 16
#: Loops that are drawn of all.
DRAWN = 120
COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
           "eq": np.equal, "ne": np.not_equal}  # fmt: skip
TURNS = np.arange(TOP, dtype=np.int64)


def shown(text: str) -> bool:
    return not granted_loops(Flow(parse(module_text(text), "k.ptx").functions[0]), (), (), lambda v: None)


def numbers(x: np.ndarray | int, signed: bool) -> np.ndarray:
    x = np.asarray(x) % TOP
    return np.where(x >= TOP // 2, x - TOP, x) if signed else x


def ends(step: int, compare: str, signed: bool, first: bool, start: int, bound: int) -> bool:
    """Whether some turn finds the comparison false; ``first``: it is asked before the step."""
    had = start + step * (TURNS + (not first))
    goes_on = COMPARE[compare](numbers(had, signed), numbers(bound, signed))
    return not bool(goes_on.all())


def loops() -> Iterator[tuple[int, str, bool, bool, int | None]]:
    return product(STEPS, COMPARE, (False, True), (False, True), (None, *NUMBERS))


def test_what_is_shown_ends_for_every_word() -> None:
    claims = 0
    for step, compare, signed, first, bound in random.Random(7).sample([*loops()], DRAWN):
        asks = f"setp.{compare}.{'s' if signed else 'u'}16 %p1, %rs1, {'%rs2' if bound is None else bound};"
        moves = f"add.u16 %rs1, %rs1, {step};"
        text = LOOP.replace("TURN", f"{asks} {moves}" if first else f"{moves} {asks}")
        if not shown(text.replace("GUARD", "@%p1")):
            continue
        claims += 1
        for start, word in product(NUMBERS, NUMBERS if bound is None else (bound,)):
            assert ends(step, compare, signed, first, start, word), (text, start, word)
    assert claims > DRAWN // 4


@pytest.mark.parametrize(
    "turn",
    [
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, %r2;",
        "add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, 1000;",
        "shr.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;",
        "setp.gt.u32 %p1, %r1, 0; shr.b32 %r1, %r1, 3;",
    ],
)
def test_ends_that_show(turn: str) -> None:
    start = "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1];\n"
    assert shown(f"{start}AGAIN: {turn}\n@%p1 bra AGAIN;\nret;")


@pytest.mark.parametrize(
    "turn",
    [
        "add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, %r2;",
        "add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, %r2;",
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2; add.u32 %r2, %r2, 1;",
        "add.u32 %r1, %r1, %r3; setp.lt.u32 %p1, %r1, %r2;",
        "shr.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, 0;",
        "shr.u32 %r1, %r1, 0; setp.ne.u32 %p1, %r1, 0;",
        "mad.lo.u32 %r1, %r1, 3, 1; setp.ne.u32 %p1, %r1, 1;",
        "ld.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0;",
        "@%p2 add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2;",
        "@%p2 bra AGAIN; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2;",
    ],
)
def test_ends_that_do_not(turn: str) -> None:
    start = "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1];\n"
    assert not shown(f"{start}AGAIN: {turn}\n@%p1 bra AGAIN;\nret;")


KERNEL = """.shared .align 4 .b8 s[256];
mov.u32 %r0, %tid.x;
shl.b32 %r5, %r0, 2; mov.u32 %r6, s; add.u32 %r6, %r6, %r5;
ld.param.u64 %rd1, [a]; ld.param.u32 %r2, [n];
ld.global.u32 %r1, [%rd1];
AGAIN: {turn}
@%p1 bra AGAIN;
st.shared.u32 [%r6], %r1;
bar.sync 0;
ret;"""


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ("add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, %r2;", False),  # the launch gives 12
        ("add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 7;", False),
        ("bar.sync 0; add.u32 %r7, %r7, 4; setp.lt.u32 %p1, %r7, 12;", False),  # each turn is run
        ("st.shared.u32 [%r6], %r1; mad.lo.u32 %r1, %r1, 3, 1; setp.ne.u32 %p1, %r1, 1;", True),
        ("mad.lo.u32 %r1, %r1, 3, 1; setp.ne.u32 %p1, %r1, 1;", True),
    ],
)
def test_the_report_names_what_is_taken_for_granted(turn: str, said: bool) -> None:
    text = module_text("mov.u32 %r7, 0;\n" + KERNEL.format(turn=turn), ".param .u64 a, .param .u32 n")
    facts = {"params": {"0": {"ptr": "A"}, "1": {"u32": 12}}, "block": [64], "grid": [1]}
    (report,) = syncverify.check(text, facts={"kernel": {"k": facts}}, replay=False, advice=False)
    line = next(n for n, x in enumerate(text.splitlines(), 1) if x.startswith("AGAIN:"))
    assert report.verdict is Verdict.PROVED
    assert (f"line {line}: this loop ends" in report.assumptions) == said
