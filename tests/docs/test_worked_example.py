"""The worked example of docs/worked_example.md is what the checker does: its tables are computed here.

``python -m tests.docs.test_worked_example`` prints them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from syncverify.api import check
from syncverify.base.diagnostics import KernelReport, Policy, Severity, Verdict
from syncverify.checker.explain.counterexample import canonical
from syncverify.checker.outcome import Budget
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.checker.prover.reach.graph import Node, NodeStatus
from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.events import Ev
from syncverify.symbolic.inequalities import Sum

PAGE = (Path(__file__).parents[2] / "docs" / "worked_example.md").read_text("utf-8")
SOURCE = re.search(r"```\n(kernel ring .*?)```", PAGE, re.S).group(1)  # type: ignore[union-attr]
#: Events that the table of the run leaves out: what lies before the roles, and what concerns one class alone.
_SHOWN = {
    Ev.WAIT: "wait", Ev.ARRIVE: "arrive", Ev.BULK_LOAD: "issue copy", Ev.READ: "read tile",
    Ev.PROXY_FENCE: "proxy fence",
}  # fmt: skip
_BARRIERS = ("full[0]", "full[1]", "empty[0]", "empty[1]")


@cache
def kernel() -> Kernel:
    (found,) = parse(SOURCE, "ring.syncir")
    return found


def classes() -> list[str]:
    """Lane classes of the first system: one line each."""
    first = next(s for s in systems(kernel(), {"N": 3}) if isinstance(s, IrSystem))
    return [
        f"| `{c.name}` | {c.role or ''} | {c.count} |" for c in canonical(first, Budget(), 32)[1].info.classes
    ]


def run_table() -> list[str]:
    """Events of the last system's run for N = 3, with the phase that each operation lands in or means."""
    *_, last = (s for s in systems(kernel(), {"N": 3}) if isinstance(s, IrSystem))
    run, _ = canonical(last, Budget(), 32)
    begun = max(i for i, (_, e) in enumerate(run.trace) if e and e[0] == Ev.ELECT)
    arrived = dict.fromkeys(_BARRIERS, 0)
    rows: list[str] = []
    for who, event in run.trace[begun + 1 :]:
        if who < 0:
            copy = run.asyncs[-1 - who]
            barrier = _BARRIERS[copy.targets[0][0]]
            rows.append(
                f"| copy {-who} | completes {copy.targets[0][1]} bytes | {barrier} | {arrived[barrier] - 1} |"
            )
        elif event[0] in _SHOWN:
            role = run.info.classes[who].role
            verb, barrier, phase = _SHOWN[event[0]], "", ""
            if event[0] == Ev.WAIT:
                barrier = _BARRIERS[event[2]]
                phase = str(arrived[barrier] - 1)
            elif event[0] == Ev.ARRIVE:
                barrier = _BARRIERS[event[2]]
                phase = str(arrived[barrier])
                arrived[barrier] += 1
            rows.append(f"| {role} | {verb} | {barrier} | {phase} |")
    return rows


def _text(s: Sum, names: dict[int, str]) -> str:
    constant, parts = s
    terms = [f"{'' if k == 1 else '-' if k == -1 else k}{names.setdefault(a, 'u')}" for a, k in parts]
    if constant or not terms:
        terms.append(str(constant))
    return " + ".join(terms).replace("+ -", "- ")


def graph_table() -> list[str]:
    """Nodes of the last system's exploration for every N: where they come from, and what became of them."""
    graph = all_sizes(kernel(), {}, Policy.PRACTICAL, lambda _: Verdict.PROVED).graphs[-1]

    def row(n: Node) -> str:
        names = {0: "N"}
        i = _text(n.valuation[1], names) if n.valuation else ""
        asked = f"{_text(n.branch_condition, names)} >= 0" if n.branch_condition is not None else ""
        comes = f"{n.parent}" if n.parent >= 0 else ""
        taken = {True: " (yes)", False: " (no)", None: ""}[n.branch_taken]
        became = {
            NodeStatus.SPLIT: "split",
            NodeStatus.TERMINAL: "the run ends, clean",
            NodeStatus.WIDENED: f"widened with {n.target}",
            NodeStatus.COVERED: f"covered by {n.target}",
        }[n.status]
        return f"| {n.number} | {comes}{taken} | {i} | {asked} | {became} |"

    return [row(n) for n in graph.nodes if n.status is not NodeStatus.TERMINAL]


def test_the_classes_of_the_page() -> None:
    assert "\n".join(classes()) in PAGE


def test_the_run_of_the_page() -> None:
    assert "\n".join(run_table()) in PAGE


def test_the_graph_of_the_page() -> None:
    assert "\n".join(graph_table()) in PAGE


def _report(text: str) -> KernelReport:
    (report,) = check(text)
    return report


MISTAKES = re.findall(r"^\| `([^`]*)` \| `([^`]*)` \| (SV\d+) \|", PAGE, re.M)


def test_the_page_shows_mistakes() -> None:
    assert len(MISTAKES) == 4


@pytest.mark.parametrize(("right", "wrong", "rule"), MISTAKES)
def test_a_mistake_of_the_page_is_refuted_by_its_rule(right: str, wrong: str, rule: str) -> None:
    assert SOURCE.count(right) == 1
    report = _report(SOURCE.replace(right, "" if wrong == "nothing" else wrong))
    assert report.verdict is Verdict.REFUTED
    assert next(d.rule for d in report.diagnostics if d.severity is Severity.ERROR) == rule


if __name__ == "__main__":
    print(*classes(), "", *run_table(), "", *graph_table(), sep="\n")
