"""Which handler runs which event."""

from __future__ import annotations

from syncverify.checker import (
    barriers,
    contributions,
    control,
    copies,
    globals,
    leaving,
    members,
    memory,
    sync,
    tensor_maps,
    waits,
)
from syncverify.checker.engine import DONE, Handlers, Run, Thread
from syncverify.model.events import Ev, Event


def _nothing(run: Run, t: Thread, event: Event) -> int:
    """A hint: nothing depends on it."""
    return DONE


HANDLERS: Handlers = {
    Ev.EXIT: leaving.on_exit,
    Ev.FAULT: control.on_fault,
    Ev.UNKNOWN: control.on_unknown,
    Ev.READ: memory.on_read,
    Ev.WRITE: memory.on_write,
    Ev.ATOMIC: memory.on_atomic,
    Ev.USE: memory.on_use,
    Ev.INIT: barriers.on_init,
    Ev.INVAL: barriers.on_inval,
    Ev.ARRIVE: contributions.on_arrive,
    Ev.EXPECT_TX: contributions.on_expect_tx,
    Ev.COMPLETE_TX: contributions.on_complete_tx,
    Ev.WAIT: waits.on_wait,
    Ev.WAIT_TOKEN: waits.on_wait_token,
    Ev.POLL: waits.on_poll,
    Ev.POLL_TOKEN: waits.on_poll,
    Ev.INIT_FENCE: barriers.on_init_fence,
    Ev.BARRIER_SYNC: sync.on_barrier_sync,
    Ev.BARRIER_ARRIVE: sync.on_barrier_arrive,
    Ev.WARP_SYNC: sync.on_warp_sync,
    Ev.CLUSTER_ARRIVE: sync.on_cluster_arrive,
    Ev.CLUSTER_WAIT: sync.on_cluster_wait,
    Ev.ELECT: sync.on_elect,
    Ev.COLLECTIVE: sync.on_collective,
    Ev.SETMAXNREG: control.on_setmaxnreg,
    Ev.FENCE: control.on_fence,
    Ev.PROXY_FENCE: control.on_proxy_fence,
    Ev.CP_ASYNC: copies.on_cp_async,
    Ev.CP_COMMIT: copies.on_cp_commit,
    Ev.CP_WAIT: copies.on_cp_wait,
    Ev.CP_ARRIVE: copies.on_cp_arrive,
    Ev.BULK_LOAD: copies.on_bulk_load,
    Ev.BULK_STORE: copies.on_bulk_store,
    Ev.BULK_COPY: copies.on_bulk_copy,
    Ev.BULK_COMMIT: copies.on_bulk_commit,
    Ev.BULK_WAIT: copies.on_bulk_wait,
    Ev.ST_ASYNC: copies.on_st_async,
    Ev.WGMMA_FENCE: copies.on_wgmma_fence,
    Ev.WGMMA: copies.on_wgmma,
    Ev.WGMMA_COMMIT: copies.on_wgmma_commit,
    Ev.WGMMA_WAIT: copies.on_wgmma_wait,
    Ev.FRAG_READ: copies.on_frag_read,
    Ev.FRAG_WRITE: copies.on_frag_write,
    Ev.GLOBAL_READ: globals.on_read,
    Ev.GLOBAL_WRITE: members.on_write,
    Ev.GLOBAL_ATOMIC: members.on_atomic,
    Ev.SPIN: members.on_spin,
    Ev.MAP_REPLACE: tensor_maps.on_map_replace,
    Ev.MAP_RELEASE: tensor_maps.on_map_release,
    Ev.MAP_ACQUIRE: tensor_maps.on_map_acquire,
    Ev.MAP_CP_FENCE: tensor_maps.on_map_cp_fence,
    Ev.GRID_WAIT: globals.on_grid_wait,
    Ev.GRID_LAUNCH: _nothing,
}
