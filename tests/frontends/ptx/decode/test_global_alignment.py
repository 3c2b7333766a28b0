"""The global side of bulk copies and of cp.async is aligned as the shared side is (SV701)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [64]\ncluster = [1]\n"
BODY = """
    .shared .align 128 .b8 tile[2048];
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [k_in];
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, tile;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [bar], 1;
READY:
    bar.sync 0;
    PLACE
    COPY
    ret;
"""
LOAD = """@%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 256, [bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;"""
STORE = """@%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:"""
OWN = """shl.b32 %r5, %r1, 4;
    add.u32 %r6, %r3, %r5;
    cp.async.{0}.shared.global [%r6], [%rd2], {1};
    cp.async.wait_all;"""
ROWS = "ld.param.u32 %r9, [k_n]; mul.wide.u32 %rd3, %r9, 16; add.s64 %rd4, %rd1, %rd3;"
BLOCK = "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd3, %r9, 512; add.s64 %rd4, %rd1, %rd3;"
AT = "add.s64 %rd2, %rd1, {0};"
LANE = "mul.wide.u32 %rd3, %r1, {0}; add.s64 %rd2, %rd1, %rd3;"
BEFORE = "ld.global.u64 %rd2, [%rd1]; st.global.u64 [%rd1], %rd2; "  # another use of the same register
SIZE = "ld.param.u32 %r9, [k_n]; mul.wide.u32 %rd3, %r9, 4; add.s64 %rd2, %rd1, %rd3;"

CASES = [
    (AT.format(0), LOAD, True),
    (AT.format(32), LOAD, True),
    (AT.format(8), LOAD, False),
    (AT.format(8), STORE, False),
    (AT.format(48), STORE, True),
    ("mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd3, %r9, 512; add.s64 %rd2, %rd1, %rd3;", LOAD, True),
    ("cvta.to.global.u64 %rd3, %rd1; add.s64 %rd2, %rd3, 4;", LOAD, False),
    (LANE.format(16), OWN.format("cg", 16), True),
    (LANE.format(8), OWN.format("cg", 16), False),
    (BEFORE + LANE.format(16), OWN.format("cg", 16), True),
    (BEFORE + LANE.format(8), OWN.format("cg", 16), False),
    (LANE.format(8), OWN.format("ca", 8), True),
    (LANE.format(4), OWN.format("ca", 8), False),
    (LANE.format(4), OWN.format("ca", 4), True),
    (SIZE, LOAD, True),  # the caller's to align
    (ROWS + " add.s64 %rd2, %rd4, 8;", LOAD, False),
    (BLOCK + " add.s64 %rd2, %rd4, 8;", LOAD, False),
    (BLOCK + " add.s64 %rd2, %rd4, 16;", LOAD, True),
]


@pytest.mark.parametrize(("place", "copy", "right"), CASES)
@pytest.mark.parametrize("facts", [FACTS, FACTS + '[kernel.k.params]\n0 = "ptr"\n'])
def test_the_address_in_global_memory(check: Any, place: str, copy: str, right: bool, facts: str) -> None:
    text = module_text(
        BODY.replace("PLACE", place).replace("COPY", copy), ".param .u64 k_in, .param .u32 k_n"
    )
    found = check(text, facts=facts)
    assert found["verdict"] == ("proved" if right else "refuted"), found["reason"]
    assert right or found["diagnostics"][0]["rule"] == "SV701"


@pytest.mark.parametrize(("align", "right"), [(8, False), (16, True), (128, True)])
def test_a_pointer_is_as_aligned_as_the_launch_file_says(check: Any, align: int, right: bool) -> None:
    text = module_text(BODY.replace("PLACE", AT.format(0)).replace("COPY", LOAD), ".param .u64 k_in")
    facts = f'{FACTS}[kernel.k.params]\n0 = {{{{ptr = "A", align = {align}}}}}\n'
    assert check(text, facts=facts)["verdict"] == ("proved" if right else "refuted")


def test_an_address_through_local_memory_is_nobodys(check: Any) -> None:
    """Its low word is put together of bytes, so that nothing is known of it."""
    own = ".local .align 8 .b8 own[8]; st.local.u64 [own], %rd1; st.local.u8 [own+1], 4;"
    own += "ld.local.u64 %rd2, [own];"
    text = module_text(BODY.replace("PLACE", own).replace("COPY", LOAD), ".param .u64 k_in")
    found = check(text, facts=FACTS)
    assert found["verdict"] == "unknown"
    assert (
        "whether the address in global memory is aligned depends on words that are stored" in found["reason"]
    )


@pytest.mark.parametrize(("more", "verdict"), [(8, "unknown"), (16, "proved")])
def test_a_definition_that_is_off_counts_beside_one_that_is_loaded(
    check: Any, more: int, verdict: str
) -> None:
    place = f"""ld.param.u32 %r9, [k_n]; setp.gt.u32 %p5, %r9, 3; ld.global.u64 %rd2, [%rd1]; @%p5 bra X;
    {LANE.format(16)} add.s64 %rd2, %rd2, {more}; X:"""
    body = BODY.replace("PLACE", place).replace("COPY", OWN.format("cg", 16))
    found = check(module_text(body, ".param .u64 k_in, .param .u32 k_n"), facts=FACTS)
    assert found["verdict"] == verdict, found["reason"]


@pytest.mark.parametrize(
    ("place", "right"),
    [
        ("mul.wide.u32 %rd3, %r9, 4; mul.wide.u32 %rd3, %r9, 512;", True),
        ("mul.wide.u32 %rd3, %r9, 512; mul.wide.u32 %rd3, %r9, 4;", False),
        ("mul.wide.u32 %rd3, %r9, 512; @%p3 mul.wide.u32 %rd3, %r9, 4;", False),
        ("mul.wide.u32 %rd3, %r9, 4; @%p3 mul.wide.u32 %rd3, %r9, 512;", False),
        ("mul.wide.u32 %rd3, %r9, 4; @%p3 bra J; mul.wide.u32 %rd3, %r9, 512; J:", False),
        ("mul.wide.u32 %rd3, %r9, 4; @%p3 bra J; J: mul.wide.u32 %rd3, %r9, 512;", True),
    ],
)
def test_a_register_of_several_uses_has_the_value_that_comes_to_the_address(
    check: Any, place: str, right: bool
) -> None:
    place = f"mov.u32 %r9, %ctaid.x; setp.gt.u32 %p3, %r9, 1; {place} add.s64 %rd2, %rd1, %rd3;"
    text = module_text(BODY.replace("PLACE", place).replace("COPY", LOAD), ".param .u64 k_in")
    found = check(text, facts="[kernel.k]\nblock = [64]\n")
    assert found["verdict"] == "proved" if right else found["verdict"] != "proved", found["reason"]


@pytest.mark.parametrize(("more", "verdict"), [(8, "unknown"), (16, "proved")])
def test_copies_of_one_loaded_pointer(check: Any, more: int, verdict: str) -> None:
    """Of two addresses eight bytes apart one is off, whatever the pointer is."""
    place = "ld.global.u64 %rd2, [%rd1];"
    copies = f"{OWN.format('cg', 16)} add.s64 %rd2, %rd2, {more}; {OWN.format('cg', 16)}"
    text = module_text(BODY.replace("PLACE", place).replace("COPY", copies), ".param .u64 k_in")
    found = check(text, facts=FACTS)
    assert found["verdict"] == verdict, found["reason"]
