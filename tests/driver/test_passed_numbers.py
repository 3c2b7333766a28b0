"""Numbers that reach a statement as arguments: which calls of the author may give another one."""

from __future__ import annotations

import pytest

from syncverify.driver.author_statements import Lines
from syncverify.driver.passed_numbers import passed

HEADER = """\
template <int Stages> struct Pipe {
  __device__ Pipe(Storage& s, uint32_t bytes, int readers = 1) : s(s), bytes_(bytes) {
    for (int i = 0; i < Stages; ++i) { s.full[i].init(1); s.empty[i].init(readers); }
  }
  __device__ void acquire(int slot) { s.full[slot].arrive_and_expect_tx(bytes_); }
};
__device__ void expect(Barrier& b, int amount) { b.arrive_and_expect_tx(amount); }
"""
ANNOUNCES, INITIALIZES = HEADER.split("\n")[4], HEADER.split("\n")[2]


@pytest.mark.parametrize(
    ("statement", "call", "changed"),
    [
        (ANNOUNCES, "Pipe<4> pipe(sm.bars, sizeof(sm.a), 128);", "Pipe<4> pipe(sm.bars, 512, 128);"),
        (ANNOUNCES, "auto p = Pipe<4>{sm.bars, f(a, b) * 2};", "auto p = Pipe<4>{sm.bars, 512};"),
        (ANNOUNCES, "params.bytes_ = sizeof(sm.a);", "params.bytes_ = 512;"),
        (INITIALIZES, "Pipe<4> pipe(sm.bars, 64, WARPS * 32);", "Pipe<4> pipe(sm.bars, 64, 512);"),
        ("b.arrive_and_expect_tx(amount);", "expect(full[s], 4 * WIDTH);", "expect(full[s], 512);"),
    ],
)
def test_the_call_that_gives_a_number_may_give_another(statement: str, call: str, changed: str) -> None:
    assert (1, changed) in list(passed(Lines([call], "cu", (HEADER,)), statement, "512"))


@pytest.mark.parametrize(
    "call",
    [
        "Pipe<4> pipe(sm.bars, 512);",  # it gives that number
        "Pipe<4> pipe(sm.bars,",  # it goes on elsewhere
        "Other<4> pipe(sm.bars, 64);",
        "__device__ Pipe<4> make(Storage& s, int n) { return {s, n}; }",
    ],
)
def test_no_other_statement_does(call: str) -> None:
    assert list(passed(Lines([call], "cu", (HEADER,)), ANNOUNCES, "512")) == []
    assert list(passed(Lines(["expect(full[s], 64);"], "ptx", (HEADER,)), ANNOUNCES, "512")) == []
