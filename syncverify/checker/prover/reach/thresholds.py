"""What later comparisons ask of a run's clocks: its thresholds, and how many of them each entry has reached.

A comparison asks of some rows only: whether something comes before in every execution of ``E``, whether an
access is ordered before of ``H`` and its like, whether it is bridged of ``A`` and its like. A fence joins the
second to the third, so what is asked of the third is asked of the second too; nothing goes any other way.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from syncverify.checker.happens_before import flag_state
from syncverify.checker.happens_before.handlers.accesses import mma_siblings, product_after
from syncverify.checker.happens_before.handlers.execution_barriers import Generation
from syncverify.checker.happens_before.handlers.mbarriers import Barrier
from syncverify.checker.happens_before.run import LATER, LaneClass, Run
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record, Segment
from syncverify.checker.happens_before.vector_clocks import AG, HW, ROWS, SA, SG, SH, SP, XG, A, E, H, Matrix
from syncverify.checker.prover.reach.state import cluster_effects, flag_chain_state, tensor_map_state
from syncverify.model.events import GLOBAL_MEMORY
from syncverify.model.ordering import ORDERINGS, Need
from syncverify.model.proxies import Access

#: The name of a column: one text for each, for these are hashed once.
Column = str
#: The write and the reads of a segment of the shadow that matter; one object for segments that hold the same.
Held = tuple[Record | None, tuple[tuple[bool, Record], ...]]
#: Such a segment: its bytes, and what they hold.
Kept = tuple[int, int, Held]
Ranks = npt.NDArray[np.int16]
#: Asynchronous accesses that need no fence once they are complete.
ONE_PROXY = frozenset(
    f for f in Access if all(o.need != Need.COMPLETION_BRIDGE for (g, _), o in ORDERINGS.items() if f == g)
)
#: What is asked of clocks, and of which of their rows: whether something comes before in every execution,
#: whether an access is ordered before, whether it is bridged to the other proxy.
ORDER, SEEN, BRIDGED = ALL = range(3)
ROWS_OF = ([E], [H, SH, HW], [A, SA, AG, SP, SG, XG])
#: Time of a fence that has yet to come.
NEVER = 1 << 30
#: Of complete phases the last one is joined by waits; of the one before only its contributors are compared.
COMPARED = 3


_NAMES: dict[tuple[Any, ...], Column] = {}


class Thresholds:
    """The thresholds of a run, and the matrices whose entries are ranked among them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.index = run.columns._index
        self.failing = {f.barrier for f in run.failures.values()}
        self.names: dict[int, Column] = {t.cls: self.named_by_age(("class", t.cls)) for t in run.threads}
        self.names |= {column: self.named_by_age(key) for key, column in self.index.items()}
        #: by what asks for them (an index of ``ROWS_OF``) and column
        self.thresholds: dict[tuple[int, int], set[int]] = {}
        self.sorted: dict[tuple[int, int], list[int]] = {}
        self.places: dict[tuple[int, int], dict[int, tuple[Column, int]]] = {}
        self.strict_rows: dict[int, list[int]] = {}
        self.marked: set[tuple[int, int]] = set()  # warpgroups, and numbers of their groups of wgmmas
        self.matrices: list[Matrix] = []  # whole matrices and single rows, ranked in one go at the end
        #: what every thread that is left knows
        left = [t.clock.m for t in run.threads if not t.done and t.waits_on != LATER]
        left = left or [t.clock.m for t in run.threads]
        self.least: list[list[int]] = np.min(left, axis=0).tolist()
        self.shadows = {m: [*self.segments(m, s._segments)] for m, s in sorted(run.memory.items())}

    # ------------------------------------------------------------ thresholds

    def mark(self, column: int, value: int, *kinds: int) -> None:
        """A value that rows of clocks are asked for: those of ``kinds``, or of orders."""
        for kind in kinds or (ORDER,) if column >= 0 else ():
            self.thresholds.setdefault((kind, column), set()).add(value)

    def times(self, times: Iterable[tuple[int, int]]) -> None:
        for column, value in times:
            self.mark(column, value)

    def collect(self) -> None:
        """All thresholds of the run, then their ranks."""
        self._accesses()
        self._barriers()
        self._hand_overs()
        for t in self.run.threads:
            if not self.run.gone(t):
                self._groups_of(t)
        for t in self.run.threads if self.run.ctas > 1 else ():
            self.mark(t.cls, 1)  # whether it is known to run
        for key, values in self.thresholds.items():
            name = self.name(key[1])
            self.sorted[key] = ranked = sorted(values)
            self.places[key] = {value: (name, i) for i, value in enumerate(ranked)}

    def _accesses(self) -> None:
        """Of the records of the shadow memory, each once."""
        seen: dict[Record, None] = {}
        for write, reads in {held: None for kept in self.shadows.values() for _, _, held in kept}:
            seen |= dict.fromkeys(r for r in (write, *(r for _, r in reads)) if r is not None)
        for r in seen:
            self.access(r)

    def _barriers(self) -> None:
        """Of mbarriers, named barriers, cluster barriers and requests for registers."""
        run = self.run
        for s in run.barriers.values():
            self.barrier_thresholds(s)
        for n in run.named.values():
            self.mark(n.column, n.auto.generation)
            for gen in (n.gen, *n.partial.values()):
                self._generation(gen)
        for c in run.clusters.values():
            self.mark(c.column, c.auto.generation)
            for gen in (c.gen, c.last):
                if gen is not None:
                    self._generation(gen)
        for request in run.requests:
            self.times(request.times.items())

    def _generation(self, gen: Generation) -> None:
        self.times(gen.con.items())
        self.times(gen.previous.items())

    def _hand_overs(self) -> None:
        """Of other blocks, global memory, flags and what clusters of a block group have done."""
        run = self.run
        for (cls, _), use in run.remote_uses.items():
            self.mark(cls, use[0], *ALL)
        for cls, value in (*run.grid_waits, *tensor_map_state.thresholds(run)):
            self.mark(cls, value, *ALL)
        for (column, _), value in self.landed().items():
            self.mark(column, value)
        for cls, value in flag_state.thresholds(run):
            self.mark(cls, value, ORDER, SEEN)
        for handed in flag_chain_state.thresholds(run, ROWS_OF):
            self.mark(*handed)
        for step in cluster_effects.thresholds(run):
            self.mark(*step)
        for r in run.reached.values():
            self.over(r, self.mark)

    def _groups_of(self, t: LaneClass) -> None:
        """Of the groups of bulk copies and of wgmmas that a class has issued."""
        for kind, groups in (("bulk.read", t.bulk), ("mma", t.mma)):
            if groups.issued and kind in t.columns:
                self.mark(t.columns[kind], groups.issued)
        for state in t.fragments.values():
            self.mark(t.columns.get("mma", -1), state[0])

    def access(self, r: Record) -> None:
        if not r.kind.asynchronous:
            self.mark(r.cls, r.time, SEEN, BRIDGED)
            self.mark(r.column, r.time, SEEN, BRIDGED)
        if r.used > 0:
            self.mark(r.cls, r.used, SEEN)
        if r.kind == Access.GENERIC_READ:
            self.mark(r.cls, self.fence_after(r), SEEN)
            for column, number in self.products_after(r):
                self.mark(column, number, SEEN)
        if r.kind.asynchronous and r.tag_value < IN_FLIGHT:
            one = r.kind in ONE_PROXY and self.run.info.footprints[r.fp].memory != GLOBAL_MEMORY
            kinds = (SEEN,) if one else (SEEN, BRIDGED)
            self.mark(r.tag, r.tag_value, *kinds)
            group = self.run.warpgroups[r.cls][0], r.tag_value
            if r.kind == Access.MMA_READ and group not in self.marked:
                self.marked.add(group)  # all classes of a warpgroup are asked alike
                for column in self.siblings(r.cls):
                    self.mark(column, r.tag_value, *kinds)

    def over(self, r: Record, at: Callable[[int, int, int], Hashable]) -> Hashable:
        """What shows that an access is over, and bridged: asked of what signals hand on."""
        column, value = (r.tag, r.tag_value) if r.kind.asynchronous else (r.cls, r.time)
        return None if column < 0 else (at(column, value, SEEN), at(column, value, BRIDGED))

    def siblings(self, cls: int) -> list[int]:
        """The columns of wgmmas of a class's warpgroup."""
        found = self.strict_rows.get(cls)
        if found is None:
            found = self.strict_rows[cls] = mma_siblings(self.run, cls)
        return found

    def products_after(self, r: Record) -> list[tuple[int, int]]:
        """The wgmma that its author issued after a read, as each class of the warpgroup counts them."""
        number, _ = product_after(self.run, r)
        return [(column, number) for column in self.siblings(r.cls)] if number else []

    def fence_after(self, r: Record) -> int:
        fences = self.run.threads[r.cls].fences
        i = bisect_right(fences, r.time)
        return fences[i] if i < len(fences) else NEVER

    def dead(self, s: Barrier) -> bool:
        """Whether all that can follow is a new life, or a failure."""
        return not s.auto.live and not s.blocked and s.index not in self.failing

    def barrier_thresholds(self, s: Barrier) -> None:
        if self.dead(s):
            return
        for value in counts(s):
            self.mark(s.column, value)
        for cls, time in ((s.init_cls, s.init_time), *s.duplicate_inits):
            self.mark(cls, time, SEEN)
            self.mark(self.index.get(("init", cls), -1), time, SEEN)
        for p in s.phases[:COMPARED]:
            self.times(p.con.items())
        p = s.phases[0]
        self.times((e.cls, e.time) for e in p.expects)
        self.times((q[0], q[1]) for q in p.quiet)
        self.times((cls, w[0]) for cls, w in s.waits.items())
        self.times((cls, u[0]) for cls, u in s.last_use.items())
        self.times(s.final_waits.items())

    def landed(self) -> dict[tuple[int, int], int]:
        """The newest completion that each CTA must know of when it leaves, by column; none that it will."""
        return {key: value for key, value in self.run.landed.items() if not self.leaves_knowing(*key, value)}

    def unseen(self) -> list[tuple[int, int, int]]:
        """The same as CTA, column and value, in an order that does not depend on the run."""
        found = [(cta, column, value) for (column, cta), value in self.landed().items()]
        return sorted(found, key=lambda x: (x[0], self.name(x[1])))

    def leaves_knowing(self, column: int, cta: int, value: int) -> bool:
        """Whether some thread of a CTA, gone or not, knows of a completion in every execution."""
        gone = self.run.exits.get(cta)
        return (gone is not None and bool(gone[column] >= value)) or any(
            t.info.cta == cta and not t.done and t.clock.m[E, column] >= value for t in self.run.threads
        )

    def named_by_age(self, key: tuple[Any, ...]) -> Column:
        """The name of a column: that of a barrier's life says how many lives ago it was."""
        if key[0] == "bar":
            born = key[2] if len(key) > 2 else 0
            barrier = self.run.barriers.get(key[1])  # columns are shared with runs that have come further
            key = "bar", key[1], max(barrier.inits - 1 if barrier else 0, 0) - born
        found = _NAMES.get(key)
        if found is None:
            found = _NAMES[key] = " ".join(map(str, key))
        return found

    def name(self, column: int) -> Column:
        return self.names[column]

    # ------------------------------------------------------------ ranks

    def rank(self, column: int, value: int, kind: int) -> int:
        return bisect_right(self.sorted.get((kind, column), ()), value)

    def number(self, column: int, value: int) -> tuple[int, int]:
        """What a wait for a group makes known."""
        return self.rank(column, value, ORDER), self.rank(column, value, SEEN)

    def key_threshold(self, column: int, value: int, kind: int = ORDER) -> tuple[Column, int]:
        """A threshold by its rank."""
        return self.places[kind, column][value]

    def everywhere(self, column: int, value: int) -> Hashable:
        """A threshold by its ranks for all kinds of questions."""
        return tuple(self.key_threshold(column, value, kind) for kind in ALL)

    def ranks(self, times: dict[int, int]) -> Hashable:
        return frozenset([self.key_threshold(c, v) for c, v in times.items()])

    def keep(self, m: Matrix | None) -> int:
        """Takes a matrix or a row into the form; its ranks are computed with all others."""
        if m is None:
            return -1
        self.matrices.append(m if m.ndim == 2 else m[None, :])
        return len(self.matrices) - 1

    def reached(self, kind: int) -> Ranks:
        """How many thresholds each entry has reached, by column."""
        whole = self.entries_of(kind)
        order = self.order(kind)
        out = np.zeros((len(whole), len(order)), dtype=np.int16)
        for i, column in enumerate(order):
            out[:, i] = np.searchsorted(self.sorted[kind, column], whole[:, column], side="right")
        return out

    def ranked(self) -> bytes:
        digest = hashlib.blake2b(digest_size=20)
        for kind in ALL:
            digest.update(self.reached(kind).tobytes())
            digest.update(repr([self.name(c) for c in self.order(kind)]).encode())
        return digest.digest()

    def order(self, kind: int) -> list[int]:
        """The columns with thresholds."""
        return sorted((c for k, c in self.sorted if k == kind), key=self.name)

    def entries_of(self, kind: int) -> Matrix:
        """Of all matrices the rows that are asked for thresholds of a kind."""
        rows = ROWS_OF[kind]
        found = [m[rows] if len(m) == ROWS else m[: kind == ORDER] for m in self.matrices]
        return np.concatenate(found) if found else np.zeros((0, self.run.columns.capacity), dtype=np.int32)

    # ------------------------------------------------------------ shadow memory

    def segments(self, memory: int, segments: Iterable[Segment]) -> Iterator[Kept]:
        """The segments, with those of their accesses that something may still fail against."""
        known: dict[Record, bool] = {}

        def matters(r: Record) -> bool:
            found = known[r] = memory == GLOBAL_MEMORY or not (self.of_barrier(r) or self.known_everywhere(r))
            return found

        alike: dict[tuple[Any, ...], Held] = {}
        for s in segments:
            reads = s.reads
            what = (s.write, *reads.values(), *[key[2] for key in reads])
            held = alike.get(what)
            if held is None:
                w = s.write
                write = w if w is not None and (known[w] if w in known else matters(w)) else None
                kept = [
                    (key[2] >= 0, r) for key, r in reads.items() if (known[r] if r in known else matters(r))
                ]
                held = write, tuple(kept)
                held = alike[what] = alike.setdefault((write, *kept), held)
            if held[0] is not None or held[1]:
                yield s.lo, s.hi, held

    def of_barrier(self, r: Record) -> bool:
        """Whether an access is the init of a barrier that never ends: data over its bytes is no proof."""
        if r.barrier < 0 or self.run.info.ends_barriers or not self.run.options.refined_comparison:
            return False
        s: Barrier = self.run.barriers[r.barrier]
        return s.auto.live

    def known_everywhere(self, r: Record) -> bool:
        """Whether every thread knows of an access, in every row that any pair of accesses is judged by."""
        least = self.least
        if r.kind.asynchronous:
            if r.tag < 0 or r.tag_value >= IN_FLIGHT:
                return False
            tag, value = r.tag, r.tag_value
            if least[H][tag] < value or least[SH][tag] < value:
                return False
            return r.kind in ONE_PROXY or (least[A][tag] >= value and least[SA][tag] >= value)
        column = r.cls if r.column < 0 else r.column
        ordered = least[H][r.cls] >= r.time and least[SH][r.cls] >= r.time
        return ordered and least[A][column] >= r.time and least[SA][column] >= r.time


def counts(s: Barrier) -> tuple[int, ...]:
    """Numbers of phases that the knowledge of agents is compared with."""
    return (s.auto.phase - 1, s.auto.phase, s.async_phase + 1, s.last_waited + 1)


__all__ = [
    "ALL",
    "BRIDGED",
    "COMPARED",
    "NEVER",
    "ONE_PROXY",
    "ORDER",
    "ROWS_OF",
    "SEEN",
    "Thresholds",
    "counts",
]
