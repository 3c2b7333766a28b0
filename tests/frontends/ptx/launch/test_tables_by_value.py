"""Tables that a parameter holds by value, read at the block's number, at a size, or at a loop's counter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .align 4 .b8 k_table[64], .param .u32 k_n, .param .u64 k_out"
FACTS = "[kernel.k]\nblock = [64]\ncluster = [1]\n"
ENTRIES = ", ".join(f"{{{{u32 = {n % 3}}}}}" for n in range(16))
GIVEN = f"{FACTS}[kernel.k.params]\n0 = [{ENTRIES}]\n"

PLACES = {
    "block": "mov.u32 %r9, %ctaid.x;",
    "size": "ld.param.u32 %r9, [k_n];",
    "half": "mov.u32 %r9, %ctaid.x; shr.u32 %r9, %r9, 1;",
    "field": "mov.u32 %r9, %ctaid.x; mul.lo.u32 %r9, %r9, 2;",
}
READ = """
    mov.b64 %rd2, k_table;
    PLACE
    mul.wide.u32 %rd3, %r9, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.param.LOAD %r10, [%rd4];
    mov.u32 %r1, %tid.x;
"""
#: The entry says whether, or how often, all threads come to a barrier.
ONCE = "    setp.eq.u32 %p1, %r10, 0;\n    @%p1 bra END;\n    bar.sync 0;\nEND:\n    ret;\n"
OFTEN = """    mov.u32 %r11, 0;
LOOP:
    setp.ge.s32 %p2, %r11, %r10;
    @%p2 bra END;
    bar.sync 0;
    add.u32 %r11, %r11, 1;
    bra LOOP;
END:
    ret;
"""
#: Half of the threads leave where the entry is 1.
HALF = """    setp.lt.u32 %p3, %r1, 32;
    setp.eq.u32 %p1, %r10, ENTRY;
    and.pred %p1, %p1, %p3;
    @%p1 bra END;
    barrier.sync 1, 64;
END:
    ret;
"""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", [ONCE, OFTEN])
@pytest.mark.parametrize("facts", [FACTS, GIVEN])
def test_an_entry_that_steers_all_threads_alike(check: Any, place: str, use: str, facts: str) -> None:
    text = module_text(READ.replace("PLACE", PLACES[place]).replace("LOAD", "u32") + use, PARAMS)
    found = check(text, facts=facts)
    assert found["verdict"] == "proved", found["reason"]


@pytest.mark.parametrize("place", PLACES)
def test_an_entry_that_parts_the_threads_is_not_proved(check: Any, place: str) -> None:
    text = module_text(READ.replace("PLACE", PLACES[place]).replace("LOAD", "u32") + HALF, PARAMS)
    assert check(text.replace("ENTRY", "1"), facts=FACTS)["verdict"] != "proved"
    assert check(text.replace("ENTRY", "1"), facts=GIVEN)["verdict"] != "proved"
    none = check(text.replace("ENTRY", "7"), facts=GIVEN)  # no entry is
    assert none["verdict"] == "proved", none["reason"]


def test_a_narrow_entry(check: Any) -> None:
    body = READ.replace("PLACE", PLACES["block"]).replace("4;\n    add.s64", "1;\n    add.s64")
    text = module_text(body.replace("LOAD", "s8") + OFTEN, PARAMS)
    assert check(text, facts=FACTS)["verdict"] == "proved"
