"""Integer instructions beside an evaluation with NumPy that is written from the PTX ISA and shares nothing.

Each case is one instruction form. All lanes of a warp execute it, each with operands of its own: edge values
of the type and random ones. What a register holds then is the number that the ISA says, or it is not known;
a wrong number would steer a proof. ``KNOWN`` forms must be numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.isa.match import forms
from syncverify.frontends.ptx.values.register_values import lanes_of, per_lane
from syncverify.model.events import Ev
from tests.frontends.ptx.execute_helpers import system

LANES = 32
Numbers = Sequence[int]
Rule = Callable[..., int]


def _int(x: int, type_: str) -> int:
    """The number that some bits are in a type."""
    return int(np.array([x & 2 ** int(type_[1:]) - 1], np.uint64).astype(_dtype(type_))[0])


def _dtype(type_: str) -> Any:
    return np.dtype(f"{'i' if type_[0] == 's' else 'u'}{int(type_[1:]) // 8}")


def _bits(x: int, bits: int) -> int:
    return x % (1 << bits)


@dataclass(frozen=True)
class Form:
    """One form of an instruction.

    ``text`` names the operands ``{d}``, ``{a}``, ``{b}``, ``{c}``; ``reads`` has their types. ``rule`` takes
    and gives numbers. ``held``: bits of the destination's register. ``known``: a number has to be found.
    """

    text: str
    reads: tuple[str, ...]
    writes: str
    rule: Rule
    held: int = 0
    sources: tuple[int, ...] = ()  # bits of the sources' registers, where wider than their types
    limits: tuple[int | None, ...] = (None, None, None)  # operands are below these
    known: bool = True

    @property
    def id(self) -> str:
        return f"{self.text.split()[0]}-{self.held or self.writes[1:]}" + "".join(
            f"-{s}" for s in self.sources
        )


_SIZES = ("u16", "s16", "u32", "s32", "u64", "s64")


def _forms() -> Iterator[Form]:
    yield from _sums()
    yield from _bitwise()
    yield from _shifts()
    yield from _fields()
    yield from _tests()
    yield from _conversions()
    yield from _packing()
    yield from _carries()


def _sums() -> Iterator[Form]:
    for t in _SIZES:
        n = int(t[1:])
        two, three = (t, t), (t, t, t)
        yield Form(f"add.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a + b)
        yield Form(f"sub.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a - b)
        yield Form(f"mul.lo.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b: a * b)
        yield Form(f"mul.hi.{t} {{d}}, {{a}}, {{b}};", two, t, lambda a, b, n=n: (a * b) >> n)
        yield Form(f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", three, t, lambda a, b, c: a * b + c)
        yield Form(f"mad.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};", three, t, lambda a, b, c, n=n: (a * b >> n) + c)
        yield Form(f"min.{t} {{d}}, {{a}}, {{b}};", two, t, min)
        yield Form(f"max.{t} {{d}}, {{a}}, {{b}};", two, t, max)
        yield Form(f"div.{t} {{d}}, {{a}}, {{b}};", two, t, _quotient, known=False)
        yield Form(f"rem.{t} {{d}}, {{a}}, {{b}};", two, t, _remainder, known=False)
        yield Form(f"sad.{t} {{d}}, {{a}}, {{b}}, {{c}};", three, t, lambda a, b, c: c + abs(a - b))
        if n < 64:
            wide = f"{t[0]}{2 * n}"
            yield Form(f"mul.wide.{t} {{d}}, {{a}}, {{b}};", two, wide, lambda a, b: a * b)
            yield Form(
                f"mad.wide.{t} {{d}}, {{a}}, {{b}}, {{c}};", (t, t, wide), wide, lambda a, b, c: a * b + c
            )
        if t[0] == "s":
            yield Form(f"abs.{t} {{d}}, {{a}};", (t,), t, abs)
            yield Form(f"neg.{t} {{d}}, {{a}};", (t,), t, lambda a: -a)
    clamp = lambda x: max(-(2**31), min(2**31 - 1, x))  # noqa: E731
    yield Form("add.sat.s32 {d}, {a}, {b};", ("s32",) * 2, "s32", lambda a, b: clamp(a + b))
    yield Form("sub.sat.s32 {d}, {a}, {b};", ("s32",) * 2, "s32", lambda a, b: clamp(a - b))
    yield Form(
        "mad.hi.sat.s32 {d}, {a}, {b}, {c};",
        ("s32",) * 3,
        "s32",
        lambda a, b, c: clamp((a * b >> 32) + c),
        known=False,
    )
    yield Form("max.relu.s32 {d}, {a}, {b};", ("s32",) * 2, "s32", lambda a, b: max(a, b, 0), known=False)
    for s in ("u32", "s32"):
        low = lambda x, s=s: _int(x << 8, s) >> 8  # noqa: E731 -- 24 bits
        for part, shift in (("lo", 0), ("hi", 16)):
            yield Form(
                f"mul24.{part}.{s} {{d}}, {{a}}, {{b}};",
                (s, s),
                s,
                lambda a, b, low=low, k=shift: low(a) * low(b) >> k,
            )
            yield Form(
                f"mad24.{part}.{s} {{d}}, {{a}}, {{b}}, {{c}};",
                (s, s, s),
                s,
                lambda a, b, c, low=low, k=shift: (low(a) * low(b) >> k) + c,
            )
    for t in ("u16x2", "s16x2"):
        half = f"{t[0]}16"
        each = lambda a, b, f, half=half: sum(  # noqa: E731
            _bits(f(_int(a >> k, half), _int(b >> k, half)), 16) << k for k in (0, 16)
        )
        for op, f in (("add", lambda x, y: x + y), ("min", min), ("max", max)):
            yield Form(
                f"{op}.{t} {{d}}, {{a}}, {{b}};",
                ("u32", "u32"),
                "u32",
                lambda a, b, f=f, each=each: each(a, b, f),
                known=False,
            )


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return 0  # machine-specific: the case is left out below
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b)


def _bitwise() -> Iterator[Form]:
    for n in (16, 32, 64):
        t = f"u{n}"
        for op, f in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
            yield Form(f"{op}.b{n} {{d}}, {{a}}, {{b}};", (t, t), t, f)
        yield Form(f"not.b{n} {{d}}, {{a}};", (t,), t, lambda a: ~a)
        yield Form(f"cnot.b{n} {{d}}, {{a}};", (t,), t, lambda a: int(a == 0))
        if n > 16:
            yield Form(f"popc.b{n} {{d}}, {{a}};", (t,), "u32", lambda a: a.bit_count())
            yield Form(f"clz.b{n} {{d}}, {{a}};", (t,), "u32", lambda a, n=n: n - a.bit_length())
            yield Form(
                f"brev.b{n} {{d}}, {{a}};",
                (t,),
                t,
                lambda a, n=n: sum((a >> i & 1) << n - 1 - i for i in range(n)),
            )
            for s in ("u", "s"):
                top = lambda a, n=n: next((i for i in range(n)[::-1] if (a ^ -(a < 0)) >> i & 1), -1)  # noqa: E731
                yield Form(f"bfind.{s}{n} {{d}}, {{a}};", (f"{s}{n}",), "u32", top)
                yield Form(
                    f"bfind.shiftamt.{s}{n} {{d}}, {{a}};",
                    (f"{s}{n}",),
                    "u32",
                    lambda a, n=n, top=top: -1 if top(a) < 0 else n - 1 - top(a),
                )
    for table in (0x00, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF):
        yield Form(
            f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};",
            ("u32",) * 3,
            "u32",
            lambda a, b, c, table=table: sum(
                (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32)
            ),
        )


def _shifts() -> Iterator[Form]:
    for n in (16, 32, 64):
        for k, limit in (("", 80), ("any", None)):
            several = (None, limit, None)
            at = f"// {k}" if k else ""
            yield Form(
                f"shl.b{n} {{d}}, {{a}}, {{b}}; {at}",
                (f"u{n}", "u32"),
                f"u{n}",
                lambda a, b, n=n: a << min(b, n),
                limits=several,
            )
            for s in ("u", "s", "b"):
                t = f"{s}{n}"
                yield Form(
                    f"shr.{t} {{d}}, {{a}}, {{b}}; {at}",
                    (t.replace("b", "u"), "u32"),
                    t,
                    lambda a, b, n=n: a >> min(b, n),
                    limits=several,
                )
        for count in (0, 1, n - 1, n, n + 1, 200, 255, -1):
            m = min(count % 2**32, n)
            yield Form(f"shl.b{n} {{d}}, {{a}}, {count};", (f"u{n}",), f"u{n}", lambda a, m=m: a << m)
            yield Form(f"shr.u{n} {{d}}, {{a}}, {count};", (f"u{n}",), f"u{n}", lambda a, m=m: a >> m)
            yield Form(f"shr.s{n} {{d}}, {{a}}, {count};", (f"s{n}",), f"s{n}", lambda a, m=m: a >> m)
    for limit in (40, None):
        for mode in ("wrap", "clamp"):
            cut = (lambda c: c & 31) if mode == "wrap" else (lambda c: min(c, 32))
            yield Form(
                f"shf.l.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};",
                ("u32",) * 3,
                "u32",
                lambda a, b, c, cut=cut: (b << 32 | a) << cut(c) >> 32,
                limits=(None, None, limit),
            )
            yield Form(
                f"shf.r.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};",
                ("u32",) * 3,
                "u32",
                lambda a, b, c, cut=cut: (b << 32 | a) >> cut(c),
                limits=(None, None, limit),
            )


def _extract(a: int, pos: int, length: int, n: int, signed: bool) -> int:
    """PTX ISA, bfe: bit by bit."""
    pos, length = pos & 255, length & 255
    top = 0 if not signed or length == 0 else a >> min(pos + length - 1, n - 1) & 1
    return sum((a >> pos + i & 1 if i < length and pos + i < n else top) << i for i in range(n))


def _insert(a: int, b: int, pos: int, length: int, n: int) -> int:
    """PTX ISA, bfi: bit by bit."""
    pos, length = pos & 255, length & 255
    inside = range(pos, min(pos + length, n))
    return sum((a >> i - pos & 1 if i in inside else b >> i & 1) << i for i in range(n))


def _permuted(a: int, b: int, c: int, mode: str) -> int:
    """PTX ISA, prmt: bytes numbered 0 to 7 from the lowest of a on."""
    data = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    k = c & 3
    if not mode:
        chosen = [c >> 4 * i & 15 for i in range(4)]
        picked = [data[s & 7] if s < 8 else 255 * (data[s & 7] >> 7) for s in chosen]
        return sum(byte << 8 * i for i, byte in enumerate(picked))
    order = {
        "f4e": [k, k + 1, k + 2, k + 3],
        "b4e": [k, (k - 1) % 8, (k - 2) % 8, (k - 3) % 8],
        "rc8": [k] * 4,
        "ecl": [max(k, i) for i in range(4)],
        "ecr": [min(k, i) for i in range(4)],
        "rc16": [0, 1, 0, 1] if k % 2 == 0 else [2, 3, 2, 3],
    }[mode]
    return sum(data[s] << 8 * i for i, s in enumerate(order))


def _fields() -> Iterator[Form]:
    for n in (32, 64):
        for pos, length in (
            (0, 8),
            (4, 4),
            (7, 0),
            (n - 8, 8),
            (n - 3, 8),
            (n, 4),
            (40, 30),
            (0, n),
            (256, 8),
            (300, 3),
            (8, 255),
            (0, 264),
        ):
            for s in ("u", "s"):
                yield Form(
                    f"bfe.{s}{n} {{d}}, {{a}}, {pos}, {length};",
                    (f"u{n}",),
                    f"u{n}",
                    lambda a, n=n, p=pos, k=length, s=s: _extract(a, p, k, n, s == "s"),
                )
            yield Form(
                f"bfi.b{n} {{d}}, {{a}}, {{b}}, {pos}, {length};",
                (f"u{n}", f"u{n}"),
                f"u{n}",
                lambda a, b, n=n, p=pos, k=length: _insert(a, b, p, k, n),
            )
        for limit in (n + 8, 600):
            for s in ("u", "s"):
                yield Form(
                    f"bfe.{s}{n} {{d}}, {{a}}, {{b}}, {{c}};",
                    (f"u{n}", "u32", "u32"),
                    f"u{n}",
                    lambda a, b, c, n=n, s=s: _extract(a, b, c, n, s == "s"),
                    limits=(None, limit, limit),
                )
    for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield Form(
            f"prmt.b32{'.' + mode if mode else ''} {{d}}, {{a}}, {{b}}, {{c}};",
            ("u32",) * 3,
            "u32",
            lambda a, b, c, mode=mode: _permuted(a, b, c, mode),
        )


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _tests() -> Iterator[Form]:
    for t in _SIZES:
        names = {c: c for c in _COMPARISONS} | (_UNSIGNED if t[0] == "u" else {})
        for name, c in names.items():
            f = _COMPARISONS[c]
            yield Form(
                f"setp.{name}.{t} %p1, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p1;",
                (t, t),
                "u32",
                lambda a, b, f=f: int(f(a, b)),
            )
            yield Form(
                f"setp.{name}.{t} %p1|%p2, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p2;",
                (t, t),
                "u32",
                lambda a, b, f=f: int(not f(a, b)),
            )
            yield Form(
                f"set.{name}.u32.{t} {{d}}, {{a}}, {{b}};",
                (t, t),
                "u32",
                lambda a, b, f=f: -int(f(a, b)),
                known=False,
            )
        yield Form(
            f"setp.gt.{t} %p1, {{a}}, -1; selp.u32 {{d}}, 1, 0, %p1;",
            (t,),
            "u32",
            lambda a, t=t: int(a > _int(-1, t)),
        )
        for combine, g in (
            ("and", lambda x, y: x & y),
            ("or", lambda x, y: x | y),
            ("xor", lambda x, y: x ^ y),
        ):
            yield Form(
                f"setp.ne.{t} %p1, {{a}}, {{c}}; setp.lt.{combine}.{t} %p2|%p3, {{a}}, {{b}}, !%p1;"
                f" selp.u32 %r58, 2, 0, %p3; selp.u32 {{d}}, 1, 0, %p2; or.b32 {{d}}, {{d}}, %r58;",
                (t, t, t),
                "u32",
                lambda a, b, c, g=g: g(a < b, a == c) | 2 * g(a >= b, a == c),
            )
        yield Form(
            f"setp.lt.s32 %p1, {{c}}, 0; selp.{t} {{d}}, {{a}}, {{b}}, %p1;",
            (t, t, "s32"),
            t,
            lambda a, b, c: a if c < 0 else b,
        )
        yield Form(
            f"slct.{t}.s32 {{d}}, {{a}}, {{b}}, {{c}};",
            (t, t, "s32"),
            t,
            lambda a, b, c: a if c >= 0 else b,
            known=False,
        )


def _conversions() -> Iterator[Form]:
    """Between all integer types, into and out of registers that are wider.

    PTX ISA, cvt: the result is chopped, then extended to the register; of a source the lower bits are read.
    """
    types = ("u8", "s8", *_SIZES)
    for of in types:
        for to in types:
            for held in {max(16, int(to[1:])), 32 if int(to[1:]) <= 32 else 64, 64}:
                for source in {max(16, int(of[1:])), 32 if int(of[1:]) <= 32 else 64}:
                    yield Form(f"cvt.{to}.{of} {{d}}, {{a}};", (of,), to, lambda a: a, held, (source,))
            if not forms("cvt", ("sat", to, of)):
                continue  # there is nothing to saturate to
            yield Form(
                f"cvt.sat.{to}.{of} {{d}}, {{a}};",
                (of,),
                to,
                lambda a, to=to: max(_least(to), min(_most(to), a)),
                max(16, int(to[1:])),
                (max(16, int(of[1:])),),
            )


def _least(type_: str) -> int:
    return int(np.iinfo(_dtype(type_)).min)


def _most(type_: str) -> int:
    return int(np.iinfo(_dtype(type_)).max)


def _packing() -> Iterator[Form]:
    yield Form(
        "mov.b32 {{%rs18, %rs19}}, {a}; mov.b32 {d}, {{%rs19, %rs18}};",
        ("u32",),
        "u32",
        lambda a: a >> 16 | a << 16,
    )
    yield Form(
        "mov.b64 {{%r57, %r58}}, {a}; mov.b64 {d}, {{%r58, %r57}};",
        ("u64",),
        "u64",
        lambda a: a >> 32 | a << 32,
    )
    yield Form("mov.b64 {{_, %r58}}, {a}; mov.u32 {d}, %r58;", ("u64",), "u32", lambda a: a >> 32)
    yield Form(
        "mov.b64 {{%rs16, %rs17, %rs18, %rs19}}, {a}; mov.b32 {d}, {{%rs17, %rs18}};",
        ("u64",),
        "u32",
        lambda a: a >> 16,
    )
    yield Form("mov.b32 {d}, {{{a}, {b}}};", ("u16", "u16"), "u32", lambda a, b: a | b << 16)
    yield Form("mov.b64 {d}, {{{a}, {b}}};", ("u32", "u32"), "u64", lambda a, b: a | b << 32)
    # through memory: the lower bits are stored, and extended by the type of the load
    for space in ("shared", "local"):
        for bits, name in (
            (8, "u"),
            (8, "s"),
            (16, "u"),
            (16, "s"),
            (16, "b"),
            (32, "u"),
            (32, "s"),
            (32, "b"),
        ):
            for held in {max(16, bits), 32, 64} if bits < 32 else {32, 64}:
                for source in {max(16, bits), 32, 64} if bits < 32 else {32, 64}:
                    at = "[%r55]" if space == "shared" else "[own]"
                    yield Form(
                        f"st.{space}.b{bits} {at}, {{a}}; ld.{space}.{name}{bits} {{d}}, {at};",
                        (f"{name}{bits}".replace("b", "u"),),
                        f"{name}{bits}".replace("b", "u"),
                        lambda a: a,
                        held,
                        (source,),
                    )
    yield Form(
        "st.local.v2.u16 [own], {{{a}, {b}}}; ld.local.u32 {d}, [own];",
        ("u16", "u16"),
        "u32",
        lambda a, b: a | b << 16,
        sources=(32, 32),
        known=False,
    )
    yield Form(
        "st.local.u32 [own], {a}; ld.local.v4.s8 {{_, %r57, _, {d}}}, [own];",
        ("u32",),
        "s32",
        lambda a: _int(a >> 24, "s8"),
        known=False,
    )


def _carries() -> Iterator[Form]:
    for n, r in ((32, "%r"), (64, "%rd")):
        w, t = f"{r}38" if n == 64 else f"{r}58", f"u{n}"
        yield Form(
            f"add.cc.u{n} {w}, {{a}}, {{b}}; addc.u{n} {{d}}, {{c}}, 0;",
            (t, t, t),
            t,
            lambda a, b, c, n=n: c + (a + b >> n),
        )
        yield Form(
            f"add.cc.u{n} {w}, {{a}}, {{b}}; addc.cc.u{n} {w}, {{c}}, {{a}}; addc.u{n} {{d}}, 0, 0;",
            (t, t, t),
            t,
            lambda a, b, c, n=n: (c + a + (a + b >> n)) >> n,
        )
        yield Form(
            f"sub.cc.u{n} {w}, {{a}}, {{b}}; subc.u{n} {{d}}, {{c}}, 0;",
            (t, t, t),
            t,
            lambda a, b, c: c - (a < b),
        )
        yield Form(
            f"sub.cc.u{n} {w}, {{a}}, {{b}}; subc.cc.u{n} {w}, {{c}}, {{a}}; subc.u{n} {{d}}, 7, 0;",
            (t, t, t),
            t,
            lambda a, b, c: 7 - (c - a - (a < b) < 0),
        )
        yield Form(
            f"mad.lo.cc.u{n} {w}, {{a}}, {{b}}, {{c}}; madc.hi.u{n} {{d}}, {{a}}, {{b}}, 0;",
            (t, t, t),
            t,
            lambda a, b, c, n=n: (a * b + c) >> n,
        )
        yield Form(
            f"mad.hi.cc.u{n} {w}, {{a}}, {{b}}, {{c}}; addc.u{n} {{d}}, 0, 0;",
            (t, t, t),
            t,
            lambda a, b, c, n=n: ((a * b >> n) + c) >> n,
        )


def _register(bits: int, number: int) -> str:
    return {16: "%rs", 32: "%r", 64: "%rd"}[max(bits, 16)] + str(number)


def _edges(type_: str) -> list[int]:
    n = int(type_[1:])
    top = 1 << n
    return sorted(
        {
            x % top
            for x in (
                0,
                1,
                2,
                3,
                7,
                8,
                31,
                32,
                33,
                63,
                64,
                127,
                128,
                255,
                256,
                -1,
                -2,
                -8,
                top // 2,
                top // 2 - 1,
                top // 2 + 1,
                top - 100,
            )
        }
    )


def _operands(form: Form, draw: random.Random) -> list[Numbers]:
    out = []
    for k, t in enumerate(form.reads):
        limit, n = form.limits[k], int(t[1:])
        edges = _edges(t) if limit is None else list(range(limit))
        top = limit or 1 << n
        out.append([draw.choice(edges) if draw.random() < 0.7 else draw.randrange(top) for _ in range(LANES)])
    return out


def found_and_meant(forms: Sequence[Form], seed: int) -> list[tuple[Form, int, Any, int]]:
    """Per form and lane what the front end has, and what the ISA says, as bits of the register."""
    draw = random.Random(seed)
    body, values, names, ends, rows = [], {}, [], [], []
    for k, form in enumerate(forms):
        operands = _operands(form, draw)
        named = {}
        for at, (letter, numbers, type_) in enumerate(zip("abc", operands, form.reads, strict=False)):
            bits = form.sources[at] if form.sources else max(int(type_[1:]), 16)
            name = f"i{k}_{letter}"
            named[letter] = f"%i{bits}_{k}_{at}"
            above = [draw.getrandbits(64) if bits > int(type_[1:]) >= 8 else 0 for _ in numbers]
            held = [(x | y << int(type_[1:])) % (1 << bits) for x, y in zip(numbers, above, strict=True)]
            values[name] = per_lane(held)
            names.append(f".reg .b{bits} {named[letter]};")
            body.append(f"ld.param.u{bits} {named[letter]}, [{name}];")
            ends.append(f".param .u{bits} {name}")
        bits = form.held or max(int(form.writes[1:]), 16)
        out = f"%o{bits}_{k}"
        names.append(f".reg .b{bits} {out};")
        body.append(form.text.format(d=out, **named))
        rows.append((form, operands, bits, out))
    body.append("bar.sync 0;")
    for k, (_, _, bits, out) in enumerate(rows):
        body.append(f"cvt.u32.u{bits} %r56, {out}; setp.eq.u32 %p4, %r56, {k}; @%p4 bar.sync 1;")
        body.append(f"cvt.u64.u{bits} %rd37, {out}; shr.u64 %rd37, %rd37, 32; cvt.u32.u64 %r56, %rd37;")
        body.append(f"setp.eq.u32 %p4, %r56, {k}; @%p4 bar.sync 1;")
    text = "\n".join(
        [
            ".shared .align 8 .b8 cell[256]; .local .align 8 .b8 own[8];",
            *names,
            "mov.u32 %r54, %laneid; mov.u32 %r55, cell; mad.lo.u32 %r55, %r54, 8, %r55;",
            *body,
            "ret;",
        ]
    )
    s = system(text, LANES, values, params=", ".join(ends))
    results = []
    held_by = _at_barrier(s, [out for *_, out in rows])
    for form, operands, bits, out in rows:
        held = held_by[out]
        for lane, row in enumerate(zip(*operands, strict=True)):
            numbers = [_int(x, t) for x, t in zip(row, form.reads, strict=True)]
            if form.text.startswith(("div", "rem")) and numbers[1] == 0:
                continue
            result = _bits(form.rule(*numbers), int(form.writes[1:]))
            meant = _bits(_int(result, form.writes.replace("b", "u")), bits)
            results.append((form, lane, held[lane], meant))
    return results


def _at_barrier(s: PtxSystem, registers: Sequence[str]) -> dict[str, list[Any]]:
    """What each lane holds in some registers when it comes to the barrier."""
    out: dict[str, list[Any]] = {name: [None] * LANES for name in registers}
    for c, agent in zip(s.info.classes, s.agents(), strict=True):
        while agent.step(0)[0] is not Ev.BARRIER_SYNC:
            pass
        for name, lanes in out.items():
            held = lanes_of(agent.r[s.program.slots[name]])
            lanes[:] = [held[i] if c.lanes >> i & 1 else x for i, x in enumerate(lanes)]
    return out


FORMS = list(_forms())


@pytest.mark.parametrize("part", range(8))
def test_what_a_register_holds_is_what_the_isa_says(part: int) -> None:
    forms = FORMS[part::8]
    wrong = []
    for form, lane, found, meant in found_and_meant(forms, part):
        if found.__class__ in (int, bool):
            if found != meant:
                wrong.append(f"{form.text}  lane {lane}: {found:#x}, the ISA says {meant:#x}")
        elif form.known:
            wrong.append(f"{form.text}  lane {lane}: {found!r}, the ISA says {meant:#x}")
    assert not wrong, "\n".join(wrong[:20])
