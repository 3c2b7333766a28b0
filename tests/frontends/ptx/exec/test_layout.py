"""Where shared variables lie: as ptxas places them."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.frontends.ptx.exec.tables import layout
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

FACTS = (
    "[kernel.k]\ngrid = [1]\nblock = [64]\ncluster = [1]\ndynamic_smem = 1024\n[kernel.k.params]\n0 = 'ptr'\n"
)
#: Each thread writes its word of one array of dynamic memory, and reads its word of another.
BODY = """
    .shared .align 4 .b8 z[4];
    mov.u32 %r1, %tid.x; mov.u32 %r2, one; mov.u32 %r3, two; mov.u32 %r4, z;
    mad.lo.u32 %r2, %r1, 4, %r2; mad.lo.u32 %r3, %r1, 4, %r3;
    st.shared.u32 [%r2], %r1; ld.shared.u32 %r5, [%r3];
    ret;
"""


@pytest.mark.parametrize(
    ("alignments", "verdict"),
    [
        ((16, 16), "proved"),
        ((64, 16), "proved"),
        ((4, 8), "proved"),
        ((16, 64), "refuted"),
        ((16, 32), "refuted"),
    ],
)
def test_dynamic_arrays_begin_in_the_order_of_the_text(
    check: Any, alignments: tuple[int, int], verdict: str
) -> None:
    """Behind four bytes ``one`` begins at byte 16 and ``two`` at byte 64: a word of ``two`` is another
    thread's of ``one``. With the larger alignment first, both begin there."""
    names = zip(("one", "two"), alignments, strict=True)
    externs = "".join(f".extern .shared .align {a} .b8 {n}[];\n" for n, a in names)
    text = module_text(BODY, ".param .u64 k_p", externs)
    assert check(text, facts=FACTS)["verdict"] == verdict


TWO = """
    .shared .align 16 .b8 one[{bytes}]; .shared .align 16 .b8 two[256];
    mov.u32 %r1, %tid.x; mov.u32 %r2, one; mov.u32 %r3, two; {move}
    mad.lo.u32 %r4, %r1, 4, %r2; st.shared.u32 [%r4{plus}], %r1;
    bar.sync 0; xor.b32 %r5, %r1, 32; mad.lo.u32 %r5, %r5, 4, %r3; ld.shared.u32 %r6, [%r5];
    ret;
"""


@pytest.mark.parametrize(
    ("bytes_", "move", "plus", "verdict"),
    [
        (256, "", "", "proved"),
        (252, "", "", "refuted"),
        (256, "", "+4", "refuted"),
        (256, "add.u32 %r2, %r2, 16;", "-16", "proved"),
        (256, "add.u32 %r2, %r2, 256;", "", "refuted"),
        (256, "sub.u32 %r2, %r3, 256;", "", "refuted"),
        (256, "setp.lt.u32 %p1, %r1, 64; selp.b32 %r2, %r2, %r3, %p1;", "", "proved"),
        (256, "sub.u32 %r6, %r3, %r2; add.u32 %r2, %r2, %r6;", "", "proved"),
        (256, "cvt.u64.u32 %rd2, %r2; cvta.shared.u64 %rd2, %rd2; st.u32 [%rd2+256], 0;", "", "refuted"),
    ],
)
def test_a_thread_that_leaves_an_array_for_the_next(
    check: Any, bytes_: int, move: str, plus: str, verdict: str
) -> None:
    """Where the next array lies is the assembler's choice; a difference of two places is known in each."""
    text = module_text(TWO.format(bytes=bytes_, move=move, plus=plus), ".param .u64 k_p")
    found = check(text, facts=FACTS)
    assert found["verdict"] == verdict, found["reason"]
    assert verdict == "proved" or "lie outside `one`" in str(found) or "lie outside `two`" in str(found)


@pytest.mark.parametrize(
    ("arrays", "dynamic", "spaced", "crowded"),
    [(40, 4096, True, False), (40, None, False, True), (4, None, True, False), (240, 4096, False, True)],
)
def test_arrays_that_are_too_many_for_room_between_them(
    arrays: int, dynamic: int | None, spaced: bool, crowded: bool
) -> None:
    names = [f"s{n}" for n in range(arrays)]
    body = "".join(f".shared .align 16 .b8 {n}[64];\n" for n in names)
    body += "".join(f"mov.u32 %r1, {n};\n" for n in (*names, "more")) + "ret;\n"
    module = parse(module_text(body, ".param .u64 k_p", ".extern .shared .align 16 .b8 more[];\n"))
    made = layout(module, module.entries[0], dynamic, spaced=1 << 18)
    assert (made.spaced, made.crowded) == (spaced, crowded)
