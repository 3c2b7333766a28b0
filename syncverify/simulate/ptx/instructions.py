"""All modules that fill ``program.BUILDERS``."""

from syncverify.simulate.ptx import (  # noqa: F401
    arithmetic,
    atomics,
    barriers,
    collectives,
    control,
    copies,
    loads,
    map_edits,
    matrix,
    mbarriers,
    multimem,
    ordering,
    register_pool,
    textures,
    video,
    warp_matrices,
    wgmma,
)
