"""The kernel IR: one frozen dataclass per construct. ``docs/syncir.md`` shows the text of each.

Operations carry the names of the PTX ISA. Every statement has a ``span`` (not part of equality).
Semantics live in ``syncverify.model``; this file only says what can be written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from syncverify.ir.expr import Expr, Int
from syncverify.source import UNKNOWN_SPAN, Span

DTYPE_BYTES = {
    "f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i8": 1, "u8": 1, "i16": 2, "u16": 2,
    "i32": 4, "u32": 4, "i64": 8, "u64": 8, "b8": 1, "b16": 2, "b32": 4, "b64": 8,
    "e4m3": 1, "e5m2": 1, "tf32": 4,
}  # fmt: skip

Sem = Literal["weak", "relaxed", "acquire", "release", "acq_rel", "sc"]
MemScope = Literal["cta", "cluster", "gpu", "sys"]
Reduce = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch"]


# ---------------------------------------------------------------- references


@dataclass(frozen=True, slots=True)
class Region:
    """Shared memory an operation touches: ``buf[index..][start : count]``.

    ``index`` selects leading dimensions; what is left is flattened, and ``start``/``count`` are in
    elements of it (None: all of it). ``rows`` > 1 repeats the range every ``pitch`` elements.
    ``rank`` names another CTA of the cluster (mapa), None the executing one.
    """

    buffer: str
    index: tuple[Expr, ...] = ()
    start: Expr | None = None
    count: Expr | None = None
    rows: Expr | None = None
    pitch: Expr | None = None
    rank: Expr | None = None


@dataclass(frozen=True, slots=True)
class BarrierRef:
    """One mbarrier: ``full[s]``, or ``full[s] @ rank`` in another CTA of the cluster."""

    name: str
    index: Expr | None = None
    rank: Expr | None = None


@dataclass(frozen=True, slots=True)
class GlobalRegion:
    """Global memory: ``count`` elements of a tensor from flattened element ``start``.

    ``rows`` > 1 repeats the range every ``pitch`` elements; only plain loads and stores take that.
    """

    tensor: str
    start: Expr
    count: Expr = Int(1)
    rows: Expr | None = None
    pitch: Expr | None = None


# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of all statements."""

    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


# control and integers


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """``for var in lo..hi step step { body }``; bounds are evaluated once, at entry."""

    var: str
    lo: Expr
    hi: Expr
    step: Expr
    body: tuple[Stmt, ...]
    unroll: int | None = None


@dataclass(frozen=True, slots=True)
class If(Stmt):
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Role(Stmt):
    """``role NAME UNIT lo..hi { body }``: threads whose ``tid``, ``warp`` or ``wg`` is in lo..hi-1."""

    name: str
    unit: Literal["threads", "warps", "warpgroups"]
    lo: Expr
    hi: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """Declares an integer register (``let r = e``)."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """Sets an integer register declared before (``r = e``)."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class LoadIndex(Stmt):
    """``let r = load t[i]``: an integer from read-only global memory (data-dependent control)."""

    name: str
    source: GlobalRegion


@dataclass(frozen=True, slots=True)
class Exit(Stmt):
    """The executing threads leave the kernel."""


# execution barriers and warp-level


@dataclass(frozen=True, slots=True)
class BarrierSync(Stmt):
    """``bar.sync``/``barrier.sync id[, threads]`` (and ``.red``); no count means the whole CTA."""

    id: Expr
    count: Expr | None = None
    aligned: bool = True
    red: bool = False


@dataclass(frozen=True, slots=True)
class BarrierArrive(Stmt):
    id: Expr
    count: Expr
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class WarpSync(Stmt):
    """``warp.sync [mask]``; no mask means all 32 lanes."""

    mask: Expr | None = None


@dataclass(frozen=True, slots=True)
class ClusterArrive(Stmt):
    sem: Literal["release", "relaxed"] = "release"
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class ClusterWait(Stmt):
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Elect(Stmt):
    """``elect p``: integer register ``p`` is 1 in one unspecified lane of the warp, 0 in the others."""

    name: str


