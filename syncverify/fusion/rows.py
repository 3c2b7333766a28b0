"""Lowering of fusions that reduce along rows: one kernel per row length, without any synchronization.

A tile is one row for all compute warps, or one row for each of them. Its threads read their parts of the row
into registers, reduce them over the thread, the warp (shuffles) and, where warps share a row, through shared
memory, and store what they computed. Parts of a row that are handled together are *groups*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from operator import mul

import networkx as nx

from syncverify.fusion.functions import COMPARISONS, FUNCTIONS, REDUCTIONS
from syncverify.fusion.graph import INDEX_DTYPES, Fusion, Output
from syncverify.fusion.lower import full_barrier, stored_node, tile_buffer
from syncverify.fusion.row_schedule import MOST_ELEMENTS, RowSchedule, vector
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Var
from syncverify.ir.nodes import (
    Barrier,
    BarrierRef,
    BulkLoad,
    Compute,
    For,
    GlobalRegion,
    If,
    Kernel,
    Launch,
    LdGlobal,
    LdShared,
    Let,
    LoadIndex,
    Param,
    Region,
    Shared,
    Shuffle,
    StGlobal,
    Stmt,
    StShared,
    Tensor,
)
from syncverify.passes.rewrite import replaced, walk
from syncverify.source import InputError

#: Elements of a row that one thread handles together.
GROUP_ELEMENTS = 16
LANES = 32


@dataclass(frozen=True, slots=True)
class Group:
    """A thread's part of a row: ``rows`` runs, from element ``start`` of the row on.

    ``count``: elements of the row from ``start`` on that threads hold, where not all of them hold some.
    """

    number: int
    start: int
    rows: int
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements of a tile that are copied together: those of one group, or all (``number`` None)."""

    number: int | None
    start: int
    count: int


