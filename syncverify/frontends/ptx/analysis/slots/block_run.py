"""One block as it runs, whatever lies in memory: each thread by itself, registers as forms of unknown words.

    pos[t] = flag;  __syncthreads();  x = pos[t - 1];  __syncthreads();  pos[t] += x;

Behind this, ``pos[7]`` is ``f6 + f7``, where ``f6`` and ``f7`` are 0 or 1. So it is for a whole scan, and for
a rank that counts by comparisons. What is of interest is who stores where, and when.

**Claim.** As far as an execution has no race, its registers and shared memory hold these numbers for some
values of the words.

*Proof.* Threads run one after the other between barriers of the block, lanes between their meetings. Without
a race what a thread reads was written before the last barrier, or by itself. A place that data makes may be
any between its bounds, so what lies there is a new word when it is read next. Where data decides on a branch,
both sides are run, and what they leave is one of two numbers, or a new word. ∎

What is not followed ends the run without an answer: branches on data around barriers or exchanges, strong
accesses, words by which one thread may wait for another, copies that engines make, several blocks in a
cluster, and more steps than there is time for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from syncverify.frontends.ptx.analysis.registers.thread_numbers import computed, logic
from syncverify.frontends.ptx.decode.memory import STRONG, Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Instr,
    Label,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import kind, width
from syncverify.frontends.ptx.values.form_arithmetic import Arithmetic
from syncverify.frontends.ptx.values.linear_forms import Bits, Choice, Form, Number, Words, given, literal
from syncverify.ir.launch_grid import Dims
from syncverify.model.events import Ev

#: Instructions that are executed at most, and branches on data inside of each other.
_STEPS, _DEEPEST = 600_000, 6
_SHARED = frozenset({"shared", "shared::cta"})
#: Where threads or lanes meet, or wait for others.
_MEETINGS = frozenset("bar barrier shfl vote redux match activemask elect".split())
#: What has no part in what is computed here.
_NOTHING = frozenset("membar fence prefetch prefetchu nanosleep pragma discard applypriority".split())
#: Whose results are data, and which change nothing else.
_READS = frozenset("mma ldmatrix tex tld4 suld".split())
_KNOWN = PURE | _MEETINGS | _NOTHING | _READS | frozenset("bra ret exit trap brkpt".split())
_LANES = 32


class NotFollowedError(Exception):
    """The run comes to something that is not followed."""


@dataclass(frozen=True, slots=True)
class SharedStore:
    """A store to shared memory. ``given``: by word, what it is where the store is made;
    ``phase``: how many barriers of the block came before; no place: anywhere, any number of times."""

    at: int
    thread: int
    phase: int
    place: int | Form | None
    given: Mapping[int, int]


@dataclass(slots=True)
class _Cells:
    """What lies in shared memory, by place, as far as it is known; ``below``: what did before a branch."""

    held: dict[int, tuple[int, Number]] = field(default_factory=dict)
    below: _Cells | None = None
    gone: list[tuple[int, int]] = field(default_factory=list)

    def read(self, at: int, size: int) -> Number | None:
        found = self.held.get(at)
        if found is not None:
            return found[1] if found[0] == size else None
        if self.below is None or self._touched(at, size):
            return None
        return self.below.read(at, size)

    def _touched(self, at: int, size: int) -> bool:
        if any(low < at + size and at < high for low, high in self.gone):
            return True
        return any((x := self.held.get(k)) is not None and k + x[0] > at for k in range(at - 15, at + size))

    def name(self, at: int, size: int, value: Number) -> None:
        """What is found in a place that nothing was known of: it lay there before."""
        if self.below is not None and not self._touched(at, size):
            self.below.name(at, size, value)
        else:
            self.write(at, size, value)

    def write(self, at: int, size: int, value: Number) -> None:
        found = self.held.get(at)
        if found is None or found[0] != size:
            self.clear(at, at + size)
        self.held[at] = size, value

    def clear(self, low: int, high: int) -> None:
        """Nothing is known any more of some bytes."""
        places = range(low - 15, high) if high - low < len(self.held) else tuple(self.held)
        for k in places:
            x = self.held.get(k)
            if x is not None and k < high and k + x[0] > low:
                del self.held[k]
        if self.below is not None:
            self.gone.append((low, high))


@dataclass(slots=True)
class _Thread:
    number: int
    at: int = 0
    registers: dict[str, Number] = field(default_factory=dict)
    given: dict[int, int] = field(default_factory=dict)
    depth: int = 0


@dataclass(frozen=True, slots=True)
class _Sides:
    """The code between a branch and where its sides meet again, which begins at ``stop``: its blocks, whether
    threads meet there, whether any of it may repeat, and the registers that it writes."""

    inside: frozenset[int]
    stop: int
    meets: bool
    repeats: bool
    written: tuple[str, ...]


class BlockRun:
    """The run of a block of one shape; ``shared``: where its shared variables lie."""

    def __init__(self, flow: Flow, block: Dims, shared: Mapping[str, int]) -> None:
        self.flow, self.block, self.shared = flow, block, shared
        self.words = Words()
        self.values = Arithmetic(self.words)
        self.stores: list[SharedStore] = []
        self.registers: list[dict[str, Number]] = []  # of each thread
        self._types = flow.function.registers
        self._cells = _Cells()
        self._phase = self._steps = self._asked = 0
        self._choices: dict[int, _Sides] = {}

    def run(self) -> list[SharedStore]:
        """The stores to shared memory. Raises NotFollowedError."""
        self._possible()
        x, y, z = self.block
        threads = [_Thread(n) for n in range(x * y * z)]
        self.registers = [t.registers for t in threads]
        waiting = threads
        while waiting:
            for t in waiting:
                self._go_on(t, len(self.flow.body))
            waiting = self._meet([t for t in threads if t.at < len(self.flow.body)])
            if self._met_without(threads, waiting):
                raise NotFollowedError("threads that have stored leave before a barrier")
        return self.stores

    def _met_without(self, threads: Sequence[_Thread], waiting: Sequence[_Thread]) -> bool:
        """Whether threads go on past a barrier of the block that others do not come to which have stored:
        it orders nothing with what these did (K22)."""
        if self._asked == self._phase:
            return False
        self._asked = self._phase
        stored = {s.thread for s in self.stores}
        return bool(waiting) and any(t.number in stored and t.at >= len(self.flow.body) for t in threads)

    def _possible(self) -> None:
        if _takes_over(self.flow.body):
            raise NotFollowedError("threads may wait for words of others")
        for i in self.flow.body:
            a = decode_place(i)
            if a is not None and (a.space in _SHARED and a.strong):
                raise NotFollowedError(f"line {i.line}: a strong access of shared memory")
            if a is not None and a.space == "generic":
                raise NotFollowedError(f"line {i.line}: a generic access")
            if "cluster" in i.mods and i.op == "barrier":
                raise NotFollowedError(f"line {i.line}: a cluster")
            if i.op not in _KNOWN and a is None:
                raise NotFollowedError(f"line {i.line}: {i.name}")

    # ------------------------------------------------------------ threads

    def _go_on(self, t: _Thread, stop: int) -> None:
        """A thread up to a meeting, or to an instruction."""
        body = self.flow.body
        while t.at < len(body) and t.at != stop:
            i = body[t.at]
            if i.op in _MEETINGS:
                if t.depth:
                    raise NotFollowedError(f"line {i.line}: data decides who comes")
                return
            self._steps += 1
            if self._steps > _STEPS:
                raise NotFollowedError("it takes too many steps")
            self._step(t, i)

    def _step(self, t: _Thread, i: Instr) -> None:
        holds: int | Form = 1 if i.guard is None else self._holds(t, i)
        if isinstance(holds, int) and not holds:
            t.at += 1
            return
        if i.op == "bra":
            self._branch(t, i, holds)
            return
        if i.op in ("ret", "exit", "trap", "brkpt"):
            if not isinstance(holds, int):
                raise NotFollowedError(f"line {i.line}: data decides who leaves")
            t.at = len(self.flow.body)
            return
        if isinstance(holds, int):
            self._do(t, i)
        else:
            self._perhaps(t, i, holds)
        t.at += 1

    def _holds(self, t: _Thread, i: Instr) -> int | Form:
        guard = i.guard
        found = self._read(t, guard) if guard is not None else 1
        p = self.values.predicate(found)
        p = self.values.opposite(p) if i.negated else p
        here = literal(p)
        return p if here is None or here[0] not in t.given else int(t.given[here[0]] == here[1])

    def _perhaps(self, t: _Thread, i: Instr, p: Form) -> None:
        """An instruction under a guard of data."""
        before = {name: t.registers.get(name) for name in results(i)}
        cells, known = self._cells, dict(t.given)
        self._cells = _Cells(below=cells)
        self._suppose(t, p, holds=True)
        self._do(t, i)
        inner, self._cells = self._cells, cells
        t.given = known
        for name, old in before.items():
            t.registers[name] = self._merged(p, t.registers[name], old, name)
        self._join(p, inner, _Cells(below=cells))

    def _suppose(self, t: _Thread, p: Form, *, holds: bool) -> None:
        here = literal(p)
        if here is not None:
            t.given[here[0]] = here[1] if holds else 1 - here[1]

    def _merged(self, p: Form, yes: Number | None, no: Number | None, name: str) -> Number:
        if yes is None or no is None:
            return self._any(name)
        return self.values.chosen(p, yes, no, width(self._types.get(name, "b64")))

    def _any(self, name: str) -> Form:
        return self.words.fresh(0, (1 << width(self._types.get(name, "b64"))) - 1)

    def _join(self, p: Form, yes: _Cells, no: _Cells) -> None:
        """What two sides of a branch leave in memory."""
        cells = self._cells
        for low, high in (*yes.gone, *no.gone):
            cells.clear(low, high)
        for at, (size, _) in (*yes.held.items(), *no.held.items()):
            a, b = yes.read(at, size), no.read(at, size)
            if a is None or b is None:
                cells.clear(at, at + size)
            else:
                cells.write(at, size, self.values.chosen(p, a, b, 8 * size))

    def _branch(self, t: _Thread, i: Instr, holds: int | Form) -> None:
        label = i.operands[0]
        if not isinstance(label, Label):
            raise NotFollowedError(f"line {i.line}: a branch by a table")
        if isinstance(holds, int):
            t.at = label.target
            return
        here = self.flow.block_of[t.at]
        if here not in self._choices:
            self._choices[here] = self._sides(here)
        sides = self._choices[here]
        if sides.meets:
            raise NotFollowedError(f"line {i.line}: data decides about a barrier or an exchange")
        if sides.repeats or t.depth >= _DEEPEST:
            self._anything(t, sides.inside)
            t.at = sides.stop
            return
        self._both(t, holds, label.target, sides)

    def _sides(self, here: int) -> _Sides:
        """What lies behind the branch at a block's end."""
        flow = self.flow
        joint, inside = flow.join(here), frozenset(flow.between(here))
        stop = flow.blocks[joint].lo if joint < flow.end else len(flow.body)
        body = [flow.body[k] for b in inside for k in range(flow.blocks[b].lo, flow.blocks[b].hi)]
        repeats = here in inside or any(loop <= inside for loop in flow.loops)
        written = tuple(dict.fromkeys(name for i in body for name in results(i)))
        return _Sides(inside, stop, any(i.op in _MEETINGS for i in body), repeats, written)

    def _both(self, t: _Thread, p: Form, target: int, found: _Sides) -> None:
        cells, registers, known, stop = self._cells, t.registers, t.given, found.stop
        sides: list[tuple[dict[str, Number], _Cells]] = []
        for at, holds in ((target, True), (t.at + 1, False)):
            side = _Thread(t.number, at, dict(registers), dict(known), t.depth + 1)
            self._suppose(side, p, holds=holds)
            self._cells = _Cells(below=cells)
            self._go_on(side, stop)
            sides.append((side.registers, self._cells))
        self._cells = cells
        (yes, left), (no, right) = sides
        for name in found.written:
            a, b = yes.get(name), no.get(name)
            registers[name] = self._merged(p, a, b, name)
        t.at = stop
        self._join(p, left, right)

    def _anything(self, t: _Thread, inside: frozenset[int]) -> None:
        """Code that is run in an unknown way."""
        blocks = (self.flow.blocks[b] for b in inside | {self.flow.block_of[t.at]})
        for k in (k for b in blocks for k in range(b.lo, b.hi)):
            i = self.flow.body[k]
            for name in results(i):
                t.registers[name] = self._any(name)
            a = decode_place(i)
            if a is not None and a.space in _SHARED and a.code != Ev.READ:
                self._cells.clear(0, 1 << 32)
                self.stores.append(SharedStore(k, t.number, self._phase, None, {}))

    # ------------------------------------------------------------ meetings

    def _meet(self, waiting: list[_Thread]) -> list[_Thread]:
        """The threads that go on: lanes that are all at one exchange, or all threads at a barrier."""
        body = self.flow.body
        gone_on: list[_Thread] = []
        by_warp: dict[int, list[_Thread]] = {}
        for t in waiting:
            by_warp.setdefault(t.number // _LANES, []).append(t)
        for lanes in by_warp.values():
            for at in dict.fromkeys(t.at for t in lanes):
                i, here = body[at], [t for t in lanes if t.at == at]
                if not _of_block(i) and self._exchange(i, here, lanes):
                    gone_on += here
        if gone_on or not waiting:
            return gone_on
        if not all(_of_block(body[t.at]) and self._whole(t, body[t.at]) for t in waiting):
            raise NotFollowedError("lanes wait for others")
        self._phase += 1
        for t in waiting:
            for name in results(body[t.at]):
                t.registers[name] = self.words.made(("bar", self._phase, name), 0, (1 << 32) - 1)
            t.at += 1
        return waiting

    def _whole(self, t: _Thread, i: Instr) -> bool:
        """Whether a barrier is the one of all threads."""
        if "arrive" in i.mods or i.guard is not None:
            return False
        ops = i.operands[1:] if "red" in i.mods else i.operands
        given = [self._read(t, op) for op in ops[:1]] if ops else [0]
        threads = self.block[0] * self.block[1] * self.block[2]
        counts = [self._read(t, ops[1])] if len(ops) > 1 and "red" not in i.mods else [threads]
        if "red" in i.mods and len(ops) > 2:
            return False
        return given == [0] and counts == [threads]

    def _exchange(self, i: Instr, here: Sequence[_Thread], lanes: Sequence[_Thread]) -> bool:
        """Whether the lanes that are at an instruction go on, with what it brings them."""
        if i.guard is not None:
            raise NotFollowedError(f"line {i.line}: an exchange under a guard")
        masks = {0xFFFFFFFF} if i.op in ("activemask", "elect") else {self._mask(t, i) for t in here}
        if len(masks) != 1:
            raise NotFollowedError(f"line {i.line}: lanes name several masks")
        (mask,) = masks
        if mask is None or any(mask >> (t.number % _LANES) & 1 == 0 for t in here):
            raise NotFollowedError(f"line {i.line}: a mask is not known")
        if i.op in ("activemask", "elect"):
            for t in here:
                self._unknown(t, i)
                t.at += 1
            return True
        named = [t for t in lanes if mask >> (t.number % _LANES) & 1]
        if len(here) < len(named):
            return False
        of = {t.number % _LANES: t for t in here}
        if i.op == "vote":
            self._vote(i, of)
        elif i.op == "shfl":
            self._shuffle(i, of)
        elif i.op != "bar":
            for t in here:
                self._unknown(t, i)
        for t in here:
            t.at += 1
        return True

    def _mask(self, t: _Thread, i: Instr) -> int | None:
        found = self._read(t, i.operands[-1])
        return found & 0xFFFFFFFF if isinstance(found, int) else None

    def _vote(self, i: Instr, of: Mapping[int, _Thread]) -> None:
        asked = {n: self.values.predicate(self._read(t, i.operands[1])) for n, t in of.items()}
        bits = Bits(tuple(asked.get(n, 0) for n in range(_LANES)))
        number = self.values.number(bits)
        for t in of.values():
            if "ballot" in i.mods:
                self._set(t, i.operands[0], number)
            else:
                how = ("vote", i.mods, tuple(sorted(asked)), self.values.key(bits))
                self._set(t, i.operands[0], self.words.made(how, 0, 1))

    def _shuffle(self, i: Instr, of: Mapping[int, _Thread]) -> None:
        brought = {n: self._read(t, i.operands[1]) for n, t in of.items()}
        both = i.operands[0]
        first, second = (both.first, both.second) if isinstance(both, Pair) else (both, None)
        steps = {n: (self._read(t, i.operands[2]), self._read(t, i.operands[3])) for n, t in of.items()}
        for n, t in of.items():
            step, limit = steps[n]
            if not isinstance(step, int) or not isinstance(limit, int):
                self._unknown(t, i)
                continue
            source, inside = self.values.source(i.mods, n, step & 31, limit)
            value = brought.get(source if inside else n)
            self._set(t, first, self.words.fresh(0, (1 << 32) - 1) if value is None else value)
            if second is not None:
                self._set(t, second, int(inside))

    # ------------------------------------------------------------ instructions

    def _do(self, t: _Thread, i: Instr) -> None:
        if i.op in _NOTHING:
            return
        access = self._accesses.get(id(i))
        if access is not None:
            self._access(t, i, access)
            return
        if i.op not in PURE or not isinstance(i.operands[0], Reg):
            self._unknown(t, i)
            return
        args = [self._read(t, op) for op in i.operands[1:]]
        found: Number | None = None
        if all(isinstance(x, int) for x in args) and i.mods:
            numbers = [x for x in args if isinstance(x, int)]
            last = i.mods[-1]
            if last == "pred":
                found = logic(i, [x & 1 for x in numbers])
            elif kind(last) in ("u", "s", "b") and not {"hi", "sat", "cc"} & set(i.mods):
                found = None if i.op == "cvta" else computed(i, numbers)
        self._set(t, i.operands[0], self.values.of(i, args, self._width(i)) if found is None else found)

    @cached_property
    def _accesses(self) -> dict[int, Access]:
        return {id(i): a for i in self.flow.body if (a := decode_place(i)) is not None}

    def _width(self, i: Instr) -> int:
        into = i.operands[0]
        return width(self._types.get(into.name, "b64")) if isinstance(into, Reg) else 64

    def _unknown(self, t: _Thread, i: Instr) -> None:
        for name in results(i):
            t.registers[name] = self._any(name)

    def _access(self, t: _Thread, i: Instr, a: Access) -> None:
        if a.space not in _SHARED:
            if a.code != Ev.READ and a.code != Ev.ATOMIC:
                return
            if a.space == "param" and isinstance(a.address.base, Sym):
                self._load_parameter(t, i, a)
            else:
                self._loaded(t, i, a)
            return
        place = self._place(t, a)
        if a.code == Ev.READ and isinstance(place, int):
            for n, op in enumerate(a.elements):
                at = place + n * a.size
                value = self._cells.read(at, a.size)
                if value is None:
                    value = self.words.fresh(0, (1 << 8 * a.size) - 1)
                    self._cells.name(at, a.size, value)
                self._set(t, op, self._extended(value, i, op, 8 * a.size))
            return
        if a.code == Ev.READ:
            self._loaded(t, i, a)
            return
        if a.code == Ev.WRITE and isinstance(place, int):
            self.stores.append(SharedStore(t.at, t.number, self._phase, place, dict(t.given)))
            for n, op in enumerate(a.elements):
                self._cells.write(place + n * a.size, a.size, self._narrow(self._read(t, op), 8 * a.size))
            return
        self._elsewhere(t, i, a, place)

    def _extended(self, x: Number, i: Instr, op: Operand, bits: int) -> Number:
        """What a load makes of the bits that lie in memory, in its register."""
        held = width(self._types.get(op.name, "b64")) if isinstance(op, Reg) else 64
        if held <= bits:
            return x
        signed = kind(i.mods[-1]) == "s"
        if isinstance(x, int):
            return (x - (signed and x >> bits - 1 << bits)) & (1 << held) - 1
        found = self.words.within(x, bits, signed=signed) if isinstance(x, Form) else None
        if found is not None:
            return found
        how = ("extended", bits, signed, held, self.values.key(x))
        return self.words.made(how, 0, (1 << held) - 1)

    def _narrow(self, x: Number, bits: int) -> Number:
        if isinstance(x, int):
            return x & (1 << bits) - 1
        if bits < 32 and not (isinstance(x, Form) and self.words.within(x, bits, signed=False) == x):
            return self.words.made(("low", bits, self.values.key(x)), 0, (1 << bits) - 1)
        return x

    def _elsewhere(self, t: _Thread, i: Instr, a: Access, place: Number) -> None:
        """A store at a place of data, or an atomic."""
        for each, known in self.values.cases(place, t.given):
            if a.code == Ev.WRITE:
                self.stores.append(SharedStore(t.at, t.number, self._phase, each, known))
            low, high = self.words.bounds(each)
            inside = low >= 0 and high + a.bytes <= 1 << 32
            self._cells.clear(*((low, high + a.bytes) if inside else (0, 1 << 32)))
        if i.op == "atom":
            self._loaded(t, i, a)

    def _place(self, t: _Thread, a: Access) -> Number:
        base = self._read(t, a.address.base)
        return self.values.sum(base, a.address.offset, 32)

    def _load_parameter(self, t: _Thread, i: Instr, a: Access) -> None:
        base = a.address.base
        for n, op in enumerate(a.elements):
            name = (base.name if isinstance(base, Sym) else "", a.address.offset + n * a.size, a.size)
            value = self.words.made(("parameter", *name), 0, (1 << 8 * a.size) - 1)
            self._set(t, op, self._extended(value, i, op, 8 * a.size))

    def _loaded(self, t: _Thread, i: Instr, a: Access) -> None:
        if i.op == "red":
            return
        for op in a.elements:
            value = self.words.fresh(0, (1 << 8 * a.size) - 1)
            self._set(t, op, self._extended(value, i, op, 8 * a.size))

    def _set(self, t: _Thread, op: Operand, value: Number) -> None:
        if isinstance(op, Reg):
            of_predicate = isinstance(value, int) and self._types.get(op.name) == "pred"
            t.registers[op.name] = value & 1 if of_predicate and isinstance(value, int) else value
        elif isinstance(op, Vector):
            for part in op.items:
                self._set(t, part, self._any(""))

    def _read(self, t: _Thread, op: Operand) -> Number:
        match op:
            case Reg(name):
                found = t.registers.get(name)
                if found is None:
                    found = t.registers[name] = self._any(name)
                return self._given(t, found)
            case Imm(value):
                return value
            case Not(reg):
                return self.values.opposite(self.values.predicate(self._read(t, reg)))
            case Special(name):
                return self._special(t.number, name)
            case Sym(name, offset):
                if name in self.shared:
                    return self.shared[name] + offset
                return self.words.made(("symbol", name, offset), 0, (1 << 64) - 1)
            case FloatImm(bits, size):
                return self.words.made(("float", bits, size), 0, (1 << size) - 1)
        return self.words.fresh(0, (1 << 64) - 1)

    def _given(self, t: _Thread, x: Number) -> Number:
        """What a branch on data says of a predicate."""
        if isinstance(x, Form):
            found: int | Form = x
            for word in t.given.keys() & x.terms.keys():
                found = given(found, word, t.given[word])
            return found
        if isinstance(x, Choice):
            here = literal(x.predicate)
            if here is not None and here[0] in t.given:
                return x.yes if t.given[here[0]] == here[1] else x.no
        return x

    def _special(self, n: int, name: str) -> Number:
        x, y, _ = self.block
        each = {"x": n % x, "y": n // x % y, "z": n // (x * y)}
        if name.startswith("%tid."):
            return each[name[-1]]
        if name.startswith("%ntid."):
            return self.block["xyz".index(name[-1])]
        lane = n % _LANES
        masks = {"lt": (1 << lane) - 1, "le": (2 << lane) - 1, "eq": 1 << lane}
        masks |= {"ge": 0xFFFFFFFF ^ masks["lt"], "gt": 0xFFFFFFFF ^ masks["le"]}
        if name.startswith("%lanemask_"):
            return masks[name[-2:]]
        if name == "%laneid":
            return lane
        if name.startswith(("%ctaid", "%nctaid")):
            return self.words.made(("special", name), 0, (1 << 31) - 1)
        return self.words.fresh(0, (1 << 64) - 1)


def _takes_over(body: Sequence[Instr]) -> bool:
    """Whether what a thread reads may order it after another one that writes that: what it finds in memory
    then is not what lay there at the last barrier."""
    reads = any(i.op == "atom" or (i.op == "ld" and not STRONG.isdisjoint(i.mods)) for i in body)
    takes = any(i.op in ("fence", "membar") or not {"acquire", "acq_rel"}.isdisjoint(i.mods) for i in body)
    return reads and takes


def _of_block(i: Instr) -> bool:
    """Whether an instruction is a barrier of the block."""
    return i.op in ("bar", "barrier") and "warp" not in i.mods


__all__ = ["BlockRun", "NotFollowedError", "SharedStore"]
