"""Accesses that data decides about: they stay in their array, and their address has a value.

The judge of random ones is the second reader: where it sees an access outside of an array on some data,
nothing is proved without a word on that access.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.simulate.ptx import Launch, buffer, first_harm

FACTS = {"kernel": {"k": {"block": [64], "grid": [1], "params": {"0": "ptr"}}}}
TEXT = """.version 8.6
.target sm_90a
.address_size 64
{outside}
.visible .entry k(.param .u64 p0)
{{
{inside}
.reg .pred %p<20>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
ld.param.u64 %rd0, [p0];
cvta.to.global.u64 %rd0, %rd0;
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd2, %rd0, %rd1;
ld.global.u32 %r1, [%rd2];
mov.u32 %r9, 0;
{lines}
E:
st.global.u32 [%rd2], %r9;
ret;
}}
"""
ARRAYS = {"local": ("", ".local .align 4 .b8 a[128];"), "const": (".const .align 4 .b8 a[128];", "")}


def report(space: str, lines: str) -> KernelReport:
    outside, inside = ARRAYS[space]
    text = TEXT.format(outside=outside, inside=inside, lines=lines)
    (found,) = syncverify.check(text, facts=FACTS, timeout=30, advice=False)
    return found


AT = " mov.u64 %rd3, a; add.u64 %rd4, %rd3, %rd4; ld.{space}.u32 %r9, [%rd4];"
LEFT_OPEN = {
    "a mask that is too wide": "and.b32 %r2, %r1, 63; mul.wide.u32 %rd4, %r2, 4;",
    "a field that is too wide": "bfe.u32 %r2, %r1, 3, 6; mul.wide.u32 %rd4, %r2, 4;",
    "bounded from above": "min.s32 %r2, %r1, 31; mul.wide.s32 %rd4, %r2, 4;",
    "bounded from below": "max.s32 %r2, %r1, 0; mul.wide.s32 %rd4, %r2, 4;",
    "a branch from above": "setp.gt.s32 %p0, %r1, 31; @%p0 bra E; mul.wide.s32 %rd4, %r1, 4;",
    "selected below a great number": "setp.lt.u32 %p0, %r1, 40; selp.b32 %r2, %r1, 0, %p0; "
    "mul.wide.u32 %rd4, %r2, 4;",
    "by thread on one path": "mov.u64 %rd4, 0; setp.lt.s32 %p0, %r1, 7; @%p0 mov.u64 %rd4, %rd1;",
    "upper bits with a sign": "shr.s32 %r2, %r1, 28; mul.wide.s32 %rd4, %r2, 4;",
    "a field with a sign": "bfe.s32 %r2, %r1, 4, 5; mul.wide.s32 %rd4, %r2, 4;",
    "a byte with a sign": "cvt.s32.s8 %r2, %r1; mul.wide.s32 %rd4, %r2, 4;",
    "not aligned": "and.b32 %r2, %r1, 15; mul.wide.u32 %rd4, %r2, 2;",
}
BOUNDED = {
    "a mask": "and.b32 %r2, %r1, 31; mul.wide.u32 %rd4, %r2, 4;",
    "bounded from both sides": "min.s32 %r2, %r1, 31; max.s32 %r2, %r2, 0; mul.wide.s32 %rd4, %r2, 4;",
    "upper bits with a sign, from 0 on": "shr.s32 %r2, %r1, 28; max.s32 %r2, %r2, 0; min.s32 %r2, %r2, 31; "
    "mul.wide.u32 %rd4, %r2, 4;",
    "branches from both sides": "setp.gt.s32 %p0, %r1, 31; @%p0 bra E; "
    "setp.lt.s32 %p1, %r1, 0; @%p1 bra E; mul.wide.s32 %rd4, %r1, 4;",
    "by thread, on paths of data": "setp.lt.s32 %p0, %r1, 7; @%p0 bra E; "
    "setp.gt.u32 %p1, %r0, 31; @%p1 bra E; mov.u64 %rd4, %rd1;",
}


@pytest.mark.parametrize("space", ["local", "const"])
@pytest.mark.parametrize("how", LEFT_OPEN)
def test_what_may_leave_an_array_is_not_proved(how: str, space: str) -> None:
    found = report(space, LEFT_OPEN[how] + AT.format(space=space))
    if found.verdict is Verdict.REFUTED:  # an execution takes what the kernel allows
        assert any(d.rule in ("SV114", "SV701") for d in found.diagnostics)
    else:
        assert found.verdict is Verdict.UNKNOWN
        assert "a is bounded on one side only" in str(found.reason) or "of a" in str(found.reason)


@pytest.mark.parametrize("space", ["local", "const"])
@pytest.mark.parametrize("how", BOUNDED)
def test_what_stays_inside_is_proved(how: str, space: str) -> None:
    found = report(space, BOUNDED[how] + AT.format(space=space))
    assert found.verdict is Verdict.PROVED
    assert not any("stays inside" in text for text in found.assumptions)


def test_what_nothing_bounds_is_an_assumption() -> None:
    found = report("local", "mul.wide.s32 %rd4, %r1, 4;" + AT.format(space="local"))
    assert found.verdict is Verdict.PROVED
    assert any(text.endswith("stays inside `a`") for text in found.assumptions)


STEPS = (
    "and.b32 {d}, {a}, {mask};",
    "and.b32 {d}, {a}, {mask};",
    "min.s32 {d}, {a}, {n};",
    "max.s32 {d}, {a}, 0;",
    "min.u32 {d}, {a}, {n};",
    "add.s32 {d}, {a}, {small};",
    "sub.s32 {d}, {a}, {small};",
    "shr.s32 {d}, {a}, 28;",
    "bfe.s32 {d}, {a}, 3, {bits};",
    "cvt.s32.s8 {d}, {a};",
    "bfe.u32 {d}, {a}, 3, {bits};",
    "rem.u32 {d}, {a}, {n};",
    "shr.u32 {d}, {a}, 27;",
    "xor.b32 {d}, {a}, {mask};",
    "shfl.sync.bfly.b32 {d}, {a}, {small}, 31, -1;",
    "setp.{test}.{type} {p}, {a}, {n}; @{p} bra E;",
    "setp.{test}.{type} {p}, {a}, {n}; selp.b32 {d}, {a}, {small}, {p};",
    "setp.{test}.{type} {p}, {b}, {n}; @{p} mov.b32 {d}, {a}; @!{p} mov.b32 {d}, {b};",
)


def lines_of(seed: int) -> str:
    """Random steps from the thread's number or its data to a place in the array."""
    draw = random.Random(seed)
    registers, lines = ["%r0", "%r1", "%r1"], []
    for n in range(draw.randint(1, 4)):
        step = draw.choice(STEPS)
        a, b, d = draw.choice(registers[-2:]), draw.choice(registers), f"%r{10 + n}"
        if draw.random() < 0.5 and "shfl" not in step:
            lines.append(
                f"setp.{draw.choice(('lt', 'ge', 'eq'))}.s32 %p{10 + n}, %r1, 20; @%p{10 + n} bra E;"
            )
        lines.append(
            step.format(
                a=a, b=b, d=d, p=f"%p{n}", mask=draw.choice((7, 15, 31, 63)), n=draw.choice((8, 31, 32, 33)),
                small=draw.choice((1, 2, 8)), bits=draw.choice((3, 5, 6)),
                test=draw.choice(("lt", "gt", "ge", "le", "ne")), type=draw.choice(("s32", "u32")),
            )
        )  # fmt: skip
        registers.append(d if f" {d}," in lines[-1] else a)
    wide = draw.choice(("u32", "s32"))
    return "\n".join([*lines, f"mul.wide.{wide} %rd4, {registers[-1]}, 4;"])


