"""The register pool of a CTA (PTX ISA: setmaxnreg): decreases return registers, increases wait for them."""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP = 128
REGISTER_FILE = 65536
LOWEST, HIGHEST, STEP = 24, 256, 8


def most_registers(threads: int) -> int:
    """The most registers per thread that a block of this size can get: one that uses 255 has 256."""
    return min(HIGHEST, REGISTER_FILE // max(threads, 1)) // STEP * STEP


def legal(registers: int) -> bool:
    """The immediate of setmaxnreg: 24 to 256 in steps of 8."""
    return LOWEST <= registers <= HIGHEST and registers % STEP == 0


@dataclass(slots=True)
class RegisterPool:
    """Free registers of one CTA. A warpgroup's first warp to reach its n-th setmaxnreg asks for all four."""

    free: int
    held: dict[int, int]  # warpgroup -> registers per thread
    served: dict[int, int]  # warpgroup -> its setmaxnregs so far

    def need(self, group: int, registers: int) -> int:
        """Registers that the warpgroup takes from the pool (negative: gives back)."""
        return (registers - self.held[group]) * WARPGROUP

    def grant(self, group: int, number: int, registers: int) -> bool:
        """The warpgroup's setmaxnreg ``number`` (from 1) takes or returns; false if it must wait."""
        if number <= self.served[group]:
            return True
        need = self.need(group, registers)
        if need > self.free:
            return False
        self.free -= need
        self.held[group] = registers
        self.served[group] = number
        return True
