"""What must not be in flight any more when lanes, warps and blocks end, or registers are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx import barriers, register_pool
from syncverify.simulate.ptx.program import registers_in
from syncverify.simulate.ptx.types import Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Block, Fragment, Warp


def leaving(m: Machine, f: Fragment, mask: Lanes) -> None:
    """Lanes exit: bulk copies of theirs may not read shared memory any more."""
    warp = f.warp
    for lane in np.flatnonzero(mask):
        key = int(lane)
        waiting = [op for op in warp.bulk.get(key, []) if op.stage == 0]
        unknown = [
            op
            for ops in warp.bulk_groups.get(key, [])
            for op in ops
            if m.clocks.know[0, int(warp.threads[key]), op.stamps[0][0]] < op.stamps[0][1]
        ]
        if waiting or unknown:
            op = (waiting or unknown)[0]
            raise m.undefined(
                f,
                f"exit while the bulk store of line {op.line} may still read shared memory",
                "cp.async.bulk",
                key,
            )
        if warp.copies.get(key):
            m.warn(f, "exit with a cp.async that nobody has waited for")
    if warp.in_flight:
        m.warn(f, "exit with a wgmma in flight")


def warp_left(m: Machine, warp: Warp) -> None:
    """A warp has ended: barriers wait for it no longer. Registers come back by setmaxnreg.dec alone."""
    barriers.warp_left(m, warp)
    barriers.cluster_complete(m, warp.block.cluster)


def block_left(m: Machine, block: Block) -> None:
    """A block has ended: no copy may still come to its memory; warpgroups changed registers as one."""
    register_pool.changed_as_one(m, block)
    own = slice(block.first_thread, block.first_thread + block.threads)
    for (agent, epoch), line in block.pushes:
        if not (m.clocks.know[0, own, agent] >= epoch).any():
            f = m.current
            assert f is not None
            raise m.undefined(
                f, f"the block exits before it knows that the copy of line {line} has read", "cp.async.bulk"
            )
    for op in m.engines:
        if op.home is block:
            f = m.current
            assert f is not None
            raise m.undefined(
                f, f"the block exits before the copy of line {op.line} has landed", "cp.async.bulk"
            )


def touches_in_flight(m: Machine, f: Fragment, pc: int) -> None:
    """An instruction names registers of a wgmma in flight: undefined unless it only reads operands."""
    instr = f.code.function.body[pc] if pc < len(f.code.function.body) else None
    if instr is None or instr.op == "wgmma":
        return
    warp, slots = f.warp, f.code.slots
    hit = f.code.touches[pc] & warp.accumulators.keys()
    if hit:
        raise m.undefined(
            f, "a register of an accumulator is used while its wgmma is in flight", "wgmma.wait_group"
        )
    if instr.op in ("st", "red", "bra", "cp", "setmaxnreg"):
        return
    written = {slots[n] for n in registers_in(instr.operands[:1])}
    if written & warp.in_flight:
        raise m.undefined(
            f, "a register of an operand is written while its wgmma is in flight", "wgmma.wait_group"
        )
