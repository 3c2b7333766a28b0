"""Loops that wait in shared memory for what another thread writes: flags that are polled, spin locks.

A strong load that one comparison with a number ends is one blocking event (``shared_flags``), and stores that
may reach its word are followed. So is an atomic that takes a lock. Any other such wait is no event: whether
it ends, and by which value, is not known. So a kernel with one is not proved.

Example: ``while (flag == 0) {}`` with a volatile ``flag`` is an event, and so is
``while (atomicCAS(&lock, 0, 1) != 0) {}``. ``while (atomicAdd(&count, 1) < 4) {}`` is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from syncverify.frontends.ptx.analysis.exclusion.swap_loops import changes_one_word
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import reaches
from syncverify.frontends.ptx.analysis.handover.handover_detection import (
    first_turn,
    global_spins,
    innermost,
    spin_of,
)
from syncverify.frontends.ptx.decode.global_access import GlobalSpin
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.decode.shared_flags import SharedTurn
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import computes, harmless
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Sym
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.model.events import Ev


def shared_polls(flow: Flow) -> list[int]:
    """Loads and atomics of shared memory at one place, in a loop that does nothing else and that their value
    ends; without those that repeat a ``cas`` until it succeeds."""
    return [k for k in _polls(flow, "shared") if not _changes(flow, k)]


def _changes(flow: Flow, k: int) -> bool:
    loop = innermost(flow, k)
    return loop is not None and changes_one_word(flow, k, loop)


#: Nothing is asked of what atomics bring.
NO_TURNS: Mapping[int, SharedTurn] = {}


@dataclass(frozen=True, slots=True)
class SharedFlags:
    """The spins on words of shared memory that are events, and the accesses that may write these words.

    ``locks``: atomics that take a lock; ``turns``: those by which threads try a lock once, or count.
    ``frees``: those of the writes that come behind one. ``others``: all other accesses that may reach the
    word of a lock, and other writes of flags.
    """

    spins: Mapping[int, GlobalSpin]
    writes: frozenset[int]
    locks: Mapping[int, GlobalSpin]
    frees: frozenset[int]
    others: frozenset[int]
    turns: Mapping[int, SharedTurn] = field(default_factory=dict)

    @property
    def waits(self) -> dict[int, GlobalSpin]:
        """All that is waited for, by load or atomic."""
        return {**self.spins, **self.locks}

    @property
    def predicates(self) -> dict[int, tuple[str, int]]:
        """By ``setp`` its predicate, and what that holds after a spin."""
        return {s.decides: (s.predicate, s.passed) for s in self.waits.values()}


def shared_flags(
    flow: Flow, accesses: Mapping[int, Access], turns: Mapping[int, SharedTurn] = NO_TURNS
) -> SharedFlags:
    """The flags of a function; none where polls have several widths. ``accesses``: to shared memory."""
    named = [k for k, a in accesses.items() if a.space == "shared" and flow.block_of[k] in flow.reached]
    spins, locks = global_spins(flow, named), _locks(flow, named)
    turns = {k: turn for k, turn in turns.items() if k in named and k not in spins and k not in locks}
    takes = {*locks, *turns}
    waits = {*spins, *takes}
    sizes = {accesses[k].size for k in waits}
    if len(sizes) != 1:
        return SharedFlags({}, frozenset(), {}, frozenset(), frozenset())
    (size,) = sizes
    variables = _Variables(flow)

    def meets(a: Access, polled: Collection[int]) -> bool:
        others = [variables.of(accesses[k].address) for k in polled]
        return any(_may_meet(variables.of(a.address), names) for names in others)

    writes = frozenset(
        k
        for k, a in accesses.items()
        if k not in waits
        and a.code in (Ev.WRITE, Ev.ATOMIC)
        and a.size == size
        and len(a.elements) == 1
        and a.packed == 1
        and meets(a, waits)
    )
    frees = frozenset(
        k
        for k in writes
        if not any(flow.block_of[k] in loop for loop in flow.loops)
        and meets(accesses[k], takes)
        and any(reaches(flow, take, k, lambda _: False) for take in takes)
    )
    others = frozenset(
        k
        for k, a in accesses.items()
        if k not in waits and k not in writes and meets(a, takes if a.code == Ev.READ else waits)
    )
    return SharedFlags(spins, writes, locks, frees, others, turns)


def _locks(flow: Flow, named: Collection[int]) -> dict[int, GlobalSpin]:
    """Atomics that are repeated until they find a value and put another one there, each by itself in a loop
    that is in no other; and the first try before such a loop."""
    found: dict[int, GlobalSpin] = {}
    for k in named:
        i = flow.body[k]
        if i.op != "atom" or i.guard is not None or sum(flow.block_of[k] in loop for loop in flow.loops) != 1:
            continue
        compares = "cas" in i.mods and i.operands[2] != i.operands[3]
        spin = spin_of(flow, k) if compares or "exch" in i.mods else None
        if spin is None or spin.compare != "==":
            continue
        loop = min((loop for loop in flow.loops if flow.block_of[k] in loop), key=len)
        if flow.moving(loop, i).isdisjoint(r for op in i.operands[2:] for r in registers(op)):
            found[k] = spin
    return {**found, **_first_takes(flow, named, found.values())}


def _first_takes(flow: Flow, named: Collection[int], spins: Collection[GlobalSpin]) -> dict[int, GlobalSpin]:
    """Atomics outside of loops that try once what a loop behind them repeats."""
    found: dict[int, GlobalSpin] = {}
    for k in named:
        if flow.body[k].op == "atom" and not any(flow.block_of[k] in loop for loop in flow.loops):
            first = next((x for s in spins if (x := first_turn(flow, k, s)) is not None), None)
            if first is not None:
                found[k] = first
    return found


def _may_meet(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether addresses made of some variables may be equal; an access outside its variable is found where
    the flag is read."""
    return not some or not others or not some.isdisjoint(others)


