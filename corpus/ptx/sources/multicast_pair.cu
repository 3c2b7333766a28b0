#include "ptx.cuh"
// CTA 0 of a pair loads rows for both; both CTAs' warps hand the stage back to it.
// BAD: CTA 1's warps hand it back to their own barrier, so CTA 0 waits for nothing but its own.
extern "C" __global__ void multicast_pair(const float* in, float* out, int n) {
  __shared__ alignas(128) float tile[256];
  __shared__ uint64_t full, empty;
  uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
#ifdef BAD
    barrier_init(&empty, 4);
#else
    barrier_init(&empty, 8);
#endif
    fence_barrier_init();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  float sum = 0;
  for (int i = 0; i < n; i++) {
    if (threadIdx.x == 0) {
      arrive_expect(&full, 1024);
      if (rank == 0) {
        wait_cluster(&empty, (i + 1) % 2);
        bulk_multicast(tile, in + i * 256, 1024, &full, 3);
      }
    }
    wait_cluster(&full, i % 2);
    sum += tile[threadIdx.x] * tile[threadIdx.x + 128];
    fence_async_shared();
    __syncwarp();
#ifdef BAD
    if (threadIdx.x % 32 == 0) arrive(&empty);
#else
    if (threadIdx.x % 32 == 0) arrive_remote(&empty, 0);
#endif
  }
  out[rank * 128 + threadIdx.x] = sum;
  cluster_arrive();
  cluster_wait();
}
