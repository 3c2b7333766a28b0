"""Proofs for numbers: every system once, its events, and the phase of every contribution and wait.

The run is taken in an order of its own: turn by turn, every agent as far as it can go. Which order is taken
does not matter (docs/theory.md, section 5). ``judge`` judges it, and where it cannot, the checker does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, number, same, take
from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.exact import Follower, NotJudgedError
from syncverify.checker.kernel.exact.data import plain
from syncverify.driver.rechecked import Met
from syncverify.model.events import Event, LaneSplit, System, SystemInfo, Unanalysable

MOST_EVENTS = 5_000_000
#: Of so many earlier runs it is asked whether they are a system's as well.
MOST_RUNS = 4
Phases = dict[tuple[int, int], tuple[list[Any], list[Any]]]
Splits = list[tuple[int, tuple[int, ...]]]
#: Why nothing is judged in strict mode.
STRICT = "strict mode"


def described(whole: System, policy: Policy, runs: list[Follower], met: Met | None = None) -> dict[str, Any]:
    """What is claimed of one system: all of it is derived from the system alone, or from the run of an
    earlier one that is its own as well. ``runs``: those that the judge accepted; this one's is added.

    Raises RejectedError where an obligation fails. The kernel's judge binds where ``met`` is asked for: what
    it rejects is rejected; why it does not judge, and what it assumes, is added there. Without, the checker
    has the last word.
    """
    system, splits = whole, Splits()
    own = policy is Policy.PRACTICAL
    if not own and met is not None:
        met.reasons.append(STRICT)
    while True:
        try:
            if own:
                try:
                    for i in range(len(runs))[-MOST_RUNS:]:
                        if runs[i].is_of(system):
                            return {"judge": "own", "run": i}
                    f = Follower.of(system)
                    f.judge(MOST_EVENTS)
                    runs.append(f)
                    if met is not None:
                        met.assumed |= f.inputs
                    return {"judge": "own", "splits": plain(splits), **_claims(f.info, f.trace, f.phases)}
                except NotJudgedError as e:
                    own, splits, system = False, [], whole
                    if met is not None:
                        met.reasons.append(str(e))
                except RejectedError:
                    if met is not None:
                        raise
                    own, splits, system = False, [], whole
            from syncverify.driver.certificates import checker_run

            claims = _claims(*checker_run.followed(system, policy, MOST_EVENTS))
            return {"judge": "checker", "splits": plain(splits), **claims}
        except LaneSplit as split:
            splits.append((split.cls, split.parts))
            system = system.refined(split)


def _claims(info: SystemInfo, trace: list[list[Event]], phases: Phases) -> dict[str, Any]:
    """A run as a certificate has it."""
    return {
        "classes": [[c.cta, c.warp, c.lanes] for c in info.classes],
        "barriers": [[b.cta, b.offset, b.name] for b in info.barriers],
        "footprints": _hashed([(f.memory, f.intervals, f.lanes) for f in info.footprints]),
        "sites": _hashed([(s.span.line, s.text) for s in info.sites]),
        "events": [_hashed(events) for events in trace],
        "phases": [[b, phase, *sides] for (b, phase), sides in sorted(phases.items())],
    }


def _hashed(entries: list[Any]) -> list[Any]:
    """How many entries there are, and a short hash of them: they are derived again, and many."""
    text = json.dumps(entries, separators=(",", ":"), default=int)
    return [len(entries), hashlib.sha256(text.encode()).hexdigest()[:16]]


def written(systems: Iterable[System | Unanalysable], policy: Policy) -> dict[str, Any]:
    """The proof of all systems of a launch. Raises RejectedError where there is none."""
    parts, runs = [], list[Follower]()
    for s in systems:
        if isinstance(s, Unanalysable):
            raise RejectedError(str(s.span), s.reason)
        parts.append(described(s, policy, runs))
    if not parts:
        raise RejectedError("", "the launch has no block")
    return {"kind": "exact", "systems": parts}


def recheck(proof: Any, systems: Iterable[System | Unanalysable], policy: Policy, where: str) -> Met:
    """Derives all systems again; RejectedError at the first that is not as claimed, or that the kernel's
    judge rejects. How many were judged by it, and how many it does not judge.
    """
    met = Met()
    _, parts = take(proof, where, "kind", "systems")
    parts = listed(parts, f"{where}.systems")
    count, runs = 0, list[Follower]()
    for s in systems:
        here = f"{where}.systems[{count}]"
        if isinstance(s, Unanalysable):
            raise RejectedError(here, f"{s.span}: {s.reason}")
        if count >= len(parts):
            raise RejectedError(f"{where}.systems", f"system {count} of the launch is left out")
        found = described(s, policy, runs, met)
        same(found, parts[count], here)
        met.add("systems")
        count += 1
    number(count, where, 1)
    if count != len(parts):
        raise RejectedError(f"{where}.systems", f"{len(parts)} systems, but the launch has {count}")
    return met
