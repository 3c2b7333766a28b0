"""Stores of two blocks to one byte of global memory, by numbers of blocks and threads alone.

    mad.lo.u32 i, %ctaid.x, 16, tid;  st.global [p + 4 i], value;        // in blocks of 32 threads

Threads 16 to 31 of each block store where threads 0 to 15 of the next one do. Places are computed for the
first few blocks of each axis. What is not found here may be there: data, sizes and loops place a store too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from syncverify.frontends.ptx.analysis.branch_bounds import BranchBounds
from syncverify.frontends.ptx.analysis.thread_values import Numbers, ThreadValues
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Mem, Reg
from syncverify.ir.launch_grid import Dims

_AXES = "xyz"
#: Blocks along each axis whose places are computed.
_FIRST = (4, 2, 2)


class BlockPlaces:
    """Where threads of the first blocks of a grid store."""

    def __init__(self, flow: Flow, block: Dims, grid: Dims, cluster: Dims, held: Mapping[int, int]) -> None:
        """``held``: what versions of registers hold in each thread of each block; pointers begin at 0."""
        self._flow = flow
        extents = [range(min(n, most)) for n, most in zip(grid, _FIRST, strict=True)]
        self._blocks = [
            ThreadValues(flow, block, specials=_numbers(n, grid, cluster), held=held)
            for n in product(*extents)
        ]
        self._bounds = BranchBounds(flow, lambda op, at: None)

    def meet(self, k: int, size: int) -> bool:
        """Whether threads of two of the blocks may store to one byte by an instruction."""
        at = next(op for op in self._flow.body[k].operands if isinstance(op, Mem))
        seen = np.empty(0, np.uint64)
        for values in self._blocks:
            places = self._places(values, at, k, size)
            if places is None:
                return False
            if np.isin(places, seen).any():
                return True
            seen = np.concatenate([seen, places])
        return False

    def _places(self, values: ThreadValues, at: Mem, k: int, size: int) -> Numbers | None:
        """The bytes to which the threads of a block store."""
        begins = values.read(at.base, k) if isinstance(at.base, Reg) else None
        if begins is None:
            return None
        come = np.ones(values.threads, bool)
        for guard, where, holds in self._bounds.decisions(k):
            found = values.read(guard, where)
            if found is not None:
                come &= (found != 0) == holds
        each = np.arange(size, dtype=np.uint64)
        return np.unique(begins[come][:, None] + each)


def _numbers(n: tuple[int, ...], grid: Dims, cluster: Dims) -> Mapping[str, int]:
    """The special registers of one block of a grid."""
    within = [a % c for a, c in zip(n, cluster, strict=True)]
    found = {"%cluster_ctarank": within[0] + cluster[0] * (within[1] + cluster[1] * within[2])}
    for axis, number, inside, blocks, wide in zip(_AXES, n, within, grid, cluster, strict=True):
        found |= {f"%ctaid.{axis}": number, f"%nctaid.{axis}": blocks, f"%cluster_ctaid.{axis}": inside}
        found |= {f"%clusterid.{axis}": number // wide, f"%cluster_nctaid.{axis}": wide}
    return found


__all__ = ["BlockPlaces"]
