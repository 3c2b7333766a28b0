#include "ptx.cuh"
// One warp fills a ring of two stages with bulk copies, four warps add the rows up.
// BAD: the consumers' parity follows the stage, not the lap.
extern "C" __global__ void bulk_ring(const float* in, float* out, int n) {
  __shared__ alignas(128) float tile[2][256];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], 128);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (elect()) {
      for (int i = 0; i < n; i++) {
        wait(&empty[i % 2], (i / 2 + 1) % 2);
        arrive_expect(&full[i % 2], 1024);
        bulk_load(tile[i % 2], in + i * 256, 1024, &full[i % 2]);
      }
    }
    return;
  }
  float sum = 0;
  for (int i = 0; i < n; i++) {
#ifdef BAD
    wait(&full[i % 2], i % 2);
#else
    wait(&full[i % 2], (i / 2) % 2);
#endif
    float x = tile[i % 2][threadIdx.x] * tile[i % 2][threadIdx.x + 128];
    fence_async_shared();
    arrive(&empty[i % 2]);
    sum += x;
  }
  out[threadIdx.x] = sum;
}
