"""Programs of one warp whose lanes meet at collectives, at one line or at several, beside a model of lanes.

A warp goes two or three ways, by its lanes' numbers or by data. On each way stand collectives in a row, with
a mask of all lanes, of those on this way, or one that an earlier collective brought. What they bring is
stored, places a store in shared memory, decides about a further collective, or is its mask. The model runs
lanes one by one in Python: a lane waits until each lane that it names waits for it in turn, with the same
instruction but for its registers, and the same mask (PTX ISA, shfl.sync). It knows neither classes of lanes
nor lines, and nothing of the two readers is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

LANES = 32
ALL = (1 << LANES) - 1
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
.reg .pred %p<60>;
.reg .b32 %r<90>;
.reg .b64 %rd<8>;
.shared .align 4 .b8 s[128];
ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd3, %r0, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
ld.global.u32 %r2, [%rd4];
and.b32 %r1, %r2, 1; setp.ne.u32 %p1, %r1, 0;
mov.u32 %r3, s; mad.lo.u32 %r3, %r0, 4, %r3;
mov.u32 %r4, 0; mov.u32 %r5, 0;
and.b32 %r8, %r0, 1; setp.ne.u32 %p6, %r8, 0; setp.ne.u32 %p4, %r4, 0; setp.eq.u32 %p5, %r4, 0;
{body}
E:
bar.warp.sync -1;
st.global.u32 [%rd5], %r4; st.global.u32 [%rd5+128], %r5;
ret;
}}
"""
#: What stands between the name of a collective and its mask: the result, then what a lane gives. Those of
#: ``pred`` have a predicate as result, the others a word.
WORDS = {
    "vote.sync.ballot.b32": "{to}, {asks}",
    "match.any.sync.b32": "{to}, {give}",
    "redux.sync.or.b32": "{to}, {give}",
    "redux.sync.max.u32": "{to}, {give}",
    "shfl.sync.bfly.b32": "{to}, {give}, 16, 31",
    "shfl.sync.idx.b32": "{to}, {give}, 3, 31",
    "shfl.sync.up.b32": "{to}, {give}, 1, 0",
    "vote.sync.any.pred": "%p{p}, {asks}",
    "vote.sync.all.pred": "%p{p}, {asks}",
}
#: What may become of a result.
USES = ("store", "store", "store", "place", "mask", "decide")


@dataclass(frozen=True)
class Met:
    """A collective. ``give``: what lanes give it, the bit of data, the lane's number, or a number. ``mask``:
    the lanes, or a way's own ones, or those of a collective before. ``only``: by lanes of a set bit alone."""

    name: str
    give: str
    mask: str
    to: int
    use: str
    only: bool = False


@dataclass(frozen=True)
class Program:
    """``by``: what decides about the way. ``ways``: the collectives of each."""

    by: str
    ways: tuple[tuple[Met, ...], ...]

    def way(self, lane: int, bit: int) -> int:
        """The way of a lane."""
        if self.by == "data":
            return bit
        if self.by == "odd":
            return lane & 1
        return int(lane >= 16) if len(self.ways) == 2 else min(lane >> 3, 2)

    def own(self, way: int) -> int:
        """The lanes of a way, where data does not decide; those of the lower half else."""
        if self.by == "data":
            return 0xFFFF if way else 0xFFFF0000
        return sum(1 << n for n in range(LANES) if self.way(n, 0) == way)

    def text(self) -> str:
        out = {
            "half": "setp.ge.u32 %p2, %r0, 16;" if len(self.ways) == 2 else "",
            "odd": "and.b32 %r7, %r0, 1; setp.ne.u32 %p2, %r7, 0;",
            "data": "setp.ne.u32 %p2, %r1, 0;",
        }[self.by]
        if len(self.ways) == 3:
            out = "setp.ge.u32 %p3, %r0, 16; setp.ge.u32 %p2, %r0, 8; @%p3 bra W2; @%p2 bra W1;\n"
        else:
            out += " @%p2 bra W1;\n"
        n = 0
        for way, row in enumerate(self.ways):
            out += f"W{way}:\n"
            before = ""
            for m in row:
                n += 1
                line = self._line(m, way, n, before)
                before = f"%r{20 + n}" if m.use == "mask" else before
                out += f"@!%p1 bra O{n};\n{line}O{n}:\n" if m.only else line
            out += "bra E;\n"
        return TEXT.format(body=out.removesuffix("bra E;\n"))

    def _line(self, m: Met, way: int, n: int, before: str) -> str:
        stored = m.use == "store" and not m.name.endswith("pred")
        r, p = f"%r{m.to if stored else 20 + n}", 20 + n
        give = {"bit": "%r1", "lane": "%r0", "zero": f"%r{50 + n}", "large": f"%r{50 + n}"}[m.give]
        asks = {"bit": "%p1", "lane": "%p6", "zero": "%p4", "large": "%p5"}[m.give]
        mask = {"all": "-1", "own": hex(self.own(way)), "before": before}[m.mask]
        out = ""
        if m.give in ("zero", "large"):
            out += f"mov.u32 {give}, {0 if m.give == 'zero' else 1 << 20};\n"
        out += f"{m.name} {WORDS[m.name].format(to=r, give=give, asks=asks, p=p)}, {mask};\n"
        if m.name.endswith("pred"):
            out += f"selp.u32 {r}, 1, 0, %p{p};\n"
        match m.use:
            case "store" if not stored:
                out += f"mov.u32 %r{m.to}, {r};\n"
            case "place":
                out += f"shr.u32 {r}, {r}, 5; shl.b32 {r}, {r}, 7; add.u32 {r}, {r}, %r3;"
                out += f" st.shared.u32 [{r}], %r0;\n"
            case "decide":
                out += (
                    f"setp.eq.u32 %p{40 + n}, {r}, 0; @%p{40 + n} bra N{n};\n"
                    f"vote.sync.any.pred %p50, %p1, -1;\nN{n}:\n"
                )
        return out


