"""One cluster of a block group that shares global memory, alone: see docs/block_groups.md, "Members of a
block group".

It represents the clusters at its place in any block group, whatever those before it have done. Its spins pass
at once, and what they acquire is kept as columns of the clocks: which spin it came of, and of which row. What
it does with flags, and where it reaches tracked memory, is on record, to be put together with the records of
the others (``together``).
"""

from __future__ import annotations

from syncverify.checker.happens_before.effect_log import Bytes, FlagWait, FlagWrite, Step
from syncverify.checker.happens_before.event_flags import RELEASE, STRONG, UNSIGNED
from syncverify.checker.happens_before.handlers import flag_chain, global_memory
from syncverify.checker.happens_before.handlers.global_memory import Spin, Write
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, Unmodelled
from syncverify.checker.happens_before.vector_clocks import AG, SH, E, H, matrix
from syncverify.model.events import Event
from syncverify.model.proxies import Access, Scope

#: Spins and signals of one cluster; one that goes on with them for ever has no end of states.
MOST_STEPS = 64


def on_spin(run: Run, t: LaneClass, event: Event) -> int:
    """Passes at once: whether the clusters before bring what it waits for is seen when all are together."""
    if not run.info.modular_cluster:
        return flag_chain.on_spin(run, t, event)
    _, site, fp, flags, scope, compare, value = event
    if flags & UNSIGNED and compare in ("<", "<="):
        raise Unmodelled("a wait for at most some number, which a flag of other clusters holds", site)
    global_memory.early(run, t, site, reads=True)
    flag = _flag(run, fp, site)
    if scope < Scope.GPU:
        raise Unmodelled("a flag of other clusters is looked at with the scope of one", site)
    number = sum(isinstance(x, FlagWait) for x in run.ledger)
    columns = [run.columns.of("handed", number, which) for which in range(3)]
    t.syncs.append(t.time)
    t.clock.m[E, columns[0]] = 1
    released = matrix(run.columns)
    released[H, columns[1]] = released[SH, columns[1]] = released[AG, columns[2]] = 1
    # of another cluster, whichever: its class is none of these
    global_memory.hand_over(run, t, released, flags)
    spin = Spin(t.cls, t.time, site, compare, value, 0, unsigned=bool(flags & UNSIGNED))
    _keep(run, FlagWait(flag, spin, (columns[0], columns[1], columns[2])), site)
    return DONE


def on_write(run: Run, t: LaneClass, event: Event) -> int:
    if not run.info.modular_cluster:
        return flag_chain.on_write(run, t, event)
    _, site, fp, flags, scope, value = event
    strong = bool(flags & (STRONG | RELEASE))
    global_memory.touch(run, t, Access.GENERIC_WRITE, fp, site, strong, scope)
    if fp >= 0 and strong:
        _signal(run, t, site, fp, flags, scope, value, None)
    return DONE


def on_atomic(run: Run, t: LaneClass, event: Event) -> int:
    if not run.info.modular_cluster:
        return flag_chain.on_atomic(run, t, event)
    _, site, fp, flags, scope, op, value = event
    global_memory.touch(run, t, Access.GENERIC_WRITE, fp, site, True, scope)
    if fp >= 0:
        _signal(run, t, site, fp, flags, scope, None, None if op != "add" else value)
    return DONE


def _signal(
    run: Run, t: LaneClass, site: int, fp: int, flags: int, scope: int, value: int | None, added: int | None
) -> None:
    """A write that others may wait for."""
    flag = _flag(run, fp, site)
    t.syncs.append(t.time)
    run.signals.append((t.cls, t.time, site))
    full, reach = global_memory.release(run, t, site, flags, scope)
    if (full is not None and reach < Scope.GPU) or scope < Scope.GPU:
        raise Unmodelled("a flag of other clusters is written with the scope of one", site)
    if value is None and added is None:
        raise Unmodelled("what a flag of other clusters is given is not known", site)
    amount = None if added is None else added * t.n
    past = t.clock.past()
    if t.n > 1 and added is None:
        full, past = global_memory.of_any_lane(t, full), t.clock.m[E].copy()
    _keep(run, FlagWrite(flag, Write(t.cls, t.time, value, amount, past, site, t.n, full, reach)), site)


def _keep(run: Run, step: Step, site: int) -> None:
    if len(run.ledger) >= MOST_STEPS:
        raise Unmodelled("a cluster with so many spins and signals", site)
    run.ledger.append(step)


def _flag(run: Run, fp: int, site: int) -> Bytes:
    if fp < 0:
        raise Unmodelled("a spin on global memory that is not tracked", site)
    intervals = run.info.footprints[fp].intervals
    if len(intervals) != 1 or run.info.footprints[fp].lanes:
        raise Unmodelled("several flags at once", site)
    return intervals[0]


__all__ = ["on_atomic", "on_spin", "on_write"]
