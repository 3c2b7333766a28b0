"""Two warpgroups that take tiles in turn: right, proved, and refuted without what hands the turn over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.prover.parametric.strategy import ExplorationBudget
from syncverify.checker.prover.strategy import EFFORTS, Entry
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, gelu, trace
from syncverify.gate import ptx_check
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int, Var
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.lower import launch_values, lower, whole
from syncverify.matmul.pingpong import ORDER, TakeTurns
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import flat_map, walk
from syncverify.simulate import ir

BF16 = ml_dtypes.bfloat16
PLAIN = Schedule(64, 64, stages=3, persistent=True, pingpong=True, laps="any")
TWO_STAGES = replace(PLAIN, stages=2)
STAGED = replace(PLAIN, tile_n=128, store="tma")
CLUSTER = replace(STAGED, pending=1, cluster=2)
WIDE = Schedule(
    128, 128, stages=2, persistent=True, pingpong=True, pending=1, registers=(40, 232), laps="any"
)
EVEN, ODD = replace(PLAIN, laps="even"), replace(STAGED, laps="odd")


def checked(kernel: n.Kernel, policy: Policy = Policy.PRACTICAL, **values: int) -> KernelReport:
    (parsed,) = parse(print_kernel(kernel), "k.syncir")
    return check_kernel(parsed, values, policy, scope=ScopeKind.EXACT)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("schedule", [PLAIN, STAGED, WIDE, CLUSTER, EVEN, ODD])
def test_proved(schedule: Schedule, policy: Policy) -> None:
    assert checked(build(product(), schedule, policy), policy).verdict is Verdict.PROVED


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_proved_for_other_numbers_of_steps_and_turns(steps: int, turns: int) -> None:
    kernel = build(product(), PLAIN)
    assert checked(kernel, K=64 * steps, steps=steps, turns=turns).verdict is Verdict.PROVED


def test_ptx_is_proved_at_the_usual_sizes(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    program = CompiledMatmul(product(), STAGED, cache=Cache(tmp_path)).program()
    values = {p.name: p.default for p in program.kernel.params if p.default is not None}
    assert program.check("ptx", values).verdict is Verdict.PROVED


def test_launches_are_asked_for_one_by_one_where_the_exploration_of_all_sizes_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    few = ExplorationBudget(events=100, max_events_per_run=100, max_nodes=10, max_unconfirmed_failures=1)
    monkeypatch.setitem(EFFORTS, Entry.GATE, replace(EFFORTS[Entry.GATE], rest=few))
    monkeypatch.setitem(EFFORTS, Entry.GATE_FIRST, replace(EFFORTS[Entry.GATE_FIRST], first=few))
    program = CompiledMatmul(product(), PLAIN, cache=Cache(tmp_path)).program()
    assert program.proof("ptx").scope.kind is ScopeKind.EXACT
    values = {p.name: p.default for p in program.kernel.params if p.default is not None}
    assert program.proof("ptx", {**values, "turns": 3}).scope.values["turns"] == 3


MORE = "\n\tsetp.lt.s32 %short, {steps}, 2;\n\t@%short add.s32 {at}, {at}, 1;"
SKIPS = {
    "as it is": "",
    "a step too far": "\n\tadd.s32 {at}, {at}, 1;",
    "a step too far where a tile is long": "\n\tshr.u32 %skip, {steps}, 3;\n\tadd.s32 {at}, {at}, %skip;",
    "a step too far where a tile is short": MORE,
    "a step too far in the first turn": MORE.replace("steps", "turn"),
}


#: What goes wrong in some tiles only is found where what does in all of them is.
SELDOM = ("a step too far", "a step too far where a tile is long", "a step too far in the first turn")


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in SKIPS]
)
def test_ptx_that_skips_a_tile_is_proved_for_every_size_only_if_it_is_right(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    few = ExplorationBudget(events=100, max_events_per_run=100, max_nodes=10, max_unconfirmed_failures=1)
    monkeypatch.setitem(EFFORTS, Entry.GATE, replace(EFFORTS[Entry.GATE], rest=few))
    program = CompiledMatmul(product(), TWO_STAGES, cache=Cache(tmp_path)).program()
    assert program.ptx
    (steps,) = re.findall(r"ld\.param\.u32 \t(%r\d+), \[matmul_param_6\]", program.ptx)
    (turn,) = re.findall(r"add\.s32 \t(%r\d+), \1, 2;", program.ptx)
    (skip,) = re.findall(rf"add\.s32 \t%r\d+, %r\d+, {steps};", program.ptx)
    at = skip.split("\t")[1].split(",")[0]
    text = program.ptx.replace(skip, skip + SKIPS[what].format(at=at, steps=steps, turn=turn))
    text = text.replace("{\n", "{\n\t.reg .pred %short;\n\t.reg .b32 %skip;\n", 1)
    report = ptx_check.check_ptx(program.kernel, text, Policy.PRACTICAL)
    if SKIPS[what]:
        assert report.verdict is not Verdict.PROVED or report.scope.kind is ScopeKind.EXACT
    else:
        assert report.verdict is Verdict.PROVED
        assert report.scope.kind is ScopeKind.ALL


TURNS = Schedule(
    128, 128, stages=2, registers=(40, 232), persistent=True, pingpong=True, cluster=2, laps="any"
)
TAKEN = "mbarrier.wait order[wg], turn"
#: What a cluster of two that takes turns may lack in one place only.
LACKS = {
    "nothing": ("", ""),
    "a wait in one block": ("wgmma.wait 0", "if rank == 0 {\nwgmma.wait 0\n}"),
    "a wait in one warpgroup": ("wgmma.wait 0", "if wg == 0 {\nwgmma.wait 0\n}"),
    "a wait in the second turn": ("wgmma.wait 0", "if i < 2 {\nwgmma.wait 0\n}"),
    "a wait in the last step": ("wgmma.wait 0", "if k + 1 < steps {\nwgmma.wait 0\n}"),
    "a wait for one slot": ("wgmma.wait 0", "if stage == 0 {\nwgmma.wait 0\n}"),
    "its turn in one block": (TAKEN, f"if rank == 0 {{\n{TAKEN}\n}}"),
    "its turn after the second": (TAKEN, f"if i < 2 {{\n{TAKEN}\n}}"),
}  # fmt: skip


#: A wait that one block, or one turn, lacks is harder to find, or as hard.
SELDOM_LACKS = (
    "a wait in one warpgroup", "a wait in the last step", "a wait for one slot", "its turn in one block",
)  # fmt: skip


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM_LACKS else ()) for x in LACKS]
)
def test_clusters_that_take_turns_are_proved_for_every_size_only_if_they_are_right(what: str) -> None:
    text = print_kernel(build(product(), TURNS))
    assert LACKS[what][0] in text
    (kernel,) = parse(text.replace(*LACKS[what]), "k.syncir")
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    if what == "nothing":
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    else:
        assert report.verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("schedule", "sizes", "blocks"),
    [
        (replace(PLAIN, group=2), (300, 136, 136), 3),
        (replace(PLAIN, pending=1), (129, 136, 72), 1),
        (replace(STAGED, group=2), (200, 136, 264), 2),
        (WIDE, (136, 264, 136), 2),
        (PLAIN, (1, 8, 8), 4),
        (replace(STAGED, cluster=2, group=2), (264, 136, 136), 4),
        (EVEN, (200, 136, 264), 2),
        (replace(EVEN, group=2), (300, 136, 8), 1),
        (ODD, (200, 136, 264), 2),
        (replace(ODD, cluster=2, stages=2), (264, 136, 136), 4),
    ],
)
def test_simulated(schedule: Schedule, sizes: tuple[int, int, int], blocks: int) -> None:
    rng, (m, c, k) = np.random.default_rng(3), sizes
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((c, k)).astype(BF16)
    values = launch_values(schedule, {"M": m, "N": c, "K": k}, blocks, 64, whole(product(), schedule))
    out = np.full((m, c), np.nan, BF16)
    got = ir.run(build(product(), schedule), values, {"a": a, "b": b, "out": out})["out"]
    want = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_allclose(got.reshape(m, c).astype(np.float32), want, rtol=2**-7, atol=1e-2)


def test_an_epilogue_with_inputs_knows_its_rows() -> None:
    def bias_gelu(acc: Any, bias: Any) -> Any:
        return gelu(acc + bias).cast("bf16")

    epilogue = trace(bias_gelu, {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("M",))})
    rng, (m, c, k) = np.random.default_rng(4), (200, 72, 64)
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((c, k)).astype(BF16)
    bias, out = rng.standard_normal(m).astype(BF16), np.full((m, c), np.nan, BF16)
    for store in ("direct", "tma"):
        schedule = replace(PLAIN, store=store)
        kernel = build(Problem("fused", "bf16", "KK", epilogue), schedule)
        values = launch_values(schedule, {"M": m, "N": c, "K": k}, 2, 64)
        got = ir.run(kernel, values, {"a": a, "b": b, "bias": bias, "out": out})["out"].reshape(m, c)
        acc = a.astype(np.float32) @ b.astype(np.float32).T
        (want,) = epilogue.reference({"acc": acc, "bias": bias})
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-7, atol=1e-2)


# ---------------------------------------------------------------- what hands the turn over


def changed(kernel: n.Kernel, change: Callable[[n.Stmt], Iterable[n.Stmt]]) -> n.Kernel:
    return replace(kernel, body=flat_map(kernel.body, change))


def of_order(s: n.Stmt, kind: type[n.Stmt]) -> bool:
    return isinstance(s, kind) and s.bar.name == ORDER  # type: ignore[attr-defined]


def without(kind: type[n.Stmt]) -> Callable[[n.Stmt], Iterable[n.Stmt]]:
    return lambda s: () if of_order(s, kind) else (s,)


def test_a_wait_for_a_phase_needs_the_one_before_it_to_be_complete() -> None:
    report = checked(changed(build(product(), PLAIN), without(n.MbarrierWait)))
    assert report.verdict is Verdict.REFUTED
    assert {d.rule for d in report.diagnostics} & {"SV201", "SV202", "SV210"}


def test_nobody_hands_over() -> None:
    assert checked(changed(build(product(), PLAIN), without(n.MbarrierArrive))).verdict is Verdict.REFUTED


def test_both_begin() -> None:
    def change(s: n.Stmt) -> Iterable[n.Stmt]:
        return (replace(s, value=Int(1)),) if isinstance(s, n.Let) and s.name == "turn" else (s,)

    assert checked(changed(build(product(), PLAIN), change)).verdict is Verdict.REFUTED


def test_handing_over_before_the_products() -> None:
    def change(s: n.Stmt) -> Iterable[n.Stmt]:
        over = n.If(Var("elected"), (n.MbarrierArrive(n.BarrierRef(ORDER, Var("wg") ^ 1)),))
        if of_order(s, n.MbarrierWait):
            return (s, over)
        return () if s == over else (s,)

    kernel = build(product(), PLAIN)
    early = changed(kernel, change)
    assert sum(of_order(s, n.MbarrierArrive) for s in walk(early.body)) == 1
    assert checked(early).verdict is Verdict.REFUTED


@pytest.mark.parametrize("register", ["stage", "phase"])
def test_the_other_warpgroups_slots_are_passed_over(register: str) -> None:
    kernel = build(product(), PLAIN)
    (role,) = [s for s in kernel.body if isinstance(s, n.Role) and s.name == "compute"]

    def change(s: n.Stmt) -> Iterable[n.Stmt]:
        passed = isinstance(s, n.Assign) and s.name == register and "steps" in str(s.value)
        return () if passed else (s,)

    assert flat_map(role.body, change) != role.body
    assert checked(changed(kernel, change)).verdict is Verdict.REFUTED


# ---------------------------------------------------------------- whole laps of the ring


@pytest.mark.parametrize("laps", ["even", "odd"])
@pytest.mark.parametrize("stage", ["ir", "ptx"])
def test_whole_laps_are_proved_for_every_size(laps: str, stage: str, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    schedule = replace(STAGED, stages=2, pending=1, laps=laps)
    assert not schedule.proved_by_launch
    report = CompiledMatmul(product(), schedule, cache=Cache(tmp_path)).program().check(stage)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


#: What is wrong with tiles of whole laps: (laps, a text, what stands in its place).
BEYOND = {
    "the other's tile leaves the phase": ("odd", "      phase = phase ^ 1\n    }\n  }\n", "    }\n  }\n"),
    "both begin in one phase": ("odd", "let phase = wg", "let phase = 0"),
    "phases for an odd number of laps": ("even", "assume steps % 4 == 0", "assume steps % 4 == 2"),
    "phases for an even number of laps": ("odd", "assume steps % 4 == 2", "assume steps % 4 == 0"),
    "laps that are not whole": ("even", "assume steps % 4 == 0", "assume steps % 2 == 0"),
}


@pytest.mark.parametrize("what", BEYOND)
def test_tiles_of_other_laps_are_refuted(what: str) -> None:
    laps, old, new = BEYOND[what]
    text = print_kernel(build(product(), replace(PLAIN, stages=2, laps=laps)))
    assert text.count(old) == 1
    (kernel,) = parse(text.replace(old, new), "k.syncir")
    assert check_kernel(kernel, scope=ScopeKind.ALL).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("laps", "k", "steps"),
    [("even", 8, 6), ("even", 400, 12), ("odd", 8, 3), ("odd", 200, 9), ("any", 400, 7)],
)
def test_steps_of_whole_laps(laps: str, k: int, steps: int) -> None:
    schedule = replace(PLAIN, laps=laps)
    values = launch_values(schedule, {"M": 64, "N": 64, "K": k}, 2, 64, whole(product(), schedule))
    assert values["steps"] == steps


# ---------------------------------------------------------------- what it is for


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(128, 128, pingpong=True),
        Schedule(128, 128, pingpong=True, persistent=True, consumers=1),
        Schedule(128, 128, pingpong=True, split_k=2),
        Schedule(128, 256, pingpong=True, persistent=True),
        Schedule(96, 128, pingpong=True, persistent=True),
    ],
)
def test_impossible_schedules(schedule: Schedule) -> None:
    with pytest.raises(InputError):
        schedule.check()


def test_nothing_to_take_turns_in() -> None:
    with pytest.raises(InputError, match="take turns"):
        TakeTurns(2).apply(replace(lower(product(), PLAIN), body=()))
