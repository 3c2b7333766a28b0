"""Proxies, state spaces and access kinds (PTX ISA, Memory Consistency Model: Proxies)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Proxy(IntEnum):
    """Through which path an access reaches memory.

    cp.async, st.async, red.async and every mbarrier access are *generic* (PTX ISA: cp.async,
    st.async, Async Proxy); bulk copies, TMA and wgmma operands are *async*.
    """

    GENERIC = 0
    ASYNC = 1
    TENSORMAP = 2


class Space(IntFlag):
    """State spaces that a proxy fence can name (PTX ISA: fence.proxy.async)."""

    SHARED_CTA = 1
    SHARED_CLUSTER = 2
    GLOBAL = 4
    ALL = 7


class Scope(IntEnum):
    """Memory scopes, ordered by inclusion (PTX ISA: Scope)."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3


class Access(IntEnum):
    """Kinds of access to memory, the rows and columns of the ordering table."""

    GENERIC_READ = 0
    GENERIC_WRITE = 1
    ASYNC_READ = 2  # bulk/TMA store or reduction reading its shared source
    ASYNC_WRITE = 3  # bulk/TMA load writing its shared destination
    MMA_READ = 4  # wgmma reading its operands
    CPASYNC_WRITE = 5  # cp.async writing (generic proxy, asynchronous)
    STASYNC_WRITE = 6  # st.async / red.async writing (generic proxy, asynchronous, from another CTA)

    writes: bool
    proxy: Proxy
    asynchronous: bool  # it completes on its own time, after the issuer's instruction

    def __init__(self, number: int) -> None:
        # read for every pair of accesses that meet: attributes, not properties
        self.writes = number in (1, 3, 5, 6)
        self.proxy = Proxy.ASYNC if number in (2, 3, 4) else Proxy.GENERIC
        self.asynchronous = number >= 2
