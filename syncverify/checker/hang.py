"""Why a run hangs: who waits on what, and whose fault it is."""

from __future__ import annotations

from syncverify.checker.barriers import Barrier
from syncverify.checker.engine import Run, Thread
from syncverify.checker.failure import Failure, Obligation
from syncverify.checker.witness import describe_wait


def hang_failure(run: Run) -> Failure:
    """The hang as a failure, with the rule its immediate cause suggests; call before forcing anybody on."""
    blocked = run.blocked()
    t = min(blocked, key=lambda t: (_rank(run, t), t.time))
    what, phase, why = describe_wait(run, t)
    rule = _rule(run, t)
    assert t.event is not None
    where = what if phase is None else f"phase {phase} of {what}"
    return Failure(Obligation.O6, rule, f"{t.info.name} waits for ever for {where}: {why}", t.event[1], t.cls, t.time,
                   len(run.trace), barrier=t.waits_on[1] if t.waits_on[:1] == ("wait",) else -1,
                   phase=-1 if phase is None else phase,
                   labels=[(o.event[1], f"{o.info.name} waits for {describe_wait(run, o)[0]}")
                           for o in blocked if o is not t and o.event is not None])  # fmt: skip


def _rank(run: Run, t: Thread) -> int:
    """Execution barriers name their cause best, then barriers that lack something, then the rest."""
    kind = t.waits_on[0] if t.waits_on else ""
    order = {"named": 0, "cluster": 0, "warp": 0, "registers": 1, "wait": 2, "token": 2}
    return order.get(kind, 3)


def _rule(run: Run, t: Thread) -> str:
    kind = t.waits_on[0] if t.waits_on else ""
    if kind == "named":
        total = -(-run.info.threads // 32) * 32
        return "SV302" if t.waits_on[2] >= total else "SV301"
    if kind in ("cluster", "warp"):
        return "SV302"
    if kind == "registers":
        return "SV304"
    return "SV210"


def force(run: Run, limit: int) -> None:
    """Lets blocked classes through, least advanced first, so that independent mistakes still show."""
    run.forced = True
    for _ in range(limit):
        blocked = [t for t in run.threads if not t.done and t.blocked]
        if not blocked:
            return
        t = min(blocked, key=lambda t: t.time)
        _release(run, t)
        run.run()


def _release(run: Run, t: Thread) -> None:
    kind = t.waits_on[0] if t.waits_on else ""
    if t.parked:
        if kind == "named":
            gen = run.named[t.info.cta, t.waits_on[1]].gen
            if t in gen.waiting:
                gen.waiting.remove(t)
        run.wake(t)
        return
    if kind in ("wait", "token"):
        s: Barrier = run.barriers[t.waits_on[1]]
        if t in s.blocked:
            s.blocked.remove(t)
    t.blocked = False
    t.waits_on = ("forced",)
    run.ready.append(t)


