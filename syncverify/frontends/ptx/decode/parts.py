"""What the effects share: modifiers, operands, places in shared memory, faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from syncverify.base.absent_blocks import AbsentBlock
from syncverify.frontends.ptx.decode.effects import (
    Beyond,
    Context,
    Effect,
    Emit,
    Opaque,
    Unsupported,
    Value,
)
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Pair, Reg, Sink, Vector
from syncverify.ir.footprints import Range, footprint
from syncverify.model.events import Ev, Event, Flag, Footprint
from syncverify.model.proxies import Scope

#: What ``decode`` and the functions it calls return.
Decoded = Effect | Unsupported | None

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
#: Largest count and transaction count (PTX ISA, mbarrier: Contents of the mbarrier object).
MAX_COUNT = 2**20 - 1
MAX_NAMED = 15

#: The ranks that addresses of 32 bits have which are negative numbers begin here.
_NEGATIVE = 0x80
_STATE_SPACES = ("shared", "shared::cta", "shared::cluster", "global")


def fault(site: int, rule: str, message: str) -> Event:
    return (Ev.FAULT, site, rule, message)


#: An address in the executing CTA's own shared memory.
OWN = "shared::cta"


def spaces(mods: Sequence[str]) -> list[str]:
    """The state spaces that the modifiers name, in order."""
    return [m for m in mods if m in _STATE_SPACES]


def window(mods: Sequence[str]) -> str:
    """How a shared address is written: ``shared`` for ``.shared::cluster``, OWN for ``.shared`` and
    ``.shared::cta`` (PTX ISA, state spaces: the default), or ``generic`` where no space is named."""
    if "shared::cluster" in mods:
        return "shared"
    return OWN if any(m.startswith("shared") for m in mods) else "generic"


def multicasts(mods: Sequence[str]) -> bool:
    """Whether a copy goes to the CTAs of a mask of 16 bits, by either spelling."""
    return "multicast::cluster" in mods or "multicast::cluster::16b" in mods


def scope_of(mods: Sequence[str], default: str) -> Scope:
    return SCOPES[next((m for m in mods if m in SCOPES), default)]


def sem_flags(mods: Sequence[str]) -> int:
    """``.relaxed`` and ``.cluster`` as flags; the rest is the default."""
    return (Flag.RELAXED if "relaxed" in mods else 0) | (Flag.CLUSTER if "cluster" in mods else 0)


def constant(code: Ev, *arguments: object) -> Effect:
    """An effect whose event never changes."""

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return ((code, site, *arguments),)

    return Effect(emit)


def effect(emit: Emit, operands: Sequence[Operand], answer: Operand | None = None,
           unknown: Sequence[Operand] = ()) -> Effect:  # fmt: skip
    return Effect(emit, tuple(operands), answer, tuple(unknown))


def malformed(instr: Instr) -> Unsupported:
    return Unsupported(f"{instr.name} with operands that are not understood")


def registers(*operands: Operand) -> tuple[Operand, ...]:
    """The registers among destinations, vectors and pairs expanded, sinks left out."""
    found: list[Operand] = []
    for o in operands:
        if isinstance(o, Vector):
            found += registers(*o.items)
        elif isinstance(o, Pair):
            found += registers(o.first, o.second)
        elif isinstance(o, Reg):
            found.append(o)
    return tuple(found)


def split_at_address(instr: Instr) -> tuple[Operand | None, Mem, tuple[Operand, ...]] | None:
    """Destination (None: none, or a sink), address, and what follows; None where there is no address."""
    ops = instr.operands
    at = next((i for i, o in enumerate(ops) if isinstance(o, Mem)), None)
    if at is None or at > 1:
        return None
    address = ops[at]
    assert isinstance(address, Mem)
    into = ops[0] if at else None
    return None if isinstance(into, Sink) else into, address, ops[at + 1 :]


def immediate(o: Operand) -> int | None:
    return o.value if isinstance(o, Imm) else None


def place(ctx: Context, value: Value, space: str, what: str) -> tuple[int, int]:
    """(CTA, byte offset) of an address that all lanes share; lanes that differ split the class."""
    with of_address():
        return ctx.shared(value if type(value) is int else ctx.number(value, what), space, what)


@contextmanager
def of_address() -> Iterator[None]:
    """What has no number within is an address of shared memory."""
    try:
        yield
    except Opaque as e:
        e.address = True
        raise


def places(ctx: Context, value: Value, space: str, what: str) -> tuple[int, int | tuple[int, ...]]:
    """The CTA, and the byte offset: one for all lanes, or one per lane. Lanes of different CTAs split."""
    if type(value) is int:
        return ctx.shared(value, space, what)
    with of_address():
        addresses = ctx.each(value, what)
    if addresses.count(addresses[0]) == len(addresses):
        return ctx.shared(addresses[0], space, what)
    found = [ctx.shared(a, space, what) for a in addresses]
    if any(cta != found[0][0] for cta, _ in found):
        return ctx.shared(ctx.number(value, what), space, what)
    return found[0][0], tuple([offset for _, offset in found])


class Region:
    """``size`` bytes at a place in shared memory, for all lanes or each, checked."""

    __slots__ = ("cta", "offsets", "size")

    def __init__(self, cta: int, offsets: int | tuple[int, ...], size: int) -> None:
        self.cta = cta
        self.offsets = offsets
        self.size = size

    def footprint(self, ctx: Context, cta: int | None = None, element: int = 0) -> int:
        """Its number; ``cta``: the same bytes of another CTA; ``element``: ``Footprint.element``."""
        memory = self.cta if cta is None else cta
        lo, size = self.offsets, self.size
        if isinstance(lo, int):
            found = Footprint(memory, ((lo, lo + size),) if size > 0 else (), element=element)
            return ctx.footprint(found)
        found = footprint(memory, [Range(x, size) for x in lo], ctx.lanes)
        return ctx.footprint(replace(found, element=element) if element else found)

    def each(self) -> Sequence[int]:
        return (self.offsets,) if isinstance(self.offsets, int) else self.offsets


def in_none(ctx: Context, lo: int, hi: int) -> str | None:
    """That bytes lie in no shared variable, where these are laid out with room between them; None else.

    Raises Opaque where they are too many for room between them."""
    if ctx.crowded:
        raise Opaque("which of the shared arrays an address is in; they are too many to be laid out apart")
    if not ctx.spaced or any(low <= lo and hi <= high for low, high, _ in ctx.arrays):
        return None
    before = max((a for a in ctx.arrays if a[0] <= lo), default=min(ctx.arrays))
    low, high, name = before
    return f"bytes {lo - low}..{hi - low - 1} of `{name}`, which has {high - low}, lie outside of it"


def next_array(ctx: Context, site: int, pieces: Iterable[tuple[int, int]], which: int = 0) -> str | None:
    """What is wrong with bytes, from ``lo`` to ``hi`` each, of which some lie in another array than the
    address names.

    Where the next array lies is the assembler's choice. ``which``: as for ``Context.kept``.
    """
    own = ctx.kept(site, which)
    if own is None:
        return next((text for lo, hi in pieces if (text := in_none(ctx, lo, hi)) is not None), None)
    low, high, name = own
    for lo, hi in pieces:
        if any(max(a[0], lo) < min(a[1], hi) for a in ctx.arrays if a != own):
            return f"bytes {lo}..{hi - 1} lie outside `{name}`, {low}..{high - 1}"
    return None


def not_promised(what: str, unit: int, name: str, align: int) -> str:
    """What is said of bytes whose alignment a declaration does not promise."""
    return (
        f"{what} has to be {unit}-byte aligned, and `{name}` is declared with alignment {align}: where it is "
        "placed is the assembler's choice (PTX ISA, .align)"
    )


def promised(ctx: Context, at: int, unit: int, what: str) -> None:
    """Opaque where a byte that has to be aligned lies in a static variable whose declared alignment is less:
    where it is placed is the assembler's choice, so nothing promises that it is."""
    for lo, hi, name, align in ctx.declared:
        if align % unit and lo <= at < hi:
            raise Opaque(not_promised(what, unit, name, align))


