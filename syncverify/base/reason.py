"""Why a kernel is undecided, as data: a text for people, and causes for code that decides what comes next.

A reason is a string that carries its causes. Whoever puts a reason into a longer text names it as a part, and
the causes stay. Code asks ``has`` for a cause; it never looks at the text.

    why = Reason("data (ld.shared.u32 at k.ptx:7)", Cause.SHARED_CONTENTS)
    longer = Reason(f"a branch depends on {why}", parts=(why,))
    has(longer, Cause.SHARED_CONTENTS)  # True
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self


class Cause(StrEnum):
    """What kept a check from a verdict. The first of several is the kind of the reason."""

    INTERNAL_FAULT = "internal-fault"  # the tool failed
    TIMEOUT = "timeout"  # the time of a kernel is over
    MEMORY = "memory"  # the memory of a kernel is used up
    BUDGET = "budget"  # too many events, nodes or cases
    UNSUPPORTED = "unsupported"  # an instruction or construct that the tool does not analyse
    MISSING_BOX = "missing-box"  # the box of a tensor map
    MISSING_FACT = "missing-fact"  # a launch fact: block, cluster, grid, the value of a parameter
    BLOCK_PLACE = "block-place"  # what a block does depends on its place in the grid
    GRID_CASES = "grid-cases"  # blocks of the grid differ in too many ways
    SHARED_CONTENTS = "shared-contents"  # what was loaded from shared memory decides
    GLOBAL_DATA = "global-data"  # what was loaded from global memory decides
    DATA = "data"  # another value that is not known decides
    LOCK_ORDER = "lock-order"  # no execution takes locks in the order that was tried
    NEEDS_NUMBER = "needs-number"  # a size has to be a number
    ZERO_DIVISOR = "zero-divisor"  # a divisor may be zero
    UNSET = "unset"  # a register that nothing has written decides
    UNWRITTEN = "unwritten"  # an access whose address nobody wrote may be made
    UNTRIED_LANE = "untried-lane"  # a lane that may be elected is none of those that were tried
    NOT_REPLAYED = "not-replayed"  # something looks wrong, and no execution of the second reader shows it
    UNFINISHED = "unfinished"  # executions that have to show a finding, or to contradict a proof, did not end
    NO_PROOF = "no-proof"  # no proof and no counterexample was found
    UNDECIDED = "undecided"  # none of the others


_ORDER = {cause: i for i, cause in enumerate(Cause)}


class Reason(str):
    """A text with its causes. ``of``: the reasons it was made of, by which questions are distinguished.

    ``bare``: the text without what it asks the user to give.
    """

    causes: frozenset[Cause]
    of: frozenset[str]
    bare: str

    def __new__(cls, text: str, *causes: Cause, parts: Iterable[str] = (), bare: str | None = None) -> Self:
        made = super().__new__(cls, text)
        made.bare = text if bare is None else bare
        parts = tuple(parts)
        made.causes = frozenset(causes).union(*(causes_of(p) for p in parts))
        made.of = frozenset(map(str, parts)).union(*(p.of for p in parts if isinstance(p, Reason)))
        return made

    @property
    def kind(self) -> Cause:
        """The cause that is told of in reports."""
        return min(self.causes, key=_ORDER.__getitem__, default=Cause.UNDECIDED)


def causes_of(reason: str | None) -> frozenset[Cause]:
    """The causes of a reason; none of a plain text."""
    return reason.causes if isinstance(reason, Reason) else frozenset()


def has(reason: str | None, *causes: Cause) -> bool:
    """Whether a reason has one of some causes."""
    return not causes_of(reason).isdisjoint(causes)


def bare(reason: str) -> str:
    """The text of a reason without what it asks for."""
    return reason.bare if isinstance(reason, Reason) else reason


def made_of(reason: str | None, part: str) -> bool:
    """Whether a reason is another one, or was made of it."""
    return reason == part or (isinstance(reason, Reason) and part in reason.of)


def kind_of(reason: str | None) -> Cause | None:
    """The kind of a reason; None where there is no reason."""
    if reason is None:
        return None
    return reason.kind if isinstance(reason, Reason) else Cause.UNDECIDED


def caused(reason: str, cause: Cause) -> Reason:
    """The reason; with the cause, where it has none of its own."""
    own = causes_of(reason)
    return Reason(reason, *(own or {cause}), parts=(reason,))


def reason_of(error: BaseException) -> str:
    """The reason that an exception was raised with, causes and all."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, str) else str(error)


def as_data(reason: str) -> dict[str, object]:
    """A reason as plain data."""
    made_of = sorted(reason.of) if isinstance(reason, Reason) else []
    return {"text": str(reason), "causes": sorted(causes_of(reason)), "of": made_of}


def heard(data: object) -> Reason:
    """The reason of plain data; what is no such data has no causes."""
    if not isinstance(data, dict):
        return Reason(str(data))
    known, causes, of = set(Cause), data.get("causes"), data.get("of")
    kept = [Cause(c) for c in causes if c in known] if isinstance(causes, list) else []
    parts = [p for p in of if isinstance(p, str)] if isinstance(of, list) else []
    return Reason(str(data.get("text")), *kept, parts=parts)


__all__ = [
    "Cause",
    "Reason",
    "as_data",
    "bare",
    "caused",
    "causes_of",
    "has",
    "heard",
    "kind_of",
    "made_of",
    "reason_of",
]
