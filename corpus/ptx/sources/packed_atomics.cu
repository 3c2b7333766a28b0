// Two warps add to one word by packed atomics, which are atomic element by element.
// BAD: one of them adds to the word as a whole.
extern "C" __global__ void packed_atomics(unsigned* out) {
  __shared__ unsigned word;
  if (threadIdx.x == 0) word = 0;
  __syncthreads();
  unsigned at = (unsigned)__cvta_generic_to_shared(&word), one = 0x3c003c00;
#ifdef BAD
  if (threadIdx.x < 32) asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(at), "r"(one) : "memory");
  else
#endif
    asm volatile("red.shared.add.noftz.f16x2 [%0], %1;" ::"r"(at), "r"(one) : "memory");
  __syncthreads();
  out[threadIdx.x] = word;
}
