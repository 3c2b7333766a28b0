"""Bulk copies in flight together that write one place in global memory, as the text says.

A proof may assume that copies in flight write different places: words that are loaded, and parameters, say
where. Where the text leaves that to nobody it is no assumption. The places are followed as sums
(``turn_forms``): each turn of a loop has to move them on by the bytes of a copy. What is not followed counts
as one place.

A copy behind a loop may have another place on each way into a join (what is left after an unrolled loop, and
the whole where no turn was made). Only ways on which the copy in flight was begun count. The place says how
many turns were begun at the end: no fewer than at any copy of the loop.

Example: ``add.u64 a, a, 0`` and ``and.b64 a, n, 255`` bring a place back, ``add.u64 a, a, 256`` does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil, floor, prod

from syncverify.frontends.ptx.analysis.blocks.turn_forms import Share, Summand, TurnForm, TurnForms, Varies
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import is_barrier, reaches
from syncverify.frontends.ptx.analysis.handover.handover_detection import bulk_copies, global_operand
from syncverify.frontends.ptx.analysis.registers.thread_numbers import Numbers, ThreadNumbers
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr

#: A place comes back if it is one of fewer than so many, as bits.
_MANY = 16
#: Turns that a loop may have where the text does not say.
_ANY = 1 << _MANY
#: Turns of loops inside that are looked at one by one.
_MOST_INSIDE = 4096
#: Bytes of the smallest copy.
_LEAST = 16
#: Threads that are looked at, two by two.
_THREADS = 12
#: Special registers that all threads of a block read alike.
_OF_ALL = ("%ntid", "%ctaid", "%nctaid", "%cluster", "%ncluster")
#: What the numbers of two threads are.
_Two = tuple[Numbers, Numbers]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two copies: in one turn, or in two of the loop at ``head``; of one thread, or of ``two``."""

    one: int
    other: int
    head: int | None
    two: _Two | None


def copied_to_one_place(flow: Flow) -> int | None:
    """A bulk copy that is in flight with one to the same place: itself in another turn of a loop, or another
    one, without a wait between that completes it."""
    (_, writes), _ = bulk_copies(flow)
    found = _InFlight(flow, TurnForms(flow))
    sums = {k for k in writes if "reduce" in flow.body[k].mods}  # atomic among each other
    pairs = ((k, j) for k in writes for j in writes if not {k, j} <= sums)
    return next((k for k, j in pairs if found.meet(k, j)), None)


