"""What a check returns, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Verdict, Witness
from syncverify.model.events import System


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one check; all are counts, so that two runs agree."""

    max_events: int = 1_000_000
    schedules: int = 12  # random continuations per broken obligation
    steps: int = 200_000  # of one such continuation
    seed: int = 0
    explains: bool = True  # False: asked only whether the system is proved; a hang is not looked into


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one system, its findings (root cause first) and the schedule that shows the harm."""

    verdict: Verdict
    diagnostics: tuple[Diagnostic, ...] = ()
    witness: Witness | None = None
    reason: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    #: the system that is refuted: repairs are tried out on it
    system: System | None = field(default=None, compare=False, repr=False)
    #: of an undecided system, what refutes it if an execution does the harm: accesses that data decides on
    suspect: Outcome | None = field(default=None, compare=False, repr=False)
    #: what the verdict rests on, as reports list it
    assumptions: tuple[str, ...] = ()
