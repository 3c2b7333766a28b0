"""Kernels whose last block goes on, of open grids: beside every small grid, counted block by block.

What is said of a text is held against arithmetic alone: which blocks write where, and which count is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport
from tests.frontends.ptx.execute_helpers import module_text
from tests.sweeps import part_of

Grid = tuple[int, int, int]
GRIDS: list[Grid] = [*product((1, 2, 3, 4, 5), (1, 2, 3), (1, 2)), (7, 1, 1), (8, 1, 1)]
#: What it writes there: of other blocks other values, along the axes that it asks about.
VALUES: Mapping[str, tuple[str, Callable[[Grid], int]]] = {
    "x": ("mov.u32 %r12, %ctaid.x;", lambda at: at[0]),
    "xyz": (
        "mov.u32 %r12, %ctaid.x; mov.u32 %r16, %ctaid.y; mov.u32 %r17, %ctaid.z;"
        "mad.lo.u32 %r12, %r16, 16, %r12; mad.lo.u32 %r12, %r17, 256, %r12;",
        lambda at: (at[2] * 16 + at[1]) * 16 + at[0],
    ),
}
#: Where a block writes, and the count that the last one finds, less 1: as code, and as numbers.
PLACES: Mapping[str, tuple[str, Callable[[Grid, Grid], int]]] = {
    "x": ("mov.u32 %r8, %ctaid.x;", lambda at, n: at[0]),
    "y": ("mov.u32 %r8, %ctaid.y;", lambda at, n: at[1]),
    "rows": ("ROWS mad.lo.u32 %r8, %r3, %r5, %r2;", lambda at, n: at[1] * n[0] + at[0]),
    "layers": (
        "ROWS mov.u32 %r4, %ctaid.z; mov.u32 %r6, %nctaid.y; mad.lo.u32 %r8, %r4, %r6, %r3;"
        "mad.lo.u32 %r8, %r8, %r5, %r2;",
        lambda at, n: (at[2] * n[1] + at[1]) * n[0] + at[0],
    ),
}
ROWS = "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r5, %nctaid.x;"
X, Y, Z = (f"mov.u32 %r{k}, %nctaid.{axis};" for k, axis in zip((13, 14, 15), "xyz", strict=True))
COUNTS: Mapping[str, tuple[str, Callable[[Grid], int]]] = {
    "x": (f"{X} mov.u32 %r9, %r13;", lambda n: n[0]),
    "y": (f"{Y} mov.u32 %r9, %r14;", lambda n: n[1]),
    "xy": (f"{X} {Y} mul.lo.u32 %r9, %r13, %r14;", lambda n: n[0] * n[1]),
    "xyz": (f"{X} {Y} {Z} mul.lo.u32 %r9, %r13, %r14; mul.lo.u32 %r9, %r9, %r15;", prod),
    "two": ("mov.u32 %r9, 2;", lambda n: 2),
    "four": ("mov.u32 %r9, 4;", lambda n: 4),
    "hundred": ("mov.u32 %r9, 100;", lambda n: 100),
    "seven": ("mov.u32 %r9, 7;", lambda n: 7),
}
BODY = """
    ld.param.u64 %rd1, [k_part]; ld.param.u64 %rd2, [k_count]; ld.param.u64 %rd3, [k_out];
    mov.u32 %r1, %tid.x;
    PLACE
    COUNT
    mul.wide.u32 %rd4, %r8, 4; add.u64 %rd4, %rd1, %rd4;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
    VALUE
    st.global.u32 [%rd4], %r12;
    fence.acq_rel.gpu; atom.global.relaxed.gpu.add.u32 %r10, [%rd2], 1; fence.acq_rel.gpu;
    sub.u32 %r9, %r9, 1; setp.ne.u32 %p2, %r10, %r9; @%p2 bra END;
    ld.global.u32 %r11, [%rd1]; st.global.u32 [%rd3], %r11;
END:
    ret;
"""


@dataclass(frozen=True)
class Last:
    """A kernel by where its blocks write what, and what they count to."""

    place: str
    count: str
    value: str

    def report(self) -> KernelReport:
        body = BODY.replace("PLACE", PLACES[self.place][0]).replace("COUNT", COUNTS[self.count][0])
        body = body.replace("VALUE", VALUES[self.value][0]).replace("ROWS", ROWS)
        text = module_text(body, ".param .u64 k_part, .param .u64 k_count, .param .u64 k_out")
        (found,) = check(text, facts={"kernel": {"*": {"block": [32]}}}, advice=False)
        return found

    def goes_wrong(self, n: Grid) -> bool:
        """Whether two blocks write one word, not alike, or one goes on while another may not have written."""
        x, y, z = n
        blocks = list(product(range(x), range(y), range(z)))
        places = [PLACES[self.place][1](at, n) for at in blocks]
        values = {(place, VALUES[self.value][1](at)) for place, at in zip(places, blocks, strict=True)}
        return len(values) > len(set(places)) or COUNTS[self.count][1](n) < len(blocks)


KERNELS = [Last(*x) for x in product(PLACES, COUNTS, VALUES)]
#: One of so many in each run; together they take half a minute.
EVERY = 8


def agrees(k: Last) -> bool:
    """Whether what is said of a kernel holds: a proof in each grid that its assumptions allow, a refutation
    in some grid, and not of a kernel that is right for a number of blocks that it names itself."""
    found = k.report()
    taken = [a for a in found.assumptions if a.startswith("grid.")]
    one = {axis for axis in "xyz" if any(f"grid.{axis} = 1" in a for a in taken)}
    meant = [n for n in GRIDS if all(e == 1 for axis, e in zip("xyz", n, strict=True) if axis in one)]
    wrong = [n for n in meant if k.goes_wrong(n)]
    if found.verdict == "proved":
        return not wrong
    named = {"two": 2, "four": 4, "seven": 7, "hundred": 100}.get(k.count)
    for_one = any(prod(n) == named and not k.goes_wrong(n) for n in meant)
    return found.verdict == "unknown" or (bool(wrong) and not for_one)


@pytest.mark.parametrize("k", part_of(KERNELS, EVERY), ids=str)
def test_what_is_said_of_open_grids_holds_in_each(k: Last) -> None:
    assert agrees(k)


@pytest.mark.parametrize("place", ["x", "rows"])
def test_a_count_of_blocks_that_no_grid_asks_proves_nothing(place: str) -> None:
    found = Last(place, "hundred", "x").report()
    assert found.verdict == "unknown"
    assert "compares a count of blocks with 100" in str(found.reason)


@pytest.mark.slow
def test_what_is_said_of_all_of_them_holds() -> None:
    assert [k for k in KERNELS if not agrees(k)] == []
