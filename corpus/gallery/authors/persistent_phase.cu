#include "common.cuh"
constexpr int STAGES = 2, TILE = 1024;
extern "C" __global__ void __launch_bounds__(160) persistent(const float* a, float* out, int tiles, int k_tiles) {
  __shared__ alignas(128) float buf[STAGES][TILE];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; ++i) { mbar_init(&full[i], 1); mbar_init(&empty[i], 128); }
  __syncthreads();
  if (threadIdx.x / 32 == 4) {
    if (threadIdx.x == 128) {
      int stage = 0, phase = 1;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x)
        for (int k = 0; k < k_tiles; ++k) {
          mbar_wait(&empty[stage], phase);
          mbar_expect_tx(&full[stage], TILE * 4);
          bulk_load(buf[stage], a + (t * k_tiles + k) * TILE, TILE * 4, &full[stage]);
          if (++stage == STAGES) { stage = 0; phase ^= 1; }
        }
    }
  } else {
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      int stage = 0, phase = 0;
      float acc = 0;
      for (int k = 0; k < k_tiles; ++k) {
        mbar_wait(&full[stage], phase);
        for (int i = threadIdx.x; i < TILE; i += 128) acc += buf[stage][i];
        fence_async();
        mbar_arrive(&empty[stage]);
        if (++stage == STAGES) { stage = 0; phase ^= 1; }
      }
      out[t * 128 + threadIdx.x] = acc;
    }
  }
}
