"""The canonical state of a run in two parts: a key, and the thresholds that each clock entry has reached.

A threshold is named by what holds it (the last use of a barrier, a read, a wait), not by a rank. So the
knowledge of two runs with one key can be compared: see ``knowledge_order``.

- A run with ``weak_completion_knowledge`` needs fewer thresholds: none for the times of contributors, for
  last uses or last waits.
- What only some runs with a key have (idle barriers, groups of bulk copies) is not in the key. It is listed
  by name, as an optional threshold.
- A run with ``refined_comparison`` lists who has waited in the same way, and says less of inits and of
  requests for registers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from syncverify.checker.happens_before.handlers.async_operations import uncompared_operands
from syncverify.checker.happens_before.handlers.execution_barriers import Generation, Named
from syncverify.checker.happens_before.handlers.mbarriers import (
    Barrier,
    Phase,
    awaits_duplicate_inits,
    init_known,
)
from syncverify.checker.happens_before.run import LaneClass, Run
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record
from syncverify.checker.happens_before.vector_clocks import PROGRESS, ROWS, A, E, H, Matrix
from syncverify.checker.prover.reach.state import cluster_effects, tensor_map_state
from syncverify.checker.prover.reach.state.canonical_state import (
    CanonicalState,
    assert_between_steps,
    open_accesses,
    sites,
)
from syncverify.checker.prover.reach.state.collectives import executed_by_part
from syncverify.checker.prover.reach.state.phase_tokens import age_of, point, relative_event, waits_on
from syncverify.checker.prover.reach.strict_findings import strict_findings
from syncverify.checker.prover.reach.thresholds import BRIDGED, NEVER, ONE_PROXY, ORDER, SEEN, Column
from syncverify.model.events import GLOBAL_MEMORY
from syncverify.model.proxies import Access
from syncverify.symbolic.context import NotConcrete

#: An entry that reaches nothing.
NOTHING = -(1 << 31) + 1
#: The rows of a matrix that questions of each kind ask.
SLICES = (slice(E, E + 1), slice(H, A), slice(A, ROWS))
#: Groups of bulk copies and cp.asyncs that are committed and not known to be over, at most.
MOST_GROUPS = 8
#: A threshold: what asks for it, its column and value.
Asked = tuple[int, int, int]
#: The same as the kind and its number among those of the kind.
Place = tuple[int, int]
#: Columns of an access's thresholds by name, and these thresholds.
AskedOf = tuple[tuple[Column, ...], tuple[Place, ...]]
#: Bytes of a memory, the write there and the reads, as numbers of records.
Piece = tuple[int, int, int, int, tuple[int, ...]]


class ThresholdAbstraction(CanonicalState):
    """The parts of one run. ``everything``: with the accesses of which all agents know."""

    def __init__(self, run: Run, everything: bool = False) -> None:
        self.everything = everything
        super().__init__(run)
        self.asked: tuple[dict[tuple[int, int], int], ...] = ({}, {}, {})  # by kind: column, value -> number
        self.listed: list[list[tuple[int, int]]] = [[], [], []]  # the same in order
        self.key_thresholds: list[Place] = []  # thresholds that the key names
        self.optional_thresholds: dict[Hashable, Place] = {}  # thresholds that not all runs with the key have
        self.requests: list[tuple[int, int]] = []  # thresholds of requests
        self.of_requests: list[int] = []  # their rows, by number
        self.asks = False
        self.effect_thresholds: tuple[dict[Place, int], ...] = ({}, {}, {})  # by kind: thresholds of ledgers
        self.effect_log: tuple[npt.NDArray[np.uint8], ...] = ()  # of each kind which rows have reached which
        self.ledgers: list[Matrix] = []  # what is asked for these only
        self.monotone_counters: list[int] = []  # numbers of which more is worse
        self.matrices: list[Matrix] = []  # whole matrices, in order; then single rows
        self.rows: list[Matrix] = []
        self.waits: dict[Hashable, Matrix] = {}  # what waits for groups make known
        self.stacked: Matrix | None = None  # whole matrices and those of waits, once all are there
        self.records: list[tuple[Hashable, tuple[Place, ...]]] = []
        self.seen: list[Record] = []  # accesses, by number
        self.of_products: dict[Hashable, tuple[tuple[int, int], tuple[Hashable, ...], tuple[Place, ...]]] = {}
        self.of_siblings: dict[tuple[int, int], tuple[list[int], AskedOf]] = {}
        self.pieces: tuple[Piece, ...] = ()
        self.accesses = 0  # distinguishes what is on record, and where
        self.known_to_all: Matrix = np.array(self.least, dtype=np.int32)
        self.key: Hashable = None
        self.too_many_open_groups = False
        self.warned = strict_findings(run)
        # sites of racing pairs that may hide others
        self.sites_of_reported_pairs = {
            x if x >= 0 else -1 - x for *pair, strict in run.judged if not strict for x in pair
        }

    def compute(self) -> bool:
        """Fills all the fields; False where runs are not compared so."""
        assert_between_steps(self.run)
        key = self.form()
        for t in self.run.threads if self.run.ctas > 1 else ():
            self.key_threshold(t.cls, 1)  # whether it is known to run
        self.memory()
        for t in self.run.threads:
            self.bulk(t)
        self.effect_log = self.effect_log_bits()
        self.key = key, self.order_of_requests(), tuple([m.shape for m in self.effect_log])
        return not self.too_many_open_groups

    def effect_log_bits(self) -> tuple[npt.NDArray[np.uint8], ...]:
        """Who knows of what a cluster of a block group has done in global memory, and of what its spins
        acquire:
        its account says the less of it, the less is known."""
        found = []
        for kind, asked in enumerate(self.effect_thresholds):
            if not asked:
                continue
            columns, values = [c for c, _ in asked], np.array([v for _, v in asked], dtype=np.int64)
            of_ledgers = [m for m in self.ledgers if m.ndim > 1 or kind == ORDER]
            rows = [m[SLICES[kind]] if m.ndim > 1 else m[None, :] for m in of_ledgers]
            whole = np.concatenate([self.entries(kind, columns), *(m[:, columns] for m in rows)])
            found.append(np.packbits(whole >= values, axis=1))
        return tuple(found)

    def fixed_threshold(self, column: int, value: int, kind: int = ORDER) -> tuple[Column, int]:
        """A threshold of what a cluster of a block group has done: nothing is made less there for its own
        sake.
        """
        asked = self.effect_thresholds[kind]
        return self.name(column), asked.setdefault((column, value), len(asked))

    def effect_row(self, m: Matrix | None) -> int:
        if m is None:
            return -1
        self.ledgers.append(m)
        return 0

    def order_of_requests(self) -> bytes:
        """What is known of requests for registers: by all, or where none follows by other requests only."""
        if not self.requests:
            return b""
        columns = [c for c, _ in self.requests]
        asked = np.array([v for _, v in self.requests], dtype=np.int64)
        if self.run.options.refined_comparison:
            rows: Matrix = np.stack([self.rows[i] for i in self.of_requests])[:, columns]
        else:
            rows = self.entries(ORDER, columns)
        return np.packbits(rows >= asked, axis=1).tobytes()

    def entries(self, kind: int, columns: list[int], waits: bool = False) -> Matrix:
        """What all rows that are asked for a kind of thresholds have at some columns; those of ``waits``
        last."""
        if self.stacked is None:
            parts = [*self.matrices, *self.waits.values()]
            self.stacked = np.concatenate(parts).reshape(len(parts), ROWS, -1)  # sooner than np.stack
        first = len(self.matrices)
        whole = self.stacked if waits else self.stacked[:first]
        rows = whole[:, SLICES[kind]]
        found: Matrix = rows[:, :, columns].reshape(rows.shape[0] * rows.shape[1], len(columns))
        if kind != ORDER or not self.rows:
            return found
        single = np.concatenate(self.rows).reshape(len(self.rows), -1)[:, columns]
        return np.concatenate([found[:first], single, found[first:]])

    # ------------------------------------------------------------ thresholds

    def place(self, kind: int, column: int, value: int) -> Place:
        found = self.asked[kind]
        return kind, found.setdefault((column, value), len(found))

    def value(self, place: Place) -> tuple[int, int]:
        """The column and value of a threshold."""
        kind, number = place
        if len(self.listed[kind]) != len(self.asked[kind]):
            self.listed[kind] = list(self.asked[kind])
        return self.listed[kind][number]

    def key_threshold(self, column: int, value: int, kind: int = ORDER) -> tuple[Column, int]:
        if self.asks:
            self.requests.append((column, value))
        else:
            self.key_thresholds.append(self.place(kind, column, value))
        return self.name(column), 0

    def ranks(self, times: dict[int, int]) -> Hashable:
        for column in sorted(times, key=self.name):
            self.key_threshold(column, times[column])
        return tuple(sorted(map(self.name, times)))

    def keep(self, m: Matrix | None) -> int:
        if m is None:
            return -1
        (self.matrices if m.ndim == 2 else self.rows).append(m)
        return 0

    # ------------------------------------------------------------ the key

    def form(self) -> Hashable:
        run = self.run
        parts: list[Hashable] = [
            tuple(sorted(t.cls for t in run.ready)),
            tuple(sorted(run.live.items())),
            frozenset(run.judged) - self.warned,
            frozenset(run.failures) - self.warned,
            tuple(
                (k, *(self.key_threshold(k[0], u[0], x) for x in range(3)))
                for k, u in sorted(run.remote_uses.items())
            ),
            tuple((cta, self.keep(m)) for cta, m in sorted(run.exits.items())),
            tuple((i, p.free, tuple(p.held.items()), tuple(p.served.items())) for i, p in run.pools.items()),
            tuple(self.request(r) for r in run.requests),
            (executed_by_part(run), run.all_waited),
            tensor_map_state.form(run, self.everywhere),
            cluster_effects.form(
                run, self.fixed_threshold, self.effect_row, lambda r: self.over(r, self.fixed_threshold)
            ),
        ]
        parts += [self.thread(t) for t in run.threads]
        parts += [(b, self.barrier(s)) for b, s in sorted(run.barriers.items())]
        for key, n in sorted(run.named.items()):
            if key[1] >= 0:
                self.optional_thresholds["named", key] = self.place(ORDER, n.column, n.auto.generation)
            if not is_unused(n):
                parts.append((key, self.named(n)))
        parts += [(key, self.cluster(c)) for key, c in sorted(run.clusters.items())]
        for (column, cta), value in self.landed().items():
            self.optional_thresholds["landed", cta, self.name(column)] = self.place(ORDER, column, value)
        return tuple(parts)

    def request(self, r: Any) -> Hashable:
        self.asks, first = True, len(self.rows)
        try:
            return super().request(r)
        finally:
            self.asks = False
            self.of_requests += range(first, len(self.rows))

    def leaves_knowing(self, column: int, cta: int, value: int) -> bool:
        return False

    def thread(self, t: LaneClass) -> Hashable:
        event = relative_event(self.run, t.event)
        self.keep(t.clock.m)
        if t.clock.multi:
            self.keep(self.partial_row(t.clock.own))
        return (
            point(self.run, t),
            (age_of(self.run, t.answer), event, t.parked, t.blocked, t.done, waits_on(self.run, t)),
            (t.met == t.time and t.event is not None, t.meeting, t.cluster_owed, t.setmaxnregs, t.fenced),
            open_accesses(t.stores),
            (self.keep(t.release_fence), t.release_scope),
            (self.keep(t.acquirable), self.keep(t.acquirable_far)),
            (self.products(t), *(self.open(g.committed, g.issued) for g in (t.bulk, t.cp))),
            tuple(sorted(reg for reg, r in t.registers.items() if not r.used)),
            tuple((b, self.keep(m), flags) for b, (m, flags) in sorted(t.polled.items())),
        )

    def partial_row(self, values: dict[int, Any]) -> Matrix:
        """A matrix that says something of some columns only."""
        m = np.full((ROWS, self.run.columns.capacity), NOTHING, dtype=np.int32)
        for column, v in values.items():
            m[:, column] = v
        return m

    def group_wait_row(self, numbers: dict[int, int]) -> Matrix:
        """What a wait for groups makes known."""
        m = np.full((ROWS, self.run.columns.capacity), NOTHING, dtype=np.int32)
        for column, value in numbers.items():
            m[PROGRESS, column] = value
        return m

    def products(self, t: LaneClass) -> Hashable:
        """The wgmmas of a thread's warp."""
        column = t.columns.get("mma", -1)
        if column < 0:
            return None
        if t.mma.issued:
            self.optional_thresholds["issued", t.cls, "mma"] = self.place(ORDER, column, t.mma.issued)
        base = self.base(t)
        committed = [x for x in t.mma.committed if x > base]
        for x in committed:
            self.keep(self.group_wait_row({column: x}))
        for m in t.issues[base:]:
            self.keep(m)
        fragments = sorted(t.fragments.items())
        for _, (number, _) in fragments:
            self.key_threshold(column, number)
        waited = t.clock.knows(E, column, True) - base
        pasts = len(t.issues[base:])
        left = tuple(x - base for x in committed)
        touched = tuple((f, state[1]) for f, state in fragments)
        entered = (open_accesses(t.products), uncompared_operands(self.run, t))
        return (t.mma.issued - base, left, waited, base > 0, pasts, touched, entered)

    def bulk(self, t: LaneClass) -> None:
        """Groups of copies, once all other thresholds are known."""
        if t.bulk.issued and "bulk.read" in t.columns:
            self.optional_thresholds["issued", t.cls, "bulk"] = self.place(
                ORDER, t.columns["bulk.read"], t.bulk.issued
            )
        for kinds, groups in ((("bulk.read", "bulk.full"), t.bulk), (("cp",), t.cp)):
            over = {c: t.clock.knows(E, c, True) for c in (t.columns[k] for k in kinds if k in t.columns)}
            if not over:
                continue
            values = {
                (kind, c): sorted(v for x, v in self.asked[kind] if x == c)
                for c in over
                for kind in (ORDER, SEEN)
            }

            def reached(x: int, over: dict[int, int] = over, values: Any = values) -> list[int]:
                return [bisect_right(v, max(x, over[c])) for (_, c), v in values.items()]

            # a wait that reaches no further threshold is like none
            new = groups.committed[bisect_right(groups.committed, min(over.values())) :]
            ahead = [x for x in reversed(new) if reached(x) != reached(-1)]
            self.too_many_open_groups |= len(ahead) > MOST_GROUPS
            nothing = self.group_wait_row(over)
            for i in range(MOST_GROUPS):
                x = ahead[i] if i < len(ahead) else -1
                known = self.group_wait_row({c: max(x, k) for c, k in over.items()}) if x >= 0 else nothing
                self.waits[t.cls, kinds, i] = known
            self.waits[t.cls, kinds, -1] = self.group_wait_row(
                {c: max(groups.issued, k) for c, k in over.items()}
            )

    def barrier(self, s: Barrier) -> Hashable:
        if s.touched:
            raise NotConcrete("data over the bytes of a barrier")
        if self.dead(s):
            self.monotone_counters.append(0)
            return (s.inits > 0, s.inits > 1, s.uneven, s.net_zero > 0)
        a = s.auto
        self.monotone_counters.append(min(a.phase, 2))  # of more complete phases something is asked
        unsure = self.unsure_of_init(s)
        if s.init_cls >= 0 and (unsure or not self.run.options.refined_comparison):
            for cls, time in ((s.init_cls, s.init_time), *s.duplicate_inits):
                self.key_threshold(cls, time, SEEN)
                column = self.index.get(("init", cls), -1)
                if column >= 0:
                    self.key_threshold(column, time, SEEN)
        for value in (a.phase - 1, a.phase):
            self.key_threshold(s.column, value)
        if self.run.info.ends_barriers:
            self.key_threshold(s.column, s.async_phase + 1)
        used = {c: u[0] for c, u in s.last_use.items()} if self.run.info.ends_barriers else {}
        began = s.async_phase >= 0 and (
            self.run.info.ends_barriers or not self.run.options.refined_comparison
        )
        waits = (self.waits_of(s), self.ranks(used), began)
        last = s.phases[1] if len(s.phases) > 1 else None
        # where no phase is over a wait makes nothing known but what all know
        known = self.known_to_all if last is None else last.m
        far = known if last is None or last.far is None else last.far  # a wait receives nothing else then
        return (
            (a.live, a.count, a.pending, a.tx, (a.phase + s.flip) % 2, min(s.inits, 2)),
            (s.init_cls, awaits_duplicate_inits(self.run, s), tuple(cls for cls, _ in s.duplicate_inits)),
            (unsure, waits, tuple(sorted(t.cls for t in s.blocked))),
            self.phase(s.phases[0], 0),
            (self.keep(known), self.keep(far)),
        )

    def waits_of(self, s: Barrier) -> Hashable:
        """Who has waited for the last phase: more is asked of more, but for what strict mode alone asks."""
        if self.run.options.records_observers or not self.run.options.refined_comparison:
            return self.ranks({c: w[0] for c, w in s.waits.items()})
        for c, w in s.waits.items():
            self.optional_thresholds["wait", s.index, c] = self.place(ORDER, c, w[0])
        return ()

    def unsure_of_init(self, s: Barrier) -> frozenset[int]:
        """Who will be asked whether it knows of the init, and does not yet; or who was asked."""
        if not self.run.options.refined_comparison:
            return frozenset(s.ready)
        threads = self.run.threads
        inits = ((s.init_cls, s.init_time), *s.duplicate_inits)
        if all(cls >= 0 and threads[cls].n == 1 and self.least[H][cls] >= time for cls, time in inits):
            return frozenset()
        return frozenset(
            t.cls for t in threads if not t.done and t.cls not in s.ready and not init_known(self.run, t, s)
        )

    def phase(self, p: Phase, back: int) -> Hashable:
        expects = tuple((self.key_threshold(e.cls, e.time), e.bytes) for e in p.expects)
        completions = tuple((n, self.keep(past)) for n, past, _, _ in p.completions)
        quiet = tuple((self.key_threshold(q[0], q[1]), q[3]) for q in p.quiet)
        kept = (expects, completions, quiet, p.sum_expect, p.sum_complete, p.drained, self.keep(p.tx))
        return (self.keep(p.m), self.keep(p.far), tuple(sorted(p.con)), p.asynchronous, kept)

    def generation(self, g: Generation | None) -> Hashable:
        return None if g is None else (self.keep(g.m), self.near(g), tuple(sorted(t.cls for t in g.waiting)))

    def named(self, n: Any) -> Hashable:
        a = n.auto
        state = (n.red, a.threads, frozenset(a.arrived.items()), frozenset(a.marked), a.again)
        partial = tuple((w, self.generation(g)) for w, g in sorted(n.partial.items()))
        return (state, tuple(sorted(t.cls for t in n.ahead)), self.generation(n.gen), partial)

    def cluster(self, c: Any) -> Hashable:
        return super().cluster(c), self.key_threshold(c.column, c.auto.generation)

    # ------------------------------------------------------------ shadow memory

    def known_everywhere(self, r: Record) -> bool:
        return not self.everything and super().known_everywhere(r)

    def memory(self) -> None:
        """The bytes of all memories by what they hold, and what tells the accesses from each other."""
        pending = {id(r): reg for t in self.run.threads for reg, r in t.registers.items() if not r.used}
        numbers: dict[Record | None, int] = {None: -1}

        def numbered(r: Record) -> int:
            found = numbers[r] = len(self.records)
            self.seen.append(r)
            self.records.append(self.apart(r, pending))
            return found

        pieces: list[Piece] = []
        held_as: dict[int, tuple[int, tuple[int, ...]]] = {}
        names: dict[tuple[int, tuple[int, ...]], int] = {}
        for memory, segments in self.shadows.items():
            for lo, hi, what in segments:
                held = held_as.get(id(what))
                if held is None:
                    write, reads = what
                    w = numbers[write] if write in numbers or write is None else numbered(write)
                    here = sorted([numbers[r] if r in numbers else numbered(r) for _, r in reads])
                    held = held_as[id(what)] = w, tuple(here)
                    wrote = self.records[held[0]][0] if held[0] >= 0 else None
                    names[held] = hash((wrote, frozenset([self.records[r][0] for r in held[1]])))
                last = pieces[-1] if pieces else None
                if last is not None and last[2] == lo and last[3:] == held and last[0] == memory:
                    pieces[-1] = (memory, last[1], hi, *held)
                else:
                    pieces.append((memory, lo, hi, *held))
        self.pieces = tuple(pieces)
        self.accesses = hash(tuple([(m, lo, hi, names[w, reads]) for m, lo, hi, w, reads in pieces]))

    def apart(self, r: Record, pending: dict[int, int]) -> tuple[Hashable, tuple[Place, ...]]:
        """What tells an access from others, and its thresholds."""
        used = 0 if r.used > 0 else (-1, pending.get(id(r), r.used))
        key = (r.kind, r.cls, r.tag, r.tag_value, r.strict_rows_only, used)
        product = r.kind == Access.MMA_READ and r.used <= 0  # of a group, all that are asked alike
        found = self.of_products.get(key) if product else None
        if found is None:
            columns, places = self.thresholds_of_access(r)
            fence = r.kind == Access.GENERIC_READ and self.fence_after(r) < NEVER
            flight = r.kind.asynchronous and r.tag_value >= IN_FLIGHT
            flags = (
                r.column >= 0,
                r.atomic,
                r.lane_free,
                r.strict_rows_only,
                r.scope,
                r.barrier,
                fence,
                used,
                flight,
            )
            tagged = self.name(r.tag) if r.tag >= 0 else None
            found = (int(r.kind), r.cls), (tagged, columns, flags), places
            if product:
                self.of_products[key] = found
        return (*found[0], r.fp, -1 if self.site_is_irrelevant(r) else sites(r), *found[1]), found[2]

    def site_is_irrelevant(self, r: Record) -> bool:
        """Whether only reports ask where in the source an access is: where nothing was met of it that hides
        a later failure there. Copies to global memory that a warp starts as one are determined by it, and
        stores of equal values; the init of a barrier is no such store."""
        is_generic = not r.kind.asynchronous and r.barrier < 0
        if is_generic or self.run.info.footprints[r.fp].memory == GLOBAL_MEMORY:
            return False
        return self.sites_of_reported_pairs.isdisjoint([p.site for p in r.parts or (r,)])

    def thresholds_of_access(self, r: Record) -> AskedOf:
        """The columns and thresholds of an access."""
        if r.kind == Access.MMA_READ and r.used <= 0 and r.tag_value < IN_FLIGHT:
            columns, found = self.asked_of_all(r)
            if r.tag in columns:
                return found
        of = self.thresholds_of(r)
        return tuple([self.names[c] for _, c, _ in of]), tuple([self.place(*x) for x in of])

    def asked_of_all(self, r: Record) -> tuple[list[int], AskedOf]:
        """What is asked of a wgmma's group, the same for all classes of its warpgroup; in which columns."""
        key = self.run.warpgroups[r.cls][0], r.tag_value
        found = self.of_siblings.get(key)
        if found is None:
            columns = self.siblings(r.cls)
            kinds = (SEEN,) if Access.MMA_READ in ONE_PROXY else (SEEN, BRIDGED)
            of = [(kind, column, r.tag_value) for column in columns for kind in kinds]
            names, places = tuple([self.names[c] for _, c, _ in of]), tuple([self.place(*x) for x in of])
            found = self.of_siblings[key] = columns, (names, places)
        return found

    def thresholds_of(self, r: Record) -> list[Asked]:
        """What is asked of an access, in an order of its own."""
        of: list[Asked] = []
        if r.kind.asynchronous:
            if r.tag_value < IN_FLIGHT and r.tag >= 0:
                more = self.siblings(r.cls) if r.kind == Access.MMA_READ else []
                kinds = (SEEN,) if r.kind in ONE_PROXY else (SEEN, BRIDGED)
                of = [(kind, column, r.tag_value) for column in (r.tag, *more) for kind in kinds]
            return [(SEEN, r.cls, r.used), *of] if r.used > 0 else of
        for column in (r.cls, r.column) if r.column >= 0 else (r.cls,):
            of += [(SEEN, column, r.time), (BRIDGED, column, r.time)]
        if r.used > 0:
            of.append((SEEN, r.cls, r.used))
        fence = self.fence_after(r) if r.kind == Access.GENERIC_READ else NEVER
        if fence < NEVER:
            of.append((SEEN, r.cls, fence))
        return of


def is_unused(n: Named) -> bool:
    """Whether nobody stands at a named barrier."""
    a = n.auto
    return not (a.arrived or a.marked or a.again or n.ahead or n.partial or n.gen.waiting or n.gen.con)


__all__ = ["MOST_GROUPS", "SLICES", "Place", "ThresholdAbstraction", "is_unused"]
