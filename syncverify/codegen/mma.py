"""wgmma in CUDA C++: descriptors of operands in shared memory, a function per shape, accumulators."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from syncverify.base.source import InputError
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import Int

#: Bytes that one wgmma reads along K (PTX ISA, wgmma: Matrix Shape), and rows of A that it multiplies.
K_BYTES = 32
ROWS = 64
#: A row of the 128-byte swizzle and the rows after which its pattern repeats.
SPAN = 128
REPEAT = 8
#: PTX type names, and the types whose operands may be MN-major (PTX ISA, wgmma: imm-trans).
_TYPES = {"bf16": "bf16", "f16": "f16", "e4m3": "e4m3", "e5m2": "e5m2", "tf32": "tf32", "f32": "tf32"}
_EITHER_WAY = frozenset({"bf16", "f16"})


def function_name(columns: int, k: int, a: str, b: str, a_t: bool, b_t: bool) -> str:
    """The name of the function for one shape and operand types; ``a_t``, ``b_t`` as in the IR."""
    types = a if a == b else f"{a}_{b}"
    major = ("_mn" if a_t else "_k") + ("_k" if b_t else "_mn")
    return f"wgmma_m{ROWS}n{columns}k{k}_{types}{major}"


def functions(kernel: n.Kernel) -> Iterator[str]:
    """The functions that the kernel's products call; InputError for a form that wgmma lacks."""
    written: set[str] = set()
    for s in statements(kernel.body):
        if isinstance(s, n.Wgmma):
            call = Product(kernel, s)
            if call.name not in written:
                written.add(call.name)
                yield call.function()


