#include "ptx.cuh"
// Two products in flight; the first is scaled while the second runs.
// BAD: the wait leaves both pending.
extern "C" __global__ void accumulator_in_flight(const uint4* in, float* out, float scale) {
  __shared__ alignas(1024) uint8_t a[8192];
  __shared__ alignas(1024) uint8_t b[1024];
  for (int i = 0; i < 4; i++) ((uint4*)a)[threadIdx.x + 128 * i] = in[threadIdx.x + 128 * i];
  if (threadIdx.x < 64) ((uint4*)b)[threadIdx.x] = in[512 + threadIdx.x];
  fence_async_shared();
  __syncthreads();
  float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
  wgmma_fence();
  wgmma(d, descriptor(a), descriptor(b));
  wgmma_commit();
  wgmma(e, descriptor(a) + 2, descriptor(b) + 2);
  wgmma_commit();
#ifdef BAD
  wgmma_wait<2>();
#else
  wgmma_wait<1>();
#endif
  for (int j = 0; j < 4; j++)  // volatile: stays where it is
    asm volatile("mul.f32 %0, %0, %1;" : "+f"(d[j]) : "f"(scale));
  wgmma_wait<0>();
  for (int j = 0; j < 4; j++) out[threadIdx.x * 4 + j] = d[j] + e[j];
}
