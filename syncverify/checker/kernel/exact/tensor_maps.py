"""Tensor maps that a kernel edits: their uses, releases and acquires in a run (A17, B49, B64, B65)."""

from __future__ import annotations

from dataclasses import dataclass, field

from syncverify.base.certificate_data import RejectedError
from syncverify.checker.kernel.exact.hazards import NotJudgedError, Touch
from syncverify.checker.kernel.exact.state import ReplayedAgent, State
from syncverify.model.proxies import Scope


@dataclass(slots=True)
class EditedMap:
    """A tensor map: its last edit, what released and acquired it since, and its uses."""

    edits: list[tuple[int, int]] = field(default_factory=list)  # class, time: of one release
    site: int = -1
    whole: bool = False  # the warp edits it as one; each class has an entry
    released: list[tuple[int, int, int]] = field(default_factory=list)  # class, time, scope
    acquired: list[tuple[int, int, int]] = field(default_factory=list)  # CTA, class, time
    uses: list[Touch] = field(default_factory=list)
    open: list[Touch] = field(default_factory=list)  # uses that no lane of the editing warp knows to be over


class TensorMaps(State):
    """The rules of tensor maps that are edited."""

    def use_map(self, a: ReplayedAgent, number: int, touch: Touch) -> None:
        """A copy through a map: after an edit, an acquire of its CTA comes between."""
        if number < 0:
            return
        m = self.maps.setdefault(number, EditedMap())
        m.uses.append(touch)
        if m.edits and not any(
            cta == a.info.cta and self.follows(a, (cls, time)) for cta, cls, time in m.acquired
        ):
            raise self.reject(a, "the tensor map was edited, and is not released and acquired before")

    def follows(self, a: ReplayedAgent, event: tuple[int, int]) -> bool:
        """Whether an event of a class, whose lanes do it as one, comes visibly before."""
        cls, time = event
        return a.lanes.visible(("t", cls), cls == a.lanes.cls) >= time

    def on_map_replace(self, a: ReplayedAgent, number: int, whole: int) -> bool:
        """Every use of what the map said before must be over; edits are ordered among each other."""
        assert a.event is not None
        if a.info.count > 1 and not whole:
            raise NotJudgedError("lanes that each edit a tensor map")
        m, here = self.maps.setdefault(number, EditedMap()), (a.lanes.cls, a.lanes.time)
        if not (whole and m.whole and m.site == a.event[1] and self.joins(a, m)):
            if any(not self.follows(a, e) for e in m.edits):
                raise self.reject(a, "two edits of a tensor map are not ordered")
            self.all_over(m)
            m.uses, m.open = [], m.uses
            m.edits = [] if m.released else m.edits
            m.site, m.whole, m.released, m.acquired = a.event[1], bool(whole), [], []
        m.edits.append(here)
        m.open = [t for t in m.open if not self.is_over(a, t)]
        if not m.whole:
            self.all_over(m)
        return True

    def joins(self, a: ReplayedAgent, m: EditedMap) -> bool:
        """Whether the edit is one that other lanes of the warp have begun."""
        others = [self.info.classes[cls] for cls, _ in m.edits]
        return all(cls != a.lanes.cls for cls, _ in m.edits) and all(
            (o.cta, o.warp) == (a.info.cta, a.info.warp) for o in others
        )

    def is_over(self, a: ReplayedAgent, t: Touch) -> bool:
        """Whether a copy has used its map: it is complete, or, in practical mode, its lanes have committed
        and waited for all their bulk groups since.
        """
        own = t.cls == a.lanes.cls
        if t.done is not None and a.lanes.visible(t.done[0], own) >= t.done[1]:
            return True
        return t.drained > 0 and self.follows(a, (t.cls, t.drained))

    def all_over(self, m: EditedMap) -> None:
        """No copy that was made through the map before its last edit may be in flight."""
        if m.open:
            site = self.info.sites[m.site]
            where = f"{site.span} ({site.text})"
            raise RejectedError(where, "a tensor map is edited while a copy may still use it")

    def drain(self, a: ReplayedAgent, *, commits: bool) -> None:
        """A commit of bulk groups, or a wait for all of them: what the class copied before is drained."""
        for m in self.maps.values():
            for t in (*m.uses, *m.open):
                if t.cls == a.lanes.cls and commits and not t.drained:
                    t.drained = -1
                elif t.cls == a.lanes.cls and not commits and t.drained < 0:
                    t.drained = a.lanes.time

    def release_map(self, a: ReplayedAgent, m: EditedMap, scope: int) -> None:
        together = m.whole and any(cls == a.lanes.cls for cls, _ in m.edits)
        if together or all(self.follows(a, e) for e in m.edits):
            m.released.append((a.lanes.cls, a.lanes.time, scope))

    def on_map_release(self, a: ReplayedAgent, scope: int) -> bool:
        for m in self.maps.values():
            self.release_map(a, m, scope)
        return True

    def on_map_cp_fence(self, a: ReplayedAgent, number: int, scope: int) -> bool:
        self.release_map(a, self.maps.setdefault(number, EditedMap()), scope)
        return True

    def on_map_acquire(self, a: ReplayedAgent, number: int, scope: int) -> bool:
        """The CTA sees the new map if the release is known, and both scopes reach."""
        for m in [m for i, m in self.maps.items() if number in (i, -1)]:
            for cls, time, wide in m.released:
                near = self.info.classes[cls].cta == a.info.cta
                if self.follows(a, (cls, time)) and min(scope, wide) >= (
                    Scope.CTA if near else Scope.CLUSTER
                ):
                    m.acquired.append((a.info.cta, a.lanes.cls, a.lanes.time))
        return True
