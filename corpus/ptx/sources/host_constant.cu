#include "ptx.cuh"
// A constant that the host may set says how many stages a pipeline has.
// BAD: threads wait for what others wrote only if it says more than one: its initializer does, another launch need not.
__constant__ int stages = 2;
extern "C" __global__ __launch_bounds__(128) void host_constant(int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = threadIdx.x;
#ifdef BAD
  if (stages > 1) __syncthreads();
#else
  __syncthreads();
#endif
  out[threadIdx.x] = tile[threadIdx.x ^ 64] + stages;
}
