"""Locks in global memory: whole blocks that hold one, one after the other, in any order.

Who comes after whom is not known. Two blocks are ordered by a lock only as the one lets go before the other
takes it, and least where nobody holds it in between; orders in which each comes right after each other one
represent all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, permutations, product

from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.global_access import scope_of, semantics, signed
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem
from syncverify.frontends.ptx.syntax.types import WINDOW, width
from syncverify.model.events import Ev, Event, Flag

#: By lock and block: how many hold it before.
Rows = Mapping[int, Mapping[int, int]]
#: Block, warp and lane.
Holder = tuple[int, int, int]


@dataclass(slots=True)
class Locks:
    """Who takes which lock in a run, and lets it go; ``rows``: in which order. Without them nobody waits.

    ``pattern``: which way blocks go at a branch that data decides for each of them; ``asked``: the sites of
    such branches. ``written``: where else, and how many bytes.
    """

    rows: Rows = field(default_factory=dict)
    pattern: int = 0
    taken: dict[int, set[Holder]] = field(default_factory=dict)
    freed: dict[int, set[Holder]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    written: set[tuple[int, int]] = field(default_factory=set)
    deciding: dict[tuple[int, int], tuple[int, int] | None] = field(default_factory=dict)
    apart: bool = False  # threads of a block decide each for itself
    bytes: int = 4  # of a lock
    unheld: bool = False  # one was let go by a thread that had not taken it

    def answer(self, site: int, block: int, thread: tuple[int, int] | None = None) -> int:
        """Which way a block goes at a branch that data decides: two blocks go each of the four ways that they
        may in some pattern, for their numbers differ in a bit.

        ``thread``: who decides, warp and lane; None: all threads of the block, alike.
        """
        self.asked.add(site)
        self.apart = self.apart or self.deciding.setdefault((site, block), thread) != thread
        bit, inverted = divmod(self.pattern, 2)
        return (block >> (bit - 1) & 1 if bit else 0) ^ inverted

    def place(self, address: int, size: int, holder: Holder, *, free: bool) -> int:
        """How many hold the lock before, which has so many bytes."""
        self.bytes = max(self.bytes, size)
        failed = address in self.rows and holder[0] not in self.rows[address]
        self.unheld = self.unheld or (free and (failed or holder not in self.taken.get(address, ())))
        (self.freed if free else self.taken).setdefault(address, set()).add(holder)
        return self.rows.get(address, {}).get(holder[0], 0)

    def attempt(self, address: int, size: int, holder: Holder) -> int | None:
        """How many hold the lock before a block that tries it once; None: it is not free then."""
        place = self.place(address, size, holder, free=False)
        failed = address in self.rows and holder[0] not in self.rows[address]
        return None if failed else place

    def problem(self) -> str | None:
        """Why orders of the blocks do not tell what can happen."""
        blocks = [h[0] for holders in self.taken.values() for h in holders]
        if len(blocks) != len(set(blocks)):
            return "a block takes several locks, or one several times"
        if self.unheld:
            return "a lock is let go by one who did not take it"
        if any(a < w + size and w < a + self.bytes for a in self.taken for w, size in self.written):
            return "a lock is written by something else than what lets it go"
        if len(self.asked) > 1 or self.apart:
            return (
                "data decides at several branches of a kernel with a lock, or for several threads of a block"
            )
        return None

    def patterns(self) -> range:
        """The patterns that let each two blocks go all ways."""
        blocks = [h[0] for holders in self.taken.values() for h in holders]
        return range(2 + 2 * max(blocks, default=0).bit_length() if self.asked else 1)

    def every(self, most: int) -> list[Rows]:
        """All orders of those who take tickets, but at most so many."""
        users = {a: sorted(h[0] for h in holders) for a, holders in self.taken.items()}
        rows = product(*(permutations(blocks) for blocks in users.values()))
        return [
            {a: {b: n for n, b in enumerate(row)} for a, row in zip(users, some, strict=True)}
            for some in islice(rows, most)
        ]

    def successes(self, most: int, *, freed: bool) -> list[Rows]:
        """All orders of those who find the lock free that they try, but at most so many: the first one does,
        and others may once it is let go (``freed``)."""
        if len(self.taken) != 1:
            return []
        ((address, holders),) = self.taken.items()
        blocks = sorted(h[0] for h in holders)
        sizes = range(1, len(blocks) + 1) if freed else (1,)
        rows = chain.from_iterable(permutations(blocks, n) for n in sizes)
        return [{address: {b: n for n, b in enumerate(row)}} for row in islice(rows, most)]

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


def freed_by(flow: Flow, k: int, others: Sequence[int], *, tried: bool = False) -> int | None:
    """The access that lets a lock go, which ``k`` takes, if each is executed once; ``tried``: ``k`` does not
    wait for it.

    ``others``: all other accesses to the memory of its pointer. Of several that may be it, the one whose
    address is written as that of ``k`` is. That the others leave the lock alone, and who lets it go has taken
    it before, is seen when they are made.
    """
    found = [free for free in others if _may_free(flow, k, free, turns=0 if tried else 1)]
    same = [free for free in found if _place_of(flow.body[free]) == _place_of(flow.body[k])]
    only = found if len(found) == 1 else same
    return only[0] if len(only) == 1 else None


def _place_of(i: Instr) -> Mem:
    return next(op for op in i.operands if isinstance(op, Mem))


def _may_free(flow: Flow, k: int, free: int, turns: int) -> bool:
    i = flow.body[free]
    writes = i.op == "st" or (i.op == "atom" and "exch" in i.mods)
    at, then = flow.block_of[k], flow.block_of[free]
    once = sum(at in loop for loop in flow.loops) == turns and not any(then in loop for loop in flow.loops)
    wide = bool(semantics(i) & (Flag.STRONG | Flag.RELEASE))
    return writes and wide and once and at != then


def lock_effect(i: Instr) -> Effect:
    """The turn of a block's loop in which an atomic finds the lock free, and takes it."""
    at, free, held = i.operands[1:4]
    bits, scope = width(i.mods[-1]), int(scope_of(i))
    flags = semantics(i) & ~int(Flag.RELEASE) | int(Flag.TAKE)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        _numbers(ctx, v)
        place = _place(ctx, v[0], bits // 8, free=False)
        return ((Ev.SPIN, site, ctx.global_bytes(v[0], bits // 8), flags, scope, "==", place),)

    return Effect(emit, (at, free, held), None, i.operands[:1])


def _numbers(ctx: Context, v: Sequence[Value]) -> None:
    """Looks at the values of a free lock and of one that is held."""
    if ctx.number(v[1], "the value of a free lock") or not ctx.number(v[2], "the value of a lock"):
        raise Opaque("a lock that is not free at launch")


def try_effect(i: Instr) -> Effect:
    """An atomic by which a block takes a lock if it is free, and goes on in any case; a swap takes one that
    holds 0."""
    bits, scope = width(i.mods[-1]), int(scope_of(i))
    flags = semantics(i) & ~int(Flag.RELEASE)
    at, *free, held = i.operands[1:]

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        _numbers(ctx, v)
        place, number = _attempt(ctx, v[0], bits // 8), ctx.global_bytes(v[0], bits // 8)
        if place is None:
            return ((Ev.GLOBAL_READ, site, number, int(Flag.STRONG), scope),)
        return ((Ev.SPIN, site, number, flags | int(Flag.TAKE), scope, "==", place),)

    return Effect(emit, (at, *(free or [Imm(0)]), held), None, i.operands[:1])


def found_at_lock(ctx: Context, at: Value, size: int, held: Value) -> Value:
    """What a block that tries a lock finds there: zero, or the value of one that is held."""
    return held if _attempt(ctx, at, size) is None else 0


def _attempt(ctx: Context, at: Value, size: int) -> int | None:
    _place(ctx, at, size, free=False)
    return ctx.try_lock(ctx.number(at, "the address of a lock"), size)


def ticket_effect(i: Instr) -> Effect:
    """An atomic whose number says who comes when; what it brings says ``number_of_ticket``."""
    bits, flags, scope = width(i.mods[-1]), semantics(i), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        _place(ctx, v[0], bits // 8, free=False)
        return ((Ev.GLOBAL_ATOMIC, site, ctx.global_bytes(v[0], bits // 8), flags, scope, "add", None),)

    return Effect(emit, i.operands[1:2], None, i.operands[:1])


def number_of_ticket(ctx: Context, at: Value, size: int) -> int:
    """How many have taken a ticket before, in the order of the run: counters are zero at launch."""
    return _place(ctx, at, size, free=False)


def free_effect(i: Instr) -> Effect:
    """The store or exchange by which a block lets a lock go."""
    results = i.operands[:1] if i.op == "atom" else ()
    at, stored = i.operands[1:3] if i.op == "atom" else i.operands[:2]
    bits, flags, scope = width(i.mods[-1]), semantics(i), int(scope_of(i))

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        if signed(ctx.number(v[1], "the value of a free lock"), bits):
            raise Opaque("a lock that is let go, and not free then")
        place = _place(ctx, v[0], bits // 8, free=True)
        return ((Ev.GLOBAL_WRITE, site, ctx.global_bytes(v[0], bits // 8), flags, scope, place + 1),)

    return Effect(emit, (at, stored), None, results)


def _place(ctx: Context, at: Value, size: int, *, free: bool) -> int:
    address = ctx.number(at, "the address of a lock")
    if address >> WINDOW or len(ctx.lanes) != 1:
        raise Opaque("several lanes take a lock at once" if not address >> WINDOW else "a lock elsewhere")
    return ctx.lock(address, size, free=free)
