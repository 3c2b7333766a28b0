"""Schedules other than the canonical one: what shows a broken obligation, and random ones after it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.run import RETRY, AsyncOperation, LaneClass, Run
from syncverify.checker.happens_before.vector_clocks import Matrix


def run_past_of(run: Run, model: Run, limits: Matrix) -> bool:
    """Runs the events of ``model`` whose time is within ``limits``, in its order; false if that gets stuck.

    ``limits`` is down-closed: it came from E clocks. A completion is run iff some event within knows of it.
    """
    counts = [0] * len(run.threads)
    follow = _Follower(run, model)
    for who, _ in model.trace:
        if who >= 0:
            counts[who] += 1
            if counts[who] <= limits[who] and not push(run, run.threads[who]):
                return False
        elif any(limits[c] >= v for c, v in model.asyncs[-1 - who].landed):
            follow.complete(-1 - who)
    return True


class _Follower:
    """Finds in a run the asynchronous operations of its model."""

    def __init__(self, run: Run, model: Run) -> None:
        self.run = run
        self.model = model
        self._ops: dict[tuple[int, int], AsyncOperation] = {}
        self._seen = 0

    def find(self, index: int) -> AsyncOperation | None:
        """The operation that is number ``index`` in the model, if it is in flight or done."""
        run, key = self.run, self.model.asyncs[index].key
        t = run.threads[key[0]]
        if t.event is not None and not t.blocked:
            run.step(t)  # it was held up by a warp-wide meeting that is over
        while self._seen < len(run.asyncs):
            self._ops[run.asyncs[self._seen].key] = run.asyncs[self._seen]
            self._seen += 1
        return self._ops.get(key)

    def complete(self, index: int) -> None:
        op = self.find(index)
        if op is not None and not op.done:
            self.run.complete(op)


def push(run: Run, t: LaneClass) -> bool:
    """One more event of a class; coming to a warp-wide meeting counts as its event."""
    if t.blocked or t.done:
        return False
    if t.event is not None and run.step(t) == RETRY:
        return False
    return run.step(t) != RETRY or t.meeting


def run_directed(run: Run, model: Run, failure: Failure) -> bool:
    """Brings a fresh run to where the failing event lands elsewhere than in ``model``."""
    assert failure.past is not None
    limits = failure.past
    if failure.withheld:
        limits = limits.copy()
        limits[failure.cls] = min(int(limits[failure.cls]), failure.time - 1)
    if not run_past_of(run, model, limits):
        return False
    t = run.threads[failure.cls]
    if (
        failure.obligation in (Obligation.O1, Obligation.O2)
        and not t.done
        and not t.blocked
        and t.time < failure.time
    ):
        push(run, t)
    return True


def run_random(run: Run, rng: Random, starve: int, stop: Callable[[Run], bool], limit: int) -> None:
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


def _pick(threads: list[LaneClass], weight: list[float], starve: int, rng: Random) -> LaneClass:
    if rng.random() < 0.3:
        t = rng.choice(threads)
        if t.cls != starve:
            return t
    return max(threads, key=lambda t: weight[t.cls] - (2.0 if t.cls == starve else 0.0))


def truncate(run: Run, model: Run, position: int, late: int) -> bool:
    """Replays ``model`` up to and including ``position``, holding back the completion of ``late``."""
    follow = _Follower(run, model)
    for who, _ in model.trace[: position + 1]:
        if who < 0:
            if -1 - who != late:
                follow.complete(-1 - who)
        elif not push(run, run.threads[who]):
            return False
    if late >= 0:
        follow.complete(late)
    return True
