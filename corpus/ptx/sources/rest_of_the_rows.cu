// Threads past the end of the rows leave; the others meet at a barrier, which does not wait for them.
// BAD: the barrier says how many threads it waits for.
extern "C" __global__ void rest_of_the_rows(float* x, int n) {
  __shared__ float row[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  row[threadIdx.x] = x[i];
#ifdef BAD
  asm volatile("bar.sync 1, 256;" ::: "memory");
#else
  __syncthreads();
#endif
  x[i] = row[threadIdx.x ^ 1];
}
