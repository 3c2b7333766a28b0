#include "common.cuh"
constexpr int STAGES = 3, TILE = 1024;
extern "C" __global__ void __launch_bounds__(160) ring(const float* a, float* out, int n) {
  __shared__ alignas(128) float buf[STAGES][TILE];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0 && lane == 0)
    for (int i = 0; i < STAGES; ++i) { mbar_init(&full[i], 1); mbar_init(&empty[i], 4); }
  __syncthreads();
  if (warp == 0) {
    if (lane == 0) {
      PipelineState<STAGES> w(0, 1);
      for (int k = 0; k < n; ++k, ++w) {
        mbar_wait(&empty[w.index], w.phase);
        mbar_expect_tx(&full[w.index], TILE * 4);
        bulk_load(buf[w.index], a + k * TILE, TILE * 4, &full[w.index]);
      }
    }
  } else {
    PipelineState<STAGES> r(0, 0);
    float acc = 0;
    for (int k = 0; k < n; ++k, ++r) {
      mbar_wait(&full[r.index], r.phase);
      for (int i = threadIdx.x - 32; i < TILE; i += 128) acc += buf[r.index][i];
      fence_async();
      __syncwarp();
      if (threadIdx.x == 32) mbar_arrive(&empty[r.index]);
    }
    out[threadIdx.x] = acc;
  }
}
