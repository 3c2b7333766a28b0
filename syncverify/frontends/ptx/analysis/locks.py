"""Locks in global memory: whole blocks that hold one, one after the other, in any order.

Who comes after whom is not known. Two blocks are ordered by a lock only as the one lets go before the other
takes it, and least where nobody holds it in between; orders in which each comes right after each other one
represent all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.global_access import scope_of, semantics, signed
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.types import WINDOW, width
from syncverify.model.events import Ev, Event, Flag

#: By lock and block: how many hold it before.
Rows = Mapping[int, Mapping[int, int]]
#: Block, warp and lane.
Holder = tuple[int, int, int]


@dataclass(slots=True)
class Locks:
    """Who takes which lock in a run, and lets it go; ``rows``: in which order. Without them nobody waits."""

    rows: Rows = field(default_factory=dict)
    taken: dict[int, set[Holder]] = field(default_factory=dict)
    freed: dict[int, set[Holder]] = field(default_factory=dict)

    def place(self, address: int, holder: Holder, free: bool) -> int:
        """How many hold the lock before."""
        (self.freed if free else self.taken).setdefault(address, set()).add(holder)
        return self.rows.get(address, {}).get(holder[0], 0)

    def problem(self) -> str | None:
        """Why orders of the blocks do not tell what can happen."""
        blocks = [h[0] for holders in self.taken.values() for h in holders]
        if len(blocks) != len(set(blocks)):
            return "a block takes several locks, or one several times"
        if any(not holders <= self.taken.get(a, set()) for a, holders in self.freed.items()):
            return "a lock is let go by one who did not take it"
        return None

    def orders(self) -> list[Rows]:
        """Rows that represent every order."""
        users = {a: sorted(h[0] for h in holders) for a, holders in self.taken.items()}
        found = {a: neighbours(blocks) for a, blocks in users.items()}
        most = max(map(len, found.values()), default=0)
        return [
            {a: {b: n for n, b in enumerate(rows[i % len(rows)])} for a, rows in found.items()}
            for i in range(most)
        ]


def neighbours(blocks: Sequence[int]) -> list[list[int]]:
    """Orders of some blocks in which each comes right after each other one."""
    n = len(blocks) + len(blocks) % 2
    steps = [(k + 1) // 2 * (1 if k % 2 else -1) for k in range(n)]
    rows = [[(s + d) % n for d in steps] for s in range(n)]
    return [[blocks[i] for i in row if i < len(blocks)] for row in rows]


def freed_by(flow: Flow, k: int, others: Sequence[int]) -> int | None:
    """The access that lets a lock go, which ``k`` takes, if each is executed once, one after the other.

    ``others``: all other accesses to its memory.
    """
    if len(others) != 1:
        return None
    (free,) = others
    i = flow.body[free]
    writes = i.op == "st" or (i.op == "atom" and "exch" in i.mods)
    at, then = flow.block_of[k], flow.block_of[free]
    once = sum(at in loop for loop in flow.loops) == 1 and not any(then in loop for loop in flow.loops)
    wide = semantics(i) & (Flag.STRONG | Flag.RELEASE)
    return free if writes and wide and once and at != then and flow.dominates(at, then) else None


def lock_effect(i: Instr) -> Effect:
    """The turn of a block's loop in which an atomic finds the lock free, and takes it."""
    at, free, held = i.operands[1:4]
    bits, flags, scope = width(i.mods[-1]), semantics(i) & ~int(Flag.RELEASE), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        if ctx.number(v[1], "the value of a free lock") or not ctx.number(v[2], "the value of a lock"):
            raise Opaque("a lock that is not free at launch")
        place = _place(ctx, v[0], free=False)
        return ((Ev.SPIN, site, ctx.global_bytes(v[0], bits // 8), flags, scope, "==", place),)

    return Effect(emit, (at, free, held), None, i.operands[:1])


def free_effect(i: Instr) -> Effect:
    """The store or exchange by which a block lets a lock go."""
    results = i.operands[:1] if i.op == "atom" else ()
    at, stored = i.operands[1:3] if i.op == "atom" else i.operands[:2]
    bits, flags, scope = width(i.mods[-1]), semantics(i), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        if signed(ctx.number(v[1], "the value of a free lock"), bits):
            raise Opaque("a lock that is let go, and not free then")
        place = _place(ctx, v[0], free=True)
        return ((Ev.GLOBAL_WRITE, site, ctx.global_bytes(v[0], bits // 8), flags, scope, place + 1),)

    return Effect(emit, (at, stored), None, results)


def _place(ctx: Context, at: Value, free: bool) -> int:
    address = ctx.number(at, "the address of a lock")
    if address >> WINDOW or len(ctx.lanes) != 1:
        raise Opaque("several lanes take a lock at once" if not address >> WINDOW else "a lock elsewhere")
    return ctx.lock(address, free)
