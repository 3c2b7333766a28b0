"""Runs one lane group alone through the kernel and writes down its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncverify.base.source import Span
from syncverify.ir import nodes as n
from syncverify.ir.expr import Expr, Var, names
from syncverify.simulate.ir.code import (
    BadExpression,
    Branch,
    Env,
    Instr,
    Jump,
    Opaque,
    Set,
    Token,
    Value,
    compiled,
    uniform,
)
from syncverify.simulate.ir.layout import Layout
from syncverify.simulate.ir.program import GLOBAL, Access, Async, Event, Group, Kind, Op, Program
from syncverify.simulate.ir.regions import Foot, OutOfBounds, region_foot, spread

MAX_NODES = 400_000


class Split(Exception):  # noqa: N818 -- control flow
    """The lanes of a group disagree on a decision; ``parts`` are masks."""

    def __init__(self, parts: tuple[int, ...]) -> None:
        self.parts = parts


class Unsupported(Exception):  # noqa: N818 -- becomes the result of an exploration
    """The simulator does not execute this; ``span`` says where."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


@dataclass(frozen=True, slots=True)
class Context:
    """What all groups of a launch share while they are traced."""

    kernel: n.Kernel
    values: Mapping[str, int]
    layout: Layout
    code: list[Instr]
    grid: tuple[int, int, int]
    program: Program
    bar_index: dict[tuple[int, str, int], int]
    practical: bool
    tracked: frozenset[str]  # tensors whose accesses are followed
    flags: frozenset[str]  # tensors that somebody spins on
    used: frozenset[str]  # value registers whose values come to memory
    needs_grid_wait: bool


@dataclass(slots=True)
class Thread:
    """The registers and open groups of one lane group at one point."""

    env: Env
    pend: dict[str, int] = field(default_factory=dict)  # value register -> reads that may not have arrived
    source: dict[str, int] = field(default_factory=dict)  # value register -> what its value is, as a hash
    cp_open: int = 0
    cp_groups: tuple[int, ...] = ()
    bulk_open: tuple[int, int] = (0, 0)  # accesses to learn at .read, and at the full wait
    bulk_groups: tuple[tuple[int, int], ...] = ()
    drained: int = 0
    mma_open: int = 0
    mma_groups: tuple[int, ...] = ()
    mma_frags: tuple[tuple[str, int, str], ...] = ()  # fragment in flight, its group, "acc" or "a"
    fenced: frozenset[str] = frozenset()  # fragments untouched since the last wgmma.fence
    own_reads: int = 0
    own_generic: int = 0
    own_copies: int = 0
    seq: int = 0
    times: dict[int, int] = field(default_factory=dict)  # pc -> executions

    def copy(self) -> Thread:
        t = Thread(**{k: getattr(self, k) for k in Thread.__slots__})
        t.env, t.pend, t.times, t.source = (
            dict(self.env),
            dict(self.pend),
            dict(self.times),
            dict(self.source),
        )
        return t


