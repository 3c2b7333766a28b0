"""The addresses of instructions, by the rows of the table, and that each one is held against its array."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from syncverify.frontends.ptx.decode.effects import Effect, Opaque, Unsupported
from syncverify.frontends.ptx.decode.matrix import descriptor
from syncverify.frontends.ptx.decode.memory import decode_access
from syncverify.frontends.ptx.decode.table import decode, refused
from syncverify.frontends.ptx.isa.addresses import ADDRESSES, addresses
from syncverify.frontends.ptx.isa.rows import Row, table
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Operand, Reg
from syncverify.model.events import Ev, Event
from tests.frontends.ptx.effect_helpers import FakeContext, shared_generic
from tests.frontends.ptx.isa.samples import choices, function, text

SPACES = {"generic", "global", "local", "const", "param", "param::entry", "param::func", "tensor memory"}
SPACES |= {"shared", "shared::cta", "shared::cluster"}
#: An array, and the one behind it, in which each address of the test lies.
ONE, TWO = (1024, 2048, "one"), (2048, 1 << 17, "two")
PLACE, GLOBAL, PEER = 1 << 13, 1 << 20, 1 << 24
#: What has addresses in some of its rows.
OPCODES = sorted(
    o for o, rows in table().items() if any(k.kind in ADDRESSES for r in rows for k in r.operands)
)
#: Modelled instructions with an address in shared memory that have no event there.
WITHOUT_EVENTS = {"mbarrier.check_layout", "prefetch", "applypriority", "discard"}


def samples(row: Row) -> list[tuple[Function, Instr]]:
    """Instructions of a row that are modelled."""
    lines = [line for words in choices(row, most=3) if (line := text(row, words, optional=True)) is not None]
    made = [f for f in map(function, lines) if refused(f.body[0], f) is None]
    return [(f, f.body[0]) for f in made]


@pytest.mark.parametrize("opcode", OPCODES)
def test_each_address_has_a_state_space(opcode: str) -> None:
    for row in table()[opcode]:
        if any(k.kind in ADDRESSES for k in row.operands):
            for _, i in samples(row):
                found = addresses(i)
                assert [at for at, _ in found] == [x for x in i.operands if isinstance(x, Mem)], i.name
                assert {space for _, space in found} <= SPACES, i.name


@dataclass
class Held(FakeContext):
    """A context in which one address of an instruction names the array ``one``."""

    ctas: int = 2
    arrays: tuple[tuple[int, int, str], ...] = (ONE, TWO)
    which: int | None = None
    local_end: int = 16
    places: dict[str, int] = field(default_factory=dict)

    def kept(self, site: int, which: int = 0) -> Any:
        return ONE if which == self.which else None

    def apart(self, site: int) -> int:
        return 0

    def group(self, site: int) -> int:
        return 0

    def value(self, operand: Operand) -> Any:
        if isinstance(operand, Mem):
            return self.places[str(operand.base)] + operand.offset
        return (1 if operand.name[1] in "hp" else 16) if isinstance(operand, Reg) else super().value(operand)


def emitted(f: Function, i: Instr, ctx: Held) -> list[Event] | None:
    """The events of an instruction; None where it is not decided."""
    access, found = decode_access(i), decode(i, f)
    try:
        if access is not None:
            return access.events(ctx, 0, ctx.value(access.address), (), 7, False)  # type: ignore[arg-type]
        if isinstance(found, Unsupported):
            return None
        assert isinstance(found, Effect), i.name
        return list(found.emit(ctx, 0, [ctx.value(x) for x in found.operands]))  # type: ignore[arg-type]
    except Opaque:
        return None


def faults(events: list[Event] | None) -> list[Any]:
    return ["undecided"] if events is None else [e[2] for e in events if e[0] == Ev.FAULT]


def in_shared(row: Row, space: str) -> bool:
    """Whether an address may be one of shared memory."""
    words = [w for s in row.slots if s.name == "SPACE" for w in s.words]
    return space.startswith("shared") or (space == "generic" and any(w.startswith("shared") for w in words))


def remote(i: Instr) -> tuple[int, ...]:
    """The addresses that have to lie in another CTA: of what is pushed there, and its mbarrier."""
    if i.op in ("st", "red") and i.mods[:1] == ("async",):
        return (0, 1)
    return (0, 2) if [space for _, space in addresses(i)][:2] == ["shared::cluster", "shared::cta"] else ()


@pytest.mark.parametrize("opcode", OPCODES)
def test_each_address_in_shared_memory_is_held_against_its_array(opcode: str) -> None:
    """A row whose decoder does not ask for the array would prove what lies in another one."""
    for row in table()[opcode]:
        for f, i in samples(row) if row.name not in WITHOUT_EVENTS else ():
            found = addresses(i)
            shared = [n for n, (_, space) in enumerate(found) if in_shared(row, space)]
            places = {}
            for n, (at, space) in enumerate(found):
                here = PLACE + 256 * n + (PEER if n in remote(i) else 0)
                plain = here if space.startswith("shared") else shared_generic(here)
                places[str(at.base)] = plain if n in shared else GLOBAL + 256 * n
            boxes = dict.fromkeys(places.values(), 128)
            if shared:
                assert faults(emitted(f, i, Held(places=places, boxes=boxes))) in ([], ["undecided"]), i.name
            for n in shared:
                events = emitted(f, i, Held(places=places, boxes=boxes, which=n))
                assert {"SV114", "undecided"} & {*faults(events)}, f"{i.name}: operand {n}"


def test_descriptors_are_held_against_their_arrays() -> None:
    """B and A of a product; bits of a descriptor that begins in ``two``."""
    bits = PLACE >> 4 | 8 << 16 | 16 << 32
    for row in table()["wgmma"]:
        for f, i in samples(row) if row.head[:1] == ("mma_async",) else ():
            sides = [n for n in (0, 1) if descriptor(i, n) is not None]
            found = decode(i, f)
            assert sides and isinstance(found, Effect)
            values = [1, *[bits] * len(sides)]
            for which in (None, *sides):
                ctx: Any = Held(which=which)
                assert faults(list(found.emit(ctx, 0, values))) == ([] if which is None else ["SV114"])