@dataclass(frozen=True)
class RowKernel:
    """One fusion for rows of ``width`` elements under a fitted schedule."""

    fusion: Fusion
    schedule: RowSchedule
    width: int

    def __post_init__(self) -> None:
        dims = self.fusion.dims
        for name, t in self.fusion.inputs:
            if t.dims not in (dims, dims[:-1], dims[-1:], ()):
                raise InputError(
                    f"{self.fusion.name}: {name} has dimensions {t.dims}; beside rows ({', '.join(dims)}) "
                    f"there may be operands of ({', '.join(dims[:-1])}), of ({dims[-1]}) and scalars",
                    self.fusion.span,
                )
            if t.dims == dims and t.dtype in INDEX_DTYPES:
                raise InputError(f"{self.fusion.name}: {name} holds indices; they are for whole rows")

    # ------------------------------------------------------------ shape

    @property
    def vector(self) -> int:
        return vector(self.fusion, self.width)

    @property
    def threads(self) -> int:
        """Threads that share a row."""
        return self.schedule.warps * LANES

    @property
    def member(self) -> Expr:
        """A thread's number among those that share its row."""
        return Var("lane") if self.schedule.warps == 1 else Var("tid")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The parts of a row, in order; threads hold neighbouring vectors of each run."""
        span = self.threads * self.vector
        runs, rest = divmod(self.width, span)
        most = max(1, GROUP_ELEMENTS // self.vector)
        found = [Group(k, at * span, min(most, runs - at)) for k, at in enumerate(range(0, runs, most))]
        if rest:
            found.append(Group(len(found), runs * span, 1, rest))
        if sum(g.rows for g in found) * self.vector > 2 * MOST_ELEMENTS:
            raise InputError(
                f"{self.fusion.name}: rows of {self.width} elements need accesses that are wider"
            )
        return tuple(found)

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """What is copied together: a whole tile, or each group of a row."""
        s = self.schedule
        if s.source != "bulk":
            return ()
        if s.split != "yes":
            return (Chunk(None, 0, s.tile_rows * self.width),)
        span = self.threads * self.vector
        return tuple(Chunk(g.number, g.start, g.count or g.rows * span) for g in self.groups)

    @property
    def staged(self) -> tuple[str, ...]:
        """The buffers that copies fill."""
        return tuple(_chunk_buffer(n, c) for c in self.chunks for n in self.fusion.streamed)

    # ------------------------------------------------------------ the kernel

    def lower(self) -> Kernel:
        """The kernel without synchronization."""
        f, s = self.fusion, self.schedule
        bulk = s.source == "bulk"
        first = (Var("block") + Var("i") * Var("grid")) * s.tile_rows if s.tile_rows > 1 else (
            Var("block") + Var("i") * Var("grid")
        )  # fmt: skip
        copies: list[Stmt] = [
            BulkLoad(
                Region(_chunk_buffer(n, c), (), Int(0), Int(c.count)),
                GlobalRegion(n, _plus(first * self.width, c.start), Int(c.count)),
                BarrierRef(full_barrier(c.number or 0), Int(0)),
            )
            for c in self.chunks
            for n in f.streamed
        ]
        row = first + Var("warp") if s.tile_rows > 1 else first
        body: list[Stmt] = [Let("n", Var("each") + (Var("block") < Var("more"))), *self._held()]
        body.append(For("i", Int(0), Var("n"), Int(1), (*copies, Let("row", row), *self._row(bulk))))
        if s.tile_rows > 1:
            # warps without a row compute the last one again, and store nothing: all shuffle alike
            own = (Var("each") * Var("grid") + Var("more")) * s.tile_rows + Var("warp")
            rows = reduce(mul, map(Var, f.dims[:-1]))
            last = Let("row", Call("min", (own, rows - 1)))
            ragged = renamed(tuple(self._row(False, Var("warp") < Var("rest"))), "last")
            body.append(If(Var("block").eq(Var("grid") - 1), (last, *ragged)))
        types = {n: t.dtype for n, t in f.inputs}
        shared = [
            Shared(_chunk_buffer(n, c), types[n], (Int(c.count),)) for c in self.chunks for n in f.streamed
        ]
        shared += [
            Shared(part_buffer(d), "f32", (Int(self._slots), Int(len(found) * s.warps)))
            for d, found in self._exchanges.items()
        ]
        leading = f.dims[:-1]
        return Kernel(
            name=f.name,
            launch=Launch(grid=(Var("blocks"), Int(1), Int(1)), block=(s.compute_warps * LANES, 1, 1)),
            params=tuple(
                Param(name, "i32" if name in _I32 else s.index, v)
                for name, v in row_values(s.tile_rows, self.default_sizes(), 2, leading).items()
            ),
            tensors=tuple(
                [Tensor(n, t.dtype, self._shape(t.dims), "in") for n, t in f.inputs]
                + [Tensor(o.name, o.dtype, self._shape(o.dims), "out") for o in f.outputs]
            ),
            shared=tuple(shared),
            barriers=tuple(Barrier(full_barrier(c.number or 0)) for c in self.chunks),
            assumes=(
                *(Var(d) >= 1 for d in leading),
                Var("each") >= 0,
                Var("more") >= 0,
                Var("more") < Var("blocks"),
                Var("rest") >= 0,
                Var("rest") < s.tile_rows,
                Var("blocks") >= 1,
            ),
            body=tuple(body),
            span=f.span,
        )

    def default_sizes(self) -> dict[str, int]:
        """Sizes of an exact check: every slot is reused, and the end is ragged."""
        s, leading = self.schedule, self.fusion.dims[:-1]
        sizes = dict.fromkeys(leading, 1)
        if leading:
            sizes[leading[0]] = (2 * (2 * s.stages + 2) + 1) * s.tile_rows + s.tile_rows // 2
        return sizes

    def _shape(self, dims: tuple[str, ...]) -> tuple[Expr, ...]:
        inner = self.fusion.dims[-1]
        return tuple(Int(self.width) if d == inner else Var(d) for d in dims) or (Int(1),)

    # ------------------------------------------------------------ what is computed when

    @cached_property
    def _live(self) -> list[int]:
        graph = self.fusion.graph
        targets = {stored_node(self.fusion, o) for o in self.fusion.outputs}
        needed = targets.union(*(nx.ancestors(graph, t) for t in targets))
        return [i for i in self.fusion.order() if i in needed]

    def _wide(self, i: int) -> bool:
        """Whether a node differs along the row."""
        return self.fusion.dims[-1] in self.fusion.dims_of(i)

    @cached_property
    def _depth(self) -> dict[int, int]:
        """How many reductions, one after the other, come before a node."""
        depth: dict[int, int] = {}
        for i in self._live:
            node = self.fusion.node(i)
            before = max((depth[a] for a in node.args), default=0)
            depth[i] = before + 1 if node.op in REDUCTIONS else before
        return depth

    @cached_property
    def _named(self) -> frozenset[int]:
        """Nodes with registers of their own: used twice, or a row's number that its elements use."""
        f, live = self.fusion, set(self._live)
        stored = [stored_node(f, o) for o in f.outputs]
        found: set[int] = set()
        for i in self._live:
            node = f.node(i)
            users = [u for u in f.graph.successors(i) if u in live]
            if node.op in ("input", "const", "size", "index", *COMPARISONS):
                continue
            number = not self._wide(i) and any(self._wide(u) for u in users)
            if node.op in ("take", *REDUCTIONS) or number or len(users) + stored.count(i) > 1:
                found.add(i)
        return frozenset(found)

    @cached_property
    def _reductions(self) -> dict[int, list[int]]:
        """For every step, the reductions that end it."""
        steps: dict[int, list[int]] = {}
        for i in self._live:
            if self.fusion.node(i).op in REDUCTIONS:
                steps.setdefault(self._depth[i] - 1, []).append(i)
        return steps

    @property
    def _exchanges(self) -> dict[int, list[int]]:
        """The reductions that need shared memory."""
        return self._reductions if self.schedule.warps > 1 else {}

    @property
    def _slots(self) -> int:
        """With two exchanges a row each barrier separates the other's rounds; one alone takes turns."""
        return 2 if len(self._exchanges) == 1 else 1

    # ------------------------------------------------------------ one row

    def _row(self, staged: bool, stores: Expr | None = None) -> Iterator[Stmt]:
        """One row, from loads to stores.

        ``staged``: its elements are in shared memory. ``stores``: which threads store (None: all).
        """
        loaded: set[tuple[str, int | None]] = set()
        stored: set[str] = set()
        last = max(self._depth.values(), default=0)
        yield from self._numbers()
        for step in range(last + 1):
            here = [i for i in self._live if self._depth[i] == step and i in self._named]
            numbers = [i for i in here if not self._wide(i) and self.fusion.node(i).op not in REDUCTIONS]
            yield from (Compute(f"t{i}", self._expression(i, None, top=True)) for i in numbers)
            outputs = [o for o in self.fusion.outputs if self._depth[stored_node(self.fusion, o)] == step]
            for g in self.groups:
                wide = [i for i in here if self._wide(i)]
                reduced = self._reductions.get(step, [])
                roots = [*wide, *(a for i in reduced for a in self.fusion.node(i).args)]
                roots += [stored_node(self.fusion, o) for o in outputs]
                for name in self._inputs_of(roots):
                    if (name, g.number) not in loaded:
                        loaded.add((name, g.number))
                        yield from self._load(name, g, staged)
                yield from (Compute(f"t{i}_{g.number}", self._expression(i, g, top=True)) for i in wide)
                yield from (self._local(i, g) for i in reduced)
                for o in outputs:
                    if self._wide(stored_node(self.fusion, o)) or o.dims == self.fusion.dims:
                        yield _guarded(self._store(o, g), stores)
                        stored.add(o.name)
            for o in outputs:
                if o.name not in stored:
                    stored.add(o.name)
                    store = StGlobal(GlobalRegion(o.name, Var("row")), self._result(o, None))
                    yield _guarded(_guarded(store, self.member.eq(0)), stores)
            yield from self._across(step)

    def _numbers(self) -> Iterator[Stmt]:
        """Loads of what a row has one of: its operands, and elements that they name."""
        f = self.fusion
        taken = [i for i in self._live if f.node(i).op == "take"]
        places = {f.node(f.node(i).args[1]).name for i in taken}
        others = {f.node(a).name for i in self._live if i not in taken for a in f.node(i).args}
        for name, t in f.inputs:
            if t.dims and t.dims == f.dims[:-1] and (name not in places or name in others):
                yield LdGlobal(_register(name), GlobalRegion(name, Var("row")))
        for name in sorted(places):
            yield LoadIndex(f"{name}_at", GlobalRegion(name, Var("row")))
        for i in taken:
            x, place = (f.node(a).name for a in f.node(i).args)
            at = Call("select", (_within(Var(f"{place}_at"), self.width), Var(f"{place}_at"), Int(0)))
            yield LdGlobal(f"x{i}", GlobalRegion(x, Var("row") * self.width + at))

    def _inputs_of(self, roots: list[int]) -> list[str]:
        """The inputs along the row that some nodes read, directly or through nodes without registers."""
        found: list[str] = []
        work, seen = list(roots), set[int]()
        while work:
            i = work.pop(0)
            if i in seen:
                continue
            seen.add(i)
            node = self.fusion.node(i)
            if node.op == "take":
                continue
            if node.op == "input" and self._wide(i) and not self._kept(node.name):
                found.append(node.name)
            elif i in roots or i not in self._named:
                work += node.args
        order = [n for n, _ in self.fusion.inputs]
        return sorted(set(found), key=order.index)

    def _kept(self, name: str) -> bool:
        """Whether an operand that all rows share stays in registers."""
        t = dict(self.fusion.inputs)[name]
        return t.dims == self.fusion.dims[-1:] and t.dims != self.fusion.dims and (
            self.schedule.operands == "registers"
        )  # fmt: skip

    def _held(self) -> Iterator[Stmt]:
        """Loads of what all rows share, before the first."""
        for name, t in self.fusion.inputs:
            if not t.dims:
                yield LdGlobal(_register(name), GlobalRegion(name, Int(0)))
            elif self._kept(name):
                for g in self.groups:
                    yield from self._load(name, g, False)

    def _load(self, name: str, g: Group, staged: bool) -> Iterator[Stmt]:
        t = dict(self.fusion.inputs)[name]
        streamed = t.dims == self.fusion.dims
        at = self._place(g)
        rows = (Int(g.rows), Int(self.threads * self.vector)) if g.rows > 1 else (None, None)
        register = _register(name, g)
        if streamed and staged:
            (chunk,) = (c for c in self.chunks if c.number in (None, g.number))
            base = self._place(replace(g, start=g.start - chunk.start), chunk.start)
            base = Var("warp") * self.width + base if self.schedule.tile_rows > 1 else base
            yield LdShared(register, Region(_chunk_buffer(name, chunk), (), base, Int(self.vector), *rows))
        else:
            base = Var("row") * self.width + at if streamed else at
            yield LdGlobal(register, GlobalRegion(name, base, Int(self.vector), *rows))

    def _place(self, g: Group, before: int = 0) -> Expr:
        """The first element of the row that a thread holds of a group; inside the row for all threads.

        ``before``: elements of the row that come before what is counted here.
        """
        at = _plus(self.member * self.vector if self.vector > 1 else self.member, g.start)
        return at if g.count is None else Call("min", (at, Int(self.width - before - self.vector)))

    def _inside(self, g: Group) -> Expr:
        """Whether a thread holds elements of a group that not all hold."""
        assert g.count is not None
        return self.member < g.count // self.vector

    def _local(self, i: int, g: Group) -> Stmt:
        """A reduction's part in one thread, over one more group."""
        node = self.fusion.node(i)
        made = REDUCTIONS[node.op]
        (a,) = node.args
        x = self._expression(a, g)
        if g.count is not None:
            x = Call("select", (self._inside(g), x, Float(made.identity)))
        part: Expr = Call(node.op, (x,))
        return Compute(f"t{i}", part if g.number == 0 else made.combine(Var(f"t{i}"), part))

    def _across(self, step: int) -> Iterator[Stmt]:
        """What threads reduced, reduced over the warp and over the warps of a row."""
        found = self._reductions.get(step, [])
        for i in found:
            combine = REDUCTIONS[self.fusion.node(i).op].combine
            for distance in (16, 8, 4, 2, 1):
                yield Shuffle(f"s{i}", Var(f"t{i}"), Int(distance))
                yield Compute(f"t{i}", combine(Var(f"t{i}"), Var(f"s{i}")))
        warps = self.schedule.warps
        if not found or warps == 1:
            return
        slot = (Var("i") % self._slots if self._slots > 1 else Int(0),)
        places = {i: k * warps for k, i in enumerate(found)}
        yield If(
            Var("lane").eq(0),
            tuple(
                StShared(Region(part_buffer(step), slot, _plus(Var("warp"), k), Int(1)), Var(f"t{i}"))
                for i, k in places.items()
            ),
        )
        for i, k in places.items():
            yield LdShared(f"q{i}", Region(part_buffer(step), slot, Int(k), Int(warps)))
            yield Compute(f"t{i}", Call(self.fusion.node(i).op, (Var(f"q{i}"),)))

    def _store(self, o: Output, g: Group) -> Stmt:
        at = Var("row") * self.width + self._place(g)
        rows = (Int(g.rows), Int(self.threads * self.vector)) if g.rows > 1 else (None, None)
        store = StGlobal(GlobalRegion(o.name, at, Int(self.vector), *rows), self._result(o, g))
        return _guarded(store, None if g.count is None else self._inside(g))

    # ------------------------------------------------------------ expressions

    def _result(self, o: Output, g: Group | None) -> Expr:
        return self._expression(stored_node(self.fusion, o), g)

    def _expression(self, i: int, g: Group | None, top: bool = False) -> Expr:
        """A node for one group; ``top``: its own computation, not its register."""
        node = self.fusion.node(i)
        wide = self._wide(i)
        if node.op == "input":
            return Var(_register(node.name, g if wide else None))
        if node.op in ("const", "size"):
            return Float(node.value if node.op == "const" else float(self.width))
        if i in self._named and (not top or node.op in REDUCTIONS):
            return Var(f"t{i}_{g.number}" if wide and g is not None else f"t{i}")
        if node.op == "take":
            at = Var(f"{self.fusion.node(node.args[1]).name}_at")
            inside = Call("select", (at < self.width, Var(f"x{i}"), Float(0.0)))
            return Call("select", (at >= 0, inside, Float(0.0)))
        if node.op == "index":
            assert g is not None
            return self._iota(g) + self._place(g)
        if node.op in COMPARISONS:
            found = self._compared_index(i, g)
            if found is not None:
                return found
        return FUNCTIONS[node.op].express(*(self._expression(a, g) for a in node.args))

    def _compared_index(self, i: int, g: Group | None) -> Expr | None:
        """A comparison of the place in the row with a number of the row: constants against a difference."""
        node = self.fusion.node(i)
        a, b = node.args
        if g is None or self.fusion.node(a).op != "index" or self._wide(b):
            return None
        return FUNCTIONS[node.op].express(self._iota(g), self._expression(b, g) - self._place(g))

    def _iota(self, g: Group) -> Expr:
        return Call("iota", (Int(self.vector), Int(g.rows), Int(self.threads * self.vector)))


