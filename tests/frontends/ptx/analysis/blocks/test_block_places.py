"""Places that blocks share: orders of tiles share none; and the answer beside that of numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from random import Random

import numpy as np
import pytest

import syncverify
from syncverify.frontends.ptx.analysis.blocks import block_places
from syncverify.frontends.ptx.analysis.blocks.block_places import BlockPlaces, Shared
from syncverify.frontends.ptx.analysis.registers.thread_values import Numbers
from syncverify.frontends.ptx.decode.memory import decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.parser import parse

#: %r0: the block, %r1: the thread; %r4: the place in words, %r5: the value.
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n, .param .u32 m, .param .u32 pitch)
{
.reg .pred %p<9>; .reg .b32 %r<60>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
ld.param.u32 %r10, [n]; ld.param.u32 %r11, [m]; ld.param.u32 %r12, [pitch];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r5, %r0;
ONE
PLACE
mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3;
AHEAD
st.global.u32 [%rd4], %r5;
END: ret;
}
"""
LOADED = "mul.wide.u32 %rd5, {0}, 4; add.s64 %rd6, %rd2, %rd5; ld.global.u32 %r5, [%rd6];"
#: rows and columns of tiles, in groups of eight rows: n and m are the product's sizes
GROUPS = """add.u32 %r20, %r10, 127; shr.u32 %r20, %r20, 7; add.u32 %r21, %r11, 127; shr.u32 %r21, %r21, 7;
shl.b32 %r22, %r21, 3; div.s32 %r23, %r0, %r22; shl.b32 %r24, %r23, 3; sub.s32 %r25, %r20, %r24;
min.s32 %r26, %r25, 8; rem.s32 %r27, %r0, %r22; rem.s32 %r28, %r27, %r26; add.s32 %r28, %r28, %r24;
div.s32 %r29, %r27, %r26;
"""


def said(place: str, ahead: str = "", *, one: bool = True, grid: int = 64, block: int = 64) -> bool:
    """Whether the report names a place that blocks share. ``one``: one thread of each block stores."""
    text = TEXT.replace("PLACE", place).replace("AHEAD", ahead)
    text = text.replace("ONE", "setp.ne.u32 %p1, %r1, 0; @%p1 bra END;" if one else "")
    facts = {"kernel": {"k": {"block": [block], "grid": [grid]}}}
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    return any("which stays does not matter" in x for x in report.assumptions)


@pytest.mark.parametrize(
    "place, ahead",
    [
        ("and.b32 %r4, %r0, 1;", ""),
        ("shr.u32 %r4, %r0, 1;", ""),
        ("rem.u32 %r4, %r0, 5;", ""),
        ("and.b32 %r20, %r0, 1; xor.b32 %r4, %r0, %r20;", ""),  # a bit is taken away
        ("shl.b32 %r4, %r0, 31;", ""),
        ("min.u32 %r4, %r0, 62;", ""),
        ("mul.hi.u32 %r4, %r0, 0xAAAAAAAB; shr.u32 %r4, %r4, 1;", ""),  # a third of the number
        (f"{GROUPS} mov.u32 %r4, %r28;", ""),  # the row alone
        ("shr.u32 %r4, %r0, 1;", "setp.gt.u32 %p2, %r0, 7; @%p2 bra END;"),
        ("shr.u32 %r4, %r0, 1;", LOADED.format("%r0")),
        ("shr.u32 %r4, %r0, 1;", "add.u32 %r5, %r10, %r0;"),
    ],
)
def test_places_that_blocks_share(place: str, ahead: str) -> None:
    assert said(place, ahead)


