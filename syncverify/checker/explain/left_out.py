"""Barriers of threads that some threads of the block do not come to: the cause behind a hang or a race.

A barrier of the whole block that stands in a branch is not waited for where it stands: the threads that do
not come there complete it at the next barrier that they come to, and what follows is one barrier late.
Worked example. Half of a block writes a tile and meets at ``__syncthreads()`` in its branch; the other half
goes on, reads the tile, and comes to the ``__syncthreads()`` behind the branch. The two complete each other:
the tile is read too early, and half of the block waits for ever behind it. The mistake is the barrier in the
branch, not the one behind it, where the hang is.
"""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.base.diagnostics import Mistake
from syncverify.base.source import Span
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.model.events import Ev, Event

_BARRIERS = (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE)
#: Events by which threads hand over without a barrier of threads.
_HANDS_OVER = frozenset(
    {Ev.ARRIVE, Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN, Ev.SIGNAL, Ev.SPIN, Ev.CLUSTER_ARRIVE}
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A barrier that only some come to, with where the others are met, if anywhere."""

    site: int
    text: str
    elsewhere: int = -1


def blame(run: Run, f: Failure) -> None:
    """Names the barrier that threads are left out of, where it is why a barrier is not met or a race."""
    if f.rule == "SV302" or (f.rule == "SV301" and f.obligation is Obligation.O6):
        found = _crossed(run, run.threads[f.cls].info.cta)
        if found is not None and found.site != f.site:
            f.labels = [(f.site, "where the block then misses threads"), *f.labels]
            f.site, f.message = found.site, found.text
            f.fix = "move it out of the branch: all threads of the block have to come to it"
    elif f.obligation is Obligation.RACE and f.first is not None and f.second is not None:
        _blame_race(run, f, f.first, f.second)


def _blame_race(run: Run, f: Failure, first: Record, second: Record) -> None:
    one, other = run.threads[first.cls].info, run.threads[second.cls].info
    threads = not (first.kind.asynchronous or second.kind.asynchronous)
    if one.cta != other.cta or one.warp == other.warp or not threads:
        return
    found = _crossed(run, one.cta) or _not_counted(run, first, second)
    if found is not None:
        f.labels = [(found.site, found.text), *f.labels]
        f.mistake = Mistake.DIVERGENCE


def _crossed(run: Run, cta: int) -> LeftOut | None:
    """The first barrier of the whole block that some complete here and the others at another one, if the
    others never come here, and those who came here come to the other one later."""
    rounds: dict[int, dict[int, list[Span]]] = {}
    sites: dict[Span, int] = {}
    for who, e in _met(run):
        if run.threads[who].info.cta == cta and not e[3]:
            span = run.info.sites[e[1]].span
            sites.setdefault(span, e[1])
            rounds.setdefault(e[2], {}).setdefault(who, []).append(span)
    for number, met in rounds.items():
        for n in range(max(map(len, met.values()))):
            here = {who: spans[n] for who, spans in met.items() if len(spans) > n}
            for span in dict.fromkeys(here.values()):
                came = [who for who in here if here[who] == span]
                others = [who for who in here if here[who] != span]
                away = any(span in met[who] for who in others)
                later = {s for who in came for s in met[who][n + 1 :]}
                if others and not away and all(here[who] in later for who in others):
                    at = here[others[0]]
                    text = (
                        f"only {_warps(run, came)} come to this barrier of the whole block ({number}): "
                        f"{_warps(run, others)} complete it at line {at.line}"
                    )
                    return LeftOut(sites[span], text, sites[at])
    return None


def _not_counted(run: Run, first: Record, second: Record) -> LeftOut | None:
    """The barrier between two accesses that only the threads of one of them come to, where nothing but
    barriers of threads could order the two."""
    events = [(who, e) for who, e in run.trace if who in (first.cls, second.cls) and len(e) > 1]
    if any(e[0] in _HANDS_OVER for _, e in events):
        return None
    for r, o in ((second, first), (first, second)):
        part = run.trace[: r.position] if r is second else run.trace[r.position + 1 :]
        mine = [e for who, e in part if who == r.cls and len(e) > 1 and e[0] in _BARRIERS]
        if not mine:
            continue
        e = mine[-1] if r is second else mine[0]
        warp, cta = run.threads[o.cls].info.warp, run.threads[o.cls].info.cta
        theirs = (run.threads[who].info for who, x in _met(run) if x[2] == e[2])
        if not any((info.cta, info.warp) == (cta, warp) for info in theirs):
            count = f"is for {e[3]} threads" if e[3] else "is one of the whole block"
            text = f"barrier {e[2]} {count} here, and {run.threads[o.cls].info.name} never comes to it"
            return LeftOut(e[1], text)
    return None


def _met(run: Run) -> list[tuple[int, Event]]:
    """Who came to which barriers of threads, in order."""
    return [(who, e) for who, e in run.trace if who >= 0 and e[0] in _BARRIERS and e[1] >= 0]


def _warps(run: Run, classes: list[int]) -> str:
    numbers = sorted({run.threads[who].info.warp for who in classes})
    return f"warp {numbers[0]}" if len(numbers) == 1 else f"warps {', '.join(map(str, numbers))}"


__all__ = ["blame"]
