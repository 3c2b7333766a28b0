"""Execution of the IR into events: kernel and launch values to systems of agents.

``systems`` compiles the body once and yields one system per cluster whose control differs and per choice
of elected lane that matters. A system's classes are already split where lanes disagree: a discovery
run of each agent on its own finds nearly all splits before the checker starts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.deadline import check as check_time
from syncverify.base.source import InputError
from syncverify.checker.prover.modular.block_groups import NotDetermined, group_classes, traced
from syncverify.frontends.ir.cluster_classes import MAX_REPRESENTATIVES, representatives
from syncverify.frontends.ir.code import Code, Program
from syncverify.frontends.ir.code_text import (  # fmt: skip
    BUILTIN_SLOTS,
    CLASS,
    CTA,
    ELECTED,
    ENTRY,
    FIRST_REGISTER,
    PC,
    QUEUE,
    QUEUED,
    Disagreement,
    UntriedLanesError,
    Vec,
    symbolic,
)
from syncverify.frontends.ir.lane_classes import Elections, elections, role_of
from syncverify.frontends.ir.slice_silent import sliced
from syncverify.frontends.ir.tables import mixes_atomics, spins, synchronizes_globally, tables
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import rounds, statements, steady
from syncverify.ir.launch_grid import Grid
from syncverify.ir.layout import launch_values
from syncverify.model.elected_lane import NOBODY, PAIRS, WARP, ElectedLane, each_of
from syncverify.model.events import Ev, Event, LaneSplit, SystemInfo, ThreadClass, Unanalysable
from syncverify.symbolic.context import NeedsDecision, NotConcrete, SymbolSplit, mapped
from syncverify.symbolic.protocol import SymbolicAgent, SymbolicSystem

#: Clusters that are run together where blocks wait for each other through global memory.
MAX_CLUSTERS = 16
#: Clusters of a larger grid that are run alone, to see which of them share data.
MAX_TRACED = 512
#: Steps without an event after which an agent gives up.
_MAX_JUMPS = 10_000_000
_SIZED_JUMPS = 20_000  # where a size is symbolic, and a loop need not end
#: Events of one class that the discovery of splits looks at; later splits restart the run.
_DISCOVERY = 50_000
_SIZED_DISCOVERY = 500  # where a size is symbolic, and the run need not end
NO_SYMBOLS: Mapping[str, Any] = {}
NO_PLACES: Mapping[int, Mapping[str, Any]] = {}
_POLLS = (Ev.POLL, Ev.POLL_TOKEN)


def systems(
    kernel: n.Kernel, values: Mapping[str, int], *, source_hash: str = ""
) -> Iterator[IrSystem | Unanalysable]:
    """The systems that together represent every block and every elected lane of the launch.

    Raises InputError for launch values that the kernel cannot be launched with.
    """
    try:
        yield from _systems(sliced(kernel), values, source_hash)
    except RecursionError:
        raise InputError("an expression is nested too deeply", kernel.span) from None


def _systems(
    kernel: n.Kernel, values: Mapping[str, int], source_hash: str
) -> Iterator[IrSystem | Unanalysable]:
    known = launch_values(kernel, values)
    grid = Grid.of(kernel, known)
    tracks = synchronizes_globally(kernel)
    together = tracks and grid.clusters <= MAX_CLUSTERS
    if tracks and not together:
        yield from _block_groups(kernel, known, grid, source_hash)
        return
    program = Program(
        kernel, known | grid.sizes(), tables(kernel, known, grid.clusters if together else 1, tracks)
    )
    firsts = [0] if together else representatives(program.code(several_lanes=True).control, grid)
    if firsts is None:
        text = f"the control of the grid's blocks differs in more than {MAX_REPRESENTATIVES} ways"
        yield Unanalysable(text, kernel.launch.span)
        return
    choice = elections(kernel, known, grid)
    for cluster in firsts:
        for lane in elected_lanes(program, grid, cluster, choice):
            yield IrSystem.fresh(program, grid, known, cluster, lane, source_hash)
    if choice.pairs:
        yield Unanalysable(PAIRS, kernel.span)


def _block_groups(
    kernel: n.Kernel, known: Mapping[str, int], grid: Grid, source_hash: str
) -> Iterator[IrSystem | Unanalysable]:
    """A system for each kind of block group where a grid's clusters share global memory in small groups."""
    what = "share"
    if spins(kernel) or mixes_atomics(kernel):
        what = "wait for each other through" if spins(kernel) else "mix atomics and bulk reductions in"
    start = f"blocks {what} global memory and the grid has {grid.clusters} clusters"
    if grid.clusters > MAX_TRACED:
        yield Unanalysable(f"{start}; at most {MAX_TRACED} are compared", kernel.span)
        return
    values = {**known, **grid.sizes()}

    def program(clusters: int) -> Program:
        return Program(kernel, values, tables(kernel, known, clusters, True))

    alone, choice = program(1), elections(kernel, known, grid)
    if choice.pairs:
        yield Unanalysable(PAIRS, kernel.span)
    lanes = elected_lanes(alone, grid, 0, choice)
    try:
        for lane in lanes:
            first = IrSystem.fresh(alone, grid, known, 0, lane, source_hash)
            traces = [traced(first.at(c)) for c in range(grid.clusters)]
            for block_group in group_classes(traces, MAX_CLUSTERS):
                if elected_lanes(alone, grid, block_group[0], choice) != lanes:
                    raise NotDetermined("how lanes are split into classes depends on the block")
                yield IrSystem.fresh(
                    program(len(block_group)), grid, known, block_group[0], lane, source_hash
                )
    except NotDetermined as reason:
        yield Unanalysable(f"{start}: {reason}", kernel.span)


