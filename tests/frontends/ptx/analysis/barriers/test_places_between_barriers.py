"""Groups of accesses between barriers: what is claimed of drawn kernels, and where their threads access what.

A kernel is drawn as statements. They are written as PTX for the analysis, and executed here for some sizes,
thread by thread: two accesses of a group that fall between the same barriers share no byte.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import pytest

from syncverify.frontends.ptx.analysis.barriers.places_between_barriers import PlacesBetweenBarriers
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.sweeps import TURN

THREADS = 8
#: An expression: a name, a number, or an operation of two.
Term = Any
#: A store or load (place, guard), what ``x`` or ``y`` becomes under a guard, a barrier, or a loop: with its
#: condition ahead of each turn, or, as compilers write it, ahead of the first and behind each.
Statement = tuple[Any, ...]
_OPERATIONS = {
    "+": "add.s32",
    "-": "sub.s32",
    "*": "mul.lo.s32",
    "/": "div.s32",
    "%": "rem.s32",
    "&": "and.b32",
    "|": "or.b32",
    "^": "xor.b32",
    ">>": "shr.s32",
    "min": "min.s32",
    "max": "max.s32",
    "min.relu": "min.relu.s32",
    "max.relu": "max.relu.s32",
}
_COMPARED = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
             "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}  # fmt: skip


@dataclass
class _Text:
    """PTX of statements."""

    lines: list[str] = field(default_factory=list)
    registers: int = 10
    labels: int = 0

    def term(self, x: Term, names: dict[str, str]) -> str:
        if isinstance(x, int):
            return str(x)
        if isinstance(x, str):
            return names[x]
        op, a, b = x
        left, right = self.term(a, names), self.term(b, names)
        self.registers += 1
        found = f"%r{self.registers}"
        if not left.startswith("%"):
            self.registers += 1
            self.lines.append(f"mov.u32 %r{self.registers}, {left};")
            left = f"%r{self.registers}"
        self.lines.append(f"{_OPERATIONS[op]} {found}, {left}, {right};")
        return found

    def compare(self, guard: tuple[str, Term, Term], names: dict[str, str]) -> str:
        how, a, b = guard
        self.registers += 1
        p = f"%p{self.registers}"
        self.lines.append(f"setp.{how}.s32 {p}, {self.term(('+', a, 0), names)}, {self.term(b, names)};")
        return p

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def write(self, statements: Sequence[Statement], names: dict[str, str]) -> None:
        for s in statements:
            match s:
                case ("bar",):
                    self.lines.append("bar.sync 0;")
                case ("st" | "ld" | "st.global" | "ld.global" as op, place, guard):
                    out = self.label()
                    if guard is not None:
                        self.lines.append(f"@!{self.compare(guard, names)} bra {out};")
                    at = self.term(("+", ("*", place, 4), 0), names)
                    where = "[%r2]"
                    if op.endswith("global"):
                        self.lines.append(f"cvt.s64.s32 %rd2, {at}; add.s64 %rd2, %rd1, %rd2;")
                        where = "[%rd2]"
                    else:
                        self.lines.append(f"mov.u32 %r1, s; add.s32 %r2, %r1, {at};")
                        op += ".shared"
                    self.lines.append(
                        f"{op}.u32 {where}, %r3;" if op.startswith("st") else f"{op}.u32 %r3, {where};"
                    )
                    self.lines.append(f"{out}:")
                case ("set", name, value, guard):
                    out = self.label()
                    if guard is not None:
                        self.lines.append(f"@!{self.compare(guard, names)} bra {out};")
                    self.lines.append(f"mov.u32 {names[name]}, {self.term(value, names)};\n{out}:")
                case ("when", guard, body):
                    out = self.label()
                    self.lines.append(f"@!{self.compare(guard, names)} bra {out};")
                    self.write(body, names)
                    self.lines.append(f"{out}:")
                case ("for", name, start, bound, step, body):
                    self.registers += 1
                    i, head, out = f"%r{self.registers}", self.label(), self.label()
                    self.lines.append(f"add.s32 {i}, {self.term(('+', start, 0), names)}, 0;\n{head}:")
                    inner = {**names, name: i}
                    self.lines.append(f"@!{self.compare(('lt', name, bound), inner)} bra {out};")
                    self.write(body, inner)
                    self.lines.append(f"add.s32 {i}, {i}, {self.term(step, names)};\nbra {head};\n{out}:")
                case ("do", name, start, (first, how, bound), step, body):
                    i, head, out = names[name], self.label(), self.label()
                    self.lines.append(f"mov.u32 {i}, {self.term(('+', start, 0), names)};")
                    if first:
                        self.lines.append(f"@!{self.compare((first, name, bound), names)} bra {out};")
                    self.lines.append(f"{head}:")
                    self.write(body, names)
                    self.lines.append(f"add.s32 {i}, {i}, {step};")
                    self.lines.append(f"@{self.compare((how, name, bound), names)} bra {head};\n{out}:")


def written(statements: Sequence[Statement], *, reaches_global: bool = False) -> str:
    """The kernel; ``reaches_global``: a third parameter leads to global memory."""
    text = _Text()
    text.lines += ["ld.param.u64 %rd1, [p2];"] if reaches_global else []
    pointer = ", .param .u64 p2" if reaches_global else ""
    text.lines += ["mov.u32 %r0, %tid.x;", "ld.param.u32 %r4, [p0];", "ld.param.u32 %r5, [p1];"]
    text.lines += ["mov.u32 %r6, 0;", "mov.u32 %r7, %r0;"]
    text.write(statements, {"t": "%r0", "n": "%r4", "r": "%r5", "x": "%r6", "y": "%r7"})
    body = "\n".join(text.lines)
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 p0, .param .u32 p1{pointer})
{{
.reg .pred %p<400>;
.reg .b32 %r<400>;
.reg .b64 %rd<3>;
.extern .shared .align 16 .b8 s[];
{body}
ret;
}}
"""


