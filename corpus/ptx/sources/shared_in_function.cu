// A function that is not inlined is all that names the block's array, and nvcc declares the array inside it.
// Both calls mean the same array.
// BAD: the second call stores before all have read what the first one stored.
__device__ __noinline__ float rotated(float* row, int at, float value) {
  row[at] = value;
  __syncthreads();
  float next = row[(at + 1) % 128];
#ifndef BAD
  __syncthreads();
#endif
  return next;
}
extern "C" __global__ void shared_in_function(const float* in, float* out) {
  __shared__ float row[128];
  int t = threadIdx.x;
  float once = rotated(row, t, in[t]);
  out[t] = rotated(row, t, once * 2);
}
