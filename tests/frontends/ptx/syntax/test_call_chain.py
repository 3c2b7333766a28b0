"""A finding stands where the author calls a function that only wraps an operation."""

from __future__ import annotations

from syncverify.base.source import Span
from syncverify.frontends.ptx.syntax.parser import parse

#: Line 4 holds a wait, line 8 calls it in ``take``, which also arrives (line 9); the kernel calls both.
PTX = """
.version 8.8
.target sm_90a
.address_size 64
.file 1 "k.cu"
.visible .entry k() {{
 .reg .b32 %r<4>;
 .reg .pred %p<2>;
 .reg .b64 %rd<2>;
 .loc 1 20 3
 mov.u32 %r1, 0;
 .loc 1 8 5, function_name $L__info_string1, inlined_at 1 20 3
 mov.u32 %r2, 0;
 .loc 1 4 7, function_name $L__info_string0, inlined_at 1 8 5
 mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;
 .loc 1 {arrive}
 mbarrier.arrive.shared.b64 %rd1, [%r1];
 ret;
}}
"""


def _spans(arrive: str) -> dict[str, tuple[list[int], int | None]]:
    """By opcode: the lines of the places, and the line inside the wrapper."""
    module = parse(PTX.format(arrive=arrive), "k.ptx")
    (entry,) = module.entries
    out: dict[str, tuple[list[int], int | None]] = {}
    for i in entry.body:
        inside = module.wrapped(i)
        out[i.name] = [p.line for p in module.places(i)], inside and inside.line
    return out


def test_a_wrapper_is_shown_by_its_call() -> None:
    found = _spans("9 5, function_name $L__info_string1, inlined_at 1 20 3")
    assert found["mbarrier.try_wait.parity.shared.b64"] == ([8, 20], 4)


def test_a_function_that_does_more_keeps_its_own_lines() -> None:
    found = _spans("9 5, function_name $L__info_string1, inlined_at 1 20 3")
    assert found["mbarrier.arrive.shared.b64"] == ([9, 20], None)


def test_a_wrapper_of_a_wrapper_is_one() -> None:
    found = _spans("21 5")
    assert found["mbarrier.try_wait.parity.shared.b64"] == ([20], 4)
    assert found["mbarrier.arrive.shared.b64"] == ([21], None)


def test_without_a_function_name_the_innermost_place_is_shown() -> None:
    text = PTX.format(arrive="9 5").replace("function_name $L__info_string0, ", "")
    module = parse(text, "k.ptx")
    wait = next(i for i in module.entries[0].body if i.op == "mbarrier")
    assert module.span(wait) == Span("k.cu", 4)
