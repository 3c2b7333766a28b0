"""Each report format: golden text, the JSON contract, and what readers of the others rely on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from syncverify.base.diagnostics import (
    Diagnostic,
    KernelReport,
    Label,
    Mistake,
    Policy,
    Remaining,
    Repair,
    ScopeKind,
    Severity,
    TextEdit,
    Verdict,
)
from syncverify.base.source import InputError, Span
from syncverify.report import github, html, junit, markdown, sarif, text, trace
from syncverify.report import json as json_report
from syncverify.report.base import Report
from syncverify.report.witness import dumps, loads
from tests.report.html.rings import early_release, wrong_parity
from tests.report.reports import make_report

ROOT = Path(__file__).parents[2]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(tmp_path)
    return make_report(Path("."))


GOLDEN = """\
error[SV210 deadlock]: cta0.warp0.lanes0-31 waits for ever on `full` & co
 --> ring.syncir:4:3
  |
4 |   mbarrier.wait full, 0   // "never" & <never>
  |   ^^^^^^^^^^^^^^^^^^^^^
  |
5 |   mbarrier.arrive full
  |   -------------------- comes only after the wait
  |
  = help: arrive before the wait,
          or start with parity 1

  this schedule hangs: nobody arrives on full
    ... 2 steps
    cta0.warp1.lanes0  line 5  step 2 (phase 2 of full)
    cta0.warp1.lanes0  line 5  step 3 (phase 3 of full)
    cta0.warp1.lanes0  line 5  step 4 (phase 4 of full)
    cta0.warp1.lanes0  line 5  step 5 (phase 5 of full)
    cta0.warp1.lanes0  line 5  step 6 (phase 6 of full)
    cta0.warp1.lanes0  line 5  step 7 (phase 7 of full)
  who waits for ever:
    cta0.warp0.lanes0-31  line 4  waits on full phase 0: 0 of 1 arrivals came
  step through it: syncverify replay out/ring.json

warning[SV105 unfenced-read-before-async-write]: 100% unfenced: a, b
 --> ring.syncir:5:3
  |
5 |   mbarrier.arrive full
  |   ^^^^^^^^^^^^^^^^^^^^
  |
  = contested: K1: generic read, then a bulk write to the same bytes
               practical: proxy fence, or values that reached memory before the release, or fence.acq_rel
               strict: proxy fence

note[SV304 register-pool]: no place for this one

ring.syncir: ring: refuted (for N = 8; practical; 0.25 s)

ring.syncir: lost: unknown: no value for N (no value known; practical; 0.00 s)

warning[SV105 unfenced-read-before-async-write]: 100% unfenced: a, b
 --> ring.syncir:5:3
  |
5 |   mbarrier.arrive full
  |   ^^^^^^^^^^^^^^^^^^^^
  |
  = contested: K1: generic read, then a bulk write to the same bytes
               practical: proxy fence, or values that reached memory before the release, or fence.acq_rel
               strict: proxy fence

ring.syncir: fine: proved (every launch; practical; 0.00 s)

