"""Which threads of a block hold the same value: what registers vary with, by data flow.

A mask says what a value may vary with: bit ``i`` below ``TIME`` is bit ``i`` of the thread's number in its
block (``x + X * (y + Y * z)``), so that the low five are the lane's; ``TIME`` that it may be another one each
time the instruction is executed; ``BLOCK`` that CTAs of a cluster may hold different ones. Two threads whose
numbers agree in all bits of a mask hold one value. Registers whose bits are moved about one by one (the
number of a thread, masked and shifted) have one mask for each of their bits.

Registers are looked at without regard to the place in the code: what holds is true of every definition. A
register that is written in several places also varies with the branches that choose between these, and one
that is written in a loop and read after it with the branches that end the loop. A word of memory is taken to
be the same for all that read it by one instruction: if it is written meanwhile, that is a race of its own.

The exchange of a butterfly, ``x + shfl.bfly(x, 4)``, takes a bit of the lane away: both lanes add the same
two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Mem,
    Not,
    Operand,
    Reg,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width
from syncverify.model.events import EACH_BLOCK, EACH_TIME

#: See ``model.events``; the bits below are those of a thread's number.
TIME, BLOCK = EACH_TIME, EACH_BLOCK
THREADS = TIME - 1
LANES = 31
#: Nothing is known.
EVERY = THREADS | TIME | BLOCK
_ALL_LANES = 0xFFFFFFFF

#: Instructions in a row that are followed to show that a value does not change in a loop.
_DEEPEST = 12

#: One mask for all bits of a register, or one for each.
_Bits = int | tuple[int, ...]
#: What a register holds, as far as exchanges between lanes go.
_Origin = tuple[object, ...]

#: Instructions whose results depend on their operands alone.
_COMPUTES = frozenset(
    "abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns getctarank "
    "isspacep lg2 lop3 mad mad24 mapa max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set "
    "setp shf shl shr sin slct sqrt sub szext tanh testp xor".split()
)
_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
#: Loads that say that others write meanwhile.
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_FIXED = (
    "%ntid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_nctaid", "%cluster_nctarank", "%envreg",
    "%gridid", "%nwarpid", "%nsmid", "%total_smem", "%dynamic_smem", "%aggr_smem", "WARP_SZ",
)  # fmt: skip
_OF_BLOCK = ("%ctaid", "%cluster_ctaid", "%cluster_ctarank", "%smid", "%is_explicit_cluster")


def agree(mask: int, numbers: Iterable[int]) -> bool:
    """Whether threads with these numbers, of one block, hold one value."""
    return len({n & mask & THREADS for n in numbers}) < 2


class Uniformity:
    """What the values of one function vary with, in blocks of one shape."""

    def __init__(self, flow: Flow, block: Sequence[int]) -> None:
        self.flow = flow
        self.body = flow.body
        self.function: Function = flow.function
        self.block = tuple(block)
        self._held: dict[str, _Bits] = {}
        self._stored: dict[int, int] = {}
        self._definitions: dict[str, list[int]] = {}
        self._readers: dict[str, list[int]] = {}
        for k, i in enumerate(self.body):
            if flow.block_of[k] in flow.reached:
                for name in results(i):
                    self._definitions.setdefault(name, []).append(k)
                for name in sources(i):
                    self._readers.setdefault(name, []).append(k)
        self._parameters = frozenset(p.name for p in self.function.params)

    def of(self, names: Iterable[str]) -> int:
        """What some registers vary with, taken together."""
        wanted = list(names)
        self._solve(wanted)
        return _union([self._held[name] for name in wanted])

    def stored(self, k: int) -> int:
        """What the values that an instruction stores vary with."""
        found = self._stored.get(k)
        if found is None:
            values = [op for op in self.body[k].operands if not isinstance(op, Mem)]
            found = self.of(name for op in values for name in registers(op))
            if any(isinstance(op, Special) for op in values):
                found |= _union([self._operand(op, 64) for op in values])
            self._stored[k] = found
        return found

    # ------------------------------------------------------------ the least solution

    def _solve(self, names: Sequence[str]) -> None:
        """Finds the least masks that all definitions of the registers, and of what they need, agree with."""
        new = self._needed(names)
        for name in new:
            self._held[name] = 0
        order = sorted({k for name in new for k in self._definitions.get(name, ())})
        for name in new:
            if name not in self._definitions:
                self._held[name] = EVERY
        grown = True
        while grown:
            grown = False
            for k in order:
                for name in results(self.body[k]):
                    if name not in new:
                        continue
                    old = self._held[name]
                    found = _join(old, self._defined(k, name), self._width(name))
                    if found != old:
                        self._held[name] = found
                        grown = True

    def _needed(self, names: Iterable[str]) -> set[str]:
        """The registers that some depend on, of which nothing is known yet."""
        new: set[str] = set()
        work = [name for name in names if name not in self._held]
        while work:
            name = work.pop()
            if name in new:
                continue
            new.add(name)
            more = {x for k in self._definitions.get(name, ()) for x in sources(self.body[k])}
            more |= {x for b in self._choosers(name) for x in self._guards(b)}
            work += [x for x in more if x not in self._held and x not in new]
        return new

    def _defined(self, k: int, name: str) -> _Bits:
        """What a register may vary with by one of its definitions."""
        i = self.body[k]
        found = self._result(i, name)
        more = _union([self._held[i.guard.name]]) if i.guard is not None else 0
        if len(self._definitions[name]) > 1:
            more |= TIME
        for b in self._choosers(name):
            more |= _union([self._held[x] for x in self._guards(b)])
        if not more:
            return found
        return found | more if isinstance(found, int) else tuple([x | more for x in found])

    # ------------------------------------------------------------ branches

    def _guards(self, block: int) -> tuple[str, ...]:
        last = self.body[self.flow.blocks[block].hi - 1]
        return sources(last)

    def _choosers(self, name: str) -> frozenset[int]:
        """The blocks whose branches choose between the definitions of a register, or how often they run."""
        found = self._chosen.get(name)
        if found is None:
            found = self._chosen[name] = frozenset(self._chosen_by(name))
        return found

    @cached_property
    def _chosen(self) -> dict[str, frozenset[int]]:
        return {}

    def _chosen_by(self, name: str) -> set[int]:
        at = [self.flow.block_of[k] for k in self._definitions.get(name, ())]
        if not at:
            return set()
        found: set[int] = set()
        if len(at) > 1:
            edges = [self._edges(b) for b in at]
            found = {b for b, _ in frozenset[tuple[int, int]]().union(*edges) - edges[0].intersection(*edges)}
        read = {self.flow.block_of[k] for k in self._readers.get(name, ())}
        if not read:
            read = set(self.flow.reached)  # it may be asked for anywhere
        for loop in self.flow.loops:
            if not loop.isdisjoint(at) and not read <= loop and not self._invariant(name, loop):
                found |= {b for b in loop if any(s not in loop for s in self.flow.blocks[b].succ)}
        return {b for b in found if self._parts_readers(b, read)}

    def _parts_readers(self, branch: int, read: set[int]) -> bool:
        """Whether threads that read a register may have gone different ways at a branch: more than one of its
        sides leads to a reader. Else all that read have gone the same way, each time they came there."""
        sides = set(self.flow.blocks[branch].succ)
        return sum(not read.isdisjoint(self._reachable(side)) for side in sides) > 1

    def _reachable(self, block: int) -> frozenset[int]:
        """The blocks that can follow a block, itself included."""
        found = self._all_reachable.get(block)
        if found is None:
            seen: set[int] = set()
            work = [block]
            while work:
                at = work.pop()
                if at >= 0 and at != self.flow.end and at not in seen:
                    seen.add(at)
                    work += self.flow.blocks[at].succ
            found = self._all_reachable[block] = frozenset(seen)
        return found

    @cached_property
    def _all_reachable(self) -> dict[int, frozenset[int]]:
        return {}

    def _invariant(self, name: str, loop: Collection[int], depth: int = 0) -> bool:
        """Whether a register holds the same in each iteration: it is made of what the loop leaves alone."""
        own = self._definitions.get(name, ())
        if all(self.flow.block_of[k] not in loop for k in own):
            return bool(own)
        if len(own) != 1 or depth > _DEEPEST:
            return False
        i = self.body[own[0]]
        fixed = i.guard is None and i.op in _COMPUTES and "cc" not in i.mods
        return fixed and all(self._invariant(x, loop, depth + 1) for x in sources(i))

    @cached_property
    def _decided(self) -> list[set[tuple[int, int]]]:
        """For each block, the branches, and their sides, that lead to it and not past it."""
        flow = self.flow
        out: list[set[tuple[int, int]]] = [set() for _ in flow.blocks]
        for n, b in enumerate(flow.blocks):
            if len(b.succ) < 2:
                continue
            stop = flow.join(n)
            for side in b.succ:
                at = side
                while at not in (stop, flow.end) and at >= 0 and (n, side) not in out[at]:
                    out[at].add((n, side))
                    at = flow.ipdom[at]
        return out

    @cached_property
    def _all_edges(self) -> dict[int, frozenset[tuple[int, int]]]:
        return {}

    def _edges(self, block: int) -> frozenset[tuple[int, int]]:
        """The sides of branches that a block is reached by, those that lead to their branches included."""
        found = self._all_edges.get(block)
        if found is None:
            seen: set[tuple[int, int]] = set()
            work = [block]
            while work:
                for edge in self._decided[work.pop()]:
                    if edge not in seen:
                        seen.add(edge)
                        work.append(edge[0])
            found = self._all_edges[block] = frozenset(seen)
        return found

    # ------------------------------------------------------------ instructions

    def _result(self, i: Instr, name: str) -> _Bits:
        mods, ops = i.mods, i.operands
        if i.op in _COMPUTES and "cc" not in mods:
            return self._computed(i, name)
        match i.op:
            case "ld" | "ldu":
                return self._loaded(i)
            case "shfl":
                return self._shuffled(i)
            case "vote" | "redux" | "match" if "sync" in mods and len(ops) > 2:
                whole = self._whole(ops[-1])
                found = self._read(sources(i))
                uniform = whole and not (i.op == "match" and "any" in mods)
                return found & ~LANES if uniform else found | LANES
            case "elect" if self._whole(ops[1]):
                return LANES if self.function.registers.get(name) == "pred" else 0
        return EVERY

    def _loaded(self, i: Instr) -> _Bits:
        at = i.operands[1]
        if not isinstance(at, Mem) or not _STRONG.isdisjoint(i.mods) or "local" in i.mods:
            return EVERY
        space = next((m.split("::")[0] for m in i.mods if m.split("::")[0] in _SPACES), "generic")
        if space == "param" and not (isinstance(at.base, Sym) and at.base.name in self._parameters):
            return EVERY
        found = self._read(registers(at))
        if isinstance(at.base, Special):
            found |= _union([self._special(at.base.name)])
        if space in ("param", "const") or "nc" in i.mods:
            return found
        if space == "shared":
            return found | TIME | BLOCK
        return found | TIME | (BLOCK if space == "generic" else 0)

    def _shuffled(self, i: Instr) -> _Bits:
        """PTX ISA, shfl.sync: ``c`` holds the clamp in bits 0..4, the mask of segments in bits 8..12."""
        mode = next((m for m in i.mods if m in ("up", "down", "bfly", "idx")), "")
        ops = i.operands
        clamp = self._constant(ops[3]) if len(ops) > 4 and "sync" in i.mods else None
        if clamp is None or not self._whole(ops[4]):
            return self._read(sources(i)) | LANES
        value, lane = self._read(registers(ops[1])), self._read(registers(ops[2]))
        segments = clamp >> 8 & LANES
        if mode == "idx" and clamp & LANES == LANES:
            return value & (~LANES | segments) | lane
        if mode == "bfly" and clamp & LANES == LANES and self._constant(ops[2]) is not None:
            return value
        return value | lane | (LANES if value & LANES or lane else 0)

    def _computed(self, i: Instr, name: str) -> _Bits:
        ops = i.operands
        if isinstance(ops[0], Vector):  # mov.b64 {lo, hi}, x
            parts = [*registers(ops[0])]
            n = self._width(parts[0])
            held = _spread(self._operand(ops[1], n * len(ops[0].items)), n * len(ops[0].items))
            at = next((j for j, x in enumerate(ops[0].items) if isinstance(x, Reg) and x.name == name), 0)
            return held[at * n : (at + 1) * n]
        taken = self._exchanged(i)
        if taken is not None:
            return taken
        size = self._width(name)
        plain = len(i.mods) == 0 or i.mods[-1][:1] in "bus" or i.mods[-1] == "pred"
        if not plain:
            return self._read(sources(i)) | _union([self._operand(op, 1) for op in ops[1:]])
        return self._moved(i, ops[1:], size)

    def _moved(self, i: Instr, ops: Sequence[Operand], size: int) -> _Bits:
        """Integer instructions that move bits about."""
        args = [self._operand(op, size) for op in ops]
        amount = ops[1].value if len(ops) > 1 and isinstance(ops[1], Imm) else None
        match i.op:
            case "mov" | "cvta" if len(ops) == 1:
                return args[0]
            case "not" if len(ops) == 1:
                return args[0]
            case "cvt" if len(ops) == 1 and i.mods[-2][:1] in "us":
                taken = width(i.mods[-1])
                low = _spread(self._operand(ops[0], taken), taken)[: min(size, taken)]
                fill = low[-1] if i.mods[-1][0] == "s" else 0
                return (*low, *[fill] * (size - len(low)))
            case "and" if amount is not None:
                held = _spread(args[0], size)
                return tuple([x if amount >> n & 1 else 0 for n, x in enumerate(held)])
            case "and" | "or" | "xor" if len(ops) == 2:
                a, b = _spread(args[0], size), _spread(args[1], size)
                return tuple([x | y for x, y in zip(a, b, strict=True)])
            case "shl" if amount is not None:
                held = _spread(args[0], size)
                return (*[0] * min(amount, size), *held)[:size]
            case "shr" if amount is not None:
                held = _spread(args[0], size)
                fill = held[-1] if i.mods[-1][0] == "s" and not self._positive(ops[0]) else 0
                if i.mods[-1][0] == "s" and amount >= size - 1 and not fill:
                    return 0
                return (*held[amount:], *[fill] * min(amount, size))[:size]
            case "bfe" if amount is not None and isinstance(ops[2], Imm) and i.mods[-1][0] == "u":
                held = _spread(args[0], size)[amount : amount + ops[2].value]
                return (*held, *[0] * (size - len(held)))
            case "add" | "sub" | "mul" | "mad" if "hi" not in i.mods and "sat" not in i.mods:
                if "wide" in i.mods and i.mods[-1][0] == "s":
                    return _union(args)  # the sign fills the upper half
                spread = [_spread(a, size) for a in args]
                maybe = [self._maybe(op) for op in ops]
                if i.op in ("mul", "mad"):
                    product = _product(spread[:2], maybe[:2], size)
                    if i.op == "mul":
                        return product
                    spread, maybe = [product, spread[2]], [_multiples(*maybe[:2]), maybe[2]]
                if i.op == "sub" and maybe[1]:
                    return _carried(spread, size, 0)
                return _carried(spread, size, _lowest(maybe[0] & maybe[1]))
        return _union(args)

    def _operand(self, op: Operand, size: int) -> _Bits:
        match op:
            case Imm() | FloatImm() | Sym():
                return 0
            case Special(name):
                return self._special(name)
            case Vector(items):
                each = size // max(len(items), 1)
                return tuple([x for item in items for x in _spread(self._operand(item, each), each)])
            case Not(reg):
                return self._held[reg.name]
            case Reg(name):
                return self._held[name]
        return self._read(registers(op))

    def _read(self, names: Iterable[str]) -> int:
        return _union([self._held[name] for name in names])

    def _width(self, name: str) -> int:
        kind = self.function.registers.get(name, "b32")
        return 1 if kind == "pred" else width(kind)

    def _constant(self, op: Operand) -> int | None:
        """A number in the text, or in a register that holds nothing else."""
        if isinstance(op, Imm):
            return op.value
        found = self._definitions.get(op.name, ()) if isinstance(op, Reg) else ()
        if len(found) != 1:
            return None
        i = self.body[found[0]]
        return self._constant(i.operands[1]) if i.op == "mov" and i.guard is None else None

    def _maybe(self, op: Operand, depth: int = 0) -> int:
        """The bits of an integer that may be set."""
        if isinstance(op, Imm):
            return op.value & _ALL_BITS
        if isinstance(op, Special):
            return self._maybe_special(op.name)
        if not isinstance(op, Reg) or depth > 12:
            return _ALL_BITS
        found = self._definitions.get(op.name, ())
        i = self.body[found[0]] if len(found) == 1 else None
        if i is None or i.guard is not None or i.op not in _COMPUTES or isinstance(i.operands[0], Vector):
            return _ALL_BITS
        ops = i.operands[1:]
        held = [self._maybe(x, depth + 1) for x in ops]
        amount = self._constant(ops[1]) if len(ops) > 1 else None
        match i.op:
            case "mov" | "cvta" if len(ops) == 1:
                return held[0]
            case "cvt" if i.mods[-1][:1] == "u" or self._positive(ops[0]):
                return held[0] & (1 << width(i.mods[-1])) - 1
            case "and" if len(ops) == 2:
                return held[0] & held[1]
            case "or" | "xor" if len(ops) == 2:
                return held[0] | held[1]
            case "shl" if amount is not None:
                return held[0] << amount & _ALL_BITS
            case "shr" if amount is not None and (i.mods[-1][:1] != "s" or self._positive(ops[0])):
                return (held[0] & (1 << width(i.mods[-1])) - 1) >> amount
            case "add":
                return held[0] | held[1] if not held[0] & held[1] else _from(_lowest(held[0] | held[1]))
            case "mul" | "mad" if "hi" not in i.mods:
                found_bits = _multiples(held[0], held[1])
                return found_bits if i.op == "mul" else _from(_lowest(found_bits | held[2]))
        return _ALL_BITS

    def _maybe_special(self, name: str) -> int:
        axis = "xyz".find(name[-1]) if name[-2:-1] == "." else -1
        own = (*self.block, 1, 1)[axis] if axis >= 0 else 0
        if name.startswith("%tid.") and own:
            return (1 << (own - 1).bit_length()) - 1
        if name.startswith("%ntid.") and own:
            return own
        return 31 if name == "%laneid" else _ALL_BITS

    def _positive(self, op: Operand, assumed: frozenset[str] = frozenset()) -> bool:
        """Whether an integer is not below zero, if sums and products of numbers of threads, blocks and sizes
        do not wrap (an assumption of all that is said of sizes)."""
        if isinstance(op, Imm):
            return op.value >= 0
        if isinstance(op, Special):
            return op.name.startswith(("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid"))
        if not isinstance(op, Reg):
            return False
        if op.name in assumed:
            return True
        found = self._definitions.get(op.name, ())
        return 0 < len(found) < 4 and len(assumed) < 12 and all(
            self._made_positive(self.body[k], assumed | {op.name}) for k in found
        )  # fmt: skip

    def _made_positive(self, i: Instr, assumed: frozenset[str]) -> bool:
        if i.op == "shr" and i.mods[-1][:1] in "ub":
            amount = self._constant(i.operands[2])
            return amount is not None and amount > 0
        if i.op == "and" and any(isinstance(x, Imm) and x.value >= 0 for x in i.operands[1:]):
            return True
        computes = i.op in ("mov", "add", "mul", "mad", "shl", "shr", "cvt", "min", "max", "div", "rem", "or")
        return computes and "hi" not in i.mods and all(self._positive(x, assumed) for x in i.operands[1:])

    def _whole(self, mask: Operand) -> bool:
        """Whether a mask names all lanes."""
        found = self._constant(mask)
        return found is not None and found & _ALL_LANES == _ALL_LANES

    # ------------------------------------------------------------ threads

    def _special(self, name: str) -> _Bits:
        """What a special register varies with."""
        if name.startswith("%tid."):
            return self._thread(name[-1])
        if name == "%laneid":
            return tuple([1 << n if n < 5 else 0 for n in range(32)])
        if name.startswith("%lanemask"):
            return LANES
        if name == "%warpid":
            return THREADS & ~LANES
        if name.startswith(_FIXED):
            return 0
        return BLOCK if name.startswith(_OF_BLOCK) else EVERY

    def _thread(self, axis: str) -> _Bits:
        """The bits of a thread's number that each bit of ``%tid`` along an axis is made of."""
        x, y, z = (*self.block, 1, 1)[:3]
        n = "xyz".find(axis)
        if n < 0:
            return EVERY
        before, own = (1, x, x * y)[n], (x, y, z)[n]
        after = (x * y * z) // (before * own)
        lowest = before.bit_length() - 1
        if own == 1:
            return 0
        if before & before - 1 == 0 and (after == 1 or own & own - 1 == 0):
            bits = (own - 1).bit_length()
            return tuple([1 << lowest + b if b < bits else 0 for b in range(32)])
        if before % 32 == 0:
            return THREADS & ~LANES
        if n == 0 and own % 32 == 0:
            return tuple([1 << b if b < 5 else THREADS & ~LANES for b in range(32)])
        return THREADS

    # ------------------------------------------------------------ butterflies

    def _exchanged(self, i: Instr) -> int | None:
        """What remains after one step of a butterfly; None for other instructions."""
        ops = i.operands[1:]
        if i.op not in _COMMUTATIVE or len(ops) != 2 or not {"hi", "sat"}.isdisjoint(i.mods):
            return None
        a, b = map(self._origin, ops)
        for one, other in ((a, b), (b, a)):
            if other[0] == "exchanged" and other[2] == one:
                return self._read(sources(i)) & ~int(str(other[1]))
        return None

    def _origin(self, op: Operand, depth: int = 0) -> _Origin:
        """A register's value by where it comes from, through moves: ``("exchanged", bit, of)`` is what the
        lane whose number differs in a bit holds, ``("part", n, of)`` a word of a wider one."""
        names = registers(op)
        if isinstance(op, Vector):
            return self._packed([self._origin(x, depth) for x in op.items])
        if not isinstance(op, Reg) or depth > 8:
            return ("other", op)
        found = self._definitions.get(names[0], ())
        if len(found) != 1:
            return ("register", names[0])
        i = self.body[found[0]]
        if i.guard is not None:
            return ("register", names[0])
        ops = i.operands
        if i.op == "mov" and len(ops) == 2:
            if isinstance(ops[0], Vector):
                n = next(j for j, x in enumerate(ops[0].items) if isinstance(x, Reg) and x.name == names[0])
                return ("part", n, self._origin(ops[1], depth + 1))
            return self._origin(ops[1], depth + 1) if registers(ops[1]) else ("register", names[0])
        if i.op == "shfl" and "bfly" in i.mods and "sync" in i.mods and len(ops) > 4:
            _, _, lane, clamp, members = ops[:5]
            bit, c = self._constant(lane), self._constant(clamp)
            if c is not None and c & LANES == LANES and not c >> 8 & (bit or 0) and self._whole(members):
                of = self._origin(ops[1], depth + 1)
                if bit in (1, 2, 4, 8, 16) and of[0] != "other":
                    return ("exchanged", bit, of)
        return ("register", names[0])

    @staticmethod
    def _packed(items: Sequence[_Origin]) -> _Origin:
        """Words of one value that are put together again."""
        if all(x[0] == "part" and x[1] == n and x[2] == items[0][2] for n, x in enumerate(items)):
            return items[0][2]  # type: ignore[return-value]
        if all(x[0] == "exchanged" and x[1] == items[0][1] for x in items):
            inner = Uniformity._packed([x[2] for x in items])  # type: ignore[misc]
            return ("exchanged", items[0][1], inner)
        return ("packed", tuple(items))


