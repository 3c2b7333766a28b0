// One thread clears a counter, and all threads count.
// BAD: no barrier between; the count of the thread that clears stands between its store and the others' counts.
extern "C" __global__ void count_before_clear(unsigned* out) {
  __shared__ unsigned counter;
  if (threadIdx.x == 0) counter = 0;
#ifndef BAD
  __syncthreads();
#endif
  atomicAdd(&counter, threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = counter;
}
