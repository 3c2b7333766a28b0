"""Strong accesses of one word in no order: no data race, but which value is read is not determined.

Two of them, of sufficient scope and to whole words, are morally strong (PTX ISA, memory consistency model).
Lanes of a warp run in no common step since sm_70, so that nothing orders a lane's store and the next lane's
load in the next line either. What comes of it:

    words that threads exchange                         unknown; of volatile ones executions are compared
    one word, volatile, within a warp                   unknown
    the word of a lock                                  nothing: all orders of who takes it are run
    any other word that threads look at                 a warning
    stores in no order, of different values             a warning

Example: ``s[t] = x; y = s[t ^ 1];`` with a volatile ``s`` and no ``__syncwarp`` between.
"""

from __future__ import annotations

from syncverify.base.diagnostics import Severity, Undetermined
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.flag_order import key_of
from syncverify.checker.happens_before.race_findings import place, stores_one_value, what
from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import GLOBAL_MEMORY, Footprint, StrongWord

_FIX = "a barrier between (bar.warp.sync within a warp), or a flag that is released and acquired"


def words_matter(run: Run, first: Record, second: Record) -> bool:
    """Whether the order of two strong accesses decides about a value that is used."""
    words, fp = run.info.strong_words, run.info.footprints[second.fp]
    if not words or fp.memory == GLOBAL_MEMORY or _is_lock(run, fp):
        return False
    if first.kind.writes and second.kind.writes:
        stored = first.site in words or second.site in words
        return stored and not (first.site == second.site and stores_one_value(run.info, first.site))
    reader = second if first.kind.writes else first
    return reader.site in words


def _is_lock(run: Run, fp: Footprint) -> bool:
    """Whether threads were seen to take a lock by the word of a footprint."""
    at = run.locations.get(key_of(fp.memory, fp.intervals[0][0]))
    return at is not None and any(spin.takes for spin in at.spins)


def report_undetermined(run: Run, t: LaneClass, first: Record, second: Record) -> None:
    """Says of two strong accesses in no order that what is read, or what stays, is not determined."""
    pair = (first.site, second.site, False)
    if pair in run.judged:
        return
    run.judged.add(pair)
    both_write = first.kind.writes and second.kind.writes
    rule = "SV112" if both_write else "SV111" if second.kind.writes else "SV110"
    weight = None if both_write else _weight(run, t, first, second)
    run.report(
        Obligation.RACE,
        rule,
        in_no_order(run, first, second),
        t,
        second.site,
        severity=Severity.WARNING if weight is None else Severity.ERROR,
        first=first,
        second=second,
        undetermined=weight,
        fix=_FIX,
    )


def in_no_order(run: Run, first: Record, second: Record) -> str:
    """The words for two strong accesses in no order."""
    end = "stays" if first.kind.writes and second.kind.writes else "is read"
    return (
        f"{what(run, second)} and {what(run, first)} are strong, so no data race, but in no order: "
        f"which value {end} is not determined"
    )


def _weight(run: Run, t: LaneClass, first: Record, second: Record) -> Undetermined | None:
    """What a load and a store in no order leave undecided; None: they are a warning."""
    words = run.info.strong_words
    store, load = (first, second) if first.kind.writes else (second, first)
    both = words.get(store.site, StrongWord(0)), words[load.site]
    volatile = any(StrongWord.VOLATILE in w for w in both)
    a, b = run.threads[first.cls].info, t.info
    near = (a.cta, a.warp) == (b.cta, b.warp)
    if (StrongWord.OF_EACH_LANE if near else StrongWord.OF_EACH_THREAD) in both[0]:
        return Undetermined.OUTCOME if volatile else Undetermined.INTENT
    return Undetermined.INTENT if volatile and near else None


def lanes_store_differently(run: Run, t: LaneClass, record: Record) -> None:
    """Warns of a strong store by which lanes leave different values in one word."""
    fp = run.info.footprints[record.fp]
    if record.site not in run.info.strong_words or fp.memory == GLOBAL_MEMORY:
        return
    where = place(run, fp.memory, fp.intervals[0][0], record.site)
    run.report(
        Obligation.RACE,
        "SV112",
        f"lanes of one strong store leave different values in {where}: which one stays is not determined",
        t,
        record.site,
        severity=Severity.WARNING,
        second=record,
    )


__all__ = ["in_no_order", "lanes_store_differently", "report_undetermined", "words_matter"]
