"""How a kernel's text reaches memory: addresses, loads and stores, the value registers between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import gcd, prod
from typing import Literal

from syncverify.base.source import InputError
from syncverify.codegen import asynchronous, mma
from syncverify.codegen.alignment import divisor, known_divisors
from syncverify.codegen.expressions import Names, Values, index, sums_with_constants, value
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Var, walk
from syncverify.ir.layout import Layout, layout
from syncverify.ir.nodes import DTYPE_BYTES, Kernel

#: Bits of a number's significand.
_BITS = {"f32": 24, "f16": 11, "bf16": 8, "e4m3": 4, "e5m2": 3, "bool": 24}
#: Element types whose values are held in integer registers.
_WHOLE = frozenset({"i32", "bool"})
#: 16-byte units that each swizzle permutes.
_SWIZZLE_UNITS = {"32B": 2, "64B": 4, "128B": 8}


#: What caches are told: nothing; that copies and stores bring what nobody reads soon, or that loads do; that
#: L1 need not hold what is loaded; that L2 gives up what is loaded last, and so what is stored before.
CacheHint = Literal["normal", "streaming", "loads", "past", "kept"]
#: The same; or that registers are loaded again, which the compiler must not leave out: what was loaded gives
#: way behind the last time, and is "held" until then or not.
Hint = Literal[CacheHint, "again", "held"]


#: The functions that load so.
_LOADED: dict[Hint, str] = {"loads": "_streaming", "past": "_past", "kept": "_kept"}


def kept(name: str, length: int) -> tuple[str, ...]:
    """Values that the compiler makes here, for all lanes, also where only some of them need them."""
    return "#pragma unroll", f"for (int k = 0; k < {length}; ++k) keep({name}[k]);"


def picked(kernel: Kernel) -> set[str]:
    """In kernels with mbarriers the registers that a choice by data is made of: NVRTC would make a branch of
    some, and read shared memory behind it."""
    made = [s for s in statements(kernel.body) if isinstance(s, n.Compute | n.StShared | n.StGlobal)]
    found: set[str] = set()
    for s in reversed(made) if kernel.barriers else ():
        if (isinstance(s, n.Compute) and s.name in found) or any(
            isinstance(x, Call) and x.name == "select" for x in walk(s.value)
        ):
            found |= {x.name for x in walk(s.value) if isinstance(x, Var)}
    return found


def summed(kernel: Kernel) -> set[str]:
    """The registers that are terms of a sum with a constant, or factors of one, perhaps through others."""
    found: set[str] = set()
    stored = [s for s in statements(kernel.body) if isinstance(s, n.Compute | n.StShared | n.StGlobal)]
    for s in reversed(stored):
        inner = isinstance(s, n.Compute) and s.name in found
        found.update(sums_with_constants(s.value, summed=inner))
    return found


class Accesses:
    """Writes accesses. ``names`` and ``lengths`` hold the integers and value registers in scope."""

    def __init__(self, kernel: Kernel, hint: Hint) -> None:
        self.kernel_ir = kernel
        self.stored = "_streaming" if hint == "streaming" else ""
        self.loaded = _LOADED.get(hint, "")
        loads = [s.name for s in statements(kernel.body) if isinstance(s, n.LdGlobal)]
        self.reloads = Counter(loads) if hint in ("again", "held") else Counter()
        # what is loaded once is told nothing
        self.held = {name for name, times in self.reloads.items() if hint == "held" and times > 1}
        self.picked = picked(kernel)
        self.summed = summed(kernel)
        self.names = Names()
        self.lengths: dict[str, int] = {}
        self.integers: set[str] = set()
        declared: list[n.Param | n.Tensor | n.Shared | n.Barrier] = [
            *kernel.params, *kernel.tensors, *kernel.shared, *kernel.barriers
        ]  # fmt: skip
        self.counters = {x.name for x in declared}  # and what rings add
        self.tensors = {t.name: t for t in kernel.tensors}
        self.shared = {s.name: s for s in kernel.shared}
        self.layout: Layout = layout(kernel, {})
        assigned = {s.name for s in statements(kernel.body) if isinstance(s, n.Assign)}
        self.assigned = assigned
        self.divisors = known_divisors(kernel, assigned)
        outputs = [t for t in kernel.tensors if t.mode != "in"]
        self.bits = max((_BITS.get(t.dtype, 24) for t in outputs), default=24)
        at_least_zero = {
            a.left.name
            for a in kernel.assumes
            if isinstance(a, Binary) and a.op == ">=" and isinstance(a.left, Var)
            and isinstance(a.right, Int) and a.right.value >= 0
        }  # fmt: skip
        for p in kernel.params:
            if p.dtype in ("i64", "u64"):
                self.names.wide.add(p.name)
            if p.name in at_least_zero or p.dtype.startswith("u"):
                self.names.natural.add(p.name)

    def _values(self) -> Values:
        return Values(self.lengths, self.bits, frozenset(self.integers))

    def _operands(self) -> asynchronous.Operands:
        values = self._values()
        return asynchronous.Operands(
            self._index, lambda e: value(e, values), self._shared_at, self._copied_at, self._bar
        )

    def _frag_read(self, name: str, frag: str, start: Expr | None, count: Expr | None) -> Iterator[str]:
        f = next(f for f in self.kernel_ir.fragments if f.name == frag)
        if count is not None and not isinstance(count, Int):
            raise InputError(f"{frag}: the number of elements that are read must be a constant")
        length = count.value if isinstance(count, Int) else mma.fragment_registers(f)
        first = "" if start is None or start == Int(0) else f"{self._index(start)} + "
        yield from self._declared(name, length)
        yield from each(name, length, f"{frag}[{first}{'k' if length > 1 else '0'}]")

    def _frag_write(self, frag: str, e: Expr, start: Expr | None) -> Iterator[str]:
        """Elements of an f32 fragment, or pairs of a narrow one's, rounded to its type."""
        f = next(f for f in self.kernel_ir.fragments if f.name == frag)
        values = self._values()
        length = values.length(e)
        if f.dtype == "f32":
            first = "" if start is None or start == Int(0) else f"{self._index(start)} + "
            yield from each(frag, length, value(e, values), first)
            return
        if DTYPE_BYTES[f.dtype] != 2 or length != 2:
            raise InputError(f"{frag}: frag.write has code generation for two 16-bit elements at a time")
        place = "0" if start is None else self._index(start)
        yield "{"
        yield "  float v[2];"
        yield from (f"  {line}" for line in each("v", length, value(e, values)))
        yield f"  narrow2({frag}[({place}) / 2], v[0], v[1], {f.dtype}());"
        yield "}"

    def _shuffle(self, stmt: n.Shuffle) -> Iterator[str]:
        values = self._values()
        length = values.length(stmt.value)
        yield from self._declared(stmt.name, length, values.integral(stmt.value))
        function = "shfl_xor" if stmt.mode == "bfly" else "shfl"
        x = value(stmt.value, values)
        yield from each(stmt.name, length, f"__{function}_sync(0xffffffff, {x}, {self._index(stmt.lane)})")

    def _load(self, name: str, address: str, region: n.Region | n.GlobalRegion, width: int) -> Iterator[str]:
        """``width``: the elements that the address is surely a multiple of."""
        count, rows, pitch = self._form(region)
        source = self.shared[region.buffer] if isinstance(region, n.Region) else self.tensors[region.tensor]
        if source.dtype == "i64" and name not in self.lengths:
            yield f"long long {name}[{count * rows}];"
            self.lengths[name] = count * rows
        hint = self.loaded
        if self.reloads and isinstance(region, n.GlobalRegion):
            self.reloads[name] -= 1
            if name in self.held:
                hint = "_held" if self.reloads[name] else "_over"
            elif name in self.lengths:
                hint = "_again" if self.reloads[name] else "_last"
        yield from self._declared(name, count * rows, source.dtype in _WHOLE)
        form = _access_form(count, rows, pitch, width)
        # a vector that all rows share is read again
        if isinstance(region, n.Region) or len(source.shape) < 2:
            hint = ""
        yield f"load{'_rows' if rows > 1 else ''}{hint}{form}({name}, {address});"
        if name in self.picked and isinstance(region, n.Region) and source.dtype not in _WHOLE:
            yield from kept(name, count * rows)

    def _store(
        self, address: str, region: n.Region | n.GlobalRegion, e: Expr, width: int, hint: str = ""
    ) -> Iterator[str]:
        count, rows, pitch = self._form(region)
        length = count * rows
        call = f"store{'_rows' if rows > 1 else ''}{hint}{_access_form(count, rows, pitch, width)}"
        if isinstance(e, Var) and self.lengths.get(e.name) == length:
            yield f"{call}({address}, {e.name});"
            return
        values = self._values()
        if not isinstance(e, (Var, Float)) and values.length(e) > length:
            raise InputError("a store of fewer elements than its value has")
        yield "{"
        yield f"  {'int' if values.integral(e) else 'float'} v[{length}];"
        yield "  #pragma unroll"
        yield f"  for (int k = 0; k < {length}; ++k) v[k] = {value(e, values)};"
        yield f"  {call}({address}, v);"
        yield "}"

    def _declared(self, name: str, length: int, whole: bool = False) -> Iterator[str]:
        """The declaration of a value register, where this is its first use in the scope."""
        if name not in self.lengths:
            yield f"{'int' if whole else 'float'} {name}[{length}];"
            (self.integers.add if whole else self.integers.discard)(name)
        elif self.lengths[name] != length:
            raise InputError(f"value register {name} changes its length")
        self.lengths[name] = length

    def _form(self, region: n.Region | n.GlobalRegion) -> tuple[int, int, int]:
        """Elements of a run, runs, and elements from one run to the next."""
        match region:
            case n.Region(rank=rank) if rank is not None:
                raise InputError(f"{region.buffer}: remote accesses have no code generation")
            case n.Region(count=None):
                shape = self.layout.buffers[region.buffer].shape[len(region.index) :]
                return prod(shape), 1, 0
            case n.Region() | n.GlobalRegion():
                parts = (region.count, region.rows or Int(1), region.pitch or Int(0))
                if all(isinstance(x, Int) for x in parts):
                    count, rows, pitch = (x.value for x in parts if isinstance(x, Int))
                    return count, rows, pitch
        raise InputError("the number of elements of an access must be a constant")

    def _shared_at(self, region: n.Region) -> str:
        offset = self._offset(region)
        return f"{region.buffer}" if offset is None else f"&{region.buffer}[{self._index(offset)}]"

    def _store_matrix(self, region: n.Region, e: Expr) -> Iterator[str]:
        """16 rows of a tile, from a value register in the order of a fragment."""
        buffer, values = self.shared[region.buffer], self._values()
        count, rows, _ = self._form(region)
        length = values.length(e)
        if DTYPE_BYTES[buffer.dtype] != 2 or rows != 1 or count != 32 * length or length % 4:
            raise InputError(
                f"{buffer.name}: stmatrix stores 16 rows of 16-bit elements, 8 columns at a time"
            )
        units = _SWIZZLE_UNITS.get(buffer.swizzle, 1)
        first = self._index(self._offset(region) or Int(0))
        call = f"store_matrix<{count // 16}, {units}>({buffer.name}, {first}, lane"
        if isinstance(e, Var):
            yield f"{call}, {e.name});"
            return
        yield "{"
        yield f"  float v[{length}];"
        yield from (f"  {line}" for line in each("v", length, value(e, values)))
        yield f"  {call}, v);"
        yield "}"

    def _offset(self, region: n.Region) -> Expr | None:
        """Elements from the buffer's start; None for none."""
        place = self.layout.buffers[region.buffer]
        offset: Expr | None = None
        for dim, i in enumerate(region.index):
            stride = place.strides[dim] // place.element
            term = i if stride == 1 else i * stride
            offset = term if offset is None else offset + term
        if region.start is not None and region.start != Int(0):
            offset = region.start if offset is None else offset + region.start
        return offset

    def _element_at(self, region: n.Region) -> str:
        """The address of a thread's own elements; in a swizzled buffer, in one unit of the pattern."""
        buffer = self.shared[region.buffer]
        if buffer.swizzle == "none":
            return self._shared_at(region)
        count, rows, _ = self._form(region)
        size = DTYPE_BYTES[buffer.dtype]
        if rows != 1 or count * size > 16 or self._shared_width(region) % count:
            raise InputError(f"{buffer.name} is swizzled: an access is of at most 16 aligned bytes")
        offset = self._index(self._offset(region) or Int(0))
        # of the offset, not of the address, whose space the compiler would forget
        return f"&{buffer.name}[swizzled<{_SWIZZLE_UNITS[buffer.swizzle]}, {size}>({offset})]"

    def _global_at(self, region: n.GlobalRegion) -> str:
        return f"&{region.tensor}[{self._index(region.start)}]"

    def _copied_at(self, region: n.GlobalRegion) -> str:
        # one thread computes it: 64 bits cost little, and nobody has to show that 32 suffice
        names = self.names.copy()
        names.widened = frozenset({"block", "grid", "base"} - names.wide)
        return f"&{region.tensor}[{index(region.start, names)}]"

    def _shared_width(self, region: n.Region) -> int:
        place = self.layout.buffers[region.buffer]
        parts = [place.offset // place.element] if place.offset % place.element == 0 else [1]
        parts += [s // place.element for s in place.strides[: len(region.index)]]
        start = divisor(region.start if region.start is not None else Int(0), self.divisors)
        return gcd(*(divisor(Int(x), {}) for x in parts), start)

    def _global_width(self, region: n.GlobalRegion) -> int:
        # Tensors start at multiples of 16 bytes, the widest access.
        return divisor(region.start, self.divisors)

    def _bar(self, bar: n.BarrierRef) -> str:
        if bar.rank is not None:
            raise InputError(f"{bar.name}: remote barriers have no code generation")
        return bar.name if bar.index is None else f"&{bar.name}[{self._index(bar.index)}]"

    def _bytes(self, tensor: n.Tensor, count: Expr) -> str:
        if isinstance(count, Int):
            return str(count.value * DTYPE_BYTES[tensor.dtype])
        return self._index(count * DTYPE_BYTES[tensor.dtype])

    def _index(self, e: Expr) -> str:
        return index(e, self.names)


def _access_form(count: int, rows: int, pitch: int, width: int) -> str:
    """The template arguments of an access; ``width``: elements that its address is a multiple of."""
    least = min(width, divisor(Int(pitch), {})) if rows > 1 else width
    align = least if least < (count & -count) else 0
    if rows > 1:
        return f"<{rows}, {pitch}, {align}>" if align else f"<{rows}, {pitch}>"
    return f"<{align}>" if align else ""


def each(name: str, length: int, text: str, first: str = "") -> Iterator[str]:
    """An assignment to every element of a register, or to those behind its ``first``."""
    if length == 1:
        yield f"{name}[{first}0] = {text};"
    else:
        yield "#pragma unroll"
        yield f"for (int k = 0; k < {length}; ++k) {name}[{first}k] = {text};"
