"""Loads, stores and atomics: their events in shared memory, and what is kept of memory that steers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count, pairwise
from typing import Any

from syncverify.base.absent_blocks import AbsentBlock
from syncverify.frontends.ptx.decode.effects import Context, Opaque, Value
from syncverify.frontends.ptx.decode.parts import (
    OWN,
    elsewhere,
    in_none,
    promised,
    window,
    within_some_launch,
)
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Vector
from syncverify.frontends.ptx.syntax.types import RANK, WINDOW, WINDOWS, width
from syncverify.frontends.ptx.values.atomic_tickets import is_forwarded
from syncverify.frontends.ptx.values.register_values import INTS, WARP, PerLane, Unknown, per_lane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.ir.footprints import Range, footprint
from syncverify.model.events import Ev, Event, Footprint
from syncverify.model.proxies import Scope
from syncverify.symbolic.phase_tokens import Token
from syncverify.symbolic.protocol import Teller

_SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
LOCAL_WINDOW, PARAM_WINDOW = WINDOWS["local"], WINDOWS["param"]
#: Bits of the largest address in global memory; below ``RANK`` bits there is none (an offset, or null).
_GLOBAL_BITS = 57
#: Where what barriers bring is kept beside the bytes of a block's shared memory, out of their way.
_REDUCTIONS = 1 << 30
#: Where answers lie that all threads of a block share, by the site of the branch.
_ANSWERS = 1 << 34


@dataclass(frozen=True, slots=True)
class Access:
    """A load, store or atomic on memory that may be shared.

    ``elements``: the registers loaded, or the values stored; ``size``: bytes of each. ``local``: an atomic's
    or load's result is data whatever is kept.
    """

    code: Ev  # READ, WRITE or ATOMIC
    address: Mem
    elements: tuple[Operand, ...]
    size: int
    space: str  # generic, or the one that it names
    scope: Scope = Scope.GPU
    strong: bool = field(default=False, kw_only=True)  # relaxed, volatile or stronger
    own: bool = field(default=False, kw_only=True)  # the form for the CTA's own shared memory
    packed: int = field(default=1, kw_only=True)  # values in each element that are accessed one by one

    @property
    def bytes(self) -> int:
        return self.size * len(self.elements)

    @property
    def single(self) -> int:
        """Bytes of one of several accesses that a strong one is; 0 if it is one (PTX ISA, memory consistency
        model: vector and packed data types)."""
        one = self.size // self.packed
        return one if (self.strong or self.code == Ev.ATOMIC) and one != self.bytes else 0

    def events(self, ctx: Context, site: int, address: Value, values: Sequence[Value], handle: int,
               part: bool) -> list[Event]:  # fmt: skip
        """The events of the lanes of ``ctx``; ``part``: they are some of the class's lanes only."""
        return access_events(self, ctx, site, address, values, handle, part)


class SpreadError(Exception):
    """Lanes of one access reach the shared memory of different CTAs, or another space (-1): by lane."""

    def __init__(self, ctas: list[int]) -> None:
        super().__init__()
        self.ctas = ctas


def decode_access(i: Instr) -> Access | None:
    """The access of an ``ld``, ``st``, ``atom`` or ``red`` that may touch shared memory."""
    found = decode_place(i)
    return found if found is not None and found.space in ("shared", "generic") else None