class _StoppedError(Exception):
    """A quotient by 0, or too many turns."""


class _Thread:
    """One thread's accesses: the interval, which access of the text, and the place."""

    def __init__(self, t: int, n: int, r: int) -> None:
        self.names = {"t": t, "n": n, "r": r, "x": 0, "y": t}
        self.interval, self.steps = 0, 0
        self.found: list[tuple[int, int, int]] = []
        self.met: list[int] = []  # barriers, by the number of accesses ahead of them in the text

    def value(self, x: Term) -> int:
        if isinstance(x, int):
            return x
        if isinstance(x, str):
            return self.names[x]
        op, a, b = x[0], self.value(x[1]), self.value(x[2])
        if op in "/%" and b == 0:
            raise _StoppedError
        if op in "/%":
            q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return q if op == "/" else a - q * b
        made = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b, "min": min(a, b),
                "max": max(a, b), "min.relu": max(min(a, b), 0), "max.relu": max(a, b, 0),
                ">>": a >> b if op == ">>" else 0}  # fmt: skip
        return made[op]

    def _with(self, name: str, i: int) -> _Thread:
        self.names[name] = i
        return self

    def run(self, statements: Sequence[Statement], number: int) -> int:
        """Executes statements of which the first access has a number; the number behind them."""
        for s in statements:
            match s:
                case ("bar",):
                    self.interval += 1
                    self.met.append(number)
                case ("when", guard, body):
                    if _COMPARED[guard[0]](self.value(guard[1]), self.value(guard[2])):
                        self.run(body, number)
                    number += _accesses(body)
                case ("st" | "ld" | "st.global" | "ld.global", place, guard):
                    if guard is None or _COMPARED[guard[0]](self.value(guard[1]), self.value(guard[2])):
                        self.found.append((self.interval, number, 4 * self.value(place)))
                    number += 1
                case ("set", name, value, guard):
                    if guard is None or _COMPARED[guard[0]](self.value(guard[1]), self.value(guard[2])):
                        self.names[name] = self.value(value)
                case ("for", name, start, bound, step, body):
                    i, behind = self.value(start), number + _accesses(body)
                    while i < self._with(name, i).value(bound):
                        self.steps += 1
                        if self.steps > 60:
                            raise _StoppedError
                        self.run(body, number)
                        i += self.value(step)
                    number = behind
                case ("do", name, start, (first, how, bound), step, body):
                    self._with(name, self.value(start))
                    behind = number + _accesses(body)
                    again = not first or _COMPARED[first](self.names[name], self.value(bound))
                    while again:
                        self.steps += 1
                        if self.steps > 60:
                            raise _StoppedError
                        self.run(body, number)
                        self.names[name] += step
                        again = _COMPARED[how](self.names[name], self.value(bound))
                    number = behind
        return number


def _accesses(statements: Sequence[Statement]) -> int:
    return sum(
        _accesses(s[-1]) if s[0] in ("for", "do", "when") else s[0][:2] in ("st", "ld") for s in statements
    )