def program(seed: int) -> Program:
    draw = Random(seed)
    by = draw.choice(("half", "half", "half", "odd", "odd", "data"))
    many = 3 if by == "half" and draw.random() < 0.25 else 2
    masks = draw.choice((("all",), ("all",), ("own",), ("all", "own")))
    gives = draw.choice((("zero", "large"), ("zero", "large"), ("bit", "lane", "zero", "large")))

    def met(ahead: list[Met]) -> Met:
        name = draw.choice(list(WORDS))
        made = any(m.use == "mask" for m in ahead)
        mask = "before" if made and draw.random() < 0.7 else draw.choice(masks)
        use = draw.choice(USES)
        if name.endswith("pred") and use in ("mask",):
            use = "store"
        return Met(name, draw.choice(gives), mask, draw.choice((4, 5)), use)

    def row(most: int) -> tuple[Met, ...]:
        found: list[Met] = []
        for _ in range(draw.randint(1, most)):
            found.append(met(found))
        return tuple(found)

    if draw.random() < 0.4:
        asks = draw.choice(("vote.sync.ballot.b32", "match.any.sync.b32"))
        who = draw.choice(("all", "all", "own"))
        return Program(by, tuple(_masks(draw, asks, who) for _ in range(many)))
    first = row(2)
    ways = [first]
    for _ in range(many - 1):
        # the other way has the same collectives, most often, and makes something else of them
        other = [
            replace(
                m,
                give=draw.choice((m.give, *gives)),
                use=draw.choice((m.use, "store")),
                name=m.name if draw.random() < 0.93 else draw.choice(list(WORDS)),
            )
            for m in first
        ]
        if draw.random() < 0.1:
            other = other[:-1] or list(row(1))
        ways.append(tuple(other))
    return Program(by, tuple(map(_named, ways)))


def _named(row: tuple[Met, ...]) -> tuple[Met, ...]:
    """A way whose collectives have a mask by an earlier one only if that brings one."""
    brought = [any(m.use == "mask" for m in row[:n]) for n in range(len(row))]
    return tuple(
        replace(m, mask="own") if m.mask == "before" and not b else m
        for m, b in zip(row, brought, strict=True)
    )


def _masks(draw: Random, asks: str, who: str) -> tuple[Met, ...]:
    """Lanes that ask who else has their bit, and most often name these in a further collective."""
    first = Met(asks, "bit", who, 4, draw.choice(("mask", "store")))
    name = draw.choice(
        ("redux.sync.or.b32", "redux.sync.max.u32", "vote.sync.any.pred", "match.any.sync.b32")
    )
    mask = "before" if first.use == "mask" else "own"
    then = Met(name, draw.choice(("bit", "lane", "zero")), mask, 5, "store", only=asks.startswith("vote"))
    return (first, then) if draw.random() < 0.8 else (first,)


#: A lane may read from one that does not take part, and what it gets is open (PTX ISA, shfl.sync).
OPEN = "what a lane brings that does not take part decides"
OUTSIDE = "a store lies outside"


