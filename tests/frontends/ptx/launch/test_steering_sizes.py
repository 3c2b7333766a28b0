"""Open sizes that only decide whether shared memory is accessed are data in a proof for every size."""

from __future__ import annotations

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.launch.facts import ptx_facts
from syncverify.frontends.ptx.launch.steering_sizes import steering_sizes
from syncverify.frontends.ptx.launch.symbolic_launch import open_sizes
from syncverify.frontends.ptx.syntax.parser import parse

#: ``steps`` rounds of a stencil by 64 threads; thread ``i`` writes the result where ``i < n``.
STENCIL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .u32 steps)
{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 4 .b8 s[512];
  ld.param.u64 %d1, [p];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r2, [steps];
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %ctaid.x;
  shl.b32 %r5, %r4, 6;
  add.u32 %r5, %r5, %r3;
  shl.b32 %r6, %r3, 2;
  mov.u32 %r7, s;
  add.u32 %r7, %r7, %r6;
  xor.b32 %r8, %r7, 128;
  st.shared.u32 [%r7], %r3;
  bar.sync 0;
  mov.u32 %r9, 0;
  {before}
LOOP:
  setp.ge.s32 %p1, %r9, %r2;
  @%p1 bra DONE;
  ld.shared.u32 %r10, [%r8];
  bar.sync 0;
  st.shared.u32 [%r7], %r10;
  {barrier}
  add.u32 %r9, %r9, 1;
  bra LOOP;
DONE:
  setp.ge.u32 %p2, %r5, %r1;
  @%p2 bra END;
  ld.shared.u32 %r11, [%r8];
  mul.wide.u32 %d2, %r5, 4;
  add.s64 %d2, %d1, %d2;
  st.global.u32 [%d2], %r11;
END:
  ret;
}}
"""
BARRIER = "bar.sync 0;"
#: A round more where the block's threads lie below ``n``.
MORE = "setp.lt.u32 %p3, %r5, %r1; @!%p3 bra LOOP; add.u32 %r2, %r2, 1;"
FACTS = {"kernel": {"k": {"block": [64, 1, 1]}}}


def terms(text: str) -> frozenset[str]:
    module = parse(text, "k.ptx")
    facts = ptx_facts(LaunchFacts(FACTS, "facts"), module.entries[0], module)
    program = Program(module, module.entries[0]).for_sizes
    return steering_sizes(facts, program, open_sizes(facts, program))


def verdict(text: str) -> Verdict:
    (report,) = syncverify.check(text, facts=FACTS, advice=False)
    return report.verdict


def test_a_bound_of_results_is_no_term() -> None:
    found = terms(STENCIL.format(before="", barrier=BARRIER))
    assert len(found) == 1
    assert verdict(STENCIL.format(before="", barrier=BARRIER)) is Verdict.PROVED


def test_what_decides_about_trip_counts_is_one() -> None:
    assert len(terms(STENCIL.format(before=MORE, barrier=BARRIER))) > 1


def test_rounds_that_race_stay_refuted() -> None:
    assert verdict(STENCIL.format(before="", barrier="")) is Verdict.REFUTED
