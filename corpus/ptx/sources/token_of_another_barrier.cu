#include "ptx.cuh"
// Two barriers in turn: each thread arrives on both and waits for the first by the token of that arrival.
// BAD: it waits for the first barrier with the token of the second, which has the same number.
extern "C" __global__ void token_of_another_barrier(const float* in, float* out) {
  __shared__ float row[128];
  __shared__ uint64_t ready[2];
  if (threadIdx.x == 0) {
    barrier_init(&ready[0], 128);
    barrier_init(&ready[1], 128);
  }
  __syncthreads();
  row[threadIdx.x] = in[threadIdx.x];
  uint64_t first, second;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(first) : "r"(shared_address(&ready[0])) : "memory");
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(second) : "r"(shared_address(&ready[1])) : "memory");
#ifdef BAD
  uint64_t state = second;
#else
  uint64_t state = first;
#endif
  asm volatile("{.reg .pred p; again: mbarrier.try_wait.shared::cta.b64 p, [%0], %1; @!p bra again;}"
               ::"r"(shared_address(&ready[0])), "l"(state) : "memory");
  out[threadIdx.x] = row[127 - threadIdx.x];
}
