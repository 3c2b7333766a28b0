"""Schedules other than the canonical one: what shows a broken obligation, and random ones after it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from syncverify.checker.clocks import Matrix
from syncverify.checker.engine import RETRY, Async, Run, Thread
from syncverify.checker.failure import Failure, Obligation


def replay_past(run: Run, model: Run, limits: Matrix) -> bool:
    """Runs the events of ``model`` whose time is within ``limits``, in its order; false if that gets stuck.

    ``limits`` is down-closed: it came from E clocks. A completion is run iff some event within knows of it.
    """
    counts = [0] * len(run.threads)
    ops: dict[tuple[int, int], Async] = {}
    seen = 0
    for who, _ in model.trace:
        if who >= 0:
            counts[who] += 1
            if counts[who] > limits[who]:
                continue
            if not push(run, run.threads[who]):
                return False
            while seen < len(run.asyncs):
                ops[run.asyncs[seen].key] = run.asyncs[seen]
                seen += 1
            continue
        op = model.asyncs[-1 - who]
        mine = ops.get(op.key)
        if mine is not None and not mine.done and any(limits[c] >= v for c, v in op.landed):
            run.complete(mine)
    return True


def push(run: Run, t: Thread) -> bool:
    """One more event of a class; coming to a warp-wide meeting counts as its event."""
    if t.blocked or t.done:
        return False
    if t.event is not None and run.step(t) == RETRY:
        return False
    return run.step(t) != RETRY or t.meeting


def provoke(run: Run, model: Run, failure: Failure) -> bool:
    """Brings a fresh run to where the failing event lands elsewhere than in ``model``."""
    assert failure.past is not None
    limits = failure.past
    if failure.withheld:
        limits = limits.copy()
        limits[failure.cls] = min(int(limits[failure.cls]), failure.time - 1)
    if not replay_past(run, model, limits):
        return False
    t = run.threads[failure.cls]
    if failure.obligation in (Obligation.O1, Obligation.O2) and not t.done and not t.blocked and t.time < failure.time:
        push(run, t)
    return True


def explore(run: Run, rng: Random, starve: int, stop: Callable[[Run], bool], limit: int) -> None:
    """Runs on in a random order until the end, until ``stop``, or for ``limit`` steps.

    Threads get random priorities that change now and then, so that long waits and late completions
    happen; ``starve`` (a class, or -1) runs only if nobody else can.
    """
    weight = [rng.random() for _ in run.threads]
    late = rng.random()
    for steps in range(limit):
        threads = run.enabled()
        pending = list(run.pending.values())
        if not threads and not pending:
            return
        if steps % 16 == 0:
            weight[rng.randrange(len(weight))] = rng.random()
            late = rng.random()
        if pending and (not threads or rng.random() < late * 0.5):
            run.complete(rng.choice(pending))
        else:
            run.step(_pick(threads, weight, starve, rng))
        if stop(run):
            return


def _pick(threads: list[Thread], weight: list[float], starve: int, rng: Random) -> Thread:
    if rng.random() < 0.3:
        t = rng.choice(threads)
        if t.cls != starve:
            return t
    return max(threads, key=lambda t: weight[t.cls] - (2.0 if t.cls == starve else 0.0))


def truncate(run: Run, model: Run, position: int, late: int) -> bool:
    """Replays ``model`` up to and including ``position``, leaving out the completion of operation ``late``."""
    ops: dict[tuple[int, int], Async] = {}
    seen = 0
    for i, (who, _) in enumerate(model.trace):
        if i > position:
            break
        if who >= 0:
            if not push(run, run.threads[who]):
                return False
            while seen < len(run.asyncs):
                ops[run.asyncs[seen].key] = run.asyncs[seen]
                seen += 1
            continue
        op = model.asyncs[-1 - who]
        if op.index != late and not ops[op.key].done:
            run.complete(ops[op.key])
    if late >= 0:
        held = ops.get(model.asyncs[late].key)
        if held is not None and not held.done:
            run.complete(held)
    return True
