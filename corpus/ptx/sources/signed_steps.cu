#include "ptx.cuh"
// Each warp's step through a ring of two rows is a signed byte: 1 for the first two warps, -1 for the others.
// BAD: the warps that step back clear the rows that the others read.
extern "C" __global__ void signed_steps(int* out, int back) {
  __shared__ signed char step[4];
  __shared__ int tile[64];
  if (threadIdx.x < 4) step[threadIdx.x] = threadIdx.x < 2 ? 1 : back;
  __syncthreads();
  int mine = step[threadIdx.x / 32];
  if (mine > 0) {
    tile[threadIdx.x] = mine;
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = tile[threadIdx.x ^ 32];
  } else {
#ifdef BAD
    if (mine < 0) tile[threadIdx.x - 64] = 0;
#else
    if (mine < -1) tile[threadIdx.x - 64] = 0;
#endif
  }
}
