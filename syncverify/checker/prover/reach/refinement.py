"""Reasons to begin an exploration again, with or without something."""

from __future__ import annotations

from syncverify.checker.happens_before.run import Run
from syncverify.checker.prover.reach.ring.symmetry import Ring
from syncverify.checker.prover.reach.tile_history import Groups


class UseRing(Exception):  # noqa: N818 -- control flow: begin again with
    """A ring was found."""

    def __init__(self, ring: Ring) -> None:
        super().__init__()
        self.ring = ring


class UseRoundRobinRing(Exception):  # noqa: N818 -- control flow: begin again with
    """A ring of so many slots was found where iterations are distributed round-robin."""

    def __init__(self, size: int, groups: Groups) -> None:
        super().__init__()
        self.size, self.groups = size, groups


class RegistersNotPeriodic(Exception):  # noqa: N818 -- control flow: begin again without
    """What counts on says the place in the ring: states that went round it one by one do not tell how."""


class OrderRegisterRequests(Exception):  # noqa: N818 -- control flow: begin again, and compare states later
    """A request for registers, after states were compared by what they know."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.number = len(run.requests) + 1


class Unweaken(Exception):  # noqa: N818 -- control flow: begin again without
    """A weakened state meets a failure that it might not have met. ``warns``: one that
    only strict mode asks for."""

    def __init__(self, warns: bool = False) -> None:
        super().__init__()
        self.warns = warns


__all__ = ["OrderRegisterRequests", "RegistersNotPeriodic", "Unweaken", "UseRing", "UseRoundRobinRing"]
