// All threads count, and one thread looks at the counter.
// BAD: it looks before a barrier: after its own count, but not after those of the other warp.
extern "C" __global__ void look_after_own_count(unsigned* out) {
  __shared__ unsigned counter;
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  atomicAdd(&counter, threadIdx.x);
#ifndef BAD
  __syncthreads();
#endif
  if (threadIdx.x == 8) out[0] = counter;
}
