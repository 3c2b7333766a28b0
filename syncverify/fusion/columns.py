"""Reductions over rows: sums, means, largest elements of columns, and what is computed of them.

A block has a *strip* of the rows and some neighbouring columns. Its threads stand in a grid, ``across`` of
them side by side with a vector of columns each; they go down the strip and keep a few numbers for each
column (``online``), which the block puts together through shared memory. What several strips make are
*partial* results, one row for each strip; a second kernel reduces these. Where one block has all the rows
it goes through them once for each step of reductions, and stores what the fusion asks for (*whole*).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import networkx as nx

from syncverify.base.source import InputError
from syncverify.fusion import online, row_strides
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.dataflow import Dataflow, Part, register, renamed
from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion, Output
from syncverify.fusion.lower import broadcast_index, computed_dimensions, stored_node
from syncverify.ir import nodes as ir
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, substitute
from syncverify.ir.nodes import Compute, For, GlobalRegion, If, Let, Param, Stmt

LANES = 32
#: Bytes of a sum, and what bulk copies take whole numbers of (PTX ISA, cp.reduce.async.bulk).
SUM_BYTES, BULK_BYTES = 4, 16


@dataclass(frozen=True)
class Row:
    """A row that a thread reads: how its registers end, its number, whether it is there (None: surely)."""

    suffix: str
    at: Expr
    inside: Expr | None = None


@dataclass(frozen=True)
class ColumnKernel:
    """A fusion that reduces along the last dimension but one, under a fitted schedule.

    ``vector`` columns of each thread, and ``across`` threads side by side. ``partial``: of each strip.
    """

    fusion: Fusion
    schedule: ColumnSchedule
    vector: int
    across: int
    partial: bool = False

    def __post_init__(self) -> None:
        f = self.fusion
        row_strides.refuse(f, "kernels of columns do not do")
        for o in f.outputs:
            if o.dims not in (f.dims, (*self.batch, self.inner)):
                raise InputError(f"{f.name}: {o.name} has dimensions {o.dims} in a kernel of columns", f.span)
        if self.partial and self.flow.steps > 2:
            raise InputError(f"{f.name}: partial results of one reduction after the other")
        if self.adding:
            self._check_sums()

    def _check_sums(self) -> None:
        """Raises InputError for what bulk reductions cannot put together."""
        f = self.fusion
        if not all(isinstance(s, online.One) and s.op == "reduce.add" for s in self.statistics):
            raise InputError(f"{f.name}: across=tma adds sums, and no other reductions", f.span)
        if self.batch:
            raise InputError(f"{f.name}: across=tma takes no dimensions outside of {self.down}", f.span)
        if self.columns * SUM_BYTES % BULK_BYTES:
            raise InputError(f"{f.name}: across=tma takes more columns than {self.inner} has", f.span)

    @property
    def adding(self) -> bool:
        """Whether strips add their sums to one array."""
        return self.partial and self.schedule.across == "tma"

    # ------------------------------------------------------------ shape

    @property
    def down(self) -> str:
        return self.fusion.dims[-2]

    @property
    def inner(self) -> str:
        return self.fusion.dims[-1]

    @property
    def batch(self) -> tuple[str, ...]:
        return self.fusion.dims[:-2]

    @property
    def threads(self) -> int:
        return max(min(self.schedule.warps, self.across) * LANES, self.columns)

    @property
    def lanes(self) -> int:
        """Rows that a block's threads read side by side."""
        return self.threads // self.across

    @property
    def columns(self) -> int:
        return self.across * self.vector

    @cached_property
    def rows(self) -> int:
        """Rows that one thread reads together."""
        sizes = [ir.DTYPE_BYTES[t.dtype] for n, t in self.fusion.inputs if n in self.fusion.streamed]
        return self.schedule.rows or max(1, min(8, 64 // (self.vector * max(1, sum(sizes)))))

    @property
    def tile(self) -> int:
        return self.rows * self.lanes

    # ------------------------------------------------------------ what is computed when

    @cached_property
    def statistics(self) -> tuple[online.Statistic, ...]:
        plain = Dataflow(self.fusion, self.down)
        return online.statistics(self.fusion, self.down, plain.live)

    @cached_property
    def flow(self) -> Dataflow:
        return Dataflow(self.fusion, self.down, online.together(self.statistics))

    @cached_property
    def steps(self) -> dict[int, list[online.Statistic]]:
        steps: dict[int, list[online.Statistic]] = {}
        for s in self.statistics:
            steps.setdefault(self.flow.depth[s.nodes[0]] - 1, []).append(s)
        return steps

    @property
    def kept(self) -> list[tuple[str, online.Statistic]]:
        """What each strip makes: a partial result for each register of a statistic."""
        return [(r, s) for s in self.steps.get(0, []) for r in s.registers]

    def _part(self, row: Row | None = None, column: Expr | None = None) -> Part:
        """A thread's columns, or one ``column``; in a row, or what does not vary along rows."""
        places = Call("iota", (Int(self.vector), Int(1), Int(self.vector))) + Var("column_")
        others: dict[str, Expr] = {self.inner: places if column is None else column}
        if len(self.batch) == 1:
            others[self.batch[0]] = Var("which_")
        if row is None:
            return Part(self.flow, "", Var, others=others)
        others[self.down] = row.at
        at = Var("which_") * Var(self.down) + row.at if self.batch else row.at
        run = (at * Var(self.inner) + Var("column_"), self.vector, 1, self.vector)
        return Part(self.flow, row.suffix, Var, others=others, run=run)

    # ------------------------------------------------------------ the kernel

    def lower(self) -> ir.Kernel:
        """The kernel without synchronization."""
        f = self.fusion
        outputs = [ir.Tensor(o.name, o.dtype, _shape(o.dims), "out") for o in self.stored]
        if self.partial:
            shape = tuple(Var(d) for d in (*self.batch, "strips", self.inner))
            padded = (Var("columns") * self.columns,)
            outputs += [
                ir.Tensor(partial_tensor(r), "f32", *((padded, "inout") if self.adding else (shape, "out")))
                for r, _ in self.kept
            ]
        values = column_values(self, self.default_sizes(), 4)
        return ir.Kernel(
            name=f.name,
            launch=ir.Launch(grid=(Var("blocks"), Int(1), Int(1)), block=(self.threads, 1, 1)),
            params=tuple(
                Param(n, self.schedule.index if n in (self.down, self.inner) else "i32", v)
                for n, v in values.items()
            ),
            tensors=(*(ir.Tensor(n, t.dtype, _shape(t.dims), "in") for n, t in f.inputs), *outputs),
            shared=tuple(self._shared()),
            assumes=tuple(self._facts(values)),
            body=tuple(self._body()),
            span=f.span,
        )

    @property
    def stored(self) -> list[Output]:
        """The outputs that the kernel stores itself."""
        if not self.partial:
            return list(self.fusion.outputs)
        return [o for o in self.fusion.outputs if self._depth(o) == 0]

    def _shared(self) -> Iterator[ir.Shared]:
        for step, found in self.steps.items():
            parts = sum(len(s.registers) for s in found)
            yield ir.Shared(_parts(step), "f32", (Int(parts * self.lanes * self.columns),))
            if not self.partial and step < self._last:
                results = sum(len(s.nodes) for s in found)
                yield ir.Shared(_results(step), "f32", (Int(results * self.columns),))
        if self.adding:
            yield from (ir.Shared(_sums(r), "f32", (Int(self.columns),), 128) for r, _ in self.kept)

    def _facts(self, values: Mapping[str, int]) -> Iterator[Expr]:
        known = {"each", "more", "rest", "strips", "columns", "blocks"}
        yield from (Var(n) >= 1 for n in values if n not in known)
        if self.vector > 1:
            yield (Var(self.inner) % self.vector).eq(0)
        yield Var("each") >= 0
        if self.partial:
            yield from (Var("more") >= 0, Var("more") < Var("strips"), Var("strips") >= 1)
        yield from (Var("rest") >= 0, Var("rest") < self.tile)
        yield from (Var("columns") >= 1, Var("blocks") >= 1)

    def default_sizes(self) -> dict[str, int]:
        """Sizes of an exact check: several strips, a ragged end, and columns that some threads lack."""
        sizes = dict.fromkeys((*self.fusion.dims, *computed_dimensions(self.fusion)), 2)
        sizes[self.down] = 5 * self.tile + self.lanes + 1
        sizes[self.inner] = self.columns + self.vector
        return sizes

    # ------------------------------------------------------------ the body

    def _body(self) -> Iterator[Stmt]:
        across, lanes = self.across, self.lanes
        yield Let("x_", Var("tid") % across if lanes > 1 else Var("tid"))
        yield Let("y_", Var("tid") // across if across > 1 else Var("tid"))
        yield Let("first_", Var("block") % Var("columns") * self.columns)
        if self.partial:
            yield Let("strip_", Var("block") // Var("columns") % Var("strips"))
            yield Let("which_", Var("block") // (Var("columns") * Var("strips")))
            yield Let("n", Var("each") + (Var("strip_") < Var("more")))
        else:
            yield Let("which_", Var("block") // Var("columns"))
        yield Let("own_", Var("first_") + Var("x_") * self.vector)
        # threads without columns compute the last ones again, and store nothing
        yield Let("column_", Call("min", (Var("own_"), Var(self.inner) - self.vector)))
        for name, t in self.fusion.inputs:
            if self.down not in t.dims and name in self.flow.read:
                yield ir.LdGlobal(register(name), self._region(name, t.dims, None))
        for step in range(1 if self.partial else self._last + 1):
            yield from self._step(step)

    def _step(self, step: int) -> Iterator[Stmt]:
        flow, found = self.flow, self.steps.get(step, [])
        for i in flow.at(step):
            if not flow.wide(i) and flow.node(i).op not in REDUCTIONS:
                yield Compute(f"t{i}", self._part().expression(i, top=True))
        outputs = [o for o in self.stored if self._depth(o) == step]
        down = [o for o in outputs if o.dims == self.fusion.dims]
        for s in found:
            yield from s.start(self.vector)
        if found or down:
            yield from self._all_rows(step, down)
        there = Binary("and", Var("y_").eq(0), Var("own_") < Var(self.inner))
        for o in outputs:
            if o not in down and step == 0:
                value = self._part().expression(stored_node(self.fusion, o))
                yield If(there, (ir.StGlobal(self._region(o.name, o.dims, None), value),))
        if found:
            yield from self._together(step, found)

    def _all_rows(self, step: int, outputs: list[Output]) -> Iterator[Stmt]:
        """All rows of the strip: whole tiles, then rows of which some threads have none."""
        tile, lanes, r = self.tile, self.lanes, Var(self.down)
        turn = Var("strip_") + Var("k") * Var("strips") if self.partial else Var("k")
        base = Let("base_", turn * tile + Var("y_"))
        rows = [Row(f"{step}_{u}", Var("base_") + u * lanes if u else Var("base_")) for u in range(self.rows)]
        count = Var("n") if self.partial else Var("each")
        yield For("k", Int(0), count, Int(1), (base, *self._some_rows(step, rows, outputs)))
        tiles = Var("each") * Var("strips") + Var("more") if self.partial else Var("each")
        below = Let("below_", tiles * tile + Var("j") * lanes + Var("y_"))
        last = Row(f"{step}_r", Call("min", (Var("below_"), r - 1)), Var("below_") < r)
        left = For(
            "j", Int(0), Call("cdiv", (Var("rest"), Int(lanes))), Int(1),
            (below, *self._some_rows(step, [last], outputs)),
        )  # fmt: skip
        yield If(Var("strip_").eq(Var("strips") - 1), (left,)) if self.partial else left

    def _some_rows(self, step: int, rows: list[Row], outputs: list[Output]) -> Iterator[Stmt]:
        flow, found = self.flow, self.steps.get(step, [])
        roots = [s.argument for s in found] + [stored_node(self.fusion, o) for o in outputs]
        needed = set(roots).union(*(nx.ancestors(self.fusion.graph, r) for r in roots))
        wide = [i for i in flow.live if i in needed and i in flow.named and flow.wide(i)]
        types = dict(self.fusion.inputs)
        for row in rows:
            for name in flow.inputs_of([*wide, *roots]):
                yield ir.LdGlobal(
                    register(name, row.suffix), self._region(name, types[name].dims, row.at)
                )  # fmt: skip
        for row in rows:
            part = self._part(row)
            yield from (Compute(part.name(i), part.expression(i, top=True)) for i in wide)
        for s in found:
            xs = [self._part(row).expression(s.argument) for row in rows]
            yield from s.rows(xs, rows[0].inside)
        for row in rows:
            for o in outputs:
                there = Var("own_") < Var(self.inner)
                there = there if row.inside is None else Binary("and", row.inside, there)
                value = self._part(row).expression(stored_node(self.fusion, o))
                yield If(there, (ir.StGlobal(self._region(o.name, o.dims, row.at), value),))

    def _together(self, step: int, found: list[online.Statistic]) -> Iterator[Stmt]:
        """What the rows of threads keep becomes what the block has, a column for each thread."""
        size, v = self.lanes * self.columns, self.vector
        kept = {r: k * size for k, r in enumerate(r for s in found for r in s.registers)}
        mine = Var("y_") * self.columns + Var("x_") * v
        for r, at in kept.items():
            yield ir.StShared(ir.Region(_parts(step), (), _plus(mine, at), Int(v)), Var(r))
        body: list[Stmt] = []
        for r, at in kept.items():
            column = ir.Region(
                _parts(step), (), _plus(Var("tid"), at), Int(1), Int(self.lanes), Int(self.columns)
            )
            body.append(ir.LdShared(f"q{r}", column))
        for s in found:
            body += s.warps({r: f"q{r}" for r in s.registers})
        if self.adding:
            body += [ir.StShared(ir.Region(_sums(r), (), Var("tid"), Int(1)), Var(r)) for r in kept]
        elif self.partial:
            body += self._store_partials(found)
        else:
            body += [x for s in found for x in s.finish()]
            body += self._store_columns(step)
        again = [] if self.partial or step >= self._last else [i for s in found for i in s.nodes]
        for k, i in enumerate(again):
            to = ir.Region(_results(step), (), _plus(Var("tid"), k * self.columns), Int(1))
            body.append(ir.StShared(to, Var(f"t{i}")))
        yield If(Var("tid") < self.columns, renamed(tuple(body), "c"))
        if self.adding:
            yield ir.Role("store", "warps", Int(0), Int(1), tuple(self._added(list(kept))))
        for k, i in enumerate(again):
            place = _plus(Var("x_") * v, k * self.columns)
            yield ir.LdShared(f"t{i}", ir.Region(_results(step), (), place, Int(v)))

    def _store_columns(self, step: int) -> Iterator[Stmt]:
        """Results that a step completes, a column for each thread."""
        flow = self.flow
        outputs = [o for o in self.stored if o.dims != self.fusion.dims and self._depth(o) == step + 1]
        if not outputs:
            return
        own = Var("first_") + Var("tid")
        types = dict(self.fusion.inputs)
        needed = self._made_of([stored_node(self.fusion, o) for o in outputs])
        for i in (i for i in flow.live if i in needed):
            node = flow.node(i)
            if node.op == "input" and self.inner in types[node.name].dims:
                at = self._region(node.name, types[node.name].dims, None)
                last = Call("min", (own, Var(self.inner) - 1))
                yield ir.LdGlobal(register(node.name), GlobalRegion(node.name, _moved(at.start, last)))
            elif node.op in REDUCTIONS and flow.depth[i] <= step:
                before = flow.depth[i] - 1
                k = [x for s in self.steps[before] for x in s.nodes].index(i) * self.columns
                yield ir.LdShared(f"q{i}", ir.Region(_results(before), (), _plus(Var("tid"), k), Int(1)))
                # used here, by all threads, and not where only some store
                yield Compute(f"t{i}", Call("reduce.add", (Var(f"q{i}"),)))
            elif i in flow.named and node.op not in REDUCTIONS:
                yield Compute(f"t{i}", self._part(column=own).expression(i, top=True))
        stores = []
        for o in outputs:
            at = self._region(o.name, o.dims, None)
            value = self._part(column=own).expression(stored_node(self.fusion, o))
            stores.append(ir.StGlobal(GlobalRegion(o.name, _moved(at.start, own)), value))
        yield If(own < Var(self.inner), tuple(stores))

    def _made_of(self, roots: list[int]) -> set[int]:
        """Nodes that some numbers of columns are made of, reductions included, and no more."""
        found: set[int] = set()
        work = list(roots)
        while work:
            i = work.pop()
            if i not in found:
                found.add(i)
                work += () if self.flow.node(i).op in REDUCTIONS else self.flow.node(i).args
        return found

    @cached_property
    def _last(self) -> int:
        """The last step that goes through rows."""
        steps = [*self.steps, *(self._depth(o) for o in self.stored if o.dims == self.fusion.dims)]
        return max(steps, default=0)

    def _store_partials(self, found: list[online.Statistic]) -> Iterator[Stmt]:
        at = (Var("which_") * Var("strips") + Var("strip_")) * Var(self.inner) + Var("first_") + Var("tid")
        stores = tuple(
            ir.StGlobal(GlobalRegion(partial_tensor(r), at), Var(r)) for s in found for r in s.registers
        )
        yield If(Var("first_") + Var("tid") < Var(self.inner), stores)

    def _added(self, registers: list[str]) -> Iterator[Stmt]:
        """Bulk reductions of the block's sums into those of all strips, which are padded to whole blocks."""
        for r in registers:
            region = GlobalRegion(partial_tensor(r), Var("first_"), Int(self.columns))
            yield ir.BulkStore(region, ir.Region(_sums(r), (), Int(0), Int(self.columns)), "add")

    # ------------------------------------------------------------ places

    def _depth(self, o: Output) -> int:
        return self.flow.depth[stored_node(self.fusion, o)]

    def _region(self, tensor: str, dims: tuple[str, ...], row: Expr | None) -> GlobalRegion:
        """A thread's elements of a tensor, in a row if it has that dimension."""
        own = tuple(d for d in dims if d in self.batch)
        at = broadcast_index(self.batch, own, Var("which_")) if own else None
        if self.down in dims:
            assert row is not None
            at = row if at is None else at * Var(self.down) + row
        if self.inner not in dims:
            return GlobalRegion(tensor, Int(0) if at is None else at)
        at = Var("column_") if at is None else at * Var(self.inner) + Var("column_")
        return GlobalRegion(tensor, at, Int(self.vector))


def column_values(kernel: ColumnKernel, sizes: Mapping[str, int], blocks: int) -> dict[str, int]:
    """A kernel's parameters for so many blocks at most: strips, whole tiles of ``each``, ..."""
    known = {d: sizes[d] for d in (*kernel.fusion.dims, *computed_dimensions(kernel.fusion))}
    return launch_parameters(kernel.columns, kernel.tile, kernel.partial, known, kernel.fusion.dims, blocks)


def launch_parameters(
    columns: int, tile: int, partial: bool, sizes: Mapping[str, int], dims: tuple[str, ...], blocks: int
) -> dict[str, int]:
    """The parameters of a kernel whose blocks have so many columns, and whose tiles so many rows."""
    *batch, down, inner = dims
    column_blocks = -(-sizes[inner] // columns)
    which = prod(sizes[d] for d in batch)
    tiles, rest = divmod(sizes[down], tile)
    values = {**sizes, "each": tiles, "rest": rest, "columns": column_blocks, "blocks": column_blocks * which}
    if partial:
        strips = max(1, min(tiles, blocks // (column_blocks * which)))
        values |= {
            "each": tiles // strips, "more": tiles % strips, "strips": strips,
            "blocks": column_blocks * which * strips,
        }  # fmt: skip
    return values


def launch_values(
    kernel: ir.Kernel, sizes: Mapping[str, int], blocks: int, dims: tuple[str, ...]
) -> dict[str, int]:
    """The parameters of a lowered kernel, which says itself how many columns and rows it takes together."""
    params = {p.name for p in kernel.params}
    columns = tile = 0
    for fact in kernel.assumes:
        match fact:
            case Binary("<", Var("rest"), Int(rows)):
                tile = rows
    for s in kernel.body:
        match s:
            case Let("first_", Binary("*", _, Int(count))):
                columns = count
    if not (columns and tile):
        raise InputError(f"kernel {kernel.name} is no lowered fusion of columns", kernel.span)
    known = {n: v for n, v in sizes.items() if n in params and n not in ("strips", "columns")}
    return launch_parameters(columns, tile, "strips" in params, known, dims, blocks)


def _moved(at: Expr, column: Expr) -> Expr:
    """A place of a thread's first column, for another column."""
    return substitute(at, {"column_": column})


def partial_tensor(register: str) -> str:
    """Where the strips store what one register of a statistic holds."""
    return f"strips_{register}"


def _sums(register: str) -> str:
    """From where a block's sums are added to those of other strips."""
    return f"sums_{register}"


def _parts(step: int) -> str:
    return f"parts{step}"


def _results(step: int) -> str:
    return f"results{step}"


def _plus(a: Expr, n: int) -> Expr:
    return a if n == 0 else a + n


def _shape(dims: tuple[str, ...]) -> tuple[Expr, ...]:
    return tuple(Var(d) for d in dims) or (Int(1),)


__all__ = ["ColumnKernel", "column_values", "launch_values", "partial_tensor"]
