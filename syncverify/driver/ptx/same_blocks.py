"""Whether blocks of a grid do the same, so that one of them represents the others.

A run in which every wait passes shows the events of a block. Two blocks with equal events may still differ:
in what one store writes, in what they do when a look at an mbarrier says *no*, and in what comes after the
last event that was seen.

Example: both warps of a block store ``ctaid * (warp + 1)`` to one word. They store 0 twice in block 0, which
is no race, and 1 and 2 in block 1, which is one. The events are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from syncverify.base.diagnostics import Verdict
from syncverify.checker.kernel.exact.polls import use_of
from syncverify.frontends.ptx.compile.events import POLLS
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.model.events import Ev, LaneSplit

#: Events of one class of lanes among which its looks are searched.
_MOST = 50_000


class Behaviour(NamedTuple):
    """What a block does. ``whole``: blocks with equal keys do the same; else they may differ elsewhere."""

    key: Hashable
    whole: bool

    def judged_by(self, others: Mapping[Any, Verdict]) -> bool:
        """Whether the verdict of a block with this key says enough: what is not whole proves nothing."""
        found = others.get(self.key)
        return found is not None and (self.whole or found is not Verdict.PROVED)


def behaviour(system: PtxSystem) -> Behaviour:
    """What a block does, as far as a run in which every wait passes tells."""
    looks = _looks(system) if system.polled and not system.cut_short else ()
    key = system.fingerprint, looks, frozenset(system.info.equal_stores)
    return Behaviour(key, not system.cut_short and looks is not None)


def _looks(system: PtxSystem) -> Hashable | None:
    """What the answers of looks are for, by class; None where what follows *no* may be anything."""
    found = []
    try:
        for agent in system.agents():
            event, answer = agent.step(), 0
            for _ in range(_MOST):
                if event[0] in (Ev.EXIT, Ev.UNKNOWN):
                    break
                answer = int(event[0] in POLLS)
                if answer:
                    use = use_of(agent, event)
                    if use is None:
                        return None
                    found.append((agent.cls, use))
                event = agent.step(answer)
            else:
                return None
    except LaneSplit:
        return None
    return tuple(found)


__all__ = ["Behaviour", "behaviour"]
