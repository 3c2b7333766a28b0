"""Branches on what all threads compute alike of memory that nobody writes: both answers are tried."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .u64 k_in, .param .u64 k_out"
FACTS = """
[kernel.k]
grid = [1]
block = [{grid}]
[kernel.k.params]
0 = {{ptr = "in"}}
1 = {{ptr = "out"}}
"""
ONE = "0f3F800000"
#: Each warp has code of its own, which ends with a test; both sides of it have events.
BODY = """
    ld.param.u64 %rd1, [k_in];
    ld.param.u64 %rd2, [k_out];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd6, %rd3, %rd5;
    mov.f32 %f9, 0f00000000;
    BEFORE
    setp.gt.u32 %p1, %r1, 31;
    @%p1 bra SECOND;
    FIRST
    @%p2 bra SKIP1;
    bar.sync 1, 64;
    SKIP1:
    st.global.f32 [%rd4], %f1;
    bra END;
    SECOND:
    OTHER
    @%p3 bra SKIP2;
    bar.sync 1, 64;
    SKIP2:
    END: ret;
"""
FIRST = f"ld.global.nc.f32 %f1, [%rd3]; abs.f32 %f2, %f1; setp.ge.f32 %p2, %f2, {ONE};"
OTHER = f"ld.global.f32 %f3, [%rd3]; abs.f32 %f4, %f3; setp.ge.f32 %p3, %f4, {ONE};"


def verdict(check: Any, first: str = FIRST, other: str = OTHER, before: str = "", facts: str = FACTS) -> Any:
    text = BODY.replace("FIRST", first).replace("OTHER", other).replace("BEFORE", before)
    found = check(module_text(text, params=PARAMS), 64, facts)
    return found["verdict"], found


def at(place: str, then: str = "", test: str = f"setp.ge.f32 %p3, %f4, {ONE};") -> str:
    """The second warp's test of what another place holds."""
    return f"ld.global.f32 %f3, [{place}]; {then or 'abs.f32 %f4, %f3;'} {test}"


