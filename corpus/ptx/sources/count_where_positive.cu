// A block counts its positive inputs.
// BAD: no barrier between the clearing of the counter and the first count, which is made where data says so.
extern "C" __global__ void count_where_positive(const int* in, int* out) {
  __shared__ int counter;
  int t = threadIdx.x;
  if (t == 0) counter = 0;
#ifndef BAD
  __syncthreads();
#endif
  if (in[t] > 0) atomicAdd(&counter, 1);
  __syncthreads();
  out[t] = counter;
}
