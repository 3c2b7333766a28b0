"""Lowering of fusions that reduce along rows: one kernel per row length, without any synchronization.

A tile is one row for all compute warps, or one row for each of them. Its threads read their parts of the row
into registers, reduce them over the thread, the warp (shuffles) and, where warps share a row, through shared
memory, and store what they computed. Parts of a row that are handled together are *groups*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from operator import mul
from typing import Literal

import networkx as nx

from syncverify.base.source import InputError
from syncverify.fusion import row_strides
from syncverify.fusion.dataflow import (
    Dataflow,
    Part,
    abreast,
    number_at,
    register,
    renamed,
    row_numbers,
    row_start,
    stored_from,
)
from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion, Output
from syncverify.fusion.lower import (
    computed_dimensions,
    full_barrier,
    rest_tensor,
    stored_node,
    tile_buffer,
)
from syncverify.fusion.moments import Moments, crowded, of_lane
from syncverify.fusion.online import Squares, reduced_over_lanes, statistics
from syncverify.fusion.persistent import facts, fetched, launch_parameters, parameters, rounds
from syncverify.fusion.row_schedule import (
    MOST_ELEMENTS,
    VECTOR_BYTES,
    RowSchedule,
    gathers_by_warp,
    vector,
    widest_vector,
)
from syncverify.fusion.streamed import check_operands, edge, part_buffer, peeled_row
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Var
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    BulkLoad,
    BulkStore,
    Compute,
    For,
    GlobalRegion,
    If,
    Kernel,
    Launch,
    LdGlobal,
    LdShared,
    Let,
    Region,
    Shared,
    StGlobal,
    Stmt,
    StShared,
    Tensor,
)

#: Elements of a row that one thread handles together.
GROUP_ELEMENTS = 16
#: Groups whose loads come before the first store, where all are read again: registers hold two.
AHEAD = 2
#: So many threads of an SM that each has 64 registers.
ROOMY = 1024
#: So few that they stay in registers until the end of a step, where all are read again.
FEW = 8
#: Vectors of results that a thread reads from shared memory before it stores them.
STORED_RUNS = 4
LANES = 32
#: Warps of a cluster up to which proofs end soon where memory takes turns.
SOON = 32


@dataclass(frozen=True, slots=True)
class Group:
    """A thread's part of a row: ``rows`` runs, from element ``start`` of the row on.

    ``count``: elements of the row from ``start`` on that threads hold, where not all of them hold some. Of
    peeled rows ``start`` counts from the first aligned element, and ``end`` names what not all threads have:
    ``vectors``, or the single elements in front of the first and behind the last (``edges``).
    """

    number: int
    start: int
    rows: int
    count: int | None = None
    end: Literal["", "vectors", "edges"] = ""

    @property
    def partial(self) -> bool:
        """Whether some threads hold none of it."""
        return self.count is not None or self.end != ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements of a tile that are copied together: those of one group, or all (``number`` None)."""

    number: int | None
    start: int
    count: int


