"""Tensor maps behind pointers that no launch file names: which are one, which two, which may be either."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.frontends.ptx.decode.map_addresses import address, apart
from syncverify.frontends.ptx.values.register_values import Unknown
from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.global_helpers import edits

FACTS = "[kernel.k]\nblock = [32]\ncluster = [1]\n"
PARAMS = ".param .u64 k_out, .param .u64 k_other, .param .u32 k_n"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
END = "    setp.lt.u32 %p4, %r7, 3;\n    @%p4 bra LOOP;\n    ret;\n"

#: How the address of the map comes to be in ``%rd1``.
PLACES = {
    "pointer": "ld.param.u64 %rd1, [k_out];",
    "offset": "ld.param.u64 %rd2, [k_out]; add.s64 %rd1, %rd2, 640;",
    "block": (
        "ld.param.u64 %rd2, [k_out]; mov.u32 %r20, %ctaid.x; mul.wide.u32 %rd3, %r20, 256;"
        " add.s64 %rd1, %rd2, %rd3;"
    ),
    "grid": (
        "ld.param.u64 %rd2, [k_out]; mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ctaid.y; mov.u32 %r22, %nctaid.x;"
        " mad.lo.s32 %r23, %r21, %r22, %r20; shl.b32 %r24, %r23, 8; cvt.s64.s32 %rd3, %r24;"
        " add.s64 %rd1, %rd3, %rd2;"
    ),
    "generic": (
        "ld.param.u64 %rd2, [k_out]; cvta.to.global.u64 %rd3, %rd2; add.s64 %rd4, %rd3, 128;"
        " cvta.global.u64 %rd1, %rd4;"
    ),
    "size": "ld.param.u64 %rd2, [k_out]; ld.param.u32 %r20, [k_n]; mad.wide.u32 %rd1, %r20, 128, %rd2;",
    "chosen": (
        "ld.param.u64 %rd2, [k_out]; add.s64 %rd3, %rd2, 128; mov.u32 %r20, %tid.x;"
        " setp.lt.u32 %p8, %r20, 32; selp.b64 %rd1, %rd3, %rd2, %p8;"
    ),
    "shared": (
        ".shared .align 8 .b8 passed[8]; mov.u32 %r20, %tid.x; ld.param.u64 %rd2, [k_out];"
        " add.s64 %rd3, %rd2, 128; setp.eq.u32 %p8, %r20, 0; @%p8 st.shared.u64 [passed], %rd3; bar.sync 0;"
        " ld.shared.u64 %rd1, [passed];"
    ),
    "local": (
        ".local .align 8 .b8 kept[16]; ld.param.u64 %rd2, [k_out]; add.s64 %rd3, %rd2, 128;"
        " st.local.u64 [kept+8], %rd3; ld.local.u64 %rd4, [kept+8]; add.s64 %rd1, %rd4, 384;"
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_acquire_counts_for_the_map_that_it_names(check: Any, place: str) -> None:
    text = module_text(edits(f"    {PLACES[place]}\n", "", END), PARAMS)
    assert text.count(ACQUIRE) == 1
    assert check(text, facts=FACTS)["verdict"] == "proved"
    for wrong in ("", ACQUIRE.replace("%rd1]", "%rd1+128]")):
        found = check(text.replace(ACQUIRE, wrong), facts=FACTS)
        assert found["verdict"] == "refuted", wrong
        assert found["diagnostics"][0]["rule"] == "SV502"


def test_maps_behind_two_pointers_are_two(check: Any) -> None:
    text = module_text(
        edits("    ld.param.u64 %rd1, [k_out];\n ld.param.u64 %rd9, [k_other];\n", "", END), PARAMS
    )
    assert check(text.replace(ACQUIRE, ACQUIRE.replace("%rd1", "%rd9")), facts=FACTS)["verdict"] == "refuted"


@pytest.mark.parametrize(
    "place", ["ld.global.u64 %rd1, [%rd2];", "mul.wide.u32 %rd3, %r20, 128; add.s64 %rd1, %rd2, %rd3;"]
)
def test_maps_that_may_be_one_are_not_decided(check: Any, place: str) -> None:
    body = f"    ld.param.u64 %rd2, [k_out]; ld.param.u32 %r20, [k_n]; {place}\n"
    text = module_text(edits(body, "", END), PARAMS)
    found = check(text.replace(ACQUIRE, ACQUIRE.replace("%rd1", "%rd2")), facts=FACTS)
    assert found["verdict"] == "unknown"
    assert "which of the kernel's tensor maps" in found["reason"]


def test_places_are_apart_by_a_whole_map() -> None:
    value = Unknown("a pointer", "param")
    pointer, other = (("param", "a", 0, 64), 1), (("param", "b", 0, 64), 1)
    block = (("%ctaid.x",), 256)

    def at(*terms: Any, offset: int = 0) -> Any:
        return address(value, tuple(terms), offset)

    assert apart(at(pointer), at(pointer)) is False
    assert apart(at(pointer, offset=128), at(pointer)) is True
    assert apart(at(pointer, offset=-128), at(pointer)) is True
    assert apart(at(pointer, offset=64), at(pointer)) is None
    assert apart(at(pointer, offset=-1), at(pointer)) is None
    assert apart(at(pointer, block), at(pointer)) is None
    assert apart(at(pointer, block), at(other, offset=64)) is True
    assert apart(at(block), at(other)) is None
