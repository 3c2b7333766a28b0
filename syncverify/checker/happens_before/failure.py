"""What a run found wrong, before anything is explained."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from syncverify.base.diagnostics import Mistake, Severity, Undetermined
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import Matrix


class Obligation(Enum):
    """Which obligation of the theory a failure breaks; RACE and below are harms of their own."""

    O1 = "contribution not after the previous phase"
    O2 = "wait not after the phase before its own"
    O3 = "phase can be lapped"
    O4 = "accounting depends on the order"
    O5 = "lifetime"
    O6 = "termination"
    O7 = "aliased blocked wait"
    O8 = "register pool"
    RACE = "unordered accesses"
    UB = "undefined behaviour"
    SYNC = "barrier participation"
    OVERFLOW = "count out of range"
    POLL = "ignored poll"


#: Failures that are harm in the very run that shows them.
HARM = frozenset({Obligation.RACE, Obligation.UB, Obligation.OVERFLOW, Obligation.O5, Obligation.SYNC})
#: Those that the beginning of an execution shows, however it goes on.
IMMEDIATE = frozenset({Obligation.RACE, Obligation.UB})


@dataclass(slots=True, eq=False)
class Failure:
    """One broken obligation. ``cls`` and ``time`` name the event, ``position`` its place in the trace."""

    obligation: Obligation
    rule: str
    message: str
    site: int
    cls: int
    time: int
    position: int
    severity: Severity = Severity.ERROR
    contested: str | None = None
    strict_only: bool = False
    barrier: int = -1
    phase: int = -1
    first: Record | None = None
    second: Record | None = None
    past: Matrix | None = None  # what to run before the event so that it goes wrong
    provoked: bool = False  # the witness is ``past`` and then the event, not the canonical order
    withheld: bool = False  # the event itself must stay out (O4: an expect that may come too late)
    again: tuple[int, int, int] | None = None  # who arrived twice in the phase before: class, time, site
    cause: Failure | None = (
        None  # the mistake behind it, which only the schedule that shows its harm brings out
    )
    apart: bool = False  # no schedule does harm but by mistakes that the canonical run shows anyway
    fix: str | None = None
    condition: str | None = None  # what makes it right, as the policy takes for granted
    undetermined: Undetermined | None = None
    mistake: Mistake | None = None  # its class, where what it was found by tells
    lacks_bytes: bool = False  # of a phase: fewer are copied than are expected
    labels: list[tuple[int, str]] = field(default_factory=list)

    @property
    def key(self) -> tuple[object, ...]:
        """Failures with one key are one mistake met again. A warning hides no error of its rule."""
        first = self.first.site if self.first is not None else -1
        return (
            self.obligation,
            self.rule,
            self.site,
            first,
            self.barrier if self.obligation != Obligation.RACE else -1,
            self.strict_only,
            self.severity,
        )
