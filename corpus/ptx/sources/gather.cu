// Every thread stores a word and loads one that data names.
// BAD: no barrier between the two.
extern "C" __global__ void gather(const int* place, float* x) {
  __shared__ float words[256];
  words[threadIdx.x] = x[threadIdx.x];
#ifndef BAD
  __syncthreads();
#endif
  x[threadIdx.x] = words[place[threadIdx.x] & 255];
}