def elected_lanes(
    program: Program,
    grid: Grid,
    cluster: int,
    choice: Elections,
    symbols: Mapping[str, Any] = NO_SYMBOLS,
    places: Mapping[int, Mapping[str, Any]] = NO_PLACES,
) -> list[ElectedLane]:
    """The lanes to elect: one that no guard names, and one of each other set of lanes that guards distinguish
    in a warp that elects (a guard beside an election may hit the elected lane or miss it).

    All where what the elected lane does depends on its number; two of each set where it accesses what lanes
    access at places of their own: one of two is not at the place itself.
    """
    if choice.by_number:
        return each_of(range(WARP), all_needed=True)
    lanes = {choice.free: None}
    if choice.nested:
        lanes[0] = None
    if choice.meets_lanes:
        lanes[choice.another] = None
    late = False
    if choice.with_guards:
        system = IrSystem.fresh(program, grid, {}, cluster, NOBODY, "", symbols, places)
        if system.cut_short:  # lanes may part, and elect, behind what was seen
            return each_of(range(WARP), all_needed=True)
        late = bool(symbols) or system.polled  # of a branch on a size, or a look, the run follows one way
        wanted = 2 if choice.meets_lanes or late else 1
        for c in system.info.classes:
            if (c.cta, c.warp) in system.electing:
                lanes |= dict.fromkeys(_missing(c.lanes, lanes, wanted))
        for part in choice.behind if late else ():
            lanes |= dict.fromkeys(_missing(part, lanes, wanted))
    return each_of(lanes, all_needed=late)


def _missing(among: int, tried: Iterable[int], wanted: int) -> list[int]:
    """The lowest of some lanes that are missing where so many of them are to be tried."""
    mine = [lane for lane in range(WARP) if among >> lane & 1]
    seen = set(tried).intersection(mine)
    return [lane for lane in mine if lane not in seen][: max(wanted - len(seen), 0)]


