"""What a run of ``check`` counts: which findings are shown, which are accepted, and the exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.reason import Cause, has, kind_of
from syncverify.base.rules import RULES
from syncverify.base.source import InputError
from syncverify.cli.common import Exit
from syncverify.driver.reports.baseline import Compared, Entry, entry_of, unknown_entry
from syncverify.report.base import Report, source_lines

_WEIGHT = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}
NO_BASELINE = Compared(frozenset(), ())


@dataclass(frozen=True, slots=True)
class Counting:
    """What fails a run. ``fail_on``: the least severity that does; ``on_unknown``: the status of unknown.
    ``kernel``: a proof that the trusted kernel has not accepted counts as unknown.
    """

    on_unknown: str | None = None
    fail_on: Severity = Severity.ERROR
    baseline: Compared = NO_BASELINE
    kernel: bool = False


def rules(patterns: Iterable[str], option: str) -> tuple[str, ...]:
    """Prefixes of rule ids, from ids, prefixes or names, separated by commas; InputError where none fits."""
    found = []
    for pattern in (p.strip() for some in patterns for p in some.split(",") if p.strip()):
        named = [r.id for r in RULES.values() if r.name == pattern]
        if not named and not any(r.startswith(pattern.upper()) for r in RULES):
            raise InputError(
                f"{option} {pattern}: no rule begins so (syncverify explain lists none of that name)"
            )
        found += named or [pattern.upper()]
    return tuple(found)


def shown(report: KernelReport, select: tuple[str, ...], ignore: tuple[str, ...]) -> KernelReport:
    """A report with the warnings and notes of selected rules that are not ignored. Errors always stay."""
    if not select and not ignore:
        return report

    def wanted(d: Diagnostic) -> bool:
        chosen = not select or d.rule.startswith(select)
        return d.severity is Severity.ERROR or (chosen and not d.rule.startswith(ignore or ("?",)))

    return replace(report, diagnostics=tuple(filter(wanted, report.diagnostics)))


def status(report: Report, counting: Counting) -> int:
    """The exit status of a run: bad input, then failed, then undecided (as ``on_unknown`` says)."""
    if report.errors:
        return Exit.BAD_INPUT
    accepted = counting.baseline.accepted
    if any(_fails(k, counting.fail_on, accepted) for k in report.kernels):
        return Exit.REFUTED
    open_ = [k for k in report.kernels if k.verdict is Verdict.UNKNOWN and unknown_entry(k) not in accepted]
    if counting.kernel and any(k.accepted_by == "search" for k in report.kernels):
        return Exit.UNKNOWN
    if not open_:
        return Exit.OK
    if any(has(k.reason, Cause.INTERNAL_FAULT) for k in open_) and counting.on_unknown == "pass":
        return Exit.UNKNOWN  # nobody meant to let a fault of the tool through
    return {None: Exit.UNKNOWN, "pass": Exit.OK, "fail": Exit.REFUTED}[counting.on_unknown]


def _fails(k: KernelReport, least: Severity, accepted: frozenset[Entry]) -> bool:
    weight = _WEIGHT[least]
    grave = [d for d in k.diagnostics if _WEIGHT[d.severity] >= weight]
    if k.verdict is Verdict.UNKNOWN:  # what it says of itself is no finding of its own
        grave = [d for d in grave if not d.rule.startswith("SV9")]
    if any(entry_of(k, d, source_lines) not in accepted for d in grave):
        return True
    return k.verdict is Verdict.REFUTED and not any(d.severity is Severity.ERROR for d in k.diagnostics)


def statistics(report: Report, inputs: int, stored: int) -> str:
    """Kernels by verdict, findings by rule, and where the time went."""
    by_rule = Counter((d.rule, d.severity) for _, d in report.findings())
    kinds = Counter(str(kind_of(k.reason)) for k in report.kernels if k.verdict is Verdict.UNKNOWN)
    lines = [f"{inputs} inputs, {stored} from the cache; {len(report.kernels)} kernels"]
    lines += [f"  {n:>6}  {verdict}" for verdict, n in report.counts.items() if n]
    lines += [f"  {n:>6}  unknown: {kind}" for kind, n in kinds.most_common()]
    lines += [
        f"  {n:>6}  {severity}[{rule} {RULES[rule].name}]" for (rule, severity), n in by_rule.most_common()
    ]
    slow: Sequence[KernelReport] = sorted(report.kernels, key=lambda k: -k.seconds)[:5]
    lines += [f"  {k.seconds:>6.2f} s  {k.file}: {k.name}" for k in slow]
    return "\n".join(lines)


__all__ = ["NO_BASELINE", "Counting", "rules", "shown", "statistics", "status"]