def decode_place(i: Instr) -> Access | None:
    """The access of an ``ld``, ``st``, ``atom`` or ``red`` of any memory."""
    if i.op not in ("ld", "ldu", "st", "atom", "red") or i.mods[:1] in (("async",), ("bulk",)):
        return None
    named = (m.split("::")[0] for m in i.mods)
    space = next((m for m in named if m in ("shared", "global", "const", "param", "local")), "generic")
    scope = next((_SCOPES[m] for m in i.mods if m in _SCOPES), Scope.GPU)
    if "volatile" in i.mods or "mmio" in i.mods:
        scope = Scope.SYS  # PTX ISA, ld.volatile: relaxed with system scope
    strong = not STRONG.isdisjoint(i.mods)
    own = window(i.mods) == OWN
    packed = 2 if i.op in ("atom", "red") and i.mods[-1].endswith("x2") else 1
    size = width(i.mods[-1]) // 8
    ops = i.operands
    match i.op:
        case "ld" | "ldu" if isinstance(ops[1], Mem):
            return Access(Ev.READ, ops[1], _items(ops[0]), size, space, scope, strong=strong, own=own)
        case "st" if isinstance(ops[0], Mem):
            return Access(Ev.WRITE, ops[0], _items(ops[1]), size, space, scope, strong=strong, own=own)
        case "atom" if isinstance(ops[1], Mem):
            return Access(Ev.ATOMIC, ops[1], _items(ops[0]), size, space, scope, packed=packed, own=own)
        case "red" if isinstance(ops[0], Mem):
            return Access(Ev.ATOMIC, ops[0], _items(ops[1]), size, space, scope, packed=packed, own=own)
    return None


def _items(op: Operand) -> tuple[Operand, ...]:
    return op.items if isinstance(op, Vector) else (op,)


def access_events(a: Access, ctx: Context, site: int, address: Value, values: Sequence[Value],
                  handle: int, part: bool) -> list[Event]:  # fmt: skip
    """The events of an access by the lanes of ``ctx``; ``part``: they are some of the class's lanes only."""
    try:
        places = _places(a, ctx, address)
    except SpreadError as e:
        apart = [ctx.part(per_lane([int(owner == cta) for owner in e.ctas])) for cta in sorted(set(e.ctas))]
        lanes = [x for x in apart if x is not None]
        return [x for some in lanes for x in access_events(a, some, site, address, values, handle, True)]
    except Opaque as e:
        e.address = a.space == "shared"
        if a.space != "shared" or e.unwritten:
            raise
        numbers = _somewhere(a, ctx, site, address, e.reason)
        return [event for number in numbers for event in _events(a, site, number, handle)]
    if places is None:
        return []
    if isinstance(places, str):
        return [(Ev.FAULT, site, "SV114", places)]
    cta, offsets = places
    if ctx.grows is not None:
        within_some_launch(ctx, site, cta, (min(offsets), max(offsets) + a.bytes))
    wrong = _misplaced(a, ctx, site, cta, offsets)
    if wrong is not None:
        return [(Ev.FAULT, site, *wrong)]
    size = a.bytes
    writes = a.code == Ev.WRITE
    group = ctx.group(site)
    if group and ctx.only_groups():
        if ctx.in_its_array(site):
            return []
        low, high = min(offsets), max(offsets) + size
        return _events(a, site, _anywhere_of_group(ctx, cta, Range(low, high - low), a, group), handle)
    if len(set(offsets)) == 1 and not part:
        fp = footprint(cta, Range(offsets[0], size), ctx.lanes, varying=writes, many=len(ctx.lanes) > 1)
    else:
        fp = footprint(cta, [Range(lo, size) for lo in offsets], ctx.lanes, varying=writes)
    if fp.overlap and ctx.apart(site) >= a.bytes:
        fp = replace(fp, overlap=False)
    if fp.overlap:
        alike = _same_values(a, ctx, site, offsets, values)
        fp = replace(fp, overlap=not alike, alike=alike)
    if a.single:
        fp = replace(fp, element=a.single)
    if slots := group or (writes and ctx.slot_group(site)):
        fp = replace(fp, slots=slots)
    return _events(a, site, ctx.footprint(fp), handle)


def natural(size: int) -> int:
    """What the address of an access of so many bytes has to be a multiple of."""
    return 1 if size & (size - 1) else size