@pytest.mark.parametrize(
    "place, ahead",
    [
        ("mov.u32 %r4, %r0;", ""),
        ("div.u32 %r20, %r0, %r10; rem.u32 %r21, %r0, %r10; mad.lo.u32 %r4, %r20, %r12, %r21;", ""),
        (f"{GROUPS} mad.lo.u32 %r4, %r28, %r12, %r29;", ""),
        ("shr.u32 %r20, %r0, 1; xor.b32 %r4, %r0, %r20;", ""),
        ("xor.b32 %r4, %r0, 5;", ""),
        ("mov.u32 %r20, %nctaid.x; sub.u32 %r4, %r20, %r0;", ""),
        ("and.b32 %r4, %r0, 1;", "and.b32 %r5, %r0, 1;"),  # those that share it store one value
        ("shr.u32 %r4, %r0, 1;", LOADED.format("%r4")),
        ("shr.u32 %r4, %r0, 1;", "and.b32 %r20, %r0, 1; setp.eq.u32 %p2, %r20, 0; @%p2 bra END;"),
        ("shr.u32 %r4, %r0, 1;", "and.b32 %r20, %r0, 1; setp.eq.u32 %p2, %r20, 0; @!%p2 bra END;"),
        ("shr.u32 %r4, %r0, 1;", "setp.gt.u32 %p2, %r0, 0; @%p2 bra END;"),
        ("mul.hi.u32 %r20, %r0, 0xAAAAAAAB; shr.u32 %r20, %r20, 1; mul.lo.u32 %r21, %r20, 3; "
         "sub.u32 %r21, %r0, %r21; mad.lo.u32 %r4, %r20, 4, %r21;", ""),
    ],
)  # fmt: skip
def test_orders_of_tiles_share_none(place: str, ahead: str) -> None:
    assert not said(place, ahead)


@pytest.mark.parametrize("apart, shares", [(64, False), (32, True), (63, True)])
def test_slices_of_blocks_that_overlap(apart: int, shares: bool) -> None:
    assert said(f"mad.lo.u32 %r4, %r0, {apart}, %r1;", one=False) is shares


#: Operations, and what they are of two words of 32 bits.
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "min.u32": min,
    "max.u32": max,
    "div.u32": lambda a, b: a // b if b else -1,
    "rem.u32": lambda a, b: a % b if b else -1,
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
}


@pytest.mark.parametrize("seed", range(8))
def test_beside_numbers_alone(seed: int) -> None:
    """Places made of the block's number by some operations: do two blocks of 48 share one?"""
    draw = Random(seed)
    for _ in range(25):
        text, values = list[str](), [list(range(48))]
        for n in range(draw.randint(1, 5)):
            op = draw.choice(list(OPERATIONS))
            x, constant = draw.randrange(len(values)), draw.choice([1, 2, 3, 5, 7, 8, 31, 48, 64, 0x55555556])
            y = draw.randrange(len(values)) if draw.random() < 0.4 else None
            other = values[y] if y is not None else [constant] * 48
            results = [OPERATIONS[op](a, b) & 0xFFFFFFFF for a, b in zip(values[x], other, strict=True)]
            values.append(results)
            name = constant if y is None else f"%r{30 + y}"
            text.append(f"{op} %r{31 + n}, %r{30 + x}, {name};")
        place = f"mov.u32 %r30, %r0; {' '.join(text)} mov.u32 %r4, %r{29 + len(values)};"
        module = parse(TEXT.replace("PLACE", place).replace("AHEAD", "").replace("ONE", ""), "k.ptx")
        flow = Flow(module.functions[0])
        k = next(n for n, i in enumerate(flow.body) if i.op == "st")
        store = decode_place(flow.body[k])
        assert store is not None
        places = BlockPlaces(flow, (1, 1, 1), (48, 1, 1), None)
        found = places.shared(k, store, ["%r5"])
        assert found is (Shared.CERTAINLY if len(set(values[-1])) < 48 else Shared.NO), place


def _inserted(a: int, b: int, at: int, count: int) -> int:
    """``bfi.b32``, bit by bit."""
    for n in range(count & 255):
        if (at & 255) + n < 32:
            b = b & ~(1 << (at & 255) + n) | (a >> n & 1) << (at & 255) + n
    return b