def _codes(statements: Sequence[Statement]) -> Iterator[str]:
    for s in statements:
        if s[0] in ("for", "do", "when"):
            yield from _codes(s[-1])
        elif s[0][:2] in ("st", "ld"):
            yield s[0]


def claims(statements: Sequence[Statement]) -> tuple[list[int], list[bool]]:
    """By access, its group, and whether that rests on parameters that are not below 0."""
    module = parse(written(statements), "k.ptx")
    flow = Flow(module.entries[0])
    found = PlacesBetweenBarriers(flow, (THREADS, 1, 1), {"s": 0})
    sites = [k for k, i in enumerate(flow.body) if i.op in ("st", "ld") and "shared" in i.mods]
    every = [found.of(k) for k in sites]
    return [0 if x is None else x.group for x in every], [x is not None and x.positive for x in every]


def wrong(statements: Sequence[Statement], groups: Sequence[int], positive: Sequence[bool]) -> str | None:
    """Two accesses of a group that meet in some launch."""
    codes = list(_codes(statements))
    for n, r, threads in _executed(statements, (-3, -1, 0, 1, 2, 3, 5, 8, 9, 16), (-2, 0, 1, 2, 4, 7, 8, 11)):
        by: dict[int, list[tuple[int, int, int]]] = {}
        for thread in threads:
            for interval, site, place in thread.found:
                if groups[site] and not (positive[site] and min(n, r) < 0):
                    by.setdefault(interval, []).append((thread.names["t"], site, place))
        for found in by.values():
            for (t, a, x), (u, b, y) in combinations(found, 2):
                if t != u and groups[a] == groups[b] and "st" in (codes[a], codes[b]) and abs(x - y) < 4:
                    return f"n={n} r={r}: thread {t} access {a} at {x}, thread {u} access {b} at {y}"
    return None


def _executed(
    statements: Sequence[Statement], ns: Sequence[int], rs: Sequence[int]
) -> Iterator[tuple[int, int, list[_Thread]]]:
    """The sizes of launches, and their threads once all have come to the end; too long ones are left out."""
    for n, r in product(ns, rs):
        threads = [_Thread(t, n, r) for t in range(THREADS)]
        try:
            for thread in threads:
                thread.run(statements, 0)
        except _StoppedError:
            continue
        yield n, r, threads


def covers(statements: Sequence[Statement]) -> bool:
    """Whether it is claimed of all accesses, and of all barriers."""
    flow = Flow(parse(written(statements), "k.ptx").entries[0])
    return PlacesBetweenBarriers(flow, (THREADS, 1, 1), {"s": 0}).covers_all


def parted(statements: Sequence[Statement]) -> str | None:
    """A launch in which threads come to other barriers than others do."""
    for n, r, threads in _executed(statements, (-3, -1, 0, 1, 2, 3, 5, 8, 16), (-2, 0, 1, 2, 5, 8)):
        if any(thread.met != threads[0].met for thread in threads):
            return f"n={n} r={r}: {[thread.met for thread in threads]}"
    return None


# ---------------------------------------------------------------- kernels that are known

HALO = [
    ("st", ("+", "t", "r"), None),
    ("st", "t", ("lt", "t", "r")),
    ("st", ("+", ("+", "t", "r"), THREADS), ("lt", "t", "r")),
    ("bar",),
    ("for", "j", 0, ("+", "r", "r"), 1, [("ld", ("+", "t", "j"), None)]),
]
PITCH = [
    ("for", "i", "t", ("*", "n", "n"), THREADS,
     [("st", ("+", ("*", ("/", "i", "n"), ("+", "n", 1)), ("%", "i", "n")), None)]),
    ("bar",),
    ("for", "c", "t", "n", THREADS,
     [("for", "j", 0, "n", 1, [("ld", ("+", ("*", "j", ("+", "n", 1)), "c"), None)])]),
]  # fmt: skip
PADDED = [
    ("for", "c", ("&", "t", 3), "n", 4,
     [("st", ("+", ("*", (">>", "t", 2), ("|", "n", 1)), "c"), None)]),
    ("bar",),
    ("for", "c", "t", "n", THREADS, [("ld", "c", None), ("ld", ("+", ("|", "n", 1), "c"), None)]),
]  # fmt: skip
ODD_EVEN = [
    ("for", "p", 0, "n", 1, [
        ("ld", ("+", ("*", "t", 2), ("&", "p", 1)), None),
        ("ld", ("+", ("+", ("*", "t", 2), ("&", "p", 1)), 1), None),
        ("st", ("+", ("*", "t", 2), ("&", "p", 1)), None),
        ("st", ("+", ("+", ("*", "t", 2), ("&", "p", 1)), 1), None),
        ("bar",),
    ]),
]  # fmt: skip