_I32 = ("more", "rest", "blocks")
#: Statements that set value registers.
_MAKERS = (LdGlobal, LdShared, Compute, Shuffle)


def part_buffer(step: int) -> str:
    """The shared memory through which warps exchange what they reduced at the end of a step."""
    return f"part{step}"


def row_values(
    tile_rows: int, sizes: Mapping[str, int], blocks: int, leading: tuple[str, ...]
) -> dict[str, int]:
    """A lowered kernel's parameters: tiles of ``each`` block, blocks with ``more``, rows that ``rest``."""
    tiles, rest = divmod(prod(sizes[d] for d in leading), tile_rows)
    grid = max(1, min(tiles, blocks))
    return {
        **{d: sizes[d] for d in leading},
        "each": tiles // grid,
        "more": tiles % grid,
        "rest": rest,
        "blocks": grid,
    }


def _chunk_buffer(tensor: str, chunk: Chunk) -> str:
    return tile_buffer(tensor) + ("" if chunk.number is None else str(chunk.number))


def _register(tensor: str, g: Group | None = None) -> str:
    return f"{tensor}_v" if g is None else f"{tensor}_v{g.number}"


def _plus(a: Expr, n: int) -> Expr:
    return a if n == 0 else a + n


def _within(e: Expr, width: int) -> Expr:
    return Binary("and", e >= 0, e < width)


def _guarded(stmt: Stmt, condition: Expr | None) -> Stmt:
    match stmt, condition:
        case _, None:
            return stmt
        case If(cond, then), Expr():
            return If(Binary("and", condition, cond), then)
    assert condition is not None
    return If(condition, (stmt,))


def renamed(body: tuple[Stmt, ...], suffix: str) -> tuple[Stmt, ...]:
    """Statements with value registers of their own: those set among them get a suffix."""
    made = {s.name: Var(f"{s.name}_{suffix}") for s in walk(body) if isinstance(s, _MAKERS)}

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        stmt = replaced(stmt, made)
        return (replace(stmt, name=made[stmt.name].name),) if isinstance(stmt, _MAKERS) else (stmt,)

    return tuple(x for s in body for x in change(s))
