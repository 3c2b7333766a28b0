"""Calls become the bodies of their functions: parameters pass values, and what does not fit stays a call."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
TWICE = """.func (.param .b32 back) twice(.param .b32 given)
{ .reg .b32 %r<9>; .reg .pred %p;
  ld.param.u32 %r1, [given];
  setp.eq.u32 %p, %r1, 0;
  @%p bra ZERO;
  shl.b32 %r2, %r1, 1;
  st.param.b32 [back], %r2;
  ret;
ZERO: st.param.b32 [back], 0;
  ret;
}
"""
CALL = """{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {0};
{2} call (b), {3}, (a); ld.param.b32 {1}, [b]; }}"""


def entry(body: str) -> str:
    return f""".visible .entry k()
{{ .reg .b32 %r<20>; .reg .pred %p<4>; .shared .align 4 .b8 row[1024];
  mov.u32 %r1, %tid.x;
  mov.u32 %r9, row;
  {body}
  bar.sync 0;
  ret;
}}
"""


def verdict(functions: str, body: str) -> Verdict:
    facts = {"kernel": {"k": {"grid": [1, 1, 1], "block": [64, 1, 1]}}}
    (report,) = syncverify.check(HEAD + functions + entry(body), facts=facts, advice=False)
    return report.verdict


def call(given: str, back: str, guard: str = "", name: str = "twice") -> str:
    return CALL.format(given, back, guard, name)


STORE = "shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r9; st.shared.u32 [%r3], %r1;"


def test_what_a_call_gives_back_is_known() -> None:
    """Lane t stores to word 2 t, or, wrong, to word 2 (t / 2): then two lanes store to one word."""
    assert verdict(TWICE, call("%r1", "%r2") + STORE) is Verdict.PROVED
    halved = "shr.u32 %r4, %r1, 1;" + call("%r4", "%r2")
    assert verdict(TWICE, halved + STORE) is Verdict.REFUTED


def test_calls_in_a_row_have_parameters_of_their_own() -> None:
    assert verdict(TWICE, call("%r1", "%r2") + call("%r2", "%r2") + STORE) is Verdict.PROVED


def test_a_call_under_a_predicate_is_one_by_those_lanes() -> None:
    """The lanes below 32 double their number; the others keep theirs: word 32 to 62 are stored to twice."""
    some = "setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, %r1; @!%p1 bra OVER;" + call("%r1", "%r2") + "OVER:"
    assert verdict(TWICE, some + STORE) is Verdict.REFUTED
    guarded = "setp.lt.u32 %p1, %r1, 64;" + call("%r1", "%r2", "@%p1")
    assert verdict(TWICE, guarded + STORE) is Verdict.PROVED


def test_calls_inside_calls() -> None:
    four = f""".func (.param .b32 back) four(.param .b32 given)
{{ .reg .b32 %r<9>;
  ld.param.u32 %r1, [given];
  {call("%r1", "%r2")}
  {call("%r2", "%r3")}
  st.param.b32 [back], %r3;
  ret;
}}
"""
    assert verdict(TWICE + four, call("%r1", "%r2", name="four") + STORE) is Verdict.PROVED


def test_registers_pass_values_too() -> None:
    next_ = ".func (.reg .b32 %out) next(.reg .b32 %in)\n{ add.u32 %out, %in, 1; ret; }\n"
    assert verdict(next_, "call (%r2), next, (%r1);" + STORE) is Verdict.PROVED
    same = ".func (.reg .b32 %out) same(.reg .b32 %in)\n{ shr.u32 %out, %in, 1; ret; }\n"
    assert verdict(same, "call (%r2), same, (%r1);" + STORE) is Verdict.REFUTED


def test_a_barrier_inside_a_function() -> None:
    meet = ".func meet() { bar.sync 0; ret; }\n"
    place = "shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r9;"
    around = place + "st.shared.u32 [%r3], %r1; {} ld.shared.u32 %r5, [%r9+128];"
    assert verdict(meet, around.format("call meet;")) is Verdict.PROVED
    assert verdict(meet, around.format("")) is Verdict.REFUTED


HANDED = """.func (.param .b32 back) handed(.param .b32 given)
{{ .reg .b32 %r<9>; .shared .align 4 .b8 cell[4];
  ld.param.u32 %r1, [given];
  st.shared.u32 [cell], %r1;
  {0}
  ld.shared.u32 %r2, [cell];
  st.param.b32 [back], %r2;
  ret;
}}
"""


def test_a_variable_in_shared_memory_is_one_for_all_calls() -> None:
    """Two calls by one lane store to one cell; by two warps they race, at whatever place each calls."""
    one = "setp.eq.u32 %p1, %r1, 0; @!%p1 bra OVER;" + call("%r1", "%r2", name="handed") * 2 + "OVER:"
    assert verdict(HANDED.format(""), one) is Verdict.PROVED
    two = (
        "setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; @!%p1 bra A;"
        + call("%r1", "%r2", name="handed")
        + "A: @!%p2 bra B;"
        + call("%r1", "%r2", name="handed")
        + "B:"
    )
    assert verdict(HANDED.format(""), two) is Verdict.REFUTED
    met = "setp.eq.u32 %p1, %r1, 0; @!%p1 bra A;" + call("%r1", "%r2", name="handed") + "A: bar.sync 0;"
    met += "setp.eq.u32 %p2, %r1, 32; @!%p2 bra B;" + call("%r1", "%r2", name="handed") + "B:"
    assert verdict(HANDED.format(""), met) is Verdict.PROVED


def test_two_variables_of_one_name_are_not_taken_for_one() -> None:
    other = HANDED.format("").replace("handed", "other")
    functions = HANDED.format("") + other
    calls = call("%r1", "%r2", name="handed") + call("%r1", "%r2", name="other")
    assert verdict(functions, "setp.eq.u32 %p1, %r1, 0; @!%p1 bra O;" + calls + "O:") is Verdict.UNKNOWN


RECURSIVE = f""".func (.param .b32 back) again(.param .b32 given)
{{ .reg .b32 %r<9>;
  ld.param.u32 %r1, [given];
  {call("%r1", "%r2", name="again")}
  st.param.b32 [back], %r2;
  ret;
}}
"""
PARTS = """.func (.param .b32 back) parts(.param .b32 given)
{ .reg .b16 %h<3>; .reg .b32 %r<3>;
  ld.param.u16 %h1, [given+2];
  cvt.u32.u16 %r1, %h1;
  st.param.b32 [back], %r1;
  ret;
}
"""


@pytest.mark.parametrize(("text", "name"), [(RECURSIVE, "again"), (PARTS, "parts")])
def test_what_does_not_fit_is_not_proved(text: str, name: str) -> None:
    """Recursion stays unknown. A part of a parameter is data here, and an execution shows the harm."""
    found = verdict(text, call("%r1", "%r2", name=name) + STORE)
    assert found is (Verdict.UNKNOWN if name == "again" else Verdict.REFUTED)


BYTE = """.func (.param .b8 back) low(.param .b8 given)
{ .reg .b16 %h<3>; .reg .b32 %r<3>;
  ld.param.s8 %r1, [given]; and.b32 %r2, %r1, 255; cvt.u16.u32 %h1, %r2; st.param.b8 [back], %h1; ret; }