GOOD = {
    "copies of code": (FIRST, OTHER),
    "the opposite test": (FIRST, at("%rd3", test=f"setp.ltu.f32 %p4, %f4, {ONE}; not.pred %p3, %p4;")),
    "through a register": (FIRST, at("%rd3", test=f"mov.f32 %f5, {ONE}; setp.ge.f32 %p3, %f4, %f5;")),
    "rounded sums": (
        "ld.global.f32 %f1, [%rd3]; mul.f32 %f2, %f1, %f1; add.rn.f32 %f6, %f2, %f1;"
        f"setp.ge.f32 %p2, %f6, {ONE};",
        at("%rd3", "mul.f32 %f5, %f3, %f3; add.rn.f32 %f4, %f5, %f3;"),
    ),
    "elements of a vector": (
        f"ld.global.nc.v2.f32 {{%f1, %f2}}, [%rd3]; setp.ge.f32 %p2, %f2, {ONE};",
        f"ld.global.f32 %f3, [%rd3+4]; setp.ge.f32 %p3, %f3, {ONE};",
    ),
    "half a word": (
        "ld.global.nc.u16 %rs1, [%rd3]; cvt.u32.u16 %r2, %rs1; shl.b32 %r3, %r2, 16; mov.b32 %f1, %r3;"
        f"setp.ge.f32 %p2, %f1, {ONE};",
        "ld.global.nc.u16 %rs2, [%rd3]; cvt.u32.u16 %r4, %rs2; shl.b32 %r5, %r4, 16; mov.b32 %f3, %r5;"
        f"setp.ge.f32 %p3, %f3, {ONE};",
    ),
    "two tests together": (
        f"{FIRST.replace('%p2', '%p5')} setp.lt.f32 %p6, %f1, 0f00000000; and.pred %p2, %p5, %p6;",
        f"{OTHER.replace('%p3', '%p7')} setp.lt.f32 %p8, %f3, 0f00000000; and.pred %p3, %p7, %p8;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_both_answers_are_tried(check: Any, name: str) -> None:
    found, report = verdict(check, *GOOD[name])
    assert found == "proved", report
    assert "what in leads to stays the same while the kernel runs" in report["assumptions"]


#: What is not one value for all threads at any time, and tests that are not the same.
BAD = {
    "another place": {"other": at("%rd3+4")},
    "a place of each thread": {"other": at("%rd6")},
    "memory that the kernel writes": {"before": "st.global.f32 [%rd3], %f9;"},
    "memory that the kernel adds to": {"before": "red.global.add.f32 [%rd6], %f9;"},
    "a store anywhere": {"before": "ld.global.u64 %rd7, [%rd4]; st.global.f32 [%rd7], %f9;"},
    "a generic store": {"before": "st.f32 [%rd1], %f9;"},
    "a load that others may write meanwhile": {"other": OTHER.replace("ld.global", "ld.volatile.global")},
    "a relaxed load": {"other": OTHER.replace("ld.global", "ld.relaxed.gpu.global")},
    "memory of one name": {"facts": FACTS.replace('"out"', '"in"')},
    "another number": {"other": OTHER.replace(ONE, "0f40000000")},
    "the opposite": {"other": OTHER.replace("setp.ge.f32", "setp.ltu.f32")},
    "another test": {"other": OTHER.replace("setp.ge.f32", "setp.gt.f32")},
    "a comparison that NaN answers otherwise": {
        "other": at("%rd3", test=f"setp.lt.f32 %p4, %f4, {ONE}; not.pred %p3, %p4;"),
    },
    "another operation": {"other": OTHER.replace("abs.f32", "neg.f32")},
    "another rounding": {
        "first": f"ld.global.f32 %f1, [%rd3]; add.rn.f32 %f2, %f1, {ONE}; setp.ge.f32 %p2, %f2, {ONE};",
        "other": at("%rd3", f"add.rz.f32 %f4, %f3, {ONE};"),
    },
    "a sum that may be one instruction with its product": {
        "first": "ld.global.f32 %f1, [%rd3]; mul.f32 %f2, %f1, %f1; add.f32 %f6, %f2, %f1;"
        f"setp.ge.f32 %p2, %f6, {ONE};",
        "other": at("%rd3", "mul.f32 %f5, %f3, %f3; add.f32 %f4, %f5, %f3;"),
    },
    "the same through a sign": {
        "first": "ld.global.f32 %f1, [%rd3]; mul.f32 %f2, %f1, %f1; neg.f32 %f7, %f2;"
        f"sub.f32 %f6, %f1, %f7; setp.ge.f32 %p2, %f6, {ONE};",
        "other": at("%rd3", "mul.f32 %f5, %f3, %f3; neg.f32 %f8, %f5; sub.f32 %f4, %f3, %f8;"),
    },
    "a register that is written twice": {
        "other": at("%rd3", f"abs.f32 %f4, %f3; add.rn.f32 %f4, %f4, {ONE};"),
    },
    "a load under a guard": {"other": OTHER.replace("ld.global", "@%p1 ld.global")},
    "a thread's own number": {
        "other": at("%rd3", "cvt.rn.f32.u32 %f5, %r1; add.rn.f32 %f4, %f3, %f5;"),
    },
    "one of two tests": {
        "other": f"{OTHER.replace('%p3', '%p7')} setp.lt.f32 %p8, %f3, 0f00000000; and.pred %p3, %p7, %p8;",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_one_value(check: Any, name: str) -> None:
    found, report = verdict(check, **BAD[name])
    assert found in ("unknown", "refuted"), report


def test_what_goes_wrong_for_one_answer(check: Any) -> None:
    """Whether the answer can be so is not known."""
    found, report = verdict(check, other="setp.ne.u32 %p3, %r1, %r1;")
    assert found == "unknown"
    assert "whether this goes wrong depends on data (ld.global.nc.f32" in report["reason"]
