"""Memory that ``discard`` destroys, and that may be read after it.

Nobody knows what such a read brings. Where nothing follows a discard that hands memory over, only reads in no
order with it could, and these are races.

*Example.* ``st.global [p], x; discard.global.L2 [p], 128; bar.sync 0;`` before another thread reads ``p``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.decode.global_access import semantics
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import UNKNOWN, Use, effects, reads, touches
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem
from syncverify.model.events import Flag

#: Effects by which threads meet, or order what they did.
_MEET = frozenset({"barrier", "fence", "mbarrier", "grid", UNKNOWN})


def read_after_discard(flow: Flow, origins: Origins) -> tuple[int, int] | None:
    """A discard and a read of memory of the same pointer that may come after it."""
    for k, i in enumerate(flow.body):
        if i.op != "discard" or flow.block_of[k] not in flow.reached:
            continue
        of = origins.of(touches(i)[0].at)
        found = [j for j, x in enumerate(flow.body) if _reads(x, of, origins)]
        follow = _following(flow, k)
        if found and any(j in follow for j in (*found, *(j for j in follow if _hands_over(flow.body[j])))):
            return k, found[0]
    return None


def _reads(i: Instr, of: frozenset[str], origins: Origins) -> bool:
    """Whether an instruction may read memory of some pointers."""
    found = [origins.of(x) for x in _plain(reads(i, "global"))]
    return any(not x or not of or ANYWHERE in x | of or x & of for x in found)


def _plain(places: Iterable[Mem]) -> Iterator[Mem]:
    """Those that are no coordinates of a tensor map, which has a memory of its own."""
    return (at for at in places if not at.coords)


def _hands_over(i: Instr) -> bool:
    """Whether what comes before an instruction may be known to other threads by it."""
    writes = any(Use.WRITES & t.use for t in touches(i))
    strong = writes and bool(semantics(i) & (Flag.STRONG | Flag.RELEASE) or "memory atomic" in effects(i))
    return strong or "sync" in i.mods or not effects(i).isdisjoint(_MEET)


def _following(flow: Flow, k: int) -> set[int]:
    """The instructions that a thread may come to after another one."""
    found, work = set(range(k + 1, flow.blocks[flow.block_of[k]].hi)), [*flow.blocks[flow.block_of[k]].succ]
    seen = set[int]()
    while work:
        b = work.pop()
        if b not in seen and b < flow.end:
            seen.add(b)
            found.update(range(flow.blocks[b].lo, flow.blocks[b].hi))
            work += flow.blocks[b].succ
    return found


__all__ = ["read_after_discard"]