class Product:
    """One ``wgmma.mma`` of the IR: all of its wgmmas, of 64 rows and 32 bytes along K each."""

    def __init__(self, kernel: n.Kernel, s: n.Wgmma) -> None:
        self.stmt = s
        fragments = {f.name: f for f in kernel.fragments}
        shared = {x.name: x for x in kernel.shared}
        acc = fragments[s.acc]
        if acc.dtype != "f32":
            raise InputError(f"wgmma into {acc.dtype} has no code generation", s.span)
        self.b = shared[s.b.buffer]
        self.a: n.Shared | n.Fragment = fragments[s.a] if isinstance(s.a, str) else shared[s.a.buffer]
        in_memory = [(self.b, not s.b_t)]
        if isinstance(self.a, n.Shared):
            in_memory.insert(0, (self.a, s.a_t))
        for x, along_mn in in_memory:
            if x.swizzle != "128B":
                raise InputError(f"{x.name}: operands of wgmma need swizzle 128B to be generated", s.span)
            if along_mn and x.dtype not in _EITHER_WAY:
                raise InputError(f"{x.name}: {x.dtype} operands of wgmma run along K", s.span)
        size = n.DTYPE_BYTES[self.a.dtype]
        self.rows, self.columns = acc.shape
        self.blocks = self.rows // ROWS
        self.step = K_BYTES // size  # elements along K of one wgmma
        if isinstance(self.a, n.Fragment):
            depth = self.a.shape[1]
        else:
            assert isinstance(s.a, n.Region)
            depth = _elements(self.a, s.a) // self.rows
        self.depth, self.steps = depth, depth // self.step
        span = SPAN // size
        for x, along_mn in in_memory:
            if not along_mn and depth != span:
                raise InputError(
                    f"{x.name}: rows of K-major operands are {span} elements, not {depth}", s.span
                )
        if s.a_t and self.blocks > 1 and span != ROWS:
            raise InputError(f"{self.a.name}: MN-major panels of {span} rows", s.span)

    @property
    def name(self) -> str:
        s = self.stmt
        name = function_name(self.columns, self.step, self.a.dtype, self.b.dtype, s.a_t, s.b_t)
        return name.replace("_k_", "_r_", 1) if self.in_registers else name

    @property
    def registers(self) -> int:
        """f32 accumulators per thread of one wgmma."""
        return self.columns // 2

    @property
    def in_registers(self) -> bool:
        """Whether A comes from registers: four for each wgmma (PTX ISA, wgmma: Register Fragments)."""
        return isinstance(self.a, n.Fragment)

    def _panel(self) -> int:
        """Bytes from one MN-major panel to the next."""
        return self.depth * SPAN

    def descriptor(self, operand: str, address: str) -> str:
        """The descriptor of an operand at an address (its leading and stride byte offsets)."""
        along_mn = self.stmt.a_t if operand == "a" else not self.stmt.b_t
        leading = self._panel() if along_mn else 16  # ignored where rows run along K
        return f"matrix_128B({address}, {leading}, {REPEAT * SPAN})"

    def lines(self, a: str, b: str, accumulate: str) -> Iterator[str]:
        """The wgmmas, for the addresses of both operands and the condition under which they accumulate."""
        s = self.stmt
        deeper = {  # units of 16 bytes per step along K
            "a": self.step * SPAN // 16 if s.a_t else K_BYTES // 16,
            "b": self.step * SPAN // 16 if not s.b_t else K_BYTES // 16,
        }
        lower = (self._panel() if s.a_t else ROWS * SPAN) // 16
        yield "{"
        if self.in_registers:
            yield f"  const uint64 b = {self.descriptor('b', b)};"
        else:
            yield f"  const uint64 a = {self.descriptor('a', a)}, b = {self.descriptor('b', b)};"
        yield "  #pragma unroll"
        yield f"  for (int k16 = 0; k16 < {self.steps}; ++k16) {{"
        first = "1" if accumulate == "1" else f"k16 > 0 || {accumulate}"
        for m in range(self.blocks):
            at = f"a + {deeper['a']} * k16" + (f" + {m * lower}" if m else "")
            if self.in_registers:
                at = f"{a} + 4 * k16" + (f" + {m * self.depth // 4}" if m else "")
            acc = s.acc if m == 0 else f"{s.acc} + {m * self.registers}"
            yield f"    {self.name}({acc}, {at}, b + {deeper['b']} * k16, {first});"
        yield "  }"
        yield "}"

    def function(self) -> str:
        """A wrapper of one instruction."""
        r, s = self.registers, self.stmt
        outputs = ", ".join(f"%{i}" for i in range(r))
        bound = ", ".join(f'"+f"(d[{i}])' for i in range(r))
        a, b = _TYPES[self.a.dtype], _TYPES[self.b.dtype]
        majors = [not s.b_t] if self.in_registers else [s.a_t, not s.b_t]
        transposes = "".join(f", {int(x)}" for x in majors) if self.a.dtype in _EITHER_WAY else ""
        opcode = f"wgmma.mma_async.sync.aligned.m{ROWS}n{self.columns}k{self.step}.f32.{a}.{b}"
        kind, left, taken, count = "uint64", f"%{r}", '"l"(a)', 1
        if self.in_registers:
            kind, count = "const uint32*", 4
            left = "{" + ", ".join(f"%{r + i}" for i in range(4)) + "}"
            taken = ", ".join(f'"r"(a[{i}])' for i in range(4))
        head = f"void {self.name}(float* d, {kind} a, uint64 b, bool accumulate)"
        return (
            f"__device__ __forceinline__ {head} {{\n"
            f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{r + count + 1}, 0; "\n'
            f'               "{opcode} {{{outputs}}}, {left}, %{r + count}, p, 1, 1{transposes}; }}"\n'
            f'               : {bound} : {taken}, "l"(b), "r"(int(accumulate)));\n'
            "}"
        )


def fragment_registers(f: n.Fragment) -> int:
    """f32 values of a fragment that each thread of the warpgroup holds."""
    return f.shape[0] * f.shape[1] // 128


def declarations(kernel: n.Kernel) -> Iterator[str]:
    """The arrays of fragments."""
    for f in kernel.fragments:
        if f.dtype == "f32":
            yield f"float {f.name}[{fragment_registers(f)}];"
        elif f.dtype in _EITHER_WAY:
            yield f"uint32 {f.name}[{fragment_registers(f) // 2}];"
        else:
            raise InputError(f"fragment {f.name}: {f.dtype} has no code generation", f.span)


def _elements(buffer: n.Shared, r: n.Region) -> int:
    if isinstance(r.count, Int) and r.rows is None:
        return r.count.value
    sizes = [e.value for e in buffer.shape[len(r.index) :] if isinstance(e, Int)]
    if r.count is not None or len(sizes) != len(buffer.shape) - len(r.index):
        raise InputError(f"{buffer.name}: an operand of wgmma of variable size")
    return prod(sizes)


__all__ = ["Product", "declarations", "fragment_registers", "function_name", "functions"]
