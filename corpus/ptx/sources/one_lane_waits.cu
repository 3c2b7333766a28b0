#include "ptx.cuh"
// One lane of each warp waits for a copy, the warps meet at a barrier with a count, and all lanes read.
// BAD: the lane waits behind the barrier, and the other lanes read without it.
extern "C" __global__ void one_lane_waits(const float* in, float* out) {
  __shared__ alignas(16) float row[64];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_expect(&full, 256);
    bulk_load(row, in, 256, &full);
  }
#ifdef BAD
  asm volatile("bar.sync 1, 64;" ::: "memory");
#endif
  if (threadIdx.x % 32 == 0) wait(&full, 0);
#ifndef BAD
  asm volatile("bar.sync 1, 64;" ::: "memory");
#endif
  out[threadIdx.x] = row[threadIdx.x ^ 1];
}
