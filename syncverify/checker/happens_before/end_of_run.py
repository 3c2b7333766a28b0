"""What only the end of a run shows: open phases, things in flight, registers, warp-wide operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.handlers.control import Request
from syncverify.checker.happens_before.handlers.flag_order import check_spins
from syncverify.checker.happens_before.handlers.global_memory import check_early, check_stuck
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, knows_phase, name
from syncverify.checker.happens_before.handlers.phases import check_accounting
from syncverify.checker.happens_before.handlers.tensor_maps import check_edits
from syncverify.checker.happens_before.run import LATER, LaneClass, Run, Unmodelled, before
from syncverify.checker.happens_before.vector_clocks import E, Matrix
from syncverify.model.events import Ev
from syncverify.model.proxies import Access

#: Aligned operations that exited lanes need not execute.
MEETINGS = frozenset({Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE, Ev.CLUSTER_ARRIVE, Ev.CLUSTER_WAIT})
#: Sets of unordered setmaxnreg requests looked at before giving up.
MOST_SETS = 20_000


def check_end(run: Run) -> None:
    """Adds the failures that only the end of the run shows."""
    _left_open(run, run.barriers)
    _aliased_waits(run)
    check_early(run)
    check_edits(run)
    if run.hung:
        check_stuck(run)
    if not run.hung:
        if not run.after_hang:  # else the run hung, whatever waits have read: that is an execution
            check_spins(run)
        _unfinished(run)
    registers(run)
    collectives(run)


def in_flight_at_exit(run: Run, barriers: Iterable[int]) -> None:
    """What the end shows of a cluster that leaves before the run ends: of its barriers, copies, registers."""
    _left_open(run, barriers)
    _unfinished(run)
    registers(run)


def _left_open(run: Run, barriers: Iterable[int]) -> None:
    for b in barriers:
        _open_phase(run, run.barriers[b])
        _overlaid(run, run.barriers[b])


def _unfinished(run: Run) -> None:
    _late_remote(run)
    _unseen_copies(run)


def _open_phase(run: Run, s: Barrier) -> None:
    """O4 for the last open phase if its arrivals are all in.

    A phase that is announced ahead, and that neither a copy nor a wait comes to, is an error in strict only.
    Who belongs to it and to those before does not depend on the order: no execution differs.
    """
    p = s.phases[0]
    if not s.auto.live or s.auto.pending or not p.con:
        return
    check_accounting(run, s, p, s.auto.phase)
    if s.auto.tx == 0 and not p.asynchronous and not p.completions and not p.expects:
        return
    t = run.threads[next(iter(p.con))]
    many = [site for _, _, site, lanes in p.completions if lanes > 1]
    site = (
        many[0] if many else max(p.expects, key=lambda e: e.bytes).site if p.expects else p.completions[0][2]
    )
    sign = "more" if s.auto.tx < 0 else "fewer"
    late = "as many are copied; some are announced last of all, and an expect-tx ends no phase"
    ahead = bool(p.expects) and not p.asynchronous and not p.completions and not _held_up(run)
    f = Failure(
        Obligation.O4,
        "SV203",
        f"phase {s.auto.phase} of {name(run, s.index)} never completes: {p.sum_expect} bytes are expected, "
        + (f"{p.sum_complete} bytes are copied ({abs(s.auto.tx)} {sign})" if s.auto.tx else late),
        site,
        t.cls,
        t.time,
        len(run.trace),
        barrier=s.index,
        phase=s.auto.phase,
        lacks_bytes=s.auto.tx >= 0,
        severity=Severity.WARNING if ahead else Severity.ERROR,
        strict_only=ahead,
    )
    run.fail(f)


def _held_up(run: Run) -> bool:
    """Whether somebody waits for ever, or was let through such a wait."""
    return run.after_hang or any(t.waits_on != LATER for t in run.blocked())


def _overlaid(run: Run, s: Barrier) -> None:
    """Data over a live mbarrier: an illegal access if it is still used (E30), else a missing inval (E29)."""
    if not s.touched:
        return
    cls, time, site, position = s.touched[0]
    later = s.last_position > position
    rule = "SV208" if later else "SV205"
    message = (
        f"{name(run, s.index)} is alive and still in use, but its bytes are accessed as data"
        if later
        else f"the bytes of {name(run, s.index)} are reused without mbarrier.inval"
    )
    f = Failure(
        Obligation.O5,
        rule,
        message,
        site,
        cls,
        time,
        position,
        barrier=s.index,
        labels=[(s.init_site, "initialized here")],
        fix="give the data its own bytes" if later else "mbarrier.inval before it, after a barrier",
    )
    run.fail(f)


def _aliased_waits(run: Run) -> None:
    """O7: a wait that blocks for ever must know which phase it looks at."""
    for t in run.blocked():
        if t.waits_on[:1] != ("wait",):
            continue
        s: Barrier = run.barriers[t.waits_on[1]]
        c = s.auto.phase
        if c >= 1 and not knows_phase(run, t.clock.m[E], s, c - 1):
            assert t.event is not None
            run.report(
                Obligation.O7,
                "SV201",
                f"this wait sleeps because phase {c - 1} of {name(run, s.index)} completed before it looked; "
                "looking earlier it would have passed",
                t,
                t.event[1],
                barrier=s.index,
                phase=c - 1,
                past=before(t),
                fix="let the next phase wait for this thread, which arrives for it or meets the others at a "
                "barrier; or ask for the parity that is meant: it flips when the slot wraps, and only then",
            )


def _unseen_copies(run: Run) -> None:
    """A copy into a CTA must be over before that CTA's last thread leaves (PTX ISA: cp.async.bulk; K21)."""
    for op in run.asyncs:
        for b, _, record in op.targets:
            if record is None or (
                record.kind == Access.ASYNC_READ and run.info.footprints[record.fp].memory < 0
            ):
                continue
            cta = run.info.footprints[record.fp].memory if record.fp >= 0 else run.info.barriers[b].cta
            known = run.exits.get(cta)
            if known is not None and known[record.tag] < record.tag_value:
                run.report(
                    Obligation.UB,
                    "SV211",
                    f"the copy on {name(run, op.targets[0][0])} may still be in flight when its CTA leaves: "
                    "nobody waits for it",
                    op.thread,
                    op.site,
                    barrier=b,
                    first=record,
                    fix="wait for its barrier before the end",
                )


