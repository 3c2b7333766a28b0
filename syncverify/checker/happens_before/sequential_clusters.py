"""Clusters that run one after the other: each begins when the one before it has left.

What only the end of a run shows of a cluster is judged when it leaves; then nothing asks of its barriers and
its shared memory any more. What its blocks did in global memory stays.
"""

from __future__ import annotations

from syncverify.checker.happens_before import end_of_run
from syncverify.checker.happens_before.handlers import control
from syncverify.checker.happens_before.run import LATER, LaneClass, Run
from syncverify.model.events import Event


def on_exit(run: Run, t: LaneClass, event: Event) -> int:
    """With the last lanes of a cluster the next begins."""
    result = control.on_exit(run, t, event)
    info = run.info
    if not info.clusters_run_sequentially or any(
        not o.done for o in run.threads if o.info.cta // info.ctas == run.running_cluster
    ):
        return result
    _leave(run, range(run.running_cluster * info.ctas, (run.running_cluster + 1) * info.ctas))
    run.running_cluster += 1
    for o in run.threads:
        if o.waits_on == LATER and o.info.cta // info.ctas == run.running_cluster:
            run.wake(o)
    return result


def _leave(run: Run, ctas: range) -> None:
    """Judges what stays of some blocks, and drops it; barriers that failures name are kept for these."""
    end_of_run.in_flight_at_exit(run, [b for b in run.barriers if run.info.barriers[b].cta in ctas])
    named = {f.barrier for f in run.failures.values()}
    gone = {b for b in run.barriers if run.info.barriers[b].cta in ctas} - named
    run.barriers = {b: s for b, s in run.barriers.items() if b not in gone}
    run.suspects = [x for x in run.suspects if x[-1] not in gone]
    run.asyncs = [op for op in run.asyncs if any(b >= 0 and b not in gone for b, _, _ in op.targets)]
    run.landed = {key: phase for key, phase in run.landed.items() if key[1] not in ctas}
    run.named = {key: x for key, x in run.named.items() if key[0] not in ctas}
    run.clusters.pop(run.running_cluster, None)
    run.pools = {cta: x for cta, x in run.pools.items() if cta not in ctas}
    run.exits = {cta: x for cta, x in run.exits.items() if cta not in ctas}
    run.remote_uses = {key: x for key, x in run.remote_uses.items() if key[1] not in ctas}
    run.requests = [r for r in run.requests if r.cta not in ctas]
    for cta in ctas:
        run.memory.pop(cta, None)


__all__ = ["on_exit"]