"""


def test_a_byte_passes_without_its_sign() -> None:
    """Lane t passes t - 128, whose low byte is t + 128 modulo 256: words of their own. t / 2 makes none."""
    body = """{ .param .b8 a; .param .b8 b; .reg .b16 %h<4>; sub.u32 %r4, GIVEN, 128; cvt.u16.u32 %h1, %r4;
      st.param.b8 [a], %h1; call (b), low, (a); ld.param.u8 %h2, [b]; cvt.u32.u16 %r2, %h2; }"""
    assert verdict(BYTE, body.replace("GIVEN", "%r1") + STORE) is Verdict.PROVED
    halved = "shr.u32 %r5, %r1, 1;" + body.replace("GIVEN", "%r5")
    assert verdict(BYTE, halved + STORE) is Verdict.REFUTED


PAIR = """.func (.param .align 8 .b8 back[8]) both(.param .b32 given)
{ .reg .b32 %r<3>; .reg .f32 %f<2>; ld.param.b32 %r1, [given]; mov.f32 %f1, 0f00000000; mov.b32 %r2, %f1;
  st.param.v2.b32 [back], {%r2, %r1}; ret; }
"""


def test_a_vector_passes_part_by_part() -> None:
    body = """{{ .param .b32 a; .param .align 8 .b8 b[8]; st.param.b32 [a], {0}; call (b), both, (a);
      ld.param.v2.b32 {{%r6, %r2}}, [b]; }}"""
    assert verdict(PAIR, body.format("%r1") + STORE) is Verdict.PROVED
    assert verdict(PAIR, "shr.u32 %r5, %r1, 1;" + body.format("%r5") + STORE) is Verdict.REFUTED


LAST_BYTE = """.func (.param .b32 back) last(.param .align 4 .b8 given[8])
{ .reg .b32 %r<4>; ld.param.u8 %r1, [given+7]; ld.param.u32 %r2, [given]; add.u32 %r3, %r1, %r2;
  st.param.b32 [back], %r3; ret; }
"""


def test_a_byte_of_a_word_that_is_passed() -> None:
    """Lane t passes a pair: t without its last bit, and t << 24. It gets the sum of the word and the byte."""
    body = """{ .param .align 4 .b8 a[8]; .param .b32 b; and.b32 %r5, %r1, 62; shl.b32 %r4, GIVEN, 24;
      st.param.b32 [a], %r5; st.param.b32 [a+4], %r4; call (b), last, (a); ld.param.b32 %r2, [b]; }"""
    assert verdict(LAST_BYTE, body.replace("GIVEN", "%r1") + STORE) is Verdict.PROVED
    assert verdict(LAST_BYTE, body.replace("GIVEN", "%r5") + STORE) is Verdict.REFUTED


def test_a_byte_over_a_word_that_is_passed() -> None:
    """The word is t or, without the byte, 256 t: a byte over it is what the function sees."""
    body = """{ .param .b32 a; .param .b32 b; .reg .b16 %h<4>; shl.b32 %r4, %r1, 8; cvt.u16.u32 %h1, GIVEN;
      st.param.b32 [a], %r4; st.param.b8 [a+1], %h1; call (b), twice, (a); ld.param.b32 %r2, [b];
      shr.u32 %r2, %r2, 8; }"""
    assert verdict(TWICE, body.replace("GIVEN", "%r1") + STORE) is Verdict.PROVED
    assert verdict(TWICE, body.replace("GIVEN", "0") + STORE) is Verdict.REFUTED


def test_a_call_by_the_address_of_one_function() -> None:
    body = """{{ .param .b32 a; .param .b32 b; .reg .b64 %f; mov.u64 %f, twice; {1} st.param.b32 [a], {0};
      p: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %f, (a), p; ld.param.b32 %r2, [b]; }}"""
    assert verdict(TWICE, body.format("%r1", "") + STORE) is Verdict.PROVED
    assert verdict(TWICE, "shr.u32 %r5, %r1, 1;" + body.format("%r5", "") + STORE) is Verdict.REFUTED
    assert verdict(TWICE, body.format("%r1", "@%p1 mov.u64 %f, twice;") + STORE) is Verdict.UNKNOWN
