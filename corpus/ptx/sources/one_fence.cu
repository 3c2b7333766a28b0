#include "ptx.cuh"
// 128 threads write a tile, thread 0 stores it by bulk copy; one thread alone fences.
// BAD: it is a writer, before the barrier: the other writers' stores are not bridged.
extern "C" __global__ void one_fence(const float* in, float* out) {
  __shared__ alignas(128) float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
#ifdef BAD
  if (threadIdx.x == 0) fence_async_shared();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
#ifndef BAD
    fence_async_shared();
#endif
    bulk_store(out, tile, sizeof tile);
    bulk_commit();
    bulk_wait_read();
  }
}