@dataclass(frozen=True, slots=True)
class Shuffle(Stmt):
    """``shfl.bfly x, v, m``: the value of lane ``lane ^ m``; ``shfl.idx x, v, l``: that of lane ``l``.

    All 32 lanes execute it together; it orders no memory accesses.
    """

    name: str
    value: Expr
    lane: Expr
    mode: Literal["bfly", "idx"] = "bfly"


@dataclass(frozen=True, slots=True)
class SetMaxNReg(Stmt):
    direction: Literal["inc", "dec"]
    count: Expr


@dataclass(frozen=True, slots=True)
class GridDepWait(Stmt):
    """``griddep.wait``: earlier grids of a programmatic launch are complete and visible."""


@dataclass(frozen=True, slots=True)
class GridDepLaunch(Stmt):
    pass


# mbarrier


@dataclass(frozen=True, slots=True)
class MbarrierInit(Stmt):
    bar: BarrierRef
    count: Expr


@dataclass(frozen=True, slots=True)
class MbarrierInval(Stmt):
    bar: BarrierRef


@dataclass(frozen=True, slots=True)
class MbarrierArrive(Stmt):
    """``[let t =] mbarrier.arrive[.expect_tx][.drop][.no_complete][.relaxed][.cluster] b[, n][, count c]``"""

    bar: BarrierRef
    expect: Expr | None = None
    count: Expr = Int(1)
    sem: Literal["release", "relaxed"] = "release"
    scope: Literal["cta", "cluster"] = "cta"
    drop: bool = False
    no_complete: bool = False
    token: str | None = None


@dataclass(frozen=True, slots=True)
class MbarrierExpectTx(Stmt):
    bar: BarrierRef
    bytes: Expr


@dataclass(frozen=True, slots=True)
class MbarrierCompleteTx(Stmt):
    """Simulates the completion of a copy of ``bytes``; moves no data."""

    bar: BarrierRef
    bytes: Expr


@dataclass(frozen=True, slots=True)
class MbarrierWait(Stmt):
    """Spins on try_wait until true. ``phase`` is a parity, or a token's register if ``token``."""

    bar: BarrierRef
    phase: Expr
    token: bool = False
    sem: Literal["acquire", "relaxed"] = "acquire"
    scope: Literal["cta", "cluster"] = "cta"


@dataclass(frozen=True, slots=True)
class MbarrierTest(Stmt):
    """``p = mbarrier.test b, parity`` or ``mbarrier.try``: one poll; ``p`` is 1 if the phase is complete."""

    name: str
    bar: BarrierRef
    phase: Expr
    token: bool = False
    may_suspend: bool = False
    sem: Literal["acquire", "relaxed"] = "acquire"
    scope: Literal["cta", "cluster"] = "cta"


# asynchronous copies


@dataclass(frozen=True, slots=True)
class CpAsync(Stmt):
    """Each thread copies its own ``dst`` (4, 8 or 16 bytes) from global memory; generic proxy."""

    dst: Region
    src: GlobalRegion


@dataclass(frozen=True, slots=True)
class CpAsyncCommit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class CpAsyncWait(Stmt):
    """``cp.async.wait n``: all but the newest ``n`` groups; None is ``wait_all``."""

    pending: Expr | None


@dataclass(frozen=True, slots=True)
class CpAsyncMbarrierArrive(Stmt):
    bar: BarrierRef
    noinc: bool = False


@dataclass(frozen=True, slots=True)
class BulkLoad(Stmt):
    """1-D bulk copy global to shared; completes ``dst``'s bytes on ``bar``. ``multicast``: CTA mask."""

    dst: Region
    src: GlobalRegion
    bar: BarrierRef
    multicast: Expr | None = None


@dataclass(frozen=True, slots=True)
class BulkStore(Stmt):
    """1-D bulk copy shared to global, or a reduction into it; completion by bulk group."""

    dst: GlobalRegion
    src: Region
    reduce: Reduce | None = None


