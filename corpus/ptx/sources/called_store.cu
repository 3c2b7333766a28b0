// Functions that are not inlined store to and load from a row that their caller names.
// BAD: no barrier between the calls.
__device__ __noinline__ void put(float* row, int at, float value) { row[at] = value; }
__device__ __noinline__ float take(float* row, int at) { return row[at]; }
extern "C" __global__ void called_store(const float* in, float* out) {
  __shared__ float row[128];
  int t = threadIdx.x;
  put(row, t, in[t]);
#ifndef BAD
  __syncthreads();
#endif
  out[t] = take(row, 127 - t);
}