class IrAgent(SymbolicAgent):
    """One class of lanes: registers and a program counter."""

    __slots__ = ("blocks", "cls", "code", "progress", "r")

    def __init__(self, cls: int, code: Code, r: list[Any]) -> None:
        self.cls = cls
        self.code = code
        self.blocks = code.blocks
        self.r = r
        self.progress = 0  # blocks run where sizes have no number

    def step(self, answer: int = 0) -> Event:
        """Runs to the next event; see ``model.events.Agent``."""
        if self.code.program.space is not None:
            return self._sized_step(answer)
        r = self.r
        blocks = self.blocks
        try:
            event: Event | None = blocks[r[0]](r, answer)
            if event is not None:
                return event
            for _ in range(_SIZED_JUMPS if self.code.program.symbols else _MAX_JUMPS):
                event = blocks[r[0]](r, 0)
                if event is not None:
                    return event
        except Disagreement as d:
            raise LaneSplit(self.cls, self._parts(d.values)) from None
        except UntriedLanesError as e:
            return self._stop(self._line(e), e.reason)
        except ArithmeticError as e:
            return self._stop(self._line(e), f"an index expression has no value: {e}")
        return self._stop(0, f"no event within {_MAX_JUMPS} steps")

    def _sized_step(self, answer: int) -> Event:
        """The same where sizes have no number; an open question leaves the agent where it asked."""
        r = self.r
        event: Event | None
        try:
            for _ in range(_SIZED_JUMPS):
                before = r[:]
                try:
                    event = self.blocks[r[PC]](r, answer)
                except NeedsDecision:
                    r[:] = before
                    raise
                self.progress += 1
                if event is not None:
                    return event
                answer = 0
        except Disagreement as d:
            raise LaneSplit(self.cls, self._parts(d.values)) from None
        except UntriedLanesError as e:
            return self._stop(self._line(e), e.reason)
        except ArithmeticError as e:
            return self._stop(self._line(e), f"an index expression has no value: {e}")
        return self._stop(0, f"no event within {_SIZED_JUMPS} steps")

    def move(self, answer: int = 0) -> Event | None:
        """One stretch of code, where sizes may have no number: an event, or None where it only jumps."""
        before = self.r[:]
        try:
            event: Event | None = self.blocks[self.r[PC]](self.r, answer)
            return event
        except NeedsDecision:
            self.r[:] = before
            raise
        except Disagreement as d:
            raise LaneSplit(self.cls, self._parts(d.values)) from None
        except UntriedLanesError as e:
            return self._stop(self._line(e), e.reason)
        except ArithmeticError as e:
            return self._stop(self._line(e), f"an index expression has no value: {e}")

    @property
    def boolean_registers(self) -> frozenset[int]:
        """Registers of bits, which are distinguished and never counted."""
        return frozenset(self.code.pending.values())

    @property
    def loop_invariant_registers(self) -> frozenset[int]:
        """Registers of blocks in block groups that no loop changes: they say who shares what with whom."""
        program, slots = self.code.program, self.code.slots
        names = steady(program.kernel.body) if program.tables.block_group else frozenset[str]()
        return frozenset(slots[name] for name in names if name in slots)

    @property
    def rotation_invariant_registers(self) -> frozenset[int]:
        """Registers that cycle through no ring."""
        names = rounds(self.code.program.kernel.body)
        return frozenset(range(self.code.size)) - {self.code.slots[x] for x in names if x in self.code.slots}

    @property
    def input_registers(self) -> frozenset[int]:
        """Where sizes are kept until they are used."""
        return self.code.input_registers

    @property
    def may_take_another_iteration(self) -> bool:
        """Whether it asks for a turn of its own where iterations are distributed round-robin."""
        return self.r[PC] in self.code.hesitant

    @property
    def per_cluster_symbols(self) -> dict[str, int]:
        """Where sizes are kept that some loop havocs in every turn."""
        slots = self.code.slots  # what comparisons choose is kept nowhere
        return {name: slots[name] for name in self.code.iteration_slots if name in slots}

    def iterations(self) -> dict[str, Any]:
        """The next turn of each size that it havocs in every turn of some loop."""
        r = self.r
        pc = r[PC] if r[PC] != QUEUED else r[QUEUE][0]
        live = {slot for slot, _ in self.code.kept(pc)}
        return {name: r[slot] + 1 for name, slot in self.code.iteration_slots.items() if slot in live}

    def _parts(self, values: tuple[int, ...]) -> tuple[int, ...]:
        lanes, _ = self.code.program.classes[self.r[CLASS]]
        masks: dict[int, int] = {}
        for lane, v in zip(lanes, values, strict=True):
            masks[v] = masks.get(v, 0) | 1 << lane
        return tuple(masks.values())

    def _line(self, e: BaseException) -> int:
        """The site of the generated line that raised."""
        trace = e.__traceback__
        site = 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.code.filename:
                site = self.code.site_at(trace.tb_lineno)
            trace = trace.tb_next
        return site

    def _stop(self, site: int, reason: str) -> Event:
        event = (Ev.UNKNOWN, site, reason)
        self.r[PC], self.r[QUEUE] = QUEUED, (QUEUED, event)
        return event

    def fork(self) -> IrAgent:
        """An independent copy at the same point."""
        new = IrAgent(self.cls, self.code, self.r[:])
        new.progress = self.progress
        return new

    def snapshot(self) -> Hashable:
        """Program counter, queued events and every register."""
        r = self.r
        return (self.cls, r[PC], r[QUEUE], *r[FIRST_REGISTER:])

    def point(self) -> tuple[Any, ...]:
        """Program counter and queued events."""
        return (self.r[PC], self.r[QUEUE])

    def place(self) -> int:
        """The program counter."""
        return self.r[PC]  # type: ignore[no-any-return]

    def live(self) -> dict[int, Any]:
        """The registers that may be read before they are written, by slot."""
        r = self.r
        pc = r[PC] if r[PC] != QUEUED else r[QUEUE][0]
        return {slot: _lanes(r[slot]) for slot, _ in self.code.kept(pc)}

    def put(self, slot: int, value: Any) -> None:
        """Replaces a register."""
        self.r[slot] = self.code.vecs.register(value) if isinstance(value, tuple) else value

    def normalize(self) -> Hashable:
        """The snapshot without what no later event depends on; see ``agent_canonical``."""
        r = self.r
        pc = r[PC] if r[PC] != QUEUED else r[QUEUE][0]
        kept = self.code.kept(pc)
        return (self.cls, r[PC], r[QUEUE], *[_reduced(r[slot], period) for slot, period in kept])


