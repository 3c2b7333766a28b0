"""Programs of narrow, packed and vector registers that decide about a barrier, and which bits have a value.

A program writes registers of 16, 32 and 64 bits under conditions of data and of flags, takes them apart and
packs them, loads vectors, and decides by some. It is executed here for all values of its two bits of data,
bit by bit: which bits have a value, and what they are where the text gives it. A decision by bits of which
one has no value does harm. Nothing of the analysis is used: no versions, no paths, no merges.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import product

Statement = tuple[str, ...]
WIDTHS = {"h": 16, "r": 32, "d": 64}
#: Registers by their first letter and a number; those from 5 on are written at the start.
NAMES = {"h": range(4), "r": range(3), "d": range(2)}
FLAGS = ("h8", "h9", "r8", "r9")
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<200>;
.reg .b16 %h<12>;
.reg .b32 %r<32>;
.reg .b64 %d<12>;
ld.param.u64 %d9, [p];
mov.u32 %r20, %tid.x;
ld.global.u32 %r21, [%d9];
and.b32 %r22, %r21, 1;
and.b32 %r23, %r21, 2;
setp.eq.u32 %p180, %r22, 1;
setp.eq.u32 %p181, %r23, 2;
mov.u16 %h8, 0;
mov.u16 %h9, 1;
mov.u32 %r8, 0;
mov.u32 %r9, 1;
{lines}
ret;
}}
"""


@dataclass
class Bits:
    """A register: which of its bits have a value, and all of them where the text gives them."""

    has: int
    value: int | None = None


def _name(draw: random.Random, kind: str) -> str:
    return f"{kind}{draw.choice(NAMES[kind])}"


def statements(draw: random.Random, depth: int = 0) -> list[Statement]:
    found: list[Statement] = []
    for _ in range(draw.randint(2, 6)):
        what = draw.choice(
            [
                "write",
                "write",
                "vector",
                "pack",
                "unpack",
                "pack4",
                "unpack4",
                "wide",
                "narrow",
                "low",
                "flag",
                "flag",
                "packed flag",
                "decide",
                "decide",
                "select",
            ]
            + ["if"] * 4 * (depth < 3)
        )
        h, g, r, q, d = (_name(draw, kind) for kind in "hhrrd")
        match what:
            case "if":
                asked = draw.choice([("data", "180"), ("data", "181"), *(("flag", f) for f in FLAGS)])
                found.append(("if", *asked, draw.choice("01"), draw.choice(("", "!"))))
                found += [*statements(draw, depth + 1), ("end",)]
            case "write":
                found.append(("write", _name(draw, draw.choice("hrd")), str(draw.randrange(3))))
            case "vector":
                found.append(("vector", *draw.choice([(h, g), (r, q)])))
            case "pack":
                found.append(draw.choice([("pack", r, h, g), ("pack", d, r, q)]))
            case "unpack":
                found.append(draw.choice([("unpack", r, h, g), ("unpack", d, r, q)]))
            case "pack4" | "unpack4":
                found.append((what, d, *(_name(draw, "h") for _ in range(4))))
            case "wide":
                found.append(draw.choice([("wide", r, h), ("wide", d, r)]))
            case "narrow":
                found.append(draw.choice([("narrow", h, r), ("narrow", r, d)]))
            case "low":
                found.append(("low", r, q, draw.choice(("1", "65535", "4294901760"))))
            case "flag":
                found.append(("write", draw.choice(FLAGS), draw.choice("012")))
            case "packed flag":  # through a packed register and back
                found.append(("flags", draw.choice(("r8", "r9")), "h8"))
            case "select":
                found.append(("select", r, q, _name(draw, "r"), draw.choice(("180", "181"))))
            case _:
                found.append(("decide", _name(draw, draw.choice("hrrd"))))
    return found


def program(seed: int) -> list[Statement]:
    return statements(random.Random(seed))


