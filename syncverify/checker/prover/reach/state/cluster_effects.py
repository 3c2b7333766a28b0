"""One cluster of a block group alone, as its own later states and the other clusters see it.

Its account is compared with those of the others when all are together (``checker.together``): of its accesses
which signals hand them on, and what of the clusters before it they come after.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from syncverify.checker.happens_before.effect_log import FlagWait, FlagWrite
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import AG, H, Matrix
from syncverify.checker.prover.modular.compose import (
    Access,
    ClusterSummary,
    FlagSignal,
    FlagTest,
    ReleasedKnowledge,
)

At = Callable[[int, int, int], Hashable]


def thresholds(run: Run) -> Iterator[tuple[int, int, int]]:
    """The times that later comparisons are with: columns, values and what asks (an index of ``ROWS_OF``)."""
    for step in run.ledger:
        if isinstance(step, FlagWrite):
            yield step.write.cls, step.write.time, 0
            continue
        yield step.spin.cls, step.spin.time, 0
        yield from _asked(step)


def _asked(step: FlagWait) -> Iterator[tuple[int, int, int]]:
    """What is asked of what a spin makes known."""
    order, seen, bridged = step.columns
    yield from ((order, 1, 0), (seen, 1, 1), (seen, 1, 2), (bridged, 1, 1), (bridged, 1, 2))


def form(
    run: Run, at: At, keep: Callable[[Matrix | None], int], access: Callable[[Record], Hashable]
) -> Hashable:
    """What it has done so far."""
    steps: list[Hashable] = []
    for step in run.ledger:
        if isinstance(step, FlagWait):
            s = step.spin
            known = tuple(at(*x) for x in _asked(step))
            steps.append((step.flag, at(s.cls, s.time, 0), s.compare, s.value, s.unsigned, known))
        else:
            w = step.write
            what = (w.value, w.added, w.lanes, keep(w.past), keep(w.released))
            steps.append((step.flag, at(w.cls, w.time, 0), *what))
    return tuple(steps), frozenset((key, access(r)) for key, r in run.reached.items())


def summarise(run: Run) -> ClusterSummary:
    """What is to be known of a run that has ended."""
    spins = [x for x in run.ledger if isinstance(x, FlagWait)]
    records = sorted(run.reached.items(), key=lambda x: repr(x[0]))
    accesses = tuple(Access(key[0], key[1], *key[4:6], *key[6]) for key, _ in records)
    steps: list[FlagTest | FlagSignal] = []
    for step in run.ledger:
        if isinstance(step, FlagWait):
            steps.append(FlagTest(step.flag, step.spin.compare, step.spin.value, step.spin.unsigned))
            continue
        w = step.write
        before = frozenset(i for i, x in enumerate(run.ledger) if w.past[_when(x)[0]] >= _when(x)[1])
        ordered = _of(spins, w.past, 0)
        handed = None
        if w.released is not None:
            seen, bridged = w.released[H], w.released[AG]
            handed = ReleasedKnowledge(
                _reaches(records, seen),
                _reaches(records, bridged),
                _of(spins, seen, 1),
                _of(spins, bridged, 1),
                _of(spins, bridged, 2),
            )
        steps.append(FlagSignal(step.flag, w.value, w.added, w.lanes, before, ordered, handed))
    return ClusterSummary(tuple(steps), accesses)


def _when(step: FlagWait | FlagWrite) -> tuple[int, int]:
    at = step.spin if isinstance(step, FlagWait) else step.write
    return at.cls, at.time


def _of(spins: list[FlagWait], row: Matrix, which: int) -> frozenset[int]:
    """The spins that a row has something of."""
    return frozenset(i for i, x in enumerate(spins) if row[x.columns[which]])


def _reaches(records: list[tuple[object, Record]], row: Matrix) -> frozenset[int]:
    """The accesses that a row knows to be over."""
    return frozenset(i for i, (_, r) in enumerate(records) if _over(r, row))


def _over(r: Record, row: Matrix) -> bool:
    if r.kind.asynchronous:
        return r.tag >= 0 and bool(row[r.tag] >= r.tag_value)
    return bool(row[r.cls] >= r.time)


__all__ = ["form", "summarise", "thresholds"]
