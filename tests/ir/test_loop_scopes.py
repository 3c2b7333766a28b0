"""Loops with the name of a register: the two are told apart, but where one may read what the other left."""

from __future__ import annotations

import pytest

from syncverify.ir.evaluate import statements
from syncverify.ir.loop_scopes import with_own_loops
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_stmt

KERNEL = "kernel k {{\n launch grid [1] block [32]\n mbarrier b[4]\n{body}\n}}"
IN_ONE = "if warp {\n let s = lane\n let t = s\n }\n"


def named(body: str) -> list[str]:
    (kernel,) = parse(KERNEL.format(body=body), "scopes.syncir")
    return [print_stmt(s) for s in statements(with_own_loops(kernel).body)]


@pytest.mark.parametrize("body", ["let s = lane", "for s in 0..4 {\n mbarrier.arrive b[s]\n }"])
def test_a_name_of_one_kind_stays(body: str) -> None:
    (kernel,) = parse(KERNEL.format(body=body), "scopes.syncir")
    assert with_own_loops(kernel) is kernel


def test_each_loop_has_a_name_of_its_own() -> None:
    loop = "for s in 0..4 {\n for i in 0..s {\n mbarrier.arrive b[s]\n }\n }\n"
    found = named(IN_ONE + loop + loop)
    assert "let s = lane" in found and "let t = s" in found
    for own in ("s'1", "s'2"):
        assert {f"for {own} in 0..4", f"for i in 0..{own}", f"mbarrier.arrive b[{own}]"} <= {*found}
    assert not any(x.startswith("s = ") for x in found)


def test_the_bounds_of_a_loop_are_those_of_the_names_around_it() -> None:
    found = named(
        "let n = 4\n if n {\n let s = n\n for i in 0..s {\n warp.sync\n }\n }\n for s in 0..n {\n }"
    )
    assert {"for i in 0..s", "for s'1 in 0..n"} <= {*found}


def test_what_is_read_behind_a_loop_may_be_its_last_value() -> None:
    loop = "for s in 0..4 {\n mbarrier.arrive b[s]\n }\n"
    assert "s = s'1" in named(IN_ONE + loop + "let t = s")
    assert "s = s'1" not in named(IN_ONE + loop + "if warp {\n let s = 1\n let t = s\n }")
