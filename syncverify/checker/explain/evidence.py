"""Further places that a finding shows: what its author compares to see the mistake.

A phase that never completes has an init with its count, announcements of bytes, and copies; what lacks an
order, or a fence, lies between two events of one thread. Places only help to read a finding: no verdict
depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syncverify.checker.happens_before.failure import Failure
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, name
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import Ev
from syncverify.model.proxies import Access

#: Rules of phases whose arrivals or bytes do not add up.
_ACCOUNTS = frozenset({"SV201", "SV202", "SV203", "SV206", "SV210", "SV212"})
#: Those of bytes.
_BYTES = frozenset({"SV203", "SV206", "SV212"})
#: Rules of a missing operation that has to stand between the event before and the one that is shown.
_BETWEEN = frozenset({"SV209", "SV402"})
#: Those of an access that may come before a copy is complete, or before a slot is free.
_RACES = frozenset({"SV104", "SV110", "SV111", "SV112"})
#: Places of one kind that are shown.
_MOST = 2

#: Events that wait for others.
_WAITS = frozenset(
    {Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.BARRIER_SYNC, Ev.WGMMA_WAIT, Ev.CP_WAIT, Ev.BULK_WAIT}
)

#: Those that begin a copy, or hand over.
_ISSUES = frozenset({Ev.BULK_LOAD, Ev.BULK_STORE, Ev.BULK_COPY, Ev.ARRIVE})

#: How operations that are waited for in groups are committed and waited for.
_COMMITTED = {
    Access.ASYNC_READ: (Ev.BULK_COMMIT, Ev.BULK_WAIT),
    Access.CPASYNC_WRITE: (Ev.CP_COMMIT, Ev.CP_WAIT),
    Access.MMA_READ: (Ev.WGMMA_COMMIT, Ev.WGMMA_WAIT),
}

#: Rules of operations in flight, and what waits for groups of them.
_WAITED_FOR = {"SV211": Ev.BULK_WAIT, "SV401": Ev.WGMMA_WAIT}

#: Warps of a warpgroup.
_WARPS = 4

Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A further place of a finding, and what to see there. ``detail``: a note on what lies around it.

    ``unmended``: for a finding without a repair.
    """

    site: int
    text: str
    detail: bool = False
    unmended: bool = False


def evidence(run: Run, f: Failure) -> list[Seen]:
    """What a failure does not name yet."""
    found: list[Place] = []
    around: list[Place] = []
    nearby: list[Place] = []
    if f.barrier >= 0 and f.rule in _ACCOUNTS:
        found += _account(run, f)
    if f.rule == "SV301":
        found += _participants(run, run.threads[f.cls].info.cta, f)
    if f.rule in _BETWEEN:
        found += _before(run, f)
    if f.rule == "SV209":
        around += _behind(run, f)
    if f.rule == "SV302" and _waits_for_cluster(run, f):
        found += [*_inits(run, f), *_before(run, f)]
    if f.rule == "SV204" and f.barrier >= 0:
        around += _after_inits(run, f)
    if f.rule in _WAITED_FOR and f.barrier < 0:
        around += _last_groups(run, f)
    if f.rule in _RACES and f.first is not None and f.second is not None:
        found += _released(run, f.first, f.second)
        around += _since(run, f.first, f.second)
        around += _groups(run, f.first, f.second)
        nearby += _next_to(run, f.first, f.second)
        nearby += _rounds(run, f.first, f.second)
    said = {f.site, *(site for site, _ in f.labels)}
    seen = (
        Seen(site, text, of is not found, of is nearby) for of in (found, around, nearby) for site, text in of
    )
    return [place for place in seen if place.site >= 0 and place.site not in said]


