// Threads below a size store a row, and all load it after a barrier.
// BAD: the barrier stands before the store.
extern "C" __global__ void guarded_row(float* x, int n) {
  __shared__ float row[1024];
#ifdef BAD
  __syncthreads();
#endif
  if (threadIdx.x < n) row[threadIdx.x] = x[threadIdx.x];
#ifndef BAD
  __syncthreads();
#endif
  x[threadIdx.x] = row[1023 - threadIdx.x];
}
