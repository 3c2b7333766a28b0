"""Blocks that count themselves by an atomic, the last of which reads what the others wrote.

    part[b] = sum;  __threadfence();  k = atomicInc(counter);  if (k == last) sum of part[0..]

No part of such a kernel waits, so its accesses to global memory have no events. What a thread wrote is
visible to the block that counts last where a fence of the device stands between the write and the atomic, or
the atomic releases, and, where another thread of the block counts, a barrier of the block. On the other side
a fence stands between the atomic and a plain load or a copy to shared memory, or the atomic acquires. What
is written only behind the count that decides is not published at all. A kernel in which one of them is
missing on some path is not decided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import Touch, Use, effects, touches
from syncverify.frontends.ptx.isa.addresses import GENERIC
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem
from syncverify.frontends.ptx.syntax.operands import computed_from, results, sources
from syncverify.model.events import Flag

_WIDE = frozenset({"gl", "gpu", "sys"})
_BARRIERS = ("bar", "barrier")
_SWAPS = frozenset({"cas", "exch"})


def unfenced_count(
    flow: Flow, counts: Collection[int], origins: Origins, *, certain: bool = False
) -> int | None:
    """A write that may be read after one of the atomics ``counts``, whose results steer, and that is not
    published before it; None if there is none. ``certain``: only writes that no atomic comes before, to
    memory of a parameter that is read where more was decided."""
    body = flow.body
    for k, a, reads in _handed(flow, counts, origins, certain=certain):
        if any(_after_counting(flow, k, counts, r) for r in reads):
            return k
        if not _releases(body[a]) and reaches(flow, k, a, lambda j: is_wide_fence(body[j])):
            return k
        if not _by_the_same(flow, k, a) and reaches(flow, k, a, lambda j: _is_waited_at(body[j])):
            return k
    return None


def _by_the_same(flow: Flow, k: int, a: int) -> bool:
    """Whether the threads that execute a write, and not all do, are those that count."""

    def guard(n: int) -> tuple[int, bool] | None:
        i = flow.body[n]
        return None if i.guard is None else (flow.versions.read(i.guard.name, n), i.negated)

    above = flow.controllers()
    decided = bool(above[flow.block_of[a]]) or guard(a) is not None
    return decided and above[flow.block_of[k]] == above[flow.block_of[a]] and guard(k) == guard(a)


def unacquired_read(
    flow: Flow, counts: Collection[int], origins: Origins, *, certain: bool = False
) -> int | None:
    """A plain load of what blocks wrote before they counted, with no fence of the device between the atomic,
    which does not acquire, and the load; None if there is none. Of a strong load (``volatile`` too) no fence
    is asked: CUDA's own example of a last block has none. ``certain``: as of ``unfenced_count``."""
    body = flow.body
    for _, a, reads in _handed(flow, counts, origins, certain=certain):
        if _wide(body[a], {"acquire", "acq_rel"}):
            continue
        plain = (r for r in reads if not semantics(body[r]) & Flag.STRONG)
        found = next(
            (r for r in plain if reaches(flow, a, r, lambda j: is_wide_fence(body[j], "release"))), None
        )
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class UnorderedCount:
    """An atomic by which blocks count themselves, and which a write and a read are not ordered by:
    ``published`` says whether the write is before it, ``acquired`` whether the read is behind it."""

    count: int
    published: bool
    acquired: bool


def unordered_count(
    flow: Flow, counts: Collection[int], origins: Origins, lines: Collection[int]
) -> UnorderedCount | None:
    """The count that does not order a write and a read of these ``lines``, with what lacks; None if there is
    none. The memory model asks it of strong loads, too, where the write is a plain one."""
    body = flow.body
    for k, a, reads in _handed(flow, counts, origins, certain=True):
        for r in reads if body[k].line in lines else ():
            if body[r].line not in lines or not reaches(flow, a, r, _never):
                continue
            published = _releases(body[a]) or not reaches(flow, k, a, lambda j: is_wide_fence(body[j]))
            acquired = _wide(body[a], {"acquire", "acq_rel"}) or not reaches(
                flow, a, r, lambda j: is_wide_fence(body[j], "release")
            )
            if not (published and acquired):
                return UnorderedCount(a, published, acquired)
    return None