def _misplaced(
    a: Access, ctx: Context, site: int, cta: int, offsets: Sequence[int]
) -> tuple[str, str] | None:
    """The rule that the places of an access break, and what to say of it."""
    size = a.bytes
    unit = natural(size)
    for lo in set(offsets):
        if lo % unit:
            return "SV701", f"byte {lo} of shared memory is not {size}-byte aligned"
        promised(ctx, lo, unit, f"an access of {size} bytes")
        if lo < ctx.shared_start or lo + size > ctx.shared_end:
            where = f"{ctx.shared_start}..{ctx.shared_end - 1}"
            return "SV114", f"bytes {lo}..{lo + size - 1} lie outside shared memory, {where}"
    if not 0 <= cta < ctx.ctas:
        return "SV114", AbsentBlock(cta, ctx.ctas)
    if a.own and cta != ctx.cta:
        return "SV114", elsewhere("the address", cta)
    low, high, name = ctx.kept(site) or (ctx.shared_start, ctx.shared_end, "")
    for lo in set(offsets):
        if not name and (text := in_none(ctx, lo, lo + size)) is not None:
            return "SV114", text
        if lo < low or lo + size > high:
            return "SV114", f"bytes {lo}..{lo + size - 1} lie outside `{name}`, {low}..{high - 1}"
    return None


def _somewhere(a: Access, ctx: Context, site: int, address: Value, why: str) -> list[int]:
    """The footprints of an access whose place is not known: all places that it may have, by CTA. None where
    such accesses are left out."""
    slot = ctx.slot(site, why, a.bytes)
    if slot is not None:
        bytes_, group = slot
        if bytes_ is None:
            return []
        fp = footprint(ctx.cta, bytes_, ctx.lanes)
        return [ctx.footprint(replace(fp, slots=group, word=a.single or a.bytes))]
    group = ctx.group(site)
    places: Range | Sequence[Range] | None = None
    if not (group and ctx.only_groups()):
        places = ctx.strided(site, address, why, a.bytes)
    if places is None:
        places = ctx.anywhere(site, address, why, 8 * a.size if len(a.elements) == 1 else 0)
    if not places:
        return []
    reached = [ctx.cta] if a.own else range(ctx.ctas)
    at = places if isinstance(places, Range) else tuple(places)
    if ctx.declared:
        _aligned_somewhere(a, ctx, site, (at,) if isinstance(at, Range) else at)
    word, varying = a.single or a.bytes, a.code == Ev.WRITE
    found = [_reached(cta, at, tuple(ctx.lanes), word, varying=varying) for cta in reached]
    if group and ctx.only_groups() and len(ctx.arrays) == 1:
        return []
    if group:
        found = [replace(fp, overlap=False, slots=group) for fp in found]
    elif any(fp.overlap for fp in found) and ctx.apart(site) >= a.bytes:
        found = [replace(fp, overlap=False) for fp in found]
    return [ctx.footprint(fp) for fp in found]


def _anywhere_of_group(ctx: Context, cta: int, at: Range, a: Access, group: int) -> int:
    """The footprint of an access that lies anywhere in a range, and races with none of its group."""
    found = _reached(cta, at, tuple(ctx.lanes), a.single or a.bytes, varying=a.code == Ev.WRITE)
    return ctx.footprint(replace(found, overlap=False, slots=group))


def _aligned_somewhere(a: Access, ctx: Context, site: int, places: Iterable[Range]) -> None:
    """Opaque where an access that data places is in arrays that do not promise its alignment: in one of
    them, or, if it may be in any, where none does."""
    unit, what = natural(a.bytes), f"an access of {a.bytes} bytes"
    own = ctx.kept(site)
    for r in places:
        whole = r.lo <= ctx.shared_start and r.lo + r.size >= ctx.shared_end
        arrays = ctx.arrays if own is None else (own,)
        short = {x[:3] for x in ctx.declared if x[3] % unit}
        if not whole or short.issuperset(arrays):
            for low, high, *_ in arrays:
                if low < r.lo + r.size and r.lo < high:
                    promised(ctx, low, unit, what)


@lru_cache(maxsize=512)
def _reached(
    memory: int, at: Range | tuple[Range, ...], lanes: tuple[int, ...], word: int, *, varying: bool
) -> Footprint:
    """Where an access may go: up to a hundred thousand places, which each state of a search needs."""
    fp = footprint(memory, at, lanes, varying=varying, many=len(lanes) > 1)
    return replace(fp, word=word)