def _late_remote(run: Run) -> None:
    """A CTA must not leave while others may still reach into it (PTX ISA: Cluster of CTAs; B25)."""
    for (cls, cta), (time, site, past) in run.remote_uses.items():
        known = run.exits.get(cta)
        if known is not None and known[cls] < time:
            f = run.report(
                Obligation.UB,
                "SV211",
                f"cta{cta} may have left when this operation reaches it",
                run.threads[cls],
                site,
                past=np.maximum(past, known),
                provoked=True,
                fix="a cluster barrier before the end",
            )
            f.time = time


# ------------------------------------------------------------------ registers


def registers(run: Run) -> None:
    """setmaxnreg: the same instruction in all four warps, and a pool that serves every order (O8)."""
    groups: dict[tuple[int, int], list[Request]] = {}
    for r in run.requests:
        groups.setdefault((r.cta, r.group), []).append(r)
    for (cta, group), requests in groups.items():
        _whole_group(run, cta, group, requests)
    if not any(f.rule == "SV304" and f.severity == Severity.ERROR for f in run.failures.values()):
        for cta in {c for c, _ in groups}:
            _pool(run, cta, {g: rs for (c, g), rs in groups.items() if c == cta})


def _whole_group(run: Run, cta: int, group: int, requests: list[Request]) -> None:
    warps = {w for w in range(group * 4, group * 4 + 4) if (cta, w) in run.lanes}
    for i, r in enumerate(requests):
        present = _whole_warps(run, r)
        rivals = [o for o in requests if o.number == r.number]
        places = {site for o in rivals for site in o.sites.values()}
        site, *_ = sorted(places, key=lambda x: (run.info.sites[x].span.line, x))[1:] or places
        others = [(place, "another setmaxnreg of the same warpgroup") for place in places if place != site]
        if present != warps or len(warps) < 4:
            r = next(o for o in rivals if site in o.sites.values())
            present = _whole_warps(run, r)
            missing = ", ".join(str(w) for w in sorted(warps - present)) or "none: the warpgroup is not full"
            who = f"warps {sorted(present)} of warpgroup {group}"
            if not present:
                who = ", ".join(run.threads[c].info.name for c in r.pasts)
            text = (
                f"setmaxnreg is executed by {who} only "
                f"(missing: {missing}); all four must execute the same one"
            )
            _register_failure(run, r, text, others, 0, at=site)
            return
        if len(places) > 1:
            # Hardware counts the four warps wherever each stands (docs/hardware.md), and Triton relies on it.
            text = f"the warps of warpgroup {group} execute setmaxnreg at {len(places)} different places"
            _register_failure(run, r, text, others, 0, at=site, lenient=True)
        if i and not _group_synced(requests[i - 1], r):
            # If it changes nothing, compilers repeat it (Triton).
            same = requests[i - 1].registers == r.registers
            text = f"two setmaxnreg of warpgroup {group} without a barrier of its warps between"
            if same:
                text += f": both ask for {r.registers}"
            before = [(requests[i - 1].site, "the one before")]
            _register_failure(run, r, text, before, 1, lenient=same)
            if not same:
                return


