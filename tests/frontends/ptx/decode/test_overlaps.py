"""Plain accesses to global memory have no events: what goes by one pointer is assumed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.global_helpers import PARAMS, line

PLAIN = """
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    mov.u32 %r3, %clock;
    mul.wide.u32 %rd7, %r3, 4;
    add.u64 %rd5, {read}, %rd7;
    st.global.u32 [%rd4], %r1;
    ld.global.u32 %r2, [%rd5+4];
    add.u64 %rd6, %rd2, %rd3;
    {stores}.global.u32 [%rd6], %r2;
    ret;
"""


@pytest.mark.parametrize(("read", "stores", "names"), [("%rd1", "st", ["out"]), ("%rd2", "red.add", ["flag"]),
                                                       ("%rd2", "st", ["flag"])])  # fmt: skip
def test_what_is_read_and_written_by_plain_accesses_is_taken_for_granted(
    read: str, stores: str, names: list[str], check: Any
) -> None:
    text = module_text(PLAIN.replace("{read}", read).replace("{stores}", stores), params=PARAMS)
    report = check(text)
    assert report["verdict"] == "proved"
    found = [a for a in report["assumptions"] if "no other thread reads" in a]
    at = line(text, "ld.global")
    wrote = line(text, "st.global.u32 [%rd4]") if read == "%rd1" else line(text, "global.u32 [%rd6]")
    assert found == [
        f"line {wrote}: no other thread reads (line {at}) what is written through {name} there"
        for name in names
    ]


MATRIX = """
    ld.param.u64 %rd1, [k_out];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd3, %r1, 1024;
    add.u64 %rd4, %rd1, %rd3;
    mov.u32 %r2, 16;
    {first}
    {second}
    ret;
"""
STORED = "wmma.store.d.sync.aligned.m16n16k16.global.row.f32 [%rd4], {%f1,%f1,%f1,%f1,%f1,%f1,%f1,%f1}, %r2;"
LOADED = "wmma.load.c.sync.aligned.m16n16k16.global.row.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%rd4], %r2;"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mov.f32 %f1, 0f00000000; " + STORED, "ld.global.u32 %r3, [%rd4];"),
        ("st.global.u32 [%rd4], %r1;", LOADED),
    ],
    ids=["stored", "loaded"],
)
def test_so_is_what_matrices_do(first: str, second: str, check: Any) -> None:
    """Of the own block; what the next one stores is read in no order."""
    text = module_text(MATRIX.replace("{first}", first).replace("{second}", second), params=PARAMS)
    report = check(text)
    assert report["verdict"] == "proved"
    assert any("no other thread reads" in a and "through out" in a for a in report["assumptions"])
    ahead = MATRIX.replace("{first}", first).replace("{second}", second.replace("[%rd4]", "[%rd4+1024]"))
    assert check(module_text(ahead, params=PARAMS))["verdict"] == "refuted"


LAST = """
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra END;
    st.global.u32 [%rd4+4], %r1;
    fence.acq_rel.gpu;
    atom.global.relaxed.gpu.add.u32 %r4, [%rd2], 1;
    fence.acq_rel.gpu;
    sub.u32 %r2, %r2, 1;
    setp.ne.u32 %p2, %r4, %r2;
    @%p2 bra END;
    ld.global.u32 %r5, [%rd1+4];
    st.global.u32 [%rd1], %r5;
END:
    ret;
"""


def test_what_the_block_that_counts_last_reads_is_read_by_no_other(check: Any) -> None:
    text = module_text(LAST, params=PARAMS)
    report = check(text)
    assert report["verdict"] == "proved"
    st, atom, ld = (line(text, x) for x in ("st.global.u32 [%rd4+4]", "atom.global", "ld.global"))
    assert [a for a in report["assumptions"] if "through out" in a] == [
        f"line {st}: of other blocks, only the one that counts last (line {atom}) reads (line {ld}) what is "
        "written through out there"
    ]
    assert "flags and counters in global memory are zero at launch" in report["assumptions"]
