"""Why a run hangs: who waits on what, who could have helped, and whose mistake it is.

Blocked classes form a graph: an edge leads from a class to the blocked classes that would supply what it
lacks. What a class would do later is found by forcing the run on. A sink of that graph is the root: either
somebody whose need nobody alive can meet, or a cycle.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from syncverify.base.diagnostics import Mistake
from syncverify.checker.explain.witness import describe_wait
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.handlers.global_memory import location
from syncverify.checker.happens_before.handlers.mbarriers import Barrier
from syncverify.checker.happens_before.run import LaneClass, Run, Unmodelled
from syncverify.model.events import Ev, Event


@dataclass(frozen=True, slots=True)
class Stuck:
    """One blocked class at the moment of the hang."""

    cls: int
    kind: str
    waits_on: tuple[Any, ...]
    site: int
    time: int
    what: str
    phase: int | None
    why: str
    present: frozenset[int]  # warps, or classes, that are already there
    got: int = 0  # arrivals that the open phase has
    outstanding: int = 0  # bytes announced and not copied
    announced: bool = False  # somebody announced bytes in the open phase


def stuck(run: Run) -> list[Stuck]:
    """All blocked classes, before anybody is forced on."""
    out: list[Stuck] = []
    for t in run.blocked():
        assert t.event is not None
        what, phase, why = describe_wait(run, t)
        kind = t.waits_on[0] if t.waits_on else ""
        present: frozenset[int] = frozenset()
        got = outstanding = 0
        announced = False
        if kind == "named":
            present = frozenset(run.named[t.info.cta, t.waits_on[1]].auto.marked)
        elif kind in ("wait", "token"):
            s: Barrier = run.barriers[t.waits_on[1]]
            present = frozenset(s.phases[0].arrived)
            got = s.auto.count - s.auto.pending
            outstanding = s.auto.tx
            announced = bool(s.phases[0].expects)
        found = Stuck(t.cls, kind, t.waits_on, t.event[1], t.time, what, phase, why, present)
        out.append(replace(found, got=got, outstanding=outstanding, announced=announced))
    return out


def hang_root(run: Run, waiting: list[Stuck], end: int) -> Stuck:
    """The blocked class to report; ``run`` hung at event ``end`` and has been forced to its end."""
    import networkx as nx  # only a hang needs it, and it takes a tenth of a second to load

    graph = nx.DiGraph()
    by_class = {s.cls: s for s in waiting}
    for s in waiting:
        graph.add_node(s.cls)
        for c in suppliers(run, s):
            if c != s.cls and c in by_class:
                graph.add_edge(s.cls, c)
    components = [c for c in nx.strongly_connected_components(graph) if not _leaves(graph, c)]
    best = min(
        components, key=lambda c: (min(_rank(by_class[x]) for x in c), min(by_class[x].time for x in c))
    )
    members = [by_class[x] for x in best]
    fills = {x for x in best if _copies(run, x)} or _fillers(run, best, end)
    return min(
        members,
        key=lambda s: (_rank(s), not _unannounced(s), s.got == 0, s.cls not in fills, s.time, s.cls),
    )


def _leaves(graph: Any, component: set[int]) -> bool:
    return any(v not in component for u in component for v in graph.successors(u))


def suppliers(run: Run, s: Stuck) -> set[int]:
    """Classes whose progress could end the wait."""
    t = run.threads[s.cls]
    key: tuple[object, ...]
    if s.kind in ("wait", "token"):
        key = ("wait", s.waits_on[1])
    elif s.kind == "named":
        key = ("named", t.info.cta, s.waits_on[1])
        here = run.contributors.get(key, set())
        return {c for c in here if run.threads[c].info.warp not in s.present}  # forced on, they came
    elif s.kind == "cluster":
        return {o.cls for o in run.threads if o.info.cta // run.info.ctas == t.info.cta // run.info.ctas}
    elif s.kind == "spin":
        return {w.cls for w in location(run, s.waits_on[2]).writes}  # forced on, they wrote
    elif s.kind == "registers":
        return {c for r in run.requests if r.cta == t.info.cta and r.need < 0 for c in r.pasts}
    elif s.kind == "mma":
        return {
            o.cls for o in run.threads if o.info.cta == t.info.cta and o.info.warp // 4 == t.info.warp // 4
        }
    else:
        return {o.cls for o in run.threads if (o.info.cta, o.info.warp) == (t.info.cta, t.info.warp)}
    return run.contributors.get(key, set())


def _unannounced(s: Stuck) -> bool:
    """Whether copies brought bytes that nobody announced: that phase is broken, whoever may still come."""
    return s.outstanding < 0 and not s.announced


def _copies(run: Run, cls: int) -> bool:
    """Whether the class issues copies: in a ring, the producer."""
    return any(op.thread.cls == cls and op.targets for op in run.asyncs)


def _fillers(run: Run, classes: set[int], end: int) -> set[int]:
    """Those that would store to shared memory next, ahead of any read of it or arrival, once they are let
    through, and have stored nothing so far: of a cycle of waits they hand over what the others read, and
    begin with what is free.

    Worked example. A thread stores the number of the next tile where others read it; it waits for ``empty``
    with the parity of a phase that only they complete, who wait for ``full``: the first of the two is wrong.
    """
    first: dict[int, Event] = {}
    fills = (Ev.WRITE, Ev.BULK_LOAD, Ev.CP_ASYNC)
    begun = {who for who, event in run.trace[:end] if event and event[0] in fills}
    for who, event in run.trace[end:]:
        if who in classes and event and event[0] in (Ev.READ, Ev.ARRIVE, *fills):
            first.setdefault(who, event)
    return {c for c, event in first.items() if event[0] in fills} - begun


def _rank(s: Stuck) -> int:
    """Warp-wide instructions and execution barriers name their cause best."""
    return {"meet": 0, "mma": 0, "warp": 0, "registers": 1, "cluster": 2, "named": 3}.get(s.kind, 4)


def hang_failure(run: Run, waiting: list[Stuck], end: int) -> Failure:
    """The hang as a failure, with the rule of its root."""
    s = hang_root(run, waiting, end)
    t = run.threads[s.cls]
    rule, site, extra = _rule(run, s)
    where = s.what if s.phase is None else f"phase {s.phase} of {s.what}"
    message = f"{t.info.name} waits for ever for {where}: {s.why}{extra}"
    labels = [(s.site, text) for text in expectation(run, s, waiting)]
    labels += [
        *passed_by(run, s, waiting, end),
        *left_early(run, s, waiting),
        *never_reached(run, s),
        *arrived_on_mates(run, s),
    ]
    seen = {s.site, *(site for site, _ in labels)}
    for o in waiting:
        if o.cls != s.cls and o.site not in seen:
            seen.add(o.site)
            labels.append((o.site, f"{run.threads[o.cls].info.name} waits for {o.what}"))
    barrier = s.waits_on[1] if s.kind in ("wait", "token") else -1
    apart = slots_apart(run, s)
    return Failure(
        Obligation.O6,
        rule,
        message,
        site,
        s.cls,
        s.time,
        end,
        barrier=barrier,
        phase=-1 if s.phase is None else s.phase,
        labels=[*apart, *(x for x in labels if x[0] not in {site for site, _ in apart})],
        mistake=Mistake.OTHER_BARRIER if apart else None,
    )


def expectation(run: Run, s: Stuck, waiting: list[Stuck]) -> list[str]:
    """What a wait expects against what is there, and who could still bring it, or why nobody can.

    ``run`` has been forced on: what each class would still have done is known.
    """
    expected = "waits here"
    if s.kind == "wait" and s.phase is not None:
        expected = f"expects phase {s.phase} (parity {s.phase % 2})"
    there = {o.cls: o for o in waiting}
    held: dict[str, list[str]] = {}
    for c in sorted(suppliers(run, s) - {s.cls}):
        held.setdefault(_held_up(there.get(c)), []).append(run.threads[c].info.name)
    could = [f"still to come: {_named(names)}{why}" for why, names in held.items()]
    if not could and s.cls in suppliers(run, s):
        could = [f"only {run.threads[s.cls].info.name} itself could still come, behind this wait"]
    return [f"{expected}: {s.why}", *(could or ["nobody comes any more in the rest of the kernel"])]


def left_early(run: Run, s: Stuck, waiting: list[Stuck]) -> list[tuple[int, str]]:
    """Warps that left, while a phase lacks as many arrivals as they are, or have threads: the last that they
    did. Those that arrived in phases before count first.
    """
    if s.kind != "wait":
        return []
    b: Barrier = run.barriers[s.waits_on[1]]
    cta = run.info.barriers[b.index].cta
    stay = {o.cls for o in waiting} | s.present
    left = [t for t in run.threads if t.info.cta == cta and t.done and t.cls not in stay]
    missing = b.auto.count - s.got if s.got else 0  # the barrier itself was forced on
    for some in ([t for t in left if t.cls in b.lanes], [t for t in left if t.cls not in b.lanes]):
        warps = sorted({t.info.warp for t in some})
        if missing and warps and missing in (len(warps), sum(t.n for t in some)):
            return _last_of(run, {t.cls for t in some}, warps)
    return []


def never_reached(run: Run, s: Stuck) -> list[tuple[int, str]]:
    """Arrivals in the code that the wait may be for, to which no thread of this launch comes.

    At a barrier of threads those of its id; at an mbarrier all, for a place in the code does not say which
    mbarrier it is on, and only where nobody comes any more.
    """
    if s.kind == "named":
        asked = re.compile(rf"bar(?:rier)?(?:\.\w+)*\s+{s.waits_on[1]}(?![\w$])")
    elif s.kind == "wait" and not suppliers(run, s):
        asked = re.compile(r"(?:cp\.async\.)?mbarrier\.arrive\b")
    else:
        return []
    done = {event[1] for _, event in run.trace if event}
    there = {run.info.sites[site].span for site in done if site >= 0}
    found = {
        site.span: n
        for n, site in enumerate(run.info.sites)
        if n not in done and site.span not in there and asked.match(site.text)
    }
    text = "no thread of this launch comes to this arrival: see the conditions around it"
    return [(n, text) for n in [*found.values()][:_LAST]]


def arrived_on_mates(run: Run, s: Stuck) -> list[tuple[int, str]]:
    """Where threads arrive at mbarriers that the same wait is for, if nobody ever arrives at this one.

    ``run`` has been forced on. Worked example. A producer waits for each slot of a ring in one loop, and
    consumers release slot 0 alone: the arrivals there show what the release of slot 1 looks like.
    """
    if s.kind != "wait":
        return []
    events = [event for who, event in run.trace if who >= 0]
    at: dict[int, set[int]] = {}
    for e in events:
        if e[0] in (Ev.ARRIVE, Ev.CP_ARRIVE) and e[1] >= 0:
            at.setdefault(e[2], set()).add(e[1])
    alike = {e[2] for e in events if e[0] == Ev.WAIT and e[1] == s.site} - {s.waits_on[1]}
    if s.waits_on[1] in at or not alike & at.keys():
        return []
    mate = min(alike & at.keys())
    name = run.info.barriers[mate].name
    text = f"threads arrive at {name}, for which the same wait is, here; at {s.what} nobody arrives anywhere"
    return [(site, text) for site in sorted(at[mate])[:_LAST]]


def slots_apart(run: Run, s: Stuck) -> list[tuple[int, str]]:
    """Where threads arrive at several slots that the same wait is for, but never at this one.

    ``run`` has been forced on. Worked example. A producer goes back to slot 0 behind slot 2, a consumer
    behind slot 3: the consumer waits for slot 3, at which nobody arrives. They do not count the same slots.
    """
    if s.kind != "wait":
        return []
    events = [(who, event) for who, event in run.trace if who >= 0]
    waits = {e[2] for _, e in events if e[0] == Ev.WAIT and e[1] == s.site} | {s.waits_on[1]}
    at: dict[tuple[int, int], list[int]] = {}
    for who, e in events:
        if e[0] in (Ev.ARRIVE, Ev.CP_ARRIVE) and e[1] >= 0:
            at.setdefault((e[1], who), []).append(e[2])
    if any(s.waits_on[1] in slots for slots in at.values()):
        return []
    several = {site: {*slots} for (site, _), slots in at.items() if _wraps(slots)}
    return [
        (site, f"threads take {len(slots)} slots in turn here, and those of the wait take {len(waits)}")
        for site, slots in several.items()
        if slots < waits
    ][:_LAST]


def _wraps(slots: list[int]) -> bool:
    """Whether arrivals come to the first of several slots again."""
    changes = [slot for n, slot in enumerate(slots) if not n or slot != slots[n - 1]]
    return len(changes) > len({*changes}) > 1


def _last_of(run: Run, gone: set[int], warps: list[int]) -> list[tuple[int, str]]:
    """What classes that have left did last, in the words of their warps."""
    many = f"warps {', '.join(map(str, warps))}" if len(warps) > 1 else f"warp {warps[0]}"
    mine = [event for who, event in run.trace if who in gone and event[1] >= 0]
    ends = {run.info.sites[event[1]].span.line for event in mine if event[0] == Ev.EXIT}
    last = [event[1] for event in mine if run.info.sites[event[1]].span.line not in ends]
    return [(last[-1], f"{many}: from here to the end without an arrival")] if last else []


def passed_by(run: Run, s: Stuck, waiting: list[Stuck], end: int) -> list[tuple[int, str]]:
    """Where a class that is missing at a barrier of threads was at a barrier last, and where it left."""
    if s.kind != "named":
        return []
    mine = run.threads[s.cls].info
    there = {o.cls: o for o in waiting}
    for t in run.threads:
        o = there.get(t.cls)
        if t.info.cta != mine.cta or t.info.warp in s.present or (o is not None and o.waits_on == s.waits_on):
            continue
        events = [event for who, event in run.trace[:end] if who == t.cls]
        met = [e for e in events if e[0] in _BARRIERS]
        last = list(dict.fromkeys(e[1] for e in reversed(met)))[:_LAST]
        found = [(site, f"{t.info.name}, which is missing, was last at barriers here") for site in last]
        found += [
            (site, "and goes on with this, without another barrier") for site in _next(events, last[:1])
        ]
        if len(met) == 1:
            found += [
                (site, "and came to it from this, without a barrier before it")
                for site in _ahead(events, last)
            ]
        same = [i for i, e in enumerate(met) if e[2] == s.waits_on[1] and e[1] not in last]
        for i in same[-1:]:
            found.append((met[i][1], f"and at barrier {s.waits_on[1]} here"))
            found += [(e[1], "before which it came to this one") for e in met[max(i - 1, 0) : i]]
        if o is None and events:
            found.append((events[-1][1], "and it leaves from here"))
        return [(site, text) for site, text in found if site != s.site]
    return []


def _next(events: list[Event], sites: list[int]) -> list[int]:
    """What a class does behind the last event at one of these sites."""
    at = max((i for i, e in enumerate(events) if e[1] in sites), default=len(events))
    return [e[1] for e in events[at + 1 :] if e[1] >= 0 and e[1] not in sites][:1]


def _ahead(events: list[Event], sites: list[int]) -> list[int]:
    """What a class does right before the first event at one of these sites."""
    at = next((i for i, e in enumerate(events) if e[1] in sites), 0)
    return [e[1] for e in events[:at] if e[1] >= 0 and e[0] not in _UNSEEN][-1:]


#: What a warp does for itself alone.
_UNSEEN = (Ev.ELECT, Ev.COLLECTIVE, Ev.SETMAXNREG)
#: Barriers that are shown of a class that is missing at one.
_LAST = 2
#: Events at barriers of threads.
_BARRIERS = (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE)


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _held_up(s: Stuck | None) -> str:
    """What a class waits for itself."""
    if s is None:
        return ""
    return f", held up at {s.what}" + ("" if s.phase is None else f" (phase {s.phase})")


def _rule(run: Run, s: Stuck) -> tuple[str, int, str]:
    if s.kind == "named":
        # Too few threads for an explicit count: a mismatch. A whole-CTA barrier some never reach: divergence.
        return ("SV301" if s.waits_on[3] else "SV302"), s.site, ""
    if s.kind in ("cluster", "warp"):
        return "SV302", s.site, ""
    if s.kind in ("meet", "mma"):
        return "SV303", s.site, ""
    if s.kind == "registers":
        return "SV304", s.site, ""
    if s.kind in ("wait", "token"):
        return _wait_rule(run, s)
    return "SV210", s.site, ""


def _wait_rule(run: Run, s: Stuck) -> tuple[str, int, str]:
    """A phase that hangs: bytes missing, arrivals that can never add up, or a wait that is wrong itself."""
    b: Barrier = run.barriers[s.waits_on[1]]
    count = b.auto.count or 1
    site = b.init_site if b.init_site >= 0 else s.site
    if b.net_zero and not s.got:
        return (
            "SV202",
            site,
            (
                f"; each cp.async.mbarrier.arrive here adds an arrival before it takes one: only .noinc "
                f"counts towards the {count}"
            ),
        )
    if s.outstanding > 0 and b.copies == 0 and s.got:
        expect = next(iter(b.expect_sites), s.site)
        return "SV212", expect, "; its bytes are announced, but no path issues a copy on this barrier"
    copies = [op.site for op in run.asyncs if any(barrier == b.index for barrier, _, _ in op.targets)]
    if _unannounced(s) and copies:
        why = "; its copies bring bytes that nobody announces"
        return "SV203", copies[-1], why
    lanes = sum(b.lanes.values())
    if s.got and lanes < count:
        arrivers = "1 thread ever arrives" if lanes == 1 else f"{lanes} threads ever arrive"
        return (
            "SV202",
            site,
            f"; {arrivers} on it, its count is {count}",
        )
    return "SV210", s.site, ""


def release_blocked(run: Run, limit: int) -> None:
    """Lets blocked classes through, least advanced first, so that independent mistakes still show."""
    run.after_hang = True
    run.contributors = {}  # from here on: what each class would still have done
    for _ in range(limit):
        blocked = [t for t in run.threads if not t.done and t.blocked]
        if not blocked:
            return
        t = min(blocked, key=lambda t: (t.parked, t.time))  # execution barriers last: others may still come
        _release(run, t)
        _go_on(run)


def _go_on(run: Run) -> None:
    """Runs on; a class that comes to what nobody can follow stays there, and the others go on."""
    for _ in range(len(run.threads)):
        with suppress(Unmodelled):
            return run.run()


def _release(run: Run, t: LaneClass) -> None:
    kind = t.waits_on[0] if t.waits_on else ""
    if t.parked:
        for n in run.named.values():
            for g in (n.gen, *n.partial.values()):
                if t in g.waiting:
                    g.waiting.remove(t)
        for o in run.threads:
            if o is not t and o.info.cta == t.info.cta:
                o.clock.hand(t.clock.m)  # too much rather than too little: no mistake is made up
        run.wake(t)
        return
    if kind in ("wait", "token"):
        s: Barrier = run.barriers[t.waits_on[1]]
        if t in s.blocked:
            s.blocked.remove(t)
    t.blocked = False
    t.waits_on = ("forced",)
    run.ready.append(t)