def _account(run: Run, f: Failure) -> Iterator[Place]:
    """The count of a barrier, and who announces and who copies its bytes where the sums differ."""
    s: Barrier = run.barriers[f.barrier]
    if f.rule not in ("SV201", "SV210") or (s.arrivals and f.phase > 0):
        yield s.init_site, f"{name(run, s.index)} is initialized here, with a count of {s.auto.count}"
    if f.rule == "SV202" and len(s.arrivals) == 1:
        text = f"arrivals in a phase from here: {sum(s.lanes.values())}"
        yield from ((site, text) for site in s.arrivals)
    of_bytes = f.rule in _BYTES or s.bytes_completed
    if s.bytes_expected == s.bytes_completed or not of_bytes:
        return
    copies: dict[int, int] = {}
    for op in run.asyncs:
        for barrier, amount, _ in op.targets:
            if barrier == f.barrier:
                copies[op.site] = copies.get(op.site, 0) + amount * op.thread.n
    yield from ((site, f"announces bytes on {name(run, s.index)}") for site in list(s.expect_sites)[:_MOST])
    rest = "" if s.expect_sites else ", and nobody announces any"
    for site in [] if s.expect_sites else list(copies)[:1]:
        who = next(op.thread.cls for op in run.asyncs if op.site == site)
        at = next((i for i, (c, e) in enumerate(run.trace) if c == who and e[1] == site), 0)
        events = [e for c, e in run.trace[:at] if c == who and e[0] not in (Ev.ELECT, Ev.COLLECTIVE)]
        mine = [e[1] for e in events if e[1] >= 0 and e[1] not in copies]
        yield from ((last, "an announcement of the bytes belongs behind this") for last in mine[-1:])
    yield from ((site, f"copies {n} bytes in all{rest}") for site, n in list(copies.items())[:_MOST])
    if s.bytes_completed < s.bytes_expected:
        yield from _passed_over(run, s)


def _passed_over(run: Run, s: Barrier) -> list[Place]:
    """Multicasts to this place of other blocks of the cluster whose mask leaves this block out."""
    mine = run.info.barriers[s.index]
    places: dict[int, set[int]] = {}
    for op in run.asyncs:
        to = {run.info.barriers[b].cta for b, _, _ in op.targets if b >= 0}
        offsets = {run.info.barriers[b].offset for b, _, _ in op.targets if b >= 0}
        cluster = {cta // run.info.ctas for cta in to}
        far = len(to) > 1 or op.thread.info.cta not in to
        if far and cluster == {mine.cta // run.info.ctas} and offsets == {mine.offset}:
            places.setdefault(op.site, set()).update(to)
    return [
        (site, f"goes to cta{', cta'.join(map(str, sorted(to)))}: its mask leaves out cta{mine.cta}")
        for site, to in places.items()
        if mine.cta not in to
    ]


def _participants(run: Run, cta: int, f: Failure) -> Iterator[Place]:
    """Barriers that are for fewer threads than come to them, or for more: that of the failure, else all."""
    warps: dict[int, set[int]] = {}
    counts: dict[int, set[int]] = {}
    sites: dict[int, dict[int, None]] = {}
    for who, event in run.trace:
        if who < 0 or event[0] not in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE):
            continue
        info = run.threads[who].info
        if info.cta == cta and event[3]:
            warps.setdefault(event[2], set()).add(info.warp)
            counts.setdefault(event[2], set()).add(event[3])
            sites.setdefault(event[2], {})[event[1]] = None
    event = run.trace[f.position][1] if f.position < len(run.trace) else ()
    own = event[2] if len(event) > 3 and event[0] in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE) else None
    if own in warps and counts[own] != {32 * len(warps[own])}:
        warps = {own: warps[own]}
    for number, came in warps.items():
        if counts[number] != {32 * len(came)}:
            counted = " and ".join(str(n) for n in sorted(counts[number]))
            text = f"barrier {number} is for {counted} threads, and {32 * len(came)} come to it in all"
            yield from ((site, text) for site in list(sites[number])[:_MOST])


def comers(run: Run, cta: int, number: int) -> int:
    """How many threads of a block come to a barrier of threads, in whole warps."""
    named = (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE)
    coming = (run.threads[who].info for who, e in run.trace if who >= 0 and e[0] in named and e[2] == number)
    return 32 * len({info.warp for info in coming if info.cta == cta})


def _waits_for_cluster(run: Run, f: Failure) -> bool:
    """Whether a failure is at the wait of a cluster's barrier: what its threads lack is an arrival before."""
    return any(who == f.cls and e[0] == Ev.CLUSTER_WAIT and e[1] == f.site for who, e in reversed(run.trace))


