#include "ptx.cuh"
// The sum of a warp by shuffles, handed over by one word for each warp.
// BAD: every lane stores what it holds, and only lane 0 holds the sum.
extern "C" __global__ void lanes_store_one_word(const float* in, float* out) {
  __shared__ float sums[4];
  float x = in[threadIdx.x];
  for (int step = 16; step; step /= 2) x += __shfl_down_sync(~0u, x, step);
#ifndef BAD
  if (threadIdx.x % 32 == 0)
#endif
    sums[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}