class _InFlight:
    """Two copies of which the first is not complete when the second one is begun."""

    def __init__(self, flow: Flow, forms: TurnForms) -> None:
        self.flow, self.forms, self.numbers = flow, forms, ThreadNumbers(flow)

    def meet(self, one: int, other: int) -> bool:
        """Whether some execution of a copy is in flight when one of another is begun at its place."""
        heads = [h for h, loop in self.forms.loops.items() if {*map(self._block, (one, other))} <= loop]
        begun = {met: self._begun(one, other, heads, met=met) for met in (False, True)}
        return any(
            self._share(one, other, head, two)
            for two in (None, *self._threads(one, other))
            for head in begun[two is not None]
        )

    def _begun(self, one: int, other: int, heads: list[int], *, met: bool) -> list[int | None]:
        """Where a copy may be begun while another one is in flight: in one turn (None), or in a later one of
        a loop. ``met``: by another thread, so that the two have to meet, too."""
        if met:
            first = self._together(one, other, heads)
        else:
            first = one != other and bool(self._once(one, other, heads, met=False))
        later = [h for h in heads if self._later(one, other, h, met=met)]
        return [None, *later] if first else [*later]

    def _block(self, k: int) -> int:
        return self.flow.block_of[k]

    def _threads(self, one: int, other: int) -> list[tuple[Numbers, Numbers]]:
        """Two threads of which each executes a copy; none where other things than their numbers may choose
        between them, as ``elect`` does."""
        first, second = self._come(one), self._come(other)
        return [(a, b) for a in first for b in second if a != b]

    def _come(self, k: int) -> list[Numbers]:
        come = [n for n in self.numbers.threads if self.numbers.comes(k, n)][:_THREADS]
        asked = [(g, at) for at in self._ends_above(k) if (g := self.flow.body[at].guard) is not None]
        for guard, at in asked:
            v = self.flow.versions.read(guard.name, at)
            if self.numbers.made_of(v, of_block=False) and any(
                self.numbers.value(v, n) is None for n in come
            ):
                return []
        return come

    def _ends_above(self, k: int) -> list[int]:
        """An instruction and the branches that decide whether it is executed."""
        above = self.numbers.above(self.flow.block_of[k])
        return [k, *(self.flow.blocks[b].hi - 1 for b in sorted(above))]

    def _together(self, one: int, other: int, heads: list[int]) -> bool:
        """Whether two threads may execute two copies at once, or the second before the first is complete and
        they have met."""
        if one == other or self._once(one, other, heads, met=True):
            return True
        starts = {self.flow.blocks[h].lo for h in heads}
        ways = [reaches(self.flow, *two, starts.__contains__) for two in ((one, other), (other, one))]
        return not any(ways)

    def _once(self, one: int, other: int, heads: list[int], *, met: bool) -> frozenset[bool]:
        way = _Way(self.flow, one, met=met)
        return way.comes(one + 1, other, stops={self.flow.blocks[h].lo for h in heads})

    def _later(self, one: int, other: int, head: int, *, met: bool) -> bool:
        """Whether a copy of one turn of a loop is in flight at another one of a later turn."""
        if self.forms.turns(head) == 1:
            return False
        way, begin = _Way(self.flow, one, met=met), self.flow.blocks[head].lo
        found = way.comes(one + 1, begin)
        return bool(found) and bool(way.comes(begin, other, found))

    def _share(self, one: int, other: int, head: int | None = None, two: _Two | None = None) -> bool:
        """Whether the text lets two copies share bytes: in one turn, or in two of the loop at ``head``; of
        one thread, or of two."""
        pair = _Pair(one, other, head, two)
        first, second = self._places(self.forms, one, other)
        if first is not None and second is not None:
            return self._touch(pair, first, second)
        return two is not None or all(
            any(x is None or y is None or self._touch(pair, x, y) for x, y in self._by_ways(one, other, join))
            for join in self._joins(other)
        )

    def _places(self, forms: TurnForms, *copies: int) -> list[TurnForm | None]:
        return [forms.place(global_operand(self.flow.body[k]), k) for k in copies]

    def _joins(self, k: int) -> Iterator[int]:
        """Blocks outside of loops through which all ways to a copy lead: these may say where its place is."""
        at = self._block(k)
        while at > 0:
            if at not in self._behind(at):
                yield at
            at = self.flow.idom[at]

    def _by_ways(self, one: int, other: int, join: int) -> Iterator[list[TurnForm | None]]:
        """The places of two copies, by the ways into a block before the second one: those from the first
        copy, unless the block is before that, too."""
        before = self._leads(one, other, join)
        for b, x in enumerate(self.flow.blocks):
            if join in x.succ and b in self.flow.reached and (before or self._leads(one, x.hi - 1, join)):
                yield self._places(TurnForms(self.flow, {join: b}), one, other)

    def _leads(self, one: int, other: int, avoided: int) -> bool:
        """Whether some way leads from an instruction to another one, and not through a block."""
        begin, end = self._block(one), self._block(other)
        return (begin == end and one <= other) or end in self._behind(begin, avoided)

    def _behind(self, block: int, avoided: int = -1) -> set[int]:
        """The blocks that some way leads to from one, and not through another one."""
        found, work = set[int](), [block]
        while work:
            new = {s for s in self.flow.blocks[work.pop()].succ if s != avoided and s < self.flow.end} - found
            found |= new
            work += new
        return found

    def _touch(self, pair: _Pair, first: TurnForm, second: TurnForm) -> bool:
        """Whether copies at two places may share bytes."""
        number, steps = second.number - first.number, list[_Step]()
        for atom in {**first.parts, **second.parts}:
            parts = [form.parts.get(atom, Share(0)) for form in (first, second)]
            if atom.what is Varies.TURN:
                steps += self._turns(atom, parts[0], parts[1], pair)
            elif self._again(atom, pair.head) or parts[0].times != parts[1].times:
                return min(p.bits for p in parts) < _MANY
            elif pair.two is not None and self._of_thread(atom):
                held = [self._held(atom, thread) for thread in pair.two]
                if held[0] is None or held[1] is None:
                    return False
                number += parts[0].times * (held[1] - held[0])
        many = all(p.bits >= _MANY for form in (first, second) for p in form.parts.values())
        return not many or _some_in(
            number, steps, 1 - _bytes(self.flow, pair.other), _bytes(self.flow, pair.one) - 1
        )

    def _of_thread(self, atom: Summand) -> bool:
        """Whether what stands in a sum may be another number in another thread."""
        if isinstance(atom.of, str):
            return atom.of.startswith("%") and not atom.of.startswith(_OF_ALL)
        return self.numbers.made_of(atom.of, of_block=False)

    def _held(self, atom: Summand, thread: Numbers) -> int | None:
        """The number that it is in a thread; None where other things than its numbers say."""
        return thread.get(atom.of) if isinstance(atom.of, str) else self.numbers.value(atom.of, thread)

    def _again(self, atom: Summand, head: int | None) -> bool:
        """Whether what is open is another one in another turn."""
        return atom.what is Varies.OPEN and head is not None and atom.block in self.forms.loops[head]

    def _ended(self, atom: Summand, pair: _Pair) -> bool | None:
        """Whether a loop has ended since a copy in it; None where its turns at two copies say nothing about
        each other."""
        loops = self.forms.loops
        inside = [self._block(k) in loops[int(atom.of)] for k in (pair.one, pair.other)]
        if inside[0] == inside[1]:
            return False
        around = [body for body in loops.values() if atom.of in body]
        once = all(body == loops[int(atom.of)] or self._block(pair.other) in body for body in around)
        return True if inside[0] and pair.two is None and once else None

    def _turns(self, atom: Summand, first: Share, second: Share, pair: _Pair) -> Iterator[_Step]:
        """What the turns of a loop add to how far two places are apart. After its end the count is that of
        its last turn: none was a later one."""
        assert isinstance(atom.of, int)
        last = min((self.forms.turns(atom.of) or _ANY), _ANY) - 1
        head, ended = pair.head, self._ended(atom, pair)
        if ended is None or (head is not None and atom.of != head and atom.of in self.forms.loops[head]):
            yield _Step(second.times, 0, last)
            yield _Step(-first.times, 0, last)
            return
        yield _Step(second.times - first.times, 0, last)
        if ended:
            yield _Step(first.times, 0, last)
        if atom.of == head:
            yield _Step(second.times, 1, last)


