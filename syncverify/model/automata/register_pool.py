"""The register pool of a CTA (PTX ISA: setmaxnreg): decreases return registers, increases wait for them."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTER_FILE = 65536
LOWEST, HIGHEST, STEP = 24, 256, 8


def most_registers(threads: int) -> int:
    """The most registers per thread that a block of this size can be launched with."""
    return min(255, REGISTER_FILE // max(threads, 1)) // STEP * STEP


def legal(registers: int) -> bool:
    """The immediate of setmaxnreg: 24 to 256 in steps of 8."""
    return LOWEST <= registers <= HIGHEST and registers % STEP == 0


@dataclass(slots=True)
class RegisterPool:
    """Free registers of one CTA, and what each warp holds per thread."""

    free: int
    held: dict[int, int]

    def request(self, warp: int, registers: int) -> int:
        """Registers that the warp needs from the pool (negative: gives back)."""
        return (registers - self.held[warp]) * WARP

    def grant(self, warp: int, registers: int) -> bool:
        """Takes or returns; false if the pool cannot serve it now."""
        need = self.request(warp, registers)
        if need > self.free:
            return False
        self.free -= need
        self.held[warp] = registers
        return True