def contradiction(seed: int) -> str | None:
    """A kernel whose access is said to stay inside of its array, and leaves it on some data."""
    space = "local" if seed % 2 else "const"
    lines = lines_of(seed) + AT.format(space=space)
    if "shfl" in lines and "bra E" in lines:
        return None  # lanes that never come
    found = report(space, lines)
    if found.verdict is not Verdict.PROVED or any("stays inside" in text for text in found.assumptions):
        return None
    draw = np.random.default_rng(seed)
    outside, inside = ARRAYS[space]
    text = TEXT.format(outside=outside, inside=inside, lines=lines)
    for values in ((-40, 80), (-(2**31), 2**31), (0, 1 << 9)):
        data = buffer(draw.integers(*values, 64).astype(np.int32).view(np.uint32))
        harm = first_harm(text, "k", Launch(block=(64, 1, 1), grid=(1, 1, 1), params=(data,)), range(1))
        if harm is not None:
            return f"{seed}: {harm}\n{text}"
    return None


MADE_IN_A_LOOP = (
    "mov.u64 %rd3, a; mov.u32 %r5, 0; L: cvta.local.u64 %rd3, %rd3; add.u32 %r5, %r5, 1; "
    "setp.lt.u32 %p2, %r5, 1; @%p2 bra L; add.u64 %rd4, %rd3, {offset}; "
    "setp.lt.s32 %p0, %r1, 7; @%p0 bra E; ld.u32 %r9, [%rd4];"
)


@pytest.mark.parametrize(("offset", "of_data"), [("%rd1", False), ("%rd5", True)])
def test_what_nothing_bounds_is_data_only_if_it_was_loaded(offset: str, of_data: bool) -> None:
    """The base is made in a loop, so that no interval has it: 64 threads leave 32 words without any data."""
    loaded = "ld.global.u32 %r4, [%rd2+256]; mul.wide.s32 %rd5, %r4, 4; "
    lines = loaded + MADE_IN_A_LOOP.format(offset=offset)
    found = report("local", lines)
    assert (found.verdict is Verdict.PROVED) is of_data
    assert any("stays inside `a`" in text for text in found.assumptions) is of_data


def test_what_stays_inside_stays_inside_on_random_data() -> None:
    assert [c for c in map(contradiction, range(60)) if c is not None] == []


@pytest.mark.slow
def test_more_random_places() -> None:
    assert [c for c in map(contradiction, range(60, 700)) if c is not None] == []
