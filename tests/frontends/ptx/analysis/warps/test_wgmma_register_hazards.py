"""Registers of a wgmma that other instructions touch too early, through copies and around loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncverify.frontends.ptx.analysis.warps.wgmma_register_hazards import fragment_events
from syncverify.model.events import MOVED, PLACED, TAKEN, Ev
from tests.frontends.ptx.effect_helpers import function

FENCE, COMMIT = "wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned"
ACC = "{%f1, %f2, %f3, %f4}"


def wait(n: int) -> str:
    return f"wgmma.wait_group.sync.aligned {n}"


def mma(acc: str = ACC, a: str = "%d1") -> str:
    transposes = ", 0" if a.startswith("{") else ", 0, 0"
    return f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {acc}, {a}, %d2, 1, 1, 1{transposes}"


def found(*lines: str) -> dict[str, list[tuple[Ev, str]]]:
    """Events by the text of the instruction that they come before."""
    f = function(*lines)
    return {f"{f.body[k].name}@{f.body[k].line}": list(e) for k, e in fragment_events(f).items()}


def events(*lines: str) -> list[tuple[Ev, str]]:
    return [e for found_ in found(*lines).values() for e in found_]


def test_correct_use_has_no_events() -> None:
    assert events("add.f32 %f1, %f1, %f9", FENCE, mma(), COMMIT, wait(0), "add.f32 %f5, %f1, %f2") == []


def test_read_in_flight() -> None:
    assert events(FENCE, mma(), COMMIT, "add.f32 %f5, %f1, %f2", wait(0)) == [(Ev.FRAG_READ, "%f1")]


def test_write_in_flight() -> None:
    assert events(FENCE, mma(), COMMIT, "add.f32 %f2, %f8, %f9", wait(0)) == [(Ev.FRAG_WRITE, "%f1")]


def test_a_wait_that_leaves_the_group_pending() -> None:
    lines = (FENCE, mma(), COMMIT, wait(1), "add.f32 %f5, %f1, %f2")
    assert events(*lines) == [(Ev.FRAG_READ, "%f1")]


def test_older_groups_are_complete() -> None:
    other = "{%f11, %f12, %f13, %f14}"
    lines = (FENCE, mma(), COMMIT, mma(other), COMMIT, wait(1), "add.f32 %f5, %f1, %f2")
    assert events(*lines) == []


def test_an_uncommitted_wgmma_is_never_waited_for() -> None:
    assert events(FENCE, mma(), wait(0), "add.f32 %f5, %f1, %f2") == [(Ev.FRAG_READ, "%f1")]


def test_copies_touch_nothing_but_carry_the_accumulator() -> None:
    lines = (FENCE, mma(), "mov.b32 %f21, %f1", COMMIT, "mov.b32 %f22, %f21")
    assert events(*lines, wait(0), "add.f32 %f5, %f22, %f22") == []
    assert events(*lines, "add.f32 %f5, %f22, %f22", wait(0)) == [(Ev.FRAG_READ, "%f1")]


def test_a_copy_made_after_the_wait_is_free_while_the_next_is_in_flight() -> None:
    first = (FENCE, mma(), COMMIT, wait(0), "mov.b32 %f21, %f1")
    assert events(*first, FENCE, mma(), COMMIT, "add.f32 %f5, %f21, %f21", wait(0)) == []


def test_in_flight_around_a_loop() -> None:
    lines = (FENCE, "LOOP:", "add.f32 %f5, %f1, %f2", mma(), COMMIT, "@%p1 bra LOOP", wait(0))
    assert (Ev.FRAG_READ, "%f1") in events(*lines)
    lines = ("LOOP:", FENCE, mma(), COMMIT, wait(0), "add.f32 %f5, %f1, %f2", "@%p1 bra LOOP")
    assert events(*lines) == []


def test_read_since_the_fence() -> None:
    first = (FENCE, mma(), COMMIT, wait(0))
    read = "add.f32 %f5, %f1, %f2"
    assert events(*first, read, mma()) == [(Ev.FRAG_READ, "%f1")]
    assert events(*first, read, FENCE, mma()) == []
    assert events(*first, FENCE, read, mma()) == [(Ev.FRAG_READ, "%f1")]
    assert events(*first, mma()) == []


def test_read_since_the_fence_around_a_loop() -> None:
    lines = ("LOOP:", mma(), COMMIT, wait(0), "add.f32 %f5, %f1, %f2", "@%p1 bra LOOP")
    assert events(FENCE, *lines) == [(Ev.FRAG_READ, "%f1")]


def test_reading_a_copy_reads_the_registers_that_still_hold_the_value() -> None:
    first = (FENCE, mma(), COMMIT, wait(0), "mov.b32 %f21, %f1", "mov.b32 %f22, %f21")
    read = "add.f32 %f5, %f22, %f22"
    assert events(*first, read, mma()) == [(Ev.FRAG_READ, "%f1")]
    assert events(*first, read, FENCE, mma()) == []
    assert events(*first, FENCE, mma(), COMMIT, read, wait(0), mma()) == []
    assert events(*first, "mov.b32 %f22, %f9", read, mma()) == []


def test_a_read_under_a_predicate_leaves_those_before_it() -> None:
    first = (FENCE, mma(), COMMIT, wait(0), "add.f32 %f5, %f1, %f1")
    assert events(*first, "@%p1 add.f32 %f6, %f1, %f1", mma()) == [(Ev.FRAG_READ, "%f1")] * 2
    assert events(*first, "add.f32 %f6, %f1, %f1", mma()) == [(Ev.FRAG_READ, "%f1")]


def test_written_since_the_fence() -> None:
    assert events(FENCE, "add.f32 %f1, %f8, %f9", mma()) == [(Ev.FRAG_WRITE, "%f1")]
    both = [(Ev.FRAG_WRITE, "%f1"), (Ev.FRAG_WRITE, "%f1", PLACED)]
    assert events(FENCE, "add.f32 %f21, %f8, %f9", "mov.b32 %f1, %f21", mma()) == both


def test_a_copy_behind_the_fence_is_contested() -> None:
    placed = [(Ev.FRAG_WRITE, "%f1", PLACED)]
    assert events(FENCE, "mov.b32 %f1, 0f00000000", mma()) == placed
    assert events(FENCE, "@%p1 mov.b32 %f2, %f9", mma()) == placed
    assert events("mov.b32 %f1, 0f00000000", FENCE, mma()) == []
    assert events(FENCE, "mov.b32 %f1, 0f00000000", FENCE, mma()) == []
    assert events(FENCE, "mov.b32 %f9, %f1", mma()) == []
    a = "{%r1, %r2, %r3, %r4}"
    assert events(FENCE, "mov.b32 %r3, %r9", mma(a=a)) == [(Ev.FRAG_WRITE, "%r1", PLACED)]


def test_another_shape_needs_a_fence() -> None:
    other = mma().replace("n8k16.f32.bf16.bf16", "n8k8.f32.tf32.tf32").replace(", 0, 0", "")
    done = (COMMIT, wait(0))
    taken = [(Ev.FRAG_WRITE, "%f1", TAKEN)]
    assert events(FENCE, mma(), other, *done) == taken
    assert events(FENCE, mma(), *done, other, *done) == taken
    assert events(FENCE, mma(), FENCE, other, *done) == []
    assert events(FENCE, mma(), mma(), *done, mma(), *done) == []


def test_an_operand_and_an_accumulator_need_a_fence_and_a_wait() -> None:
    a, as_a = "{%f1, %f2, %f3, %f4}", mma("{%f11, %f12, %f13, %f14}", "{%f1, %f2, %f3, %f4}")
    done = (COMMIT, wait(0))
    assert events(FENCE, mma(a), *done, as_a, *done) == [(Ev.FRAG_WRITE, "%f1", TAKEN)]
    assert events(FENCE, as_a, *done, mma(a), *done) == [(Ev.FRAG_WRITE, "%f1", TAKEN)]
    assert events(FENCE, as_a, *done, FENCE, mma(a), *done) == []
    assert events(FENCE, as_a, FENCE, mma(a), *done) == [(Ev.FRAG_WRITE, "%f1")]
    assert events(FENCE, as_a, as_a, *done) == []


def test_a_copy_into_registers_in_flight_is_contested() -> None:
    moved = [(Ev.FRAG_WRITE, "%f1", MOVED)]
    assert events(FENCE, mma(), COMMIT, "mov.b32 %f2, 0f00000000", wait(0)) == moved
    assert events(FENCE, mma(), COMMIT, "mov.b32 %f2, %f9", wait(0)) == moved
    assert events(FENCE, mma(), COMMIT, wait(0), "mov.b32 %f2, %f9") == []
    # renamed, and brought back: around loops compilers do so
    assert events(FENCE, mma(), COMMIT, "mov.b32 %f21, %f2", "mov.b32 %f2, %f21", wait(0)) == []
    # a copy of it is no register of the wgmma
    assert events(FENCE, mma(), COMMIT, "mov.b32 %f21, %f2", "mov.b32 %f21, %f9", wait(0)) == []
    a = "{%r1, %r2, %r3, %r4}"
    assert events(FENCE, mma(a=a), COMMIT, "mov.b32 %r2, %r9", wait(0)) == [(Ev.FRAG_WRITE, "%r1", MOVED)]
    assert events(FENCE, mma(a=a), COMMIT, wait(0), "mov.b32 %r2, %r9") == []


@pytest.mark.parametrize(("between", "strict"), [("mov.b32 %f18, 0f00000000;", "refuted"), ("", "proved")])
def test_a_copy_into_registers_in_flight_by_policy(between: str, strict: str, check: Any) -> None:
    text = Path("corpus/ptx/accumulator_in_flight.good.ptx").read_text()
    launch = Path("corpus/ptx/accumulator_in_flight.good.ptx.launch.toml").read_text()
    commit = "wgmma.commit_group.sync.aligned;"
    at = text.rindex(commit) + len(commit)
    registers = text[text.rindex("wgmma.mma_async") :].split("{")[1].split("}")[0]
    text = text[:at] + "\n" + between.replace("%f18", registers.split(",")[0]) + text[at:]
    report = check(text, facts=launch)
    assert report["verdict"] == "proved"
    found = {d["rule"] for d in report["diagnostics"] if d["contested"] == "K25"}
    assert found == {"SV402"} | ({"SV401"} if between else set())  # nvcc puts zeros behind the fence
    report = check(text, 2, launch, "--policy", "strict")
    assert ("SV401" in [d["rule"] for d in report["diagnostics"]]) == (strict == "refuted")


def test_operands_in_registers() -> None:
    a = "{%r1, %r2, %r3, %r4}"
    assert events("or.b32 %r2, %r8, %r9", FENCE, mma(a=a), COMMIT, wait(0)) == []
    assert events(FENCE, "or.b32 %r2, %r8, %r9", mma(a=a), COMMIT, wait(0)) == [(Ev.FRAG_WRITE, "%r1")]
    assert events(FENCE, mma(a=a), COMMIT, "or.b32 %r2, %r8, %r9", wait(0)) == [(Ev.FRAG_WRITE, "%r1")]
    assert events(FENCE, mma(a=a), COMMIT, "or.b32 %r9, %r1, %r2", wait(0)) == []


def test_kernels_without_wgmma_have_none() -> None:
    assert fragment_events(function("add.f32 %f1, %f2, %f3")) == {}


@pytest.mark.parametrize(("between", "verdict"), [("wgmma.fence.sync.aligned;", "proved"), ("", "refuted")])
def test_sums_that_were_read_are_fenced_before_they_go_on(between: str, verdict: str, check: Any) -> None:
    text = Path("corpus/ptx/accumulator_in_flight.good.ptx").read_text()
    last = "wgmma.wait_group.sync.aligned 0;"
    more = f"""{last}
    add.f32 %f30, %f18, %f10;
    {between}
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f18, %f21, %f24, %f27}}, %rd6, %rd7, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    {last}"""
    launch = Path("corpus/ptx/accumulator_in_flight.good.ptx.launch.toml").read_text()
    report = check(text.replace(last, more), facts=launch)
    assert report["verdict"] == verdict
    found = [d["rule"] for d in report["diagnostics"] if d["severity"] == "error"]
    assert found == (["SV402"] if verdict == "refuted" else [])
