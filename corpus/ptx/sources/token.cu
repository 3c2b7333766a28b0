#include "ptx.cuh"
// One-shot load, waited for by the token of each thread's own arrival.
// BAD: every thread of the block arrives, the barrier counts warps.
extern "C" __global__ void token(const float* in, float* out) {
  __shared__ alignas(128) float row[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
#ifdef BAD
    barrier_init(&full, 4);
#else
    barrier_init(&full, 128);
#endif
    fence_barrier_init();
  }
  __syncthreads();
  uint64_t state;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], 512;"
                 : "=l"(state) : "r"(shared_address(&full)) : "memory");
    bulk_load(row, in, 512, &full);
  } else {
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&full)) : "memory");
  }
  asm volatile("{.reg .pred p; again: mbarrier.try_wait.shared::cta.b64 p, [%0], %1; @!p bra again;}"
               ::"r"(shared_address(&full)), "l"(state) : "memory");
  out[threadIdx.x] = row[127 - threadIdx.x];
}