@dataclass(frozen=True, slots=True)
class BulkCopy(Stmt):
    """Bulk copy from own shared memory into another CTA's; completes on a barrier there."""

    dst: Region
    src: Region
    bar: BarrierRef


@dataclass(frozen=True, slots=True)
class BulkPrefetch(Stmt):
    src: GlobalRegion


@dataclass(frozen=True, slots=True)
class TmaLoad(Stmt):
    """Tensor copy of the map's box at ``coords`` (innermost last) into shared memory."""

    dst: Region
    map: str
    coords: tuple[Expr, ...]
    bar: BarrierRef
    multicast: Expr | None = None


@dataclass(frozen=True, slots=True)
class TmaStore(Stmt):
    map: str
    coords: tuple[Expr, ...]
    src: Region
    reduce: Reduce | None = None


@dataclass(frozen=True, slots=True)
class TmaPrefetch(Stmt):
    map: str
    coords: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BulkCommit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class BulkWait(Stmt):
    """``bulk.wait[.read] n``: all but the newest n bulk groups of this thread."""

    pending: Expr
    read: bool = False


@dataclass(frozen=True, slots=True)
class StAsync(Stmt):
    """``st.async``/``red.async``: a store into another CTA's shared memory; completes on ``bar`` there."""

    dst: Region
    value: Expr
    bar: BarrierRef
    reduce: Reduce | None = None


# fences


@dataclass(frozen=True, slots=True)
class Fence(Stmt):
    """``fence.SEM.SCOPE``; ``sync_restrict`` is the shared-memory form for relaxed mbarrier ends."""

    sem: Literal["acq_rel", "sc", "acquire", "release"]
    scope: MemScope
    sync_restrict: bool = False


@dataclass(frozen=True, slots=True)
class FenceMbarrierInit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class FenceProxyAsync(Stmt):
    """``fence.proxy.async[.space]``; ``half`` is the unidirectional sync_restrict form."""

    space: Literal["all", "global", "shared_cta", "shared_cluster"] = "all"
    half: Literal["release", "acquire"] | None = None


@dataclass(frozen=True, slots=True)
class FenceProxyTensormap(Stmt):
    """Release (by the writer), or acquire of ``map`` (by each CTA that will use it)."""

    sem: Literal["release", "acquire"]
    scope: MemScope
    map: str | None = None


@dataclass(frozen=True, slots=True)
class TensormapReplace(Stmt):
    map: str
    field: str
    value: Expr


@dataclass(frozen=True, slots=True)
class TensormapCpFence(Stmt):
    """``tensormap.cp_fenceproxy``: publishes a descriptor edited in shared memory; whole warp."""

    map: str
    scope: MemScope = "gpu"


# tensor core


