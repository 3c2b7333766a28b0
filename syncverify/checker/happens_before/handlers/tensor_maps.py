"""Tensor maps that a kernel edits: their uses, releases and acquires (SV502)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.run import DONE, LaneClass, Run, scope_between
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.vector_clocks import H
from syncverify.model.events import Ev, Event


@dataclass(slots=True, eq=False)
class Map:
    """A tensor map: its last edit, the releases and acquires since, and its uses."""

    edits: list[tuple[int, int]] = field(default_factory=list)  # class, time: of one release
    edit_site: int = -1
    whole: bool = False  # the edit is one of a warp as a whole, of which each class has its entry
    released: list[tuple[int, int, int]] = field(default_factory=list)  # class, time, scope
    acquired: list[tuple[int, int, int]] = field(default_factory=list)  # CTA, class, time
    uses: list[tuple[Record, int]] = field(default_factory=list)
    open: list[tuple[Record, int]] = field(default_factory=list)  # uses that may not be over


def tensor_map(run: Run, number: int) -> Map:
    m = run.maps.get(number)
    if m is None:
        m = run.maps[number] = Map()
    assert isinstance(m, Map)
    return m


def named(run: Run, number: int) -> str:
    """A tensor map as messages call it."""
    name = run.info.maps[number]
    return name if name.startswith("tensor map") else f"tensor map {name}"


def use_map(run: Run, t: LaneClass, site: int, number: int, record: Record) -> None:
    """A copy through an edited map needs an acquire in its own CTA after the release (A17, B64)."""
    if number < 0:
        return
    m = tensor_map(run, number)
    m.uses.append((record, site))
    if not m.edits:
        return
    if not any(cta == t.info.cta and t.clock.knows(H, c, c == t.cls) >= time for cta, c, time in m.acquired):
        what = "released and acquired" if not m.released else "acquired in this CTA"
        run.report(
            Obligation.UB,
            "SV502",
            f"the {named(run, number)} was edited and not {what} before this use",
            t,
            site,
            labels=[(m.edit_site, "edited here")],
            fix="fence.proxy.tensormap.acquire after the release, before the use",
        )


def on_map_replace(run: Run, t: LaneClass, event: Event) -> int:
    """Every use of the old descriptor must be over (B49, B65)."""
    _, site, number, whole = event
    m = tensor_map(run, number)
    if whole and m.whole and m.edit_site == site and _joins(run, t, m):
        m.edits.append((t.cls, t.time))
        _judge(run, t, m, site, number)
        return DONE
    if any(t.clock.knows(H, c, c == t.cls) < time for c, time in m.edits):
        run.report(
            Obligation.UB,
            "SV502",
            f"two edits of the {named(run, number)} are not ordered",
            t,
            site,
            labels=[(m.edit_site, "the other edit")],
        )
    m.uses, m.open = [], m.uses
    if m.released:
        m.edits = []
    m.edits.append((t.cls, t.time))
    m.edit_site, m.released, m.acquired, m.whole = site, [], [], bool(whole)
    _judge(run, t, m, site, number)
    return DONE


def check_edits(run: Run) -> None:
    """Edits by a warp as a whole to which some of its lanes never came."""
    for number, m in run.maps.items():
        if m.open:
            _report(run, run.threads[m.edits[-1][0]], m, m.edit_site, number)


def _judge(run: Run, t: LaneClass, m: Map, site: int, number: int) -> None:
    """Reports uses that may not be over; of an edit by a warp as a whole once all its lanes came."""
    m.open = [use for use in m.open if not over(t, use[0])]
    if m.open and not (m.whole and _missing(run, t, m)):
        _report(run, t, m, site, number)


def _report(run: Run, t: LaneClass, m: Map, site: int, number: int) -> None:
    strict = [use for use in m.open if drained(run, m, use[0])]
    hard = [use for use in m.open if use not in strict]
    more: dict[str, Any] = {} if hard else {"severity": Severity.WARNING, "strict_only": True}
    run.report(
        Obligation.UB,
        "SV502",
        f"the {named(run, number)} is edited while a copy may still use it",
        t,
        site,
        labels=[((hard or strict)[0][1], "used here")],
        fix="wait for what the copies complete before the edit",
        **more,
    )
    m.open = []


def over(t: LaneClass, use: Record) -> bool:
    return use.tag >= 0 and t.clock.knows(H, use.tag, use.cls == t.cls) >= use.tag_value


def _missing(run: Run, t: LaneClass, m: Map) -> bool:
    """Whether lanes of the warp that edits have yet to come to the edit."""
    came = {c for c, _ in m.edits}
    return any(
        (other.info.cta, other.info.warp) == (t.info.cta, t.info.warp)
        and other.cls not in came
        and not other.done
        for other in run.threads
    )


def drained(run: Run, m: Map, use: Record) -> bool:
    """Whether the class that copied has committed and waited for all its groups, and an editor knows of it.

    A load is in no bulk group: by the text nothing says that its use of the map is over then (PTX ISA:
    cp.async.bulk, completion mechanisms). CUTLASS drains just so before it edits maps of grouped products.
    """
    _, time = drain(run, use)
    return time is not None and any(
        run.threads[c].clock.knows(H, use.cls, c == use.cls) >= time for c, _ in m.edits
    )


def drain(run: Run, use: Record) -> tuple[bool, int | None]:
    """Whether the class that copied has committed since; the time of its first wait for all after that."""
    time, committed = use.time, False
    for cls, event in run.trace[use.position :]:
        if cls != use.cls or not event:
            continue
        time += 1
        committed |= event[0] == Ev.BULK_COMMIT
        if committed and event[0] == Ev.BULK_WAIT and event[2] == 0:
            return True, time
    return committed, None


def _joins(run: Run, t: LaneClass, m: Map) -> bool:
    """Whether the edit is one that other classes of this warp have begun."""
    others = [run.threads[c].info for c, _ in m.edits]
    mine = all(t.cls != c for c, _ in m.edits)
    return mine and all((o.cta, o.warp) == (t.info.cta, t.info.warp) for o in others)


def _release_map(t: LaneClass, m: Map, scope: int) -> None:
    together = m.whole and any(c == t.cls for c, _ in m.edits)
    if together or all(t.clock.knows(H, c, c == t.cls) >= time for c, time in m.edits):
        m.released.append((t.cls, t.time, scope))


def on_map_release(run: Run, t: LaneClass, event: Event) -> int:
    for m in run.maps.values():
        _release_map(t, m, event[2])
    return DONE


def on_map_cp_fence(run: Run, t: LaneClass, event: Event) -> int:
    """tensormap.cp_fenceproxy: the warp publishes the edited copy (B64)."""
    _release_map(t, tensor_map(run, event[2]), event[3])
    return DONE


def on_map_acquire(run: Run, t: LaneClass, event: Event) -> int:
    """The CTA's descriptor cache is refreshed, if the release is known and both scopes reach (B64)."""
    for number, m in list(run.maps.items()):
        if event[2] not in (number, -1):
            continue
        for author, time, scope in m.released:
            known = t.clock.knows(H, author, author == t.cls) >= time
            if known and min(scope, event[3]) >= scope_between(run, run.threads[author].info.cta, t.info.cta):
                m.acquired.append((t.info.cta, t.cls, t.time))
    return DONE
