"""Loops that a counter ends."""

import pytest

from tests.system.random_ptx.counted_loops import all_counted

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


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (_AT_THE_HEAD, "add.u32 %r1, %r1, 1;", "add.u32 %r1, %r1, 2;"),
        (_AT_THE_HEAD, "add.u32 %r1, %r1, 1;", "@%p2 add.u32 %r1, %r1, 1;"),
        (_AT_THE_HEAD, "add.u32 %r1, %r1, 1;", "@%p2 bra N_1;\nadd.u32 %r1, %r1, 1;\nN_1:"),
        (_AT_THE_HEAD, "lt.u32", "ne.u32"),
        (_AT_THE_HEAD, "@!%p1", "@%p1"),
        (_AT_THE_HEAD, "@!%p1 bra E_1;", "@!%p1 bra N_1;\nN_1:"),
        (_AT_THE_HEAD, "st.shared.u32 [%r3], %r1;", "ld.shared.u32 %r2, [%r3];"),
        (_AT_THE_HEAD, "st.shared.u32 [%r3], %r1;", "ld.shared.v2.u32 {%r4, %r1}, [%r3];"),
        (_AT_THE_HEAD, "@!%p1", "not.pred %p1, %p1;\n@!%p1"),
        (_AT_THE_HEAD, "bra T_1;", "@%p2 bra T_1;\nbra T_1;"),
        (_AT_THE_END, "@%p1", "@!%p1"),
        (_AT_THE_END, "@%p1", "@%p2"),
        (_AT_THE_END, "%r1, %r2;", "%r2, %r1;"),
        (_AT_THE_END, "ret;", "@%p2 bra T_1;\nret;"),
        (_AT_THE_END, "ret;", "call f;\nret;"),
    ],
)
def test_nothing_ends_them(text: str, old: str, new: str) -> None:
    assert old in text and not all_counted(text.replace(old, new))
