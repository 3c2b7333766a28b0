"""Waits and polls on mbarriers (O2), and what they receive."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncverify.base.diagnostics import Severity
from syncverify.checker.happens_before.event_flags import CLUSTER, RELAXED
from syncverify.checker.happens_before.failure import Obligation
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, barrier, knows_phase, name, use
from syncverify.checker.happens_before.run import (
    DONE,
    RETRY,
    YIELD,
    BranchingPoll,
    LaneClass,
    Run,
    TooManyEvents,
    before,
)
from syncverify.checker.happens_before.vector_clocks import HW, E, Matrix
from syncverify.model.events import Agent, Ev, Event
from syncverify.symbolic.phase_tokens import barrier_of, number


def on_wait(run: Run, t: LaneClass, event: Event) -> int:
    """A wait for a parity: it blocks, or passes and O2 is tested."""
    _, site, b, parity, _ = event
    s = barrier(run, b)
    if not use(run, t, s, site):
        return DONE
    if not s.auto.passes(parity):
        if run.after_hang and t.waits_on == ("forced",):
            return _pass_forced(run, t, s)
        return _block(t, s, ("wait", b, parity))
    return _pass(run, t, s, event)


def on_wait_token(run: Run, t: LaneClass, event: Event) -> int:
    _, site, b, token, _ = event
    s, phase = barrier(run, b), number(token)
    if not use(run, t, s, site):
        return DONE
    if (origin := barrier_of(token)) != b:
        known = 0 <= origin < len(run.info.barriers)  # any number may be waited for as a token
        origin_text = f"this token is of {name(run, origin)}" if known else "this token is of no arrival"
        run.report(
            Obligation.UB,
            "SV201",
            f"{origin_text}: it says nothing of {name(run, b)}",
            t,
            site,
            barrier=b,
            phase=phase,
            fix="wait with the token of an arrival on the same mbarrier (PTX ISA: mbarrier.test_wait)",
        )
    if s.auto.phase <= phase:
        if run.after_hang and t.waits_on == ("forced",):
            return _pass_forced(run, t, s)
        return _block(t, s, ("token", b, phase))
    if s.auto.phase > phase + 1:
        # Only the current and the preceding phase may be asked for (PTX ISA: mbarrier.test_wait; B19).
        run.report(
            Obligation.UB,
            "SV201",
            f"this token is of phase {phase} of {name(run, b)}, not the last: {s.auto.phase} are complete",
            t,
            site,
            barrier=b,
            phase=phase,
        )
    return _pass(run, t, s, event)


def _too_early(name: str, phase: int, code: int) -> str:
    """What a wait for the phase after ``phase`` may take for it."""
    before = f"phase {phase + 1} of {name}, but phase {phase} may still be open when"
    if code == Ev.WAIT_TOKEN:
        return f"the token of this wait means {before} its arrival comes: it is then of phase {phase}"
    return (
        f"this wait means {before} it looks: it then passes at once, on the phase before, which has the same "
        "parity"
    )


def waits_by_token(run: Run, site: int) -> bool:
    """Whether what waits at a line asks for the phase of a token, not for a parity."""
    return any(e[1] == site and e[0] in (Ev.WAIT_TOKEN, Ev.POLL_TOKEN) for _, e in run.trace if len(e) > 1)


def _block(t: LaneClass, s: Barrier, on: tuple[Any, ...]) -> int:
    t.waits_on = on
    s.blocked.append(t)
    return RETRY


def _pass(run: Run, t: LaneClass, s: Barrier, event: Event) -> int:
    """O2 on the predecessor, then the joins."""
    code, site, _, _, flags = event
    c = s.auto.phase
    run.saw[len(run.trace)] = c - 1
    past = before(t)
    polled = t.polled.pop(s.index, None)  # a poll before it may have been the one that passed
    if polled is not None:
        # Either may pass: what both give is sure.
        flags = (flags | polled[1]) & RELAXED | flags & polled[1] & CLUSTER
    if c >= 2 and not knows_phase(run, t.clock.m[E] if polled is None else polled[0], s, c - 2):
        with_earlier = past.copy()
        if len(s.phases) > 3:
            np.maximum(with_earlier, s.phases[3].m[E], out=with_earlier)
            with_earlier[s.column] = max(int(with_earlier[s.column]), c - 2)
        run.report(
            Obligation.O2,
            "SV201",
            _too_early(name(run, s.index), c - 2, code),
            t,
            site,
            barrier=s.index,
            phase=c - 1,
            past=with_earlier,
        )
    if t.seen.get(b := s.index) == c and s.waits.get(t.cls, (0,))[0] + 1 < t.time:  # not twice in a row
        run.suspects.append((len(run.trace), t.cls, t.time, site, b))  # it waited for this phase before
    t.suspect = (t.time, len(run.trace), site, b) if c == 0 else None
    t.seen[b] = c
    if c - 1 > s.last_waited:
        s.last_waited = c - 1
        s.final_waits = {}
    if c - 1 == s.last_waited:
        s.final_waits[t.cls] = t.time
    s.waits[t.cls] = (t.time, site, past)
    s.waiters.add(site)
    t.syncs.append(t.time)
    if c >= 1:
        join(run, t, s, flags)
    t.waits_on = ()
    return DONE


def join(run: Run, t: LaneClass, s: Barrier, flags: int) -> None:
    """A passed wait receives its phase (PTX ISA: mbarrier.test_wait; acquire unless relaxed)."""
    p = s.phases[1]
    p.waited = True
    m = t.clock.m
    if flags & RELAXED:
        np.maximum(m[E], p.m[E], out=m[E])
        t.acquirable = _also(t.acquirable, p.m)
        if p.far is not None and flags & CLUSTER:
            t.acquirable_far = _also(t.acquirable_far, p.far)
        return
    np.maximum(m, p.m, out=m)
    if p.far is not None and flags & CLUSTER:
        np.maximum(m, p.far, out=m)


def _also(m: Matrix | None, more: Matrix) -> Matrix:
    """What is known with some more; the first matrix may be changed."""
    return more.copy() if m is None else np.maximum(m, more, out=m)


def _pass_forced(run: Run, t: LaneClass, s: Barrier) -> int:
    """After a hang: go on as if the phase had completed, knowing all that its contributors know by now."""
    m = t.clock.m
    for p in s.phases:
        for c in p.con:
            run.threads[c].clock.hand(m)
        np.maximum(m, p.m, out=m)
    m[E : HW + 1, s.column] = t.seen[s.index] = s.auto.phase + 1
    t.suspect = None  # what follows relies on this wait, which did not pass by itself
    t.waits_on = ()
    return DONE


def on_poll(run: Run, t: LaneClass, event: Event) -> int:
    """One test_wait or try_wait. A poll that only guards a wait is one wait with it; see ``classify``."""
    code, site, b, phase, flags = event
    s = barrier(run, b)
    if not use(run, t, s, site):
        return DONE
    use_of, t.meant = t.meant or classify(t, event), ""
    if use_of == "loop":
        blocking = Ev.WAIT if code == Ev.POLL else Ev.WAIT_TOKEN
        result = run.handlers[blocking](run, t, (blocking, site, b, phase, flags))
        t.answer = 1 if result == DONE else 0
        return result
    if use_of == "guard":
        t.polled[b] = (t.clock.m[E].copy(), flags)
        run.skipped_polls.add(site)
        t.answer = 0  # false is always a legal answer (B19); the wait that follows carries the joins
        return DONE
    asked = run.trace[-_LAST:].count((t.cls, event))
    if use_of == "ignored" and asked < _ASKED:  # else a loop in which others of the warp look, too
        run.report(
            Obligation.POLL,
            "SV209",
            "the result of this poll is never looked at: what follows does not wait",
            t,
            site,
            barrier=b,
            severity=Severity.WARNING,
            fix="loop until it is true",
        )
        run.skipped_polls.add(site)
        t.answer = 0
        return YIELD
    if not run.options.skips_unmodelled:
        raise BranchingPoll("control depends on the result of a single poll", site)
    run.forks.setdefault(b, set()).add(t.cls)
    t.answer = int(s.auto.passes(phase) if code == Ev.POLL else s.auto.phase > number(phase))
    if asked >= _ASKED:
        t.answer = 0  # a loop that goes on while the answer is yes: it may have come before the phase ended
        _move_on(run)
        return YIELD
    if t.answer:
        run.saw[len(run.trace)] = s.auto.phase - 1
    if t.answer and s.auto.phase:
        join(run, t, s, flags)
    return DONE if t.answer else YIELD


def _move_on(run: Run) -> None:
    """Nobody may be doing anything but looking: what is in flight lands; where nothing is, they go on so."""
    idle = not run.pending and len(set(run.trace[-_LAST:])) <= _LAST // _ASKED
    if idle and len(run.trace) > _IDLE:  # a loop may count its turns
        raise TooManyEvents
    for op in list(run.pending.values()):
        run.complete(op)


LOOKAHEAD = 64
#: A poll that is answered so often among the last events is answered "not yet".
_ASKED, _LAST = 8, 64
#: Events after which a run in which everybody only looks ends.
_IDLE = 20_000


def classify(t: LaneClass, event: Event) -> str:
    """What the result of a poll is for, by running both answers side by side for a while."""
    return result_of(t.agent, t.emitted or event)


def result_of(agent: Agent, event: Event) -> str:
    """What the result of a poll that an agent has emitted is for."""
    code, _, b, phase, flags = event
    no, yes = agent.fork(), agent.fork()
    e_no, e_yes = no.step(0), yes.step(1)
    wait, again = Ev.WAIT if code == Ev.POLL else Ev.WAIT_TOKEN, False
    if e_no == event and e_yes != event and no.normalize() == agent.normalize():
        return "loop"
    for _ in range(LOOKAHEAD):
        if e_no == e_yes and no.normalize() == yes.normalize():
            return "other" if again else "ignored"
        if e_no != e_yes and (e_no[0], *e_no[2:]) == (code, b, phase, flags):
            again, e_no = True, no.step(0)  # asked a few times before the wait, as an unrolled loop does
            continue
        if e_no[0] == wait and e_no[2:4] == (b, phase) and e_no != e_yes:
            return "guard" if _rejoins(no, yes, e_yes, (wait, b, phase), flags) else "other"
        if e_no != e_yes or e_no[0] in (Ev.EXIT, Ev.POLL, Ev.POLL_TOKEN, Ev.UNKNOWN):
            return "other"
        if e_no[0] in (Ev.WAIT, Ev.WAIT_TOKEN) and e_no[2] == b:
            return "other"  # the look may have seen another phase than the wait behind this one
        e_no, e_yes = no.step(0), yes.step(0)
    return "other"


def _rejoins(no: Agent, yes: Agent, e_yes: Event, waited: tuple[int, ...], flags: int) -> bool:
    """After its wait, the path that waited must do what the other one does, but that it may wait for the same
    phase again, where the answer is asked again: that receives nothing that the poll does not."""
    for _ in range(LOOKAHEAD):
        e_no = no.step(0)
        again = (e_no[0], *e_no[2:4]) == waited and not (e_no[4] ^ flags) & (RELAXED | CLUSTER)
        if again and e_no != e_yes:
            e_no = no.step(0)
        if e_no[0] == e_yes[0] == Ev.EXIT:
            return True  # wherever they leave
        if e_no != e_yes:
            return False
        if no.normalize() == yes.normalize():
            return True
        e_yes = yes.step(0)
    return False
