"""The cluster barrier (PTX ISA: barrier.cluster): every thread that has not exited arrives once."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ClusterBarrier:
    """``expected``: classes that still run; ``arrived``: those that have arrived in this generation."""

    expected: set[int]
    generation: int = 0
    arrived: set[int] = field(default_factory=set)

    def arrive(self, cls: int) -> bool:
        """True if the generation is complete now."""
        self.arrived.add(cls)
        return self.full

    def leave(self, cls: int) -> bool:
        """Exited threads are not waited for; true if that completes the generation."""
        self.expected.discard(cls)
        return self.full

    @property
    def full(self) -> bool:
        return bool(self.arrived) and self.expected <= self.arrived

    def reset(self) -> None:
        self.generation += 1
        self.arrived = set()
