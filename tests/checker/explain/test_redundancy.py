"""Advice from changed event streams: each fence of a proved kernel dropped, narrowed or moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Diagnostic, Verdict
from syncverify.checker.explain import redundancy
from syncverify.checker.explain.redundancy import BARRIERS, DRAINS, FENCES, advise
from syncverify.driver.verdicts import merge, run_system
from syncverify.frontends.ir.systems import systems
from syncverify.ir.text.parser import parse
from syncverify.model.events import System, Unanalysable

RULES = Path(__file__).parents[3] / "syncverify" / "examples" / "rules"

STORE = """\
kernel store {
  launch grid [1] block [64]
  tensor out : f32[256] out
  shared tile : f32[4, 64]
  for j in 0..4 {
    st.shared tile[j][tid : 1], 1.0
  }
  bar.sync 0
  elect p
  FENCES
  if warp == 0 and p {
    bulk.commit
    bulk.wait.read 0
  }
}
"""
COPY = "bulk.store out[i * 64 : 64], tile[i]"


def _systems(text: str) -> list[System]:
    (kernel,) = parse(text, "k.syncir")
    found: list[System] = []
    for system in systems(kernel, {}):
        assert not isinstance(system, Unanalysable)
        found.append(system)
    return found


def _advice(text: str, removable: frozenset[int] = FENCES) -> list[Diagnostic]:
    found = _systems(text)
    before = merge(run_system(s) for s in found)
    assert before.verdict is Verdict.PROVED
    return list(advise(found, run_system, before.diagnostics, removable))


def _rules(text: str, removable: frozenset[int] = FENCES) -> list[tuple[str, int]]:
    return [(d.rule, d.span.line) for d in _advice(text, removable)]


def _stored(*lines: str) -> str:
    return STORE.replace("  FENCES\n", "".join(f"  {line}\n" for line in lines))


@pytest.mark.parametrize("rule", ["SV601", "SV602", "SV603"])
def test_the_rules_own_examples(rule: str) -> None:
    text = (RULES / f"{rule}.bad.syncir").read_text("utf-8")
    assert [r for r, _ in _rules(text, FENCES | BARRIERS)] == [rule]
    text = (RULES / f"{rule}.good.syncir").read_text("utf-8")
    assert _rules(text, FENCES | BARRIERS) == []


def test_a_fence_per_store_by_every_thread() -> None:
    body = ("for i in 0..4 {", "fence.proxy.async", "if warp == 0 and p {", COPY, "}", "}")
    assert _rules(_stored(*body)) == [("SV604", 11), ("SV601", 11), ("SV603", 11)]


def test_a_fence_per_store_by_the_warp_that_stores() -> None:
    body = ("for i in 0..4 {", "if warp == 0 {", "fence.proxy.async", "if p {", COPY, "}", "}", "}")
    assert _rules(_stored(*body)) == [("SV601", 12), ("SV603", 12)]


def test_a_fence_by_one_thread_that_was_not_elected() -> None:
    body = ("if tid == 0 {", "fence.proxy.async.shared_cta", "for i in 0..4 {", COPY, "}")
    text = _stored(*body, "bulk.commit", "bulk.wait.read 0", "}")
    assert _rules(text) == [("SV605", 11)]


def test_a_fence_by_the_elected_thread_needs_nothing() -> None:
    body = ("if warp == 0 and p {", "fence.proxy.async.shared_cta", "for i in 0..4 {", COPY, "}", "}")
    assert _rules(_stored(*body)) == []


def test_a_second_fence_is_redundant_and_not_the_other_too() -> None:
    body = ("if warp == 0 and p {", "fence.proxy.async.shared_cta", "fence.proxy.async.shared_cta",
            "for i in 0..4 {", COPY, "}", "}")  # fmt: skip
    assert _rules(_stored(*body)) == [("SV602", 11)]


def test_fences_by_every_writer_are_needed_by_every_warp() -> None:
    text = _stored("if warp == 0 and p {", "for i in 0..4 {", COPY, "}", "}")
    text = text.replace("  bar.sync 0\n", "  fence.proxy.async.shared_cta\n  bar.sync 0\n", 1)
    assert _rules(text) == []


def test_the_number_of_checks_follows_from_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redundancy, "MAX_EVENTS", 0)
    body = ("for i in 0..4 {", "fence.proxy.async", "if warp == 0 and p {", COPY, "}", "}")
    assert _rules(_stored(*body)) == []


def test_a_full_wait_for_stores_that_nobody_reads_is_more_than_needed() -> None:
    body = (
        "fence.proxy.async.shared_cta",
        "bar.sync 0",
        "if warp == 0 and p {",
        COPY.replace("[i", "[0"),
        "}",
    )
    text = _stored(*body)
    assert [d.rule for d in _advice(text, DRAINS)] == []
    found = _advice(text.replace("bulk.wait.read 0", "bulk.wait 0"), DRAINS)
    assert [(d.rule, d.fix) for d in found] == [("SV606", "wait with .read")]


def test_a_wait_for_all_groups_where_an_older_one_is_enough() -> None:
    lines = ["ld.shared y, tile[1][tid : 1]", "ld.shared x, tile[0][tid : 1]"]
    one, two = (f"cp.async tile[{k}][tid : 1], a[tid]\n  cp.async.commit" for k in (0, 1))
    text = STORE.replace("tensor out : f32[256] out", "tensor a : f32[64] in")
    head, _, _ = text.partition("  for j in")
    kernel = f"{head}  {one}\n  {two}\n  cp.async.wait 0\n  {lines[1]}\n}}\n"
    assert [(d.rule, d.fix) for d in _advice(kernel, DRAINS)] == [("SV606", "leave 1 pending")]
    both = kernel.replace(lines[1], f"{lines[1]}\n  {lines[0]}")
    assert _advice(both, DRAINS) == []
