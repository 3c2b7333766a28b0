"""Functions of a module as lists of closures, one for each instruction.

Registers, special registers and constants are slots of one list, so that every operand is an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np

from syncverify.simulate.ptx.harm import CannotExecute
from syncverify.simulate.ptx.settle import tracked
from syncverify.simulate.ptx.state import Fragment, Next, Step
from syncverify.simulate.ptx.syntax import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Vector,
)
from syncverify.simulate.ptx.types import BITS, LANES, UNSIGNED, Lanes, extend, filled
from syncverify.simulate.ptx.variable_bounds import Bounds

Builder = Callable[["Context", Instr], Step]
#: By opcode: what makes a closure of an instruction. The modules of instructions fill it.
BUILDERS: dict[str, Builder] = {}
#: Opcodes whose builder looks at the guard itself.
GUARDS_ITSELF: set[str] = set()
#: Opcodes that are executed by lanes together: a mixed guard parts them before.
TOGETHER: set[str] = set()


def builder(*ops: str, own_guard: bool = False, together: bool = False) -> Callable[[Builder], Builder]:
    """Registers a builder for opcodes."""

    def add(of: Builder) -> Builder:
        for op in ops:
            BUILDERS[op] = of
            if own_guard:
                GUARDS_ITSELF.add(op)
            if together:
                TOGETHER.add(op)
        return of

    return add


#: Instructions that do nothing but set a register; those that integer code ends with.
_REGISTERS_ONLY = frozenset(
    "mov cvt cvta add sub mul mad and or xor not neg abs min max shl shr setp selp bfe bfi prmt".split()
)


def _own_memory(i: Instr) -> bool:
    """An access to local memory, by its text."""
    return i.op in ("ld", "st") and "local" in i.mods


@dataclass(eq=False)
class Compiled:
    """A function ready to run. ``fills``: slots whose contents depend on the warp; ``words``: those of
    registers of 8 to 64 bits."""

    function: Function
    code: list[Step]
    template: list[Lanes]
    fills: list[tuple[int, str, Any]]  # slot, "special" or "address", what
    words: list[int]
    lines: list[int]
    slots: dict[str, int]
    touches: list[frozenset[int]]  # by instruction: the registers that it reads or writes
    local_size: int
    locals: dict[str, int]
    params: dict[str, int]  # sizes of parameters, call parameters too
    joins: dict[int, int]  # conditional branch -> where its lanes meet again

    def ends_at(self, pc: int) -> bool:
        """Whether nothing is left to do at an instruction but to leave: registers and local memory may still
        change, which nobody reads any more."""
        body = self.function.body
        while pc < len(body) and (body[pc].op in _REGISTERS_ONLY or _own_memory(body[pc])):
            pc += 1
        return pc >= len(body) or (body[pc].op in ("ret", "exit") and body[pc].guard is None)


@dataclass
class Symbols:
    """Where variables lie: name -> (space, byte). Shared ones relative to the block's window."""

    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)  # name -> address
    bounds: Bounds = field(default_factory=Bounds)


#: The condition code, whose carry is what was never written until a sum with ``.cc``.
CARRY = "CC.CF"
#: Modifiers of vectors, and how many registers they have.
VECTORS = {"v2": 2, "v4": 4, "v8": 8}


