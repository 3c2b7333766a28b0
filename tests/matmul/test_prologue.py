"""A from registers, made of what memory holds: right against NumPy, proved, refuted without its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.codegen.cuda import emit
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Fusion, Tensor, relu, sigmoid, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int, Var
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.lower import launch_values, whole
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import flat_map, walk
from syncverify.simulate import ir

RNG = np.random.default_rng(3)
NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn}
STAGED = Schedule(128, 64, stages=2, store="tma", persistent=True)
#: The same with one multiplying warpgroup, where mistakes are looked for at every size.
ONE = replace(STAGED, tile_m=64, consumers=1)


def scaled(source: str, dtype: str = "bf16") -> Fusion:
    def f(a: Any) -> Any:
        return (relu(a) * 0.5).cast(dtype)

    return trace(f, {"a": Tensor(source, ("M", "K"))})


def problem(source: str, dtype: str = "bf16", layout: str = "KK") -> Problem:
    return Problem("prepared", dtype, layout, product(dtype).epilogue, scaled(source, dtype))


@pytest.mark.parametrize(
    ("schedule", "m", "n", "k", "layout", "source", "dtype"),
    [
        (STAGED, 300, 136, 208, "KK", "bf16", "bf16"),
        (STAGED, 130, 72, 80, "KK", "e4m3", "f16"),
        (STAGED, 130, 72, 80, "KK", "bf16", "f16"),
        (Schedule(128, 64, stages=3), 130, 72, 144, "KN", "e4m3", "bf16"),
        (Schedule(256, 64, stages=2), 260, 64, 80, "KK", "e4m3", "bf16"),
        (Schedule(128, 64, stages=2, split_k=2), 136, 64, 336, "KK", "e4m3", "bf16"),
        (Schedule(128, 128, stages=2, store="tma", cluster=2), 300, 136, 144, "KK", "bf16", "bf16"),
        (Schedule(64, 64, stages=2, store="tma", persistent=True, pingpong=True), 300, 136, 144, "KK",
         "e4m3", "bf16"),
    ],
)  # fmt: skip
def test_against_numpy(
    schedule: Schedule, m: int, n: int, k: int, layout: str, source: str, dtype: str
) -> None:
    a, b = RNG.standard_normal((m, k)).astype(NUMPY[source]), RNG.standard_normal((k, n)).astype(NUMPY[dtype])
    ours = problem(source, dtype, layout)
    kernel = build(ours, schedule)
    values = launch_values(schedule, {"M": m, "N": n, "K": k}, 4, 64, whole(ours, schedule))
    out = np.full((m, n), np.nan, NUMPY[dtype])
    stored = np.ascontiguousarray(b.T) if layout == "KK" else b
    got = ir.run(kernel, values, {"a": a, "b": stored, "out": out})["out"].reshape(m, n)
    (left,) = scaled(source, dtype).reference({"a": a})
    want = left.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2**-7, atol=5e-2)


def reparsed(kernel: n.Kernel) -> n.Kernel:
    (found,) = parse(print_kernel(kernel), "k.syncir")
    return found


def check(kernel: n.Kernel, policy: Policy = Policy.PRACTICAL) -> KernelReport:
    return check_kernel(reparsed(kernel), {}, policy, scope=ScopeKind.EXACT)


@pytest.mark.parametrize(
    "schedule", [STAGED, replace(STAGED, tile_n=128, cluster=2)], ids=["block", "cluster"]
)
@pytest.mark.parametrize("source", ["bf16", "e4m3"])
@pytest.mark.parametrize("policy", list(Policy))
def test_proved(schedule: Schedule, source: str, policy: Policy) -> None:
    assert check(build(problem(source), schedule, policy), policy).verdict is Verdict.PROVED


def test_the_ptx_is_proved(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    program = CompiledMatmul(problem("e4m3"), STAGED, cache=Cache(tmp_path)).program()
    values = {p.name: p.default for p in program.kernel.params if p.default is not None}
    assert program.check("ptx", values).verdict is Verdict.PROVED
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16" in program.ptx


def test_proved_for_all_sizes(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    proofs = CompiledMatmul(problem("e4m3"), Schedule(128, 64, stages=2), cache=Cache(tmp_path)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == {"ir": ScopeKind.ALL, "ptx": ScopeKind.ALL}


def _edited(kernel: n.Kernel, f: Callable[[n.Stmt], tuple[n.Stmt, ...]]) -> n.Kernel:
    changed = replace(kernel, body=flat_map(kernel.body, f))
    assert changed != kernel
    return changed


def _without(kind: type[n.Stmt]) -> Callable[[n.Stmt], tuple[n.Stmt, ...]]:
    return lambda s: () if isinstance(s, kind) else (s,)


def _late(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The wait for the copies behind the reads."""
    if isinstance(s, n.For) and any(isinstance(x, n.Wgmma) for x in s.body):
        at = next(k for k, x in enumerate(s.body) if isinstance(x, n.MbarrierWait))
        behind = next(k for k, x in enumerate(s.body) if isinstance(x, n.WgmmaFence))
        body = (*s.body[:at], *s.body[at + 1 : behind], s.body[at], *s.body[behind:])
        return (replace(s, body=body),)
    return (s,)


