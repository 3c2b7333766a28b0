"""Questions that have one answer for all agents: what is taken for that answer, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.frontends.ptx.values.arith import select
from syncverify.frontends.ptx.values.register_values import INTS, Unknown, choice
from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .u64 k_in, .param .u64 k_other"
FACTS = """
[kernel.k]
grid = [1]
block = [{grid}]
[kernel.k.params]
0 = {{ptr = "in"}}
"""
#: Data decides on a barrier, but only if a pointer is not null, or the other way about.
BODY = """
    ld.param.u64 %rd1, [k_in];
    ld.param.u64 %rd2, [k_other];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r2, [%rd4];
    setp.eq.s64 %p1, %rd2, 0;
    setp.eq.u32 %p2, %r2, 7;
    setp.eq.u32 %p3, %r2, 9;
    CHOOSE
    @%p3 bra OUT;
    bar.sync 1, 64;
    OUT: ret;
"""


@pytest.mark.parametrize("choose", ["@%p1 mov.pred %p3, %p2;", "@!%p1 mov.pred %p3, %p2;", ""])
def test_data_chosen_by_a_question_is_not_its_answer(check: Any, choose: str) -> None:
    found = check(module_text(BODY.replace("CHOOSE", choose), params=PARAMS), 64, FACTS)
    assert found["verdict"] == "unknown"


@pytest.mark.parametrize("choose", ["mov.pred %p3, %p1;", "not.pred %p3, %p1;"])
def test_the_answer_itself_is_tried_both_ways(check: Any, choose: str) -> None:
    found = check(module_text(BODY.replace("CHOOSE", choose), params=PARAMS), 64, FACTS)
    assert found["verdict"] == "proved", found


def test_what_a_question_selects() -> None:
    asked = choice("a question", "param", (("param", 0, 0, 64), "null", 0, 64, False))
    data = Unknown("data")
    assert select(asked, 1, 0) is asked
    assert select(asked, 0, 1) is asked ^ 1
    for a, b in ((5, 7), (data, 0), (0, data), (data, Unknown("other data")), (1, 2)):
        found = select(asked, a, b)
        assert isinstance(found, Unknown), (a, b)
        assert found.key is None, (a, b)
    assert select(asked, 3, 3) == 3
    for n in (2, 3):
        assert (asked ^ n).key is None
    assert (asked ^ 1).__class__ not in INTS


def test_a_guard_by_what_a_barrier_reduces_is_no_fault(check: Any) -> None:
    body = """
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 9;
    barrier.cta.red.or.pred %p2, 3, 64, !%p1;
    @%p2 bar.sync 1, 64;
    ret;
    """
    found = check(module_text(body, params=PARAMS), 64, FACTS)
    assert "fault" not in str(found["reason"]) and found["verdict"] in ("proved", "unknown"), found
