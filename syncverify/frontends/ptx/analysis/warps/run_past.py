"""Who leaves the kernel past a barrier, or a collective of a warp, through what those who were there execute
after it.

Barriers without a count, and collectives, do not wait for lanes that have left (K22, K23). Lanes that
bypassed one and then did what follows it have not left early: they were to come to it. What follows is a
*tail*: a block that others may notice, and that everything goes through on its way from the barrier to the
end. Who leaves from a tail has run past the barriers before it.

A loop may be left elsewhere, at its head for example. There the way that lanes came has to be known: a state
that each agent keeps says which barriers of loops it has bypassed. In each turn it notes whether it took
part; a tail that it comes to without makes it one that bypassed it. Only barriers count here behind a branch,
or under a guard, that lanes of a warp (threads of a block) may decide differently.

Worked example. ``L: if (t == n) ret; if (lane >= 5) shfl; a[lane] = t++; goto L``: lanes 0 to 4 come to the
store without the ``shfl``, so they have bypassed it when they leave at the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, THREADS
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import acts, touches
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import results

#: Execution barriers.
BARRIERS = ("bar", "barrier")
#: States of agents in loops. With more, who comes to a tail has bypassed all barriers of loops.
MOST_STATES = 3**7

#: A barrier or collective, and whether it was passed through more than accesses to global memory.
Passed = frozenset[tuple[int, bool]]
NOTHING: Passed = frozenset()


@dataclass(frozen=True, slots=True)
class Bypassable:
    """Barriers in a loop that lanes may bypass, all or none of them in a turn: the instructions, the blocks
    that the loop begins with, and their tails in the loop."""

    barriers: frozenset[int]
    headers: frozenset[int]
    tails: frozenset[int]


@dataclass(frozen=True, slots=True)
class State:
    """What one has done: ``took``: by number, those of ``RunPast.bypassable`` that it executed in this turn;
    ``past``: what it has bypassed."""

    took: frozenset[int] = frozenset()
    past: Passed = NOTHING


class RunPast:
    """The tails of a function. ``varies``: what the branch or the guard of an instruction varies with.
    ``together``: whether lanes execute an instruction as a collective. ``met``: whether agents come to it as
    an event of its own."""

    def __init__(
        self,
        flow: Flow,
        varies: Callable[[int], int],
        *,
        together: Callable[[int], bool],
        met: Callable[[int], bool],
    ) -> None:
        self.flow = flow
        self.body = flow.body
        self.varies = varies
        self.together = together
        self.met = met

    @cached_property
    def tails(self) -> dict[int, frozenset[int]]:
        """Blocks that do something, and whatever comes to the end after a barrier, or a collective of a
        warp, goes through: which of these."""
        found: dict[int, set[int]] = {}
        for k, at in self._followed():
            if not self._took_part(k, at):
                found.setdefault(at, set()).add(k)
        return {at: frozenset(ks) for at, ks in found.items()}

    def _followed(self) -> Iterator[tuple[int, int]]:
        """Barriers and collectives, each with the tails behind it."""
        for k, i in enumerate(self.body):
            at = self.flow.block_of[k]
            if (i.op in BARRIERS or self.together(k)) and at in self.flow.reached:
                while 0 <= at < self.flow.end:
                    if any(map(_does, self._inside(at))):
                        yield k, at
                    at = self.flow.join(at)

    def _inside(self, block: int) -> Sequence[Instr]:
        b = self.flow.blocks[block]
        return self.body[b.lo : b.hi]

    def passed(self, block: int) -> Passed:
        """What who leaves from a block has run past."""
        more = any(_does(i) and i.op != "ld" and not _in_global(i) for i in self._inside(block))
        return frozenset((k, more) for k in self.tails.get(block, ()))

    # ------------------------------------------------------------ loops

    @cached_property
    def bypassable(self) -> tuple[Bypassable, ...]:
        """The barriers of loops that lanes may bypass. Those of one block without a guard are one, for who
        comes to the end of the block has executed them all."""
        found: dict[tuple[int, frozenset[int]], set[int]] = {}
        for k, at in self._followed():
            home = self.flow.block_of[k]
            loop = min((x for x in self.flow.loops if home in x and at in x), key=len, default=None)
            if loop is None or k not in self.tails.get(at, ()) or not self.met(k):
                continue
            if self._may_bypass(k, at, loop):
                found.setdefault((k, loop), set()).add(at)
        alike: dict[tuple[int, bool, frozenset[int], frozenset[int]], set[int]] = {}
        for (k, loop), tails in sorted(found.items(), key=lambda x: (x[0][0], sorted(x[0][1]))):
            guarded = self.body[k].guard is not None
            key = k if guarded else self.flow.block_of[k], guarded, self._headers(loop), frozenset(tails)
            alike.setdefault(key, set()).add(k)
        return tuple(Bypassable(frozenset(ks), key[2], key[3]) for key, ks in alike.items())

    def _headers(self, loop: frozenset[int]) -> frozenset[int]:
        return frozenset(b for b in loop if b == 0 or any(p not in loop for p in self.flow.blocks[b].pred))

    def _may_bypass(self, k: int, tail: int, loop: frozenset[int]) -> bool:
        """Whether in one turn some lanes may execute a barrier and others come to its tail without. A barrier
        with a count includes those that have left."""
        i = self.body[k]
        block = i.op in BARRIERS and "warp" not in i.mods
        if block and len(i.operands) != 1:
            return False
        several = THREADS if block else LANES
        if i.guard is not None and self.varies(k) & several:
            return True
        deciding = self._above(self.flow.block_of[k]) - self._above(tail)
        return any(c in loop and self.varies(self.flow.blocks[c].hi - 1) & several for c in deciding)

    def _above(self, block: int) -> set[int]:
        """The blocks whose branches decide whether a block is executed, and those that decide about them."""
        found, work = set[int](), [block]
        while work:
            new = self._controllers[work.pop()] - found
            found |= new
            work += new
        return found

    @cached_property
    def _controllers(self) -> list[set[int]]:
        return self.flow.controllers()

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The states that agents may be in, the first one at the kernel's entry."""
        return tuple(self._numbers)

    @cached_property
    def _numbers(self) -> Mapping[State, int]:
        found = self._fine
        if found is None:
            found = _reached([partial(self._left_coarsely, b) for x in self.bypassable for b in x.tails])
        return {state: n for n, state in enumerate(found or (State(),))}

    @cached_property
    def _fine(self) -> dict[State, None] | None:
        """The states with what each agent has bypassed by itself; None if they are too many."""
        steps: list[Callable[[State], State]] = []
        for x in self.bypassable:
            steps += [partial(self._begun, b) for b in x.headers]
            steps += [partial(self._left, b) for b in x.tails]
            steps += [partial(self._executed, k) for k in x.barriers]
        return _reached(steps)

    def begun(self, block: int) -> Sequence[int]:
        """By the number of a state in which one comes to a block, that in which its turn begins; none where
        all stay as they are."""
        return self._moved(partial(self._begun, block))

    def executed(self, k: int) -> Sequence[int]:
        """The same for an instruction that is executed."""
        return self._moved(partial(self._executed, k))

    def left(self, block: int) -> Sequence[int]:
        """The same for a block that is left."""
        return self._moved(partial(self._left, block), partial(self._left_coarsely, block))

    def _moved(
        self, step: Callable[[State], State], coarsely: Callable[[State], State] | None = None
    ) -> Sequence[int]:
        step = step if self._fine is not None else coarsely or _stays
        found = tuple(self._numbers[step(s)] for s in self.states) if self.bypassable else ()
        return () if found == tuple(range(len(found))) else found

    def _begun(self, block: int, state: State) -> State:
        begins = {n for n, x in enumerate(self.bypassable) if block in x.headers}
        return replace(state, took=state.took - begins)

    def _executed(self, k: int, state: State) -> State:
        here = {n for n, x in enumerate(self.bypassable) if k in x.barriers}
        return self._settled(replace(state, took=state.took | here))

    def _left(self, block: int, state: State) -> State:
        without = {
            k
            for n, x in enumerate(self.bypassable)
            if block in x.tails and n not in state.took
            for k in x.barriers
        }
        past = state.past | {p for p in self.passed(block) if p[0] in without}
        return self._settled(replace(state, past=past))

    def _settled(self, state: State) -> State:
        """The state without what makes no difference: what was bypassed in full stays so."""
        over = {n for n in state.took if self._all_past[n] <= state.past}
        return replace(state, took=state.took - over) if over else state

    @cached_property
    def _all_past(self) -> list[Passed]:
        """By number, all that one may have bypassed of these barriers."""
        return [
            frozenset(p for tail in x.tails for p in self.passed(tail) if p[0] in x.barriers)
            for x in self.bypassable
        ]

    def _left_coarsely(self, block: int, state: State) -> State:
        some = frozenset[tuple[int, bool]]().union(*self._all_past)
        return replace(state, past=some) if self._is_tail(block) else state

    def _is_tail(self, block: int) -> bool:
        return any(block in x.tails for x in self.bypassable)

    @cached_property
    def behind(self) -> frozenset[int]:
        """The blocks that one may come to after bypassing a barrier."""
        return frozenset(b for x in self.bypassable for tail in x.tails for b in (tail, *self._behind(tail)))

    # ------------------------------------------------------------ barriers that a block of a loop follows

    def _took_part(self, k: int, at: int) -> bool:
        """Whether who comes through a block of a loop has executed a barrier or collective since it was last
        there, with the mask that all have: what the block does belongs to a turn in which it took part."""
        home = self.flow.block_of[k]
        if self.body[k].guard is not None or not self._names_the_same(self.body[k]):
            return False
        if not self.flow.dominates(home, at) or home not in self._behind(at):
            return False
        return home == at or at not in self._behind(at, home)

    def _names_the_same(self, i: Instr) -> bool:
        """Whether a barrier of the block, or a collective, is for the same threads each time: a number in the
        text says which. Lanes that name others at one instruction may not have met those that wait there."""
        if i.op in BARRIERS and "warp" not in i.mods:
            return len(i.operands) == 1 and isinstance(i.operands[0], Imm)
        return bool(i.operands) and self._is_number(i.operands[-1])

    def _is_number(self, op: Operand) -> bool:
        """Whether an operand is a number in the text, or a register that holds nothing else."""
        if not isinstance(op, Reg):
            return isinstance(op, Imm)
        writers = [i for i in self.body if op.name in results(i)]
        return len(writers) == 1 and (
            writers[0].op == "mov"
            and writers[0].guard is None
            and isinstance(writers[0].operands[0], Reg)
            and isinstance(writers[0].operands[1], Imm)
        )

    def _behind(self, at: int, without: int = -1) -> set[int]:
        """The blocks that a block comes to, not through another."""
        found, ahead = set[int](), [at]
        while ahead:
            blocks = self.flow.blocks
            new = {b for b in blocks[ahead.pop()].succ if b < self.flow.end and b != without} - found
            found |= new
            ahead += new
        return found


def _stays(state: State) -> State:
    return state


def _reached(steps: Sequence[Callable[[State], State]]) -> dict[State, None] | None:
    """The states that steps lead to from the kernel's entry; None if they are too many."""
    found: dict[State, None] = {State(): None}
    work = [State()]
    while work:
        state = work.pop()
        for step in steps:
            if (new := step(state)) not in found:
                found[new] = None
                work.append(new)
        if len(found) > MOST_STATES:
            return None
    return found


def _does(i: Instr) -> bool:
    """Whether an instruction does something that others may see, or sees what they do."""
    return acts(i) and "local" not in i.mods


def _in_global(i: Instr) -> bool:
    return bool(found := touches(i)) and all(t.space == "global" for t in found)
