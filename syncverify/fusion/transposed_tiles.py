"""Kernels with outputs whose last two dimensions are swapped: tiles turned in shared memory.

A thread holds neighbours of a column of the inputs' tile, so that they are neighbours in a row of the
output's. Warps read along the rows of the inputs' tile, which no two lanes do in one bank; rows of the
output's tile are of 128 bytes, swizzled. Tensor copies bring tiles in and out and keep within the tensors.
Where rows are no multiple of 16 bytes, threads load and store for themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

from syncverify.base.source import InputError
from syncverify.fusion.dataflow import renamed
from syncverify.fusion.elements import arithmetic, register, result_of
from syncverify.fusion.graph import Fusion, Output
from syncverify.fusion.lower import full_barrier, tile_buffer
from syncverify.fusion.schedule import Schedule, shared_per_block
from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.ir.nodes import (
    DTYPE_BYTES,
    Barrier,
    BarrierRef,
    Compute,
    For,
    GlobalRegion,
    If,
    Kernel,
    Launch,
    LdGlobal,
    LdShared,
    Let,
    Param,
    Region,
    Role,
    Shared,
    StGlobal,
    Stmt,
    StShared,
    Tensor,
    TensorMap,
    TmaLoad,
    TmaStore,
)

#: Bytes of a row of an output's tile, which the widest swizzle permutes.
SPAN = 128
#: Elements of such a row, so that tiles of small elements stay small, and proofs short.
WIDEST = 64
#: Bytes of a copy's rows, and of the widest access.
UNIT = 16
#: Rows and columns of a tile whose elements threads load for themselves.
PLAIN = (64, 32)


def _sizes_of(f: Fusion) -> tuple[int, int]:
    """Bytes of the largest element of the inputs and of the outputs."""
    types = dict(f.inputs)
    return (
        max(DTYPE_BYTES[types[n].dtype] for n in f.streamed),
        max(DTYPE_BYTES[o.dtype] for o in f.outputs),
    )


def units(f: Fusion) -> dict[str, int]:
    """What tensor copies need the last two extents to be multiples of: elements in 16 bytes."""
    m, n = f.dims[-2:]
    types = dict(f.inputs)
    along_n = [DTYPE_BYTES[types[x].dtype] for x in f.streamed]
    along_n += [DTYPE_BYTES[o.dtype] for o in f.outputs if o.name not in f.transposed]
    along_m = [DTYPE_BYTES[o.dtype] for o in f.outputs if o.name in f.transposed]
    return {m: UNIT // min(along_m), n: UNIT // min(along_n)}


@dataclass(frozen=True)
class Tiled(ABC):
    """What both forms of the kernel share. The fusion's last two dimensions are M and N."""

    fusion: Fusion
    schedule: Schedule

    @property
    def m(self) -> str:
        return self.fusion.dims[-2]

    @property
    def n(self) -> str:
        return self.fusion.dims[-1]

    @property
    def batch(self) -> Expr | None:
        """How many matrices there are, where the fusion has more dimensions."""
        found: Expr | None = None
        for d in self.fusion.dims[:-2]:
            found = Var(d) if found is None else found * Var(d)
        return found

    @property
    def threads(self) -> int:
        return self.schedule.compute_warps * 32

    @property
    @abstractmethod
    def tile(self) -> tuple[int, int]:
        """Elements of a tile along M and N."""

    def tensors(self) -> tuple[Tensor, ...]:
        full: tuple[Expr, ...] = () if self.batch is None else (self.batch,)
        shape = (*full, Var(self.m), Var(self.n))
        turned = (*full, Var(self.n), Var(self.m))
        return tuple(
            [
                Tensor(x, t.dtype, shape if t.dims == self.fusion.dims else _shape(t.dims), "in")
                for x, t in self.fusion.inputs
            ]
            + [
                Tensor(o.name, o.dtype, turned if self.turned(o) else shape, "out")
                for o in self.fusion.outputs
            ]
        )

    def turned(self, o: Output) -> bool:
        return o.name in self.fusion.transposed

    def params(self) -> tuple[Param, ...]:
        """The parameters; by default every slot is reused, and all ends are ragged."""
        rows, columns = self.tile
        rounds = 2 * self.schedule.stages + 3
        unit = units(self.fusion)
        sizes = dict.fromkeys(self.fusion.dims, 1)
        sizes |= {self.m: rows * rounds - unit[self.m], self.n: columns * 2 - unit[self.n]}
        values = launch_values(self.fusion.dims, self.tile, sizes, 2)
        return tuple(Param(x, "i32" if x in _I32 else self.schedule.index, v) for x, v in values.items())

    def facts(self) -> tuple[Expr, ...]:
        return (
            *(Var(d) >= 1 for d in self.fusion.dims),
            *(Var(x) >= 0 for x in ("each", "more")),
            Var("more") < Var("blocks"),
            *(Var(x) >= 1 for x in ("tiles_m", "tiles_n", "blocks")),
        )

    def places(self) -> list[Stmt]:
        """Which tile of which matrix."""
        rows, columns = self.tile
        number = Var("block") + Var("i") * Var("grid")
        lets: list[Stmt] = [Let("tile_", number)]
        inside: Expr = Var("tile_")
        if self.batch is not None:
            tiles = Var("tiles_m") * Var("tiles_n")
            lets.append(Let("matrix_", Var("tile_") // tiles))
            inside = Var("tile_") % tiles
            lets.append(Let("inside_", inside))
            inside = Var("inside_")
        return [
            *lets,
            Let("top_", inside // Var("tiles_n") * rows),
            Let("left_", inside % Var("tiles_n") * columns),
        ]

    def loop(self, body: list[Stmt]) -> tuple[Stmt, ...]:
        rounds = Let("n", Var("each") + (Var("block") < Var("more")))
        return (rounds, For("i", Int(0), Var("n"), Int(1), (*self.places(), *body)))

    def kernel(self, body: tuple[Stmt, ...], threads: int, **parts: tuple[object, ...]) -> Kernel:
        facts = (*self.facts(), *parts.pop("assumes", ()))
        return Kernel(
            name=self.fusion.name,
            launch=Launch(grid=(Var("blocks"), Int(1), Int(1)), block=(threads, 1, 1)),
            params=self.params(),
            tensors=self.tensors(),
            assumes=facts,  # type: ignore[arg-type]
            body=body,
            span=self.fusion.span,
            **parts,  # type: ignore[arg-type]
        )

    def inside(self) -> Expr:
        """Whether an element lies in the tensor."""
        row, column = Var("top_") + Var("row_"), Var("left_") + Var("column_")
        return Binary("and", row < Var(self.m), column < Var(self.n))

    def operands(self, row: Expr, column: Expr, down: int, across: int) -> list[Stmt]:
        """Loads of operands of one row, one column, or one number; elements along M and N that are needed."""
        result: list[Stmt] = []
        for name, t in self.fusion.inputs:
            if t.dims == self.fusion.dims:
                continue
            forms = {(self.m,): (row, down), (self.n,): (column, across), (): (Int(0), 1)}
            place, count = forms[t.dims]
            result.append(LdGlobal(register(name), GlobalRegion(name, place, Int(count))))
        return result


@dataclass(frozen=True)
class Copied(Tiled):
    """Tiles come and go by tensor copies."""

    @cached_property
    def tile(self) -> tuple[int, int]:
        size_in, _ = _sizes_of(self.fusion)
        rows = max(_width(o) for o in self.fusion.outputs if self.turned(o))
        return rows, 64 if size_in > 1 else 128

    @property
    def vector(self) -> int:
        """Neighbours of a column that a thread holds."""
        _, size_out = _sizes_of(self.fusion)
        return UNIT // size_out

    def lower(self) -> Kernel:
        """The kernel without synchronization."""
        f, s = self.fusion, self.schedule
        rows, columns = self.tile
        types = dict(f.inputs)
        batch = () if self.batch is None else (1,)
        self._check_shared()
        slot, out_slot = Var("i") % s.stages, Var("i") % s.store_stages
        compute = Role("compute", "warps", Int(0), Int(s.compute_warps), self._steps(slot, out_slot))
        at = s.compute_warps
        copies = [
            TmaLoad(
                Region(tile_buffer(x), (slot,)),
                f"{x}_map",
                self._at("top_", "left_"),
                BarrierRef(full_barrier(0)),
            )
            for x in f.streamed
        ]
        turned = [o for o in f.outputs if self.turned(o)]
        stores = [store for o in turned for store in self._stores(o, out_slot)]
        body: list[Stmt] = [
            Role("load0", "warps", Int(at), Int(at + 1), tuple(copies)),
            compute,
            Role("store", "warps", Int(at + 1), Int(at + 2), tuple(stores)),
        ]
        maps = [TensorMap(f"{x}_map", x, (*batch, rows, columns)) for x in f.streamed]
        maps += [
            TensorMap(f"{o.name}_map", o.name, (*batch, columns, _width(o)), _swizzle(o)) for o in turned
        ]
        shared = [
            Shared(tile_buffer(x), types[x].dtype, (Int(s.stages), Int(rows), Int(columns)))
            for x in f.streamed
        ]
        shared += [self._staging(o) for o in turned]
        multiples = units(f)
        return self.kernel(
            self.loop(body),
            (s.compute_warps + 2) * 32,
            maps=tuple(maps),
            shared=tuple(shared),
            barriers=(Barrier(full_barrier(0)),),
            assumes=tuple((Var(d) % u).eq(0) for d, u in multiples.items() if u > 1),
        )

    @property
    def bytes(self) -> int:
        """Of shared memory, for tiles and what is stored."""
        s, types = self.schedule, dict(self.fusion.inputs)
        total = sum(DTYPE_BYTES[types[x].dtype] for x in self.fusion.streamed) * s.stages
        total += sum(DTYPE_BYTES[o.dtype] for o in self.fusion.outputs if self.turned(o)) * s.store_stages
        return total * prod(self.tile)

    @property
    def most(self) -> int:
        return shared_per_block(self.schedule.blocks_per_sm)

    def _check_shared(self) -> None:
        if self.bytes > self.most:
            blocks = self.schedule.blocks_per_sm
            raise InputError(
                f"schedule: {self.bytes} bytes of shared memory exceed {self.most}, the most that {blocks} "
                "blocks per SM leave to each; lower stages, store_stages or blocks_per_sm"
            )

    def _at(self, outer: str, inner: str, more: int = 0) -> tuple[Expr, ...]:
        place: tuple[Expr, ...] = (Var(outer), Var(inner) + more if more else Var(inner))
        return place if self.batch is None else (Var("matrix_"), *place)

    def _staging(self, o: Output) -> Shared:
        rows, columns = self.tile
        slots = Int(self.schedule.store_stages)
        shape = (slots, Int(rows // _width(o)), Int(columns), Int(_width(o)))
        return Shared(tile_buffer(o.name), o.dtype, shape, 1024, None, _swizzle(o))

    def _stores(self, o: Output, slot: Expr) -> list[Stmt]:
        """The tensor copies of an output's tile, 128 bytes of its rows at a time."""
        panels = self.tile[0] // _width(o)
        return [
            TmaStore(
                f"{o.name}_map",
                self._at("left_", "top_", p * _width(o)),
                Region(tile_buffer(o.name), (slot, Int(p))),
            )
            for p in range(panels)
        ]

    def _steps(self, slot: Expr, out_slot: Expr) -> tuple[Stmt, ...]:
        """The elements of a tile, ``vector`` neighbours of a column for each thread at a time.

        Outputs that are not turned are computed once more, of neighbours of a row.
        """
        f, v = self.fusion, self.vector
        rows, columns = self.tile
        steps = rows * columns // (self.threads * v)
        if steps * self.threads * v != rows * columns:
            raise InputError(f"schedule: compute_warps must divide a tile of {rows} x {columns} elements")
        number = Var("j") * self.threads + Var("tid")
        start = Var("row_") * columns + Var("column_")
        row = Call("min", (Var("top_") + Var("row_"), Var(self.m) - v))
        column = Call("min", (Var("left_") + Var("column_"), Var(self.n) - 1))
        body: list[Stmt] = [
            Let("column_", number % columns),
            Let("row_", number // columns * v),
            *self._read(slot, start, (Int(1), Int(v), Int(columns))),
            *self.operands(row, column, v, 1),
            *arithmetic(f),
            *(self._staged(o, out_slot) for o in f.outputs if self.turned(o)),
        ]
        loops: tuple[Stmt, ...] = (For("j", Int(0), Int(steps), Int(1), tuple(body), unroll=steps),)
        plain = [o for o in f.outputs if not self.turned(o)]
        return (*self._plain(plain, slot), *loops) if plain else loops

    def _read(self, slot: Expr, start: Expr, form: tuple[Expr, Expr | None, Expr | None]) -> list[Stmt]:
        return [
            LdShared(register(x), Region(tile_buffer(x), (slot,), start, *form)) for x in self.fusion.streamed
        ]

    def _plain(self, outputs: list[Output], slot: Expr) -> tuple[Stmt, ...]:
        """Outputs in the order of the inputs, stored by the threads."""
        f, (rows, columns) = self.fusion, self.tile
        u = units(f)[self.n]
        while rows * columns % (self.threads * u):
            u //= 2
        steps = rows * columns // (self.threads * u)
        number = Var("j") * self.threads + Var("tid")
        row = Call("min", (Var("top_") + Var("row_"), Var(self.m) - 1))
        column = Call("min", (Var("left_") + Var("column_"), Var(self.n) - u))
        exact = (Var("top_") + Var("row_")) * Var(self.n) + (Var("left_") + Var("column_"))
        if self.batch is not None:
            exact = Var("matrix_") * (Var(self.m) * Var(self.n)) + exact
        made = [Compute(f"{o.name}_u", _used(o, result_of(f, o))) for o in outputs]
        stores = tuple(StGlobal(GlobalRegion(o.name, exact, Int(u)), Var(f"{o.name}_u")) for o in outputs)
        body: list[Stmt] = [
            Let("row_", number // (columns // u)),
            Let("column_", number % (columns // u) * u),
            *self._read(slot, Var("row_") * columns + Var("column_"), (Int(u), None, None)),
            *self.operands(row, column, 1, u),
            *arithmetic(f),
            *made,
            If(self.inside(), stores),
        ]
        return (For("j", Int(0), Int(steps), Int(1), renamed(tuple(body), "plain"), unroll=steps),)

    def _staged(self, o: Output, slot: Expr) -> Stmt:
        width = _width(o)
        panel, inside = Var("row_") // width, Var("row_") % width
        if self.tile[0] == width:
            panel, inside = Int(0), Var("row_")
        place = Var("column_") * width + inside
        region = Region(tile_buffer(o.name), (slot, panel), place, Int(self.vector))
        return StShared(region, result_of(self.fusion, o))


@dataclass(frozen=True)
class Accessed(Tiled):
    """Threads load along rows and store along the output's rows; in between tiles lie in shared memory."""

    @property
    def tile(self) -> tuple[int, int]:
        return PLAIN

    def lower(self) -> Kernel:
        """The kernel without synchronization."""
        rows, columns = self.tile
        steps = rows * columns // self.threads
        if steps * self.threads != rows * columns:
            raise InputError(f"schedule: compute_warps must divide a tile of {rows} x {columns} elements")
        turned = [o for o in self.fusion.outputs if self.turned(o)]
        shared = [Shared(tile_buffer(o.name), o.dtype, (Int(columns), Int(_pitch(o, rows)))) for o in turned]
        number = Var("j") * self.threads + Var("tid")
        read = (
            Let("row_", number // columns),
            Let("column_", number % columns),
            *self._elements(),
        )
        write = (
            Let("column_", number // rows),
            Let("row_", number % rows),
            *self._stored(turned),
        )
        body: list[Stmt] = [
            For("j", Int(0), Int(steps), Int(1), read, unroll=steps),
            For("j", Int(0), Int(steps), Int(1), write, unroll=steps),
        ]
        return self.kernel(self.loop(body), self.threads, shared=tuple(shared))

    def _first(self) -> Expr | None:
        return None if self.batch is None else Var("matrix_") * (Var(self.m) * Var(self.n))

    def _index(self, outer: Expr, inner: Expr, extent: str) -> Expr:
        place = outer * Var(extent) + inner
        first = self._first()
        return place if first is None else first + place

    def _elements(self) -> list[Stmt]:
        """Reads what is nearest inside, for what is outside is not stored; so all lanes do the same."""
        f = self.fusion
        row = Call("min", (Var("top_") + Var("row_"), Var(self.m) - 1))
        column = Call("min", (Var("left_") + Var("column_"), Var(self.n) - 1))
        place = self._index(row, column, self.n)
        body: list[Stmt] = [LdGlobal(register(x), GlobalRegion(x, place)) for x in f.streamed]
        body += self.operands(row, column, 1, 1)
        body += arithmetic(f)
        exact = self._index(Var("top_") + Var("row_"), Var("left_") + Var("column_"), self.n)
        for o in f.outputs:
            value = result_of(f, o)
            if self.turned(o):
                start = Var("column_") * _pitch(o, self.tile[0]) + Var("row_")
                body.append(StShared(Region(tile_buffer(o.name), (), start, Int(1)), value))
            else:
                body.append(If(self.inside(), (StGlobal(GlobalRegion(o.name, exact), value),)))
        return body

    def _stored(self, turned: list[Output]) -> list[Stmt]:
        row, column = Var("top_") + Var("row_"), Var("left_") + Var("column_")
        body: list[Stmt] = []
        for o in turned:
            start = Var("column_") * _pitch(o, self.tile[0]) + Var("row_")
            body.append(LdShared(f"{o.name}_t", Region(tile_buffer(o.name), (), start, Int(1))))
            body.append(Compute(f"{o.name}_u", _used(o, Var(f"{o.name}_t"))))
        where = {o.name: GlobalRegion(o.name, self._index(column, row, self.m)) for o in turned}
        stores = tuple(StGlobal(where[o.name], Var(f"{o.name}_u")) for o in turned)
        return [*body, If(self.inside(), stores)]


def _used(o: Output, value: Expr) -> Expr:
    """A value that all lanes use, before some of them store it."""
    return value + 0 if o.dtype in ("i32", "bool") else Call("cast.f32", (value,))


def _shape(dims: tuple[str, ...]) -> tuple[Expr, ...]:
    return tuple(Var(d) for d in dims) or (Int(1),)


def _width(o: Output) -> int:
    """Elements of a row of an output's tile."""
    return min(SPAN // DTYPE_BYTES[o.dtype], WIDEST)


def _swizzle(o: Output) -> Literal["64B", "128B"]:
    return "128B" if _width(o) * DTYPE_BYTES[o.dtype] == SPAN else "64B"


def _pitch(o: Output, rows: int) -> int:
    """Elements from one row of an output's tile to the next: an odd number of words, for the banks' sake."""
    return rows + 4 // DTYPE_BYTES[o.dtype]


_I32 = ("more", "blocks", "tiles_m", "tiles_n")


def tile_of(kernel: Kernel) -> tuple[int, int]:
    """Rows and columns of the inputs' tile of a kernel."""
    inputs = {t.name for t in kernel.tensors if t.mode == "in"}
    for m in kernel.maps:
        if m.tensor in inputs:
            rows, columns = m.box[-2:]
            return rows, columns
    return PLAIN


def launch_values(
    dims: tuple[str, ...], tile: tuple[int, int], sizes: Mapping[str, int], blocks: int
) -> dict[str, int]:
    """A kernel's parameters: tiles of ``each`` block, how many have one ``more``, and tiles along M and N."""
    down, across = (-(-sizes[d] // t) for d, t in zip(dims[-2:], tile, strict=True))
    tiles = prod(sizes[d] for d in dims[:-2]) * down * across
    grid = max(1, min(tiles, blocks))
    return {
        **{d: sizes[d] for d in dims},
        "each": tiles // grid,
        "more": tiles % grid,
        "blocks": grid,
        "tiles_m": down,
        "tiles_n": across,
    }


__all__ = ["Accessed", "Copied", "launch_values", "tile_of", "units"]
