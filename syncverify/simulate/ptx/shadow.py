"""The last accesses to each byte, and whether a new one is ordered after them (RULES of races).

A granule is the smallest access that the text makes in a space (1, 2 or 4 bytes). For each: the last write,
and the reads since that no other read is ordered after, one as a number, several as arrays by thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from syncverify.simulate.ptx.clocks import HAPPENS_BEFORE, OF_ANY_SCOPE, READS, Clocks
from syncverify.simulate.ptx.types import Lanes

Index = Any  # a slice or an array of granules
_SEVERAL = np.int64(-1)
_LOW = np.int64(0xFFFFFFFF)
#: The strength of reductions by the async proxy: atomic among themselves, not with anything else.
REDUCTION = 15


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses in no order (or, ``stale``, ordered, but not through the proxies)."""

    position: int  # in the index of the new access
    agent: int  # of the earlier access
    line: int
    stale: bool
    earlier: str  # read or write


class Shadow:
    """``proxy``: the row of ``Clocks.know`` that a proxy fence for this space fills."""

    def __init__(self, clocks: Clocks, size: int, granule: int, proxy: int) -> None:
        self.clocks = clocks
        self.granule = granule
        self.proxy = proxy
        n = size // granule + 1
        self.wrote = np.zeros(n, np.int64)  # agent << 32 | epoch
        self.write_line = np.zeros(n, np.int32)
        self.write_strong = np.zeros(n, np.uint8)  # 0, or scope | log2(width) << 4
        self.read = np.zeros(n, np.int64)
        self.read_line = np.zeros(n, np.int32)
        self.read_strong = np.zeros(n, np.uint8)
        self.several: dict[
            int, dict[int, tuple[int, int, int]]
        ] = {}  # granule -> agent -> epoch, line, strong
        #: Whether a generic read (thread, epoch, line) had arrived before a clock: it needs no fence then.
        self.arrived: Callable[[int, int, int, Any], bool] | None = None
        #: What a discard destroyed, and nobody has written since; None before the first.
        self.discarded: npt.NDArray[np.bool_] | None = None
        self.place: npt.NDArray[np.int32] = np.zeros((2, 1), np.int32)  # by thread: block, cluster

    # -- what is known ------------------------------------------------------------------------------------

    def _unknown(
        self, packed: Lanes, rows: Any, know: Any, asynchronous: bool, reads: bool = False
    ) -> tuple[Lanes, Lanes | None]:
        """Which of these accesses are not ordered before, and which are not bridged. ``reads``: all are."""
        agent, epoch = packed >> 32, packed & _LOW
        if know is None:
            row = self.clocks.know
            bad = row[0][rows, agent] < epoch
            if reads:
                bad = bad & (row[READS][rows, agent] < epoch)
            if asynchronous:
                bad = bad & (self.clocks.generic[agent] | (row[OF_ANY_SCOPE][rows, agent] < epoch))
            stale = row[self.proxy][rows, agent] < epoch if asynchronous else None
        else:
            bad = know[0][agent] < epoch
            if reads:
                bad = bad & (know[READS][agent] < epoch)
            if asynchronous:
                bad = bad & (self.clocks.generic[agent] | (know[OF_ANY_SCOPE][agent] < epoch))
            stale = know[self.proxy][agent] < epoch if asynchronous else None
        if stale is not None:
            stale = stale & self.clocks.generic[agent]
        return bad, stale

    def _allowed(self, before: Lanes, strong: int, agent: Lanes, rows: Any) -> Lanes:
        """Morally strong pairs: both strong, each scope holds the other's thread, same bytes."""
        if strong == REDUCTION:
            return before == REDUCTION
        threads = self.clocks.threads
        other = np.minimum(agent, threads - 1)
        scope = np.minimum(before & 15, strong & 15)
        same_block = self.place[0][other] == self.place[0][rows]
        same_cluster = self.place[1][other] == self.place[1][rows]
        wide = (scope >= 3) | ((scope == 2) & same_cluster) | ((scope == 1) & same_block)
        return (before != 0) & wide & ((before >> 4) == (strong >> 4)) & (agent < threads)

    def _first(
        self,
        packed: Lanes,
        lines: Lanes,
        before: Lanes,
        rows: Any,
        know: Any,
        asynchronous: bool,
        strong: int,
        what: str,
        unchanged: Callable[[], Lanes] | None = None,
    ) -> Conflict | None:
        bad, stale = self._unknown(packed, rows, know, asynchronous, what == "read")
        if unchanged is not None and np.count_nonzero(bad):
            bad = bad & ~(unchanged() & (packed >> 32 < self.clocks.threads))
        if strong and np.count_nonzero(bad):
            bad = bad & ~self._allowed(before, strong, packed >> 32, rows)
        if np.count_nonzero(bad):
            at = int(np.flatnonzero(bad)[0])
            return Conflict(at, int(packed.flat[at]) >> 32, int(lines.flat[at]), False, what)
        if stale is not None and np.count_nonzero(stale):
            first = self._not_arrived(packed, lines, stale, know, what)
            if first is None:
                return None
            return Conflict(first, int(packed.flat[first]) >> 32, int(lines.flat[first]), True, what)
        return None

    def _not_arrived(self, packed: Lanes, lines: Lanes, stale: Lanes, know: Any, what: str) -> int | None:
        """The first of these accesses that needs a proxy fence."""
        places = np.flatnonzero(stale)
        if what == "write" or self.arrived is None or know is None:
            return int(places[0])
        answers: dict[tuple[int, int], bool] = {}
        for at in places.tolist():
            load = int(packed.flat[at]), int(lines.flat[at])
            if load not in answers:
                answers[load] = self.arrived(load[0] >> 32, load[0] & 0xFFFFFFFF, load[1], know)
            if not answers[load]:
                return at
        return None

    def _readers(
        self, index: Lanes, at: Lanes, rows: Any, know: Any, asynchronous: bool, strong: int
    ) -> Conflict | None:
        """Checks the granules that several threads have read."""
        flat = index.ravel()
        who = None if rows is None else np.broadcast_to(rows, index.shape).ravel()
        for position in np.flatnonzero(at):
            row = None if who is None else int(who[position])
            for agent, (epoch, line, how) in self.several[int(flat[position])].items():
                seen = self.clocks.know[:, row, agent] if know is None else know[:, agent]
                by = OF_ANY_SCOPE if asynchronous and not self.clocks.generic[agent] else HAPPENS_BEFORE
                if seen[by] < epoch and seen[READS] < epoch:
                    if strong and how and row is not None:
                        one = np.array([agent])
                        if self._allowed(np.array([how]), strong, one, np.array([row]))[0]:
                            continue
                    return Conflict(int(position), agent, line, False, "read")
                if asynchronous and self.clocks.generic[agent] and seen[self.proxy] < epoch:
                    if agent < self.clocks.threads and self.arrived is not None and know is not None:
                        if self.arrived(agent, epoch, line, know):
                            continue
                    return Conflict(int(position), agent, line, True, "read")
        return None

    # -- accesses -----------------------------------------------------------------------------------------

    def reads(
        self,
        index: Index,
        packed: Any,
        line: int,
        rows: Any,
        know: Any = None,
        asynchronous: bool = False,
        strong: int = 0,
    ) -> Conflict | None:
        """A read by ``packed`` (agent, epoch); what is known by ``rows`` of threads, or one ``know``."""
        wrote = self.wrote[index]
        if np.count_nonzero(wrote):
            found = self._first(
                wrote,
                self.write_line[index],
                self.write_strong[index],
                rows,
                know,
                asynchronous,
                strong,
                "write",
            )
            if found is not None:
                return found
        before = self.read[index]
        if np.count_nonzero(before):
            several = before == _SEVERAL
            bad, _ = self._unknown(np.where(several, 0, before), rows, know, False)
            again = (bad | several) & (before != packed)  # its own parts may read a byte again
            if np.count_nonzero(again):
                positions = np.flatnonzero(again)
                self._add_readers(index, positions, before, packed, line, strong)
                keep = before.copy()
                keep.flat[positions] = _SEVERAL
                fresh = np.broadcast_to(packed, before.shape).copy()
                fresh.flat[positions] = _SEVERAL
                self.read[index] = fresh
                self.read_line[index] = line
                self.read_strong[index] = strong
                self._collisions(index, fresh, packed, line, strong)
                return None
        self.read[index] = packed
        self.read_line[index] = line
        self.read_strong[index] = strong
        if not isinstance(index, slice):
            self._collisions(index, None, packed, line, strong)
        return None

    def _collisions(self, index: Index, meant: Lanes | None, packed: Any, line: int, strong: int) -> None:
        """Several lanes of one access may read one granule."""
        if isinstance(index, slice) or np.ndim(packed) == 0:
            return
        now = self.read[index]
        other = now != (packed if meant is None else meant)
        if not np.count_nonzero(other):
            return
        flat = index.ravel()
        who = np.broadcast_to(packed, index.shape).ravel()
        shared = np.isin(flat, flat[np.flatnonzero(other)])
        for position in np.flatnonzero(shared):
            granule, mine = int(flat[position]), int(who[position])
            entry = self.several.setdefault(granule, {})
            entry[mine >> 32] = (mine & 0xFFFFFFFF, line, strong)
            self.read[granule] = _SEVERAL

    def _add_readers(
        self, index: Index, positions: Lanes, before: Lanes, packed: Any, line: int, strong: int
    ) -> None:
        if isinstance(index, slice):
            flat = positions + index.start
        else:
            flat = index.ravel()[positions]
        olds = before.ravel()[positions].tolist()
        mines = np.broadcast_to(packed, before.shape).ravel()[positions].tolist()
        lines, strongs = self.read_line[flat].tolist(), self.read_strong[flat].tolist()
        several, mine = self.several, -1
        for granule, old, now, line_, strong_ in zip(flat.tolist(), olds, mines, lines, strongs, strict=True):
            if now != mine:
                mine, agent, access = now, now >> 32, (now & 0xFFFFFFFF, line, strong)
            entry = several.get(granule)
            if entry is None:
                entry = several[granule] = {}
            if old != _SEVERAL and old:
                entry.setdefault(old >> 32, (old & 0xFFFFFFFF, line_, strong_))
            entry[agent] = access

    def writes(
        self,
        index: Index,
        packed: Any,
        line: int,
        rows: Any,
        know: Any = None,
        asynchronous: bool = False,
        strong: int = 0,
        unchanged: Callable[[], Lanes] | None = None,
    ) -> Conflict | None:
        """A write; the reads before it that it is ordered after are forgotten.

        ``unchanged`` says which granules keep their contents: threads may write one value in any order.
        """
        wrote = self.wrote[index]
        if np.count_nonzero(wrote):
            found = self._first(
                wrote,
                self.write_line[index],
                self.write_strong[index],
                rows,
                know,
                asynchronous,
                strong,
                "write",
                unchanged,
            )
            if found is not None:
                return found
        before = self.read[index]
        if np.count_nonzero(before):
            several = before == _SEVERAL
            found = self._first(
                np.where(several, 0, before),
                self.read_line[index],
                self.read_strong[index],
                rows,
                know,
                asynchronous,
                strong,
                "read",
            )
            if found is not None:
                return found
            if np.count_nonzero(several):
                flat = np.arange(index.start, index.stop) if isinstance(index, slice) else index
                found = self._readers(flat, several, rows, know, asynchronous, strong)
                if found is not None:
                    return found
                for position in np.flatnonzero(several):
                    self.several.pop(int(flat.ravel()[position]), None)
            self.read[index] = 0
        self.wrote[index] = packed
        self.write_line[index] = line
        self.write_strong[index] = strong
        self._restore(index)
        return None

    # -- what was discarded -------------------------------------------------------------------------------

    def discard(self, index: Index) -> None:
        """Takes what was just written for destroyed."""
        if self.discarded is None:
            self.discarded = np.zeros(len(self.wrote), np.bool_)
        self.discarded[index] = True

    def _restore(self, index: Index) -> None:
        if self.discarded is not None:
            self.discarded[index] = False


class Writes(Shadow):
    """Who wrote which byte last, and nothing is a race: enough to tell whether a tensor map is stale."""

    def reads(self, *_access: Any, **_more: Any) -> Conflict | None:
        return None

    def writes(self, index: Index, packed: Any, line: int, *_access: Any, **_more: Any) -> Conflict | None:
        self.wrote[index] = packed
        self.write_line[index] = line
        self._restore(index)
        return None