def _bits_differ(seed: int) -> bool:
    """Whether something else is said of places that ``bfi`` makes of numbers of 24 blocks and 4 threads."""
    draw = Random(seed)
    inputs = [(b, t) for b in range(24) for t in range(4)]
    values = {"%r0": [b for b, _ in inputs], "%r1": [t for _, t in inputs]}
    text = list[str]()
    for n in range(draw.randint(1, 3)):
        names = [draw.choice([*values, str(draw.choice([0, 5, 32, 0xFFFFFFFF]))]) for _ in range(2)]
        at = draw.choice([0, 1, 2, 4, 5, 16, 30, 31, 32, 256, 258])
        count = draw.choice([0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 257])
        columns = [values.get(x) or [int(x)] * len(inputs) for x in names]
        values[f"%r{30 + n}"] = [_inserted(a, b, at, count) for a, b in zip(*columns, strict=True)]
        text.append(f"bfi.b32 %r{30 + n}, {names[0]}, {names[1]}, {at}, {count};")
    last = f"%r{29 + len(text)}"
    place = f"{' '.join(text)} mov.u32 %r4, {last};"
    flow = Flow(
        parse(TEXT.replace("PLACE", place).replace("AHEAD", "").replace("ONE", ""), "k.ptx").functions[0]
    )
    k = next(n for n, i in enumerate(flow.body) if i.op == "st")
    store = decode_place(flow.body[k])
    assert store is not None
    places = BlockPlaces(flow, (4, 1, 1), (24, 1, 1), None)
    found = places.shared(k, store, ["%r5"]) is not Shared.NO
    blocks: dict[int, set[int]] = {}
    for (b, _), at in zip(inputs, values[last], strict=True):
        blocks.setdefault(at, set()).add(b)
    return found is not any(len(x) > 1 for x in blocks.values())


