"""Two products of one A that share out steps along K: right, proved, refuted where sums are early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, Value, silu, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int, Var
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule
from syncverify.matmul.pipeline import build
from syncverify.matmul.split import SUMS
from syncverify.passes.rewrite import flat_map

BF16 = ml_dtypes.bfloat16
C = Tensor("f32", ("M", "N"))
HALVES = Schedule(128, 64, stages=2, split_k=2, shares="any")
SCHEDULES = {
    "direct": HALVES,
    "staged": replace(HALVES, store="tma"),
    "thirds": replace(HALVES, split_k=3),
    "thirds, staged": replace(HALVES, split_k=3, store="tma"),
    "any order": replace(HALVES, sums="any", split_k=4, shares="any"),
    "one warpgroup": Schedule(64, 32, consumers=1, stages=2, split_k=2, shares="any"),
    "cluster": Schedule(128, 128, stages=2, split_k=2, shares="any", cluster=2, registers=(40, 232)),
}


def swiglu(acc: Value, acc2: Value, sum: Value) -> Value:
    return (silu(acc) * acc2 + sum).cast("bf16")


PAIR = Problem("swiglu", "bf16", "KK", trace(swiglu, {"acc": C, "acc2": C, "sum": Tensor("f32", ("N",))}))


SIZES = [(136, 72, 320), (300, 40, 200), (8, 8, 40)]
#: The smallest for each schedule, and one of the others in turn.
QUICK = {(name, SIZES[n % 2]) for n, name in enumerate(SCHEDULES)} | {(name, SIZES[2]) for name in SCHEDULES}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=() if (name, size) in QUICK else pytest.mark.slow)
        for name in SCHEDULES
        for size in SIZES
    ],
)
def test_against_numpy(name: str, size: tuple[int, int, int], tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    rng = np.random.default_rng(5)
    m, cols, k = size
    a, b, b2 = (rng.standard_normal(s).astype(BF16) for s in ((m, k), (cols, k), (cols, k)))
    more = rng.standard_normal(cols).astype(np.float32)
    compiled = CompiledMatmul(PAIR, SCHEDULES[name], cache=Cache(tmp_path), each_launch=True)
    (got,) = compiled.simulate(a, b.T, b2=b2.T, sum=more, multiprocessors=6)
    wide = [x.astype(np.float32) for x in (a, b.T, b2.T)]
    inputs = {"acc": wide[0] @ wide[1], "acc2": wide[0] @ wide[2], "sum": more}
    (want,) = PAIR.epilogue.reference(inputs)
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-6, atol=5e-2)


def test_proved_for_every_size(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    # what two warpgroups are in the way of each other is shown of one product (test_stream.py)
    proofs = CompiledMatmul(PAIR, SCHEDULES["one warpgroup"], cache=Cache(tmp_path)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == {"ir": ScopeKind.ALL, "ptx": ScopeKind.ALL}


def check(kernel: n.Kernel) -> KernelReport:
    (found,) = parse(print_kernel(kernel), "k.syncir")
    return check_kernel(found, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)


def _without(kind: type[n.Stmt]) -> Callable[[n.Stmt], tuple[n.Stmt, ...]]:
    return lambda s: () if isinstance(s, kind) else (s,)


def _read_only(s: n.Stmt) -> tuple[n.Stmt, ...]:
    if isinstance(s, n.If) and any(isinstance(x, n.AtomGlobal) for x in s.then):
        return (replace(s, then=(n.BulkWait(Int(0), read=True), *s.then[1:])),)
    return (s,)


def _after_commit(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The second product's sums are stored behind the commit of the first one's."""
    if isinstance(s, n.If) and sum(isinstance(x, n.BulkStore) for x in s.then) == 2:
        first, second, commit = s.then
        return (replace(s, then=(first, commit, second)),)
    return (s,)


def _half_as_far(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The second product is read where the first one's sums end, one place early."""
    if isinstance(s, n.StShared) and s.dst.buffer == "part_tile" and s.dst.start is not None:
        return (replace(s, dst=replace(s.dst, start=s.dst.start + 4)),)
    return (s,)


@pytest.mark.parametrize(
    "change",
    [_without(n.SpinGlobal), _without(n.AtomGlobal), _read_only, _after_commit, _half_as_far],
    ids=["no wait", "no release", "wait for reads", "behind the commit", "another place"],
)
def test_what_hands_both_sums_over_is_needed(change: Callable[[n.Stmt], tuple[n.Stmt, ...]]) -> None:
    kernel = build(PAIR, HALVES)
    assert check(kernel).verdict is Verdict.PROVED
    bad = replace(kernel, body=flat_map(kernel.body, change))
    assert bad != kernel
    assert check(bad).verdict is Verdict.REFUTED


def test_sums_of_each_product_have_a_place() -> None:
    sizes = [t.shape for t in build(PAIR, HALVES).tensors if t.name == SUMS]
    assert sizes == [(Var("blocks") * (2 * 128 * 64),)]
