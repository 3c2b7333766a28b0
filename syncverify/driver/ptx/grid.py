"""Grids whose blocks hand data over to each other through global memory: their clusters run together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from syncverify.base.diagnostics import Verdict
from syncverify.base.reason import Cause, Reason, caused
from syncverify.base.source import Span
from syncverify.checker.outcome import Outcome
from syncverify.checker.prover.modular.block_groups import NotDetermined, group_classes, traced
from syncverify.driver.ptx.assumptions import MAX_TOGETHER
from syncverify.driver.reports.outcomes import undecided
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.system import PtxSystem

#: Clusters of a larger grid that are looked at, and what may go wrong there for want of the others.
FIRST = 4
#: Clusters of a larger grid that are run alone, to see which of them share data.
MAX_TRACED = 512
_WAITS = ("O6", "O7")


def together(program: Program, clusters: int | None, span: Span, fresh: Callable[[int, int], PtxSystem],
             judge: Callable[[PtxSystem], Outcome]) -> Iterator[Outcome]:  # fmt: skip
    """The outcome of the clusters as one system, which ``fresh`` makes of so many, from a number on.

    Of more than can run together those are that share data, one block group of each kind. Where block groups
    are too large nothing is proved; a race among the first clusters is one all the same, while those that
    wait for ever there may wait for others.
    """
    assert program.handing is not None
    where = f"blocks hand data over through global memory (line {program.handing.line})"
    if clusters is None:
        # who only counts is looked at for any grid, with data as words
        causes = (Cause.MISSING_FACT,) if program.handing.waited else (Cause.MISSING_FACT, Cause.DATA)
        yield undecided(Reason(f"{where}: give grid in a launch file", *causes), span)
        return
    whole = clusters <= MAX_TOGETHER
    why = ""
    if not whole:
        try:
            found = list(_block_groups(program, clusters, fresh))
        except NotDetermined as found_out:
            why = f" ({found_out})"
        else:
            yield from map(judge, found)
            return
    outcome = judge(fresh(clusters if whole else FIRST, 0))
    harmful = outcome.verdict is Verdict.REFUTED and outcome.stats.get("obligation") not in _WAITS
    if whole or harmful:
        yield outcome
        return
    reason = outcome.reason if outcome.verdict is Verdict.UNKNOWN else None
    most = f"{where} and the grid has {clusters} clusters; at most {MAX_TOGETHER} are run together{why}"
    why_open = most if reason is None else Reason(f"{most}; {reason}", parts=(reason,))
    yield undecided(caused(why_open, Cause.BUDGET), span)


def _block_groups(
    program: Program, clusters: int, fresh: Callable[[int, int], PtxSystem]
) -> Iterator[PtxSystem]:
    """A system for each kind of block group. Raises NotDetermined."""
    if clusters > MAX_TRACED:
        raise NotDetermined(f"at most {MAX_TRACED} are compared")
    if program.steers:
        raise NotDetermined("what a block does depends on data")
    first = fresh(1, 0)
    traces = [traced(first.at(c)) for c in range(clusters)]
    if first.tables.unplaced:
        raise NotDetermined(first.tables.unplaced[0])
    for block_group in group_classes(traces, MAX_TOGETHER):
        system = fresh(len(block_group), block_group[0])
        system.info.cooperative = False  # others of the grid may have taken their places
        yield system
