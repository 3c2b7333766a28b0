"""The machine: a launch of PTX text, executed until it ends, does harm, or spends its steps.

Who moves next is the schedule's choice: a fragment of a warp for a burst of instructions, or an engine for
a piece of an asynchronous operation.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx import lifetimes, settle
from syncverify.simulate.ptx.clocks import ASYNC_GLOBAL, ASYNC_SHARED, Clock, Clocks, Slot
from syncverify.simulate.ptx.harm import CannotExecute, Harm, HarmFound, Kind, Place, StepLimit
from syncverify.simulate.ptx.launch import Launch
from syncverify.simulate.ptx.loading import Loaded, Placed
from syncverify.simulate.ptx.memory import (
    CONST_WINDOW,
    FUNCTION_WINDOW,
    GLOBAL_WINDOW,
    NOWHERE,
    SHARED_START,
    Arena,
    GlobalMemory,
    SharedMemory,
    window_of,
)
from syncverify.simulate.ptx.older_values import OlderValues
from syncverify.simulate.ptx.shadow import Conflict, Shadow, Writes
from syncverify.simulate.ptx.special_registers import WarpPlace, in_all_lanes, special_registers
from syncverify.simulate.ptx.state import BLOCKED, GONE, Block, Cluster, Fragment, Join, Meeting, Next, Warp
from syncverify.simulate.ptx.types import LANES, UNSIGNED, Lanes, filled

if TYPE_CHECKING:
    from syncverify.simulate.ptx.engines import Operation
    from syncverify.simulate.ptx.mbarriers import MBarrier
    from syncverify.simulate.ptx.ordering import Release
    from syncverify.simulate.ptx.schedules import Schedule

#: Backward branches without any change of shared state after which a fragment's registers are compared.
_TURNS = 12
#: Of so many executions registers hold words below that number in one, until they are written: words of all
#: bits are hardly ever what a kernel compares with.
_SMALL = 3
#: Of instructions that lanes execute together.
_TOGETHER = "parallel synchronization"
#: Places for warps on an SM.
WARP_PLACES = 64
#: Answers 'not yet' for each of those that run, after which it counts that they only ask.
ROUNDS = 16


class Machine:
    """One execution of a launch."""

    def __init__(self, loaded: Loaded, launch: Launch, schedule: Schedule, steps: int, seed: int) -> None:
        self.loaded = loaded
        self.launch = launch
        self.schedule = schedule
        self.limit = steps
        self.steps = 0
        self.draw = np.random.default_rng(seed)
        self.seed = seed
        self.turn = seed % LANES  # which lane has which part of a matrix of wmma
        self.version = 0  # counts changes that another thread may see
        self.fragments: list[Fragment] = []
        self.engines: list[Operation] = []
        self.blocks: list[Block] = []
        self.clusters: list[Cluster] = []
        self.current: Fragment | None = None
        self.log: list[tuple[str, int]] = []
        self.warnings: dict[tuple[int, str], None] = {}
        self.tensormap_edits: dict[tuple[str, int], tuple[int, int, int]] = {}
        self.tensormap_known: dict[tuple[int, int], Clock] = {}
        #: By place of a tensor map the copies that read it: agent, epoch and line.
        self.map_reads: dict[int, list[tuple[int, int, int]]] = {}
        self.barriers_made = 0
        self.operands: dict[tuple[Any, ...], Lanes] = {}
        self.loads: dict[tuple[int, int], settle.Known] = {}  # (first thread, line) -> loads of shared memory
        self.giving_up = False  # polls may answer 'not yet', since nobody else can move
        self.rounds = 0  # how often they did since the last change that another thread may see
        self.rounds_at = -1
        self._memory()
        self._threads()
        self.flags: dict[int, tuple[Release, ...]] = {}  # byte in global or shared memory -> what was left
        self.fence_release: dict[int, dict[int, Clock]] = {}  # by thread, by scope of its last fence
        self.fence_acquire: dict[int, list[Release]] = {}  # thread -> what relaxed reads have seen
        self.fenced_inits: dict[int, set[int]] = {}
        self.own_inits: dict[int, set[int]] = {}
        self.sc_order: dict[str, Clock] = {}
        self.older = OlderValues(schedule.lateness) if schedule.lateness else None
        self.before = -1  # the agent that represents the grid before, where that may still run
        if launch.dependent:
            self.before = self.clocks.outsider(Slot(0, 0, 0, -1, "the grid before's", True))
            self.settled = np.zeros(self.memory.size, bool)
            for buffer, start in zip(loaded.buffers, self.memory.starts, strict=True):
                self.settled[start : start + buffer.data.nbytes] = buffer.settled

    # -- set-up -------------------------------------------------------------------------------------------

    def _memory(self) -> None:
        loaded, launch = self.loaded, self.launch
        self.clocks = Clocks(launch.blocks * launch.threads)
        self.memory = GlobalMemory(loaded.buffer_sizes)
        for start, data in zip(self.memory.starts, loaded.buffer_bytes, strict=True):
            self.memory.bytes[start : start + len(data)] = data
        for number, pointer in loaded.inside:
            raw = np.frombuffer(pointer.bytes(self.memory.starts), np.uint8)
            at = self.memory.starts[number] + pointer.at
            self.memory.bytes[at : at + len(raw)] = raw
        self.nowhere: Arena | None = None
        if launch.boundless:
            self.nowhere = Arena(NOWHERE)
            self.nowhere.bytes[:] = self.draw.integers(0, 256, self.nowhere.size, np.uint8)
        if "global" in launch.watches:
            self.memory.shadow = Shadow(self.clocks, self.memory.size, loaded.granule, ASYNC_GLOBAL)
        elif "maps" in launch.watches:
            self.memory.shadow = Writes(self.clocks, self.memory.size, loaded.granule, ASYNC_GLOBAL)
        size = loaded.static_shared + launch.shared
        stride = -(-(SHARED_START + size + 1024) // 1024) * 1024
        arena = Arena(stride * launch.blocks)
        arena.bytes[:] = self.draw.integers(0, 256, arena.size, np.uint8)  # nobody has written it
        arena.shadow = Shadow(self.clocks, arena.size, loaded.granule, ASYNC_SHARED)
        arena.shadow.arrived = lambda *load: settle.has_arrived(self, *load)
        self.shared = SharedMemory(arena, stride, np.zeros(arena.size // 8 + 1, bool))
        self.shared_size = size
        self.constants = Arena(max(len(loaded.constants), 16))
        self.constants.bytes[: len(loaded.constants)] = loaded.constants
        self.params = Arena(max(len(loaded.params), 16) + 16)
        relocated = loaded.relocated(self.memory.starts)
        self.params.bytes[: len(relocated)] = relocated
        for placed in loaded.placed:
            self._place(placed)
        self.local = Arena(loaded.local_size * launch.blocks * launch.threads)
        self.local.bytes[:] = self.draw.integers(0, 256, self.local.size, np.uint8)

    def _place(self, placed: Placed) -> None:
        """Writes an address where it stands among the initial values of a variable."""
        (space, at), how = placed.target, placed.how
        address = self.address(space, at) + how.plus
        if how.generic and space == "const":
            address += CONST_WINDOW
        if how.byte >= 0:
            address = address >> 8 * how.byte & 0xFF
        arena, start = (
            (self.memory, self.memory.starts[placed.start])
            if placed.space == "global"
            else (self.constants, placed.start)
        )
        raw = (address % (1 << 8 * how.width)).to_bytes(how.width, "little")
        arena.bytes[start + how.at : start + how.at + how.width] = np.frombuffer(raw, np.uint8)

    def _threads(self) -> None:
        launch, loaded = self.launch, self.loaded
        cx, cy, cz = launch.cluster
        clusters: dict[tuple[int, int, int], Cluster] = {}
        per_block = launch.threads
        registers = loaded.registers(launch)
        for number, place in enumerate(launch.places):
            key = (place[0] // cx, place[1] // cy, place[2] // cz)
            cluster = clusters.setdefault(key, Cluster(len(clusters)))
            rank = place[0] % cx + cx * (place[1] % cy + cy * (place[2] % cz))
            block = Block(
                number, place, cluster, rank, 0, self.shared_size, number * self.shared.stride + SHARED_START,
                number * per_block, per_block,
            )  # fmt: skip
            block.shared_base = window_of(block)
            cluster.blocks.append(block)
            self.blocks.append(block)
            used = 0
            for w in range(-(-per_block // LANES)):
                count = min(LANES, per_block - w * LANES)
                live = np.arange(LANES) < count
                first = block.first_thread + w * LANES
                warp = Warp(self, block, w, first, count, live)
                warp.threads = np.minimum(first + np.arange(LANES), block.first_thread + per_block - 1)
                warp.registers = registers
                used += registers * LANES
                block.warps.append(warp)
                self._special(warp)
                fragment = Fragment(warp, loaded.entry, self.frame(warp, loaded.entry), live.copy())
                warp.fragments.append(fragment)
                self.fragments.append(fragment)
            block.free_registers = 0
        for cluster in clusters.values():
            cluster.blocks.sort(key=lambda b: b.rank)
        self.clusters = list(clusters.values())
        threads = np.zeros((2, launch.blocks * per_block), np.int32)
        for block in self.blocks:
            own = slice(block.first_thread, block.first_thread + per_block)
            threads[0, own] = block.number
            threads[1, own] = block.cluster.number
        for shadow in (self.memory.shadow, self.shared.arena.shadow):
            if shadow is not None:
                shadow.place = threads

    def _special(self, warp: Warp) -> None:
        launch, block = self.launch, warp.block
        bx, by, bz = launch.block
        gx, gy, gz = launch.grid
        cx, cy, cz = launch.cluster
        # PTX ISA, %warpid: a place on the SM, which other blocks may have before this one
        first = int(np.random.default_rng((self.seed, block.number)).integers(WARP_PLACES))
        place = WarpPlace(
            (bx, by, bz), (gx, gy, gz), (cx, cy, cz), launch.shared, self.shared_size, block.shared_base,
            block.number, block.place, block.rank, warp.number,
        )  # fmt: skip
        own = {
            "%warpid": in_all_lanes((warp.number + first) % WARP_PLACES),
            "%nwarpid": in_all_lanes(WARP_PLACES),
        }
        warp.special = {**special_registers(place), **own}

    def frame(self, warp: Warp, code: Any, local: int = 0) -> list[Lanes]:
        """The slots of a function that begins; ``local``: where its local memory lies."""
        R = list(code.template)
        if self.seed % _SMALL == _SMALL - 1:
            draw = np.random.default_rng((self.seed, warp.block.number, warp.number))
            for slot, lanes in zip(
                code.words, draw.integers(0, _SMALL, (len(code.words), LANES)), strict=True
            ):
                R[slot] = lanes.astype(R[slot].dtype)
        for slot, kind, what in code.fills:
            if kind == "special":
                name, bits = what
                if name in warp.special:
                    value = warp.special[name]
                    R[slot] = value.astype(bool) if bits == 1 else value.astype(UNSIGNED[bits])
                else:
                    R[slot] = filled(0, bits)  # clocks: the instruction that reads them asks again
            else:
                (space, at), offset, bits = what
                base = local if space == "local" else 0
                R[slot] = filled(self.address(space, at, warp.block) + base + offset, bits)
        return R

    def address(self, space: str, at: Any, block: Block | None = None) -> int:
        """The address of a variable in its own space; of a shared one in a block."""
        match space:
            case "shared" if block is not None:
                return block.shared_base + int(at)
            case "global":
                return GLOBAL_WINDOW + self.memory.starts[at]
            case "const":
                return int(at)
            case "param":
                return self.loaded.param_offsets.get(at, 0)
            case "local":
                return int(at)
            case "function":
                return FUNCTION_WINDOW + int(at)
        raise CannotExecute(0, space, "a state space that is not known")

    # -- harm ---------------------------------------------------------------------------------------------

    def line(self, f: Fragment | None = None) -> int:
        f = f or self.current
        return f.code.lines[f.pc] if f is not None else 0

    def here(self, f: Fragment, lane: int = -1) -> Place:
        return Place(f.code.lines[f.pc], f.warp.block.number, f.warp.number, lane)

    def harm(
        self,
        kind: Kind,
        where: Place,
        detail: str,
        section: str = "",
        other: Place | None = None,
        space: str = "",
    ) -> HarmFound:
        return HarmFound(Harm(kind, where, detail, section, space, other, tuple(self.log)))

    def undefined(self, f: Fragment, detail: str, section: str, lane: int = -1, space: str = "") -> HarmFound:
        return self.harm(Kind.UNDEFINED, self.here(f, lane), detail, section, space=space)

    def warn(self, f: Fragment, detail: str) -> None:
        self.warnings[(f.code.lines[f.pc], detail)] = None

    def agent_place(self, agent: int, line: int) -> Place:
        if agent < self.clocks.threads:
            block = agent // self.launch.threads
            inside = agent % self.launch.threads
            return Place(line, block, inside // LANES, inside % LANES)
        slot = self.clocks.slots[agent]
        return Place(line, slot.block, slot.warp, slot.lane)

    def judges(self, space: str, line: int, other: int = 0) -> bool:
        """Whether a race of these lines is harm in this launch."""
        racing = self.launch.racing
        return space != "global" or racing is None or not racing.isdisjoint((line, other))

    def conflict(self, f: Fragment | Place, found: Conflict, what: str, space: str) -> HarmFound:
        where = self.here(f) if isinstance(f, Fragment) else f
        other = self.agent_place(found.agent, found.line)
        how = "a thread's" if found.agent < self.clocks.threads else self.clocks.slots[found.agent].what
        if found.stale:
            detail = f"{what} of {space} memory after {how} {found.earlier}, with no proxy fence between them"
            return self.harm(Kind.STALE, where, detail, "membar/fence: fence.proxy.async", other, space)
        detail = f"{what} of {space} memory, in no order with {how} {found.earlier}"
        return self.harm(Kind.RACE, where, detail, "memory consistency model: data races", other, space)

    # -- threads that meet --------------------------------------------------------------------------------

    def gather(self, f: Fragment, needed: Lanes, then: Any, meeting: Meeting) -> Next:
        """Waits until all ``needed`` lanes stand at this instruction, then executes it for all of them.

        Lanes that exit meanwhile are waited for no longer. Undefined if they have gone round it before,
        unless they may.
        """
        if not (needed & ~f.mask).any():
            return then(f)
        warp = f.warp

        def together() -> list[Fragment]:
            return [x for x in warp.fragments if x is f or (x.meets == meets and x.alike(f))]

        def ready() -> bool:
            wanted = needed & warp.live
            for x in together():
                wanted = wanted & ~x.mask
            return not wanted.any()

        def resume() -> Next:
            for x in together():
                if x is not f:
                    f.absorb(x)
            f.meets = None
            if not meeting.around and (needed & ~f.mask & warp.passed).any():
                raise self.undefined(f, f"{meeting.what}: lanes that it needs go round it", _TOGETHER)
            return then(f)

        f.meets = meets = (meeting.what, meeting.mask)
        return f.block(ready, resume)

    def whole_warp(self, f: Fragment, then: Any, what: str, *, around: bool = False) -> Next:
        """An instruction of all lanes of the warp that have not exited; ``around``: others may go round it,
        as only ``.aligned`` forbids, and are waited for until they exit."""
        return self.gather(f, f.warp.live, then, Meeting(what, around=around))

    def join_at(self, f: Fragment) -> Next:
        """Lanes that a branch parted may meet again here; returns BLOCKED if they are waited for."""
        while f.joins and f.joins[-1].place == f.pc and f.joins[-1].depth == len(f.frames):
            join = f.joins[-1]
            if join.broken:
                f.joins.pop()
                continue
            waited = join.mask & f.warp.live & ~f.mask
            arrived = [x for x in join.arrived if x in f.warp.fragments]
            for x in arrived:
                waited = waited & ~x.mask
            if not waited.any():
                for x in arrived:
                    x.joins = [j for j in x.joins if j is not join]
                f.joins.pop()
                for x in arrived:
                    x.ready = None
                    f.absorb(x)
                continue
            join.arrived.append(f)

            def ready(join: Join = join, f: Fragment = f) -> bool:
                """All are here; the last one to come takes the others with it."""
                waited = join.mask & f.warp.live & ~f.mask
                for x in join.arrived:
                    if x in f.warp.fragments:
                        waited = waited & ~x.mask
                return join.broken or not waited.any()

            def resume(join: Join = join, f: Fragment = f) -> Next:
                join.arrived = [x for x in join.arrived if x is not f]
                if join.broken:
                    f.joins = [j for j in f.joins if j is not join]
                return f.pc if self.join_at(f) is None else BLOCKED

            f.meets = None
            return f.block(ready, resume)
        return None

    def branch(self, f: Fragment, taken: Lanes, target: int, at: int, place: int | None) -> Next:
        """Parts the lanes of a fragment at a conditional branch."""
        there = f.mask & taken
        if not there.any():
            return None
        if np.array_equal(there, f.mask):
            return target
        join = None
        if place is not None and self.schedule.reconverges(self):
            join = Join(place, f.mask.copy(), len(f.frames))
            f.joins.append(join)
        other = f.split(there)
        other.pc = target
        f.pc = at + 1
        self.arrive_at(other)
        return f.pc

    def arrive_at(self, f: Fragment) -> None:
        """A fragment that begins at a place where lanes meet."""
        if f.joins and f.joins[-1].place == f.pc:
            self.join_at(f)

    # -- running ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Executes to the end; HarmFound, CannotExecute or StepLimit otherwise."""
        with np.errstate(all="ignore"):
            while self.fragments:
                self._turn()
            self._drain()

    def _drain(self) -> None:
        """What is still in flight when all threads have ended."""
        while self.engines:
            self.engines[0].run_all()

    def _turn(self) -> None:
        able = [f for f in self.fragments if f.ready is None or self._awake(f)]
        if not able and not self.engines:
            able = self._last_resort()
            if not able:
                raise self._nobody_moves()
        choice = self.schedule.pick(self, able, self.engines)
        if isinstance(choice, Fragment):
            self._part(choice)
            self._burst(choice)
        else:
            if self.schedule.records:
                self.log.append((choice.name, choice.line))
            choice.step()
            self.version += 1

    def _awake(self, f: Fragment) -> bool:
        assert f.ready is not None
        if f.stuck == self.version:
            return False
        return f.ready()

    def _last_resort(self) -> list[Fragment]:
        """Nobody can move: hints where lanes meet are broken, then polls answer 'not yet'."""
        for f in self.fragments:
            if f.ready is not None and f.joins and f in f.joins[-1].arrived:
                f.joins[-1].broken = True
                ends = f.code.ends_at(f.pc)
                if not ends and any(x.meets is not None for x in f.warp.fragments):
                    f.warp.passed = f.warp.passed | f.mask
                return [f]
        polls = [f for f in self.fragments if f.polls and f.stuck != self.version]
        if polls:
            self.giving_up = True
            self.rounds = self.rounds + 1 if self.rounds_at == self.version else 1
            self.rounds_at = self.version
        return polls

    def _still(self) -> Harm | None:
        """What all wait for, where for many rounds they have only asked whether a phase is over."""
        if self.rounds_at != self.version or self.rounds < ROUNDS * len(self.fragments):
            return None
        return self._nobody_moves().harm

    def _nobody_moves(self) -> HarmFound:
        stuck = list(self.fragments)
        for f in stuck:
            if f.meets is not None:
                missing = [x for x in f.warp.fragments if x is not f]
                lines = ", ".join(str(x.code.lines[x.pc]) for x in missing) or "none"
                return self.undefined(
                    f,
                    f"{f.meets[0]}: lanes that it needs are elsewhere (lines {lines})",
                    _TOGETHER,
                )
        f = stuck[0]
        waits = Counter(line for line, _, _ in {(x.code.lines[x.pc], x.warp.block, x.warp) for x in stuck})
        shown = ", ".join(
            f"{n} {'warp' if n == 1 else 'warps'} at line {line}" for line, n in sorted(waits.items())
        )
        return self.harm(Kind.HANG, self.here(f), f"nobody can move: {shown} of the PTX")

    def _part(self, f: Fragment) -> None:
        """Some lanes stay behind where the schedule says so: a warp runs in no common step."""
        there = None if f.ready is not None else self.schedule.parts(self, f)
        if there is not None and (f.mask & there).any() and (f.mask & ~there).any():
            f.split(f.mask & there).pc = f.pc

    def _burst(self, f: Fragment) -> None:
        self.current = f
        if f.ready is not None:
            resume = f.resume
            f.ready = f.resume = None
            f.polls = False
            if self.schedule.records:
                self.log.append((agent_name(f), f.code.lines[f.pc]))
            self.steps += 1
            if resume is not None:
                after = resume()
                if not self._moved(f, after):
                    return
        code, left = f.code, min(self.schedule.burst(self), self.limit + 1 - self.steps)
        joins = self.loaded.join_places[code.function.name]
        records, stops, version = self.schedule.records, self.schedule.stops_at_changes, self.version
        while left > 0 and not (stops and version != self.version):
            left -= 1
            pc = f.pc
            if pc in joins and f.joins and self.join_at(f) is not None:
                break
            self.steps += 1
            if records:
                self.log.append((agent_name(f), code.lines[pc]))
            if f.warp.in_flight and not f.warp.in_flight.isdisjoint(code.touches[pc]):
                lifetimes.touches_in_flight(self, f, pc)
            after = code.code[pc](f)
            if after is None:
                f.pc = pc + 1
                continue
            if not self._moved(f, after):
                break
            if f.code is not code:
                code = f.code
                joins = self.loaded.join_places[code.function.name]
            elif after <= pc and after >= 0 and self._circles(f):
                break
        self.giving_up = False
        if self.steps > self.limit:
            raise StepLimit(f"no end within {self.limit} warp instructions", self._still())

    def _moved(self, f: Fragment, after: Next) -> bool:
        if after is None:
            f.pc += 1
        elif after == BLOCKED or after == GONE:
            return False
        else:
            f.pc = after
        return True

    def _circles(self, f: Fragment) -> bool:
        """A backward branch: whether the fragment turns in a circle until something else changes."""
        if f.since != self.version:
            f.since, f.turns, f.snapshot = self.version, 0, None
            return False
        f.turns += 1
        if f.turns < _TURNS:
            return False
        if f.snapshot is None or f.turns % 64 == 0:
            f.snapshot = (f.pc, list(f.R))
            return False
        place, registers = f.snapshot
        if place != f.pc or any(
            a is not b and not np.array_equal(a, b) for a, b in zip(registers, f.R, strict=True)
        ):
            return False
        version = self.version
        f.stuck = version
        f.block(lambda: self.version != version)
        return True

    # -- the ends of lanes --------------------------------------------------------------------------------

    def exit_lanes(self, f: Fragment, mask: Lanes) -> Next:
        """Lanes end. The rest of the fragment goes on."""
        warp = f.warp
        self.version += 1
        lifetimes.leaving(self, f, mask)
        warp.live = warp.live & ~mask
        f.mask = f.mask & ~mask
        left = bool(f.mask.any())
        if not left:
            warp.fragments.remove(f)
            self.fragments.remove(f)
        if not warp.live.any():
            lifetimes.warp_left(self, warp)
            if not any(w.live.any() for w in warp.block.warps):
                warp.block.gone = True
                lifetimes.block_left(self, warp.block)
        return None if left else GONE

    # -- knowledge ----------------------------------------------------------------------------------------

    def barrier_at(self, at: int) -> MBarrier:
        """The live mbarrier at a byte of the arena of shared memory."""
        return self.blocks[self.shared.block_of(at)].mbarriers[at]

    def release(self, rows: Any) -> Clock:
        self.version += 1
        return self.clocks.snapshot(rows)

    def acquire(self, rows: Any, clock: Clock | None) -> None:
        if clock is not None:
            self.clocks.join(rows, clock)

    def settle_all(self, f: Fragment, on: Lanes) -> None:
        """A fence: values that these lanes have loaded from shared memory have arrived."""
        settle.all_of(self, f, on)


def agent_name(f: Fragment) -> str:
    """A fragment's name in schedules: block, warp and its lowest lane."""
    return f"b{f.warp.block.number}.w{f.warp.number}.l{int(np.argmax(f.mask))}"
