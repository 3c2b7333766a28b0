"""Moving registers from the async warps to the compute warps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.ir.expr import Int
from syncverify.ir.nodes import Kernel, Role, SetMaxNReg, Stmt
from syncverify.passes.roles import COMPUTE

#: Registers of one SM of sm_90 (CUDA Programming Guide, compute capability 9.0).
REGISTERS_PER_SM = 65536


def registers_at_entry(threads: int, blocks: int = 1) -> int:
    """The most registers per thread that so many blocks of that size on an SM can be compiled for."""
    return min(255 // 8 * 8, REGISTERS_PER_SM // (threads * blocks) // 8 * 8)


@dataclass(frozen=True)
class SetRegisters:
    """setmaxnreg at the start of both kinds of role: ``low`` for the async warpgroup, ``high`` for compute.

    The async roles move into one role of the whole warpgroup, because all its warps must execute the
    same instruction (B6). ``resident``: blocks that share the registers of an SM.
    """

    low: int
    high: int
    resident: int = 1
    name: str = "setmaxnreg"

    def apply(self, kernel: Kernel) -> Kernel:
        compute = next(s for s in kernel.body if isinstance(s, Role) and s.name == COMPUTE)
        assert isinstance(compute.hi, Int)
        at = compute.hi.value // 4
        loads = [s for s in kernel.body if isinstance(s, Role) and s.name.startswith("load")]
        roles: list[Stmt] = [
            Role(COMPUTE, "warpgroups", Int(0), Int(at), (SetMaxNReg("inc", Int(self.high)), *compute.body)),
            Role("async", "warpgroups", Int(at), Int(at + 1), (SetMaxNReg("dec", Int(self.low)), *loads)),
        ]
        first = next(i for i, s in enumerate(kernel.body) if s is compute or s in loads)
        rest = [s for s in kernel.body[first:] if s not in loads and s is not compute]
        body = (*kernel.body[:first], *roles, *rest)
        entry = registers_at_entry(kernel.launch.threads, self.resident)
        return replace(kernel, body=body, launch=replace(kernel.launch, registers=entry))
