"""Loops of a warp whose first lane polls: the same registers of all lanes as where that lane waits by itself.

The loops are drawn, right ones and ones that are nearly so. An interpreter of a few instructions, which
shares the syntax with the rewriting and nothing else, executes both forms lane by lane. Each lane finds its
polls failing for a number of turns of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import pytest

from syncverify.frontends.ptx.flow import lane_waits
from syncverify.frontends.ptx.flow.lane_waits import with_lane_waits
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Label, Pair, Reg, Special
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

TEXT = """.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x; mov.u32 %r5, bar; mov.u32 %r7, 0; mov.u32 %r8, 0; {before}
{number}
LOOP: {outside} {head} setp.{other}.s32 %p1, %r2, {lane}; @{sign}%p1 bra MEET;
{ask} mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
selp.u32 %r3, {yes}, {no}, {says};
MEET: {meet} shfl.sync.idx.b32 %r4|%p5, {given}, {source}, {clamp}, {mask};
setp.{again}.s32 %p3, %r4, 0; @{back}%p3 bra LOOP;
{behind} ret;
"""
NUMBERS = {"and": "and.b32 %r2, %r1, 31;", "lane": "mov.u32 %r2, %laneid;", "thread": "mov.u32 %r2, %r1;",
           "warp": "shr.u32 %r2, %r1, 5;", "few": "and.b32 %r2, %r1, 15;"}  # fmt: skip
BLOCKS = ((64, 1, 1), (16, 4, 1))
LIMIT = 9  # turns


def loop(draw: Random) -> dict[str, str]:
    def odd(usual: str, *others: str) -> str:
        return usual if draw.random() < 0.92 else draw.choice(others)

    flip, back = draw.choice([("ne", ""), ("eq", "!")]), draw.choice([("eq", ""), ("ne", "!")])
    wrong = draw.random() < 0.05
    return {
        "number": NUMBERS[draw.choice(["and", "and", "lane", odd("and", "thread", "warp", "few")])],
        "before": draw.choice(["", "mov.u32 %r3, 0;", "mov.u32 %r3, 1;"]),
        "outside": odd("mov.u32 %r3, 0;", "", "mov.u32 %r3, 1;"),
        "head": odd("", "mov.u32 %r9, 5;", "add.u32 %r7, %r7, 1;", "mov.u32 %r9, %r8;"),
        "other": flip[0], "sign": flip[1], "lane": odd("0", "1", "32"),
        "ask": odd("", "mov.u32 %r8, 3;", "add.u32 %r8, %r7, 1;", "add.u32 %r7, %r7, 1;"),
        "yes": odd("1", "7", "0"), "no": odd("0", "1"), "says": odd("%p2", "!%p2", "%p1"),
        "meet": odd("", "mov.u32 %r3, 1;", "add.u32 %r9, %r8, 1;", "add.u32 %r9, %r9, 1;"),
        "given": odd("%r3", "%r2", "%r8"), "source": odd("0", "1"), "clamp": odd("31", "15", "7183"),
        "mask": odd("-1", "4294967295", "65535"),
        "again": back[0], "back": back[1] if not wrong else ("" if back[1] else "!"),
        "behind": draw.choice(["", "mov.u32 %r9, %r4;"]),
    }  # fmt: skip


def function(choices: Mapping[str, str]) -> Function:
    return parse(module_text(TEXT.format(**choices))).functions[0]


@dataclass
class Lane:
    number: int
    thread: int
    fails: int
    held: dict[str, int]
    at: int = 0

    def value(self, op: object) -> int:
        match op:
            case Imm(value):
                return value & 0xFFFFFFFF
            case Reg(name):
                return self.held.get(name, 0)
            case Special("%tid.x"):
                return self.thread
            case Special("%laneid"):
                return self.number
            case _:
                return 0

    def step(self, i: Instr) -> bool:
        """What a lane does by itself; False where it has to meet the others, or is at its end."""
        if i.op in ("shfl", "ret"):
            return False
        self.at += 1
        if i.guard is not None and bool(self.value(i.guard)) == i.negated:
            return True
        if i.op == "bra":
            (to,) = i.operands
            assert isinstance(to, Label)
            self.at = to.target
            return True
        into, *ops = i.operands
        if i.op == "mbarrier":
            self.fails -= 1
            new = int(self.fails < 0)
        else:
            some = [self.value(getattr(op, "reg", op)) ^ hasattr(op, "reg") for op in ops]
            made: dict[str, Callable[..., int]] = {
                "mov": lambda a: a,
                "and": lambda a, b: a & b,
                "add": lambda a, b: a + b,
                "shr": lambda a, b: a >> b,
                "selp": lambda a, b, p: a if p else b,
                "setp": lambda a, b: int((a == b) == (i.mods[0] == "eq")),
            }
            new = made[i.op](*some)
        assert isinstance(into, Reg)
        self.held[into.name] = new & 0xFFFFFFFF
        return True


def executed(f: Function, block: tuple[int, int, int], warp: int, fails: list[int]) -> object:
    """What all lanes hold behind the loop; ``None`` where it does not end."""
    threads = range(32 * warp, 32 * warp + 32)
    lanes = [Lane(n, t % block[0], fails[n], {}) for n, t in enumerate(threads)]
    for _ in range(LIMIT):
        for lane in lanes:
            while lane.step(f.body[lane.at]):
                pass
        if all(f.body[lane.at].op == "ret" for lane in lanes):
            return [lane.held for lane in lanes]
        i = f.body[lanes[0].at]
        if any(lane.at != lanes[0].at for lane in lanes):
            return "at two lines"
        into, given, source, clamp, mask = i.operands
        brought = [lane.value(given) for lane in lanes]
        named = lanes[0].value(mask)
        for n, lane in enumerate(lanes):
            segment, most = lane.value(clamp) >> 8 & 31, lane.value(clamp) & 31
            at = (lane.value(source) & 31 & ~segment) | (n & segment)
            inside = at <= ((n & segment) | (most & ~segment))
            assert isinstance(into, Pair) and isinstance(into.first, Reg) and isinstance(into.second, Reg)
            lane.held[into.first.name] = brought[at if inside else n] if named == 0xFFFFFFFF else n
            lane.held[into.second.name] = int(inside)
            lane.at += 1
    return None


def alike(seed: int) -> bool | None:
    """Whether both forms of a drawn loop end alike; ``None`` where it keeps its form."""
    draw = Random(seed)
    f, block = function(loop(draw)), draw.choice([*BLOCKS[:1], *BLOCKS])
    changed = with_lane_waits(f, block)
    if changed is f:
        return None
    for warp in (0, 1):
        fails = [draw.randrange(4) for _ in range(32)]
        if executed(f, block, warp, fails) != executed(changed, block, warp, fails):
            return False
    return True


@pytest.mark.parametrize(
    ("first", "last"), [(0, 150), pytest.param(150, 5000, marks=pytest.mark.slow)], ids=("some", "more")
)
def test_all_lanes_hold_the_same_behind_it(first: int, last: int) -> None:
    found = [alike(seed) for seed in range(first, last)]
    assert False not in found
    assert found.count(True) > (last - first) // 10


@pytest.mark.parametrize("condition", ["_first_alone", "_turns_alike", "_takes_first", "_until_yes"])
def test_each_condition_is_needed(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    monkeypatch.setattr(lane_waits._Loops, condition, lambda *_: True)
    assert any(alike(seed) is False for seed in range(150))


RIGHT = dict.fromkeys("before outside head ask meet behind sign back".split(), "") | {
    "outside": "mov.u32 %r3, 0;", "number": NUMBERS["and"], "other": "ne", "lane": "0", "yes": "1", "no": "0",
    "says": "%p2", "given": "%r3", "source": "0", "clamp": "31", "mask": "-1", "again": "eq",
}  # fmt: skip


def test_rows_of_lanes_are_known() -> None:
    f = function(RIGHT)
    assert with_lane_waits(f, (64, 1, 1)) is not f
    assert with_lane_waits(f, None) is f
    f = function({**RIGHT, "number": NUMBERS["lane"]})
    assert with_lane_waits(f, None) is not f


@pytest.mark.parametrize(
    ("before", "behind", "rewritten"),
    [
        ("shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;", "", True),
        ("", "shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;", True),
        ("@%p9 bra LOOP; shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;", "", False),
        ("@%p9 bra OVER;", "OVER: shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;", False),
        ("@%p9 bra OVER;", "OVER: bar.warp.sync -1;", True),
        ("mov.u32 %r12, 0; AGAIN: vote.sync.any.pred %p9, %p8, -1; @%p9 bra AGAIN;", "", False),
        ("AGAIN: mov.u32 %r11, 0;", "@%p9 bra AGAIN;", True),
        ("AGAIN: mov.u32 %r11, 0;", "redux.sync.add.s32 %r10, %r1, -1; @%p9 bra AGAIN;", False),
    ],
)
def test_nobody_is_at_another_exchange_meanwhile(before: str, behind: str, rewritten: bool) -> None:
    f = function({**RIGHT, "number": before + NUMBERS["and"], "behind": behind})
    assert (with_lane_waits(f, (64, 1, 1)) is not f) == rewritten
