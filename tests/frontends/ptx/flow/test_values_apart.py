"""Registers that hold several values come apart, and the function means the same."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.flow.values_apart import with_values_apart
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k()
{ .reg .b32 %r<9>; .reg .pred %p<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .shared .align 8 .b8 x[64];
"""


def function(text: str) -> Function:
    (f,) = parse(HEAD + text + "\nret; }\n").entries
    return f


def names(f: Function) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(results(i), sources(i)) for i in f.body if i.op != "ret"]


def test_a_value_made_of_another_in_the_same_register() -> None:
    f = with_values_apart(function("ld.shared.u32 %r1, [x];\nand.b32 %r1, %r1, 2;\nst.shared.u32 [x], %r1;"))
    (one,), _ = names(f)[0]
    (two,), read = names(f)[1]
    assert one == "%r1" != two and read == (one,) and names(f)[2][1] == (two,)
    assert f.registers[two] == "b32"


@pytest.mark.parametrize(
    "text",
    [
        "mov.u32 %r1, 0;\nA: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra A;",
        "mov.u32 %r1, 0;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 mov.u32 %r1, 1;\nst.shared.u32 [x], %r1;",
        "mov.u32 %r1, 0;\nsetp.lt.u32 %p1, %r2, 9;\n@%p1 bra A;\nmov.u32 %r1, 1;\nA: st.shared.u32 [x], %r1;",
    ],
    ids=["a loop", "a guard", "a branch"],
)
def test_values_that_one_instruction_may_read_stay_together(text: str) -> None:
    f = function(text)
    assert names(with_values_apart(f)) == names(f)


def test_registers_of_asynchronous_operations_keep_their_names() -> None:
    mma = (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;"
    )
    f = function(f"mov.f32 %f0, 0f00000000;\n{mma}\nmov.f32 %f0, 0f00000000;\nst.shared.f32 [x], %f0;")
    assert names(with_values_apart(f)) == names(f)


def test_a_register_written_once_changes_nothing() -> None:
    f = function("mov.u32 %r1, 0;\nst.shared.u32 [x], %r1;")
    assert with_values_apart(f) is f
