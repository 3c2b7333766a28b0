"""The tables of one launch that ops and events refer to: barriers, buffers, tensors, maps, fragments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from syncverify.base.source import InputError
from syncverify.checker.prover.modular.group_strides import Strides
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import evaluate
from syncverify.ir.footprints import Footprints
from syncverify.ir.layout import BufferLayout, layout
from syncverify.ir.memo import once
from syncverify.model.events import TENSOR_SHIFT, WINDOW_SHIFT, BarrierInfo, Footprint, FootprintPartition
from syncverify.symbolic.context import NotConcrete

_SYNC_SEMS = frozenset({"acquire", "release", "acq_rel", "sc"})


@dataclass(frozen=True, slots=True)
class MapInfo:
    """A tensor map: its number, its tensor's number and shape, its box, bytes per element."""

    number: int
    tensor: int
    shape: tuple[int, ...]
    box: tuple[int, ...]
    element: int
    swizzle: str

    @property
    def box_bytes(self) -> int:
        size = self.element
        for d in self.box:
            size *= d
        return size


@dataclass(slots=True)
class Tables:
    """Numbered facts of a launch. CTA numbers run over all clusters of the system."""

    ctas: int  # of one cluster
    clusters: int
    tracks_global: bool
    buffers: Mapping[str, BufferLayout]
    barrier_counts: dict[str, int]
    barriers: list[BarrierInfo]
    tensors: dict[str, tuple[int, int]]  # number, bytes per element
    maps: dict[str, MapInfo]
    fragments: dict[str, int]
    smem_names: list[tuple[int, int, str]]
    footprint_table: list[Footprint] = field(default_factory=list)
    footprints: Footprints = field(init=False)
    _bases: dict[str, int] = field(default_factory=dict)
    _per_cta: int = 0
    untracked: frozenset[int] = frozenset()  # tensors that are left alone even so
    flag_chain: tuple[tuple[int, int], ...] = ()  # where flags lie that blocks hand on from each to the next
    windows: list[tuple[int, int, int]] = field(default_factory=list)  # tensor, CTA, bytes per block
    moved: FootprintPartition | None = None  # the same, as the checker sees them
    block_group: bool = False  # the blocks are a block group that represents all of a grid
    alone: bool = False  # there is no other
    strides: dict[int, int] = field(default_factory=dict)  # by tensor: bytes from group to group
    anyone: Strides | None = None  # the system is any cluster of such a block group
    of_each: frozenset[str] = frozenset()  # what is then determined by which cluster it is

    def __post_init__(self) -> None:
        self.footprints = Footprints(self.footprint_table)
        for name, count in self.barrier_counts.items():
            self._bases[name] = self._per_cta
            self._per_cta += count

    def window(self, tensor: int, cta: int, step: int) -> int:
        """The middle of a window of a tensor, which moves by so many bytes from block to block."""
        key = (tensor, cta, step)
        if key not in self.windows:
            self.windows.append(key)
        number = self.windows.index(key) + 1
        if number >> TENSOR_SHIFT - WINDOW_SHIFT:
            raise NotConcrete("global memory is reached in too many ways")
        return (tensor << TENSOR_SHIFT) + (number << WINDOW_SHIFT) + (1 << WINDOW_SHIFT - 1)

    def ahead(self, step: int, each: bool) -> int:
        """How far a place is told beyond where it is, which moves by so many bytes with the block group, or
        with
        ``each`` cluster of it."""
        return 0 if self.anyone is None else self.anyone.ahead(step, each)

    def keep_within(self, tensor: int, step: int, each: bool, reached: Footprint) -> None:
        """Raises NotConcrete where a block group may reach what is another's: all that it reaches of a tensor
        lies within as many bytes as places move by from group to group."""
        base = tensor << TENSOR_SHIFT
        if self.anyone is not None:
            self.anyone.keep(base, step, each, reached.intervals)
            return
        if self.alone:
            return
        if self.strides.setdefault(tensor, step) != step:
            raise NotConcrete("block groups access one tensor with several strides")
        if any(a < base or base + step < b for a, b in reached.intervals):
            raise NotConcrete("block groups may access the same global memory")

    def window_of(self, address: int) -> tuple[int, int, int]:
        """Of the window of an address: its middle, the CTA and how far it moves from block to block."""
        number = (address >> WINDOW_SHIFT) % (1 << TENSOR_SHIFT - WINDOW_SHIFT)
        if not number:
            return address >> TENSOR_SHIFT << TENSOR_SHIFT, 0, 0
        tensor, cta, step = self.windows[number - 1]
        return self.window(tensor, cta, step), cta, step

    def range_of(self, tensor: str) -> tuple[int, int]:
        """Where in the one global memory of footprints a tensor may lie."""
        number, _ = self.tensors[tensor]
        return number << TENSOR_SHIFT, number + 1 << TENSOR_SHIFT

    def cta_of(self, cta: int, rank: int) -> int:
        """The CTA of the given rank in the cluster of ``cta``."""
        return cta // self.ctas * self.ctas + rank

    def barrier_of(self, number: int) -> tuple[str, int]:
        """Array and index of a barrier."""
        at = number % self._per_cta
        name = max((x for x in self._bases if self._bases[x] <= at), key=lambda x: self._bases[x])
        return name, at - self._bases[name]

    def barrier_number(self, cta: int, name: str, index: int) -> int:
        return cta * self._per_cta + self._bases[name] + index


