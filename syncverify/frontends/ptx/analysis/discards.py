"""Memory that ``discard`` destroys, and that may be read after it.

Nobody knows what such a read brings. Where nothing follows a discard that hands memory over, only reads in no
order with it could, and these are races.

*Example.* ``st.global [p], x; discard.global.L2 [p], 128; bar.sync 0;`` before another thread reads ``p``.
"""

from __future__ import annotations

from syncverify.frontends.ptx.analysis.pointer_provenance import ANYWHERE, Origins
from syncverify.frontends.ptx.decode.global_access import semantics, space_of
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem
from syncverify.model.events import Flag

_MEET = frozenset({"bar", "barrier", "fence", "membar", "mbarrier", "griddepcontrol"})


def read_after_discard(flow: Flow, origins: Origins) -> tuple[int, int] | None:
    """A discard and a read of memory of the same pointer that may come after it."""
    for k, i in enumerate(flow.body):
        if i.op != "discard" or flow.block_of[k] not in flow.reached:
            continue
        of = origins.of(_places(i)[0])
        reads = [j for j, x in enumerate(flow.body) if _reads(x, of, origins)]
        follow = _following(flow, k)
        if reads and any(j in follow for j in (*reads, *(j for j in follow if _hands_over(flow.body[j])))):
            return k, reads[0]
    return None


def _reads(i: Instr, of: frozenset[str], origins: Origins) -> bool:
    """Whether an instruction may read memory of some pointers."""
    if i.op == "cp":
        named = spaces(i.mods)
        places = _places(i)[1:] if named[:1] != ["global"] and "global" in named else []
    else:
        places = _places(i) if i.op in ("ld", "ldu", "atom", "red") and space_of(i) else []
    found = [origins.of(x) for x in places]
    return any(not x or not of or ANYWHERE in x | of or x & of for x in found)


def _hands_over(i: Instr) -> bool:
    """Whether what comes before an instruction may be known to other threads by it."""
    if i.op in ("st", "red", "atom"):
        return bool(semantics(i) & (Flag.STRONG | Flag.RELEASE))
    return i.op in _MEET


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


def _places(i: Instr) -> list[Mem]:
    return [op for op in i.operands if isinstance(op, Mem)]


__all__ = ["read_after_discard"]
