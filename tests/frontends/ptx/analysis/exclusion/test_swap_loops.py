"""Loops that repeat a ``cas``: what is taken for a change of one word ends where a thread runs alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from random import Random

import pytest

import syncverify
from syncverify import Verdict
from syncverify.frontends.ptx.analysis.exclusion.swap_loops import changes_one_word, turns_that_decide
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)
{{
.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %x<12>; .shared .align 16 .b8 s[16];
ld.param.u64 %x0, [k_param_0];
ld.param.u64 %x1, [k_param_1];
cvta.to.global.u64 %x0, %x0;
cvta.to.global.u64 %x1, %x1;
mov.u32 %r0, %tid.x;
ld.volatile.global.u32 %r5, [%x0];
{lines}
END:
ret;
}}
"""
#: What is put there, what the next turn asks for, and what ends the loop: by text, and by arithmetic.
_NEW: Mapping[str, Callable[[int], int]] = {
    "add.u32 %r6, %r5, 1;": lambda asked: (asked + 1) % 4,
    "or.b32 %r6, %r5, 1;": lambda asked: asked | 1,
    "mov.u32 %r6, 1;": lambda _: 1,
    "mov.u32 %r6, %r5;": lambda asked: asked,
}
_NEXT: Mapping[str, Callable[[int, int], int]] = {
    "mov.u32 %r5, %r7;": lambda _, found: found,
    "mov.u32 %r5, 0;": lambda *_: 0,
    "": lambda asked, _: asked,
    "and.b32 %r5, %r7, 1;": lambda _, found: found & 1,
    "not.b32 %r8, %r7; mov.u32 %r5, %r8;": lambda _, found: found ^ 3,
}
_END: Mapping[str, Callable[[int, int], bool]] = {
    "setp.ne.u32 %p1, %r7, %r5;": lambda asked, found: found == asked,
    "setp.eq.u32 %p1, %r7, %r5;": lambda asked, found: found != asked,
    "setp.ne.u32 %p1, %r7, 3;": lambda _, found: found == 3,
    "setp.gt.u32 %p1, %r7, %r5;": lambda asked, found: found <= asked,
}


def _taken(lines: str) -> bool:
    flow = Flow(parse(_KERNEL.format(lines=lines)).entries[0])
    (k,) = (k for k, i in enumerate(flow.body) if i.op == "atom")
    loops = [loop for loop in flow.loops if flow.block_of[k] in loop]
    return bool(loops) and changes_one_word(flow, k, min(loops, key=len))


def _ends_alone(new: str, after: str, end: str, word: int, asked: int) -> bool:
    seen = set()
    while (word, asked) not in seen:
        seen.add((word, asked))
        found = word
        if found == asked:
            word = _NEW[new](asked)
        if _END[end](asked, found):
            return True
        asked = _NEXT[after](asked, found)
    return False


def test_what_is_taken_for_a_change_ends_alone() -> None:
    """All loops of these parts, from all words of two bits. One of them is what such a loop has to be."""
    taken = []
    for new, after, end in product(_NEW, _NEXT, _END):
        cas = "atom.global.cas.b32 %r7, [%x0], %r5, %r6;"
        if _taken(f"L: {new} {cas} {end} {after} @%p1 bra L;"):
            taken.append(after)
            assert all(_ends_alone(new, after, end, *at) for at in product(range(4), repeat=2)), (new, after)
    assert taken == ["mov.u32 %r5, %r7;"] * len(_NEW)