@pytest.mark.parametrize(
    ("first", "last"), [(0, 80), pytest.param(80, 3_000, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_inserted_bits_beside_each_bit(first: int, last: int) -> None:
    assert [seed for seed in range(first, last) if _bits_differ(seed)] == []


def test_bits_that_go_on_behind_their_field_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(i: Instr, args: list[Numbers]) -> Numbers:
        return args[0] << np.minimum(args[2], np.uint64(31)) | args[1]

    monkeypatch.setitem(block_places._Values.operations, "bfi", whole)
    assert any(map(_bits_differ, range(80)))


#: The thread, the block; guards by both; places that a step and a size set apart.
STEPS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.reg .b64 %rd<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
setp.lt.u32 %p1, %r0, {most}; setp.ne.and.u32 %p2, %r1, {but}, %p1;
mad.lo.u32 %r2, %r1, {step}, %r0; mul.wide.u32 %rd1, %r2, {bytes};
@%p2 st.global.u32 [%rd1], %r0;
ret;
}}
"""


@pytest.mark.parametrize("step", [0, 7, 8, 9])
@pytest.mark.parametrize("most", [7, 8])
@pytest.mark.parametrize("but", [1, 9])
@pytest.mark.parametrize("size", [2, 4])
def test_blocks_meet_where_two_of_their_threads_do(step: int, most: int, but: int, size: int) -> None:
    flow = Flow(parse(STEPS.format(step=step, most=most, but=but, bytes=size), "k.ptx").entries[0])
    k = next(n for n, i in enumerate(flow.body) if i.op == "st")
    store = decode_place(flow.body[k])
    assert store is not None
    places = BlockPlaces(flow, (8, 1, 1), (2, 1, 1), None)
    found = places.shared(k, store, ["%r1"])
    bytes_ = [
        {size * (step * b + t) + n for t in range(most) for n in range(4)} if b != but else set[int]()
        for b in range(2)
    ]
    assert (found >= Shared.YES) is any(a & b for a, b in combinations(bytes_, 2))


def _handed_wrongly(seed: int) -> bool:
    """Whether places that are made of what other lanes hold have other numbers than those by hand."""
    draw = Random(seed)
    block = draw.choice([(64, 1, 1), (8, 4, 2), (16, 4, 1), (96, 1, 1)])
    size = block[0] * block[1] * block[2]
    inputs = [(b, t) for b in range(2) for t in range(size)]
    values = {"%r0": [b for b, _ in inputs], "%r1": [t % block[0] for _, t in inputs]}
    text = list[str]()
    for n in range(draw.randint(1, 5)):
        into, name, other = f"%r{30 + n}", *(draw.choice(list(values)) for _ in range(2))
        constant = draw.choice([0, 1, 3, 31])
        if n and draw.random() < 0.5:
            number = draw.choice([1, 3, 5])
            text.append(f"mad.lo.u32 {into}, {name}, {number}, {other};")
            values[into] = [
                a * number + b & 0xFFFFFFFF for a, b in zip(values[name], values[other], strict=True)
            ]
            continue
        lane, by = draw.choice([(str(constant), [constant] * len(inputs)), (other, values[other])])
        text.append(f"shfl.sync.idx.b32 {into}, {name}, {lane}, 31, -1;")
        values[into] = [
            values[name][b * size + t // 32 * 32 + x % 32] for (b, t), x in zip(inputs, by, strict=True)
        ]
    place = f"{' '.join(text)} mov.u32 %r4, %r{29 + len(text)};"
    module = parse(TEXT.replace("PLACE", place).replace("AHEAD", "").replace("ONE", ""), "k.ptx")
    flow = Flow(module.functions[0])
    k = next(n for n, i in enumerate(flow.body) if i.op == "st")
    store = decode_place(flow.body[k])
    assert store is not None
    rows = BlockPlaces(flow, block, (2, 1, 1), None).rows(k, store)
    wanted = [4 * x for x in values[f"%r{29 + len(text)}"]]
    for found in rows:
        if found is None:
            return True
        at = found.places[0].astype(np.int64)
        hand = np.array(
            [wanted[b * size + t] for b, t in zip(found.blocks.tolist(), found.threads.tolist(), strict=True)]
        )
        if len(np.unique(at - hand)) != 1:
            return True
    return False


@pytest.mark.parametrize(
    ("first", "last"), [(0, 80), pytest.param(80, 2_000, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_what_other_lanes_hold_is_what_they_compute(first: int, last: int) -> None:
    assert [seed for seed in range(first, last) if _handed_wrongly(seed)] == []


def test_what_a_lane_holds_itself_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_places, "of_lanes", lambda specials, lanes: specials)
    assert any(map(_handed_wrongly, range(80)))


@pytest.mark.parametrize(
    "hands",
    [
        "shfl.sync.idx.b32 %r4, %r1, 0, 31, 0xffff;",
        "shfl.sync.idx.b32 %r4, %r1, 0, 0x181f, -1;",
        "shfl.sync.up.b32 %r4, %r1, 1, 0, -1;",
        "shfl.sync.idx.b32 %r4|%p1, %r1, 0, 31, -1;",
        "setp.ne.u32 %p1, %r1, 9; mov.u32 %r4, 0; @%p1 shfl.sync.idx.b32 %r4, %r1, 0, 31, -1;",
        "shfl.sync.idx.b32 %r4, %r1, 17, 31, -1;",
        "mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; shfl.sync.idx.b32 %r4, %r6, 0, 31, -1;"
        " setp.lt.u32 %p1, %r6, 3; @%p1 bra L;",
    ],
)
def test_what_may_be_of_no_lane_has_no_number(hands: str) -> None:
    """Some lanes alone, parts of a warp, lanes beside, a guard, a lane that is not there, a loop."""
    module = parse(TEXT.replace("PLACE", hands).replace("AHEAD", "").replace("ONE", ""), "k.ptx")
    flow = Flow(module.functions[0])
    k = next(n for n, i in enumerate(flow.body) if i.op == "st")
    store = decode_place(flow.body[k])
    assert store is not None
    assert BlockPlaces(flow, (48, 1, 1), (2, 1, 1), None).rows(k, store) == [None, None]