def _early(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The wgmma.fence before the registers are written."""
    if isinstance(s, n.For) and any(isinstance(x, n.Wgmma) for x in s.body):
        body = [x for x in s.body if not isinstance(x, n.WgmmaFence)]
        at = next(k for k, x in enumerate(body) if isinstance(x, n.MbarrierWait))
        return (replace(s, body=(*body[: at + 1], n.WgmmaFence(), *body[at + 1 :])),)
    return (s,)


def _unmet(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """Nobody meets whoever waits for the stores of the turn before."""
    return _in_stores(s, n.BarrierSync, 1)


def _unread(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """Nobody waits for these stores in a turn."""
    return _in_stores(s, n.If, 0)


def _in_stores(s: n.Stmt, kind: type[n.Stmt], at: int) -> tuple[n.Stmt, ...]:
    stores = isinstance(s, n.For) and any(isinstance(x, n.FragRead) for x in s.body)
    if isinstance(s, n.For) and stores and isinstance(s.body[at], kind):
        return (replace(s, body=(*s.body[:at], *s.body[at + 1 :])),)
    return (s,)


def _in_flight(s: n.Stmt) -> tuple[n.Stmt, ...]:
    return (replace(s, pending=Int(1)),) if isinstance(s, n.WgmmaWait) else (s,)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (_in_flight, "SV401"), (_early, "SV402"), (_without(n.WgmmaFence), "SV402"),
        (_without(n.WgmmaWait), "SV401"), (_late, "SV110"), (_without(n.WarpSync), "SV111"),
        (_without(n.MbarrierWait), ""),
    ],
    ids=["group in flight", "early fence", "no fence", "no wait", "late wait", "warp apart", "no barriers"],
)  # fmt: skip
def test_registers_and_slots_need_their_order(
    change: Callable[[n.Stmt], tuple[n.Stmt, ...]], rule: str
) -> None:
    report = check(_edited(build(problem("bf16"), STAGED), change))
    assert report.verdict is Verdict.REFUTED
    assert not rule or rule in {d.rule for d in report.diagnostics}


@pytest.mark.parametrize("policy", list(Policy))
def test_what_lanes_have_read_is_fenced(policy: Policy) -> None:
    kernel = build(problem("bf16"), Schedule(128, 64, stages=2), policy)
    assert check(kernel, policy).verdict is Verdict.PROVED
    bare = _edited(kernel, _without(n.FenceProxyAsync))
    assert check(bare, policy).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("stages", "policy"),
    [
        (2, Policy.STRICT),
        pytest.param(3, Policy.PRACTICAL, marks=pytest.mark.slow),
        pytest.param(2, Policy.PRACTICAL, marks=pytest.mark.slow),
        pytest.param(3, Policy.STRICT, marks=pytest.mark.slow),
    ],
)
def test_a_ring_with_staged_stores_is_proved_for_all_sizes(stages: int, policy: Policy) -> None:
    """What a turn's stores leave behind is forgotten without what all know of the slots' reads."""
    kernel = reparsed(build(problem("bf16"), replace(STAGED, stages=stages), policy))
    report = check_kernel(kernel, {}, policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert report.stats["nodes"] < 40 * stages  # 2,000 and more where that was lost


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_late, id="late wait"),
        pytest.param(_without(n.WarpSync), id="warp apart"),
        pytest.param(_without(n.WgmmaWait), id="no wait", marks=pytest.mark.slow),
        pytest.param(_unmet, id="nobody meets", marks=pytest.mark.slow),
        pytest.param(_unread, id="tile written again"),
    ],
)
def test_what_only_the_ring_shows_is_found_for_all_sizes(
    change: Callable[[n.Stmt], tuple[n.Stmt, ...]],
) -> None:
    kernel = reparsed(_edited(build(problem("bf16"), ONE), change))
    assert check_kernel(kernel, {}, scope=ScopeKind.ALL).verdict is Verdict.REFUTED


def test_registers_and_tiles_as_generated() -> None:
    source = emit(build(problem("e4m3"), STAGED))
    assert "wgmma_m64n64k16_bf16_r_k(acc, a_frag + 4 * k16, b + 2 * k16" in source
    assert "uint32 a_frag[16];" in source and "pin(a_frag);" in source
    # rows of 64 bytes
    assert "swizzled<4, 1>" in source


def test_values_of_either_end_have_registers_of_their_own(tmp_path: Path) -> None:
    """One that is made of shared memory in the prologue would hold the epilogue's ifs to its reads."""

    def before(a: Any) -> Any:
        x = sigmoid(a)
        return (x * x + x).cast("f16")

    def behind(acc: Any, bias: Any) -> Any:
        x = relu(acc + bias)
        return (x * x + x).cast("f16")

    inputs = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("f32", ("N",))}
    prologue = trace(before, {"a": Tensor("e4m3", ("M", "K"))})
    both = Problem("both", "f16", "KK", trace(behind, inputs), prologue)
    compiled = CompiledMatmul(both, Schedule(192, 64, consumers=3, stages=2), cache=Cache(tmp_path))
    ends = [{s.name for s in walk(compiled.ir.body) if isinstance(s, n.Compute) and s.name.startswith(x)}
            for x in ("ta", "t")]  # fmt: skip
    assert ends[0] and ends[0] < ends[1]
    report = compiled.program().check("ir")
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert report.stats["nodes"] < 100  # no lanes ask for themselves


def test_what_a_prologue_cannot_be() -> None:
    epilogue = product().epilogue
    for bad in (
        trace(lambda a: a.cast("bf16"), {"a": Tensor("f32", ("M", "K"))}),
        trace(lambda a: a.cast("f16"), {"a": Tensor("bf16", ("M", "K"))}),
        trace(
            lambda a, x: (a * x).cast("bf16"), {"a": Tensor("bf16", ("M", "K")), "x": Tensor("f32", ("K",))}
        ),
    ):
        with pytest.raises(InputError, match="prologue"):
            Problem("bad", "bf16", "KK", epilogue, bad)
    with pytest.raises(InputError, match="run along K"):
        Problem("bad", "bf16", "MN", epilogue, scaled("bf16"))
    with pytest.raises(InputError, match="pending=0"):
        build(problem("bf16"), Schedule(128, 64, stages=2, pending=1))


def test_the_start_of_a_share_is_text_too() -> None:
    kernel = build(problem("bf16"), STAGED)
    assert "start j * 4 + h * 2" in print_kernel(kernel)
    writes = [s for s in walk(reparsed(kernel).body) if isinstance(s, n.FragWrite)]
    assert [s.start for s in writes] == [Var("j") * 4 + Var("h") * 2]
