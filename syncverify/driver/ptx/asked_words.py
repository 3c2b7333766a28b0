"""Words that a thread asks, and accesses by the answer what another block writes, in no order.

    data[thread] = x;  flag = 1;              // by the first block, with no fence
    if (flag == 1) y = data[thread];          // by the others, where flag is volatile or relaxed
    y = data[flag & 63];                      // or at the place that the word selects

Who waits for such a word hands data over, and is followed. Who asks once may find it, too. Loads, stores,
atomics and copies count on both sides. Places are computed for the blocks of a few launches, in first turns
of loops: a store that has no number there is left out. A read by the answer that has none, or whose bytes
are not followed, may be anywhere: it counts as one that meets the write.

A place that a word selects is computed for 0 and for what the kernel stores in the word. Where that has no
number, the word may select any place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from syncverify.driver.ptx.assumptions import holds_at
from syncverify.driver.ptx.common_places import by_the_last, places_of_blocks
from syncverify.driver.ptx.launches_of_blocks import of_several_blocks
from syncverify.frontends.ptx.analysis.blocks.block_places import BlockPlaces, Loaded, StoreRows
from syncverify.frontends.ptx.analysis.blocks.store_pairs import Orders, meetings
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import read_by_the_last, used_counts
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import scope_of, semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.isa.accesses import Touch, Use, passes_on, touches
from syncverify.frontends.ptx.isa.addresses import GENERIC
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem
from syncverify.frontends.ptx.syntax.operands import computed_from, registers, results, sources
from syncverify.model.events import Ev, Flag
from syncverify.model.proxies import Scope

#: Numbers of one word that are tried at most.
_MOST = 10
#: Where no thread of the block leaves words for others while the kernel runs.
_HOST = frozenset({"global", "param", "const"})


@dataclass(frozen=True, slots=True)
class AskedOnce:
    """A strong load that decides about an access, or places it, and the access of another block that this one
    meets."""

    asked: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class _Accessed:
    """An access to global memory by known pointers. ``access``: None where its bytes are not followed."""

    k: int
    access: Access | None
    of: frozenset[str]
    use: Use
    strong: bool

    def races(self, other: _Accessed) -> bool:
        """Whether the two are a data race where they meet in no order."""
        return bool(Use.WRITES & (self.use | other.use)) and not (self.strong and other.strong)


@dataclass(frozen=True, slots=True)
class _Pair:
    """An access by an answer, and one that it may meet. ``selects``: the answer says where."""

    found: AskedOnce
    one: _Accessed
    other: _Accessed
    selects: bool


def read_by_answer(facts: PtxFacts, program: Program) -> AskedOnce | None:
    """Such an access, in a launch of several blocks that do not wait for each other."""
    if facts.block is None or program.handing is not None or facts.grid == (1, 1, 1):
        return None
    accesses = list(_accesses(program))
    found = list(_pairs(facts, program, accesses))
    orders = Orders(program.flow)
    for launch in of_several_blocks(facts, program) if found else ():
        places = places_of_blocks(launch, program, facts.block)
        for pair in found:
            if not pair.selects:
                each: Iterable[BlockPlaces] = (places,)
            else:
                answers = _answers(program, accesses, places, pair.found.asked)
                if answers is None:  # it may select any place
                    return pair.found
                held = (Loaded(held={pair.found.asked: n}) for n in answers)
                each = (places_of_blocks(launch, program, facts.block, x) for x in held)
            if any(_meet(x, orders, pair) for x in each):
                return pair.found
    return None


def _meet(places: BlockPlaces, orders: Orders, pair: _Pair) -> bool:
    """Whether threads of two blocks come to one byte by two instructions. So they may where it is open what
    is read by an answer."""
    one, other = pair.one, pair.other
    stores = one.use is other.use is Use.WRITES
    rows = ([None] * 2 if x.access is None else places.rows(x.k, x.access) for x in (one, other))
    each = [[r if r is None or stores else r.of_anything() for r in found] for found in rows]
    if one.use is Use.READS and (None in each[0] or other.access is None):
        return True
    return any(
        meeting.of_blocks
        for a, b in zip(*each, strict=True)
        if a is not None and b is not None
        for meeting in meetings([(one.k, a), (other.k, b)], orders)
    )


def _pairs(facts: PtxFacts, program: Program, accesses: Collection[_Accessed]) -> Iterator[_Pair]:
    """Accesses that words decide about, or place, and those through the same pointer that race with them.
    Words that the launch file gives are left out, and what the block reads that counts itself last."""
    writes = [x for x in accesses if Use.WRITES & x.use]
    written = frozenset[str]().union(*(x.of for x in writes))
    strong = {
        x.k: x.of for x in accesses if x.use is Use.READS and semantics(program.body[x.k]) & Flag.STRONG
    }
    asked = [k for k, of in strong.items() if of & written and not holds_at(facts, program, of)]
    if not asked:
        return
    counted = read_by_the_last(program.flow, used_counts(program.flow), program.origins)
    last = by_the_last(program).union(counted)
    for one in accesses:
        if one.k in strong or one.k in last:
            continue
        others = [x for x in accesses if x.k != one.k and x.k not in strong and x.of & one.of]
        others = [x for x in others if one.races(x)]
        if not others:
            continue
        selected = _selects(program, one.k, asked)
        by = _decides(program, one.k, asked) if selected is None else selected
        if by is None:
            continue
        for other in others:
            yield _Pair(AskedOnce(by, one.k, other.k), one, other, selected is not None)


def _answers(
    program: Program, accesses: Iterable[_Accessed], places: BlockPlaces, asked: int
) -> tuple[int, ...] | None:
    """Numbers that a word may hold: 0, and those that some block stores there; None where these are open."""
    of = next(x.of for x in accesses if x.k == asked)
    found = {0: None}
    for x in accesses:
        if not x.of & of or not Use.WRITES & x.use:
            continue
        samples: Sequence[StoreRows | None] = (
            [None] if x.access is None or x.use is Use.BOTH else places.rows(x.k, x.access)
        )
        for word in chain.from_iterable((None,) if rows is None else rows.words for rows in samples):
            if word is None:
                return None
            found |= {int(n): None for n in np.unique(word[0])}
    return tuple(found) if len(found) <= _MOST else None


def _decides(program: Program, k: int, asked: Collection[int]) -> int | None:
    """Which of some loads decides whether an instruction is executed, also by way of other threads."""
    flow, versions, body = program.flow, program.flow.versions, program.body
    blocks, above = flow.controllers(), {flow.block_of[k]}
    while not (more := set[int]().union(*(blocks[b] for b in above))) <= above:
        above |= more
    ways = {k, *(flow.blocks[b].hi - 1 for b in set[int]().union(*(blocks[b] for b in above)))}
    return _comes_to(
        program, [versions.read(g.name, at) for at in ways if (g := body[at].guard) is not None], asked
    )


def _selects(program: Program, k: int, asked: Collection[int]) -> int | None:
    """Which of some loads goes into the address of an access."""
    i, versions = program.body[k], program.flow.versions
    names = {n for op in i.operands if isinstance(op, Mem) for n in registers(op)}
    return _comes_to(program, [versions.read(n, k) for n in names], asked)


def _comes_to(program: Program, work: list[int], asked: Collection[int]) -> int | None:
    """Which of some loads versions of registers are made of, also by way of other threads."""
    versions, body = program.flow.versions, program.body
    seen, others = set[int](), False
    while work:
        v = work.pop()
        if v in seen:
            continue
        seen.add(v)
        w = versions.writer[v]
        if w in asked:
            return w
        if w < 0:
            work += [x for _, x in versions.merged(v)]
            continue
        others = others or passes_on(body[w]) or (body[w].op == "ld" and _HOST.isdisjoint(body[w].mods))
        kept = () if body[w].guard is None else (versions.name[v],)
        work += [versions.read(name, w) for name in (*kept, *sources(body[w]))]
    return next((w for w in asked if others and _passed_on(program, w)), None)


def _passed_on(program: Program, k: int) -> bool:
    """Whether other threads learn of what a load brings."""
    made = computed_from(results(program.body[k]), program.body)
    return any(passes_on(i) and not made.isdisjoint(sources(i)) for i in program.body)


def _accesses(program: Program) -> Iterator[_Accessed]:
    """The accesses to global memory by known pointers, of whatever form, but for edits of tensor maps and
    copies through these."""
    for k, i in enumerate(program.body):
        if program.flow.block_of[k] not in program.flow.reached or {"tensor", "tensormap"} & {*i.mods}:
            continue
        for touch in touches(i):
            of = program.origins.of(touch.at)
            if not touch.use or touch.space not in ("global", GENERIC) or not of or ANYWHERE in of:
                continue
            strong = bool(semantics(i) & Flag.STRONG) and scope_of(i) >= Scope.GPU
            yield _Accessed(k, _bytes_of(i, touch), of, touch.use, strong)


def _bytes_of(i: Instr, touch: Touch) -> Access | None:
    """An access as places are computed for it; None where its bytes are no row of a number of them."""
    if i.op != "cp":
        return decode_place(i)
    size = i.operands[2] if len(i.operands) > 2 else None
    if not isinstance(size, Imm) or size.value <= 0 or "reduce" in i.mods:
        return None
    code = Ev.WRITE if Use.WRITES & touch.use else Ev.READ
    return Access(code, touch.at, (Imm(0),), size.value, "global")


__all__ = ["AskedOnce", "read_by_answer"]