_CAS = "atom.global.cas.b32 %r7, [%x0], %r5, %r6;"
_LOOPS = [
    (True, f"L: add.u32 %r6, %r5, 1; {_CAS} setp.eq.s32 %p1, %r5, %r7; mov.b32 %r5, %r7; @!%p1 bra L;"),
    (True, f"L: mov.u32 %r9, %r5; {_CAS} mov.u32 %r5, %r7; setp.ne.s32 %p1, %r9, %r5; "
           "not.pred %p2, %p1; @%p2 bra END; bra L;"),
    (True, f"L: setp.gt.s32 %p2, %r5, %r0; @%p2 bra END; {_CAS} setp.eq.s32 %p1, %r5, %r7; "
           "mov.b32 %r5, %r7; @%p1 bra END; bra L;"),
    # says who was first
    (False, f"mov.u32 %r9, 0; L: setp.gt.s32 %p2, %r5, %r0; @%p2 bra O; {_CAS} setp.eq.s32 %p1, %r5, %r7; "
            "mov.b32 %r5, %r7; mov.u32 %r9, 1; @%p1 bra O; bra L; O: st.global.u32 [%x1], %r9;"),
    (False, f"L: setp.gt.s32 %p2, %r5, %r0; @%p2 bra END; {_CAS} setp.eq.s32 %p1, %r5, %r7; "
            "mov.b32 %r5, %r7; @%p1 bra O; bra L; O: st.global.u32 [%x1], %r0;"),
    # looks, stores, or comes by in some turns only
    (False, f"L: {_CAS} setp.ne.s32 %p1, %r5, %r7; ld.volatile.global.u32 %r5, [%x0]; @%p1 bra L;"),
    (False, f"L: {_CAS} st.global.u32 [%x0], %r0; setp.ne.s32 %p1, %r5, %r7; mov.u32 %r5, %r7; @%p1 bra L;"),
    (False, f"L: setp.gt.s32 %p2, %r5, 9; @%p2 bra L; {_CAS} setp.ne.s32 %p1, %r5, %r7; mov.u32 %r5, %r7; "
            "@%p1 bra L;"),
    (False, f"L: {_CAS} setp.ne.s32 %p1, %r5, %r7; @!%p1 bra END; setp.gt.s32 %p3, %r0, 4; @%p3 bra L; "
            "mov.u32 %r5, %r7; bra L;"),
    # asks for half of it, or whether numbers are equal that may be none
    (False, f"L: {_CAS} setp.ne.s16 %p1, %r5, %r7; mov.u32 %r5, %r7; @%p1 bra L;"),
    (False, f"L: {_CAS} setp.neu.f32 %p1, %r5, %r7; mov.u32 %r5, %r7; @%p1 bra L;"),
    (False, f"L: @%p3 {_CAS} setp.ne.s32 %p1, %r5, %r7; mov.u32 %r5, %r7; @%p1 bra L;"),
    (False, f"L: {_CAS} setp.ne.s32 %p1, %r5, %r7; mov.u32 %r5, %r7; add.u64 %x0, %x0, 4; @%p1 bra L;"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "lines"), _LOOPS)
def test_loops(right: bool, lines: str) -> None:
    assert _taken(lines) is right


#: Steps of a turn, and behind the loop, by text and by arithmetic; registers 10 to 13, 5 asked, 7 found.
_STEPS: list[tuple[str, Callable[[dict[int, int]], tuple[int, int]]]] = [
    ("add.u32 %r10, %r10, 1;", lambda r: (10, r[10] + 1)),
    ("xor.b32 %r11, %r10, 3;", lambda r: (11, r[10] ^ 3)),
    ("add.u32 %r12, %r11, %r12;", lambda r: (12, r[11] + r[12])),
    ("mov.u32 %r11, %r5;", lambda r: (11, r[5])),
    ("mov.u32 %r10, 2;", lambda r: (10, 2)),
    ("mov.u32 %r13, %r12;", lambda r: (13, r[12])),
    ("setp.gt.u32 %p4, %r10, 1; selp.b32 %r13, 4, 8, %p4;", lambda r: (13, 4 if r[10] > 1 else 8)),
    ("setp.gt.u32 %p5, %r12, 2; @%p5 mov.u32 %r11, 7;", lambda r: (11, 7 if r[12] > 2 else r[11])),
    ("mov.u32 %r12, %r7;", lambda r: (12, r[7])),
]


def _run(inside: list[int], behind: list[int], failed: list[int], at: int) -> int:
    """What a register holds behind a loop that finds some words in vain, and then what it asks for."""
    r = {10: 0, 11: 1, 12: 0, 13: 0, 5: failed[0], 7: 0}
    for found in [*failed[1:], failed[-1]]:
        for n in inside:
            to, value = _STEPS[n][1](r)
            r[to] = value & 0xFFFFFFFF
        r[7], r[5] = found, found
    for n in behind:
        to, value = _STEPS[n][1](r)
        r[to] = value & 0xFFFFFFFF
    return r[at]


