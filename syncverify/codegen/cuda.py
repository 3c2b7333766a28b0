"""Kernels as CUDA C++ that a person would gladly read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import gcd

from syncverify.base.source import InputError
from syncverify.codegen import asynchronous, mma
from syncverify.codegen.accesses import Accesses, Hint, each, kept
from syncverify.codegen.alignment import divisor
from syncverify.codegen.expressions import value
from syncverify.codegen.names import entry_name
from syncverify.codegen.random import philox
from syncverify.codegen.rings import rings_of
from syncverify.codegen.tensor_maps import pointers
from syncverify.ir import nodes as n
from syncverify.ir.expr import Call, Expr, Int, walk
from syncverify.ir.nodes import Kernel, Stmt

_CTYPES = {
    "f32": "float", "bf16": "bf16", "f16": "f16", "i8": "signed char", "i32": "int", "i64": "long long",
    "u32": "unsigned int", "e4m3": "e4m3", "e5m2": "e5m2", "bool": "bool",
    "tf32": "float",
}  # fmt: skip
_INTEGERS = {"i32": "int", "u32": "unsigned int", "i64": "long long", "u64": "unsigned long long"}
_UNITS = {"threads": "tid", "warps": "warp", "warpgroups": "wg"}


def helpers() -> str:
    """The header of PTX wrappers that every kernel uses."""
    return _text("helpers.cuh")


@cache
def _text(name: str) -> str:
    return files("syncverify.codegen").joinpath(name).read_text()


@cache
def _headers() -> dict[str, str]:
    """Headers that few kernels need, by the functions of theirs that kernels call."""
    loads = "|".join(re.findall(r"^SYNCVERIFY_LOADS\((\w+)\)", _text("loads.cuh"), re.M))
    return {rf"\bload(_rows)?_({loads})\b": "loads.cuh", r"\b(divide_fast|sigmoid)\b": "division.cuh"}


def emit(kernel: Kernel, blocks_per_sm: int = 1, hint: Hint = "normal") -> str:
    """The kernel's CUDA source, its helpers included; InputError for operations it cannot write.

    ``hint``: which global data is said to leave L2 first, because nobody reads it again.
    """
    parts = [*mma.functions(kernel), *_Emitter(kernel, hint).kernel(blocks_per_sm)]
    text = "\n".join(parts)
    more = "".join(_text(name) for function, name in _headers().items() if re.search(function, text))
    return helpers() + asynchronous.helpers(kernel) + more + "\n" + text + "\n"


class _Emitter(Accesses):
    """Writes one kernel."""

    def kernel(self, blocks_per_sm: int) -> Iterator[str]:
        k = self.kernel_ir
        yield f"// {k.launch.threads} threads, {self.layout.size} bytes of dynamic shared memory"
        bounds = f"__launch_bounds__({k.launch.threads}, {blocks_per_sm}){asynchronous.attribute(k)}"
        yield f'extern "C" __global__ void {bounds} {entry_name(k.name)}('
        # what the kernel before may still write is no constant: such loads could move above the wait for it
        constant = "" if any(isinstance(s, n.GridDepWait) for s in k.body) else "__restrict__ "
        arguments = [
            f"const {self._ctype(t)}* {constant}{t.name}"
            if t.mode == "in"
            else f"{self._ctype(t)}* __restrict__ {t.name}"
            for t in pointers(k)
        ]
        arguments += [f"const __grid_constant__ tensor_map {m.name}" for m in k.maps]
        arguments += [f"{_INTEGERS[p.dtype]} {p.name}" for p in k.params]
        yield "    " + ", ".join(arguments) + ") {"
        body = list(self._block(k.body, 1))
        yield from ("  " + line for line in self._prologue("\n".join(body)))
        yield from body
        yield "}"

    def _ctype(self, tensor: n.Tensor | n.Shared) -> str:
        if tensor.dtype not in _CTYPES:
            raise InputError(
                f"{tensor.name}: no code generation for elements of type {tensor.dtype}", tensor.span
            )
        return _CTYPES[tensor.dtype]

    def _prologue(self, text: str) -> Iterator[str]:
        if self.layout.size:
            yield "extern __shared__ __align__(1024) unsigned char smem[];"
        for s in self.kernel_ir.shared:
            place = self.layout.buffers[s.name]
            shape = "".join(f"[{x}]" for x in place.shape)
            kind = self._ctype(s)
            yield f"{kind}* const {s.name} = reinterpret_cast<{kind}*>(smem + {place.offset});  // {shape}"
        for b in self.kernel_ir.barriers:
            at = self.layout.barriers[b.name]
            yield f"uint64* const {b.name} = reinterpret_cast<uint64*>(smem + {at.offset});  // [{at.count}]"
        dims = self.kernel_ir.launch.block
        tid = "int(threadIdx.x)" if dims[1] == dims[2] == 1 else (
            f"int(threadIdx.x + {dims[0]} * (threadIdx.y + {dims[1]} * threadIdx.z))"
        )  # fmt: skip
        flat = self.kernel_ir.launch.grid[1:] == (Int(1), Int(1))
        known = {
            "tid": tid,
            # the same in all lanes, and the compiler knows it
            "warp": f"__shfl_sync(0xffffffff, {tid} / 32, 0)",
            "lane": f"{tid} % 32",
            "rank": "cluster_rank()" if self.kernel_ir.launch.ctas > 1 else "0",
            "wg": f"__shfl_sync(0xffffffff, {tid} / 128, 0)",
            "block": "int(blockIdx.x)"
            if flat
            else "int(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))",
            "grid": "int(gridDim.x)" if flat else "int(gridDim.x * gridDim.y * gridDim.z)",
        }
        if self.kernel_ir.maps:
            # descriptors are on their way while barriers are set up
            yield f"if ({tid} == 0) {{"
            yield from (f"  prefetch_map({m.name});" for m in self.kernel_ir.maps)
            yield "}"
        used = _identifiers(text)
        yield from (f"const int {name} = {code};" for name, code in known.items() if name in used)
        yield from mma.declarations(self.kernel_ir)

    # ------------------------------------------------------------ statements

    def _block(self, body: Sequence[Stmt], depth: int) -> Iterator[str]:
        chain: list[n.Role] = []  # roles that are branches of one conditional: no thread plays two of them
        for stmt in body:
            lines = list(self._stmt(stmt, depth))
            joins = isinstance(stmt, n.Role) and chain and all(_disjoint(r, stmt) for r in chain)
            if joins:
                lines[0] = lines[0].replace("if (", "} else if (", 1)
            elif chain:
                yield "  " * depth + "}"
            yield from lines
            chain = [*(chain if joins else ()), stmt] if isinstance(stmt, n.Role) else []
        if chain:
            yield "  " * depth + "}"

    def _stmt(self, stmt: Stmt, depth: int) -> Iterator[str]:
        """The lines of a statement; a role's closing brace is left to ``_block``."""
        pad = "  " * depth
        match stmt:
            case n.Role():
                yield f"{pad}if ({self._role_test(stmt)}) {{  // {stmt.name}"
                yield from self._scoped(stmt.body, depth + 1)
            case n.If(cond, then, orelse):
                yield f"{pad}if ({self._index(cond)}) {{"
                yield from self._scoped(then, depth + 1)
                if orelse:
                    yield f"{pad}}} else {{"
                    yield from self._scoped(orelse, depth + 1)
                yield f"{pad}}}"
            case n.For():
                yield from self._for(stmt, depth)
            case n.Compute():
                yield from (pad + line for line in self._compute(stmt.name, stmt.value))
            case _:
                yield from (pad + line for line in self._leaf(stmt))

    def _scoped(self, body: Sequence[Stmt], depth: int) -> Iterator[str]:
        names, lengths, divisors = self.names, dict(self.lengths), dict(self.divisors)
        self.names = names.copy()
        yield from self._block(body, depth)
        self.names, self.lengths, self.divisors = names, lengths, divisors

    def _for(self, loop: n.For, depth: int) -> Iterator[str]:
        pad = "  " * depth
        wide = any(self.names.is_wide(e) for e in (loop.lo, loop.hi, loop.step))
        step = f"++{loop.var}" if loop.step == Int(1) else f"{loop.var} += {self._index(loop.step)}"
        kind = "long long" if wide else "int"
        lo, hi = self._index(loop.lo), self._index(loop.hi)
        head = f"for ({kind} {loop.var} = {lo}; {loop.var} < {hi}; {step}) {{"
        names, lengths, divisors = self.names, dict(self.lengths), dict(self.divisors)
        self.names = names.copy()
        self.divisors[loop.var] = gcd(divisor(loop.lo, divisors), divisor(loop.step, divisors))
        (self.names.wide.add if wide else self.names.wide.discard)(loop.var)
        natural = names.is_natural(loop.lo) and names.is_natural(loop.step)
        (self.names.natural.add if natural else self.names.natural.discard)(loop.var)
        rings = rings_of(loop, self.counters)
        self.names.rings |= {ring.key: ring for ring in rings}
        yield from (pad + ring.declaration() for ring in rings)
        if loop.unroll is not None:
            yield f"{pad}#pragma unroll {loop.unroll}"
        yield pad + head
        yield from self._block(loop.body, depth + 1)
        yield from (f"{pad}  {ring.advance()}" for ring in rings)
        yield f"{pad}}}"
        self.names, self.lengths, self.divisors = names, lengths, divisors

    def _role_test(self, role: n.Role) -> str:
        name = _UNITS[role.unit]
        if isinstance(role.lo, Int) and isinstance(role.hi, Int):
            if role.hi.value == role.lo.value + 1:
                return f"{name} == {role.lo.value}"
            if role.lo.value == 0:
                return f"{name} < {role.hi.value}"
        return f"{name} >= {self._index(role.lo)} && {name} < {self._index(role.hi)}"

    def _let(self, stmt: n.Let) -> str:
        text = self._index(stmt.value)
        wide = self.names.is_wide(stmt.value)
        natural = self.names.is_natural(stmt.value) and stmt.name not in self.assigned
        (self.names.wide.add if wide else self.names.wide.discard)(stmt.name)
        (self.names.natural.add if natural else self.names.natural.discard)(stmt.name)
        if stmt.name not in self.assigned:
            self.divisors[stmt.name] = divisor(stmt.value, self.divisors)
        constant = "" if stmt.name in self.assigned else "const "
        return f"{constant}{'long long' if wide else 'int'} {stmt.name} = {text};"

    def _compute(self, name: str, e: Expr) -> Iterator[str]:
        values = replace(self._values(), summed=name in self.summed)
        length = values.length(e)
        if isinstance(e, Call) and e.name == "philox":
            yield from self._declared(name, length)
            yield philox(name, e, self.lengths, self._index, divisor(e.args[2], self.divisors))
            return
        text = value(e, values)
        yield from self._declared(name, length, values.integral(e))
        yield from each(name, length, text)
        if any(isinstance(x, Call) and x.name.startswith("reduce.") for x in walk(e)):
            # NVRTC leaves the sum here; that the reads are over takes a fence or a store (K1)
            yield f"keep({name}[0]);"
        elif isinstance(e, Call) and e.name == "cast.f32" and not values.integral(e.args[0]):
            yield from kept(name, length)  # a copy: some lanes may store it, all make it

    def _leaf(self, stmt: Stmt) -> Iterator[str]:
        match stmt:
            case n.Shuffle():
                yield from self._shuffle(stmt)
            case n.Let():
                yield self._let(stmt)
            case n.LoadIndex(name, src):
                wide = self.tensors[src.tensor].dtype == "i64"
                (self.names.wide.add if wide else self.names.wide.discard)(name)
                self.names.natural.discard(name)
                yield f"const {self._ctype(self.tensors[src.tensor])} {name} = *{self._global_at(src)};"
            case n.Assign(name, e):
                yield f"{name} = {self._index(e)};"
            case n.Exit():
                yield "return;"
            case n.Elect(name):
                self.names.natural.add(name)
                yield f"const bool {name} = elect_one();"
            case _:
                yield from self._transfer(stmt)

    def _transfer(self, stmt: Stmt) -> Iterator[str]:
        """What moves data between memory, registers and fragments; else what synchronizes."""
        match stmt:
            case n.LdShared(name, src):
                yield from self._load(name, self._element_at(src), src, self._shared_width(src))
            case n.LdGlobal(name, src, sem="weak"):
                yield from self._load(name, self._global_at(src), src, self._global_width(src))
            case n.FragRead(name, frag, start, count):
                yield from self._frag_read(name, frag, start, count)
            case n.FragWrite(frag, e, start):
                yield from self._frag_write(frag, e, start)
            case n.Wgmma(a=a, b=b, accumulate=accumulate):
                left = a if isinstance(a, str) else self._shared_at(a)
                yield from mma.Product(self.kernel_ir, stmt).lines(
                    left, self._shared_at(b), self._index(accumulate)
                )
            case n.WgmmaWait(Int(pending)):
                yield f"wgmma_wait<{pending}>();"
                yield from (f"pin({f.name});" for f in self.kernel_ir.fragments)
            case n.StMatrix(dst, e):
                yield from self._store_matrix(dst, e)
            case n.StShared(dst, e) if dst.rank is None:
                yield from self._store(self._element_at(dst), dst, e, self._shared_width(dst))
            case n.StGlobal(dst, e, sem="weak"):
                yield from self._store(self._global_at(dst), dst, e, self._global_width(dst), self.stored)
            case _:
                yield self._synchronization(stmt)

    def _synchronization(self, stmt: Stmt) -> str:
        writers = (self._execution_barrier, self._on_mbarrier, self._fence, self._copy, self._group)
        for write in writers:
            text = write(stmt)
            if text is not None:
                return text
        call = asynchronous.call(self.kernel_ir, stmt, self._operands())
        if call is not None:
            return call
        kind = type(stmt).__name__
        raise InputError(
            f"kernel {self.kernel_ir.name}: no code generation for this form of {kind}", stmt.span
        )

    def _execution_barrier(self, stmt: Stmt) -> str | None:
        """A barrier of threads, a warp or the registers of one."""
        match stmt:
            case n.BarrierSync(Int(0), None, red=False):
                return "__syncthreads();"
            case n.BarrierSync(id, count, aligned, False):
                threads = str(self.kernel_ir.launch.threads) if count is None else self._index(count)
                return f"{'bar' if aligned else 'barrier'}_sync({self._index(id)}, {threads});"
            case n.BarrierArrive(id, count, aligned):
                return f"{'bar' if aligned else 'barrier'}_arrive({self._index(id)}, {self._index(count)});"
            case n.WarpSync(mask):
                return "__syncwarp();" if mask is None else f"__syncwarp({self._index(mask)});"
            case n.SetMaxNReg(direction, Int(count)):
                return f"setmaxnreg_{direction}<{count}>();"
        return None

    def _on_mbarrier(self, stmt: Stmt) -> str | None:
        """An operation on an mbarrier."""
        match stmt:
            case n.MbarrierInit(bar, count):
                return f"mbarrier_init({self._bar(bar)}, {self._index(count)});"
            case n.MbarrierInval(bar):
                return f"mbarrier_inval({self._bar(bar)});"
            case n.MbarrierArrive(bar, None, count, "release", "cta", False, False, None) if bar.rank is None:
                extra = "" if count == Int(1) else f", {self._index(count)}"
                return f"mbarrier_arrive({self._bar(bar)}{extra});"
            case n.MbarrierArrive(bar, expect, Int(1), "release", "cta", False, False, None) if (
                expect is not None
            ):
                return f"mbarrier_arrive_expect_tx({self._bar(bar)}, {self._index(expect)});"
            case n.MbarrierExpectTx(bar, size):
                return f"mbarrier_expect_tx({self._bar(bar)}, {self._index(size)});"
            case n.MbarrierWait(bar, phase, False, "acquire", "cta"):
                return f"mbarrier_wait({self._bar(bar)}, {self._index(phase)});"
        return None

    def _fence(self, stmt: Stmt) -> str | None:
        """A fence."""
        match stmt:
            case n.FenceMbarrierInit():
                return "fence_mbarrier_init();"
            case n.FenceProxyAsync("all", None):
                return "fence_proxy_async();"
            case n.FenceProxyAsync("shared_cta" | "global" as space, None):
                return f"fence_proxy_async_{space}();"
            case n.Fence("acq_rel", "cta", False):
                return "fence_acq_rel_cta();"
        return None

    def _copy(self, stmt: Stmt) -> str | None:
        """A bulk or tensor copy."""
        match stmt:
            case n.BulkLoad(dst, src, bar, None):
                total = self._bytes(self.tensors[src.tensor], src.count)
                operands = (self._shared_at(dst), self._copied_at(src), total, self._bar(bar))
                return f"bulk_load{self.stored}({', '.join(operands)});"
            case n.BulkPrefetch(src):
                total = self._bytes(self.tensors[src.tensor], src.count)
                once = self.loaded if self.loaded == "_streaming" else ""
                return f"bulk_prefetch{once}({self._copied_at(src)}, {total});"
            case n.BulkStore(dst, src, None):
                total = self._bytes(self.tensors[dst.tensor], dst.count)
                return f"bulk_store{self.stored}({self._copied_at(dst)}, {self._shared_at(src)}, {total});"
            case n.TmaLoad(dst, name, coords, bar, mask) if len(coords) in (2, 3):
                place = ", ".join(self._index(c) for c in reversed(coords))
                to = "" if mask is None else f", {self._index(mask)}"
                function = "tma_load" if len(coords) == 2 else "tma_load_3d"
                return f"{function}({self._shared_at(dst)}, {name}, {place}, {self._bar(bar)}{to});"
            case n.TmaStore(name, coords, src, None) if len(coords) in (2, 3):
                place = ", ".join(self._index(c) for c in reversed(coords))
                return f"tma_store({name}, {place}, {self._shared_at(src)});"
        return None

    def _group(self, stmt: Stmt) -> str | None:
        """The fence of wgmmas; a commit of a group, or a wait for groups."""
        match stmt:
            case n.WgmmaFence():
                return "wgmma_fence();"
            case n.WgmmaCommit():
                return "wgmma_commit();"
            case n.BulkCommit():
                return "bulk_commit();"
            case n.BulkWait(Int(pending), read):
                return f"bulk_wait{'_read' if read else ''}<{pending}>();"
        return None


def _disjoint(a: n.Role, b: n.Role) -> bool:
    match a, b:
        case n.Role(lo=Int(alo), hi=Int(ahi)), n.Role(lo=Int(blo), hi=Int(bhi)):
            return a.unit == b.unit and (ahi <= blo or bhi <= alo)
    return False


def _identifiers(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))
