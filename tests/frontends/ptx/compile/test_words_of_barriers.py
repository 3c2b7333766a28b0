"""What an mbarrier leaves in its bytes decides nothing: it is not known."""

from __future__ import annotations

import numpy as np
import pytest

import syncverify
from syncverify.simulate.ptx import Launch, first_harm

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.shared .align 16 .b8 s[64];
mov.u32 %r0, %tid.x;
mov.u32 %r1, s;
ld.param.u32 %r2, [n];
mov.u32 %r3, 0;
TURN:
bar.sync 0;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r2;
@%p1 bra TURN;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra MEET;
st.shared.u32 [%r1+16], 1;
BODY
MEET:
bar.sync 0;
ld.shared.u32 %r4, [%r1+16];
setp.eq.u32 %p2, %r4, 1;
@%p2 bra END;
st.shared.u32 [%r1], %r0;
END:
ret;
}
"""
OBJECT = "mbarrier.init.shared::cta.b64 [%r1+{0}], 1;\nmbarrier.inval.shared::cta.b64 [%r1+{0}];"
#: Where the word is another, or stored behind the object's end.
RIGHT = {
    "no object": "",
    "an object beside it": OBJECT.format(24),
    "stored again": OBJECT.format(16) + "\nst.shared.u32 [%r1+16], 1;",
}
WRONG = {
    "an object over it": OBJECT.format(16),
    "stored as another number": OBJECT.format(16) + "\nst.shared.u32 [%r1+16], 2;",
}


@pytest.mark.parametrize("size", ["n", 1])
@pytest.mark.parametrize("body", [*RIGHT.values(), *WRONG.values()], ids=[*RIGHT, *WRONG])
def test_only_what_is_stored_decides(body: str, size: str | int) -> None:
    facts = {"kernel": {"k": {"block": [64], "grid": [1], "params": {"0": {"u32": size}}}}}
    text = TEXT.replace("BODY", body)
    (found,) = syncverify.check(text, facts=facts, advice=False, replay=False, require="kernel")
    assert (str(found.verdict) == "proved") == (body in RIGHT.values()), found.reason
    assert found.accepted_by == ("kernel" if body in RIGHT.values() else None)


@pytest.mark.parametrize("body", [*RIGHT.values(), *WRONG.values()], ids=[*RIGHT, *WRONG])
def test_so_says_the_second_reader(body: str) -> None:
    launch = Launch(block=(64, 1, 1), params=(int(np.uint32(1)),))
    harm = first_harm(TEXT.replace("BODY", body), "k", launch, range(4))
    assert (harm is None) == (body in RIGHT.values())
