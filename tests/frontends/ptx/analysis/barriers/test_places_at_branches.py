"""Groups of accesses between barriers in kernels whose threads part: drawn as PTX, and executed as PTX.

Threads part at branches, at loops and where they leave, by their numbers and by sizes, and meet other
barriers of the text. The judge reads the text itself, an instruction at a time. Two accesses are ordered if
their threads have come to different counts of barriers there, and the one with fewer has come to more since.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import combinations

import pytest

from syncverify.frontends.ptx.analysis.barriers.places_between_barriers import (
    PlacesBetweenBarriers,
    SizedAccess,
)
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.sweeps import TURN

THREADS = 6
_SIZES = [(n, r) for n in (-2, 0, 1, 3, 4, 6) for r in (-1, 0, 2, 3, 5)]
_MADE: dict[str, Callable[[int, int], int]] = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "and.b32": lambda a, b: a & b,
    "setp.lt.s32": lambda a, b: a < b,
    "setp.ge.s32": lambda a, b: a >= b,
    "setp.eq.s32": lambda a, b: a == b,
    "setp.ne.s32": lambda a, b: a != b,
}
_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 p0, .param .u32 p1)
{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.extern .shared .align 16 .b8 s[];
"""
#: The thread, two sizes, two numbers that statements change, and the counter of a loop.
_T, _N, _R, _X, _Y, _I = (f"%r{k}" for k in range(6))


class _Drawn:
    """The lines of a kernel."""

    def __init__(self, seed: int) -> None:
        self.d = random.Random(seed)
        self.labels = 0
        self.lines = [f"mov.u32 {_T}, %tid.x;", f"ld.param.u32 {_N}, [p0];", f"ld.param.u32 {_R}, [p1];",
                      f"mov.u32 {_X}, 0;", f"mov.u32 {_Y}, {self.d.choice([_N, _R, '1'])};"]  # fmt: skip
        self.part(3, looped=False)
        self.access()
        self.lines.append("ret;")

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def condition(self) -> None:
        one, how = self.d.choice([_T, _T, _X, _Y, _N]), self.d.choice(["lt", "ge", "eq", "ne"])
        other = self.d.choice([_N, _R, _Y, "1", "2", "3"])
        self.lines.append(f"setp.{how}.s32 %p1, {one}, {other};")

    def part(self, depth: int, *, looped: bool) -> None:
        for _ in range(self.d.randint(1, 3)):
            how = self.d.random()
            if how < 0.3 and depth:
                self.sides(depth - 1, looped=looped)
            elif how < 0.4 and depth and not looped:
                self.loop(depth - 1)
            elif how < 0.43:
                self.condition()
                self.lines.append("@%p1 exit;")
            elif how < 0.65:
                self.change()
            elif how < 0.8:
                self.lines.append("bar.sync 0;")
            else:
                self.access()

    def change(self) -> None:
        to, d = self.d.choice([_X, _Y]), self.d
        kept = d.random() < 0.4
        if kept:
            self.condition()
        how = d.choice([f"mov.u32 {to}, {d.choice([0, 1, 2, _N, _R])};", f"add.s32 {to}, {to}, 1;",
                        f"add.s32 {to}, {d.choice([_X, _Y])}, {_R};"])  # fmt: skip
        self.lines.append(f"@%p1 {how}" if kept else how)

    def sides(self, depth: int, *, looped: bool) -> None:
        other, out, alike = self.label(), self.label(), self.d.random()
        self.condition()
        self.lines.append(f"@!%p1 bra {other};")
        self.side(depth, alike, looped=looped)
        self.lines += [f"bra {out};", f"{other}:"]
        if alike < 0.8:
            self.side(depth, alike, looped=looped)
        self.lines.append(f"{out}:")

    def side(self, depth: int, alike: float, *, looped: bool) -> None:
        """One side of a branch, of which the other has a barrier too, or changes a number too."""
        if alike < 0.2:
            self.lines.append("bar.sync 0;")
            self.access()
        elif alike < 0.4:
            self.change()
        else:
            self.part(depth, looped=looped)

    def loop(self, depth: int) -> None:
        head, out = self.label(), self.label()
        self.lines += [f"mov.u32 {_I}, {self.d.choice([0, 0, 1, _T])};", f"{head}:"]
        self.lines.append(f"setp.ge.s32 %p1, {_I}, {self.d.choice([_N, _R, _Y, 2])};")
        self.lines.append(f"@%p1 bra {out};")
        self.part(depth, looped=True)
        self.lines += [f"add.s32 {_I}, {_I}, 1;", f"bra {head};", f"{out}:"]

    def access(self) -> None:
        d = self.d
        thread, more = d.choice([(1, 4), (1, 4), (2, 4), (-1, 4), (1, 8), (2, 8)])
        self.lines.append(f"mul.lo.s32 %r10, {_T}, {4 * thread};")
        self.lines.append(f"mul.lo.s32 %r11, {d.choice([_X, _Y, _X, _Y, _N])}, {more};")
        self.lines += ["mov.u32 %r12, s;", "add.s32 %r12, %r12, %r10;", "add.s32 %r12, %r12, %r11;"]
        self.lines.append(d.choice(["st.shared.u32 [%r12], %r13;"] * 2 + ["ld.shared.u32 %r13, [%r12];"]))


