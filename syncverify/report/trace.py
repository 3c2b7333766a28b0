"""Witnesses as a Chrome trace, to be looked at in Perfetto.

A process per block, a track per lane, bars for asynchronous operations, arrows from contributions to the
waits that saw their phase complete, and counters for mbarriers.
"""

from __future__ import annotations

import json
from typing import Any

from syncverify.base.diagnostics import KernelReport, Step, StepKind
from syncverify.report.base import Report, one_line, replay_text, rests_on, scope_text
from syncverify.report.schedule_view import view_of

#: One step takes this many microseconds on the time axis, which shows order, not time.
STEP = 10


def render(report: Report) -> str:
    """The witnesses of all refuted kernels as one trace."""
    events: list[dict[str, Any]] = []
    pids: dict[tuple[int, str], int] = {}
    for n, k in enumerate(report.kernels):
        if k.witness is not None:
            events += _kernel(n, k, pids)
    verdicts = [
        {
            "kernel": k.name,
            "file": k.file,
            "verdict": str(k.verdict),
            "scope": scope_text(k),
            "rests_on": rests_on(k),
            "findings": [f"{d.rule}: {one_line(d)}" for d in k.diagnostics],
            "replay": replay_text(k),
        }
        for k in report.kernels
    ]
    trace = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"verdicts": verdicts}}
    return json.dumps(trace, indent=1) + "\n"


def _kernel(n: int, k: KernelReport, pids: dict[tuple[int, str], int]) -> list[dict[str, Any]]:
    assert k.witness is not None
    w, view = k.witness, view_of(k.witness)
    events: list[dict[str, Any]] = []
    tracks: list[dict[str, int]] = []
    for number, lane in enumerate(view.lanes):
        block = f"cta{lane.cta}"
        if (n, block) not in pids:
            pids[n, block] = len(pids) + 1
            events.append(_meta("process_name", pids[n, block], 0, f"{k.name} {block}"))
        where = {"pid": pids[n, block], "tid": number + 1}
        name = f"asynchronous operations of {lane.label}" if lane.asynchronous else lane.label
        events.append(_meta("thread_name", where["pid"], where["tid"], name))
        events.append({"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": number + 1}})
        tracks.append(where)
    end = len(w.steps) * STEP
    for i, (s, at) in enumerate(zip(w.steps, view.lane_of, strict=True)):
        if s.kind is not StepKind.COMPLETION:
            events.append(
                {"ph": "X", "name": s.op, "ts": i * STEP, "dur": STEP, "args": _args(s), **tracks[at]}
            )
    for number, copy in enumerate(view.copies):
        last = len(w.steps) if copy.completion is None else copy.completion
        span = {"ts": copy.issue * STEP, "args": {"line": w.steps[copy.issue].span.line}, **tracks[copy.lane]}
        key = {"cat": "copy", "name": copy.text, "id": f"{n}.{number}"}
        events += [{"ph": "b", **key, **span}, {"ph": "e", **key, **span, "ts": last * STEP}]
    for number, arrow in enumerate(view.arrows):
        flow = {"cat": "phase", "name": str(w.steps[arrow.end].barrier), "id": f"{n}.{number}"}
        start, stop = tracks[view.lane_of[arrow.start]], tracks[view.lane_of[arrow.end]]
        events.append({"ph": "s", "ts": arrow.start * STEP + STEP // 2, **flow, **start})
        events.append({"ph": "f", "bp": "e", "ts": arrow.end * STEP + STEP // 2, **flow, **stop})
    for b, at in zip(w.blocked, view.waiting, strict=True):
        args = {"line": b.span.line, "why": b.why}
        name = f"waits for ever on {b.waits_on}"
        events.append({"ph": "X", "name": name, "ts": end, "dur": 10 * STEP, "args": args, **tracks[at]})
    for name, spans in view.barriers.items():
        for held in spans:
            state = {"pending": held.state.pending, "bytes": held.state.tx, "phase": held.state.phase}
            where = {"pid": tracks[0]["pid"], "ts": held.start * STEP}
            events.append({"ph": "C", "name": name, "args": state, **where})
    return events


def _meta(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _args(s: Step) -> dict[str, Any]:
    return {"file": s.span.file, "line": s.span.line, "barrier": s.barrier, "phase": s.phase}
