"""Well-formed operations: immediates, types and forms that the PTX ISA can encode, one rule per node."""

from __future__ import annotations

from math import prod
from typing import Any

from syncverify.base.source import Span
from syncverify.ir import nodes
from syncverify.ir.check.rules import Checks, Rule, constant
from syncverify.ir.expr import Expr, Var
from syncverify.ir.text.forms import did_you_mean

MBARRIER_COUNT = 2**20 - 1
UNIT_THREADS = {"threads": 1, "warps": 32, "warpgroups": 128}
#: Fields of tensormap.replace (PTX ISA, tensormap.replace).
MAP_FIELDS = (
    "global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype",
    "interleave_layout", "swizzle_mode", "fill_mode",
)  # fmt: skip
#: K of one wgmma by operand type: 32 bytes of K (PTX ISA, wgmma.mma_async shapes).
WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8, "f32": 8, "e4m3": 32, "e5m2": 32, "i8": 32, "u8": 32}
WGMMA_ACC = {"f32", "f16", "i32"}
#: Elements of a row of 128 bytes of 16-bit operands whose memory runs along M or N.
PANEL = 64
#: Orders that each access may carry (PTX ISA, ld, st, atom, multimem).
LOADS = {"weak", "relaxed", "acquire"}
STORES = {"weak", "relaxed", "release"}
ATOMICS = {"relaxed", "acquire", "release", "acq_rel"}
REDUCTIONS = {"add", "min", "max", "inc", "dec", "and", "or", "xor"}
#: Types that are bits of any meaning.
RAW = {"b8", "b16", "b32", "b64"}
MULTIMEM = {"add", "min", "max", "and", "or", "xor"}


def _range(c: Checks, e: Expr | None, lo: int, hi: int, what: str, span: Span) -> None:
    n = constant(e)
    if n is not None and not lo <= n <= hi:
        c.error(f"{what} must be {lo} to {hi}, not {n}", span)


def _named_barrier(c: Checks, s: nodes.BarrierSync | nodes.BarrierArrive) -> None:
    _range(c, s.id, 0, 15, "a barrier id", s.span)
    n = constant(s.count)
    if n is not None and (n < 32 or n % 32 or n > 1024):
        # PTX ISA, bar: the number of threads is a multiple of the warp size
        c.error(f"the threads of a barrier are a multiple of 32 up to 1024, not {n}", s.span)


def _setmaxnreg(c: Checks, s: nodes.SetMaxNReg) -> None:
    n = constant(s.count)
    if n is None:
        c.error("setmaxnreg takes a number", s.span)
    elif not 24 <= n <= 256 or n % 8:
        c.error(f"setmaxnreg takes a multiple of 8 from 24 to 256, not {n}", s.span)
    _needs_90a(c, s, "setmaxnreg")


def _needs_90a(c: Checks, s: nodes.Stmt, what: str) -> None:
    if c.kernel.arch == "sm_90":
        c.error(f"{what} needs arch sm_90a", s.span)


def _shuffle(c: Checks, s: nodes.Shuffle) -> None:
    _range(c, s.lane, 0, 31, "the lane of a shuffle", s.span)


def _init(c: Checks, s: nodes.MbarrierInit) -> None:
    _range(c, s.count, 1, MBARRIER_COUNT, "the count of an mbarrier", s.span)


def _arrive(c: Checks, s: nodes.MbarrierArrive) -> None:
    _range(c, s.count, 1, MBARRIER_COUNT, "an arrival count", s.span)
    _bytes(c, s.expect, s.span)
    if s.expect is not None and constant(s.count) != 1:
        c.error("mbarrier.arrive.expect_tx arrives once; it takes no count", s.span)
    if s.expect is not None and s.no_complete:
        c.error("mbarrier.arrive.expect_tx has no .no_complete form", s.span)
    if s.token is not None and s.bar.rank is not None:
        c.error("an arrival on another block's mbarrier returns no token", s.span)


def _tx(c: Checks, s: nodes.MbarrierExpectTx | nodes.MbarrierCompleteTx) -> None:
    _bytes(c, s.bytes, s.span)


def _bytes(c: Checks, e: Expr | None, span: Span) -> None:
    n = constant(e)
    if n is not None and n < 0:
        c.error(f"a number of bytes cannot be negative: {n}", span)


def _token(c: Checks, s: nodes.MbarrierWait | nodes.MbarrierTest) -> None:
    if s.token and not isinstance(s.phase, Var):
        c.error("a wait for a token names the register that holds it", s.span)
    elif not s.token:
        _range(c, s.phase, 0, 1, "a parity", s.span)