def tables(kernel: n.Kernel, values: Mapping[str, int], clusters: int, tracks_global: bool,
           only: frozenset[str] | None = None) -> Tables:  # fmt: skip
    """Lays the kernel out. ``only``: the tensors that are tracked, if not all. Raises InputError where the
    layout cannot be."""
    laid = layout(kernel, values)
    names = [(b.offset, b.end, b.name) for b in laid.buffers.values()]
    names += [(b.offset, b.end, b.name) for b in laid.barriers.values()]
    counts = {b.name: laid.barriers[b.name].count for b in kernel.barriers}
    infos = []
    for cta in range(kernel.launch.ctas * clusters):
        for bar in kernel.barriers:
            place = laid.barriers[bar.name]
            for i in range(place.count):
                name = f"{bar.name}[{i}]" if place.count > 1 else bar.name
                infos.append(BarrierInfo(cta, place.offset + 8 * i, name))
    tensors = {t.name: (i, n.DTYPE_BYTES[t.dtype]) for i, t in enumerate(kernel.tensors)}
    return Tables(
        ctas=kernel.launch.ctas,
        clusters=clusters,
        tracks_global=tracks_global,
        buffers=laid.buffers,
        barrier_counts=counts,
        barriers=infos,
        tensors=tensors,
        maps=_maps(kernel, values),
        fragments={f.name: i for i, f in enumerate(kernel.fragments)},
        smem_names=sorted(names),
        untracked=frozenset(i for t, (i, _) in tensors.items() if only is not None and t not in only),
    )


def _maps(kernel: n.Kernel, values: Mapping[str, int]) -> dict[str, MapInfo]:
    by_name = {t.name: (i, t) for i, t in enumerate(kernel.tensors)}
    out = {}
    for i, m in enumerate(kernel.maps):
        number, tensor = by_name[m.tensor]
        try:
            shape = tuple(evaluate(e, values) for e in tensor.shape)
        except (KeyError, ArithmeticError) as problem:
            raise InputError(f"the shape of {tensor.name} has no value: {problem}", tensor.span) from None
        out[m.name] = MapInfo(i, number, shape, m.box, n.DTYPE_BYTES[tensor.dtype], m.swizzle)
    return out


def exchanged(kernel: n.Kernel) -> frozenset[str]:
    """Tensors that are written, and read or combined with what others write."""
    tensor_of = {m.name: m.tensor for m in kernel.maps}
    written: set[str] = set()
    seen: set[str] = set()
    for s in statements(kernel.body):
        match s:
            case n.BulkStore(dst=g, reduce=how):
                written.add(g.tensor)
                seen |= {g.tensor} if how else set()
            case n.TmaStore(map=name, reduce=how):
                written.add(tensor_of[name])
                seen |= {tensor_of[name]} if how else set()
            case n.StGlobal(dst=g):
                written.add(g.tensor)
            case n.AtomGlobal(dst=g) | n.Multimem(target=g):
                written.add(g.tensor)
                seen.add(g.tensor)
            case n.LdGlobal(src=g) | n.SpinGlobal(src=g) | n.BulkLoad(src=g) | n.CpAsync(src=g):
                seen.add(g.tensor)
            case n.LoadIndex(source=g):
                seen.add(g.tensor)
            case n.TmaLoad(map=name):
                seen.add(tensor_of[name])
    return frozenset(written & seen)


@once
def spins(kernel: n.Kernel) -> bool:
    """Whether a block waits on global memory for another."""
    return any(isinstance(s, n.SpinGlobal) for s in statements(kernel.body))


def _handed_over(kernel: n.Kernel, body: list[n.Stmt]) -> bool:
    """Whether what one proxy writes to a tensor may be read, or written over, through the other."""
    tensor_of = {m.name: m.tensor for m in kernel.maps}
    reads: dict[bool, set[str]] = {True: set(), False: set()}
    writes: dict[bool, set[str]] = {True: set(), False: set()}
    for s in body:
        if isinstance(s, n.BulkLoad):
            reads[True].add(s.src.tensor)
        elif isinstance(s, n.TmaLoad):
            reads[True].add(tensor_of.get(s.map, ""))
        elif isinstance(s, n.BulkStore):
            writes[True].add(s.dst.tensor)
        elif isinstance(s, n.TmaStore):
            writes[True].add(tensor_of.get(s.map, ""))
        elif isinstance(s, n.LdGlobal | n.CpAsync):
            reads[False].add(s.src.tensor)
        elif isinstance(s, n.StGlobal):
            writes[False].add(s.dst.tensor)
    return bool(writes[True] & (reads[True] | reads[False] | writes[False]) or writes[False] & reads[True])


@once
def synchronizes_globally(kernel: n.Kernel) -> bool:
    """Whether accesses to global memory matter: blocks synchronize through it, generic atomics may meet TMA
    reductions on one tensor (E46), or one tensor is written and read, at one end by bulk copies."""
    body = list(statements(kernel.body))
    if _handed_over(kernel, body):
        return True
    fenced = any(isinstance(s, n.Fence) and s.scope in ("gpu", "sys") for s in body)
    for s in body:
        if isinstance(s, n.SpinGlobal):
            return True
        if isinstance(s, n.LdGlobal | n.StGlobal | n.AtomGlobal | n.Multimem) and (
            s.sem in _SYNC_SEMS or (s.sem == "relaxed" and fenced)
        ):
            return True
    return mixes_atomics(kernel)


@once
def mixes_atomics(kernel: n.Kernel) -> bool:
    """Whether generic atomics may meet bulk reductions on one tensor, in whatever blocks (A3, E46)."""
    body = list(statements(kernel.body))
    tensor_of = {m.name: m.tensor for m in kernel.maps}
    atomics = {s.dst.tensor for s in body if isinstance(s, n.AtomGlobal)}
    return any(
        (isinstance(s, n.BulkStore) and s.reduce is not None and s.dst.tensor in atomics)
        or (isinstance(s, n.TmaStore) and s.reduce is not None and tensor_of.get(s.map) in atomics)
        for s in body
    )
