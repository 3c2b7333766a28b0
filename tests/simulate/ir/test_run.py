"""Kernels executed on NumPy arrays, against what they are meant to compute."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.source import InputError
from syncverify.simulate.ir import HangError, run
from tests.simulate.ir.support import kernel, ring

RNG = np.random.default_rng(0)


def test_elementwise_ring() -> None:
    for n in (1, 2, 7):
        a = RNG.standard_normal(n * 256).astype(np.float32)
        out = run(ring(), {"N": n}, {"a": a})["out"]
        np.testing.assert_array_equal(out, a * 2 + 1)


def test_a_million_elements() -> None:
    a = RNG.standard_normal(4096 * 256).astype(np.float32)
    out = run(ring(), {"N": 4096}, {"a": a})["out"]
    np.testing.assert_array_equal(out, a * 2 + 1)


def test_inputs_are_not_changed_and_bf16_rounds_once() -> None:
    k = kernel(
        """tensor a : bf16[64] in
        tensor b : bf16[1] in
        tensor out : bf16[64] out
        ld.global x, a[tid]
        ld.global y, b[0]
        compute z = x * y + exp(x) / 3
        st.global out[tid], z"""
    )
    a = RNG.standard_normal(64).astype(ml_dtypes.bfloat16)
    b = np.array([1.5], dtype=ml_dtypes.bfloat16)
    before = a.copy()
    out = run(k, None, {"a": a, "b": b})["out"]
    wide = a.astype(np.float32)
    np.testing.assert_array_equal(out, (wide * np.float32(1.5) + np.exp(wide) / 3).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(a, before)


FUNCTIONS = {
    "exp(x)": np.exp,
    "exp2(x)": np.exp2,
    "log(abs(x))": lambda x: np.log(np.abs(x)),
    "log2(abs(x))": lambda x: np.log2(np.abs(x)),
    "sin(x)": np.sin,
    "cos(x)": np.cos,
    "tanh(x)": np.tanh,
    "sqrt(abs(x))": lambda x: np.sqrt(np.abs(x)),
    "rsqrt(abs(x))": lambda x: 1 / np.sqrt(np.abs(x)),
    "neg(x)": np.negative,
    "relu(x)": lambda x: np.maximum(x, 0),
    "sigmoid(x)": lambda x: 1 / (1 + np.exp(-x)),
    "min(x, 0.5)": lambda x: np.minimum(x, np.float32(0.5)),
    "max(x, 0)": lambda x: np.maximum(x, 0),
    "pow(abs(x), 2.0)": lambda x: np.abs(x) ** 2,
    "floor(x)": np.floor,
    "ceil(x)": np.ceil,
    "select(x > 0, x, 1)": lambda x: np.where(x > 0, x, np.float32(1)),
    "fma(x, 2.0, 1.0)": lambda x: x * 2 + 1,
    "erf(x)": lambda x: np.array([math.erf(v) for v in x], np.float32),
    "cast.i32(x)": np.trunc,
    "cast.f32(x)": lambda x: x,
    "cast.f16(x)": lambda x: x.astype(np.float16).astype(np.float32),
    "cast.bf16(x)": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_value_functions(text: str) -> None:
    k = kernel(
        f"""tensor a : f32[64] in
        tensor out : f32[64] out
        ld.global x, a[tid]
        compute y = {text}
        st.global out[tid], y"""
    )
    a = (RNG.standard_normal(64) * 2).astype(np.float32)
    out = run(k, None, {"a": a})["out"]
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, FUNCTIONS[text](a), rtol=2e-6, atol=1e-7)


def test_threads_exchange_values_through_shared_memory() -> None:
    k = kernel(
        """tensor out : i32[64] out
        shared x : i32[64]
        st.shared x[][tid : 1], tid * 3
        bar.sync 0
        ld.shared v, x[][63 - tid : 1]
        st.global out[tid], v"""
    )
    np.testing.assert_array_equal(run(k, None, {})["out"], np.arange(64)[::-1] * 3)


def test_rows_with_a_pitch() -> None:
    k = kernel(
        """tensor out : f32[64] out
        shared x : f32[8, 8]
        if tid == 0 {
          for i in 0..64 {
            st.shared x[][i : 1], i * 1.0
          }
        }
        bar.sync 0
        if tid < 8 {
          ld.shared v, x[][tid : 1 rows 8 pitch 8]
          st.global out[tid * 8 : 8], v
        }"""
    )
    np.testing.assert_array_equal(run(k, None, {})["out"].reshape(8, 8), np.arange(64.0).reshape(8, 8).T)


TMA = """tensor a : f32[R, C] in
  tensor out : f32[R, C] inout
  param R : i32 = 10
  param C : i32 = 12
  tensormap A of a box [8, 8]
  tensormap O of out box [8, 8]
  shared x : f32[8, 8]
  mbarrier b
  if tid == 0 {{
    mbarrier.init b, 1
    fence.mbarrier_init
    let p = 0
    for i in 0..cdiv(R, 8) {{
      for j in 0..cdiv(C, 8) {{
        mbarrier.arrive.expect_tx b, 256
        tma.load x, A[i * 8, j * 8], b
        mbarrier.wait b, p
        p = 1 - p
        tma.{} O[i * 8, j * 8], x
        bulk.commit
        bulk.wait.read 0
      }}
    }}
    bulk.wait 0
  }}"""


def test_tensor_copies_clip_at_the_edges() -> None:
    a = RNG.standard_normal((10, 12)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel(TMA.format("store")), None, {"a": a})["out"], a)
    out = run(kernel(TMA.format("reduce.add")), None, {"a": a, "out": a})["out"]
    np.testing.assert_array_equal(out, a + a)


def test_out_of_bounds_boxes_load_zeros() -> None:
    k = kernel(
        """tensor a : f32[4, 4] in
        tensor out : f32[64] out
        tensormap A of a box [8, 8]
        shared x : f32[8, 8]
        mbarrier b
        if tid == 0 {
          mbarrier.init b, 1
          mbarrier.arrive.expect_tx b, 256
          tma.load x, A[-2, 1], b
          mbarrier.wait b, 0
          ld.shared v, x
          st.global out[0 : 64], v
        }"""
    )
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    want = np.zeros((8, 8), np.float32)
    want[2:6, :3] = a[:, 1:]
    np.testing.assert_array_equal(run(k, None, {"a": a})["out"].reshape(8, 8), want)


def test_matrix_product() -> None:
    k = kernel(
        """tensor a : bf16[64 * K] in
        tensor b : bf16[K * 32] in
        tensor c : f32[64 * 32] out
        param K : i32 = 48
        shared sa : bf16[2, 64, 16]
        shared sb : bf16[2, 16, 32]
        fragment acc : f32[64, 32]
        for k in 0..(K // 16) {
          for r in 0..8 {
            ld.global x, a[((warp * 16 + r * 2 + (lane // 16)) * K) + k * 16 + lane % 16]
            st.shared sa[k % 2][(warp * 16 + r * 2 + (lane // 16)) * 16 + lane % 16 : 1], x
          }
          for r in 0..4 {
            ld.global y, b[(k * 16 + r * 4 + warp) * 32 + lane]
            st.shared sb[k % 2][(r * 4 + warp) * 32 + lane : 1], y
          }
          fence.proxy.async.shared_cta
          bar.sync 0
          elect p
          wgmma.fence
          wgmma.mma acc, sa[k % 2], sb[k % 2], scale_d k > 0
          wgmma.commit
          wgmma.wait 0
        }
        for j in 0..8 {
          frag.read v, acc, start j * 2, count 2
          st.global c[(warp * 16 + lane // 4 + j % 2 * 8) * 32 + (j // 2) * 8 + lane % 4 * 2 : 2], v
        }""",
        "launch grid [1] block [128]",
    )
    a = RNG.standard_normal((64, 48)).astype(ml_dtypes.bfloat16)
    b = RNG.standard_normal((48, 32)).astype(ml_dtypes.bfloat16)
    c = run(k, None, {"a": a, "b": b})["c"].reshape(64, 32)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-5)


def test_multicast_and_remote_copies() -> None:
    k = kernel(
        """tensor a : f32[8] in
        tensor out : f32[32] out
        shared x : f32[8]
        shared y : f32[8]
        mbarrier b
        if tid == 0 {
          mbarrier.init b, 1
          fence.mbarrier_init
        }
        cluster.arrive.relaxed
        cluster.wait
        if tid == 0 {
          mbarrier.arrive.expect_tx b, 32
          if rank == 0 {
            bulk.load x, a[0 : 8], b, multicast 3
          }
          mbarrier.wait b, 0
          mbarrier.arrive.expect_tx b, 32
          bulk.copy y @ 1 - rank, x, b @ 1 - rank
          mbarrier.wait b, 1
          ld.shared v, y
          compute w = v + rank
          st.global out[block * 8 : 8], w
        }
        cluster.arrive
        cluster.wait""",
        "launch grid [4] block [32] cluster [2]",
    )
    a = RNG.standard_normal(8).astype(np.float32)
    out = run(k, None, {"a": a})["out"].reshape(4, 8)
    np.testing.assert_array_equal(out, np.stack([a, a + 1, a, a + 1]))


def test_blocks_that_wait_for_each_other() -> None:
    k = kernel(
        """tensor sum : f32[1] inout
        tensor ticket : i32[1] inout
        if tid == 0 {
          spin.global.acquire.gpu ticket[0] >= grid - 1 - block
          ld.global v, sum[0]
          compute w = v * 2 + block
          st.global sum[0], w
          atom.global.add.release.gpu ticket[0], 1
        }""",
        "launch grid [3] block [32]",
    )
    assert run(k, None, {})["sum"][0] == ((2 * 2 + 1) * 2 + 0)


def test_atomics_and_loaded_control() -> None:
    k = kernel(
        """tensor n : i32[1] in
        tensor out : i32[2] out
        shared total : i32[1]
        let c = load n[0]
        if tid == 0 {
          st.shared total, 0
        }
        bar.sync 0
        for i in 0..c {
          atom.shared.add total, tid
        }
        bar.sync 0
        if tid == 0 {
          ld.shared v, total
          st.global out[0], v
          atom.global.max out[1], 7
        }"""
    )
    out = run(k, None, {"n": np.array([3], np.int32)})["out"]
    assert list(out) == [3 * sum(range(64)), 7]


def test_only_some_blocks() -> None:
    k = kernel(
        "tensor out : f32[4] out\nif tid == 0 {\nst.global out[block], 1.0\n}", "launch grid [4] block [32]"
    )
    assert list(run(k, None, {}, blocks=[1, 3])["out"]) == [0, 1, 0, 1]


def test_a_hang_is_an_error_that_says_where() -> None:
    with pytest.raises(HangError, match=r"waits on full\[0\].*misses 0 arrivals and 1024 bytes"):
        run(ring(drop="bulk.load"), None, {"a": np.zeros(6 * 256, np.float32)})


def test_wrong_arrays() -> None:
    a = np.zeros(6 * 256, np.float32)
    with pytest.raises(InputError, match="input a is missing"):
        run(ring(), None, {})
    with pytest.raises(InputError, match="no tensor 'q'"):
        run(ring(), None, {"a": a, "q": a})
    with pytest.raises(InputError, match="1536"):
        run(ring(), None, {"a": a[:10]})
    with pytest.raises(InputError, match="float64"):
        run(ring(), None, {"a": a.astype(np.float64)})
    with pytest.raises(InputError, match="leave out"):
        run(kernel("tensor out : f32[4] out\nst.global out[tid], 1.0"), None, {})
