"""Warp shuffles, reductions of a register and strided global accesses: text, numbers, verdicts, CUDA."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cuda import emit
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.simulate import ir

HEAD = "kernel k {\n  launch grid [1] block [64]\n  tensor a : f32[512] in\n  tensor out : f32[512] out\n"


def kernel(*lines: str) -> Kernel:
    (k,) = parse(HEAD + "\n".join(lines) + "\n}\n", "k.syncir")
    assert parse(print_kernel(k), "again") == (k,)
    return k


def run(k: Kernel) -> np.ndarray:
    a = np.arange(512, dtype=np.float32)
    return np.asarray(ir.run(k, {}, {"a": a})["out"])


def test_a_butterfly_exchanges_lanes() -> None:
    k = kernel("ld.global x, a[tid]", "shfl.bfly y, x, 5", "st.global out[tid], y")
    np.testing.assert_array_equal(run(k)[:64], np.arange(64) ^ 5)


def test_a_broadcast_takes_one_lane_of_each_warp() -> None:
    k = kernel("ld.global x, a[tid]", "shfl.idx y, x, 3", "st.global out[tid], y")
    np.testing.assert_array_equal(run(k)[:64], np.repeat([3, 35], 32))


def test_strided_accesses_and_reductions_of_a_register() -> None:
    k = kernel(
        "ld.global x, a[tid * 2 : 2 rows 3 pitch 128]",
        "compute s = reduce.add(x) + reduce.max(x) - reduce.min(x)",
        "compute p = x * 0.0 + iota(2, 3, 128) + s",
        "st.global out[tid * 2 : 2 rows 3 pitch 128], p",
    )
    a = np.arange(384).reshape(3, 64, 2)
    places = np.arange(3)[:, None] * 128 + np.arange(2)
    want = a.sum((0, 2)) + a.max((0, 2)) - a.min((0, 2))
    np.testing.assert_array_equal(run(k)[:384].reshape(3, 64, 2), want[None, :, None] + places[:, None, :])


def test_lanes_that_shuffle_apart_are_refuted() -> None:
    k = kernel("ld.global x, a[tid]", "if lane < 16 {", "shfl.bfly y, x, 1", "st.global out[tid], y", "}")
    report = check_kernel(k, {})
    assert report.verdict is Verdict.REFUTED
    with pytest.raises(InputError, match="some lanes of a warp"):
        run(k)


def test_a_shuffle_orders_no_memory() -> None:
    lines = (
        "shared s : f32[2]",
        "if tid == 0 {", "st.shared s[][0 : 1], 1.0", "}",
        "ld.global x, a[tid]",
        "shfl.bfly y, x, 16",
        "if tid == 1 {", "ld.shared z, s[][0 : 1]", "st.global out[0], z + y", "}",
    )  # fmt: skip
    assert check_kernel(kernel(*lines), {}).verdict is Verdict.REFUTED
    ordered = kernel(*lines[:6], "warp.sync", *lines[6:])
    assert check_kernel(ordered, {}).verdict is Verdict.PROVED


def test_a_shuffle_holds_nothing_before_a_release() -> None:
    """ptxas moves shuffles behind an arrive, as it does sums; a fence stays where it is (K1)."""
    text = """
kernel k {
  param N : i32 = 4
  launch grid [1] block [64]
  tensor a : f32[N * 32] in
  tensor out : f32[N * 32] out
  shared s : f32[32]
  mbarrier full[1]
  mbarrier empty[1]
  if tid == 0 {
    mbarrier.init full[0], 1
    mbarrier.init empty[0], 1
  }
  bar.sync 0
  role compute warps 0..1 {
    for i in 0..N {
      mbarrier.wait full[0], i % 2
      ld.shared x, s[][lane : 1]
      USE
      warp.sync
      if lane == 0 {
        mbarrier.arrive empty[0]
      }
      st.global out[i * 32 + lane], y
    }
  }
  role load warps 1..2 {
    if lane == 0 {
      for i in 0..N {
        mbarrier.wait empty[0], (i + 1) % 2
        mbarrier.arrive.expect_tx full[0], 128
        bulk.load s[][0 : 32], a[i * 32 : 32], full[0]
      }
    }
  }
}
"""
    shuffle = "shfl.bfly y, x, 1"
    for use, verdict in (
        (shuffle, Verdict.REFUTED),
        ("compute y = x", Verdict.REFUTED),
        (f"{shuffle}\n fence.proxy.async.shared_cta", Verdict.PROVED),
    ):
        (k,) = parse(text.replace("USE", use), "k")
        assert check_kernel(k, {}, Policy.PRACTICAL).verdict is verdict


def test_lanes_and_rows_are_checked_on_input() -> None:
    with pytest.raises(InputError, match="lane of a shuffle"):
        check_kernel(kernel("compute x = 1.0", "shfl.bfly y, x, 32"), {})
    with pytest.raises(InputError, match="plain loads and stores"):
        check_kernel(kernel("atom.global.add out[0 : 1 rows 2 pitch 4], 1.0"), {})


def test_their_cuda() -> None:
    k = kernel(
        "ld.global x, a[tid * 4 : 4 rows 2 pitch 256]",
        "compute s = reduce.max(x)",
        "shfl.bfly t, s, 16",
        "st.global out[tid * 4 : 4 rows 2 pitch 256], x * t",
    )
    code = emit(k)
    assert "load_rows<2, 256>(x, &a[tid * 4]);" in code
    assert "s[0] = reduce_max<8>([&](int k) { return x[k]; });" in code
    assert "t[0] = __shfl_xor_sync(0xffffffff, s[0], 16);" in code
