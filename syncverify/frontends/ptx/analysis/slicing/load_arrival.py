"""Which reads of shared memory may not have arrived when the buffer is handed on (K1).

ptxas moves arithmetic, shuffles, votes, ``mma`` and ``ld.global.nc`` behind an arrive, so none of them
shows that a loaded value is there. What does is a memory operation, barrier or ``wgmma`` that needs something
computed from it, or a branch that decides about one. Arithmetic carries "not yet" from its operands to its
results. A read that is over before the next hand-over on all paths counts as used at once. The others get a
handle, and a USE before each instruction that shows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from syncverify.frontends.ptx.decode.wmma import moves_matrix
from syncverify.frontends.ptx.flow.control_flow import Flow, live_before
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import results, sources

_NOT_YET = ("try_wait", "test_wait", "pending_count", "inval")
_JUMPS = frozenset({"bra", "brx", "ret", "exit"})
#: Instructions that no release overtakes, whatever their kind; see _pins for loads and stores.
_PINNED = frozenset(
    "atom red bar barrier mbarrier cp wgmma ldmatrix stmatrix multimem tensormap call trap "
    "clusterlaunchcontrol".split()
)
#: Loads and stores that a register, a cache line or the read-only path may represent.
_NO_MEMORY = frozenset({"local", "param", "const", "nc"})
#: Stands for what lies in local memory and in parameters of calls.
_SPILLED = "%spilled"
#: Stands for what the values of a branch select that ptxas may turn into arithmetic.
_SELECTED = "%selected"
_KEEP = ((_SPILLED,), (_SELECTED,))
#: What each register may still wait for: a bit per load.
_State = dict[str, int]


@dataclass(frozen=True, slots=True)
class Uses:
    """``late``: numbers of loads, which are their handles too; ``lost``: those that nothing ever shows to be
    over; ``at``: per instruction the handles that it shows to be."""

    late: frozenset[int]
    at: Mapping[int, tuple[int, ...]]
    lost: frozenset[int] = frozenset()


NO_USES = Uses(frozenset(), {})


def releases_buffer(i: Instr) -> bool:
    """Whether others may write a buffer after this instruction, or the issuer's own copy does."""
    match i.op:
        case "mbarrier":
            return i.mods[:1] != () and i.mods[0] not in _NOT_YET
        case "bar" | "barrier":
            return True
        case "cp":
            quiet = ("prefetch", "commit_group", "wait_group", "wait_all")
            return ("bulk" in i.mods or "mbarrier" in i.mods) and not any(m in quiet for m in i.mods)
        case "st" | "red" | "atom":
            return "async" in i.mods or "release" in i.mods or "acq_rel" in i.mods
    return False


def unarrived_loads(flow: Flow, loads: Collection[int]) -> Uses:
    """``loads``: the numbers of the instructions that read shared memory."""
    if not loads or not any(map(_fills, flow.body)) or not any(map(releases_buffer, flow.body)):
        return NO_USES
    return _Analysis(flow, loads).run()


def _fills(i: Instr) -> bool:
    """Whether the async proxy may write shared memory: what a generic read has to be bridged to."""
    if i.op == "cp" and "bulk" in i.mods:
        spaces = [m for m in i.mods if m == "global" or m.startswith("shared")]
        return spaces[:1] != ["global"] and "prefetch" not in i.mods
    return i.op in ("call", "clusterlaunchcontrol")


def _pins(i: Instr) -> bool:
    """Whether an instruction runs before a later release, and so what it reads is there."""
    if i.op in ("ld", "st"):
        return _NO_MEMORY.isdisjoint(i.mods)
    return i.op in _PINNED or moves_matrix(i)


def _into(i: Instr) -> tuple[str, ...]:
    """The registers that take on what an instruction's operands wait for."""
    if i.op == "st" and not _NO_MEMORY.isdisjoint(i.mods):
        return (_SPILLED,)
    return results(i)


def _out_of(i: Instr) -> tuple[str, ...]:
    """The registers that an instruction's results wait for, and that it needs if it is pinned."""
    spilled = i.op == "call" or (i.op == "ld" and not {"local", "param"}.isdisjoint(i.mods))
    return (*sources(i), _SPILLED) if spilled else sources(i)


def _all(state: _State) -> int:
    found = 0
    for held in state.values():
        found |= held
    return found