class HarmError(Exception):
    """A lane comes to what the ISA does not define, or stores outside of its array."""


@dataclass
class Lane:
    """A lane under way: the next collective of its way, whether it is at a vote that data decides about, and
    the last mask that a collective brought."""

    way: int
    bit: int
    at: int = 0
    voting: bool = False
    mask: int | None = 0


def harm(p: Program, bits: list[int]) -> str:
    """What goes wrong with such data, one bit for each lane; nothing if all lanes come to the end."""
    lanes = [Lane(p.way(n, bits[n]), bits[n]) for n in range(LANES)]
    try:
        while True:
            asked = [_asked(p, n, x) for n, x in enumerate(lanes)]
            if all(x is None for x in asked):
                return ""
            for n, x in enumerate(asked):
                if x is not None and not x[1] >> n & 1:
                    raise HarmError("a lane is not in its own mask")
            ready = next((x for n, x in enumerate(asked) if x is not None and _ready(x, asked)), None)
            if ready is None:
                return "lanes hang"
            _meet(p, bits, lanes, [n for n in range(LANES) if ready[1] >> n & 1], ready)
    except HarmError as e:
        return str(e)


Asked = tuple[str, int]


def _asked(p: Program, n: int, x: Lane) -> Asked | None:
    """The collective that a lane waits at, and the lanes that it names; None at the end."""
    if x.voting:
        return "vote.sync.any.pred", ALL
    way = p.ways[x.way]
    while x.at < len(way) and way[x.at].only and not x.bit:
        x.at += 1
    if x.at == len(way):
        return None
    m = way[x.at]
    mask = {"all": ALL, "own": p.own(x.way), "before": x.mask}[m.mask]
    if mask is None:
        raise HarmError(OPEN)
    return m.name, mask


def _ready(x: Asked, asked: list[Asked | None]) -> bool:
    return all(asked[n] == x for n in range(LANES) if x[1] >> n & 1)


def _meet(p: Program, bits: list[int], lanes: list[Lane], who: list[int], x: Asked) -> None:
    given, asked = dict[int, int](), dict[int, int]()
    for n in who:
        m = None if lanes[n].voting else p.ways[lanes[n].way][lanes[n].at]
        given[n] = bits[n] if m is None else {"bit": bits[n], "lane": n, "zero": 0, "large": 1 << 20}[m.give]
        asked[n] = given[n] & 1 if m is not None and m.give == "lane" else int(given[n] != 0)
    for n in who:
        lane = lanes[n]
        if lane.voting:
            lane.voting, lane.at = False, lane.at + 1
            continue
        m = p.ways[lane.way][lane.at]
        result = _result(m.name, n, who, given, asked)
        if result is None and m.use in ("place", "decide"):
            raise HarmError(OPEN)
        if m.use == "place" and result is not None and result >> 5:
            raise HarmError(OUTSIDE)
        if m.use == "mask":
            lane.mask = result
        if m.use == "decide" and result:
            lane.voting = True
        else:
            lane.at += 1


def _result(name: str, n: int, who: list[int], given: dict[int, int], asked: dict[int, int]) -> int | None:
    """What a lane gets; None where the ISA leaves it open."""
    match name.split("."):
        case ["vote", _, "ballot", *_]:
            return sum(asked[m] << m for m in who)
        case ["vote", _, "any", *_]:
            return int(any(asked[m] for m in who))
        case ["vote", _, "all", *_]:
            return int(all(asked[m] for m in who))
        case ["match", *_]:
            return sum(1 << m for m in who if given[m] == given[n])
        case ["redux", _, "or", *_]:
            found = 0
            for m in who:
                found |= given[m]
            return found
        case ["redux", *_]:
            return max(given[m] for m in who)
        case ["shfl", _, how, *_]:
            source = {"bfly": n ^ 16, "idx": 3, "up": n - 1 if n else n}[how]
            return given.get(source)
    raise AssertionError(name)


def inputs(seed: int) -> list[list[int]]:
    """Bits of data: all alike, by half, by turns, and some that are drawn."""
    draw = Random(seed)
    fixed = [[0] * LANES, [1] * LANES, [n >> 4 for n in range(LANES)], [n & 1 for n in range(LANES)]]
    return (
        fixed
        + [[1 - b for b in x] for x in fixed[2:]]
        + [[draw.randrange(2) for _ in range(LANES)] for _ in range(4)]
    )
