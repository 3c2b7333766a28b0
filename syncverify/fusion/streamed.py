"""Rows of any length: each block goes through a row piece by piece, once for every step of reductions.

What it keeps between pieces is a few numbers for each thread (``online``); elements are read again for the
next step and for results along the row. The length is a size of the kernel, as the number of rows is.

The elements of the first ``kept`` pieces may stay in shared memory, where each thread has places of its own.
Rows that fit are then read once. How many pieces stay is known when the kernel is made, and these are written
out one by one; a kernel with such pieces is for rows that have at least as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from syncverify.base.source import InputError
from syncverify.fusion import online, row_schedule, row_strides
from syncverify.fusion.dataflow import (
    Dataflow,
    Part,
    number_at,
    register,
    row_numbers,
    row_start,
    stored_from,
)
from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import INDEX_DTYPES, Fusion, Output
from syncverify.fusion.lower import computed_dimensions, stored_node
from syncverify.fusion.persistent import facts, launch_parameters, parameters, rounds
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.schedule import shared_per_block
from syncverify.ir import nodes as ir
from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.ir.nodes import Compute, For, GlobalRegion, If, Let, Stmt

LANES = 32
#: Bytes that one thread reads together; of pieces that stay in shared memory, where more of smaller ones fit.
PIECE_BYTES, KEPT_BYTES = 64, 32
#: Pieces that stay in shared memory and are loaded together.
TOGETHER = 4
#: Warps of a block, and blocks on an SM.
WARPS, BLOCKS = 16, 2
#: Bytes of shared memory that are left for what warps exchange, where pieces are kept there.
EXCHANGED_BYTES = 4096
#: The shortest rows that are peeled: longer than all single elements.
LEAST_PEELED = 32


@dataclass(frozen=True)
class StreamedPiece:
    """What a block reads together: ``runs`` runs of neighbouring vectors. ``at``: a thread's first element.

    ``inside``: whether the thread has any, where not all do. ``vector``: elements of one access. ``flat``: of
    peeled rows, the thread's first element among those of all rows. ``kept``: of pieces that stay in shared
    memory, which one it is.
    """

    suffix: str
    runs: int
    at: Expr
    vector: int
    inside: Expr | None = None
    flat: Expr | None = None
    kept: int | None = None


@dataclass(frozen=True)
class StreamedRows:
    """One fusion for rows of any multiple of ``vector`` elements, or of any length if they are peeled.

    Of those, threads access aligned vectors, and the single elements in front of the first and behind the
    last.
    """

    fusion: Fusion
    schedule: RowSchedule
    vector: int
    kept: int = 0  # pieces that stay in shared memory

    def __post_init__(self) -> None:
        check_operands(self.fusion)

    # ------------------------------------------------------------ shape

    @property
    def warps(self) -> int:
        return self.schedule.warps or WARPS

    @property
    def span(self) -> int:
        """Elements of one run of all threads."""
        return self.warps * LANES * self.vector

    @cached_property
    def runs(self) -> int:
        sizes = [ir.DTYPE_BYTES[t.dtype] for n, t in self.fusion.inputs if n in self.fusion.streamed]
        together = KEPT_BYTES if self.schedule.reread == "shared" else PIECE_BYTES
        return max(1, together // (self.vector * max(1, sum(sizes))))

    @property
    def inner(self) -> str:
        return self.fusion.dims[-1]

    @property
    def piece(self) -> int:
        """Elements that a block reads together."""
        return self.span * self.runs

    @property
    def kept_buffers(self) -> frozenset[str]:
        """The shared memory where pieces stay: each thread accesses places of its own there."""
        return frozenset(map(_kept_buffer, self._again)) if self.kept else frozenset()

    def pieces_that_fit(self, width: int) -> int:
        """How many whole pieces of such rows may stay in shared memory."""
        if not self._again:
            return 0
        size = self.piece * sum(map(ir.DTYPE_BYTES.__getitem__, self._again.values()))
        room = shared_per_block(self.schedule.blocks_per_sm or 1) - EXCHANGED_BYTES
        return min(room // size, max(0, width - self._apart) // self.piece)

    @property
    def _peeled(self) -> bool:
        return self.schedule.peel == "yes"

    @property
    def _apart(self) -> int:
        """Elements that stand in front of the first vector of a row, at most."""
        return self.vector - 1 if self._peeled else 0

    # ------------------------------------------------------------ the kernel

    def lower(self) -> ir.Kernel:
        """The kernel without synchronization."""
        f = self.fusion
        row = Var("block") + Var("i") * Var("grid")
        loop = For("i", Int(0), Var("n"), Int(1), (Let("row", row), *self._row()))
        chunk = self.piece
        values = streamed_values(chunk, self._apart, self.default_sizes(), 2, f.dims)
        sized = computed_dimensions(f)
        shared = [
            ir.Shared(part_buffer(step), "f32", (Int(self._slots), Int(len(self._kept(step)) * self.warps)))
            for step in self._steps
        ]
        shared += [
            ir.Shared(_kept_buffer(n), dtype, (Int(self.kept), Int(chunk)))
            for n, dtype in self._again.items()
            if self.kept
        ]
        return ir.Kernel(
            name=f.name,
            launch=ir.Launch(grid=(Var("blocks"), Int(1), Int(1)), block=(self.warps * LANES, 1, 1)),
            params=parameters(
                {**values, **dict.fromkeys(sized, 1), **row_strides.defaults(f, self.default_sizes())},
                self.schedule.index,
                ("chunks",),
            ),
            tensors=tuple(
                [ir.Tensor(n, t.dtype, row_strides.shape(n, t, Var), "in") for n, t in f.inputs]
                + [ir.Tensor(o.name, o.dtype, row_strides.shape(o.name, o, Var), "out") for o in f.outputs]
            ),
            shared=tuple(shared),
            assumes=(
                *(Var(d) >= 1 for d in (*f.dims, *sized)),
                *(((Var(self.inner) % self.vector).eq(0),) if self.vector > 1 and not self._peeled else ()),
                *row_strides.assumed(f, self.vector),
                Var("chunks") >= self.kept,
                Var("chunks") * chunk <= (Var(self.inner) - self._apart if self._apart else Var(self.inner)),
                *((Var(self.inner) >= LEAST_PEELED,) if self._peeled else ()),
                *facts(1),
            ),
            body=(rounds(), *self._scalars(), loop),
            span=f.span,
        )

    def default_sizes(self) -> dict[str, int]:
        """Sizes of an exact check: some pieces, and a ragged end."""
        sizes = dict.fromkeys(self.fusion.dims, 1)
        sizes[self.fusion.dims[0]] = 5
        sizes[self.inner] = (
            (2 + self.kept) * self.piece + self.span + self.vector + (1 if self._peeled else 0)
        )
        return sizes

    # ------------------------------------------------------------ what is computed when

    @cached_property
    def statistics(self) -> tuple[online.Statistic, ...]:
        plain = Dataflow(self.fusion, self.inner)
        return online.statistics(self.fusion, self.inner, plain.live)

    @cached_property
    def flow(self) -> Dataflow:
        return Dataflow(self.fusion, self.inner, online.together(self.statistics))

    @cached_property
    def _steps(self) -> dict[int, list[online.Statistic]]:
        """For every step, what ends it."""
        steps: dict[int, list[online.Statistic]] = {}
        for s in self.statistics:
            steps.setdefault(self.flow.depth[s.nodes[0]] - 1, []).append(s)
        return steps

    @property
    def _slots(self) -> int:
        """With two exchanges a row each barrier separates the other's rounds; one alone takes turns."""
        return 2 if len(self._steps) == 1 else 1

    def _kept(self, step: int) -> list[str]:
        return [r for s in self._steps.get(step, []) for r in s.registers]

    @cached_property
    def _readers(self) -> dict[str, list[int]]:
        """The steps that read each input of all rows."""
        found: dict[str, list[int]] = {}
        for step in range(self.flow.steps):
            for name in self._needs(step, self._along(step))[1]:
                if name in self.fusion.streamed:
                    found.setdefault(name, []).append(step)
        return found

    @cached_property
    def _again(self) -> dict[str, str]:
        """What a later step reads again, with its element type: inputs of all rows, and results along the row
        that an earlier step has stored."""
        types = dict(self.fusion.inputs)
        found = {n: types[n].dtype for n, steps in self._readers.items() if len(steps) > 1}
        for step in range(self.flow.steps):
            needed = self._needs(step, self._along(step))[2]
            found |= {o.name: o.dtype for i, o in self._stored_before(step).items() if i in needed}
        return found

    def _along(self, step: int) -> list[Output]:
        """The results along the row that a step stores."""
        return [o for o in self.fusion.outputs if self._step_of(o) == step and self._is_along(o)]

    def _part(self, piece: StreamedPiece | None) -> Part:
        if piece is None:
            return Part(self.flow, "", Var, others=self.flow.row_places)
        form = (piece.vector, piece.runs, self.span)
        run = (Var("row") * Var(self.inner) + piece.at, *form)
        iota = Call("iota", (*map(Int, form),))
        return Part(self.flow, piece.suffix, Var, iota, piece.at, self.flow.row_places, run)

    # ------------------------------------------------------------ one row

    def _scalars(self) -> Iterator[Stmt]:
        for name, t in self.fusion.inputs:
            if not t.dims:
                yield ir.LdGlobal(register(name), GlobalRegion(name, Int(0)))

    def _row(self) -> Iterator[Stmt]:
        yield from row_numbers(self.flow, Var("row"), Var(self.inner))
        if self._peeled:
            yield from peeled_row(Var(self.inner), self.vector)
        for step in range(self.flow.steps):
            yield from self._numbers(step)
            outputs = [o for o in self.fusion.outputs if self._step_of(o) == step]
            along = self._along(step)
            found = self._steps.get(step, [])
            for s in found:
                yield from s.start()
            if along or found:
                yield from self._pieces(step, along)
            for o in outputs:
                if o not in along:
                    value = self._part(None).expression(stored_node(self.fusion, o))
                    at = number_at(self.fusion, o.name, o.dims, Var("row"))
                    store = ir.StGlobal(GlobalRegion(o.name, at), value)
                    yield If(Var("tid").eq(0), (store,))
            yield from self._across(step)

    def _numbers(self, step: int) -> Iterator[Stmt]:
        """What is computed once for the row."""
        for i in self.flow.at(step):
            if not self.flow.wide(i) and self.flow.node(i).op not in REDUCTIONS:
                yield Compute(f"t{i}", self._part(None).expression(i, top=True))

    def _pieces(self, step: int, outputs: list[Output]) -> Iterator[Stmt]:
        """All elements of the row: whole pieces, then runs that some threads have no part of."""
        if self._peeled:
            yield from self._peeled_pieces(step, outputs)
            return
        span, each, inner, vector = self.span, self.piece, Var(self.inner), self.vector
        whole = StreamedPiece(f"w{step}", self.runs, Var("at_"), vector)
        at = Var("k") * each + Var("tid") * vector
        yield from self._kept_pieces(step, whole, outputs)
        body = (Let("at_", at), *self._piece(step, whole, outputs))
        yield For("k", Int(self.kept), Var("chunks"), Int(1), body)
        left = Call("cdiv", (inner - Var("chunks") * each, Int(span)))
        last = Var("chunks") * each + Var("j") * span + Var("tid") * vector
        ragged = StreamedPiece(f"r{step}", 1, Var("at_"), vector, Var("own_") < inner)
        own = (Let("own_", last), Let("at_", Call("min", (Var("own_"), inner - vector))))
        yield For("j", Int(0), left, Int(1), (*own, *self._piece(step, ragged, outputs)))

    def _peeled_pieces(self, step: int, outputs: list[Output]) -> Iterator[Stmt]:
        """The same of a peeled row: its vectors, then the single elements at its ends."""
        threads, vector, vectors = self.warps * LANES, self.vector, Var("vectors_")
        each, place = self.runs * threads, Var("number_") * vector
        at, flat = Var("head_") + place, (Var("first_") + Var("number_")) * vector
        whole = StreamedPiece(f"w{step}", self.runs, at, vector, flat=flat)
        number = Let("number_", Var("k") * each + Var("tid"))
        yield from self._kept_pieces(step, whole, outputs)
        body = (number, *self._piece(step, whole, outputs))
        yield For("k", Int(self.kept), Var("chunks"), Int(1), body)
        left = Call("cdiv", (vectors - Var("chunks") * each, Int(threads)))
        last = Var("chunks") * each + Var("j") * threads + Var("tid")
        ragged = StreamedPiece(f"r{step}", 1, at, vector, Var("own_") < vectors, flat)
        own = (Let("own_", last), Let("number_", Call("min", (Var("own_"), vectors - 1))))
        yield For("j", Int(0), left, Int(1), (*own, *self._piece(step, ragged, outputs)))
        yield from self._piece(step, self._edges(step), outputs)

    def _kept_pieces(self, step: int, whole: StreamedPiece, outputs: list[Output]) -> Iterator[Stmt]:
        """The pieces that stay in shared memory. Several are loaded before the first of them is used: so more
        bytes are under way."""
        pieces = []
        for k in range(self.kept):
            name = f"a{step}_{k}_"
            yield Let(name, Var("tid") * self.vector + k * self.piece)
            place: Expr = Var("head_") + Var(name) if self._peeled else Var(name)
            flat = Var("first_") * self.vector + Var(name) if self._peeled else None
            pieces.append(replace(whole, suffix=f"k{step}_{k}", at=place, flat=flat, kept=k))
        for first in range(0, self.kept, TOGETHER):
            some = pieces[first : first + TOGETHER]
            for piece in some:
                yield from self._loads(step, piece, outputs)
            for piece in some:
                yield from self._uses(step, piece, outputs)

    def _edges(self, step: int) -> StreamedPiece:
        """The single elements of a peeled row."""
        at, inside = edge(Var("tid"), Var(self.inner), self.vector)
        return StreamedPiece(f"e{step}", 1, at, 1, inside, Var("row") * Var(self.inner) + at)

    def _piece(self, step: int, piece: StreamedPiece, outputs: list[Output]) -> Iterator[Stmt]:
        yield from self._loads(step, piece, outputs)
        yield from self._uses(step, piece, outputs)

    def _loads(self, step: int, piece: StreamedPiece, outputs: list[Output]) -> Iterator[Stmt]:
        """What a step reads of a piece."""
        part, stored = self._part(piece), self._stored_before(step)
        _, inputs, needed = self._needs(step, outputs)
        for i, o in stored.items():
            if i in needed and piece.kept is not None:
                yield ir.LdShared(part.name(i), self._kept_region(o.name, piece))
            elif i in needed:
                yield ir.LdGlobal(part.name(i), self._region(o.name, self._start(o), piece, along=True))
        for name in inputs:
            if self._is_kept(name, piece) and step > self._readers[name][0]:
                yield ir.LdShared(register(name, piece.suffix), self._kept_region(name, piece))
            else:
                yield self._load(name, piece)

    def _uses(self, step: int, piece: StreamedPiece, outputs: list[Output]) -> Iterator[Stmt]:
        """What becomes of it. The first step that reads what stays in shared memory puts it there."""
        part, found = self._part(piece), self._steps.get(step, [])
        wide, inputs, _ = self._needs(step, outputs)
        for name in inputs:
            if self._is_kept(name, piece) and step == self._readers[name][0]:
                yield ir.StShared(self._kept_region(name, piece), Var(register(name, piece.suffix)))
        yield from (Compute(part.name(i), part.expression(i, top=True)) for i in wide)
        for s in found:
            yield from s.update(part.expression(s.argument), piece.runs * piece.vector, piece.inside)
        for o in outputs:
            region = self._region(o.name, self._start(o), piece, along=True)
            store = ir.StGlobal(region, part.expression(stored_node(self.fusion, o)))
            yield store if piece.inside is None else If(piece.inside, (store,))
            if self._is_kept(o.name, piece):
                yield ir.StShared(
                    self._kept_region(o.name, piece), part.expression(stored_node(self.fusion, o))
                )

    def _needs(self, step: int, outputs: list[Output]) -> tuple[list[int], list[str], set[int]]:
        """Of a step: the wide nodes that are computed, the inputs that are read, and all that it needs."""
        flow, stored = self.flow, self._stored_before(step)
        roots = [s.argument for s in self._steps.get(step, [])]
        roots += [stored_node(self.fusion, o) for o in outputs]
        needed = self._needed(roots, stored)
        wide = [i for i in flow.live if i in needed and i in flow.named and flow.wide(i) and i not in stored]
        wide = [i for i in wide if flow.node(i).op not in ("take", *REDUCTIONS)]
        return wide, list(flow.inputs_of([r for r in (*wide, *roots) if r not in stored])), needed

    def _is_kept(self, name: str, piece: StreamedPiece) -> bool:
        return piece.kept is not None and name in self._again

    def _kept_region(self, name: str, piece: StreamedPiece) -> ir.Region:
        """Where a thread's elements of a piece stay."""
        assert piece.kept is not None
        rows = (Int(piece.runs), Int(self.span)) if piece.runs > 1 else (None, None)
        own = Var("tid") * self.vector
        return ir.Region(_kept_buffer(name), (Int(piece.kept),), own, Int(piece.vector), *rows)

    def _stored_before(self, step: int) -> dict[int, Output]:
        """Nodes whose values an earlier step has stored as they are: they are read, and not computed again
        from what may be several inputs. Their block wrote them, and met at the end of that step."""
        found: dict[int, Output] = {}
        for o in self.fusion.outputs:
            node = stored_node(self.fusion, o)
            exact = o.dtype == "f32" and self._is_along(o) and node in self.flow.named
            if exact and self._step_of(o) < step and self.flow.node(node).op != "input":
                found.setdefault(node, o)
        return found

    def _needed(self, roots: Sequence[int], stored: Mapping[int, Output]) -> set[int]:
        """The roots and what they are made of, where what is stored is made of nothing else."""
        found, work = set[int](), list(roots)
        while work:
            i = work.pop()
            if i not in found:
                found.add(i)
                work += [] if i in stored else self.fusion.graph.predecessors(i)
        return found

    def _start(self, o: Output) -> Expr:
        """The first element of a row of an output."""
        return stored_from(self.fusion, o, Var("row"), Var(self.inner))

    def _load(self, name: str, piece: StreamedPiece) -> Stmt:
        start = row_start(self.fusion, name, Var("row"), Var(self.inner)) or Int(0)
        along = name in self.fusion.streamed
        return ir.LdGlobal(register(name, piece.suffix), self._region(name, start, piece, along))

    def _region(self, tensor: str, start: Expr, piece: StreamedPiece, along: bool) -> GlobalRegion:
        """``along``: of a tensor of all rows, which lie one behind the other."""
        rows = (Int(piece.runs), Int(self.span)) if piece.runs > 1 else (None, None)
        at = piece.at if start == Int(0) else start + piece.at
        if along and piece.flat is not None:
            at = piece.flat
        return GlobalRegion(tensor, at, Int(piece.vector), *rows)

    def _across(self, step: int) -> Iterator[Stmt]:
        """What threads keep becomes what the row has: over the lanes, then over the warps."""
        found = self._steps.get(step, [])
        for s in found:
            yield from s.lanes()
        if not found:
            return
        slot = (Var("i") % self._slots if self._slots > 1 else Int(0),)
        places = {r: k * self.warps for k, r in enumerate(self._kept(step))}
        buffer = part_buffer(step)
        yield If(
            Var("lane").eq(0),
            tuple(
                ir.StShared(ir.Region(buffer, slot, Var("warp") + k, Int(1)), Var(r))
                for r, k in places.items()
            ),
        )
        for r, k in places.items():
            yield ir.LdShared(f"q{r}", ir.Region(buffer, slot, Int(k), Int(self.warps)))
        for s in found:
            yield from s.warps({r: f"q{r}" for r in s.registers})
            yield from s.finish()

    def _step_of(self, o: Output) -> int:
        return self.flow.depth[stored_node(self.fusion, o)]

    def _is_along(self, o: Output) -> bool:
        return o.dims == self.fusion.dims


