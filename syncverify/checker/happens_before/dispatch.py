"""Which handler runs which event."""

from __future__ import annotations

from syncverify.checker.happens_before import sequential_clusters
from syncverify.checker.happens_before.handlers import (
    accesses,
    async_operations,
    contributions,
    control,
    execution_barriers,
    global_memory,
    mbarriers,
    one_cluster,
    shared_flags,
    tensor_maps,
    waits,
)
from syncverify.checker.happens_before.run import DONE, Handlers, LaneClass, Run
from syncverify.model.events import Ev, Event


def _nothing(run: Run, t: LaneClass, event: Event) -> int:
    """A hint: nothing depends on it."""
    return DONE


HANDLERS: Handlers = {
    Ev.EXIT: sequential_clusters.on_exit,
    Ev.FAULT: control.on_fault,
    Ev.UNKNOWN: control.on_unknown,
    Ev.READ: accesses.on_read,
    Ev.WRITE: accesses.on_write,
    Ev.ATOMIC: accesses.on_atomic,
    Ev.USE: accesses.on_use,
    Ev.INIT: mbarriers.on_init,
    Ev.INVAL: mbarriers.on_inval,
    Ev.ARRIVE: contributions.on_arrive,
    Ev.EXPECT_TX: contributions.on_expect_tx,
    Ev.COMPLETE_TX: contributions.on_complete_tx,
    Ev.WAIT: waits.on_wait,
    Ev.WAIT_TOKEN: waits.on_wait_token,
    Ev.POLL: waits.on_poll,
    Ev.POLL_TOKEN: waits.on_poll,
    Ev.INIT_FENCE: mbarriers.on_init_fence,
    Ev.BARRIER_SYNC: execution_barriers.on_barrier_sync,
    Ev.BARRIER_ARRIVE: execution_barriers.on_barrier_arrive,
    Ev.WARP_SYNC: execution_barriers.on_warp_sync,
    Ev.CLUSTER_ARRIVE: execution_barriers.on_cluster_arrive,
    Ev.CLUSTER_WAIT: execution_barriers.on_cluster_wait,
    Ev.ELECT: execution_barriers.on_elect,
    Ev.COLLECTIVE: execution_barriers.on_collective,
    Ev.SETMAXNREG: control.on_setmaxnreg,
    Ev.FENCE: control.on_fence,
    Ev.PROXY_FENCE: control.on_proxy_fence,
    Ev.CP_ASYNC: async_operations.on_cp_async,
    Ev.CP_COMMIT: async_operations.on_cp_commit,
    Ev.CP_WAIT: async_operations.on_cp_wait,
    Ev.CP_ARRIVE: async_operations.on_cp_arrive,
    Ev.BULK_LOAD: async_operations.on_bulk_load,
    Ev.BULK_STORE: async_operations.on_bulk_store,
    Ev.BULK_COPY: async_operations.on_bulk_copy,
    Ev.BULK_COMMIT: async_operations.on_bulk_commit,
    Ev.BULK_WAIT: async_operations.on_bulk_wait,
    Ev.ST_ASYNC: async_operations.on_st_async,
    Ev.WGMMA_FENCE: async_operations.on_wgmma_fence,
    Ev.WGMMA: async_operations.on_wgmma,
    Ev.WGMMA_COMMIT: async_operations.on_wgmma_commit,
    Ev.WGMMA_WAIT: async_operations.on_wgmma_wait,
    Ev.FRAG_READ: async_operations.on_frag_read,
    Ev.FRAG_WRITE: async_operations.on_frag_write,
    Ev.GLOBAL_READ: global_memory.on_read,
    Ev.GLOBAL_WRITE: one_cluster.on_write,
    Ev.GLOBAL_ATOMIC: one_cluster.on_atomic,
    Ev.SPIN: shared_flags.on_spin,
    Ev.SIGNAL: shared_flags.on_signal,
    Ev.MAP_REPLACE: tensor_maps.on_map_replace,
    Ev.MAP_RELEASE: tensor_maps.on_map_release,
    Ev.MAP_ACQUIRE: tensor_maps.on_map_acquire,
    Ev.MAP_CP_FENCE: tensor_maps.on_map_cp_fence,
    Ev.GRID_WAIT: global_memory.on_grid_wait,
    Ev.GRID_LAUNCH: _nothing,
}