3 kernels: 1 proved, 1 refuted, 1 unknown
"""


def test_text_is_golden(report: Report) -> None:
    assert text.render(report) == GOLDEN


def test_people_read_base_names_and_the_first_values(report: Report) -> None:
    values = {"grid.x": 4, "grid.y": 2, "grid.z": 1, **{f"params.{i}": i for i in range(8)}}
    known = replace(report.kernels[2].scope, kind=ScopeKind.EXACT, values=values)
    mangled = replace(report.kernels[2], name="_ZN3lib4ringIfLi2EEEvT_", scope=known)
    short = Report(Policy.PRACTICAL, (mangled,))
    line = "ring: proved (for grid = 4 x 2 x 1, " + ", ".join(f"params.{i} = {i}" for i in range(4))
    line += " and 4 more;"
    assert line in text.render(short)
    assert html.data_of(short)["kernels"][0]["name"] == "ring"
    assert json.loads(json_report.render(short))["kernels"][0]["name"] == "_ZN3lib4ringIfLi2EEEvT_"


def test_instances_of_one_template_keep_their_names(report: Report) -> None:
    names = ["_Z4ringILi2EEvPf", "_Z4ringILi3EEvPf"]
    shown = text.render(Report(Policy.PRACTICAL, tuple(replace(report.kernels[2], name=n) for n in names)))
    assert all(f"{name}: proved" in shown for name in names)


def test_equal_labels_stand_once(report: Report) -> None:
    finding = report.kernels[0].diagnostics[0]
    twice = replace(finding, related=finding.related * 2)
    shown = text.render(
        Report(Policy.PRACTICAL, (replace(report.kernels[0], diagnostics=(twice,), witness=None),))
    )
    assert shown.count("comes only after the wait") == 1
    assert "comes only after the wait (2 times)" in shown


def test_what_is_said_of_a_line_stands_under_it_once(report: Report) -> None:
    finding = report.kernels[0].diagnostics[0]
    place, other = replace(finding.span, line=3), replace(finding.span, line=2)
    said = (Label(place, "first"), Label(other, "between"), Label(place, "last"))
    kernel = replace(report.kernels[0], diagnostics=(replace(finding, related=said),), witness=None)
    shown = text.render(Report(Policy.PRACTICAL, (kernel,))).splitlines()
    assert sum(line.startswith("3 |") for line in shown) == 1
    order = [
        next(i for i, x in enumerate(shown) if x.endswith(word)) for word in ("first", "last", "between")
    ]
    assert order == sorted(order)


def test_what_follows_from_an_error_is_its_place_alone(report: Report) -> None:
    first = report.kernels[0].diagnostics[0]
    follows = replace(
        first, severity=Severity.NOTE, message="so this hangs, too", span=replace(first.span, line=5)
    )
    kernel = replace(report.kernels[0], diagnostics=(first, follows), witness=None)
    shown = text.render(Report(Policy.PRACTICAL, (kernel,))).splitlines()
    at = next(i for i, line in enumerate(shown) if "so this hangs, too" in line)
    assert shown[at + 1 : at + 3] == ["  --> ring.syncir:5:3", ""]
    alone = replace(kernel, diagnostics=(follows,))
    assert "5 |   mbarrier.arrive full" in text.render(Report(Policy.PRACTICAL, (alone,)))


def test_equal_steps_are_one_line_and_lines_of_headers_have_their_name(report: Report) -> None:
    kernel = report.kernels[0]
    assert kernel.witness is not None
    step = replace(kernel.witness.steps[0], op="ld.shared.f32", barrier=None)
    header = replace(step, span=replace(step.span, file="inc/pipe.cuh"), op="bar.sync 0")
    shown = _told(kernel, steps=(step, step, step, header))
    assert "line 5      ld.shared.f32 (3 times)" in shown and "pipe.cuh:5  bar.sync 0" in shown


def test_an_edit_of_the_text_makes_notes_on_what_lies_around_needless(report: Report) -> None:
    first = report.kernels[0].diagnostics[0]
    around = Label(replace(first.span, line=2), "the last wait before it", detail=True, around=True)
    inside = Label(replace(first.span, line=3), "the operation: bar.sync", detail=True)
    finding = replace(first, related=(*first.related, around, inside))
    edit = TextEdit("ring.syncir", 4, ("x",), ("y",))
    mended = replace(finding, repair=Repair(Mistake.COUNT, first.span, "count 2", edit=edit))
    for d, needed in ((finding, True), (mended, False)):
        kernel = replace(report.kernels[0], diagnostics=(d,), witness=None)
        shown = text.render(Report(Policy.PRACTICAL, (kernel,)))
        assert ("the last wait before it" in shown) is needed and "the operation: bar.sync" in shown
        (page,) = html.data_of(Report(Policy.PRACTICAL, (kernel,)))["kernels"]
        labels = [label["text"] for label in page["findings"][0]["labels"]]
        assert ("the last wait before it" in labels) is needed and "the operation: bar.sync" in labels


def test_a_page_says_the_file_of_a_fix_in_a_header(report: Report) -> None:
    first = report.kernels[0].diagnostics[0]
    for span, at in (
        (first.span, ""),
        (replace(first.span, line=2), "line 2"),
        (replace(first.span, file="inc/pipe.cuh", column=0), "inc/pipe.cuh:4"),
    ):
        mended = replace(first, repair=Repair(Mistake.COUNT, span, "count 2"))
        kernel = replace(report.kernels[0], diagnostics=(mended,), witness=None)
        (page,) = html.data_of(Report(Policy.PRACTICAL, (kernel,)))["kernels"]
        assert page["findings"][0]["repair"]["at"] == at


def test_a_fix_of_one_mistake_of_two_says_what_is_left(report: Report) -> None:
    first = report.kernels[0].diagnostics[0]
    left = Remaining("SV105", replace(first.span, line=5))
    mended = replace(first, repair=Repair(Mistake.COUNT, first.span, "count 2", left=left))
    whole = Report(Policy.PRACTICAL, (replace(report.kernels[0], diagnostics=(mended,), witness=None),))
    said = "with it this mistake is gone; one more is left: SV105 unfenced-read-before-async-write, line 5"
    assert said in text.render(whole) and said in html.render(whole)
    found = json.loads(json_report.render(whole))["kernels"][0]["diagnostics"][0]["repair"]["left"]
    assert found == {"rule": "SV105", "file": "ring.syncir", "line": 5}
    schema = json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(json_report.render(whole)), schema)


def test_steps_of_compiled_code_are_without_registers(report: Report) -> None:
    kernel = report.kernels[0]
    assert kernel.witness is not None
    step = replace(kernel.witness.steps[0], op="mbarrier.init.shared.b64 [%r1], %r2")
    meeting = replace(step, op="bar.sync 4, 256", code_line=9)
    shown = _told(kernel, steps=(step, replace(step, code_line=7), meeting))
    assert shown.count("[%r1]") == 1 and shown.count("mbarrier.init.shared.b64") == 2
    assert "bar.sync 4, 256" in shown


@pytest.mark.parametrize(
    ("elsewhere", "says"),
    [
        (None, "with it this launch is proved"),
        (Verdict.PROVED, "with it every launch that was asked for is proved"),
        (Verdict.REFUTED, "with it this launch is proved, but another one is still refuted"),
        (Verdict.UNKNOWN, "with it this launch is proved, and the others are undecided"),
    ],
)
def test_a_fix_says_what_was_checked(report: Report, elsewhere: Verdict | None, says: str) -> None:
    finding = report.kernels[0].diagnostics[0]
    mended = Repair(Mistake.COUNT, finding.span, "count 2", elsewhere=elsewhere)
    kernel = replace(report.kernels[0], diagnostics=(replace(finding, repair=mended),), witness=None)
    whole = Report(Policy.PRACTICAL, (kernel,))
    assert any(line.strip() == says for line in text.render(whole).splitlines())
    assert json.loads(json_report.render(whole))["kernels"][0]["diagnostics"][0]["repair"]["elsewhere"] == (
        None if elsewhere is None else str(elsewhere)
    )
    assert says in html.render(whole)


def test_color_adds_only_escape_codes(report: Report) -> None:
    colored = text.render(report, text.colored)
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == GOLDEN


def test_text_says_what_a_verdict_takes_for_granted(report: Report) -> None:
    assumed = replace(report.kernels[2], assumptions=tuple(f"line {n}: so" for n in range(6)))
    shown = text.render(Report(Policy.PRACTICAL, (assumed,)))
    assert shown.count("  assumed: line ") == 4
    assert "  and 2 more" in shown


@pytest.mark.parametrize("alike", [True, False])
def test_text_says_once_why_there_is_no_verdict(report: Report, alike: bool) -> None:
    lost = report.kernels[1]
    at = Span(lost.file, 4)
    reason = f"{lost.file}:4: no value for N"
    said = reason if alike else "another one"
    note = Diagnostic("SV902", Severity.WARNING, said, at)
    told = Report(Policy.PRACTICAL, (replace(lost, reason=reason, diagnostics=(note,)),))
    shown = text.render(told)
    assert shown.count("no value for N") == 1
    assert (f"lost: unknown: {reason}" in shown) is not alike
    assert f"undecided]: {'no value for N' if alike else said}\n" in shown
    (kernel,) = json.loads(json_report.render(told))["kernels"]
    assert (kernel["reason"], kernel["diagnostics"][0]["message"]) == (reason, said)


def test_text_survives_a_source_that_is_gone(report: Report, tmp_path: Path) -> None:
    moved = replace(
        report.kernels[2],
        diagnostics=tuple(
            replace(d, span=replace(d.span, file="gone.syncir")) for d in report.kernels[2].diagnostics
        ),
    )
    shown = text.render(Report(Policy.PRACTICAL, (moved,)))
    assert "gone.syncir:5:3" in shown
    assert shown.endswith("1 kernel: 1 proved\n")


def test_json_is_the_contract(report: Report) -> None:
    data = json.loads(json_report.render(report))
    assert list(data) == ["schema_version", "policy", "kernels"]
    assert (data["schema_version"], data["policy"]) == (1, "practical")
    ring, lost, fine = data["kernels"]
    assert list(ring) == (
        (
            "name file arch verdict reason reason_kind seconds scope assumptions accepted_by not_accepted"
            " invariants besides witness replay diagnostics"
        ).split()
    )
    assert ring["scope"] == {"kind": "exact", "values": {"N": 8}, "assume": ["N >= 1"]}
    assert ring["witness"] == "out/ring.json"
    assert ring["diagnostics"][0] == {
        "rule": "SV210",
        "name": "deadlock",
        "severity": "error",
        "contested": None,
        "message": "cta0.warp0.lanes0-31 waits for ever on `full` & co",
        "file": "ring.syncir",
        "line": 4,
        "column": 3,
        "related": [{"file": "ring.syncir", "line": 5, "text": "comes only after the wait"}],
        "cause": None,
        "fix": "arrive before the wait,\nor start with parity 1",
        "repair": None,
    }
    assert ring["diagnostics"][2]["file"] == "ring.syncir"
    assert (lost["verdict"], lost["reason"], lost["witness"]) == ("unknown", "no value for N", None)
    assert fine["scope"]["kind"] == "all"
    assert fine["diagnostics"][0]["contested"] == "K1"


def test_github_annotates_and_escapes(report: Report) -> None:
    lines = github.render(report).splitlines()
    assert lines[0] == (
        "::error file=ring.syncir,line=4,endLine=4,col=3,title=SV210 deadlock::ring: cta0.warp0.lanes0-31 "
        "waits for ever on `full` & co; help: arrive before the wait, or start with parity 1"
    )
    assert "100%25 unfenced: a, b" in lines[1]
    assert lines[2].startswith("::notice file=ring.syncir,title=SV304")
    assert lines[3] == "::warning file=ring.syncir,title=unknown::lost: no value for N"


def test_junit_counts_and_parses(report: Report) -> None:
    nasty = replace(report.kernels[1], reason='control \x00 and <tag> & "quote"')
    kernels = (report.kernels[0], nasty, report.kernels[2])
    root = ET.fromstring(junit.render(replace(report, kernels=kernels)))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    ring, lost, fine = root.iter("testcase")
    failure, error = ring.find("failure"), lost.find("error")
    assert failure is not None and failure.get("type") == "SV210"
    assert error is not None and error.get("message") == 'control ? and <tag> & "quote"'
    assert fine.find("failure") is None


def test_junit_keeps_to_its_schema(report: Report) -> None:
    """What the schema of Jenkins' reader (junit-10) allows: elements by their parent, and attributes."""
    allowed = {
        "testsuites": ({"testsuite"}, {"name", "time", "tests", "failures", "errors"}),
        "testsuite": ({"testcase"}, {"name", "time", "tests", "failures", "errors"}),
        "testcase": ({"failure", "error", "system-out"}, {"name", "time", "classname"}),
        "failure": (set(), {"type", "message"}),
        "error": (set(), {"type", "message"}),
        "system-out": (set(), set()),
    }
    root = ET.fromstring(junit.render(report))
    for element in root.iter():
        children, attributes = allowed[element.tag]
        assert {child.tag for child in element} <= children
        assert set(element.attrib) <= attributes
    shown = [case.findtext("system-out") or "" for case in root.iter("testcase")]
    assert all(text.startswith("scope: ") for text in shown)


