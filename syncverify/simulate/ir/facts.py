"""What a kernel's text says: its statements, expressions, and which memory must be followed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from syncverify.ir import nodes as n
from syncverify.ir.expr import LANE_BUILTINS, Expr, Int, Var, names, walk
from syncverify.simulate.ir.code import UNIT

WARP = 32


def statements(body: Sequence[n.Stmt]) -> Iterator[n.Stmt]:
    for s in body:
        yield s
        if isinstance(s, n.For | n.Role):
            yield from statements(s.body)
        elif isinstance(s, n.If):
            yield from statements(s.then)
            yield from statements(s.orelse)


def expressions(s: n.Stmt) -> Iterator[Expr]:
    """Every expression written in a statement itself, its regions included."""
    if isinstance(s, n.Role) and s.unit == "threads":
        yield Var(UNIT[s.unit])
    for f in type(s).__dataclass_fields__:
        yield from _inner(getattr(s, f)) if f not in ("body", "then", "orelse", "span") else ()


def _inner(v: object) -> Iterator[Expr]:
    if isinstance(v, Expr):
        yield v
    elif isinstance(v, n.Region | n.GlobalRegion | n.BarrierRef):
        for f in type(v).__dataclass_fields__:
            yield from _inner(getattr(v, f))
    elif isinstance(v, tuple):
        for x in v:
            yield from _inner(x)


def control(s: n.Stmt) -> Iterator[Expr]:
    """The expressions of a statement that can change what it does in shared memory or to barriers."""
    for f in type(s).__dataclass_fields__:
        v = getattr(s, f)
        if f not in ("body", "then", "orelse", "span", "coords") and not isinstance(v, n.GlobalRegion):
            yield from _inner(v)


def mentions_block(kernel: n.Kernel) -> bool:
    """Whether blocks may behave differently, apart from where in global memory they work."""
    wanted = {"block", "block.x", "block.y", "block.z"}
    return any(names(e) & wanted for s in statements(kernel.body) for e in control(s))


def mentions(kernel: n.Kernel, wanted: Iterable[str]) -> bool:
    names_wanted = set(wanted)
    return any(names(e) & names_wanted for s in statements(kernel.body) for e in expressions(s))


def elected_lanes(kernel: n.Kernel, seed: int = 0) -> tuple[int, ...]:
    """Lanes that elect.sync may pick: the lowest, and where the kernel distinguishes lanes one that is drawn.

    Every other draw is of the lanes that numbers in the kernel are next to.
    """
    if not any(isinstance(s, n.Elect) for s in statements(kernel.body)):
        return (0,)
    if not mentions(kernel, LANE_BUILTINS):
        return (0,)
    rng = random.Random(f"{seed} {kernel.name} {kernel.body}")
    written = {
        x.value
        for s in statements(kernel.body)
        for e in expressions(s)
        for x in walk(e)
        if isinstance(x, Int)
    }
    named = sorted({(v + d) % WARP for v in written for d in (-1, 0, 1)} - {0})
    return (0, rng.choice(named) if named and rng.random() < 0.5 else rng.randrange(1, WARP))


def together(kernel: n.Kernel) -> bool:
    """Whether blocks must be simulated beside one another: they spin on, or reduce into, common memory."""
    return bool(_spun(kernel) or _mixed_atomics(kernel))


def _spun(kernel: n.Kernel) -> frozenset[str]:
    return frozenset(s.src.tensor for s in statements(kernel.body) if isinstance(s, n.SpinGlobal))


def _mixed_atomics(kernel: n.Kernel) -> frozenset[str]:
    """Tensors with both atomics by threads and reductions by TMA (docs/model.md E46)."""
    by_map = {m.name: m.tensor for m in kernel.maps}
    body = list(statements(kernel.body))
    reduced = {s.dst.tensor for s in body if isinstance(s, n.BulkStore) and s.reduce}
    reduced |= {by_map[s.map] for s in body if isinstance(s, n.TmaStore) and s.reduce}
    return frozenset(reduced & {s.dst.tensor for s in body if isinstance(s, n.AtomGlobal)})


def _two_proxies(kernel: n.Kernel) -> frozenset[str]:
    """Tensors that copies write and somebody else reads or writes, or that threads write and copies read."""
    by_map = {m.name: m.tensor for m in kernel.maps}
    copied_in: set[str] = set()
    copied_out: set[str] = set()
    read: set[str] = set()
    written: set[str] = set()
    for s in statements(kernel.body):
        match s:
            case n.BulkLoad():
                copied_in.add(s.src.tensor)
            case n.TmaLoad():
                copied_in.add(by_map[s.map])
            case n.BulkStore():
                copied_out.add(s.dst.tensor)
            case n.TmaStore():
                copied_out.add(by_map[s.map])
            case n.LdGlobal() | n.CpAsync():
                read.add(s.src.tensor)
            case n.StGlobal():
                written.add(s.dst.tensor)
    return frozenset(copied_out & (copied_in | read | written) | written & copied_in)


def followed(kernel: n.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Tensors whose accesses are followed, and those that hold words somebody spins on."""
    flags = _spun(kernel)
    if flags:
        return frozenset(t.name for t in kernel.tensors) - flags, flags
    return _mixed_atomics(kernel) | _two_proxies(kernel), frozenset()


def read_registers(kernel: n.Kernel) -> frozenset[str]:
    """Names whose values come to memory or to the tensor core somewhere, through any arithmetic."""
    used: set[str] = set()
    sums: list[tuple[str, frozenset[str]]] = []
    for s in statements(kernel.body):
        v = getattr(s, "value", None)
        if isinstance(s, n.Compute | n.Shuffle):
            sums.append((s.name, names(s.value)))
        elif isinstance(s, n.FragWrite):
            sums.append((s.frag, names(s.value)))
        elif isinstance(s, n.FragRead):
            sums.append((s.name, frozenset({s.frag})))
        elif isinstance(v, Expr):
            used |= names(v)
        if isinstance(s, n.Wgmma):
            used |= {s.acc} | ({s.a} if isinstance(s.a, str) else set())
    before = -1
    while before < len(used):
        before = len(used)
        for name, read in sums:
            if name in used:
                used |= read
    return frozenset(used)
