"""Masks that name the lanes that come to a collective, shown without their numbers.

A collective needs each lane that its mask names, and each that executes it has to be named (PTX ISA,
shfl.sync and vote.sync). Three instructions make such masks:

- ``activemask``: the lanes that execute it;
- ``match.any``: the lanes with this lane's value, of those that execute it;
- ``vote.ballot``: the lanes whose predicate holds, of those that execute it; and what is left of these
  without them (``and`` with ``not``, ``xor``).

Such a mask fits a collective if no lane goes another way between the two instructions, but by the predicate
that was voted about. ``made_of_those_that_come`` returns the registers that decide between, for the caller to
show that each is the same in all lanes of a warp.

    vote.sync.ballot.b32 %m, %p, -1;
    @!%p bra OUT;                         // the voted predicate
    setp.gt.s32 %q, %n, 5;  @!%q bra OUT; // %q has to be the same in all lanes
    shfl.sync.bfly.b32 %r, %a, 1, 31, %m;
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from syncverify.frontends.ptx.analysis.warps.mask_values import MaskValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Not, Operand, Pair, Reg
from syncverify.frontends.ptx.syntax.operands import results, sources

#: Comparisons, and those that hold where they do not (PTX ISA, setp: those with ``u`` hold of NaN).
_PAIRS = (
    ("eq", "ne"), ("lt", "ge"), ("gt", "le"), ("eq", "neu"), ("ne", "equ"), ("lt", "geu"), ("gt", "leu"),
    ("ge", "ltu"), ("le", "gtu"), ("num", "nan"), ("lo", "hs"), ("hi", "ls"),
)  # fmt: skip
#: Comparisons of integers, and of floats, by their opposites.
_OPPOSITE = dict(_PAIRS[3:]) | {b: a for a, b in _PAIRS[3:]}
_OPPOSITE_INTEGERS = dict(_PAIRS[:3]) | {b: a for a, b in _PAIRS[:3]}


#: Comparisons with a number, and those with the next one that say the same.
_NEXT = {"gt": "ge", "le": "lt", "hi": "hs", "ls": "lo"}


#: Comparisons of numbers without a sign with 1, and those with 0 that say the same.
_WITH_ZERO = {"ge": "ne", "hs": "ne", "lt": "eq", "lo": "eq"}
#: The name of a comparison, its types, what it compares.
_Comparison = tuple[str, tuple[str, ...], tuple[Operand, ...]]


@dataclass(frozen=True, slots=True)
class _Predicate:
    """A predicate and where it was made. ``comparison``: its name, its types, what it compares; None if the
    register is all that is known. ``holds``: whether the register is to be true."""

    register: str
    at: int
    comparison: _Comparison | None
    holds: bool


@dataclass(frozen=True, slots=True)
class _Turns:
    """A mask that a loop votes about again: where it is made first, the vote, its block, the block of those
    who stay."""

    first: int
    vote: int
    block: int
    stays: int
    loop: frozenset[int]


@dataclass(frozen=True, slots=True)
class LaneMasks:
    """``values``: where masks and predicates come from. ``above``: the blocks whose branches decide whether a
    block is executed, with those that decide about them."""

    values: MaskValues
    above: Callable[[int], set[int]]

    @property
    def flow(self) -> Flow:
        """The control flow of the function."""
        return self.values.flow

    def made_of_those_that_come(self, at: int, mask: Operand | None) -> frozenset[str] | None:
        """The registers that decide between the making of a mask and the collective ``at``, beside the
        predicate that the mask was voted about. None: the mask is not of this kind."""
        if not isinstance(mask, Reg):
            return None
        k = self.values.origin(mask, at)
        return self._by_turns(at, mask) if k is None else self._from(k, at)

    def of_one_vote(self, made: int, at: int) -> frozenset[str] | None:
        """The same of a mask that instruction ``made`` makes of a vote of all lanes, and of any instruction
        ``at`` behind it. All lanes of the warp have one such mask. None: the mask is of another kind."""
        rest = self._rest_of(made)
        vote = self.flow.body[made if rest is None else rest]
        of_all = vote.op == "vote" and "ballot" in vote.mods and self.values.all_lanes(vote.operands[-1])
        return self._from(made, at) if of_all else None

    def of_groups(self, made: int, at: int) -> frozenset[str] | None:
        """The same of masks that instruction ``made`` makes for groups of lanes, and of any instruction
        ``at`` behind it: the lanes of one group have one mask, and each is named by its own."""
        return self._from(made, at)

    def equal(self, at: int) -> Iterator[tuple[int, Operand, Operand]]:
        """The operands that are equal in each lane that comes to an instruction, by the ``setp`` that asks.
        No lane that comes has left a loop since in a turn of its own."""
        here = self.flow.block_of[at]
        for p in self._holding(at):
            if p.comparison is None or p.comparison[0] != ("eq" if p.holds else "ne"):
                continue
            if len(p.comparison[1]) == 1 and _of_integers(p.comparison[1][0]):
                there = self.flow.block_of[p.at]
                if self.values.before(p.at, at) and not self.above(there) - self.above(here):
                    one, other = p.comparison[2]
                    yield p.at, one, other

    def comparisons(self, at: int) -> Iterator[tuple[int, str, str, Operand, Operand]]:
        """The comparisons of integers that hold wherever an instruction is executed: the ``setp`` that asks,
        the relation, its type, and its operands as the ``setp`` reads them."""
        for p in self._holding(at):
            if p.comparison is None or len(p.comparison[1]) != 1 or not _of_integers(p.comparison[1][0]):
                continue
            name = p.comparison[0] if p.holds else _opposite(p.comparison)
            if name is not None:
                one, other = p.comparison[2]
                yield p.at, name, p.comparison[1][0], one, other

    def chosen_by(self, at: int, k: int) -> tuple[int, int, Operand, Operand] | None:
        """The branch that alone decides which of the lanes that come to an instruction ``k`` execute another
        one ``at`` before, the ``setp`` of it, and the operands that have to be equal; None where something
        else decides."""
        here, there = self.flow.block_of[at], self.flow.block_of[k]
        between = self.above(here) - self.above(there)
        if len(between) != 1 or self.flow.body[at].guard is not None:
            return None
        (block,) = between
        asked = self._decides(block, here)
        same = [x for x in self.equal(at) if len(asked) == 1 and x[0] == asked[0].at]
        dominates = self.flow.dominates(block, there)
        return (self.flow.blocks[block].hi - 1, *same[0]) if same and dominates else None

    def _holding(self, at: int) -> list[_Predicate]:
        """Predicates that hold, or do not, wherever an instruction is executed."""
        here, guard = self.flow.block_of[at], self.flow.body[at].guard
        found = [p for b in sorted(self.above(here)) for p in self._decides(b, here)]
        if guard is not None:
            found += self._conjuncts(guard, at, holds=not self.flow.body[at].negated)
        return found

    def met(self, at: int, mask: Operand | None) -> int:
        """Where the lanes that come to a collective with such a mask met first: the vote of all lanes, or
        what else made the first of the masks that their own was voted out of."""
        while isinstance(mask, Reg) and not self.values.all_lanes(mask):
            k = self.values.origin(mask, at)
            turns = self._turns(mask) if k is None else None
            if turns is not None:
                at, i = turns.first, self.flow.body[turns.first]
                if i.op != "mov":
                    k = at
                else:
                    mask = i.operands[1]
                    continue
            if k is None:
                return at
            vote = self._rest_of(k)
            at = k if vote is None else vote
            mask = self.flow.body[at].operands[-1] if self.flow.body[at].op == "vote" else None
        return at

    def _from(self, k: int, at: int, skipped: frozenset[int] = frozenset()) -> frozenset[str] | None:
        """The same of a mask that instruction ``k`` makes; ``skipped``: blocks that others answer for."""
        vote = self._rest_of(k)
        holds, k = vote is None, k if vote is None else vote
        here, there = self.flow.block_of[at], self.flow.block_of[k]
        if not self.values.before(k, at) or self.above(there) - self.above(here):
            # Lanes that leave a loop in different turns hold masks of different turns.
            return None
        i, guard = self.flow.body[k], self.flow.body[at].guard
        between = sorted(self.above(here) - self.above(there) - skipped)
        if i.op == "activemask" or (i.op == "match" and "any" in i.mods):
            among = frozenset[str]() if i.op == "activemask" else self._among(k)
            return None if among is None or guard is not None else among | self._deciding(between)
        if i.op != "vote" or "ballot" not in i.mods:
            return None
        ways = {b: self._decides(b, here) for b in between}
        own = () if guard is None else self._conjuncts(guard, at, holds=not self.flow.body[at].negated)
        return self._other_registers(self._predicate(i.operands[1], k, holds=holds), ways, own)

    def _among(self, k: int) -> frozenset[str] | None:
        """What decides between the mask that a ``match`` is given and the ``match``; None: another mask."""
        asked = self.flow.body[k].operands[-1]
        if self.values.constant(asked) is not None:
            return frozenset()
        return self.made_of_those_that_come(k, asked)

    def _rest_of(self, k: int) -> int | None:
        """The vote of which an instruction makes the mask of those who voted against: the lanes that it
        asked, without those for whom the predicate held."""
        i = self.flow.body[k]
        if i.op == "not":
            vote = self.values.ballot(i.operands[1], k)
            return (
                vote
                if vote is not None and self.values.all_lanes(self.flow.body[vote].operands[-1])
                else None
            )
        if i.op not in ("and", "xor") or i.mods[-1:] != ("b32",):
            return None
        for of, among in (i.operands[1:], i.operands[:0:-1]):
            vote = self.values.ballot(of, k, negated=i.op == "and")
            if vote is not None and self.values.alike(self.flow.body[vote].operands[-1], among, vote, k):
                return vote
        return None

    # ------------------------------------------------------------ masks of turns

    def _by_turns(self, at: int, mask: Reg) -> frozenset[str] | None:
        """The same of a mask that names those who come to each turn of a loop.

        Two instructions write it: one before the loop, and a vote in the loop among the lanes that it names.
        Who has voted against it leaves, at the end of the block of the vote. By induction over turns the
        mask names those who come to the vote, and behind the branch those who stay. Who has left must not
        come to the vote again meanwhile, with the mask of a new beginning.

            mov.u32 %m, -1;
            U: setp.lt.u32 %p, %i, %end;
            vote.sync.ballot.b32 %m, %p, %m;
            @!%p bra OUT;  add.u32 %i, %i, 1;  bra U;
        """
        turns = self._turns(mask)
        here = self.flow.block_of[at]
        if turns is None or here not in turns.loop or self.flow.body[at].guard is not None:
            return None
        behind = self._only_through(turns.block, turns.stays, here)
        if not behind and (here != turns.block or at > turns.vote):
            return None
        before = self._before_turns(turns)
        deciding = (self.above(turns.block) | self.above(here)) & turns.loop - {turns.block}
        return None if before is None else before | self._deciding(deciding)

    def _turns(self, mask: Reg) -> _Turns | None:
        body, block_of = self.flow.body, self.flow.block_of
        writes = self.values.definitions.get(mask.name, ())
        if len(writes) != 2 or any(body[k].guard is not None for k in writes):
            return None
        votes = [k for k in writes if body[k].op == "vote" and body[k].operands[-1] == mask]
        if len(votes) != 1 or "ballot" not in body[votes[0]].mods:
            return None
        (vote,) = votes
        first = writes[0] if writes[1] == vote else writes[1]
        block, start = block_of[vote], block_of[first]
        loops = [x for x in self.flow.loops if block in x and start not in x]
        ways = self.flow.blocks[block].succ
        if len(loops) != 1 or not self.values.before(first, vote) or len(set(ways)) != 2:
            return None
        (loop,) = loops
        stays, leaves = ([b for b in ways if (b in loop) == inside] for inside in (True, False))
        if len(stays) != 1 or self._comes_again(leaves[0], block, first):
            return None
        voted = self._predicate(body[vote].operands[1], vote, holds=True)
        asked = self._decides(block, stays[0])
        if len(asked) != 1 or not self._same(voted, asked[0]):
            return None
        return _Turns(first, vote, block, stays[0], loop)

    def _before_turns(self, turns: _Turns) -> frozenset[str] | None:
        """What decides on the way to the first vote; None: its mask may not name those who come to it."""
        i = self.flow.body[turns.first]
        if i.op != "mov":
            return self._from(turns.first, turns.vote, turns.loop)
        start = self.flow.block_of[turns.first]
        way = self.above(turns.block) - self.above(start) - turns.loop
        if self.above(start) - self.above(turns.block):
            return None
        if self.values.all_lanes(i.operands[1]):
            return self._deciding(way | self.above(start))
        found = self.made_of_those_that_come(turns.first, i.operands[1])
        return None if found is None else found | self._deciding(way)

    def _comes_again(self, leaves: int, block: int, first: int) -> bool:
        """Whether a lane that has left may come to the vote while others still turn, and name them.

        It does not where it first meets all lanes of the mask that the loop began with.
        """
        i = self.flow.body[first]
        whole = i.operands[1] if i.op == "mov" else i.operands[0]
        wider: list[Reg | None] = [*self._wider(whole, first)]
        return not any(self._meet_before(leaves, block, mask) for mask in wider or [None])

    def _wider(self, whole: Operand, first: int) -> Iterator[Reg]:
        """The register with the mask that a loop begins with, and those of the votes that it was made by."""
        at: int | None = first
        while at is not None and isinstance(whole, Reg):
            yield whole
            at = self._vote_of(whole, at)
            whole = whole if at is None else self.flow.body[at].operands[-1]

    def _meet_before(self, start: int, block: int, mask: Reg | None) -> bool:
        """Whether each way from one block to another leads to a meeting of all lanes of a mask, which nothing
        else writes on the way; None: of all lanes."""
        seen, work = set[int](), [start]
        while work:
            b = work.pop()
            if b in seen or b >= len(self.flow.blocks):
                continue
            seen.add(b)
            met = self._met_in(b, mask)
            if met is False or (met is None and b == block):
                return False
            work += [] if met else self.flow.blocks[b].succ
        return True

    def _met_in(self, block: int, mask: Reg | None) -> bool | None:
        """Whether all lanes of a mask meet in a block, before anything else writes it; None: neither."""
        for k in range(self.flow.blocks[block].lo, self.flow.blocks[block].hi):
            if self._meets(k, mask):
                return True
            if mask is not None and mask.name in results(self.flow.body[k]):
                return False
        return None

    def _meets(self, k: int, mask: Reg | None) -> bool:
        """Whether all lanes of a mask, or of the warp, come to an instruction together."""
        i = self.flow.body[k]
        if i.guard is not None or not ({"shfl", "vote", "match", "redux", "bar"} & {i.op}):
            return False
        if i.op == "bar" and i.mods[:1] != ("warp",):
            return False
        return i.operands[-1] == mask or self.values.all_lanes(i.operands[-1])

    def _vote_of(self, mask: Reg, at: int) -> int | None:
        """The vote that made a mask, of those who voted for it or against."""
        k = self.values.origin(mask, at)
        vote = None if k is None else self._rest_of(k)
        if k is None or vote is not None:
            return vote
        i = self.flow.body[k]
        return k if i.op == "vote" and "ballot" in i.mods else None

    def _other_registers(
        self, voted: _Predicate | None, ways: Mapping[int, Sequence[_Predicate]], own: Sequence[_Predicate]
    ) -> frozenset[str] | None:
        """The registers that decide beside the voted predicate; None: it does not decide. ``ways``: what
        holds of the branch of each block; ``own``: of the guard of the collective."""
        voters = [*ways.values(), own]
        if not any(self._same(voted, p) for way in voters for p in way):
            return None
        others = frozenset(p.register for way in voters for p in way if not self._same(voted, p))
        return others | self._deciding([b for b, way in ways.items() if not way])

    def _deciding(self, blocks: Iterable[int]) -> frozenset[str]:
        return frozenset(name for b in blocks for name in sources(self.flow.body[self.flow.blocks[b].hi - 1]))

    def _decides(self, block: int, here: int) -> tuple[_Predicate, ...]:
        """What holds of the branch at the end of a block wherever another block is executed."""
        at = self.flow.blocks[block].hi - 1
        last = self.flow.body[at]
        taken = next((op.target for op in last.operands if hasattr(op, "target")), len(self.flow.body))
        if last.op != "bra" or last.guard is None or max(taken, at + 1) >= len(self.flow.body):
            return ()
        ways = [self.flow.block_of[taken], self.flow.block_of[at + 1]]
        jumps, falls = (way != block and self._only_through(block, way, here) for way in ways)
        return () if jumps == falls else self._conjuncts(last.guard, at, holds=jumps != last.negated)

    def _only_through(self, block: int, way: int, here: int) -> bool:
        """Whether a block is executed only after one of the two ways of a branch."""
        alone = all(p == block for p in self.flow.blocks[way].pred)
        return alone and self.flow.dominates(way, here)

    # ------------------------------------------------------------ predicates

    def _conjuncts(self, register: Reg, at: int, *, holds: bool) -> tuple[_Predicate, ...]:
        """The predicates that all hold if one does: ``and.pred`` that is true, ``or.pred`` that is false."""
        found = self._predicate_of(register, at, holds=holds)
        if found is None:
            return ()
        i = self.flow.body[found.at]
        if i.op != ("and" if holds else "or") or "pred" not in i.mods:
            return (found,)
        parts = [self._predicate(op, found.at, holds=holds) for op in i.operands[1:]]
        return tuple(p for p in parts if p is not None) if None not in parts else (found,)

    def _predicate(self, op: Operand, at: int, *, holds: bool) -> _Predicate | None:
        if isinstance(op, Not):
            return self._predicate_of(op.reg, at, holds=not holds)
        return self._predicate_of(op, at, holds=holds) if isinstance(op, Reg) else None

    def _predicate_of(self, register: Reg, at: int, *, holds: bool) -> _Predicate | None:
        """The predicate that a register is at an instruction, if one instruction makes it."""
        found = self.values.source(register, at)
        if found is None:
            return None
        register, k = found
        i = self.flow.body[k]
        if i.op == "not":
            return self._predicate(i.operands[1], k, holds=not holds)
        # of packed types the second result is of the other half
        compares = i.op == "setp" and len(i.operands) == 3 and not i.mods[-1].endswith("x2")
        what = self._comparison(i, k) if compares else None
        first = i.operands[0]
        if isinstance(first, Pair) and isinstance(first.first, Reg) and compares:
            # PTX ISA, setp: the second result is the opposite of the first one
            return _Predicate(first.first.name, k, what, holds == (register == first.first))
        return _Predicate(register.name, k, what if isinstance(first, Reg) else None, holds)

    def _comparison(self, i: Instr, k: int) -> _Comparison:
        """What a ``setp`` asks, by one of several names that say the same."""
        name, mods, operands = _canonical(i.mods[0], i.mods[1:], i.operands[1:])
        return _equality(name, mods, operands, self.values.bit(operands[0], k))

    def _same(self, one: _Predicate | None, other: _Predicate | None) -> bool:
        """Whether two predicates are one, wherever the later of two instructions that ask them follows."""
        if one is None or other is None:
            return False
        if one.at == other.at:  # one of two results may be the other's opposite
            alone = isinstance(self.flow.body[one.at].operands[0], Reg)
            return one.holds == other.holds and (alone or one.register == other.register)
        if one.comparison is None or other.comparison is None or one.comparison[1:] != other.comparison[1:]:
            return False
        if not all(self.values.keeps(op, one.at, other.at) for op in one.comparison[2]):
            return False
        if one.comparison[0] == other.comparison[0]:
            return one.holds == other.holds
        return _opposite(one.comparison) == other.comparison[0] and one.holds != other.holds


def _canonical(name: str, mods: tuple[str, ...], operands: tuple[Operand, ...]) -> _Comparison:
    """A comparison of an integer with a number, by ``ge`` and ``lt`` where it is by ``gt`` and ``le``."""
    last, kind = operands[-1], mods[-1] if mods else ""
    if name not in _NEXT or not isinstance(last, Imm) or kind[:1] not in ("u", "s"):
        return name, mods, operands
    bits = int(kind[1:])
    low, high = (0, 1 << bits) if kind[0] == "u" else (-1 << bits - 1, 1 << bits - 1)
    if not low <= last.value < high - 1:
        return name, mods, operands
    return _NEXT[name], mods, (*operands[:-1], Imm(last.value + 1))


def _equality(
    name: str, mods: tuple[str, ...], operands: tuple[Operand, ...], bit: int | None
) -> _Comparison:
    """A comparison of bits for equality, whatever their type; with 0 where that says the same: of a value
    that is 0 or ``bit``, and of one without a sign that is compared with 1.

    Example: after ``and.b32 r, x, 4`` all of ``setp.eq.u32 p, r, 4``, ``setp.ne.s32 p, r, 0`` and
    ``setp.gt.u32 p, r, 0`` are ``ne`` of ``r`` and 0.
    """
    last, kind = operands[-1], mods[-1] if mods else ""
    if not _of_integers(kind):
        return name, mods, operands
    if kind[0] == "u" and last == Imm(1) and name in _WITH_ZERO:
        name, last = _WITH_ZERO[name], Imm(0)
    if name not in ("eq", "ne"):
        return name, mods, operands
    if bit is not None and last == Imm(bit):
        name, last = _OPPOSITE_INTEGERS[name], Imm(0)
    return name, (*mods[:-1], f"b{kind[1:]}"), (*operands[:-1], last)


def _opposite(comparison: _Comparison) -> str | None:
    name, mods, _ = comparison
    floats = mods[-1:] != () and not _of_integers(mods[-1])
    return (_OPPOSITE if floats else _OPPOSITE | _OPPOSITE_INTEGERS).get(name)


def _of_integers(kind: str) -> bool:
    """Whether a type is one of integers or of bits: ``bf16`` is none."""
    return kind[:1] in ("u", "s", "b") and kind[1:].isdigit()