def test_sarif_has_what_code_scanning_needs(report: Report) -> None:
    (run,) = json.loads(sarif.render(report))["runs"]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert rules == sorted(set(rules))
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert set(region) == {"startLine", "startColumn", "endLine", "endColumn"}
        assert min(region.values()) >= 1
        assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
    assert [r["level"] for r in run["results"]] == ["error", "warning", "note", "warning", "warning"]
    whole, single = run["results"][0]["codeFlows"]
    assert len(whole["threadFlows"]) == 1
    order = [loc["executionOrder"] for loc in whole["threadFlows"][0]["locations"]]
    assert order == list(range(1, 10))  # eight steps, then who waits for ever
    assert [f["id"] for f in single["threadFlows"]] == ["cta0.warp1.lanes0", "cta0.warp0.lanes0-31"]
    stuck = single["threadFlows"][1]["locations"]
    assert [loc.get("importance") for loc in stuck] == ["essential"]
    assert run["automationDetails"]["id"].endswith("/")


def test_html_escapes_and_needs_nothing_else(report: Report) -> None:
    """Texts stand in a script element as JSON, where only its end tag could break out."""
    finding = replace(report.kernels[0].diagnostics[0], message="</script><script>alert(1)</script><!--")
    page = html.render(replace(report, kernels=(replace(report.kernels[0], diagnostics=(finding,)),)))
    assert page.count("<script") == page.count("</script>") == 2
    assert "&lt;never&gt;" in page  # in the text for readers without scripts
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)", page)


