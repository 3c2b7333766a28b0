#include "ptx.cuh"
// Two warps write a row each, two others read it: one hand-over by named barrier per pair of warps.
// BAD: the readers count themselves only.
extern "C" __global__ void named_barriers(const float* in, float* out) {
  __shared__ float row[2][32];
  uint32_t warp = threadIdx.x / 32, pair = warp % 2, lane = threadIdx.x % 32;
  if (warp < 2) {
    row[pair][lane] = in[threadIdx.x];
    asm volatile("bar.arrive %0, 64;" ::"r"(pair + 1) : "memory");
  } else {
#ifdef BAD
    asm volatile("bar.sync %0, 32;" ::"r"(pair + 1) : "memory");
#else
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
#endif
    out[threadIdx.x] = row[pair][31 - lane];
  }
}
