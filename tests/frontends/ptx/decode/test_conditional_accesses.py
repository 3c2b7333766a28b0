"""Accesses to shared memory that data decides on: whether and where. They prove; an execution refutes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = """
[kernel.k]
grid = [1]
block = [{grid}]
[kernel.k.params]
0 = {{ptr = "in"}}
"""
PARAMS = ".param .u64 k_in"
HEAD = """
    .shared .align 16 .b8 bins[256];
    ld.param.u64 %rd1, [k_in];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.b32 %r2, [%rd3];
    mov.u32 %r3, bins;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
"""
HISTOGRAM = f"""{HEAD}
    st.shared.b32 [%r5], 0;
    bar.sync 0;
    setp.gt.u32 %p1, %r2, 63;
    @%p1 bra NONE;
    shl.b32 %r6, %r2, 2;
    add.u32 %r7, %r3, %r6;
    atom.shared.add.u32 %r8, [%r7], 1;
    NONE:
    bar.sync 0;
    ld.shared.b32 %r9, [%r5];
    st.global.b32 [%rd3], %r9;
    ret;
"""


def verdict(check: Any, body: str, threads: int = 64) -> tuple[str, str]:
    found = check(module_text(body, params=PARAMS), threads, FACTS)
    return found["verdict"], str(found["reason"]) + " ".join(found["assumptions"])


def test_a_histogram_between_barriers_is_proved(check: Any) -> None:
    found, said = verdict(check, HISTOGRAM)
    assert found == "proved", said
    assert "stays inside shared memory" not in said  # the branch says so


@pytest.mark.parametrize("which", [0, 1])
def test_without_a_barrier_an_execution_refutes_it(check: Any, which: int) -> None:
    parts = HISTOGRAM.split("bar.sync 0;")
    body = "bar.sync 0;".join(parts[: which + 1]) + "bar.sync 0;".join(parts[which + 1 :])
    assert body.count("bar.sync") == 1
    assert verdict(check, body)[0] == "refuted"


PERHAPS = f"""{HEAD}
    setp.gt.u32 %p1, %r2, 63;
    @%p1 bra NONE;
    st.shared.b32 [%r5], %r2;
    NONE:
    BARRIER
    xor.b32 %r6, %r5, 4;
    ld.shared.b32 %r7, [%r6];
    st.global.b32 [%rd3], %r7;
    ret;
"""


@pytest.mark.parametrize(("barrier", "wanted"), [("bar.sync 0;", "proved"), ("", "refuted")])
def test_a_store_that_data_decides_on(check: Any, barrier: str, wanted: str) -> None:
    assert verdict(check, PERHAPS.replace("BARRIER", barrier))[0] == wanted


def test_both_sides_count(check: Any) -> None:
    """Data says which of two places is written; both are read later."""
    either = """@%p1 bra OTHER;
    st.shared.b32 [%r5], %r2;
    bra.uni NONE;
    OTHER: st.shared.b32 [%r5+128], %r2;"""
    body = PERHAPS.replace("@%p1 bra NONE;\n    st.shared.b32 [%r5], %r2;", either)
    assert verdict(check, body.replace("BARRIER", "bar.sync 0;"), 32)[0] == "proved"
    late = body.replace("[%r6];", "[%r6+128];").replace("BARRIER", "")
    assert verdict(check, late, 32)[0] == "refuted"


def test_a_barrier_under_data_of_each_thread_is_refuted_by_an_input(check: Any) -> None:
    body = PERHAPS.replace("st.shared.b32 [%r5], %r2;", "bar.sync 1, 64;").replace("BARRIER", "bar.sync 0;")
    assert verdict(check, body)[0] == "refuted"


def test_lanes_that_may_store_to_one_place_are_not_proved(check: Any) -> None:
    stores = HISTOGRAM.replace("atom.shared.add.u32 %r8, [%r7], 1;", "st.shared.b32 [%r7], %r1;")
    assert verdict(check, stores)[0] == "unknown"


def test_atomics_of_two_widths_may_overlap_in_part(check: Any) -> None:
    two = "atom.shared.add.u32 %r8, [%r7], 1; atom.shared.add.u64 %rd5, [%r7], 1;"
    found = verdict(check, HISTOGRAM.replace("atom.shared.add.u32 %r8, [%r7], 1;", two))[0]
    assert found in ("unknown", "refuted")  # by an input of odd numbers, too


@pytest.mark.parametrize("bytes_", [64, 256])
@pytest.mark.parametrize(
    ("beside", "wanted"),
    [
        ("red.shared.add.u32 [%r3], 1;", "proved"),
        ("mov.u64 %rd5, 1; red.shared.add.u64 [%r3], %rd5;", "unknown"),
        ("st.relaxed.cta.shared.u8 [%r3], 1;", "unknown"),
        ("ld.relaxed.cta.shared.u16 %rs1, [%r3+2];", "unknown"),
    ],
)
def test_a_word_of_another_width_is_another_word(check: Any, bytes_: int, beside: str, wanted: str) -> None:
    """Two atomics that share a part of their bytes race, wherever data puts one of them."""
    body = HEAD.replace("256", str(bytes_)) + f"shl.b32 %r6, %r2, 2; add.u32 %r7, %r3, %r6; {beside}"
    assert verdict(check, body + "red.shared.add.u32 [%r7], 1; ret;")[0] == wanted


def test_beside_barriers_that_copies_complete_all_accesses_are_certain(check: Any) -> None:
    body = HISTOGRAM.replace("st.shared.b32 [%r5], 0;", "st.shared.b32 [%r5], 0; DONE").replace(
        "DONE", "setp.ne.u32 %p3, %r1, 0; @!%p3 mbarrier.init.shared::cta.b64 [bar], 1;"
    )
    body = body.replace(".shared .align 16", ".shared .align 8 .b8 bar[8]; .shared .align 16", 1)
    assert verdict(check, body)[0] == "unknown"


def test_values_that_steer_are_not_taken_from_what_data_may_overwrite(check: Any) -> None:
    body = PERHAPS.replace(
        "st.global.b32 [%rd3], %r7;", "setp.eq.u32 %p4, %r7, 7; @%p4 bra OUT; bar.sync 0; OUT:"
    )
    assert verdict(check, body.replace("BARRIER", "bar.sync 0;"))[0] == "unknown"


LEAST = f"""{HEAD}
    st.shared.b32 [%r5], %r2;
    mov.u32 %r6, 32;
    TURN:
    BARRIER
    setp.ge.u32 %p1, %r1, %r6;
    @%p1 bra NEXT;
    ld.shared.f32 %f1, [%r5];
    shl.b32 %r7, %r6, 2;
    add.u32 %r7, %r7, %r5;
    ld.shared.f32 %f2, [%r7];
    setp.geu.f32 %p2, %f2, %f1;
    @%p2 bra NEXT;
    st.shared.f32 [%r5], %f2;
    NEXT:
    shr.u32 %r6, %r6, 1;
    setp.ne.u32 %p3, %r6, 0;
    @%p3 bra TURN;
    ret;
