#include "common.cuh"
constexpr int N = 512;
extern "C" __global__ void __launch_bounds__(128) store(const float* in, float* out, int rows) {
  __shared__ alignas(128) float stage[N];
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    if (threadIdx.x == 0) tma_wait_read<0>();
    for (int i = threadIdx.x; i < N; i += 128) stage[i] = in[r * N + i] + 1;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) { tma_store_1d(out + r * N, stage, N * 4); tma_commit(); }
  }
  if (threadIdx.x == 0) tma_wait_read<0>();
}