def _flow(lines: list[str]) -> Flow:
    return Flow(parse(_HEAD + "\n".join(lines) + "\n}\n", "k.ptx").entries[0])


def claims(lines: list[str]) -> dict[int, SizedAccess]:
    """By line, what is said of its access."""
    flow = _flow(lines)
    found = PlacesBetweenBarriers(flow, (THREADS, 1, 1), {"s": 0})
    sites = [k for k, i in enumerate(flow.body) if "shared" in i.mods]
    texts = [n for n, line in enumerate(lines) if ".shared" in line]
    return {n: x for n, k in zip(texts, sites, strict=True) if (x := found.of(k)) is not None}


def executed(lines: list[str], t: int, n: int, r: int) -> tuple[list[tuple[int, int, int]], int] | None:
    """A thread's accesses as (barriers before it, line, place), and all its barriers; None: endless."""
    at = {line[:-1]: k for k, line in enumerate(lines) if line.endswith(":")}
    held: dict[str, int] = {"%tid.x": t, "[p0]": n, "[p1]": r, "s": 0}
    found: list[tuple[int, int, int]] = []
    k = barriers = 0

    def value(x: str) -> int:
        return held.get(x, 0) if x[0] in "%[s" else int(x)

    for _ in range(400):
        parts = re.findall(r"[^\s,;]+", lines[k])
        negated = parts[0].startswith("@!")
        if parts[0][0] == "@":
            guard = parts.pop(0).lstrip("@!")
            if bool(held.get(guard, 0)) == negated:
                k += 1
                continue
        op, *ops = parts
        k += 1
        if op in ("ret", "exit"):
            return found, barriers
        if op == "bra":
            k = at[ops[0]]
        elif op == "bar.sync":
            barriers += 1
        elif op.startswith(("st.shared", "ld.shared")):
            found.append((barriers, k - 1, value(ops[op.startswith("ld")].strip("[]"))))
        elif op in ("mov.u32", "ld.param.u32"):
            held[ops[0]] = value(ops[1])
        elif op in _MADE:
            held[ops[0]] = int(_MADE[op](value(ops[1]), value(ops[2])))
    return None


