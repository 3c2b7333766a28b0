"""Runs a kernel's values on NumPy arrays, where there is no GPU.

All threads of a block that do the same are one agent; agents that part meet again where their code
does. Copies land at once. A share of a fragment is the row-major run of M*N/128 elements that belongs
to the thread's place in its warpgroup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from syncverify.base.source import InputError, Span
from syncverify.ir import nodes as n
from syncverify.simulate.ir import (
    numeric_barriers,
    numeric_copies,
    numeric_matrix,
    numeric_memory,
    numeric_ops,
)
from syncverify.simulate.ir.code import (
    BadExpression,
    Branch,
    Env,
    Instr,
    Jump,
    Set,
    flatten,
    thread_env,
    uniform,
)
from syncverify.simulate.ir.device import Count, Cta, Memory
from syncverify.simulate.ir.facts import statements
from syncverify.simulate.ir.launch import cluster_blocks, grid_of, launch_values
from syncverify.simulate.ir.layout import layout, number
from syncverify.simulate.ir.values import DTYPES, Array

#: Importing these modules registers what the statements do.
STATEMENTS = (numeric_memory, numeric_barriers, numeric_copies, numeric_matrix)
AT_ONCE = 64  # clusters that run beside one another where blocks wait for blocks


class HangError(RuntimeError):
    """Nobody can go on. ``blocked`` says who waits where."""

    def __init__(self, message: str, blocked: tuple[tuple[str, Span], ...]) -> None:
        super().__init__(message)
        self.blocked = blocked


@dataclass(slots=True, eq=False)
class Agent:
    """Threads of one block at one place."""

    cta: Cta
    tids: Array
    env: Env
    values: dict[str, Array] = field(default_factory=dict)
    pc: int = 0
    waits: tuple[Any, ...] = ()  # what it is blocked on: a kind and its arguments
    parted: bool = False  # it has just left others who stood here too

    @property
    def lanes(self) -> int:
        return len(self.tids)


class Parts(Exception):  # noqa: N818 -- control flow
    """The threads of an agent disagree on a decision; ``keys`` has one value per thread."""

    def __init__(self, keys: Array) -> None:
        self.keys = keys


def run(
    kernel: n.Kernel,
    values: Mapping[str, int] | None,
    arrays: Mapping[str, Array],
    *,
    blocks: Literal["all"] | Sequence[int] = "all",
) -> dict[str, Array]:
    """The arrays after the kernel: copies of those given, those left out start at zero.

    ``blocks``: linear block numbers to run. HangError if nobody can go on, InputError for wrong arrays.
    """
    vals = launch_values(kernel, values or {})
    tensors = _tensors(kernel, vals, arrays)
    grid = grid_of(kernel, vals)
    _Launch(kernel, vals, grid, tensors).all(blocks)
    return {t.name: tensors[t.name] for t in kernel.tensors}


def _tensors(kernel: n.Kernel, values: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Array]:
    unknown = sorted(set(arrays) - {t.name for t in kernel.tensors})
    if unknown:
        raise InputError(f"{kernel.name} has no tensor {unknown[0]!r}", kernel.span)
    out: dict[str, Array] = {}
    for t in kernel.tensors:
        shape = tuple(number(e, values, t.span, f"the shape of {t.name}") for e in t.shape)
        dtype = DTYPES[t.dtype]
        given = arrays.get(t.name)
        if given is None:
            if t.mode == "in":
                raise InputError(f"the input {t.name} is missing", t.span)
            out[t.name] = np.zeros(shape, dtype)
            continue
        given = np.asarray(given)
        if given.size != int(np.prod(shape)):
            raise InputError(f"{t.name} has {given.size} elements, the kernel expects {shape}", t.span)
        if given.dtype != dtype and not (
            given.dtype.itemsize == dtype.itemsize and given.dtype.kind in "iuV"
        ):
            raise InputError(f"{t.name} is {given.dtype}, the kernel expects {t.dtype}", t.span)
        copied = np.array(given, order="C", copy=True).reshape(shape)
        out[t.name] = copied if copied.dtype == dtype else copied.view(dtype)
    return out


class _Launch:
    """A whole grid."""

    def __init__(
        self,
        kernel: n.Kernel,
        values: Mapping[str, int],
        grid: tuple[int, int, int],
        tensors: dict[str, Array],
    ) -> None:
        self.kernel, self.values, self.grid = kernel, values, grid
        self.layout = layout(kernel, values)
        self.memory = Memory(kernel, self.layout, tensors)
        self.code: list[Instr] = flatten(kernel.body)
        self.joins = {i.target for i in self.code if isinstance(i, Branch | Jump)}
        self.loops = _loops_around(self.code)
        self.size = kernel.launch.ctas
        self.fragments = {f.name: f for f in kernel.fragments}
        self.shared = {s.name: s for s in kernel.shared}
        self.handlers = numeric_ops.HANDLERS
        self.ready = numeric_ops.ready
        self.agents: list[Agent] = []
        self.clusters: dict[int, list[Cta]] = {}
        self.cluster_round: dict[int, list[int]] = {}

    def all(self, blocks: Literal["all"] | Sequence[int]) -> None:
        count = max(1, self.grid[0] * self.grid[1] * self.grid[2] // self.size)
        wanted = [
            c
            for c in range(count)
            if blocks == "all" or any(b in blocks for b in cluster_blocks(self.kernel, self.grid, c))
        ]
        together = any(isinstance(s, n.SpinGlobal) for s in statements(self.kernel.body))
        batch = AT_ONCE if together else 1
        for i in range(0, len(wanted), batch):
            self.start(wanted[i : i + batch])
            self.loop()

    def start(self, clusters: list[int]) -> None:
        self.agents, self.clusters, self.cluster_round = [], {}, {}
        threads = self.kernel.launch.threads
        for c in clusters:
            ctas = []
            for rank, block in enumerate(cluster_blocks(self.kernel, self.grid, c)):
                bars = {(s.name, i): Count() for s in self.layout.barriers.values() for i in range(s.count)}
                size = -(-self.layout.bytes // 16) * 16
                cta = Cta(rank, block, np.zeros(size, np.uint8), bars, live=threads)
                ctas.append(cta)
                tids = np.arange(threads, dtype=np.int64)
                env = thread_env(self.kernel, self.values, tuple(range(threads)), rank, block, self.grid)
                self.agents.append(Agent(cta, tids, env))
            for cta in ctas:
                self.clusters[id(cta)] = ctas
            self.cluster_round[id(ctas)] = [0, 0]

    # -- scheduling -----------------------------------------------------------------

    def loop(self) -> None:
        """Runs agents until all have left; those furthest behind go first, so that they meet again."""
        while self.agents:
            self.agents.sort(key=lambda a: a.pc)
            agent = next((a for a in self.agents if not a.waits or self.ready(self, a)), None)
            if agent is None:
                raise self.hang()
            agent.waits = ()
            if not agent.parted:
                self.merge(agent)
            agent.parted = False
            self.advance(agent)

    def hang(self) -> HangError:
        who = tuple(
            (f"block {a.cta.block} threads {_ranges(a.tids)}", self.stmt(a).span) for a in self.agents
        )
        lines = "; ".join(
            f"{name} at {span}: {self.describe(a)}" for (name, span), a in zip(who, self.agents, strict=True)
        )
        return HangError(f"{self.kernel.name} hangs: {lines}", who)

    def describe(self, a: Agent) -> str:
        if a.waits[0] in ("mbarrier", "token"):
            name, index, count = a.waits[1], a.waits[2], a.waits[3]
            return (
                f"waits on {name}[{index}], whose phase {count.phase} misses {count.pending} arrivals "
                f"and {count.tx} bytes"
            )
        return f"waits in {type(self.stmt(a)).__name__}"

    def stmt(self, a: Agent) -> n.Stmt:
        ins = self.code[a.pc - 1]
        return self.kernel.body[-1] if isinstance(ins, Jump) else ins.stmt

    def advance(self, a: Agent) -> None:
        """Runs one agent until it waits, parts, ends or comes to where others may join it."""
        code, end = self.code, len(self.code)
        first = True
        while True:
            if a.pc >= end:
                self.leave(a)
                return
            if not first and a.pc in self.joins and len(self.agents) > 1:
                return
            first = False
            ins = code[a.pc]
            try:
                if isinstance(ins, Jump):
                    a.pc = ins.target
                    continue
                try:
                    if isinstance(ins, Set):
                        a.env[ins.name] = uniform(ins.fn(a.env))
                        a.pc += 1
                    elif isinstance(ins, Branch):
                        a.pc = a.pc + 1 if self.agreed(ins.fn(a.env), truth=True) else ins.target
                    else:
                        handler = self.handlers.get(type(ins.stmt))
                        if handler is None:
                            raise InputError(f"{type(ins.stmt).__name__} cannot be run", ins.stmt.span)
                        handler(self, a, ins.stmt)
                        a.pc += 1
                        if a.waits:
                            if not self.ready(self, a):
                                return
                            a.waits = ()
                except BadExpression as err:
                    raise InputError(str(err), ins.stmt.span) from err
            except Parts as parts:
                self.part(a, parts.keys)
                return

    def agreed(self, v: Any, truth: bool = False) -> int:
        v = uniform(v)
        if isinstance(v, int):
            return v
        raise Parts((v != 0) if truth else v)

    def leave(self, a: Agent) -> None:
        a.cta.live -= a.lanes
        self.agents.remove(a)

    def part(self, a: Agent, keys: Array) -> None:
        """Replaces an agent by one per value; nothing of its instruction has happened yet."""
        self.agents.remove(a)
        for k in np.unique(keys):
            self.agents.append(_slice(a, keys == k))

    def merge(self, a: Agent) -> None:
        """Takes in agents of the block that stand at the same place of the same iteration."""
        for b in [
            b
            for b in self.agents
            if b is not a and b.pc == a.pc and b.cta is a.cta and not b.waits and not b.parted
        ]:
            if all(_same(a.env.get(x), b.env.get(x)) for x in self.loops[a.pc]):
                self.agents.remove(b)
                _join(a, b)


def _loops_around(code: Sequence[Instr]) -> list[list[str]]:
    """For every place in the code, its end included: the variables of the loops that it is in."""
    around: list[list[str]] = [[] for _ in range(len(code) + 1)]
    for at, ins in enumerate(code):
        if isinstance(ins, Branch) and isinstance(ins.stmt, n.For):
            for inside in around[at : ins.target]:
                inside.append(ins.stmt.var)
    return around


def _same(x: Any, y: Any) -> bool:
    return (isinstance(x, int) and isinstance(y, int) and x == y) or (x is None and y is None)


def _slice(a: Agent, keep: Array) -> Agent:
    env = {k: v if isinstance(v, int) else uniform(v[keep]) for k, v in a.env.items()}
    values = {k: v if len(v) == 1 else v[keep] for k, v in a.values.items()}
    return Agent(a.cta, a.tids[keep], env, values, a.pc, parted=True)


def _join(a: Agent, b: Agent) -> None:
    """``a`` becomes both; registers that only one of them has are dead here."""
    tids = np.concatenate([a.tids, b.tids])
    order = np.argsort(tids, kind="stable")
    env: Env = {}
    for k in a.env.keys() & b.env.keys():
        x, y = a.env[k], b.env[k]
        if isinstance(x, int) and isinstance(y, int) and x == y:
            env[k] = x
            continue
        both = np.concatenate([np.broadcast_to(x, a.tids.shape), np.broadcast_to(y, b.tids.shape)])
        env[k] = uniform(both[order])
    values: dict[str, Array] = {}
    for k in a.values.keys() & b.values.keys():
        x, y = a.values[k], b.values[k]
        if x is y:
            values[k] = x
        elif x.shape[1] == y.shape[1] and x.dtype == y.dtype:
            both = np.concatenate(
                [np.broadcast_to(x, (a.lanes, x.shape[1])), np.broadcast_to(y, (b.lanes, y.shape[1]))]
            )
            values[k] = both[order]
    a.tids, a.env, a.values = tids[order], env, values


def _ranges(tids: Array) -> str:
    first, last = int(tids.min()), int(tids.max())
    return (
        f"{first}"
        if first == last
        else f"{first}-{last}" + ("" if last - first + 1 == len(tids) else " (some)")
    )
