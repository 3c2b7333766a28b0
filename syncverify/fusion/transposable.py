"""What keeps an elementwise fusion with transposed outputs from being one kernel."""

from __future__ import annotations

from syncverify.fusion.traced import ROTATIONS, Fusion

#: Operations that depend on an element's place, which a tile that is turned does not follow.
_PLACED = frozenset({"random", "index", "size", "take", *ROTATIONS})


def obstacle(f: Fusion) -> str:
    """Why no kernel of turned tiles makes a fusion's outputs; empty if one does."""
    unable = sorted(f.ops() & _PLACED)
    if unable:
        return f"{', '.join(unable)} beside transpose(): transpose in a fusion of its own"
    last = f.dims[-2:]
    for name, t in f.inputs:
        if t.dims not in (f.dims, last[:1], last[1:], ()):
            return (
                f"{name} has dimensions {', '.join(t.dims)}; beside inputs of "
                f"({', '.join(f.dims)}) a transpose takes operands of ({last[0]}), of ({last[1]}) and scalars"
            )
    return "" if f.streamed else f"transpose() needs an input with all dimensions: {', '.join(f.dims)}"


__all__ = ["obstacle"]