def written(program: list[Statement]) -> str:
    lines, open_ = list[str](), list[str]()
    for n, (what, *x) in enumerate(program):
        a, b, c = (*(f"%{name}" for name in x), "", "", "")[:3]
        bits = WIDTHS[x[0][0]] if x and x[0][:1] in WIDTHS else 0
        match what:
            case "if":
                open_.append(f"L{n}")
                p = f"%p{x[1]}"
                if x[0] == "flag":
                    p = f"%p{n}"
                    lines.append(f"setp.eq.u{WIDTHS[x[1][0]]} {p}, %{x[1]}, {x[2]};")
                lines.append(f"@{x[3]}{p} bra L{n};")
            case "end":
                lines.append(f"{open_.pop()}:")
            case "write":
                lines.append(f"mov.u{bits} {a}, {x[1]};")
            case "vector":
                lines.append(f"ld.global.v2.u{bits} {{{a}, {b}}}, [%d9+16];")
            case "pack":
                lines.append(f"mov.b{bits} {a}, {{{b}, {c}}};")
            case "unpack":
                lines.append(f"mov.b{bits} {{{b}, {c}}}, {a};")
            case "pack4":
                lines.append(f"mov.b64 {a}, {{{', '.join('%' + h for h in x[1:])}}};")
            case "unpack4":
                if len({*x[1:]}) == 4:
                    lines.append(f"mov.b64 {{{', '.join('%' + h for h in x[1:])}}}, {a};")
            case "wide" | "narrow":
                lines.append(f"cvt.u{bits}.u{WIDTHS[x[1][0]]} {a}, {b};")
            case "low":
                lines.append(f"and.b32 {a}, {b}, {x[2]};")
            case "flags":
                lines += [
                    f"mov.b32 {a}, {{{b}, %h9}};",
                    f"mov.b32 {{{b}, %h9}}, {a};",
                    f"and.b32 {a}, {a}, 3;",
                ]
            case "select":
                lines.append(f"selp.b32 {a}, {b}, {c}, %p{x[3]};")
            case "decide":
                lines += [f"setp.eq.u{bits} %p{n}, {a}, 1;", f"@%p{n} bra M{n};", "bar.sync 0;", f"M{n}:"]
    return TEXT.format(lines="\n".join(lines))


@dataclass
class Execution:
    """One execution, for two bits of data."""

    data: dict[str, bool]
    held: dict[str, Bits] = field(default_factory=dict)

    def of(self, name: str) -> Bits:
        return self.held.get(name, Bits(0))

    def put(self, name: str, has: int, value: int | None) -> None:
        full = (1 << WIDTHS[name[0]]) - 1
        self.held[name] = Bits(has & full, None if value is None or has & full != full else value & full)

    def join(self, into: str, parts: list[Bits], each: int) -> None:
        has = sum(p.has << each * n for n, p in enumerate(parts))
        known = [p.value for p in parts]
        value = None if None in known else sum((v or 0) << each * n for n, v in enumerate(known))
        self.put(into, has, value)

    def split(self, of: Bits, into: list[str]) -> None:
        each = WIDTHS[into[0][0]]
        for n, name in enumerate(into):
            self.put(name, of.has >> each * n, None if of.value is None else of.value >> each * n)

    def holds(self, x: list[str]) -> bool | None:
        """Whether a condition holds; None: by bits of which one has no value, or that are data."""
        if x[0] == "data":
            return self.data[x[1]]
        value = self.of(x[1]).value
        return None if value is None else value == int(x[2])

    def harms(self, program: list[Statement]) -> bool:
        for name in FLAGS:
            self.put(name, -1, int(name[1] == "9"))
        skipped = 0
        for what, *x in program:
            if what == "end" or skipped:
                skipped += (what == "if") - (what == "end") if skipped else 0
                continue
            bits = [self.of(name) if name[:1] in WIDTHS else Bits(0) for name in x]
            full = (1 << WIDTHS[x[0][0]]) - 1 if x[0][0] in WIDTHS else 0
            match what:
                case "if":
                    held = self.holds(x)
                    assert held is not None  # flags are of numbers alone
                    skipped = int(held == (x[3] == ""))
                case "write":
                    self.put(x[0], -1, int(x[1]))
                case "vector":
                    for name in x[:2]:
                        self.put(name, -1, None)
                case "pack" | "pack4":
                    self.join(x[0], bits[1:], WIDTHS[x[1][0]])
                case "unpack":
                    self.split(bits[0], x[1:])
                case "unpack4" if len({*x[1:]}) == 4:
                    self.split(bits[0], x[1:])
                case "wide":
                    self.put(x[0], bits[1].has | ~((1 << WIDTHS[x[1][0]]) - 1), bits[1].value)
                case "narrow":
                    self.put(x[0], bits[1].has, bits[1].value)
                case "low":
                    mask = int(x[2])
                    value = bits[1].value
                    self.put(x[0], bits[1].has | ~mask, None if value is None else value & mask)
                case "flags":
                    self.join(x[0], [bits[1], self.of("h9")], 16)
                    self.split(self.of(x[0]), [x[1], "h9"])
                    value = self.of(x[0]).value
                    self.put(x[0], -1, None if value is None else value & 3)
                case "select":
                    self.held[x[0]] = bits[1] if self.data[x[3]] else bits[2]
                case "decide" if bits[0].has != full:
                    return True
        return False


def harms(program: list[Statement]) -> bool:
    """Whether an execution decides by bits without a value."""
    return any(Execution({"180": a, "181": b}).harms(program) for a, b in product((False, True), repeat=2))
