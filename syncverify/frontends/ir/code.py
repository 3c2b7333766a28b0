"""A kernel body as resumable code: one Python function per stretch between two events.

An agent's state is a flat list ``r``: program counter, queue, class, CTA, elected lane, builtins, then
registers. A register holds an int, or a ``PerLane`` where the lanes of the class differ. A function takes
``(r, a)``, ``a`` being the answer to the last event, sets ``r[0]`` and returns an event, or None where it
only jumps. Events are memoized on what decides them, so loops in their steady state only attempt up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.generated_code import compiled
from syncverify.base.reason import Cause, Reason
from syncverify.base.source import InputError
from syncverify.frontends.ir.agent_canonical import Period, live_slots, periods
from syncverify.frontends.ir.code_text import (  # fmt: skip
    BUILTIN_SLOTS,
    CLASS,
    CTA,
    ELECTED,
    ENDED,
    ENTRY,
    FIRST_REGISTER,
    PC,
    QUEUE,
    QUEUED,
    Block,
    Disagreement,
    Registers,
    Slow,
    UntriedLanesError,
    Vecs,
    symbolic,
)
from syncverify.frontends.ir.data import DataOps
from syncverify.frontends.ir.dispatch import operation
from syncverify.frontends.ir.event_cache import bent, keeps
from syncverify.frontends.ir.loop_havoc import IterationText
from syncverify.frontends.ir.operations import Op, Where
from syncverify.frontends.ir.tables import Tables
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import (
    closure,
    condition,
    counting,
    mentions,
    once_named,
    plain_sum,
    statements,
)
from syncverify.ir.expr import Binary, Expr, Int, Var, names
from syncverify.ir.text.printer import print_stmt
from syncverify.ir.value_uses import (
    awaited,
    carried,
    fence_covers_reads,
    lane_differences,
    pinned,
    refilled,
    stored_value,
)
from syncverify.model.elected_lane import NOBODY
from syncverify.model.events import END, Ev, Event, Site
from syncverify.symbolic.context import NotConcrete, SymbolicContext


class Program:
    """A kernel compiled for given values of parameters and grid: sites and code, shared by its systems."""

    def __init__(
        self,
        kernel: n.Kernel,
        values: Mapping[str, int],
        tables: Tables,
        symbols: Iterable[str] = (),
        space: SymbolicContext | None = None,
    ) -> None:
        self.kernel = kernel
        self.symbols = tuple(symbols)  # parameters held in registers, by whatever represents them
        self.space = space  # where those are terms
        self.tables = tables
        self.ops = DataOps(tables)
        self.known: dict[str, Expr] = {name: Int(v) for name, v in values.items()}
        self.varying, self.registers, self.differing = lane_differences(kernel)
        self.sites: list[Site] = []
        self.classes: list[tuple[tuple[int, ...], int]] = []  # lanes, mask of the warp's lanes
        self._class_ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self.vecs = Vecs()
        self._code: dict[bool, Code] = {}

    def code(self, several_lanes: bool) -> Code:
        """The code for classes of several lanes, or of one; both have the same blocks."""
        if several_lanes not in self._code:
            self._code[several_lanes] = Code(self, several_lanes)
        return self._code[several_lanes]

    @property
    def kernel_sizes(self) -> tuple[str, ...]:
        """The parameters among the symbols."""
        return tuple(p.name for p in self.kernel.params if p.name in self.symbols)

    def numbers(self, values: list[Any], op: Op) -> list[Any]:
        """Operands of an event: numbers, or one for each lane."""
        if self.space is None:
            raise NotConcrete("a size reaches an operand")
        return self.space.numbers(values, op.ahead, op.places)

    def class_id(self, warp: int, lanes: tuple[int, ...], warp_mask: int) -> int:
        key = (warp, lanes)
        if key not in self._class_ids:
            self._class_ids[key] = len(self.classes)
            self.classes.append((lanes, warp_mask))
        return self._class_ids[key]


@dataclass(slots=True)
class Control:
    """Everything that control, shared addresses, counts and parities depend on, names made unique."""

    sinks: list[Expr] = field(default_factory=list)
    loops: dict[str, tuple[Expr, Expr, Expr]] = field(default_factory=dict)  # variable: lo, hi, step
    addresses: list[Expr] = field(default_factory=list)  # of global memory, where it is tracked
    assigned: dict[str, list[tuple[Expr, tuple[str, ...]]]] = field(
        default_factory=dict
    )  # inside which loops


class Code(IterationText):
    """The generated functions of one program, for classes of one lane or of several."""

    def __init__(self, program: Program, several: bool) -> None:
        super().__init__(program.known, program.varying if several else frozenset(), program.vecs)
        self.program = program
        self.registers, self.differing = program.registers, program.differing
        for name in program.symbols:
            self._name(name)
        self.input_registers = frozenset(self.slots[x] for x in program.kernel_sizes)
        self.iteration_slots, self.hesitant = {}, set()
        self.named_once = once_named(program.kernel.body) if program.space is not None else frozenset()
        #: registers whose values matter -> the slot of the reads that have yet to arrive in them, a bit each
        self.refilled, self.holders = refilled(program.kernel), awaited(program.kernel)
        waiting = frozenset[str]().union(*self.holders.values())
        self.pending = {name: self._slot() for name in sorted(waiting)}
        self.handles = 0
        self.sites_seen = 0
        self.control = Control()
        self.inside: list[str] = []  # variables of the loops around
        self.answered: set[str] = set()  # registers that elections and answers set
        self._kept: dict[int, tuple[tuple[int, Period], ...]] | None = None
        self.blocks = self._compile(program.kernel.body)

    def _compile(self, body: tuple[n.Stmt, ...]) -> list[Block]:
        for s in statements(body):
            if isinstance(s, n.Let | n.Assign | n.LoadIndex):
                self._name(s.name)
            elif isinstance(s, n.Elect | n.MbarrierTest):
                self.answered.add(s.name)
            elif isinstance(s, n.MbarrierArrive) and s.token:
                self.answered.add(s.token)
        for name in sorted(self.answered):
            self._name(name)
        self._open(QUEUED)
        self._text("q = r[1]")
        self._text(f"if q[1][0] != {int(Ev.UNKNOWN)}:")  # nothing follows an UNKNOWN
        self._text("    r[0], r[1] = (q[0], ()) if len(q) == 2 else (0, (q[0], *q[2:]))")
        self._text("return q[1]")
        self.count = ENTRY + 1
        self._open(ENTRY)
        self._body(body)
        self.site = self._site(n.Exit(span=self.program.kernel.span))
        self.program.sites[self.site] = Site(self.program.kernel.span, END)
        self._jump(ENDED)
        self._open(ENDED)
        self._text("r[0] = 1")
        self._text(f"return {self._constant((Ev.EXIT, self.site))}")
        self.text = "\n".join(self.lines)
        try:
            exec(compiled(self.text, self.filename), self.space)
        except (SyntaxError, MemoryError):
            raise InputError("an expression is nested too deeply", self.program.kernel.span) from None
        return [self.space[f"b{i}"] for i in range(self.count)]

    def kept(self, block: int) -> tuple[tuple[int, Period], ...]:
        """The slots that matter from a block on, with their periods (None: exactly)."""
        if self._kept is None:
            builtins = {BUILTIN_SLOTS[x] for x in self.program.symbols if x in BUILTIN_SLOTS}
            live = live_slots(self.text, FIRST_REGISTER, builtins)
            control = self.control
            exact = [*control.sinks, *control.addresses, *(e for b in control.loops.values() for e in b)]
            assigned = {name: [e for e, _ in given] for name, given in control.assigned.items()}
            period = {self.slots[x]: p for x, p in periods(exact, assigned).items() if x not in self.answered}
            self._kept = {b: tuple((s, period.get(s)) for s in sorted(found)) for b, found in live.items()}
        return self._kept[block]

    @property
    def filename(self) -> str:
        return f"<events of {self.program.kernel.name}>"

    def site_at(self, line: int) -> int:
        """The site that a line of the generated text belongs to."""
        return self.line_sites[line - 1] if 0 < line <= len(self.line_sites) else 0

    def _site(self, s: n.Stmt) -> int:
        """The statement's site; both codes of a program visit statements in the same order."""
        self.sites_seen += 1
        if len(self.program.sites) < self.sites_seen:
            self.program.sites.append(Site(s.span, print_stmt(s)))
        return self.sites_seen - 1

    # ------------------------------------------------------------ statements

    def _body(self, body: tuple[n.Stmt, ...]) -> None:
        for s in body:
            self._stmt(s)

    def _stmt(self, s: n.Stmt) -> None:
        self.site = self._site(s)
        match s:
            case n.If(cond, then, orelse):
                self._if(cond, then, orelse)
            case n.Role(_, unit, lo, hi, body):
                var = Var({"threads": "tid", "warps": "warp", "warpgroups": "wg"}[unit])
                self._if(Binary("and", Binary("<=", lo, var), Binary("<", var, hi)), body, ())
            case n.For():
                self._for(s)
            case n.Let(name, value) | n.Assign(name, value):
                e = self._ready(value)
                self.control.assigned.setdefault(name, []).append((e, tuple(self.inside)))
                counted = e if self.program.space is None else counting(e, set(self.program.symbols))
                text = self._choose(name, e) or self._value(counted, decision=False)
                self._text(f"r[{self._name(name)}] = {text}")
                if name in self.named_once and names(e) <= set(self.program.symbols) and plain_sum(e):
                    self.scope = {**self.scope, name: e}
            case n.LoadIndex(_, region):
                text = Reason(f"control depends on data loaded from {region.tensor}", Cause.DATA)
                self._stuck((Ev.UNKNOWN, self.site, text))
            case n.Exit():
                self._text(f"r[0] = {ENDED}")
                self._text(f"return {self._constant((Ev.EXIT, self.site))}")
                self._open(self._label())
            case n.Elect(name):
                self._elect(name)
            case _:
                found = carried(s)
                if found is not None:
                    self._carry(*found)
                if not isinstance(s, n.Compute):
                    self._operation(s)

    def _stuck(self, event: Event) -> None:
        label = self._label()
        self._jump(label)
        self._open(label)
        self._text(f"return {self._constant(event)}")
        self._open(self._label())

    def _if(self, cond: Expr, then: tuple[n.Stmt, ...], orelse: tuple[n.Stmt, ...]) -> None:
        e = self._ready(cond)
        self.control.sinks.append(e)
        join = self._label()
        other = self._label() if orelse else join
        test = self._value(e, decision=True) if self._varies(e) else condition(e, self.slots)
        self._text(f"if not {test}:")
        self._text(f"    r[0] = {other}")
        self._text("    return None")
        site = self.site
        self._body(then)
        if orelse:
            self._jump(join)
            self.site = site
            self._open(other)
            self._body(orelse)
        self._jump(join)
        self.site = site
        self._open(join)

    def _for(self, s: n.For) -> None:
        site = self.site
        var, end = self._slot(), self._slot()
        lo, hi, step = self._ready(s.lo), self._ready(s.hi), self._ready(s.step)
        inner = f"{s.var}@{var}"
        self.slots[inner] = var
        self.control.loops[inner] = (lo, hi, step)
        for target, e in ((var, lo), (end, hi)):
            self._text(f"r[{target}] = {self._value(e, decision=True)}")
        stride = str(step.value) if isinstance(step, Int) else None
        if stride is None:
            slot = self._slot()
            self._text(f"r[{slot}] = {self._value(step, decision=True)}")
            stride = f"r[{slot}]"
        if not isinstance(step, Int) or step.value <= 0:
            reason = self._constant((Ev.UNKNOWN, site, "the step of a loop must be positive"))
            self._text(f"if {stride} <= 0:")
            self._text(f"    r[0], r[1] = {QUEUED}, (r[0], {reason})")
            self._text("    return None")
        turning = self._turning(s)
        self._begin(turning, var)
        body, after = self._label(), self._label()
        self._text(f"r[0] = {body} if r[{var}] < r[{end}] else {after}")
        self._text("return None")
        self._open(body)
        outer = self.scope
        self.scope = {**outer, s.var: Var(inner)}
        self.inside.append(inner)
        self._body(s.body[: turning.first])
        if turning.round_robin:
            self._take(turning, "1")
        self._body(s.body[turning.first :])
        self.inside.pop()
        self.scope = outer
        self.site = site
        self._next(turning)
        self._text(f"i = r[{var}] = r[{var}] + {stride}")
        self._text(f"r[0] = {body} if i < r[{end}] else {after}")
        self._text("return None")
        self._open(after)

    def _elect(self, name: str) -> None:
        self._emit(self.program.ops.elect(self.site))
        slot = self._name(name)
        program = self.program

        def slow(r: Registers, key: Any) -> Any:
            lanes, warp_mask = program.classes[r[CLASS]]
            if why := r[ELECTED].unrepresented(sum(1 << lane for lane in lanes)):
                raise UntriedLanesError(why)
            lowest = (warp_mask & -warp_mask).bit_length() - 1
            elected = r[ELECTED].lane
            chosen = elected if r[ELECTED] == NOBODY or warp_mask >> elected & 1 else lowest
            memo[key] = v = program.vecs.register(int(lane == chosen) for lane in lanes)
            return v

        memo: dict[Any, Any] = {}
        m, f = self._constant(memo), self._constant(slow)
        self._text(f"k = (r[{CLASS}], r[{ELECTED}])")
        self._text(f"r[{slot}] = {m}[k] if k in {m} else {f}(r, k)")

    # ------------------------------------------------------------ value registers

    def _use(self, registers: Iterable[str]) -> None:
        """Events for reads that must have arrived here: what was computed from them is needed."""
        needed = sorted(self.pending.keys() & set(registers))
        if not needed:
            return
        label = self._label()
        self._jump(label)
        self._open(label)
        self._text(f"m = {' | '.join(f'r[{self.pending[x]}]' for x in needed)}")
        self._text("if m:")
        self._text("    h = m & -m")
        for x in self._alike(needed):
            self._text(f"    r[{self.pending[x]}] &= ~h")
        self._text(f"    r[0] = {label}")
        self._text(f"    return ({self._constant(Ev.USE)}, {self.site}, h.bit_length() - 1)")

    def _alike(self, registers: Iterable[str]) -> list[str]:
        """The registers that may wait for a read that one of these waits for."""
        wanted = set(registers)
        return sorted(set[str]().union(*(h for h in self.holders.values() if not h.isdisjoint(wanted))))

    def _carry(self, name: str, read: Iterable[str]) -> None:
        """What is computed waits for all that its operands wait for."""
        if name in self.pending:
            slots = sorted(self.pending[x] for x in self.pending.keys() & set(read))
            self._text(f"r[{self.pending[name]}] = {' | '.join(f'r[{i}]' for i in slots) or '0'}")

    def _arrived(self, name: str | None) -> None:
        if name in self.pending:
            self._text(f"r[{self.pending[name]}] = 0")

    def _read(self, name: str, r: n.Region) -> None:
        """A read whose value matters; what an earlier run of it brought is distinguished no more."""
        if name not in self.pending or r.buffer not in self.refilled:
            self._arrived(name)
            self._emit(self.program.ops.read(r, self.site, -1))
            return
        bit = 1 << self.handles
        for x in sorted(self.holders[name] - {name}):
            self._text(f"r[{self.pending[x]}] &= {~bit}")
        self._text(f"r[{self.pending[name]}] = {bit}")
        self._emit(self.program.ops.read(r, self.site, self.handles))
        self.handles += 1

    def _reads_over(self, fence: n.Fence | n.FenceProxyAsync) -> None:
        """Behind a fence the reads that it covers are over: a use of their values tells nothing more (K1)."""
        if fence_covers_reads(fence, self.program.kernel.body):
            for slot in self.pending.values():
                self._text(f"r[{slot}] = 0")

    # ------------------------------------------------------------ operations

    def _operation(self, s: n.Stmt) -> None:
        value = stored_value(s)
        self._use(pinned(s))
        if isinstance(s, n.LdMatrix | n.StMatrix | n.Shuffle):
            # PTX ISA: ldmatrix and stmatrix are .sync.aligned, shfl.sync waits for the lanes of its mask
            self._emit(self.program.ops.elect(self.site))
        match s:
            case n.Shuffle():
                return
            case n.LdShared(name, src):
                self._read(name, src)
                return
            case n.LdMatrix(name, src):
                self._read(name, src)
                fragment = self.program.tables.fragments.get(name)
                if fragment is not None:
                    self._emit(self.program.ops.constant(Ev.FRAG_WRITE, self.site, fragment))
                return
            case n.LdGlobal(name):
                self._arrived(name)
            case n.AtomShared() | n.AtomGlobal() | n.Multimem():
                self._arrived(s.name)
            case n.Fence() | n.FenceProxyAsync():
                self._reads_over(s)
        differs = value is not None and mentions(value, self.program.varying | self.differing)
        op = operation(self.program.ops, s, self.site, self._index_value(value), differs)
        if op is not None:
            self._emit(op)
        if isinstance(s, n.MbarrierArrive) and s.token is not None:
            self._text(f"r[{self._name(s.token)}] = a")
        elif isinstance(s, n.MbarrierTest):
            self._text(f"r[{self._name(s.name)}] = a")

    def _index_value(self, value: Expr | None) -> Expr | None:
        """A stored value that is an integer known to the agent, else None."""
        if value is None:
            return None
        e = self._ready(value)
        try:
            closure(e, self.slots)
        except (TypeError, KeyError):
            return None
        return e

    def _emit(self, op: Op) -> None:
        """Code that returns the op's events, one after the other, and then goes on in a new block."""
        operands = [self._ready(e) for e in op.operands]
        self.control.sinks += [e for i, e in enumerate(operands) if i not in op.addresses]
        self.control.addresses += [e for i, e in enumerate(operands) if i in op.addresses]
        after = self._label()
        varies = any(self._varies(e) for e in operands)
        several_ctas = self.program.tables.ctas * self.program.tables.clusters > 1
        parts = [f"r[{CLASS}]"] if varies or op.by_class else []
        parts += [f"r[{CTA}]"] if several_ctas else []
        parts += self._parts(operands)
        slow, memo = self._slow(op, operands)
        m, f = self._constant(memo), self._constant(slow)
        self._text(f"r[0] = {after}")
        if parts:
            self._text(f"k = {self._key(parts)}")
            self._text(f"return {m}[k] if k in {m} else {f}(r, k)")
        else:
            self._text(f"return {m}[0] if {m} else {f}(r, 0)")
        self._open(after)

    def _slow(self, op: Op, operands: list[Expr]) -> tuple[Slow, dict[Any, Event]]:
        """The path of a first execution: evaluate, agree on decisions, build, remember."""
        readers = [self._reader(e) for e in operands]
        fixed = [i for i in range(len(operands)) if i not in op.varying]
        self.has_decisions |= any(self._varies(operands[i]) for i in fixed)
        program = self.program
        memo: dict[Any, Event] = {}
        block_group = op.places[0][1] if program.tables.block_group and op.places else -1
        bends = [self.slots[x] for x in bent(operands) if block_group >= 0]

        def slow(r: Registers, key: Any) -> Event | None:
            here = r[PC]
            values = [read(r) for read in readers]
            opened = symbolic(key)
            if op.ahead or op.places or any(map(symbolic, values)):
                opened = block_group < 0 or not keeps(key, values, values[block_group], (r[i] for i in bends))
                values = program.numbers(values, op)
            for i in fixed:
                v = values[i]
                if isinstance(v, tuple):
                    raise Disagreement(v)
            lanes, warp_mask = program.classes[r[CLASS]]
            events = op.build(Where(r[CTA], lanes, warp_mask), values)
            if len(events) == 1 and events[0][0] > Ev.UNKNOWN:
                memo.update({} if opened else {key: events[0]})
                return events[0]
            r[PC], r[QUEUE] = QUEUED, (here, *events)
            return None

        return slow, memo
