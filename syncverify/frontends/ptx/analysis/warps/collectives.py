"""Operations that lanes of a warp execute together and that have no other event: ``shfl``, ``vote``,
``match``, ``redux``, ``mma``, and those of ``wmma`` that leave shared memory alone.

Each lane that the mask names has to come to the operation, with the same mask (PTX ISA: shfl.sync,
vote.sync). A warp that is one class does so by itself. Of a warp whose lanes went apart each class gets an
event, ``COLLECTIVE``, which starts when the lanes of the mask have come to one of the same kind, or of
``.aligned`` ones to the same instruction; it orders no memory. Operations in a row are one event. Lanes
that have left are not waited for (the text of those with a mask says so), but by operations on matrices,
which need all lanes of the warp.

Some branches are decided by nothing that is followed, for nothing with an event depends on them. What lies
behind such a branch is not executed by the analysis. Its operations are met where the outermost of these
branches stands, if data flow shows that the lanes of a warp decide alike; else the verdict is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, MOST_BLOCKS, THREADS, Uniformity
from syncverify.frontends.ptx.analysis.warps.lane_masks import LaneMasks
from syncverify.frontends.ptx.analysis.warps.mask_values import ALL_LANES, MaskValues
from syncverify.frontends.ptx.decode.effects import Context, Effect, Emit, Value
from syncverify.frontends.ptx.decode.memory import STRONG
from syncverify.frontends.ptx.decode.wmma import matrix_in_global, moves_matrix
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import computes
from syncverify.frontends.ptx.isa.participants import by_all_lanes, by_lanes
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.model.events import Ev, Event

#: Those with an event of their own, beside matrices in shared memory.
_OWN_EVENT = frozenset({"bar", "elect", "ldmatrix", "stmatrix", "tensormap"})
INTEGERS = frozenset(
    "mov add sub mul mad shl shr and or xor not selp setp min max neg bfe lop3 cvt div rem".split()
)


def combined_by_warps(i: Instr) -> bool:
    """Whether an instruction brings all lanes of a warp the same, made of what each of them has."""
    mask = i.operands[-1] if i.operands else None
    if not isinstance(mask, Imm) or mask.value & ALL_LANES != ALL_LANES or "sync" not in i.mods:
        return False
    match i.op:
        case "vote" | "redux":
            return True
        case "match":
            return "all" in i.mods
        case "shfl":
            lane, segment = i.operands[-3:-1]
            return "idx" in i.mods and isinstance(lane, Imm) and segment == Imm(31)
    return False


def is_collective(i: Instr) -> bool:
    """Whether lanes execute an instruction together, and it has no other event."""
    own = i.op in _OWN_EVENT or (moves_matrix(i) and not matrix_in_global(i))
    return by_lanes(i) and not own


@dataclass(frozen=True, slots=True)
class Row:
    """Collectives in a row: their numbers, and the mask of them all; None: the whole warp."""

    at: tuple[int, ...]
    mask: Operand | None
    kind: int  # a number for what they are; odd: what they bring is more than stored
    whole: bool = False  # some of them are operations of the whole warp


@dataclass(frozen=True, slots=True)
class Apart:
    """A row behind branches that are not decided. ``guards``: the registers that decide, or those that decide
    beside the predicate that the mask was voted about. ``fits``: the mask names the lanes that come if no
    lanes of a warp differ in these, among those that came together to the instruction ``since``."""

    row: Row
    guards: tuple[str, ...]
    fits: bool = False
    since: int | None = None


class Collectives:
    """The collectives of a function, where other events are known."""

    def __init__(
        self, flow: Flow, decoded: Collection[int], branches: Collection[int], also: Collection[int] = ()
    ) -> None:
        """``decoded``: instructions with events; ``branches``: those that are decided; ``also``: collectives
        that the text alone does not show to be some."""
        self.also = also
        self.flow = flow
        self.body = flow.body
        self.branches = branches
        self.rows = [row for n in sorted(flow.reached) for row in self._rows(n, decoded)]

    @cached_property
    def _definitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for k, i in enumerate(self.body):
            for name in results(i) if self.flow.block_of[k] in self.flow.reached else ():
                found.setdefault(name, []).append(k)
        return found

    @cached_property
    def _controllers(self) -> list[set[int]]:
        return self.flow.controllers()

    def followed(self, known: Collection[str]) -> dict[int, Effect]:
        """The effects of rows that agents come to; ``known``: registers that hold a value. Branches that
        numbers of lanes decide, and no data, are decided for their sake."""
        return {
            row.at[0]: Effect(_emits(row), () if row.mask is None else (row.mask,))
            for row in self.rows
            if self._between(row) != frozenset() and self._decidable(row, known)
        }

    def _decidable(self, row: Row, known: Collection[str]) -> bool:
        guards = self._guards(row, self._undecided(row, known))
        if not guards:
            return True
        return bool(self._flat.of(guards) & LANES) and all(map(self._computed, guards))

    def _guards(self, row: Row, blocks: Iterable[int]) -> tuple[str, ...]:
        """The registers that decide in some blocks, and about the row itself."""
        found = {name for b in blocks for name in sources(self.body[self._last(b)])}
        own = {g.name for k in row.at if (g := self.body[k].guard) is not None} if found else set()
        return tuple(sorted(found | own))

    def _between(self, row: Row) -> frozenset[str] | None:
        """The registers that decide between the making of a row's mask and the row, but for those that all
        threads hold alike; None: the mask is of another kind."""
        if row.at[0] not in self._known_between:
            self._known_between[row.at[0]] = self._decide_between(row)
        return self._known_between[row.at[0]]

    def _decide_between(self, row: Row) -> frozenset[str] | None:
        found = self.masks.made_of_those_that_come(row.at[0], row.mask)
        if not found or not self._in_a_row:
            return found
        since = self.masks.met(row.at[0], row.mask)
        return frozenset(name for name in found if self._flat.since(since, [name]) & THREADS)

    @cached_property
    def _known_between(self) -> dict[int, frozenset[str] | None]:
        return {}

    @cached_property
    def _in_a_row(self) -> bool:
        """Whether nothing but ``%tid.x`` says where in the block a thread is: what does not vary with the
        threads of a row then does not in a block of any shape."""
        named = {op.name for i in self.body for op in i.operands if isinstance(op, Special)}
        return named.isdisjoint(("%tid.y", "%tid.z", "%tid"))

    @cached_property
    def masks(self) -> LaneMasks:
        """Which masks name the lanes that come with them."""
        return LaneMasks(MaskValues(self.flow, self._definitions, self.constant, self._whole), self._above)

    def _whole(self, k: int) -> bool:
        """Whether all lanes of a warp come to an instruction, as far as that is known in a block of any
        shape."""
        above = self._above(self.flow.block_of[k])
        names = [name for b in above for name in sources(self.body[self._last(b)])]
        return not names or (self._in_a_row and not self._flat.of(names) & THREADS)

    @cached_property
    def _flat(self) -> Uniformity:
        """What values vary with in a row of threads: enough to choose a way by."""
        return Uniformity(self.flow, (1024, 1, 1), MOST_BLOCKS)

    def _computed(self, name: str) -> bool:
        """Whether a register is made of numbers, of parameters, and of nothing that is loaded otherwise."""
        seen, work = {name}, [name]
        while work:
            for k in self._definitions.get(work.pop(), (-1,)):
                i = self.body[k]
                loads = i.op == "ld" and "param" in i.mods
                if k < 0 or not (loads or i.op in INTEGERS) or any("f" == m[:1] for m in i.mods):
                    return False
                more = set(sources(i)) - seen
                seen |= more
                work += more
        return True

    def apart(self, known: Collection[str]) -> Mapping[int, Sequence[Apart]]:
        """By branch that is not decided, the rows behind it."""
        found: dict[int, list[Apart]] = {}
        for row in self.rows:
            blocks, between = self._undecided(row, known), self._between(row)
            if not blocks or between == frozenset() or self._decidable(row, known):
                continue
            fits = between is not None
            guards = tuple(sorted(between)) if between is not None else self._guards(row, blocks)
            since = self.masks.met(row.at[0], row.mask) if fits else None
            outer = [b for b in blocks if not any(c in blocks and c != b for c in self._above(b))]
            for b in outer or sorted(blocks)[:1]:
                found.setdefault(self._last(b), []).append(Apart(row, guards, fits, since))
        return found

    def behind_data(self) -> frozenset[int]:
        """Collectives behind branches on what is loaded, whose mask names the lanes that come. Which lanes
        these are is not known, and so neither is what the collectives bring."""
        return frozenset(
            k
            for row in self.rows
            if not all(map(self._computed, self._deciding(row))) and self._between(row) == frozenset()
            for k in row.at
        )

    def _deciding(self, row: Row) -> set[str]:
        above = self._above(self.flow.block_of[row.at[0]])
        return {name for b in above for name in sources(self.body[self._last(b)])}

    def decided_by(self, k: int, known: Collection[str]) -> bool:
        """Whether an instruction lies behind branches that are not decided, by registers that hold a
        value."""
        behind = [b for b in self._above(self.flow.block_of[k]) if self._last(b) not in self.branches]
        return bool(behind) and all(
            self.body[self._last(b)].op == "bra" and set(sources(self.body[self._last(b)])) <= set(known)
            for b in behind
        )

    def _last(self, block: int) -> int:
        return self.flow.blocks[block].hi - 1

    def _above(self, block: int) -> set[int]:
        """The blocks whose branches decide whether a block is executed, and those that decide about them."""
        found: set[int] = set()
        work = [block]
        while work:
            for c in self._controllers[work.pop()]:
                if c not in found:
                    found.add(c)
                    work.append(c)
        return found

    def _undecided(self, row: Row, known: Collection[str]) -> set[int]:
        block = self.flow.block_of[row.at[0]]
        found = {b for b in self._above(block) if self._last(b) not in self.branches}
        guard = self.body[row.at[0]].guard
        if not found and guard is not None and guard.name not in known:
            return {block}
        return found

    # ------------------------------------------------------------ rows

    def _rows(self, block: int, decoded: Collection[int]) -> Iterable[Row]:
        b = self.flow.blocks[block]
        at: list[int] = []
        for k in range(b.lo, b.hi):
            i = self.body[k]
            if is_collective(i) or k in self.also:
                if at and not self._alike(self.body[at[-1]], i):
                    yield self._row(at)
                    at = []
                at.append(k)
            if at and ((k in decoded and at[-1] != k) or self._changes(self.body[at[0]], i)):
                yield self._row(at)
                at = []
        if at:
            yield self._row(at)

    def _changes(self, of: Instr, i: Instr) -> bool:
        """Whether an instruction writes the mask or the guard of a collective."""
        mask = self._mask(of)
        asked = {of.guard.name if of.guard is not None else "", mask.name if isinstance(mask, Reg) else ""}
        return not asked.isdisjoint(results(i))

    def _alike(self, one: Instr, other: Instr) -> bool:
        guarded = (one.guard, one.negated) == (other.guard, other.negated)
        return guarded and self._mask(one) == self._mask(other)

    def _row(self, at: Sequence[int]) -> Row:
        names = [*dict.fromkeys(self.body[k].name for k in at)]
        whole = any(by_all_lanes(self.body[k]) for k in at)
        # PTX ISA, .aligned: all threads of the warp execute the same instruction, not one of its kind
        names += [str(k) for k in at[:1] if any("aligned" in self.body[j].mods for j in at)]
        followed = not self._followed.isdisjoint(self.body[k].name for k in at)
        kind = crc32("+".join(names).encode()) & ~1 | followed
        return Row(tuple(at), self._mask(self.body[at[0]]), kind, whole)

    @cached_property
    def _followed(self) -> frozenset[str]:
        """The names of collectives of which some bring more than is stored. Those of one name meet (K27)."""
        brought = {k: i for k, i in enumerate(self.body) if is_collective(i) or k in self.also}
        return frozenset(i.name for i in brought.values() if not self._read.isdisjoint(results(i)))

    @cached_property
    def _read(self) -> frozenset[str]:
        """The registers that decide, place an access, are made of steps of butterflies, or come to shared
        memory computed: all that is not stored, or made into what is stored in global memory alone."""
        read: set[str] = set()
        made: dict[str, set[str]] = {}
        for i in self.body:
            if i.op == "st" and STRONG.isdisjoint(i.mods):
                read.update(registers(i.operands[0]), () if i.guard is None else (i.guard.name,))
            elif computes(i) and i.guard is None:
                for name in results(i):
                    made.setdefault(name, set()).update(sources(i))
            else:
                read.update(sources(i))
        kept = {
            name
            for i in self.body
            if i.op == "st" and "global" not in i.mods
            for op in i.operands[1:]
            for name in registers(op)
        }
        steps = {name for i in self.body if i.op == "shfl" and "bfly" in i.mods for name in results(i)}
        work = [*read, *(kept & made.keys())]
        found = set(work)
        while work:
            more = made.get(work.pop(), set()) - found
            found |= more
            work += more
        return frozenset(found | steps & set[str]().union(*made.values()))

    def _mask(self, i: Instr) -> Operand | None:
        """The mask; None for all lanes."""
        if by_all_lanes(i):
            return None
        mask = i.operands[-1]
        found = self.constant(mask)
        if found is None:
            return mask
        return None if found & ALL_LANES == ALL_LANES else Imm(found & ALL_LANES)

    def constant(self, op: Operand) -> int | None:
        """A number in the text, or in a register that holds nothing else."""
        if isinstance(op, Imm):
            return op.value
        found = self._definitions.get(op.name, ()) if isinstance(op, Reg) else ()
        if len(found) != 1:
            return None
        i = self.body[found[0]]
        moves = i.op == "mov" and i.guard is None and isinstance(i.operands[0], Reg)
        return self.constant(i.operands[1]) if moves else None


def collective(ctx: Context, site: int, mask: int, kind: int, whole: bool) -> list[Event]:
    """The event of a class of lanes that comes to a collective; none where it is all of the mask. ``whole``:
    no lane of the warp may have left."""
    named = mask & ctx.warp_lanes
    outside = [lane for lane in ctx.lanes if not named >> lane & 1]
    if outside:
        # PTX ISA, shfl.sync, vote.sync: the executing thread is in the mask.
        text = f"lane {outside[0]} executes this with mask {mask:#x}, which leaves it out"
        return [(Ev.FAULT, site, "SV303", text)]
    if sum(1 << lane for lane in ctx.lanes) == named:
        return []
    return [(Ev.COLLECTIVE, site, named, kind, int(whole))]


def _emits(row: Row) -> Emit:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        mask = ctx.number(v[0], "the mask of a collective") & ALL_LANES if v else ALL_LANES
        return collective(ctx, site, mask, row.kind, row.whole)

    return emit


def at_branch(ctx: Context, site: int, apart: Apart, instr: Instr) -> list[Event]:
    """The event of a row behind branches that are not decided: met where the outermost of them stands."""
    row = apart.row
    if ctx.differs(apart.guards, apart.since):
        why = f"whether all lanes of its mask come to {instr.name} depends on data (line {instr.line})"
        return [(Ev.UNKNOWN, site, Reason(why, Cause.DATA))]
    if apart.fits:
        return []
    if row.mask is not None and not isinstance(row.mask, Imm):
        return [(Ev.UNKNOWN, site, f"the mask of {instr.name} is not known (line {instr.line})")]
    mask = ALL_LANES if row.mask is None else row.mask.value
    return collective(ctx, site, mask, row.kind, row.whole)


__all__ = ["Apart", "Collectives", "Row", "at_branch", "collective", "is_collective"]