class Tracer:
    """Traces one group; ``run`` gives its first node."""

    def __init__(self, ctx: Context, group: Group, number: int, block: int, elected: int) -> None:
        self.ctx, self.group, self.number, self.block, self.elected = ctx, group, number, block, elected
        self.lanes = tuple(i for i in range(32) if group.lanes >> i & 1)
        self.first = -1  # first node of the trace
        self.last = -1  # node whose successor is still open
        self.slot = 0
        self.pc = 0
        self.stmt: n.Stmt | None = None
        self.left_early = False
        self.merge: dict[tuple[object, ...], int] = {}
        self.polled = False
        self.aligned: list[int] = []  # pcs of instructions that a whole warp executes
        self.wgmma_ops: list[int] = []
        self.register_ops: list[int] = []
        self.registers_asked: list[tuple[str, int]] = []

    # -- control ----------------------------------------------------------------

    def run(self, env: Env) -> int:
        """Follows every path; only polls fork."""
        work: list[tuple[int, Thread, int, int]] = [(0, Thread(env), -1, 0)]
        while work:
            self.pc, t, self.last, self.slot = work.pop()
            work.extend(self.path(t))
        return self.first

    def path(self, t: Thread) -> list[tuple[int, Thread, int, int]]:
        """Goes on to the end, or to a poll: then gives both continuations."""
        code = self.ctx.code
        budget = MAX_NODES
        while self.pc < len(code):
            ins = code[self.pc]
            budget -= 1
            if budget < 0 or len(self.ctx.program.events) > MAX_NODES:
                raise Unsupported("the kernel is too long to simulate", self.ctx.kernel.span)
            if isinstance(ins, Jump):
                self.left_early |= ins.leaves
                self.pc = ins.target
                continue
            self.stmt = ins.stmt
            try:
                if isinstance(ins, Set):
                    t.env[ins.name] = uniform(ins.fn(t.env))
                    self.pc += 1
                elif isinstance(ins, Branch):
                    self.pc = self.pc + 1 if self.agreed(ins.fn(t.env)) else ins.target
                elif isinstance(ins.stmt, n.MbarrierTest):
                    key = self.poll_key(ins.stmt, t)
                    if key in self.merge:  # been here: the answers before made no difference that lasts
                        self.link(self.merge[key])
                        return []
                    node = self.merge[key] = self.poll(ins.stmt, t)
                    self.polled = True
                    true, false = t.copy(), t
                    true.env[ins.stmt.name], false.env[ins.stmt.name] = 1, 0
                    return [(self.pc + 1, false, node, 0), (self.pc + 1, true, node, 1)]
                else:
                    t.times[self.pc] = t.times.get(self.pc, 0) + 1
                    before = len(self.ctx.program.events)
                    HANDLERS[type(ins.stmt)](self, ins.stmt, t)
                    self.done(before, ins.stmt)
                    self.pc += 1
            except Opaque as err:
                raise Unsupported(str(err), self.span) from err
            except BadExpression as err:
                self.harm("ub", "SV901", str(err))
                break
            except OutOfBounds as err:
                self.harm("ub", err.rule, str(err))
                self.pc += 1
            except KeyError as err:
                if isinstance(ins, Set | Branch) or type(ins.stmt) in HANDLERS:
                    raise
                raise Unsupported(f"{err.args[0].__name__} is not simulated", self.span) from err
        self.stmt = self.ctx.kernel.body[-1] if self.ctx.kernel.body else None
        self.leave(t)
        return []

    def done(self, before: int, stmt: n.Stmt) -> None:
        """Marks the event that ends a statement: witnesses count statements, not events."""
        events = self.ctx.program.events
        if len(events) == before:
            if isinstance(stmt, n.Compute):
                return
            self.emit(Op.LEARN, type(stmt).__name__)
        events[-1].ends = True

    def agreed(self, v: Value) -> int:
        """A decision that all lanes take alike, or Split."""
        v = uniform(v)
        if isinstance(v, int):
            return v
        parts: dict[int, int] = {}
        for lane, x in zip(self.lanes, v, strict=True):
            parts[int(x)] = parts.get(int(x), 0) | 1 << lane
        raise Split(tuple(parts.values()))

    def decide(self, v: Value) -> int:
        """Like ``agreed``, for truth values: lanes split in two at most."""
        v = uniform(v)
        return v if isinstance(v, int) else self.agreed((v != 0) * 1)

    def num(self, e: Expr, t: Thread) -> int:
        return self.agreed(compiled(e)(t.env))

    # -- emission ---------------------------------------------------------------

    @property
    def span(self) -> Span:
        return self.stmt.span if self.stmt is not None else self.ctx.kernel.span

    def emit(self, op: Op, text: str = "", **fields: Any) -> int:
        p = self.ctx.program
        node = len(p.events)
        span = self.span
        p.events.append(Event(op, span, text, span.line, **fields))
        p.after.append((-1, -1))
        self.link(node)
        self.last, self.slot = node, 0
        return node

    def link(self, node: int) -> None:
        """Makes a node the successor of the last one."""
        p = self.ctx.program
        if self.last < 0:
            self.first = node
        elif p.events[self.last].op in (Op.POLL, Op.POLL_TOKEN):
            a, b = p.after[self.last]
            p.after[self.last] = (a, node) if self.slot else (node, b)
        else:
            p.after[self.last] = (node, node)

    def poll_key(self, s: n.MbarrierTest, t: Thread) -> tuple[object, ...]:
        """What the rest of the trace depends on, the poll's own register aside."""
        env = tuple(
            (k, v.tobytes() if isinstance(v, np.ndarray) else v)
            for k, v in sorted(t.env.items())
            if k != s.name
        )
        return (
            self.pc,
            env,
            tuple(sorted(t.pend.items())),
            t.cp_open,
            t.cp_groups,
            t.bulk_open,
            t.bulk_groups,
            t.mma_open,
            t.mma_groups,
            t.mma_frags,
            t.fenced,
            t.own_reads,
            t.own_generic,
            t.seq,
        )

    def harm(self, claim: str, rule: str, message: str) -> None:
        self.emit(Op.HARM, message, flags=frozenset({claim}), rule=rule, message=message)

    def access(
        self, kind: Kind, memory: int, foot: Foot, text: str, *, value: int | None = None, atomic: int = -1
    ) -> int:
        """Registers an access; its bit number. ``value``: what all lanes write, if they write the same."""
        p = self.ctx.program
        bit = len(p.accesses)
        friend: tuple[int, ...] = ()
        if kind in (Kind.GW, Kind.MW) and value is not None:
            friend = (self.group.cta, self.group.warp, self.pc, self.times_here, value)
        shares = friend or atomic >= 0 or kind in (Kind.MW, Kind.RD)
        clash = kind.writes and foot.overlap and not shares
        remote = memory not in (GLOBAL, self.group.cta)
        p.accesses.append(
            Access(
                bit,
                self.number,
                kind,
                memory,
                foot.intervals,
                foot.lanes,
                self.span,
                text,
                clash,
                friend,
                atomic,
                remote,
            )
        )
        return bit

    times_here = 0

    def shared(
        self, kind: Kind, r: n.Region, t: Thread, text: str, *, value: int | None = None, atomic: int = -1
    ) -> tuple[int, Foot, int]:
        """An access to shared memory: its bit, its bytes and whose memory it is."""
        memory = self.cta_of(r.rank, t)
        foot = region_foot(r, self.ctx.layout.buffers[r.buffer], t.env, self.lanes)
        self.times_here = t.times[self.pc]
        return self.access(kind, memory, foot, text, value=value, atomic=atomic), foot, memory

    def cta_of(self, rank: Expr | None, t: Thread) -> int:
        size = self.ctx.program.cluster_size
        own = self.group.cta
        if rank is None:
            return own
        r = self.num(rank, t)
        if not 0 <= r < size:
            raise OutOfBounds(f"rank {r} is not in the cluster of {size}", "SV208")
        return own - own % size + r

    def global_foot(self, g: n.GlobalRegion, t: Thread) -> Foot:
        tensor = next(i for i, x in enumerate(self.ctx.kernel.tensors) if x.name == g.tensor)
        item = n.DTYPE_BYTES[self.ctx.kernel.tensors[tensor].dtype]
        count = self.num(g.count, t)
        rows = 1 if g.rows is None else self.num(g.rows, t)
        pitch = 0 if g.pitch is None else self.num(g.pitch, t)
        start = (tensor << 44) + compiled(g.start)(t.env) * item
        return spread(start, count * item, rows, pitch * item, self.lanes)

    def tracked(
        self, kind: Kind, g: n.GlobalRegion, t: Thread, text: str, atomic: int = -1
    ) -> tuple[int, ...]:
        """The access to global memory, where such accesses are followed."""
        if g.tensor not in self.ctx.tracked:
            return ()
        foot = self.global_foot(g, t)
        self.times_here = t.times[self.pc]
        return (self.access(kind, GLOBAL, foot, text, atomic=atomic),)

    def bar(self, b: n.BarrierRef, t: Thread) -> int:
        """The index of an mbarrier, or OutOfBounds."""
        cta = self.cta_of(b.rank, t)
        index = self.num(b.index, t) if b.index is not None else 0
        try:
            return self.ctx.bar_index[cta, b.name, index]
        except KeyError:
            raise OutOfBounds(f"{b.name}[{index}] does not exist", "SV208") from None

    def poll(self, s: n.MbarrierTest, t: Thread) -> int:
        op = Op.POLL_TOKEN if s.token else Op.POLL
        key, token = (0, token_of(s.phase, t)) if s.token else (self.num(s.phase, t), "")
        bar = self.bar(s.bar, t)
        return self.emit(
            op,
            f"mbarrier.test {self.ctx.program.bars[bar].name}",
            bar=bar,
            key=key,
            token=token,
            n=len(self.lanes),
            flags=flags(relaxed=s.sem == "relaxed", cluster=s.scope == "cluster"),
        )

    # -- values -----------------------------------------------------------------

    def use(self, e: Expr | str, t: Thread) -> None:
        """The value must be there here: reads that it came from have happened (K1)."""
        mask = 0
        for name in (e,) if isinstance(e, str) else sorted(names(e)):
            mask |= t.pend.pop(name, 0)
        if mask:
            for name, pend in list(t.pend.items()):
                t.pend[name] = pend & ~mask
            self.emit(Op.SETTLE, "use", mask=mask)

    def awaited(self, t: Thread, *values: str) -> int:
        """Reads that what is computed from these values still waits for: arithmetic holds back no release."""
        mask = 0
        for name in values:
            mask |= t.pend.get(name, 0)
        return mask

    def loaded(self, name: str, bit: int, t: Thread, value: int) -> None:
        """A generic read into a register; ``value`` says which value it is."""
        t.own_reads |= 1 << bit
        if name in self.ctx.used:
            t.pend[name] = 1 << bit
        else:
            self.emit(Op.SETTLE, "unused", mask=1 << bit)
        t.source[name] = value

    def unique(self, t: Thread) -> int:
        """A value like no other's: lanes may differ in it."""
        return hash((self.number, self.group, self.pc, t.times.get(self.pc, 0)))

    def read_value(self, t: Thread, memory: int, foot: Foot) -> int:
        """What is read from there now: lanes that read the same bytes get the same."""
        if foot.lanes is not None:
            return self.unique(t)
        return hash(
            (self.group.cta, self.group.warp, self.pc, t.times.get(self.pc, 0), memory, foot.intervals)
        )

    def value_of(self, e: Expr, t: Thread) -> int | None:
        """A hash that is equal where the value surely is; None if lanes of this group may differ."""
        parts: list[object] = [e]
        for name in sorted(names(e)):
            if name in t.source:
                parts.append(t.source[name])
            elif isinstance(t.env.get(name), int):
                parts.append(t.env[name])
            else:
                return None
        return hash(tuple(parts))

    def leave(self, t: Thread) -> None:
        """The end of the kernel for these lanes: bulk sources must have been read (docs/model.md K21)."""
        undrained = t.bulk_open[0]
        for read, _ in t.bulk_groups:
            undrained |= read
        self.emit(Op.EXIT, "exit", mask=undrained & ~t.drained, ends=True)


