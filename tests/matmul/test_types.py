"""Factors of 8 and 32 bits: right against NumPy, proved as kernels and PTX, refuted where bytes are off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.codegen.cuda import emit
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.choose import ranked
from syncverify.matmul.lower import launch_values
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import flat_map
from syncverify.simulate import ir

RNG = np.random.default_rng(5)
NUMPY = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "tf32": np.float32}
OUT = {"e4m3": ml_dtypes.bfloat16, "e5m2": ml_dtypes.bfloat16, "tf32": np.float32}
SIZES = {"e4m3": 1, "e5m2": 1, "tf32": 4}
STAGED = Schedule(128, 64, stages=2, store="tma", persistent=True)


def factors(dtype: str, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return tuple(RNG.standard_normal(s).astype(NUMPY[dtype]) for s in ((m, k), (k, n)))  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2", "tf32"])
@pytest.mark.parametrize(
    ("schedule", "m", "n", "k"),
    [
        (Schedule(128, 64, stages=2), 130, 72, 400),
        (STAGED, 300, 136, 272),
        (Schedule(64, 48, consumers=1, stages=3), 8, 8, 16),
        (Schedule(128, 64, stages=2, split_k=2), 136, 64, 656),
        (Schedule(128, 128, stages=2, store="tma", cluster=2), 300, 136, 272),
    ],
)
def test_against_numpy(dtype: str, schedule: Schedule, m: int, n: int, k: int) -> None:
    a, b = factors(dtype, m, n, k)
    kernel = build(product(dtype), schedule)
    values = launch_values(schedule, {"M": m, "N": n, "K": k}, 4, 128 // SIZES[dtype])
    out = np.full((m, n), np.nan, OUT[dtype])
    got = ir.run(kernel, values, {"a": a, "b": np.ascontiguousarray(b.T), "out": out})["out"]
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(got.reshape(m, n).astype(np.float32), want, rtol=2**-7, atol=5e-2)


def reparsed(kernel: n.Kernel) -> n.Kernel:
    (found,) = parse(print_kernel(kernel), "k.syncir")
    return found


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2", "tf32"])
@pytest.mark.parametrize("policy", list(Policy))
def test_proved(dtype: str, policy: Policy) -> None:
    kernel = reparsed(build(product(dtype), STAGED, policy))
    assert check_kernel(kernel, {}, policy, scope=ScopeKind.EXACT).verdict is Verdict.PROVED


@pytest.mark.parametrize("dtype", ["e4m3", "tf32"])
def test_proved_for_all_sizes(dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    proofs = CompiledMatmul(product(dtype), Schedule(128, 64, stages=2), cache=Cache(tmp_path)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == {"ir": ScopeKind.ALL, "ptx": ScopeKind.ALL}


@pytest.mark.parametrize(("dtype", "depth"), [("e4m3", 32), ("e5m2", 32), ("tf32", 8)])
def test_instructions_and_descriptors(dtype: str, depth: int) -> None:
    source = emit(build(product(dtype), STAGED))
    assert f"wgmma.mma_async.sync.aligned.m64n64k{depth}.f32.{dtype}.{dtype} " in source
    # rows of 128 bytes whatever the type: four products of 32 bytes each
    assert "for (int k16 = 0; k16 < 4; ++k16)" in source and "a + 2 * k16, b + 2 * k16" in source
    kernel = reparsed(build(product(dtype), STAGED))
    assert {m.box[-1] for m in kernel.maps if m.name != "out_map"} == {128 // SIZES[dtype]}


@pytest.mark.parametrize("dtype", ["e4m3", "tf32"])
def test_bytes_of_a_slot_are_counted(dtype: str) -> None:
    """One element more or less announced: refuted."""
    kernel = reparsed(build(product(dtype), STAGED))

    def check(more: int) -> Verdict:
        def edit(s: n.Stmt) -> tuple[n.Stmt, ...]:
            if isinstance(s, n.MbarrierArrive) and isinstance(s.expect, Int):
                return (replace(s, expect=Int(s.expect.value + more)),)
            return (s,)

        edited = reparsed(replace(kernel, body=flat_map(kernel.body, edit)))
        return check_kernel(edited, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT).verdict

    size = SIZES[dtype]
    assert check(0) is Verdict.PROVED
    assert check(size) is check(-size) is Verdict.REFUTED


def test_dequantization_is_an_epilogue() -> None:
    def scaled(acc: Any, of_m: Any, of_n: Any) -> Any:
        return (acc * of_m * of_n).cast("bf16")

    scale = {"of_m": Tensor("f32", ("M",)), "of_n": Tensor("f32", ("N",))}
    epilogue = trace(scaled, {"acc": Tensor("f32", ("M", "N")), **scale})
    a, b = factors("e4m3", 130, 72, 144)
    of_m, of_n = (RNG.uniform(0.5, 2, s).astype(np.float32) for s in (130, 72))
    kernel = build(Problem("dequantized", "e4m3", "KK", epilogue), STAGED)
    values = launch_values(STAGED, {"M": 130, "N": 72, "K": 144}, 4, 128)
    arrays = {"a": a, "b": np.ascontiguousarray(b.T), "of_m": of_m, "of_n": of_n}
    out = np.full((130, 72), np.nan, ml_dtypes.bfloat16)
    got = ir.run(kernel, values, {**arrays, "out": out})["out"].reshape(130, 72)
    want = a.astype(np.float32) @ b.astype(np.float32) * of_m[:, None] * of_n
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2**-7, atol=5e-2)


def test_the_gate_takes_arrays_of_the_stored_type() -> None:
    compiled = CompiledMatmul(product("tf32"), Schedule(64, 64, consumers=1))
    other = np.zeros((64, 64), ml_dtypes.bfloat16)
    with pytest.raises(InputError, match="type bf16, expected f32"):
        compiled(other, other)
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 32), np.float32)
    with pytest.raises(InputError, match="K of b is 32, elsewhere 64"):
        compiled(a, b.T)


def test_other_layouts_have_no_instruction() -> None:
    for layout in ("MN", "KN", "MK"):
        with pytest.raises(InputError, match="run along K"):
            product("e4m3", layout)


def test_half_the_bytes_take_half_the_steps() -> None:
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    assert ranked(product("e4m3"), sizes, 132)[0].tile_n == ranked(product(), sizes, 132)[0].tile_n
    values = CompiledMatmul(product("e4m3"), STAGED).launch_values(sizes)
    assert values["steps"] == 32


@pytest.mark.parametrize("ends", [(None,), (abs,), (product().epilogue, abs)])
def test_ends_of_products_are_fusions(ends: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match="is what trace\\(\\) makes of a function"):
        Problem("odd", "bf16", "KK", *ends)  # type: ignore[arg-type]