TAPS = [
    ("do", "x", "t", ("lt", "lt", "r"), THREADS, [("st", "x", None)]),
    ("do", "y", "t", ("lt", "lt", ("+", "r", 7)), THREADS, [("st", ("+", "r", "y"), None)]),
    ("bar",),
    ("do", "x", "r", ("gt", "ne", 0), -1, [("ld", ("+", "t", ("+", "r", "x")), None)]),
]  # fmt: skip


@pytest.mark.parametrize(
    "statements", [HALO, PITCH, PADDED, ODD_EVEN, TAPS], ids=["halo", "pitch", "padded", "odd-even", "taps"]
)
def test_whole_groups(statements: list[Statement]) -> None:
    groups, positive = claims(statements)
    assert all(groups), groups
    assert wrong(statements, groups, positive) is None


WIDE = [HALO[0], ("st", "t", ("le", "t", "r")), *HALO[2:]]
SMALL = ("+", ("*", ("/", "i", "n"), ("-", "n", 1)), ("%", "i", "n"))
MEET: dict[str, list[Statement]] = {
    "halo one too wide": WIDE,
    "halo without a barrier": [*HALO[:3], *HALO[4:]],
    "a pitch too small": [("for", "i", "t", ("*", "n", "n"), THREADS, [("st", SMALL, None)])],
    "odd-even without a barrier": [("for", "p", 0, "n", 1, ODD_EVEN[0][-1][:-1])],
    "odd-even with one barrier": [("for", "p", 0, "n", 1, ODD_EVEN[0][-1][:-1]), ("bar",)],
    "threads at other barriers": [("for", "p", "t", "n", 1, [("st", ("+", "t", "r"), None), ("bar",)])],
    "taps one too long": [
        ("do", "x", "t", ("lt", "lt", ("+", "r", 1)), THREADS, [("st", "x", None)]),
        *TAPS[1:],
    ],
    "taps that come once at least": [
        ("do", "x", "t", ("", "lt", "r"), THREADS, [("st", "x", None)]),
        *TAPS[1:],
    ],
    "a turn too many behind a loop": [
        ("do", "x", 0, ("lt", "lt", "r"), 1, []),
        ("st", ("+", "t", ("-", "x", "r")), ("eq", "x", 3)),
        ("st", "t", None),
    ],
    "what the next turn reads": [
        (
            "for",
            "p",
            0,
            "n",
            1,
            [("ld", "p", ("eq", "t", 1)), ("bar",), ("st", ("+", "p", 1), ("eq", "t", 0))],
        )
    ],
    "one place behind a loop": [("for", "i", 0, "n", 1, []), ("st", "r", ("gt", "n", 0))],
    "rows that are too short": [
        ("for", "x", ("&", "t", 1), ("*", "r", 2), 2, [("st", ("+", ("*", (">>", "t", 1), "r"), "x"), None)])
    ],
    "a turn beside the next": [
        ("for", "p", 0, "n", 1, [("st", ("+", "t", "p"), None), ("bar",), ("ld", ("+", "t", "p"), None)])
    ],
}


@pytest.mark.parametrize("name", MEET)
def test_what_meets_is_not_covered(name: str) -> None:
    assert not covers(MEET[name])


PARTED: dict[str, tuple[list[Statement], bool]] = {
    "a barrier for all": ([("st", "t", None), ("bar",), ("ld", ("-", 7, "t"), None)], True),
    "a barrier by a size": ([("st", "t", None), ("when", ("gt", "n", 3), [("bar",)])], True),
    "a barrier in turns by a size": (ODD_EVEN, True),
    "a barrier for some": ([("st", "t", None), ("when", ("gt", "t", 3), [("bar",)])], False),
    "a barrier in turns of a thread": ([("st", "t", None), ("for", "i", 0, "t", 1, [("bar",)])], False),
    "a barrier by what some have": (
        [("st", "t", None), ("set", "x", "n", ("gt", "t", 3)), ("when", ("gt", "x", 3), [("bar",)])],
        False,
    ),
}


@pytest.mark.parametrize("name", PARTED)
def test_all_come_to_the_same_barriers(name: str) -> None:
    statements, same = PARTED[name]
    assert covers(statements) is same and (parted(statements) is None) is same


