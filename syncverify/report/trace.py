"""Witnesses as a Chrome trace, to be looked at in Perfetto: a process per block, a track per agent."""

from __future__ import annotations

import json
from typing import Any

from syncverify.base.diagnostics import KernelReport, Step
from syncverify.report.base import Report, rests_on, scope_text

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
        }
        for k in report.kernels
    ]
    trace = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"verdicts": verdicts}}
    return json.dumps(trace, indent=1) + "\n"


def _kernel(n: int, k: KernelReport, pids: dict[tuple[int, str], int]) -> list[dict[str, Any]]:
    assert k.witness is not None
    events: list[dict[str, Any]] = []
    tids: dict[str, tuple[int, int]] = {}

    def track(agent: str) -> dict[str, int]:
        if agent not in tids:
            block, _, thread = agent.partition(".")
            if (n, block) not in pids:
                pids[n, block] = len(pids) + 1
                events.append(_meta("process_name", pids[n, block], 0, f"{k.name} {block}"))
            tids[agent] = pids[n, block], len(tids) + 1
            events.append(_meta("thread_name", *tids[agent], thread or agent))
        pid, tid = tids[agent]
        return {"pid": pid, "tid": tid}

    for i, s in enumerate(k.witness.steps):
        where = track(s.agent)
        events.append({"ph": "X", "name": s.op, "ts": i * STEP, "dur": STEP, "args": _args(s), **where})
    end = len(k.witness.steps) * STEP
    for b in k.witness.blocked:
        args = {"line": b.span.line, "why": b.why}
        name = f"waits for ever on {b.waits_on}"
        where = track(b.agent)
        events.append({"ph": "X", "name": name, "ts": end, "dur": 10 * STEP, "args": args, **where})
    return events


def _meta(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _args(s: Step) -> dict[str, Any]:
    return {"file": s.span.file, "line": s.span.line, "barrier": s.barrier, "phase": s.phase}
