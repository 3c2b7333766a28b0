"""The gate's second check: the PTX of every fusion is proved, and broken code is caught by it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compiler.fusion_cases import fusion_of
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric import strategy
from syncverify.checker.prover.parametric.strategy import ParametricResult, Problem
from syncverify.checker.prover.strategy import EFFORTS, Effort, Entry
from syncverify.codegen.cache import Cache
from syncverify.codegen.cuda import emit
from syncverify.examples import fusions as examples
from syncverify.fusion import Fusion, RowSchedule, Schedule, Tensor, Value, fusion, rows, rsqrt
from syncverify.gate import VerificationError, compiler, fusions, ptx_check

SMALL = Schedule(tile=1024, compute_warps=4, stages=2)
FUSIONS = [name for name, f in vars(examples).items() if isinstance(f, Fusion)]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


#: ``transposed``, ``dequantize``, ``bias_gelu``, ``scale_add`` and ``dropout_add`` are of the same kinds.
SELDOM = (
    "batch_transposed", "bias_relu", "bias_relu_transposed", "dropout_mask", "quantize_both", "scale",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in SELDOM else ()) for x in FUSIONS]
)
def test_every_example_passes_both_checks_for_every_size(name: str, cache: Cache) -> None:
    fusion = getattr(examples, name)
    kernel = compiler.compile(fusion, None if fusion.transposed else SMALL, cache=cache)
    for report in (kernel.report, kernel.ptx_report):
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


#: What stores and arrives otherwise under each policy; the rest of the strict kernels are slow.
BOTH = ("mode=pipelined store=tma", "arrive=thread")


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        pytest.param(x, p, marks=pytest.mark.slow if p is Policy.STRICT and x not in BOTH else ())
        for x in ["store=tma", "mode=pipelined", "mode=pipelined store=tma", "async_warps=2 prefetch=1",
                  "arrive=thread", "stages=3 index=i64",
                  "registers=40,232 compute_warps=8 tile=2048 blocks_per_sm=1"]
        for p in Policy
    ],
)  # fmt: skip
def test_every_kind_of_schedule_passes_both(settings: str, policy: Policy, cache: Cache) -> None:
    kernel = compiler.compile(examples.mul, SMALL.with_settings(settings.split()), policy, cache=cache)
    for report in (kernel.report, kernel.ptx_report):
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_code_that_stores_less_than_the_kernel_is_not_its_code(cache: Cache) -> None:
    program = compiler.compile(examples.mul, SMALL.with_settings(["store=role"]), cache=cache).program(
        {"R": 5, "C": 100}
    )
    assert not ptx_check.never_stored(program.kernel, program.ptx)
    # as when no warp came to the ragged end, and the compiler dropped it
    dropped = program.ptx.replace("[mul_param_3]", "[mul_param_2]")
    report = ptx_check.check_ptx(
        program.kernel,
        dropped,
        Policy.PRACTICAL,
        {"R": 5, "C": 100, "each": 0, "more": 0, "rest": 500, "blocks": 1},
    )
    assert report.verdict is Verdict.UNKNOWN and "stores nothing to out_rest" in (report.reason or "")


def test_what_is_not_shown_soon_is_tried_for_longer(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[Effort] = []
    real, first = strategy.decide, EFFORTS[Entry.GATE_FIRST]

    def decide(problem: Problem, policy: Policy, effort: Effort, *team: int) -> ParametricResult:
        efforts.append(effort)
        return real(problem, policy, effort, *team)

    monkeypatch.setattr(strategy, "decide", decide)
    assert first.first is not None
    short = replace(first, first=replace(first.first, max_nodes=1))
    monkeypatch.setitem(EFFORTS, Entry.GATE_FIRST, short)
    report = compiler.compile(examples.mul, SMALL, cache=cache).ptx_report
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert [e for e in efforts if e is not EFFORTS[Entry.IR]] == [short, EFFORTS[Entry.GATE]]


@fusion(x=Tensor("bf16", ("R", "C")), w=Tensor("bf16", ("C",)))
def cast_norm(x: Value, w: Value) -> Value:
    """As frameworks write it: cast first, cast back last."""
    wide = x.cast("f32")
    return (wide * rsqrt((wide * wide).mean() + 1e-6)).cast("bf16") * w


def test_rows_that_leave_through_shared_memory_are_shown_soon(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sizes as data lanes seem to meet in one word; a first look with all sizes as terms proves it."""
    asked = []

    def decide(problem: Problem, policy: Policy, effort: Effort, *rest: int) -> ParametricResult:
        asked.append(effort)
        return strategy_decide(problem, policy, effort, *rest)

    strategy_decide = strategy.decide
    monkeypatch.setattr(strategy, "decide", decide)
    settings = "warps=1 lanes=32 rows=4 stream=no reread=no peel=no source=direct store=shared unroll=1"
    schedule = RowSchedule(width=46).with_settings(settings.split())
    report = compiler.compile(fusion_of("rmsnorm", "bf16"), schedule, cache=cache).ptx_report
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert EFFORTS[Entry.GATE] not in asked and EFFORTS[Entry.GATE_FIRST] in asked


