"""Findings, witnesses and verdicts: the data every report format renders. Imports only ``source``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from syncverify.base.source import UNKNOWN_SPAN, Span

SCHEMA_VERSION = 1


class Severity(StrEnum):
    """How grave a finding is: only errors refute."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Verdict(StrEnum):
    """What the checker can say of one kernel; see docs/theory.md for the exact meaning."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


class Policy(StrEnum):
    """How contested points (docs/model.md K) are decided; ``practical`` accepts what ships and works."""

    PRACTICAL = "practical"
    STRICT = "strict"


class Claim(StrEnum):
    """The harm that a witness shows."""

    HANG = "hang"
    STALE_VALUE = "stale-value"
    UB = "ub"
    ORDER_VIOLATION = "order-violation"


class ScopeKind(StrEnum):
    """How much of the launch space a verdict covers: no symbol fixed, some, or every one."""

    ALL = "all"
    PARTIAL = "partial"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Label:
    """A further place that a diagnostic points at, with what happens there.

    ``detail``: it says how, where the finding says what: text shows it in one line, without its source.
    ``unmended``: it is of use only where no repair says the place. ``around``: a detail of what lies around
    the mistake, of no use to a reader who sees an edit of the text.
    """

    span: Span
    text: str
    detail: bool = False
    unmended: bool = False
    around: bool = False


class Mistake(StrEnum):
    """The class of a mistake: what kind of thing its author has to change."""

    PARITY = "wrong parity"
    FIRST_PARITY = "wrong initial parity"
    LATER_PARITY = "wrong parity of a later use"
    TOKEN = "wait by another token"
    MISSING_ADVANCE = "missing advance"
    COUNT = "count against arrivers"
    BYTES = "bytes against copies"
    MISSING_INIT = "missing init"
    MISSING_WAIT = "missing wait"
    MISPLACED_WAIT = "misplaced wait"
    LAX_WAIT = "wait for too few groups"
    MISSING_COMMIT = "missing commit"
    MISSING_ARRIVE = "missing release"
    EARLY_RELEASE = "early release"
    MISSING_FENCE = "missing fence"
    MISPLACED_FENCE = "misplaced fence"
    MISSING_BARRIER = "missing barrier"
    SECOND_PRODUCER = "second producer"
    DIVERGENCE = "divergence"
    LIFETIME = "use outside of a barrier's life"
    SCOPE = "scope too narrow"
    REGISTERS = "registers against the pool"
    PLACE = "wrong place or size"
    SURPLUS = "one synchronization too many"
    TURNS = "one turn of a loop too many or too few"
    OTHER_BARRIER = "another barrier or slot is meant"


class EditKind(StrEnum):
    """How the text may bring a repair about."""

    OTHER_PARITY = "other parity"
    PARITY_OF_USE = "the parity of this use"
    NUMBER = "another number"
    FENCE = "a proxy fence"
    INSTRUCTION = "an instruction"
    BARRIER = "a barrier of threads"
    WAIT = "a wait for an mbarrier"
    ARRIVE = "an arrival on an mbarrier"
    ANNOUNCE = "an announcement of bytes"
    INIT = "the init of an mbarrier"
    REMOVE = "without the line"
    LATER = "the line further down"
    SLOT = "another slot of the same barriers"
    BARRIER_ID = "another barrier of threads"
    WITH_COPIES = "an arrival of copies"
    UNTIL_TRUE = "the line until it is true"
    OUT_OF_BLOCK = "the line behind its block"
    ARRIVE_TOO = "the line a second time, for another barrier of threads"
    HAND_ON = "an arrival at the end of the loop"
    INTO_LOOP = "the announcement where its copy is"


@dataclass(frozen=True, slots=True)
class EditHint:
    """What to do to the text at a repair's place.

    ``number``: the one to write: a count, bytes, or the threads of a barrier (0: all of the block).
    ``fenced``: with a proxy fence before it. ``ahead``: before the place, not behind it; of a slot, the next
    one. ``at_end``: behind the blocks around the place. ``name``: the mbarrier's name, or the instruction.
    ``models``: lines of the file that do the like. ``names``: those of all mbarriers, which stand in such
    lines.
    ``size``: of the ring; of an init, the index of the barrier; of an arrival at another barrier of
    threads, the id that stands there. ``apart``: lines of the file that name other
    mbarriers, and how many bytes before the one that is meant these lie.
    """

    kind: EditKind
    number: int | None = None
    ahead: bool = False
    fenced: bool = False
    at_end: bool = False
    name: str = ""
    models: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    size: int = 0
    apart: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TextEdit:
    """An edit of a file: lines from ``line`` on (from 1) are ``old``, and become ``new``."""

    file: str
    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remaining:
    """A mistake that is left when the one of a finding is mended: its rule and its place."""

    rule: str
    span: Span


@dataclass(frozen=True, slots=True)
class Repair:
    """An edit at ``span`` with which the kernel is proved, at the launch values of the witness.

    ``hint``: how the text may be changed so; ``edit``: the change of the text that was checked, if one was.
    ``neighbour``: of what is added at ``span``, the neighbour on its other side. ``elsewhere``: the verdict
    on every launch with ``edit``; None: it was not asked for, or there was no time. ``left``: the kernel has
    another mistake, too; the edit mends the first one, and the kernel is not proved yet.
    """

    mistake: Mistake
    span: Span
    text: str
    hint: EditHint | None = None
    edit: TextEdit | None = None
    neighbour: Label | None = None
    elsewhere: Verdict | None = None
    left: Remaining | None = None


class Undetermined(StrEnum):
    """Strong accesses in no order are no data race, but which value is read is not determined."""

    OUTCOME = "outcome"  # hardly ever meant: executions are looked at, whether they end differently
    INTENT = "intent"  # either value may be what the author wants


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. ``rule`` is an id of ``rules.RULES``; ``contested`` names a point of docs/model.md K.

    ``condition``: of a warning, what makes it right; a proof takes it for granted. ``cause``: of an error,
    the class of the mistake behind it; that of ``repair``, which was checked, where there is one.
    ``undetermined``: of what is no data race, and refutes nothing, how it is looked at (``Undetermined``).
    """

    rule: str
    severity: Severity
    message: str
    span: Span = UNKNOWN_SPAN
    fix: str | None = None
    contested: str | None = None
    related: tuple[Label, ...] = ()
    condition: str | None = None
    repair: Repair | None = None
    cause: Mistake | None = None
    undetermined: Undetermined | None = None


