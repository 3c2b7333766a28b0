"""Where in the source PTX instructions come from: ``.loc``, inlined calls, libraries."""

from __future__ import annotations

from syncverify.base.source import Span
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import HEAD


def test_loc_holds_until_the_next_and_ends_with_the_function() -> None:
    text = ".entry k() { ret; .loc 1 7 2\n ret; ret; .loc 1 8 0\n ret; }\n.entry l() { ret; }"
    m = parse(HEAD + text)
    assert [[i.loc for i in e.body] for e in m.entries] == [
        [(0, 0, 0), (1, 7, 2), (1, 7, 2), (1, 8, 0)],
        [(0, 0, 0)],
    ]


INLINED = """.entry k() {
.loc 1 30 1, function_name $L__info_string1, inlined_at 2 20 1
ret;
.loc 3 40 1, function_name $L__info_string2+12, inlined_at 1 30 1
ret;
}
.file 1 "/opt/lib/include/helper.h"
.file 2 "kernel.cu"
.file 3 "/opt/lib/include/ptx.h"
"""


def test_callers_of_inlined_code_innermost_first() -> None:
    body = parse(HEAD + INLINED).entries[0].body
    assert body[1].loc == (3, 40, 1)
    assert body[1].callers == ((1, 30, 1), (2, 20, 1))


def test_a_place_in_a_library_is_shown_where_it_was_called_from() -> None:
    m = parse(HEAD + INLINED)
    assert m.span(m.entries[0].body[1]) == Span("kernel.cu", 20)


def test_a_place_in_libraries_only_is_the_innermost() -> None:
    m = parse(HEAD + INLINED.replace('"kernel.cu"', '"/opt/lib/include/main.h"'))
    assert m.span(m.entries[0].body[1]) == Span("/opt/lib/include/ptx.h", 40)


#: Two copies, by two helpers of a library on top of each other, from lines 20 and 21 of a kernel; a load.
WRAPPED = """.entry k(.param .u64 p) {
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
.loc 3 9 1, function_name $L__info_string1, inlined_at 1 20 1
.loc 2 40 1, function_name $L__info_string2, inlined_at 3 9 1
cp.async.bulk.prefetch.L2.global [%rd1], 16;
.loc 3 9 1, function_name $L__info_string1, inlined_at 1 21 1
.loc 2 40 1, function_name $L__info_string2, inlined_at 3 9 1
cp.async.bulk.prefetch.L2.global [%rd1], 16;
.loc 2 50 1, function_name $L__info_string3, inlined_at 1 22 1
ld.shared.u32 %r1, [%r0];
}
.file 1 "/opt/lib/include/impls/kernel.cuh"
.file 2 "/opt/other/include/ptx.h"
.file 3 "/opt/lib/include/copy.cuh"
"""


def test_of_a_librarys_kernel_what_wraps_assembly_is_passed_over() -> None:
    m = parse(HEAD + WRAPPED)
    first, second, load = m.entries[0].body[:3]
    kernel, copy, ptx = (m.files[n] for n in (1, 3, 2))
    assert m.places(first) == (Span(copy, 9), Span(kernel, 20))
    assert m.places(second) == (Span(copy, 9), Span(kernel, 21))
    assert m.places(load) == (Span(ptx, 50), Span(kernel, 22))


def test_what_calls_a_helper_is_open_unless_told_again() -> None:
    lines = WRAPPED.splitlines()
    again = "\n".join(lines[7:9]) + "\n"  # a copy after .loc of line 9, and not of what called it
    m = parse(HEAD + WRAPPED.replace(".loc 2 50 1", again + ".loc 2 50 1"))
    assert m.places(m.entries[0].body[2]) == (Span(m.files[3], 9),)


def test_where_a_helper_is_called_from_is_known_as_long_as_it_is_one_place() -> None:
    m = parse(HEAD + WRAPPED.replace("inlined_at 1 21", "inlined_at 1 20"))
    assert m.places(m.entries[0].body[1]) == (Span(m.files[3], 9), Span(m.files[1], 20))


def test_of_own_code_the_place_and_its_call_are_shown() -> None:
    text = WRAPPED.replace("/opt/lib/include/", "/home/me/")
    m = parse(HEAD + text)
    assert m.places(m.entries[0].body[2]) == (Span("/home/me/impls/kernel.cuh", 22),)
    m = parse(HEAD + text.replace("/opt/other/include/", "/home/me/"))
    assert m.places(m.entries[0].body[2])[1:] == (Span("/home/me/impls/kernel.cuh", 22),)


def test_without_loc_the_place_is_the_line_of_ptx() -> None:
    m = parse(HEAD + ".entry k() {\nret;\n}", "k.ptx")
    assert m.span(m.entries[0].body[0]) == Span("k.ptx", 5)
