"""Where shared variables lie: as ptxas places them."""

from __future__ import annotations

from typing import Any

import pytest

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
