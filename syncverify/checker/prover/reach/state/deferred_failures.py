"""Failures that the rest of a run may show to be harmless: arrivals that count in a phase nobody looks at."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from syncverify.checker.explain.root_causes import harmless_tail
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.handlers.mbarriers import Barrier
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.vector_clocks import Matrix


def is_deferred(f: Failure) -> bool:
    """Whether only the end of the run can tell what a failure comes to."""
    return (
        f.obligation == Obligation.O1
        and f.rule in ("SV202", "SV206")
        and f.past is not None
        and f.barrier >= 0
    )


def is_confirmed(run: Run, f: Failure) -> bool:
    """Whether such a failure does count, however the run goes on."""
    s: Barrier = run.barriers[f.barrier]
    if s.inits > 1:
        return True
    if s.last_waited < -1:
        return bool(s.waiters) or s.last_tx >= 0 or s.net_zero > 0 or s.uneven
    return not harmless_tail(run, f, None)


def confirmed_at_end(run: Run, failures: Iterable[Failure]) -> list[Failure]:
    """Those that count at the end of a run."""
    return [f for f in failures if not harmless_tail(run, f, None)]


def deferred_state(run: Run) -> Iterator[tuple[Hashable, Matrix]]:
    """What the end will ask of such failures: a part of the normal form, and a row of clocks."""
    for key, f in run.failures.items():
        if is_deferred(f) and f.past is not None:
            s: Barrier = run.barriers[f.barrier]
            yield (key, f.barrier, bool(s.waiters), s.inval_site >= 0), f.past


__all__ = ["confirmed_at_end", "deferred_state", "is_confirmed", "is_deferred"]
