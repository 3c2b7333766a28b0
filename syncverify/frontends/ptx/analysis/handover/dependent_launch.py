"""Accesses to global memory before griddepcontrol.wait, where the grid before may still run.

Only whether there is one is asked, not where it goes: these events have no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.analysis.handover.atomic_counters import edits_map
from syncverify.frontends.ptx.decode.effects import Context, Effect, Unsupported, Value
from syncverify.frontends.ptx.decode.global_access import space_of
from syncverify.frontends.ptx.decode.memory import Access, access_events
from syncverify.frontends.ptx.decode.parts import constant, window
from syncverify.frontends.ptx.decode.wmma import moves_matrix
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import Use, effects, touches
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem
from syncverify.frontends.ptx.syntax.types import WINDOW
from syncverify.model.events import Ev, Event

#: An event of each kind without a place, flags, scope and value.
_PLACELESS: Mapping[Ev, tuple[object, ...]] = {
    Ev.GLOBAL_READ: (-1, 0, 0),
    Ev.GLOBAL_WRITE: (-1, 0, 0, None),
    Ev.GLOBAL_ATOMIC: (-1, 0, 0, "other", None),
}


def early_accesses(
    flow: Flow,
    generic: Mapping[int, bool],
    decoded: Mapping[int, Effect | Access | Unsupported],
    origins: Origins,
    variables: frozenset[str],
    unwritten: frozenset[str] = frozenset(),
) -> dict[int, Effect | Access]:
    """Loads, stores and atomics that a thread may come to before its own wait, where nothing else is known of
    them; of those that it comes to one after the other, the first.

    ``unwritten``: pointers that lead to nothing which the grid before writes; reads there may come early.
    ``generic``: accesses without a state space, and whether they may reach shared memory. ``variables``:
    those in global memory.
    """
    found: dict[int, Effect | Access] = {}
    before: dict[int, list[int]] = {}  # by block: waits and accesses that each thread there comes to
    for k, i in _in_order(flow):
        waits = i.op == "griddepcontrol" and "wait" in i.mods
        if not waits and not _global(flow, k, generic, origins, variables):
            continue
        reads = not waits and _code(i) is Ev.GLOBAL_READ
        if reads and reads_unwritten(i, origins, unwritten, flow.function):
            continue
        if not waits and not _covered(flow, k, before):
            known = decoded.get(k)
            if known is None:
                code = _code(i)
                found[k] = constant(code, *_PLACELESS[code])
            elif type(known) is Access:
                found[k] = AnyAccess(
                    known.code, known.address, known.elements, known.size, known.space, known.scope
                )
            elif isinstance(known, Effect) and edits_map(i):
                found[k] = replace(known, emit=partial(_edited, known))
        if i.guard is None and not generic.get(k, False):
            before.setdefault(flow.block_of[k], []).append(k)
    return found


def _edited(known: Effect, ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
    """The events of an edit of a tensor map, and that of the write."""
    return [*known.emit(ctx, site, v), (Ev.GLOBAL_WRITE, site, *_PLACELESS[Ev.GLOBAL_WRITE])]


@dataclass(frozen=True, slots=True)
class AnyAccess(Access):
    """An access to shared memory, or one to global memory whose place is not asked."""

    def events(self, ctx: Context, site: int, address: Value, values: Sequence[Value], handle: int,
               part: bool) -> list[Event]:  # fmt: skip
        found = access_events(self, ctx, site, address, values, handle, part)
        lanes = ctx.addresses(address) or ()
        if found or not any(x >> WINDOW == 0 for x in lanes):
            return found
        code = {Ev.READ: Ev.GLOBAL_READ, Ev.WRITE: Ev.GLOBAL_WRITE}.get(self.code, Ev.GLOBAL_ATOMIC)
        return [(code, site, *_PLACELESS[code])]


def reads_unwritten(i: Instr, origins: Origins, unwritten: frozenset[str], function: Function) -> bool:
    """Whether what an instruction reads of global memory lies behind some pointers alone."""
    named = {p.name for p in function.params}
    found = {x for op in i.operands if isinstance(op, Mem) for x in origins.of(op)}
    found = {x for x in found if "+" in x or x == ANYWHERE or x in named}
    return bool(found) and found <= unwritten


def _in_order(flow: Flow) -> Iterator[tuple[int, Instr]]:
    """The instructions that are executed, each after those that dominate it."""
    under: dict[int, list[int]] = {}
    for b in flow.reached:
        if flow.idom[b] not in (b, -1):
            under.setdefault(flow.idom[b], []).append(b)
    work = [0]
    while work:
        b = work.pop()
        work += sorted(under.get(b, ()), reverse=True)
        if b < flow.end:
            yield from ((k, flow.body[k]) for k in range(flow.blocks[b].lo, flow.blocks[b].hi))


def _covered(flow: Flow, k: int, before: Mapping[int, Sequence[int]]) -> bool:
    """Whether a thread comes to a wait, or to another access, on every way to an access."""
    here = flow.block_of[k]
    return any(flow.dominates(b, here) for b in before)


def _global(
    flow: Flow, k: int, generic: Mapping[int, bool], origins: Origins, variables: frozenset[str]
) -> bool:
    """Whether an instruction may access global memory, other than by a copy."""
    i = flow.body[k]
    if i.op == "discard" or edits_map(i) or "texture read" in effects(i):
        return True
    if moves_matrix(i):
        space = "" if any(m.startswith("shared") for m in i.mods) else window(i.mods)
    else:
        space = space_of(i)
    at = next((o for o in i.operands if isinstance(o, Mem)), None)
    if not space or at is None:
        return False
    return space == "global" or generic.get(k, False) or _leads(at, origins, variables)


def _leads(at: Mem, origins: Origins, variables: frozenset[str]) -> bool:
    """Whether an address may come from a pointer that was passed or loaded, or from a variable."""
    return any("+" in x or x == ANYWHERE or x in variables for x in origins.of(at))


def _code(i: Instr) -> Ev:
    # PTX ISA, discard: like a weak write
    used = next((t.use for t in touches(i) if t.use), Use.BOTH)
    if used is Use.READS:
        return Ev.GLOBAL_READ
    return Ev.GLOBAL_WRITE if used is Use.WRITES or edits_map(i) else Ev.GLOBAL_ATOMIC