def _pending(c: Checks, s: nodes.CpAsyncWait | nodes.BulkWait | nodes.WgmmaWait) -> None:
    n = constant(s.pending)
    if n is not None and n < 0:
        c.error(f"a wait leaves 0 or more groups pending, not {n}", s.span)
    if isinstance(s, nodes.WgmmaWait):
        _needs_90a(c, s, "wgmma")
        if n is not None and n > 7:
            c.error(f"wgmma.wait leaves 0 to 7 groups pending, not {n}", s.span)


def _copy(c: Checks, s: Any) -> None:
    """Copies between shared and global memory: types and direction."""
    load = isinstance(s, nodes.BulkLoad | nodes.CpAsync)
    region, far = (s.dst, s.src) if load else (s.src, s.dst)
    _same_type(c, region, far.tensor, s.span)
    if not load:
        _writable(c, far.tensor, s.span)
        _reduction(c, s.reduce, REDUCTIONS, s.span)


def _tensor_copy(c: Checks, s: nodes.TmaLoad | nodes.TmaStore) -> None:
    if s.map not in c.maps:
        return
    tensor = c.maps[s.map].tensor
    _same_type(c, s.dst if isinstance(s, nodes.TmaLoad) else s.src, tensor, s.span)
    if isinstance(s, nodes.TmaStore):
        _writable(c, tensor, s.span)
        _reduction(c, s.reduce, REDUCTIONS, s.span)


def _same_type(c: Checks, r: nodes.Region, tensor: str, span: Span) -> None:
    if r.buffer not in c.shared or tensor not in c.tensors:
        return
    a, b = c.shared[r.buffer].dtype, c.tensors[tensor].dtype
    if a != b and not {a, b} & RAW:
        c.error(f"shared {r.buffer} holds {a}, tensor {tensor} holds {b}", span)


def _writable(c: Checks, tensor: str, span: Span) -> None:
    if tensor in c.tensors and c.tensors[tensor].mode == "in":
        c.error(f"tensor {tensor} is declared 'in' and written here; declare it out or inout", span)


def _reduction(c: Checks, op: str | None, known: set[str], span: Span) -> None:
    if op is not None and op not in known:
        c.error(f"there is no {op} reduction of this kind; one of {', '.join(sorted(known))}", span)


def _remote_store(c: Checks, s: nodes.StAsync) -> None:
    _reduction(c, s.reduce, REDUCTIONS, s.span)


def _order(c: Checks, sem: str, known: set[str], what: str, span: Span) -> None:
    if sem not in known:
        c.error(f"{what} cannot be .{sem}; one of {', '.join(sorted(known))}", span)


def _ld_global(c: Checks, s: nodes.LdGlobal) -> None:
    _order(c, s.sem, LOADS, "ld.global", s.span)


def _st_global(c: Checks, s: nodes.StGlobal) -> None:
    _order(c, s.sem, STORES, "st.global", s.span)
    _writable(c, s.dst.tensor, s.span)


def _atom_global(c: Checks, s: nodes.AtomGlobal) -> None:
    _order(c, s.sem, ATOMICS, "atom.global", s.span)
    _writable(c, s.dst.tensor, s.span)
    if s.name is None and s.sem in ("acquire", "acq_rel"):
        # PTX ISA, memory consistency model: the read of a reduction forms no acquire pattern
        c.error(f"a reduction without result cannot be .{s.sem}; give it a name: x = atom.global...", s.span)


def _spin(c: Checks, s: nodes.SpinGlobal) -> None:
    _order(c, s.sem, LOADS - {"weak"}, "spin.global", s.span)


def _multimem(c: Checks, s: nodes.Multimem) -> None:
    known = {"ld_reduce": LOADS, "st": STORES, "red": {"weak", "relaxed", "release"}}[s.kind]
    _order(c, s.sem, known, f"multimem.{s.kind}", s.span)
    _reduction(c, s.op, MULTIMEM, s.span)
    if s.kind != "ld_reduce":
        _writable(c, s.target.tensor, s.span)
    if (s.name is None) == (s.kind == "ld_reduce") or (s.value is None) == (s.kind != "ld_reduce"):
        c.error(f"multimem.{s.kind} has {'a name' if s.kind == 'ld_reduce' else 'a value'}", s.span)


def _tensormap_fence(c: Checks, s: nodes.FenceProxyTensormap) -> None:
    if (s.map is None) == (s.sem == "acquire"):
        wanted = "names the tensor map" if s.sem == "acquire" else "names no tensor map"
        c.error(f"fence.proxy.tensormap.{s.sem} {wanted}", s.span)


def _replace(c: Checks, s: nodes.TensormapReplace) -> None:
    if s.field not in MAP_FIELDS:
        c.error(f"there is no tensor map field {s.field}{did_you_mean(s.field, list(MAP_FIELDS))}; "
                f"one of {', '.join(MAP_FIELDS)}", s.span)  # fmt: skip


