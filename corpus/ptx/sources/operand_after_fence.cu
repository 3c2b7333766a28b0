#include "ptx.cuh"
// A wgmma takes A from registers.
// BAD: they are written after the fence.
extern "C" __global__ void operand_after_fence(const uint4* in, float* out, uint32_t mask) {
  __shared__ alignas(1024) uint8_t b[1024];
  if (threadIdx.x < 64) ((uint4*)b)[threadIdx.x] = in[512 + threadIdx.x];
  fence_async_shared();
  __syncthreads();
  uint4 x = in[threadIdx.x];
  uint32_t a[4] = {x.x, x.y, x.z, x.w};
  float d[4] = {0, 0, 0, 0};
#ifdef BAD
  wgmma_fence();
#endif
  for (int j = 0; j < 4; j++)  // volatile: stays where it is
    asm volatile("and.b32 %0, %0, %1;" : "+r"(a[j]) : "r"(mask));
#ifndef BAD
  wgmma_fence();
#endif
  wgmma(d, a, descriptor(b));
  wgmma_commit();
  wgmma_wait<0>();
  for (int j = 0; j < 4; j++) out[threadIdx.x * 4 + j] = d[j];
}