"""


@pytest.mark.parametrize("type_", ["f32", "u32"])
@pytest.mark.parametrize(("barrier", "wanted"), [("bar.sync 0;", "proved"), ("", "refuted")])
def test_numbers_in_shared_memory_say_whether_one_is_stored(
    check: Any, barrier: str, wanted: str, type_: str
) -> None:
    """The least of 64. Where contents of shared memory cannot be followed, they are taken as data."""
    body = LEAST.replace("BARRIER", barrier)
    if type_ == "u32":
        body = body.replace("geu.f32", "ge.u32").replace("%f", "%r2").replace(".f32", ".u32")
    assert verdict(check, body)[0] == wanted


@pytest.mark.parametrize(("barrier", "wanted"), [("bar.sync 0;", "proved"), ("", "refuted")])
def test_of_more_blocks_than_are_compared_any_is_shown(check: Any, barrier: str, wanted: str) -> None:
    """The least of 64, or the most, by the block's number."""
    parity = "mov.u32 %r10, %ctaid.x; and.b32 %r10, %r10, 1; setp.eq.u32 %p4, %r10, 0;"
    capped = "ld.shared.u32 %r11, [%r5]; setp.gt.u32 %p5, %r11, 7; @%p5 bra BIG; st.shared.u32 [%r5], 7; BIG:"
    body = LEAST.replace("BARRIER", barrier).replace(
        "mov.u32 %r6, 32;", f"mov.u32 %r6, 32; {capped} {parity}"
    )
    body = body.replace("geu.f32", "ge.u32").replace("%f", "%r2").replace(".f32", ".u32")
    body = body.replace("    @%p2 bra NEXT;", "    xor.pred %p2, %p4, %p2; @%p2 bra NEXT;")
    found = check(module_text(body, params=PARAMS), 64, FACTS.replace("[1]", "[1024]"))
    assert found["verdict"] == wanted, found["reason"]


def test_what_goes_wrong_without_such_accesses_is_wrong(check: Any) -> None:
    """All lanes read what their neighbours have stored, whatever data decides besides."""
    wrong = PERHAPS.replace("setp.gt.u32 %p1", "st.shared.b32 [%r5], 0; setp.gt.u32 %p1", 1)
    body = wrong.replace("BARRIER", "")
    found, said = verdict(check, body)
    assert found == "refuted", said
    assert verdict(check, wrong.replace("BARRIER", "bar.sync 0;"))[0] == "proved"
