"""Systems of a compiled function: which classes of lanes there are, and what their registers start with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import Any

from syncverify.base.deadline import check as check_time
from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.analysis.exclusion.locks import Locks
from syncverify.frontends.ptx.analysis.exclusion.shared_locks import SharedLocks
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES
from syncverify.frontends.ptx.analysis.slicing.lanes import ordered
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.compile.state import (
    CLASS,
    CONTEXT,
    LOCAL,
    MASK,
    PARTED,
    PASSED,
    PC,
    QUEUE,
    SHARED,
    TAKE,
)
from syncverify.frontends.ptx.decode.memory import Bytes, SharedContents
from syncverify.frontends.ptx.exec.agent import ClassContext, PtxAgent
from syncverify.frontends.ptx.exec.class_reachability import ClassPrograms
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.second_layout import second_layout
from syncverify.frontends.ptx.exec.specials import Specials, warp_mask
from syncverify.frontends.ptx.exec.tables import Layout, Tables, layout, shared_variables
from syncverify.frontends.ptx.isa.targets import copies_need_fence
from syncverify.frontends.ptx.syntax.types import RANK
from syncverify.frontends.ptx.values.register_values import UNWRITTEN, WARP, Unknown
from syncverify.ir.launch_grid import Grid
from syncverify.model.elected_lane import LOWEST, NOBODY, ElectedLane, each_of
from syncverify.model.events import Ev, Event, Flag, LaneSplit, SystemInfo, ThreadClass
from syncverify.symbolic.context import NotConcrete, SymbolSplit, mapped
from syncverify.symbolic.protocol import SymbolicSystem

#: Events of one class that the discovery of splits looks at; later splits restart the run.
_DISCOVERY = 50_000
_SIZED_DISCOVERY = 500  # where a size has no number, and the run need not end
#: Events at which the other classes get their turn.
_BLOCKING = frozenset(
    {Ev.WAIT, Ev.WAIT_TOKEN, Ev.BARRIER_SYNC, Ev.CLUSTER_WAIT, Ev.SPIN, Ev.GRID_WAIT, Ev.SETMAXNREG}
)
_POLLS = (Ev.POLL, Ev.POLL_TOKEN)
_SERIALS = count()


@dataclass(slots=True)
class PtxSystem(SymbolicSystem):
    """One cluster of a launch, ready to run; see ``model.events.System``.

    ``cluster``: its number in the grid; None: any, and control may not depend on which.
    """

    info: SystemInfo
    program: Program
    launch: Launch
    tables: Tables
    cluster: int | None
    ids: dict[tuple[int, int, int], int]
    contexts: dict[tuple[int, int, int], ClassContext]
    starts: dict[tuple[int, int, int], list[Any]]
    elected: ElectedLane
    stuck: list[str] = field(default_factory=list)  # why classes could not go on, in the discovery of splits
    fingerprint: bytes = b""  # a digest of the events that the discovery saw
    answered: bool = False  # whether it saw events whose answers may differ from run to run
    polled: bool = False  # whether looks are among these
    cut_short: bool = False  # whether it ended before its agents did
    electing: set[tuple[int, int]] = field(default_factory=set)  # (CTA, warp) that it saw elect
    ways: ClassPrograms | None = None  # where no size has a number: the code of each class

    @classmethod
    def fresh(cls, program: Program, launch: Launch, cluster: int | None,
              elected: ElectedLane = LOWEST,
              source_hash: str = "", like: PtxSystem | None = None,
              asked: dict[Any, str] | None = None, clusters: int = 1) -> PtxSystem:  # fmt: skip
        """The system of a launch, in which each warp is one class of lanes as far as these may do the same.

        ``like``: a system of the same launch, whose tables are used on. ``clusters``: how many run
        together, from ``cluster`` on. Raises NotConcrete for open sizes where blocks hand data over."""
        if program.handing is not None and launch.space is not None and launch.block_group is None:
            raise NotConcrete("what is handed over through global memory is compared in numbers")
        if program.flags.turns and launch.space is not None:
            raise NotConcrete("who comes when to a lock or counter in shared memory is compared in numbers")
        if like is None:
            laid = _laid_out(program, launch)
            tables = Tables(
                program.module,
                program.function,
                laid,
                launch.ctas,
                launch.maps,
                launch.bytes_of,
                launch.answers,
                {} if asked is None else asked,
                program.handing is not None,
                any(i.op == "tensormap" for i in program.body),
                program.handing is not None and program.handing.together,
            )
            tables.data_addressed, tables.dynamic_addressed, tables.unbounded_slots = (
                program.seen.data_addressed,
                program.seen.dynamic_addressed,
                program.seen.unbounded_slots,
            )
            tables.array_addressed = program.seen.array_addressed
            tables.ranks_of_floats = program.seen.ranks_of_floats
            tables.placed_by_sizes = program.seen.placed_by_sizes
            tables.vary_with(program.varies(launch.block))
            tables.spread = program.spread(launch.block)
            tables.decided_alike = program.decided_alike(launch.block)
            tables.decided_once = program.decided_once(launch.block)
            tables.comes_once = program.comes_once
            tables.has_locks = program.handing is not None and program.handing.ordered
            tables.since = program.since(launch.block)
            tables.load_places = program.places(launch.block)
            shared = tables.layout.shared
            tables.reached = program.reached(launch.block, shared, parameters=not launch.kept_inside)
            tables.into_arrays = program.into_arrays(launch.block, shared)
            tables.lowest = program.lowest(shared)
            tables.slots = program.shared_slots(launch.block, shared)
            tables.slots_of_numbers = program.slots_of_numbers(tables.slots)
            if launch.sized:
                tables.between_barriers = program.between_barriers(launch.block, shared)
                tables.only_groups = not program.barriers
            _open_dynamic(tables, program, launch)
            if launch.inside_arrays:
                array = _arrays(laid, program)
                tables.array = lambda site: array(site, 0)
            if launch.kept_inside or len(laid.names) > 1:
                tables.kept = _arrays(laid, program, everywhere=True)
            tables.any_data, tables.threads = program.any_data and launch.space is not None, launch.threads
            kept = program.steers and not tables.any_data
            tables.certain = kept or tables.tracks or program.moves
            tables.memory, tables.holds, tables.sure = launch.memory, program.holds, launch.sure
            tables.granted, tables.stays = launch.granted, launch.stays
            tables.map_place, tables.images = launch.map_place, launch.images
            tables.space, tables.locks = launch.space, Locks(launch.rows, launch.pattern)
            tables.shared_locks = SharedLocks(launch.turns, launch.counts)
            tables.tickets = launch.tickets if launch.space is None else None
            tables.places = launch.block_group
        else:
            tables = like.tables
            laid = tables.layout
            if cluster is not None:
                tables.know_the_block()
        grid = launch.grid
        g = None if grid is None else Grid(grid, launch.block, launch.cluster)
        block = (0, 0, 0) if g is None or cluster is None else g.coordinates(g.block_of(cluster, 0))
        info = SystemInfo(
            name=program.function.name,
            file=program.module.path,
            values=dict(launch.values),
            block=block,
            ctas=launch.ctas,
            warps=-(-launch.threads // WARP),
            threads=launch.threads,
            registers=launch.registers,
            classes=[],
            barriers=tables.barriers,
            footprints=tables.footprint_table,
            sites=program.sites,
            fragments=tables.fragments,
            maps=tables.map_names,
            elected_lane=elected.lane,
            source_hash=source_hash,
            entry=program.begins,
            smem_names=list(laid.names),
            varies=tables.varies,
            skips=program.skips,
            reads_only_inputs=program.reads_only_inputs if program.inputs else None,
            equal_stores=program.seen.equal_value,
            strong_words=program.strong_words(launch.block),
            dependent_launch=program.dependent or any(i.op == "griddepcontrol" for i in program.body),
            has_to_wait=program.dependent,
            assumes_inputs=not program.dependent,
            tracks_global=tables.tracks,
            edits_maps=tables.edits_maps,
            strict_copies=copies_need_fence(program.module.target),
            ends_barriers=any(i.op == "mbarrier" and "inval" in i.mods for i in program.body),
            clusters=clusters,
            cooperative=clusters > 1 and launch.block_group is None,  # so few are resident at once
            clusters_run_sequentially=launch.block_group is not None,
        )
        system = cls(
            info,
            program,
            launch,
            tables,
            cluster,
            {} if like is None else like.ids,
            {} if like is None else like.contexts,
            {},
            elected,
        )
        info.classes = [
            ThreadClass(cta, warp, warp_mask(launch.threads, warp))
            for cta in range(launch.ctas * clusters)
            for warp in range(info.warps)
        ]
        info.classes = system._with_final_classes()
        system.answered |= program.steers
        return system

    def agents(self) -> Sequence[PtxAgent]:
        """Fresh agents at the kernel's entry, one per class."""
        contents = self._contents()
        return [self._agent(i, c, contents) for i, c in enumerate(self.info.classes)]

    def agent(self, cls: int) -> PtxAgent:
        """The agent of one class alone."""
        return self._agent(cls, self.info.classes[cls], self._contents())

    def _contents(self) -> SharedContents | None:
        """What lies in shared memory at first, where that steers threads."""
        return SharedContents(self.launch.ctas * self.info.clusters) if self.program.steers else None

    @property
    def parts_late(self) -> bool:
        """Whether lanes may part behind what the discovery of splits saw: it took one way of each look and of
        each branch on an open size, and may have come to no end."""
        return self.launch.space is not None or self.answered or self.cut_short or bool(self.stuck)

    def apart(self, ways: ClassPrograms | None = None) -> PtxSystem:
        """The same with code of its own for each class, without what it never comes to."""
        if self.launch.space is None or self.program.steers:
            return self
        ways = ClassPrograms(self.program) if ways is None else ways
        keys = [(c.cta, c.warp, c.lanes) for c in self.info.classes]
        agents = self.agents() if ways.unknown(keys) else ()
        ways.explore_classes(self.launch.space, zip(keys, agents, strict=False))
        return replace(self, ways=ways, starts={})

    @property
    def elects_in_pairs(self) -> bool:
        """Whether it matters which lanes several warps elect, of which it has each elect the same."""
        several = len({(c.cta, c.warp) for c in self.info.classes}) > 1
        return self.elected.pairs and several and (len(self.electing) > 1 or self.cut_short)

    def at(self, cluster: int) -> PtxSystem:
        """The same for another cluster, with the same classes."""
        assert self.launch.grid is not None
        g = Grid(self.launch.grid, self.launch.block, self.launch.cluster)
        info = replace(self.info, block=g.coordinates(g.block_of(cluster, 0)))
        return replace(self, cluster=cluster, info=info, starts={})

    def refined(self, split: LaneSplit) -> PtxSystem:
        """The same launch with one class split; into one part: with the whole code for all."""
        if len(split.parts) == 1:
            return replace(self, ways=None, starts={})
        classes = list(self.info.classes)
        old = classes.pop(split.cls)
        classes += [replace(old, lanes=part) for part in split.parts]
        info = replace(self.info, classes=ordered(classes, self.info.elected_lane, self.electing))
        whole = replace(self, info=info, ways=None, starts={})
        return whole if self.ways is None else whole.apart(self.ways)

    # ------------------------------------------------------------ agents

    def _agent(self, cls: int, c: ThreadClass, contents: SharedContents | None) -> PtxAgent:
        program = self.program if self.ways is None else self.ways.program_of((c.cta, c.warp, c.lanes))
        start = self.starts.get((c.cta, c.warp, id(program)))
        if start is None:
            start = self.starts[c.cta, c.warp, id(program)] = self._start(program, c.cta, c.warp)
        r = start[:]
        context = self.context(c.cta, c.warp, c.lanes)
        r[CLASS], r[CONTEXT], r[MASK] = self._id(c), context, c.lanes
        r[LOCAL], r[SHARED] = Bytes(), contents
        return PtxAgent(cls, program, r, self.launch.space is not None)

    def _id(self, c: ThreadClass) -> int:
        key = (c.cta, c.warp, c.lanes)
        if key not in self.ids:
            # of no other system: compiled code remembers events by class, with this system's numbers in them
            self.ids[key] = next(_SERIALS)
        return self.ids[key]

    def context(self, cta: int, warp: int, lanes: int) -> ClassContext:
        key = (cta, warp, lanes)
        if key not in self.contexts:
            whole = warp_mask(self.launch.threads, warp)
            self.contexts[key] = ClassContext(self.tables, cta, warp, lanes, whole)
        return self.contexts[key]

    def _start(self, program: Program, cta: int, warp: int) -> list[Any]:
        """The slots of a warp at the kernel's entry."""
        r: list[Any] = [_NEVER] * program.size
        r[PC], r[QUEUE] = program.entry, ()
        r[PARTED], r[PASSED] = (), 0
        for name, slot in program.slots.items():
            if name.startswith(("%total", "%test", "%shfl", "%match", "%use", "%turn", TAKE)):
                r[slot] = 0
        specials = Specials(self.launch, self.cluster, self.elected)
        for name, slot in program.symbols.items():
            r[slot] = self._constant(name, specials, cta, warp)
        return r

    def _constant(self, name: str, specials: Specials, cta: int, warp: int) -> Any:
        if name.startswith("&"):
            return self._address(name[1:], cta)
        if name.startswith("param "):
            place, type_ = name[6:].split(":")
            base, offset = place.rsplit("+", 1)
            return self.launch.parameter(base, int(offset), type_)
        return specials.of(name, cta, warp)

    def _address(self, name: str, cta: int) -> Any:
        laid = self.tables.layout
        if name in laid.shared:
            return cta % self.launch.ctas << RANK | laid.shared[name]
        for table in (laid.local, laid.params, laid.globals):
            if name in table:
                return table[name]
        return Unknown(f"the address of {name}")

    # ------------------------------------------------------------ discovery

    def _with_final_classes(self) -> list[ThreadClass]:
        """Classes split until no lanes of one disagree, in a run in which every wait passes."""
        if self.launch.space is None:
            return self._discovered(_DISCOVERY)
        with self.launch.space.speculatively():
            found = self._discovered(_SIZED_DISCOVERY)
        self.starts.clear()  # they hold what was guessed
        return found

    def _discovered(self, most: int) -> list[ThreadClass]:
        agents = list(self.agents())
        classes = list(self.info.classes)
        work = list(range(len(agents)))
        budget = [most] * len(agents)
        answers = [0] * len(agents)
        while work:
            waiting, queue = list[int](), list(work)
            while queue:
                check_time()
                i = queue.pop(0)
                try:
                    going = self._advance(agents, i, budget, answers)
                except LaneSplit as split:
                    c = classes[i]
                    for n, part in enumerate(split.parts):
                        j = i if n == len(split.parts) - 1 else len(agents)
                        new = replace(c, lanes=part)
                        context = self.context(c.cta, c.warp, part)
                        agent = agents[i].narrowed(j, self._id(new), context)
                        agent.r[SHARED] = agents[i].r[SHARED]
                        if j == i:
                            agents[i], classes[i] = agent, new
                        else:
                            agents.append(agent)
                            classes.append(new)
                            budget.append(budget[i])
                            answers.append(answers[i])
                        queue.append(j)
                    continue
                if going:
                    waiting.append(i)
            work = sorted(waiting)
        return ordered(classes, self.info.elected_lane, self.electing)

    def _next(self, agents: list[PtxAgent], agent: PtxAgent, answer: int) -> Event:
        """An agent's step; sizes are rewritten as it needs."""
        if (space := self.launch.space) is None:
            return agent.step(answer)
        while True:
            try:
                return agent.step(answer)
            except SymbolSplit as e:
                space.path.substitute(e.atom, e.c, e.parts)
                for other in agents:
                    for slot, value in other.live().items():
                        new = mapped(value, space.resolved)
                        if new is not value:
                            other.put(slot, new)

    def fork_agents(self, agents: Sequence[PtxAgent]) -> list[PtxAgent]:
        """Independent copies that share what the agents share."""
        out = [a.fork() for a in agents]
        if self.program.steers and agents:
            contents = agents[0].r[SHARED].copy()
            for a in out:
                a.r[SHARED] = contents
        return out

    def _advance(self, agents: list[PtxAgent], i: int, budget: list[int], answers: list[int]) -> bool:
        """Runs an agent up to where it may have to wait; whether there is more to come."""
        agent = agents[i]
        while budget[i] > 0:
            try:
                event = self._next(agents, agent, answers[i])
            except NotConcrete:
                break
            budget[i] -= 1
            look, token = event[0] in _POLLS, event[0] == Ev.ARRIVE and bool(event[5] & Flag.TOKEN)
            answers[i] = int(look)
            if (
                token and self.launch.space is None
            ):  # of each arrival another one: who waits for which differs
                answers[i] = budget[i] + 1
            self.polled |= look
            self.answered |= look or token
            self.fingerprint = _digest(self.fingerprint, i, event)
            if event[0] == Ev.ELECT:
                context = agent.r[CONTEXT]
                self.electing.add((context.first + context.cta, context.warp))
            if event[0] == Ev.UNKNOWN:
                self.stuck.append(event[2])
            if event[0] in (Ev.EXIT, Ev.UNKNOWN):
                return False
            if event[0] in _BLOCKING:
                return True
        self.cut_short = True
        return False


