// A histogram in shared memory: data says which word an atomic adds to, a size how often.
// BAD: no barrier between the words' first values and the atomics.
extern "C" __global__ void histogram(const unsigned char* data, unsigned* out, int n) {
  __shared__ unsigned words[256];
  words[threadIdx.x] = 0;
#ifndef BAD
  __syncthreads();
#endif
  for (int i = threadIdx.x; i < n; i += 256) atomicAdd(&words[data[i]], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], words[threadIdx.x]);
}