class _Variables:
    """The variables that registers are computed from; none where something else is in them."""

    def __init__(self, flow: Flow) -> None:
        self.names: dict[str, set[str]] = {}
        open_, grown = set[str](), True
        while grown:
            grown = False
            for i in flow.body:
                for name in results(i):
                    found = self.names.setdefault(name, set())
                    more = {op.name for op in i.operands[1:] if isinstance(op, Sym)}
                    more = more.union(*(self.names.get(x, set()) for x in sources(i)))
                    lost = not computes(i) or not open_.isdisjoint(sources(i))
                    if not more <= found or (lost and name not in open_):
                        grown = True
                        found |= more
                        open_ |= {name} if lost else set()
        self.lost = frozenset(open_)

    def of(self, at: Mem) -> frozenset[str]:
        if isinstance(at.base, Sym):
            return frozenset({at.base.name})
        names = registers(at)
        return frozenset() if not self.lost.isdisjoint(names) else frozenset().union(*map(self.known, names))

    def known(self, name: str) -> set[str]:
        return self.names.get(name, set())


def global_polls(flow: Flow) -> list[int]:
    """The same of global memory, by generic addresses as well."""
    return _polls(flow, "global")


def _polls(flow: Flow, space: str) -> list[int]:
    found = []
    for k, i in enumerate(flow.body):
        inside = [loop for loop in flow.loops if flow.block_of[k] in loop]
        if not inside or not _asks(i, space):
            continue
        loop = min(inside, key=len)
        body = [flow.body[j] for b in loop for j in range(flow.blocks[b].lo, flow.blocks[b].hi)]
        moved = {name for x in body for name in results(x)}
        still = moved.isdisjoint(name for op in i.operands if isinstance(op, Mem) for name in registers(op))
        if still and all(x is i or harmless(x) for x in body) and _ends(flow, loop, i, body):
            found.append(k)
    return found


def _asks(i: Instr, space: str) -> bool:
    if _space(i) != space:
        return False
    if i.op == "atom":
        return "add" not in i.mods or any(isinstance(op, Imm) and op.value == 0 for op in i.operands[2:])
    return i.op == "ld"


def _space(i: Instr) -> str:
    """The state space that an access names; global memory where it names none."""
    named = (m.split("::")[0] for m in i.mods)
    return next((m for m in named if m in ("shared", "local", "const", "param")), "global")


def _ends(flow: Flow, loop: frozenset[int], i: Instr, body: list[Instr]) -> bool:
    """Whether a value decides about a way out of a loop."""
    made = set(results(i))
    for _ in body:
        made |= {name for x in body if made.intersection(sources(x)) for name in results(x)}
    leaving = [b for b in loop if any(s not in loop for s in flow.blocks[b].succ)]
    guards = [flow.body[flow.blocks[b].hi - 1].guard for b in leaving]
    return any(g is not None and g.name in made for g in guards)


__all__ = ["SharedFlags", "global_polls", "shared_flags", "shared_polls"]