def _digest(before: bytes, agent: int, event: Event) -> bytes:
    """The digest of some events and one more; ``hash`` would not do: that of -1 is that of -2."""
    return blake2b(before + repr((agent, event)).encode(), digest_size=32).digest()


def _laid_out(program: Program, launch: Launch) -> Layout:
    """Where variables lie, in the first or the second layout."""
    room = program.room_for_arrays
    laid = layout(program.module, program.function, launch.dynamic, spaced=room)
    if not launch.second_layout:
        return laid
    variables = shared_variables(program.module, program.function)
    return second_layout(laid, variables, program.open_arrays, room)


def _open_dynamic(tables: Tables, program: Program, launch: Launch) -> None:
    """Notes where dynamic shared memory begins, if nobody says how many bytes it has."""
    variables = (*program.function.variables, *program.module.variables)
    dynamic = {v.name for v in variables if v.space == "shared" and (v.extern or not v.size)}
    places = {name: at for name, at in tables.layout.shared.items() if name in dynamic}
    if places and launch.dynamic is None:
        tables.dynamic_start = min(places.values())
        sized = launch.space is not None or launch.chosen
        tables.grows = {} if sized and not launch.kept_inside else None
        tables.in_dynamic = program.reached(launch.block, places, parameters=not launch.kept_inside)


