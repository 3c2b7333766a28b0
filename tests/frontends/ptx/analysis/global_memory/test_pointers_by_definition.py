"""What is stored through a pointer that is made of halves, or whose place is set again, steers no branch."""

from __future__ import annotations

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import Verdict
from tests.frontends.ptx.execute_helpers import module_text

#: All threads read a word of the first array, and meet at one of two barriers by it.
BODY = """
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    STORES
    ld.global.u32 %r6, [%rd1]; setp.ne.s32 %p2, %r6, 0; @%p2 bra ELSE; bar.sync 0; bra JOIN;
ELSE: bar.sync 1;
JOIN: ret;
"""
#: To the second array, or by a second definition to that of WHOLE.
HALVES = """
    add.s64 %rd4, %rd2, %rd3; add.s64 %rd6, WHOLE, %rd3;
    mov.b64 {%r10, %r11}, %rd6; mov.b64 %rd5, {%r10, %r11};
    ld.param.u32 %r20, [n]; setp.gt.u32 %p1, %r20, 3; @%p1 bra S; mov.u64 %rd5, %rd4;
S:  st.global.u32 [%rd5], %r1;
"""
BY_SHIFTS = HALVES.replace(
    "mov.b64 {%r10, %r11}, %rd6; mov.b64 %rd5, {%r10, %r11};",
    """cvt.u32.u64 %r10, %rd6; shr.u64 %rd7, %rd6, 32; cvt.u32.u64 %r11, %rd7;
    cvt.u64.u32 %rd8, %r11; shl.b64 %rd8, %rd8, 32; cvt.u64.u32 %rd9, %r10; or.b64 %rd5, %rd8, %rd9;""",
)
#: To a pointer put together of two words of WHOLE, or to the second array, by a choice that FORM makes.
CHOSEN = """
    add.s64 %rd4, %rd2, %rd3; add.s64 %rd6, WHOLE, %rd3; cvt.u32.u64 %r10, %rd6;
    shr.u64 %rd7, %rd6, 32; cvt.u32.u64 %r11, %rd7; cvt.u64.u32 %rd8, %r11; shl.b64 %rd8, %rd8, 32;
    cvt.u64.u32 %rd9, %r10; or.b64 %rd12, %rd8, %rd9; ld.param.u32 %r20, [n]; setp.gt.u32 %p1, %r20, 3;
    FORM st.global.u32 [%rd5], %r1;
"""
FORMS = {
    "a selection": "selp.b64 %rd5, %rd12, %rd4, %p1;",
    "the lower one": "min.u64 %rd5, %rd12, %rd4;",
    "a selection, cast": "selp.b64 %rd5, %rd12, %rd4, %p1; cvta.to.global.u64 %rd5, %rd5;",
    "a sum with nothing": "sub.s64 %rd11, %rd2, %rd2; add.s64 %rd5, %rd11, %rd12;",
    "a field put in": "shr.u64 %rd11, %rd2, 32; bfi.b64 %rd5, %rd11, %rd9, 32, 32;",
}
#: By the distance of both arrays, in one word; or by that of words that no pointer goes into.
DISTANCE = """
    cvt.u32.u64 %r10, WHOLE; cvt.u32.u64 %r11, %rd2; sub.u32 %r12, %r10, %r11; cvt.s64.s32 %rd6, %r12;
    add.s64 %rd6, %rd6, %rd3; add.s64 %rd5, %rd2, %rd6; st.global.u32 [%rd5], %r1;
"""
#: The same of a pointer whose words are loaded, from the first array or as they were stored.
LOADED = """
    add.s64 %rd4, %rd2, %rd3; FORM cvt.u64.u32 %rd8, %r11; shl.b64 %rd8, %rd8, 32; cvt.u64.u32 %rd9, %r10;
    or.b64 %rd12, %rd8, %rd9; ld.param.u32 %r20, [n]; setp.gt.u32 %p1, %r20, 3;
    selp.b64 %rd5, %rd12, %rd4, %p1; st.global.u32 [%rd5], %r1;
"""
FROM_A_TABLE = LOADED.replace("FORM", "ld.global.u32 %r10, [%rd1+512]; ld.global.u32 %r11, [%rd1+516];")
#: An index that is loaded, and whose sign is extended by shifts.
LOADED_INDEX = """
    ld.global.u32 %r10, [%rd2+512]; cvt.u64.u32 %rd8, %r10; shl.b64 %rd8, %rd8, 32; shr.s64 %rd9, %rd8, 30;
    add.s64 %rd5, %rd2, %rd9; st.global.u32 [%rd5], %r1;
"""
#: The parameter whose place is copied is SECOND from the second turn on.
PLACE = """
    mov.u64 %rd10, q; mov.u32 %r30, 0;
L:  mov.u64 %rd11, %rd10; SECOND ld.param.u64 %rd7, [%rd11];
    add.s64 %rd9, %rd7, %rd3; st.global.u32 [%rd9], %r1;
    add.u32 %r30, %r30, 1; setp.lt.u32 %p3, %r30, 2; @%p3 bra L;
"""


@pytest.mark.parametrize(
    ("stores", "proved"),
    [
        (HALVES.replace("WHOLE", "%rd1"), False),
        (HALVES.replace("WHOLE", "%rd2"), True),
        (BY_SHIFTS.replace("WHOLE", "%rd1"), False),
        *((CHOSEN.replace("WHOLE", "%rd1").replace("FORM", form), False) for form in FORMS.values()),
        *((CHOSEN.replace("WHOLE", "%rd2").replace("FORM", form), True) for form in FORMS.values()),
        (DISTANCE.replace("WHOLE", "%rd1"), False),
        (DISTANCE.replace("WHOLE", "%rd2"), True),
        (FROM_A_TABLE, False),
        (LOADED_INDEX, True),
        (PLACE.replace("SECOND", "mov.u64 %rd10, p;"), False),
        (PLACE.replace("SECOND", ""), True),
    ],
    ids=[
        "halves of another",
        "halves",
        "halves by shifts",
        *(f"{x} of both" for x in FORMS),
        *FORMS,
        "a distance of both",
        "a distance",
        "loaded words",
        "a loaded index",
        "another place",
        "a place",
    ],
)
def test_a_store_counts_for_each_array_that_it_may_reach(stores: str, proved: bool) -> None:
    params = ".param .u64 p, .param .u64 q, .param .u32 n"
    (report,) = check(module_text(BODY.replace("STORES", stores), params, bounds=".reqntid 64"))
    assert (report.verdict is Verdict.PROVED) == proved, report.reason
