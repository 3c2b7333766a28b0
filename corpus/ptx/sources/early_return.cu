#include "ptx.cuh"
// Two of four warps have no work and return; the others meet.
// BAD: the barrier counts the threads that have left.
#ifdef BAD
#define COUNT ", 128"
#else
#define COUNT ""
#endif
extern "C" __global__ void early_return(const float* in, float* out) {
  __shared__ float row[64];
  if (threadIdx.x >= 64) return;
  row[threadIdx.x] = in[threadIdx.x];
  asm volatile("bar.sync 1" COUNT ";" ::: "memory");
  out[threadIdx.x] = row[63 - threadIdx.x];
}
