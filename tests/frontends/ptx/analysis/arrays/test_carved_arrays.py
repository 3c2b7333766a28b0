"""Sums that addresses are, arrays carved of one variable, and least places: beside the second reader."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

from syncverify.frontends.ptx.analysis.arrays.carved_arrays import carved_arrays
from syncverify.frontends.ptx.analysis.arrays.carved_sums import (
    Extent,
    Held,
    Made,
    Parameter,
    Sum,
    Sums,
    number_of,
)
from syncverify.frontends.ptx.analysis.arrays.lowest_places import LowestPlaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Mem, Reg
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.syntax.printer import instruction_text
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

SHAPE = (32, 1, 1)
PARAMS = ".param .u64 out, .param .u32 n, .param .s32 m"
HEAD = "ld.param.u32 %r2, [n]; ld.param.s32 %r3, [m]; mov.u32 %r4, %ntid.x; xor.b32 %r5, %r1, 21;\n"
STORE = "\nmad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r9;"
#: Instructions from A, B and the number C into D; N is a number below 9.
STEPS = """add.s32 D, A, B;
add.u32 D, A, C;
sub.u32 D, A, B;
sub.s32 D, A, C;
mul.lo.u32 D, A, C;
mul.lo.s32 D, A, B;
mad.lo.u32 D, A, C, B;
shl.b32 D, A, N;
neg.s32 D, A;
not.b32 D, A;
or.b32 D, A, 3;
xor.b32 D, A, -1;
shl.b32 D, A, 2; xor.b32 D, D, -4;
xor.b32 D, A, -4;
and.b32 D, A, -16;
shr.u32 D, A, N;
shr.s32 D, A, N;
mov.b32 D, A;
cvt.u64.u32 %rd7, A; cvt.s64.s32 %rd8, B; add.s64 %rd7, %rd7, %rd8; cvt.u32.u64 D, %rd7;
mul.wide.s32 %rd7, A, C; shl.b64 %rd7, %rd7, N; cvt.u32.u64 D, %rd7;""".splitlines()


def chain(draw: random.Random, steps: list[str], some: list[str]) -> str:
    lines = []
    for at in range(draw.randint(2, 6)):
        put = {"D": f"%r{20 + at}", "A": draw.choice(some[-3:]), "B": draw.choice(some)}
        put |= {"C": str(draw.choice([1, 3, 4, 16, 255])), "N": str(draw.randint(0, 8))}
        line = draw.choice(steps)
        for name, register in put.items():
            line = re.sub(rf"\b{name}\b", register, line)
        lines.append(line)
        some.append(put["D"])
    return "\n".join([*lines, f"mov.u32 %r9, {some[-1]};"])


def numbers(**sizes: int) -> Callable[[Parameter | Extent], int]:
    def of(x: Parameter | Extent) -> int:
        return 32 if isinstance(x, Extent) else sizes[x.name]

    return of


def test_sums_are_what_the_second_reader_computes() -> None:
    draw, made = random.Random(3), 0
    for _ in range(180):
        body = HEAD + chain(draw, STEPS, ["%r2", "%r3", "%r4", "%r1", "%r5"])
        n, m = draw.choice([0, 1, 33, 4097, 2**31 - 1]), draw.choice([-5, 0, 7, 70000])
        out = buffer(np.zeros(32, np.uint32))
        launch = Launch(SHAPE, params=(out, n, m))
        text = kernel(body + STORE, PARAMS)
        theirs = run(text, "k", launch, seed=1).memory(out)
        flow = Flow(parse(text).entries[0])
        k = next(k for k, i in enumerate(flow.body) if i.op == "st")
        found = Sums(flow, frozenset()).of(flow.body[k].operands[1], k)
        assert found is not None
        made += any(isinstance(a, Made) for a, _ in found.parts)
        held = {a: flow.versions.name[a.version] if not a.special else "" for a, _ in found.rest}
        if not set(held.values()) <= {"", "%r5"}:
            continue  # of what others than the thread's own number went into
        for t in range(32):
            mine = sum(c * (t ^ 21 if held[a] else t) for a, c in found.rest)
            shared = number_of(
                Sum(found.number, tuple(p for p in found.parts if not isinstance(p[0], Held))),
                numbers(n=n, m=m),
            )
            assert (shared + mine) % 2**32 == int(theirs[t]), body
    assert made > 5


CARVED = [
    "mad.lo.u32 %r7, %r2, 4, %r6; mad.lo.u32 %r9, %r1, 4, %r7;",
    "add.u32 %r7, %r2, %r1; shl.b32 %r8, %r7, 2; add.u32 %r9, %r8, %r6;",
    "add.u32 %r7, %r2, 31; and.b32 %r7, %r7, -32; mad.lo.u32 %r8, %r7, 4, %r6; mad.lo.u32 %r9, %r5, 4, %r8;",
    "mad.lo.u32 %r7, %r2, 4, %r6; sub.u32 %r8, %r2, %r1; mad.lo.u32 %r9, %r8, 4, %r7;",
    "mul.lo.u32 %r7, %r2, %r4; mad.lo.u32 %r8, %r7, 4, %r6; mad.lo.u32 %r9, %r1, 4, %r8;",
    "mov.u32 %r7, %r10; mov.u32 %r11, 0;\nL: mad.lo.u32 %r9, %r2, 4, %r7; st.shared.u32 [%r9], %r11; "
    "add.u32 %r7, %r7, 128; add.u32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, 3; @%p1 bra L;",
    "shl.b32 %r7, %r2, 2; mov.u32 %r11, 0;\nL: add.u32 %r9, %r10, %r7; st.shared.u32 [%r9], %r11; "
    "add.u32 %r7, %r7, 128; add.u32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, 3; @%p1 bra L;",
    # of a size that is no sum, counted down from it
    "or.b32 %r7, %r2, 63; mad.lo.u32 %r8, %r7, 4, %r6; mad.lo.u32 %r11, %r1, 4, %r8; "
    "st.shared.u32 [%r11], %r5; not.b32 %r12, %r1; add.u32 %r12, %r12, %r7; mad.lo.u32 %r9, %r12, 4, %r6;",
    # below an array, by way of its first word
    "or.b32 %r11, %r2, 63; mad.lo.u32 %r7, %r11, 4, %r6; mad.lo.u32 %r14, %r1, 4, %r7; "
    "st.shared.u32 [%r14], %r5; xor.b32 %r8, %r1, -1; mad.lo.u32 %r9, %r8, 4, %r7;",
    # a register is written again before its value is used
    "xor.b32 %r11, %r1, 5; mov.u32 %r13, %r11; mov.u32 %r11, 7; mad.lo.u32 %r8, %r2, 4, %r6; "
    "mad.lo.u32 %r9, %r13, 4, %r8;",
    "shl.b32 %r7, %r2, 2; mov.u32 %r11, %r1; mov.u32 %r12, 0;\nL: shl.b32 %r13, %r11, 2; "
    "add.u32 %r11, %r11, 32; add.u32 %r9, %r6, %r7; add.u32 %r9, %r9, %r13; st.shared.u32 [%r9], %r12; "
    "add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 2; @%p1 bra L;",
]


@pytest.mark.parametrize("body", CARVED)
@pytest.mark.parametrize("n", [1, 33, 40])
def test_arrays_at_numbers_lie_where_the_kernel_has_them(body: str, n: int) -> None:
    before = ".extern .shared .align 16 .b8 s[];\n"
    first = "mov.u32 %r6, s; mad.lo.u32 %r10, %r1, 4, %r6; mad.wide.u32 %rd2, %r1, 4, %rd1;\n"
    looks = (
        f"ld.shared.u32 %r12, [%r10+{at}]; st.global.u32 [%rd2+{at}], %r12;" for at in range(0, 512, 128)
    )
    behind = "\nst.shared.u32 [%r9], %r1; bar.sync 0;\n" + "\n".join(looks)
    text = kernel(HEAD + first + body + behind, PARAMS, before=before)
    module = parse(text)
    found = next(carved_arrays(module, module.entries[0]), None)
    assert found is not None and len(found.begins) == 2
    made = found.within(module, 1 << 14, numbers(n=n))
    assert made is not None
    out, again = (buffer(np.zeros(128, np.uint32)) for _ in range(2))
    launch = Launch(SHAPE, shared=1 << 14, params=(out, n, 0))
    theirs = run(text, "k", launch, seed=1).memory(out)
    ours = run(printed(made, found.names), "k", Launch(SHAPE, params=(again, *launch.params[1:])), seed=1)
    assert ours.memory(again).tolist() == theirs.tolist()


def printed(made: Function, names: tuple[str, ...]) -> str:
    """The text of a function."""
    lines = [f"    .shared .align {v.align} .b8 {v.name}[{v.size}];" for v in made.variables]
    labels = {at: f"{name}: " for name, at in made.labels.items()}
    lines += [f"{labels.get(k, '')}{instruction_text(i)};" for k, i in enumerate(made.body)]
    text = (
        "\n".join(lines)
        .replace("@carved", "r_")
        .replace("@version", "r_v")
        .replace("@less.%", "r_of.")
        .replace("ret;", "")
    )
    for name, plain in zip(sorted(names, key=len, reverse=True), ("second", "first"), strict=True):
        text = text.replace(name, plain)
    new = sorted(set(re.findall(r"%r_[\d.a-z]*", text)))
    declared = f".reg .b32 {', '.join(name.replace('.', '_') for name in new)};\n" if new else ""
    for name in sorted(new, key=len, reverse=True):
        text = text.replace(name, name.replace(".", "_"))
    body = text.replace("mov.u32 %r1, %tid.x;", "").replace("ld.param.u64 %rd1, [out];", "")
    return kernel(declared + body, PARAMS)


UNFIT = [
    "mad.lo.u32 %r7, %r2, 4, %r6; setp.lt.u32 %p1, %r10, %r7; selp.b32 %r9, %r10, %r7, %p1;",
    "mad.lo.u32 %r9, %r2, 4, %r6; setp.lt.u32 %p1, %r10, %r9;",
    "min.u32 %r7, %r2, %r1; mad.lo.u32 %r8, %r2, 4, %r6; mad.lo.u32 %r9, %r7, 4, %r8;",
    "min.u32 %r7, %r2, 600; mad.lo.u32 %r9, %r7, 4, %r6;",
    "and.b32 %r7, %r2, 1023; mad.lo.u32 %r9, %r7, 4, %r6;",
    "mad.lo.u32 %r9, %r2, 4, %r6; st.shared.u32 [%r10], %r9;",
    "mov.u32 %r9, %r6; setp.lt.u32 %p1, %r1, 4; @%p1 mad.lo.u32 %r9, %r2, 4, %r6;",
    "mad.lo.u32 %r7, %r2, 4, %r6; mov.u32 %r9, %r7; L: mad.lo.u32 %r9, %r2, 4, %r9; setp.lt.u32 %p1, %r1, 4; "
    "@%p1 bra L;",
]


@pytest.mark.parametrize("body", UNFIT)
def test_nothing_is_carved_where_code_does_more_with_addresses(body: str) -> None:
    first = "mov.u32 %r6, s; mad.lo.u32 %r10, %r1, 4, %r6; st.shared.u32 [%r10], %r1;\n"
    text = kernel(
        HEAD + first + body + "\nst.shared.u32 [%r9], %r1;",
        PARAMS,
        before=".extern .shared .align 16 .b8 s[];\n",
    )
    module = parse(text)
    assert not list(carved_arrays(module, module.entries[0]))


@pytest.mark.parametrize(("branches", "carved"), [(3, 1), (60, 0)])
def test_paths_are_followed_as_far_as_they_are_few(branches: int, carved: int) -> None:
    moves = "".join(
        f"setp.lt.u32 %p1, %r1, {n}; @%p1 bra L{n}; add.u32 %r9, %r9, 4;\nL{n}:\n" for n in range(branches)
    )
    first = "mov.u32 %r6, s; mad.lo.u32 %r10, %r1, 4, %r6; st.shared.u32 [%r10], %r1;\n"
    body = first + "mad.lo.u32 %r9, %r2, 4, %r6;\n" + moves + "st.shared.u32 [%r9], %r1;"
    module = parse(kernel(HEAD + body, PARAMS, before=".extern .shared .align 16 .b8 s[];\n"))
    assert len(list(carved_arrays(module, module.entries[0]))) == carved


#: What a loop adds to A, by C; and what the address is made of it.
TURNS = [
    "add.u32 A, A, C;",
    "add.u32 A, A, C; add.u32 A, A, 1;",
    "mov.u32 A, %r1;",
    "sub.u32 A, A, C;",
    "shl.b32 A, A, 1;",
    "mul.lo.u32 A, A, 0x1E3779B1;",
]
PLACES = [
    "mad.lo.u32 %r9, A, 4, %r6;",
    "and.b32 %r8, A, 12; add.u32 %r9, %r6, %r8;",
    "sub.u32 %r8, A, C; shl.b32 %r8, %r8, 2; add.u32 %r9, %r8, %r6;",
    "shr.u32 %r8, A, 1; add.u32 %r9, %r6, %r8;",
    "shr.s32 %r8, A, 28; mad.lo.u32 %r9, %r8, 4, %r6;",
]


def test_no_place_lies_below_the_least() -> None:
    draw, known = random.Random(5), 0
    for _ in range(150):
        turn, place, first = draw.choice(TURNS), draw.choice(PLACES), draw.choice(["%r1", "40", "-3"])
        c = str(draw.choice([1, 4, 7]))
        loop = f"mov.u32 %r7, {first}; mov.u32 %r11, 0; mov.u32 %r6, 1000;\nL: {turn}\n{place}\n"
        loop = loop.replace("A", "%r7").replace("C", c)
        turns = draw.randint(1, 5)
        ends = f"add.u32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, {turns}; @%p1 bra L;"
        probe = "setp.gt.u32 %p19, %r1, 999; @%p19 ld.shared.u8 %r99, [%r9];"
        text = kernel(".shared .align 8 .b8 s[64];" + loop + ends + probe + STORE)
        flow = Flow(parse(text).entries[0])
        k = next(k for k, i in enumerate(flow.body) if i.guard is not None and i.op == "ld")
        low = LowestPlaces(flow, {"s": 1024}).of_address(Mem(Reg("%r9")), k)
        if low is None:
            continue
        known += 1
        out = buffer(np.zeros(32, np.uint32))
        theirs = run(text, "k", Launch(SHAPE, params=(out,)), seed=1).memory(out)
        assert int(theirs.min()) >= low, (text, low)
    assert known > 40


@pytest.mark.parametrize(
    ("number", "least"),
    [
        ("shr.u32 %r7, %r1, 1;", 1024),
        ("and.b32 %r7, %r1, 31;", 1024),
        ("ld.global.u32 %r7, [%rd1]; shr.u32 %r7, %r7, 1;", None),  # 4 times 0x3fffffff is -4
        ("ld.global.u16 %r7, [%rd1]; shl.b32 %r7, %r7, 14;", None),
        ("ld.global.u32 %r7, [%rd1]; and.b32 %r7, %r7, 65535; shl.b32 %r7, %r7, 14;", None),
        ("mov.u32 %r7, %ctaid.x;", None),
    ],
)
def test_data_and_numbers_of_blocks_bound_no_place(number: str, least: int | None) -> None:
    place = f"mov.u32 %r6, s; {number} mad.lo.u32 %r9, %r7, 4, %r6; ld.shared.u8 %r99, [%r9];"
    flow = Flow(parse(kernel(".shared .align 8 .b8 s[64];" + place + STORE)).entries[0])
    k = next(k for k, i in enumerate(flow.body) if i.op == "ld" and "shared" in i.mods)
    assert LowestPlaces(flow, {"s": 1024}).of(k) == least
