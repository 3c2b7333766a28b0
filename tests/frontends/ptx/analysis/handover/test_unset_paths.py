"""Paths to an access on which its address has no value, beside executions for all values of predicates."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from syncverify.frontends.ptx.analysis.handover.unset_paths import unset_paths
from syncverify.frontends.ptx.analysis.registers.thread_values import ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<9>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd0, [p];
mov.u32 %r0, %tid.x;
ld.global.u32 %r1, [%rd0];
and.b32 %r2, %r1, 1;
setp.eq.u32 %p0, %r2, 0;
and.b32 %r3, %r1, 2;
setp.eq.u32 %p1, %r3, 0;
setp.lt.u32 %p2, %r0, 32;
and.pred %p3, %p0, %p2;
not.pred %p4, %p1;
{lines}
ret;
}}
"""
#: Statements: writes, copies and uses of addresses, each perhaps guarded, and branches around some.
Statement = tuple[str, ...]
ADDRESSES = ("%rd1", "%rd2", "%rd3")


def found_in(lines: str) -> bool:
    flow = Flow(parse(TEXT.format(lines=lines)).entries[0])
    return any(True for _ in unset_paths(flow, ThreadValues(flow, (64, 1, 1))))


#: The condition code, which sums leave a carry in, and what makes addresses of it.
CC = "CC.CF"
OF_CARRIES = ("sum", "take", "chain")


def statements(draw: random.Random, depth: int = 0, more: tuple[str, ...] = ()) -> list[Statement]:
    found: list[Statement] = []
    for _ in range(draw.randint(1, 4)):
        guard = draw.choice(("", "", "@%p{n} ", "@!%p{n} ")).format(n=draw.randrange(5))
        a, b = draw.choice(ADDRESSES), draw.choice(ADDRESSES)
        some = ("write", "write", "copy", "use", "if") if depth < 2 else ("write", "copy", "use")
        match draw.choice((*some, *more)):
            case "if":
                found.append(("if", f"{draw.choice(('@', '@!'))}%p{draw.randrange(5)}", "open"))
                found += statements(draw, depth + 1, more)
                found.append(("end",))
            case what:
                found.append((what, guard, a, b))
    return found


def written(program: list[Statement]) -> str:
    lines, open_, n = [], list[str](), 0
    for what, *more in program:
        if what == "if":
            n += 1
            open_.append(f"L{n}")
            lines.append(f"{more[0]} bra L{n};")
        elif what == "end":
            lines.append(f"{open_.pop()}:")
        else:
            guard, a, b = more
            text = {
                "write": f"mov.u64 {a}, %rd0;",
                "copy": f"add.u64 {a}, {b}, 8;",
                "use": f"ld.global.u32 %r4, [{a}];",
                "sum": "add.cc.u64 %rd4, %rd0, 1;",
                "take": f"addc.u64 {a}, %rd0, 0;",
                "chain": f"subc.cc.u64 {a}, {b}, 0;",
            }
            lines.append(guard + text[what])
    return "\n".join(lines)


def harms(program: list[Statement], values: dict[str, bool]) -> bool:
    """Whether an execution accesses memory at an address without a value."""
    has, skipped = dict.fromkeys((*ADDRESSES, CC), False), 0

    def holds(guard: str) -> bool:
        name = guard.strip().lstrip("@").lstrip("!")
        return not guard or values[name] != guard.startswith("@!")

    for what, *more in program:
        if what in ("if", "end"):
            skipped += (1 if what == "if" else -1) if skipped else int(what == "if" and holds(more[0]))
        elif not skipped and holds(more[0]):
            _, a, b = more
            if what == "use" and not has[a]:
                return True
            match what:
                case "write":
                    has[a] = True
                case "copy":
                    has[a] = has[b]
                case "sum":
                    has[CC] = True
                case "take":
                    has[a] = has[CC]
                case "chain":
                    has[a] = has[CC] = has[b] and has[CC]
    return False


def every() -> Iterator[dict[str, bool]]:
    for a, b, c in product((False, True), repeat=3):
        yield {"%p0": a, "%p1": b, "%p2": c, "%p3": a and c, "%p4": not b}


