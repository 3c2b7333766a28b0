"""Group completion: cp.async groups, bulk groups and wgmma groups count alike.

Operations are numbered from 1 in issue order. A commit closes a group over what was issued since the
last one; ``wait_group N`` covers all but the newest N groups, and uncommitted operations are never covered
(PTX ISA: cp.async.wait_group, cp.async.bulk.wait_group, wgmma.wait_group).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Groups:
    """The groups of one thread class, of one kind."""

    issued: int = 0
    committed: list[int] = field(default_factory=list)

    def issue(self) -> int:
        """The number of a new operation."""
        self.issued += 1
        return self.issued

    def commit(self) -> None:
        self.committed.append(self.issued)

    def covered(self, pending: int) -> int:
        """Operations 1..n that a wait leaving ``pending`` groups covers; -1 means wait_all."""
        if pending < 0:
            return self.issued
        done = len(self.committed) - pending
        return self.committed[done - 1] if done > 0 else 0
