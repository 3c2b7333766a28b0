"""The orchestration of a check: merging systems, restarting after splits, launch values, witnesses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from syncverify.base.diagnostics import Diagnostic, Policy, Severity, Verdict
from syncverify.base.source import InputError, Span
from syncverify.checker import exact_check
from syncverify.checker.exact_check import Outcome
from syncverify.checker.outcome import Budget
from syncverify.driver import ir as module
from syncverify.driver import verdicts
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ir import check_kernel
from syncverify.driver.launch_values import launch_values
from syncverify.driver.verdicts import merge, run_system
from syncverify.frontends.launch_facts import LaunchFacts, read_facts
from syncverify.ir.nodes import Param
from syncverify.ir.text.parser import parse
from syncverify.model.events import LaneSplit, System, SystemInfo, Unanalysable
from syncverify.report.witness import dumps, loads

HERE = Span("k.syncir", 3, 1)
RULES = Path(__file__).parents[2] / "syncverify" / "examples" / "rules"


def _finding(rule: str, severity: Severity, line: int = 3, message: str = "m") -> Diagnostic:
    return Diagnostic(rule, severity, message, replace(HERE, line=line))


def _outcome(verdict: Verdict, *found: Diagnostic, reason: str | None = None, **stats: Any) -> Outcome:
    return Outcome(verdict, found, None, reason, stats)


# ---------------------------------------------------------------- merging


def test_refuted_beats_unknown_beats_proved() -> None:
    refuted = _outcome(Verdict.REFUTED, _finding("SV210", Severity.ERROR))
    unknown = _outcome(Verdict.UNKNOWN, reason="why")
    proved = _outcome(Verdict.PROVED)
    assert merge([proved, unknown, refuted]).verdict is Verdict.REFUTED
    assert merge([proved, unknown, refuted]).reason is None
    assert (merge([proved, unknown]).verdict, merge([proved, unknown]).reason) == (Verdict.UNKNOWN, "why")
    assert merge([proved, proved]).verdict is Verdict.PROVED


def test_a_launch_without_blocks_proves_nothing() -> None:
    assert merge([]).verdict is Verdict.UNKNOWN


def test_findings_keep_the_root_first_and_appear_once() -> None:
    root, note = _finding("SV202", Severity.ERROR), _finding("SV210", Severity.NOTE, 9)
    warning = _finding("SV105", Severity.WARNING, 1)
    merged = merge(
        [
            _outcome(Verdict.PROVED, warning),
            _outcome(Verdict.REFUTED, root, note),
            _outcome(Verdict.REFUTED, replace(root, message="the same in another block"), note),
        ]
    )
    assert merged.diagnostics == (root, note, warning)


def test_the_highest_severity_of_one_place_wins() -> None:
    note, error = _finding("SV210", Severity.NOTE), _finding("SV210", Severity.ERROR, message="worse")
    merged = merge([_outcome(Verdict.REFUTED, note), _outcome(Verdict.REFUTED, error)])
    assert merged.diagnostics == (error,)


def test_statistics_add_up() -> None:
    one = _outcome(Verdict.PROVED, events=3, obligation="O1")
    two = _outcome(Verdict.PROVED, events=4, obligation="O2")
    merged = merge([one, two])
    assert merged.stats == {"systems": 2, "events": 7, "obligation": "O1"}


# ---------------------------------------------------------------- splits


class _Splitting:
    """A system whose agents ask for ``left`` more splits."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.info = SystemInfo("s", "f", {}, (0, 0, 0), 1, 1, 32, None, [])

    def refined(self, split: LaneSplit) -> _Splitting:
        assert split.parts == (1, 2)
        return _Splitting(self.left - 1)


def test_a_system_is_split_until_it_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(system: System, policy: Policy, budget: Budget) -> Outcome:
        if cast(_Splitting, system).left:
            raise LaneSplit(0, (1, 2))
        return _outcome(Verdict.PROVED)

    monkeypatch.setattr(exact_check, "check", check)
    assert run_system(cast(System, _Splitting(5))).verdict is Verdict.PROVED
    endless = run_system(cast(System, _Splitting(verdicts.MAX_RESTARTS + 1)))
    assert endless.verdict is Verdict.UNKNOWN
    assert "did not settle" in str(endless.reason)


def test_what_cannot_be_set_up_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "systems", lambda *a, **k: iter([Unanalysable("too odd", HERE)]))
    (kernel,) = parse("kernel k {\n  launch block [32]\n  bar.sync 0\n}\n")
    report = check_kernel(kernel)
    assert (report.verdict, report.reason) == (Verdict.UNKNOWN, "too odd")
    assert [(d.rule, d.span) for d in report.diagnostics] == [("SV901", HERE)]


# ---------------------------------------------------------------- values and witnesses


def test_given_values_win_over_defaults() -> None:
    (kernel,) = parse("kernel k {\n  param N : i32 = 4\n  param M : u32\n  bar.sync 0\n}\n")
    assert launch_values(kernel, {}) == ({"N": 4}, ["M"])
    assert launch_values(kernel, {"M": 1, "N": 5}) == ({"N": 5, "M": 1}, [])
    for name, value in (("M", -1), ("N", 2**31), ("K", 0)):
        with pytest.raises(InputError, match=name):
            launch_values(kernel, {name: value})


def test_wide_parameters_have_their_own_range() -> None:
    (kernel,) = parse("kernel k {\n  launch block [32]\n  bar.sync 0\n}\n")
    wide = replace(kernel, params=(Param("N", "i64", 2**40),))
    assert launch_values(wide, {}) == ({"N": 2**40}, [])


def test_witness_names_kernel_launch_and_text() -> None:
    source = read_source(RULES / "SV210.bad.syncir")
    facts = LaunchFacts({"ring": {"grid": [3], "registers": 64}})
    (report,) = check_source(source, facts=facts, values={"N": 4}, repairs=False)
    witness = report.witness
    assert witness is not None
    assert (witness.kernel, witness.file, witness.source_hash) == ("ring", source.path, source.hash)
    assert (witness.values, witness.grid, witness.registers) == ({"N": 4}, (3, 1, 1), 64)
    assert witness.steps
    assert witness.blocked
    assert loads(dumps(witness), "w") == witness


def test_findings_without_a_place_get_their_kernel(tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    path.write_text("\n\nkernel k {\n  param N : i32\n  launch block [32]\n  bar.sync 0\n}\n")
    (report,) = check_source(read_source(path), repairs=False)
    assert [d.span.line for d in report.diagnostics] == [3]


def test_own_table_overrides_the_common_one(tmp_path: Path) -> None:
    path = tmp_path / "launch.toml"
    path.write_text(
        '[kernel."*"]\nregisters = 64\ngrid = [2]\n[kernel."*".params]\nN = 1\nM = 2\n'
        "[kernel.k]\ngrid = [5, 6]\n[kernel.k.params]\nM = 3\n"
    )
    assert read_facts(path).table("k") == {"registers": 64, "grid": [5, 6], "params": {"N": 1, "M": 3}}
    assert read_facts(path).grid("k") == (5, 6, 1)
    assert read_facts(path).grid("other") == (2, 1, 1)


def test_given_sizes_that_no_tensor_has_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    path.write_text(
        "kernel k {\n  param N : i32 = 4\n  tensor a : f32[2 * N] in\n  launch block [32]\n  bar.sync 0\n}\n"
    )
    with pytest.raises(InputError, match="a size of tensor a is -6, for N = -3") as caught:
        check_source(read_source(path), values={"N": -3}, repairs=False)
    assert caught.value.span.line == 3