def read_by_the_last(flow: Flow, counts: Collection[int], origins: Origins) -> dict[int, int]:
    """Loads behind one of the atomics ``counts`` of what blocks write before it, by that atomic."""
    found = _handed(flow, counts, origins, certain=True) if counts else iter(())
    return {r: a for _, a, reads in found for r in reads if reaches(flow, a, r, _never)}


def _handed(
    flow: Flow, counts: Collection[int], origins: Origins, *, certain: bool
) -> Iterator[tuple[int, int, list[int]]]:
    """A write, an atomic that counts, and what reads behind some such atomic what may be written."""
    body = flow.body
    reads = {k: at for k, i in enumerate(body) if (at := _read(i)) is not None}
    for k, i in enumerate(body):
        if k in counts or not _writes(i) or flow.block_of[k] not in flow.reached:
            continue
        where = origins.of(_place(i))
        meet = _share if certain else _meet
        own = None if _combines(i) else _place(i)  # others add where a thread adds
        shared = [r for r, at in reads.items() if meet(where, origins.of(at)) and at != own]
        if certain:
            above = flow.controllers()[flow.block_of[k]]
            shared = [r for r in shared if not flow.controllers()[flow.block_of[r]] <= above]
        if not any(reaches(flow, a, r, _never) for r in shared for a in counts if a != r):
            continue
        for a in counts:
            others = [r for r in shared if r != a]  # an atomic that counts reads as well
            if others and not (certain and reaches(flow, a, k, _never)):
                yield k, a, others


def _after_counting(flow: Flow, k: int, counts: Collection[int], r: int) -> bool:
    """Whether a write comes only after each count that decides about a read, and not by that decision: the
    block that counts last may read before others write.

    Example: ``n = count(a); part = x; count(b); if (n == last) sum += part;``.
    """
    body, above = flow.body, flow.controllers()
    deciding, work = set[int](), [flow.block_of[r]]
    while work:
        more = above[work.pop()] - deciding
        deciding |= more
        work += more
    guards = {g.name for g in (body[flow.blocks[c].hi - 1].guard for c in deciding) if g is not None}
    decide = [a for a in counts if not guards.isdisjoint(computed_from(set(results(body[a])), body))]
    if not decide or above[flow.block_of[r]] <= above[flow.block_of[k]]:
        return False
    return all(reaches(flow, a, k, _never) and not reaches(flow, k, a, _never) for a in decide)


def _never(_: int) -> bool:
    return False


def steering_counts(flow: Flow, steers: Collection[str]) -> frozenset[int]:
    """The atomics outside of shared memory that bring a value which steers."""
    found = (k for k, i in enumerate(flow.body) if i.op == "atom" and _global(i))
    return frozenset(k for k in found if not set(results(flow.body[k])).isdisjoint(steers))


def used_counts(flow: Flow) -> frozenset[int]:
    """The atomics in global memory whose results are read."""
    read = {name for i in flow.body for name in sources(i)}
    found = (k for k, i in enumerate(flow.body) if i.op == "atom" and "global" in i.mods)
    return frozenset(k for k in found if not read.isdisjoint(results(flow.body[k])))


def only_counts(flow: Flow, consumers: Collection[int]) -> bool:
    """Whether what decides by global memory are atomics that count, and loads behind a barrier that follows
    one. One that swaps takes a lock: blocks that hold it come one after the other."""
    body = flow.body
    counts = [k for k in consumers if body[k].op == "atom"]
    bars = [k for k, i in enumerate(body) if i.op in _BARRIERS]
    after = {b for b in bars if any(reaches(flow, a, b, lambda j: False) for a in counts)}
    loads = [k for k in consumers if k not in counts]
    early = any(reaches(flow, -1, k, lambda j: j in after) for k in loads)
    if any(not _SWAPS.isdisjoint(body[k].mods) for k in counts):
        return False
    return bool(counts) and all("acquire" not in body[k].mods for k in loads) and not early


def counting_alone(flow: Flow, origins: Origins) -> frozenset[int]:
    """The atomics that add a constant to memory of which nothing else is known but such atomics and stores of
    zero: counters, which are zero at launch as flags are.

    Example: ``atomicAdd(&done, 1)``, where the block that counts last sets ``done = 0``.
    """
    body = flow.body
    of: dict[int, frozenset[str]] = {}
    for k, i in enumerate(body):
        if _global(i) and any(isinstance(op, Mem) for op in i.operands):
            of[k] = origins.of(_place(i))
    counts = [k for k in of if _counts(body[k]) and of[k] and ANYWHERE not in of[k]]
    zeroed = {k for k in of if resets(body[k])}
    rest = [of[k] for k in of if k not in counts and k not in zeroed]
    return frozenset(k for k in counts if not any(_meet(of[k], x) for x in rest))