@dataclass(frozen=True, slots=True)
class _Way:
    """Ways on which a copy is in flight; or its thread and others have not met since it was (``met``)."""

    flow: Flow
    copy: int
    met: bool

    def comes(
        self,
        begin: int,
        end: int,
        states: Collection[bool] = (False,),
        stops: Collection[int] = (),
    ) -> frozenset[bool]:
        """Whether the copy is complete where some way leads to an instruction. ``states``: at its start."""
        work = [(self.flow.block_of[begin], begin, done) for done in states]
        seen, found = set[tuple[int, bool]](), set[bool]()
        while work:
            block, at, done = work.pop()
            for k in range(at, self.flow.blocks[block].hi):
                if k == end:
                    found.add(done)
                if k == end or k in stops or (done and _meets(self.flow.body[k])):
                    break
                if not done and _completes(self.flow, self.copy, k):
                    if not self.met:
                        break
                    done = True
            else:
                ways = {(s, done) for s in self.flow.blocks[block].succ if s < self.flow.end} - seen
                seen |= ways
                work += [(s, self.flow.blocks[s].lo, done) for s, done in ways]
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Step:
    """``times`` a number from ``low`` to ``high``."""

    times: int
    low: int
    high: int


def _some_in(number: int, steps: list[_Step], low: int, high: int) -> bool:
    """Whether a sum can be from ``low`` to ``high``; also where that takes long to say."""
    *some, last = sorted((s for s in steps if s.times), key=lambda s: s.high - s.low) or [_Step(0, 0, 0)]
    if prod(s.high - s.low + 1 for s in some) > _MOST_INSIDE:
        return True
    for values in product(*([s.times * x for x in range(s.low, s.high + 1)] for s in some)):
        begin = number + sum(values)
        if not last.times:
            if low <= begin <= high:
                return True
            continue
        ends = sorted(((low - begin) / last.times, (high - begin) / last.times))
        if max(ceil(ends[0]), last.low) <= min(floor(ends[1]), last.high):
            return True
    return False


def _meets(i: Instr) -> bool:
    """Whether threads of several warps wait for each other."""
    return is_barrier(i) and not {"warp", "arrive"}.intersection(i.mods)


def _bytes(flow: Flow, k: int) -> int:
    """How many bytes a copy writes; as few as there may be where the text does not say."""
    size = flow.body[k].operands[2:3]
    return size[0].value if size and isinstance(size[0], Imm) else _LEAST


def _completes(flow: Flow, copy: int, at: int) -> bool:
    """Whether an instruction waits until a bulk copy ahead of it, which was committed, is complete."""
    i = flow.body[at]
    waits = (
        i.name == "cp.async.bulk.wait_group" and i.operands == (Imm(0),) and _by_its_threads(flow, copy, at)
    )
    return waits and not reaches(flow, copy, at, partial(_commits, flow, copy))


def _commits(flow: Flow, copy: int, at: int) -> bool:
    return flow.body[at].name == "cp.async.bulk.commit_group" and _by_its_threads(flow, copy, at)


def _by_its_threads(flow: Flow, copy: int, at: int) -> bool:
    """Whether who executed a copy executes an instruction, once it comes there."""
    i, j = flow.body[copy], flow.body[at]
    if j.guard is None or i.guard is None:
        return j.guard is None
    same = flow.versions.read(i.guard.name, copy) == flow.versions.read(j.guard.name, at)
    return same and (i.guard, i.negated) == (j.guard, j.negated)


__all__ = ["copied_to_one_place"]
