"""What tells a fusion from others, for files of a cache."""

from __future__ import annotations

from syncverify.fusion.traced import Fusion


def fusion_key(f: Fusion) -> str:
    """All that a kernel follows from of a fusion."""
    nodes = [(i, f.node(i), f.dims_of(i), f.kind_of(i)) for i in f.order()]
    return repr((f.name, f.inputs, f.outputs, f.dims, f.span, f.called, nodes))


__all__ = ["fusion_key"]
