// Two warps store one value to a word at the same time; a third stores another later.
// BAD: the third has met one of the two only.
extern "C" __global__ void one_value_of_two_warps(unsigned* out) {
  __shared__ unsigned word;
  unsigned warp = threadIdx.x / 32;
  if (warp < 2) {
    word = 7;
#ifdef BAD
    if (warp == 1) asm volatile("bar.sync 1, 64;" ::: "memory");
#else
    asm volatile("bar.sync 1, 96;" ::: "memory");
#endif
  } else {
#ifdef BAD
    asm volatile("bar.sync 1, 64;" ::: "memory");
#else
    asm volatile("bar.sync 1, 96;" ::: "memory");
#endif
    if (threadIdx.x == 64) word = 5;
  }
  __syncthreads();
  out[threadIdx.x] = word;
}
