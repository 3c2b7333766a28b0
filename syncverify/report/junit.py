"""JUnit XML: a suite per file, a case per kernel; refuted is a failure, unknown an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from syncverify.base.diagnostics import KernelReport, Verdict, Witness
from syncverify.report.base import Report, one_line, place, replay_text, rests_on, rule_name, scope_text
from syncverify.report.drawing import draw

#: Steps of a schedule that a test case shows.
LAST_STEPS = 20
#: What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """The run as JUnit XML."""
    root = ET.Element("testsuites", {"name": "syncverify", **_totals(report.kernels, len(report.errors))})
    for e in report.errors:
        suite = ET.SubElement(root, "testsuite", {"name": _clean(e.span.file), **_totals((), 1)})
        case = ET.SubElement(suite, "testcase", name="input", classname=_clean(e.span.file), time="0")
        ET.SubElement(case, "error", message=_clean(e.message), type="input").text = _clean(str(e))
    for file, group in groupby(report.kernels, key=lambda k: k.file):
        kernels = list(group)
        suite = ET.SubElement(root, "testsuite", {"name": _clean(file), **_totals(kernels)})
        for k in kernels:
            _case(suite, k)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _totals(kernels: Sequence[KernelReport], unusable: int = 0) -> dict[str, str]:
    return {
        "tests": str(len(kernels) + unusable),
        "failures": str(sum(k.verdict is Verdict.REFUTED for k in kernels)),
        "errors": str(sum(k.verdict is Verdict.UNKNOWN for k in kernels) + unusable),
        "time": f"{sum(k.seconds for k in kernels):.3f}",
    }


def _case(suite: ET.Element, k: KernelReport) -> None:
    case = ET.SubElement(
        suite, "testcase", name=_clean(k.name), classname=_clean(k.file), time=f"{k.seconds:.3f}"
    )
    lines = [_line(k, i) for i in range(len(k.diagnostics))]
    if k.verdict is not Verdict.PROVED:
        kind = "failure" if k.verdict is Verdict.REFUTED else "error"
        message = k.reason or (k.diagnostics[0].message if k.diagnostics else str(k.verdict))
        first = k.diagnostics[0].rule if k.diagnostics else str(k.verdict)
        ET.SubElement(case, kind, message=_clean(message), type=first).text = _clean("\n".join(lines))
        lines = schedule(k.witness) if k.witness is not None else []
    ET.SubElement(case, "system-out").text = _clean("\n".join([*_basis(k), *lines]))


def _basis(k: KernelReport) -> list[str]:
    """What a verdict is for and rests on. Readers that keep to the schema know no properties of a case."""
    replay = replay_text(k)
    lines = [f"scope: {scope_text(k)}", *(f"assumption: {a}" for a in rests_on(k))]
    return lines if replay is None else [*lines, f"replay: {replay}"]


def schedule(w: Witness) -> list[str]:
    """The drawing of a schedule, its last steps and who waits for ever."""
    lines = [*draw(w, 120), ""]
    lines += [f"{s.agent} line {s.span.line}: {s.op}" for s in w.steps[-LAST_STEPS:]]
    stuck = [f"{b.agent} line {b.span.line}: waits for ever on {b.waits_on}: {b.why}" for b in w.blocked]
    return lines + stuck


def _line(k: KernelReport, index: int) -> str:
    d = k.diagnostics[index]
    file, line = place(k, d)
    return f"{file}:{line}: {d.severity}[{d.rule} {rule_name(d.rule)}]: {one_line(d)}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