@pytest.mark.parametrize("name", MEET)
def test_groups_without_what_meets(name: str) -> None:
    groups, positive = claims(MEET[name])
    assert not all(groups)
    assert wrong(MEET[name], groups, positive) is None


WAYS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 p0)
{
.reg .pred %p<9>;
.reg .b32 %r<9>;
.extern .shared .align 16 .b8 s[];
mov.u32 %r0, %tid.x;
ld.param.u32 %r4, [p0];
mov.u32 %r5, 3;
setp.gt.s32 %p1, %r4, 5;
@!%p1 bra K;
setp.gt.s32 %p2, %r4, 10;
@%p2 bra B;
mov.u32 %r5, 2;
bra J;
B:
setp.gt.s32 %p3, %r4, 20;
mov.u32 %r5, LEAVES;
@%p3 bra K;
mov.u32 %r5, 1;
J:
mov.u32 %r7, 0;
K:
mul.lo.s32 %r1, %r0, %r5;
shl.b32 %r1, %r1, 2;
mov.u32 %r2, s;
add.s32 %r2, %r2, %r1;
st.shared.u32 [%r2], %r3;
ret;
}
"""


@pytest.mark.parametrize(("leaves", "grouped"), [("0", False), ("4", True)])
def test_a_join_that_may_not_be_come_to_rules_nothing_out(leaves: str, grouped: bool) -> None:
    flow = Flow(parse(WAYS.replace("LEAVES", leaves), "k.ptx").entries[0])
    (site,) = (k for k, i in enumerate(flow.body) if i.op == "st")
    assert (PlacesBetweenBarriers(flow, (THREADS, 1, 1), {"s": 0}).of(site) is not None) == grouped


# ---------------------------------------------------------------- kernels that are drawn


def _term(d: random.Random, names: Sequence[str], depth: int) -> Term:
    if depth == 0 or d.random() < 0.25:
        return d.choice([*names, *names, d.choice([0, 1, 2, THREADS])])
    op = d.choice(["+", "+", "+", "-", "*", "*", "/", "%", "&", "|", "^", ">>", "min", "max"])
    right = d.choice([1, 2, 3, 7]) if op in ("&", "|", "^") else d.choice([1, 2]) if op == ">>" else None
    return op, _term(d, names, depth - 1), _term(d, names, depth - 1) if right is None else right


def _guard(d: random.Random, names: Sequence[str]) -> tuple[str, Term, Term]:
    return d.choice(("lt", "le", "gt", "ge", "eq", "ne")), _term(d, names, 1), _term(d, names, 1)


def _turned(d: random.Random, names: Sequence[str], depth: int) -> Statement:
    """A loop with its condition at the end, of a register that is read behind it, too."""
    name, how = d.choice("xy"), d.choice(["lt", "ne", "ne"])
    down = how == "ne" and d.random() < 0.6
    bound = d.choice([0, 0, 1, "r"]) if down else d.choice(["n", "r", ("+", "n", "r"), ("&", "n", 6)])
    start = d.choice(["n", "r", ("&", "n", 7), ("-", "n", ("&", "n", 1)), "t"] if down else [0, 0, "t", "r"])
    step = d.choice([-1, -1, -2] if down else [1, 1, 2, THREADS])
    inner = _drawn(d, [*names, name, name], depth - 1, barriers=False, turned=True)
    first = "" if d.random() < 0.3 else "gt" if down else "lt"
    return ("do", name, start, (first, how, bound), step, inner)


def _drawn(
    d: random.Random,
    names: Sequence[str],
    depth: int,
    *,
    barriers: bool,
    turned: bool = False,
    parted: bool = False,
) -> list[Statement]:
    found: list[Statement] = []
    for _ in range(d.randint(1, 3)):
        how = d.random()
        if how < 0.2 and depth:
            name = "ijklm"[depth]
            uniform = d.random() < 0.5
            start = d.choice([0, 1, "r"]) if uniform else d.choice(["t", ("*", "t", 2), ("+", "t", "r")])
            bound = d.choice(["n", "r", ("*", "n", 2), ("*", "n", "n"), ("+", "n", "r")])
            step = d.choice([1, 1, 2, THREADS, "n"])
            within = barriers and (uniform or d.random() < 0.3)
            inner = _drawn(d, [*names, name], depth - 1, barriers=within, turned=turned, parted=parted)
            found.append(("for", name, start, bound, step, inner))
        elif parted and how < 0.35 and depth:
            within = d.random() < 0.6
            asked = (d.choice(("lt", "gt", "eq")), d.choice("nr"), d.choice("nr")) if within else None
            inner = _drawn(d, names, depth - 1, barriers=within or d.random() < 0.3, parted=parted)
            found.append(("when", asked or _guard(d, names), inner))
        elif turned and how < 0.3 and depth:
            found.append(_turned(d, names, depth))
        elif how < 0.35:
            guard = None if d.random() < 0.4 else _guard(d, names)
            found.append(("set", d.choice("xy"), _term(d, [*names, "x", "y"], 2), guard))
        elif how < 0.5 and barriers:
            found.append(("bar",))
        else:
            guard = None if d.random() < 0.5 else _guard(d, names)
            place = _term(d, names, 2) if d.random() < 0.5 else ("+", "t", _term(d, names, 2))
            found.append((d.choice(["st", "st", "ld"]), place, guard))
    return found


def _judged(seed: int, *, turned: bool = False) -> int:
    d = random.Random(seed)
    statements = _drawn(d, ["t", "t", "n", "r", "x", "y"], 2, barriers=True, turned=turned)
    groups, positive = claims(statements)
    found = wrong(statements, groups, positive)
    assert found is None, f"seed {seed}: {found}\n{statements}\n{groups}"
    return sum(map(bool, groups))


@pytest.mark.parametrize(("op", "groups"), [("max", [1]), ("max.relu", [0]), ("min", [0]), ("min.relu", [0])])
def test_what_relu_makes_one_place_is_in_no_group(op: str, groups: list[int]) -> None:
    bound = -9 if op.startswith("max") else 9 if op == "min.relu" else 2
    place = ("+", "n", (op, ("-", "t", 4), bound))
    found, positive = claims([("st", place, None)])
    assert found == groups and wrong([("st", place, None)], found, positive) is None


def test_drawn_kernels() -> None:
    grouped = sum(map(_judged, range(20 * TURN, 20 * TURN + 20)))
    assert grouped > 4


def test_drawn_kernels_with_conditions_behind_their_turns() -> None:
    grouped = sum(_judged(seed, turned=True) for seed in range(10 * TURN, 10 * TURN + 10))
    assert grouped > 2


def _judged_whole(seed: int) -> bool:
    """Whether all of a drawn kernel is claimed; then threads come to the same barriers, and nothing meets."""
    d = random.Random(seed)
    statements = _drawn(d, ["t", "t", "n", "r", "x"], 2, barriers=True, turned=seed % 2 == 0, parted=True)
    if not covers(statements):
        return False
    _, positive = claims(statements)
    found = parted(statements) or wrong(statements, [1] * len(positive), positive)
    assert found is None, f"seed {seed}: {found}\n{statements}"
    return True


def test_drawn_kernels_as_a_whole() -> None:
    assert sum(map(_judged_whole, range(30 * TURN, 30 * TURN + 30))) > 2


@pytest.mark.slow
def test_more_drawn_kernels_as_a_whole() -> None:
    assert sum(map(_judged_whole, range(30_000, 33_000))) > 300


@pytest.mark.slow
def test_more_drawn_kernels_with_conditions_behind_their_turns() -> None:
    assert sum(_judged(seed, turned=True) for seed in range(20_000, 21_500)) > 300


@pytest.mark.slow
def test_more_drawn_kernels() -> None:
    assert sum(map(_judged, range(10_000, 11_500))) > 300


HALVES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .b32 %r<9>;
.extern .shared .align 16 .b8 s[];
mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; shl.b32 %r3, %r1, 8;
SUM %r4, %r3, %r3;
shl.b32 %r5, %r2, 2; add.s32 %r6, %r4, %r5; mov.u32 %r7, s; add.s32 %r8, %r7, %r6;
st.shared.u32 [%r8], %r1;
ret;
}
"""


@pytest.mark.parametrize(("add", "apart"), [("add.u32", True), ("add.u16x2", False), ("add.bf16x2", False)])
def test_sums_of_halves_are_no_sums(add: str, apart: bool) -> None:
    # of 128 threads more, 256 t + 256 t loses its carry
    (f,) = parse(HALVES.replace("SUM", add)).functions
    found = PlacesBetweenBarriers(Flow(f), (256, 1, 1), {"s": 0})
    at = next(k for k, i in enumerate(f.body) if i.op == "st")
    assert (found.of(at) is not None) is apart
