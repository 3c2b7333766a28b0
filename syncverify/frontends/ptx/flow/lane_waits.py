"""Loops that a warp leaves when the poll of its first lane succeeds, as that lane's wait.

    LOOP:  mov.u32 %ok, 0;  @%other bra MEET;               // all lanes but the first
           mbarrier.try_wait... %p, [%bar], %phase;  selp.u32 %ok, 1, 0, %p;
    MEET:  shfl.sync.idx.b32 %all, %ok, 0, 31, -1;  setp.eq.s32 %again, %all, 0;  @%again bra LOOP;

becomes the same without the last branch, and with ``WAIT: mbarrier.try_wait...; @!%p bra WAIT`` in place of
the poll. A turn in which the poll fails brings all lanes back to its beginning together and leaves nothing
behind, for ``shfl`` orders no memory. So the turns before the last one are turns of the poll alone.

**What has to hold.** The first lane of each warp polls and no other; ``shfl`` takes its answer to all lanes;
nothing in a turn reads what the turn before has written. No lane is at another exchange among lanes while the
first one polls: each such place comes once before the loop, or once behind it, or there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.isa.participants import by_all_lanes, by_lanes
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Label, Operand, Pair, Reg, Special
from syncverify.frontends.ptx.syntax.operands import is_poll, registers, results, sources
from syncverify.frontends.ptx.syntax.pure_operations import IN_SPINS

_LANES = 32
_MASK = 0xFFFFFFFF


def with_lane_waits(function: Function, block: tuple[int, int, int] | None) -> Function:
    """The function with such loops as waits; itself where there is none. ``block``: threads, where known."""
    if not any(_repeats(function, k) for k in range(len(function.body))):
        return function
    loops = _Loops(function, block)
    by: dict[int, Sequence[Instr]] = {}
    for wait in loops.found():
        by |= loops.edits(wait)
    return expanded(function, by, {}) if by else function


def _repeats(function: Function, k: int) -> bool:
    """Whether an instruction jumps back over an exchange behind a poll; what is asked of all functions."""
    i = function.body[k]
    if i.op != "bra" or i.guard is None or not isinstance(i.operands[0], Label):
        return False
    inside = function.body[i.operands[0].target : k]
    polls = [at for at, x in enumerate(inside) if is_poll(x)]
    return len(polls) == 1 and any(x.op == "shfl" for x in inside[polls[0] :])


@dataclass(frozen=True, slots=True)
class _Wait:
    """``poll``, ``exchange``, ``back``: instructions; ``predicate``: what the poll says."""

    poll: int
    exchange: int
    back: int
    predicate: Reg


class _Loops:
    def __init__(self, function: Function, block: tuple[int, int, int] | None) -> None:
        self.body = function.body
        self.flow = Flow(function)
        self.rows = block is not None and (block[1] == block[2] == 1 or block[0] % _LANES == 0)

    def found(self) -> Iterator[_Wait]:
        for loop in self.flow.loops:
            wait = self._wait(loop) if len(loop) == 3 else None
            if wait is not None and self._alone(loop, wait.exchange):
                yield wait

    def edits(self, wait: _Wait) -> dict[int, Sequence[Instr]]:
        back = self.body[wait.back]
        to_itself = Label("", wait.poll)
        again = replace(back, guard=wait.predicate, negated=True, operands=(to_itself,))
        return {wait.poll: (self.body[wait.poll], again), wait.back: ()}

    def _wait(self, loop: frozenset[int]) -> _Wait | None:
        """The wait that a loop of three blocks is: its head, the poll, and the exchange."""
        blocks, body = self.flow.blocks, self.body
        ks = {b: range(blocks[b].lo, blocks[b].hi) for b in loop}
        polls = [k for b in loop for k in ks[b] if is_poll(body[k])]
        exchanges = [k for b in loop for k in ks[b] if body[k].op == "shfl"]
        if len(polls) != 1 or len(exchanges) != 1:
            return None
        (poll,), (exchange,) = polls, exchanges
        ask, meet = self.flow.block_of[poll], self.flow.block_of[exchange]
        rest = loop - {ask, meet}
        if len(rest) != 1:
            return None
        (head,) = rest
        shape = (
            set(blocks[head].succ) == {ask, meet}
            and blocks[ask].succ == [meet]
            and set(blocks[ask].pred) == {head}
            and set(blocks[meet].pred) == {head, ask}
            and head in blocks[meet].succ
        )
        over, back = blocks[head].hi - 1, blocks[meet].hi - 1
        if (
            not shape
            or not self._first_alone(over, meet)
            or not self._turns_alike(loop, {over, back, poll}, exchange)
        ):
            return None
        predicate = self._answer(poll, exchange) if self._takes_first(exchange) else None
        if predicate is None or not self._until_yes(exchange, back, head):
            return None
        return _Wait(poll, exchange, back, predicate)

    def _first_alone(self, over: int, meet: int) -> bool:
        """Whether a branch takes all lanes but the first of each warp over the poll."""
        asked = self._decided(over, meet)
        if asked is None:
            return False
        (number, k), when_equal = asked
        return not when_equal and self._is_lane(number, k)

    def _decided(self, k: int, to: int) -> tuple[tuple[Operand, int], bool] | None:
        """What a branch to a block compares with 0, and whether it is taken where they are equal."""
        i = self.body[k]
        if i.op != "bra" or i.guard is None or i.mods or not isinstance(i.operands[0], Label):
            return None
        at = i.operands[0].target
        asked = self._writer(i.guard.name, k)
        if at >= len(self.body) or self.flow.block_of[at] != to or asked is None:
            return None
        compare = self.body[asked]
        if compare.op != "setp" or len(compare.mods) != 2 or len(compare.operands) != 3:
            return None
        how, kind = compare.mods
        if how not in ("eq", "ne") or kind not in ("s32", "u32", "b32") or compare.operands[0] != i.guard:
            return None
        if self._number(compare.operands[2], asked) != 0:
            return None
        return (compare.operands[1], asked), (how == "eq") != i.negated

    def _is_lane(self, op: Operand, k: int) -> bool:
        """Whether a number is that of the lane."""
        if op == Special("%laneid"):
            return True
        made = self._writer(op.name, k) if isinstance(op, Reg) else None
        if made is None:
            return False
        i = self.body[made]
        if i.op == "mov":
            return self._is_lane(i.operands[1], made)
        if i.name != "and.b32" or not self.rows:
            return False
        return self._number(i.operands[2], made) == _LANES - 1 and self._is_thread(i.operands[1], made)

    def _is_thread(self, op: Operand, k: int) -> bool:
        if op == Special("%tid.x"):
            return True
        made = self._writer(op.name, k) if isinstance(op, Reg) else None
        if made is None or self.body[made].op != "mov":
            return False
        return self._is_thread(self.body[made].operands[1], made)

    def _takes_first(self, exchange: int) -> bool:
        """Whether all lanes of the warp get what the first one has."""
        i = self.body[exchange]
        if i.mods != ("sync", "idx", "b32") or len(i.operands) != 5:
            return False
        lane, clamp, mask = (self._number(op, exchange) for op in i.operands[2:])
        return lane == 0 and clamp == _LANES - 1 and mask is not None and mask & _MASK == _MASK

    def _answer(self, poll: int, exchange: int) -> Reg | None:
        """The predicate of the poll, where what is exchanged is 0 exactly if it says no."""
        flow, body = self.flow, self.body
        ask, meet = (flow.blocks[flow.block_of[k]] for k in (poll, exchange))
        given, said = body[exchange].operands[1], body[poll].operands[0]
        if not isinstance(given, Reg) or not isinstance(said, Reg):
            return None
        if any(given.name in results(body[k]) for k in range(meet.lo, exchange)):
            return None
        last = max((k for k in range(ask.lo, ask.hi) if given.name in results(body[k])), default=-1)
        i = body[last]
        if last < poll or i.op != "selp" or i.mods not in (("u32",), ("s32",), ("b32",)):
            return None
        one, zero = (self._number(op, last) for op in i.operands[1:3])
        alike = i.operands[3] == said and self._writer(said.name, last) == poll
        return said if alike and one is not None and one & _MASK and zero == 0 else None

    def _until_yes(self, exchange: int, back: int, head: int) -> bool:
        """Whether the last branch goes back exactly if the exchange brings 0."""
        asked, first = self._decided(back, head), self.body[exchange].operands[0]
        got = first.first if isinstance(first, Pair) else first
        if asked is None:
            return False
        (number, k), when_equal = asked
        return when_equal and number == got and isinstance(got, Reg) and self._writer(got.name, k) == exchange

    def _turns_alike(self, loop: frozenset[int], allowed: set[int], exchange: int) -> bool:
        """Whether a turn does nothing but look and compute, of what no turn before it has written."""
        flow, body, versions = self.flow, self.body, self.flow.versions
        for b in loop:
            for k in range(flow.blocks[b].lo, flow.blocks[b].hi):
                i = body[k]
                if k in allowed and (i.guard is None or i.op == "bra"):
                    continue
                special = any(isinstance(op, Special) for op in i.operands)
                plain = i.op in IN_SPINS and "cc" not in i.mods and not special
                if i.guard is not None or not (plain or k == exchange):
                    return False
        given = registers(body[exchange].operands[1])  # of other lanes, nobody gets it
        for b in loop:
            for k in range(flow.blocks[b].lo, flow.blocks[b].hi):
                asked = (name for name in sources(body[k]) if k != exchange or name not in given)
                if any(self._of_earlier(loop, versions.read(name, k), set()) for name in asked):
                    return False
        return True

    def _of_earlier(self, loop: frozenset[int], v: int, seen: set[int]) -> bool:
        """Whether a version may be of an earlier turn of a loop."""
        versions = self.flow.versions
        if v in seen or versions.writer[v] >= 0 or versions.block[v] not in loop:
            return False
        seen.add(v)
        at, merged = versions.block[v], versions.merged(v)
        comes_round = any(b in loop and self.flow.dominates(at, b) and x != v for b, x in merged)
        return comes_round or any(self._of_earlier(loop, x, seen) for _, x in merged)

    def _alone(self, loop: frozenset[int], exchange: int) -> bool:
        """Whether no lane can be at another exchange while the first one of its warp polls."""
        flow = self.flow
        others = [
            k
            for k, i in enumerate(self.body)
            if k != exchange and flow.block_of[k] in flow.reached
            if i.op != "bar" and by_lanes(i) and not by_all_lanes(i)
        ]
        if any(loop < other for other in flow.loops):
            return not others
        meet = flow.block_of[exchange]
        return all(self._once(flow.block_of[k], meet) for k in others)

    def _once(self, block: int, meet: int) -> bool:
        """Whether a block comes in no loop, before another block or behind it on every way."""
        flow = self.flow
        return not any(block in loop for loop in flow.loops) and (
            flow.dominates(block, meet) or flow.dominates(meet, block)
        )

    def _writer(self, name: str, k: int) -> int | None:
        """The unguarded instruction that wrote what an instruction reads; None for a merge."""
        versions = self.flow.versions
        made = versions.writer[versions.read(name, k)]
        return made if made >= 0 and self.body[made].guard is None else None

    def _number(self, op: Operand, k: int) -> int | None:
        if isinstance(op, Imm):
            return op.value
        made = self._writer(op.name, k) if isinstance(op, Reg) else None
        if made is None or self.body[made].op != "mov":
            return None
        return self._number(self.body[made].operands[1], made)


__all__ = ["with_lane_waits"]