def _events(a: Access, site: int, number: int, handle: int) -> list[Event]:
    match a.code:
        case Ev.READ if a.strong:
            return [(Ev.READ, site, number, handle, int(a.scope))]
        case Ev.READ:
            return [(Ev.READ, site, number, handle)]
        case Ev.WRITE if not a.strong:
            return [(Ev.WRITE, site, number)]
    return [(Ev.ATOMIC, site, number, int(a.scope))]


def _same_values(a: Access, ctx: Context, site: int, offsets: Sequence[int], values: Sequence[Value]) -> bool:
    """Whether lanes that store to the same bytes are shown to store the same there: by numbers, or else by
    data flow."""
    known = len(values) == sum(not isinstance(op, Imm) for op in a.elements)
    rows: dict[int, list[Any]] = {}
    lanes: dict[int, list[int]] = {}
    for lane, lo in zip(ctx.lanes, offsets, strict=True):
        mine = [v.lanes[lane] if v.__class__ is PerLane else v for v in values]
        lanes.setdefault(lo, []).append(lane)
        for x, y in zip(mine, rows.setdefault(lo, mine), strict=True):
            if x.__class__ in INTS and y.__class__ in INTS and x != y:
                return False
            known = known and (x is y or x.__class__ in INTS) and not isinstance(x, Unknown)
    apart = all(lo + a.bytes <= hi for lo, hi in pairwise(sorted(rows)))
    if not apart:
        stored = {op.value if isinstance(op, Imm) else None for op in a.elements}
        return known and {x for row in rows.values() for x in row} | stored - {None} <= {0}
    return known or all(ctx.one_value(site, some) for some in lanes.values())


def _places(a: Access, ctx: Context, address: Value) -> tuple[int, list[int]] | str | None:
    """The CTA and each lane's byte offset; None if the access goes elsewhere; why it may go nowhere."""
    what = "a shared-memory address" if a.space == "shared" else "an address that may be in shared memory"
    lanes = [address] * len(ctx.lanes) if address.__class__ in INTS else list(ctx.each(address, what))
    wrong = next((text for x in lanes if (text := nowhere(a.space, x, ctx.local_end)) is not None), None)
    if wrong is not None:
        return wrong
    if a.space == "generic":
        inside = {x >> WINDOW == 1 for x in lanes}
        if inside == {False}:
            return None
        if len(inside) > 1:
            owners = dict(
                zip(ctx.lanes, (x >> RANK & 0xFF if x >> WINDOW == 1 else -1 for x in lanes), strict=True)
            )
            raise SpreadError([owners.get(i, -1) for i in range(WARP)])
    found = [ctx.shared(x, a.space, what) for x in lanes]
    if len({cta for cta, _ in found}) > 1:
        owners = dict(zip(ctx.lanes, (cta for cta, _ in found), strict=True))
        raise SpreadError([owners.get(i, -1) for i in range(WARP)])
    return found[0][0], [offset for _, offset in found]


def nowhere(space: str, address: Any, local_end: int) -> str | None:
    """Why an address lies in no memory that an access of a space reaches; None where it may lie in some."""
    if address.__class__ is not int:
        return None  # a size without a number
    if space == "shared":
        text = f"address {address:#x} lies outside the window of shared memory"
        # A register of 32 bits and an offset may carry once, which the address loses.
        return f"{text}: a generic address needs cvta.to.shared" if address >> 33 else None
    text = f"generic address {address:#x} lies in no state space"
    if address >> WINDOW == LOCAL_WINDOW:
        return None if address & (1 << WINDOW) - 1 < local_end else text
    if address >> RANK == 0:
        return f"{text}: an address of shared memory needs cvta.shared"
    return text if address >> _GLOBAL_BITS and address >> WINDOW not in WINDOWS.values() else None


# ---------------------------------------------------------------- contents


