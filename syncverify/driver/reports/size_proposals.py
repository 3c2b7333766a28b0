"""Refuted kernels that go wrong for the smallest numbers of a size alone.

A kernel that fills its ring before its loop may go wrong for no tile at all, which nobody launches. Where a
size is 0 or 1 in the refutation, the check is done again for larger ones. A proof gives a note: the
``assume`` line to write, and what holds with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from syncverify.base.deadline import OutOfBudgetError, within, within_steps
from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.source import InputError, Span
from syncverify.driver.reports.shown_repairs import without_repair
from syncverify.ir.expr import Binary, Expr, Int, Var

RULE = "SV908"
#: The largest number that counts as small.
SMALL = 1
#: Steps of one check with larger sizes; processor seconds as a guard: at least, as a multiple of the
#: refutation's, and at most. A refutation is not kept waiting for long by a note.
STEPS, LEAST_SECONDS, TIMES, MOST_SECONDS = 60_000, 5.0, 2.0, 15.0
#: The largest numbers of signed integers: PTX does not tell whether a parameter is one.
_SIGNED = (2**31 - 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A size of at least ``least``, and at most ``most`` where that is given."""

    size: str
    least: int
    most: int | None = None

    @property
    def text(self) -> str:
        """The condition of an ``assume`` line."""
        if self.most is None:
            return f"{self.size} >= {self.least}"
        return f"{self.least} <= {self.size} <= {self.most}"

    @property
    def condition(self) -> Expr:
        low = Binary(">=", Var(self.size), Int(self.least))
        return low if self.most is None else Binary("and", low, Binary("<=", Var(self.size), Int(self.most)))


#: The report of the same check within bounds, and the sizes that refute the kernel there.
Again = Callable[[Bounds], tuple[KernelReport, Mapping[str, int]]]


def proposed(
    report: KernelReport, sizes: Mapping[str, int], again: Again, span: Span, where: str
) -> KernelReport:
    """The report with a note where larger numbers of one size are proved.

    ``sizes``: the open sizes and their numbers in the refutation; ``where``: where an ``assume`` line goes,
    ``{}`` being its condition.
    """
    if report.verdict is not Verdict.REFUTED:
        return report
    for name, value in sizes.items():
        least = max(value + 1, 0)
        if value <= SMALL and (found := _proved(report, Bounds(name, least), again)) is not None:
            bounds, proof = found
            text = f"with {bounds.text} the kernel is proved: only other numbers of {name} go wrong"
            rests = "; ".join(a for a in proof.assumptions if a not in report.assumptions)
            text += f" (assumed then: {rests})" if rests else ""
            fix = f"if no launch has others: {where.format(bounds.text)}"
            note = Diagnostic(RULE, Severity.NOTE, text, span, fix=fix)
            # An edit for these numbers would break the kernel for all others.
            bare = without_repair(report)
            return replace(bare, diagnostics=(*bare.diagnostics, note))
    return report


def _proved(report: KernelReport, bounds: Bounds, again: Again) -> tuple[Bounds, KernelReport] | None:
    """The widest bounds, from those given on, within which the kernel is proved, with the proof."""
    while bounds.least <= SMALL + 1:
        try:
            with within(min(max(LEAST_SECONDS, TIMES * report.seconds), MOST_SECONDS)), within_steps(STEPS):
                found, sizes = again(bounds)
        except (OutOfBudgetError, InputError):
            return None
        if found.verdict is Verdict.PROVED:
            return bounds, found
        value = sizes.get(bounds.size)
        if found.verdict is Verdict.UNKNOWN or value is None:
            return None
        if value == bounds.least:
            bounds = replace(bounds, least=value + 1)
        elif bounds.most is None and value > _SIGNED[0]:
            bounds = replace(bounds, most=_SIGNED[value > _SIGNED[1]])
        else:
            return None
    return None


__all__ = ["RULE", "Bounds", "proposed"]
