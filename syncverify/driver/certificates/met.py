"""What the recheck of a certificate met: how much was followed, and what the kernel did not judge."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Met:
    """``counts``: of systems, nodes and events. ``reasons``: one for each system that the kernel does not
    judge, whose obligations rest on the checker's handlers.
    """

    counts: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def add(self, what: str, n: int = 1) -> None:
        if n:
            self.counts[what] = self.counts.get(what, 0) + n

    def join(self, other: Met) -> None:
        for what, n in other.counts.items():
            self.add(what, n)
        self.reasons += other.reasons