def _role(c: Checks, s: nodes.Role) -> None:
    c.integer(s.lo, s.span)
    c.integer(s.hi, s.span)
    lo, hi = constant(s.lo), constant(s.hi)
    if lo is not None and lo < 0:
        c.error(f"role {s.name} starts at {lo}", s.span)
    if lo is not None and hi is not None and lo >= hi:
        c.note(f"role {s.name} has no threads", s.span)
    size, threads = UNIT_THREADS[s.unit], c.kernel.launch.threads
    # the last warp of a block may be partial; a warpgroup is four whole ones (PTX ISA, wgmma)
    units = threads // size if s.unit == "warpgroups" else -(-threads // size)
    if hi is not None and hi > units:
        c.error(f"role {s.name} ends at {hi}, but the block has {units} {s.unit}", s.span)


def _wgmma(c: Checks, s: nodes.Wgmma) -> None:
    _needs_90a(c, s, "wgmma")
    acc = c.fragments.get(s.acc)
    b = c.shared.get(s.b.buffer)
    if acc is None or b is None:
        return
    m, n = acc.shape
    if m % 64:
        c.error(f"M of {s.acc} must be a multiple of 64, not {m}", s.span)
    if n % 8 or not 8 <= n <= 256:
        c.error(f"N of {s.acc} must be a multiple of 8 up to 256, not {n}", s.span)
    if acc.dtype not in WGMMA_ACC:
        c.error(f"wgmma accumulates in {', '.join(sorted(WGMMA_ACC))}, not in {acc.dtype}", s.span)
    left = c.fragments.get(s.a) if isinstance(s.a, str) else c.shared.get(s.a.buffer)
    if left is None:
        return
    if left.dtype not in WGMMA_K or b.dtype not in WGMMA_K:
        c.error(f"wgmma multiplies {', '.join(WGMMA_K)}, not {left.dtype} and {b.dtype}", s.span)
        return
    if WGMMA_K[left.dtype] != WGMMA_K[b.dtype]:
        c.error(f"wgmma cannot multiply {left.dtype} and {b.dtype}", s.span)
        return
    if n % 8:
        return
    elements = prod(left.shape) if isinstance(left, nodes.Fragment) else _elements(left, s.a)
    if elements is None or m % 64:
        return
    step = WGMMA_K[left.dtype]
    if elements % (m * step):
        c.error(f"A of wgmma.mma holds {elements} elements: its K is not a multiple of {step}", s.span)
        return
    k = elements // m
    right = _elements(b, s.b)
    # where memory runs along N, it is cut into panels, of the last of which a part may be multiplied
    held = n if s.b_t else -(-n // PANEL) * PANEL
    if right is not None and right not in (k * n, k * held):
        c.error(f"B of wgmma.mma holds {right} elements, but K is {k} and N is {n}", s.span)


def _elements(buffer: nodes.Shared, r: Any) -> int | None:
    """The number of elements of a region, if it is a number."""
    if r.count is not None:
        count, rows = constant(r.count), 1 if r.rows is None else constant(r.rows)
        return None if count is None or rows is None else count * rows
    total = 1
    for e in buffer.shape[len(r.index) :]:
        n = constant(e)
        if n is None:
            return None
        total *= n
    return total


def _wgmma_op(c: Checks, s: nodes.Stmt) -> None:
    _needs_90a(c, s, "wgmma")


#: What each operation must satisfy beyond names and kinds.
RULES: dict[type[nodes.Stmt], Rule] = {
    nodes.BarrierSync: _named_barrier,
    nodes.BarrierArrive: _named_barrier,
    nodes.SetMaxNReg: _setmaxnreg,
    nodes.Shuffle: _shuffle,
    nodes.MbarrierInit: _init,
    nodes.MbarrierArrive: _arrive,
    nodes.MbarrierExpectTx: _tx,
    nodes.MbarrierCompleteTx: _tx,
    nodes.MbarrierWait: _token,
    nodes.MbarrierTest: _token,
    nodes.CpAsyncWait: _pending,
    nodes.BulkWait: _pending,
    nodes.WgmmaWait: _pending,
    nodes.CpAsync: _copy,
    nodes.BulkLoad: _copy,
    nodes.BulkStore: _copy,
    nodes.TmaLoad: _tensor_copy,
    nodes.TmaStore: _tensor_copy,
    nodes.StAsync: _remote_store,
    nodes.LdGlobal: _ld_global,
    nodes.StGlobal: _st_global,
    nodes.AtomGlobal: _atom_global,
    nodes.SpinGlobal: _spin,
    nodes.Multimem: _multimem,
    nodes.FenceProxyTensormap: _tensormap_fence,
    nodes.TensormapReplace: _replace,
    nodes.Role: _role,
    nodes.Wgmma: _wgmma,
    nodes.WgmmaFence: _wgmma_op,
    nodes.WgmmaCommit: _wgmma_op,
}
