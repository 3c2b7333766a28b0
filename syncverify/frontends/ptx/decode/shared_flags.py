"""Flags in shared memory as events: waits for them, and the accesses that may write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.global_access import GlobalSpin, Stored, scope_of, semantics, signed
from syncverify.frontends.ptx.decode.memory import Access, access_events
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem
from syncverify.frontends.ptx.values.register_values import PerLane
from syncverify.ir.footprints import Range, footprint
from syncverify.model.events import Ev, Event, Flag


@dataclass(frozen=True, slots=True)
class FlagAccess(Stored):
    """A store or an atomic that may write a flag in shared memory; ``elements``: what it stores or adds."""

    def events(self, ctx: Context, site: int, *rest: Any) -> list[Event]:
        """As ``memory.access_events``, with what is stored."""
        address, values, *_ = rest
        if self.flags and address.__class__ is PerLane and len(ctx.lanes) > 1:
            ctx.number(address, "the address of a flag")  # one of its own for each: classes apart
        return [self._signal(ctx, e, values) for e in access_events(self, ctx, site, *rest)]

    def _signal(self, ctx: Context, e: Event, values: Sequence[Value]) -> Event:
        if e[0] not in (Ev.WRITE, Ev.ATOMIC) or not _is_word(ctx, e[2], self.size):
            return e
        return (Ev.SIGNAL, e[1], e[2], self.flags, int(self.scope), self.op, self.stored(values, ctx.lanes))


def _is_word(ctx: Context, number: int, size: int) -> bool:
    """Whether each lane's place is known: one that is not is an interval, or several."""
    fp = ctx.footprints[number]
    places = fp.lanes or tuple((lo, hi, 0) for lo, hi in fp.intervals)
    return (bool(fp.lanes) or len(places) == 1) and all(hi - lo == size for lo, hi, _ in places)


def flag_access(i: Instr, a: Access) -> FlagAccess:
    """The access of an instruction as one that may write a flag."""
    same = {f.name: getattr(a, f.name) for f in fields(Access)}
    op = ""
    if i.op != "st":
        op = next((m for m in ("add", "exch") if m in i.mods), "other")
        at = next(n for n, x in enumerate(i.operands) if isinstance(x, Mem))
        same["elements"] = i.operands[at + 1 : at + 2]
    return FlagAccess(**same, flags=semantics(i), op="" if op == "exch" else op, bits=8 * a.size)


def shared_spin_effect(i: Instr, spin: GlobalSpin, a: Access) -> Effect:
    """A whole spin on a word of shared memory as one blocking event."""
    flags, scope = semantics(i) & ~int(Flag.RELEASE), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        address = ctx.number(v[0], "the address of a flag")
        cta, offset = ctx.shared(address, a.space, "the address of a flag")
        if cta != ctx.cta or offset % a.size or not ctx.shared_start <= offset <= ctx.shared_end - a.size:
            raise Opaque("a spin on a word that does not lie in the shared memory of its block")
        bound = signed(ctx.number(v[1], "the value that a thread waits for"), 8 * a.size)
        if spin.unsigned and bound < 0:
            raise Opaque("the value that a thread waits for is no small number")
        fp = ctx.footprint(footprint(cta, Range(offset, a.size), ctx.lanes))
        return ((Ev.SPIN, site, fp, flags, scope, spin.compare, bound),)

    return Effect(emit, (a.address, spin.bound), None, i.operands[:1])


__all__ = ["FlagAccess", "flag_access", "shared_spin_effect"]
