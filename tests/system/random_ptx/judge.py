"""Both sides on one program: the checker's verdict, and what executions of the text show."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import syncverify
from syncverify.base.reason import Cause, has
from syncverify.base.source import InputError
from syncverify.simulate.ptx import CannotExecute, Harm, Launch, buffer, sample
from syncverify.simulate.ptx.syntax import parse
from tests.system.random_ptx.writer import Program

#: Executions of a program that nothing is known of; more where the checker refutes.
SEEDS, MORE = 10, 120
STEPS = 60_000
#: Seconds after which the executions of one program say no more.
SECONDS = 30.0


@dataclass
class Judged:
    """``verdict``: proved, refuted, unknown, or error. ``kind``: agree, wrong proof, no harm found, ..."""

    verdict: str
    reason: str
    harm: Harm | None
    kind: str


def verdict(p: Program, seconds: float = 20.0) -> tuple[str, str]:
    """The checker's verdict on a program with its launch facts, and its first finding or reason.

    ``not replayed``: it would be refuted, and the replay sees no harm.
    """
    try:
        (report,) = syncverify.check(p.text, facts={"kernel": {"k": p.facts}}, scope="exact", timeout=seconds)
    except InputError as e:
        return "error", str(e)
    found = report.diagnostics[0] if report.diagnostics else None
    shown = (
        f"{found.rule} line {found.span.line}: {found.message}"
        if found is not None
        else str(report.reason or "")
    )
    if has(report.reason, Cause.NOT_REPLAYED):
        return "not replayed", shown
    return str(report.verdict), shown


def launch(p: Program) -> Launch:
    words = np.arange(1 << 13, dtype=np.uint32) * np.uint32(2654435761)
    params: list[object] = []
    for i, given in enumerate(p.params):
        params.append(buffer(words if i == 0 else np.zeros(1 << 14, np.uint32)) if given is None else given)
    one = (1, 1)
    return Launch(
        block=(p.block, *one), grid=(p.cluster, *one), cluster=(p.cluster, *one), params=params,  # type: ignore[arg-type]
        watches=frozenset({"shared"}),
    )  # fmt: skip


def executed(p: Program, seeds: range) -> tuple[Harm | None, str]:
    """The first harm among executions; 'limit' if one did not end, 'cannot' for what is not known."""
    limited = 0
    ends = time.monotonic() + SECONDS
    try:
        for r in sample(parse(p.text), "k", launch(p), seeds, limit=STEPS):
            if r.harm is not None:
                return r.harm, "harm"
            limited += r.limit
            if limited > 1 or time.monotonic() > ends:
                return None, "limit"
    except CannotExecute as e:
        return None, f"cannot: {e}"
    return None, "limit" if limited else "none"


def judge(p: Program, seconds: float = 20.0) -> Judged:
    said, why = verdict(p, seconds)
    if said == "error":
        return Judged(said, why, None, "error")
    harm, how = executed(p, range(SEEDS))
    if said in ("refuted", "not replayed") and harm is None and how == "none":
        harm, how = executed(p, range(SEEDS, MORE))
    if how.startswith("cannot"):
        kind = how
    elif harm is not None and harm.space == "global":
        kind = "outside of global memory"  # which the checker does not follow
    elif said == "proved":
        kind = "agree" if how == "none" else "wrong proof" if harm is not None else "no end"
    elif said == "not replayed":
        kind = "harm not replayed" if harm is not None else "not replayed, none"
    elif said == "refuted":
        kind = "agree" if harm is not None else "no end" if how == "limit" else "no harm found"
    else:
        kind = "unknown, harm" if harm is not None else "unknown, none"
    return Judged(said, why, harm, kind)


def shrunk(p: Program, kind: str, tries: int = 200) -> Program:
    """The program with lines left out, as long as both sides still disagree in the same way."""
    from dataclasses import replace

    lines = p.text.splitlines()
    first = next(n for n, x in enumerate(lines) if "%warp, %thr" in x)
    size = max((len(lines) - first) // 2, 1)
    while size and tries > 0:
        at = first
        while at < len(lines) - 2 and tries > 0:
            less = lines[:at] + lines[min(at + size, len(lines) - 2) :]
            tries -= 1
            shorter = replace(p, text="\n".join(less) + "\n")
            try:
                same = judge(shorter).kind == kind
            except (InputError, ValueError):
                same = False
            if same:
                lines = less
            else:
                at += size
        size //= 2
    return replace(p, text="\n".join(lines) + "\n")
