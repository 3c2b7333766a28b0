"""What blocks of a cluster push into each other's shared memory: completion there, leave to push again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from syncverify.base.source import InputError
from syncverify.ir.expr import Expr, Int, Var, evaluate
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    ClusterArrive,
    ClusterWait,
    For,
    If,
    Kernel,
    MbarrierArrive,
    MbarrierWait,
    Role,
    StAsync,
    Stmt,
)
from syncverify.model.ordering import Need, ordering
from syncverify.model.proxies import Access
from syncverify.passes.access import accesses
from syncverify.passes.edits import Edits, Path, enclosing, numbered, replaced_at, statement
from syncverify.passes.rewrite import parity
from syncverify.passes.trace import Step, traced


@dataclass(frozen=True)
class _Push:
    """The st.async of one round into one buffer of one block. ``carrier``: the loop of the rounds, if any."""

    buffer: str
    bar: str
    owner: Expr
    places: tuple[Path, ...]
    carrier: Path | None


@dataclass(frozen=True)
class ClusterPushes:
    """st.async, then a read by the block that owns the bytes: their completion on its mbarrier (R8).

    The owner announces the bytes that all blocks of the cluster push in a round, counted by running them.
    Its reads, then the next round's pushes by other blocks: a cluster barrier at the end of the round.
    """

    name: str = "cluster-pushes"

    def apply(self, kernel: Kernel) -> Kernel:
        edits = Edits()
        renamed: dict[Path, Stmt] = {}
        names: list[str] = []
        for push in _pushes(kernel):
            use: Expr = Int(0)
            if push.carrier is not None:
                use = _round(kernel, push.carrier)
            bar = BarrierRef(push.bar, use % 1)
            self._announce(kernel, push, bar, edits)
            for place in _reads(kernel, push):
                edits.put_before(place, MbarrierWait(bar, parity(bar.index), scope="cluster"))
            again = ordering(Access.GENERIC_READ, Access.STASYNC_WRITE).need is not Need.NOTHING
            if push.carrier is not None and again:
                self._end_round(kernel, push.carrier, edits)
            for p in push.places:
                s = statement(kernel.body, p)
                assert isinstance(s, StAsync)
                renamed[p] = replace(s, bar=replace(bar, rank=push.owner))
            names.append(push.bar)
        body = edits.apply(replaced_at(kernel.body, renamed))
        declared = tuple(b for b in kernel.barriers if b.name not in names)
        return replace(kernel, body=body, barriers=(*declared, *(Barrier(n, Int(1)) for n in names)))

    def _announce(self, kernel: Kernel, push: _Push, bar: BarrierRef, edits: Edits) -> None:
        first = push.places[0]
        depth = 1 if push.carrier is None else len(push.carrier) + 2
        arrive = MbarrierArrive(bar, expect=Int(_bytes(kernel, push)))
        issuer = Role("expect", "warps", Int(0), Int(1), (arrive,))
        edits.put_before(first[:depth], If(Var("rank").eq(push.owner), (issuer,)))

    def _end_round(self, kernel: Kernel, carrier: Path, edits: Edits) -> None:
        loop = statement(kernel.body, carrier)
        assert isinstance(loop, For)
        last = (*carrier, 0, len(loop.body) - 1)
        if not any(isinstance(s, ClusterWait) for s in edits.after.get(last, ())):
            edits.put_after(last, ClusterArrive(), ClusterWait())


def _pushes(kernel: Kernel) -> Iterable[_Push]:
    found: dict[tuple[str, str], list[tuple[Path, StAsync]]] = {}
    for p, s in numbered(kernel.body):
        if isinstance(s, StAsync):
            found.setdefault((s.dst.buffer, s.bar.name), []).append((p, s))
    for (buffer, bar), at in found.items():
        owners = {s.dst.rank for _, s in at}
        if len(owners) > 1 or None in owners:
            raise InputError(f"pushes into {buffer} must go to one block of the cluster", at[0][1].span)
        (owner,) = owners
        assert owner is not None
        loops = [tuple(q for q in enclosing(p) if isinstance(statement(kernel.body, q), For)) for p, _ in at]
        common = [q for q in loops[0] if all(q in other for other in loops)]
        yield _Push(buffer, bar, owner, tuple(p for p, _ in at), common[0] if common else None)


def _round(kernel: Kernel, carrier: Path) -> Expr:
    loop = statement(kernel.body, carrier)
    assert isinstance(loop, For)
    if loop.lo != Int(0) or loop.step != Int(1):
        raise InputError("rounds of pushes are counted from 0 by 1", loop.span)
    return Var(loop.var)


def _bytes(kernel: Kernel, push: _Push) -> int:
    """What all threads of all blocks of a cluster push in the first round."""
    shared = next(s for s in kernel.shared if s.name == push.buffer)
    total = 0
    for rank in range(kernel.launch.ctas):
        for t in traced(kernel, 1, rank=rank):
            if isinstance(t, Step) and isinstance(t.stmt, StAsync) and t.path in push.places:
                count = 1 if t.stmt.dst.count is None else evaluate(t.stmt.dst.count, {})
                total += t.threads * count * DTYPE_BYTES[shared.dtype]
    return total


def _reads(kernel: Kernel, push: _Push) -> list[Path]:
    """In front of what the pushed bytes are read, outside loops: only there the owner waits."""
    found: list[Path] = []
    for p, s in numbered(kernel.body):
        if any(a is Access.GENERIC_READ and r.buffer == push.buffer for a, r in accesses(s)):
            at = p
            while (
                len(at) > 2 and isinstance(statement(kernel.body, at[:-2]), For) and at[:-2] != push.carrier
            ):
                at = at[:-2]
            if not any(q[:-1] == at[:-1] for q in found):
                found.append(at)
    return found