def _counts(i: Instr) -> bool:
    return i.op == "atom" and not {"add", "inc"}.isdisjoint(i.mods) and isinstance(i.operands[2], Imm)


def resets(i: Instr) -> bool:
    """Whether an instruction sets a counter back to 0."""
    return i.op == "st" and isinstance(i.operands[1], Imm) and i.operands[1].value == 0


def _global(i: Instr) -> bool:
    """Whether an access may be one of global memory."""
    return not any(m.startswith(("shared", "local", "param", "const")) for m in i.mods)


def _writes(i: Instr) -> bool:
    """Whether an instruction writes global memory, or adds to it, without a copy."""
    return "async copy" not in effects(i) and any(Use.WRITES & t.use for t in _touches(i))


def _combines(i: Instr) -> bool:
    """Whether it adds to memory, or the like, so that words are of several threads."""
    return any(t.use is Use.BOTH for t in _touches(i))


def _read(i: Instr) -> Mem | None:
    """The place in global memory of which an instruction brings the words to registers or to shared memory;
    None of others."""
    found = (t.at for t in _touches(i) if t.use is Use.READS or (Use.READS & t.use and results(i)))
    return next(found, None)


def _touches(i: Instr) -> Iterator[Touch]:
    return (t for t in touches(i) if t.space in ("global", GENERIC))


def _place(i: Instr) -> Mem:
    return next(op for op in i.operands if isinstance(op, Mem))


def _meet(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some & others) or ANYWHERE in some | others or not some or not others


def _share(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool((some & others) - {ANYWHERE})


def is_barrier(i: Instr) -> bool:
    """Whether all threads that come to an instruction meet others in a barrier of the block."""
    return i.op in _BARRIERS and i.guard is None


def _is_waited_at(i: Instr) -> bool:
    """Whether all threads that come to an instruction wait for others of the block there, and not for those
    of a warp alone: a register may number a barrier of few threads."""
    few = "warp" in i.mods or "arrive" in i.mods
    number = i.operands[1:2] if "red" in i.mods else i.operands[:1]
    return is_barrier(i) and not few and all(isinstance(op, Imm) for op in number)


def is_wide_fence(i: Instr, other: str = "acquire") -> bool:
    """Whether all threads that come to an instruction order their accesses for all threads of the device, and
    not in the ``other`` direction alone: a fence that acquires publishes nothing."""
    strong = i.op == "membar" or (i.op == "fence" and "proxy" not in i.mods)
    return strong and i.guard is None and other not in i.mods and not _WIDE.isdisjoint(i.mods)


def _releases(i: Instr) -> bool:
    """Whether an atomic publishes to the device what happened before it."""
    return _wide(i, {"release", "acq_rel"})


def _wide(i: Instr, semantic: AbstractSet[str]) -> bool:
    """Whether an atomic has one of some semantics for all threads of the device."""
    return not semantic.isdisjoint(i.mods) and not _WIDE.isdisjoint(i.mods)


def reaches(flow: Flow, begin: int, end: int, stops: Callable[[int], bool]) -> bool:
    """Whether some path leads from one instruction (-1: the entry) to another, past none that ``stops``."""
    work, seen = [(flow.block_of[begin] if begin >= 0 else 0, begin + 1)], set[int]()
    while work:
        n, at = work.pop()
        for j in range(at, flow.blocks[n].hi):
            if j == end:
                return True
            if stops(j):
                break
        else:
            for s in flow.blocks[n].succ:
                if s < flow.end and s not in seen:
                    seen.add(s)
                    work.append((s, flow.blocks[s].lo))
    return False


__all__ = [
    "UnorderedCount",
    "is_barrier",
    "is_wide_fence",
    "only_counts",
    "reaches",
    "read_by_the_last",
    "resets",
    "steering_counts",
    "unacquired_read",
    "unfenced_count",
    "unordered_count",
    "used_counts",
]
