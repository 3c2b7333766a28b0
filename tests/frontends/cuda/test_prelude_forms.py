"""The forms in which generated kernels since 2023 name block and grid barriers and what is built of them."""

from pathlib import Path

import pytest

from syncverify.cli.main import run

KERNEL = """
__global__ void forms(Tensor<float, 1, 1> T0, Tensor<float, 1, 1> T1, Tensor<int64_t, 1, 1> T2) {{
  alignas(16) extern __shared__ char array[];
  void* shared_mem = array;
  NVFUSER_DEFINE_MAGIC_ZERO
  float* T3 = reinterpret_cast<float*>(array + 1024);
  auto add = [](float& a, float b) {{ a = a + b; }};
  float T4 = T0[threadIdx.x], T5 = 0.0f;
  {body}
  T1[threadIdx.x] = T5;
  NVFUSER_UPDATE_MAGIC_ZERO
}}
"""
LAUNCH = """[kernel."*"]
grid = [{grid}, 1, 1]
block = [128, 1, 1]
dynamic_smem = 4096
[kernel."*".params]
0 = [{{ptr = "A", at = 0}}]
1 = [{{ptr = "B", at = 0}}]
2 = [{{ptr = "S", at = 0}}]
"""
ROUND = "T3[threadIdx.x] = T4; {} T5 = T3[127 - threadIdx.x];"
WORK = "static_cast<float*>(shared_mem)"


def status(folder: Path, body: str, grid: int = 1) -> int:
    (folder / "k.cu").write_text(KERNEL.format(body=body))
    (folder / "k.cu.launch.toml").write_text(LAUNCH.format(grid=grid))
    return run(["check", str(folder / "k.cu"), "--prelude", "nvfuser"])


@pytest.mark.parametrize(
    "barrier",
    [
        "block_sync::sync();",
        "block_sync::sync<true>();",
        "block_sync::sync<false>();",
        "block_sync::sync<true>(DefaultBlockDim());",
        "block_sync::init(); block_sync::sync<false>(DefaultBlockDim());",
        "block_sync::sync<true>(blockDim);",
        "__barrier_sync(0);",
    ],
)
def test_block_barriers(tmp_path: Path, barrier: str) -> None:
    assert status(tmp_path, ROUND.format(barrier)) == 0


def test_without_one_it_is_a_race(tmp_path: Path) -> None:
    assert status(tmp_path, ROUND.format("")) == 1


@pytest.mark.parametrize(
    "call",
    [
        f"blockReduce<true, false, false, true>(T5, T4, add, {WORK}, true, true, 0.0f, DefaultBlockDim());",
        f"blockReduce<true, false, false, true>(T5, T4, add, {WORK}, true, 0.0f);",
        f"blockReduce<true, false, false>(T5, T4, add, {WORK}, true, true, 0.0f);",
        f"blockReduce<true, false, false>(T5, T4, add, threadIdx, blockDim, {WORK}, true, true, 0.0f);",
        f"blockReduce<true, false, false, true>(T5, T4, add, threadIdx, blockDim, {WORK}, true, 0.0f);",
        f"warp::warpReduceTIDX<false, true>(T5, T4, add, {WORK}, true, 0.0f);",
        f"warp::warpReduceTIDX<false>(T5, T4, add, threadIdx, blockDim, {WORK}, true, true, 0.0f);",
        f"broadcast::blockBroadcast<true, false, false, true>(T5, T4, {WORK}, true);",
        f"broadcast::blockBroadcast<true, false, false>(T5, T4, {WORK}, true);",
    ],
)
def test_reductions_and_broadcasts_twice(tmp_path: Path, call: str) -> None:
    assert status(tmp_path, call * 2) == 0


@pytest.mark.parametrize(
    "call",
    [
        "grid_sync::sync<true, false, false, true>(T2[0], gridDim.x);",
        "grid_sync::sync<true, false, false, true, true>(T2[0], gridDim.x, DefaultBlockDim());",
        "grid_sync::sync<true, false, false, false, true>(T2[0], gridDim.x, blockIdx.x == 0);",
        "grid_sync::sync<true, false, false, false, true>(T2[0], gridDim.x, false, DefaultBlockDim());",
    ],
)
def test_grid_barriers_are_read(tmp_path: Path, call: str) -> None:
    assert status(tmp_path, call, grid=2) != 2
