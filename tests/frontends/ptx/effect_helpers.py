"""Lines of PTX into events; registers take their values from keyword arguments (``%a`` from ``a``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.frontends.ptx.decode.effects import Effect, MapFacts, Opaque, Unsupported
from syncverify.frontends.ptx.decode.table import decode
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Mem, Operand, Reg
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.ir.footprints import Range
from syncverify.model.events import Ev, Event, Footprint

_SHARED = 1 << 60
_REGISTER = re.compile(r"%[a-z]\w*")
_SPECIAL = re.compile(r"%(tid|laneid|warpid|ctaid|nctaid|cluster)")


def function(*lines: str) -> Function:
    """A kernel of these lines; ``%p...`` are predicates, ``%f...`` f32, other registers 64-bit integers."""
    body = "\n".join(line if line.endswith(":") else line.rstrip(";") + ";" for line in lines)
    names = sorted({m[0] for m in _REGISTER.finditer(body) if not _SPECIAL.match(m[0])})
    kinds = {"p": "pred", "f": "f32", "r": "b32"}
    declared = "\n".join(f".reg .{kinds.get(n[1], 'b64')} {n};" for n in names)
    head = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k()"
    return parse(f"{head}\n{{\n{declared}\n{body}\nret;\n}}\n", "test.ptx").functions[0]


@dataclass
class FakeContext:
    """A context whose registers are named in ``values``: an int, or one int per lane."""

    values: Mapping[str, Any] = field(default_factory=dict)
    cta: int = 0
    ctas: int = 1
    warp: int = 0
    lanes: tuple[int, ...] = (0,)
    warp_lanes: int = 0xFFFFFFFF
    shared_start: int = 1024
    shared_end: int = 232448
    grows: set[int] | None = None
    arrays: tuple[tuple[int, int, str], ...] = ()
    declared: tuple[tuple[int, int, str, int], ...] = ()
    spaced: bool = False
    crowded: bool = False
    boxes: Mapping[Any, int | None] = field(default_factory=dict)
    footprints: list[Footprint] = field(default_factory=list)
    barriers: list[tuple[int, int]] = field(default_factory=list)
    fragments: list[str] = field(default_factory=list)
    maps: list[Any] = field(default_factory=list)

    def one_value(self, site: int, lanes: Iterable[int]) -> bool:
        return False

    def vary(self, names: Iterable[str], site: int) -> int:
        return 0

    def differs(self, names: Iterable[str], since: int | None = None) -> bool:
        return False

    def number(self, value: Any, what: str) -> int:
        if isinstance(value, int):
            return value
        if isinstance(value, tuple) and len(set(value)) == 1:
            return int(value[0])
        raise Opaque(f"{what} is {value}")

    def each(self, value: Any, what: str) -> tuple[int, ...]:
        return value if isinstance(value, tuple) else (self.number(value, what),) * len(self.lanes)

    def anywhere(self, site: int, address: Any, why: str, bits: int) -> Range | None:
        raise Opaque(why)

    def slot_group(self, site: int) -> int:
        return 0

    def group(self, site: int) -> int:
        return 0

    def kept(self, site: int, which: int = 0) -> None:
        return None

    def shared(self, address: int, space: str, what: str) -> tuple[int, int]:
        if space == "generic":
            address -= _SHARED
        if not 0 <= address < 1 << 32:
            raise Opaque(f"{what} lies in another window")
        return address >> 24, address & 0xFFFFFF

    def barrier(self, cta: int, offset: int) -> int:
        return _index(self.barriers, (cta, offset))

    def footprint(self, fp: Footprint) -> int:
        return _index(self.footprints, fp)

    def global_bytes(self, value: Any, size: int, rows: int = 1, pitch: int = 0, element: int = 0) -> int:
        return -1

    def addresses(self, value: Any) -> tuple[int, ...] | None:
        return self.each(value, "an address")

    def global_box(
        self, tensor_map: Any, coords: Sequence[Any], writes: bool = False, reduces: bool = False
    ) -> int:
        return -1

    def read_handle(self) -> int:
        return 7

    def tensor_map(self, value: Any) -> MapFacts:
        return MapFacts(str(value), None, None, 0, self.boxes.get(value))

    def publish_map(self, value: Any, facts: MapFacts | None) -> None:
        if facts is not None:
            self.define_map(value, facts)

    def define_map(self, value: Any, facts: MapFacts) -> None:
        self.boxes = {**self.boxes, value: facts.bytes}

    def map_index(self, value: Any) -> int:
        return _index(self.maps, value)

    def fragment(self, name: str) -> int:
        return _index(self.fragments, name)

    def value(self, operand: Operand) -> Any:
        if isinstance(operand, Imm):
            return operand.value
        if isinstance(operand, Mem):
            base = self.value(operand.base)
            if isinstance(base, tuple):
                return tuple(x + operand.offset for x in base)
            return base + operand.offset if isinstance(base, int) else base
        assert isinstance(operand, Reg)
        return self.values.get(operand.name, operand.name)


def _index(table: list[Any], item: Any) -> int:
    if item not in table:
        table.append(item)
    return table.index(item)


def shared_generic(address: int) -> int:
    """The generic address of a place in shared memory."""
    return _SHARED + address


def decoded(line: str) -> Effect:
    f = function(line)
    found = decode(f.body[0], f)
    assert isinstance(found, Effect), found
    return found


def refused(line: str) -> str:
    f = function(line)
    found = decode(f.body[0], f)
    assert isinstance(found, Unsupported), found
    return found.reason


def emitted(line: str, ctx: FakeContext | None = None, **values: Any) -> list[Event]:
    """The events of a line, the site left out, numbers of footprints and barriers resolved."""
    ctx = ctx or FakeContext()
    ctx.values = {**ctx.values, **{f"%{k}": x for k, x in values.items()}}
    e = decoded(line)
    return [readable(ctx, x) for x in e.emit(ctx, 0, [ctx.value(o) for o in e.operands])]


#: Which arguments after the site are footprints, and which are barriers.
_FOOTPRINTS = {Ev.READ: (0,), Ev.WRITE: (0,), Ev.CP_ASYNC: (0,), Ev.BULK_STORE: (0,), Ev.BULK_COPY: (0, 1),
               Ev.ST_ASYNC: (0,), Ev.WGMMA: (1, 3, 5)}  # fmt: skip
_BARRIERS = {Ev.INIT: 0, Ev.INVAL: 0, Ev.ARRIVE: 0, Ev.EXPECT_TX: 0, Ev.COMPLETE_TX: 0, Ev.WAIT: 0,
             Ev.WAIT_TOKEN: 0, Ev.POLL: 0, Ev.POLL_TOKEN: 0, Ev.CP_ARRIVE: 0, Ev.BULK_COPY: 2,
             Ev.ST_ASYNC: 1}  # fmt: skip


def resolve(event: Event, footprints: Sequence[Any], barriers: Sequence[Any]) -> tuple[Any, ...]:
    """An event without its site: its code's name, and footprints and barriers in place of their numbers."""
    code, _, *rest = event
    if code == Ev.BULK_LOAD:
        rest[0] = tuple((footprints[fp], barriers[b], n) for fp, b, n in rest[0])
    for i in _FOOTPRINTS.get(code, ()):
        rest[i] = footprints[rest[i]] if rest[i] >= 0 else None
    if code in _BARRIERS:
        rest[_BARRIERS[code]] = barriers[rest[_BARRIERS[code]]]
    return (code.name, *rest)


def readable(ctx: FakeContext, event: Event) -> tuple[Any, ...]:
    def short(fp: Footprint) -> Any:
        lanes = (fp.lanes,) if fp.lanes else ()
        return (fp.memory, *fp.intervals, *lanes)

    return resolve(event, [short(f) for f in ctx.footprints], ctx.barriers)
