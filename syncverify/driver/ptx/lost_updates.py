"""Loads and stores of different threads that certainly meet in global memory, in no order.

    n = *count;  *count = n + 1;              // by several threads: updates are lost
    p = table[0];  p[t] = x;  y = p[t ^ 1];   // through one pointer that memory holds

That nobody reads what others write is an assumption where the text leaves it open. Here the text says that
somebody does. Other loads and stores through parameters are compared as exchanges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from syncverify.driver.ptx.common_places import Places, by_the_last, global_accesses, others_wait
from syncverify.driver.ptx.launches_of_blocks import of_several_blocks
from syncverify.frontends.ptx.analysis.blocks.block_places import SAMPLES, StoreRows
from syncverify.frontends.ptx.analysis.blocks.store_pairs import Orders, meetings
from syncverify.frontends.ptx.analysis.global_memory.counted_blocks import read_by_the_last, used_counts
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.syntax.operands import computed_from, registers, results

#: More than the threads of a block: a block and a thread as one number.
_THREADS = np.uint64(1 << 20)


@dataclass(frozen=True, slots=True)
class ReadWhileWritten:
    """A load and a store of one word by different threads. ``update``: what is stored is made of the word,
    and is not the word itself."""

    load: int
    store: int
    update: bool


@dataclass(frozen=True, slots=True)
class _Pair:
    """A load and a store that may be such a pair."""

    found: ReadWhileWritten
    load: Access
    store: Access


def read_while_written(facts: PtxFacts, program: Program) -> ReadWhileWritten | None:
    """Such a pair, in a kernel whose blocks do not wait for each other."""
    if facts.block is None or program.handing is not None:
        return None
    pairs, orders = list(_pairs(program)), Orders(program.flow)
    of_one_block = not others_wait(program)
    for launch in of_several_blocks(facts, program) if pairs else ():
        places = Places(launch, program, facts.block, sizes=False)
        for pair in pairs:
            if _meet(places, orders, pair, of_one_block=of_one_block):
                return pair.found
    return None


def _pairs(program: Program) -> Iterator[_Pair]:
    """Updates of words, and loads and stores by pointers from memory, what the last block does left out."""
    counted = read_by_the_last(program.flow, used_counts(program.flow), program.origins)
    left_out = by_the_last(program).union(counted)
    loads = [(k, a) for k, a in global_accesses(program, "ld") if k not in left_out]
    stores = [(k, a) for k, a in global_accesses(program, "st") if k not in left_out]
    moves = [i for i in program.body if i.op == "mov"]
    for k, load in loads:
        of = program.origins.of(load.address)
        both = [(j, store, by) for j, store in stores if of & (by := program.origins.of(store.address))]
        if not both:
            continue
        brought = set(results(program.body[k]))
        made = computed_from(brought, program.body) - computed_from(brought, moves)
        for j, store, by in both:
            from_memory = ANYWHERE in of and ANYWHERE in by
            update = any(not made.isdisjoint(registers(x)) for x in store.elements)
            strong = semantics(program.body[k]) and semantics(program.body[j])
            if update or (from_memory and not strong):
                yield _Pair(ReadWhileWritten(k, j, update), load, store)


def _meet(places: Places, orders: Orders, pair: _Pair, *, of_one_block: bool) -> bool:
    """Whether different threads certainly come to one byte by the load and by the store. Of updates each
    thread stores, too."""
    load, store = pair.found.load, pair.found.store
    each = places.by_inputs.rows(load, pair.load), places.by_inputs.rows(store, pair.store)
    for n in range(SAMPLES):
        read, written = each[0][n], each[1][n]
        if read is None or written is None or not _sure(read) or not _sure(written):
            continue
        if pair.found.update:
            read = _of_threads_in(read, written)
        found = meetings([(load, read.of_anything()), (store, written.of_anything())], orders)
        if any(x.of_blocks or of_one_block for x in found):
            return True
    return False


def _sure(rows: StoreRows) -> bool:
    return rows.certain and not rows.elected


def _of_threads_in(rows: StoreRows, others: StoreRows) -> StoreRows:
    """The rows of threads that others have a row of, too."""
    who, of = (x.blocks * _THREADS + x.threads for x in (rows, others))
    kept = np.isin(who, of)
    return replace(
        rows.of_anything(),
        places=[x[kept] for x in rows.places],
        blocks=rows.blocks[kept],
        clusters=rows.clusters[kept],
        threads=rows.threads[kept],
    )


__all__ = ["ReadWhileWritten", "read_while_written"]
