"""Kernels whose blocks hand on flags in global memory, each block to the next. See docs/block_groups.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from syncverify.frontends.ir.tables import Tables, mixes_atomics
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import LANE_BUILTINS, Binary, Expr, names, walk
from syncverify.symbolic.context import NotConcrete, SymbolicContext

_INTEGERS = frozenset({"i32", "u32", "i64", "u64"})
_IN_BLOCK = LANE_BUILTINS | {"warp", "wg"}
_SIGNALS = frozenset({"relaxed", "release", "acq_rel", "sc"})


def flag_tensors(kernel: n.Kernel) -> frozenset[str]:
    """The tensors that blocks spin on, if nothing but spins and single signals touches them; else none."""
    body = list(statements(kernel.body))
    spun = frozenset(s.src.tensor for s in body if isinstance(s, n.SpinGlobal))
    for s in body:
        if spun & set(_tensors(kernel, s)) and not isinstance(s, n.SpinGlobal) and not _signal(s):
            return frozenset()
    if any(t.name in spun and t.dtype not in _INTEGERS for t in kernel.tensors):
        return frozenset()
    if any(_scattered(s, kernel) for s in body if spun & set(_tensors(kernel, s))):
        return frozenset()
    # boxes of a tensor lie apart by sizes that have no number
    boxes = bool(written(kernel) & {m.tensor for m in kernel.maps})
    edits = any(isinstance(s, n.TensormapReplace) for s in body)
    return frozenset() if boxes or edits or mixes_atomics(kernel) else spun


def _scattered(s: n.Stmt, kernel: n.Kernel) -> bool:
    """Whether quotients of blocks or sizes say where a flag is: no chain is seen, and a look takes long."""
    given: dict[str, list[Expr]] = {}
    for x in statements(kernel.body):
        if isinstance(x, n.Let | n.Assign):
            given.setdefault(x.name, []).append(x.value)
    work = [f.start for f in (getattr(s, x.name) for x in fields(s)) if isinstance(f, n.GlobalRegion)]
    seen: set[str] = set()
    for e in work:
        parts = [x for x in walk(e) if isinstance(x, Binary) and x.op in ("//", "%")]
        if any(not names(x) <= _IN_BLOCK for x in parts):
            return True
        work += [x for name in names(e) - seen for x in given.get(name, ())]
        seen |= names(e)
    return False


def assumed(kernel: n.Kernel) -> tuple[str, ...]:
    """What a proof for every size takes for granted where blocks hand on flags."""
    flags = sorted(flag_tensors(kernel))
    zero = f"the flags in {', '.join(flags)} are 0 at launch"
    order = "a block starts no later than those of higher numbers, which wait for it"
    return (zero, *([] if kernel.launch.cooperative else [order])) if flags else ()


def _signal(s: n.Stmt) -> bool:
    """Whether a statement only gives a flag another value."""
    if isinstance(s, n.StGlobal):
        return s.sem in _SIGNALS
    return isinstance(s, n.AtomGlobal) and s.sem in _SIGNALS and s.op == "add" and s.name is None


def written(kernel: n.Kernel) -> frozenset[str]:
    """The tensors that a kernel may write."""
    found: set[str] = set()
    for s in statements(kernel.body):
        if not isinstance(s, n.LdGlobal | n.SpinGlobal | n.BulkLoad | n.TmaLoad | n.CpAsync | n.LoadIndex):
            found.update(_tensors(kernel, s))
    return frozenset(found)


def _tensors(kernel: n.Kernel, s: n.Stmt) -> Iterator[str]:
    """The tensors that a statement names, itself or by a map."""
    maps = {m.name: m.tensor for m in kernel.maps}
    for f in fields(s):
        match getattr(s, f.name):
            case n.GlobalRegion(tensor):
                yield tensor
            case str(name) if name in maps:
                yield maps[name]


def two_blocks(across: list[Any], space: SymbolicContext) -> list[tuple[str, ...]]:
    """Any two blocks of a grid, one before the other, by what the path calls their numbers; its only block.

    The first block of all is distinguished from the others, which may go on where it does not.
    """
    if not all(isinstance(size, int) and size == 1 for size in across[1:]):
        raise NotConcrete("blocks synchronize through global memory, in a grid of several dimensions")
    (size, *_), numbers = across, space.path.sizes
    if size <= 1:
        numbers["block"] = 0
        return [("block",)]
    few = bool(size <= 2)  # no two but one of them the first of all
    numbers["first"], numbers["second"] = 0, space.symbol("second", 1, None)
    space.path.assume(*space.of(size - numbers["second"] - 1))
    if few:
        return [("first", "second")]
    numbers["earlier"], numbers["later"] = space.symbol("earlier", 1, None), space.symbol("later", 2, None)
    space.path.assume(*space.of(numbers["later"] - numbers["earlier"] - 1))
    space.path.assume(*space.of(size - numbers["later"] - 1))
    return [("first", "second"), ("earlier", "later")]


def placed(space: SymbolicContext, blocks: tuple[str, ...]) -> dict[int, dict[str, Any]]:
    """What is known of the places of some blocks, by CTA."""
    numbers = space.path.sizes
    at = {cta: numbers[name] for cta, name in enumerate(blocks)}
    return {cta: {"block": x, "block.x": x, "block.y": 0, "block.z": 0} for cta, x in at.items()}


@dataclass(frozen=True, slots=True)
class Moved:
    """Addresses of global memory that move with blocks, on the path that is followed."""

    tables: Tables
    space: SymbolicContext
    blocks: tuple[str, ...]

    def apart(self, first: tuple[int, int], second: tuple[int, int]) -> bool:
        """Whether nothing of one range of addresses is what the other names, as far as the path knows."""
        (a, b), (c, d) = self.real(*first), self.real(*second)
        return self.sure(c - b) or self.sure(a - d)

    def before(self, first: int, second: int) -> bool:
        """Whether what the second block names is, determined by the block before it, what the first names."""
        middle, _, step = self.tables.window_of(second)
        here, there = (self.space.resolved(self.space.path.sizes[name]) for name in self.blocks)
        if not step and not (isinstance(here, int) and isinstance(there, int) and there == here + 1):
            return False
        return self.same(self.real(first, first)[0], (here + 1) * step + second - middle)

    def next(self, one: int, other: int) -> bool:
        """Whether the block after this one would name by one address what this one names by the other."""
        middle, cta, step = self.tables.window_of(one)
        window = self.tables.window_of(other) == (middle, cta, step)
        return window and (other - one == step if step else self.known(cta))

    def known(self, cta: int) -> bool:
        """Whether a block has a number."""
        return isinstance(self.space.resolved(self.space.path.sizes[self.blocks[cta]]), int)

    def same(self, one: Any, other: Any) -> bool:
        """Whether two values are known to be equal."""
        return self.sure(one - other) and self.sure(other - one)

    def real(self, low: int, high: int) -> tuple[Any, Any]:
        """Where the addresses of some window really are."""
        middle, cta, step = self.tables.window_of(low)
        base = self.space.path.sizes[self.blocks[cta]] * step
        return base + low - middle, base + high - middle

    def sure(self, value: Any) -> bool:
        """Whether a value is known to be 0 or more."""
        path = self.space.path
        return path.decide(*path.resolve(*self.space.of(value))) is True


__all__ = ["Moved", "assumed", "flag_tensors", "placed", "two_blocks", "written"]