def _arrays(
    laid: Layout, program: Program, *, everywhere: bool = False
) -> Callable[[int, int], tuple[int, int, str] | None]:
    """By the site of an access the array that one of its addresses names; ``everywhere``: also where a
    constant leads past the array."""
    within = {name: [x for x in laid.names if x[0] <= low < x[1]] for name, low in laid.shared.items()}
    places = {name: found[0] for name, found in within.items() if found}
    sizes = {name: high - low for name, (low, high, _) in places.items()}
    named = program.names_array(dict.fromkeys(sizes, 1 << RANK) if everywhere else sizes)
    return lambda site, which: places.get(named(site, which) or "")


def elected_lanes(
    program: Program, launch: Launch, cluster: int | None, first: PtxSystem | None = None
) -> list[ElectedLane]:
    """The lanes to elect that together represent every choice.

    One that no guard names, and one of each other set of lanes that guards distinguish in a warp that elects.
    Two of each set where lanes do something at places of their own, which the elected lane may meet: one of
    two is not at the place itself. Two as well where lanes may part behind what was seen; such parts are then
    held against what was tried. Every lane where what the elected one does depends on its number, where
    others learn this, and where a part of a warp elects.
    """
    found = program.elections
    if not found.any or not found.matter:
        return [LOWEST]
    of_lanes = {
        k: program.uniformity(launch.block).read_at(k, names) & LANES for k, names in found.apart.items()
    }
    by_number = found.announced or found.nested or any(of_lanes[k] for k in found.alone)
    if by_number or program.elects_in_parts(launch.block):
        several = by_number and program.elects_by_several_masks(launch.block)
        return each_of(range(WARP), all_needed=True, of_one_mask=several, pairs=by_number)
    apart = any(of_lanes.values())
    if not (found.named or apart):
        return [LOWEST]
    nobody = PtxSystem.fresh(program, launch, cluster, NOBODY, like=first)
    sets = [c.lanes for c in nobody.info.classes if (c.cta, c.warp) in nobody.electing]
    late = nobody.parts_late
    widest = max(sets, key=lambda m: (m.bit_count(), m), default=warp_mask(launch.threads, 0) if late else 1)
    lanes = {widest.bit_length() - 1: None}
    for mask in (widest, *sets):
        if not any(mask >> lane & 1 for lane in lanes):
            lanes[(mask & -mask).bit_length() - 1] = None
        left = mask & ~sum(1 << lane for lane in lanes)
        if (apart or late) and left and sum(mask >> lane & 1 for lane in lanes) < 2:
            lanes[(left & -left).bit_length() - 1] = None
    return each_of(lanes, all_needed=late)


_NEVER = Unknown(Reason("a register that was never written", Cause.UNSET), UNWRITTEN)


__all__ = ["PtxSystem", "elected_lanes"]
