"""Words that a thread asks, and reads by the answer what another block writes, in no order.

    data[thread] = x;  flag = 1;              // by the first block, with no fence
    if (flag == 1) y = data[thread];          // by the others, where flag is volatile or relaxed

Who waits for such a word hands data over, and is followed. Who asks once may find it, too. Places are
computed for the blocks of a few launches, in first turns of loops: what has no number there is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product

from syncverify.driver.ptx_assumptions import holds, places_of_blocks
from syncverify.driver.ptx_data_places import of_several_blocks
from syncverify.frontends.ptx.analysis.block_places import BlockPlaces, StoreRows
from syncverify.frontends.ptx.analysis.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.store_pairs import Orders, meetings
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.isa.accesses import passes_on
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.operands import computed_from, results, sources
from syncverify.model.events import Flag


@dataclass(frozen=True, slots=True)
class AskedOnce:
    """A strong load that decides about a plain one, and the write of another block that this one meets."""

    asked: int
    read: int
    written: int


def read_by_answer(facts: PtxFacts, program: Program) -> AskedOnce | None:
    """Such a read, in a launch of several blocks that do not wait for each other."""
    if facts.block is None or program.handing is not None or facts.grid == (1, 1, 1) or holds(facts):
        return None
    found = list(_pairs(program))
    orders = Orders(program.flow)
    for launch in of_several_blocks(facts, program) if found else ():
        places = places_of_blocks(launch, program, facts.block)
        for one, (read, write) in found:
            if _meet(places, orders, (one.read, read), (one.written, write)):
                return one
    return None


def _meet(places: BlockPlaces, orders: Orders, read: tuple[int, Access], write: tuple[int, Access]) -> bool:
    """Whether threads of two blocks come to one byte by two instructions."""
    each = [[_bare(x) for x in places.rows(k, access)] for k, access in (read, write)]
    return any(
        pair.of_blocks
        for a, b in zip(*each, strict=True)
        if a is not None and b is not None
        for pair in meetings([(read[0], a), (write[0], b)], orders)
    )


def _bare(rows: StoreRows | None) -> StoreRows | None:
    """Places without what is stored there: a load may bring anything."""
    return None if rows is None else replace(rows, words=[None] * len(rows.words))


def _pairs(program: Program) -> Iterator[tuple[AskedOnce, tuple[Access, Access]]]:
    """Plain loads that words decide about, and writes through the same pointer."""
    accesses = list(_accesses(program))
    writes = [x for x in accesses if program.body[x[0]].op != "ld"]
    written = frozenset[str]().union(*(of for _, _, of in writes))
    loads = [x for x in accesses if program.body[x[0]].op == "ld"]
    strong = {k: of for k, _, of in loads if semantics(program.body[k]) & Flag.STRONG}
    asked = [k for k, of in strong.items() if of & written]
    for (k, access, of), (j, write, by) in product(loads, writes) if asked else ():
        if k in strong or not of & by:
            continue
        by_word = _decides(program, k, asked)
        if by_word is not None and not strong[by_word] & by:
            yield AskedOnce(by_word, k, j), (access, write)


def _decides(program: Program, k: int, asked: Collection[int]) -> int | None:
    """Which of some loads decides whether an instruction is executed, also by way of other threads."""
    flow, versions, body = program.flow, program.flow.versions, program.body
    blocks, above = flow.controllers(), {flow.block_of[k]}
    while not (more := set[int]().union(*(blocks[b] for b in above))) <= above:
        above |= more
    ways = {k, *(flow.blocks[b].hi - 1 for b in set[int]().union(*(blocks[b] for b in above)))}
    seen, work = set[int](), [versions.read(g.name, at) for at in ways if (g := body[at].guard) is not None]
    others = False
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
        others = others or passes_on(body[w]) or (body[w].op == "ld" and "global" not in body[w].mods)
        kept = () if body[w].guard is None else (versions.name[v],)
        work += [versions.read(name, w) for name in (*kept, *sources(body[w]))]
    return next((w for w in asked if others and _passed_on(program, w)), None)


def _passed_on(program: Program, k: int) -> bool:
    """Whether other threads learn of what a load brings."""
    made = computed_from(results(program.body[k]), program.body)
    return any(passes_on(i) and not made.isdisjoint(sources(i)) for i in program.body)


def _accesses(program: Program) -> Iterator[tuple[int, Access, frozenset[str]]]:
    """The accesses to global memory by known pointers, with these."""
    for k, i in enumerate(program.body):
        if i.op not in ("ld", "st", "atom", "red") or program.flow.block_of[k] not in program.flow.reached:
            continue
        access, used = decode_place(i), used_in_global(i)
        of = program.origins.of(used[1]) if used is not None else frozenset[str]()
        if access is not None and of and ANYWHERE not in of:
            yield k, access, of


__all__ = ["AskedOnce", "read_by_answer"]
