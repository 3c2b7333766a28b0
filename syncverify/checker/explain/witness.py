"""Witnesses: the steps of a run that shows the harm, in the words of the report."""

from __future__ import annotations

from collections import defaultdict, deque

from syncverify.base.diagnostics import Blocked, Claim, Policy, Step, StepKind, Witness
from syncverify.base.source import UNKNOWN_SPAN
from syncverify.checker.barrier_states import KIND_OF, BarrierStates
from syncverify.checker.happens_before.handlers.execution_barriers import cluster
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, name
from syncverify.checker.happens_before.run import AsyncOperation, LaneClass, Run
from syncverify.model.events import GLOBAL_MEMORY, Ev, Event, Flag

_ON_BARRIER = frozenset(
    {
        Ev.INIT,
        Ev.INVAL,
        Ev.ARRIVE,
        Ev.EXPECT_TX,
        Ev.COMPLETE_TX,
        Ev.WAIT,
        Ev.WAIT_TOKEN,
        Ev.POLL,
        Ev.POLL_TOKEN,
        Ev.CP_ARRIVE,
    }
)
#: Events that are no operation of the source.
_SILENT = frozenset({Ev.USE, Ev.EXIT, Ev.FAULT, Ev.UNKNOWN})


def steps_of(run: Run) -> tuple[Step, ...]:
    """The run's trace as steps, each with the state of its barrier after it."""
    steps: list[Step] = []
    states = BarrierStates(run)
    issues: dict[tuple[int, int], deque[int]] = defaultdict(deque)  # by class and site: steps not completed
    for position, (who, event) in enumerate(run.trace):
        if who < 0:
            op = run.asyncs[-1 - who]
            moved = states.completion(op)
            if op.number >= 0:  # a cp.async arrival follows from the copies it waits for
                steps.append(_completion(run, op, moved, states, issues[op.thread.cls, op.site]))
            continue
        moved = states.event(who, event)
        if event[0] in _SILENT or event[1] in run.skipped_polls:
            continue
        site = run.info.sites[event[1]]
        if event[0] == Ev.ELECT and not site.text.startswith("elect"):
            continue  # the warp comes together for the instruction whose own event follows
        kind = KIND_OF.get(event[0], StepKind.OTHER)
        if kind is StepKind.ISSUE:
            issues[who, event[1]].append(len(steps))
        steps.append(
            Step(
                run.threads[who].info.name,
                site.span,
                site.text,
                _barrier(run, event),
                run.saw.get(position),
                kind,
                None if moved is None else states.state(moved),
                code_line=site.code_line,
            )
        )
    return tuple(steps)


def _completion(
    run: Run, op: AsyncOperation, moved: int | None, states: BarrierStates, issues: deque[int]
) -> Step:
    site = run.info.sites[op.site]
    return Step(
        f"{op.thread.info.name}.async{op.number}",
        site.span,
        f"completion of {site.text}",
        None if moved is None else name(run, moved),
        kind=StepKind.COMPLETION,
        state=None if moved is None else states.state(moved),
        issued_by=issues.popleft() if issues else None,
        code_line=site.code_line,
    )


def _barrier(run: Run, event: Event) -> str | None:
    return name(run, event[2]) if event[0] in _ON_BARRIER else None


def blocked_of(run: Run) -> tuple[Blocked, ...]:
    """Who waits at the end of a hang, on what, and what is missing there."""
    out: list[Blocked] = []
    for t in run.blocked():
        if t.event is None or t.meeting:
            continue  # lanes that wait for the others of their warp go wherever those go
        span = run.info.sites[t.event[1]].span if t.event[1] >= 0 else UNKNOWN_SPAN
        what, phase, why = describe_wait(run, t)
        out.append(Blocked(t.info.name, span, what, phase, why))
    return tuple(out)


def describe_wait(run: Run, t: LaneClass) -> tuple[str, int | None, str]:
    """What a blocked class waits on, which phase, and what that lacks."""
    kind = t.waits_on[0] if t.waits_on else ""
    if kind in ("wait", "token"):
        s: Barrier = run.barriers[t.waits_on[1]]
        p = s.phases[0]
        arrived = s.auto.count - s.auto.pending
        why = f"{arrived} of {s.auto.count} arrivals"
        if p.sum_expect or p.sum_complete:
            why += f", {p.sum_complete} of {p.sum_expect} bytes"
        return name(run, s.index), s.auto.phase, why
    if kind == "named":
        n = run.named[t.info.cta, t.waits_on[1]]
        return (
            f"barrier {t.waits_on[1]}",
            n.auto.generation,
            f"{len(n.auto.marked) * 32} of {t.waits_on[2]} threads",
        )
    if kind == "cluster":
        state = cluster(run, t.info.cta)
        missing = state.auto.expected - state.auto.arrived
        why = f"{len(missing)} groups of its threads have not arrived"
        return "cluster barrier", state.auto.generation, why
    if kind == "warp":
        return "bar.warp.sync", None, "lanes of its mask are missing"
    if kind == "spin":
        where = "global" if run.info.footprints[t.waits_on[2]].memory == GLOBAL_MEMORY else "shared"
        if t.event is not None and t.event[3] & Flag.TAKE:
            return f"a lock in {where} memory", None, "nobody lets it go"
        return f"a flag in {where} memory", None, "no write makes its condition true"
    if kind == "meet":
        return "the other lanes of its warp", None, "they do not come to this warp-wide instruction"
    if kind == "mma":
        return "the other warps of its warpgroup", None, "they have not issued the wgmma"
    if kind == "registers":
        return "register pool", None, f"{run.pool(t.info.cta).free} registers are free"
    return kind or "nothing", None, ""


def build(run: Run, claim: Claim, rule: str, message: str, policy: Policy) -> Witness:
    """The witness of a run."""
    info = run.info
    return Witness(
        claim=claim,
        rule=rule,
        message=message,
        steps=steps_of(run),
        blocked=blocked_of(run) if claim == Claim.HANG else (),
        kernel=info.name,
        file=info.file,
        source_hash=info.source_hash,
        policy=policy,
        values=dict(info.values),
        block=info.block,
        elected_lane=info.elected_lane,
    )