def region(ctx: Context, site: int, faults: list[Event], value: Value, space: str, size: int, unit: int,
           what: str, which: int = 0) -> Region:  # fmt: skip
    """A place of ``size`` bytes; adds a fault where it is misaligned, or leaves shared memory or its array.

    ``which``: of the addresses of the instruction, in the order of the text."""
    r = Region(*places(ctx, value, space, what), size)
    if ctx.grows is not None:
        within_some_launch(ctx, site, r.cta, (min(r.each()), max(r.each()) + size), which)
    if not 0 <= r.cta < ctx.ctas:
        faults.append(fault(site, "SV114", AbsentBlock(r.cta, ctx.ctas)))
        r.cta = ctx.cta
    if space == OWN and r.cta != ctx.cta:
        faults.append(fault(site, "SV114", elsewhere(what, r.cta)))
    for lo in r.each():
        if lo % unit:
            text = f"{what} at byte {lo} of shared memory is not {unit}-byte aligned"
            faults.append(fault(site, "SV701", text))
            break
        promised(ctx, lo, unit, what)
    for lo in r.each():
        if lo < ctx.shared_start or lo + size > ctx.shared_end:
            where = f"{ctx.shared_start}..{ctx.shared_end - 1}"
            text = f"bytes {lo}..{lo + size - 1} of {what} leave shared memory, {where}"
            faults.append(fault(site, "SV114", text))
            return r
    wrong = next_array(ctx, site, [(lo, lo + size) for lo in r.each()], which)
    if wrong is not None:
        faults.append(fault(site, "SV114", f"{what}: {wrong}"))
    return r


