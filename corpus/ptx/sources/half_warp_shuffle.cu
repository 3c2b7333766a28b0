#include "ptx.cuh"
// Half of each warp exchanges values, then the block meets.
// BAD: the mask names the lanes that have gone to the barrier.
#ifdef BAD
#define MASK 0xffffffffu
#else
#define MASK 0xffffu
#endif
extern "C" __global__ void half_warp_shuffle(const float* in, float* out) {
  __shared__ float row[128];
  float x = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) x += __shfl_xor_sync(MASK, x, 8);
  row[threadIdx.x] = x;
  __syncthreads();
  out[threadIdx.x] = row[127 - threadIdx.x];
}
