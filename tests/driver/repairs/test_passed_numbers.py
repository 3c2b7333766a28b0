"""Numbers that reach a statement as arguments: which calls of the author may give another one."""

from __future__ import annotations

import pytest

from syncverify.driver.repairs.author_statements import Lines
from syncverify.driver.repairs.passed_numbers import passed

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


OF_CONFIG = """\
struct Config { uint32_t producers, consumers; int depth = 2; };
template <int N> class Ring {
  __device__ void setup(const Config& c) { init(&full_[0], c.producers); init(&empty_[0], c.consumers); }
};
"""


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        ("ring.setup({1, WORKERS});", "ring.setup({1, 512});"),
        ("Config c{1, f(a, b)};", "Config c{1, 512};"),
        ("c.consumers = WORKERS;", "c.consumers = 512;"),
        ("ring.setup({1});", ""),
        ("other.prepare({1, WORKERS});", ""),
    ],
)
def test_a_member_is_given_by_the_list_that_sets_it(call: str, changed: str) -> None:
    found = list(passed(Lines([call], "cu", (OF_CONFIG,)), "init(&empty_[0], c.consumers);", "512"))
    assert found == ([(1, changed)] if changed else [])