def _lanes(value: Any) -> Any:
    """A register's value, its lanes in a tuple where terms are among them."""
    return value.lanes if isinstance(value, Vec) and symbolic(value) else value


@dataclass(slots=True)
class IrSystem(SymbolicSystem):
    """One launch of a cluster (or of all of them), ready to run; see ``model.events.System``."""

    info: SystemInfo
    program: Program
    grid: Grid
    cluster: int
    elected: ElectedLane
    electing: set[tuple[int, int]] = field(default_factory=set)  # (CTA, warp) that discovery saw elect
    cut_short: set[tuple[int, int]] = field(default_factory=set)  # (CTA, warp) that ran on behind discovery
    polled: bool = False  # whether discovery met looks, which it answers in one way
    symbols: Mapping[str, Any] = field(default_factory=dict)  # what represents parameters without a number
    places: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by CTA: where its block is

    @classmethod
    def fresh(cls, program: Program, grid: Grid, values: Mapping[str, int], cluster: int,
              elected: ElectedLane,
              source_hash: str, symbols: Mapping[str, Any] = NO_SYMBOLS,
              places: Mapping[int, Mapping[str, Any]] = NO_PLACES) -> IrSystem:  # fmt: skip
        kernel, t = program.kernel, program.tables
        program.code(several_lanes=True)
        whole = tuple(
            ThreadClass(cta, warp, grid.warp_mask(warp))
            for cta in range(t.ctas * t.clusters)
            for warp in range(grid.warps)
        )
        info = SystemInfo(
            name=kernel.name,
            file=kernel.span.file,
            values=dict(values),
            block=grid.coordinates(grid.block_of(cluster, 0)),
            ctas=t.ctas,
            clusters=t.clusters,
            warps=grid.warps,
            threads=grid.threads,
            registers=kernel.launch.registers,
            classes=[],
            barriers=t.barriers,
            footprints=t.footprint_table,
            sites=program.sites,
            fragments=[f.name for f in kernel.fragments],
            maps=[m.name for m in kernel.maps],
            elected_lane=elected.lane,
            cooperative=kernel.launch.cooperative,
            source_hash=source_hash,
            entry=kernel.span,
            smem_names=t.smem_names,
            tracks_global=t.tracks_global,
            flag_chain=t.flag_chain,
            footprint_partition=t.moved,
            clusters_run_sequentially=bool(t.flag_chain) or t.block_group,
            edits_maps=any(isinstance(s, n.TensormapReplace) for s in statements(kernel.body)),
            ends_barriers=any(isinstance(s, n.MbarrierInval) for s in statements(kernel.body)),
            dependent_launch=kernel.launch.dependent
            or any(isinstance(s, n.GridDepWait | n.GridDepLaunch) for s in statements(kernel.body)),
            has_to_wait=kernel.launch.dependent,
        )
        system = cls(info, program, grid, cluster, elected, symbols=symbols, places=places)
        info.classes = system._with_final_classes(list(whole))
        return system

    def agents(self) -> Sequence[IrAgent]:
        """Fresh agents at the kernel's entry, one per class."""
        return [self._agent(i, c) for i, c in enumerate(self.info.classes)]

    def agent(self, cls: int) -> IrAgent:
        """The agent of one class alone."""
        return self._agent(cls, self.info.classes[cls])

    def at(self, cluster: int) -> IrSystem:
        """The same for another cluster, with the same classes."""
        block = self.grid.coordinates(self.grid.block_of(cluster, 0))
        return replace(self, cluster=cluster, info=replace(self.info, block=block))

    def refined(self, split: LaneSplit) -> IrSystem:
        """The same launch with one class split, and whatever splits follow from it."""
        classes = list(self.info.classes)
        old = classes.pop(split.cls)
        classes += self._with_final_classes([replace(old, lanes=part) for part in split.parts])
        info = replace(self.info, classes=_ordered(classes))
        return replace(self, info=info)

    def _agent(self, cls: int, c: ThreadClass) -> IrAgent:
        lanes = tuple(i for i in range(32) if c.lanes >> i & 1)
        program = self.program
        code = program.code(several_lanes=len(lanes) > 1)
        r: list[Any] = [0] * code.size
        r[PC], r[QUEUE] = ENTRY, ()
        r[CLASS] = program.class_id(c.warp, lanes, self.grid.warp_mask(c.warp))
        r[CTA], r[ELECTED] = c.cta, self.elected
        for name, per_lane in self.grid.builtins(self.cluster, c.cta, c.warp, lanes).items():
            r[BUILTIN_SLOTS[name]] = program.vecs.register(per_lane)
        for name, value in (self.symbols | self.places.get(c.cta, {})).items():  # type: ignore[operator]
            r[code.slots[name]] = value
        return IrAgent(cls, code, r)

    def _with_final_classes(self, classes: list[ThreadClass]) -> list[ThreadClass]:
        """Classes split until no agent, run on its own with every wait passing, finds a disagreement."""
        done: list[ThreadClass] = []
        work = list(reversed(classes))
        decides = self.program.code(several_lanes=True).has_decisions
        while work:
            c = work.pop()
            parts = self._discover(c) if decides and c.count > 1 else None
            if parts is None:
                done.append(replace(c, role=role_of(self.program, c)))
            else:
                work += [replace(c, lanes=p) for p in parts]
        return _ordered(done)

    def _discover(self, c: ThreadClass) -> tuple[int, ...] | None:
        space = self.program.space
        if space is None:
            return self._run_alone(c)
        with space.speculatively():
            return self._run_alone(c)

    def _next(self, agent: IrAgent, answer: int) -> Event:
        """An agent's step; sizes are rewritten as it needs."""
        while True:
            try:
                return agent.step(answer)
            except SymbolSplit as e:
                space = self.program.space
                assert space is not None
                space.path.substitute(e.atom, e.c, e.parts)
                for slot, value in agent.live().items():
                    agent.put(slot, mapped(value, space.resolved))

    def _run_alone(self, c: ThreadClass) -> tuple[int, ...] | None:
        agent = self._agent(0, c)
        answer = 0
        try:
            for n in range(_SIZED_DISCOVERY if self.symbols else _DISCOVERY):
                if not n & 255:
                    check_time(256)
                event = self._next(agent, answer)
                if event[0] in (Ev.EXIT, Ev.UNKNOWN):
                    return None
                if event[0] == Ev.ELECT:
                    self.electing.add((c.cta, c.warp))
                answer = int(event[0] in _POLLS)
                self.polled |= bool(answer)
        except LaneSplit as split:
            return split.parts
        except NotConcrete:
            if self.program.space is None:
                raise
        self.cut_short.add((c.cta, c.warp))
        return None


def _reduced(value: int | Vec, period: int | None) -> int | Vec:
    return value if period is None or isinstance(value, Vec) else value % period


def _ordered(classes: list[ThreadClass]) -> list[ThreadClass]:
    """Warp-major, then by lowest lane."""
    return sorted(classes, key=lambda c: (c.cta, c.warp, c.lanes & -c.lanes))
