"""Kernels whose blocks share global memory in block groups of one size each. See docs/block_groups.md."""

from __future__ import annotations

from dataclasses import fields
from math import prod

from syncverify.checker.prover.modular.group_positions import MOST
from syncverify.frontends.ir.flag_chain import flag_tensors, written
from syncverify.frontends.ir.tables import exchanged, mixes_atomics, synchronizes_globally
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import expressions, statements
from syncverify.ir.expr import BUILTINS, Binary, Expr, Int, Var, names, walk


def group_size(kernel: n.Kernel) -> int:
    """How many blocks a block group has, where blocks share global memory in block groups; 0 where they do
    not.

    It is determined by what blocks divide their number by. A wrong number proves nothing wrong: places of a
    group that others might reach are found where they are reached.
    """
    if not synchronizes_globally(kernel):
        return 0
    row = in_rows(kernel)
    if not row and flag_tensors(kernel) and prod(kernel.launch.cluster) == 1:
        return 0
    shared, body = tracked(kernel), list(statements(kernel.body))
    boxes = any(m.tensor in shared for m in kernel.maps)
    boxes = boxes or any(isinstance(s, n.TensormapReplace) for s in body)
    if boxes or mixes_atomics(kernel) or any(_steers(s, shared) for s in body):
        return 0
    if row:
        return row
    given = {s.name: s.value for s in body if isinstance(s, n.Let)}
    numbers = (x for s in body for e in expressions(s) for x in walk(e) if isinstance(x, Binary))
    units = {_unit(x, given)[0] for x in numbers}
    size = max(units - {0}, default=0)
    whole = 1 < size <= MOST and size % prod(kernel.launch.cluster) == 0
    return size if whole and all(size % x == 0 for x in units - {0}) else 0


def in_rows(kernel: n.Kernel) -> int:
    """How many blocks a row of the grid has, where its rows are block groups: a number, of whole clusters,
    and there
    may be several rows; else 0."""
    (x, y, z), (c, *others) = kernel.launch.grid, kernel.launch.cluster
    if not isinstance(x, Int) or y == Int(1) or z != Int(1) or any(size > 1 for size in others):
        return 0
    return x.value if 1 < x.value <= MOST and x.value % c == 0 and x.value > c else 0


def tracked(kernel: n.Kernel) -> frozenset[str]:
    """The tensors whose accesses are compared: those that blocks exchange data through, and others that are
    written, through both proxies or as far as the block's number and constants say where."""
    body = list(statements(kernel.body))
    given: dict[str, list[Expr]] = {}
    for s in body:
        if isinstance(s, n.Let | n.Assign):
            given.setdefault(s.name, []).append(s.value)
        elif isinstance(s, n.For):
            given.setdefault(s.var, []).extend((s.lo, s.hi, s.step))
    unplaced = {m.tensor for m in kernel.maps}
    for s in body:
        for place in (x for f in fields(s) if isinstance(x := getattr(s, f.name), n.GlobalRegion)):
            parts = [e for e in (place.start, place.count, place.rows, place.pitch) if e is not None]
            if not _from_block_number(parts, given):
                unplaced.add(place.tensor)
    of = {m.name: m.tensor for m in kernel.maps}
    generic = {s.dst.tensor for s in body if isinstance(s, n.StGlobal)}
    bulk = {s.dst.tensor if isinstance(s, n.BulkStore) else of.get(s.map, "")
            for s in body if isinstance(s, n.BulkStore | n.TmaStore)}  # fmt: skip
    return exchanged(kernel) | (written(kernel) - unplaced) | (generic & bulk)


def _from_block_number(parts: list[Expr], given: dict[str, list[Expr]]) -> bool:
    """Whether expressions are made of the block's number, its threads' and constants."""
    work, seen = list(parts), set[str]()
    while work:
        more = names(work.pop()) - BUILTINS - seen
        if not more <= given.keys():
            return False
        seen |= more
        work += [e for name in more for e in given[name]]
    return True


def _steers(s: n.Stmt, shared: frozenset[str]) -> bool:
    """Whether a statement reads an integer from memory that blocks share."""
    match s:
        case n.LoadIndex(source=place):
            return place.tensor in shared
        case n.AtomGlobal(dst=place, name=name):
            return name is not None and place.tensor in shared
    return False


def _unit(e: Expr, given: dict[str, Expr]) -> tuple[int, bool]:
    """How many blocks differ in what a number of the block's was divided by, 0 for other expressions; and
    whether it is a remainder, of which there are no more."""
    match e:
        case Var("block" | "block.x"):
            return 1, False
        case Var(name) if name in given:
            return _unit(given[name], {k: v for k, v in given.items() if k != name})
        case Binary("//" | "%" as op, left, Int(by)) if by > 0:
            unit, rest = _unit(left, given)
            return (unit, True) if rest else (unit * by, op == "%")
    return 0, False


def position_from_block(kernel: n.Kernel) -> frozenset[str]:
    """What is determined by which block of its block group a block is."""
    found = {"block", "block.x"}
    body = [s for s in statements(kernel.body) if isinstance(s, n.Let | n.Assign)]
    while True:
        more = {s.name for s in body if names(s.value) & found} - found
        if not more:
            return frozenset(found)
        found |= more


def assumed(kernel: n.Kernel, restores: bool) -> tuple[str, ...]:
    """What a proof for every size takes for granted where blocks share global memory in block groups;
    ``restores``:
    flags are left as they are found."""
    if not group_size(kernel):
        return ()
    spun = sorted({s.src.tensor for s in statements(kernel.body) if isinstance(s, n.SpinGlobal)})
    others = sorted(written(kernel) - tracked(kernel))
    left = ", and every launch leaves them so" if restores else ""
    out = [f"the flags in {', '.join(spun)} are 0 at launch{left}"] if spun else []
    if spun and not kernel.launch.cooperative:
        out.append("a block starts no later than those of higher numbers, which wait for it")
    if others:
        out.append(f"no place of {', '.join(others)} is written twice")
    return tuple(out)


__all__ = ["assumed", "in_rows", "position_from_block", "group_size", "tracked"]