def _last_groups(run: Run, f: Failure) -> Iterator[Place]:
    """The last wait for groups, by the same threads, before operations that are still in flight."""
    code = _WAITED_FOR[f.rule]
    waits = [e[1] for who, e in run.trace[: f.position] if who == f.cls and e[0] == code and e[1] >= 0]
    yield from ((site, "the last wait of these threads for groups, and not for all") for site in waits[-1:])


def _inits(run: Run, f: Failure) -> Iterator[Place]:
    """The last init of an mbarrier before a failure, or the fence for them, which its cluster waits for."""
    before = [e[1] for who, e in run.trace[: f.position] if who >= 0 and e[0] in (Ev.INIT, Ev.INIT_FENCE)]
    yield from ((site, "an arrival at the cluster's barrier belongs behind this") for site in before[-1:])


def _before(run: Run, f: Failure) -> Iterator[Place]:
    """What the same threads waited for last before it, or else the event before."""
    before = [e for who, e in run.trace[: f.position] if who == f.cls and e[1] >= 0 and e[1] != f.site]
    waits = [e for e in before if e[0] in _WAITS]
    last = (waits or before)[-1:]
    yield from ((e[1], "after this, and before the operation that is shown") for e in last)


def _behind(run: Run, f: Failure) -> Iterator[Place]:
    """What the same threads do next: a wait that lacks stands before."""
    mine = (e[1] for who, e in run.trace[f.position :] if who == f.cls and e[1] >= 0 and e[1] != f.site)
    yield next(mine, -1), "they go on with this"


def _after_inits(run: Run, f: Failure) -> Iterator[Place]:
    """What the threads that initialize the barriers of a block do next: an init that lacks stands before."""
    cta = run.info.barriers[f.barrier].cta
    inits = [
        (at, who)
        for at, (who, e) in enumerate(run.trace)
        if who >= 0 and e[0] == Ev.INIT and run.info.barriers[e[2]].cta == cta
    ]
    if not inits:
        return
    yield from _neighbouring_inits(run, f.barrier)
    last, cls = inits[-1]
    mine = (e for who, e in run.trace[last + 1 :] if who == cls and e[1] >= 0)
    behind = (e[1] for e in mine if e[0] not in (Ev.ELECT, Ev.COLLECTIVE))
    site = next(behind, -1)
    yield site, "the inits come before this"


def _before_init(run: Run, site: int) -> Iterator[Place]:
    """What the thread that initializes at a place did before."""
    at = next((i for i, (who, e) in enumerate(run.trace) if who >= 0 and e[1] == site), 0)
    cls = run.trace[at][0] if run.trace else -1
    mine = [e[1] for who, e in run.trace[:at] if who == cls and e[1] >= 0 and e[1] != site]
    yield from ((last, "the inits begin behind this") for last in mine[-1:])


def _neighbouring_inits(run: Run, b: int) -> Iterator[Place]:
    """The inits of the barriers right before and behind one in memory: its own belongs with them."""
    mine = run.info.barriers[b]
    known = [
        (run.info.barriers[s.index].offset, s)
        for s in run.barriers.values()
        if s.init_site >= 0 and run.info.barriers[s.index].cta == mine.cta and s.index != b
    ]
    below = max((x for x in known if x[0] < mine.offset), key=lambda x: x[0], default=None)
    above = min((x for x in known if x[0] > mine.offset), key=lambda x: x[0], default=None)
    if below is None and above is not None:
        yield from _before_init(run, above[1].init_site)
    for found, which in ((below, "before"), (above, "behind")):
        if found is not None:
            text = f"{name(run, found[1].index)}, the barrier {which} it in memory, is initialized here"
            yield found[1].init_site, text