def test_trace_has_a_track_per_agent(report: Report) -> None:
    events = json.loads(trace.render(report))["traceEvents"]
    tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert tracks == named
    assert len(tracks) == 2
    assert [e["ts"] for e in events if e["ph"] == "X"] == [10 * i for i in range(9)]


def test_trace_arrows_pair_up_and_lead_forward(tmp_path: Path) -> None:
    kernel = early_release(tmp_path)
    events = json.loads(trace.render(Report(Policy.PRACTICAL, (kernel,))))["traceEvents"]
    starts = {(e["cat"], e["id"]): e for e in events if e["ph"] in ("s", "b")}
    ends = {(e["cat"], e["id"]): e for e in events if e["ph"] in ("f", "e")}
    assert starts and starts.keys() == ends.keys()
    for key, start in starts.items():
        assert start["name"] == ends[key]["name"] and start["ts"] < ends[key]["ts"]


def test_junit_shows_the_schedule(report: Report) -> None:
    case = next(ET.fromstring(junit.render(report)).iter("testcase"))
    shown = case.findtext("system-out") or ""
    assert "waits for ever on full" in shown and "step 7" in shown


def test_markdown_has_a_row_for_each_kernel(report: Report) -> None:
    page = markdown.render(report)
    assert sum(line.startswith(("| ✅", "| ❌", "| ❔")) for line in page.splitlines()) == len(report.kernels)
    assert "<never>" not in page.split("```")[0]