def within_some_launch(ctx: Context, site: int, cta: int, reached: tuple[int, int], which: int = 0) -> None:
    """Opaque where an access lies behind the most dynamic shared memory that a block can have, and nobody
    says how much it has: no host launches the kernel with sizes that lead there, so they refute nothing.
    A proof may rest on that where an access of the same lanes was seen inside: else the number of the thread
    may lead behind, whatever the sizes are.

    ``reached``: where the lanes' bytes begin and end, all in the window of one block. A cluster of one has no
    other windows; there an address that is no negative number lies behind as well. ``which``: as for
    ``Context.kept``.
    """
    if ctx.grows is None:
        return
    low, high = reached
    own = ctx.kept(site, which)
    dynamic = len(ctx.arrays) == 1 if own is None else own[1] == ctx.shared_end
    behind = high > ctx.shared_end if cta == ctx.cta else ctx.ctas == 1 and 0 < cta < _NEGATIVE
    here, lanes = (site, ctx.cta, ctx.warp), sum(1 << lane for lane in ctx.lanes)
    if not behind:
        ctx.grows[here] = ctx.grows.get(here, 0) | lanes
    elif dynamic and (low >= ctx.shared_start or cta != ctx.cta):
        text = f"bytes {low}..{high - 1} lie behind the most dynamic shared memory of a block"
        raise Opaque(text if lanes & ~ctx.grows.get(here, 0) else Beyond(text))


def elsewhere(what: str, cta: int) -> str:
    """An address that ``mapa`` gave for another CTA, in the form for one's own shared memory."""
    return f"{what} lies in CTA {cta}: the form shared::cta reaches only the executing CTA's own"


def barrier_at(ctx: Context, site: int, faults: list[Event], value: Value, space: str,
               local: str = "", which: int = 0) -> tuple[int, int, int]:  # fmt: skip
    """(number, CTA, byte offset) of an mbarrier; number -1 and a fault where there can be none.

    ``local``: the operation, if it may not be remote. ``which``: of the addresses of the instruction.
    """
    cta, offset = place(ctx, value, space, "the address of an mbarrier")
    within_some_launch(ctx, site, cta, (offset, offset + 8), which)
    if not 0 <= cta < ctx.ctas:
        text = f"the mbarrier lies in CTA {cta}, which is not mapped: the cluster has {ctx.ctas}"
        faults.append(fault(site, "SV208", text))
        return -1, cta, offset
    if offset % 8:
        # PTX ISA, mbarrier: size and alignment of the object.
        faults.append(fault(site, "SV701", f"the mbarrier at byte {offset} is not 8-byte aligned"))
        return -1, cta, offset
    promised(ctx, offset, 8, "the mbarrier")
    if offset < ctx.shared_start or offset + 8 > ctx.shared_end:
        text = f"the mbarrier at byte {offset} leaves shared memory, {ctx.shared_start}..{ctx.shared_end - 1}"
        faults.append(fault(site, "SV208", text))
        return -1, cta, offset
    if not local and space == OWN and cta != ctx.cta:
        faults.append(fault(site, "SV208", elsewhere("the mbarrier", cta)))
        return -1, cta, offset
    if local and cta != ctx.cta:
        text = f"{local} works only on the CTA's own barriers, not on one of CTA {cta}"
        faults.append(fault(site, "SV208", text))
        return -1, cta, offset
    wrong = next_array(ctx, site, [(offset, offset + 8)], which)
    if wrong is not None:
        faults.append(fault(site, "SV114", f"the mbarrier: {wrong}"))
        return -1, cta, offset
    return ctx.barrier(cta, offset), cta, offset