def _decided(seed: int) -> tuple[bool, bool]:
    """Of a drawn loop: whether its turns are said to place the store behind it; and whether they do."""
    draw = Random(seed)
    inside, behind = ([draw.randrange(len(_STEPS)) for _ in range(draw.randint(0, 4))] for _ in range(2))
    at = draw.choice([10, 11, 12, 13])
    steps, after = ("".join(_STEPS[n][0] for n in part) for part in (inside, behind))
    lines = (f"mov.u32 %r7, 0; mov.u32 %r10, 0; mov.u32 %r11, 1; mov.u32 %r12, 0; mov.u32 %r13, 0;"
             f" L: {steps} add.u32 %r6, %r5, 1; {_CAS} setp.ne.s32 %p1, %r5, %r7; mov.b32 %r5, %r7;"
             f" @%p1 bra L; {after} mul.wide.u32 %x4, %r{at}, 4; add.u64 %x4, %x1, %x4;"
             " st.global.u32 [%x4], 1;")  # fmt: skip
    said = turns_that_decide(Flow(parse(_KERNEL.format(lines=lines)).entries[0])) is not None
    # the same word is found last, by ways of more or fewer turns
    ways = [[3], [5, 3], [9, 5, 3], [3, 5, 9, 3]]
    return said, len({_run(inside, behind, way, at) for way in ways}) > 1


def test_what_turns_place_is_said() -> None:
    drawn = [_decided(seed) for seed in range(300)]
    assert [n for n, (said, does) in enumerate(drawn) if does and not said] == []
    assert sum(does for _, does in drawn) > 30 and sum(not said for said, _ in drawn) > 60


_FACTS = {"block": [64], "grid": [2], "params": {"0": "ptr", "1": "ptr"}}
_SUM = f"L: add.u32 %r6, %r5, %r0; {_CAS} setp.ne.s32 %p1, %r5, %r7; mov.b32 %r5, %r7; @%p1 bra L;"
_NOT = {Verdict.UNKNOWN, Verdict.REFUTED}


@pytest.mark.parametrize(
    ("verdicts", "lines"),
    [
        ({Verdict.PROVED}, _SUM),
        ({Verdict.PROVED}, _LOOPS[2][1]),
        ({Verdict.PROVED}, f"{_SUM} st.global.u32 [%x1], 1;"),
        (_NOT, _SUM.replace("mov.b32 %r5, %r7;", "mov.u32 %r5, 0;")),  # a lock that nobody lets go
        (_NOT, _SUM.replace("setp.ne", "setp.eq")),
        # others change it, or look at it, in no order
        (_NOT, f"{_SUM} ld.global.u32 %r8, [%x0]; st.global.u32 [%x0], %r8;"),
        (_NOT, f"{_SUM} ld.global.u32 %r8, [%x0]; st.global.u32 [%x1], %r8;"),
        (_NOT, f"{_SUM} st.volatile.global.u16 [%x0], %r8;"),
        (_NOT, f"{_SUM} ld.volatile.global.v2.u32 {{%r8, %r9}}, [%x0]; st.global.u32 [%x1], %r8;"),
        (_NOT, f"{_SUM} cp.async.ca.shared.global [s], [%x0], 4;"),
        (_NOT, f"{_SUM} ld.global.u64 %x3, [%x1]; st.global.u32 [%x3], 1;"),
        (_NOT, _SUM.replace("atom.", "atom.cta.").replace("atom.cta.global", "atom.relaxed.cta.global")),
    ],
)  # fmt: skip
def test_changes_of_one_word_are_proved(verdicts: set[Verdict], lines: str) -> None:
    text = _KERNEL.format(lines=lines)
    (report,) = syncverify.check(text, facts={"kernel": {"k": _FACTS}}, advice=False, replay=False)
    assert report.verdict in verdicts, report.reason


def test_changes_of_one_word_are_proved_in_strict_mode() -> None:
    text = _KERNEL.format(lines=_SUM)
    (report,) = syncverify.check(text, facts={"kernel": {"k": _FACTS}}, policy="strict", advice=False)
    assert report.verdict is Verdict.PROVED, report.reason
    assert "line 13: this loop ends" in report.assumptions
