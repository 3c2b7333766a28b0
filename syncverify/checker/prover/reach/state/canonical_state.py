"""The canonical state of a run: what later verdicts can observe of it. Equal states have equal futures.

Two runs that stand at equal canonical states, and whose agents emit the same events from there on, meet the
same failures. ``FIELD_COVERAGE`` says of each field whether it is kept; a test holds it against the classes.

- *Clocks.* A later comparison asks whether an entry has reached a *threshold*. Thresholds are the times of
  accesses that the shadow still holds, of contributions, waits, expects, inits and uses on record, tags, and
  the phases c and c - 1. An entry is kept as the number of thresholds of its column that it has reached, a
  threshold as its rank. What is recorded later has a number above all entries of today.
- *Counters* of phases and groups are kept relative to their newest value, as far down as a comparison can
  distinguish.
- *Executions* of stores whose value depends on them are kept relative to those of the class that did most. A
  class that has yet to begin, and is behind by more than one, counts apart from there on: what it stores is
  equal to what those store that count as it does.
- *Columns.* A barrier has one for each of its lives. A life is named by how many lives ago it was.
- *Shadow memory.* Segments are kept with the ranks of their accesses. An access is left out that every thread
  knows of in all ways: nothing that follows can fail against it.
- *Left out.* The order in which agents go on, for all orders end alike; and what only explanations read:
  sites of waits, positions, pasts kept for witnesses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from typing import Any

from syncverify.checker.happens_before import flag_state as flags
from syncverify.checker.happens_before.handlers.accesses import product_after
from syncverify.checker.happens_before.handlers.async_operations import uncompared_operands
from syncverify.checker.happens_before.handlers.control import Request
from syncverify.checker.happens_before.handlers.execution_barriers import Cluster, Generation, Named
from syncverify.checker.happens_before.handlers.global_memory import Location, Spin, Write
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, Phase, awaits_duplicate_inits
from syncverify.checker.happens_before.handlers.tensor_maps import Map
from syncverify.checker.happens_before.run import APART, LaneClass, Run
from syncverify.checker.happens_before.shadow import IN_FLIGHT, Record
from syncverify.checker.happens_before.vector_clocks import ROWS, E
from syncverify.checker.prover.reach.state import (
    cluster_effects,
    deferred_failures,
    flag_chain_state,
    tensor_map_state,
)
from syncverify.checker.prover.reach.state.collectives import executed_by_part
from syncverify.checker.prover.reach.state.phase_tokens import age_of, point, relative_event, waits_on
from syncverify.checker.prover.reach.thresholds import (
    ALL,
    COMPARED,
    ORDER,
    ROWS_OF,
    SEEN,
    Kept,
    Thresholds,
    counts,
)
from syncverify.model.proxies import Access
from syncverify.symbolic.context import NotConcrete

#: Every field of the classes that make up a run: those that the form keeps (or derives), and those left out.
FIELD_COVERAGE: dict[type, tuple[str, str]] = {
    LaneClass: (
        "cls agent clock time answer event parked blocked done waits_on bulk cp mma columns registers fences "
        "collectives fragments fenced release_fence release_scope acquirable acquirable_far polled "
        "setmaxnregs unsure cluster_owed met meeting issues operands products stores exit_site",
        "info n emitted meant asyncs launched proxy_fences syncs group_waits idle_waits "
        "release_site seen suspect last_bulk last_mma",
    ),
    Barrier: (
        "index column auto flip phases init_cls init_time untouched duplicate_inits inits ready waits "
        "blocked last_use async_phase touched uneven net_zero last_waited final_waits last_tx",
        "init_site inval_site last_position bytes_expected bytes_completed copies arrivals expect_sites "
        "waiters lanes",
    ),
    Phase: (
        "m tx far con asynchronous expects completions sum_expect sum_complete drained quiet",
        "again arrived sites waited remote",
    ),
    Record: (
        "kind cls time fp site column tag tag_value used atomic scope barrier strict_rows_only lane_free "
        "execution source",
        "fresh over position issue parts",
    ),
    Generation: ("m con previous waiting near", "sites pasts"),
    Named: ("auto column gen red partial ahead collective", "last mask"),
    Cluster: ("auto column gen last", ""),
    Request: ("cta group number sites registers need inc pasts times", "site position"),
    Location: ("value writes waiting spins launch", ""),
    Write: ("cls time value added past lanes released reach after weak covers", "site"),
    Spin: ("cls time compare value seen scope start races takes unsigned once", "site"),
    Map: ("edits edit_site whole released acquired uses open", ""),
}


def canonicalize(run: Run) -> Hashable:
    """The normal form of a run that stands between two steps."""
    assert_between_steps(run)
    return CanonicalState(run).form()


def assert_between_steps(run: Run) -> None:
    """Raises NotConcrete for runs that have no form."""
    if run.pending or run.met:
        raise NotConcrete("operations in flight between two steps")


class CanonicalState(Thresholds):
    """The form of one run, and what it is made of."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.of_groups: dict[tuple[int, int], Hashable] = {}
        run.count_apart()
        #: by site, and what classes count from, how often the class that executed it most did so
        self.newest: dict[tuple[int, int], int] = {}
        for (site, _), n in run.executions.items():
            self.newest[site, n // APART] = max(n, self.newest.get((site, n // APART), n))

    # ------------------------------------------------------------ the form

    def form(self) -> Hashable:
        run = self.run
        self.collect()
        parts: list[Hashable] = [
            tuple(sorted(t.cls for t in run.ready)),
            tuple(sorted(run.live.items())),
            frozenset(run.judged),
            frozenset(run.failures),
            tuple((what, self.keep(past)) for what, past in deferred_failures.deferred_state(run)),
            frozenset((cls, *early[3:]) for cls, early in run.early.items()),
            (run.all_waited, *(self.key_threshold(*w, kind) for w in run.grid_waits for kind in ALL)),
            tuple((c, self.key_threshold(column, v)) for c, column, v in self.unseen()),
            tuple(
                (k, self.key_threshold(k[0], u[0], x))
                for k, u in sorted(run.remote_uses.items())
                for x in ALL
            ),
            tuple((cta, self.keep(m)) for cta, m in sorted(run.exits.items())),
            tuple((i, p.free, tuple(p.held.items()), tuple(p.served.items())) for i, p in run.pools.items()),
            tuple(self.request(r) for r in run.requests),
            executed_by_part(run),
            tensor_map_state.form(run, self.everywhere),
            tuple(
                (site, cls, n // APART, self.newest[site, n // APART] - n)
                for (site, cls), n in sorted(run.executions.items())
                if not run.threads[cls].done
            ),
            (flag_chain_state.form(run, self.key_threshold, self.keep), tuple(sorted(run.spun.items()))),
            cluster_effects.form(
                run, self.key_threshold, self.keep, lambda r: self.over(r, self.key_threshold)
            ),
            flags.form(
                run, lambda x: tuple(self.key_threshold(x.cls, x.time, k) for k in (ORDER, SEEN)), self.keep
            ),
        ]
        parts += [self.thread(t) for t in run.threads]
        parts += [(b, self.barrier(s)) for b, s in sorted(run.barriers.items())]
        parts += [(key, self.named(n)) for key, n in sorted(run.named.items())]
        parts += [(key, self.cluster(c)) for key, c in sorted(run.clusters.items())]
        pending = {id(r): reg for t in run.threads for reg, r in t.registers.items() if not r.used}
        for memory, segments in self.shadows.items():
            parts += self.merged(memory, segments, pending)
        return (*parts, self.ranked())

    # ------------------------------------------------------------ shadow memory

    def merged(self, memory: int, segments: list[Kept], pending: dict[int, int]) -> list[Hashable]:
        """The form of segments; neighbours that hold the same are one."""
        forms: dict[int, Hashable] = {}

        def form(r: Record) -> Hashable:
            found = forms.get(id(r))
            if found is None:
                found = forms[id(r)] = self.record(r, pending)
            return found

        out: list[tuple[int, int, int, Hashable]] = []
        held_as: dict[int, Hashable] = {}
        for lo, hi, what in segments:
            held = held_as.get(id(what))
            if held is None:
                write, reads = what
                held = held_as[id(what)] = (
                    None if write is None else form(write),
                    frozenset((used, form(r)) for used, r in reads),
                    len(reads),
                )
            if out and out[-1][2] == lo and out[-1][3] == held:
                out[-1] = (memory, out[-1][1], hi, held)
            else:
                out.append((memory, lo, hi, held))
        return [*out]

    def record(self, r: Record, pending: dict[int, int]) -> Hashable:
        fence: Hashable = None
        if r.kind == Access.GENERIC_READ:
            after = tuple(
                self.key_threshold(column, number, SEEN) for column, number in self.products_after(r)
            )
            fence = self.key_threshold(r.cls, self.fence_after(r), SEEN), after, product_after(self.run, r)[1]
        tag: Hashable = r.tag_value
        if r.kind.asynchronous and r.tag_value < IN_FLIGHT:
            tag = self.key_threshold(r.tag, r.tag_value, SEEN) if r.tag >= 0 else None
            if r.kind == Access.MMA_READ:
                tag = (tag, self.of_warpgroup(r))
        used = self.key_threshold(r.cls, r.used, SEEN) if r.used > 0 else (-1, pending.get(id(r), r.used))
        where = (
            self.key_threshold(r.column, r.time, SEEN) if r.column >= 0 and not r.kind.asynchronous else None
        )
        time = r.cls if r.kind.asynchronous else self.key_threshold(r.cls, r.time, SEEN)
        counts = (r.site, r.execution // APART) in self.newest and r.kind.writes and not r.parts
        age = self.newest[r.site, r.execution // APART] - r.execution if counts else 0
        flags = (
            where,
            age,
            r.execution // APART,
            r.atomic,
            r.lane_free,
            r.strict_rows_only,
            r.scope,
            r.barrier,
            r.source,
        )
        tagged = self.name(r.tag) if r.tag >= 0 else None
        return (int(r.kind), time, r.fp, sites(r), tagged, tag, used, fence, flags)

    def of_warpgroup(self, r: Record) -> Hashable:
        """What of a wgmma's group is asked of all classes of its warpgroup."""
        key = self.run.warpgroups[r.cls][0], r.tag_value
        found = self.of_groups.get(key)
        if found is None:
            found = tuple([self.key_threshold(c, r.tag_value, SEEN) for c in self.siblings(r.cls)])
            self.of_groups[key] = found
        return found

    def request(self, r: Any) -> Hashable:
        pasts = tuple((c, self.keep(p)) for c, p in sorted(r.pasts.items()))
        asked = (r.cta, r.group, r.number, r.registers, r.need, r.inc)
        return (asked, tuple(sorted(r.sites.items())), self.ranks(r.times), pasts)

    def thread(self, t: LaneClass) -> Hashable:
        return ("gone",) if self.run.gone(t) else self.running(t)

    def running(self, t: LaneClass) -> Hashable:
        event = relative_event(self.run, t.event)
        return (
            point(self.run, t),
            (age_of(self.run, t.answer), event, t.parked, t.blocked, t.done, waits_on(self.run, t)),
            (t.met == t.time and t.event is not None, t.meeting, t.cluster_owed, t.setmaxnregs, t.fenced),
            t.exit_site,
            open_accesses(t.stores),
            (self.keep(t.clock.m), self.own(t)),
            (self.keep(t.release_fence), t.release_scope),
            (self.keep(t.acquirable), self.keep(t.acquirable_far)),
            tuple(sorted(t.columns.items())),
            self.groups(t),
            tuple(sorted(reg for reg, r in t.registers.items() if not r.used)),
            tuple((b, self.keep(m), flags) for b, (m, flags) in sorted(t.polled.items())),
        )

    def own(self, t: LaneClass) -> Hashable:
        """What a class of several lanes knows of its own progress."""
        if not t.clock.multi:
            return ()
        own = sorted(t.clock.own.items())
        return tuple(
            (column, tuple(self.rank(column, int(v[row]), kind) for kind in ALL for row in ROWS_OF[kind]))
            for column, v in own
        )

    def base(self, t: LaneClass) -> int:
        """The wgmmas that all classes of a warpgroup know to be over."""
        peers = [self.run.threads[c] for c in self.run.warpgroups[t.cls]]
        return min(o.clock.knows(E, o.columns["mma"], True) for o in peers if "mma" in o.columns)

    def groups(self, t: LaneClass) -> Hashable:
        """Committed groups that a wait may still newly cover, by what their end makes known."""
        out: list[Hashable] = []
        for kinds, groups in ((("bulk.read", "bulk.full"), t.bulk), (("cp",), t.cp)):
            columns = [t.columns[k] for k in kinds if k in t.columns]
            known = [t.clock.knows(E, c, True) for c in columns]
            now = tuple(map(self.number, columns, known))
            # a wait that reaches no further threshold is like none
            ahead = groups.committed[bisect_right(groups.committed, min(known, default=0)) :]
            ranked = [tuple(map(self.number, columns, [max(x, k) for k in known])) for x in ahead]
            ends = tuple(x for x in ranked if x != now)
            newest = tuple(self.number(c, groups.issued) for c in columns)
            out.append((ends, newest, groups.issued > 0, self.open(groups.committed, groups.issued)))
        column = t.columns.get("mma", -1)
        if column >= 0:
            base = self.base(t)
            left = [x for x in t.mma.committed if x > base]
            out.append((t.mma.issued - base, tuple((x - base, self.number(column, x)) for x in left),
                        t.clock.knows(E, column, True) - base, base > 0, open_accesses(t.products),
                        tuple(self.keep(m) for m in t.issues[base:]),
                        uncompared_operands(self.run, t)))  # fmt: skip
            out.append(
                tuple((f, self.key_threshold(column, s[0]), s[1]) for f, s in sorted(t.fragments.items()))
            )
        return tuple(out)

    @staticmethod
    def open(committed: list[int], issued: int) -> bool:
        """Whether operations were issued since the last commit."""
        return issued > (committed[-1] if committed else 0)

    def phase(self, p: Phase, back: int) -> Hashable:
        if back > 1:
            return (self.ranks(p.con), p.asynchronous)
        kept: tuple[Hashable, ...] = ()
        if back == 0:
            expects = frozenset((self.key_threshold(e.cls, e.time), e.bytes) for e in p.expects)
            completions = tuple((n, self.keep(past)) for n, past, _, _ in p.completions)
            quiet = tuple((self.key_threshold(q[0], q[1]), q[3]) for q in p.quiet)
            kept = (expects, len(p.expects), completions, quiet, p.sum_expect, p.sum_complete, p.drained)
            kept = (*kept, self.keep(p.tx))
        return (self.keep(p.m), self.keep(p.far), self.ranks(p.con), p.asynchronous, kept)

    def barrier(self, s: Barrier) -> Hashable:
        if s.touched:
            raise NotConcrete("data over the bytes of a barrier")
        if self.dead(s):
            return (s.inits > 0, s.inits > 1, s.uneven, s.net_zero > 0)
        a = s.auto
        last = s.last_waited
        waited = (min(a.phase - last, 2), min(last, 0), s.last_tx == a.phase, s.last_tx > last, s.last_tx < 0)
        return (
            (a.live, a.count, a.pending, a.tx, (a.phase + s.flip) % 2, min(a.phase, 2), min(s.inits, 2)),
            tuple(self.key_threshold(s.column, value) for value in counts(s)),
            (
                s.init_cls,
                self.key_threshold(s.init_cls, s.init_time, SEEN) if s.init_cls >= 0 else None,
                (
                    awaits_duplicate_inits(self.run, s),
                    tuple((c, self.key_threshold(c, time, SEEN)) for c, time in s.duplicate_inits),
                ),
                frozenset(s.ready),
            ),
            (waited, s.async_phase >= 0, s.uneven, s.net_zero > 0),
            self.ranks({c: w[0] for c, w in s.waits.items()}),
            self.ranks({c: u[0] for c, u in s.last_use.items()}),
            self.ranks(s.final_waits),
            tuple(sorted(t.cls for t in s.blocked)),
            tuple(self.phase(p, i) for i, p in enumerate(s.phases[:COMPARED])),
        )

    def generation(self, g: Generation | None) -> Hashable:
        if g is None:
            return None
        waiting = tuple(sorted(t.cls for t in g.waiting))
        return (self.keep(g.m), self.near(g), self.ranks(g.con), self.ranks(g.previous), waiting)

    def near(self, g: Generation) -> Hashable:
        return tuple((cta, self.keep(m)) for cta, m in sorted(g.near.items()))

    def named(self, n: Any) -> Hashable:
        a = n.auto
        partial = tuple((w, self.generation(g)) for w, g in sorted(n.partial.items()))
        state = (
            n.red,
            n.collective,
            a.threads,
            a.whole,
            frozenset(a.arrived.items()),
            frozenset(a.marked),
            a.again,
            min(a.generation, 1),
            tuple(sorted(t.cls for t in n.ahead)),
        )
        # what the last generation handed on, all that waited for it have received
        return (state, self.generation(n.gen), partial)

    def cluster(self, c: Any) -> Hashable:
        a = c.auto
        state = (frozenset(a.expected), frozenset(a.arrived), min(a.generation, 1))
        return (state, self.generation(c.gen), self.generation(c.last))


def sites(r: Record) -> Hashable:
    """Where in the source an access is, or which of its parts is where."""
    return tuple([(p.fp, p.site) for p in r.parts]) or r.site


def open_accesses(records: list[Record]) -> Hashable:
    """What the next commit of wgmmas joins, or the next event by which others learn of it."""
    return tuple((r.fp, r.site) for r in records)


__all__ = ["ROWS", "CanonicalState", "canonicalize", "open_accesses", "sites"]
