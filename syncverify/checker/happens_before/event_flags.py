"""Event flags as plain integers: the enum's own ``&`` costs a tenth of a run."""

from __future__ import annotations

from syncverify.model.events import Flag

RELAXED = int(Flag.RELAXED)
CLUSTER = int(Flag.CLUSTER)
DROP = int(Flag.DROP)
NO_COMPLETE = int(Flag.NO_COMPLETE)
ALIGNED = int(Flag.ALIGNED)
ACQUIRE = int(Flag.ACQUIRE)
RELEASE = int(Flag.RELEASE)
SC = int(Flag.SC)
STRONG = int(Flag.STRONG)
TAKE = int(Flag.TAKE)
ONCE = int(Flag.ONCE)
UNSIGNED = int(Flag.UNSIGNED)
RED = int(Flag.RED)
#: which reduction an execution barrier makes, if any
REDUCTION = int(Flag.RED | Flag.OR | Flag.COUNT)
