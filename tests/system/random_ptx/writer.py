"""Writes PTX by pieces: registers, numbers by devious ways, and mistakes that are made on purpose.

Numbers that a protocol needs (parities, counts, places) are rarely constants: each comes by one of many ways
through memory, bits, calls or other lanes, all of which give the same number in a right program.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
FUNCTION = """.func (.param .b32 r) pass(.param .b32 a)
{
    .reg .b32 %q<4>;
    .reg .pred %z<2>;
    ld.param.u32 %q1, [a];
    setp.gt.s32 %z1, %q1, 1000000;
    @%z1 bra BIG;
    st.param.b32 [r], %q1;
    ret;
BIG:
    sub.u32 %q1, %q1, 1;
    st.param.b32 [r], %q1;
    ret;
}
"""


@dataclass(frozen=True)
class Open:
    """A size that the checker is not given. ``values``: those that are executed."""

    values: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """A pointer to a word of which the checker is told what it holds at launch: a counter."""

    word: int


@dataclass(frozen=True)
class Mapped:
    """A tensor map; executions have a box of so many bytes."""

    bytes: int


#: A parameter: a number, an open size, a pointer to a counter, a tensor map, None for any other pointer.
Parameter = int | Open | Held | Mapped | None


@dataclass
class Program:
    """A program, how it is launched, and what is wrong with it on purpose ('' for nothing).

    ``grids``: numbers of blocks that are executed; empty: one cluster, which
    the checker knows. ``contents``: what the first buffer may hold in executions, again and again; empty:
    any words. ``of_host``: the host keeps to that, and the checker is not told.
    """

    text: str
    block: int
    cluster: int
    params: list[Parameter]
    mistake: str
    family: str
    seed: int
    grids: tuple[int, ...] = ()
    by_data: bool = False  # what the input holds steers
    contents: tuple[tuple[int, ...], ...] = ()
    of_host: bool = False
    outcome: bool = False  # a right program leaves the same bytes in every execution
    blocks: int = 0  # of a grid that the checker knows, whose blocks hand data over; 0: one cluster
    gives_boxes: bool = False  # the launch file has the boxes of tensor maps; otherwise they are inferred

    @property
    def facts(self) -> dict[str, object]:
        """The launch facts: an open size has a name and no number."""
        kept = [(i, p) for i, p in enumerate(self.params) if self.gives_boxes or not isinstance(p, Mapped)]
        given = {str(i): _fact(i, p) for i, p in kept}
        grid = "BLOCKS" if self.grids else self.blocks or self.cluster
        return {"block": [self.block], "grid": [grid], "cluster": [self.cluster], "params": given}

    @property
    def is_open(self) -> bool:
        """Whether something that steers has no number."""
        return self.by_data or bool(self.grids) or any(isinstance(p, Open) for p in self.params)


def _fact(i: int, p: Parameter) -> object:
    """What a launch file says of a parameter."""
    match p:
        case None:
            return "ptr"
        case Held(word):
            return {"ptr": f"H{i}", "holds": [{"i32": word}]}
        case Open():
            return {"u32": f"N{i}"}
        case Mapped(size):
            return {"tensormap": f"M{i}", "bytes": size}
    return {"u32": p}


def _declared(name: str, p: Parameter) -> str:
    if isinstance(p, Mapped):
        return f".param .align 64 .b8 {name}[128]"
    return f".param .u{64 if p is None or isinstance(p, Held) else 32} {name}"


@dataclass
class Writer:
    """Collects lines. ``mistake`` names the one that is made; ``mistakes`` lists those that could be."""

    seed: int
    mistake: str = ""
    draw: random.Random = field(init=False)
    lines: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    shared: list[tuple[str, int, int]] = field(default_factory=list)
    params: list[Parameter] = field(default_factory=lambda: [None, None])
    grids: tuple[int, ...] = ()
    table: list[tuple[str, int, int]] = field(default_factory=list)  # of the role table: store, byte, value
    calls: bool = False
    devious: float = 0.5

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.devious = self.draw.choice([0.1, 0.4, 0.7])

    # -- mistakes -----------------------------------------------------------------------------------------

    def wrong(self, name: str) -> bool:
        """Whether this mistake is made here; asking makes it one that could be."""
        if name not in self.mistakes:
            self.mistakes.append(name)
        return self.mistake == name

    def off(self, name: str, value: int, *others: int) -> int:
        """A number, or a wrong one."""
        return self.draw_other(value, others) if self.wrong(name) else value

    def draw_other(self, value: int, others: tuple[int, ...]) -> int:
        return others[self.seed % len(others)] if others else value + 1

    # -- text ---------------------------------------------------------------------------------------------

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def fresh(self, kind: str) -> str:
        """A register: r (32 bits), d (64), h (16), p (predicate)."""
        n = self.counts[kind] = self.counts.get(kind, 0) + 1
        return {"r": "%r", "d": "%rd", "h": "%h", "p": "%p"}[kind] + str(n)

    def label(self, name: str = "L") -> str:
        n = self.counts["label"] = self.counts.get("label", 0) + 1
        return f"{name}_{n}"

    def room(self, name: str, size: int, align: int = 16) -> str:
        self.shared.append((name, size, align))
        return name

    def open_size(self, *values: int) -> str:
        """A register with a size that the checker is not given."""
        self.params.append(Open(values))
        r = self.fresh("r")
        self.emit(f"ld.param.u32 {r}, [k_p{len(self.params) - 1}];")
        return r

    def counter(self) -> str:
        """A register with a pointer to a word that is zero at launch."""
        self.params.append(Held(0))
        d = self.fresh("d")
        self.emit(f"ld.param.u64 {d}, [k_p{len(self.params) - 1}];")
        return d

    def tensor_map(self, size: int) -> str:
        """A register with the address of a tensor map whose box has so many bytes."""
        self.params.append(Mapped(size))
        d, place = self.fresh("d"), self.fresh("d")
        self.emit(f"mov.b64 {place}, k_p{len(self.params) - 1};", f"cvta.param.u64 {d}, {place};")
        return d

    def chance(self, p: float) -> bool:
        return self.draw.random() < p

    # -- numbers ------------------------------------------------------------------------------------------

    def number(self, value: int, uniform: bool = True) -> str:
        """A register that holds a number of 32 bits, or the number itself."""
        if not self.chance(self.devious):
            return str(value)
        ways = [
            self._by_sum, self._by_product, self._by_bits, self._by_narrow, self._by_local, self._by_pack,
            self._by_choice, self._by_parameter, self._by_permute, self._by_convert, self._by_field,
            self._by_funnel, self._by_logic,
        ]  # fmt: skip
        if self.chance(0.02):
            ways = [self._by_call]  # seldom: the front end follows no calls
        if uniform:
            ways += [self._by_lane, self._by_lane]
        if self.table_ready and 0 <= value < 128:
            ways += [self._by_table] * 4
        return self.draw.choice(ways)(value)

    table_ready: bool = False

    def constant(self, value: int) -> str:
        r = self.fresh("r")
        self.emit(f"mov.u32 {r}, {value & 0xFFFFFFFF};")
        return r

    def _by_sum(self, v: int) -> str:
        """A sum that wraps around."""
        k = self.draw.getrandbits(32)
        a, r = self.constant(v - k), self.fresh("r")
        self.emit(f"add.{self.draw.choice(['u32', 's32'])} {r}, {a}, {k if k < 2**31 else k - 2**32};")
        return r

    def _by_product(self, v: int) -> str:
        """A product by an odd number, undone by its inverse."""
        k = self.draw.getrandbits(32) | 1
        a, r = self.constant(v * pow(k, -1, 2**32)), self.fresh("r")
        self.emit(f"mul.lo.s32 {r}, {a}, {k if k < 2**31 else k - 2**32};")
        return r

    def _by_bits(self, v: int) -> str:
        n = self.draw.randint(1, 12)
        a, b, r = self.constant(v << n | self.draw.getrandbits(n)), self.fresh("r"), self.fresh("r")
        if v >> (32 - n):
            return self._by_sum(v)
        self.emit(f"mov.u32 {b}, {n};", f"shr.u32 {r}, {a}, {b};")
        return r

    def _by_narrow(self, v: int) -> str:
        """A value cut to 8 or 16 bits and extended again."""
        if not 0 <= v < 128:
            return self._by_pack(v)
        h, r = self.fresh("h"), self.fresh("r")
        a = self.constant(v | self.draw.getrandbits(16) << 8)
        if self.chance(0.5):
            self.emit(f"cvt.u16.u32 {h}, {a};", f"cvt.{self.draw.choice(['u32.u8', 's32.s8'])} {r}, {h};")
        else:
            self.emit(f"cvt.s32.s8 {r}, {a};")
        return r

    def _by_convert(self, v: int) -> str:
        d, r = self.fresh("d"), self.fresh("r")
        a = self.constant(v)
        self.emit(f"cvt.{self.draw.choice(['s64.s32', 'u64.u32'])} {d}, {a};", f"cvt.u32.u64 {r}, {d};")
        return r

    def _by_local(self, v: int) -> str:
        """A spill: stored in one width, loaded in another."""
        r = self.fresh("r")
        at = 8 * self.draw.randrange(8)
        form = self.draw.randrange(4)
        if form == 0 and 0 <= v < 128:
            a = self.constant(v | self.draw.getrandbits(24) << 8)
            self.emit(
                f"st.local.u8 [spill+{at}], {a};",
                f"ld.local.{self.draw.choice(['u8', 's8'])} {r}, [spill+{at}];",
            )
        elif form == 1 and 0 <= v < 32768:
            a = self.constant(v << 16 | self.draw.getrandbits(16))
            self.emit(
                f"st.local.u32 [spill+{at}], {a};",
                f"ld.local.{self.draw.choice(['u16', 's16'])} {r}, [spill+{at + 2}];",
            )
        elif form == 2:
            a, b = self.constant(self.draw.getrandbits(32)), self.constant(v)
            d = self.fresh("d")
            self.emit(f"st.local.v2.u32 [spill+{at}], {{{a}, {b}}};", f"ld.local.u64 {d}, [spill+{at}];")
            self.emit(f"shr.u64 {d}, {d}, 32;", f"cvt.u32.u64 {r}, {d};")
        else:
            a, d = self.constant(v), self.fresh("d")
            self.emit(f"mov.u64 {d}, spill;", f"cvta.local.u64 {d}, {d};", f"st.u32 [{d}+{at}], {a};")
            self.emit(f"ld.u32 {r}, [{d}+{at}];")
        return r

    def _by_pack(self, v: int) -> str:
        a, d, r, x = (
            self.constant(v),
            self.fresh("d"),
            self.fresh("r"),
            self.constant(self.draw.getrandbits(31)),
        )
        first = self.chance(0.5)
        pair = f"{a}, {x}" if first else f"{x}, {a}"
        parts = f"{r}, _" if first else f"_, {r}"
        self.emit(f"mov.b64 {d}, {{{pair}}};", f"mov.b64 {{{parts}}}, {d};")
        return r

    def _by_choice(self, v: int) -> str:
        p, r = self.fresh("p"), self.fresh("r")
        k = self.draw.randint(0, 9)
        a, b = self.constant(v), self.constant(v + self.draw.randint(1, 9))
        how, first = self.draw.choice(
            [("lt.s32", True), ("gt.u32", False), ("ne.u32", True), ("eq.s32", False)]
        )
        x = self.constant(k)
        self.emit(f"setp.{how} {p}, {x}, {k + 1};")
        self.emit(f"selp.b32 {r}, {a if first else b}, {b if first else a}, {p};")
        return r

    def _by_parameter(self, v: int) -> str:
        self.params.append(v & 0xFFFFFFFF)
        r = self.fresh("r")
        name = f"k_p{len(self.params) - 1}"
        if 0 <= v < 128 and self.chance(0.4):
            self.emit(f"ld.param.{self.draw.choice(['u8', 's8', 'u16', 's16'])} {r}, [{name}];")
        else:
            self.emit(f"ld.param.u32 {r}, [{name}];")
        return r

    def _by_permute(self, v: int) -> str:
        """The bytes in another order, put right by prmt."""
        order = [0, 1, 2, 3]
        self.draw.shuffle(order)
        data = v & 0xFFFFFFFF
        mixed = sum((data >> 8 * i & 255) << 8 * order[i] for i in range(4))
        side = self.chance(0.5)
        control = sum((order[i] + 4 * side) << 4 * i for i in range(4))
        a, b, r = self.constant(mixed), self.constant(self.draw.getrandbits(32)), self.fresh("r")
        self.emit(f"prmt.b32 {r}, {b if side else a}, {a if side else b}, {control};")
        return r

    def _by_field(self, v: int) -> str:
        if not 0 <= v < 256:
            return self._by_permute(v)
        at = self.draw.randint(0, 20)
        mess = self.draw.getrandbits(32) & ~(0x1FF << at)
        r = self.fresh("r")
        if self.chance(0.5):
            a = self.constant(mess | v << at)
            self.emit(f"bfe.{self.draw.choice(['u32', 's32'])} {r}, {a}, {at}, 9;")
        else:
            a, b = self.constant(mess), self.constant(v)
            x = self.fresh("r")
            self.emit(
                f"bfi.b32 {x}, {b}, {a}, {at}, 9;", f"shr.u32 {x}, {x}, {at};", f"and.b32 {r}, {x}, 511;"
            )
        return r

    def _by_funnel(self, v: int) -> str:
        n = self.draw.randint(1, 31)
        data = (v & 0xFFFFFFFF) << n
        low, high, r = self.constant(data), self.constant(data >> 32), self.fresh("r")
        self.emit(f"shf.r.{self.draw.choice(['clamp', 'wrap'])}.b32 {r}, {low}, {high}, {n};")
        return r

    def _by_logic(self, v: int) -> str:
        x, y = self.draw.getrandbits(32), self.draw.getrandbits(32)
        a, b, c, r = self.constant(x), self.constant(y), self.constant(x ^ y ^ v), self.fresh("r")
        self.emit(f"lop3.b32 {r}, {a}, {b}, {c}, 0x96;")
        return r

    def _by_call(self, v: int) -> str:
        if not 0 <= v < 1000000:
            return self._by_logic(v)
        self.calls = True
        a, r = self.constant(v), self.fresh("r")
        self.emit("{", ".param .b32 pa;", ".param .b32 pr;", f"st.param.b32 [pa], {a};")
        self.emit("call.uni (pr), pass, (pa);", f"ld.param.b32 {r}, [pr];", "}")
        return r

    def _by_lane(self, v: int) -> str:
        """One lane has it, and hands it to all."""
        lane = self.draw.randrange(32)
        p, a, r = self.fresh("p"), self.fresh("r"), self.fresh("r")
        self.emit(f"setp.eq.u32 {p}, %lane, {lane};", f"selp.b32 {a}, {v}, {self.draw.randint(0, 99)}, {p};")
        if self.chance(0.7):
            self.emit(f"shfl.sync.idx.b32 {r}, {a}, {lane}, 31, -1;")
        else:
            self.emit(
                f"@!{p} mov.u32 {a}, 0;",
                f"redux.sync.{self.draw.choice(['add.u32', 'or.b32'])} {r}, {a}, -1;",
            )
        return r

    def _by_table(self, v: int) -> str:
        """A byte or a word of the table that the prologue has written to shared memory."""
        at = 4 * len(self.table)
        r = self.fresh("r")
        kind = self.draw.choice(["u8", "s8", "u16", "u32"])
        if at >= 256:
            return self._by_logic(v)
        if kind in ("u8", "s8"):
            self.table.append((f"st.shared.u8 [table+{at}], VALUE;", at, v | self.draw.getrandbits(20) << 8))
        else:
            self.table.append((f"st.shared.u32 [table+{at}], VALUE;", at, v))
        self.emit(f"ld.shared.{kind} {r}, [table+{at}];")
        return r

    # -- the whole ----------------------------------------------------------------------------------------

    def finished(self, family: str, block: int, cluster: int = 1) -> Program:
        """The program: declarations, the prologue (thread, lane, warp, role table), and the lines."""
        self.shared.append(("table", 256, 16))
        store: list[str] = []
        for line, _, value in self.table:
            store += [f"mov.u32 %tv, {value};", line.replace("VALUE", "%tv")]
        body = "\n    ".join(x for line in self.lines for x in (store if line == "TABLE" else [line]))
        shared = "\n".join(f"    .shared .align {a} .b8 {n}[{s}];" for n, s, a in self.shared)
        params = ", ".join(_declared(f"k_p{i}", p) for i, p in enumerate(self.params))
        c = self.counts
        floats = "    .reg .f32 %a<4>;\n" if "%a0" in body else ""
        text = f"""{HEADER}{FUNCTION if self.calls else ""}.visible .entry k({params})
{{
    .reg .pred %p<{c.get("p", 0) + 1}>;
    .reg .b16 %h<{c.get("h", 0) + 1}>;
    .reg .b32 %r<{c.get("r", 0) + 1}>, %thr, %lane, %warp, %tv;
    .reg .b64 %rd<{c.get("d", 0) + 1}>, %in, %out;
{floats}    .local .align 8 .b8 spill[64];
{shared}
    ld.param.u64 %in, [k_p0];
    ld.param.u64 %out, [k_p1];
    mov.u32 %thr, %tid.x;
    and.b32 %lane, %thr, 31;
    shr.u32 %warp, %thr, 5;
    {body}
    ret;
}}
"""
        return Program(text, block, cluster, self.params, self.mistake, family, self.seed, self.grids)
