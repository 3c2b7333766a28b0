"""Sizes that an outer loop's turns havocked: trip counts of the loops inside, which the outer loop keeps.

In ``for tile { for k < K }`` the states of a run differ in what K is modulo the ring. A proof in which every
turn takes any K, the n-th the same for all agents, represents the kernel too, and its states soon repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from syncverify.frontends.ptx.analysis.slicing.slice import Slice
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr
from syncverify.frontends.ptx.syntax.operands import is_poll, results, sources
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord, size
from syncverify.symbolic import loop_havoc
from syncverify.symbolic.context import AffineTerm
from syncverify.symbolic.round_robin import RoundRobin

#: Among how many roles iterations are distributed round-robin.
ROUND_ROBIN_ROLES = 2
#: Names of the slots that count an agent's turns, and that keep what a register held before the first.
TURN, KEPT = "%turns", "%kept "


@dataclass(frozen=True, slots=True)
class HavocLoop:
    """A loop, and what its iterations may havocked: registers, or constants that the agent is given.

    ``inner_trip_counts``: those that decide how long loops inside go on; ``own_bound``: what decides how long
    it does itself.
    """

    header: int
    blocks: frozenset[int]
    names: tuple[str, ...]
    inner_trip_counts: frozenset[str]
    own_bound: frozenset[str]
    before: frozenset[int]  # the blocks from which control may come to it, its own left out
    after: frozenset[int]  # the blocks that it is left to
    advances_by_trips: bool = False  # a register goes on by a whole turn's trips at once
    deal: RoundRobinLoop | None = None  # where its iterations are those of one role of two


@dataclass(frozen=True, slots=True)
class RoundRobinLoop:
    """Of a loop whose iterations two roles deal out between them: the register that counts them in steps of
    two,
    the block behind the loops inside, that before the loop (with no effect), and where it may end."""

    counter: str
    behind: frozenset[int]
    early: int | None
    asked: int
    step: str = ""  # what it grows by, where that is no number
    first: frozenset[int] = frozenset()  # blocks where it is asked of before the loop
    skips: frozenset[int] = (
        frozenset()
    )  # blocks before the loop that go past an iteration: they read ``skipped``
    skipped: tuple[str, ...] = ()


def outer_loops(flow: Flow) -> Iterator[tuple[int, frozenset[int], set[int]]]:
    """The loops with loops inside: header, blocks, and the blocks of those that no loop lies between."""
    for loop in flow.loops:
        inner = [other for other in flow.loops if other < loop]
        inner = [x for x in inner if not any(x < other for other in inner)]
        # code that nothing reaches may lead into a loop; no block of the loop dominates it
        headers = [b for b in loop if all(flow.dominates(b, x) for x in loop)]
        if inner and headers:
            yield headers[0], loop, {b for other in inner for b in other}


def round_robin_blocks(flow: Flow) -> tuple[frozenset[int], frozenset[int]]:
    """Blocks behind loops inside others, and those before these; and where these may end, or not begin."""
    marked: set[int] = set()
    asking: set[int] = set()
    for header, loop, _ in outer_loops(flow):
        inside = [x for x in flow.loops if x < loop]
        marked |= {s for x in inside for b in x for s in flow.blocks[b].succ if s not in x and s in loop}
        before = {b for b in flow.blocks[header].pred if b not in loop}
        early = {b for b in before if len(flow.blocks[b].succ) == 1}
        marked |= early
        asking |= {b for b in loop if _leaves(flow, loop, b)}
        for counter in doubled_steps(flow, loop):
            asking |= branches_on(flow, counter)
        asking |= before.union(*(flow.blocks[b].pred for b in early))
    return frozenset(marked), frozenset(asking)


def doubled_steps(flow: Flow, loop: frozenset[int]) -> dict[str, str]:
    """Registers that grow in a loop by twice of something that does not change in it, and by what."""
    written: dict[str, list[int]] = {}
    for k, i in enumerate(flow.body):
        for name in results(i):
            written.setdefault(name, []).append(k)
    out: dict[str, str] = {}
    for b in loop:
        for k in range(flow.blocks[b].lo, flow.blocks[b].hi):
            i = flow.body[k]
            if i.op != "add" or not set(results(i)) <= set(sources(i)):
                continue
            for step in set(sources(i)) - set(results(i)):
                made = [flow.body[j] for j in written.get(step, ())]
                if len(made) == 1 and made[0].op == "shl" and _by_one(made[0]):
                    out.update(dict.fromkeys(results(i), step))
    return out


def _by_one(i: Instr) -> bool:
    last = i.operands[-1]
    return isinstance(last, Imm) and last.value == 1


def branches_on(flow: Flow, counter: str) -> set[int]:
    """Blocks that end with a branch on a comparison of a counter."""
    found = ((b, asks_at(flow, b)) for b in flow.reached)
    return {b for b, k in found if k is not None and counter in sources(flow.body[k])}


def asks_at(flow: Flow, block: int) -> int | None:
    """The comparison in a block that its branch depends on; None if it has none of its own."""
    b = flow.blocks[block]
    guard = flow.body[b.hi - 1].guard
    found = [k for k in range(b.lo, b.hi - 1) if guard is not None and guard.name in results(flow.body[k])]
    return found[-1] if found else None


def havoc_loops(
    flow: Flow,
    needed: Slice,
    constants: Mapping[int, Iterable[str]],
    held: frozenset[str],
    chosen: frozenset[str] = frozenset(),
) -> list[HavocLoop]:
    """The loops with loops inside whose trip counts do not change in them, or are ``chosen`` in each
    iteration;
    ``held``: what has a slot."""
    out: list[HavocLoop] = []
    for header, loop, inner in sorted(outer_loops(flow), key=lambda x: len(x[1])):
        if any(x.blocks <= loop for x in out):
            continue  # the iterations of a loop inside are counted
        reader = _Reader(flow, loop, constants, chosen)
        deciding = [b for b in loop if _decides(flow, needed, b)]
        kept = reader.behind(b for b in deciding if b not in inner and _leaves(flow, loop, b)) & held
        trips = (reader.behind(b for b in deciding if b in inner) & held) - kept
        if trips or chosen & reader.all_behind(b for b in deciding if b in inner):
            names = tuple(sorted((reader.read(needed) & held) - kept)) if trips else ()
            tests = [b for b in deciding if b in inner and trips & reader.behind([b])]
            deal = _round_robin_of(
                reader, header, [b for b in deciding if b not in inner and _leaves(flow, loop, b)], tests
            )
            after = frozenset(s for b in loop for s in flow.blocks[b].succ if s not in loop and s != flow.end)
            before = _before(flow, header) - loop
            counts_on = reader.counts_on(inner, trips)
            out.append(HavocLoop(header, loop, names, trips, kept, before, after, counts_on, deal))
    return out


def _round_robin_of(
    reader: _Reader, header: int, asked: list[int], tests: list[int]
) -> RoundRobinLoop | None:
    """How iterations are distributed round-robin, if they are; ``asked``: where the loop ends, ``tests``:
    where those inside
    do."""
    flow, loop = reader.flow, reader.loop
    counters = [
        (b, x) for b in asked for x in reader.all_behind([b]) if reader.steps_of(x) == ROUND_ROBIN_ROLES
    ]
    steps = doubled_steps(flow, loop)
    if not counters and len(steps) == 1:
        ((counter, step),) = steps.items()
        asking = branches_on(flow, counter)
        inside, before = asking & loop, asking - loop
        if len(inside) != 1:
            return None
        skips, skipped = reader.skipping(header, tests)
        return RoundRobinLoop(
            counter, frozenset(), None, min(inside), step, frozenset(before), skips, skipped
        )
    if len(counters) != 1:
        return None
    ((end, counter),) = counters
    loops = [x for x in flow.loops if x < loop and any(b in x and _leaves(flow, x, b) for b in tests)]
    left = {s for x in loops for b in x for s in flow.blocks[b].succ if s not in x and s in loop}
    last = frozenset(s for s in left if not any(_comes(flow, s, x, header) for x in loops))
    outside = [b for b in flow.blocks[header].pred if b not in loop]
    early = outside[0] if len(outside) == 1 and len(flow.blocks[outside[0]].succ) == 1 else None
    return RoundRobinLoop(counter, last, early, end)


def _comes(flow: Flow, start: int, to: frozenset[int], header: int) -> bool:
    """Whether control comes from a block to others before a header."""
    seen = {header, flow.end}
    work = [start]
    while work:
        b = work.pop()
        if b in to:
            return True
        if b not in seen:
            seen.add(b)
            work += flow.blocks[b].succ
    return False


def _decides(flow: Flow, needed: Slice, block: int) -> bool:
    return flow.blocks[block].hi - 1 in needed.branches


def _leaves(flow: Flow, loop: frozenset[int], block: int) -> bool:
    """Whether a loop may be left from a block, other than for code that nobody comes to."""
    return any(s not in loop and s not in flow.stops for s in flow.blocks[block].succ)


def _before(flow: Flow, block: int) -> frozenset[int]:
    seen: set[int] = set()
    work = [block]
    while work:
        b = work.pop()
        if b not in seen:
            seen.add(b)
            work += flow.blocks[b].pred
    return frozenset(seen)


class _Reader:
    """What a loop reads that it does not write."""

    def __init__(
        self,
        flow: Flow,
        loop: frozenset[int],
        constants: Mapping[int, Iterable[str]],
        chosen: frozenset[str] = frozenset(),
    ) -> None:
        self.flow, self.chosen = flow, chosen
        self.loop = loop
        self.constants = constants
        self.definitions: dict[str, list[int]] = {}
        for b in loop:
            for k in range(flow.blocks[b].lo, flow.blocks[b].hi):
                for name in results(flow.body[k]):
                    self.definitions.setdefault(name, []).append(k)

    def read(self, needed: Slice) -> frozenset[str]:
        """All that is needed of what the loop reads and does not write."""
        found: set[str] = set()
        for b in self.loop:
            for k in range(self.flow.blocks[b].lo, self.flow.blocks[b].hi):
                found.update(n for n in sources(self.flow.body[k]) if n in needed.registers)
                found.update(c for c in self.constants.get(k, ()) if c.startswith("param "))
        return frozenset(found - self.definitions.keys())

    def behind(self, blocks: Iterable[int]) -> frozenset[str]:
        """What the branches at the end of some blocks depend on, as it is before the loop."""
        return frozenset(x for x in self.all_behind(blocks) if x not in self.definitions)

    def steps_of(self, name: str) -> int:
        """By how much a register grows in each iteration; 0 where that is not seen."""
        found = self.definitions.get(name, [])
        i = self.flow.body[found[0]] if len(found) == 1 else None
        if i is None or i.op != "add" or name not in sources(i):
            return 0
        return next((x.value for x in i.operands[1:] if isinstance(x, Imm)), 0)

    def counts_on(self, inner: set[int], trips: frozenset[str]) -> bool:
        """Whether a register that the loop keeps is added, once an iteration, to what trip counts are told
        from.
        """
        flow = self.flow
        sizes = self._sizes(trips)
        for b in self.loop - inner:
            for k in range(flow.blocks[b].lo, flow.blocks[b].hi):
                i = flow.body[k]
                read = set(sources(i)) if i.op == "add" else set()
                own = read & self.definitions.keys()
                if (
                    own
                    and read & sizes - self.definitions.keys()
                    and sources_of(flow, self.definitions, own) & set(results(i))
                ):
                    return True
        return False

    def _sizes(self, names: Iterable[str]) -> set[str]:
        """What registers are determined by, before the loop; and what is determined by the same."""
        found = set(names)
        written = [
            (set(results(i)), set(sources(i)))
            for k, i in enumerate(self.flow.body)
            if self.flow.block_of[k] not in self.loop
        ]
        return found | {x for to, of in written if to & found for x in of}

    def skipping(self, header: int, tests: list[int]) -> tuple[frozenset[int], tuple[str, ...]]:
        """Blocks before the loop that compute what it goes on from of trip counts; and of which."""
        flow = self.flow
        before = _before(flow, header) - self.loop
        written: dict[str, list[int]] = {}
        for b in before:
            for k in range(flow.blocks[b].lo, flow.blocks[b].hi):
                for name in results(flow.body[k]):
                    written.setdefault(name, []).append(k)

        sizes = sources_of(flow, written, self.behind(tests))
        carried = [name for name in self.definitions if name in written]
        found: dict[int, set[str]] = {}
        for name in sources_of(flow, written, carried) - sizes:
            for k in written.get(name, ()):
                read = sizes & set(sources(flow.body[k]))
                if read:
                    found.setdefault(flow.block_of[k], set()).update(read)
        return frozenset(found), tuple(sorted(set().union(*found.values()) if found else ()))

    def all_behind(self, blocks: Iterable[int]) -> frozenset[str]:
        """What the branches at the end of some blocks depend on."""
        out: set[str] = set()
        seen: set[str] = set()
        work = [r for b in blocks for r in sources(self.flow.body[self.flow.blocks[b].hi - 1])]
        while work:
            name = work.pop()
            if name in seen:
                continue
            seen.add(name)
            for k in () if name in self.chosen else self.definitions.get(name, ()):
                if not is_poll(self.flow.body[k]):
                    work += sources(self.flow.body[k])
                out.update(c for c in self.constants.get(k, ()) if c.startswith("param "))
        return frozenset(out | seen)


def sources_of(flow: Flow, written: Mapping[str, list[int]], names: Iterable[str]) -> set[str]:
    """Registers, and all that determines them, by the instructions that write them."""
    seen: set[str] = set()
    work = list(names)
    while work:
        name = work.pop()
        if name not in seen:
            seen.add(name)
            work += [x for k in written.get(name, ()) for x in sources(flow.body[k])]
    return seen


def entry_value(counter: Any, step: Any) -> int:
    """The first iteration of a role: 1 where its counter is ahead by half of the step, else 0."""
    at, by = (x.term if isinstance(x, SymbolicWord) else x for x in (counter, step))
    if isinstance(by, AffineTerm):
        ahead = dict(at.space.of(at.space.resolved(at))[1]) if isinstance(at, AffineTerm) else {}
        a, k = by.space.of(by.space.resolved(by))[1][-1]
        return int(ROUND_ROBIN_ROLES * ahead.get(a, 0) // k)
    return ROUND_ROBIN_ROLES * at // by if isinstance(at, int) and isinstance(by, int) and by else 0


def havocked(value: Any) -> bool:
    """Whether a register holds a size that turns which are distributed round-robin havoc."""
    if not isinstance(value, SymbolicWord) or not isinstance(value.term, AffineTerm):
        return False
    space = value.term.space
    round_robin = space.round_robin if space.has_prefix_sums else None
    parts = space.of(space.resolved(value.term))[1]
    return (
        round_robin is not None
        and bool(parts)
        and all(space.symbols[space.parent_of(a)].name in round_robin.havocked_names for a, _ in parts)
    )


def skipping(flow: Flow) -> frozenset[int]:
    """Blocks outside of loops that write what loops whose iterations may be distributed round-robin go on
    from.
    """
    inside = {b for loop in flow.loops for b in loop}
    carried: set[str] = set()
    for _, loop, _ in outer_loops(flow):
        if doubled_steps(flow, loop):
            carried |= {
                x
                for b in loop
                for k in range(flow.blocks[b].lo, flow.blocks[b].hi)
                for x in results(flow.body[k])
            }
    return (
        frozenset(
            b
            for b in flow.reached
            if b not in inside
            and any(carried & set(results(flow.body[k])) for k in range(flow.blocks[b].lo, flow.blocks[b].hi))
        )
        if carried
        else frozenset()
    )


def round_robin_of(values: Iterable[Any]) -> RoundRobin | None:
    """The iterations that are distinguished from others, where some register holds a size."""
    found = next((v for v in values if isinstance(v, SymbolicWord) and isinstance(v.term, AffineTerm)), None)
    return None if found is None else found.term.space.round_robin


def renewed(
    values: list[Any],
    trips: list[Any],
    kept: list[Any],
    iteration: Any,
    some: bool = False,
    pairs: bool = False,
) -> list[Any]:
    """Registers as an iteration of a loop havocs them; see ``symbolic/loop_havoc.py``."""
    sizes = [v for v in values if isinstance(v, SymbolicWord)]
    if not any(isinstance(v, SymbolicWord) for v in trips):
        return values
    now = iteration.term if isinstance(iteration, SymbolicWord) else iteration
    all_, start, fixed = (
        [v.term for v in group if isinstance(v, SymbolicWord)] for group in (sizes, trips, kept)
    )
    found = iter(loop_havoc.havoc_iteration(sizes[0].term.space, all_, start, fixed, now, some, pairs))
    return [size(next(found), v.bits, v.kind) if isinstance(v, SymbolicWord) else v for v in values]