class StepKind(StrEnum):
    """What a step of a witness does, for formats that draw it."""

    READ = "read"
    WRITE = "write"
    INIT = "init"
    INVAL = "inval"
    ARRIVE = "arrive"
    EXPECT = "expect"
    WAIT = "wait"
    SYNC = "sync"
    FENCE = "fence"
    ISSUE = "issue"  # an asynchronous operation begins
    COMPLETION = "completion"  # and ends
    GROUP = "group"  # commits a group of them, or waits for groups
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class BarrierState:
    """An mbarrier after a step: completed phases, pending arrivals of ``count``, bytes outstanding."""

    phase: int
    pending: int
    count: int
    tx: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a witness.

    ``agent`` is ``cta0.warp3.lanes0-31`` for threads (comma-separated lane ranges) and
    ``cta0.warp8.lanes0.async2`` for the completion of the third asynchronous operation
    (copies and wgmma alike, counted from 0) which those lanes issued.
    """

    agent: str
    span: Span
    op: str
    barrier: str | None = None
    phase: int | None = None
    kind: StepKind = StepKind.OTHER
    #: the barrier after the step
    state: BarrierState | None = None
    #: of a completion: the position of the step that issued the operation
    issued_by: int | None = None
    #: the line in the code that is executed, where that is not the text of ``span``; 0: it is
    code_line: int = 0


@dataclass(frozen=True, slots=True)
class Blocked:
    """An agent that can never go on at the end of a hang: what it waits on and what is missing."""

    agent: str
    span: Span
    waits_on: str
    phase: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Witness:
    """A schedule that shows the harm: every step in order, then who is left blocked."""

    claim: Claim
    rule: str
    message: str
    steps: tuple[Step, ...]
    blocked: tuple[Blocked, ...] = ()
    kernel: str = ""
    file: str = ""
    source_hash: str = ""
    policy: Policy = Policy.PRACTICAL
    values: Mapping[str, int] = field(default_factory=dict)
    block: tuple[int, int, int] = (0, 0, 0)
    elected_lane: int = 0
    #: What a launch file put in place of the kernel's own grid and registers per thread.
    grid: tuple[int, int, int] | None = None
    registers: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """What the verdict covers: the launch values that were fixed and the facts assumed of the rest.

    ``names``: what people call some of the keys of ``values`` (``params.2`` is ``rows``).
    """

    kind: ScopeKind
    values: Mapping[str, int] = field(default_factory=dict)
    assume: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def named_values(self) -> dict[str, int]:
        """``values`` by the names that people know."""
        return {self.names.get(key, key): value for key, value in self.values.items()}


class Replayed(StrEnum):
    """What a reader that shares no semantics with the checker has seen of a witness."""

    REPRODUCED = "reproduced"  # it executed the text and saw harm
    NOT_REPRODUCED = "not-reproduced"  # executions came to their end, and none did harm
    NOT_ENDED = "not-ended"  # its budget is spent before so many executions end that it would say something
    IMPOSSIBLE = "not-possible"  # it cannot execute the kernel, or all executions end by something else


@dataclass(frozen=True, slots=True)
class Replay:
    """A witness on the second reader. ``detail``: the harm and its place, or why none was to be seen."""

    outcome: Replayed
    detail: str


#: Why the kernel has not judged a proof that nobody asked it about.
NOT_ASKED = "the kernel was not asked (check --require kernel asks it)"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Who accepted the proof of a verdict: the small trusted kernel, or only the search that found it.

    ``reason``: why the kernel did not. ``invariants``: what was proved, in words. ``besides``: what else the
    verdict rests on, which the kernel does not judge.
    """

    kernel: bool = False
    reason: str | None = None
    invariants: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Everything said about one kernel; the unit of all report formats."""

    name: str
    file: str
    verdict: Verdict
    policy: Policy
    scope: Scope
    arch: str = "sm_90a"
    reason: str | None = None
    seconds: float = 0.0
    assumptions: tuple[str, ...] = ()
    witness: Witness | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)
    #: the proof for sizes (``ParametricResult``), from which a certificate is written; no format shows it
    proof: Any = field(default=None, compare=False, repr=False)
    acceptance: Acceptance = Acceptance(reason=NOT_ASKED)
    #: the proof that the kernel accepted, from which a certificate is written; no format shows it
    protocol: Any = field(default=None, compare=False, repr=False)
    #: of a kernel of PTX whose block nothing gives, those with which it was checked; certificates name them
    blocks: tuple[tuple[int, int, int], ...] = field(default=(), compare=False, repr=False)
    #: of a refuted kernel, the system that shows it: ``driver.explained`` tries repairs on it
    refuted_system: Any = field(default=None, compare=False, repr=False)
    #: of a refuted kernel of PTX, the launch facts under which it is: ``driver.executions.confirmed``
    #: launches by them
    refuted_facts: Any = field(default=None, compare=False, repr=False)
    #: of an undecided kernel of PTX, the report that holds if an execution does the harm
    suspect: Any = field(default=None, compare=False, repr=False)
    #: of an undecided kernel of PTX, the task: ``driver.executions.sought`` executes it on inputs that are
    #: drawn
    undecided: Any = field(default=None, compare=False, repr=False)
    #: of a proof of PTX, the task, if executions may contradict what it takes for granted
    doubted: Any = field(default=None, compare=False, repr=False)
    #: repairs of its first error that count once an edit of the text was checked; no format shows them
    untold_repairs: tuple[Repair, ...] = field(default=(), compare=False, repr=False)
    #: of a refuted kernel, or one that would be, what became of its witness; None: nobody replayed it
    replay: Replay | None = None

    @property
    def accepted_by(self) -> str | None:
        """``kernel`` or ``search``; None of a verdict that is no proof."""
        return ("search", "kernel")[self.acceptance.kernel] if self.verdict is Verdict.PROVED else None
