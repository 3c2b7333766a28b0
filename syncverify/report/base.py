"""What every report format renders: the reports of one run, with where their witnesses were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from syncverify.base.diagnostics import (
    NOT_ASKED,
    Diagnostic,
    KernelReport,
    Label,
    Policy,
    Repair,
    Replayed,
    ScopeKind,
    Severity,
    Verdict,
)
from syncverify.base.kernel_names import base_name
from syncverify.base.rules import RULES
from syncverify.base.source import InputError, Span
from syncverify.report.excerpt import apart


@dataclass(frozen=True, slots=True)
class Report:
    """One run of ``check``: its kernels in the order they were given.

    ``witness_paths`` holds the written witness of a kernel, by its position in ``kernels``.
    """

    policy: Policy
    kernels: tuple[KernelReport, ...]
    witness_paths: Mapping[int, str] = field(default_factory=dict)
    #: input that could not be used
    errors: tuple[InputError, ...] = ()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many kernels got each verdict."""
        found = Counter(k.verdict for k in self.kernels)
        return {v: found[v] for v in (Verdict.PROVED, Verdict.REFUTED, Verdict.UNKNOWN)}

    def findings(self) -> Iterator[tuple[KernelReport, Diagnostic]]:
        """Every diagnostic with its kernel."""
        for k in self.kernels:
            for d in k.diagnostics:
                yield k, d


def checked_text(r: Repair) -> str:
    """What was checked of a repair."""
    if r.left is not None:
        what = f"{r.left.rule} {rule_name(r.left.rule)}, {at_text(r.left.span, r.span.file)}"
        return f"with it this mistake is gone; one more is left: {what}"
    match r.elsewhere:
        case Verdict.PROVED:
            return "with it every launch that was asked for is proved"
        case Verdict.REFUTED:
            return "with it this launch is proved, but another one is still refuted"
        case Verdict.UNKNOWN:
            return "with it this launch is proved, and the others are undecided"
    return "with it this launch is proved"


def at_text(place: Span, file: str) -> str:
    """A place, by its line alone where a reader has its file in mind."""
    return f"line {place.line}" if place.file == file and place.line else str(place)


def is_around(label: Label, d: Diagnostic) -> bool:
    """Whether a note says what lies around a mistake that an edit of the text shows."""
    if d.repair is None or d.repair.edit is None:
        return False
    return label.around and label != d.repair.neighbour


def rule_name(rule: str) -> str:
    """The name of a rule id."""
    return RULES[rule].name


def place(kernel: KernelReport, d: Diagnostic) -> tuple[str, int]:
    """File and line of a finding; the kernel's file where the finding has none."""
    return (d.span.file, d.span.line) if d.span.line else (kernel.file, 0)


#: Sources that reports asked for, whether they are there or not.
_SHOWN: set[Path] = set()


def files_shown() -> frozenset[Path]:
    """The sources that reports of this process have shown, or would have if they could be read."""
    return frozenset(_SHOWN)


def source_lines(path: str) -> tuple[str, ...]:
    """The lines of a source file; none if it cannot be read (a report never fails for that)."""
    there = Path(path).absolute()
    _SHOWN.add(there)
    try:
        at = there.stat()
    except (OSError, ValueError):
        return ()
    return _lines(there, at.st_mtime_ns, at.st_size)


@cache
def _lines(path: Path, _changed: int, _size: int) -> tuple[str, ...]:
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return ()
    return tuple(line.removesuffix("\r") for line in text.split("\n"))


def one_line(d: Diagnostic) -> str:
    """A finding's message with its fix, on one line, for formats without structure."""
    text = d.message
    if d.repair is not None:
        text += f"; {d.repair.mistake}: {d.repair.text} (line {d.repair.span.line}; checked)"
    elif d.fix is not None:
        text += f"; help{'' if d.cause is None else f' ({d.cause})'}: {d.fix}"
    return " ".join(text.split())


def counted(n: int, word: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def values_text(values: Mapping[str, int], most: int | None = None) -> str:
    """``N = 8, S = 2``; of more than ``most`` values the first ones and how many more."""
    sizes = [values.get(f"grid.{axis}") for axis in "xyz"]
    whole = None not in sizes and most is not None
    items = [f"grid = {' x '.join(map(str, sizes))}"] if whole else []
    items += [f"{k} = {v}" for k, v in values.items() if not (whole and k.startswith("grid."))]
    if most is None or len(items) <= most + 1:
        return ", ".join(items)
    return f"{', '.join(items[:most])} and {len(items) - most} more"


def scope_text(k: KernelReport, most: int | None = None) -> str:
    """Which launches a verdict is of: ``every launch with C = 64, tiles >= 1``, or ``for N = 8``.

    ``most``: values that are shown at most. Every condition that the user stated is shown.
    """
    values = values_text(k.scope.named_values, most)
    if k.scope.kind is ScopeKind.EXACT or k.verdict is Verdict.REFUTED:
        if values:
            return f"for {values}"
        return "every launch" if k.scope.kind is ScopeKind.ALL else "no value known"
    facts = [*([values] if values else []), *k.scope.assume]
    return f"every launch with {', '.join(facts)}" if facts else "every launch"


def rests_on(k: KernelReport) -> list[str]:
    """What a verdict takes for granted: the user's conditions, then the tool's assumptions."""
    open_ = k.scope.kind is not ScopeKind.EXACT and k.verdict is not Verdict.REFUTED
    given = k.scope.assume if open_ else ()  # of numbers it is known that they keep them
    return [*(f"given: {a}" for a in given), *(f"assumed: {a}" for a in k.assumptions)]


def replay_text(k: KernelReport) -> str | None:
    """What became of a refutation's witness on the second reader; None where nobody replayed it."""
    if k.replay is None:
        return None
    how = {
        Replayed.REPRODUCED: "replayed on the second reader",
        Replayed.NOT_REPRODUCED: "not reproduced on the second reader",
        Replayed.NOT_ENDED: "a replay on the second reader does not end",
        Replayed.IMPOSSIBLE: "a replay on the second reader is not possible",
    }
    return f"{how[k.replay.outcome]}: {k.replay.detail}"


def acceptance(k: KernelReport) -> list[str]:
    """Who accepted a proof, where that was asked; then what was proved, in words."""
    a = k.acceptance
    if k.accepted_by == "kernel":
        rest = [f"by the search alone: {text}" for text in a.besides]
        return ["accepted by the kernel", *(f"  {text}" for text in a.invariants), *rest]
    if k.accepted_by == "search" and a.reason != NOT_ASKED:
        return [f"proved by the search, not accepted by the kernel: {a.reason}"]
    return []


def footnotes(k: KernelReport) -> list[str]:
    """What belongs to a verdict besides its findings: what it rests on, who accepted it, and the replay of
    its witness.
    """
    replay = replay_text(k)
    return [*rests_on(k), *acceptance(k), *([] if replay is None else [replay])]


def kernel_names(kernels: Sequence[KernelReport]) -> list[str]:
    """How people know the kernels: without namespaces and template arguments where that distinguishes them,
    else with a part of the name that does."""
    short = [(k.file, base_name(k.name)) for k in kernels]
    called: dict[tuple[str, str], dict[str, str]] = {}
    for key, k in zip(short, kernels, strict=True):
        called.setdefault(key, {})[k.name] = ""
    for names in called.values():
        names |= zip(names, apart(list(names)), strict=True)
    counts = Counter(short)
    return [called[key][k.name] if counts[key] > 1 else key[1] for key, k in zip(short, kernels, strict=True)]


#: Severities in the order of their weight.
SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
