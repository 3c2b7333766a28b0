"""Variables in constant and global memory are the host's: no initializer decides, the launch file may."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [64]\ncluster = [1]\n"

#: Threads read what their neighbours wrote, past a barrier if ``%p1`` holds.
BODY = """
    .shared .align 16 .b8 tile[256];
    ld.param.u64 %rd1, [k_out];
    ld.param.u32 %r9, [k_n];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    TEST
    @!%p1 bra SKIP;
    bar.sync 0;
SKIP:
    xor.b32 %r5, %r2, 128;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd1], %r7;
    bar.sync 0;
    ret;
"""
PARAMS = ".param .u64 k_out, .param .u32 k_n"
#: A variable that says yes by its initializer, and the test of it.
CASES = {
    "constant": (".const .align 4 .u32 v = 2;", "ld.const.u32 %r8, [v]; setp.gt.s32 %p1, %r8, 1;"),
    "byte": (".const .align 1 .b8 v[4] = {0, 0, 3, 0};", "ld.const.s8 %r8, [v+2]; setp.eq.s32 %p1, %r8, 3;"),
    "vector": (
        ".const .align 8 .b8 v[8] = {1, 0, 0, 0, 7};",
        "ld.const.v2.u32 {%r10, %r8}, [v]; setp.ne.u32 %p1, %r8, 0;",
    ),
    "pointer": (
        ".const .align 4 .u32 v = 1;",
        "mov.u64 %rd2, v; ld.const.u32 %r8, [%rd2]; setp.ne.u32 %p1, %r8, 0;",
    ),
    "global": (".global .align 4 .u32 v = 1;", "ld.global.u32 %r8, [v]; setp.ne.u32 %p1, %r8, 0;"),
    "read_only": (".global .align 4 .u32 v = 1;", "ld.global.nc.u32 %r8, [v]; setp.ne.u32 %p1, %r8, 0;"),
    "generic": (
        ".global .align 4 .u32 v = 1;",
        "mov.u64 %rd2, v; cvta.global.u64 %rd3, %rd2; ld.u32 %r8, [%rd3]; setp.ne.u32 %p1, %r8, 0;",
    ),
    "without": (".global .align 4 .u32 v;", "ld.global.u32 %r8, [v]; setp.eq.u32 %p1, %r8, 0;"),
    "count": (".const .align 4 .u32 v = 2;", "ld.const.u32 %r8, [v]; setp.gt.u32 %p1, %r8, %r9;"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_initializer_is_no_fact(check: Any, case: str) -> None:
    outside, test = CASES[case]
    text = module_text(BODY.replace("TEST", test), PARAMS, outside)
    assert check(text, facts=FACTS)["verdict"] != "proved"
    always = text.replace("    @!%p1 bra SKIP;\n", "")
    assert check(always, facts=FACTS)["verdict"] == "proved"


@pytest.mark.parametrize(
    ("case", "given", "verdict"),
    [
        ("constant", "v = 2", "proved"),
        ("constant", "v = 1", "refuted"),
        ("byte", "v = [{{u8 = 3, at = 2}}]", "proved"),
        ("byte", "v = [{{u8 = 131, at = 2}}]", "refuted"),
        ("vector", "v = [{{u32 = 0}}, {{u32 = 5}}]", "proved"),
        ("global", "v = 1", "proved"),
        ("global", "v = 0", "refuted"),
        ("without", "v = 0", "proved"),
    ],
)
def test_the_launch_file_gives_a_variable(check: Any, case: str, given: str, verdict: str) -> None:
    outside, test = CASES[case]
    text = module_text(BODY.replace("TEST", test), PARAMS, outside)
    facts = f"{FACTS}[kernel.k.variables]\n{given}\n"
    assert check(text, facts=facts)["verdict"] == verdict


def test_a_table_inside_a_function_is_a_fact(check: Any) -> None:
    outside = ".const .align 4 .b8 _ZZ1kvE1v[8] = {0, 0, 0, 0, 1};"
    test = "ld.const.u32 %r8, [_ZZ1kvE1v+4]; setp.eq.u32 %p1, %r8, 1;"
    assert check(module_text(BODY.replace("TEST", test), PARAMS, outside), facts=FACTS)["verdict"] == "proved"


def test_an_unknown_variable_is_an_error(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outside, test = CASES["constant"]
    text = module_text(BODY.replace("TEST", test), PARAMS, outside)
    with pytest.raises(ValueError, match="not enough values"):
        check(text, facts=f"{FACTS}[kernel.k.variables]\nw = 1\n")