def test_the_parts_of_three_warps_are_read_in_a_vector_of_four(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVRTC makes one access of three loads, which would leave shared memory behind the last part."""
    rowwise, schedule = fusion_of("softmax", "bf16"), RowSchedule(width=760, warps=3, rows=1, reread="no")
    report = compiler.compile(rowwise, schedule, cache=cache).ptx_report
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    monkeypatch.setattr(rows, "_read_whole", lambda numbers, warps: numbers * warps)
    with pytest.raises(VerificationError, match="lie outside shared memory"):
        compiler.compile(rowwise, schedule, cache=Cache(tmp_path / "other"))


@pytest.mark.parametrize("policy", list(Policy))
def test_a_row_fusion_that_casts_first_passes_both(policy: Policy, cache: Cache) -> None:
    """ptxas and NVRTC move the sums of such a row behind the arrival; the fence holds the reads (K1)."""
    schedule = RowSchedule(width=512, rows=2, stages=2)
    kernel = compiler.compile(cast_norm, schedule, policy, cache=cache)
    for report in (kernel.report, kernel.ptx_report):
        assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def swap(old: str, new: str) -> Callable[[str], str]:
    def broken(source: str) -> str:
        assert old in source
        return source.replace(old, new)

    return broken


@pytest.mark.parametrize(
    ("settings", "policy", "broken"),
    [
        ("", Policy.PRACTICAL, swap("mbarrier_wait(&full0[i_slot], i_parity);", "")),
        ("", Policy.PRACTICAL, swap("mbarrier_wait(&full0[i_slot], i_parity)",
                                    "mbarrier_wait(&full0[i_slot], i_parity ^ 1)")),
        pytest.param("", Policy.PRACTICAL, swap("(i_parity2 ^ 1)", "i_parity2"), marks=pytest.mark.slow),
        pytest.param("", Policy.PRACTICAL,
                     swap("mbarrier_init(&empty0[s], 4)", "mbarrier_init(&empty0[s], 3)"),
                     marks=pytest.mark.slow),
        ("", Policy.PRACTICAL, swap("mbarrier_init(&empty0[s], 4)", "mbarrier_init(&empty0[s], 5)")),
        ("", Policy.PRACTICAL, swap("mbarrier_arrive(&empty0[i_slot]);", "")),
        ("", Policy.PRACTICAL, swap("mbarrier_arrive_expect_tx(&full0[i_slot2], 8192)",
                                    "mbarrier_arrive_expect_tx(&full0[i_slot2], 4096)")),
        ("", Policy.PRACTICAL, swap("if (++i_slot == 2)", "if (++i_slot == 1)")),
        ("", Policy.PRACTICAL, swap("i < n", "i < n + (warp == 4)")),
        ("", Policy.PRACTICAL, swap("__syncthreads();", "")),
        ("", Policy.PRACTICAL, swap("      __syncwarp();\n", "")),
        ("store=tma", Policy.PRACTICAL, swap("fence_proxy_async_shared_cta();", "")),
        ("store=tma", Policy.PRACTICAL, swap("bulk_wait_read<0>();", "")),
        ("", Policy.STRICT, swap("fence_proxy_async_shared_cta();", "")),
    ],
)  # fmt: skip
def test_broken_code_is_caught_by_the_second_check_alone(
    settings: str, policy: Policy, broken: Callable[[str], str], cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusions, "emit", lambda *args: broken(emit(*args)))
    with pytest.raises(fusions.VerificationError, match="in the check of its PTX") as caught:
        compiler.compile(examples.mul, SMALL.with_settings(settings.split()), policy, cache=cache)
    assert caught.value.stage == "ptx" and caught.value.report.verdict is Verdict.REFUTED
