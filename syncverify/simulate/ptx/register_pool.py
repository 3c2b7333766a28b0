"""Registers that warpgroups give back and take (PTX ISA, setmaxnreg).

All four warps of a warpgroup execute the same ``setmaxnreg``, and meet before the next one: anything else
is undefined. Two things of these are warnings, as hardware counts the warps wherever they stand and compilers
rely on it: warps that ask for the same number at different instructions, and the same number asked for again
before they have met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncverify.simulate.ptx.harm import Kind, Place
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr
from syncverify.simulate.ptx.types import LANES

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Block, Fragment, Next, Step, Warp

_SECTION = "setmaxnreg"
#: Warps of a warpgroup.
WARPS = 4


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """One ``setmaxnreg`` of a warp. ``epoch``: of the warp's first thread, when it was executed."""

    line: int
    registers: int
    up: bool
    epoch: int


@builder("setmaxnreg", together=True)
def _setmaxnreg(c: Context, i: Instr) -> Step:
    amount = c.source(i.operands[0], 32)
    up = "inc" in i.mods

    def change(f: Fragment) -> Next:
        m, warp, block = f.warp.machine, f.warp, f.warp.block
        n = int(f.R[amount][0])
        if int(warp.live.sum()) < warp.count:
            raise m.undefined(f, "setmaxnreg by a warp of which lanes have left", _SECTION)
        if not 24 <= n <= 256 or n % 8:
            raise m.undefined(f, f"setmaxnreg of {n}: not in 24 to 256 by 8", _SECTION)
        if up and warp.registers > n:
            raise m.undefined(f, f"setmaxnreg.inc to {n} with {warp.registers} registers", _SECTION)
        if not up and warp.registers < n:
            raise m.undefined(f, f"setmaxnreg.dec to {n} with {warp.registers} registers", _SECTION)
        _as_one(m, f, RegisterRequest(m.line(f), n, up, int(m.clocks.epoch[warp.first_thread])))
        need = (n - warp.registers) * LANES

        def take() -> Next:
            block.free_registers -= need
            warp.registers = n
            m.version += 1
            return f.pc + 1

        if need <= block.free_registers or not up:
            return take()
        return f.block(lambda: need <= block.free_registers, take)

    return lambda f: f.warp.machine.whole_warp(f, change, "setmaxnreg by a part of the warp")


def _as_one(m: Machine, f: Fragment, request: RegisterRequest) -> None:
    """Notes a warp's request: the same as the other warps' of its warpgroup, after all have met."""
    warp = f.warp
    turn = len(warp.setmaxnreg)
    others = [w for w in _warpgroup(warp) if w is not warp]
    if len(others) + 1 < WARPS:
        raise m.undefined(f, f"setmaxnreg by a warpgroup of {len(others) + 1} warps", _SECTION)
    for other in others:
        if len(other.setmaxnreg) > turn:
            _compared(m, f, request, other.setmaxnreg[turn])
    if turn and not all(_met(m, warp, other, turn) for other in others):
        if request.registers != warp.setmaxnreg[-1].registers:
            raise m.undefined(f, "two setmaxnreg without a meeting of the warpgroup between", _SECTION)
        m.warn(f, f"setmaxnreg to {request.registers} again, and the warpgroup has not met")
    warp.setmaxnreg.append(request)


def _compared(m: Machine, f: Fragment, one: RegisterRequest, other: RegisterRequest) -> None:
    if (one.registers, one.up) != (other.registers, other.up):
        raise m.undefined(f, "warps of one warpgroup execute different setmaxnreg", _SECTION)
    if one.line != other.line:
        m.warn(f, f"the warpgroup executes setmaxnreg to {one.registers} here and at line {other.line}")


def _met(m: Machine, warp: Warp, other: Warp, turn: int) -> bool:
    """Whether a warp knows of another one's setmaxnreg before its own ``turn``."""
    if len(other.setmaxnreg) < turn:
        return False
    known = m.clocks.know[0, warp.first_thread : warp.first_thread + warp.count, other.first_thread]
    return bool((known >= other.setmaxnreg[turn - 1].epoch).any())


def _warpgroup(warp: Warp) -> list[Warp]:
    return [w for w in warp.block.warps if w.number // WARPS == warp.number // WARPS]


def changed_as_one(m: Machine, block: Block) -> None:
    """A block ends: no warp has executed more ``setmaxnreg`` than another of its warpgroup."""
    for warp in block.warps:
        group = _warpgroup(warp)
        least = min(len(w.setmaxnreg) for w in group)
        if len(warp.setmaxnreg) > least:
            request = warp.setmaxnreg[least]
            missing = [w.number for w in group if len(w.setmaxnreg) == least]
            raise m.harm(
                Kind.UNDEFINED,
                Place(request.line, block.number, warp.number),
                f"setmaxnreg to {request.registers} by a part of the warpgroup: "
                f"warps {missing} do not execute it",
                _SECTION,
            )


__all__ = ["RegisterRequest", "changed_as_one"]