def _whole_warps(run: Run, r: Request) -> set[int]:
    """The warps all of whose lanes execute this setmaxnreg."""
    lanes: dict[int, int] = {}
    for c in r.pasts:
        info = run.threads[c].info
        lanes[info.warp] = lanes.get(info.warp, 0) | info.lanes
    return {w for w, mask in lanes.items() if mask == run.lanes[r.cta, w]}


def _register_failure(
    run: Run,
    r: Request,
    message: str,
    labels: list[tuple[int, str]],
    rank: int,
    past: Matrix | None = None,
    lenient: bool = False,
    at: int = -1,
) -> None:
    cls = next(c for c, site in r.sites.items() if at in (-1, site))
    f = Failure(
        Obligation.O8,
        "SV304",
        message,
        r.sites[cls],
        cls,
        r.times[cls],
        r.position,
        past=past,
        phase=rank,
        labels=list(dict.fromkeys(labels)),
        severity=Severity.WARNING if lenient else Severity.ERROR,
        strict_only=lenient,
    )
    run.fail(f)


def _group_synced(first: Request, second: Request) -> bool:
    return all(past[c] >= time for past in second.pasts.values() for c, time in first.times.items())


def _pool(run: Run, cta: int, groups: dict[int, list[Request]]) -> None:
    """O8: of every set of unordered requests, one per warpgroup, one can be served whatever else ran."""
    if not groups:
        return
    every = [r for rs in groups.values() for r in rs]
    takes = {g: [r for r in rs if r.need > 0] for g, rs in groups.items()}
    pool = 0  # the launch gives every thread its registers; nothing is left over
    sets_compared = 0
    chosen = [g for g in takes if takes[g]]
    for size in range(1, len(chosen) + 1):
        for some in combinations(chosen, size):
            for x in product(*(takes[g] for g in some)):
                sets_compared += 1
                if sets_compared > MOST_SETS:
                    text = f"more than {MOST_SETS} sets of setmaxnreg requests to compare"
                    raise Unmodelled(text, x[0].site)
                if any(_before(a, b) or _before(b, a) for a, b in combinations(x, 2)):
                    continue
                if _unreachable(x, every, pool):
                    continue
                free = pool
                for r in every:
                    if r in x or any(_follows(q, r) for q in x):
                        continue
                    free -= r.need
                if all(r.need > free for r in x):
                    r = x[0]
                    _register_failure(
                        run,
                        r,
                        f"the register pool cannot serve this setmaxnreg.inc {r.registers} in "
                        f"every order: {r.need} registers are needed, {max(free, 0)} may be free",
                        [(o.site, "takes or returns registers") for o in every if o is not r],
                        2,
                        _all_but(run, x, every),
                    )
                    return


def _unreachable(x: tuple[Request, ...], every: list[Request], pool: int) -> bool:
    """Whether what must be granted before ``x`` can be asked for together exceeds all there may be."""
    room = pool - sum(r.need for r in every if r.need < 0 and not any(_follows(q, r) for q in x))
    taken = sum(r.need for r in every if r.need > 0 and r not in x and any(_precedes(r, q) for q in x))
    return taken > room


def _precedes(r: Request, x: Request) -> bool:
    return _before(r, x) or ((r.cta, r.group) == (x.cta, x.group) and _later(r, x))


def _all_but(run: Run, x: tuple[Request, ...], every: list[Request]) -> Matrix:
    """The past in which everybody else has been served and the requests of ``x`` come next."""
    past = np.zeros(run.columns.capacity, dtype=np.int32)
    for r in every:
        if r in x or not any(_follows(q, r) for q in x):
            for p in r.pasts.values():
                np.maximum(past, p, out=past)
        if r not in x and not any(_follows(q, r) for q in x) and r.need > 0:
            for c, time in r.times.items():
                past[c] = max(int(past[c]), time)
    for r in x:
        for c, time in r.times.items():
            past[c] = min(int(past[c]), time - 1)
    return past


def _before(a: Request, b: Request) -> bool:
    """Every warp of ``b`` asks after ``a`` was granted to some warp, in every execution."""
    return any(past[c] >= time for past in b.pasts.values() for c, time in a.times.items())


