"""Grids whose blocks hand data over to each other through global memory: their clusters run together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from syncverify.checker.outcome import Outcome
from syncverify.diagnostics import Diagnostic, Severity, Verdict
from syncverify.frontends.ptx.assumptions import MAX_TOGETHER
from syncverify.frontends.ptx.compile import Program
from syncverify.frontends.ptx.system import PtxSystem
from syncverify.source import Span

#: Clusters of a larger grid that are looked at, and what may go wrong there for want of the others.
FIRST = 4
_WAITS = ("O6", "O7")


def together(program: Program, clusters: int | None, span: Span, fresh: Callable[[int], PtxSystem],
             judge: Callable[[PtxSystem], Outcome]) -> Iterator[Outcome]:  # fmt: skip
    """The outcome of the clusters as one system, which ``fresh`` makes of the first so many.

    More than can run together are never proved; a race among the first of them is one all the same, while
    those that wait for ever there may wait for others.
    """
    assert program.handing is not None
    where = f"blocks hand data over through global memory (line {program.handing.line})"
    if clusters is None:
        yield undecided(f"{where}: give grid in a launch file", span)
        return
    whole = clusters <= MAX_TOGETHER
    outcome = judge(fresh(clusters if whole else FIRST))
    harmful = outcome.verdict is Verdict.REFUTED and outcome.stats.get("obligation") not in _WAITS
    if whole or harmful:
        yield outcome
        return
    reason = outcome.reason if outcome.verdict is Verdict.UNKNOWN else None
    most = f"{where} and the grid has {clusters} clusters; at most {MAX_TOGETHER} are run together"
    yield undecided(most if reason is None else f"{most}; {reason}", span)


def undecided(reason: str, span: Span) -> Outcome:
    """An outcome that only gives a reason."""
    note = Diagnostic("SV902", Severity.WARNING, reason, span)
    return Outcome(Verdict.UNKNOWN, (note,), None, reason, {})
