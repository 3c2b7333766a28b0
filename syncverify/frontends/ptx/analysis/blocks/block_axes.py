"""Along which axes of the grid the numbers of blocks go into what an instruction stores, and where.

    mad.lo.u32 i, %ctaid.x, 64, tid;  st.global [p + 4 i], %ctaid.y;     // blocks of one column share words

Each block of a column stores a value of its own to the place that all of the column store to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Special
from syncverify.frontends.ptx.syntax.pure_operations import PURE

_NUMBERS = ("%ctaid.", "%clusterid.", "%cluster_ctaid.")
#: Numbers that may tell blocks apart along any axis, and what data may be.
_OTHER_NUMBERS = ("%cluster_ctarank", "%smid")
_DATA = "data"


def left_out(
    flow: Flow, k: int, place: Iterable[str], stored: Iterable[str], axes: Collection[str] = "xyz"
) -> frozenset[str]:
    """Those of some axes along which what a store writes differs by the number of the block, while numbers
    along others alone say where it writes, and whether."""
    deciding = [(b, flow.body[b].guard) for b in _branches(flow, flow.block_of[k])]
    guards = [flow.versions.read(g.name, b) for b, g in deciding if g is not None]
    own = flow.body[k].guard
    where = [flow.versions.read(name, k) for name in (*place, *([] if own is None else [own.name]))]
    there = _axes(flow, [*where, *guards])
    if _DATA in there or there.issuperset(axes):
        return frozenset()
    value = _axes(flow, [flow.versions.read(name, k) for name in stored])
    return value.intersection(axes) - there


def _branches(flow: Flow, block: int) -> Iterable[int]:
    """The last instructions of the blocks that decide whether one is executed."""
    controllers, found, work = flow.controllers(), set[int](), [block]
    while work:
        new = controllers[work.pop()] - found
        found |= new
        work += new
    return [flow.blocks[b].hi - 1 for b in found]


def _axes(flow: Flow, versions: Iterable[int]) -> frozenset[str]:
    """The axes of the numbers of blocks that some versions are computed of, or that say where what they are
    computed of is loaded; ``data`` where that may tell blocks apart by itself."""
    found = set[str]()
    for v in behind(flow, versions):
        k = flow.versions.writer[v]
        if k < 0:
            continue
        i = flow.body[k]
        specials = [x.name for x in i.operands if isinstance(x, Special)]
        if i.op not in PURE and not (i.op == "ld" and "param" in i.mods):
            found.add(_DATA)
        if any(x.startswith(_OTHER_NUMBERS) for x in specials):
            found.add(_DATA)
        found |= {x.rpartition(".")[2] for x in specials if x.startswith(_NUMBERS)}
    return frozenset(found)


__all__ = ["left_out"]