def test_the_extract_on_the_page_has_all_fields() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8").split("### JSON\n")[1].split("\n### ")[0]
    extract = json.loads("\n".join(line for line in page.split("\n") if line.startswith("    ")))
    defined = json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text("utf-8"))["$defs"]
    (kernel,) = extract["kernels"]
    (diagnostic,) = kernel["diagnostics"]
    assert set(kernel) == set(defined["kernel"]["properties"])
    assert set(diagnostic) == set(defined["diagnostic"]["properties"])


def closed(schema: Any) -> Any:
    """A schema that knows all fields: another one is an error. Readers of the published one ignore it."""
    if isinstance(schema, list):
        return [closed(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    inside = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **inside} if "properties" in schema else inside


def test_every_field_of_the_json_stands_in_the_published_schema(report: Report, tmp_path: Path) -> None:
    schema = closed(json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text("utf-8")))
    kernels = (*report.kernels, early_release(tmp_path), wrong_parity(tmp_path))
    data = json.loads(json_report.render(replace(report, kernels=kernels)))
    jsonschema.validate(data, schema)
    data["kernels"][0]["diagnostics"][0]["unheard_of"] = None
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


def test_json_meets_its_published_schema(report: Report, tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    kernels = (*report.kernels, early_release(tmp_path), wrong_parity(tmp_path))
    data = json.loads(json_report.render(replace(report, kernels=kernels)))
    jsonschema.validate(data, schema)
    for key in ("verdict", "arch"):
        broken = json.loads(json.dumps(data))
        del broken["kernels"][0][key]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_a_fingerprint_outlives_moved_lines(report: Report) -> None:
    kernel = report.kernels[0]
    finding = kernel.diagnostics[0]
    moved = replace(finding, span=replace(finding.span, line=99), message=finding.message + " (line 7)")
    again = replace(moved, message=finding.message + " (line 12)")
    assert sarif.fingerprint(kernel, moved) == sarif.fingerprint(kernel, again)
    assert sarif.fingerprint(kernel, moved) != sarif.fingerprint(kernel, replace(moved, rule="SV201"))


def test_witness_round_trips(report: Report) -> None:
    witness = report.kernels[0].witness
    assert witness is not None
    assert loads(dumps(witness), "w.json") == witness


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema_version": 2}, "schema_version 1"),
        ({"claim": "boredom"}, "boredom"),
        ({"steps": [{"agent": "a"}]}, "is missing"),
        ({"steps": 7}, "not iterable"),
        ({"values": {"N": "8"}}, "expected an integer"),
        ({"block": [1]}, "expected three integers"),
        ({"hash": None}, "expected text"),
        ({"policy": "lenient"}, "lenient"),
    ],
)
def test_malformed_witness_is_one_error(report: Report, change: dict[str, object], says: str) -> None:
    witness = report.kernels[0].witness
    assert witness is not None
    data = {**json.loads(dumps(witness)), **change}
    with pytest.raises(InputError, match=says):
        loads(json.dumps(data), "w.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"schema_version": 1}', "[" * 100000])
def test_junk_witness_is_one_error(text: str) -> None:
    with pytest.raises(InputError):
        loads(text, "w.json")


def test_counts_cover_every_verdict(report: Report) -> None:
    assert report.counts == {Verdict.PROVED: 1, Verdict.REFUTED: 1, Verdict.UNKNOWN: 1}


def _told(kernel: KernelReport, **changes: Any) -> str:
    """The text on a refuted kernel with its witness changed."""
    assert kernel.witness is not None
    changed = replace(kernel, witness=replace(kernel.witness, **changes), diagnostics=kernel.diagnostics[:1])
    return text.render(Report(Policy.PRACTICAL, (changed,)))


def test_text_shows_the_steps_that_the_finding_names(report: Report) -> None:
    kernel = report.kernels[0]
    assert kernel.witness is not None
    wait = kernel.diagnostics[0].span
    steps = [replace(s, op=f"step {i}") for i, s in enumerate(kernel.witness.steps * 4)]
    steps[3] = replace(steps[3], span=wait, agent="cta0.warp0.lanes0-31")
    steps[9] = replace(steps[9], span=wait, agent="cta0.warp7.lanes0")
    shown = _told(kernel, steps=tuple(steps))
    told = shown.split("this schedule hangs")[1].split("who waits")[0].splitlines()[1:]
    assert [line.strip() for line in told if "..." in line] == ["... 3 steps", "... 22 steps"]
    assert "cta0.warp0.lanes0-31  line 4  step 3" in told[1]  # the last step there of the agent that is named
    assert [line for line in told if "..." not in line][-2].endswith("step 31 (phase 7 of full)")


def test_text_leaves_out_no_single_step(report: Report) -> None:
    kernel = report.kernels[0]
    assert kernel.witness is not None
    assert "step 0" in _told(kernel, steps=kernel.witness.steps[:7])
    assert "step 0" not in _told(kernel, steps=kernel.witness.steps[:8])


def test_text_of_a_harm_at_the_first_step(report: Report) -> None:
    assert "nothing comes before it" in _told(report.kernels[0], steps=(), blocked=())


ASSUMED = ("tiles >= 1", "C % 128 == 0")
TAKEN = "box of tensor map 0 is 16384 bytes: from expect_tx, line 91"


def test_github_says_the_lines_of_a_fix(report: Report) -> None:
    kernel = report.kernels[0]
    first = kernel.diagnostics[0]
    edit = TextEdit(first.span.file, 4, (), ("  mbarrier.arrive full",))
    mended = replace(first, repair=Repair(Mistake.MISSING_ARRIVE, first.span, "arrive first", edit=edit))
    whole = replace(report, kernels=(replace(kernel, diagnostics=(mended,)),))
    line = next(x for x in github.render(whole).splitlines() if "SV210" in x)
    assert "missing release: arrive first (line 4; checked)%0A" in line
    assert "%0A+   mbarrier.arrive full%0A4     mbarrier.wait full" in line


@pytest.mark.parametrize("format_", [text, json_report, sarif, github, junit, html, trace])
def test_every_format_says_what_a_proof_rests_on(report: Report, format_: Any) -> None:
    """The user's conditions and the tool's assumptions, of a proof for open sizes."""
    scope = replace(report.kernels[2].scope, assume=ASSUMED)
    proved = replace(report.kernels[2], scope=scope, assumptions=(TAKEN,))
    shown = format_.render(Report(Policy.PRACTICAL, (proved,)))
    for part in (*ASSUMED, TAKEN):
        spellings = {part, part.replace(">", "&gt;"), part.replace("%", "%25")}
        assert any(s in shown for s in spellings), part


def test_a_proof_names_its_launches(report: Report) -> None:
    scope = replace(report.kernels[2].scope, assume=("tiles >= 1",))
    proved = replace(report.kernels[2], scope=scope)
    assert "fine: proved (every launch with tiles >= 1;" in text.render(Report(Policy.PRACTICAL, (proved,)))
    some = replace(proved, scope=replace(scope, kind=ScopeKind.PARTIAL, values={"C": 64}))
    assert "proved (every launch with C = 64, tiles >= 1;" in text.render(Report(Policy.PRACTICAL, (some,)))
    exact = replace(proved, scope=replace(scope, kind=ScopeKind.EXACT, values={"tiles": 3}))
    assert "proved (for tiles = 3;" in text.render(Report(Policy.PRACTICAL, (exact,)))


def test_a_region_without_columns_is_the_text_of_its_line(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("kernel\n    wait(b);  \n\n", "utf-8")
    found = [sarif.region(Span(str(source), line)) for line in (2, 3, 9)]
    assert [(r["startColumn"], r["endColumn"]) for r in found] == [(5, 13), (1, 2), (1, 2)]