@dataclass(slots=True)
class Bytes:
    """What is known of a memory: values by address and size. What was never stored is unknown."""

    cells: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def copy(self) -> Bytes:
        return Bytes(dict(self.cells))

    def arrived(self, barrier: int, who: tuple[int, int]) -> None:
        """A class, by its warp and lanes, has come to a barrier that brings a value."""
        at = _REDUCTIONS + 64 * barrier
        _, waiting = self.cells.get(at, (16, frozenset[tuple[int, int]]()))
        self.cells[at] = 16, waiting | {who}

    def brought(self, barrier: int, who: tuple[int, int], make: Callable[[], Any]) -> Any:
        """What a barrier brings to a class that goes on: one value for all who had come to it.

        Who goes on first makes it, for all of them have come by then; it is kept until the last has it.
        """
        at = _REDUCTIONS + 64 * barrier
        value, left = at + 16, at + 32
        cells = self.cells
        if who in cells.get(at, (16, ()))[1]:
            cells[value], cells[left] = (4, make()), cells.pop(at)
        elif value not in cells or who not in cells[left][1]:
            return make()
        found, others = cells[value][1], cells[left][1] - {who}
        cells[left] = 16, others
        if not others:
            del cells[value], cells[left]
        return found

    def answered(self, site: int, who: tuple[int, int], threads: int, make: Callable[[], Any]) -> Any:
        """What a branch decides for a class of a block whose threads decide alike; None where that fails.

        The first class to ask makes the answer. It is kept until all lanes of the block have it: the next to
        ask then comes there the next time.
        """
        at = _ANSWERS + 64 * site
        value, left = at + 16, at + 32
        cells = self.cells
        warp, lanes = who
        found = cells[value][1] if value in cells else make()
        if value in cells:
            waiting = dict(cells[left][1])
        else:
            waiting = {w: (1 << min(WARP, threads - WARP * w)) - 1 for w in range(-(-threads // WARP))}
        if waiting.get(warp, 0) & lanes != lanes:
            return None
        waiting[warp] ^= lanes
        others = frozenset((w, mask) for w, mask in waiting.items() if mask)
        if others:
            cells[value], cells[left] = (4, found), (16, others)
        else:
            cells.pop(value, None)
            cells.pop(left, None)
        return found

    def numbers(self) -> Iterator[tuple[int, int, Any]]:
        """Address, size and value of numbers, of sizes that have none, and of tokens."""
        for a, (n, v) in sorted(self.cells.items()):
            if _counts(v):
                yield a, n, v

    def shape(self) -> Hashable:
        """Where there are numbers, and everything else, by identity: a key that holds it keeps it alive."""
        if not self.cells:
            return 0
        return frozenset((a, n, "" if _counts(v) else v) for a, (n, v) in self.cells.items())

    def store(self, address: int, size: int, value: Any) -> None:
        self.forget(address, address + size)
        if not isinstance(value, Unknown) or is_forwarded(value):
            self.cells[address] = (size, value)

    def forget(self, lo: int, hi: int) -> None:
        """The bytes ``lo..hi-1`` hold something else now; those beside them keep what they hold."""
        cells = self.cells
        near = (
            [a for a, (n, _) in cells.items() if a < hi and lo < a + n]
            if hi - lo > len(cells)
            else [a for a in range(lo - 15, hi) if a in cells and a + cells[a][0] > lo]
        )
        for a in near:
            n, value = cells.pop(a)
            if value.__class__ in INTS or (value.__class__ is PerLane and value.fixed):
                if a < lo:
                    cells[a] = lo - a, value & (1 << 8 * (lo - a)) - 1
                if hi < a + n:
                    cells[hi] = a + n - hi, value >> 8 * (hi - a) & (1 << 8 * (a + n - hi)) - 1

    def nothing(self) -> bool:
        """Whether nothing is known of any byte."""
        return not self.cells

    def load(self, address: int, size: int, missing: Unknown) -> Any:
        cell = self.cells.get(address)
        if cell is not None and cell[0] == size:
            return cell[1]
        if address.__class__ not in INTS:
            return missing  # somewhere, for a size without a number
        total: Any = 0
        at = address
        while at < address + size:
            part = self._piece(at, address + size - at)
            if part is None:
                return missing
            n, value = part
            total = total | value << 8 * (at - address)
            at += n
        return total

    def _piece(self, address: int, most: int) -> tuple[int, Any] | None:
        """Bytes from an address on that lie in one cell: how many, and their value."""
        for a in range(address, address - 16, -1):
            cell = self.cells.get(a)
            if cell is None:
                continue
            n, value = cell
            if a + n <= address or not (
                value.__class__ in INTS or (value.__class__ is PerLane and value.fixed)
            ):
                return None
            count = min(most, a + n - address)
            return count, value >> 8 * (address - a) & (1 << 8 * count) - 1
        return None


def _counts(v: Any) -> bool:
    """Whether the exploration of sizes compares a value: numbers, sizes, and tokens, which have an age."""
    return v.__class__ in INTS or isinstance(v, SymbolicWord | Token) or (
        v.__class__ is PerLane and any(isinstance(x, SymbolicWord | Token) for x in v.lanes)
    )  # fmt: skip


class SharedContents:
    """The kept contents of the shared memory of all CTAs of one run; ``ended``: the classes that are over."""

    def __init__(self, ctas: int) -> None:
        self.of = [Bytes() for _ in range(ctas)]
        self.ended: set[int] = set()

    def copy(self) -> SharedContents:
        new = SharedContents(0)
        new.of = [b.copy() for b in self.of]
        new.ended = set(self.ended)
        return new

    def nothing(self) -> bool:
        """Whether nothing is known of any byte."""
        return all(b.nothing() for b in self.of)

    def first(self) -> int:
        """The first class that is not over: it shows the contents to the exploration of sizes."""
        return next(i for i in count() if i not in self.ended)

    def overwritten(self, footprints: Sequence[Footprint], numbers: Iterable[int]) -> None:
        """An operation wrote data there."""
        for number in numbers:
            fp = footprints[number]
            if 0 <= fp.memory < len(self.of) and self.of[fp.memory].cells:
                for lo, hi in fp.intervals:
                    self.of[fp.memory].forget(lo, hi)


class StatedContents(SharedContents):
    """Contents of which a teller says what loads find; it hears of all stores."""

    def __init__(self, ctas: int, teller: Teller) -> None:
        super().__init__(0)
        self.of = [_StatedBytes(memory=i, teller=teller) for i in range(ctas)]

    def copy(self) -> StatedContents:
        return self

    def first(self) -> int:
        return -1  # it shows nothing that an agent holds


@dataclass(slots=True)
class _StatedBytes(Bytes):
    memory: int = field(kw_only=True)
    teller: Teller = field(kw_only=True)

    def store(self, address: int, size: int, value: Any) -> None:
        self.teller.store(self.memory, address, size, value)

    def forget(self, lo: int, hi: int) -> None:
        self.teller.store(self.memory, lo, hi - lo, None)

    def nothing(self) -> bool:
        """The teller is asked of each place."""
        return False

    def arrived(self, barrier: int, who: tuple[int, int]) -> None:
        """Nothing is kept of who has come."""

    def brought(self, barrier: int, who: tuple[int, int], make: Callable[[], Any]) -> Any:
        return make()

    def answered(self, site: int, who: tuple[int, int], threads: int, make: Callable[[], Any]) -> Any:
        return None

    def load(self, address: int, size: int, missing: Unknown) -> Any:
        found = self.teller.load(self.memory, address, size) if address.__class__ in INTS else None
        return missing if found is None else found


def written(event: Event) -> tuple[int, ...]:
    """The footprints in shared memory that an event writes data to."""
    match event[0]:
        case Ev.WRITE | Ev.ATOMIC | Ev.SIGNAL | Ev.CP_ASYNC | Ev.ST_ASYNC:
            return (event[2],)
        case Ev.BULK_LOAD:
            return tuple(t[0] for t in event[2])
        case Ev.BULK_COPY:
            return (event[3],)
    return ()
