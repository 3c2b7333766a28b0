// All threads store the one value of an iteration to a word, meet, and load it.
// BAD: the next iteration's value may come before the last one was loaded.
extern "C" __global__ void value_of_the_turn(const float* __restrict__ in, float* out, int n) {
  __shared__ float word;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++) {
    word = __ldg(in + i);
    __syncthreads();
    sum += word;
#ifndef BAD
    __syncthreads();
#endif
  }
  out[threadIdx.x] = sum;
}