def token_of(e: Expr, t: Thread) -> str:
    """Where the token of a wait is kept; nowhere if its register holds none."""
    found = t.env.get(e.name) if isinstance(e, Var) else None
    return found.place if isinstance(found, Token) else ""


def new_token(name: str, t: Thread) -> Token:
    """A place for a register's next token that no copy of an earlier one needs."""
    taken = {v.place for k, v in t.env.items() if isinstance(v, Token) and k != name}
    places = (name, *(f"{name}'{k}" for k in range(1, len(taken) + 1)))
    return Token(next(p for p in places if p not in taken))


def flags(**which: bool) -> frozenset[str]:
    return frozenset(k for k, v in which.items() if v)


Handler = Callable[[Tracer, Any, Thread], None]
HANDLERS: dict[type[n.Stmt], Handler] = {}


def handles(*kinds: type[n.Stmt]) -> Callable[[Handler], Handler]:
    """Registers the meaning of statements."""

    def add(h: Handler) -> Handler:
        for k in kinds:
            HANDLERS[k] = h
        return h

    return add


def async_op(
    tr: Tracer, t: Thread, bar: int, size: int, bits: tuple[int, ...], memory: int, text: str, arrive: int = 0
) -> int:
    """Registers a completion to come; its number."""
    p = tr.ctx.program
    mask = 0
    for b in bits:
        mask |= 1 << b
    p.asyncs.append(Async(tr.number, t.seq, bar, size, mask, arrive, memory, tr.span, text))
    return len(p.asyncs) - 1