@dataclass(frozen=True)
class RowKernel:
    """One fusion for rows of ``width`` elements under a fitted schedule.

    ``turn``: which of the rows that a warp has at once, where these are several.
    """

    fusion: Fusion
    schedule: RowSchedule
    width: int
    turn: Expr | None = None

    def __post_init__(self) -> None:
        check_operands(self.fusion)

    # ------------------------------------------------------------ shape

    @property
    def vector(self) -> int:
        return widest_vector(self.fusion) if self._peeled else vector(self.fusion, self.width)

    @property
    def _peeled(self) -> bool:
        """Whether threads hold vectors that are aligned in memory, and the ends of a row apart from these."""
        return self.schedule.peel == "yes"

    @property
    def threads(self) -> int:
        """Threads that share a row."""
        s = self.schedule
        return s.warps * LANES * self.blocks if s.warps > 1 else s.row_lanes

    @property
    def blocks(self) -> int:
        """Blocks that share a row: those of a cluster, or one."""
        return max(1, self.schedule.cluster)

    @property
    def _number(self) -> Expr:
        """A block's number among those that have rows of their own."""
        return Var("block") // self.blocks if self.blocks > 1 else Var("block")

    @property
    def member(self) -> Expr:
        """A thread's number among those that share its row."""
        s = self.schedule
        if s.warps > 1:
            return Var("member_") if self._grouped or self.blocks > 1 else Var("tid")
        return Var("lane") if s.row_lanes == LANES else Var("member_")

    @property
    def _grouped(self) -> bool:
        """Whether a block has several rows, each of several warps."""
        return self.schedule.rows > 1 < self.schedule.warps

    @property
    def own(self) -> Expr:
        """A thread's row in a tile of several."""
        lanes = self.schedule.row_lanes
        if self._grouped:
            return Var("warp") // self.schedule.warps
        warp: Expr = Var("warp")
        apart = self.schedule.rows
        if self.gathers_by_warp:
            # rows of one warp lie one behind the other
            warp, apart = warp * self.schedule.unroll, 1
        own = warp if lanes == LANES else warp * (LANES // lanes) + Var("lane") // lanes
        return own if self.turn is None else own + self.turn * (apart * (LANES // lanes))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The parts of a row, in order; threads hold neighbouring vectors of each run."""
        span = self.threads * self.vector
        # of peeled rows those are whole that are so in every row, wherever its first vector begins
        runs, rest = divmod(self.width - (self.vector - 1 if self._peeled else 0), span)
        most = max(1, (self.schedule.group or GROUP_ELEMENTS) // self.vector)
        found = [Group(k, at * span, min(most, runs - at)) for k, at in enumerate(range(0, runs, most))]
        if self._peeled:
            if self.width // self.vector > runs * self.threads:
                found.append(Group(len(found), runs * span, 1, end="vectors"))
            found.append(Group(len(found), 0, 1, end="edges"))
        elif rest:
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

    @property
    def stored(self) -> tuple[Output, ...]:
        """The outputs whose tiles bulk copies store."""
        bulk = self.schedule.store == "bulk"
        return tuple(o for o in self.fusion.outputs if bulk and o.dims == self.fusion.dims)

    @property
    def gathered(self) -> tuple[Output, ...]:
        """The outputs whose tiles threads store from shared memory."""
        shared = self.schedule.store == "shared"
        return tuple(o for o in self.fusion.outputs if shared and o.dims == self.fusion.dims)

    @cached_property
    def gathers_by_warp(self) -> bool:
        """Whether each warp stores its own rows from shared memory."""
        return gathers_by_warp(self.fusion, self.schedule, self.width)

    # ------------------------------------------------------------ the kernel

    def lower(self) -> Kernel:
        """The kernel without synchronization."""
        f, s = self.fusion, self.schedule
        bulk = s.source == "bulk"
        first = self._number + Var("i") * Var("blocks" if self.blocks > 1 else "grid")
        if s.tile_rows > 1:
            first = first * s.tile_rows
        copies: list[Stmt] = [
            BulkLoad(
                Region(_chunk_buffer(n, c), (), Int(0), Int(c.count)),
                GlobalRegion(n, _plus(first * self.width, c.start), Int(c.count)),
                BarrierRef(full_barrier(c.number or 0), Int(0)),
            )
            for c in self.chunks
            for n in f.streamed
        ]
        member = [Let("member_", self._among)] if self.member == Var("member_") else []
        rows = reduce(mul, map(Var, f.dims[:-1])) if f.dims[1:] else Int(1)
        ahead = fetched(f, s.tile_rows * self.width, s.blocks_per_sm) if s.ahead == "yes" and not bulk else []
        body: list[Stmt] = [rounds(self._grouped, self._number), *ahead, *member, *self._held()]
        # threads without a row compute the last one again, and store nothing: all shuffle and meet alike
        if self._grouped:
            here = (Let("own_row", first + self.own), Let("row", Call("min", (Var("own_row"), rows - 1))))
            inner = (*here, *self.steps(staged=False, stores=Var("own_row") < rows))
        else:
            tile = s.tile_rows * self.width
            stores = (
                BulkStore(
                    GlobalRegion(o.name, first * self.width, Int(tile)),
                    Region(tile_buffer(o.name), (), Int(0), Int(tile)),
                )
                for o in self.stored
            )
            inner = (
                *copies,
                *self._rows(first, staged=bulk),
                *stores,
                *self._vectors_stored(first * self.width),
            )
        body.append(For("i", Int(0), Var("n"), Int(1), inner))
        if s.tile_rows > 1 and not self._grouped:
            body.append(If(Var("block").eq(Var("grid") - 1), self._left_over(rows)))
        types = {n: t.dtype for n, t in f.inputs}
        shared = [
            Shared(_chunk_buffer(n, c), types[n], (Int(c.count),)) for c in self.chunks for n in f.streamed
        ]
        tile = s.tile_rows * self.width
        shared += [Shared(tile_buffer(o.name), o.dtype, (Int(tile),)) for o in (*self.stored, *self.gathered)]
        shared += [
            Shared(
                part_buffer(d),
                "f32",
                (Int(self._slots), Int(_read_whole(len(found), s.compute_warps * self.blocks))),
            )
            for d, found in self._exchanges.items()
        ]
        leading, sized = f.dims[:-1], computed_dimensions(f)
        return Kernel(
            name=f.name,
            launch=self._launch(),
            params=parameters(
                row_values(s.tile_rows, self.default_sizes(), 2, leading)
                | dict.fromkeys(sized, 1)
                | row_strides.defaults(f, {**self.default_sizes(), f.dims[-1]: self.width}),
                s.index,
            ),
            tensors=tuple(
                [Tensor(n, t.dtype, row_strides.shape(n, t, self._extent), "in") for n, t in f.inputs]
                + [
                    Tensor(o.name, o.dtype, row_strides.shape(o.name, o, self._extent), "out")
                    for o in f.outputs
                ]
                + [
                    Tensor(rest_tensor(o.name), o.dtype, (Var("rest") * self.width,), "out")
                    for o in self.stored
                    if s.tile_rows > 1
                ]
            ),
            shared=tuple(shared),
            barriers=tuple(Barrier(full_barrier(c.number or 0)) for c in self.chunks),
            assumes=(
                *(Var(d) >= 1 for d in (*leading, *sized)),
                *row_strides.assumed(f, self.vector),
                *facts(s.tile_rows),
            ),
            body=tuple(body),
            span=f.span,
        )

    def _launch(self) -> Launch:
        blocks, threads = Var("blocks"), (self.schedule.compute_warps * LANES, 1, 1)
        if self.blocks == 1:
            return Launch(grid=(blocks, Int(1), Int(1)), block=threads)
        grid = (blocks * self.blocks, Int(1), Int(1))
        return Launch(grid=grid, block=threads, cluster=(self.blocks, 1, 1))

    @property
    def _among(self) -> Expr:
        """The number that ``member`` is, where no builtin is."""
        if self.blocks > 1:
            return Var("rank") * (self.schedule.warps * LANES) + Var("tid")
        return (Var("tid") if self._grouped else Var("lane")) % self.threads

    def _rows(self, first: Expr, *, staged: bool) -> tuple[Stmt, ...]:
        """A tile: one row, or those of each warp, which go through their steps abreast."""
        if self.schedule.tile_rows == 1:
            return (Let("row", first), *self.steps(staged=staged))
        turns = self.schedule.unroll
        mine = [self] if turns == 1 else [replace(self, turn=Int(n)) for n in range(turns)]
        return abreast([(Let("row", first + r.own), *r.steps(staged=staged)) for r in mine])

    def _left_over(self, rows: Expr) -> tuple[Stmt, ...]:
        """The rows behind the last whole tile. ``rows``: how many there are in all."""
        s = self.schedule
        several = s.unroll > 1
        mine = replace(self, turn=Var("turn")) if several else self
        own = (Var("each") * Var("grid") + Var("more")) * s.tile_rows + mine.own
        last = Let("row", Call("min", (own, rows - 1)))
        body = (last, *renamed(tuple(mine.steps(staged=False, stores=mine.own < Var("rest"))), "last"))
        return (For("turn", Int(0), Int(s.unroll), Int(1), body),) if several else body

    def default_sizes(self) -> dict[str, int]:
        """Sizes of an exact check: every slot is reused, and the end is ragged."""
        s, leading = self.schedule, self.fusion.dims[:-1]
        sizes = dict.fromkeys(leading, 1)
        if leading:
            sizes[leading[0]] = (2 * (2 * s.stages + 2) + 1) * s.tile_rows + s.tile_rows // 2
        return sizes

    def _extent(self, dim: str) -> Expr:
        return Int(self.width) if dim == self.fusion.dims[-1] else Var(dim)

    # ------------------------------------------------------------ what is computed when

    @cached_property
    def _flow(self) -> Dataflow:
        together = {m.squares: m.total for m in self._moments}
        return Dataflow(self.fusion, self.fusion.dims[-1], together)

    @cached_property
    def _moments(self) -> tuple[Moments, ...]:
        """Sums and squares about the mean that are made in one step."""
        if self.schedule.source != "direct" or any(g.partial for g in self.groups):
            return ()
        inner = self.fusion.dims[-1]
        found = statistics(self.fusion, inner, Dataflow(self.fusion, inner).live)
        return tuple(Moments(s.total, s.squares, s.argument) for s in found if isinstance(s, Squares))

    def _arguments(self, step: int) -> list[int]:
        """What is reduced at the end of a step."""
        pairs = {i: m.argument for m in self._moments for i in (m.total, m.squares)}
        found = self._flow.reductions.get(step, [])
        return [pairs[i] if i in pairs else self._flow.node(i).args[0] for i in found]

    @property
    def _exchanges(self) -> dict[int, list[int]]:
        """The reductions that need shared memory."""
        return self._flow.reductions if self.schedule.warps > 1 else {}

    @property
    def _slots(self) -> int:
        """With two exchanges a row each barrier separates the other's rounds; one alone takes turns. Not
        among many warps of a cluster, which meet once more: proofs of turns take minutes there."""
        many = self.blocks > 1 and self.blocks * self.schedule.warps > SOON
        return 2 if len(self._exchanges) == 1 and not many else 1

    # ------------------------------------------------------------ one row

    def steps(self, *, staged: bool, stores: Expr | None = None) -> Iterator[Stmt]:
        """One row, from loads to stores.

        ``staged``: its elements are in shared memory. ``stores``: which threads store (None: all).
        """
        loaded: set[tuple[str, int | None]] = set()
        stored: set[str] = set()
        again = self.schedule.reread == "yes"
        flow, whole = self._flow, self._part(None)
        yield from row_numbers(flow, Var("row"), Int(self.width))
        yield from self._ends()
        for step in range(flow.steps):
            here = flow.at(step)
            numbers = [i for i in here if not flow.wide(i) and flow.node(i).op not in REDUCTIONS]
            yield from (Compute(f"t{i}", whole.expression(i, top=True)) for i in numbers)
            outputs = [o for o in self.fusion.outputs if flow.depth[stored_node(self.fusion, o)] == step]
            reduced = flow.reductions.get(step, [])
            wide = self._computed_again(step, outputs) if again else [i for i in here if flow.wide(i)]
            roots = [*wide, *self._arguments(step), *(stored_node(self.fusion, o) for o in outputs)]
            if again:
                loaded.clear()
                for name, g in self._ahead(flow.inputs_of(roots)) if outputs else ():
                    loaded.add((name, g.number))
                    yield from self._load(name, g, staged)
            for g in self.groups:
                part = self._part(g)
                for name in flow.inputs_of(roots):
                    if (name, g.number) not in loaded and not self._kept(name):
                        loaded.add((name, g.number))
                        yield from self._load(name, g, staged)
                yield from (Compute(part.name(i), part.expression(i, top=True)) for i in wide)
                for i in reduced:
                    yield from self._local(i, g)
                for o in outputs:
                    if flow.wide(stored_node(self.fusion, o)) or o.dims == self.fusion.dims:
                        yield _guarded(self._store(o, g, whole=stores is None), stores)
                        stored.add(o.name)
            for o in outputs:
                if o.name not in stored:
                    stored.add(o.name)
                    at = number_at(self.fusion, o.name, o.dims, Var("row"))
                    store = StGlobal(GlobalRegion(o.name, at), self._result(o, None))
                    yield _guarded(_guarded(store, self.member.eq(0)), stores)
            yield from self._across(step)

    def _ahead(self, inputs: Iterable[str]) -> list[tuple[str, Group]]:
        """What is loaded before anything is stored, so that no load waits: where registers hold it."""
        rows, s = [n for n in inputs if n in self.fusion.streamed], self.schedule
        crowded = s.compute_warps * LANES * s.blocks_per_sm > ROOMY
        if crowded or len(self.groups) > AHEAD or len(set(inputs) - set(rows)) > 1:
            return []
        return [(n, g) for n in rows for g in self.groups]

    @property
    def _stays(self) -> bool:
        """Whether elements that a step has read are in registers until its end."""
        few = len(self.groups) == 1 and self.groups[0].rows * self.vector <= FEW
        return self.schedule.reread != "yes" or few

    def _computed_again(self, step: int, outputs: list[Output]) -> list[int]:
        """What a step needs of every element, where none of it stays in registers."""
        flow = self._flow
        roots = set(self._arguments(step))
        roots |= {stored_node(self.fusion, o) for o in outputs}
        needed = roots.union(*(nx.ancestors(self.fusion.graph, r) for r in roots))
        wide = (i for i in flow.live if i in needed and i in flow.named and flow.wide(i))
        return [i for i in wide if flow.node(i).op not in ("take", *REDUCTIONS)]

    def _kept(self, name: str) -> bool:
        """Whether an operand that all rows share stays in registers."""
        own = self.fusion.dims[-1:]
        shared = name in self.fusion.broadcast and dict(self.fusion.inputs)[name].dims == own
        return shared and self.schedule.operands == "registers"

    def _held(self) -> Iterator[Stmt]:
        """Loads of what all rows share, before the first."""
        for name, t in self.fusion.inputs:
            if not t.dims and name in self.fusion.broadcast:
                yield LdGlobal(register(name), GlobalRegion(name, Int(0)))
            elif self._kept(name):
                for g in self.groups:
                    yield from self._load(name, g, False)

    def _load(self, name: str, g: Group, staged: bool) -> Iterator[Stmt]:
        t = dict(self.fusion.inputs)[name]
        streamed = t.dims == self.fusion.dims
        at = self._place(g)
        rows = (Int(g.rows), Int(self.threads * self.vector)) if g.rows > 1 else (None, None)
        to = register(name, str(g.number))
        if streamed and staged:
            (chunk,) = (c for c in self.chunks if c.number in (None, g.number))
            base = self._place(replace(g, start=g.start - chunk.start), chunk.start)
            base = self.own * self.width + base if self.schedule.tile_rows > 1 else base
            yield LdShared(to, Region(_chunk_buffer(name, chunk), (), base, Int(self.vector), *rows))
        else:
            start = row_start(self.fusion, name, Var("row"), Int(self.width))
            base = at if start is None else self._flat(start, g) if streamed else start + at
            yield LdGlobal(to, GlobalRegion(name, base, Int(self._held_of(g)), *rows))

    def _ends(self) -> Iterator[Stmt]:
        """What a peeled row has: where its vectors begin, and how many they are."""
        if self._peeled:
            yield from peeled_row(Int(self.width), self.vector)

    def _vector_of(self, g: Group) -> Expr:
        """The vector of a peeled row that a thread holds first of a group."""
        number = _plus(self.member, g.start // self.vector)
        return Call("min", (number, Var("vectors_") - 1)) if g.partial else number

    def _place(self, g: Group, before: int = 0) -> Expr:
        """The first element of the row that a thread holds of a group; inside the row for all threads.

        ``before``: elements of the row that come before what is counted here.
        """
        if g.end == "edges":
            return edge(self.member, Int(self.width), self.vector)[0]
        if self._peeled:
            return Var("head_") + self._vector_of(g) * self.vector
        at = _plus(self.member * self.vector if self.vector > 1 else self.member, g.start)
        return at if g.count is None else Call("min", (at, Int(self.width - before - self.vector)))

    def _inside(self, g: Group) -> Expr:
        """Whether a thread holds elements of a group that not all hold."""
        if g.end == "edges":
            return edge(self.member, Int(self.width), self.vector)[1]
        if g.end == "vectors":
            return _plus(self.member, g.start // self.vector) < Var("vectors_")
        assert g.count is not None
        return self.member < g.count // self.vector

    def _held_of(self, g: Group) -> int:
        """Elements of one access."""
        return 1 if g.end == "edges" else self.vector

    def _flat(self, start: Expr, g: Group) -> Expr:
        """The element that a thread holds first of a group of a row that starts there, among all rows."""
        if self._peeled and g.end != "edges":
            return (Var("first_") + self._vector_of(g)) * self.vector
        return start + self._place(g)

    def _local(self, i: int, g: Group) -> Iterator[Stmt]:
        """A reduction's part in one thread, over one more group."""
        node = self.fusion.node(i)
        if i in self._flow.together:
            return
        for m in self._moments:
            if m.total == i and self._stays:
                yield m.summed(self._part(g).expression(m.argument), g.number == 0)
                return
            if m.total == i:
                before = sum(other.rows for other in self.groups[: g.number]) * self.vector
                yield from m.local(self._part(g).expression(m.argument), before, g.rows * self.vector)
                return
        made = REDUCTIONS[node.op]
        (a,) = node.args
        x = self._part(g).expression(a)
        if g.partial:
            x = Call("select", (self._inside(g), x, Float(made.identity)))
        part: Expr = Call(node.op, (x,))
        yield Compute(f"t{i}", part if g.number == 0 else made.combine(Var(f"t{i}"), part))

    def _across(self, step: int) -> Iterator[Stmt]:
        """What threads reduced, reduced over the warp and over the warps of a row."""
        found = self._flow.reductions.get(step, [])
        pairs, lanes = {m.total: m for m in self._moments}, min(LANES, self.threads)
        for i in (i for i in found if i not in self._flow.together):
            if i in pairs and self._stays:
                held = [self._part(g).expression(pairs[i].argument) for g in self.groups]
                yield from pairs[i].of_warp(held, lanes, self.width // self.threads)
            elif i in pairs:
                many = crowded(self.schedule.warps)
                yield from pairs[i].over_lanes(lanes, self.width // self.threads, many)
            else:
                yield from reduced_over_lanes(f"t{i}", self.fusion.node(i).op, lanes)
        warps = self.schedule.warps * self.blocks
        if not found or warps == 1:
            return
        slot = (Var("i") % self._slots if self._slots > 1 else Int(0),)
        places = {i: k * self.schedule.compute_warps * self.blocks for k, i in enumerate(found)}
        own = Var("warp") // warps * warps if self._grouped else Int(0)
        yield from self._handed(part_buffer(step), slot, places)
        each = of_lane(warps)
        paired = {*pairs, *self._flow.together} if each < warps else set()
        for i, k in places.items():
            at, count = _plus(own, k) if self._grouped else Int(k), warps
            if i in paired:
                at, count = at + Var("lane") % (warps // each) * each, each
            yield LdShared(f"q{i}", Region(part_buffer(step), slot, at, Int(count)))
        for i in (i for i in places if i not in self._flow.together):
            if i in pairs:
                yield from pairs[i].over_warps(warps, self.width)
            else:
                yield Compute(f"t{i}", Call(self.fusion.node(i).op, (Var(f"q{i}"),)))

    def _handed(self, buffer: str, slot: tuple[Expr, ...], places: Mapping[int, int]) -> Iterator[Stmt]:
        """Each warp's numbers, where all warps of the row read them; one lane stores in each block."""
        warp: Expr = Var("warp")
        several = self.blocks > 1
        if several:
            warp = Var("rank") * self.schedule.warps + warp
        to = Var("lane") if several else None
        yield If(
            Var("lane") < self.blocks if several else Var("lane").eq(0),
            tuple(
                StShared(Region(buffer, slot, _plus(warp, k), Int(1), rank=to), Var(f"t{i}"))
                for i, k in places.items()
            ),
        )

    def _vectors_stored(self, first: Expr) -> Iterator[Stmt]:
        """Stores of tiles of results from shared memory, in vectors of 16 bytes. ``first``: a tile's element.

        Rows that are no multiple of 16 bytes begin and end inside sectors of L2. A warp that stores a part of
        one writes some of their sectors in part, and two warps write each of those; a tile of several rows is
        a multiple of 16 bytes, and all of its sectors are written whole.
        """
        for o in self.gathered:
            vector, tile = VECTOR_BYTES // DTYPE_BYTES[o.dtype], self.schedule.tile_rows * self.width
            threads, member, base = self.schedule.compute_warps * LANES, Var("tid"), None
            if self.gathers_by_warp:
                tile //= self.schedule.rows
                threads, member, base = LANES, Var("lane"), Var("warp") * tile
            runs, rest = divmod(tile // vector, threads)
            pieces = [(at, min(STORED_RUNS, runs - at)) for at in range(0, runs, STORED_RUNS)]
            for number, (run, count) in enumerate([*pieces, *([(runs, 1)] if rest else [])]):
                place, name = _plus(member * vector, run * threads * vector), f"{o.name}_stored{number}"
                inside = member < rest if run == runs else None
                held = Call("min", (place, Int(tile - vector))) if run == runs else place
                held = held if base is None else base + held
                form = (Int(count), Int(threads * vector)) if count > 1 else (None, None)
                yield LdShared(name, Region(tile_buffer(o.name), (), held, Int(vector), *form))
                to = GlobalRegion(o.name, first + held, Int(vector), *form)
                yield _guarded(StGlobal(to, Var(name)), inside)

    def _store(self, o: Output, g: Group, *, whole: bool) -> Stmt:
        """``whole``: of a whole tile, not of the rows that are left over."""
        at = self._flat(stored_from(self.fusion, o, Var("row"), Int(self.width)), g)
        result = self._result(o, g)
        rows = (Int(g.rows), Int(self.threads * self.vector)) if g.rows > 1 else (None, None)
        name, count = o.name, Int(self._held_of(g))
        if o in self.stored:
            own = self.own * self.width if self.schedule.tile_rows > 1 else Int(0)
            name, at = rest_tensor(name), own + self._place(g)
        store: Stmt = StGlobal(GlobalRegion(name, at, count, *rows), result)
        if whole and o in self.gathered:
            at = self.own * self.width + self._place(g)
        if whole and o in (*self.stored, *self.gathered):
            store = StShared(Region(tile_buffer(o.name), (), at, count, *rows), result)
        return _guarded(store, self._inside(g) if g.partial else None)

    # ------------------------------------------------------------ expressions

    def _result(self, o: Output, g: Group | None) -> Expr:
        return self._part(g).expression(stored_node(self.fusion, o))

    def _part(self, g: Group | None) -> Part:
        if g is None:
            return Part(self._flow, "", self._size, others=self._flow.row_places)
        form = (self._held_of(g), g.rows, self.threads * self.vector)
        at, places = self._place(g), self._flow.row_places
        run = (Var("row") * self.width + at, *form)
        return Part(self._flow, str(g.number), self._size, Call("iota", (*map(Int, form),)), at, places, run)

    def _size(self, dim: str) -> Expr:
        return Float(float(self.width)) if dim == self.fusion.dims[-1] else Var(dim)


def row_values(
    tile_rows: int, sizes: Mapping[str, int], blocks: int, leading: tuple[str, ...]
) -> dict[str, int]:
    """A lowered kernel's parameters: tiles of ``each`` block, blocks with ``more``, rows that ``rest``."""
    own = {d: sizes[d] for d in leading}
    return launch_parameters(prod(own.values()), tile_rows, own, blocks)


def _read_whole(numbers: int, warps: int) -> int:
    """Places for so many numbers of each warp. The compiler reads the parts of 3, 5, 6 or 7 warps in vectors
    of 16 bytes, beyond the last of them; so the places are a multiple of that."""
    count = numbers * warps
    return count if warps & (warps - 1) == 0 else -(-count // 4) * 4


def _chunk_buffer(tensor: str, chunk: Chunk) -> str:
    return tile_buffer(tensor) + ("" if chunk.number is None else str(chunk.number))


def _plus(a: Expr, n: int) -> Expr:
    return a if n == 0 else a + n


def _guarded(stmt: Stmt, condition: Expr | None) -> Stmt:
    match stmt, condition:
        case _, None:
            return stmt
        case If(cond, then), Expr():
            return If(Binary("and", condition, cond), then)
    assert condition is not None
    return If(condition, (stmt,))
