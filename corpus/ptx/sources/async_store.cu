#include "ptx.cuh"
// The warps of CTA 1 push partial sums into CTA 0, whose barrier counts their bytes.
// BAD: the push names the barrier of CTA 1, beside which the data does not lie.
extern "C" __global__ void async_store(const float* in, float* out) {
  __shared__ float part[4];
  __shared__ uint64_t full;
  uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    fence_barrier_init();
    if (rank == 0) arrive_expect(&full, 16);
  }
  cluster_arrive_relaxed();
  cluster_wait();
  float x = in[threadIdx.x];
  if (rank == 1) {
    if (threadIdx.x % 32 == 0) {
#ifdef BAD
      uint32_t owner = 1;
#else
      uint32_t owner = 0;
#endif
      asm volatile("{.reg .b32 a, b; mapa.shared::cluster.u32 a, %0, 0; mapa.shared::cluster.u32 b, %1, %3;"
                   "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [a], %2, [b];}"
                   ::"r"(shared_address(&part[threadIdx.x / 32])), "r"(shared_address(&full)), "f"(x), "r"(owner)
                   : "memory");
    }
  } else {
    wait_cluster(&full, 0);
    out[threadIdx.x] = x + part[threadIdx.x / 32];
  }
  cluster_arrive();
  cluster_wait();
}