class _Analysis:
    """A forward data-flow analysis: which loads each register may still wait for."""

    def __init__(self, flow: Flow, loads: Collection[int]) -> None:
        self.flow = flow
        self.body = flow.body
        self.bit = {k: 1 << n for n, k in enumerate(sorted(loads))}
        self.loads = sorted(loads)
        self.into = [_into(i) for i in self.body]
        self.out_of = [_out_of(i) for i in self.body]
        self.pins = [_pins(i) for i in self.body]
        carries = [k for k in range(len(self.body)) if not self.pins[k]]
        held = self._closure({r for k in loads for r in results(self.body[k])}, carries)
        for b in sorted(flow.reached):
            last = flow.blocks[b].hi - 1
            if self.body[last].op in _JUMPS and not held.isdisjoint(self.out_of[last]):
                self.pins[last] = self._decides(b)
                self.into[last] = (_SELECTED,)
        needed = self._needed(carries)
        for k, i in enumerate(self.body):
            if i.op == "ld" and self.pins[k] and needed.isdisjoint(self.into[k]):
                self.pins[k] = False  # ptxas leaves out a load that nothing needs
        self.names = held & needed | {_SELECTED}
        self.live = live_before(flow, lambda k: self.out_of[k], self._overwrites, self.names)
        self.steps = {
            n: [k for k in range(b.lo, b.hi) if self._matters(k)] for n, b in enumerate(flow.blocks)
        }
        self.crossed = 0
        self.rotated = 0
        self.at: dict[int, int] = {}

    def _overwrites(self, k: int) -> tuple[str, ...]:
        return self.into[k] if self.into[k] not in _KEEP else ()

    def _closure(self, found: set[str], carries: Iterable[int]) -> frozenset[str]:
        """The registers that may hold what is computed from others."""
        users: dict[str, list[int]] = {}
        for k in carries:
            for r in self.out_of[k]:
                users.setdefault(r, []).append(k)
        work = list(found)
        while work:
            for k in users.get(work.pop(), ()):
                more = [r for r in self.into[k] if r not in found]
                found.update(more)
                work += more
        return frozenset(found)

    def _needed(self, carries: Iterable[int]) -> frozenset[str]:
        """The registers of which something is computed that has an effect: others are dead code to ptxas."""
        makers: dict[str, list[int]] = {}
        found: set[str] = set()
        for k, i in enumerate(self.body):
            if self.pins[k] or not self.into[k] or i.op in _JUMPS:
                found.update(self.out_of[k])
        for k in carries:
            for r in self.into[k]:
                makers.setdefault(r, []).append(k)
        work = list(found)
        while work:
            for k in makers.get(work.pop(), ()):
                more = [r for r in self.out_of[k] if r not in found]
                found.update(more)
                work += more
        return frozenset(found)

    def _decides(self, block: int) -> bool:
        """Whether something that is pinned depends on a block's branch; ptxas makes others arithmetic."""
        inside = self.flow.between(block)
        if block in inside or self.flow.join(block) == self.flow.end:
            return True
        blocks = (self.flow.blocks[b] for b in inside)
        return any(
            _pins(self.body[k]) or releases_buffer(self.body[k]) for b in blocks for k in range(b.lo, b.hi)
        )

    def _matters(self, k: int) -> bool:
        touched = (*self.into[k], *self.out_of[k])
        return k in self.bit or releases_buffer(self.body[k]) or not self.names.isdisjoint(touched)

    def run(self) -> Uses:
        entry: dict[int, _State] = {0: {}}
        left: dict[int, int] = {}  # per block: what waits at its end
        work = deque([0])
        while work:
            n = work.popleft()
            state = dict(entry[n])
            for k in self.steps[n]:
                self._step(state, k)
            left[n] = _all(state)
            for s in self.flow.blocks[n].succ:
                if s == self.flow.end:
                    continue
                here = {r: v for r, v in state.items() if r in self.live[s] or r == _SELECTED}
                old = entry.get(s)
                new = here if old is None else old | {r: v | old.get(r, 0) for r, v in here.items()}
                if new != old:
                    entry[s] = new
                    if s not in work:
                        work.append(s)
        self._not_needed(entry, left)
        # A value that a later run of its own load overtakes never counts as used: the safe side.
        shown = self.crossed & ~self.rotated
        at = {k: self._numbers(v & shown) for k, v in self.at.items() if v & shown}
        seen = {k for handles in at.values() for k in handles}
        late = frozenset(self._numbers(self.crossed))
        return Uses(late, at, late - seen)

    def _not_needed(self, entry: Mapping[int, _State], left: Mapping[int, int]) -> None:
        """On the side of a branch that needs a value no more, the read is over: what comes late is not seen.

        If other lanes take it from here by a shuffle, that shuffle has run: ptxas keeps it before the branch.
        """
        for n, waits in left.items():
            for s in self.flow.blocks[n].succ if waits else ():
                if s != self.flow.end and (dead := waits & ~_all(entry[s])):
                    first = self.flow.blocks[s].lo
                    self.at[first] = self.at.get(first, 0) | dead

    def _numbers(self, bits: int) -> tuple[int, ...]:
        return tuple(k for k in self.loads if self.bit[k] & bits)

    def _step(self, state: _State, k: int) -> None:
        i = self.body[k]
        waits = 0
        for r in self.out_of[k]:
            waits |= state.get(r, 0)
        if self.pins[k] and waits:
            self.at[k] = self.at.get(k, 0) | waits
            for r, held in list(state.items()):
                self._set(state, r, held & ~waits)
            waits = 0
        if releases_buffer(i):
            for held in state.values():
                self.crossed |= held
        mine = self.bit.get(k, 0)
        keeps = i.guard is not None or self.into[k] in _KEEP
        for r in self.into[k]:
            self._set(state, r, state.get(r, 0) if keeps else 0)
        if mine and any(held & mine for held in state.values()):
            self.rotated |= mine
        for r in self.into[k]:
            if r in self.names:
                self._set(state, r, state.get(r, 0) | waits | mine)

    def _set(self, state: _State, register: str, bits: int) -> None:
        if bits:
            state[register] = bits
        else:
            state.pop(register, None)
