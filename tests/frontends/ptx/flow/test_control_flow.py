"""Control flow: joins, loops, what decides what, slices."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.slicing.slice import Slice, slice_of
from syncverify.frontends.ptx.decode.effects import Effect
from syncverify.frontends.ptx.decode.memory import decode_access
from syncverify.frontends.ptx.decode.table import decode
from syncverify.frontends.ptx.flow.control_flow import Flow, live_before
from syncverify.frontends.ptx.syntax.nodes import Instr, Reg
from syncverify.frontends.ptx.syntax.operands import results, sources
from tests.frontends.ptx.execute_helpers import function

DIAMOND = """
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra ELSE;
    mov.u32 %r2, 1;
    bra JOIN;
    ELSE: mov.u32 %r2, 2;
    JOIN: bar.sync %r2;
    ret;"""

LOOP = """
    mov.u32 %r1, 0;
    HEAD: add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra HEAD;
    ret;"""


def test_sides_of_a_branch_join() -> None:
    flow = Flow(function(DIAMOND))
    assert [b.succ for b in flow.blocks] == [[2, 1], [3], [3], [4]]
    assert flow.join(0) == 3
    assert flow.between(0) == {1, 2}
    assert flow.controllers() == [set(), {0}, {0}, set()]


def test_loops_are_found() -> None:
    flow = Flow(function(LOOP))
    assert flow.loops == [frozenset({1})]
    assert flow.controllers()[1] == {1}


def test_a_loop_without_end_has_a_join_too() -> None:
    flow = Flow(function("L: bar.sync 0; bra L;"))
    assert flow.join(0) == flow.end


def test_an_early_exit_under_a_guard_goes_on_otherwise() -> None:
    flow = Flow(function("@%p1 exit; bar.sync 0; ret;"))
    assert flow.blocks[0].succ == [flow.end, 1]


def test_what_reaches_a_barrier_is_in_the_slice() -> None:
    f = function("add.u32 %r3, %r1, 1; add.f32 %f1, %f2, %f3; mul.lo.u32 %r4, %r3, 2;" + DIAMOND)
    flow = Flow(f)
    effects = {k: e for k, i in enumerate(f.body) if (e := decode(i, f)) is not None}
    found = slice_of(flow, effects)
    assert found.registers == {"%r1", "%r2", "%p1"}
    assert [f.body[k].op for k in sorted(found.branches)] == ["bra"]
    assert sorted(f.body[k].op for k in found.pure) == ["mov", "mov", "setp"]


def _slice(text: str) -> tuple[list[Instr], Slice]:
    f = function(text)
    effects = {k: e for k, i in enumerate(f.body) if (e := decode(i, f)) is not None}
    for k, i in enumerate(f.body):
        access = decode_access(i)
        if access is not None:
            effects[k] = Effect(lambda ctx, site, v: (), (access.address,))
    return list(f.body), slice_of(Flow(f), effects)


COUNTED = """
    mov.u32 %r2, 1;
    bar.sync %r2;
    HEAD: add.u32 %r2, %r2, 2;
    mul.lo.u32 %r3, %r2, 8;
    add.u32 %r1, %r1, 1;
    {also}
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra HEAD;
    {after}
    ret;"""


@pytest.mark.parametrize(
    ("also", "after", "counts"),
    [
        ("bar.sync 0;", "", False),  # what %r2 counts is not asked for any more
        ("bar.sync %r2;", "", True),
        ("bar.sync 0;", "bar.sync %r2;", True),
        ("bar.sync 0; @%p2 mov.u32 %r2, 3;", "bar.sync %r2;", True),  # it may be what it was
        ("bar.sync 0; mov.u32 %r2, 3;", "bar.sync %r2;", False),
        ("bar.sync 0; st.shared.u32 [%r2], 0; mov.u32 %r2, 3;", "bar.sync %r2;", True),
    ],
)
def test_values_that_come_to_nothing_are_left_out(also: str, after: str, counts: bool) -> None:
    body, found = _slice(COUNTED.format(also=also, after=after))
    assert any(body[k].op == "add" and body[k].operands[0] == Reg("%r2") for k in found.pure) is counts
    assert "mul" not in {body[k].op for k in found.pure}


def test_what_reads_a_register_by_the_way_gets_its_value() -> None:
    body, found = _slice("""
    mov.u32 %r2, 1;
    bar.sync %r2;
    add.u32 %r2, %r5, 4;
    st.shared.u32 [%r3], %r2;
    ret;""")
    assert [body[k].op for k in sorted(found.pure)] == ["mov", "add"]


TOLD = """
    st.shared.v4.b32 [%r9], {{%r1, %r2, %r3, %r4}};
    {load}
    setp.eq.u32 %p1, %r8, 0;
    @%p1 bra END;
    bar.sync 0;
    END: ret;"""


@pytest.mark.parametrize(
    ("load", "kept"),
    [
        ("ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r9];", {"%r4"}),
        ("ld.shared.v4.b32 {%r8, %r6, %r7, %r5}, [%r9];", {"%r1"}),
        ("ld.shared.v2.b32 {%r5, %r8}, [%r9];", {"%r2", "%r4"}),
        ("ld.shared.v4.b8 {%r5, %r6, %r7, %r8}, [%r9];", {"%r1", "%r2", "%r3", "%r4"}),
        ("ld.shared.b32 %r8, [%r9+8];", {"%r1", "%r2", "%r3", "%r4"}),  # what is aligned is not known
        ("ld.b32 %r8, [%rd1];", {"%r1", "%r2", "%r3", "%r4"}),
        ("atom.shared.inc.u32 %r8, [%r9], 7;", {"%r1", "%r2", "%r3", "%r4"}),
    ],
)
def test_of_vectors_in_memory_what_steers_is_kept(load: str, kept: set[str]) -> None:
    _, found = _slice(TOLD.format(load=load))
    steering = found.steering or found
    assert steering.registers & {"%r1", "%r2", "%r3", "%r4"} == kept
    assert found.registers >= {"%r1", "%r2", "%r3", "%r4"}


def test_registers_live_at_a_block() -> None:
    f = function(LOOP)
    flow = Flow(f)
    live = live_before(flow, lambda k: sources(f.body[k]), lambda k: results(f.body[k]), frozenset({"%r1"}))
    assert live[:2] == [frozenset(), frozenset({"%r1"})]


def test_destinations_and_sources() -> None:
    (shfl, store, wgmma, *_) = function(
        "@%p2 shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;"
        "st.shared.v2.b32 [%r3], {%r4, %r5};"
        "mbarrier.arrive.shared::cta.b64 %rd1, [%r6]; ret;"
    ).body
    assert (results(shfl), sources(shfl)) == (("%r1", "%p1"), ("%p2", "%r2"))
    assert (results(store), sources(store)) == ((), ("%r3", "%r4", "%r5"))
    assert (results(wgmma), sources(wgmma)) == (("%rd1",), ("%r6",))


#: What is made of the answer of a poll, and whether "not yet" leads back to it.
ANSWERS = [
    ("selp.b32 %r2, 255, 0, %p1; cvt.u32.u8 %r3, %r2; setp.ne.u32 %p2, %r3, 0;", True),
    ("selp.b32 %r2, 0, 256, %p1; cvt.u32.u8 %r3, %r2; setp.eq.u32 %p2, %r3, 0;", False),
    ("selp.b32 %r2, 0, 255, %p1; cvt.s32.s8 %r3, %r2; setp.ne.s32 %p2, %r3, 255;", False),
    ("selp.b32 %r2, 0, 255, %p1; cvt.s32.s8 %r3, %r2; setp.ne.s32 %p2, %r3, -1;", True),
    ("selp.b32 %r2, 0, 256, %p1; cvt.sat.u8.u32 %r3, %r2; setp.eq.u32 %p2, %r3, 0;", False),  # not followed
    ("selp.b32 %r2, 0, -1, %p1; setp.ne.u32 %p2, %r2, 0xffffffff;", True),
    ("selp.b32 %r2, 0, -1, %p1; setp.eq.u32 %p2, %r2, 0xffffffff;", False),
    ("selp.b32 %r2, 0, 65536, %p1; cvt.u32.u16 %r3, %r2; setp.eq.u32 %p2, %r3, 0;", False),
    ("or.pred %p2, %p1, %p1;", True),
    ("and.pred %p2, %p2, %p1;", False),  # one "not yet" is kept for ever
    ("selp.b32 %r2, 1, 0, %p1; and.b32 %r3, %r3, %r2; setp.ne.u32 %p2, %r3, 0;", False),
    ("xor.pred %p3, %p3, %p1; and.pred %p2, %p3, %p1;", False),
]


@pytest.mark.parametrize(("answer", "waits"), ANSWERS)
def test_a_poll_waits_where_not_yet_leads_back_to_it(answer: str, waits: bool) -> None:
    f = function(f"W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; {answer} @!%p2 bra W; ret;")
    assert bool(Flow(f).spins) is waits
