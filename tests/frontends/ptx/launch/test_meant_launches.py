"""Which grids a kernel is taken to be meant for, by what its text asks about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.launch.facts import PtxFacts, ptx_facts
from syncverify.frontends.ptx.launch.meant_launches import (
    along_meant_axes,
    asked_launches,
    asks_extents,
    asks_otherwise,
    meant_axes,
    of_meant_axes,
    unasked_counts,
)
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

#: What texts do with the numbers of blocks.
X = "mov.u32 %r1, %ctaid.x; shl.b32 %r2, %r1, 2;"
RANK = "mov.u32 %r4, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mad.lo.u32 %r3, %r1, %r2, %r4;"
FIRST = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; add.u32 %r4, %r1, %r2;
    add.u32 %r5, %r4, %r3; setp.ne.u32 %p1, %r5, 0;"""
ALL = "mov.u32 %r1, %nctaid.x; mov.u32 %r2, %nctaid.y; mul.lo.u32 %r3, %r1, %r2; sub.u32 %r4, %r3, 1;"
LAYERS = "mov.u32 %r1, %nctaid.z; setp.gt.u32 %p1, %r1, 1;"


def function_of(body: str) -> Function:
    return parse(module_text(body + " ret;", ".param .u64 k_out")).entries[0]


def facts_of(function: Function, table: Mapping[str, Any] | None = None) -> PtxFacts:
    return ptx_facts(LaunchFacts({"*": {"block": [32], **(table or {})}}), function)


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("", "x"),
        (X, "x"),
        (RANK, "xy"),
        (X + FIRST, "x"),  # whether it is the first of all is asked in any grid
        (X + ALL, "x"),
        (X + LAYERS, "xz"),
        (FIRST.replace("setp.ne.u32 %p1, %r5, 0;", "shl.b32 %r6, %r5, 2;"), "xyz"),
    ],
)
def test_axes_that_a_text_asks_about(body: str, axes: str) -> None:
    assert "".join(meant_axes(function_of(body))) == axes


def test_extents() -> None:
    assert [asks_extents(function_of(b)) for b in (X, FIRST, RANK, ALL)] == [False, False, False, True]


def grids(function: Function, table: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    facts = facts_of(function, table)
    return [f.grid for f in asked_launches(facts, function, facts.left_open())]


def test_grids_that_are_asked() -> None:
    one = grids(function_of(X))
    assert one[:2] == [(2, 1, 1), (5, 1, 1)] and all(g[1:] == (1, 1) for g in one)
    assert grids(function_of(RANK))[:4] == [(2, 1, 1), (2, 2, 1), (1, 2, 1), (5, 1, 1)]
    assert grids(function_of(RANK), {"grid": [3, 2]}) == [(3, 2, 1)]


def test_numbers_of_blocks_that_a_text_names_are_asked() -> None:
    counts = "ld.param.u64 %rd1, [k_out]; atom.global.add.u32 %r2, [%rd1], 1; setp.ne.u32 %p1, %r2, 11;"
    assert {(n, 1, 1) for n in (11, 12, 13)} <= set(grids(function_of(X + counts)))
    assert (11, 1, 1) not in grids(function_of(X + "setp.ne.u32 %p1, %r2, 11;"))
    named = grids(function_of(X + counts), {"grid": ["g"], "assume": ["g >= 1", "g <= 12"]})
    assert {(n, 1, 1) for n in (2, 5, 11, 12)} <= set(named) and (13, 1, 1) not in named


COUNT = "ld.param.u64 %rd1, [k_out]; atom.global.add.u32 %r1, [%rd1], 1; "
MADE = {
    "xor": "xor.b32 %r2, %r1, 62; setp.eq.u32 %p1, %r2, 0;",
    "lop3": "mov.u32 %r3, 62; lop3.b32 %r2, %r1, %r3, %r3, 0x66; setp.eq.u32 %p1, %r2, 0;",
    "shr": "shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 1;",
    "float": "cvt.rn.f32.u32 %f1, %r1; setp.eq.f32 %p1, %f1, 0f42780000;",
    "a constant in a register": "shr.u32 %r2, %r1, 5; mov.u32 %r3, 1; setp.lt.u32 %p1, %r2, %r3;",
    "through shared memory": "and.b32 %r2, %r1, 31; st.shared.u32 [%r9], %r2; ld.shared.u32 %r4, [%r9]; "
    "setp.eq.u32 %p1, %r4, 30;",
}
READ = {
    "plain": "setp.eq.u32 %p1, %r1, 3;",
    "less one": "sub.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;",
    "an answer": "setp.eq.u32 %p1, %r1, 3; selp.u32 %r2, 1, 0, %p1; st.shared.u32 [%r9], %r2; "
    "ld.shared.u32 %r4, [%r9]; setp.ne.u32 %p2, %r4, 0;",
    "all blocks": MADE["xor"] + ALL,
    "a size": "ld.param.u32 %r5, [k_out]; shr.u32 %r2, %r1, 5; setp.lt.u32 %p1, %r2, %r5;",
}


@pytest.mark.parametrize("body", [*MADE.values(), *READ.values()], ids=[*MADE, *READ])
def test_what_is_made_of_a_count_is_not_read(body: str) -> None:
    assert asks_otherwise(function_of(COUNT + body)) is (body in MADE.values())


def test_a_count_that_shared_memory_hands_on_is_compared() -> None:
    handed = "st.shared.u32 [%r9], %r1; ld.shared.u32 %r4, [%r9]; setp.eq.u32 %p1, %r4, 62;"
    assert unasked_counts(function_of(COUNT + handed)) == [62]


def test_clusters_stay_whole() -> None:
    found = grids(function_of(X), {"cluster": [1, 2, 1]})
    assert found[:2] == [(2, 2, 1), (5, 2, 1)]


def test_what_a_launch_file_says_of_an_axis_counts() -> None:
    function = function_of(X)
    facts = facts_of(function, {"assume": ["grid.y >= 2"]})
    assert along_meant_axes(facts, function).grid[1] != 1
    assert of_meant_axes(facts, function) == [
        "grid.z = 1: the kernel asks for no place of a block along there"
    ]
    assert of_meant_axes(facts_of(function, {"grid": [4, "rows"]}), function) == []