_SPACES = frozenset({"global", "shared", "const", "param", "local"})


def _union(held: Iterable[_Bits]) -> int:
    found = 0
    for bits in held:
        if isinstance(bits, int):
            found |= bits
        else:
            for x in bits:
                found |= x
    return found


def _spread(bits: _Bits, size: int) -> tuple[int, ...]:
    """One mask for each of ``size`` bits."""
    if isinstance(bits, int):
        return (bits,) * size
    return bits[:size] if len(bits) >= size else (*bits, *[0] * (size - len(bits)))


def _carried(held: Sequence[tuple[int, ...]], size: int, lowest: int) -> tuple[int, ...]:
    """Sums: each bit is made of its own in all operands, and of those below from ``lowest`` on, where a carry
    may begin."""
    out: list[int] = []
    found = 0
    for n in range(size):
        here = 0
        for bits in held:
            here |= bits[n]
        out.append(here | found)
        if n >= lowest:
            found |= here
    return tuple(out)


def _product(held: Sequence[tuple[int, ...]], maybe: Sequence[int], size: int) -> tuple[int, ...]:
    """Products: by a power of two, bits move; else each bit is made of those that may come to it."""
    for one, other in ((0, 1), (1, 0)):
        if maybe[other] and maybe[other] & maybe[other] - 1 == 0 and not _union([held[other]]):
            by = maybe[other].bit_length() - 1
            return (*[0] * min(by, size), *held[one])[:size]
    return _carried(held, size, 0)


_ALL_BITS = (1 << 64) - 1


def _lowest(bits: int) -> int:
    """The number of the lowest bit set; 64 for none."""
    return (bits & -bits).bit_length() - 1 if bits else 64


def _from(n: int) -> int:
    """All bits from one on."""
    return _ALL_BITS >> n << n if n < 64 else 0


def _multiples(a: int, b: int) -> int:
    """The bits that may be set in a product."""
    return _from(_lowest(a) + _lowest(b)) if a and b else 0


def _join(a: _Bits, b: _Bits, size: int) -> _Bits:
    if isinstance(a, int) and isinstance(b, int):
        return a | b
    return tuple([x | y for x, y in zip(_spread(a, size), _spread(b, size), strict=True)])


__all__ = ["BLOCK", "EVERY", "LANES", "THREADS", "TIME", "Uniformity", "agree"]
