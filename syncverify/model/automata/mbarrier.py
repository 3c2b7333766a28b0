"""The mbarrier object (PTX ISA: mbarrier; Phase completion): phase, pending arrivals, transaction count."""

from __future__ import annotations

from dataclasses import dataclass

#: Largest pending count and transaction count (PTX ISA: Contents of the mbarrier object).
LIMIT = (1 << 20) - 1


@dataclass(slots=True)
class Mbarrier:
    """``phase`` counts completed phases; a parity wait looks at its lowest bit only."""

    live: bool = False
    count: int = 0
    pending: int = 0
    tx: int = 0
    phase: int = 0

    def init(self, count: int) -> None:
        """Phase 0, nothing arrived, nothing expected (PTX ISA: mbarrier.init)."""
        self.live, self.count, self.pending, self.tx, self.phase = True, count, count, 0, 0

    def inval(self) -> None:
        """The object ends; its bytes may serve another purpose (PTX ISA: mbarrier.inval)."""
        self.live = False

    def arrive(self, n: int, drop: bool = False) -> bool:
        """``n`` arrivals, at most ``pending``; true if the phase is complete (PTX ISA: mbarrier.arrive)."""
        self.pending -= n
        if drop:
            self.count -= n
        return self.complete

    def expect(self, n: int) -> None:
        """Adds to the transaction count; never evaluates completion (PTX ISA: expect-tx operation)."""
        self.tx += n

    def complete_tx(self, n: int) -> bool:
        """Bytes landed; true if the phase is complete now (PTX ISA: complete-tx operation)."""
        self.tx -= n
        return self.complete

    @property
    def complete(self) -> bool:
        """The condition that arrivals and complete-tx evaluate (PTX ISA: Phase completion)."""
        return self.pending == 0 and self.tx == 0

    def advance(self) -> None:
        """The next phase begins with the full count."""
        self.phase += 1
        self.pending = self.count

    def passes(self, parity: int) -> bool:
        """Whether a wait on ``parity`` succeeds now (PTX ISA: mbarrier.test_wait, phase parity)."""
        return self.phase & 1 != parity & 1
