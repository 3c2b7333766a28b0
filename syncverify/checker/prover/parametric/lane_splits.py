"""How classes of lanes part where sizes have no number: each split begins an exploration again."""

from __future__ import annotations

from syncverify.model.events import LaneSplit
from syncverify.symbolic.protocol import SymbolicSystem

#: Classes of one warp, before all its lanes are distinguished at once.
MOST_PARTS = 4


def finer(system: SymbolicSystem, split: LaneSplit) -> LaneSplit:
    """The split, or where its warp has parted often, one into single lanes: every split begins all again."""
    classes = system.info.classes
    here = classes[split.cls]
    parts = sum((c.cta, c.warp) == (here.cta, here.warp) for c in classes)
    if len(split.parts) < 2 or parts < MOST_PARTS:
        return split
    return LaneSplit(split.cls, tuple(1 << i for i in range(here.lanes.bit_length()) if here.lanes >> i & 1))


def refined(system: SymbolicSystem, split: LaneSplit) -> SymbolicSystem:
    """The system with a class in parts."""
    return system.refined(split)


__all__ = ["finer", "refined"]
