#include "ptx.cuh"
// Operands come by bulk copies into two stages; a warpgroup multiplies and gives the stages back.
// BAD: a stage is given back while the wgmma that reads it is in flight.
extern "C" __global__ void wgmma_release(const uint8_t* in, float* out, int n) {
  __shared__ alignas(1024) uint8_t a[2][8192];
  __shared__ alignas(1024) uint8_t b[2][1024];
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
        arrive_expect(&full[i % 2], 9216);
        bulk_load(a[i % 2], in + i * 9216, 8192, &full[i % 2]);
        bulk_load(b[i % 2], in + i * 9216 + 8192, 1024, &full[i % 2]);
      }
    }
    return;
  }
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; i++) {
    wait(&full[i % 2], (i / 2) % 2);
    uint64_t left = descriptor(a[i % 2]), right = descriptor(b[i % 2]);
    wgmma_fence();
    for (int k = 0; k < 4; k++) wgmma(d, left + 2 * k, right + 2 * k);
    wgmma_commit();
#ifdef BAD
    arrive(&empty[i % 2]);
    wgmma_wait<0>();
#else
    wgmma_wait<0>();
    arrive(&empty[i % 2]);
#endif
  }
  for (int j = 0; j < 4; j++) out[threadIdx.x * 4 + j] = d[j];
}
