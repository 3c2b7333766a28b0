"""Bounds of what a loop moves on, beside the numbers that it has in each turn."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges
from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{{
.reg .pred %p<9>;
.reg .b32 %r<9>;
.shared .align 4 .b8 s[65536];
ld.param.u32 %r1, [n];
and.b32 %r2, %r1, 7;
mov.u32 %r3, {start};
mov.u32 %r4, s;
add.u32 %r4, %r4, {ahead};
{lines}
ret;
}}
"""
PLACE = 1 << 20
USE = "st.shared.u32 [{at}], %r1;"
#: The loop, with the test behind its turns or before, on the new number or the old one.
FORMS = {
    "behind": "L: {use} add.u32 %r4, %r4, {width}; add.u32 %r3, %r3, {step}; "
    "setp.{test}.{type} %p1, %r3, {end}; @%p1 bra L;",
    "old number": "L: {use} setp.{test}.{type} %p1, %r3, {end}; add.u32 %r3, %r3, {step}; "
    "add.u32 %r4, %r4, {width}; @%p1 bra L;",
    "before": "L: setp.{test}.{type} %p1, %r3, {end}; @!%p1 bra E; {use} add.u32 %r3, %r3, {step}; "
    "sub.u32 %r4, %r4, {back}; bra L; E:",
}
TESTS = {"lt": int.__lt__, "le": int.__le__, "ne": int.__ne__, "gt": int.__gt__, "ge": int.__ge__}
UP, DOWN = ("lt", "le", "ne"), ("gt", "ge", "ne")


@dataclass
class Loop:
    form: str
    start: int
    step: int
    test: str
    end: int
    width: int  # that the place moves by
    type: str = "u32"
    bound: str = ""  # a register that is the end at most

    def ranges(self) -> tuple[Interval | None, Interval | None]:
        """The place that moves with the counter, and the one that the counter makes."""
        found = []
        for at, more in (("%r4", ""), ("%r5", "shl.b32 %r5, %r3, 2; mov.u32 %r6, s; add.u32 %r5, %r5, %r6;")):
            fields = {**vars(self), "end": self.bound or self.end, "back": -self.width}
            lines = FORMS[self.form].format(use=more + USE.format(at=at), **fields)
            ahead = 4096
            text = TEXT.format(start=self.start, ahead=ahead, lines=lines)
            flow = Flow(parse(text).entries[0])
            (k,) = (k for k, i in enumerate(flow.body) if i.op == "st")
            found.append(AddressRanges(flow, {"s": PLACE}, (32, 1, 1)).reached(k).places)
        return found[0], found[1]

    def seen(self) -> list[tuple[int, int]]:
        """The places in each turn."""
        holds, found = TESTS[self.test], []
        counter, place = self.start, PLACE + 4096
        for _ in range(200):
            if self.form == "before" and not holds(counter, self.end):
                break
            found.append((place, PLACE + 4 * counter))
            old, counter, place = counter, counter + self.step, place + self.width
            if self.form != "before" and not holds(counter if self.form == "behind" else old, self.end):
                break
        return found


def covers(found: Interval | None, places: list[int]) -> bool:
    if found is None:
        return True
    return all(found.low <= p <= found.high and not (p - found.low) % (found.step or 1) for p in places)


@pytest.mark.parametrize("form", FORMS)
def test_no_turn_is_forgotten(form: str) -> None:
    draw, known = random.Random(form), 0
    for _ in range(150):
        step = draw.choice((1, 1, 2, 3, -1, -1, -2))
        near, far = draw.randrange(4), draw.randrange(4, 30)
        loop = Loop(
            form, near if step > 0 else far, step, draw.choice(UP if step > 0 else DOWN),
            far if step > 0 else near, draw.choice((4, 8, -4)), draw.choice(("u32", "s32")),
        )  # fmt: skip
        seen = loop.seen()
        if len(seen) >= 200 or any(at < PLACE for _, at in seen):
            continue  # it passes its end by, or 0, which wraps
        for found, places in zip(loop.ranges(), zip(*seen, strict=True), strict=False):
            known += found is not None
            assert covers(found, list(places)), loop
    assert known > 60


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("test", ["gt", "ge", "ne"])
def test_loops_that_count_down_are_bounded_too(form: str, test: str) -> None:
    loop = Loop(form, 8, -1, test, 0 if test != "ge" else 1, 4, "s32")
    if form == "before" and test == "ne":
        return  # its body is not behind an order
    for found, places in zip(loop.ranges(), zip(*loop.seen(), strict=True), strict=True):
        assert found is not None
        assert (found.low, found.high) == (min(places), max(places))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("test", ["lt", "le"])
def test_usual_loops_are_bounded_by_their_last_turn(form: str, test: str) -> None:
    loop = Loop(form, 0, 1, test, 8, 4)
    for found, places in zip(loop.ranges(), zip(*loop.seen(), strict=True), strict=True):
        assert found is not None
        assert (found.low, found.high) == (min(places), max(places))


def test_the_end_may_be_bounded_data() -> None:
    moved, made = Loop("behind", 0, 1, "le", 7, 4, bound="%r2").ranges()
    assert moved is not None and (moved.low, moved.high) == (PLACE + 4096, PLACE + 4096 + 28)
    assert made is not None and (made.low, made.high) == (PLACE, PLACE + 28)


@pytest.mark.parametrize("end", ["%r1"])
def test_an_end_that_nothing_bounds_bounds_nothing(end: str) -> None:
    assert Loop("behind", 0, 1, "lt", 0, 4, bound=end).ranges() == (None, None)


#: Loops that data ends: the counter is compared in each turn, or only around the access.
ENDED_BY_DATA = (
    "L: setp.lt.u32 %p1, %r3, 64; @!%p1 bra {other}; {use} N: add.u32 %r3, %r3, 0x1000000; "
    "add.u32 %r4, %r4, 4; ld.param.u32 %r5, [n]; setp.ne.u32 %p2, %r5, 0; @%p2 bra L; E:"
)


@pytest.mark.parametrize(("other", "bounded"), [("E", True), ("N", False)])
def test_a_counter_that_may_wrap_bounds_nothing(other: str, bounded: bool) -> None:
    lines = ENDED_BY_DATA.format(other=other, use=USE.format(at="%r4"))
    function = parse(TEXT.format(start=0, ahead=0, lines=lines)).entries[0]
    k = next(n for n, i in enumerate(function.body) if i.op == "st")
    found = AddressRanges(Flow(function), {"s": PLACE}, (1, 1, 1)).reached(k).places
    assert found == (Interval(PLACE, PLACE, 0) if bounded else None)
