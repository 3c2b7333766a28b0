#include "ptx.cuh"
// One thread stores a word that others look at meanwhile, both by relaxed accesses of one size.
// BAD: the store is of twice the size of the loads.
extern "C" __global__ void relaxed_word(int* out) {
  __shared__ alignas(8) int word[2];
  if (threadIdx.x == 0) {
#ifdef BAD
    asm volatile("st.relaxed.cta.shared::cta.u64 [%0], %1;" ::"r"(shared_address(word)), "l"(7ll) : "memory");
#else
    asm volatile("st.relaxed.cta.shared::cta.u32 [%0], %1;" ::"r"(shared_address(word)), "r"(7) : "memory");
#endif
  }
  int x;
  asm volatile("ld.relaxed.cta.shared::cta.u32 %0, [%1];" : "=r"(x) : "r"(shared_address(word)) : "memory");
  out[threadIdx.x] = x;
}