def wrong(lines: list[str], claimed: dict[int, SizedAccess]) -> str | None:
    """Two accesses of a group that meet in some launch."""
    for n, r in _SIZES if claimed else ():
        threads = [executed(lines, t, n, r) for t in range(THREADS)]
        if None in threads:
            continue
        every = [(t, at, k, place) for t, x in enumerate(threads) if x is not None
                 for at, k, place in x[0] if k in claimed]  # fmt: skip
        last = [x[1] for x in threads if x is not None]
        for (t, i, a, x), (u, j, b, y) in combinations(every, 2):
            early, late, thread = (i, j, t) if i <= j else (j, i, u)
            ordered = early != late and last[thread] > early
            stores = lines[a].startswith("st") or lines[b].startswith("st")
            negative = min(n, r) < 0 and (claimed[a].positive or claimed[b].positive)
            same = claimed[a].group == claimed[b].group
            if t != u and same and stores and not ordered and not negative and abs(x - y) < 4:
                return f"n={n} r={r}: thread {t} line {a} at {x}, thread {u} line {b} at {y}"
    return None


def judged(seed: int) -> int:
    lines = _Drawn(seed).lines
    claimed = claims(lines)
    found = wrong(lines, claimed)
    assert found is None, f"seed {seed}: {found}\n" + "\n".join(f"{n} {x}" for n, x in enumerate(lines))
    return len(claimed)


#: Kernels of which two accesses meet: what the rule must not take for granted of branches.
_AT = ["mul.lo.s32 %r12, %r0, 4;", "mul.lo.s32 %r11, {}, 4;", "add.s32 %r12, %r12, %r11;", "mov.u32 %r13, s;",
       "add.s32 %r12, %r12, %r13;"]  # fmt: skip
_BEGIN = [f"mov.u32 {_T}, %tid.x;", f"ld.param.u32 {_N}, [p0];", f"ld.param.u32 {_R}, [p1];"]
_STORE, _BAR = "st.shared.u32 [%r12], %r13;", "bar.sync 0;"
_SIZED = [*_BEGIN, *(x.format(_N) for x in _AT)]
_PARTS = f"setp.lt.s32 %p1, {_T}, 3;"
MEET = {
    "two barriers": [
        *_SIZED, _PARTS, "@%p1 bra L1;", _BAR, _STORE, "bra L2;", "L1:", _BAR, "add.s32 %r12, %r12, 12;",
        _STORE, "L2:", "ret;",
    ],
    "a number by threads": [
        *_BEGIN, _PARTS, f"mov.u32 {_X}, {_N};", "@%p1 bra L1;", f"mov.u32 {_X}, {_R};", "L1:",
        *(x.format(_X) for x in _AT), _STORE, "ret;",
    ],
    "turns by threads": [
        *_BEGIN, f"mov.u32 {_X}, 0;", "L1:", f"add.s32 {_X}, {_X}, 1;", f"setp.lt.s32 %p1, {_X}, {_T};",
        "@%p1 bra L1;", *(x.format(_X) for x in _AT), f"mul.lo.s32 %r11, {_N}, 4;",
        "add.s32 %r12, %r12, %r11;", f"mul.lo.s32 %r11, {_T}, -8;", "add.s32 %r12, %r12, %r11;", _STORE,
        "ret;",
    ],
    "threads that leave late": [
        *_SIZED, _STORE, _PARTS, "@%p1 exit;", _BAR, "add.s32 %r12, %r12, -12;", _STORE, "ret;",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MEET)
def test_accesses_that_meet(name: str) -> None:
    lines = MEET[name]
    flow = _flow(lines)
    all_of_them = {
        n: SizedAccess(1, "s", positive=False) for n, line in enumerate(lines) if ".shared" in line
    }
    assert len([k for k, i in enumerate(flow.body) if "shared" in i.mods]) == len(all_of_them)
    assert wrong(lines, all_of_them) is not None
    assert wrong(lines, claims(lines)) is None


def test_drawn_kernels() -> None:
    assert sum(map(judged, range(30 * TURN, 30 * TURN + 30))) > 10


@pytest.mark.slow
def test_more_drawn_kernels() -> None:
    assert sum(map(judged, range(50_000, 51_000))) > 300
