#include "ptx.cuh"
// Two stages of a K-major operand with 128-byte swizzle, each waited for before it is multiplied.
// BAD: the stride of the descriptor skips every other atom, so half of what is read is the other stage,
// which may not have come yet.
extern "C" __global__ void descriptor_stride(const uint8_t* in, float* out) {
  __shared__ alignas(1024) uint8_t a[2][8192];
  __shared__ alignas(1024) uint8_t b[2048];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    barrier_init(&full[0], 1);
    barrier_init(&full[1], 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_expect(&full[0], 9216);
    bulk_load(a[0], in, 8192, &full[0]);
    bulk_load(b, in + 16384, 1024, &full[0]);
    arrive_expect(&full[1], 8192);
    bulk_load(a[1], in + 8192, 8192, &full[1]);
  }
  float d[4] = {0, 0, 0, 0};
  for (int s = 0; s < 2; s++) {
    wait(&full[s], 0);
#ifdef BAD
    uint64_t left = descriptor(a[s], s ? 1024 : 2048);
#else
    uint64_t left = descriptor(a[s]);
#endif
    uint64_t right = descriptor(b);
    wgmma_fence();
    for (int k = 0; k < 4; k++) wgmma(d, left + 2 * k, right + 2 * k);
    wgmma_commit();
    wgmma_wait<0>();
  }
  for (int j = 0; j < 4; j++) out[threadIdx.x * 4 + j] = d[j];
}
