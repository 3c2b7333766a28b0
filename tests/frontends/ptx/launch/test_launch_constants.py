"""Branches that the launch facts decide are jumps in the code for every size; others stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.launch.launch_constants import specialise
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.values.register_values import Unknown
from tests.frontends.ptx.execute_helpers import module_text

BAR = ".shared .align 8 .b8 bar[64];"


def narrowed(
    body: str, values: Mapping[str, int] | None = None, cluster: int = 1
) -> tuple[Function, Program]:
    """The function as launch facts leave it, and the program that comes of it."""
    module = parse(module_text(body), "k.ptx")
    known = values or {}

    def parameter(name: str, offset: int, type_: str) -> Any:
        return known.get(name, Unknown(name, "param", ("param", name)))

    launch = Launch((64, 1, 1), (cluster, 1, 1), (1, 1, 1), None, None, parameter)
    function = specialise(Program(module, module.entries[0]), launch)
    return function, Program(module, function)


def guards(function: Function) -> list[str]:
    """The predicates that branches still have."""
    return [i.guard.name for i in function.body if i.op == "bra" and i.guard is not None]


TWO_SIDES = f"""{BAR}
    ld.param.u32 %r1, [k_n];
    setp.eq.u32 %p1, %r1, 3;
    @%p1 bra A;
    mbarrier.init.shared::cta.b64 [bar], 1;
    bra.uni END;
    A: mbarrier.init.shared::cta.b64 [bar+8], 1;
    END: ret;"""


@pytest.mark.parametrize("n", [3, 4])
def test_a_parameter_that_is_given_decides(n: int) -> None:
    function, program = narrowed(TWO_SIDES, {"k_n": n})
    assert guards(function) == []
    inits = [k for k, i in enumerate(function.body) if i.name.startswith("mbarrier.init")]
    alive = [program.flow.block_of[k] in program.flow.reached for k in inits]
    assert alive == [n == 4, n == 3]


def test_a_parameter_that_is_open_decides_nothing() -> None:
    assert guards(narrowed(TWO_SIDES)[0]) == ["%p1"]


def test_threads_that_differ_decide_nothing() -> None:
    text = TWO_SIDES.replace("ld.param.u32 %r1, [k_n]", "mov.u32 %r1, %tid.x")
    assert guards(narrowed(text, {"k_n": 3})[0]) == ["%p1"]
    assert guards(narrowed(text.replace("%tid.x", "%ntid.x"))[0]) == []
    assert guards(narrowed(text.replace("%tid.x", "%cluster_ctarank"), cluster=2)[0]) == ["%p1"]


def test_a_cluster_of_one_may_be_asked_for_or_not() -> None:
    text = TWO_SIDES.replace("ld.param.u32 %r1, [k_n];\n", "mov.pred %p1, %is_explicit_cluster;\n").replace(
        "setp.eq.u32 %p1, %r1, 3;\n", ""
    )
    assert guards(narrowed(text)[0]) == ["%p1"]
    assert guards(narrowed(text, cluster=2)[0]) == []


MERGED = f"""{BAR}
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    mov.u32 %r2, FIRST;
    @%p1 bra A;
    mov.u32 %r2, SECOND;
    A: setp.eq.u32 %p2, %r2, 7;
    @%p2 bra B;
    mbarrier.init.shared::cta.b64 [bar], 1;
    B: bar.sync 0;
    ret;"""


@pytest.mark.parametrize(("first", "second", "left"), [(7, 7, ["%p1"]), (7, 8, ["%p1", "%p2"])])
def test_what_two_paths_agree_on_is_a_constant(first: int, second: int, left: list[str]) -> None:
    text = MERGED.replace("FIRST", str(first)).replace("SECOND", str(second))
    assert guards(narrowed(text)[0]) == left


def test_code_that_no_edge_leads_to_says_nothing() -> None:
    text = (
        MERGED.replace("mov.u32 %r1, %tid.x", "mov.u32 %r1, 5").replace("FIRST", "7").replace("SECOND", "8")
    )
    assert guards(narrowed(text)[0]) == []


def test_a_guarded_instruction_may_leave_what_was() -> None:
    text = MERGED.replace("@%p1 bra A;\n    mov.u32 %r2, SECOND;", "@%p1 mov.u32 %r2, SECOND;")
    assert guards(narrowed(text.replace("FIRST", "7").replace("SECOND", "8"))[0]) == ["%p2"]
    assert guards(narrowed(text.replace("FIRST", "7").replace("SECOND", "7"))[0]) == []


def test_counters_are_no_constants() -> None:
    text = f"""{BAR}
    mov.u32 %r1, 0;
    W: bar.sync 0;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra W;
    ret;"""
    assert guards(narrowed(text)[0]) == ["%p1"]


@pytest.mark.parametrize(
    "load",
    [
        "mov.u64 %rd1, 4096; ld.global.b32 %r1, [%rd1];",
        "ld.shared.b32 %r1, [bar+8];",
        "mov.u32 %r2, 3; shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;",
        "mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0; selp.b32 %r1, 3, 3, %p3;",
        "",  # nothing writes the register
    ],
)
def test_memory_other_lanes_and_answers_are_not_known(load: str) -> None:
    text = TWO_SIDES.replace("ld.param.u32 %r1, [k_n];", load)
    left = guards(narrowed(text)[0])
    assert left == ([] if "selp" in load else ["%p1"])


def test_a_loop_is_one_without_the_dead_code_that_leads_into_it() -> None:
    text = f"""{BAR}
    ld.param.u32 %r5, [k_n];
    setp.eq.u32 %p5, %r5, 3;
    mov.u32 %r1, 0;
    @%p5 bra OUTER;
    mov.u32 %r1, 9;
    bra.uni INSIDE;
    OUTER: mov.u32 %r2, 0;
    INSIDE: bar.sync 0;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, 4;
    @%p2 bra INSIDE;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra OUTER;
    ret;"""
    _, program = narrowed(text, {"k_n": 3})
    outer = max(program.flow.loops, key=len)
    head = next(b for b in outer if all(program.flow.dominates(b, x) for x in outer))
    assert program.body[program.flow.blocks[head].lo].operands[0].name == "%r2"  # type: ignore[union-attr]