@dataclass(frozen=True, slots=True)
class WgmmaFence(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Wgmma(Stmt):
    """``wgmma.mma[.a_t][.b_t] acc, A, B``: A from shared memory or a fragment, B from shared memory.

    A's region holds M x K elements and B's K x N; ``a_t``: K x M, ``b_t``: N x K. Rows longer than the
    buffer's swizzle span come in panels of that width.
    """

    acc: str
    a: Region | str
    b: Region
    accumulate: Expr = Int(1)
    a_t: bool = False
    b_t: bool = False


@dataclass(frozen=True, slots=True)
class WgmmaCommit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class WgmmaWait(Stmt):
    pending: Expr


@dataclass(frozen=True, slots=True)
class FragRead(Stmt):
    """``frag.read x, acc``: the executing threads' share of a fragment, as a value.

    A thread's share of 64 rows (PTX ISA, wgmma: Register Fragments) follows that of the 64 before;
    ``count`` of its elements from ``start`` on, or all.
    """

    name: str
    frag: str
    start: Expr | None = None
    count: Expr | None = None


@dataclass(frozen=True, slots=True)
class FragWrite(Stmt):
    """``frag.write acc, value``."""

    frag: str
    value: Expr


@dataclass(frozen=True, slots=True)
class LdMatrix(Stmt):
    """Warp-collective load of a shared region into a value register or a fragment."""

    name: str
    src: Region


@dataclass(frozen=True, slots=True)
class StMatrix(Stmt):
    """Warp-collective store. A region of 16 rows gets the warp's part of a fragment, element for element."""

    dst: Region
    value: Expr


# generic memory and values


@dataclass(frozen=True, slots=True)
class LdShared(Stmt):
    """``ld.shared x, region``: value register ``x`` gets ``count`` elements per thread."""

    name: str
    src: Region


@dataclass(frozen=True, slots=True)
class StShared(Stmt):
    dst: Region
    value: Expr


@dataclass(frozen=True, slots=True)
class AtomShared(Stmt):
    """``[x =] atom.shared.OP[.scope] region, v``: relaxed atomic on shared memory (``red`` if no name)."""

    op: Reduce
    dst: Region
    value: Expr
    name: str | None = None
    scope: MemScope = "cta"


@dataclass(frozen=True, slots=True)
class LdGlobal(Stmt):
    name: str
    src: GlobalRegion
    sem: Sem = "weak"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class StGlobal(Stmt):
    dst: GlobalRegion
    value: Expr
    sem: Sem = "weak"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class AtomGlobal(Stmt):
    """``[x =] atom.global.OP.SEM.SCOPE dst, v`` (``red`` if no name)."""

    op: Reduce
    dst: GlobalRegion
    value: Expr
    name: str | None = None
    sem: Sem = "relaxed"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class SpinGlobal(Stmt):
    """``spin.global.SEM.SCOPE src CMP e``: loops on a strong load until the comparison holds."""

    src: GlobalRegion
    cmp: Literal[">=", "==", ">", "!=", "<=", "<"]
    value: Expr
    sem: Sem = "acquire"
    scope: MemScope = "gpu"


@dataclass(frozen=True, slots=True)
class Multimem(Stmt):
    """``multimem.{ld_reduce,st,red}`` on a multicast global address."""

    kind: Literal["ld_reduce", "st", "red"]
    target: GlobalRegion
    name: str | None = None
    value: Expr | None = None
    op: Reduce = "add"
    sem: Sem = "weak"
    scope: MemScope = "sys"


@dataclass(frozen=True, slots=True)
class Compute(Stmt):
    """``compute y = value expression``: elementwise over value registers; uses what it names.

    ``reduce.add(v)``, ``reduce.max(v)`` and ``reduce.min(v)`` make one element of a register's elements.
    """

    name: str
    value: Expr


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Param:
    """An integer kernel parameter; ``default`` is the value of an exact check that gives no other."""

    name: str
    dtype: Literal["i32", "i64", "u32", "u64"] = "i64"
    default: int | None = None
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A global array; ``shape`` in elements, contiguous, outermost first."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    mode: Literal["in", "out", "inout"]
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A TMA descriptor: ``box`` elements per dimension (outermost first) of ``tensor``."""

    name: str
    tensor: str
    box: tuple[int, ...]
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared buffer; ``shape`` outermost (stages) first. ``offset`` fixes its byte offset (may alias)."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    align: int = 128
    offset: Expr | None = None
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Barrier:
    """``mbarrier name[count]``: an array of mbarrier objects, 8 bytes each."""

    name: str
    count: Expr = Int(1)
    offset: Expr | None = None
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A register fragment of a warpgroup (accumulator or A operand), ``shape`` = (M, N) or (M, K)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Launch:
    """``grid`` may be symbolic; ``block`` and ``cluster`` are numbers. ``registers``: per thread at entry."""

    grid: tuple[Expr, Expr, Expr] = (Int(1), Int(1), Int(1))
    block: tuple[int, int, int] = (128, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    registers: int | None = None
    cooperative: bool = False
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    launch: Launch = Launch()
    params: tuple[Param, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    shared: tuple[Shared, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    assumes: tuple[Expr, ...] = ()
    body: tuple[Stmt, ...] = ()
    arch: str = "sm_90a"
    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)