class Context:
    """A function while it is compiled."""

    def __init__(self, module: Module, function: Function, symbols: Symbols, seed: int) -> None:
        self.module = module
        self.function = function
        self.symbols = symbols
        self.slots: dict[str, int] = {}
        self.template: list[Lanes] = []
        self.fills: list[tuple[int, str, Any]] = []
        self.words: list[int] = []
        self.known: dict[Any, int] = {}
        self.instr: Instr | None = None
        self.at = 0
        self.locals: dict[str, int] = {}
        self.params: dict[str, int] = {}
        self.local_size = 0
        self.functions: dict[str, Compiled] = {}
        self.joins: dict[int, int] = {}
        self.wgmma_registers: frozenset[int] = frozenset()
        draw = np.random.default_rng(seed)
        for name, kind in function.registers.items():
            self._slot(name, kind, draw)
        self._slot(CARRY, "pred", draw)
        for v in (*function.params, *function.results):
            if v.space == "reg":
                continue
            self.params[v.name] = v.size
        for v in function.variables:
            if v.space == "param":
                self.params[v.name] = v.size
        local = [(v.name, v.size, v.align) for v in function.variables if v.space == "local"]
        for name, at, self.local_size in symbols.bounds.spaced("local", local, 0):
            self.locals[name] = at
        self.local_size = -(-self.local_size // 16) * 16

    def _slot(self, name: str, kind: str, draw: np.random.Generator) -> None:
        bits = BITS.get(kind, 0)
        if not bits:
            raise CannotExecute(self.function.line, f".reg .{kind} {name}", "unknown type of register")
        self.slots[name] = len(self.template)
        if bits == 1:
            self.template.append(draw.integers(0, 2, LANES).astype(bool))
        elif bits == 128:
            self.template.append(draw.integers(0, 2**63, (LANES, 2)).astype(np.uint64))
        else:
            # What was never written holds anything.
            self.words.append(self.slots[name])
            self.template.append(draw.integers(0, 2**63, LANES).astype(UNSIGNED[bits]))

    # -- operands -----------------------------------------------------------------------------------------

    def fail(self, why: str = "") -> CannotExecute:
        """This instruction is not known."""
        instr = self.instr
        return CannotExecute(instr.line if instr else 0, instr.name if instr else "", why)

    def bits_of(self, operand: Operand) -> int:
        """The width of a register or special register, 0 for constants."""
        if isinstance(operand, Reg):
            return BITS[self.function.registers[operand.name]]
        if isinstance(operand, Special):
            return special_bits(operand.name)
        if isinstance(operand, Sym):
            return 64
        return 0

    def constant(self, value: int, bits: int) -> int:
        key = ("constant", value & ((1 << bits) - 1), bits)
        if key not in self.known:
            self.known[key] = len(self.template)
            self.template.append(filled(value, bits))
        return self.known[key]

    def source(self, operand: Operand, bits: int) -> int:
        """The slot of an operand of just this width."""
        match operand:
            case Reg(name):
                own = BITS[self.function.registers[name]]
                if own != bits:
                    raise self.fail(f"{name} has {own} bits, the type {bits}")
                return self.slots[name]
            case Imm(value):
                return self.constant(value, bits)
            case FloatImm(value, width):
                return self.constant(_float_constant(value, width, bits, self), bits)
            case Special(name):
                return self._special(name, bits)
            case Sym(name, offset):
                return self._symbol(name, offset, bits)
        raise self.fail("an operand of a form that is not known")

    def reader(self, operand: Operand, bits: int, sign: bool = False) -> Callable[[list[Lanes]], Lanes]:
        """The low ``bits`` of an operand; a narrower register is extended."""
        own = self.bits_of(operand)
        if isinstance(operand, Reg) and own != bits:
            slot = self.slots[operand.name]
            if own == 1:
                raise self.fail("a predicate where a number is expected")
            if own == 128:
                return lambda R: extend(R[slot][:, 0], bits, False)
            return lambda R: extend(R[slot], bits, sign)
        slot = self.source(operand, bits)
        return lambda R: R[slot]

    def predicate(self, operand: Operand) -> Callable[[list[Lanes]], Lanes]:
        if isinstance(operand, Not):
            slot = self.source(operand.reg, 1)
            return lambda R: ~R[slot]
        slot = self.source(operand, 1)
        return lambda R: R[slot]

    def _special(self, name: str, bits: int) -> int:
        if special_bits(name) == 0:
            raise self.fail(f"{name} is not known")
        key = ("special", name, bits)
        if key not in self.known:
            self.known[key] = len(self.template)
            self.fills.append((len(self.template), "special", (name, bits)))
            self.template.append(filled(0, bits))
        return self.known[key]

    def _symbol(self, name: str, offset: int, bits: int) -> int:
        if bits not in (32, 64):
            raise self.fail(f"the address of {name} in {bits} bits")
        key = ("address", name, offset, bits)
        if key not in self.known:
            self.known[key] = len(self.template)
            self.fills.append((len(self.template), "address", (self.place(name), offset, bits)))
            self.template.append(filled(0, bits))
        return self.known[key]

    def place(self, name: str) -> tuple[str, Any]:
        """The space and the byte of a variable, a parameter or a function."""
        if name in self.params:
            return "param", name
        if name in self.locals:
            return "local", self.locals[name]
        if name in self.symbols.places:
            return self.symbols.places[name]
        own = f"{self.function.name}/{name}"
        if own in self.symbols.places:
            return self.symbols.places[own]
        name = self.module.aliases.get(name, name)
        if name in self.symbols.functions:
            return "function", self.symbols.functions[name]
        raise self.fail(f"{name} is no variable that is known")

    def target(self, operand: Operand) -> int | None:
        """The slot of a destination, None for ``_``."""
        if isinstance(operand, Sink):
            return None
        if isinstance(operand, Reg):
            return self.slots[operand.name]
        raise self.fail("expected a register as destination")

    def writer(
        self, operand: Operand, bits: int, sign: bool = False
    ) -> Callable[[Fragment, Lanes, Lanes], None]:
        """Stores lanes of a result; a wider register gets it extended (``ld``, ``cvt``)."""
        slot = self.target(operand)
        if slot is None:
            return lambda f, value, mask: None
        own = self.bits_of(operand)
        if own < bits:
            raise self.fail(f"the destination has {own} bits, the result {bits}")

        def write(f: Fragment, value: Lanes, mask: Lanes) -> None:
            R = f.R
            if own == 128 and bits < 128:
                wide = np.zeros((LANES, 2), np.uint64)
                wide[:, 0] = extend(value, 64, sign)
                value = wide
            elif own != bits:
                value = extend(value, own, sign)
            R[slot] = np.where(mask[:, None] if value.ndim == 2 else mask, value, R[slot])

        return write

    def guard(self) -> Callable[[list[Lanes]], Lanes] | None:
        instr = self.instr
        if instr is None or instr.guard is None:
            return None
        slot = self.source(instr.guard, 1)
        if instr.negated:
            return lambda R: ~R[slot]
        return lambda R: R[slot]

    def pure(
        self, destination: Operand, of: Callable[[list[Lanes]], Lanes], bits: int, sign: bool = False
    ) -> Step:
        """An instruction that only writes one register."""
        slot = self.target(destination)
        if slot is None:
            return lambda f: None
        own = self.bits_of(destination)
        if own < bits:
            raise self.fail(f"the destination has {own} bits, the result {bits}")
        if own > bits:
            inner = of
            if own == 128 or bits == 1:
                raise self.fail(f"the destination has {own} bits, the result {bits}")

            def widened(R: list[Lanes]) -> Lanes:
                return extend(inner(R), own, sign)

            of = widened
        guard = self.guard()
        if guard is None:

            def run(f: Fragment) -> None:
                R = f.R
                R[slot] = of(R)

            return run

        def guarded(f: Fragment) -> None:
            R = f.R
            on = guard(R)
            value = of(R)
            R[slot] = np.where(on[:, None] if value.ndim == 2 else on, value, R[slot])

        return guarded

    def masked(self, run: Callable[[Fragment, Lanes], Next]) -> Step:
        """An instruction with effects: ``run`` gets the lanes that execute it, if there are any."""
        guard = self.guard()
        if guard is None:
            return lambda f: run(f, f.mask)

        def guarded(f: Fragment) -> Next:
            on = f.mask & guard(f.R)
            return run(f, on) if on.any() else None

        return guarded


def _float_constant(bits: int, width: int, wanted: int, context: Context) -> int:
    if width == wanted:
        return bits
    if width == 64 and wanted == 32:
        return int(np.array([bits], np.uint64).view(np.float64).astype(np.float32).view(np.uint32)[0])
    if width == 32 and wanted == 64:
        return int(np.array([bits], np.uint32).view(np.float32).astype(np.float64).view(np.uint64)[0])
    raise context.fail("a floating-point constant of another width")


_SPECIALS = {
    "%laneid": 32, "%warpid": 32, "%nwarpid": 32, "%smid": 32, "%nsmid": 32, "%gridid": 64,
    "%is_explicit_cluster": 1, "%cluster_ctarank": 32, "%cluster_nctarank": 32, "%lanemask_eq": 32,
    "%lanemask_le": 32, "%lanemask_lt": 32, "%lanemask_ge": 32, "%lanemask_gt": 32, "%clock": 32,
    "%clock_hi": 32, "%clock64": 64, "%globaltimer": 64, "%globaltimer_lo": 32, "%globaltimer_hi": 32,
    "%dynamic_smem_size": 32, "%total_smem_size": 32, "%aggr_smem_size": 32, "%reserved_smem_offset_1": 32,
}  # fmt: skip
_VECTOR_SPECIALS = (
    "tid",
    "ntid",
    "ctaid",
    "nctaid",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
)


def special_bits(name: str) -> int:
    """The width of a special register; 0 if it is not known."""
    base, _, part = name[1:].partition(".")
    if base in _VECTOR_SPECIALS and part in ("x", "y", "z"):
        return 32
    return _SPECIALS.get(name, 0)


def registers_in(operands: Iterable[Operand]) -> set[str]:
    """The registers that operands name."""
    out: set[str] = set()
    for x in operands:
        match x:
            case Reg(name):
                out.add(name)
            case Not(reg):
                out.add(reg.name)
            case Pair(a, b):
                out |= registers_in((a, b))
            case Vector(items):
                out |= registers_in(items)
            case Mem(base, _, coords):
                out |= registers_in((base, *coords))
    return out


def symbols_in(operands: Iterable[Operand]) -> set[str]:
    """The variables, parameters and functions that operands name."""
    out: set[str] = set()
    for x in operands:
        match x:
            case Sym(name, _):
                out.add(name)
            case Vector(items):
                out |= symbols_in(items)
            case Mem(base, _, coords):
                out |= symbols_in((base, *coords))
    return out


def meeting_places(function: Function) -> dict[int, int]:
    """For each conditional branch the first instruction that all its paths come to (post-dominators)."""
    body = function.body
    end = len(body)
    graph = nx.DiGraph()
    graph.add_node(end)
    conditional = []
    for i, instr in enumerate(body):
        targets: list[int] = []
        falls = True
        if instr.op == "bra":
            target = instr.operands[0]
            if isinstance(target, Label):
                targets.append(target.target)
            falls = instr.guard is not None
            if falls:
                conditional.append(i)
        elif instr.op == "brx":
            table = instr.operands[1]
            if isinstance(table, Sym):
                targets += [function.labels[n] for n in function.tables[table.name]]
            falls = instr.guard is not None
            conditional.append(i)
        elif instr.op in ("ret", "exit", "trap"):
            targets.append(end)
            falls = instr.guard is not None
        if falls:
            targets.append(i + 1)
        for t in targets:
            graph.add_edge(t, i)  # reversed
    after = nx.immediate_dominators(graph, end)
    return {i: after[i] for i in conditional if i in after and after[i] != end}


def compile_function(
    module: Module,
    function: Function,
    symbols: Symbols,
    functions: dict[str, Compiled],
    seed: int,
    settles: bool = False,
) -> Compiled:
    """The closures of a function. ``settles``: follows loads of shared memory until they have arrived."""
    context = Context(module, function, symbols, seed)
    context.functions = functions
    context.joins = meeting_places(function)
    context.wgmma_registers = frozenset(
        context.slots[name]
        for instr in function.body
        if instr.op == "wgmma" and "mma_async" in instr.mods
        for x in instr.operands[:2]
        if isinstance(x, Vector)
        for name in registers_in((x,))
    )
    out = Compiled(
        function=function,
        code=[],
        template=context.template,
        fills=context.fills,
        words=context.words,
        lines=[i.line for i in function.body],
        slots=context.slots,
        touches=[],
        local_size=context.local_size,
        locals=context.locals,
        params=context.params,
        joins=context.joins,
    )
    functions[function.name] = out
    for i, instr in enumerate(function.body):
        context.instr, context.at = instr, i
        step = _step(context, instr)
        if instr.guard is not None and instr.op in TOGETHER:
            step = _parted(step, context.guard(), i, _is_aligned(instr))
        if settles:
            step = _followed(context, instr, step)
        out.code.append(step)
        used = registers_in(instr.operands)
        out.touches.append(frozenset(context.slots[n] for n in used))
        touched = out.touches[-1] & context.wgmma_registers
        if touched and instr.op != "wgmma":
            out.code[-1] = _touching(out.code[-1], frozenset(_written(context, instr)) & touched)
    out.code.append(
        BUILDERS["ret"](context, Instr("ret", (), (), function.body[-1].line if function.body else 0))
    )
    out.lines.append(out.lines[-1] if out.lines else function.line)
    out.touches.append(frozenset())
    return out


def _followed(context: Context, instr: Instr, step: Step) -> Step:
    """The step of an instruction that also follows loads of shared memory."""
    slots = context.slots
    first = instr.operands[:1]
    stores = instr.op in (
        "st",
        "red",
        "bra",
        "brx",
        "cp",
        "call",
        "ret",
        "exit",
        "stmatrix",
        "mbarrier",
        "bar",
    )
    written = set() if stores or not first else registers_in(first)
    read = registers_in(instr.operands if stores else instr.operands[1:])
    if instr.guard is not None:
        read.add(instr.guard.name)
    if instr.op == "wgmma":
        read = registers_in(x for x in instr.operands[1:2] if isinstance(x, Vector))
        written = set()
    return tracked(
        step, instr, frozenset(slots[n] for n in read), frozenset(slots[n] for n in written), instr.line
    )


def _step(context: Context, instr: Instr) -> Step:
    """The closure of an instruction; of one that is not known, an error once it is reached."""
    make = BUILDERS.get(instr.op)
    try:
        if make is None:
            raise context.fail("unknown instruction")
        return make(context, instr)
    except CannotExecute as e:
        error = e
    except (IndexError, KeyError, ValueError, AttributeError, TypeError) as e:
        error = context.fail(f"operands or modifiers of a form that is not known ({e})")

    def unknown(f: Fragment) -> Next:
        raise CannotExecute(error.line, error.text, error.why)

    return unknown


def _written(context: Context, instr: Instr) -> set[int]:
    if instr.op in ("st", "red", "bra", "cp", "mov"):
        return set()  # a copy of a register is no access to it: the assembler gives both one place
    return {context.slots[n] for n in registers_in(instr.operands[:1])}


def _touching(step: Step, slots: frozenset[int]) -> Step:
    """Remembers that registers of wgmma were written."""
    if not slots:
        return step

    def run(f: Fragment) -> Next:
        f.warp.touched |= slots
        return step(f)

    return run


def vector_items(c: Context, i: Instr, operand: Operand, what: str) -> tuple[Operand, ...]:
    """The registers of an operand, as many as the instruction's vector modifier says; one without."""
    count = next((n for w, n in VECTORS.items() if w in i.mods), 1)
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise c.fail(f"expected {count} {what}")
    return items


def _is_aligned(instr: Instr) -> bool:
    """Whether all lanes of the warp have to execute it alike; ``bar`` is ``barrier.aligned``."""
    return "aligned" in instr.mods or (instr.op == "bar" and "warp" not in instr.mods)


def _parted(step: Step, guard: Callable[[list[Lanes]], Lanes] | None, at: int, aligned: bool) -> Step:
    """Parts lanes whose guard differs, before an instruction that lanes execute together."""
    assert guard is not None

    def run(f: Fragment) -> Next:
        on = guard(f.R)
        here = f.mask & on
        if not here.any():
            return None
        if not np.array_equal(here, f.mask):
            if aligned:
                m = f.warp.machine
                raise m.undefined(
                    f, "an .aligned instruction whose guard holds for a part of the warp", "bar"
                )
            rest = f.split(f.mask & ~on)
            rest.pc = at + 1
        return step(f)

    return run
