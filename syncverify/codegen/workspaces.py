"""Memory of the library's own through which the blocks of a launch pass data: zero for the first launch.

Launches on one stream follow each other and share it; launches on others, or in graphs that are captured,
get their own, which is kept: a graph may be replayed at any time.
"""

from __future__ import annotations

from collections.abc import Mapping

from syncverify.codegen import driver

_KEPT: dict[tuple[int, int, int, str], tuple[int, int]] = {}


def workspaces(device: int, stream: int, kind: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Addresses of so many bytes for each name. ``kind``: kernels that leave it as they need it share it."""
    if not sizes:
        return {}
    capture = driver.capture(stream)
    found: dict[str, int] = {}
    for name, size in sizes.items():
        key = (device, stream, capture, f"{kind} {name}")
        address, extent = _KEPT.get(key, (0, 0))
        if extent < size:
            # what was there stays, for launches that are under way and for graphs
            driver.use_device(device)
            address = driver.zeroed(size)
            _KEPT[key] = address, size
        found[name] = address
    return found


__all__ = ["workspaces"]