@pytest.mark.parametrize("first", range(0, 1200, 300))
def test_all_paths_that_predicates_allow_are_found_and_no_others(first: int) -> None:
    wrong = []
    for seed in range(first, first + 300):
        program = statements(random.Random(seed))
        if found_in(written(program)) != any(harms(program, values) for values in every()):
            wrong.append((seed, written(program)))
    assert wrong == []


@pytest.mark.parametrize(
    ("first", "last"), [(0, 200), pytest.param(200, 2000, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_so_they_are_where_addresses_are_made_of_carries(first: int, last: int) -> None:
    wrong = []
    for seed in range(first, last):
        program = statements(random.Random(seed), more=OF_CARRIES)
        if found_in(written(program)) != any(harms(program, values) for values in every()):
            wrong.append((seed, written(program)))
    assert wrong == []


CASES = [
    ("@%p0 add.cc.u64 %rd1, %rd0, 8; addc.u64 %rd2, %rd0, 0; ld.global.u32 %r4, [%rd2];", True),
    ("L: addc.u64 %rd2, %rd0, 0; ld.global.u32 %r4, [%rd2]; add.cc.u64 %rd1, %rd0, 8; @%p0 bra L;", True),
    ("sub.cc.u64 %rd1, %rd1, %rd1; addc.u64 %rd2, %rd0, 0; ld.global.u32 %r4, [%rd2];", False),
    ("add.cc.u64 %rd1, %rd1, %rd0; addc.u64 %rd2, %rd0, 0; ld.global.u32 %r4, [%rd2];", True),
    ("add.cc.u64 %rd1, %rd0, 8; subc.u64 %rd2, %rd2, %rd2; ld.global.u32 %r4, [%rd2];", True),
    ("mad.lo.cc.u64 %rd1, %rd0, 8, 0; madc.hi.u64 %rd2, %rd0, 8, 0; ld.global.u32 %r4, [%rd2];", False),
    ("L: ld.global.u32 %r4, [%rd1]; mov.u64 %rd1, %rd0; @%p0 bra L;", True),
    ("mov.u64 %rd1, %rd0; L: ld.global.u32 %r4, [%rd1]; add.u64 %rd1, %rd1, 8; @%p0 bra L;", False),
    ("setp.gt.u32 %p5, %r0, 63; @%p5 mov.u64 %rd1, %rd0; @%p5 ld.global.u32 %r4, [%rd1];", False),
    ("setp.gt.u32 %p5, %r0, 63; @!%p5 mov.u64 %rd1, %rd0; ld.global.u32 %r4, [%rd1];", False),
    ("setp.gt.u32 %p5, %r0, 62; @!%p5 mov.u64 %rd1, %rd0; ld.global.u32 %r4, [%rd1];", True),
    ("@%p0 mov.u64 %rd1, %rd0; selp.b64 %rd2, %rd1, %rd0, %p0; ld.global.u32 %r4, [%rd2];", False),
    ("@%p0 mov.u64 %rd1, %rd0; selp.b64 %rd2, %rd0, %rd1, %p0; ld.global.u32 %r4, [%rd2];", True),
    ("mov.u32 %r5, 0; L: setp.ne.u32 %p5, %r5, 0; @%p5 ld.global.u32 %r4, [%rd1]; mov.u64 %rd1, %rd0; "
     "add.u32 %r5, %r5, 1; setp.lt.u32 %p6, %r5, %r1; @%p6 bra L;", False),
    ("mov.u32 %r5, 0; L: setp.ne.u32 %p5, %r5, 1; @%p5 ld.global.u32 %r4, [%rd1]; mov.u64 %rd1, %rd0; "
     "add.u32 %r5, %r5, 1; setp.lt.u32 %p6, %r5, %r1; @%p6 bra L;", True),
    ("xor.b64 %rd1, %rd1, %rd1; add.u64 %rd1, %rd1, %rd0; ld.global.u32 %r4, [%rd1];", False),
    ("@%p0 mov.u64 %rd1, %rd0; and.b32 %r2, %r1, 4; setp.eq.u32 %p0, %r2, 0; "
     "@%p0 ld.global.u32 %r4, [%rd1];", True),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_loops_numbers_of_threads_and_selections(lines: str, expected: bool) -> None:
    assert found_in(lines) is expected