def _follows(x: Request, r: Request) -> bool:
    """``r`` comes after ``x`` in every execution."""
    return r is not x and (_before(x, r) or ((r.cta, r.group) == (x.cta, x.group) and _later(x, r)))


def _later(x: Request, r: Request) -> bool:
    c = next(iter(x.times))
    return c in r.times and r.times[c] > x.times[c]


# ------------------------------------------------------------------ collectives


def collectives(run: Run) -> None:
    """Aligned operations: every lane of the warp, for wgmma every warp of the warpgroup, in one order."""
    warps: dict[tuple[int, int], list[LaneClass]] = {}
    for t in run.threads:
        warps.setdefault((t.info.cta, t.info.warp), []).append(t)
    for threads in warps.values():
        if run.after_hang and not any(t.cls in run.met_alone for t in threads):
            continue  # forced on, classes need not keep together
        _agree(run, threads, "warp", lambda t: t.collectives)
    groups: dict[tuple[int, int], list[LaneClass]] = {}
    for (cta, warp), threads in warps.items():
        groups.setdefault((cta, warp // 4), []).append(threads[0])
    for (cta, group), threads in groups.items():
        if not run.after_hang and any(c >= Ev.WGMMA_FENCE for t in threads for _, c, _ in t.collectives):
            _agree(run, threads, "warpgroup", _mma_only)
            if any((cta, w) not in run.lanes for w in range(group * 4, group * 4 + 4)):
                _short_warpgroup(run, threads)


def _left_before(
    run: Run, threads: list[LaneClass], lists: list[list[tuple[int, int, int]]], i: int, t: LaneClass
) -> bool:
    """Whether lanes left before a barrier that the others of their warp execute, and did not run past it
    through what follows it: only lanes that have not left count (K22)."""
    for x in lists:
        if i >= len(x):
            continue
        site, code, position = x[i]
        if code not in MEETINGS or run.info.passes(t.exit_site, site, False):
            return False
        event = run.trace[position][1] if position < len(run.trace) else ()
        if code in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE) and event[:2] == (code, site) and event[3]:
            return False  # a count includes them
    return True


def _short_warpgroup(run: Run, threads: list[LaneClass]) -> None:
    """A wgmma needs four warps (B70)."""
    t = next(t for t in threads if _mma_only(t))
    site, _, position = _mma_only(t)[0]
    message = f"wgmma needs a warpgroup of four warps; this one has {len(threads)}"
    run.fail(Failure(Obligation.UB, "SV303", message, site, t.cls, t.time, position))


def _meet(run: Run, site: int, unit: str) -> str:
    """What to do about an instruction that not all threads execute, whom it is for."""
    whole = any(e[:2] == (Ev.BARRIER_SYNC, site) and not e[3] for who, e in run.trace if who >= 0)
    return (
        "move it out of the branch: all threads of the block have to come to it"
        if whole
        else f"execute it under a condition that is uniform in the {unit}"
    )


def _mma_only(t: LaneClass) -> list[tuple[int, int, int]]:
    return [c for c in t.collectives if c[1] >= Ev.WGMMA_FENCE]


def _agree(
    run: Run, threads: list[LaneClass], unit: str, of: Callable[[LaneClass], list[tuple[int, int, int]]]
) -> None:
    lists = [of(t) for t in threads]
    for i in range(max(len(x) for x in lists)):
        seen: dict[tuple[int, int], tuple[LaneClass, int]] = {}
        missing = early = False
        for t, x in zip(threads, lists, strict=True):
            if i < len(x):
                seen.setdefault(x[i][:2], (t, x[i][2]))
            elif t.done:
                left = _left_before(run, threads, lists, i, t)
                missing, early = missing or not left, early or left
        if len(seen) > 1 or (seen and (missing or early)):
            (site, _), (t, position) = min(seen.items(), key=lambda x: run.info.sites[x[0][0]].span.line)
            absent = "other lanes of the warp" if unit == "warp" else "other warps of the warpgroup"
            f = Failure(
                Obligation.UB,
                "SV303",
                f"this instruction needs the whole {unit}, but {absent} do not execute it with {t.info.name}",
                site,
                t.cls,
                t.time,
                position,
                severity=Severity.ERROR if missing or len(seen) > 1 else Severity.WARNING,
                strict_only=not missing and len(seen) == 1,
                contested=None if missing or len(seen) > 1 else "K22",
                fix=_meet(run, site, unit),
            )
            run.failures.setdefault(f.key, f)
            if missing or len(seen) > 1:
                return


__all__ = ["check_end", "in_flight_at_exit"]
