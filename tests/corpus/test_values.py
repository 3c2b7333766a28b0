"""What the good kernels compute, in the simulator on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.ir.text.parser import parse_file
from syncverify.simulate import ir
from tests.corpus.arrays import Array, arrays, defaults
from tests.corpus.entries import CORPUS, entries

#: The simulator does not run a kernel on arrays that edits its tensor maps.
EDITS_MAPS = ("D11_", "E47_", "E48_")

PROVED = [
    e for e in entries()
    if e.expected[Policy.PRACTICAL].verdict == Verdict.PROVED and not e.stem.startswith(EDITS_MAPS)
]  # fmt: skip


def _run(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    (kernel,) = parse_file(CORPUS / name)
    values = defaults(kernel)
    given = arrays(kernel, values)
    return given, ir.run(kernel, values, given)


@pytest.mark.parametrize("name", [e.name for e in PROVED])
def test_proved_kernel_ends_and_writes_all_of_its_output(name: str) -> None:
    (kernel,) = parse_file(CORPUS / name)
    _, results = _run(name)
    for tensor in kernel.tensors:
        if tensor.mode == "out":
            assert not np.isnan(results[tensor.name].astype(np.float32)).any()


def _as_stored(c: Array) -> Array:
    """Tiles of 64 x 64 as these kernels store them: each thread its share of the fragment, 32 words in a row.

    Lane 4 * r + q of warp w holds words 8 * j + 2 * q and the next of rows 16 * w + r and 8 further, for
    every j (PTX ISA, wgmma: register fragment D of m64nNk16).
    """
    split = c.reshape(-1, 4, 2, 8, 8, 4, 2)  # tile, warp, half, r, j, q, word
    return np.asarray(split.transpose(0, 1, 3, 5, 4, 2, 6).reshape(c.shape))


def _gemm(x: Mapping[str, Array]) -> Array:
    return np.asarray(x["a"].astype(np.float32) @ x["b"].astype(np.float32))


def _chained(x: Mapping[str, Array]) -> Array:
    weights = (x["q"].astype(np.float32) * 0.0625).reshape(-1, 64)
    return np.asarray(x["a"].astype(np.float32) @ weights)


def _attention(x: Mapping[str, Array]) -> Array:
    q, k, v = (x[n].astype(np.float32) for n in "qkv")
    return np.asarray(np.exp(q @ k * 0.125) @ v)


def _norm(x: Mapping[str, Array]) -> Array:
    return np.asarray(np.sqrt((x["a"].reshape(-1, 256) ** 2).sum(0)))


def _relu(x: Mapping[str, Array]) -> Array:
    return np.asarray(np.maximum(_gemm(x), 0.0))


Row = tuple[str, str, Callable[[Mapping[str, Array]], Array], float]

#: Kernel, its output, what that should be, relative tolerance (bf16 results and operands are coarse).
REFERENCES: list[Row] = [
    ("rulebook/E01_missing_proxy_fence.good.syncir", "out", lambda x: x["a"] * 2, 1e-6),
    ("rulebook/E09_wait_on_wrong_barrier.good.syncir", "out", lambda x: x["a"] * x["b"], 1e-6),
    ("rulebook/E18_copy_predicated_off.good.syncir", "out", lambda x: x["a"] * 2, 1e-6),
    ("rulebook/E32_release_before_mma_wait.good.syncir", "c", lambda x: _as_stored(_gemm(x)), 1e-5),
    ("idioms/D02_tma_ring.syncir", "out", lambda x: np.tanh(x["a"]), 1e-5),
    ("idioms/D04_gemm_two_consumer_warpgroups.syncir", "c", lambda x: _as_stored(_gemm(x)), 1e-5),
    ("idioms/D06_multicast_cluster_release.syncir", "c", lambda x: _as_stored(_gemm(x)), 1e-5),
    ("idioms/D07_pingpong.syncir", "c", lambda x: _as_stored(_gemm(x)), 1e-5),
    ("idioms/D10_split_k_semaphore.syncir", "out", _norm, 1e-5),
    ("large/persistent_gemm_staging.good.syncir", "d", lambda x: _as_stored(_relu(x)), 1e-2),
    ("large/attention_v_released_early.good.syncir", "o", lambda x: _as_stored(_attention(x)), 1e-2),
    ("large/chained_roles_count.good.syncir", "c", lambda x: _as_stored(_chained(x)), 1e-5),
    ("two_async_warps/v6_mended.syncir", "out", lambda x: x["a"] * x["b"], 1e-6),
    ("two_async_warps/v6_ragged_guarded.syncir", "out", lambda x: x["a"] * x["b"], 1e-6),
]  # fmt: skip


@pytest.mark.parametrize("row", REFERENCES, ids=lambda row: row[0])
def test_result_equals_the_reference(row: Row) -> None:
    name, output, reference, tolerance = row
    given, results = _run(name)
    np.testing.assert_allclose(results[output].astype(np.float32), reference(given), rtol=tolerance)
