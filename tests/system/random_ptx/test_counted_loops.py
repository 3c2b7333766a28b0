"""Loops that a counter ends."""

import operator

import pytest

from syncverify.simulate.ptx import Harm, Kind, Place
from tests.system.random_ptx.counted_loops import all_counted
from tests.system.random_ptx.judge import turns_alone

_AT_THE_HEAD = """
T_1:
setp.lt.u32 %p1, %r1, %r2;
@!%p1 bra E_1;
st.shared.u32 [%r3], %r1;
add.u32 %r1, %r1, 1;
bra T_1;
E_1:
ret;
"""
_AT_THE_END = """
T_1:
st.shared.u32 [%r3], %r1;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, %r2;
@%p1 bra T_1;
ret;
"""


@pytest.mark.parametrize("text", [_AT_THE_HEAD, _AT_THE_END, "bar.sync 0;\nret;\n"])
def test_a_counter_ends_them(text: str) -> None:
    assert all_counted(text)


#: Bounds of 32 bits, and those numbers of four bits that meet as many others: any in a register.
_BOUNDS: dict[str, list[int]] = {
    "%r2": [*range(16)], "0": [0], "-1": [15], "4294967295": [15], "2147483647": [7], "2147483648": [8],
    "-2147483648": [8], "77": [2],
}  # fmt: skip
_HOW = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "ne": operator.ne,
    "eq": operator.eq,
}
_NOT = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq", "eq": "ne"}
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne", "eq": "eq"}


def _turns_end(how: str, signed: bool, bounds: list[int]) -> bool:
    """Whether a counter of four bits ends the loop, wherever it begins."""

    def number(n: int) -> int:
        return (n + 8) % 16 - 8 if signed else n % 16

    def more(n: int, bound: int) -> bool:
        return bool(_HOW[how](number(n), number(bound)))

    return all(any(not more(n + k, b) for k in range(17)) for b in bounds for n in range(16))


@pytest.mark.parametrize("how", _HOW)
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_what_a_comparison_ends(how: str, kind: str) -> None:
    """At the head and at the end, with the predicate or its negation, the counter on either side."""
    for bound, small in _BOUNDS.items():
        ends = _turns_end(how, kind == "s32", small)
        turned = _TURNED[how]
        forms = [(how, "%r1", bound, True), (_NOT[how], "%r1", bound, False)]
        forms += [(turned, bound, "%r1", True), (_NOT[turned], bound, "%r1", False)]
        for written, a, b, holds in forms:
            test = f"setp.{written}.{kind} %p1, {a}, {b};"
            head = _AT_THE_HEAD.replace("setp.lt.u32 %p1, %r1, %r2;", test)
            end = _AT_THE_END.replace("setp.lt.u32 %p1, %r1, %r2;", test)
            if not holds:
                head, end = head.replace("@!%p1", "@%p1"), end.replace("@%p1", "@!%p1")
            assert {all_counted(head), all_counted(end)} == {ends}, (test, holds)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (_AT_THE_HEAD, "add.u32 %r1, %r1, 1;", "add.u32 %r1, %r1, 2;"),
        (_AT_THE_HEAD, "add.u32 %r1, %r1, 1;", "@%p2 add.u32 %r1, %r1, 1;"),
        (_AT_THE_HEAD, "add.u32 %r1, %r1, 1;", "@%p2 bra N_1;\nadd.u32 %r1, %r1, 1;\nN_1:"),
        (_AT_THE_HEAD, "lt.u32", "le.u32"),
        (_AT_THE_HEAD, "lt.u32", "lt.f32"),
        (_AT_THE_HEAD, "lt.u32", "lt.and.u32"),
        (_AT_THE_HEAD, "@!%p1 bra E_1;", "@!%p1 bra N_1;\nN_1:"),
        (_AT_THE_HEAD, "st.shared.u32 [%r3], %r1;", "ld.shared.u32 %r2, [%r3];"),
        (_AT_THE_HEAD, "st.shared.u32 [%r3], %r1;", "ld.shared.v2.u32 {%r4, %r1}, [%r3];"),
        (_AT_THE_HEAD, "@!%p1", "not.pred %p1, %p1;\n@!%p1"),
        (_AT_THE_HEAD, "bra T_1;", "@%p2 bra T_1;\nbra T_1;"),
        (_AT_THE_END, "lt.u32", "ge.s32"),
        (_AT_THE_END, "@%p1", "@%p2"),
        (_AT_THE_END, "%r1, %r2;", "%r2, %r2;"),
        (_AT_THE_END, "ret;", "@%p2 bra T_1;\nret;"),
        (_AT_THE_END, "ret;", "call f;\nret;"),
    ],
)
def test_nothing_ends_them(text: str, old: str, new: str) -> None:
    assert old in text and not all_counted(text.replace(old, new))


_NESTED = """
U_1:
setp.lt.u32 %p1, %r1, %r2;
@!%p1 bra E_1;
mov.u32 %r4, 0;
U_2:
setp.lt.u32 %p2, %r4, 7;
@!%p2 bra E_2;
add.u32 %r4, %r4, 1;
bra U_2;
E_2:
add.u32 %r1, %r5, 1;
bra U_1;
E_1:
ret;
"""


@pytest.mark.parametrize(
    ("text", "line", "ends", "kind", "alone"),
    [
        (_NESTED, 7, {3}, Kind.HANG, True),
        (_NESTED, 3, {3}, Kind.HANG, True),
        (_NESTED, 7, {3}, Kind.RACE, False),
        (_NESTED, 7, {7}, Kind.HANG, True),  # the loop inside, which is named itself
        (_NESTED, 3, {7}, Kind.HANG, False),  # the loop around, which nobody names
        (_NESTED, 7, set(), Kind.HANG, False),
        (_NESTED, 15, {3}, Kind.HANG, False),  # behind the loop
        (_NESTED.replace("%r4, %r4, 1", "%r4, %r5, 1"), 7, {3}, Kind.HANG, False),  # nothing ends the inner
        (_NESTED.replace("%r4, %r4, 1", "%r4, %r5, 1"), 7, {3, 7}, Kind.HANG, True),
        (_NESTED.replace("mov.u32 %r4, 0;", "bar.sync 0;"), 7, {3}, Kind.HANG, False),
    ],
)
def test_a_hang_in_a_loop_that_is_taken_to_end(
    text: str, line: int, ends: set[int], kind: Kind, alone: bool
) -> None:
    harm = Harm(kind, Place(line, 0, 0, 0), "nobody can move")
    assert turns_alone(text, harm, frozenset(ends)) == alone
