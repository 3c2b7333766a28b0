"""Statements that no event depends on: conditionals and loops around nothing but plain global accesses, and
loops around nothing but arithmetic.

Where blocks do not synchronize through global memory, its data is nobody's business here, and neither is
which lanes touch it. Left in, ``if i < rest`` would part the lanes of a warp at every value of ``rest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from syncverify.frontends.ir.tables import synchronizes_globally
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import bodies, expressions, statements
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, names, walk
from syncverify.ir.memo import once
from syncverify.ir.value_uses import (
    carried,
    fence_covers_reads,
    holders,
    lane_differences,
    refilled,
)


def sliced(kernel: n.Kernel, watched: frozenset[str] | None = None) -> n.Kernel:
    """The kernel without its quiet statements: with the same synchronization, shared accesses and uses.

    ``watched``: the tensors whose accesses matter, if only these do where blocks share global memory.
    """
    return _unwatched(kernel) if watched is None else is_relevant(kernel, watched)


@once
def _unwatched(kernel: n.Kernel) -> n.Kernel:
    return is_relevant(kernel, None)


def is_relevant(kernel: n.Kernel, watched: frozenset[str] | None) -> n.Kernel:
    if (watched is None and synchronizes_globally(kernel)) or not _waits_first(kernel):
        return kernel
    watched = watched or frozenset()
    if any(m.tensor in watched for m in kernel.maps):
        return kernel
    body, values = kernel.body, frozenset[str]().union(*holders(kernel).values())
    if any(isinstance(s, n.If | n.For) and _plain(s, watched) for s in statements(body)):
        holding = _Holding(refilled(kernel))
        holding.through(body, frozenset())
        body = _Kept(kernel, values, watched, holding.before).of(body, frozenset(), False)
    unread = _closure(kernel.body, False, watched) - _closure(body, True, watched)
    return replace(kernel, body=_without(body, unread, values))


#: What a kernel does before it waits, and that touches no global memory; prefetches are hints.
_SETS_UP = (
    n.Let, n.If, n.For, n.Role, n.Elect, n.MbarrierInit, n.Fence, n.FenceMbarrierInit, n.BarrierSync,
    n.WarpSync, n.ClusterArrive, n.ClusterWait, n.BulkPrefetch, n.TmaPrefetch,
)  # fmt: skip


def _waits_first(kernel: n.Kernel) -> bool:
    """Whether every thread has waited for the grid before, where there is such a wait, before it does more.

    Then no access to global memory is early, whichever is left out.
    """
    dependent = (n.GridDepWait, n.GridDepLaunch)
    if not (kernel.launch.dependent or any(isinstance(s, dependent) for s in statements(kernel.body))):
        return True
    first = next((s for s in kernel.body if not all(isinstance(x, _SETS_UP) for x in statements((s,)))), None)
    return isinstance(first, n.GridDepWait)


def _closure(body: tuple[n.Stmt, ...], steers: bool, watched: frozenset[str]) -> frozenset[str]:
    """Names that the statements read, directly or through other registers.

    ``steers``: without those that only say where in global memory data lies, or become data.
    """
    read: set[str] = set()
    given: dict[str, set[str]] = {}
    for s in statements(body):
        if isinstance(s, n.Let | n.Assign):
            given.setdefault(s.name, set()).update(names(s.value))
        elif isinstance(s, n.LoadIndex):
            given.setdefault(s.name, set()).update(names(s.source.start))
        elif not steers or _accesses(s, watched) or not isinstance(s, n.LdGlobal | n.StGlobal | n.Compute):
            if steers and isinstance(s, n.TmaLoad | n.TmaStore | n.TmaPrefetch):
                s = replace(s, coords=())
            read |= set(_names_in(s))
    work = list(read)
    while work:
        new = given.get(work.pop(), set()) - read
        read |= new
        work += new
    return frozenset(read)


def _without(body: tuple[n.Stmt, ...], unread: frozenset[str], values: frozenset[str]) -> tuple[n.Stmt, ...]:
    """The body without what gives names a value that nothing reads.

    A fragment that is read is as good as one read again and again, unless its registers wait for a read.
    """
    out: list[n.Stmt] = []
    for s in body:
        match s:
            case n.Let(name) | n.Assign(name) | n.LoadIndex(name) if name in unread:
                continue  # even a quotient by 0: it would be data, or a place
            case n.If():
                out.append(
                    replace(
                        s, then=_without(s.then, unread, values), orelse=_without(s.orelse, unread, values)
                    )
                )
            case n.For(lo=lo, hi=hi, body=inner):
                inner = _without(inner, unread, values)
                once = isinstance(lo, Int) and isinstance(hi, Int) and lo.value < hi.value
                if once and inner and all(isinstance(x, n.FragRead) for x in inner):
                    out += inner
                else:
                    out.append(replace(s, body=inner))
            case n.FragRead(frag=frag) if (
                out and isinstance(last := out[-1], n.FragRead) and last.frag == frag not in values
            ):
                continue
            case n.Role():
                out.append(replace(s, body=_without(s.body, unread, values)))
            case _:
                out.append(s)
    return tuple(out)


#: Statements after which no other thread knows more than before.
_HANDS_NOTHING_ON = (
    n.Let, n.Assign, n.LoadIndex, n.Compute, n.LdGlobal, n.LdShared, n.StShared, n.LdMatrix, n.StMatrix,
    n.FragRead, n.FragWrite, n.MbarrierWait,
)  # fmt: skip


@dataclass(frozen=True)
class _Holding:
    """Which registers may hold what was read from ``buffers`` where a conditional or a loop begins: a name
    that was given another value since does not."""

    buffers: frozenset[str]
    before: dict[int, frozenset[str]] = field(default_factory=dict)  # by the statement's id

    def through(self, body: tuple[n.Stmt, ...], held: frozenset[str]) -> frozenset[str]:
        """What may hold it behind a body, of what may in front of it."""
        for s in body:
            match s:
                case n.If():
                    self.note(s, held)
                    held = self.through(s.then, held) | self.through(s.orelse, held)
                case n.For():
                    while (after := held | self.through(s.body, held)) != held:
                        held = after
                    self.note(s, held)
                case n.Role():
                    held |= self.through(s.body, held)
                case n.LdShared(name) | n.LdMatrix(name):
                    held = held | {name} if s.src.buffer in self.buffers else held - {name}
                case n.LdGlobal(name):
                    held -= {name}
                case _ if (flow := carried(s)) is not None:
                    held = held | {flow[0]} if flow[1] & held else held - {flow[0]}
        return held

    def note(self, s: n.Stmt, held: frozenset[str]) -> None:
        self.before[id(s)] = self.before.get(id(s), frozenset()) | held


@dataclass(frozen=True)
class _Kept:
    """What is left of a kernel without its quiet conditionals and loops. ``values``: may wait for a read."""

    kernel: n.Kernel
    values: frozenset[str]
    watched: frozenset[str]
    holding: dict[int, frozenset[str]]  # of these, those that may where a statement begins

    def of(self, body: tuple[n.Stmt, ...], live: frozenset[str], fenced: bool) -> tuple[n.Stmt, ...]:
        """``live``: names that are read after the body; ``fenced``: see ``fences``."""
        out: list[n.Stmt] = []
        for s in reversed(body):
            if isinstance(s, n.If | n.For) and _plain(s, self.watched):
                handed = self.instead(s, live, fenced)
                if handed is not None:
                    out += reversed(handed)
                    live = live - {load.name for load in handed if isinstance(load, n.LdGlobal)}
                    continue
            match s:
                case n.If():
                    then, orelse = (self.of(b, live, fenced) for b in (s.then, s.orelse))
                    out.append(replace(s, then=then, orelse=orelse))
                case n.For():
                    again = live | frozenset(_exposed(s.body, frozenset()))
                    out.append(replace(s, body=self.of(s.body, again, self.turns_fence(s, fenced))))
                case n.Role():
                    out.append(replace(s, body=self.of(s.body, live, fenced)))
                case _:
                    out.append(s)
            live = (live - frozenset(_made(s))) | frozenset(_exposed((s,), frozenset()))
            fenced = self.fences((s,), fenced)
        return tuple(reversed(out))

    def instead(self, s: n.If | n.For, live: frozenset[str], fenced: bool) -> list[n.Stmt] | None:
        """What represents a quiet statement; None if it must stay.

        Where a fence ends the reads before anyone is told, that a value is used meanwhile says nothing (K1);
        nor does it where the register was given another value since the read.
        """
        used = sorted(name for b in bodies(s) for name in _exposed(b, frozenset()) if name in self.values)
        handed = _handed(s, live, self)
        if handed is None or (self.holding[id(s)].intersection(used) and not fenced):
            return None
        stores = [x for b in bodies(s) for x in statements(b) if isinstance(x, n.StGlobal)]
        if not stores or not used:
            return [*handed]
        # never run: the values still reach memory, so an earlier hand-over had to wait for their reads
        dst = n.GlobalRegion(stores[0].dst.tensor, Var("tid"))
        never = tuple(n.StGlobal(dst, Var(x), span=s.span) for x in used)
        return [*handed, n.If(Int(0), never, span=s.span)]

    def fences(self, body: tuple[n.Stmt, ...], after: bool) -> bool:
        """Whether each way from here meets a fence that ends all reads before another thread is told."""
        for s in reversed(body):
            match s:
                case n.Fence() | n.FenceProxyAsync() if fence_covers_reads(s, self.kernel.body):
                    after = True
                case n.If():
                    after = self.fences(s.then, after) and self.fences(s.orelse, after)
                case n.For():
                    after = after and self.fences(s.body, self.turns_fence(s, after))
                case n.StGlobal(sem="weak"):
                    pass
                case _ if not isinstance(s, _HANDS_NOTHING_ON):
                    after = False
        return after

    def turns_fence(self, loop: n.For, after: bool) -> bool:
        """The same behind each turn of a loop: another follows, or what is after it."""
        return after and self.fences(loop.body, after)


def _plain(s: n.If | n.For, watched: frozenset[str]) -> bool:
    """Whether a statement touches global memory, or prefetches, or is a loop that computes, and nothing in it
    is another event or might fail."""
    inside = [x for b in bodies(s) for x in statements(b)]
    quiet = (n.LdGlobal, n.StGlobal, n.BulkPrefetch, *((n.Compute,) if isinstance(s, n.For) else ()))
    some = any(isinstance(x, quiet) for x in inside)
    return some and all(_silent(x) and not _accesses(x, watched) for x in (s, *inside))


def _accesses(s: n.Stmt, watched: frozenset[str]) -> bool:
    """Whether a plain access to global memory is to a tensor whose accesses matter."""
    match s:
        case n.LdGlobal(src=place) | n.StGlobal(dst=place):
            return place.tensor in watched
    return False


def _silent(s: n.Stmt) -> bool:
    match s:
        case n.If(cond):
            return _total(cond)
        case n.For(_, lo, hi, step):
            return _total(lo) and _total(hi) and isinstance(step, Int) and step.value > 0
        case n.LdGlobal(sem="weak") | n.StGlobal(sem="weak") | n.Compute() | n.BulkPrefetch():
            return True
        case n.Let(_, value):
            return _total(value)
    return False


def _total(e: Expr) -> bool:
    """Whether an expression has a value whatever its names represent."""
    for x in walk(e):
        match x:
            case Binary("//" | "%", _, by) | Call("cdiv", (_, by)) if not _positive(by):
                return False
            case Binary("<<" | ">>"):
                return False
    return True


def _positive(e: Expr) -> bool:
    return isinstance(e, Int) and e.value > 0


def _handed(s: n.If | n.For, live: frozenset[str], kept: _Kept) -> list[n.LdGlobal] | None:
    """What represents a statement: loads of the data that it hands on, of which nothing is known either.

    None if it hands on an integer, or a register that it may leave with what was read from shared memory.
    None too if it only computes, and hands on what is the same for all lanes.
    """
    inside = [x for b in bodies(s) for x in statements(b)]
    handed = {name for x in inside for name in _made(x)} & live
    data = {x.name for x in inside if isinstance(x, n.Compute | n.LdGlobal)}
    if not handed <= data - kept.values:
        return None
    if not handed:
        return []
    tensors = [x.src.tensor if isinstance(x, n.LdGlobal) else x.dst.tensor for x in inside
               if isinstance(x, n.LdGlobal | n.StGlobal)]  # fmt: skip
    if not tensors and handed <= lane_differences(kept.kernel)[2]:
        tensors = [t.name for t in kept.kernel.tensors if t.name not in kept.watched]
    if not tensors:
        return None
    place = n.GlobalRegion(tensors[0], Var("tid"))
    return [n.LdGlobal(name, place, span=s.span) for name in sorted(handed)]


def _exposed(body: tuple[n.Stmt, ...], made: frozenset[str]) -> Iterator[str]:
    """Names that may be read with a value from before the body."""
    for s in body:
        inner = bodies(s)
        read = {x for b in inner for x in _exposed(b, made | ({s.var} if isinstance(s, n.For) else set()))}
        yield from (read | set(_names_in(s))) - made
        made |= frozenset(_made(s))


def _made(s: n.Stmt) -> Iterator[str]:
    """What a statement surely gives a value."""
    if isinstance(
        s, n.Let | n.Assign | n.Compute | n.LdGlobal | n.LdShared | n.LdMatrix | n.FragRead | n.Shuffle
    ):
        yield s.name


def _names_in(s: n.Stmt) -> Iterator[str]:
    """The names in a statement's own expressions."""
    for f in fields(s):
        if f.name not in ("body", "then", "orelse"):
            yield from (name for e in expressions(getattr(s, f.name)) for name in names(e))


__all__ = ["sliced"]
