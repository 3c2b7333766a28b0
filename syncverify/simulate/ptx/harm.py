"""What can go wrong in an execution, and what this machine cannot execute."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of harm. The value is what reports and tests write."""

    RACE = "race"  # two accesses to one byte, one a write, in no order
    STALE = "stale"  # ordered, but the proxies between them are not: the second may see old bytes
    HANG = "hang"  # nobody can move
    UNDEFINED = "undefined"  # what the PTX ISA calls undefined behaviour
    OUTSIDE = "outside"  # bytes between variables, in a launch that looks at them: what lies there is open
    TRAP = "trap"  # the kernel stops itself: trap, a failed assertion


#: The section of an access to another block of the cluster that is not there, and why it is not.
OF_A_CLUSTER = "cluster of cooperative thread arrays"
#: Sections of reads of global memory that may bring other bytes than its last write left.
READ_ONLY, DISCARD = "ld.global.nc", "discard"
OF_CONTENTS = frozenset({READ_ONLY, DISCARD})
EXITED, NOT_BEGUN = "has exited", "may not run yet"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the PTX text and the thread that executed it; a lane of -1 represents all."""

    line: int
    block: int
    warp: int
    lane: int = -1

    def __str__(self) -> str:
        lane = "" if self.lane < 0 else f" lane {self.lane}"
        return f"line {self.line}, block {self.block} warp {self.warp}{lane}"


@dataclass(frozen=True, slots=True)
class Harm:
    """Harm that one execution showed.

    ``where`` is the access or wait that showed it, ``other`` the earlier access of a race. ``section`` names
    the part of the PTX ISA that speaks of it; ``space`` is that of an access in a race, or of one that has no
    bytes where it goes.
    ``schedule`` is what replays it: one (agent, line) per burst.
    """

    kind: Kind
    where: Place
    detail: str
    section: str = ""
    space: str = ""
    other: Place | None = None
    schedule: tuple[tuple[str, int], ...] = ()

    @property
    def before_a_block(self) -> bool:
        """Whether memory of another block is accessed that may not run yet."""
        return self.section == OF_A_CLUSTER and self.detail.endswith(NOT_BEGUN)

    @property
    def behind_a_block(self) -> bool:
        """Whether memory of another block is accessed that has exited."""
        return self.section == OF_A_CLUSTER and self.detail.endswith(EXITED)

    def __str__(self) -> str:
        other = "" if self.other is None else f" (against {self.other})"
        return f"{self.kind.value}: {self.where}{other}: {self.detail}"


class HarmFound(Exception):  # noqa: N818 -- an answer, no failure
    """Ends an execution."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(str(harm))
        self.harm = harm


class CannotExecute(Exception):  # noqa: N818 -- an answer, no failure
    """An instruction, a type or a launch value that this machine does not know: it is never skipped."""

    def __init__(self, line: int, text: str, why: str = "") -> None:
        super().__init__(f"cannot execute: line {line}, {text}" + (f": {why}" if why else ""))
        self.line = line
        self.text = text
        self.why = why


class StepLimit(Exception):  # noqa: N818 -- an answer, no failure
    """The execution did not end within its steps: it says nothing.

    ``still``: what all wait for, where for long nobody has done anything but ask whether a phase is over.
    """

    def __init__(self, text: str = "", still: Harm | None = None) -> None:
        super().__init__(text)
        self.still = still
