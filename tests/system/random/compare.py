"""One program, judged by the checker and by exhaustive simulation; what each says and whether they agree."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from syncverify.base.diagnostics import KernelReport, Policy, Severity, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate.ir import Exploration, explore, replay

#: States that an exploration may visit before a program counts as too large to compare.
STATE_LIMIT = 50_000

#: The obligation of the theory that a rule's failure belongs to; the rest are races, found on the graph.
OBLIGATION = {
    "SV202": "O1", "SV206": "O4", "SV201": "O2/O3/O7", "SV203": "O4", "SV212": "O4", "SV204": "O5",
    "SV205": "O5", "SV210": "O6", "SV211": "O6", "SV301": "O1", "SV302": "O6", "SV304": "O8",
}  # fmt: skip


#: The tool could not decide: never a right answer on a random kernel.
TOOL_RULES = frozenset({"SV901", "SV902"})


@dataclass(frozen=True)
class Judgement:
    """Both sides' words on one program in one policy."""

    policy: Policy
    verdict: Verdict
    rules: tuple[str, ...]  # errors first, in the checker's order
    obligation: str
    harms: tuple[str, ...]
    complete: bool
    problem: str = ""  # why the two do not agree; empty if they do
    check_seconds: float = 0.0
    explore_seconds: float = 0.0
    reason: str | None = None
    details: tuple[str, ...] = field(default=())
    replay: str = ""  # "reproduced", why not, or empty where there is no witness


def judge(text: str, policy: Policy = Policy.PRACTICAL, limit: int = STATE_LIMIT) -> Judgement:
    """Both verdicts on one kernel text."""
    (kernel,) = parse(text, "random.syncir")
    return judge_kernel(kernel, policy, limit)


def judge_twice(text: str, policy: Policy) -> Judgement:
    """The judgement in this policy; in strict mode where practical mode leaves only phases that mix."""
    found = judge(text, policy)
    mixed = found.verdict is Verdict.UNKNOWN or "order-violation" in found.harms
    if policy is Policy.PRACTICAL and mixed and not found.problem and found.verdict is not Verdict.REFUTED:
        return judge(text, Policy.STRICT)
    return found


def judge_kernel(kernel: Kernel, policy: Policy, limit: int = STATE_LIMIT) -> Judgement:
    """Both verdicts on one kernel."""
    start = time.perf_counter()
    report = check_kernel(kernel, {}, policy)
    middle = time.perf_counter()
    truth = explore(kernel, {}, policy=policy, limit_states=limit)
    end = time.perf_counter()
    errors = [d for d in report.diagnostics if d.severity is Severity.ERROR]
    others = [d for d in report.diagnostics if d.severity is not Severity.ERROR]
    rules = tuple(d.rule for d in (*errors, *others))
    return Judgement(
        policy=policy,
        verdict=report.verdict,
        rules=rules,
        obligation=str(report.stats.get("obligation") or OBLIGATION.get(rules[0], "race") if rules else ""),
        harms=tuple(sorted({str(h.kind) for h in truth.harms})),
        complete=truth.complete,
        problem=problem(report, truth, policy),
        check_seconds=middle - start,
        explore_seconds=end - middle,
        reason=report.reason,
        details=tuple(d.message for d in errors),
        replay=replayed(report, kernel),
    )


def replayed(report: KernelReport, kernel: Kernel) -> str:
    """Does the simulator, led by the witness, meet the harm that it claims?"""
    if report.verdict is not Verdict.REFUTED or report.witness is None:
        return ""
    result = replay(report.witness, kernel)
    return "reproduced" if result.reproduced else result.reason


def problem(report: KernelReport, truth: Exploration, policy: Policy) -> str:
    """Where the checker and the exploration contradict each other.

    In practical mode a program whose operations merely land in different phases does no harm: ``unknown``, or
    ``proved`` where no wait looks at those phases, with a warning (docs/theory.md). ``judge_twice`` then
    compares it in strict mode, where both sides must refute it.
    """
    harms = sorted({str(h.kind) for h in truth.harms})
    real = [h for h in harms if h != "order-violation"]
    if not truth.complete:
        return "" if report.verdict is Verdict.REFUTED and real else "exploration incomplete"
    if report.verdict is Verdict.PROVED and policy is Policy.PRACTICAL and not real and report.diagnostics:
        return ""
    if report.verdict is Verdict.PROVED:
        return f"proved, but the exploration shows {', '.join(harms)}" if harms else ""
    if report.verdict is Verdict.REFUTED:
        return "" if harms else "refuted, but no execution does harm"
    if policy is Policy.PRACTICAL and not real and not TOOL_RULES & {d.rule for d in report.diagnostics}:
        return ""
    return f"unknown ({report.reason}), the exploration shows {', '.join(harms) or 'no harm'}"
