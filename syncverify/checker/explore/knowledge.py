"""States that know less than others: what fails from the one that knows more fails from the other too.

``knowledge`` takes the normal form apart: a key without ranks, and for each clock entry which thresholds it
has reached, each threshold by what holds it. Checks ask whether an entry has reached a threshold, and fail
where it has not; joins give an entry all that either has reached, and what is recorded later is above all of
today. So with equal keys, agents that do the same, and entries that reach thresholds only where those of the
other do, the one meets every failure of the other. Its shadow memory may hold more. ``lower`` makes a run
know no more than another did.

Requests for registers are no such checks: there an order that is known may do harm. Of them both must know
the same (no time of a request is put off, and no entry of a class is lowered). Nor are failures that
are lesser ones for what is not known (``demoted``), or that the end may excuse.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from syncverify.checker.barriers import Barrier, Phase
from syncverify.checker.clocks import PROGRESS, ROWS, E, Matrix
from syncverify.checker.engine import Run, Thread
from syncverify.checker.explore import tails
from syncverify.checker.explore.fork import flat
from syncverify.checker.explore.normal import Normal
from syncverify.checker.explore.thresholds import (
    ALL,
    ASKING,
    BRIDGED,
    COMPARED,
    NEVER,
    ONE_PROXY,
    ORDER,
    SEEN,
    Column,
)  # fmt: skip
from syncverify.checker.failure import Failure
from syncverify.checker.shadow import IN_FLIGHT, Record
from syncverify.diagnostics import Severity
from syncverify.model.proxies import Access

#: An entry that reaches nothing, and a limit that lowers nothing.
NOTHING, ANYTHING = -(1 << 31) + 1, (1 << 31) - 1
#: Groups of bulk copies and cp.asyncs that are committed and not known to be over, at most.
MOST_GROUPS = 8
#: A threshold: what asks for it, its column and value.
Asked = tuple[int, int, int]
#: The same by its column among those of the kind, and how many are below it there.
Place = tuple[int, int, int]
#: Bytes of a memory, the write there and the reads, as numbers of records.
Piece = tuple[int, int, int, int, tuple[int, ...]]
Reached = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Known:
    """``key``: equal where states may be compared. ``ranks``: for each kind of question, of each entry (rows)
    by column, how many thresholds it has reached. ``at``: the thresholds that the key names. ``records``: of
    accesses what tells them apart, and their thresholds."""

    key: Hashable
    ranks: tuple[npt.NDArray[np.int16], ...]
    at: tuple[Place, ...]
    pieces: tuple[Piece, ...]
    records: tuple[tuple[Hashable, tuple[Place, ...]], ...]

    def covers(self, other: Known) -> bool:
        """Whether whatever fails from the other state on fails from this one on."""
        if self.key != other.key or not self._fewer(self.at, other, other.at):
            return False
        pairs = matched(self, other)
        if pairs is None:
            return False
        here = [p for i, _ in pairs for p in self.records[i][1]]
        return self._fewer(here, other, [p for _, j in pairs for p in other.records[j][1]])

    def _fewer(self, at: Sequence[Place], other: Known, there: Sequence[Place]) -> bool:
        """Whether entries here reach thresholds only where those of the other state reach its own."""
        return len(at) == len(there) and not any(
            (self.reached(kind, at) & ~other.reached(kind, there)).any() for kind in ALL
        )

    def reached(self, kind: int, at: Sequence[Place]) -> Reached:
        found = np.array([p[1:] for p in at if p[0] == kind], dtype=np.intp).reshape(-1, 2)
        return self.ranks[kind][:, found[:, 0]] > found[:, 1]


def matched(mine: Known, other: Known, partly: bool = False) -> set[tuple[int, int]] | None:
    """For each access of the other state the one of mine that stands for it, byte by byte; None if one has
    none. ``partly``: as far as there are such."""
    if mine.pieces == other.pieces and [n for n, _ in mine.records] == [n for n, _ in other.records]:
        return {(i, i) for i in range(len(mine.records))}
    pairs: set[tuple[int, int]] = set()
    i = 0
    for memory, lo, hi, write, reads in other.pieces:
        while i < len(mine.pieces) and (mine.pieces[i][0], mine.pieces[i][2]) <= (memory, lo):
            i += 1
        at, j = lo, i
        while at < hi:
            held = mine.pieces[j] if j < len(mine.pieces) else None
            if held is None or held[0] != memory or held[1] >= hi or (held[1] > at and not partly):
                if partly:
                    break
                return None
            if write >= 0 and held[3] >= 0 and mine.records[held[3]][0] == other.records[write][0]:
                pairs.add((held[3], write))
            elif write >= 0 and not partly:
                return None
            there = {mine.records[r][0]: r for r in held[4]} if reads else {}
            if len(there) < len(held[4]) and reads and not partly:
                return None
            for r in reads:
                found = there.get(other.records[r][0])
                if found is not None:
                    pairs.add((found, r))
                elif not partly:
                    return None
            at = held[2]
            j += 1
    return pairs


def knowledge(run: Run) -> Known | None:
    """What a run knows; None where states are not compared so."""
    if run.grid_waits or run.early or run.info.edits_maps or any(True for _ in tails.pending(run)):
        return None
    return _Loose(run).known()


def lower(run: Run, less: Known) -> None:
    """Makes a run know no more than another with the same key did, of all that both have on record.

    Times that fewer are to know of are put off; of other columns the entries are lowered.
    """
    loose = _Loose(run, everything=True)
    mine = loose.known()
    if mine is None or mine.key != less.key:
        return
    asked: list[tuple[Asked, Place, object]] = [
        (x, place, w) for x, place, w in zip(loose.held, less.at, loose.holders, strict=True)
    ]
    for i, j in sorted(matched(less, mine, partly=True) or ()):
        these = zip(loose.of_records[j], less.records[i][1], strict=True)
        asked += [(x, place, loose.seen[j]) for x, place in these]
    change = _Change(loose)
    for kind in ALL:
        entries, limit = loose.entries_of(kind), change.limits[kind]
        wanted = [a for a in asked if a[0][0] == kind]
        missing = ~less.reached(kind, [place for _, place, _ in wanted])
        for k, ((_, column, value), _, holder) in enumerate(wanted):
            rows = missing[:, k] & (entries[:, column] >= value)
            if rows.any() and column < run.columns.classes:
                later = change.put_off(column, holder, int(entries[rows, column].max()) + 1)
                if kind != ORDER:  # what is known of requests stays
                    limit[rows, column] = np.minimum(limit[rows, column], later - 1)
            elif rows.any():
                limit[rows, column] = np.minimum(limit[rows, column], value - 1)
    change.all(run)


def demoted(f: Failure) -> bool:
    """Whether a failure is a lesser one for what is not known: two stores of one value."""
    return f.rule == "SV112" and f.severity != Severity.ERROR


class _Change:
    """What makes a run know less: limits of its matrices, and times that are put off."""

    def __init__(self, loose: _Loose) -> None:
        self.run = loose.run
        self.times: dict[tuple[int, int], int] = {}  # by class and by identity of what holds it
        self.limits = [np.full(loose.entries_of(k).shape, ANYTHING, dtype=np.int32) for k in ALL]
        self.at: dict[int, list[tuple[int, ...]]] = {}  # where the rows of a matrix are among all
        starts = [0] * len(ALL)
        for m in loose.originals:
            rows = [len(ASKING[kind]) if m.ndim == 2 else int(kind == ORDER) for kind in ALL]
            self.at.setdefault(id(m), []).append(tuple(starts))
            starts = [a + b for a, b in zip(starts, rows, strict=True)]

    def put_off(self, cls: int, holder: object, new: int) -> int:
        """A time of a class, never beyond what it has come to; returns that."""
        key = cls, id(holder)
        self.times[key] = max(min(new, self.run.threads[cls].time), self.times.get(key, 0))
        return self.times[key]

    def later(self, times: dict[int, int]) -> dict[int, int]:
        return {c: max(time, self.times.get((c, id(times)), 0)) for c, time in times.items()}

    def less(self, m: Matrix) -> Matrix:
        """A copy of a matrix or a row with its entries lowered."""
        new = m.copy()
        for starts in self.at.get(id(m), ()):
            for kind in ALL if m.ndim == 2 else (ORDER,):
                rows: Any = ASKING[kind] if m.ndim == 2 else slice(None)
                count = len(ASKING[kind]) if m.ndim == 2 else 1
                limit = self.limits[kind][starts[kind] : starts[kind] + count]
                new[rows] = np.minimum(new[rows], limit if m.ndim == 2 else limit[0])
        return new

    def all(self, run: Run) -> None:
        for t in run.threads:
            t.clock.m[:] = self.less(t.clock.m)  # in place: what a lane knows of itself is a part of it
            t.release_fence = None if t.release_fence is None else self.less(t.release_fence)
            t.acquirable = None if t.acquirable is None else self.less(t.acquirable)
        for s in run.barriers.values():
            s.phases = [*(self.phase(p) for p in s.phases[:COMPARED]), *s.phases[COMPARED:]]
            s.final_waits = self.later(s.final_waits)
        for n in (*run.named.values(), *run.clusters.values()):
            for g in (n.gen, *getattr(n, "partial", {}).values()):
                g.m, g.con, g.previous = self.less(g.m), self.later(g.con), self.later(g.previous)
        self.accesses(run)

    def phase(self, p: Phase) -> Phase:
        far = None if p.far is None else self.less(p.far)
        new: Phase = flat(p, m=self.less(p.m), tx=self.less(p.tx), far=far, con=self.later(p.con))
        return new

    def accesses(self, run: Run) -> None:
        """Puts copies in place of accesses whose times are put off."""
        copies: dict[int, Record] = {}

        def new(r: Record) -> Record:
            time = self.times.get((r.cls, id(r)), 0)
            if time <= r.time:
                return r
            if id(r) not in copies:
                copies[id(r)] = flat(r, time=time, used=max(r.used, time) if r.used > 0 else r.used)
            return copies[id(r)]

        for shadow in run.memory.values():
            for s in shadow._segments:
                s.write = None if s.write is None else new(s.write)
                s.reads = {key: new(r) for key, r in s.reads.items()}
        for t in run.threads:
            t.registers = {key: new(r) for key, r in t.registers.items()}
            t.unsure = {key: new(r) for key, r in t.unsure.items()}


class _Loose(Normal):
    """The normal form with names of thresholds instead of ranks. ``everything``: with the accesses of which
    all agents know."""

    def __init__(self, run: Run, everything: bool = False) -> None:
        self.everything = everything
        super().__init__(run)
        self.held: list[Asked] = []  # thresholds that the key names
        self.requests: list[Asked] = []  # those of requests
        self.asks = False
        self.many = False
        self.of_records: list[list[Asked]] = []
        self.originals: list[Matrix] = []  # of the matrices
        self.seen: list[Record] = []  # accesses, by number
        self.holders: list[object] = []  # of the thresholds, where they can be put off
        self.holder: object = None

    def known(self) -> Known | None:
        key = self.form()
        for t in self.run.threads if self.run.ctas > 1 else ():
            self.at(t.cls, 1)  # whether it is known to run
        if self.many:
            return None
        number = {
            (kind, c): (i, self.places[kind, c]) for kind in ALL for i, c in enumerate(self.order(kind))
        }

        def place(asked: Asked) -> Place:
            kind, column, value = asked
            i, places = number[kind, column]
            return kind, i, places[value][1]

        pieces, names = self.memory()
        ranks = tuple(map(self.reached, ALL))
        return Known(
            (key, self.of_requests()),
            ranks,
            tuple(map(place, self.held)),
            pieces,
            tuple((n, tuple(map(place, of))) for n, of in zip(names, self.of_records, strict=True)),
        )

    def of_requests(self) -> bytes:
        """Which entries have reached the times of requests."""
        rows = self.entries_of(ORDER)
        return b"".join(np.packbits(rows[:, c] >= v).tobytes() for _, c, v in self.requests)

    def memory(self) -> tuple[tuple[Piece, ...], list[Hashable]]:
        """The bytes of all memories by what they hold, and what tells the accesses from each other."""
        pending = {id(r): reg for t in self.run.threads for reg, r in t.registers.items() if not r.used}
        numbers: dict[int, int] = {}
        names: list[Hashable] = []

        def numbered(r: Record | None) -> int:
            if r is None:
                return -1
            found = numbers.get(id(r))
            if found is None:
                found = numbers[id(r)] = len(names)
                self.seen.append(r)
                of = [*thresholds_of(self, r)]
                names.append(self.apart(r, of, pending))
                self.of_records.append(of)
            return found

        pieces: list[Piece] = []
        held_as: dict[int, tuple[int, tuple[int, ...]]] = {}
        for memory, segments in self.shadows.items():
            for lo, hi, what in segments:
                held = held_as.get(id(what))
                if held is None:
                    write, reads = what
                    held = held_as[id(what)] = numbered(write), tuple(sorted(numbered(r) for _, r in reads))
                last = pieces[-1] if pieces else None
                if last is not None and (last[0], last[2], *last[3:]) == (memory, lo, *held):
                    pieces[-1] = (memory, last[1], hi, *held)
                else:
                    pieces.append((memory, lo, hi, *held))
        return tuple(pieces), names

    # ------------------------------------------------------------ what the form is made of

    def settled(self, r: Record) -> bool:
        return not self.everything and super().settled(r)

    def leaves_knowing(self, column: int, cta: int, value: int) -> bool:
        return False

    def at(self, column: int, value: int, kind: int = ORDER) -> tuple[Column, int]:
        (self.requests if self.asks else self.held).append((kind, column, value))
        if not self.asks:
            self.holders.append(self.holder)
        return self.name(column), 0

    def ranks(self, times: dict[int, int]) -> Hashable:
        self.holder = times
        for column in sorted(times, key=self.name):
            self.at(column, times[column])
        self.holder = None
        return frozenset(map(self.name, times))

    def keep(self, m: Matrix | None) -> int:
        if m is not None:
            self.originals.append(m)
        return super().keep(m)

    def ranked(self) -> bytes:
        return b""

    def merged(self, memory: int, segments: Any, pending: dict[int, int]) -> list[Hashable]:
        return []

    def entry(self, values: dict[int, Any]) -> Hashable:
        """Takes the rows of single columns into the form."""
        m = np.full((ROWS, self.run.columns.capacity), NOTHING, dtype=np.int32)
        for column, v in values.items():
            m[:, column] = v
        return self.keep(m), tuple(sorted(map(self.name, values)))

    def wait(self, numbers: dict[int, int]) -> Hashable:
        """The same for what a wait for groups makes known."""
        found = {}
        for column, value in numbers.items():
            found[column] = np.full(ROWS, NOTHING, dtype=np.int32)
            found[column][PROGRESS] = value
        return self.entry(found)

    def request(self, r: Any) -> Hashable:
        self.asks = True
        try:
            return super().request(r)
        finally:
            self.asks = False

    def own(self, t: Thread) -> Hashable:
        return self.entry(dict(t.clock.own)) if t.clock.multi else ()

    def groups(self, t: Thread) -> Hashable:
        out: list[Hashable] = []
        for kinds, groups in ((("bulk.read", "bulk.full"), t.bulk), (("cp",), t.cp)):
            columns = [t.columns[k] for k in kinds if k in t.columns]
            over = {c: t.clock.knows(E, c, True) for c in columns}
            now = [self.number(c, k) for c, k in over.items()]
            # a wait that reaches no further threshold cannot be told from none
            ahead = [
                x
                for x in reversed(groups.committed)
                if [self.number(c, max(x, k)) for c, k in over.items()] != now
            ]
            self.many |= len(ahead) > MOST_GROUPS
            rest = MOST_GROUPS - len(ahead)
            left = {c: [max(x, k) for x in (*ahead, *[k] * rest, groups.issued)] for c, k in over.items()}
            waits = [self.wait({c: v[i] for c, v in left.items()}) for i in range(MOST_GROUPS + 1) if left]
            out.append((tuple(waits), groups.issued > 0, self.open(groups.committed, groups.issued)))
        for kind, groups in (("bulk.read", t.bulk), ("mma", t.mma)):
            if groups.issued and kind in t.columns:
                out.append(self.at(t.columns[kind], groups.issued))
        column = t.columns.get("mma", -1)
        if column >= 0:
            base = self.base(t)
            committed = [x for x in t.mma.committed if x > base]
            waited = t.clock.knows(E, column, True) - base
            pasts = tuple(self.keep(m) for m in t.issues[base:])
            out.append((t.mma.issued - base, tuple(x - base for x in committed), waited, base > 0, pasts))
            out.append(tuple(self.wait({column: x}) for x in committed))
            out.append(tuple((f, self.at(column, s[0]), s[1]) for f, s in sorted(t.fragments.items())))
        return tuple(out)

    def barrier(self, s: Barrier) -> Hashable:
        column = -1 if self.dead(s) else self.index.get(("init", s.init_cls), -1)
        return super().barrier(s), self.at(column, s.init_time, SEEN) if column >= 0 else None

    def named(self, n: Any) -> Hashable:
        return super().named(n), self.at(n.column, n.auto.generation)

    def cluster(self, c: Any) -> Hashable:
        return super().cluster(c), self.at(c.column, c.auto.generation)

    def phase(self, p: Phase, back: int) -> Hashable:
        if back:
            return super().phase(p, back)
        expects = tuple((self.at(e.cls, e.time), e.bytes) for e in p.expects)
        completions = tuple((n, self.keep(past)) for n, past, _, _ in p.completions)
        quiet = tuple((self.at(q[0], q[1]), q[3]) for q in p.quiet)
        kept = (expects, completions, quiet, p.sum_expect, p.sum_complete, p.drained, self.keep(p.tx))
        return (self.keep(p.m), self.keep(p.far), self.ranks(p.con), p.asynchronous, kept)

    def apart(self, r: Record, of: Iterable[Asked], pending: dict[int, int]) -> Hashable:
        """What tells an access from others."""
        fence = r.kind == Access.GENERIC_READ and self.fence_after(r) < NEVER
        used = 0 if r.used > 0 else (-1, pending.get(id(r), r.used))
        flight = r.kind.asynchronous and r.tag_value >= IN_FLIGHT
        columns = tuple((kind, self.name(c)) for kind, c, _ in of)
        flags = (r.column >= 0, r.atomic, r.lane_free, r.beside, r.scope, r.barrier, fence, used, flight)
        tagged = self.name(r.tag) if r.tag >= 0 else None
        return (int(r.kind), r.cls, r.fp, r.site, tagged, columns, flags)


def thresholds_of(loose: Normal, r: Record) -> Iterator[Asked]:
    """What is asked of an access, in an order of its own."""
    if not r.kind.asynchronous:
        for column in (r.cls, r.column) if r.column >= 0 else (r.cls,):
            yield SEEN, column, r.time
            yield BRIDGED, column, r.time
    if r.used > 0:
        yield SEEN, r.cls, r.used
    if r.kind == Access.GENERIC_READ and loose.fence_after(r) < NEVER:
        yield SEEN, r.cls, loose.fence_after(r)
    if r.kind.asynchronous and r.tag_value < IN_FLIGHT and r.tag >= 0:
        more = loose.siblings(r.cls) if r.kind == Access.MMA_READ else []
        for column in (r.tag, *more):
            for kind in (SEEN,) if r.kind in ONE_PROXY else (SEEN, BRIDGED):
                yield kind, column, r.tag_value


__all__ = ["Known", "demoted", "knowledge", "lower"]