def peeled_row(width: Expr, vector: int) -> Iterator[Stmt]:
    """Of a row: its first aligned vector among those of all rows, the elements in front of it, and how many
    vectors the row has."""
    start = Var("row") * width
    yield Let("first_", (start + (vector - 1)) // vector)
    yield Let("head_", Var("first_") * vector - start)
    yield Let("vectors_", (width - Var("head_")) // vector)


def edge(member: Expr, width: Expr, vector: int) -> tuple[Expr, Expr]:
    """The single element of a peeled row that a thread has, inside the row for all, and whether it has one.

    They are those in front of the first vector, then those behind the last.
    """
    behind = Var("vectors_") * vector
    own = Call("select", (member < Var("head_"), member, member + behind))
    return Call("min", (own, width - 1)), member < width - behind


def part_buffer(step: int) -> str:
    """The shared memory through which warps exchange what they keep at the end of a step."""
    return f"part{step}"


def _kept_buffer(name: str) -> str:
    """The shared memory where the first pieces of a row stay: of an input, or of a result."""
    return f"kept_{name}"


def streamed_values(
    chunk: int, apart: int, sizes: Mapping[str, int], blocks: int, dims: tuple[str, ...]
) -> dict[str, int]:
    """A kernel's parameters: rows of ``each`` block, and whole ``chunks`` of a row.

    ``apart``: elements that may stand in front of the first chunk.
    """
    *leading, inner = dims
    values = launch_parameters(prod(sizes[d] for d in leading), 1, {d: sizes[d] for d in dims}, blocks)
    return {**values, "chunks": max(0, sizes[inner] - apart) // chunk}


def launch_values(
    kernel: ir.Kernel, sizes: Mapping[str, int], blocks: int, dims: tuple[str, ...]
) -> dict[str, int]:
    """The parameters of a lowered kernel, which says in its facts how many elements a chunk has."""
    extra = {p.name: sizes[p.name] for p in kernel.params if p.name in sizes}
    for fact in kernel.assumes:
        match fact:
            case Binary("<=", Binary("*", Var("chunks"), Int(chunk)), most):
                apart = most.right.value if isinstance(most, Binary) and isinstance(most.right, Int) else 0
                return {**extra, **streamed_values(chunk, apart, sizes, blocks, dims)}
    raise InputError(f"kernel {kernel.name} is no lowered fusion of rows", kernel.span)


def fitted(schedule: RowSchedule, peeled: bool = False) -> RowSchedule:
    """The schedule with what it leaves open chosen."""
    schedule.check()
    if schedule.cluster:
        raise InputError("schedule: cluster is for rows that stay in registers: stream=no")
    warps = schedule.warps or WARPS
    blocks = schedule.blocks_per_sm or max(1, min(16, BLOCKS * WARPS // warps))
    # what is streamed is read again
    return replace(
        schedule, warps=warps, blocks_per_sm=blocks, stages=1, source="direct", cache="normal",
        grid="tiles" if schedule.grid == "auto" else schedule.grid, peel="yes" if peeled else "no",
    )  # fmt: skip


def kept_share(fusion: Fusion, schedule: RowSchedule, width: int) -> float:
    """The part of such a row that stays in shared memory, under a schedule that leaves nothing open."""
    if schedule.reread != "shared":
        return 0.0
    peeled = schedule.peel == "yes"
    access = row_schedule.widest_vector(fusion) if peeled else row_schedule.vector(fusion, width)
    rows = StreamedRows(fusion, schedule, access)
    return rows.pieces_that_fit(width) * rows.piece / width


def check_operands(fusion: Fusion) -> None:
    """Raises InputError for indices that are not for whole rows."""
    for name, t in fusion.inputs:
        if fusion.dims[-1] in t.dims and t.dtype in INDEX_DTYPES:
            raise InputError(f"{fusion.name}: {name} holds indices; they are for whole rows", fusion.span)


__all__ = [
    "StreamedRows", "check_operands", "edge", "fitted", "launch_values", "part_buffer", "peeled_row",
    "streamed_values",
]  # fmt: skip
