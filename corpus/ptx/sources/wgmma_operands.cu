#include "ptx.cuh"
// One product by a warpgroup, of tiles that all four warps name alike.
// BAD: two of the warps name another slice of B.
extern "C" __global__ void wgmma_operands(const uint4* in, float* out) {
  __shared__ alignas(1024) uint8_t a[8192];
  __shared__ alignas(1024) uint8_t b[1024];
  for (int i = 0; i < 4; i++) ((uint4*)a)[threadIdx.x + 128 * i] = in[threadIdx.x + 128 * i];
  if (threadIdx.x < 64) ((uint4*)b)[threadIdx.x] = in[512 + threadIdx.x];
  fence_async_shared();
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
#ifdef BAD
  int slice = threadIdx.x / 64;
#else
  int slice = __shfl_sync(~0u, threadIdx.x / 128, 0);
#endif
  wgmma_fence();
  wgmma(d, descriptor(a), descriptor(b) + 2 * slice);
  wgmma_commit();
  wgmma_wait<0>();
  for (int j = 0; j < 4; j++) out[threadIdx.x * 4 + j] = d[j];
}