def _since(run: Run, first: Record, second: Record) -> Iterator[Place]:
    """What the threads of an access waited for and issued last before it: a wait that lacks stands behind.

    Where they waited for the barrier on which the first access completes, it was for another phase.
    """
    mine = [e for who, e in run.trace[: second.position] if who == second.cls and e[1] >= 0]
    others = [e for e in mine if e[1] != second.site]
    waits = [e for e in others if e[0] in _WAITS]
    yield from ((e[1], "the last wait before the access, by the same threads") for e in waits[-1:])
    barrier = next((s for s in run.barriers.values() if s.column == first.tag), None)
    if barrier is not None and first.kind.asynchronous:
        text = f"the last wait of these threads for {name(run, barrier.index)}, on which the first completes"
        own = [e for e in waits[:-1] if e[0] in (Ev.WAIT, Ev.POLL) and e[2] == barrier.index]
        yield from ((e[1], text) for e in own[-1:])
    issued = [e for e in others if e[0] in _ISSUES]
    yield from ((e[1], "what they handed over or issued last before the access") for e in issued[-1:])


def _next_to(run: Run, first: Record, second: Record) -> Iterator[Place]:
    """What the threads of the first access do next, and those of the second before."""
    behind = (e for who, e in run.trace[first.position + 1 :] if who == first.cls and e[1] >= 0)
    site = next((e[1] for e in behind if e[1] != first.site), -1)
    yield site, "the threads of the first access go on with this"
    before = (e for who, e in reversed(run.trace[: second.position]) if who == second.cls and e[1] >= 0)
    site = next((e[1] for e in before if e[1] != second.site), -1)
    yield site, "those of the second come from this"


def _rounds(run: Run, first: Record, second: Record) -> Iterator[Place]:
    """Where two roles were last at a barrier of threads, each in code of its own, before they access.

    Who has passed it once less than the other role means lacks one of its barriers between two of these
    places. Worked example. Workers read a word behind barrier 1, and come to it twice more before they read
    again; with one of the two deleted, they read while the others write the next word.
    """
    mine, others = _met(run, first), _met(run, second)
    for number in sorted(mine.keys() & others.keys()):
        one, other = mine[number], others[number]
        if {*one} & {*other}:
            continue
        for sites, who in ((one, "first"), (other, "second")):
            whose = f"the threads of the {who} access"
            last, *earlier = dict.fromkeys(reversed(sites))
            yield last, f"{whose} were at barrier {number} last here"
            yield from ((site, f"{whose} came from barrier {number} here") for site in earlier[: _MOST - 1])


def _met(run: Run, r: Record) -> dict[int, list[int]]:
    """By id, the places of the barriers of threads that the threads of an access came to before it."""
    found: dict[int, list[int]] = {}
    for who, e in run.trace[: r.position]:
        if who == r.cls and e[0] == Ev.BARRIER_SYNC and e[1] >= 0:
            found.setdefault(e[2], []).append(e[1])
    return found


def _released(run: Run, first: Record, second: Record) -> Iterator[Place]:
    """Where threads that touch a slot release it to the copy that comes too early."""
    if first.kind.asynchronous or second.kind is not Access.ASYNC_WRITE:
        return
    before = [e for who, e in run.trace[: second.position] if who == second.cls and e[0] == Ev.WAIT]
    if not before:
        return
    barrier, warp = before[-1][2], run.threads[first.cls].info.warp
    sites = dict.fromkeys(
        e[1]
        for who, e in run.trace[: second.position]
        if who >= 0
        and e[0] == Ev.ARRIVE
        and e[2] == barrier
        and run.threads[who].info.warp // _WARPS == warp // _WARPS
    )
    text = f"the slot is released here ({name(run, barrier)}), and not only after all reads"
    yield from ((site, text) for site in list(sites)[:_MOST])


def _groups(run: Run, first: Record, second: Record) -> Iterator[Place]:
    """Where the threads of an operation that a group wait completes commit and wait, before the access."""
    found = _COMMITTED.get(first.kind)
    if found is None:
        return
    commit, wait = found
    events = run.trace[first.position : max(first.position, second.position)]
    mine = [e for who, e in events if who == first.cls and e[1] >= 0]
    waits = [e for e in mine if e[0] == wait]
    yield from ((e[1], "its threads wait for groups here, and not for this one") for e in waits[-1:])
    commits = [e for e in mine if e[0] == commit]
    yield from ((e[1], "the last group before that is committed here") for e in commits[-1:])


__all__ = ["comers", "evidence"]
